"""Memory and time of the command line on a large svmlight file, beside the size of the data as a dense array.

    python benchmarks/svmlight.py                       1 GB of text
    python benchmarks/svmlight.py --megabytes 50

It writes a file of generated documents (rows of about 100 words of 100,000, a few thousand of them labelled) to a
temporary folder, runs each command in a separate process, and deletes everything. *Sparse* is the matrix in memory,
12 bytes for each number; the peak is the largest memory of the process, including Python and libraries.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from _common import options_of

COLUMNS, LENGTH, CLASSES = 100_000, 100, 5
PIECE = 8192  # generated rows; the file repeats them without labels
COMMANDS = {
    "fit": "fit {data} -m lda -k 4 --ridge 1 -o {out}/model",
    "transform": "transform {out}/model {data} -o {out}/embedding.npz",
    "predict": "predict {out}/model {data} -o {out}/predictions.parquet",
    "compare": "compare {data} -m lda,pca-svm,svm -k 4 -b 100,1000 --repeats 1 --save -o {out}/compare",
}


def write(path: Path, n_bytes: int) -> tuple[int, int]:
    """Write a file of about this size; return its numbers of rows and of stored values."""
    rng = np.random.default_rng(0)
    topics = rng.integers(0, COLUMNS, (CLASSES, 400))
    kinds = rng.integers(1, CLASSES + 1, PIECE)
    lines = []
    for kind in kinds:
        common = rng.zipf(1.3, LENGTH) % COLUMNS
        words = np.unique(np.concatenate([common, rng.choice(topics[kind - 1], LENGTH // 4)]))
        values = rng.random(len(words)).round(4)
        lines.append(" ".join(f"{w + 1}:{v}" for w, v in zip(words, values, strict=True)))
    piece = "".join(f"-1 {line}\n" for line in lines).encode()
    numbers = sum(line.count(":") for line in lines)
    with path.open("wb") as file:
        file.writelines(f"{kind} {line}\n".encode() for kind, line in zip(kinds, lines, strict=True))
        copies = 1
        while file.tell() < n_bytes:
            file.write(piece)
            copies += 1
    return copies * PIECE, copies * numbers


def run(command: str) -> tuple[float, float]:
    """Run a command in a new process; return its seconds and its peak memory in MB."""
    code = "import sys; from labelfold.app.commands._cli import main; sys.exit(main(sys.argv[1:]))"
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code, *command.split()], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"labelfold {command} failed")
    return time.perf_counter() - start, usage.ru_maxrss / 1000


def main(argv: list[str] | None = None) -> None:
    options = options_of(__doc__, argv, megabytes=1000, commands=tuple(COMMANDS))
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data.svmlight")
        n, numbers = write(data, options.megabytes * 10**6)
        dense, sparse = n * COLUMNS * 8 / 1e6, numbers * 12 / 1e6
        size = data.stat().st_size / 1e6
        print(
            f"Generated: {n:,} rows x {COLUMNS:,} columns, {numbers:,} numbers; {size:,.0f} MB of text, "
            f"{sparse:,.0f} MB sparse, {dense:,.0f} MB dense.\n"
        )
        print(f"{'command':<12}{'seconds':>10}{'peak MB':>10}{'/ sparse':>10}{'/ dense':>10}", flush=True)
        for name in options.commands:
            seconds, peak = run(COMMANDS[name].format(data=data, out=folder))
            print(
                f"{name:<12}{seconds:>10.0f}{peak:>10,.0f}{peak / sparse:>10.1f}{peak / dense:>10.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
