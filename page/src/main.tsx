import { render } from "preact";
import { queue, resume } from "./actions";
import { listenToKeys } from "./keys";
import { serve } from "./map/index_worker";
import { map, follow, listen, search, state, take } from "./store";
import { App } from "./ui/App";

function start(): void {
  follow();
  search();
  resume();
  listenToKeys();
  render(<App />, document.getElementById("page")!);
  map.subscribe((made) => made && state.peek() && take(state.peek()!, true)); // its points can be fetched now
  state.subscribe((now) => now && (document.title = `${now.table} · labelfold`));
  listen();
  Object.assign(window, { labelfoldQueue: queue }); // for whoever drives the page from outside, as tests do
}

// The same script is the worker that sorts the rows by place.
if (typeof document === "undefined") serve();
else start();
