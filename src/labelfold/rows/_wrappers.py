"""Wrappers: rows with a transformation of each block. They copy nothing and need no pass of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labelfold.rows._blocks import Block
from labelfold.rows._protocol import RowFunction, Rows
from labelfold.rows.adapters._memory import dense_block_rows


class RowsWrapper(Rows):
    """Rows whose blocks are those of other rows, transformed by ``wrap``."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
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
    _aligned: tuple = ()
    _shared: tuple = ()
    _most_rows: int | None = None

    @staticmethod
    def wrap(block: Block, *context: Any) -> Block:
        """Return the transformed block."""
        raise NotImplementedError

    def over(self, rows: Rows, index: np.ndarray) -> RowsWrapper:
        """Return the same wrapper around other rows, which are those at ``index`` of these."""
        raise NotImplementedError

    def sweep(
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
    ) -> tuple[Any, Any]:
        """Make one pass over the wrapped rows."""
        wrapped = _Wrapped(self.wrap, f, len(self._aligned), len(self._shared), len(aligned))
        return self.rows.sweep(
            wrapped,
            *self._aligned,
            *aligned,
            shared=self._shared + tuple(shared),
            most_rows=min(filter(None, (most_rows, self._most_rows)), default=None),
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
        """Return a matrix where products with it cost least."""
        return self.rows.beside(A)

    def pick(self, h: Any, index: np.ndarray) -> np.ndarray:
        """Return some entries of a row-aligned array as NumPy."""
        return self.rows.pick(h, index)

    def spread(self, index: np.ndarray, values: Any, rest: Any = 0) -> Any:
        """Return a row-aligned array with ``values`` at ``index`` and ``rest`` elsewhere."""
        return self.rows.spread(index, values, rest)

    def each(self, f: Callable[..., Any], *aligned: Any) -> Any:
        """Return row results from row-aligned arrays alone."""
        return self.rows.each(f, *aligned)

    def repeated(self, h: Any, k: int, divisor: float) -> Any:
        """Return k equal columns."""
        return self.rows.repeated(h, k, divisor)

    def total(self, f: Callable[..., Any], *aligned: Any) -> Any:
        """Return sums over row-aligned arrays alone."""
        return self.rows.total(f, *aligned)

    def result(
        self, h: Any, f: Callable[[np.ndarray], np.ndarray] | None = None, at: tuple | None = None
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
        self.center = rows.mean() if center is None else np.asarray(center, dtype=np.float64)
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
    """Rows after a feature map, block by block, which gives every linear method a kernel form.

    Parameters
    ----------
    rows : Rows
        Any rows; rows on a device are copied to the host for the map.
    transform : callable
        Takes some rows (a NumPy array or ``csr_array``) and returns as many dense rows, for example the ``transform``
        of a fitted scikit-learn Nystroem.
    eps : float, default=0.0
        Relative round-off of the features; never below that of the rows.
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
        """Relative round-off of the features."""
        return max(self.rows.eps, self._eps)

    def values(self) -> Any:
        """Return the features of all rows as an array, in one pass."""
        return self.map(_raw)

    def row_bytes(self) -> float:
        """Return the bytes of one row of features."""
        return self.shape[1] * self.dtype.itemsize


def center_parts(center: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return a centre, and its rounding error in a dtype (None for float64), for ``X.shift(*parts)``.

    >>> center_parts(np.array([0.5, 1e8 + 1]), np.dtype("float32"))[1]
    array([0., 1.])
    """
    return center, None if dtype == np.float64 else center - center.astype(dtype)


def centered(rows: Rows, center: np.ndarray, mask: np.ndarray | None) -> Rows:
    """Return the rows with a centre subtracted; rows that ``mask`` leaves out become zeros."""
    rows = Centered(rows, center)
    return rows if mask is None else Weighted(rows, mask)


def _raw(X: Block) -> Any:
    return X.raw


class _Wrapped:
    """f, called on the blocks of a wrapper; a class, so that it can be pickled."""

    def __init__(self, wrap: Callable, f: RowFunction, n_own: int, n_shared: int, n_given: int) -> None:
        self.wrap, self.f = wrap, f
        self.only_sums = getattr(f, "only_sums", False)
        self.n_own, self.n_shared, self.n_given = n_own, n_shared, n_given

    def __call__(self, block: Block, *args: Any) -> tuple[Any, Any]:
        own, args = args[: self.n_own], args[self.n_own :]
        aligned, args = args[: self.n_given], args[self.n_given :]
        shared, args = args[: self.n_shared], args[self.n_shared :]
        return self.f(self.wrap(block, *own, *shared), *aligned, *args)
