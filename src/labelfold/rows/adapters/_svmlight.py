"""Decodes svmlight text with scikit-learn, some lines at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from labelfold.rows._protocol import Rows
from labelfold.rows.adapters._cache import Cache
from labelfold.rows.adapters._local import all_finite
from labelfold.rows.adapters._memory import memory_rows

# Bytes of text that are decoded at a time.
CHUNK = 4 << 20


def lines_of(file: BinaryIO, end: int, size: int, *, quoted: bool = False) -> Iterator[bytes]:
    r"""Yield the rest of a file up to byte ``end`` in chunks of about ``size`` bytes that end with a line.

    With ``quoted`` a line may go on within quotes.

    >>> list(lines_of(io.BytesIO(b"1,2\n3,4\n5"), 9, 5))
    [b'1,2\n', b'3,4\n', b'5']
    >>> list(lines_of(io.BytesIO(b'1,"a\nb"\n2,"c"'), 14, 5, quoted=True))
    [b'1,"a\nb"\n', b'2,"c"']
    """
    left = b""
    while part := file.read(
        min(size, max(0, end - file.tell()))
    ):  # another process may be writing to the file
        left += part
        cut = left.rfind(b"\n") + 1
        while quoted and cut and left.count(b'"', 0, cut) % 2:
            cut = left.rfind(b"\n", 0, cut - 1) + 1
        if cut:
            yield left[:cut]
            left = left[cut:]
    if left:
        yield left


def decode_svmlight(path: Path, file: BinaryIO, cache: Cache, n_columns: int | None) -> tuple[Rows, Any]:
    """Write the rows of svmlight text to the cache; return them, and the first number of each line."""
    from sklearn.datasets import load_svmlight_file

    size = path.stat().st_size
    labels: list[np.ndarray] = []
    first, last = 1, 0
    for text in lines_of(file, size, CHUNK):
        try:
            X, y = load_svmlight_file(io.BytesIO(text), zero_based=True)
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"{path} is not svmlight text ({error}), where each line holds a label and index:value for each "
                f"entry; correct it after row {cache.starts[-1]}"
            ) from error
        if not X.shape[0]:
            continue
        first, last = min(first, int(X.indices.min(initial=1))), max(last, X.shape[1])
        if not all_finite(X.data):
            memory_rows(X[:, first:], first_row=cache.starts[-1])  # raises an error that names the value
        cache.keep(X, size / len(text))
        labels.append(y)
    d = last - first
    if n_columns is not None and d > n_columns:
        raise ValueError(
            f"{path} has {d} columns, where at most {n_columns} are expected; leave out further columns"
        )
    d = max(d, 1) if n_columns is None else n_columns
    return cache.rows(d, first_column=first), np.concatenate(labels)
