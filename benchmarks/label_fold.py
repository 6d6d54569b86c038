"""LabelFold as the rows grow: fits, refits and predictions in memory, and a fit of rows in a file.

    python benchmarks/label_fold.py                 all, about ten minutes on two cores
    python benchmarks/label_fold.py --quick         a tenth of the rows
    python benchmarks/label_fold.py --only growth   one table only
    python benchmarks/label_fold.py --path FILE --rows 1000    a file of this script, in this process; prints JSON

Images are mnist.npz of the folder LABELFOLD_DATA, or generated with the same shape. Seconds are wall-clock time with
two threads; peak memory is measured in a separate process (Linux only).
"""

from __future__ import annotations

import json
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from _common import few_labels, in_child, options_of, peak_beyond, timed
from common import pinned, slope
from data_sets import load
from labelfold import LabelFold

THREADS, LABELLED = 2, 50


def growth(sizes: list[int]) -> None:
    images = load("mnist")
    print(f"\nFit and refit as the rows grow ({LABELLED} labels; refits with 200), 784 columns")
    print(f"{'rows':>10} {'fit, s':>8} {'refit, s':>9} {'new rows, s per 1,000':>22}")
    seconds = []
    for n in sizes:
        drawn = np.random.default_rng(0).permutation(max(n, 70_000))[:n] % 70_000  # more rows repeat
        X, y = images.X[drawn], images.y[drawn]
        with pinned(THREADS):
            fit, model = timed(partial(LabelFold().fit, X, few_labels(y, LABELLED)))
            known = few_labels(y, 200)
            model.refit(known)
            refit, _ = timed(partial(model.refit, known))
            new, _ = timed(partial(model.predict, X[:5000]))
        seconds.append(fit)
        print(f"{n:>10,} {fit:>8.2f} {refit:>9.3f} {new / min(5, n / 1000):>22.3f}", flush=True)
    print(f"seconds ~ rows^{slope(sizes, seconds):.2f}")


def from_file(n: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, 100))
        rng = np.random.default_rng(0)
        means = rng.standard_normal((5, 100)) / 2
        for start in range(0, n, 50_000):
            stop = min(n, start + 50_000)
            X[start:stop] = means[np.arange(start, stop) % 5] + rng.standard_normal((stop - start, 100))
        X.flush()
        del X
        seconds, extra = in_child(__file__, "--path", path, "--rows", n)
    print(f"\n{n:,} x 100 from a file: {seconds:.0f} s, at most {extra / 1e9:.2f} GB beyond the start")


def measure_file(path: str, n: int) -> None:
    y = np.arange(n) % 5
    LabelFold().fit(np.random.default_rng(0).standard_normal((200, 100)), few_labels(y[:200], 20))
    with pinned(THREADS):
        fit = partial(LabelFold().fit, path, few_labels(y, LABELLED))
        print(json.dumps(timed(partial(peak_beyond, fit))))


def main() -> None:
    options = options_of(__doc__, quick=False, only=("growth", "file"), path="", rows=0)
    warnings.simplefilter("ignore")
    if options.path:
        measure_file(options.path, options.rows)
        return
    part = 10 if options.quick else 1
    if "growth" in options.only:
        growth([n // part for n in (3_000, 12_500, 25_000, 50_000, 100_000)])
    if "file" in options.only:
        from_file(1_000_000 // part)


if __name__ == "__main__":
    main()
