/** What a user does. Each waits for its turn, and applies to the row that was shown when it was asked for. */
import { signal } from "@preact/signals";
import { getBlob, Gone, post, type Row } from "./api";
import { gone, hovered, isQuestion, keys, many, map, peeking, pinned, row, said, state, take, tell } from "./store";

interface Action {
  address: string;
  data: Record<string, unknown>;
  /** What is said when it is done, and what was not done if it fails. */
  done: () => string;
  what: string;
  /** Whether doing it twice is doing it once: then it is done when the server is back. */
  again: boolean;
}

/** Under way or waiting, in order. */
export const queue = signal<Action[]>([]);
let working = false;

function enqueue(action: Action): void {
  queue.value = [...queue.value, action];
  void work();
}

async function work(): Promise<void> {
  if (working) return;
  working = true;
  while (queue.value.length) {
    const action = queue.value[0];
    try {
      const next = await post(action.address, action.data);
      queue.value = queue.value.slice(1);
      take(next);
      tell(action.done());
    } catch (error) {
      const sentence = `${action.what} was not saved. ${(error as Error).message}`;
      if (error instanceof Gone && action.again) {
        tell(sentence, "wrong", () => void work());
        break; // kept, with all that come after it
      }
      queue.value = queue.value.slice(1);
      tell(sentence, "wrong", () => enqueue(action));
    }
  }
  working = false;
}

/** Go on with what waits when the server is back. */
export function resume(): void {
  gone.subscribe((away) => {
    if (!away && queue.peek().length) void work();
  });
  addEventListener("beforeunload", (event) => {
    if (queue.peek().length) event.preventDefault();
  });
}

const rows = (count: number): string => (count === 1 ? "1 row" : `${count.toLocaleString("en")} rows`);

/** What a label is for: rows chosen together, or the one in the panel. */
export interface Aim { chosen: number[] | null; shown: Row | null }
export const aim = (): Aim => ({ chosen: many.peek(), shown: row.peek() });

/** Label what the panel shows, or did when the answer was begun; null takes the label back. */
export function label(name: string | null, { chosen, shown }: Aim = aim()): void {
  const targets = chosen ?? (shown ? [shown.row] : []);
  if (!targets.length) return;
  const what = chosen ? rows(chosen.length) : shown!.id;
  const last = queue.peek().at(-1);
  if (last?.address === "label" && last.data.label === name && String(last.data.rows) === String(targets)) return;
  many.value = null;
  hovered.value = -1;
  if (!chosen && pinned.peek() === shown!.row) afterPinned(shown!.row);
  enqueue({
    address: "label",
    data: { rows: targets, label: name },
    what: name === null ? `Taking back the label of ${what}` : `${what} as ${name}`,
    done: () => `${what}: ${name ?? "no label"}. ${state.peek()!.labelled.toLocaleString("en")} labelled.`,
    again: true,
  });
}

export function labelByKey(key: string): void {
  const index = keys.peek().indexOf(key);
  const known = state.peek()?.classes[index];
  if (known) label(known.name);
  else tell(`No class has the key ${key}; n makes a new one.`, "wrong");
}

export function addClass(name: string): void {
  enqueue({
    address: "class",
    data: { name },
    what: `The class ${name}`,
    done: () => `New class: ${name}.`,
    again: true,
  });
}

/** Pass over the question; with another row in the panel, go back to the question. */
export function skip(): void {
  const shown = row.peek();
  if (!shown) return;
  if (!isQuestion.peek() || many.peek()) return back();
  hovered.value = -1;
  const last = queue.peek().at(-1);
  if (last && (last.data.row === shown.row || String(last.data.rows) === String([shown.row]))) return;
  enqueue({ address: "skip", data: { row: shown.row }, what: `Skipping ${shown.id}`, done: () => `${shown.id} skipped.`, again: true });
}

export function undo(): void {
  if (!state.peek()?.can_undo && !queue.peek().length) return tell("There is nothing to undo.", "wrong");
  const done = (): string => `Undone. ${state.peek()!.labelled.toLocaleString("en")} labelled.`;
  enqueue({ address: "undo", data: {}, what: "Undo", done, again: false });
}

export function redo(): void {
  if (!state.peek()?.can_redo && !queue.peek().length) return tell("There is nothing to redo.", "wrong");
  const done = (): string => `Done again. ${state.peek()!.labelled.toLocaleString("en")} labelled.`;
  enqueue({ address: "redo", data: {}, what: "Redo", done, again: false });
}

export function choose(strategy: string): void {
  enqueue({
    address: "strategy",
    data: { name: strategy },
    what: `The strategy ${strategy}`,
    done: () => `Questions: ${strategy}.`,
    again: true,
  });
}

/** Back to the question, from whatever was chosen. */
export function back(): void {
  many.value = null;
  hovered.value = -1;
  pinned.value = -1;
}

/** Keep one row in the panel. */
export function pin(number: number): void {
  many.value = null;
  hovered.value = -1;
  pinned.value = number;
  if (number >= 0) map.peek()?.show(number);
}

export function chooseMany(found: number[]): void {
  if (!found.length) return tell("No row lies inside.", "wrong");
  hovered.value = -1;
  pinned.value = -1;
  many.value = found;
  const words = said.peek();
  const known = words ? found.filter((i) => words.label[i] >= 0).length : 0;
  tell(`${rows(found.length)} chosen, ${known} of them labelled. A class key labels them, Escape lets them go.`);
}

/** Of the rows chosen together, keep those without a label. */
export function withoutLabel(): void {
  const words = said.peek();
  if (many.peek() && words) many.value = many.peek()!.filter((i) => words.label[i] < 0);
}

/** Show a label to look at again: the one after the row that is shown, or the first. */
export function nextDoubt(): void {
  const doubts = state.peek()?.doubtful ?? [];
  if (!doubts.length) return tell("No label disagrees with everything around it.");
  const at = doubts.findIndex((doubt) => doubt.row === pinned.peek());
  pin(doubts[(at + 1) % doubts.length].row);
}

/** After a doubt was settled, the next one; after any other row, the question. */
function afterPinned(number: number): void {
  const doubts = state.peek()?.doubtful ?? [];
  const at = doubts.findIndex((doubt) => doubt.row === number);
  pinned.value = at >= 0 ? (doubts[at + 1]?.row ?? -1) : -1;
}

export function peek(): void {
  peeking.value = !peeking.peek();
}

/** Fetch a file and hand it to the browser to keep. */
export async function save(name: string): Promise<void> {
  tell(`${name} is being made.`);
  try {
    const file = await getBlob(`export/${name}`);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    tell(`${name} is ready.`);
  } catch (error) {
    tell(`${name} could not be had. ${(error as Error).message}`, "wrong", () => void save(name));
  }
}
