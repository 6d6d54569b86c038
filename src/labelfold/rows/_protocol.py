"""The protocol: data as rows, read in passes.

A method needs only two things of its data: a result for each row, and a sum over rows. Both come from one operation,
`Rows.sweep`. A method is written once against it and runs on every container that has an adapter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from labelfold.rows import _threads as threads
from labelfold.rows._blocks import Block
from labelfold.rows._sums import Accumulator, Term

RowFunction = Callable[..., tuple[Any, Any]]


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
        Whether the rows are in the memory of this process, so that `whole` costs nothing.
    resident : bool
        Whether they are in the memory of this process or of the workers of a cluster, so that no pass has to read or
        compute them. Not on a GPU, where a pass costs little beside the algebra of an iteration.
    is_sparse : bool
        Whether they are in the memory of this process as a sparse matrix.
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
    names: list[str] | None = None

    @property
    def eps(self) -> float:
        """Relative round-off of the values, in units of the size of their column; for data, that of its dtype."""
        return float(np.finfo(self.dtype).eps)

    @property
    def resident(self) -> bool:
        """Whether the rows are in memory, of this process or of a cluster's workers."""
        return self.in_memory

    @abstractmethod
    def sweep(
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
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
            Largest number of rows of a block, if f needs much more memory for a row than the row itself.

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

    def put(self, a: Any) -> Any:
        """Return ``a`` (one entry per row) in the form in which the rows keep it between passes."""
        return a

    def get(self, h: Any) -> np.ndarray:
        """Return a row-aligned array as NumPy."""
        return np.asarray(h)

    def beside(self, A: np.ndarray) -> Any:
        """Return a matrix where products with it cost least, as ``A @ B`` and ``A.T @ B`` of arrays on the host."""
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

    def each(self, f: Callable[..., Any], *aligned: Any) -> Any:
        """Return row results from row-aligned arrays alone, without a pass over X.

        ``f(start, stop, *aligned_blocks)`` returns NumPy arrays with one entry for each row from start to stop.
        """
        return self.put(f(0, self.shape[0], *map(self.get, aligned)))

    def repeated(self, h: Any, k: int, divisor: float) -> Any:
        """Return k equal columns, h (a number for each row) over ``divisor``, in X's dtype, stored with the rows."""
        xp = array_namespace(h)
        column = xp.astype(h, getattr(xp, self.dtype.name))[:, None] / divisor
        return xp.concat([column] * k, axis=1)

    def total(self, f: Callable[..., Any], *aligned: Any) -> Any:
        """Return the sums of ``f(*aligned_blocks)`` over row-aligned arrays alone, without a pass over X."""
        sums = Accumulator()
        sums.add(f(*map(self.get, aligned)))
        return sums.finish()

    def result(
        self, h: Any, f: Callable[[np.ndarray], np.ndarray] | None = None, at: tuple | None = None
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

    def narrow(self) -> Block | None:
        """Return all rows as one block without columns of zeros, if that takes no memory: sparse rows in memory."""
        return self.whole().narrow() if self.is_sparse else None

    def sum(self, f: Callable[..., Any], *aligned: Any, shared: tuple = ()) -> Any:
        """Return the sums over rows of ``f(block, ...)``, from one pass."""
        return self.sweep(OnlySum(f), *aligned, shared=shared)[1]

    def map(self, f: Callable[..., Any], *aligned: Any, shared: tuple = ()) -> Any:
        """Return ``f(block, ...)`` row by row, from one pass."""
        return self.sweep(OnlyMap(f), *aligned, shared=shared)[0]

    def __matmul__(self, M: np.ndarray) -> Any:
        """Return X @ M, stored with the rows."""
        return self.map(_product, shared=(np.asarray(M),))

    def t(self, H: Any) -> np.ndarray:
        """Return X'H."""
        return self.sum(_transposed, H)

    def mean(self) -> np.ndarray:
        """Return the mean row."""
        return self.sum(_column_sums) / self.shape[0]

    def gram(self) -> np.ndarray:
        """Return X'X, for d within a memory budget."""
        return self.sum(_gram)

    def squared_norms(self) -> Any:
        """Return the squared norm of each row, stored with the rows."""
        return self.map(_squared_norms)

    def squared_norm(self) -> float:
        """Return the squared Frobenius norm of X, added up in float64."""
        return self.sum(_squared_norm)


def spread_values(start: int, stop: int, index: np.ndarray, values: np.ndarray, rest: Any) -> np.ndarray:
    """Return the entries from start to stop of an array with ``values`` at ``index`` and ``rest`` elsewhere.

    >>> spread_values(2, 6, np.array([1, 3]), np.array([7.0, 8.0]), -1)
    array([-1.,  8., -1., -1.])
    """
    spread = np.full((stop - start, *values.shape[1:]), rest, dtype=values.dtype)
    inside = (index >= start) & (index < stop)
    spread[index[inside] - start] = values[inside]
    return spread


class OnlySum:
    """A function of sums as a function for `sweep`; a class, so that it can be pickled."""

    only_sums = True

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f

    def __call__(self, *args: Any) -> tuple[None, Any]:
        """Return no row result, and the sums."""
        return None, self.f(*args)


class OnlyMap(OnlySum):
    """A function of rows as a function for `sweep`."""

    only_sums = False

    def __call__(self, *args: Any) -> tuple[Any, None]:
        """Return the row result, and no sums."""
        return self.f(*args), None


def _product(X: Block, M: Any) -> Any:
    return X @ M


def _transposed(X: Block, H: Any) -> Term:
    return X.t(H)


def _column_sums(X: Block) -> Any:
    return X.colsum()


def _gram(X: Block) -> Term:
    return X.gram()


def _squared_norms(X: Block) -> Any:
    return X.sq()


def _squared_norm(X: Block) -> Any:
    norms = X.sq()
    return norms.sum(dtype=np.float64) if isinstance(norms, np.ndarray) else X.xp.sum(X.double().sq())
