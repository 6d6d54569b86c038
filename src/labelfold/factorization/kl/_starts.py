"""Initial factors of least I-divergence: near the product of X's margins, improved on a sample of the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from labelfold.factorization.kl._factors import divergence_factors
from labelfold.numerics import count_negative, factor_start
from labelfold.rows import Block, Rows, as_rows
from labelfold.utils import warn_user

# Largest relative deviation of random entries from the product of the margins. It is small, because larger ones lead
# to worse minima, and entries that start near zero recover slowly.
_SPREAD = 0.2
# The sample: one row in this many, up to this number of rows, but at least this many for each component; and the
# number of iterations on it.
_ONE_IN, _SAMPLE, _ROWS_EACH, _TRIES = 8, 20_000, 8, 12
# Most rows whose numbers are shuffled to draw the sample.
_SHUFFLED = 1_000_000
# Weight of the column's share of X in the basis, because a sample contains little about rare columns.
_COMMON = 0.5


class Margins(NamedTuple):
    """Sums of X.

    Attributes
    ----------
    row : array of shape (n,)
        Sum of each row, stored with the rows.
    column : ndarray of shape (d,)
        Sum of each column.
    n_negative : float
        Number of rows with negative entries.
    """

    row: Any
    column: np.ndarray
    n_negative: float


def margins(rows: Rows) -> Margins:
    """Return the sums of X and the number of rows with negative entries, in one pass.

    >>> from labelfold.rows import as_rows
    >>> margins(as_rows(np.array([[1.0, 2.0], [3.0, 4.0]]))).column
    array([4., 6.])
    """
    row, (column, n_negative) = rows.sweep(_survey, shared=(np.ones(rows.shape[1]),))
    return Margins(row, column, n_negative)


def divergence_start(
    rows: Rows, k: int, init: Any, found: Margins, random_state: Any
) -> tuple[Any, np.ndarray]:
    """Return the factors H (n, k), stored with the rows, and V (d, k) that ``init`` names or holds.

    Parameters
    ----------
    rows : Rows
        n rows of d columns, non-negative.
    k : int
        Number of columns of the factors.
    init : {"random", "nndsvda"} or (H, V)
        "random" draws them near the product of the margins and, if there are many rows, improves V on a sample first.
    found : Margins
        The sums of X.
    random_state : int, RandomState instance or None
        Seed of the random numbers.

    Returns
    -------
    H, V : array and ndarray
    """
    n, d = rows.shape
    if not isinstance(init, str) or init != "random":
        start = factor_start(rows, k, init, 1.0, random_state, nonnegative=True)
        return start.H, start.B
    if k > min(n, d):
        warn_user(
            f"n_components={k} is more than the smaller side of X, {min(n, d)}; the components beyond it add "
            "nothing, so lower n_components"
        )
    rng = np.random.default_rng(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    m = max(min(n // _ONE_IN, _SAMPLE), _ROWS_EACH * k)
    if 2 * m > n:
        return random_factors(rows, k, found, rng)
    # To shuffle all row numbers takes longer than a pass if there are many.
    index = np.sort(rng.permutation(n)[:m] if n <= _SHUFFLED else rng.choice(n, m, replace=False))
    V = _tried(rows.subset(index), k, found._replace(row=rows.pick(found.row, index)), rng)
    return rows.repeated(found.row, k, float(V.sum(dtype=np.float64))), V


def _tried(some: Rows, k: int, found: Margins, rng: np.random.Generator) -> np.ndarray:
    """Return V (d, k) after some iterations on a sample of rows.

    Columns that are zero in the sample get only their share of X, and are left out of the iterations if that is
    cheap.
    """
    H, V = random_factors(some, k, found, rng)
    seen = margins(some).column > 0
    V[~seen] = 0
    block = some.whole().narrow() if some.is_sparse else None
    if block is not None and block.shape[1] == seen.sum() < len(seen):
        some, V = as_rows(block.raw), V[seen]
    else:
        seen[:] = True
    V = divergence_factors(some, (H, V), max_iter=_TRIES, tol=0).state.V
    common = _COMMON * found.column / found.column.sum()
    whole = np.multiply.outer(common, V.sum(axis=0, dtype=np.float64)).astype(V.dtype, copy=False)
    V *= 1 - _COMMON
    whole[seen] += V
    return whole


def random_factors(rows: Rows, k: int, found: Margins, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Return factors whose product is close to that of the margins, drawn in the order of the rows on the host."""
    n, d = rows.shape
    V = _drawn(rng, (d, k), found.column / found.column.sum())
    H = _drawn(rng, (n, k), np.asarray(rows.get(found.row), dtype=np.float64) / k)
    return rows.put(H.astype(rows.dtype, copy=False)), V.astype(rows.dtype, copy=False)


def _drawn(rng: np.random.Generator, shape: tuple[int, int], margin: np.ndarray) -> np.ndarray:
    factor = rng.random(shape)
    factor *= _SPREAD
    factor += 1
    factor *= margin[:, None]
    return factor


def _survey(X: Block, ones: Any) -> tuple[Any, Any]:
    X = X.double()
    return X @ ones, (X.colsum(), count_negative(X))
