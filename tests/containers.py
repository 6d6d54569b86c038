"""Every container the library reads, made from one dense array: "the same answer in every container"."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse


@dataclass(frozen=True)
class Container:
    """A way to hold a dense array: ``make(X)`` returns X in it.

    ``kind`` is the adapter that is meant to read it: memory, file, blocks, device or dask. ``needs`` names a
    package without which tests of the container are skipped; ``is_sparse`` where zeros are not stored.
    """

    name: str
    kind: str
    build: Callable[[np.ndarray, Path], Any]
    needs: str | None = None
    is_sparse: bool = False
    folder: Path | None = None

    def make(self, X: np.ndarray) -> Any:
        """Return X in this container."""
        return self.build(np.array(X), self.folder)

    def within(self, folder: Path) -> Container:
        """Return the same container, its files in ``folder``."""
        return replace(self, folder=folder)

    def __repr__(self) -> str:
        return self.name


def _strided(X: np.ndarray, folder: Path) -> np.ndarray:
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), dtype=X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def _read_only(X: np.ndarray, folder: Path) -> np.ndarray:
    X.flags.writeable = False
    return X


def _int64_indices(X: np.ndarray, folder: Path) -> sparse.csr_array:
    csr = sparse.csr_array(X)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return csr


def _untidy(X: np.ndarray, folder: Path) -> sparse.csr_array:
    """Store each value as two that add up to it (halves, where that is exact), columns in falling order."""
    rows, columns = np.nonzero(X)
    order = np.lexsort((-columns, rows))
    rows, columns = rows[order], columns[order]
    values = X[rows, columns]
    if X.dtype.kind == "f":
        first = values / 2
        # The other half: of the smallest numbers there are it is more or less, and of infinity the same.
        second = np.subtract(values, first, out=first.copy(), where=np.isfinite(values))
    else:
        first, second = values, np.zeros_like(values)
    data = np.column_stack([first, second]).ravel()
    indptr = np.concatenate([[0], 2 * np.cumsum(np.bincount(rows, minlength=len(X)))])
    csr = sparse.csr_array((data, np.repeat(columns, 2), indptr), shape=X.shape)
    assert not csr.has_canonical_format or csr.nnz == 0
    return csr


def _frame(X: np.ndarray, folder: Path) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])


def _npy(X: np.ndarray, folder: Path) -> Path:
    path = _new_file(folder)
    np.save(path, X)
    return path


def _npy_text(X: np.ndarray, folder: Path) -> str:
    return str(_npy(X, folder))


def _npy_fortran(X: np.ndarray, folder: Path) -> Path:
    return _npy(np.asfortranarray(X), folder)


def _parquet(X: np.ndarray, folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = _new_file(folder).with_suffix(".parquet")
    pq.write_table(pa.table({f"x{j}": np.ascontiguousarray(X[:, j]) for j in range(X.shape[1])}), path)
    return path


def _memmap(X: np.ndarray, folder: Path) -> np.memmap:
    return np.load(_npy(X, folder), mmap_mode="r")


def _memmap_slice(X: np.ndarray, folder: Path) -> np.memmap:
    padded = np.vstack(
        [np.full((5, X.shape[1]), 99, dtype=X.dtype), X, np.full((3, X.shape[1]), 99, dtype=X.dtype)]
    )
    return _memmap(padded, folder)[5 : 5 + len(X)]


def _memmap_offset(X: np.ndarray, folder: Path) -> np.memmap:
    path = _new_file(folder)
    path.write_bytes(b"#" * 4104 + X.tobytes())
    return np.memmap(path, dtype=X.dtype, mode="r", offset=4104, shape=X.shape)


def _memmap_copy_on_write(X: np.ndarray, folder: Path) -> np.memmap:
    """Map a file of other values and write X over them: the truth is in memory, not in the file."""
    mapped = np.load(_npy(np.ones_like(X), folder), mmap_mode="c")
    mapped[:] = X
    return mapped


def _new_file(folder: Path) -> Path:
    return folder / f"X{len(list(folder.glob('X*')))}.npy"


def uneven(n: int) -> list[int]:
    """Return boundaries of uneven blocks of n rows, an empty one among them."""
    cuts = sorted({0, 1, n // 4, n // 4 + n // 3, n} & set(range(n + 1)))
    middle = len(cuts) // 2
    return [*cuts[: middle + 1], cuts[middle], *cuts[middle + 1 :]]


def split(X: np.ndarray) -> list[np.ndarray]:
    """Return uneven blocks of X, an empty one among them."""
    cuts = uneven(len(X))
    return [X[a:b] for a, b in pairwise(cuts)]


def _blocks(X: np.ndarray, folder: Path) -> list[np.ndarray]:
    return split(X)


def _sparse_blocks(X: np.ndarray, folder: Path) -> list[sparse.csr_array]:
    return [sparse.csr_array(block) for block in split(X)]


def _mixed_blocks(X: np.ndarray, folder: Path) -> list[Any]:
    return [sparse.csr_matrix(block) if i % 2 else block for i, block in enumerate(split(X))]


def _function(X: np.ndarray, folder: Path) -> Callable:
    return lambda: iter(split(X))


class _Iterable:
    def __init__(self, blocks: list) -> None:
        self.blocks = blocks

    def __iter__(self) -> Any:
        yield from self.blocks


def _iterable(X: np.ndarray, folder: Path) -> _Iterable:
    return _Iterable(split(X))


def _strict(device: str) -> Callable:
    def build(X: np.ndarray, folder: Path) -> Any:
        import array_api_strict as xp

        return xp.asarray(X, device=xp.Device(device))

    return build


def _torch(X: np.ndarray, folder: Path) -> Any:
    import torch

    return torch.from_numpy(X).to(os.environ.get("LABELFOLD_TEST_DEVICE", "cpu"))


def _chunked(X: np.ndarray, columns: tuple[int, ...], hold: Callable) -> Any:
    """Return a Dask array with uneven row chunks, an empty one among them: Dask's own cutting drops those."""
    import dask.array as da

    name = f"chunks-{next(_numbers)}"
    chunks = (tuple(np.diff(uneven(len(X))).tolist()), columns)
    graph = {
        (name, i, j): hold(part)
        for i, band in enumerate(split(X))
        for j, part in enumerate(np.split(band, np.cumsum(columns)[:-1], axis=1))
    }
    return da.Array(graph, name, chunks, dtype=X.dtype)


_numbers = count()


def _dask(X: np.ndarray, folder: Path) -> Any:
    d = X.shape[1]
    return _chunked(X, (d // 2, d - d // 2) if d > 1 else (d,), np.array)


def _dask_sparse(X: np.ndarray, folder: Path) -> Any:
    return _chunked(X, (X.shape[1],), sparse.csr_matrix)


CONTAINERS = [
    Container("numpy", "memory", lambda X, folder: np.ascontiguousarray(X)),
    Container("numpy-fortran", "memory", lambda X, folder: np.asfortranarray(X)),
    Container("numpy-strided", "memory", _strided),
    Container("numpy-read-only", "memory", _read_only),
    Container("pandas", "memory", _frame),
    Container("csr_matrix", "memory", lambda X, folder: sparse.csr_matrix(X), is_sparse=True),
    Container("csr_array", "memory", lambda X, folder: sparse.csr_array(X), is_sparse=True),
    Container("csc", "memory", lambda X, folder: sparse.csc_array(X), is_sparse=True),
    Container("csr-int64", "memory", _int64_indices, is_sparse=True),
    Container("csr-untidy", "memory", _untidy, is_sparse=True),
    Container("npy", "file", _npy),
    Container("npy-fortran", "file", _npy_fortran),
    Container("parquet", "file", _parquet, needs="pyarrow"),
    Container("memmap", "file", _memmap),
    Container("memmap-slice", "file", _memmap_slice),
    Container("memmap-offset", "file", _memmap_offset),
    Container("memmap-copy-on-write", "memory", _memmap_copy_on_write),
    Container("blocks", "blocks", _blocks),
    Container("sparse-blocks", "blocks", _sparse_blocks, is_sparse=True),
    Container("mixed-blocks", "blocks", _mixed_blocks, is_sparse=True),
    Container("function", "blocks", _function),
    Container("iterable", "blocks", _iterable),
    Container("strict-cpu", "device", _strict("CPU_DEVICE"), needs="array_api_strict"),
    Container("strict-device1", "device", _strict("device1"), needs="array_api_strict"),
    Container("torch", "device", _torch, needs="torch"),
    Container("dask", "dask", _dask, needs="dask"),
    Container("dask-sparse", "dask", _dask_sparse, needs="dask", is_sparse=True),
]


# One container of each adapter, and of each kind of block. Dense arrays are in Fortran order here, since what they
# are compared with is in C order. array-api-strict allows only what the standard has; torch departs from it.
ONE_EACH = ("numpy-fortran", "csr_array", "npy", "sparse-blocks", "strict-device1", "torch", "dask")


def params(*kinds: str) -> list:
    """Return the containers of these kinds (all, when none is named) as parameters of a fixture or a test."""
    return [_param(container) for container in CONTAINERS if not kinds or container.kind in kinds]


def one_each() -> list:
    """Return one container of each adapter, as parameters of a fixture."""
    return [_param(container) for container in CONTAINERS if container.name in ONE_EACH]


def _param(container: Container) -> Any:
    return pytest.param(container, id=container.name, marks=_unless_installed(container.needs))


def _unless_installed(package: str | None) -> list:
    if package is None:
        return []
    missing = importlib.util.find_spec(package) is None
    return [pytest.mark.skipif(missing, reason=f"{package} is not installed")]
