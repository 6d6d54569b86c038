"""Wrappers: rows seen through a transformation of each block. They copy nothing and cost no pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labelfold.rows._blocks import Block
from labelfold.rows._protocol import RowFunction, Rows
from labelfold.rows.adapters._memory import dense_block_rows


class RowsWrapper(Rows):
    """Rows whose blocks are other rows' blocks, each passed through ``wrap``."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.shape, self.dtype, self.xp = rows.shape, rows.dtype, rows.xp
        self.in_memory, self.is_sparse = rows.in_memory, rows.is_sparse

    @property
    def n_passes(self) -> int:  # type: ignore[override]
        """How often the data beneath has been read."""
        return self.rows.n_passes

    @property
    def eps(self) -> float:
        """How exact the values beneath are."""
        return self.rows.eps

    # What wrap needs, besides the block: row-aligned arrays, and shared ones.
    _aligned: tuple = ()
    _shared: tuple = ()
    _most_rows: int | None = None

    @staticmethod
    def wrap(block: Block, *context: Any) -> Block:
        """Return the block as this wrapper shows it."""
        raise NotImplementedError

    def over(self, rows: Rows, index: np.ndarray) -> RowsWrapper:
        """Return the same wrapper around other rows, those at ``index`` of these."""
        raise NotImplementedError

    def sweep(
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
    ) -> tuple[Any, Any]:
        """Make one pass over the rows beneath."""
        wrapped = _Wrapped(self.wrap, f, len(self._aligned), len(self._shared), len(aligned))
        return self.rows.sweep(
            wrapped,
            *self._aligned,
            *aligned,
            shared=self._shared + tuple(shared),
            most_rows=min(filter(None, (most_rows, self._most_rows)), default=None),
        )

    def take(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, in memory, seen the same way."""
        return self.over(self.rows.take(index), np.asarray(index))

    def whole(self) -> Block:
        """Return all the rows as one block."""
        own = [np.asarray(self.rows.get(a)) for a in self._aligned]
        return self.wrap(self.rows.whole(), *own, *self._shared)

    def row_bytes(self) -> float:
        """Return the bytes of an average row beneath."""
        return self.rows.row_bytes()

    def put(self, a: Any) -> Any:
        """Return ``a`` where the rows beneath keep it."""
        return self.rows.put(a)

    def get(self, h: Any) -> np.ndarray:
        """Return a row-aligned array as NumPy."""
        return self.rows.get(h)

    def beside(self, A: np.ndarray) -> Any:
        """Return a matrix where products with it cost least."""
        return self.rows.beside(A)

    def pick(self, h: Any, index: np.ndarray) -> np.ndarray:
        """Return some entries of a row-aligned array as NumPy."""
        return self.rows.pick(h, index)

    def subset(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, seen the same way."""
        return self.over(self.rows.subset(index), np.asarray(index))


class Centered(RowsWrapper):
    """Rows less a vector, the mean unless another is given; sparse rows stay sparse.

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
        self.center = rows.mean() if center is None else np.asarray(center, dtype=np.float64)
        self._shared = (self.center,)

    @staticmethod
    def wrap(block: Block, center: Any) -> Block:
        """Return the block less the centre."""
        return block.shift(center)

    def over(self, rows: Rows, index: np.ndarray) -> Centered:
        """Return other rows less the same centre."""
        return Centered(rows, self.center)


class Weighted(RowsWrapper):
    """Rows multiplied by a weight each: diag(w) X. A weight of 0 leaves a row out of every sum."""

    def __init__(self, rows: Rows, weights: np.ndarray) -> None:
        super().__init__(rows)
        self.weights = np.asarray(weights, dtype=rows.dtype)
        self._aligned = (rows.put(self.weights),)

    @staticmethod
    def wrap(block: Block, weights: Any) -> Block:
        """Return the block with weighted rows."""
        return block.scale(weights)

    def over(self, rows: Rows, index: np.ndarray) -> Weighted:
        """Return other rows with their weights."""
        return Weighted(rows, self.weights[index])


class Featurized(RowsWrapper):
    """Rows passed through a feature map, block by block: a kernel form of every linear method.

    Parameters
    ----------
    rows : Rows
        Any rows; those of a device visit the host for the map.
    transform : callable
        Takes some rows (a NumPy array or ``csr_array``) and returns as many dense rows: for instance the
        ``transform`` of a fitted scikit-learn Nystroem.
    eps : float, default=0.0
        How exact the features are, relative to their size; no more so than the rows.
    """

    def __init__(self, rows: Rows, transform: Callable[[Any], np.ndarray], eps: float = 0.0) -> None:
        super().__init__(rows)
        self.transform, self._eps = transform, eps
        self.is_sparse = False
        self._shared = (transform,)
        width = np.asarray(transform(rows.take(np.arange(1)).whole().raw)).shape[1]
        self.shape = (rows.shape[0], width)
        self._most_rows = dense_block_rows(self.row_bytes())

    @staticmethod
    def wrap(block: Block, transform: Callable) -> Block:
        """Return the features of the block."""
        return block.apply(transform)

    def over(self, rows: Rows, index: np.ndarray) -> Featurized:
        """Return the features of other rows."""
        return Featurized(rows, self.transform, self._eps)

    @property
    def eps(self) -> float:
        """How exact the features are."""
        return max(self.rows.eps, self._eps)

    def values(self) -> Any:
        """Return the features of all rows, an array, in one pass."""
        return self.map(_raw)

    def row_bytes(self) -> float:
        """Return the bytes of one row of features."""
        return self.shape[1] * self.dtype.itemsize


def centered(rows: Rows, center: np.ndarray, mask: np.ndarray | None) -> Rows:
    """Return the rows less a centre; rows that ``mask`` leaves out are zeros."""
    rows = Centered(rows, center)
    return rows if mask is None else Weighted(rows, mask)


def _raw(X: Block) -> Any:
    return X.raw


class _Wrapped:
    """f, called on the blocks that a wrapper shows; a class, so that it can travel to other processes."""

    def __init__(self, wrap: Callable, f: RowFunction, n_own: int, n_shared: int, n_given: int) -> None:
        self.wrap, self.f = wrap, f
        self.n_own, self.n_shared, self.n_given = n_own, n_shared, n_given

    def __call__(self, block: Block, *args: Any) -> tuple[Any, Any]:
        own, args = args[: self.n_own], args[self.n_own :]
        aligned, args = args[: self.n_given], args[self.n_given :]
        shared, args = args[: self.n_shared], args[self.n_shared :]
        return self.f(self.wrap(block, *own, *shared), *aligned, *args)
