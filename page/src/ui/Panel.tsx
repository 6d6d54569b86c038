/** The panel beside the map. */
import { choose, pin } from "../actions";
import { indexOf, pinned, row, state } from "../store";
import { Accuracy } from "./Accuracy";
import { Asked, Spoken } from "./Asked";
import { Classes } from "./Classes";
import { Swatch } from "./Swatch";
import { count, percent } from "./words";

function LookAgain() {
  const { doubtful } = state.value!;
  if (!doubtful.length) return null;
  return (
    <section aria-labelledby="again">
      <h2 id="again">Look again <span class="sum">{count(doubtful.length)}</span> <kbd>d</kbd></h2>
      <p class="note">Labels that disagree with everything around them. Choose one; a class key changes it, its own key keeps it.</p>
      <ul class="doubts">
        {doubtful.slice(0, 50).map(({ row: number, id, label, predicted, confidence }) => (
          <li key={number}>
            <button class="doubt" aria-pressed={pinned.value === number} onClick={() => pin(number)}>
              <span class="id" title={id}>{id}</span>
              <span class="change">
                <Swatch index={indexOf(label)} /> {label} <span aria-label="but looks like">→</span>{" "}
                <Swatch index={indexOf(predicted)} /> {predicted}
              </span>
              <span class="sum">{percent(confidence)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Strategy() {
  const { strategies, strategy } = state.value!;
  return (
    <section aria-labelledby="next">
      <h2 id="next">Questions</h2>
      <label class="choice">
        <span class="unseen">How questions are chosen</span>
        <select value={strategy} onChange={(event) => choose(event.currentTarget.value)}>
          {strategies.map(({ name }) => <option key={name} value={name}>{name}</option>)}
        </select>
        <span class="note">{strategies.find(({ name }) => name === strategy)?.words}</span>
      </label>
    </section>
  );
}

export function Panel() {
  const { notes, who, file } = state.value!;
  return (
    <aside class="panel" aria-label="Question and answers">
      <div class="ask" data-row={row.value?.row}><Asked /></div>
      <p class="unseen" role="status"><Spoken /></p>
      <Classes />
      <Accuracy />
      <LookAgain />
      <Strategy />
      <section class="facts">
        {notes.map((note) => <p key={note} class="note">{note}</p>)}
        <p class="note">Every label is written to {file} as {who}, before it is shown as done.</p>
      </section>
    </aside>
  );
}
