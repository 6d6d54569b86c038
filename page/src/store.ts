/** What the page knows. Nothing here is shown as done before the server has said so. */
import { computed, effect, signal } from "@preact/signals";
import { Gone, getBytes, getJSON, Refused, type Found, type Row, type State } from "./api";
import type { PointMap, Said } from "./map/map";

export const state = signal<State | null>(null);
export const gone = signal(false);
/** Whether a server is there again that does not know this address: its token is another. */
export const moved = signal(false);
export const map = signal<PointMap | null>(null);
export const said = signal<Said | null>(null);
/** Rows under the cursor, chosen by click or key, and chosen together (by lasso or search). -1: none. */
export const hovered = signal(-1);
export const pinned = signal(-1);
export const many = signal<number[] | null>(null);
/** The row in the panel, with everything the server says of it. */
export const row = signal<Row | null>(null);
/** Whether the prediction of a random question has been asked for. */
export const peeking = signal(false);
/** A sentence for everyone, spoken by screen readers too. */
export const told = signal<{ text: string; kind: "done" | "wrong"; retry?: () => void; at: number } | null>(null);
export const lassoing = signal(false);
export const helping = signal(false);

export function tell(text: string, kind: "done" | "wrong" = "done", retry?: () => void): void {
  told.value = { text, kind, retry, at: performance.now() };
}

/** Which row the panel is to show. */
export const wanted = computed(() =>
  hovered.value >= 0 ? hovered.value : pinned.value >= 0 ? pinned.value : (state.value?.question?.row ?? -1),
);
export const isQuestion = computed(() => !!row.value && row.value.row === state.value?.question?.row);
/** A prediction would sway the answer, and the accuracy stands on the answers to random questions. */
export const hidden = computed(
  () => isQuestion.value && !!row.value?.predicted && state.value?.question?.how === "random" && !peeking.value,
);

/** Keys of classes: a class named by one digit has that key if it is free, the others take what is left, in order. */
export const keys = computed(() => {
  const free = [..."1234567890"];
  return (state.value?.classes ?? []).map(({ name }) => {
    const at = free.indexOf(name);
    return free.splice(Math.max(at, 0), 1)[0] ?? "";
  });
});
export const indexOf = (name: string | null): number =>
  name === null ? -1 : (state.value?.classes ?? []).findIndex((known) => known.name === name);

/** Take a state, unless a newer one is there. After a restart the server counts anew: then `anyway`. */
export function take(next: State, anyway = false): void {
  const before = state.peek();
  if (before && !anyway && next.version < before.version) return;
  if (before?.question?.row !== next.question?.row) peeking.value = false;
  state.value = next;
  void load();
}

let have = { points: NaN, said: NaN };
let loading = false;

/** Fetch positions and predictions that the state speaks of; the newest win. */
async function load(): Promise<void> {
  if (loading || !map.peek()) return;
  loading = true;
  try {
    for (;;) {
      const { points_version: points, said_version: words, n, classes } = state.peek()!;
      if (!points || (points === have.points && words === have.said)) break; // 0: there is no map yet
      const [xy, bytes] = await Promise.all([
        points === have.points ? null : getBytes(`points?v=${points}`),
        getBytes(`said?v=${words}`),
      ]);
      if (bytes.byteLength !== 5 * n || (xy && xy.byteLength !== 8 * n)) break; // of another table: a state will come
      const now = {
        predicted: new Int16Array(bytes, 0, n),
        label: new Int16Array(bytes, 2 * n, n),
        confidence: new Uint8Array(bytes, 4 * n, n),
      };
      have = { points, said: words };
      said.value = now;
      map.peek()!.update(xy && new Float32Array(xy), now, classes.map(({ name }) => name));
    }
  } catch (error) {
    if (error instanceof Refused) tell(error.message, "wrong", () => void load());
  } finally {
    loading = false;
  }
}

/** Read what the server says as it says it, and go on by itself when it is back. */
export function listen(): void {
  let first = true;
  const events = new EventSource("events");
  events.addEventListener("state", (event) => {
    const back = gone.peek();
    gone.value = false;
    moved.value = false;
    if (back) have = { points: NaN, said: NaN };
    take(JSON.parse(event.data) as State, first);
    first = false;
    if (back) tell("The server is back.");
  });
  events.onerror = () => {
    events.close();
    gone.value = true;
    setTimeout(listen, 1000);
    getJSON<State>("state").then(
      () => (moved.value = false),
      (error) => (moved.value = error instanceof Refused),
    );
  };
}

/** Keep the panel on the wanted row. It changes only when the new one is here: what is seen is what keys label. */
export function follow(): void {
  let asked = "";
  effect(() => {
    const number = wanted.value;
    const words = state.value?.said_version ?? 0;
    const count = state.value?.labelled ?? 0;
    if (number < 0) {
      asked = "";
      row.value = null;
      return;
    }
    const key = `${number} ${words} ${count}`;
    if (key === asked || gone.value) return;
    asked = key;
    getJSON<Row>(`row/${number}`).then(
      (found) => {
        if (asked === key) row.value = found;
      },
      (error) => {
        if (asked !== key) return;
        asked = "";
        if (!(error instanceof Gone)) tell(error.message, "wrong");
      },
    );
  });
  effect(() => {
    const question = state.value?.question?.row ?? -1;
    const hide = state.value?.question?.how === "random" && !peeking.value;
    map.value?.mark(question, pinned.value, hovered.value, hide);
  });
}

/** What is searched and filtered for. */
export interface Query { text: string; class: string; predicted: string; labelled: string; least: string; most: string }
export const NOTHING: Query = { text: "", class: "", predicted: "", labelled: "", least: "", most: "" };
export const query = signal<Query>(NOTHING);
export const found = signal<Found | null>(null);
export const searching = computed(() => Object.values(query.value).some(Boolean));

/** Keep the map to the rows that are searched for, also after each refit. */
export function search(): void {
  let timer = 0;
  let turn = 0;
  effect(() => {
    const asked = query.value;
    void state.value?.said_version;
    const here = map.value;
    clearTimeout(timer);
    const now = ++turn;
    if (!searching.value) {
      found.value = null;
      here?.filter(null);
      return;
    }
    timer = window.setTimeout(async () => {
      const given = Object.entries(asked).filter(([, value]) => value !== "");
      const address = new URLSearchParams(given as [string, string][]).toString();
      try {
        const [rows, mask] = await Promise.all([getJSON<Found>(`search?${address}`), getBytes(`find?${address}`)]);
        if (now !== turn) return;
        found.value = rows;
        here?.filter(new Uint8Array(mask));
      } catch (error) {
        if (now === turn && !(error instanceof Gone)) tell((error as Error).message, "wrong");
      }
    }, 150);
  });
}
