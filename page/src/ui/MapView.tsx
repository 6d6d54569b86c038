/** The map with its tools, search and filter. */
import { useEffect, useRef, useState } from "preact/hooks";
import { chooseMany, pin } from "../actions";
import { PointMap } from "../map/map";
import { found, hovered, lassoing, many, map, query, row, searching, state, type Query } from "../store";
import { Results } from "./Asked";
import { count } from "./words";

/** Go to the next row that was found, or the one before. */
function step(by: number): void {
  const rows = found.peek()?.rows ?? [];
  if (!rows.length) return;
  const at = rows.indexOf(row.peek()?.row ?? -1);
  pin(rows[at < 0 ? 0 : (at + by + rows.length) % rows.length]);
}

function set(name: keyof Query) {
  return (event: Event) => {
    query.value = { ...query.value, [name]: (event.currentTarget as HTMLInputElement).value };
  };
}

function Filter() {
  const { classes } = state.value!;
  const share = (value: string): string => (value === "" ? "" : String(Math.round(100 * Number(value))));
  const setShare = (name: "least" | "most") => (event: Event) => {
    const given = (event.currentTarget as HTMLInputElement).value;
    const value = given === "" ? "" : String(Math.min(Math.max(Number(given) / 100, 0), 1));
    query.value = { ...query.value, [name]: value };
  };
  const names = classes.map(({ name }) => <option key={name} value={name}>{name}</option>);
  return (
    <div class="filter" id="filter">
      <label>label <select value={query.value.class} onChange={set("class")}><option value="">any</option>{names}</select></label>
      <label>predicted <select value={query.value.predicted} onChange={set("predicted")}><option value="">any</option>{names}</select></label>
      <label>
        labelled
        <select value={query.value.labelled} onChange={set("labelled")}>
          <option value="">yes or no</option><option value="yes">yes</option><option value="no">no</option>
        </select>
      </label>
      <label>
        sure from
        <input type="number" min="0" max="100" step="5" placeholder="0" value={share(query.value.least)} onInput={setShare("least")} />
        %
      </label>
      <label>
        to
        <input type="number" min="0" max="100" step="5" placeholder="100" value={share(query.value.most)} onInput={setShare("most")} />
        %
      </label>
    </div>
  );
}

export function MapView() {
  const points = useRef<HTMLCanvasElement>(null);
  const over = useRef<HTMLCanvasElement>(null);
  const [open, setOpen] = useState(false);
  const [words, setWords] = useState("");
  useEffect(() => {
    const made = new PointMap(points.current!, over.current!, {
      hover: (number) => (hovered.value = many.peek() ? -1 : number),
      pick: pin,
      lasso: (rows) => {
        lassoing.value = false;
        chooseMany(rows);
      },
      drawn: () => {
        document.documentElement.dataset.drawn = "yes";
        setWords(made.painter.words);
      },
    });
    map.value = made;
    Object.assign(window, { labelfoldMap: made });
    return lassoing.subscribe((on) => {
      made.lassoing = on;
    });
  }, []);
  const { n, busy, points_version } = state.value!;
  return (
    <main class="map" aria-label="Map">
      <div class="tools">
        <form class="search" role="search" onSubmit={(event) => { event.preventDefault(); step(1); }}>
          <label class="unseen" for="search">Search the rows</label>
          <input
            id="search"
            type="search"
            autocomplete="off"
            maxLength={200}
            placeholder="Search  /"
            value={query.value.text}
            onInput={set("text")}
            onKeyDown={(event) => {
              if (event.key === "ArrowDown") step(1);
              if (event.key === "ArrowUp") step(-1);
            }}
          />
          <button type="button" id="filter-button" aria-expanded={open} aria-controls="filter" onClick={() => setOpen(!open)}>Filter</button>
        </form>
        <div class="buttons">
          <button id="lasso" aria-pressed={lassoing.value} onClick={() => (lassoing.value = !lassoing.value)} title="Draw around rows to label them together; or drag with Shift">
            Lasso <kbd>l</kbd>
          </button>
          <button aria-label="Zoom in" onClick={() => map.value?.zoom(1.4)}>+</button>
          <button aria-label="Zoom out" onClick={() => map.value?.zoom(1 / 1.4)}>−</button>
          <button onClick={() => map.value?.all()}>All <kbd>a</kbd></button>
        </div>
        {open && <Filter />}
        <Results />
      </div>
      <div class={lassoing.value ? "canvas lassoing" : "canvas"}>
        <canvas ref={points} class="points" aria-hidden="true" />
        <canvas
          ref={over}
          id="map"
          class="over"
          tabIndex={0}
          role="application"
          aria-roledescription="map"
          aria-label={`Map of ${count(n)} rows; alike rows lie together. Arrow keys go from row to row, plus and minus zoom, class keys label.`}
        />
        <p class={busy ? "busy on" : "busy"} aria-hidden="true">refitting</p>
        {!points_version && <p class="making">The map is being made. Questions can be answered already.</p>}
        {words && <p class="sample">{words}</p>}
        {searching.value && found.value?.total === 0 && <p class="sample">No row is like that.</p>}
      </div>
    </main>
  );
}
