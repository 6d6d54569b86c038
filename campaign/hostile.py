"""Malicious files: decompression bombs, links, devices, pipes, and names that lead elsewhere."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from damage import as_zip, saved
from scenarios import COMPARE

_FIT = "fit {} -t kind --id name -m pcals -o out.skops"
_BARE = "fit {} -m pcals -o out.skops"
_READS = ("predict {} t.csv -o out.csv", "inspect {}")
_IMAGES = ("fit images -m pcals -o out.skops",)
_PROGRAM = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EOF\n"
_RUN = (COMPARE.format(1),)
_LABEL = ("label t.csv -t kind --id name --no-browser", _FIT.format("t.csv") + " --labels t.labels.csv")
_HEADER = b"row,name,label,time,who,how,predicted,confidence,content\n"


class _Runs:
    """An object that runs a command when it is unpickled."""

    def __reduce__(self) -> tuple:
        return os.system, ("touch canary",)


def _gz(head: bytes, part: bytes, times: int) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        with gzip.open(folder / "x.csv.gz", "wb", 1) as file:
            file.write(head)
            for _ in range(times):
                file.write(part)

    return make


def _zip_bomb(folder: Path) -> None:
    with (
        zipfile.ZipFile(folder / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.csv", "w") as file,
    ):
        file.write(b"name,a,kind\n")
        for _ in range(1500):
            file.write(b"n,1,2\n" * 175_000)


def _lying_zip(folder: Path) -> None:
    """Write a zip archive that states a small size for a large member, in both places."""
    data = bytearray(as_zip({"x.csv": b"name,a,kind\n" + b"n,1,2\n" * 20_000_000}))
    size = struct.pack("<I", 12 + 6 * 20_000_000)
    (folder / "x.zip").write_bytes(bytes(data).replace(size, struct.pack("<I", 100)))


def _zip(name: str, make: Callable[[], dict[str, bytes]]) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes(as_zip(make()))


def _npz(**arrays: Any) -> Callable[[Path], Any]:
    return lambda folder: np.savez_compressed(folder / "x.npz", **{k: v() for k, v in arrays.items()})


def _npy(version: int, size: str, head: bytes) -> dict[str, bytes]:
    """Return an array of 100 numbers with another header."""
    return {"X.npy": b"\x93NUMPY" + bytes([version, 0]) + struct.pack(size, len(head)) + head + bytes(800)}


_HUGE = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776, 100), }".ljust(117) + b"\n"
_DEEP = b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"(" * 60_000 + b"1,), }\n"


def _npz_pickle(folder: Path) -> None:
    np.savez(folder / "x.npz", X=np.array([[_Runs()]], dtype=object), y=np.array([_Runs()], dtype=object))


def _npz_members(folder: Path) -> None:
    zeros = bytes(1 << 27)
    with zipfile.ZipFile(folder / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", saved(np.eye(9)))
        for i in range(10):
            archive.writestr(f"unused{i}.npy", zeros)


def _parquet(rows: int, columns: int) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        column = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(rows, dtype=np.int8)), pa.array(["x" * 200])
        )
        names = [f"c{i}" for i in range(columns)] + ["kind"]
        pq.write_table(pa.table([column] * len(names), names=names), folder / "x.parquet", compression="zstd")

    return make


def _parquet_metadata(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"name": ["a", "b"], "a": [1, 2], "kind": ["x", "y"]})
    for key in (b"pandas", b"ARROW:schema"):
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), key: b'{"index_columns": 5}'})
    pq.write_table(table, folder / "x.parquet")


def _pickled_model(folder: Path) -> None:
    (folder / "x.skops").write_bytes(pickle.dumps(_Runs()))


def _model(change: Callable[[dict[str, bytes]], Any]) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        with zipfile.ZipFile(folder / "m.skops") as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        change(members)
        (folder / "x.skops").write_bytes(as_zip(members))

    return make


def _model_array(values: Callable[[], np.ndarray]) -> Callable[[Path], Any]:
    """Replace an array of a model."""

    def change(members: dict[str, bytes]) -> None:
        members[next(name for name in members if name.endswith(".npy"))] = saved(values())

    return _model(change)


def _model_cycle(members: dict[str, bytes]) -> None:
    schema = json.loads(members["schema.json"])
    node = {"__class__": "dict", "__module__": "builtins", "__loader__": "CachedNode", "__id__": 1}
    schema["content"] = node
    members["schema.json"] = json.dumps(schema).encode()


def _linked(name: str, target: str) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return make


def _pipe(name: str) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return make


def _folder(name: str) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()
        (folder / name / "inside").write_bytes(b"precious")

    return make


def _written(name: str, *parts: bytes) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes(b"".join(parts))


def _each(form: tuple[str, ...] | str, name: str) -> tuple[str, ...]:
    forms = (form,) if isinstance(form, str) else form
    return tuple(one.format(name) for one in forms)


_OF_RUN = {"results": "results.csv", "run.json": "run.json", "report": "report.html", "lock": ".lock"}
_NESTED, _LISTS = b'{"content": ' * 50_000 + b"1" + b"}" * 50_000, b"[" * 100_000 + b"]" * 100_000
# The commands, and the function that writes the file.
MAKERS: dict[str, tuple[tuple[str, ...], Callable[[Path], Any]]] = {
    "gz bomb": (_each(_FIT, "x.csv.gz"), _gz(b"name,a,kind\n", b"n,1,2\n" * 175_000, 1200)),
    "gz of one line": (_each(_FIT, "x.csv.gz"), _gz(b"name,a,kind\n", b"0" * (1 << 20), 600)),
    "gz of one cell in quotes": (_each(_FIT, "x.csv.gz"), _gz(b'name,a,kind\n"', b"0\n" * (1 << 19), 600)),
    "gz of commas": (_each(_FIT, "x.csv.gz"), _gz(b"name,a,kind\n", b"," * (1 << 20), 200)),
    "gz of a wide header": (_each(_FIT, "x.csv.gz"), _gz(b"name,a,kind", b",b" * (1 << 19), 20)),
    "gz of empty lines": (_each(_FIT, "x.csv.gz"), _gz(b"name,a,kind\n", b"\n" * (1 << 20), 1100)),
    "zip bomb": (_each(_FIT, "x.zip"), _zip_bomb),
    "zip that lies": (_each(_FIT, "x.zip"), _lying_zip),
    "zip of many": (_each(_FIT, "x.zip"), _zip("x.zip", lambda: {f"{i}.csv": b"" for i in range(30_000)})),
    "zip that leads out": (
        _each(_FIT, "x.zip"), _zip("x.zip", lambda: {"../../outside/victim": b"name,a,kind\nn,1,2\n"})
    ),
    "zip in a zip": (
        _each(_FIT, "x.zip"), _zip("x.zip", lambda: {"x.zip": as_zip({"x.csv": b"0" * 10_000_000})})
    ),
    "npz of zeros": (_each(_BARE, "x.npz"), _npz(X=lambda: np.zeros((1 << 21, 90)))),
    "npz of unused": (_each(_BARE, "x.npz"), _npz_members),
    "npz header": (_each(_BARE, "x.npz"), _zip("x.npz", lambda: _npy(1, "<H", _HUGE))),
    "npz long header": (_each(_BARE, "x.npz"), _zip("x.npz", lambda: _npy(2, "<I", _DEEP))),
    "npz of objects": (_each(_BARE, "x.npz"), _npz_pickle),
    "parquet of one word": (_each(_FIT.replace("--id name ", ""), "x.parquet"), _parquet(1_000_000, 20)),
    "parquet of many columns": (_each(_FIT.replace("--id name ", ""), "x.parquet"), _parquet(5, 20_000)),
    "parquet metadata": (_each(_FIT, "x.parquet"), _parquet_metadata),
    "pickle": (_each(_READS, "x.skops"), _pickled_model),
    "model of zeros": (_each(_READS, "x.skops"), _model_array(lambda: np.zeros((1 << 27) + (1 << 26)))),
    "deep model": (_each(_READS, "x.skops"), _model(lambda members: members.update({"schema.json": _NESTED}))),
    "deep note": (_each(_READS, "x.skops"), _model(lambda members: members.update({"labelfold.json": _LISTS}))),
    "model of itself": (_each(_READS, "x.skops"), _model(_model_cycle)),
    "model of objects": (_each(_READS, "x.skops"), _model_array(lambda: np.array([_Runs()], dtype=object))),
    "device": (_each(_FIT, "x.csv"), _linked("x.csv", "/dev/zero")),
    "random device": (_each(_READS, "x.skops"), _linked("x.skops", "/dev/urandom")),
    "pipe among images": (_IMAGES, _pipe("images/kind 1/x.png")),
    "device among images": (_IMAGES, _linked("images/kind 1/x.png", "/dev/zero")),
    "program as image": (_IMAGES, _written("images/kind 1/x.png", _PROGRAM)),
    "endless link": (_each(_FIT, "x.csv"), _linked("x.csv", "x.csv")),
    "link to a folder": (_each(_FIT, "x.csv"), _linked("x.csv", "r")),
    "pipe": (_each(_FIT, "x.csv"), _pipe("x.csv")),
    "pipe as model": (_each(_READS, "x.skops"), _pipe("x.skops")),
    "pipe as output": (("predict m.skops t.csv -o x.csv", "transform m.skops t.csv -o x.csv"), _pipe("x.csv")),
    "device as output": (("predict m.skops t.csv -o x.csv",), _linked("x.csv", "/dev/full")),
    "link as output": (("predict m.skops t.csv -o x.csv",), _linked("x.csv", "t.csv.gz")),
    "folder as output": (("predict m.skops t.csv -o x.csv",), _folder("x.csv")),
    **{f"pipe as {what}": (_RUN, _pipe(f"r/{name}")) for what, name in _OF_RUN.items()},
    **{f"folder as {what}": (_RUN, _folder(f"r/{name}")) for what, name in _OF_RUN.items()},
    **{
        f"link as {what}": (_RUN, _linked(f"r/{name}", "../../outside/victim"))
        for what, name in (_OF_RUN | {"model": "model.skops"}).items()
    },
    "device as results": (_RUN, _linked("r/results.csv", "/dev/zero")),
    "device as run.json": (_RUN, _linked("r/run.json", "/dev/zero")),
    "zeros as results": (_RUN, _written("r/results.csv", bytes(50_000_000))),
    "zeros as run.json": (_RUN, _written("r/run.json", bytes(50_000_000))),
    "pipe as journal": (_LABEL, _pipe("t.labels.csv")),
    "folder as journal": (_LABEL, _folder("t.labels.csv")),
    "device as journal": (_LABEL, _linked("t.labels.csv", "/dev/zero")),
    "zeros as journal": (_LABEL, _written("t.labels.csv", bytes(50_000_000))),
    "long line in journal": (_LABEL, _written("t.labels.csv", _HEADER, b"1,,", b"x" * 50_000_000, b",t,a,k,,,\n")),
    "many lines in journal": (_LABEL, _written("t.labels.csv", _HEADER, b"1,row 0,x,t,a,click,,,\n" * 500_000)),
    "many classes in journal": (_LABEL, _written("t.labels.csv", _HEADER,
        b"".join(b"%d,row %d,class %d,t%d,a,click,,,\n" % (i % 60 + 1, i % 60, i, i) for i in range(100_000)))),
    "odd cells in journal": (_LABEL, _written("t.labels.csv", _HEADER, b"9" * 500 + b",,a,t,a,click,,,\n",
        b"2,row 1,\x1b[31m,t,\x1b[2J,click,,nan,\n3,row 2,a,\xff,a,\x00,,1e999,\n0,row 3,b,t,a,undo,,,\n")),
    "quotes in journal": (_LABEL, _written("t.labels.csv", _HEADER, b'1,"' * 1_000_001)),
    "zeros as csv": (_each(_FIT, "x.csv"), _written("x.csv", bytes(50_000_000))),
    "one long line": (_each(_FIT, "x.csv"), _written("x.csv", b"name,a,kind\n", b"1" * 100_000_000)),
    "quotes": (_each(_FIT, "x.csv"), _written("x.csv", b"name,a,kind\n", b'"' * 5_000_001)),
    "many columns": (_each(_FIT, "x.csv"), _written("x.csv", b"name,kind", b",a" * 99_999, b"\nn,k", b",1" * 99_999)),
    "index": (_each(_BARE, "x.svmlight"), _written("x.svmlight", b"1 2147483647:1\n0 1:1\n" * 9)),
    "many indices": (_each(_BARE, "x.svmlight"), _written("x.svmlight", b"1 99999:1\n0 1:1\n" * 9)),
}  # fmt: skip
