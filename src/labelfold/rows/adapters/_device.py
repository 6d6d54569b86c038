"""Rows of a dense array-API array (torch, CuPy, ...): worked on where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_cupy_array, is_torch_array

from labelfold.rows._blocks import Block, DenseBlock
from labelfold.rows._protocol import RowFunction, Rows
from labelfold.rows._sums import ArrayTerm, Term
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

# A device is fed in large pieces; on a host the same size still bounds what a pass allocates.
DEVICE_BYTES = 64 << 20


class DeviceBlock(Block):
    """Rows held in an array-API array: nothing in place, and only what the standard has."""

    def __init__(self, X: Any, xp: Any) -> None:
        self.X = X
        self.xp = xp
        self.shape = tuple(X.shape)
        self.dtype = X.dtype

    @property
    def raw(self) -> Any:
        """The rows."""
        return self.X

    def _like(self, M: Any) -> Any:
        if isinstance(M, np.ndarray):
            return self.xp.asarray(_plain(M), dtype=self.dtype, device=device(self.X))
        return self.xp.astype(M, self.dtype, copy=False)

    def __matmul__(self, M: Any) -> Any:
        return self.X @ self._like(M)

    def t(self, H: Any) -> Term:
        """Return X'H."""
        return ArrayTerm(self.X.T @ self._like(H))

    def gram(self) -> Term:
        """Return X'X."""
        return ArrayTerm(self.X.T @ self.X)

    def colsum(self) -> Any:
        """Return the sum of the rows."""
        return self.xp.sum(self.X, axis=0)

    def colsq(self) -> Any:
        """Return the squared norm of each column."""
        return self.xp.sum(self.X * self.X, axis=0)

    def sq(self) -> Any:
        """Return the squared norm of each row."""
        return self.xp.sum(self.X * self.X, axis=1)

    def min(self) -> Any:
        """Return the smallest entry of each row."""
        return self.xp.min(self.X, axis=1)

    def shift(self, center: Any) -> DeviceBlock:
        """Return the shifted rows."""
        return DeviceBlock(self.X - self._like(center), self.xp)

    def scale(self, weights: Any) -> DeviceBlock:
        """Return the weighted rows."""
        return DeviceBlock(self.X * self._like(weights)[:, None], self.xp)

    def apply(self, transform: Callable[[Any], Any]) -> DeviceBlock:
        """Return the features of the rows, made on the host."""
        return DeviceBlock(self._like(np.asarray(transform(to_host(self.X)))), self.xp)

    def double(self) -> DeviceBlock:
        """Return the rows in float64, where the device has it."""
        try:
            return DeviceBlock(self.xp.astype(self.X, self.xp.float64, copy=False), self.xp)
        except (TypeError, RuntimeError):
            return self

    def qr(self, H: Any) -> Term:
        """Return the triangular factor of [X, H], made on the host."""
        return DenseBlock(to_host(self.X)).qr(to_host(H))


class DeviceRows(LocalRows):
    """Rows of an array-API array, in large blocks, one after another."""

    def __init__(self, X: Any) -> None:
        check_two_dimensional(X.ndim)
        self.xp = array_namespace(X)
        self.device = device(X)
        name = str(X.dtype).rpartition(".")[2]
        if "sparse" in str(getattr(X, "layout", "")):
            raise ValueError("X is a sparse tensor, where a dense one or a SciPy sparse matrix is expected")
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
        self._checked = False

    def cuts(self) -> np.ndarray:
        """Return the block boundaries."""
        return even_cuts(self.shape[0], int(max(1, DEVICE_BYTES // max(1, self.row_bytes()))))

    def block(self, start: int, stop: int) -> DeviceBlock:
        """Return rows ``start`` to ``stop``."""
        X = self.xp.astype(self.X[start:stop, ...], self._dtype, copy=False)
        if not self._checked:
            self._check_finite(X, start)
        return DeviceBlock(X, self.xp)

    def sweep(
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
    ) -> tuple[Any, Any]:
        """Make one pass; the first one checks that the values are finite."""
        answer = super().sweep(f, *aligned, shared=shared, most_rows=most_rows)
        self._checked = True
        return answer

    def n_workers(self) -> int:
        """Return one: the device is parallel by itself."""
        return 1

    def mapped(self) -> Mapped:
        """Return an empty place for row results."""
        return _Concatenated(self.shape[0], self.xp)

    def share(self, value: Any) -> Any:
        """Return an array on the device, floats in the dtype of X; anything else as it is."""
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            return self._to_device(super().share(value))
        return value

    def put(self, a: Any) -> Any:
        """Return a row-aligned array on the device."""
        return self._to_device(a) if isinstance(a, np.ndarray) else a

    def get(self, h: Any) -> np.ndarray:
        """Return an array as NumPy."""
        return to_host(h)

    def pick(self, h: Any, index: np.ndarray) -> np.ndarray:
        """Return some entries of a row-aligned array as NumPy."""
        return to_host(self.xp.take(self.put(h), self._to_device(np.asarray(index, dtype=np.int64)), axis=0))

    def take(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, on the host."""
        index = np.asarray(index, dtype=np.int64)
        taken = to_host(self.xp.take(self.X, self._to_device(index), axis=0))
        check_finite(taken, index)
        return memory_rows(taken)

    def row_bytes(self) -> float:
        """Return the bytes of one row."""
        return self.shape[1] * self.dtype.itemsize

    def _to_device(self, a: np.ndarray) -> Any:
        return self.xp.asarray(_plain(a), device=self.device)

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
