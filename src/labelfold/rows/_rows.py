"""Data as rows that are read in passes, and wrappers that transform each block of them.

A method needs only two things of its data: a result for each row, and a sum over rows. Both come from one operation,
`Rows.sweep`. A method is written once against it and runs on every container that has an adapter.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import methodcaller
from threading import Event
from typing import Any

import numpy as np

from labelfold.rows import _threads as threads
from labelfold.rows._blocks import Block, dense_block_rows
from labelfold.rows._sums import Accumulator, Term
from labelfold.rows.adapters._device_blocks import takes_any_array

RowFunction = Callable[..., Any]


class Rows(ABC):
    """A matrix X (n x d) that is read in passes, a block of rows at a time.

    Attributes
    ----------
    shape : tuple of int
        n and d.
    dtype : numpy.dtype
        The floating dtype of X in computations: float32 stays float32, integers become float64.
    xp : namespace
        The array namespace of row results and row state.
    n_passes : int
        Number of passes over X so far.
    in_memory : bool
        Whether the rows are in the memory of this process, so that `whole` makes no copy.
    resident : bool
        True if no pass has to read or compute the rows: they are in the memory of this process or of the workers of a
        cluster. False on a GPU, where a pass costs little compared with the algebra of an iteration.
    is_sparse : bool
        Whether the rows are a sparse matrix in the memory of this process.
    place : str
        Where the rows are, for messages.
    names : list of str or None
        The names of the columns, if they come from a file that has some.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.rows import as_rows
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> rows = as_rows(X)
    >>> def f(X, M):
    ...     H = X @ M
    ...     return H, (X.t(H), H.T @ H)
    >>> H, (XtH, HtH) = rows.sweep(f, shared=(np.ones((2, 1)),))
    >>> H.ravel()
    array([1., 5., 9.])
    >>> XtH.ravel(), HtH
    (array([46., 61.]), array([[107.]]))
    >>> rows.n_passes
    1
    """

    shape: tuple[int, int]
    dtype: np.dtype
    xp: Any = np
    n_passes: int = 0
    in_memory: bool = False
    is_sparse: bool = False
    place: str = "in memory"
    names: list[str] | None = None

    @property
    def eps(self) -> float:
        """Round-off of the values relative to the size of their column: by default that of the dtype."""
        return float(np.finfo(self.dtype).eps)

    @property
    def resident(self) -> bool:
        """Whether the rows are in memory, of this process or of a cluster's workers."""
        return self.in_memory

    @abstractmethod
    def sweep(
        self,
        f: RowFunction,
        *aligned: Any,
        shared: tuple[Any, ...] = (),
        most_rows: int | None = None,
        returns: str = "both",
    ) -> tuple[Any, Any]:
        """Make one pass over X.

        Parameters
        ----------
        f : callable
            ``f(block, *aligned_blocks, *shared)`` returns ``(row result or None, partial sums or None)``. It is pure:
            it does not write to its arguments, and closes over no large array. A row result is an array with one
            entry per row. Partial sums are a sum or a tuple of sums; each is an array, a scalar or a result of a
            block's ``t``, ``gram`` and similar methods.
        *aligned : array
            Arrays with one entry per row, from the user (NumPy) or from an earlier pass.
        shared : tuple
            Values that every block needs completely. Floating arrays are passed to f in the dtype of X.
        most_rows : int, optional
            Maximum number of rows of a block, for an f that needs much more memory for a row than the row takes.
        returns : {"both", "rows", "sums"}
            What f returns: the pair above, or only one of the two.

        Returns
        -------
        mapped : array or None
            The row results, in row order, stored with the rows (`get` copies them to the host).
        sums : array, float, tuple or None
            The sums, as NumPy float64.
        """

    @abstractmethod
    def take(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, in that order, in memory."""

    @abstractmethod
    def row_bytes(self) -> float:
        """Return the average number of bytes of a row in memory."""

    def stored_bytes(self) -> float:
        """Return the number of bytes of all rows in memory; may take a pass."""
        return self.shape[0] * self.row_bytes()

    def share(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return values that every block needs, in the form that blocks need: floats in the dtype of X."""
        return tuple(
            value.astype(self.dtype, copy=False)
            if isinstance(value, np.ndarray) and value.dtype.kind == "f"
            else value
            for value in values
        )

    def put(self, a: Any) -> Any:
        """Return a row-aligned array as it is kept between passes: in NumPy, on the device, or in Dask."""
        return a

    def get(self, h: Any) -> np.ndarray:
        """Return a row-aligned array as NumPy."""
        return np.asarray(h)

    def beside(self, A: np.ndarray) -> Any:
        """Return a matrix on the device of the rows, for ``A @ B`` and ``A.T @ B`` with arrays of the host."""
        return A

    def pick(self, h: Any, index: np.ndarray) -> np.ndarray:
        """Return the entries at ``index`` of a row-aligned array as NumPy; the others are not copied."""
        return np.asarray(h)[index]

    def spread(self, index: np.ndarray, values: Any, rest: Any = 0) -> Any:
        """Return a row-aligned array with ``values`` at ``index`` and ``rest`` elsewhere, stored with the rows.

        ``rest`` is one entry. Only the values are sent to the rows, so a few labelled rows cost no traffic of size n.
        """
        values = np.asarray(values)
        return self.put(spread_values(0, self.shape[0], index, values, rest))

    def map_aligned(self, f: Callable[..., Any], *aligned: Any) -> Any:
        """Return row results from row-aligned arrays alone, without a pass over X.

        ``f(start, stop, *aligned_blocks)`` returns NumPy arrays with one entry for each row from start to stop.
        """
        return self.put(f(0, self.shape[0], *map(self.get, aligned)))

    def sum_aligned(self, f: Callable[..., Any], *aligned: Any) -> Any:
        """Return the sums of ``f(*aligned_blocks)`` over row-aligned arrays alone, without a pass over X."""
        return sums_by_shares(f, [self.get(a) for a in aligned]).finish()

    def result(
        self, h: Any, f: Callable[[np.ndarray], np.ndarray] | None = None, at: tuple[Any, ...] | None = None
    ) -> Any:
        """Return ``f(h)`` of a row-aligned array for the user, with other values in some rows.

        Parameters
        ----------
        h : array
            One entry per row, stored with the rows.
        f : callable, optional
            Applied to blocks of rows of h, and returns a new array; by default h itself is returned.
        at : (index, values), optional
            Rows of the result that are replaced.

        Returns
        -------
        ndarray, or a Dask array for rows of a Dask array
            A new array.
        """
        found = np.array(self.get(h)) if f is None else threads.by_pieces(f, self.get(h))
        if at is not None:
            found[at[0]] = at[1]
        return found

    def subset(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index`` in memory, or on the device of all rows, for passes over some rows."""
        return self.take(index)

    def whole(self) -> Block:
        """Return all rows as one block in memory; only for few rows."""
        return self.take(np.arange(self.shape[0])).whole()

    def computed(self, wrapped: Rows, max_bytes: float) -> tuple[Rows, float]:
        """Return a wrapper of these rows as rows that no pass computes again, and the bytes that they take.

        The wrapper itself is returned if they would take more than ``max_bytes``, also in float32; and in a cluster.
        """
        from labelfold.rows._containers import as_rows

        if wrapped is self and self.in_memory:
            return self, 0.0
        size = wrapped.shape[0] * wrapped.row_bytes()
        is_dense = not wrapped.take(np.arange(1)).whole().is_sparse
        if size <= max_bytes:  # dense rows by all threads
            return as_rows(wrapped.get(wrapped.map(raw_of)) if is_dense else wrapped.whole().host()), size
        # float32 halves dense rows only: sparse rows hold indices too
        if is_dense and wrapped.dtype == np.float64 and size <= 2 * max_bytes:
            return as_rows(wrapped.get(wrapped.map(_single)).astype(np.float32, copy=False)), size / 2
        return wrapped, 0.0

    def narrow(self) -> Block | None:
        """Return sparse rows in memory as one block without columns of zeros; None for all other rows."""
        return self.whole().narrow() if self.is_sparse else None

    def sum(self, f: Callable[..., Any], *aligned: Any, shared: tuple[Any, ...] = ()) -> Any:
        """Return the sums over rows of ``f(block, ...)``, from one pass."""
        return self.sweep(f, *aligned, shared=shared, returns="sums")[1]

    def map(self, f: Callable[..., Any], *aligned: Any, shared: tuple[Any, ...] = ()) -> Any:
        """Return ``f(block, ...)`` row by row, from one pass."""
        return self.sweep(f, *aligned, shared=shared, returns="rows")[0]

    def __matmul__(self, M: np.ndarray) -> Any:
        """Return X @ M, stored with the rows."""
        return self.map(operator.matmul, shared=(np.asarray(M),))

    def t(self, H: Any, double: bool = False) -> np.ndarray:
        """Return X'H; with ``double``, from products in float64."""
        return self.sum(_double_transposed if double else _transposed, H)

    def mean(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return the mean row, each row counted with its weight if there are weights (n,)."""
        if weights is None:
            return self.sum(methodcaller("colsum")) / self.shape[0]
        return self.t(weights[:, None], double=True)[:, 0] / weights.sum()

    def gram(self) -> np.ndarray:
        """Return X'X, for d within a memory budget."""
        return self.sum(methodcaller("gram"))

    def squared_norm(self) -> float:
        """Return the squared Frobenius norm of X, added up in float64."""
        return self.sum(_squared_norm)


def sums_by_shares(f: Callable[..., Any], arrays: Sequence[np.ndarray]) -> Accumulator:
    """Return the sums of ``f(*arrays)`` over rows, one part of the rows for each thread."""

    def work(part: slice, stop: Event) -> Accumulator:
        sums = Accumulator()
        sums.add(f(*(a[part] for a in arrays)))
        return sums

    jobs = threads.shares(len(arrays[0]), sum(a.size for a in arrays))
    return reduce(Accumulator.merge, threads.run_jobs(work, jobs))


def spread_values(start: int, stop: int, index: np.ndarray, values: np.ndarray, rest: Any) -> np.ndarray:
    """Return the entries from start to stop of an array with ``values`` at ``index`` and ``rest`` elsewhere.

    >>> spread_values(2, 6, np.array([1, 3]), np.array([7.0, 8.0]), -1)
    array([-1.,  8., -1., -1.])
    """
    spread = np.full((stop - start, *values.shape[1:]), rest, dtype=values.dtype)
    inside = (index >= start) & (index < stop)
    spread[index[inside] - start] = values[inside]
    return spread


def result_and_sums(made: Any, returns: str) -> tuple[Any, Any]:
    """Split what f returned in a pass into the row result and the sums; None for the one that it does not return."""
    return made if returns == "both" else (made, None) if returns == "rows" else (None, made)


def _transposed(X: Block, H: Any) -> Term:
    return X.t(H)


def _double_transposed(X: Block, H: Any) -> Term:
    return X.double().t(H)


def _single(X: Block) -> Any:
    return X.single().raw


def _squared_norm(X: Block) -> Any:
    norms = X.sq()
    return norms.sum(dtype=np.float64) if isinstance(norms, np.ndarray) else X.xp.sum(X.double().sq())


class RowsWrapper(Rows):
    """Rows whose blocks are those of other rows, transformed by ``wrap``."""

    shape: tuple[int, int]
    dtype: Any
    xp: Any
    in_memory: bool
    is_sparse: bool

    def __init__(self, rows: Rows) -> None:
        self.rows, self.place = rows, rows.place
        self.shape, self.dtype, self.xp = rows.shape, rows.dtype, rows.xp
        self.in_memory, self.is_sparse = rows.in_memory, rows.is_sparse

    @property
    def n_passes(self) -> int:  # type: ignore[override]
        """Number of passes over the wrapped data."""
        return self.rows.n_passes

    @property
    def eps(self) -> float:
        """Relative round-off of the wrapped values."""
        return self.rows.eps

    @property
    def resident(self) -> bool:
        """Whether the wrapped rows are in memory."""
        return self.rows.resident

    # The further arguments of wrap: row-aligned arrays, and shared ones.
    _aligned: tuple[Any, ...] = ()
    _shared: tuple[Any, ...] = ()
    _most_rows: int | None = None

    @staticmethod
    def wrap(block: Block, *context: Any) -> Block:
        """Return the transformed block."""
        raise NotImplementedError

    def over(self, rows: Rows, index: np.ndarray) -> RowsWrapper:
        """Return the same wrapper around other rows, which are those at ``index`` of these."""
        raise NotImplementedError

    def sweep(
        self,
        f: RowFunction,
        *aligned: Any,
        shared: tuple[Any, ...] = (),
        most_rows: int | None = None,
        returns: str = "both",
    ) -> tuple[Any, Any]:
        """Make one pass over the wrapped rows."""
        counts = (len(self._aligned), len(aligned), len(self._shared))
        return self.rows.sweep(
            partial(_on_wrapped, self.wrap, f, counts),
            *self._aligned,
            *aligned,
            shared=self._shared + tuple(shared),
            most_rows=min(filter(None, (most_rows, self._most_rows)), default=None),
            returns=returns,
        )

    def take(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, in memory, with the same wrapper."""
        return self.over(self.rows.take(index), np.asarray(index))

    def whole(self) -> Block:
        """Return all the rows as one block."""
        own = [np.asarray(self.rows.get(a)) for a in self._aligned]
        return self.wrap(self.rows.whole(), *own, *self._shared)

    def row_bytes(self) -> float:
        """Return the average number of bytes of a wrapped row."""
        return self.rows.row_bytes()

    def put(self, a: Any) -> Any:
        """Return ``a`` in the form in which the wrapped rows keep it."""
        return self.rows.put(a)

    def get(self, h: Any) -> np.ndarray:
        """Return a row-aligned array as NumPy."""
        return self.rows.get(h)

    def beside(self, A: np.ndarray) -> Any:
        """Return a matrix on the device of the rows."""
        return self.rows.beside(A)

    def pick(self, h: Any, index: np.ndarray) -> np.ndarray:
        """Return some entries of a row-aligned array as NumPy."""
        return self.rows.pick(h, index)

    def spread(self, index: np.ndarray, values: Any, rest: Any = 0) -> Any:
        """Return a row-aligned array with ``values`` at ``index`` and ``rest`` elsewhere."""
        return self.rows.spread(index, values, rest)

    def map_aligned(self, f: Callable[..., Any], *aligned: Any) -> Any:
        """Return row results from row-aligned arrays alone."""
        return self.rows.map_aligned(f, *aligned)

    def sum_aligned(self, f: Callable[..., Any], *aligned: Any) -> Any:
        """Return sums over row-aligned arrays alone."""
        return self.rows.sum_aligned(f, *aligned)

    def result(
        self, h: Any, f: Callable[[np.ndarray], np.ndarray] | None = None, at: tuple[Any, ...] | None = None
    ) -> Any:
        """Return a row-aligned array for the user."""
        return self.rows.result(h, f, at)

    def subset(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, with the same wrapper."""
        return self.over(self.rows.subset(index), np.asarray(index))


class Centered(RowsWrapper):
    """Rows with a vector subtracted, by default the mean; sparse rows stay sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.rows import Centered, as_rows
    >>> Centered(as_rows(np.array([[1.0, 5.0], [3.0, 7.0]]))).gram()
    array([[2., 2.],
           [2., 2.]])
    """

    def __init__(self, rows: Rows, center: np.ndarray | None = None) -> None:
        super().__init__(rows)
        self.center: np.ndarray = rows.mean() if center is None else np.asarray(center, dtype=np.float64)
        self._shared = center_parts(self.center, rows.dtype)

    @staticmethod
    def wrap(block: Block, center: Any, rest: Any) -> Block:
        """Return the block with the centre subtracted."""
        return block.shift(center, rest)

    def over(self, rows: Rows, index: np.ndarray) -> Centered:
        """Return other rows with the same centre subtracted."""
        return Centered(rows, self.center)


class Weighted(RowsWrapper):
    """Rows with a weight each: diag(w) X. A weight of 0 leaves a row out of every sum."""

    def __init__(self, rows: Rows, weights: np.ndarray) -> None:
        super().__init__(rows)
        self.weights: np.ndarray = np.asarray(weights, dtype=rows.dtype)
        self._aligned = (rows.put(self.weights),)

    @staticmethod
    def wrap(block: Block, weights: Any) -> Block:
        """Return the block with weighted rows."""
        return block.scale(weights)

    def over(self, rows: Rows, index: np.ndarray) -> Weighted:
        """Return other rows with their weights."""
        return Weighted(rows, self.weights[index])


class Featurized(RowsWrapper):
    """Rows after a feature map, applied block by block. With it every linear method has a kernel form.

    Parameters
    ----------
    rows : Rows
        Any rows. Rows on a device are copied to the host for a map that does not take arrays of every library (see
        `any_array`).
    transform : callable
        Takes some rows (a NumPy array or ``csr_array``) and returns as many dense rows, for example the ``transform``
        of a fitted scikit-learn Nystroem.
    eps : float, default=0.0
        Relative round-off of the features; never below that of the rows.
    width : int, default=None
        Number of features. When None, one row is transformed to find it.
    most_rows : int, default=None
        Maximum number of rows to transform at a time.
    """

    transform: Callable[[Any], np.ndarray]

    def __init__(
        self,
        rows: Rows,
        transform: Callable[[Any], np.ndarray],
        eps: float = 0.0,
        width: int | None = None,
        most_rows: int | None = None,
    ) -> None:
        super().__init__(rows)
        self.transform, self._eps = transform, eps
        self.is_sparse = False
        self._shared = (transform,)
        if width is None:
            width = np.asarray(transform(rows.take(np.arange(1)).whole().raw)).shape[1]
        self.shape: tuple[int, int] = (rows.shape[0], width)
        if rows.xp is np or not takes_any_array(transform):  # a device cuts blocks where the map is applied
            self._most_rows = min(filter(None, (dense_block_rows(self.row_bytes()), most_rows)))

    @staticmethod
    def wrap(block: Block, transform: Callable[..., Any]) -> Block:
        """Return the features of the block."""
        return block.apply(transform)

    def over(self, rows: Rows, index: np.ndarray) -> Featurized:
        """Return the features of other rows."""
        return Featurized(rows, self.transform, self._eps, self.shape[1])

    @property
    def eps(self) -> float:
        """Relative round-off of the features."""
        return max(self.rows.eps, self._eps)

    def values(self) -> Any:
        """Return the features of all rows as an array, in one pass."""
        return self.map(raw_of)

    def row_bytes(self) -> float:
        """Return the bytes of one row of features."""
        return self.shape[1] * self.dtype.itemsize


def center_parts(center: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return a centre, and its rounding error in a dtype (None for float64), for ``X.shift(*parts)``.

    >>> center_parts(np.array([0.5, 1e8 + 1]), np.dtype("float32"))[1]
    array([0., 1.])
    """
    return center, None if dtype == np.float64 else center - center.astype(dtype)


def raw_of(X: Block) -> Any:
    """Return the rows of a block as an array."""
    return X.raw


def _on_wrapped(
    wrap: Callable[..., Any], f: RowFunction, counts: tuple[int, int, int], block: Block, *args: Any
) -> Any:
    """Return f of a wrapped block; its arguments follow those of the wrapper, row-aligned before shared ones."""
    ends = np.cumsum(counts)
    own, aligned, shared, given = (
        args[: ends[0]],
        args[ends[0] : ends[1]],
        args[ends[1] : ends[2]],
        args[ends[2] :],
    )
    return f(wrap(block, *own, *shared), *aligned, *given)
