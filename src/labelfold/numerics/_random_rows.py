"""Random rows that do not depend on how the rows are cut into blocks."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from labelfold.rows import n_threads, run_jobs

# Number of rows drawn by one generator.
_CHUNK = 65_536


class RandomRows:
    """Normal random rows (n, k) that do not depend on how the rows are cut into blocks; for `Rows.map_aligned`.

    Parameters
    ----------
    k : int
        Number of columns.
    seed : int
        Seed. Rows are drawn in chunks, each with its own generator, a child of this seed.
    first : numpy.random.Generator, optional
        The generator of the first chunk, in place of such a child.
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

    k: int
    seed: int
    first: np.random.Generator | None
    scale: float
    dtype: Any
    nonnegative: bool

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

        def draw(chunks: list[int], _: Any) -> None:
            for chunk in chunks:
                begin = chunk * _CHUNK
                end = min(begin + _CHUNK, stop)
                drawn = self._generator(chunk).standard_normal((end - begin, self.k))[max(start - begin, 0) :]
                drawn *= self.scale
                H[max(begin - start, 0) : end - start] = np.abs(drawn) if self.nonnegative else drawn

        chunks = list(range(start // _CHUNK, -(-stop // _CHUNK)))
        n_jobs = min(len(chunks), n_threads())
        run_jobs(draw, [chunks[i::n_jobs] for i in range(n_jobs)])
        return H

    def _generator(self, chunk: int) -> np.random.Generator:
        if self.first is None:
            return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(chunk,)))
        if chunk == 0:
            return deepcopy(self.first)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(chunk - 1,)))
