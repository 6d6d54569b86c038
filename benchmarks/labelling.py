"""The labelling page: the time from a key to the updated map, through real HTTP, and the time of a start.

    python benchmarks/labelling.py                     10,000 and 100,000 rows, and the start with 1,000,000
    python benchmarks/labelling.py --rows 10000        one size only

`labelfold label` runs in a separate process. A label is posted as the page does it, and the time ends when the event
with the new map and predictions has arrived and both are loaded. Rows are generated: 20 numbers in ten classes (a
table, so that trees are among the views), or 784 pixels with ``--pixels``. If other programs run, the processor time
of the server is more informative than the wall-clock time.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from _common import options_of

MAIN = "import sys; from labelfold.app.commands._cli import main; sys.exit(main())"


def table(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of ten classes, each on a curved surface of four dimensions."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    sheets = rng.standard_normal((10, 4, d)).astype(np.float32)
    places = np.tanh(rng.standard_normal((n, 4)).astype(np.float32))
    X = np.empty((n, d), dtype=np.float32)
    for c in range(10):
        X[y == c] = places[y == c] @ sheets[c]
    return X + 0.5 * rng.standard_normal((n, d)).astype(np.float32), y


def busy_seconds(process: int) -> float:
    """Return the processor seconds of a process so far; NaN if the system does not provide them."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Tab:
    """A tab: it receives events, and posts labels."""

    def __init__(self, url: str) -> None:
        self.url, self.origin = url, url.rstrip("/").rsplit("/", 1)[0]
        self.client = httpx.Client(timeout=120, headers={"origin": self.origin})
        self.states: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with httpx.stream("GET", self.url + "events", timeout=None) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    self.states.put(json.loads(line[6:]))

    def until(self, wanted: Any, seconds: float = 600) -> dict[str, Any]:
        """Receive states until one meets a condition."""
        end = time.perf_counter() + seconds
        while True:
            state = self.states.get(timeout=end - time.perf_counter())
            if wanted(state):
                return state

    def label(self, row: int, name: str) -> tuple[float, float]:
        """Label a row; return the seconds until it is written, and until map and predictions have arrived."""
        began = time.perf_counter()
        answer = (
            self.client.post(self.url + "label", json={"rows": [row], "label": name})
            .raise_for_status()
            .json()
        )
        written = time.perf_counter() - began
        points, version = answer["points_version"], answer["version"]
        if answer["busy"]:  # otherwise the fit was faster than the answer
            self.until(lambda s: s["version"] > version and (s["points_version"] > points or not s["busy"]))
        for name in ("points", "said"):
            self.client.get(self.url + name).raise_for_status()
        return written, time.perf_counter() - began


def measure(n: int, d: int, labels: int) -> None:
    """Print the times of the start and of each label."""
    X, y = table(n, d)
    pixels = d == 784
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        np.savez(path, X=X, y=np.full(n, -1))
        del X
        options = ["--image-shape", "28x28"] if pixels else []
        began = time.perf_counter()
        served = subprocess.Popen(
            [sys.executable, "-c", MAIN, "label", str(path), "--no-browser", *options],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            assert served.stdout is not None
            tab = Tab(served.stdout.readline().strip())
            print(
                f"{n:>9,} rows x {d}: the address after {time.perf_counter() - began:.1f} s",
                end="",
                flush=True,
            )
            tab.until(lambda s: s["points_version"] > 0)
            print(f", a map after {time.perf_counter() - began:.1f} s", end="", flush=True)
            state = tab.until(lambda s: not s["busy"])
            print(f", ready to fit after {time.perf_counter() - began:.1f} s", flush=True)
            if n > 300_000:
                print(f"{'':>9} {state['notes'][-1]}")
                return
            written, moved, computed = [], [], []
            for _ in range(labels):
                row = state["question"]["row"]
                before = busy_seconds(served.pid)
                one, all_of_it = tab.label(row, f"class {y[row]}")
                computed.append(busy_seconds(served.pid) - before)
                written.append(one)
                moved.append(all_of_it)
                state = tab.client.get(tab.url + "state").json()
                if state["busy"]:
                    state = tab.until(lambda s: not s["busy"])
            for first, last in ((2, 20), (20, 50), (50, 100), (100, 200)):
                some, kept = 1000 * np.array(moved[first:last]), 1000 * np.array(written[first:last])
                if len(some):
                    print(
                        f"{'':>9} labels {first} to {min(last, labels)}: on disk in {np.median(kept):.0f} ms; map, "
                        f"predictions and accuracy in {np.median(some):.0f} ms (nine of ten within "
                        f"{np.quantile(some, 0.9):.0f}, at most {some.max():.0f}), of which the server computed "
                        f"{1000 * np.mean(computed[first:last]):.0f} ms"
                    )
        finally:
            served.terminate()
            served.wait(30)


def main() -> None:
    given = options_of(__doc__, rows=[10_000, 100_000, 1_000_000], labels=60, pixels=False)
    for n in given.rows:
        measure(n, 784 if given.pixels else 20, given.labels)


if __name__ == "__main__":
    main()
