"""Rows of a dense array-API array (torch, CuPy, ...): worked on where they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_cupy_array, is_torch_array

from labelfold._warn import warn_user
from labelfold.rows._block_sums import unshift
from labelfold.rows._blocks import Block, DenseBlock
from labelfold.rows._protocol import RowFunction, Rows
from labelfold.rows._sums import ArrayTerm, Term, Together
from labelfold.rows.adapters._local import (
    LocalRows,
    Mapped,
    check_finite,
    check_two_dimensional,
    even_cuts,
    floating,
    not_finite,
)
from labelfold.rows.adapters._memory import memory_rows
from labelfold.rows.loops import _divergence as divergence
from labelfold.rows.loops import _placement as placement

# A device is fed in large pieces, since every operation has to be sent there; smaller ones where its memory does not
# hold what a pass makes of them. Tensors on the host have none of that, and the size bounds what a pass allocates.
DEVICE_BYTES, HOST_BYTES = 1 << 30, 64 << 20
LEAST_DEVICE_BYTES = 1 << 20

# Sums over so many rows are kept in the dtype of X, and are added up in float64.
RUN = 1024

# A centre is subtracted from products rather than from the rows where no column's mean square is more than this share
# of centre: the products are then hardly larger before than after, and lose no digits.
_LATE = 0.95


class DeviceBlock(Block):
    """Rows held in an array-API array: nothing in place, and only what the standard has.

    Rows in float64, less a vector or weighted, are not formed for products with narrow matrices: those are made with
    the rows as they are stored, and then mended. Sums over many rows are in float64 in any case.

    Parameters
    ----------
    stored : array of shape (m, d)
        The rows as they are stored.
    xp : namespace
        Of the array.
    owner : DeviceRows, optional
        The rows that the block is of, where they are stored so.
    center : array of shape (d,), optional
        Subtracted from every row.
    weights : array of shape (m,), optional
        What each row is then multiplied by.
    dtype : dtype, optional
        What results are in, where that is not the dtype of the rows.
    """

    def __init__(
        self,
        stored: Any,
        xp: Any,
        owner: DeviceRows | None = None,
        center: Any = None,
        weights: Any = None,
        dtype: Any = None,
    ) -> None:
        self.stored, self.xp, self.owner = stored, xp, owner
        self.center, self.weights = center, weights
        self.shape = tuple(stored.shape)
        self.dtype = stored.dtype if dtype is None else dtype

    @cached_property
    def X(self) -> Any:
        """The rows, formed."""
        X = self.stored
        if self.center is not None:
            X = X - self.xp.astype(self.center, self.dtype, copy=False)
        X = self.xp.astype(X, self.dtype, copy=False)
        return (
            X if self.weights is None else X * self.xp.astype(self.weights, self.dtype, copy=False)[:, None]
        )

    @property
    def raw(self) -> Any:
        """The rows."""
        return self.X

    def _like(self, M: Any, dtype: Any = None) -> Any:
        dtype = self.stored.dtype if dtype is None else dtype
        if isinstance(M, np.ndarray):
            return self.xp.asarray(_plain(M), dtype=dtype, device=device(self.stored))
        return self.xp.astype(M, dtype, copy=False)

    def __matmul__(self, M: Any) -> Any:
        H = self.stored @ self._like(M)
        if self.center is not None:
            shifts = wide(self.xp, self._like(self.center)) @ wide(self.xp, self._like(M))
            H = H - self._like(shifts)
        if self.weights is not None:
            H = H * _column(self._like(self.weights), H.ndim)
        return self.xp.astype(H, self.dtype, copy=False)

    def t(self, H: Any) -> Term:
        """Return X'H."""
        H = self._like(H)
        if self.weights is not None:
            H = H * _column(self._like(self.weights), H.ndim)
        product = ArrayTerm(by_runs(self.xp, _products, self.stored, H))
        if self.center is None:
            return product
        return Together(partial(_unshift, center=self.center), product, by_runs(self.xp, _sums, H))

    def gram(self) -> Term:
        """Return X'X."""
        return ArrayTerm(by_runs(self.xp, _products, self.X, self.X))

    def colsum(self) -> Any:
        """Return the sum of the rows, added up in float64."""
        if self.weights is not None:
            return self.t(self.xp.ones_like(self.weights))
        total = by_runs(self.xp, _sums, self.stored)
        if self.center is None:
            return total
        return Together(partial(_unshift, center=self.center), total, float(self.shape[0]))

    def colsq(self) -> Any:
        """Return the squared norm of each column."""
        return by_runs(self.xp, _squares, self.X)

    def sq(self) -> Any:
        """Return the squared norm of each row."""
        X = self.stored if self.center is None and self.weights is None else self.X
        return self.xp.astype(self.xp.linalg.vector_norm(X, axis=1), self.dtype, copy=False) ** 2

    def min(self) -> Any:
        """Return the smallest entry of each row."""
        X = self.stored if self.center is None and self.weights is None else self.X
        return self.xp.astype(self.xp.min(X, axis=1), self.dtype, copy=False)

    def kl_rows(self, H: Any, V: Any) -> Any:
        """Return R V, R = X / (H V')."""
        return divergence.ratio_rows(self.xp, self.X, self._like(H), self._like(V))

    def kl_sums(self, H: Any, V: Any, v: Any) -> Term:
        """Return R'H and the divergence."""
        return divergence.DenseRatioSums(self.xp, self.X, self._like(H), self._like(V))

    def kl_place(self, V: Any, v: Any, tol: float, rounds: int) -> Any:
        """Return the H of least divergence."""
        return placement.place(self.xp, self.X, self._like(V), self._like(v), tol, rounds)

    def shift(self, center: Any) -> DeviceBlock:
        """Return the shifted rows."""
        is_plain = self.center is None and self.weights is None
        if is_plain and self.owner is not None and self.owner.may_shift_late(center):
            return DeviceBlock(self.stored, self.xp, self.owner, center, None, self.dtype)
        return DeviceBlock(self.X - self._like(center, self.dtype), self.xp)

    def scale(self, weights: Any) -> DeviceBlock:
        """Return the weighted rows."""
        weights = self._like(weights)
        if self.weights is not None:
            weights = weights * self._like(self.weights)
        return DeviceBlock(self.stored, self.xp, self.owner, self.center, weights, self.dtype)

    def apply(self, transform: Callable[[Any], Any]) -> DeviceBlock:
        """Return the features of the rows, made on the host."""
        return DeviceBlock(self._like(np.asarray(transform(to_host(self.X))), self.dtype), self.xp)

    def double(self) -> DeviceBlock:
        """Return the rows in float64, where the device has it; products with them keep the digits of X."""
        if not has_float64(self.xp, self.stored):
            return self
        return DeviceBlock(self.stored, self.xp, self.owner, self.center, self.weights, self.xp.float64)

    def qr(self, H: Any) -> Term:
        """Return the triangular factor of [X, H], made on the host."""
        return DenseBlock(to_host(self.X)).qr(to_host(H))

    def dense(self) -> np.ndarray:
        """Return the rows on the host."""
        return to_host(self.X)


class DeviceRows(LocalRows):
    """Rows of an array-API array, in large blocks, one after another."""

    def __init__(self, X: Any) -> None:
        check_two_dimensional(X.ndim)
        self.xp = array_namespace(X)
        self.device = device(X)
        name = str(X.dtype).rpartition(".")[2]
        if "sparse" in str(getattr(X, "layout", "")):
            raise ValueError("X is a sparse tensor, where a dense one or a SciPy sparse matrix is expected")
        if name in ("float16", "bfloat16"):
            warn_user(f"X holds {name} values, which are worked on in float32; results are float32")
            name = "float32"
        try:
            stored = np.dtype(name)
        except TypeError:
            raise ValueError(
                f"X holds {name} values, which NumPy does not have; convert X to float32"
            ) from None
        self.dtype = floating(stored)
        self._dtype = getattr(self.xp, self.dtype.name)
        self.X = X
        n, d = X.shape
        self.shape = int(n), int(d)
        self._bytes = HOST_BYTES if "cpu" in str(self.device).lower() else DEVICE_BYTES
        self._mean_squares: np.ndarray | None = None
        # Shared arrays of the pass under way, on the host: what is decided by them takes no copy back.
        self._at_hand: dict[int, np.ndarray] = {}

    def cuts(self) -> np.ndarray:
        """Return the block boundaries."""
        return even_cuts(self.shape[0], int(max(1, self._bytes // max(1, self.row_bytes()))))

    def block(self, start: int, stop: int) -> DeviceBlock:
        """Return rows ``start`` to ``stop``."""
        return DeviceBlock(self.xp.astype(self.X[start:stop, ...], self._dtype, copy=False), self.xp, self)

    def sweep(
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
    ) -> tuple[Any, Any]:
        """Make one pass; before the first one values are checked to be finite. Blocks become smaller where needed."""
        self._survey()
        while True:
            try:
                return super().sweep(f, *aligned, shared=shared, most_rows=most_rows)
            except Exception as error:
                if type(error).__name__ != "OutOfMemoryError":
                    raise
                if self._bytes <= LEAST_DEVICE_BYTES:
                    raise MemoryError(
                        f"{self.device} has too little free memory for a pass over X of {self.shape[0]} rows and "
                        f"{self.shape[1]} columns, even {self._bytes >> 20} MB at a time; free some of it, or pass X "
                        "as a NumPy array"
                    ) from error
            finally:
                self._at_hand.clear()
            self._bytes //= 4
            self.n_passes -= 1

    def n_workers(self) -> int:
        """Return one: the device is parallel by itself."""
        return 1

    def mapped(self) -> Mapped:
        """Return an empty place for row results."""
        return _Concatenated(self.shape[0], self.xp)

    def share(self, value: Any) -> Any:
        """Return an array on the device, floats in the dtype of X; anything else as it is."""
        if not (isinstance(value, np.ndarray) and value.dtype.kind in "fiub"):
            return value
        value = super().share(value)
        # By columns: the products X @ M of narrow M read each column as one piece.
        there = self._to_device(value.T).T if value.ndim == 2 else self._to_device(value)
        self._at_hand[id(there)] = value
        return there

    def put(self, a: Any) -> Any:
        """Return a row-aligned array on the device."""
        return self._to_device(a) if isinstance(a, np.ndarray) else a

    def get(self, h: Any) -> np.ndarray:
        """Return an array as NumPy."""
        return to_host(h)

    def at(self, h: Any, index: np.ndarray) -> np.ndarray:
        """Return some entries of a row-aligned array as NumPy; the others stay on the device."""
        index = np.asarray(index, dtype=np.int64)
        return (
            h[index]
            if isinstance(h, np.ndarray)
            else to_host(self.xp.take(h, self._to_device(index), axis=0))
        )

    def subset(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, on the device."""
        return DeviceRows(self._taken(index))

    def take(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, on the host."""
        taken = to_host(self._taken(index))
        check_finite(taken, np.asarray(index))
        return memory_rows(taken)

    def _taken(self, index: np.ndarray) -> Any:
        taken = self.xp.take(self.X, self._to_device(np.asarray(index, dtype=np.int64)), axis=0)
        return self.xp.astype(taken, self._dtype, copy=False)

    def row_bytes(self) -> float:
        """Return the bytes of one row."""
        return self.shape[1] * self.dtype.itemsize

    def may_shift_late(self, center: Any) -> bool:
        """Return whether a centre may be subtracted from products with the rows in place of the rows."""
        a = self._at_hand.get(id(center))
        if a is None or self._mean_squares is None:
            return False
        return bool((np.asarray(a, dtype=np.float64) ** 2 <= _LATE * self._mean_squares).all())

    def _to_device(self, a: np.ndarray) -> Any:
        return self.xp.asarray(_plain(a), device=self.device)

    def _survey(self) -> None:
        """Learn the mean squares of the columns, once; a value that is not finite shows in them."""
        if self._mean_squares is not None:
            return
        blocks = list(zip(self.cuts()[:-1], self.cuts()[1:], strict=True))
        total: Any = 0.0
        for a, b in blocks:
            norms = self.xp.linalg.vector_norm(self.block(int(a), int(b)).stored, axis=0)
            total = total + wide(self.xp, norms) ** 2
        squares = np.asarray(to_host(total), dtype=np.float64)
        if not np.isfinite(squares).all():
            for a, b in blocks:  # squares may be too large where values are not
                self._check_finite(self.block(int(a), int(b)).stored, int(a))
        self._mean_squares = squares / self.shape[0]

    def _check_finite(self, X: Any, start: int) -> None:
        finite = self.xp.isfinite(X)
        if not bool(self.xp.all(finite)):
            row, column = map(int, np.argwhere(~to_host(finite))[0])
            raise not_finite(float(X[row, column]), start + row, column)


class _Concatenated(Mapped):
    """Row results on a device, joined at the end."""

    def __init__(self, n_rows: int, xp: Any) -> None:
        super().__init__(n_rows)
        self._xp = xp
        self._parts: list[Any] = []

    def write(self, start: int, stop: int, result: Any) -> None:
        self._parts.append(result)

    def result(self) -> Any:
        if not self._parts:
            return None
        return self._parts[0] if len(self._parts) == 1 else self._xp.concat(self._parts, axis=0)


def by_runs(xp: Any, sums: Callable[..., Any], *arrays: Any) -> Any:
    """Return sums over rows in float64: in the dtype of the arrays over short runs, which are then added up.

    ``sums(xp, *arrays)`` takes arrays of shape (runs, rows, ...) and returns one sum for each run.
    """
    m, width = arrays[0].shape[0], arrays[-1].shape[-1] if arrays[-1].ndim > 1 else 1
    if "32" not in str(arrays[0].dtype):
        return sums(xp, *(a[None, ...] for a in arrays))[0, ...]
    run = max(RUN, 4 * width)  # so that the sums of all runs are no larger than the block
    n_runs = m // run
    cut = n_runs * run
    total: Any = None
    if n_runs:
        pieces = (xp.reshape(a[:cut, ...], (n_runs, run, *a.shape[1:])) for a in arrays)
        total = xp.sum(wide(xp, sums(xp, *pieces)), axis=0)
    if cut < m or not n_runs:
        rest = wide(xp, sums(xp, *(a[cut:, ...][None, ...] for a in arrays))[0, ...])
        total = rest if total is None else total + rest
    return total


def _products(xp: Any, X: Any, H: Any) -> Any:
    if H.ndim == 2:
        return _products(xp, X, H[..., None])[..., 0]
    return xp.matrix_transpose(X) @ H


def _sums(xp: Any, H: Any) -> Any:
    return xp.sum(H, axis=1)


def _squares(xp: Any, X: Any) -> Any:
    return xp.linalg.vector_norm(X, axis=1) ** 2


def _unshift(sums: tuple, center: Any) -> np.ndarray:
    return unshift(sums, np.asarray(to_host(center), dtype=np.float64))


def _column(weights: Any, ndim: int) -> Any:
    return weights if ndim == 1 else weights[:, None]


def wide(xp: Any, x: Any) -> Any:
    """Return an array in float64; where a device has none, as it is."""
    return xp.astype(x, xp.float64, copy=False) if has_float64(xp, x) else x


def has_float64(xp: Any, x: Any) -> bool:
    """Return whether the device of an array has float64."""
    return str(device(x)).partition(":")[0] != "mps"


def _plain(a: np.ndarray) -> np.ndarray:
    """Return an array that torch takes without complaint: contiguous and writable, though it is not written to."""
    return np.require(a, requirements=["C", "W"])


def to_host(x: Any) -> np.ndarray:
    """Return an array-API array as NumPy."""
    if isinstance(x, np.ndarray | np.generic | float | int):
        return np.asarray(x)
    if is_torch_array(x):
        return x.detach().cpu().numpy()
    if is_cupy_array(x):
        return x.get()
    namespace = array_namespace(x)
    if hasattr(namespace, "Device"):  # array-api-strict: only its CPU device can be read
        x = x.to_device(namespace.Device("CPU_DEVICE"))
    return np.from_dlpack(x)
