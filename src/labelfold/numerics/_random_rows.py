"""Random rows that do not depend on how the rows are cut into blocks."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from labelfold.rows import n_threads, run_jobs

# Number of rows drawn by one generator.
_PIECE = 1 << 16


class RandomRows:
    """Normal random rows (n, k) that do not depend on how the rows are cut into blocks; for `Rows.each`.

    Parameters
    ----------
    k : int
        Number of columns.
    seed : int
        Seed. Rows are drawn in pieces, each with its own generator, a child of this seed.
    first : numpy.random.Generator, optional
        The generator of the first piece, in place of such a child.
    scale : float
        Standard deviation.
    dtype : dtype
        The dtype of the rows.
    nonnegative : bool
        Whether absolute values are returned.

    Examples
    --------
    >>> draw = RandomRows(2, 0)
    >>> bool((draw(0, 9)[4:6] == draw(4, 6)).all())
    True
    """

    def __init__(
        self,
        k: int,
        seed: int,
        first: np.random.Generator | None = None,
        scale: float = 1.0,
        dtype: Any = np.float64,
        *,
        nonnegative: bool = False,
    ) -> None:
        self.k, self.seed, self.first = k, seed, first
        self.scale, self.dtype, self.nonnegative = scale, dtype, nonnegative

    def __call__(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from start to stop."""
        H = np.empty((stop - start, self.k), dtype=self.dtype)

        def draw(pieces: list[int], _: Any) -> None:
            for piece in pieces:
                begin = piece * _PIECE
                end = min(begin + _PIECE, stop)
                drawn = self._generator(piece).standard_normal((end - begin, self.k))[max(start - begin, 0) :]
                drawn *= self.scale
                H[max(begin - start, 0) : end - start] = np.abs(drawn) if self.nonnegative else drawn

        pieces = list(range(start // _PIECE, -(-stop // _PIECE)))
        n_jobs = min(len(pieces), n_threads())
        run_jobs(draw, [pieces[i::n_jobs] for i in range(n_jobs)])
        return H

    def _generator(self, piece: int) -> np.random.Generator:
        if self.first is None:
            return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(piece,)))
        if piece == 0:
            return deepcopy(self.first)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(piece - 1,)))
