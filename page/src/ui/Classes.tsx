/** Class buttons with their keys, and what else can be answered. */
import { useRef } from "preact/hooks";
import { addClass, aim, label, queue, redo, skip, undo } from "../actions";
import { hidden, isQuestion, keys, many, row, state } from "../store";
import { Swatch } from "./Swatch";
import { count, percent } from "./words";

const place = (key: string): number => (key ? "1234567890".indexOf(key) : 10);

export function Classes() {
  const box = useRef<HTMLInputElement>(null);
  const aimed = useRef(aim());
  const { classes, can_undo, can_redo } = state.value!;
  const shown = many.value ? null : row.value;
  const chances = new Map(hidden.value ? [] : shown?.probabilities.map(({ name, p }) => [name, p]));
  // buttons stand in the order of the keyboard
  const order = classes.map((_, i) => i).sort((a, b) => place(keys.value[a]) - place(keys.value[b]) || a - b);
  const longest = Math.max(0, ...classes.map(({ name }) => name.length));
  const waiting = new Set(queue.value.map(({ data }) => data.label));
  const named = (use: (name: string) => void) => (event: Event) => {
    event.preventDefault();
    const name = box.current!.value.trim();
    if (!name) return;
    use(name);
    box.current!.value = "";
    box.current!.blur();
  };
  return (
    <section class="answers" aria-label="Classes">
      {!classes.length && <p class="note">There is no class yet. Type the name of the first below.</p>}
      <div class={`classes ${longest <= 3 ? "short" : longest > 6 ? "long" : ""}`}>
        {order.map((index) => {
          const { name, count: sum } = classes[index];
          const chance = chances.get(name) ?? 0;
          return (
            <button
              key={name}
              class={`class${shown?.label === name ? " holds" : ""}${waiting.has(name) ? " waits" : ""}`}
              onClick={() => label(name)}
              aria-keyshortcuts={keys.value[index] || undefined}
              aria-label={`${name}, ${sum} labelled${chance ? `, ${percent(chance)} likely` : ""}`}
              title={`${name}: ${count(sum)} labelled${chance ? `, ${percent(chance, 1)} likely for this row` : ""}`}
              disabled={!shown && !many.value}
            >
              <kbd>{keys.value[index]}</kbd>
              <Swatch index={index} />
              <span class="name">{name}</span>
              <span class="sum">{count(sum)}</span>
              <span class="chance"><span style={{ width: `${100 * chance}%` }} /></span>
            </button>
          );
        })}
      </div>
      <form class="new" onSubmit={named((name) => label(name, aimed.current))}>
        <label for="new-class" class="unseen">New class, or the name of one</label>
        <input
          id="new-class"
          ref={box}
          list="class-names"
          autocomplete="off"
          maxLength={200}
          placeholder="New class, or type a name"
          onFocus={() => (aimed.current = aim())} // another tab may change the question while a name is typed
        />
        <datalist id="class-names">{classes.map(({ name }) => <option key={name} value={name} />)}</datalist>
        <button type="submit">Label <kbd>↵</kbd></button>
        <button type="button" onClick={named(addClass)} title="Add the class and label nothing">Add</button>
      </form>
      <div class="deeds">
        <button onClick={skip} disabled={!shown && !many.value}>{isQuestion.value || !shown ? "Skip" : "Back"} <kbd>s</kbd></button>
        <button onClick={undo} disabled={!can_undo}>Undo <kbd>z</kbd></button>
        <button onClick={redo} disabled={!can_redo}>Redo <kbd>y</kbd></button>
        <button onClick={() => label(null)} disabled={many.value ? false : !shown || shown.label === null} title="Take the label back">
          Unlabel <kbd>⌫</kbd>
        </button>
      </div>
    </section>
  );
}
