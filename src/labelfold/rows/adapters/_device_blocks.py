"""Blocks of an array-API array (torch, CuPy, ...), and copies to the host."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_cupy_array, is_torch_array

from labelfold.rows._block_sums import unshift
from labelfold.rows._blocks import Block
from labelfold.rows._sums import ArrayTerm, Term, Together
from labelfold.rows.loops import tiled

# Number of rows whose sums are computed in the dtype of X; these sums are then added in float64.
RUN = 1024


class Watch(Protocol):
    """What a block asks of the rows that it is a part of."""

    def look(self) -> None:
        """Check the values of all rows, unless that has been done."""

    def note(self, H: Any) -> None:
        """Take note of products with all columns of a block: they are finite where its values are."""

    def may_shift_late(self, center: Any) -> bool:
        """Return whether a centre may be subtracted from products in place of the rows."""


class DeviceBlock(Block):
    """Rows in an array-API array, without in-place operations, and with functions of the standard only.

    Rows in float64, shifted or weighted rows are not computed explicitly for products with narrow matrices. The
    products are computed with the stored rows and then corrected. Sums over many rows are always in float64.

    Parameters
    ----------
    stored : array of shape (m, d)
        The rows as they are stored.
    xp : namespace
        Of the array.
    watch : Watch, optional
        The rows that these are a part of; without it the values have been checked.
    center : array of shape (d,), optional
        Subtracted from every row.
    weights : array of shape (m,), optional
        Weights by which the rows are then multiplied.
    dtype : dtype, optional
        The dtype of results, if it is not that of the rows.
    rest : array of shape (d,), optional
        Also subtracted: the round-off of the centre in the dtype of the rows.
    """

    def __init__(
        self,
        stored: Any,
        xp: Any,
        watch: Watch | None = None,
        center: Any = None,
        weights: Any = None,
        dtype: Any = None,
        rest: Any = None,
    ) -> None:
        self._stored, self.xp, self.watch = stored, xp, watch
        self.center, self.weights, self.rest = center, weights, rest
        self.shape = tuple(stored.shape)
        self.dtype = stored.dtype if dtype is None else dtype

    def _with(self, **changes: Any) -> DeviceBlock:
        """Return the same rows, seen in another way."""
        names = ("watch", "center", "weights", "dtype", "rest")
        return type(self)(
            self._stored, self.xp, **{**{name: getattr(self, name) for name in names}, **changes}
        )

    @property
    def full_center(self) -> Any:
        """The centre in float64, with what its own dtype leaves out."""
        center = wide(self.xp, self.center)
        return center if self.rest is None else center + wide(self.xp, self.rest)

    @property
    def stored(self) -> Any:
        """The rows as they are stored, checked."""
        if self.watch is not None:
            self.watch.look()
        return self._stored

    @property
    def is_plain(self) -> bool:
        """Whether the rows are as they are stored."""
        return self.center is None and self.weights is None

    @cached_property
    def X(self) -> Any:
        """The rows, computed explicitly."""
        X = self.stored
        if self.center is not None:
            X = X - self.xp.astype(self.center, self.dtype, copy=False)
        if self.rest is not None:
            X = X - self.xp.astype(self.rest, self.dtype, copy=False)
        X = self.xp.astype(X, self.dtype, copy=False)
        return (
            X if self.weights is None else X * self.xp.astype(self.weights, self.dtype, copy=False)[:, None]
        )

    @cached_property
    def mendable(self) -> DeviceBlock:
        """These rows; formed ones, where products with the stored ones and the centre would lose digits."""
        if self.center is None or (self.watch is not None and self.watch.may_shift_late(self.center)):
            return self
        return DeviceBlock(self.X, self.xp)

    @property
    def raw(self) -> Any:
        """The rows."""
        return self.X

    def _like(self, M: Any, dtype: Any = None) -> Any:
        dtype = self._stored.dtype if dtype is None else dtype
        if isinstance(M, np.ndarray):
            return self.xp.asarray(plain(M), dtype=dtype, device=device(self._stored))
        return self.xp.astype(M, dtype, copy=False)

    def __matmul__(self, M: Any) -> Any:
        M = self._like(M)
        H = self._narrow_product(M)[0]
        if H is None:
            own = self.mendable
            if own is not self:
                return own @ M
            H = self._product(M)
            if self.center is not None:
                shifts = self.full_center @ wide(self.xp, M)
                H = H - self._like(shifts)
        if self.weights is not None:
            H = H * _column(self._like(self.weights), H.ndim)
        return self.xp.astype(H, self.dtype, copy=False)

    def counted_product(self, M: Any) -> tuple[Any, Any]:
        """Return X M, and how many rows have negative entries: by the loops for a GPU in one read."""
        if not self.is_plain:
            return super().counted_product(M)
        H, least = self._narrow_product(self._like(M), with_least=True)
        if H is None:
            return super().counted_product(M)
        return self.xp.astype(H, self.dtype, copy=False), self.xp.count_nonzero(least < 0)

    def _narrow_product(self, M: Any, *, with_least: bool = False) -> tuple[Any, Any]:
        """Return (X - center) M by the loops for a GPU, and perhaps the smallest entries; None without the loops."""
        if M.ndim != 2 or not tiled(self._stored, M):
            return None, None
        from labelfold.rows.loops import _triton_loops as loops

        if not loops.takes(M.shape[1]):
            return None, None
        center = None if self.center is None else self._like(self.center)
        H, least = loops.product(self._stored, M, center, with_least=with_least)
        if self.rest is not None:
            H = H - self._like(wide(self.xp, self.rest) @ wide(self.xp, M))
        if self.watch is not None:
            self.watch.note(H)
        return H, least

    def _product(self, M: Any) -> Any:
        """Return the stored rows times M."""
        return self.stored @ M

    def t(self, H: Any) -> Term:
        """Return X'H."""
        own = self.mendable
        if own is not self:
            return own.t(H)
        H = self._like(H)
        if self.weights is not None:
            H = H * _column(self._like(self.weights), H.ndim)
        product = ArrayTerm(self._transposed(H))
        if self.center is None:
            return product
        return Together(partial(_unshift, center=self.full_center), product, by_runs(self.xp, _sums, H))

    def _transposed(self, H: Any) -> Any:
        """Return the stored rows' X'H in float64."""
        X = self.stored
        if H.ndim == 2 and tiled(X, H):
            from labelfold.rows.loops import _triton_loops as loops

            if loops.takes(H.shape[1]):
                return loops.transposed(X, H)
        return by_runs(self.xp, _products, X, H)

    def inner(self, A: Any, B: Any = None) -> Any:
        """Return A'A, or A'B, in float64."""
        return by_runs(self.xp, _products, A, A if B is None else B)

    def gram(self) -> Term:
        """Return X'X."""
        return ArrayTerm(by_runs(self.xp, _products, self.X, self.X))

    def colsum(self) -> Any:
        """Return the sum of the rows, added up in float64."""
        own = self.mendable
        if own is not self:
            return own.colsum()
        if self.weights is not None:
            return self.t(self.xp.ones_like(self.weights))
        total = self._column_sums()
        if self.center is None:
            return total
        return Together(partial(_unshift, center=self.full_center), total, float(self.shape[0]))

    def _column_sums(self) -> Any:
        """Return the sum of the stored rows."""
        return by_runs(self.xp, _sums, self.stored)

    def colsq(self) -> Any:
        """Return the squared norm of each column."""
        return by_runs(self.xp, _squares, self.X)

    def sq(self) -> Any:
        """Return the squared norm of each row."""
        X = self.stored if self.is_plain else self.X
        return self.xp.astype(self.xp.linalg.vector_norm(X, axis=1), self.dtype, copy=False) ** 2

    def min(self) -> Any:
        """Return the smallest entry of each row."""
        least = self.xp.min(self.stored if self.is_plain else self.X, axis=1)
        return self.xp.astype(least, self.dtype, copy=False)

    def shift(self, center: Any, rest: Any = None) -> DeviceBlock:
        """Return the shifted rows."""
        if self.is_plain and self.watch is not None:
            return self._with(center=center, rest=rest)
        X = self.X - self._like(center, self.dtype)
        return DeviceBlock(X if rest is None else X - self._like(rest, self.dtype), self.xp)

    def scale(self, weights: Any) -> DeviceBlock:
        """Return the weighted rows."""
        weights = self._like(weights)
        return self._with(weights=weights if self.weights is None else weights * self._like(self.weights))

    def apply(self, transform: Callable[[Any], Any]) -> DeviceBlock:
        """Return the features of the rows, computed on the host."""
        return DeviceBlock(self._like(np.asarray(transform(to_host(self.X))), self.dtype), self.xp)

    def double(self) -> DeviceBlock:
        """Return the rows in float64, where the device has it; products with them keep the digits of X."""
        return self._with(dtype=self.xp.float64) if has_float64(self.xp, self._stored) else self

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


class DeviceMatrix:
    """A matrix kept on a device, for products with arrays of the host."""

    def __init__(self, xp: Any, A: Any) -> None:
        self.xp, self.A = xp, A

    @property
    def T(self) -> DeviceMatrix:
        """The transpose."""
        return DeviceMatrix(self.xp, self.A.T)

    def __matmul__(self, B: np.ndarray) -> np.ndarray:
        return to_host(self.A @ self.xp.asarray(plain(B), dtype=self.A.dtype, device=device(self.A)))


def outer_spectrum(Z: Any) -> tuple[np.ndarray, Any]:
    """Return the eigenvalues of Z Z', ascending, and the vectors where Z is: on the host, or beside rows.

    >>> outer_spectrum(np.array([[2.0, 0.0], [0.0, 1.0]]))[0].tolist()
    [1.0, 4.0]
    """
    if not isinstance(Z, DeviceMatrix):
        return np.linalg.eigh(Z @ Z.T)
    values, U = Z.xp.linalg.eigh(Z.A @ Z.A.T)
    return to_host(values), DeviceMatrix(Z.xp, U)


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


def any_to_host(x: Any) -> Any:
    """Return an array of any library as NumPy, and anything else as it is."""
    return to_host(x) if is_array_api_obj(x) else x
