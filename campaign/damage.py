"""Ways to damage a file: its bytes, the content that it packs, and the values in it."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

# Text that is difficult for readers.
TOKENS = [
    b"", b",", b"\n", b"\r", b'"', b'""', b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"nan", b"inf",
    b"-inf", b"1e999", b"-1e-999", b"9" * 400, b"0x10", b"1_000", b"-0", b"=1+1", b"\x1b[31m", "\u202e".encode(),
    b"\t", b";", b"|", b"\\", b"None", b"NA", b"-1", b"a" * 5000, b"1,5", b"1.000.000", b"2020-02-30",
    b"0000-00-00", b"99999-01-01", b"[1,2", b"[[1],[2]]", b"1:2", b"2147483648:1", b"-5:1", b"qid:1", b"# ",
    b"18446744073709551616:1", b"1:nan", b"3:1e400", "\u0661\u0662".encode(), "\U0001f600".encode(), b"''", b"\x1a",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, 0, -1, 2**31, 2**63, 2**70, 10**400, 0.5, -1e308, float("nan"), float("inf"), "", "a", "\x1b[31m",
    "\x00", "os.system", "a" * 10_000, [], {}, [[]], [None], {"a": 1}, [1, "a"], ["a", 1], "../../canary", "nan",
]  # fmt: skip
# Names of objects that a model file must never create.
HOSTILE = [
    ("builtins", "eval"), ("builtins", "exec"), ("builtins", "open"), ("builtins", "getattr"), ("os", "system"),
    ("posix", "system"), ("subprocess", "Popen"), ("shutil", "rmtree"), ("pathlib", "Path"), ("numpy", "load"),
    ("numpy", "memmap"), ("numpy", "fromfile"), ("joblib", "load"), ("pickle", "loads"), ("functools", "partial"),
    ("operator", "methodcaller"), ("ctypes", "CDLL"), ("labelfold", "compare"),
    ("labelfold.app.commands._cli", "main"),
    ("labelfold.saved", "import_module"), ("labelfold", "LDA"), ("sklearn.svm", "SVC"), ("builtins", "dict"),
    ("sklearn.pipeline", "Pipeline"), ("numpy", "ndarray"), ("labelfold.saved", "Tuned"), ("builtins", "object"),
]  # fmt: skip


def any_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return damaged bytes: bits flipped, or parts removed, repeated, moved or overwritten."""
    made = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(made) + 1)
        span = min(int(10 ** rng.uniform(0, 3)), len(made) - at)
        how = rng.randrange(8)
        if how <= 1 and made:
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
        elif how == 2:
            del made[at:]
        elif how == 3:
            del made[at : at + span]
        elif how == 4:
            made[at:at] = made[at : at + span]
        elif how == 5:
            made[at : at + span] = rng.choice([b"\x00", b"\xff", b"\x80", b"9"]) * span
        elif how == 6:
            made[at:at] = rng.randbytes(span)
        else:
            made[at : at + rng.choice([0, 1, 4])] = rng.choice(TOKENS)
    return bytes(made)


def text(data: bytes, rng: random.Random) -> bytes:
    """Return a text table with some cells, lines or separators changed."""
    lines = data.split(b"\n")
    for _ in range(rng.choice([1, 2, 10])):
        i = rng.randrange(len(lines))
        cells = lines[i].split(b",")
        j = rng.randrange(len(cells))
        how = rng.randrange(7)
        if how <= 2:
            cells[j] = rng.choice(TOKENS)
        elif how == 3:
            cells.insert(j, rng.choice(TOKENS))
        elif how == 4:
            del cells[j]
        elif how == 5:
            cells = cells * rng.choice([2, 50])
        else:
            cells = [cells[j]] * len(cells)
        lines[i] = b",".join(cells)
    if rng.random() < 0.2:  # all cells of a column
        token, j = rng.choice(TOKENS), rng.randrange(6)
        rows = [line.split(b",") for line in lines[1:]]
        lines[1:] = [b",".join([*row[:j], token, *row[j + 1 :]]) for row in rows]
    return b"\n".join(lines)


def packed(pack: Callable[[bytes], bytes], unpack: Callable[[bytes], bytes]) -> Callable:
    """Return a function that damages the unpacked content of a file, and packs it again correctly."""
    return lambda data, rng: pack(rng.choice([text, any_bytes])(unpack(data), rng))


def zipped(damage: Callable[[str, bytes, random.Random], bytes]) -> Callable[[bytes, random.Random], bytes]:
    """Return a function that damages a member of a zip archive; checksums are correct afterwards."""

    def damaged(data: bytes, rng: random.Random) -> bytes:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        for _ in range(rng.choice([1, 1, 2, 4])):
            name = rng.choice(list(members))
            how = rng.randrange(12)
            if how == 0:
                del members[name]
            elif how == 1:
                members[rng.choice(["../canary", "/canary", "a" * 300, name + "x"])] = members.pop(name)
            elif how == 2:
                members[name] = members[rng.choice(list(members))]
            else:
                members[name] = damage(name, members[name], rng)
            if not members:
                break
        return as_zip(members)

    return damaged


def as_zip(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def array(name: str, data: bytes, rng: random.Random) -> bytes:
    """Return the bytes of a .npy file with another type, shape, order or content."""
    try:
        values = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:
        return any_bytes(data, rng)
    how = rng.randrange(7)
    if how == 0:
        return any_bytes(data, rng)
    if how == 1:
        header = data[: data.index(b"\n") + 1]
        shape = rng.choice(
            ["(2**40,)", "(1099511627776, 3)", "(-1,)", "()", "(0, 0)", "(4,)", "(1, 1, 1, 1)"]
        )
        start = header.index(b"'shape'")
        new = header[:start] + f"'shape': {shape}, }}".encode()
        return new.ljust(len(header) - 1)[: len(header) - 1] + b"\n" + data[len(header) :]
    if how == 2:
        kind = rng.choice(["<c16", "<f2", ">f8", "|S3", "<U2", "|b1", "<i1", "<M8[s]", "|V8", "<m8[D]"])
        values = np.zeros(values.shape, dtype=kind)
    elif how == 3:
        values = values.reshape(-1)[: rng.randrange(values.size + 1)]
    elif how == 4:
        values = np.asfortranarray(values[None] if rng.random() < 0.5 else values.T)
    elif how == 5 and values.dtype.kind in "fiu" and values.size:
        values = values.copy()
        odd = [np.nan, np.inf, -1e308, 1e308, 1e-320] if values.dtype.kind == "f" else [0, 1, 100]
        values.flat[rng.randrange(values.size)] = rng.choice(odd)
    else:
        values = np.resize(values, [rng.randrange(1, 7) for _ in range(rng.randrange(1, 4))])
    return saved(values)


def saved(values: np.ndarray) -> bytes:
    """Return an array as the bytes of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def tree(value: Any, rng: random.Random) -> Any:
    """Return JSON with a node changed or removed, two swapped, or the name of another class."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice([1, 1, 2, 5])):
        places = list(_places(value))
        if not places:
            return rng.choice(VALUES)
        parent, key = rng.choice(places)
        how = rng.randrange(6)
        if how <= 1:
            parent[key] = rng.choice(VALUES)
        elif how == 2:
            del parent[key]
        elif how == 3:
            other, there = rng.choice(places)
            parent[key] = json.loads(json.dumps(other.get(there) if isinstance(other, dict) else None))
        else:
            classes = [(holder, name) for holder, name in places if name == "__class__"]
            if classes:
                holder, _ = rng.choice(classes)
                holder["__module__"], holder["__class__"] = rng.choice(HOSTILE)
                if rng.random() < 0.3:
                    holder["__loader__"] = rng.choice(_LOADERS)
    return value


_KINDS = ("Object", "Type", "Function", "Method", "Reduce", "Partial", "Json", "Dict")
_LOADERS = [f"{kind}Node" for kind in _KINDS]


def _places(value: Any) -> list[tuple[Any, Any]]:
    found, left = [], [value]
    while left:
        node = left.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []
        found += [(node, key) for key in keys]
        left += [node[key] for key in keys if isinstance(node[key], dict | list)]
    return found


def member(name: str, data: bytes, rng: random.Random) -> bytes:
    """Return a damaged member of a model file, according to its format."""
    if name.endswith(".json"):
        return json.dumps(tree(json.loads(data), rng)).encode()
    return array(name, data, rng)


def one_array(data: bytes, rng: random.Random) -> bytes:
    """Return a .npy file with another type, shape, order or content."""
    return array("", data, rng)


def json_lines(data: bytes, rng: random.Random) -> bytes:
    """Return lines of JSON with other values, or other text."""
    lines = data.splitlines()
    for _ in range(rng.choice([1, 2, 10])):
        i = rng.randrange(len(lines))
        if rng.random() < 0.3:
            lines[i] = rng.choice([*TOKENS, b"[" * 10_000, b'{"a":' * 10_000, lines[i] * 2, b"[1, 2]"])
        else:
            try:
                lines[i] = plain_json(lines[i], rng)
            except ValueError:
                continue
    return b"\n".join(lines)


def markup(name: str, data: bytes, rng: random.Random) -> bytes:
    """Return XML with other text, references to itself, or another element."""
    if rng.random() < 0.15:
        entities = b"".join(b'<!ENTITY l%d "%s">' % (i + 1, b"&l%d;" % i * 10) for i in range(12))
        head = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "lol">' + entities + b"]>"
        return head + data.split(b"?>", 1)[-1].replace(b"<v>", b"<v>&l12;")
    if rng.random() < 0.3:
        odd = [b"1048577", b"XFE99999999", b"-1", b"4294967296", b"nan", b"99999999999999999999"]
        numbers = [found.span() for found in re.finditer(rb"[0-9]+", data)]
        if numbers:
            start, end = rng.choice(numbers)
            return data[:start] + rng.choice(odd) + data[end:]
    return any_bytes(data, rng)


def plain_json(data: bytes, rng: random.Random) -> bytes:
    """Return a JSON file with other values."""
    return json.dumps(tree(json.loads(data), rng)).encode()


def zst(data: bytes, pack: bool = True) -> bytes:
    """Pack or unpack with Zstandard."""
    import pyarrow as pa

    if pack:
        return pa.compress(data, codec="zstd", asbytes=True)
    return pa.input_stream(io.BytesIO(data), compression="zstd").read()


PACKED: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "gz": (gzip.compress, gzip.decompress),
    "bz2": (bz2.compress, bz2.decompress),
    "zst": (zst, lambda data: zst(data, pack=False)),
    "zip": (
        lambda data: as_zip({"t.csv": data}),
        lambda data: zipfile.ZipFile(io.BytesIO(data)).read("t.csv"),
    ),
}
