"""Hostile and damaged files for every command that reads one.

For every file a command gives a result or one sentence, in bounded time and memory. No code in a file runs, and
nothing is written except the output of the command.
"""

from __future__ import annotations

import io
import os
import random
import resource
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import damage
import hostile
import numpy as np
from child import new_folder, run, run_tries, undisturbed
from scenarios import COMPARE, warm, write_h5ad, write_table

import labelling

FILES = 20
SECONDS = 60.0
# Most memory in MB of a command on a damaged small table, and on a file that unpacks to too many bytes.
SMALL, LARGE = 400.0, 3000.0
_ADDRESS_SPACE = 12 << 30
_FIT, _PREDICT = "fit {} -t kind --id name -m pcals -o out.skops", "predict m.skops {} -o out.csv"
_BARE = "fit {} -m pcals -o out.skops"


@dataclass(frozen=True)
class Format:
    """A kind of file: its name, its own kinds of damage, and the commands that read it."""

    name: str
    commands: tuple[str, ...]
    damages: tuple[Callable[[bytes, random.Random], bytes], ...] = ()


FORMATS = {
    "csv": Format("t.csv", (_FIT, _PREDICT), (damage.text,)),
    **{
        f"csv.{ending}": Format(f"t.csv.{ending}", (_FIT, _PREDICT), (damage.packed(*two),))
        for ending, two in damage.PACKED.items()
    },
    "parquet": Format("t.parquet", (_FIT, _PREDICT)),
    "npz": Format("t.npz", (_BARE, "predict bare.skops {} -o out.csv"), (damage.zipped(damage.array),)),
    "sparse": Format("s.npz", (_BARE,), (damage.zipped(damage.array),)),
    "svmlight": Format("t.svmlight", (_BARE,), (damage.text,)),
    "npy": Format("t.npy", ("predict bare.skops {} -o out.csv",), (damage.one_array,)),
    "arrow": Format("t.arrow", (_FIT, _PREDICT)),
    "jsonl": Format("t.jsonl", (_FIT, _PREDICT), (damage.json_lines,)),
    "xlsx": Format("t.xlsx", (_FIT, _PREDICT), (damage.zipped(damage.markup),)),
    "sqlite": Format("t.db", (_FIT, _PREDICT)),
    "duckdb": Format("t.duckdb", (_FIT, _PREDICT)),
    "h5ad": Format("t.h5ad", (_FIT, _PREDICT, "transform m.skops {} -o out.h5ad")),
    "image": Format("images/kind 1/1.png", ("fit images -m pcals -o out.skops",)),
    "model": Format(
        "m.skops",
        ("predict {} t.csv -o out.csv", "transform {} t.csv -o out.npz --predict", "inspect {}"),
        (damage.zipped(damage.member), damage.zipped(damage.member)),
    ),
    "labelfold-model": Format(
        "l.skops",
        ("predict {} t.csv -o out.csv", "transform {} t.csv -o out.parquet", "inspect {}"),
        (damage.zipped(damage.member), damage.zipped(damage.member)),
    ),
    "journal": Format(
        "t.labels.csv", (labelling.COMMAND, _FIT.format("t.csv") + " --labels {}"), (damage.text,)
    ),
    "results": Format("r/results.csv", (COMPARE.format(1),), (damage.text,)),
    "run": Format("r/run.json", (COMPARE.format(1),), (damage.plain_json,)),
    "answer": Format("r/answer.json", (COMPARE.format(1),), (damage.plain_json,)),
}
NAMES = (*FORMATS, "hostile", *labelling.HOSTILE)


def run_batch(name: str, seed: int, number: int, *, shown: bool = False) -> tuple[Counter[str], str]:
    """Run commands on damaged files; return the numbers of results and sentences, and the failure, if any."""
    if name in labelling.HOSTILE:
        return labelling.run_batch(name, seed, number, shown=shown)
    rng = random.Random(f"{name}:{seed}:{number}")
    tries = _hostile(rng, number) if name == "hostile" else _damaged(name, rng)
    return run_tries(
        [(f"{what}, {command}", partial(_tried, command, make, most)) for what, command, make, most in tries],
        shown,
        whole(name),
    )


def _tried(command: str, make: Callable[[Path], Any], most: float, folder: Path) -> str:
    """Write a file and run a command; of a file of labels at most the unfinished last line is lost."""
    make(folder)
    before = _journal(folder)
    ended = _attacked(command.split(), folder, most)
    left = _journal(folder)
    assert before.startswith(left) or left.startswith(before), "the file of labels was changed"
    assert before.count(b"\n") - left.count(b"\n") <= 20, "the file of labels was cut short"
    return ended


def _damaged(name: str, rng: random.Random) -> list[tuple[str, str, Callable[[Path], Any], float]]:
    kind = FORMATS[name]
    good = (whole(name) / kind.name).read_bytes()
    made = []
    for i in range(FILES):
        how = rng.choice([damage.any_bytes, *kind.damages])
        data = how(good, rng)
        command = rng.choice(kind.commands).format(kind.name)
        made.append((f"file {i}", command, lambda at, data=data: (at / kind.name).write_bytes(data), SMALL))
    return made


def _hostile(rng: random.Random, number: int) -> list[tuple[str, str, Callable[[Path], Any], float]]:
    names = list(hostile.MAKERS)
    random.Random(number // len(names)).shuffle(names)
    taken = [names[(number * 4 + i) % len(names)] for i in range(4)]
    return [(name, rng.choice(hostile.MAKERS[name][0]), hostile.MAKERS[name][1], LARGE) for name in taken]


def _attacked(arguments: list[str], folder: Path, most: float) -> str:
    """Run a command on the files of a folder, and check its effects."""
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "victim").write_bytes(b"precious")
    ended = run(arguments, folder, _Guard(folder))
    ended.check_words()
    assert ended.seconds < SECONDS, f"it took {ended.seconds:.0f} s"
    more = ended.mebibytes - _usual()
    assert more < most, f"it took {more:.0f} MiB"
    assert "memory" not in ended.err, ended.err
    assert [path.name for path in outside.iterdir()] == ["victim"], "something was written outside"
    assert (outside / "victim").read_bytes() == b"precious", "a file outside was written to"
    assert not (folder / "canary").exists(), "code in the file was run"
    assert ended.status in (0, 1, 2), f"status {ended.status}"
    return "sentence" if ended.status else "result"


def _journal(folder: Path) -> bytes:
    path = folder / "t.labels.csv"
    return path.read_bytes() if path.is_file() and path.stat().st_size < 1 << 26 else b""


class _Guard:
    """An audit hook in the command: it reports started programs, and files opened for writing outside the folder."""

    RUNS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect")
    # others are unpickled by numba
    HARM = ("os", "posix", "nt", "subprocess", "shutil", "runpy", "importlib", "ctypes")

    def __init__(self, folder: Path):
        self.folder = str(folder)

    def __call__(self) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, resource.RLIM_INFINITY))
        labelling.opened_only()
        sys.addaudithook(self.watch)

    def watch(self, event: str, args: tuple) -> None:
        """Report an event that must not happen."""
        if event in self.RUNS or (event == "pickle.find_class" and args[0] in self.HARM):
            os.write(2, f"Traceback: {event} {args!r:.200}\n".encode())
        if event == "open" and isinstance(args[0], str) and isinstance(args[2], int):
            path = os.path.realpath(args[0])
            writes = args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            refused = args[2] & os.O_NOFOLLOW and os.path.islink(args[0])
            allowed = path.startswith((self.folder, "/dev/null", "/proc")) or "__pycache__" in path
            if writes and not refused and not allowed:
                os.write(2, f"Traceback: {path} was opened for writing\n".encode())


@cache
def _usual() -> float:
    """Return the memory of a command on a good file."""
    return undisturbed(["predict", "m.skops", "t.csv", "-o", "out.csv"], whole("csv")).mebibytes


@cache
def whole(name: str) -> Path:
    """Return a folder with a good file of each kind that is quick to write, and further files that a format needs."""
    folder = new_folder("whole-") / "work"
    shutil.copytree(_common(), folder)
    for command in _NEEDS.get(name, ()):
        undisturbed(command.split(), folder)
    if name in ("journal", "hostile"):
        labelling.with_labels(folder)
    return folder


@cache
def _common() -> Path:
    warm()
    folder = new_folder("common-")
    write_table(folder / "t.csv", 0)
    table = (folder / "t.csv").read_bytes()
    for ending, (pack, _) in damage.PACKED.items():
        (folder / f"t.csv.{ending}").write_bytes(pack(table))
    _write_others(folder)
    undisturbed(["fit", "t.csv", "-t", "kind", "--id", "name", "-m", "pcals", "-o", "m.skops"], folder)
    return folder


_NEEDS = {
    "labelfold-model": ("fit t.csv -t kind --id name -o l.skops",),
    **dict.fromkeys(("npz", "npy"), ("fit t.npz -m pcals -o bare.skops",)),
    **dict.fromkeys(("results", "run", "answer", "hostile"), (COMPARE.format(1),)),
}


def _write_others(folder: Path) -> None:
    import pandas as pd
    from scipy import sparse
    from sklearn.datasets import dump_svmlight_file

    frame = pd.read_csv(folder / "t.csv")
    frame.to_parquet(folder / "t.parquet")
    frame.to_feather(folder / "t.arrow")
    frame.to_json(folder / "t.jsonl", orient="records", lines=True)
    frame.to_excel(folder / "t.xlsx", index=False)
    _write_databases(folder, frame)
    X = frame[["a", "b", "c", "d"]].to_numpy()
    y = np.arange(len(X)) % 3
    np.save(folder / "t.npy", X)
    np.savez_compressed(folder / "t.npz", X=X, y=y, feature_names=np.array(["a", "b", "c", "d"]))
    csr = sparse.csr_array(np.where(X > 0, X, 0))
    parts = {"X_data": csr.data, "X_indices": csr.indices, "X_indptr": csr.indptr, "X_shape": csr.shape}
    np.savez_compressed(folder / "s.npz", y=y, **parts)
    text = io.BytesIO()
    dump_svmlight_file(csr, y, text)
    (folder / "t.svmlight").write_bytes(text.getvalue())


def _write_databases(folder: Path, frame: Any) -> None:
    import duckdb
    from PIL import Image

    with sqlite3.connect(folder / "t.db") as connection:
        frame.to_sql("t", connection, index=False)
    with duckdb.connect(folder / "t.duckdb") as base:
        base.execute("CREATE TABLE t AS SELECT * FROM frame")
    write_h5ad(folder / "t.csv")
    rng = np.random.default_rng(0)
    for i in range(12):
        (folder / f"images/kind {i % 3}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (4, 4), dtype=np.uint8)).save(
            folder / f"images/kind {i % 3}/{i}.png"
        )
