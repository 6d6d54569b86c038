"""Blocks of an array-API array (torch, CuPy, ...)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_cupy_array,
    is_dask_array,
    is_torch_array,
)

from labelfold.rows import _threads as threads
from labelfold.rows._blocks import Block
from labelfold.rows._sums import ArrayTerm, CombinedSums, Term, unshift

# Precision: number of rows whose sums are computed in the dtype of X; these sums are then added in float64. The
# round-off of a sum is about the square root of its length, here 32 units.
RUN = 1024
# Budget: bytes that a thread copies from a GPU at a time.
_PIECE = 8_000_000
# Budget: a copy from a GPU of fewer bytes does without page-locked memory, since the further copy would not pay off.
_MIN_LOCKED = 64_000
# Budget: copies use at most this many bytes of page-locked memory, which stays allocated.
_MAX_LOCKED = 64_000_000
# Budget of memory: rows that a feature map takes at a time on a GPU and on the host, since it may make a thousand
# numbers of a row.
_APPLIED, _APPLIED_ON_HOST = 250_000, 2_000
# Arrays that are copied together begin at multiples of this many numbers, where a device reads several at once.
_APART = 64


class CheckedRows(Protocol):
    """The rows that a block is a part of."""

    def may_center_products(self, center: Any) -> bool:
        """Return whether products lose no digits if a centre is subtracted from them instead of from the rows."""


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
    owner : CheckedRows, optional
        The rows that these are a part of.
    center : array of shape (d,), optional
        Subtracted from every row.
    weights : array of shape (m,), optional
        Weights by which the rows are then multiplied.
    dtype : dtype, optional
        The dtype of results, if it is not that of the rows.
    rest : array of shape (d,), optional
        Also subtracted: the round-off of the centre in the dtype of the rows.
    """

    kind = "device"

    def __init__(
        self,
        stored: Any,
        xp: Any,
        owner: CheckedRows | None = None,
        center: Any = None,
        weights: Any = None,
        dtype: Any = None,
        rest: Any = None,
    ) -> None:
        self._stored, self.xp, self.owner = stored, xp, owner
        self.center, self.weights, self.rest = center, weights, rest
        self.shape = tuple(stored.shape)
        self.dtype = stored.dtype if dtype is None else dtype

    def _with(self, **changes: Any) -> DeviceBlock:
        """Return the same stored rows with other attributes."""
        names = ("owner", "center", "weights", "dtype", "rest")
        return type(self)(
            self._stored, self.xp, **{**{name: getattr(self, name) for name in names}, **changes}
        )

    @cached_property
    def full_center(self) -> Any:
        """The centre in float64, with its round-off in the dtype of the rows."""
        center = in_float64(self.xp, self.center)
        return center if self.rest is None else center + in_float64(self.xp, self.rest)

    @property
    def is_plain(self) -> bool:
        """Whether the rows are as they are stored."""
        return self.center is None and self.weights is None

    @cached_property
    def X(self) -> Any:
        """The rows, computed explicitly."""
        X = self._dense()
        if self.center is not None and self.dtype == self.full_center.dtype:
            X = X - self.full_center
        elif self.center is not None:
            X = X - self._converted(self.center, self.dtype)
            X = X if self.rest is None else X - self._converted(self.rest, self.dtype)
        X = self.xp.astype(X, self.dtype, copy=False)
        return X if self.weights is None else X * self._converted(self.weights, self.dtype)[:, None]

    def _dense(self) -> Any:
        """Return the rows as they are stored, dense."""
        return self._stored

    @cached_property
    def exact_for_products(self) -> DeviceBlock:
        """These rows; explicit ones if products with the stored rows, corrected for the centre, would lose digits."""
        if self.center is None or (self.owner is not None and self.owner.may_center_products(self.center)):
            return self
        return DeviceBlock(self.X, self.xp)

    @property
    def raw(self) -> Any:
        """The rows."""
        return self.X

    def _converted(self, M: Any, dtype: Any = None) -> Any:
        dtype = self._stored.dtype if dtype is None else dtype
        if isinstance(M, np.ndarray):
            return to_device(self.xp, M, device(self._stored), dtype)
        return self.xp.astype(M, dtype, copy=False)

    def __matmul__(self, M: Any) -> Any:
        M = self._converted(M)
        own = self.exact_for_products
        if own is not self:
            return own @ M
        H = self._product(M)
        if self.center is not None:
            H = H - self._converted(self.full_center @ in_float64(self.xp, M))
        if self.weights is not None:
            H = H * _column(self._converted(self.weights), H.ndim)
        return self.xp.astype(H, self.dtype, copy=False)

    def _product(self, M: Any) -> Any:
        """Return the stored rows times M."""
        return self._stored @ M

    def t(self, H: Any) -> Term:
        """Return X'H."""
        H = self._converted(H)
        own = self.exact_for_products
        if own is not self:
            return own.t(H)
        if self.weights is not None:
            H = H * _column(self._converted(self.weights), H.ndim)
        product = ArrayTerm(self._transposed(H))
        if self.center is None:
            return product
        return CombinedSums(partial(_unshift, center=self.full_center), product, by_runs(self.xp, sums, H))

    def _transposed(self, H: Any) -> Any:
        """Return the stored rows' X'H in float64."""
        return by_runs(self.xp, products, self._stored, H)

    def inner(self, A: Any, B: Any = None) -> Any:
        """Return A'A, or A'B, in float64."""
        return by_runs(self.xp, products, A, A if B is None else B)

    def gram(self) -> Term:
        """Return X'X."""
        return ArrayTerm(by_runs(self.xp, products, self.X, self.X))

    def colsum(self) -> Any:
        """Return the sum of the rows, added up in float64."""
        if self.weights is not None:
            return self.t(self.xp.ones_like(self.weights))
        own = self.exact_for_products
        if own is not self:
            return own.colsum()
        total = self._column_sums()
        if self.center is None:
            return total
        return CombinedSums(partial(_unshift, center=self.full_center), total, float(self.shape[0]))

    def _column_sums(self) -> Any:
        """Return the sum of the stored rows."""
        return by_runs(self.xp, sums, self._stored)

    def colsq(self) -> Any:
        """Return the squared norm of each column."""
        return by_runs(self.xp, squares, self.X)

    def sq(self) -> Any:
        """Return the squared norm of each row."""
        X = self._dense() if self.is_plain else self.X
        return self.xp.astype(self.xp.linalg.vector_norm(X, axis=1), self.dtype, copy=False) ** 2

    def min(self) -> Any:
        """Return the smallest entry of each row."""
        X = self._dense() if self.is_plain else self.X
        return self.xp.astype(self.xp.min(X, axis=1), self.dtype, copy=False)

    def shift(self, center: Any, rest: Any = None) -> DeviceBlock:
        """Return the shifted rows."""
        if self.is_plain and self.owner is not None:
            return self._with(center=center, rest=rest)
        X = self.X - self._converted(center, self.dtype)
        return DeviceBlock(X if rest is None else X - self._converted(rest, self.dtype), self.xp)

    def scale(self, weights: Any) -> DeviceBlock:
        """Return the weighted rows."""
        weights = self._converted(weights)
        return self._with(
            weights=weights if self.weights is None else weights * self._converted(self.weights)
        )

    def host(self) -> np.ndarray:
        """Return the rows as a NumPy array."""
        return to_host(self.X)

    def apply(self, transform: Callable[[Any], Any]) -> DeviceBlock:
        """Return the features of the rows, computed on the device if the map takes its arrays."""
        if not takes_any_array(transform):
            return DeviceBlock(self._converted(np.asarray(transform(self.dense())), self.dtype), self.xp)
        m, step = self.shape[0], _APPLIED_ON_HOST if is_host(device(self._stored)) else _APPLIED
        made = [
            self._converted(transform(self.X[at : min(at + step, m), ...]), self.dtype)
            for at in range(0, max(1, m), step)
        ]
        return DeviceBlock(self.xp.concat(made, axis=0) if len(made) > 1 else made[0], self.xp)

    def double(self) -> DeviceBlock:
        """Return the rows in float64, where the device has it; products with them keep the digits of X."""
        return self._with(dtype=self.xp.float64) if has_float64(self.xp, self._stored) else self

    def qr(self, H: Any) -> Term:
        """Return the triangular factor of [X, H]."""
        wide_rows = in_float64(self.xp, self.X)
        return DeviceTriangle(
            self.xp, self.xp.concat([wide_rows, self._converted(H, wide_rows.dtype)], axis=1)
        )

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
        return to_host(self.A @ to_device(self.xp, B, device(self.A), self.A.dtype))


def outer_spectrum(Z: Any) -> tuple[np.ndarray, Any]:
    """Return the eigenvalues of Z Z', ascending, and the vectors where Z is: on the host, or beside rows.

    >>> outer_spectrum(np.array([[2.0, 0.0], [0.0, 1.0]]))[0].tolist()
    [1.0, 4.0]
    """
    if not isinstance(Z, DeviceMatrix):
        return np.linalg.eigh(Z @ Z.T)
    values, U = Z.xp.linalg.eigh(Z.A @ Z.A.T)
    return to_host(values), DeviceMatrix(Z.xp, U)


def _unshift(sums: tuple[Any, ...], center: Any) -> np.ndarray:
    return unshift(sums, np.asarray(to_host(center), dtype=np.float64))


def _column(weights: Any, ndim: int) -> Any:
    return weights if ndim == 1 else weights[:, None]


def by_runs(xp: Any, summed: Callable[..., Any], *arrays: Any) -> Any:
    """Return sums over rows in float64: short runs are summed in the dtype of the arrays, and then added.

    ``summed(xp, *arrays)`` takes arrays of shape (runs, rows, ...) and returns one sum for each run.
    """
    m, width = arrays[0].shape[0], arrays[-1].shape[-1] if arrays[-1].ndim > 1 else 1
    if "32" not in str(arrays[0].dtype):
        return summed(xp, *(a[None, ...] for a in arrays))[0, ...]
    run = max(RUN, 4 * width)  # the sums of all runs are at most as large as the block
    n_runs = m // run
    cut = n_runs * run
    total: Any = None
    if n_runs:
        pieces = (xp.reshape(a[:cut, ...], (n_runs, run, *a.shape[1:])) for a in arrays)
        total = xp.sum(in_float64(xp, summed(xp, *pieces)), axis=0)
    if cut < m or not n_runs:
        rest = in_float64(xp, summed(xp, *(a[cut:, ...][None, ...] for a in arrays))[0, ...])
        total = rest if total is None else total + rest
    return total


def products(xp: Any, X: Any, H: Any) -> Any:
    """Return X'H of each run."""
    if H.ndim == 2:
        return products(xp, X, H[..., None])[..., 0]
    return xp.matrix_transpose(X) @ H


def sums(xp: Any, H: Any) -> Any:
    """Return the sum of each run."""
    return xp.sum(H, axis=1)


def squares(xp: Any, X: Any) -> Any:
    """Return the squared norms of each run's columns."""
    return xp.linalg.vector_norm(X, axis=1) ** 2


def in_float64(xp: Any, x: Any) -> Any:
    """Return an array in float64; unchanged if the device has no float64."""
    return xp.astype(x, xp.float64, copy=False) if has_float64(xp, x) else x


def for_gpu_loops(*arrays: Any) -> bool:
    """Return whether the loops compiled for a GPU take these arrays, of which the first holds rows.

    They take float32 tensors on a GPU, with rows whose entries are adjacent, where Triton is installed.
    """
    return (
        all(is_torch_array(a) and _is_gpu(a.device) and "float32" in str(a.dtype) for a in arrays)
        and arrays[0].stride(1) in (0, 1)
        and _has_triton()
    )


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None  # it comes with torch, on Linux only


def has_float64(xp: Any, x: Any) -> bool:
    """Return whether the device of an array has float64."""
    return str(device(x)).partition(":")[0] != "mps"


def is_host(device: Any) -> bool:
    """Return whether a device is the host itself."""
    return "cpu" in str(device).lower()


def on_accelerator(x: Any) -> bool:
    """Return whether an array is on a device other than the host, which has float64."""
    xp = array_namespace(x)
    return not is_host(device(x)) and has_float64(xp, x)


def to_device(xp: Any, a: np.ndarray, device: Any, dtype: Any = None) -> Any:
    """Return a NumPy array on a device, perhaps in another dtype of the library."""
    if not _is_gpu(device) or a.nbytes > _MAX_LOCKED:
        # Torch warns of arrays that are not writable, although they are not modified.
        return xp.asarray(np.require(a, requirements=["C", "W"]), dtype=dtype, device=device)
    held = xp.empty(a.shape, dtype=_torch_dtype(a.dtype) if dtype is None else dtype, pin_memory=True)
    _fill(held.numpy(), a)
    return held.to(device, non_blocking=True)


def all_to_device(xp: Any, arrays: Sequence[np.ndarray], device: Any, dtype: np.dtype) -> list[Any]:
    """Return several arrays on a device, in one dtype: on a GPU in a single copy, as fast as that of one array."""
    if not _is_gpu(device) or sum(a.nbytes for a in arrays) > _MAX_LOCKED:
        return [to_device(xp, np.asarray(a, dtype=dtype), device) for a in arrays]
    if not arrays:
        return []
    ends = np.cumsum([-(-a.size // _APART) * _APART for a in arrays]).tolist()
    held = xp.empty(ends[-1], dtype=_torch_dtype(dtype), pin_memory=True)
    flat = held.numpy()
    places = [slice(end, end + a.size) for a, end in zip(arrays, [0, *ends], strict=False)]
    for a, place in zip(arrays, places, strict=True):
        _fill(flat[place].reshape(a.shape), a)
    there = held.to(device, non_blocking=True)
    return [there[place].reshape(a.shape) for a, place in zip(arrays, places, strict=True)]


def _fill(out: np.ndarray, a: np.ndarray) -> None:
    """Write an array to another of its shape; values out of the range of its dtype become infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        np.copyto(out, a, casting="unsafe")


def _is_gpu(device: Any) -> bool:
    """Return whether a device is a GPU of torch."""
    return getattr(device, "type", "") == "cuda"


def _torch_dtype(dtype: np.dtype) -> Any:
    import torch

    return torch.from_numpy(np.empty(0, dtype=dtype)).dtype


def takes_any_array(f: Any) -> bool:
    """Return whether a function of rows says, by an attribute, that it takes arrays of every library.

    The attribute ``takes_any_array`` (`any_array`) belongs to the function itself, to the object that it is a method
    of, or to the function of a ``functools.partial``.
    """
    while isinstance(f, partial):
        f = f.func
    return bool(getattr(getattr(f, "__self__", f), "takes_any_array", False))


def to_host(x: Any) -> Any:
    """Return an array of any library as NumPy, and anything else as it is; a masked array keeps its mask."""
    if isinstance(x, np.ma.MaskedArray):
        return x
    if isinstance(x, np.ndarray | np.generic | float | int):
        return np.asarray(x)
    if is_dask_array(x):
        return np.asarray(x)
    if not is_array_api_obj(x):
        return x
    if is_torch_array(x):
        x = x.detach()
        if x.device.type != "cuda" or x.nbytes < _MIN_LOCKED:
            return x.cpu().numpy()
        return _copied_in_pieces(x) if x.nbytes > 2 * _PIECE else _copied_whole(x)
    if is_cupy_array(x):
        return x.get()
    namespace = array_namespace(x)
    if hasattr(namespace, "Device"):  # array-api-strict: only its CPU device can be read
        x = x.to_device(namespace.Device("CPU_DEVICE"))
    return np.from_dlpack(x)


def _copied_whole(x: Any) -> np.ndarray:
    """Return a tensor on a GPU as NumPy: a copy, since forked processes share page-locked memory."""
    import torch

    held = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
    held.copy_(x, non_blocking=True)
    torch.cuda.current_stream(x.device).synchronize()
    return held.numpy().copy()


def _copied_in_pieces(x: Any) -> np.ndarray:
    """Return a large tensor on a GPU as NumPy.

    It is copied in pieces and in threads: the system spends most of the time on the pages of the new array.
    """
    import torch

    flat = x.contiguous().reshape(-1)
    out = np.empty(x.shape, dtype=torch.empty(0, dtype=x.dtype).numpy().dtype)
    flat_out, step = out.reshape(-1), _PIECE // x.element_size()
    starts = range(0, flat.shape[0], step)
    torch.cuda.current_stream(x.device).synchronize()

    def copy(pieces: Any, _: Any) -> None:
        stream, held = torch.cuda.Stream(x.device), torch.empty(step, dtype=x.dtype, pin_memory=True)
        for a in pieces:
            piece = flat[a : a + step]
            with torch.cuda.stream(stream):
                held[: len(piece)].copy_(piece, non_blocking=True)
            stream.synchronize()
            flat_out[a : a + step] = held[: len(piece)].numpy()

    n_jobs = min(len(starts), threads.n_threads(), _MAX_LOCKED // _PIECE)
    threads.run_jobs(copy, [starts[i::n_jobs] for i in range(n_jobs)])
    return out
