"""Measure the memory of whole processes that read files or run commands: one line of JSON each.

    python tests/peak_commands.py FOLDER ROWS NAME ...

Each is a process of its own, forked from one that has imported the command line and nothing else.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import zipfile
from functools import partial
from pathlib import Path

import pandas as pd  # noqa: F401 - as every command does
import pyarrow.csv  # noqa: F401

from labelfold.app.commands import _model  # noqa: F401
from labelfold.app.commands._cli import main

COLUMNS = 40
FIT = "fit t.csv -t kind -m lda --ridge 1 -o m.skops"
# What is measured: the line of docs/memory.py, the file that F is the size of, and the command, or "" for a reader.
CASES = {
    **{
        f"read {name}": ("reading", name, "")
        for name in (
            *("t.csv", "t.csv.gz", "t.parquet", "t.arrow", "t.jsonl", "t.npz", "t.npy", "t.svmlight"),
            *("t.db", "t.duckdb", "t.xlsx", "t.h5ad"),
        )
    },
    "Recipe": ("recipe", "t.csv", ""),
    "fit": ("rows", "t.csv", FIT),
    "transform": ("rows", "t.csv", "transform m.skops t.csv -o e.parquet"),
    "predict": ("rows", "t.csv", "predict m.skops t.csv -o p.csv"),
    "compare": ("compare", "t.csv", "compare t.csv -t kind -m lda,naive-bayes -r 1 --save -o r"),
    "label": ("label", "t.csv", "label t.csv -t kind --no-browser"),
    "inspect": ("model", "big.skops", "inspect big.skops"),
    "read model": ("model", "big.skops", ""),
    "datasets": ("shipped", "", "datasets digits -o d.csv"),
    "methods": ("shipped", "", "methods"),
    "demo": ("shipped", "", "demo -o demo"),
}


def write(name: str, rows: int) -> None:
    """Write a table of numbers with 200 labels, in any format."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, COLUMNS)).round(6)
    y = np.where(np.arange(rows) < 200, rng.choice(["a", "b"], rows), "")
    table = pa.table({**{f"x{j}": X[:, j] for j in range(COLUMNS)}, "kind": y})
    if name.endswith((".npz", ".npy")):
        np.save(name, X) if name.endswith("npy") else np.savez(name, X=X, y=np.where(y == "a", 1, 0))
    elif name == "t.svmlight":
        from sklearn.datasets import dump_svmlight_file

        dump_svmlight_file(X, np.where(y == "a", 1, 0), name)
    elif name == "big.skops":
        from sklearn.decomposition import PCA

        import labelfold

        labelfold.save(PCA(100).fit(rng.standard_normal((100, 2 * rows))), name)
    else:
        _write_table(table, name)


def _write_table(table: object, name: str) -> None:
    import gzip
    import io

    import pyarrow.feather
    import pyarrow.parquet

    if name.startswith("t.csv"):
        text = io.BytesIO()
        pyarrow.csv.write_csv(table, text)
        Path(name).write_bytes(gzip.compress(text.getvalue(), 1) if name.endswith("gz") else text.getvalue())
    elif name == "t.parquet":
        pyarrow.parquet.write_table(table, name)
    elif name == "t.arrow":
        pyarrow.feather.write_feather(table, name, compression="uncompressed")
    else:
        frame = table.to_pandas()
        if name == "t.jsonl":
            frame.to_json(name, orient="records", lines=True)
        elif name == "t.xlsx":
            frame[:20_000].to_excel(name, index=False)  # it takes a minute
        elif name == "t.db":
            import sqlite3

            frame.to_sql("t", sqlite3.connect(name), index=False)
        elif name == "t.duckdb":
            import duckdb

            duckdb.connect(name).execute("CREATE TABLE t AS SELECT * FROM frame")
        else:
            import anndata

            X = frame.drop(columns="kind")
            anndata.AnnData(X.to_numpy(), obs=frame[["kind"]].set_index(X.index.astype(str))).write_h5ad(name)


def unpacked(name: str) -> int:
    """Return the bytes of a file, unpacked."""
    if not name:
        return 0
    if name.endswith((".xlsx", ".npz", ".skops")):
        with zipfile.ZipFile(name) as archive:
            return sum(member.file_size for member in archive.infolist())
    if name == "t.parquet":  # its columns as they are in memory
        import pyarrow.parquet

        return int(pyarrow.parquet.read_table(name).nbytes)
    return Path("t.csv" if name == "t.csv.gz" else name).stat().st_size


def work(name: str, command: str, file: str) -> int:
    """Do what is measured."""
    if command.startswith("label "):
        from labelfold.app.label import _server

        def serve(running: object) -> None:
            running.session.start()
            running.session.worker.idle(120)
            running.close()

        _server.Running.serve = serve
    if command:
        return main(command.split())
    if name == "read model":
        import labelfold

        labelfold.load(file)
        return 0
    from labelfold.app.io import read_table

    table = read_table(file, **({} if file.endswith((".npz", ".npy", ".svmlight")) else {"target": "kind"}))
    if name == "Recipe":
        import labelfold

        labelfold.Recipe().fit_transform(table.raw)
    return 0


def forked(action: object) -> resource.struct_rusage:
    """Do something in a child; return what it used."""
    if (child := os.fork()) == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os._exit(action() or 0)
    _, status, usage = os.wait4(child, 0)
    assert status == 0, f"status {status}"
    return usage


def measure(name: str, rows: int) -> dict[str, object]:
    """Return the peak of a process, and the size of its file, which is made if need be."""
    line, file, command = CASES[name]
    for needed in {file, "t.csv" if " t.csv" in command or file == "t.csv.gz" else ""} - {""}:
        if not Path(needed).exists():
            forked(partial(write, needed, rows))
    if "m.skops" in command and not Path("m.skops").exists():
        forked(lambda: main(FIT.split()))
    used = forked(lambda: work(name, command, file))
    reads, writes = os.pipe()  # what tells the size may load the file
    forked(lambda: os.write(writes, str(unpacked(file)).encode()) * 0)
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"name": name, "line": line, "peak": peak, "F": int(os.read(reads, 100))}


if __name__ == "__main__":
    folder, rows, *names = sys.argv[1:]
    os.chdir(folder)
    for case in names:
        print(json.dumps(measure(case, int(rows))), flush=True)
