"""Blocks of an array-API array (torch, CuPy, ...), and copies to the host."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_cupy_array, is_torch_array

from labelfold.rows._block_sums import unshift
from labelfold.rows._blocks import Block
from labelfold.rows._sums import ArrayTerm, Term, Together
from labelfold.rows.loops import fused

# Number of rows whose sums are computed in the dtype of X; these sums are then added in float64.
RUN = 1024


class DeviceBlock(Block):
    """Rows in an array-API array, without in-place operations, and with functions of the standard only.

    Rows in float64, shifted or weighted rows are not computed explicitly for products with narrow matrices. The
    products are computed with the stored rows and then corrected. Sums over many rows are always in float64.

    Parameters
    ----------
    stored : array of shape (m, d)
        The rows as they are stored.
    xp : namespace
        Namespace of the array.
    may_shift_late : callable, optional
        Decides whether a centre may be subtracted from products instead of the rows; never if it is None.
    center : array of shape (d,), optional
        Subtracted from every row.
    weights : array of shape (m,), optional
        Weights by which the rows are then multiplied.
    dtype : dtype, optional
        The dtype of results, if it is not that of the rows.
    """

    def __init__(
        self,
        stored: Any,
        xp: Any,
        may_shift_late: Callable[[Any], bool] | None = None,
        center: Any = None,
        weights: Any = None,
        dtype: Any = None,
    ) -> None:
        self.stored, self.xp, self.may_shift_late = stored, xp, may_shift_late
        self.center, self.weights = center, weights
        self.shape = tuple(stored.shape)
        self.dtype = stored.dtype if dtype is None else dtype

    @cached_property
    def X(self) -> Any:
        """The rows, computed explicitly."""
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
            return self.xp.asarray(plain(M), dtype=dtype, device=device(self.stored))
        return self.xp.astype(M, dtype, copy=False)

    def __matmul__(self, M: Any) -> Any:
        H = _narrow_product(self.stored, self._like(M))
        if self.center is not None:
            shifts = wide(self.xp, self.center) @ wide(self.xp, self._like(M))
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

    def shift(self, center: Any, rest: Any = None) -> DeviceBlock:
        """Return the shifted rows."""
        is_plain = self.center is None and self.weights is None
        if is_plain and self.may_shift_late is not None and self.may_shift_late(center):
            center = wide(self.xp, center) if rest is None else wide(self.xp, center) + wide(self.xp, rest)
            return DeviceBlock(self.stored, self.xp, self.may_shift_late, center, None, self.dtype)
        X = self.X - self._like(center, self.dtype)
        return DeviceBlock(X if rest is None else X - self._like(rest, self.dtype), self.xp)

    def scale(self, weights: Any) -> DeviceBlock:
        """Return the weighted rows."""
        weights = self._like(weights)
        if self.weights is not None:
            weights = weights * self._like(self.weights)
        return DeviceBlock(self.stored, self.xp, self.may_shift_late, self.center, weights, self.dtype)

    def apply(self, transform: Callable[[Any], Any]) -> DeviceBlock:
        """Return the features of the rows, computed on the host."""
        return DeviceBlock(self._like(np.asarray(transform(to_host(self.X))), self.dtype), self.xp)

    def double(self) -> DeviceBlock:
        """Return the rows in float64, if the device has it; products with them keep the digits of X."""
        if not has_float64(self.xp, self.stored):
            return self
        return DeviceBlock(
            self.stored, self.xp, self.may_shift_late, self.center, self.weights, self.xp.float64
        )

    def qr(self, H: Any) -> Term:
        """Return the triangular factor of [X, H]."""
        wide_rows = wide(self.xp, self.X)
        return DeviceTriangle(self.xp, self.xp.concat([wide_rows, self._like(H, wide_rows.dtype)], axis=1))

    def dense(self) -> np.ndarray:
        """Return the rows on the host."""
        return to_host(self.X)


class DeviceTriangle(Term):
    """The triangular factor of all rows stacked, computed on the device."""

    def __init__(self, xp: Any, rows: Any) -> None:
        self.xp, self.rows = xp, rows

    def add(self, total: Any) -> Any:
        """Factor the rows of the block stacked below the previous factor."""
        rows = self.rows if total is None else self.xp.concat([total, self.rows], axis=0)
        return self.xp.linalg.qr(rows, mode="reduced")[1]


def _narrow_product(X: Any, M: Any) -> Any:
    loops = fused(X, M) if M.ndim == 2 else None
    return X @ M if loops is None or not loops.takes(M.shape[1]) else loops.product(X, M)


def by_runs(xp: Any, sums: Callable[..., Any], *arrays: Any) -> Any:
    """Return sums over rows in float64: short runs are summed in the dtype of the arrays, and then added.

    ``sums(xp, *arrays)`` takes arrays of shape (runs, rows, ...) and returns one sum for each run.
    """
    m, width = arrays[0].shape[0], arrays[-1].shape[-1] if arrays[-1].ndim > 1 else 1
    if "32" not in str(arrays[0].dtype):
        return sums(xp, *(a[None, ...] for a in arrays))[0, ...]
    run = max(RUN, 4 * width)  # the sums of all runs are at most as large as the block
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
    """Return an array in float64; unchanged if the device has no float64."""
    return xp.astype(x, xp.float64, copy=False) if has_float64(xp, x) else x


def has_float64(xp: Any, x: Any) -> bool:
    """Return whether the device of an array has float64."""
    return str(device(x)).partition(":")[0] != "mps"


def plain(a: np.ndarray) -> np.ndarray:
    """Return an array that torch accepts without a warning: contiguous and writable, although it is not modified."""
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
