r"""KLNMF: non-negative factors of minimum I-divergence (Lee & Seung 1999), in memory proportional to the data.

.. math:: D(X, HV') + \lambda\, D(S'X, S'HV'), \qquad
          D(A, B) = \sum_{ij} A_{ij} \log \frac{A_{ij}}{B_{ij}} - A_{ij} + B_{ij}

The second term is optional; NMFAlpha uses it. S (n, q) >= 0 has few non-zero rows, and the rows of S'X are treated as
q further rows of weight lambda, whose factor is S'H. With R = X / (HV'), R_S = S'X / (S'HV') and v the column sums of
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
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from labelfold.base import Iterates, constraints, descend, fitting
from labelfold.factorization._components import (
    NonnegativeFactorisation,
    factor_start,
    times,
    weighted,
)
from labelfold.factorization._divergence import (
    divergence,
    extrapolated,
    kernels,
    kl_rows,
    kl_sums,
    minimum_share,
    solve_rows,
    total,
)
from labelfold.labels import read_weights
from labelfold.numerics import count_negative, refuse_negative
from labelfold.rows import Block, Rows, Weighted, as_rows, single_blas
from labelfold.utils import warn_user

# Growth of the extrapolation while it is accepted: it doubles in 14 iterations. A rejected one halves it.
_GROWTH = 1.05
# Extrapolation lowers an entry by at most this share of it, because an entry near zero recovers slowly.
_MAX_FALL = 0.05
# Budget of the sample that improves random initial values: its maximum number of rows, and
# its minimum number for each component, so that several rows determine one.
_SAMPLE, _ROWS_EACH = 20_000, 8


class DivergenceNMF(NonnegativeFactorisation):
    """A non-negative factorisation X = H V' by I-divergence."""

    _parameter_constraints = {**NonnegativeFactorisation._parameter_constraints, **constraints("corrected")}

    def _embed(self, rows: Rows) -> Any:
        return self._embed_rows(rows)

    def _embed_rows(self, rows: Rows) -> Any:
        V = np.ascontiguousarray(self.components_.T)
        root = self._root() if self.corrected else np.empty((0, 0))
        # A row stops when its divergence is at most 1e-5 of its sum above the minimum, or after 3,000 sweeps.
        shared = V, V.sum(axis=0), root, 1e-5, 3000
        H, n_negative = rows.sweep(_embed_block, shared=shared)
        refuse_negative(rows, n_negative, estimator=type(self).__name__)
        return H

    def _check_sums(self, rows: Rows) -> Margins:
        """Check that X can be factorised, and return its sums, in one pass."""
        found = margins(rows)
        refuse_negative(rows, found.n_negative, estimator=type(self).__name__)
        total = float(found.column.sum())
        if total == 0:
            raise ValueError(
                "X holds nothing but zeros, so there is nothing to factorise; give it rows with positive entries"
            )
        # The range in which products of the factors neither overflow nor vanish.
        low, high = (1e-25, 1e30) if rows.dtype == np.float32 else (1e-200, 1e200)
        if not low <= total <= high:
            raise ValueError(
                f"X has entries that sum to {total:.1e}, where {low:.0e} to {high:.0e} is expected of {rows.dtype} "
                "values; multiply X by a constant"
            )
        return found

    def _start(self, rows: Rows, sums: Margins, weights: np.ndarray | None) -> tuple[Any, np.ndarray]:
        """Return the initial factors that ``init`` names or holds; ``sums`` are weighted."""
        with single_blas():
            return divergence_start(rows, self.n_components, self.init, sums, self.random_state, weights)

    def _store(self, rows: Rows, H: Any, V: np.ndarray, weights: np.ndarray | None) -> None:
        """Store the components and the embedding, from the factors of the rows times their weights."""
        self.components_: np.ndarray = np.array(V.T, dtype=np.float64, order="C")
        f = partial(_times, self._root()) if self.corrected else None
        self.embedding_: Any = self._training_embedding(rows, H, weights, f=f)

    def _root(self) -> np.ndarray:
        return gram_root(self.components_)

    def _back(self) -> np.ndarray:
        if not self.corrected:
            return self.components_
        return np.linalg.pinv(self._root(), hermitian=True) @ self.components_


class KLNMF(DivergenceNMF):
    r"""Non-negative matrix factorisation by I-divergence, without labels, for counts and other non-negative data.

    It computes parts that add up to every row. They have the largest likelihood if entries are Poisson counts:

    .. math:: \min_{H, V \ge 0} D(X, HV'), \qquad
              D(A, B) = \sum_{ij} A_{ij} \log \frac{A_{ij}}{B_{ij}} - A_{ij} + B_{ij}

    This is the objective of scikit-learn's ``NMF(beta_loss="kullback-leibler", solver="mu")``.

    =============  ====================================================================
    X (n, d)       the rows
    H (n, k)       ``embedding_``: the amount of each part in a row
    V (d, k)       ``components_.T``: the parts
    =============  ====================================================================

    Parameters
    ----------
    n_components : int, default=10
        Number of parts k. It may exceed the number of rows or columns of X, with a warning.
    corrected : bool, default=False
        Whether the embedding is :math:`H (V'V)^{1/2}`, which has the inner products of the rows, rather than H.
    init : {"random", "nndsvda"} or tuple (H, V), default="random"
        Initial values: random near the product of X's margins (if there are many rows, improved on a sample first),
        from singular vectors, or given.
    max_iter : int, default=300
        Largest number of iterations; each reads X once.
    tol : float, default=1e-5
        Tolerance: stop when an iteration lowers the objective by at most this share of it.
    random_state : int, RandomState instance or None, default=0
        Seed of the initial values.
    verbose : int, default=0
        1 shows a progress bar over the iterations.
    on_interrupt : {"raise", "keep"}, default="raise"
        Whether Ctrl-C raises KeyboardInterrupt, or keeps the result of the last iteration.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The parts, V'.
    embedding_ : ndarray of shape (n, k)
        The embedding of the training rows at the end of the fit.
    objective_ : ndarray of shape (n_iter_,)
        The divergence after each iteration; it never rises.
    reconstruction_err_ : float
        The square root of twice the divergence, as in scikit-learn's NMF.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of columns of X in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, if X has any.

    Notes
    -----
    Memory beside a dense X, at most: ``64*(n + d)*k`` bytes in fit, ``64*m*k`` in transform, and 24 MB
    (docs/memory.md).

    With more components than X has rows or columns, the coordinates of a row are not unique. They may differ between
    a row alone and the same row in a batch, in particular in float32, where round-off decides how far a step is
    extrapolated. Their divergences from the row differ by at most 2e-5 of its sum.

    Cost: one pass over X in each iteration, O(k nnz), and O(nnz + k (n + d)) memory. Sparse rows are processed
    non-zero by non-zero in compiled loops, with rows in threads; dense rows in blocks that fit into the cache of a
    core.

    Memory: besides X there are at most three arrays of the size of V and five of the size of H at a time, in the
    dtype of X, and a further array of the size of V for each thread after the first.

    Updates are multiplicative, with extrapolation: see `labelfold.factorization._klnmf`. A zero row of X has a zero
    embedding; columns that are zero in X are zero in every part.

    The embedding of a new row is computed by updates of its own, until its divergence is at most 1e-5 of its sum
    above the minimum. So `transform` of a training row may differ from its ``embedding_``, which has not converged
    that far.

    ``sample_weight`` multiplies the divergence of a row: whole weights are repeated rows. Where random initial values
    depend on the rows, this holds in the mean over seeds.

    References
    ----------
    D. D. Lee, H. S. Seung. Learning the parts of objects by non-negative matrix factorization. Nature 401, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold import KLNMF
    >>> X = np.array([[4, 2, 0, 0], [2, 1, 0, 0], [0, 0, 1, 3]])
    >>> model = KLNMF(n_components=2).fit(X)
    >>> model.inverse_transform(model.transform(X)).round(2)
    array([[4., 2., 0., 0.],
           [2., 1., 0., 0.],
           [0., 0., 1., 3.]])
    """

    _needs_labels = False

    def __init__(
        self,
        n_components: int = 10,
        *,
        corrected: bool = False,
        init: Literal["random", "nndsvda"] | tuple[Any, Any] | list[Any] = "random",
        max_iter: int = 300,
        tol: float = 1e-5,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        on_interrupt: Literal["raise", "keep"] = "raise",
    ) -> None:
        self.n_components = n_components
        self.corrected = corrected
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.on_interrupt = on_interrupt

    @fitting
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Factorise X.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows without negative entries, in any container that `labelfold.rows.as_rows` takes.
        y : object
            Ignored.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.

        Returns
        -------
        self : KLNMF
        """
        rows = self._rows(X, reset=True)
        weights = read_weights(sample_weight, rows.shape[0])
        counted = weighted(rows, weights)
        sums = self._check_sums(counted)
        # The start is released after the first iteration, because a basis is large.
        steps = iterates(counted, self._start(rows, sums, weights), max_iter=self.max_iter)
        found = self._descend(steps)
        self._store(rows, found.H, found.V, weights)
        self.reconstruction_err_: float = float(np.sqrt(2 * max(self.objective_[-1], 0.0)))
        return self


def objective(X: Any, H: np.ndarray, V: np.ndarray) -> float:
    """Return the objective of KLNMF, D(X, H V'), in one pass over X.

    Parameters
    ----------
    X : container of shape (n, d)
        Rows.
    H, V : ndarray of shapes (n, k), (d, k)
        The factors.

    Returns
    -------
    f : float
    """
    return divergence(X, H, V)


@dataclass(frozen=True, eq=False)
class PreservedDirections:
    """The second term: S for the rows at ``index``, S'X, and its weight lambda.

    If rows are multiplied by their weights, S is divided by them.
    """

    S: sparse.csr_array  # (l, q)
    index: np.ndarray  # (l,)
    rows: Rows  # S'X, q x d
    weight: float


@dataclass(eq=False)
class KLFactors:
    """The factors after an iteration. The basis is updated once more before the next iteration."""

    H: Any  # (n, k)  stored with the rows
    V: np.ndarray  # (d, k)


def iterates(
    rows: Rows,
    start: tuple[Any, np.ndarray],
    directions: PreservedDirections | None = None,
    *,
    max_iter: int,
    max_beta: float = 1.0,
) -> Iterates:
    """Update the factors, with one pass over X in each iteration.

    Parameters
    ----------
    rows : Rows
        X, n x d, non-negative.
    start : (H, V), arrays of shapes (n, k) and (d, k)
        Initial factors; zeros stay zeros. The references are released after the first pass.
    directions : PreservedDirections, optional
        The second term.
    max_iter : int
        Largest number of iterations.
    max_beta : float, default=1.0
        Largest extrapolation, as a share of the last change; 0 makes plain multiplicative updates.

    Yields
    ------
    factors : KLFactors
    objective : float
    """
    H, V = rows.put(start[0]), np.ascontiguousarray(start[1], dtype=rows.dtype)
    row_of_S = None
    if directions is not None:
        l = len(directions.index)  # noqa: E741
        row_of_S = rows.spread(directions.index, np.arange(l), l)
    state = _State(H, H, V, V, V.sum(axis=0, dtype=np.float64), row_of_S)
    minimum = minimum_share(V.dtype) * float(V.mean())
    del start, H, V  # a basis is large, so references are released
    beta, ahead = 0.5, False
    for iteration in count(1):
        H, denominator, sums, value = _pass(rows, directions, state, beta if ahead else 0.0)
        factors = KLFactors(H, state.V_hat)
        rose = yield factors, value
        if not rose:
            if ahead:
                beta = min(_GROWTH * beta, max_beta)
            # The final iteration does not extrapolate, so it cannot be rejected.
            ahead = max_beta > 0 and iteration + 1 < max_iter
            state = _advance(state, H, sums, denominator, beta if ahead else 0.0, minimum)
            # Modified in place, so that a reference to the factors does not keep another basis in memory.
            factors.H, factors.V = state.H, state.V_last
        elif ahead:
            beta *= 0.5
            state, ahead = _without_extrapolation(state), False
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
    row_of_S: Any  # (n,)  for each row its row of S, or the number of rows of S if it has none


def _advance(
    state: _State, H: Any, sums: np.ndarray, denominator: np.ndarray, beta: float, minimum: float
) -> _State:
    """Return the state after an update of the basis (eq. 16)."""
    from labelfold.factorization import _divergence_loops as loops

    sums = sums.astype(state.V_hat.dtype, copy=False)
    inverse = np.divide(1.0, denominator, out=np.zeros_like(denominator), where=denominator > 0)
    # The basis of two updates ago is no longer needed; its memory is reused.
    V_last = state.V_last
    new = np.empty_like(sums) if V_last is state.V_hat else V_last
    limits = beta, _MAX_FALL, minimum
    V, V_hat, v = loops.multiply_and_extrapolate(state.V_hat, state.V_last, sums, inverse, *limits, new)
    return _State(H, state.H, V_hat, V, v, state.row_of_S)


def _without_extrapolation(state: _State) -> _State:
    """Return the state without extrapolation, from which an update cannot raise the objective."""
    V = state.V_last
    return _State(state.H, state.H, V, V, V.sum(axis=0, dtype=np.float64), state.row_of_S)


def _pass(
    rows: Rows, directions: PreservedDirections | None, state: _State, beta: float
) -> tuple[Any, np.ndarray, np.ndarray, float]:
    """Update H in one pass over X; return it, the denominator and numerator of the update of V, and the objective."""
    V, v, H, last = state.V_hat, state.v, state.H, state.H_last
    if directions is None:
        H, (mass, sums, loss) = rows.sweep(_update, H, last, shared=(V, v, beta))
        return H, mass, sums, loss
    S, lam, index = directions.S, directions.weight, directions.index
    H_L = extrapolated(rows.pick(H, index), rows.pick(last, index), beta, _MAX_FALL)
    G = (S.T @ H_L).astype(rows.dtype, copy=False)  # S'H (q, k)
    # lambda S R_S V, with a row for each row of S, and a last one of zeros for all others.
    added = np.zeros((len(index) + 1, V.shape[1]))
    added[:-1] = lam * (S @ directions.rows.get(directions.rows.map(kl_rows, G, shared=(V,))))
    share = np.append(1 + lam * S.sum(axis=1), 1.0)
    shared = (V, v, beta, added, share)
    H, (mass, sums, loss) = rows.sweep(_update_with_directions, H, last, state.row_of_S, shared=shared)
    G = (S.T @ rows.pick(H, index)).astype(rows.dtype, copy=False)
    sums_of_S, loss_of_S = directions.rows.sum(kl_sums, G, shared=(V, v))
    sums += lam * sums_of_S
    return H, mass + lam * G.sum(axis=0, dtype=np.float64), sums, loss + lam * loss_of_S


def _update(X: Block, H: Any, last: Any, V: Any, v: Any, beta: float) -> tuple[Any, Any]:
    """Return H * R V / v (eq. 15 of Cho and Saul with lambda = 0), and the sums for the update of V."""
    block = kernels(X)
    H = block.extrapolated(H, last, beta, _MAX_FALL)
    H = block.scaled(H, block.rows(H, V), _divisor(X.xp, v))
    return H, (total(H, axis=0), *block.sums(H, V, v))


def _update_with_directions(
    X: Block, H: Any, last: Any, row_of_S: Any, V: Any, v: Any, beta: float, added: Any, share: Any
) -> tuple[Any, Any]:
    """Return H * (R V + lambda S R_S V) / (v (1 + lambda s)) (eq. 15), and the sums for the update of V."""
    block = kernels(X)
    H = block.extrapolated(H, last, beta, _MAX_FALL)
    added, share = X.xp.take(added, row_of_S, axis=0), X.xp.take(share, row_of_S)
    H = block.scaled(H, (block.rows(H, V) + added) / share[:, None], _divisor(X.xp, v))
    return H, (total(H, axis=0), *block.sums(H, V, v))


def _divisor(xp: Any, v: Any) -> Any:
    """Return column sums to divide by, with 1 in place of 0: the numerator of an empty component is 0 too."""
    return xp.where(v > 0, v, xp.ones_like(v))


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
    row, (column, n_negative) = rows.sweep(_block_margins, shared=(np.ones(rows.shape[1]),))
    return Margins(row, column, n_negative)


def divergence_start(
    rows: Rows,
    k: int,
    init: Any,
    found: Margins,
    random_state: Any,
    weights: np.ndarray | None = None,
) -> tuple[Any, np.ndarray]:
    """Return the factors H (n, k), stored with the rows, and V (d, k) that ``init`` names or holds.

    With weights, rows of H are multiplied by them.

    Parameters
    ----------
    rows : Rows
        n rows of d columns, non-negative.
    k : int
        Number of columns of the factors.
    init : {"random", "nndsvda"} or (H, V)
        "random" draws them near the product of the margins and, if there are many rows, improves V on a sample first.
    found : Margins
        The sums of X, or of its rows times their weights.
    random_state : int, RandomState instance or None
        Seed of the random numbers.
    weights : ndarray of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    H, V : array and ndarray
    """
    n, d = rows.shape
    if not isinstance(init, str) or init != "random":
        root = None if weights is None else np.sqrt(weights)
        start = factor_start(
            weighted(rows, root), k, init, 1.0, random_state, nonnegative=True, root=root, keeps_zeros=True
        )
        return start.H if root is None else rows.map_aligned(times, start.H, rows.put(root)), start.B
    if k > min(n, d):
        warn_user(
            f"n_components={k} is more than the smaller side of X, {min(n, d)}; the components beyond it add "
            "nothing, so lower n_components"
        )
    rng = np.random.default_rng(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    m = max(min(n // 8, _SAMPLE), _ROWS_EACH * k)
    if 2 * m > n:
        return random_factors(rows, k, found, rng)
    if weights is not None:
        V = _basis_of_weighted_sample(rows, k, found, rng, weights, m)
        return rows.map_aligned(
            partial(_repeated, k, float(V.sum(dtype=np.float64)), rows.dtype), found.row
        ), V
    # If there are many rows, shuffling all their numbers takes longer than a pass.
    index = np.sort(rng.permutation(n)[:m] if n <= 1_000_000 else rng.choice(n, m, replace=False))
    V = _basis_of_sample(rows.subset(index), k, found._replace(row=rows.pick(found.row, index)), rng)
    H = rows.map_aligned(partial(_repeated, k, float(V.sum(dtype=np.float64)), rows.dtype), found.row)
    return H, V


def _basis_of_weighted_sample(
    rows: Rows, k: int, found: Margins, rng: np.random.Generator, weights: np.ndarray, m: int
) -> np.ndarray:
    """Return V of a sample of m rows, each drawn with a probability proportional to its weight."""
    drawn = rng.choice(len(weights), m, p=weights / weights.sum())
    index, times_drawn = np.unique(drawn, return_counts=True)
    sums = rows.pick(found.row, index) * (times_drawn / weights[index])
    sample = Weighted(rows.subset(index), times_drawn)
    return _basis_of_sample(sample, k, found._replace(row=sample.put(sums)), rng)


def _repeated(k: int, divisor: float, dtype: Any, start: int, stop: int, row: np.ndarray) -> np.ndarray:
    """Return k equal columns, the sums of rows over ``divisor``."""
    return np.repeat(row.astype(dtype)[:, None] / divisor, k, axis=1)


def _basis_of_sample(
    sample: Rows, k: int, found: Margins, rng: np.random.Generator, max_iter: int = 12
) -> np.ndarray:
    """Return V (d, k) after some iterations on a sample of rows.

    Columns that are zero in the sample get only their share of X, and are left out of the iterations if that is
    cheap.
    """
    H, V = random_factors(sample, k, found, rng)
    used = margins(sample).column > 0
    V[~used] = 0
    block = sample.narrow()
    if block is not None and block.shape[1] == used.sum() < len(used):
        sample, V = as_rows(block.raw), V[used]
    else:
        used[:] = True
    V = descend(iterates(sample, (H, V), max_iter=max_iter), max_iter=max_iter, tol=0).state.V
    # Half of the basis is the column's share of X, because a sample contains little about rare columns.
    common = 0.5 * found.column / found.column.sum()
    whole = np.multiply.outer(common, V.sum(axis=0, dtype=np.float64)).astype(V.dtype, copy=False)
    V *= 0.5
    whole[used] += V
    return whole


def random_factors(rows: Rows, k: int, found: Margins, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Return factors whose product is close to that of the margins, drawn in the order of the rows on the host."""
    n, d = rows.shape
    V = _random_near(rng, (d, k), found.column / found.column.sum())
    H = _random_near(rng, (n, k), np.asarray(rows.get(found.row), dtype=np.float64) / k)
    return rows.put(H.astype(rows.dtype, copy=False)), V.astype(rows.dtype, copy=False)


def _random_near(rng: np.random.Generator, shape: tuple[int, int], margin: np.ndarray) -> np.ndarray:
    """Return random entries that exceed the margin by at most a fifth.

    Larger deviations lead to worse minima, and entries that start near zero recover slowly.
    """
    factor = rng.random(shape)
    factor *= 0.2
    factor += 1
    factor *= margin[:, None]
    return factor


def _block_margins(X: Block, ones: Any) -> tuple[Any, Any]:
    X = X.double()
    return X @ ones, (X.colsum(), count_negative(X))


def _times(root: np.ndarray, H: np.ndarray) -> np.ndarray:
    return (H @ root).astype(H.dtype)


def gram_root(components: np.ndarray) -> np.ndarray:
    """Return (V'V)^(1/2), (k, k). An embedding times it has the inner products of the rows that it models (eq. 5)."""
    values, vectors = np.linalg.eigh(components @ components.T)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _embed_block(X: Block, V: Any, v: Any, root: Any, tol: float, max_sweeps: int) -> tuple[Any, Any]:
    n_negative = count_negative(X)
    if n_negative:  # the rows will be refused, and might take long to solve
        tol, max_sweeps = np.inf, 1
    H = solve_rows(X, V, v, tol, max_sweeps)
    return H @ root if root.shape[0] else H, n_negative
