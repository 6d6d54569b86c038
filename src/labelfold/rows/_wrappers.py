"""Wrappers: rows with a transformation of each block. They copy nothing and need no pass of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from labelfold.rows._blocks import Block, DenseBlock, less_outer, unshift, unshift_gram, unshift_squares
from labelfold.rows._protocol import RowFunction, Rows
from labelfold.rows._sums import Term, Together
from labelfold.rows.adapters._local import dense_block_rows

# Rows that are copied at a time: as many as fit into the cache of a core beside the products, but enough to outweigh
# the addition of their sum.
_TILE_BYTES, _TILE_ROWS = 400 << 10, 128


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


class ShiftedBlock(Block):
    """X - u a': u[i] times the vector a is subtracted from row i, implicitly, so that X stays sparse."""

    def __init__(self, block: Block, center: np.ndarray, u: np.ndarray | None = None) -> None:
        self.block, self.center = block, np.asarray(center, dtype=np.float64)
        self.shape, self.dtype, self.is_sparse = block.shape, block.dtype, block.is_sparse
        self.kind = block.kind
        self.u = np.ones(block.shape[0], dtype=block.dtype) if u is None else u

    @property
    def raw(self) -> np.ndarray:
        """The shifted rows, which are dense."""
        return self.dense()

    def __matmul__(self, M: np.ndarray) -> np.ndarray:
        shifts = np.asarray(self.center @ M, dtype=self.dtype)
        return self.block @ M - (np.outer(self.u, shifts) if M.ndim == 2 else self.u * shifts)

    def t(self, H: np.ndarray) -> Term:
        """Return X'H - a (u'H)."""
        return Together(partial(unshift, center=self.center), self.block.t(H), self.u @ H)

    def gram(self) -> Term:
        """Return X'X - X'u a' - a u'X + (u'u) a a'."""
        finish = partial(unshift_gram, center=self.center)
        return Together(finish, self.block.gram(), self.block.t(self.u[:, None]), self.u @ self.u)

    def colsum(self) -> Term:
        """Return the sum of the rows."""
        return Together(partial(unshift, center=self.center), self.block.colsum(), self.u.sum())

    def colsq(self) -> Term:
        """Return the squared norm of each column."""
        finish = partial(unshift_squares, center=self.center)
        return Together(finish, self.block.colsq(), self.block.t(self.u), self.u @ self.u)

    def sq(self) -> np.ndarray:
        """Return the squared norm of each row."""
        cross = self.block @ self.center
        squares = self.block.sq() - 2 * self.u * cross + self.u**2 * (self.center @ self.center)
        return squares.astype(self.dtype, copy=False)

    def min(self) -> np.ndarray:
        """Return the smallest entry of each row, formed a row at a time."""
        raw, u = self.block.raw, self.u
        smallest = [(raw[[i]].toarray() - u[i] * self.center).min() for i in range(len(u))]
        return np.array(smallest, dtype=self.dtype)

    def outer(self, P: np.ndarray | None = None) -> np.ndarray:
        """Return (X - u a')(X - u a')', or its product with P, from products with X and vectors of length m only."""
        cross = self._cross
        rest = cross - (self.center @ self.center) * self.u
        right = np.stack([self.u, rest])
        if P is not None:
            # Vector by vector takes less time than a product with two rows. In float32 only if P is rough, too.
            right = np.stack([row.astype(P.dtype) @ P.astype(self.dtype, copy=False) for row in right])
        return less_outer(self.block.outer(P), np.stack([cross, self.u], axis=1), right)

    @cached_property
    def _cross(self) -> np.ndarray:
        """X a."""
        return self.block @ self.center

    def double(self) -> ShiftedBlock:
        """Return the block in float64."""
        return ShiftedBlock(self.block.double(), self.center, self.u.astype(np.float64))

    def single(self) -> ShiftedBlock:
        """Return the block in float32."""
        return ShiftedBlock(self.block.single(), self.center, self.u.astype(np.float32))

    def occupied(self) -> np.ndarray:
        """Return a mask of the columns with an entry or a shift."""
        return self.block.occupied() | (self.center != 0)

    def narrow(self, keep: np.ndarray | None = None) -> ShiftedBlock:
        """Return the block without columns that have neither an entry nor a shift."""
        keep = self.occupied() if keep is None else keep
        return ShiftedBlock(self.block.narrow(keep), self.center[keep], self.u)

    def scale(self, weights: np.ndarray) -> ShiftedBlock:
        """Return the block with each row multiplied by its weight."""
        weights = np.asarray(weights, dtype=self.dtype)
        return ShiftedBlock(self.block.scale(weights), self.center, self.u * weights)

    def dense(self) -> np.ndarray:
        """Return the rows as a dense array."""
        return (self.block.dense() - np.outer(self.u, self.center)).astype(self.dtype, copy=False)


class WidenedBlock(DenseBlock):
    """Rows in float64, copied as a whole only if they are needed so."""

    def __init__(self, X: np.ndarray) -> None:
        self.stored = X
        self.shape, self.dtype = X.shape, np.dtype(np.float64)

    @cached_property
    def X(self) -> np.ndarray:  # type: ignore[override]
        """The rows in float64."""
        return self.stored.astype(np.float64)

    def t(self, H: np.ndarray) -> Term:
        """Return X'H."""
        return WidenedTransposed(self.stored, np.asarray(H, dtype=np.float64))


class WidenedTransposed(Term):
    """X'H in float64, a few rows at a time: a copy of all rows would leave the cache."""

    def __init__(self, X: np.ndarray, H: np.ndarray) -> None:
        self.X, self.H = X, H

    def add(self, total: np.ndarray | None) -> np.ndarray:
        """Add the block's sum.

        >>> X, H = np.eye(2, dtype=np.float32), np.array([[3.0], [4.0]])
        >>> WidenedTransposed(X, H).add(None)
        array([[3.],
               [4.]])
        """
        m, d = self.X.shape
        step = max(_TILE_ROWS, _TILE_BYTES // (8 * max(1, d)))
        total = np.zeros((d, *self.H.shape[1:])) if total is None else total
        tile = np.empty((min(m, step), d))
        for start in range(0, m, step):
            own = tile[: m - start]
            own[...] = self.X[start : start + step]
            total += own.T @ self.H[start : start + step]
        return total
