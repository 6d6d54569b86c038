/** The keyboard. Letters are keys only where nothing is typed. */
import { back, label, labelByKey, nextDoubt, peek, pin, redo, skip, undo } from "./actions";
import { helping, lassoing, map, pinned, row, state, told } from "./store";

const ARROWS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

const focus = (id: string): void => document.getElementById(id)?.focus();

function go([dx, dy]: [number, number]): void {
  const here = pinned.peek() >= 0 ? pinned.peek() : (row.peek()?.row ?? state.peek()?.question?.row ?? 0);
  const next = map.peek()?.neighbour(here, dx, dy) ?? -1;
  if (next >= 0) pin(next);
}

const KEYS: Record<string, () => void> = {
  n: () => focus("new-class"),
  s: skip,
  z: undo,
  y: redo,
  Backspace: () => label(null),
  Delete: () => label(null),
  p: peek,
  q: () => {
    back();
    map.peek()?.show(state.peek()?.question?.row ?? -1);
  },
  l: () => {
    lassoing.value = !lassoing.peek();
    focus("map");
  },
  d: nextDoubt,
  a: () => map.peek()?.all(),
  "+": () => map.peek()?.zoom(1.4),
  "=": () => map.peek()?.zoom(1.4),
  "-": () => map.peek()?.zoom(1 / 1.4),
  "/": () => focus("search"),
  f: () => document.getElementById("filter-button")?.click(),
  e: () => {
    document.querySelector<HTMLElement>(".export summary")?.click();
    document.querySelector<HTMLElement>(".export[open] .menu button")?.focus();
  },
  m: () => focus("map"),
  r: () => told.peek()?.retry?.(),
  "?": () => (helping.value = true),
};

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && !!target.closest("input, select, textarea, dialog");
}

/** Escape takes back one thing after the other. */
function escape(target: EventTarget | null): void {
  if (typing(target)) (target as HTMLElement).blur();
  else if (lassoing.peek()) lassoing.value = false;
  else back();
  const menu = document.querySelector<HTMLDetailsElement>(".export[open]");
  if (menu) menu.open = false;
}

export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    if (helping.peek() || event.isComposing || event.altKey) return;
    if (event.key === "Escape") return escape(event.target);
    if (typing(event.target)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    let does: (() => void) | undefined;
    if (event.ctrlKey || event.metaKey) {
      does = key === "z" ? (event.shiftKey ? redo : undo) : key === "y" ? redo : undefined;
    } else if (/^[0-9]$/.test(key)) {
      does = () => labelByKey(key);
    } else if (key in ARROWS) {
      // elsewhere the arrows scroll
      if (document.activeElement === document.body || document.activeElement?.id === "map") does = () => go(ARROWS[key]);
    } else if (Object.hasOwn(KEYS, key)) {
      does = KEYS[key];
    }
    if (!does) return;
    event.preventDefault();
    // a key that is held down answers once; only the arrows and the zoom go on
    if (event.repeat && !(key in ARROWS) && !"+-=".includes(key)) return;
    does();
  });
}
