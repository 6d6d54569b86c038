"""The protocol: data as rows, seen one pass at a time.

A method touches its data in two ways only: something per row, and a sum over rows. Both come from one primitive,
`Rows.sweep`. A method is written once against it and runs on every container that has an adapter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from labelfold.rows._blocks import Block
from labelfold.rows._sums import Term

RowFunction = Callable[..., tuple[Any, Any]]


class Rows(ABC):
    """A matrix X (n x d) of which a pass sees some rows at a time.

    Attributes
    ----------
    shape : tuple of int
        n and d.
    dtype : numpy.dtype
        The floating dtype that X has, or is read as: float32 stays float32, integers become float64.
    xp : namespace
        The array namespace of row results and row state.
    n_passes : int
        How often X has been read.
    in_memory : bool
        Whether the rows lie in this process's memory, so that `whole` costs nothing.
    is_sparse : bool
        Whether they lie in this process's memory as a sparse matrix.

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

    @property
    def eps(self) -> float:
        """How exact the values are, relative to the size of their column: of data, to the last place of its dtype."""
        return float(np.finfo(self.dtype).eps)

    @abstractmethod
    def sweep(
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
    ) -> tuple[Any, Any]:
        """Make one pass over X.

        Parameters
        ----------
        f : callable
            ``f(block, *aligned_blocks, *shared)`` returns ``(row result or None, partial sums or None)``. It
            is pure: it writes to none of its arguments and closes over no large array. A row result is an
            array with one entry per row; partial sums are a sum or a tuple of sums, each an array, a scalar
            or what a block's ``t``, ``gram`` ... return.
        *aligned : array
            Arrays with one entry per row, from the user (NumPy) or from an earlier pass.
        shared : tuple
            What every block needs whole. Floating arrays are given to f in the dtype of X.
        most_rows : int, optional
            The most rows that a block may have, where f makes more of a row than the row itself is.

        Returns
        -------
        mapped : array or None
            The row results, in row order, living with the rows (`get` brings them to the host).
        sums : array, float, tuple or None
            The sums, as NumPy float64.
        """

    @abstractmethod
    def take(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, in that order, in memory."""

    @abstractmethod
    def row_bytes(self) -> float:
        """Return how many bytes of memory a taken row needs, on average."""

    def put(self, a: Any) -> Any:
        """Return ``a`` (one entry per row) where it lives with the rows between passes."""
        return a

    def get(self, h: Any) -> np.ndarray:
        """Return a row-aligned array as NumPy."""
        return np.asarray(h)

    def beside(self, A: np.ndarray) -> Any:
        """Return a matrix where products with it cost least, as ``A @ B`` and ``A.T @ B`` of arrays on the host."""
        return A

    def pick(self, h: Any, index: np.ndarray) -> np.ndarray:
        """Return the entries at ``index`` of a row-aligned array as NumPy: the others stay where they are."""
        return np.asarray(h)[index]

    def subset(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index`` in memory, or on the device of all rows: for passes over some of them."""
        return self.take(index)

    def whole(self) -> Block:
        """Return all the rows as one block in memory: for few rows only."""
        return self.take(np.arange(self.shape[0])).whole()

    def sum(self, f: Callable[..., Any], *aligned: Any, shared: tuple = ()) -> Any:
        """Return the sums over rows of ``f(block, ...)``, from one pass."""
        return self.sweep(OnlySum(f), *aligned, shared=shared)[1]

    def map(self, f: Callable[..., Any], *aligned: Any, shared: tuple = ()) -> Any:
        """Return ``f(block, ...)`` row by row, from one pass."""
        return self.sweep(OnlyMap(f), *aligned, shared=shared)[0]

    def __matmul__(self, M: np.ndarray) -> Any:
        """Return X @ M, living with the rows."""
        return self.map(_product, shared=(np.asarray(M),))

    def t(self, H: Any) -> np.ndarray:
        """Return X'H."""
        return self.sum(_transposed, H)

    def mean(self) -> np.ndarray:
        """Return the mean row."""
        return self.sum(_column_sums) / self.shape[0]

    def gram(self) -> np.ndarray:
        """Return X'X: for d within a memory budget."""
        return self.sum(_gram)

    def squared_norms(self) -> Any:
        """Return the squared norm of each row, living with the rows."""
        return self.map(_squared_norms)

    def squared_norm(self) -> float:
        """Return the squared Frobenius norm of X, added up in float64."""
        return self.sum(_squared_norm)


class OnlySum:
    """A function of sums, as a function of a sweep (a class, so that it can travel to other processes)."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f

    def __call__(self, *args: Any) -> tuple[None, Any]:
        """Return no row result, and the sums."""
        return None, self.f(*args)


class OnlyMap(OnlySum):
    """A function of rows, as a function of a sweep."""

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
