/** The upper part of the panel: what is asked and why, or what else was chosen. */
import { back, chooseMany, peek, withoutLabel } from "../actions";
import { found, hidden, hovered, indexOf, isQuestion, many, map, query, row, said, searching, state, NOTHING } from "../store";
import { RowView } from "./RowView";
import { Swatch } from "./Swatch";
import { count, percent } from "./words";

/** How many of the chosen rows are taken for which class. */
function Many({ rows }: { rows: number[] }) {
  const words = said.value;
  const classes = state.value!.classes;
  const sums = new Map<number, number>();
  let known = 0;
  for (const i of rows) {
    if (!words) break;
    known += words.label[i] >= 0 ? 1 : 0;
    const index = words.label[i] >= 0 ? words.label[i] : words.predicted[i];
    sums.set(index, (sums.get(index) ?? 0) + 1);
  }
  return (
    <>
      <header class="asked">
        <p class="kind">Chosen together</p>
        <h2>{count(rows.length)} {rows.length === 1 ? "row" : "rows"}</h2>
        <p class="reason">A class key or button labels them all.</p>
      </header>
      <div class="content">
        <table class="sums">
          <tbody>
            {[...sums].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([index, sum]) => (
              <tr key={index}>
                <th scope="row"><Swatch index={index} /> {index < 0 ? "no prediction yet" : (classes[index]?.name ?? "?")}</th>
                <td>{count(sum)}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {known > 0 && known < rows.length && (
          <p>
            {count(known)} of them have a label, which would change.{" "}
            <button class="quiet" onClick={withoutLabel}>Leave these out</button>
          </p>
        )}
        <button class="quiet" onClick={back}>Let them go <kbd>Esc</kbd></button>
      </div>
    </>
  );
}

function Guess() {
  const { predicted, probabilities, label } = row.value!;
  if (hidden.value) {
    return (
      <p class="guess">
        Prediction hidden, so as not to sway you.{" "}
        <button class="quiet" onClick={peek}>Show it <kbd>p</kbd></button>
      </p>
    );
  }
  const best = probabilities.reduce((most, { p }) => Math.max(most, p), 0);
  return (
    <p class="guess">
      {label !== null && <span class="chip labelled"><Swatch index={indexOf(label)} /> labelled {label}</span>}
      {predicted !== null && (
        <span class="chip"><Swatch index={indexOf(predicted)} /> predicted {predicted}{best > 0 && `, ${percent(best)} sure`}</span>
      )}
      {label === null && predicted === null && <span class="chip">no prediction yet</span>}
    </p>
  );
}

export function Asked() {
  const { question, n, labelled } = state.value!;
  if (many.value) return <Many rows={many.value} />;
  const shown = row.value;
  if (!shown) {
    return (
      <header class="asked">
        <p class="kind">{question ? "Question" : "No question left"}</p>
        <h2>{question ? "…" : labelled >= n ? "Every row has a label." : "Every row has been asked."}</h2>
        {!question && <p class="reason">Choose rows on the map to change a label, or search for those that were skipped.</p>}
      </header>
    );
  }
  const kind = isQuestion.value ? "Question" : hovered.value >= 0 ? "Under the cursor" : "Chosen row";
  return (
    <>
      <header class={isQuestion.value ? "asked question" : "asked"}>
        <p class="kind">
          {kind}
          {!isQuestion.value && hovered.value < 0 && (
            <button class="quiet" onClick={back}>back to the question <kbd>Esc</kbd></button>
          )}
        </p>
        <h2 title={shown.id}>{shown.id}</h2>
        {isQuestion.value && <p class="reason">{sentence(question!.reason)}</p>}
        <Guess />
      </header>
      <div class="content" tabIndex={0} role="region" aria-label="The row in full"><RowView key={shown.row} row={shown} /></div>
    </>
  );
}

/** The row in words, for whoever hears the page. Rows under the cursor are left out: they come too fast. */
export function Spoken() {
  const shown = row.value;
  if (!shown || many.value || hovered.value >= 0) return null;
  const asking = isQuestion.value ? `Question: ${shown.id}. ${sentence(state.value!.question!.reason)}` : `${shown.id}.`;
  const known = shown.label === null ? "" : ` Labelled ${shown.label}.`;
  const guess = hidden.value || shown.predicted === null ? "" : ` Predicted ${shown.predicted}.`;
  return <>{asking + known + guess}</>;
}

const sentence = (phrase: string): string => phrase && `${phrase[0].toUpperCase()}${phrase.slice(1)}.`.replace(/\.\.$/, ".");

/** What a search found, with a way to choose it all. */
export function Results() {
  if (!searching.value) return null;
  const here = found.value;
  return (
    <p class="results" role="status">
      {here ? `${count(here.total)} of ${count(state.value!.n)} rows` : "Searching…"}
      {here && here.total > 0 && (
        <button class="quiet" onClick={() => chooseMany(map.value?.filtered() ?? here.rows)}>Choose them</button>
      )}
      <button class="quiet" onClick={() => (query.value = NOTHING)}>Show all rows</button>
    </p>
  );
}
