"""The labelling page in headless Chromium with software WebGL: the speed of drawing, moving and refitting its map.

    python benchmarks/label_page.py                       100,000 and 1,000,000 rows
    python benchmarks/label_page.py --rows 20000

A simple server answers at once with generated rows, so that the figures are those of the page alone. `drawn` is the
time from opening the address until all rows are on the screen, `pan` the frames per second while the map is dragged
(with the number of rows in each frame; all are shown when it rests), `zoom` the time from a key until all rows are
drawn at the new scale, `moved` the time from new positions to the end of the animation, with its frames per second.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
STATIC = HERE.parent / "src/labelfold/app/label/static"
sys.path.insert(0, str(HERE.parent / "tests"))

from _common import options_of  # noqa: E402
from browser import SOFTWARE_GL, Browser  # noqa: E402

CLASSES = 10
TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
# Reading a pixel back waits until everything is drawn.
FINISHED = (
    "(() => { const gl = document.querySelector('canvas.points').getContext('webgl2');"
    "gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4)); return true; })()"
)
# A mouse that moves once in each frame; that of the test driver would wait for each move.
DRAGGED = """(async () => {
  const map = document.querySelector('#map'), box = map.getBoundingClientRect();
  const mouse = (kind, a) => map.dispatchEvent(new PointerEvent(kind, {
    pointerId: 1, pointerType: 'mouse', button: kind === 'pointermove' ? -1 : 0, buttons: 1, bubbles: true,
    clientX: box.x + box.width / 2 + 150 * Math.cos(a), clientY: box.y + box.height / 2 + 150 * Math.sin(a) }));
  map.setPointerCapture = () => {};
  mouse('pointerdown', 0);
  for (let i = 1; i <= 90; i++) { await new Promise(requestAnimationFrame); mouse('pointermove', i / 9); }
  mouse('pointerup', 10);
})()"""


class StandIn:
    """A server of generated rows in ten clusters, whose positions change on request."""

    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(0)
        self.n, self.version = n, 1
        self.code = rng.integers(0, CLASSES, n)
        self.spread = 0.08 * rng.standard_normal((n, 2))
        self.sure = rng.integers(60, 256, n)
        self.label = np.where(rng.random(n) < 200 / n, self.code, -1)
        self.changed = threading.Condition()
        self.place()

    def place(self) -> None:
        """Move every cluster."""
        centres = np.random.default_rng(self.version).uniform(-0.9, 0.9, (CLASSES, 2))
        self.points = (centres[self.code] + self.spread).astype("<f4").tobytes()

    def move(self) -> None:
        """Create new positions, and notify the page."""
        with self.changed:
            self.version += 1
            self.place()
            self.changed.notify_all()

    def state(self) -> bytes:
        """Return the state of the page."""
        classes = [{"name": f"class {i}", "count": 20} for i in range(CLASSES)]
        said = {
            "version": self.version, "table": "made.csv", "target": "class", "n": self.n, "d": 2, "who": "nobody",
            "file": "made.labels.csv", "classes": classes, "labelled": 200, "skipped": 0, "strategy": "mixed",
            "strategies": [{"name": "mixed", "words": ""}], "question": {"row": 0, "reason": "", "how": "unsure"},
            "accuracy": None, "curve": [], "forecast": None, "doubtful": [], "can_undo": False, "can_redo": False,
            "busy": False, "points_version": self.version, "said_version": self.version, "notes": [],
        }  # fmt: skip
        return json.dumps(said).encode()

    def said(self) -> bytes:
        """Return predictions, labels and confidences of all rows."""
        return (
            self.code.astype("<i2").tobytes()
            + self.label.astype("<i2").tobytes()
            + self.sure.astype("u1").tobytes()
        )


def handler(made: StandIn) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Do not log."""

        def do_GET(self) -> None:
            name = self.path.split("?")[0].lstrip("/")
            if name == "events":
                return self.tell()
            row = {
                "row": 0,
                "id": "row 0",
                "label": None,
                "predicted": None,
                "probabilities": [],
                "columns": [],
            }
            if name in ("points", "said"):
                body, kind = made.points if name == "points" else made.said(), "application/octet-stream"
            elif name.startswith("row/"):
                body, kind = (
                    json.dumps({**row, "texts": [], "pixels": None, "image": False}).encode(),
                    "application/json",
                )
            else:
                file = name.removeprefix("static/") or "index.html"
                body, kind = (STATIC / file).read_bytes(), TYPES[file.rpartition(".")[2]]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def tell(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            try:
                while True:
                    with made.changed:
                        self.wfile.write(b"event: state\ndata: " + made.state() + b"\n\n")
                        self.wfile.flush()
                        made.changed.wait()
            except OSError:
                return

    return Answers


def measure(n: int) -> None:
    made = StandIn(n)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(made))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(Path(profile), flags=SOFTWARE_GL)
        browser.look(1440, 900)
        start = time.perf_counter()
        browser.open(f"http://127.0.0.1:{server.server_port}/")
        browser.run(FINISHED)
        drawn = time.perf_counter() - start
        time.sleep(2)  # a worker sorts the rows by position

        def rate(what: str) -> str:
            took = np.array(browser.run("labelfoldMap.frames") or [np.nan])
            step = browser.run("labelfoldMap.step")
            return f"{what} {1000 / took.mean():.0f} frames a second, slowest {took.max():.0f} ms, 1 row in {step}"

        browser.run("labelfoldMap.frames = [], 0")
        browser.run(DRAGGED)
        pan = rate("pan")
        time.sleep(2)
        start = time.perf_counter()
        browser.press("+")
        browser.run("new Promise((done) => setTimeout(done, 200))")  # the map rests after 160 ms
        browser.run("new Promise(requestAnimationFrame)")
        browser.run(FINISHED)
        zoom = time.perf_counter() - start
        browser.run("labelfoldMap.frames = [], 0")
        start = time.perf_counter()
        made.move()
        browser.wait("labelfoldMap.moves === 1", 20)
        browser.wait("labelfoldMap.t === 1", 20)
        browser.run(FINISHED)
        moved = time.perf_counter() - start
        print(
            f"{n:,} rows: drawn {drawn:.2f} s; {pan}; zoom {zoom:.2f} s; moved {moved:.2f} s, {rate('at')}",
            flush=True,
        )
        browser.close()
    server.shutdown()


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    for n in parser.parse_args().rows:
        measure(n)


if __name__ == "__main__":
    main()
