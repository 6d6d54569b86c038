import { useEffect, useRef } from "preact/hooks";
import { queue, save } from "../actions";
import { gone, helping, moved, state, told } from "../store";
import { MapView } from "./MapView";
import { Panel } from "./Panel";
import { count } from "./words";

const EXPORTS = [
  ["table.csv", "Table", "with the target filled in"],
  ["predictions.csv", "Predictions", "with confidence"],
  ["model.skops", "Model", "for labelfold predict"],
  ["report.html", "Report", "one page, offline"],
] as const;

function Export() {
  const menu = useRef<HTMLDetailsElement>(null);
  return (
    <details
      class="export"
      ref={menu}
      onFocusOut={(event) => {
        if (!menu.current!.contains(event.relatedTarget as Node | null)) menu.current!.open = false;
      }}
    >
      <summary>Export <kbd>e</kbd></summary>
      <div class="menu">
        {EXPORTS.map(([file, name, words]) => (
          <button key={file} onClick={() => { menu.current!.open = false; void save(file); }}>
            {name} <span class="note">{words}</span>
          </button>
        ))}
      </div>
    </details>
  );
}

const KEYS = [
  ["1 … 9, 0", "label what the panel shows"],
  ["n", "type the name of a class, new or old"],
  ["s", "skip the question"],
  ["z, y", "undo, redo (also Ctrl)"],
  ["⌫", "take the label back"],
  ["p", "show or hide the prediction of a random question"],
  ["arrows", "go from row to row on the map"],
  ["Esc", "back to the question"],
  ["q", "show the question on the map"],
  ["+, −, a", "zoom in, out, show all"],
  ["l", "lasso; or drag with Shift"],
  ["/", "search; Enter goes to the next found"],
  ["f", "filter"],
  ["d", "next label to look at again"],
  ["e", "export"],
  ["?", "this list"],
] as const;

function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helping.value && !dialog.current!.open) dialog.current!.showModal();
    if (!helping.value && dialog.current!.open) dialog.current!.close();
  }, [helping.value]);
  return (
    <dialog ref={dialog} aria-labelledby="help" onClose={() => (helping.value = false)}>
      <h2 id="help">Keys</h2>
      <dl class="keys">
        {KEYS.map(([key, words]) => (
          <div key={key}><dt><kbd>{key}</kbd></dt><dd>{words}</dd></div>
        ))}
      </dl>
      <p class="note">
        Each label refits the model. Colours are predictions, fainter where the model is less sure; shapes with an outline
        have a label. Keys label the row that the panel shows: the question, the row under the cursor, or those chosen.
      </p>
      <form method="dialog"><button autofocus>Close</button></form>
    </dialog>
  );
}

const absent = (): string =>
  moved.value
    ? "The server was started again and has another address; open the one that it printed."
    : "The server is gone; start it again and reload.";

/** What was done, or was not and why; and the server's absence. */
function Sayings() {
  const said = told.value;
  useEffect(() => {
    if (!said || said.kind === "wrong") return;
    const timer = setTimeout(() => told.peek() === said && (told.value = null), 3000);
    return () => clearTimeout(timer);
  }, [said]);
  return (
    <div class="sayings">
      <div role="alert">
        {gone.value && <p class="saying gone">{absent()}{queue.value.length > 0 && ` ${queue.value.length} not saved yet.`}</p>}
      </div>
      <div role="status" aria-live="polite">
        {said && (
          <p class={`saying ${said.kind}`}>
            <span>{said.text}</span>
            {said.retry && <button onClick={() => { told.value = null; said.retry!(); }}>Retry</button>}
            {said.kind === "wrong" && <button aria-label="Dismiss" onClick={() => (told.value = null)}>×</button>}
          </p>
        )}
      </div>
    </div>
  );
}

export function App() {
  const here = state.value;
  if (!here) {
    return <p class="loading">{gone.value ? absent() : "Loading…"}</p>;
  }
  return (
    <>
      <header class="top">
        <h1>labelfold</h1>
        <p class="table"><span title={here.table}>{here.table}</span> <span class="note">→</span> <span title={here.target}>{here.target}</span></p>
        <p class="progress">
          <strong>{count(here.labelled)}</strong> of {count(here.n)}
          <span class="wide"> labelled{here.skipped > 0 && `, ${count(here.skipped)} skipped`}</span>
        </p>
        <Export />
        <button class="help" onClick={() => (helping.value = true)}>Keys <kbd>?</kbd></button>
      </header>
      <MapView />
      <Panel />
      <Sayings />
      <Help />
    </>
  );
}
