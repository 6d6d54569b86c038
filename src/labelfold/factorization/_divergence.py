r"""Non-negative factors X = H V' of least I-divergence, by multiplicative updates with extrapolation.

.. math:: D(X, HV') + \lambda\, D(S'X, S'HV'), \qquad
          D(A, B) = \sum_{ij} A_{ij} \log \frac{A_{ij}}{B_{ij}} - A_{ij} + B_{ij}

The second term, a *guide*, is optional. S (n, q) >= 0 has few non-zero rows, and the rows of S'X are treated as q
further rows of weight lambda, whose factor is S'H. With R = X / (HV'), R_S = S'X / (S'HV') and v the column sums of
V, an update is

.. math:: H \leftarrow H \circ \frac{R V + \lambda S R_S V}{v (1 + \lambda s_i)}, \qquad
          V \leftarrow V \circ \frac{R'H + \lambda R_S'S'H}{\sum_i h_i + \lambda \sum_i S'h_i}

An iteration is one pass over X. It updates H row by row, and computes the sums for the update of V, and the
divergence, at the new H. Before it both factors are extrapolated along their last change. A pass that raises the
objective is rejected, and the next one starts without extrapolation, so that an update cannot raise the divergence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from labelfold.base import Descent, Iterates, descend
from labelfold.factorization._starts import factor_start
from labelfold.numerics import count_negative
from labelfold.rows import Block, Rows, Term, as_rows, tiled
from labelfold.utils import warn_user

# Extrapolation as a share of the last change: at the start, its growth while it is accepted, and its maximum.
_AHEAD, _GROWTH, _FURTHEST = 0.5, 1.05, 1.0
# Extrapolation lowers an entry by at most this share of it, because an entry near zero recovers slowly.
_BRAKE = 0.05
# Smallest positive entry of V relative to its mean, and of H relative to the largest of its row. Smaller entries
# recover slowly and become denormal numbers, which are slow. Zeros stay zeros.
_LEAST_SHARE, _LEAST_SHARE_SINGLE = 1e-20, 1e-12
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


@dataclass(frozen=True, eq=False)
class Guide:
    """The second term: S for the rows at ``index``, S'X, and its weight lambda."""

    S: sparse.csr_array  # (l, q)
    index: np.ndarray  # (l,)
    rows: Rows  # S'X, q x d
    weight: float


@dataclass(eq=False)
class KLFactors:
    """The factors after an iteration. The basis is updated once more before the next iteration."""

    H: Any  # (n, k)  stored with the rows
    V: np.ndarray  # (d, k)


def divergence_factors(
    rows: Rows,
    start: tuple[Any, np.ndarray],
    guide: Guide | None = None,
    *,
    max_iter: int,
    accelerate: bool = True,
    **options: Any,
) -> Descent:
    """Update the factors until convergence: `descend` with the `iterates` below."""
    steps = iterates(rows, start, guide, max_iter=max_iter, accelerate=accelerate)
    return descend(steps, max_iter=max_iter, **options)


def iterates(
    rows: Rows,
    start: tuple[Any, np.ndarray],
    guide: Guide | None = None,
    *,
    max_iter: int,
    accelerate: bool = True,
) -> Iterates:
    """Update the factors, with one pass over X in each iteration.

    Parameters
    ----------
    rows : Rows
        X, n x d, non-negative.
    start : (H, V), arrays of shapes (n, k) and (d, k)
        Initial factors; zeros stay zeros. The references are released after the first pass.
    guide : Guide, optional
        A second term.
    max_iter : int
        Largest number of iterations.
    accelerate : bool, default=True
        Whether to extrapolate; without it these are plain multiplicative updates.

    Yields
    ------
    factors : KLFactors
    objective : float
    """
    H, V = rows.put(start[0]), np.ascontiguousarray(start[1], dtype=rows.dtype)
    place = None
    if guide is not None:
        place = rows.spread(guide.index, np.arange(len(guide.index)), len(guide.index))
    state = _State(H, H, V, V, V.sum(axis=0, dtype=np.float64), place)
    least = _least_share(V) * float(V.mean())
    del start, H, V  # a basis is large, so references are released
    beta, ahead = _AHEAD, False
    for iteration in count(1):
        H, den, sums, value = _pass(rows, guide, state, beta if ahead else 0.0)
        factors = KLFactors(H, state.V_hat)
        rose = yield factors, value
        if not rose:
            if ahead:
                beta = min(_GROWTH * beta, _FURTHEST)
            # The final iteration does not extrapolate, so it cannot be rejected.
            ahead = accelerate and iteration + 1 < max_iter
            state = _advance(state, H, sums, den, beta if ahead else 0.0, least)
            # Modified in place, so that a holder of the factors does not keep another basis in memory.
            factors.H, factors.V = state.H, state.V_last
        elif ahead:
            beta *= 0.5
            state, ahead = _called_back(state), False
        else:
            return
        del H, sums, factors


class _State(NamedTuple):
    """The starting point of the next pass."""

    H: Any  # (n, k)  after the last update
    H_last: Any  # (n, k)  after the update before that
    V_hat: np.ndarray  # (d, k)  extrapolated from V_last
    V_last: np.ndarray  # (d, k)  after the last update
    v: np.ndarray  # (k,)  column sums of V_hat
    place: Any = (
        None  # (n,)  index of each row in S, or the number of rows of S if it has none; stored with the rows
    )


def _advance(state: _State, H: Any, sums: np.ndarray, den: np.ndarray, beta: float, least: float) -> _State:
    """Return the state after an update of the basis."""
    from labelfold.factorization import _divergence_loops as loops
    from labelfold.rows import aligned

    sums = sums.astype(state.V_hat.dtype, copy=False)
    inverse = np.divide(1.0, den, out=np.zeros_like(den), where=den > 0)
    # The basis of two updates ago is no longer needed; its memory is reused.
    V_last = state.V_last
    new = aligned(sums.shape, sums.dtype) if V_last is state.V_hat else V_last
    V, V_hat, v = loops.multiplied(state.V_hat, state.V_last, sums, inverse, beta, _BRAKE, least, new)
    return _State(H, state.H, V_hat, V, v, state.place)


def _called_back(state: _State) -> _State:
    """Return the state without extrapolation, from which an update cannot raise the objective."""
    V = state.V_last
    return _State(state.H, state.H, V, V, V.sum(axis=0, dtype=np.float64), state.place)


def _pass(
    rows: Rows, guide: Guide | None, state: _State, beta: float
) -> tuple[Any, np.ndarray, np.ndarray, float]:
    """Update H in one pass over X; return it, the denominator and numerator of the update of V, and the objective."""
    V, v, H, last = state.V_hat, state.v, state.H, state.H_last
    if guide is None:
        H, (mass, (sums, loss)) = rows.sweep(_update, H, last, shared=(V, v, beta))
        return H, mass, sums, loss
    S, lam = guide.S, guide.weight
    H_L = _ahead(np, rows.pick(H, guide.index), rows.pick(last, guide.index), beta)
    G = (S.T @ H_L).astype(rows.dtype, copy=False)  # (q, k)
    # One row for each row in the guide, and a last one for all others.
    pull = np.zeros((len(guide.index) + 1, V.shape[1]))
    pull[:-1] = lam * (S @ guide.rows.get(guide.rows.map(kl_rows, G, shared=(V,))))
    share = np.append(1 + lam * S.sum(axis=1), 1.0)
    shared = (V, v, beta, pull, share)
    H, (mass, (sums, loss)) = rows.sweep(_update_guided, H, last, state.place, shared=shared)
    G = (S.T @ rows.pick(H, guide.index)).astype(rows.dtype, copy=False)
    guide_sums, guide_loss = guide.rows.sum(kl_sums, G, shared=(V, v))
    sums += lam * guide_sums
    return H, mass + lam * G.sum(axis=0, dtype=np.float64), sums, loss + lam * guide_loss


def _update(X: Block, H: Any, last: Any, V: Any, v: Any, beta: float) -> tuple[Any, Any]:
    H = _ahead(X.xp, H, last, beta)
    H = _scaled(X.xp, H, kl_rows(X, H, V), _divisor(X.xp, v))
    return H, (_mass(X.xp, H), kl_sums(X, H, V, v))


def _update_guided(
    X: Block, H: Any, last: Any, place: Any, V: Any, v: Any, beta: float, pull: Any, share: Any
) -> tuple[Any, Any]:
    H = _ahead(X.xp, H, last, beta)
    pull, share = X.xp.take(pull, place, axis=0), X.xp.take(share, place)
    H = _scaled(X.xp, H, (kl_rows(X, H, V) + pull) / share[:, None], _divisor(X.xp, v))
    return H, (_mass(X.xp, H), kl_sums(X, H, V, v))


def _ahead(xp: Any, H: Any, last: Any, beta: float) -> Any:
    """Return H extrapolated; ``_BRAKE`` limits how far an entry is lowered."""
    if not beta:
        return H
    if xp is np:
        from labelfold.factorization import _divergence_loops as loops

        return loops.looked_ahead(H, last, H.dtype.type(beta), H.dtype.type(_BRAKE))
    return H + xp.maximum(beta * (H - last), -_BRAKE * H)


def _scaled(xp: Any, H: Any, factors: Any, divisor: Any) -> Any:
    """Return H * factors / divisor, with positive entries above the least share; may write to ``factors``."""
    share = _least_share(H)
    if xp is np:
        from labelfold.factorization import _divergence_loops as loops

        return loops.scaled(H, factors, divisor.astype(H.dtype, copy=False), H.dtype.type(share))
    H = H * factors / divisor[None, :]
    least = share * xp.max(H, axis=1, keepdims=True)
    return xp.where(H > 0, xp.maximum(H, least), H)


def _least_share(factor: Any) -> float:
    """Return the least share for the precision of a factor, an array of any library."""
    return _LEAST_SHARE_SINGLE if "32" in str(factor.dtype) else _LEAST_SHARE


def _divisor(xp: Any, v: Any) -> Any:
    """Return column sums to divide by, with 1 in place of 0: the numerator of an empty component is 0 too."""
    return xp.where(v > 0, v, xp.ones_like(v))


def _mass(xp: Any, H: Any) -> Any:
    return H.sum(axis=0, dtype=np.float64) if xp is np else xp.sum(H, axis=0)


def divergence(X: Any, H: np.ndarray, V: np.ndarray) -> float:
    """Return D(X, H V') in one pass over X.

    >>> divergence(np.array([[1.0, 0.0]]), np.array([[1.0]]), np.array([[1.0], [0.5]]))
    0.5
    """
    rows = as_rows(X)
    return sum_of_divergences(rows, np.asarray(H, rows.dtype), np.ascontiguousarray(V))


def sum_of_divergences(rows: Rows, H: Any, V: np.ndarray) -> float:
    """Return D(X, H V') in one pass, with an H that is stored with the rows."""
    return float(rows.sum(kl_sums, H, shared=(V, V.sum(axis=0)))[1])


def kl_rows(X: Any, H: Any, V: Any) -> Any:
    """Return R V (m, k), a row result."""
    if X.is_sparse:
        from labelfold.factorization import _divergence_loops as loops

        return loops.csr_ratio_rows(X.data, X.indices, X.indptr, H, V)
    if tiled(X.raw, H, V):
        from labelfold.factorization import _triton_divergence as gpu_loops

        return gpu_loops.ratio_rows(X.raw, H, V, floor(X.raw.dtype))
    return _ratios(X.xp, X.raw, H, V, with_loss=False)[0] @ V


def kl_sums(X: Any, H: Any, V: Any, v: Any) -> Term:
    """Return R'H (d, k) and the divergence, sums over rows."""
    if not X.is_sparse:
        return DenseRatioSums(X.xp, X.raw, H, V)
    if X.transpose is not None:
        columns, first_row = X.transpose
        return GatheredRatioSums(columns, first_row, H, V, v)
    return SparseRatioSums(X, H, V, v)


class DenseRatioSums(Term):
    """R'H of dense rows, and their divergence."""

    def __init__(self, xp: Any, X: Any, H: Any, V: Any) -> None:
        self.parts = xp, X, H, V

    def add(self, total: list | None) -> list:
        """Add the block's sums."""
        sums, loss = self._sums()
        if total is None:
            return [sums, loss]
        if self.parts[0] is np:
            sums += total[0]
            return [sums, loss + total[1]]
        return [sums + total[0], loss + total[1]]

    def _sums(self) -> tuple[Any, Any]:
        xp, X, H, V = self.parts
        if tiled(X, H, V):
            from labelfold.factorization import _triton_divergence as loops

            return loops.ratio_sums(X, H, V, floor(X.dtype))
        R, loss = _ratios(xp, X, H, V, with_loss=True)
        return R.T @ H, loss

    @staticmethod
    def merge(left: list, right: list) -> list:
        """Add two workers' sums."""
        return [Term.merge(left[0], right[0]), left[1] + right[1]]

    @staticmethod
    def finish(total: list) -> tuple[np.ndarray, float]:
        """Return the sums and the divergence as a pair."""
        return total[0], float(total[1])


class SparseRatioSums(Term):
    """R'H of sparse rows, scattered into the worker's (d, k) total, and their divergence."""

    def __init__(self, block: Any, H: np.ndarray, V: np.ndarray, v: np.ndarray) -> None:
        self.block, self.H, self.V, self.v = block, H, V, v

    def add(self, total: tuple | None) -> tuple:
        """Add the block's sums."""
        from labelfold.factorization import _divergence_loops as loops

        X, H, V = self.block, self.H, self.V
        sums, loss = (np.zeros(V.shape, dtype=V.dtype), 0.0) if total is None else total
        at_nonzeros, there = loops.csr_ratio_scatter(X.data, X.indices, X.indptr, H, V, sums)
        return sums, loss + at_nonzeros + _elsewhere(H, self.v, there)

    merge = staticmethod(DenseRatioSums.merge)
    finish = staticmethod(DenseRatioSums.finish)


class GatheredRatioSums(Term):
    """R'H of sparse rows in memory, computed after the pass: by columns, from the stored transpose."""

    def __init__(self, columns: Any, first_row: int, H: np.ndarray, V: np.ndarray, v: np.ndarray) -> None:
        self.piece = (first_row, H)
        self.finish = partial(_gathered, columns, V, v)

    def add(self, total: tuple | None) -> tuple:
        """Keep the H of the block until the pass has ended."""
        return (*(total or ()), self.piece)

    @staticmethod
    def merge(left: tuple, right: tuple) -> tuple:
        """Keep both lists."""
        return left + right


def _gathered(columns: Any, V: np.ndarray, v: np.ndarray, pieces: tuple) -> tuple[np.ndarray, float]:
    """Return the sums over each column, from all of H, after the pass."""
    from labelfold.factorization import _divergence_loops as loops
    from labelfold.rows import aligned

    parts = [piece[1] for piece in sorted(pieces, key=lambda piece: piece[0])]
    H = aligned((sum(map(len, parts)), V.shape[1]), V.dtype)
    np.concatenate(parts, out=H)
    data, indices, indptr = columns()
    sums, loss, there = loops.csc_ratio_sums(data, indices, indptr, H, V)
    return sums, loss + _elsewhere(H, v, there)


def _ratios(xp: Any, X: Any, H: Any, V: Any, *, with_loss: bool) -> tuple[Any, Any]:
    """Return R = X / (H V') and, on request, the divergence, in float64 if the device has it."""
    if xp is np:
        from labelfold.factorization import _divergence_loops as loops

        P = H @ V.T
        logs = np.empty_like(P) if with_loss else None
        excess = loops.dense_ratios(X, P, logs, np.array(floor(P.dtype), dtype=P.dtype))
        if logs is None:
            return P, None
        np.log(logs, out=logs)
        return P, excess + np.einsum("ij,ij->i", X, logs).sum(dtype=np.float64)
    P = xp.maximum(H @ V.T, lowest(xp, X))
    R = X / P
    return R, block_divergence(xp, X, P, R) if with_loss else None


def block_divergence(xp: Any, X: Any, P: Any, R: Any) -> Any:
    """Return the sum of x log(x/p) - x + p, with 0 log 0 = 0, in float64 if the device has it."""
    each = X * xp.log(xp.where(X > 0, R, xp.ones_like(R))) + (P - X)
    try:
        return xp.sum(each, dtype=xp.float64)
    except (TypeError, RuntimeError):
        return xp.sum(each)


def lowest(xp: Any, X: Any) -> Any:
    """Return the lower bound of each entry of H V'."""
    share, least = floor(X.dtype)
    return xp.maximum(X * share, xp.full_like(X, least))


def floor(dtype: Any) -> tuple[float, float]:
    """Return the lower bound of a modelled value: a share of the value, and nearly the smallest positive number."""
    return (1e-20, 1.2e-38) if "32" in str(dtype) else (1e-200, 2.3e-308)


def _elsewhere(H: np.ndarray, v: np.ndarray, there: float) -> float:
    """Return the sum of H V' where X is zero: its total less ``there``, the sum at the non-zeros."""
    return float(H.sum(axis=0, dtype=np.float64) @ np.asarray(v, dtype=np.float64)) - there


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
