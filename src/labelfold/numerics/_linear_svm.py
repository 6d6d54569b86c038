r"""Linear support vector machines by dual coordinate descent, with warm start from dual variables.

.. math:: \min_w \tfrac12 \|w\|^2 + \sum_i C_i\, \ell(y_i w'x_i), \qquad
          \ell(z) = \max(0, 1 - z) \text{ (hinge) or its square (squared hinge)}

is solved by its dual, in which w = sum_i alpha_i y_i x_i:

.. math:: \min_\alpha \tfrac12 \|w\|^2 + \tfrac12 \sum_i D_i \alpha_i^2 - \sum_i \alpha_i, \qquad
          0 \le \alpha_i \le U_i

with U_i = C_i and D_i = 0 for the hinge, no bound and D_i = 1 / (2 C_i) for its square.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from sklearn.exceptions import ConvergenceWarning

from labelfold.rows import run_jobs, shares
from labelfold.utils import warn_user

# Squared norms between this and its inverse neither overflow nor vanish in a solve, since their cubes do not; other
# rows are scaled first.
_MIN_SQUARE = np.cbrt(np.finfo(np.float64).tiny)
# With few columns, and dense rows of at most this size in bytes, an interior-point method follows this many rounds of
# coordinate steps. With up to 64 columns that takes half of the time; with 128 the coordinate steps alone end after
# 1,000 rounds without converging (benchmarks/limits.py --only SVM).
_ROUNDS, _FEW_COLUMNS, _MAX_DENSE = 16, 129, 64e6
# Maximum number of steps of the interior-point method, which takes 10 to 25; its gap at the end, relative to the sum
# of alpha; the smallest diagonal of its systems, relative to the squared norms of the rows; and the share of the way
# to the nearest bound that a step takes.
_MAX_STEPS, _SETTLED, _MIN_DIAGONAL, _TO_BOUND = 60, 1e-14, 1e-9, 0.995


class LinearSVM(NamedTuple):
    """A linear support vector machine, or r of them on the same rows (shapes in brackets).

    Attributes
    ----------
    w : ndarray of shape (d,) [(r, d)]
        The weights.
    intercept : float [ndarray of shape (r,)]
        The penalised intercept; 0 if there is none.
    alpha : ndarray of shape (n,) [(n, r)]
        The dual variables: in [0, C_i] for the hinge, at least 0 for its square; 0 for rows beyond the margin.
    gap : float
        The relative duality gap (primal - dual) / primal of w [the largest one], an upper bound of the relative
        distance of the objective to its minimum.
    n_iter : int
        Number of rounds over the dual variables [the largest].
    converged : bool
        Whether the gap is within ``tol`` [for all of them].
    """

    w: np.ndarray
    intercept: Any
    alpha: np.ndarray
    gap: float
    n_iter: int
    converged: bool


def linear_svm(
    X: Any,
    y: np.ndarray,
    C: Any = 1.0,
    *,
    loss: str = "squared_hinge",
    fit_intercept: bool = False,
    intercept_scaling: float = 1.0,
    alpha: np.ndarray | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    random_state: int = 0,
) -> LinearSVM:
    """Train a support vector machine, or r of them on the same rows: one against the rest, or one for each label.

    Parameters
    ----------
    X : ndarray or SciPy sparse matrix of shape (n, d)
        The rows, in float32 or float64. Sums are in float64.
    y : ndarray of shape (n,) [(n, r)]
        -1 or +1. A single class is allowed.
    C : float or ndarray of shape (n,) or (n, r), default=1.0
        The weight of each row's loss; 0 leaves a row out.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        The loss of a row.
    fit_intercept : bool, default=False
        Whether to add a constant column, whose weight is penalised like the others (as in liblinear and
        scikit-learn's LinearSVC).
    intercept_scaling : float, default=1.0
        The entries of that column. The larger they are, the less the intercept is penalised.
    alpha : ndarray of shape (n,) [(n, r)], optional
        Initial dual variables, for example of SVMs on slightly different rows. They are scaled to the best
        multiple, so a warm start is never worse than zero.
    tol : float, default=1e-6
        Tolerance: the relative duality gap.
    max_iter : int, default=1000
        Maximum number of rounds over the dual variables.
    random_state : int, default=0
        Seed of the order of the rows in each round.

    Returns
    -------
    LinearSVM
        The shapes in brackets are those for y of shape (n, r).

    References
    ----------
    C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan. A dual coordinate descent method for
    large-scale linear SVM. ICML 2008.

    Examples
    --------
    >>> import numpy as np
    >>> found = linear_svm(np.array([[2.0, 0.0], [-2.0, 0.0]]), np.array([1.0, -1.0]), C=10.0, loss="hinge")
    >>> found.w.round(6), found.alpha.sum().round(6)
    (array([0.5, 0. ]), np.float64(0.25))
    """
    from labelfold.numerics import _linear_svm_loops as kernels

    rows, (n, d) = _rows(X)
    y = np.asarray(y, dtype=np.float64)
    if is_one := y.ndim == 1:
        y, alpha = y[:, None], None if alpha is None else np.asarray(alpha)[:, None]
    signs, C, start = _check(y, C, alpha, n, loss)
    bias = constant = float(fit_intercept * intercept_scaling)
    q = kernels.squared_norms(*rows, n, bias)
    rows, q, bias, exponent = _scaled(rows, q, bias, n)
    if exponent:
        C = _scale_C(C, exponent)
        start = np.ldexp(start, 2 * exponent)
    if loss == "hinge":
        upper, diagonal = C, np.zeros_like(C)
    else:
        upper = np.where(C > 0, np.inf, 0.0)
        diagonal = np.divide(0.5, C, out=np.zeros_like(C), where=C > 0)
    W = np.empty((len(signs), d + 1))
    duals = np.minimum(start, upper)

    def train(machines: slice, stop: Any) -> list[tuple[float, int]]:
        ended = []
        for j in range(machines.start, machines.stop):
            if stop.is_set():
                break
            one = signs[j], upper[j], diagonal[j], q, duals[j], W[j], bias
            ended.append(_descend(rows, one, tol, max_iter, random_state))
        return ended

    n_values = rows[1].size if rows[0] is None else rows[0].size
    jobs = shares(len(signs), 16.0 * n_values * len(signs))  # most machines take about 16 rounds
    ended = [one for job in run_jobs(train, jobs) for one in job]
    gap, n_iter = max(ended, default=(0.0, 0))[0], max((rounds for _, rounds in ended), default=0)
    if gap > tol:
        warn_user(
            f"the support vector machine stopped after {n_iter} rounds with a relative duality gap of {gap:.1e}, "
            f"short of tol={tol:.1e}; lower C, scale X, or raise max_iter or tol",
            ConvergenceWarning,
        )
    if exponent:
        W, duals = np.ldexp(W, -exponent), np.ldexp(duals, -2 * exponent)
    found = LinearSVM(W[:, :d], constant * W[:, d], duals.T, gap, n_iter, gap <= tol)
    if not is_one:
        return found
    return found._replace(w=found.w[0], intercept=float(found.intercept[0]), alpha=found.alpha[:, 0])


def perceptron(X: Any, y: np.ndarray, max_epochs: int, random_state: int = 0) -> np.ndarray:
    """Return the number of mistakes of a perceptron without intercept on each row: the dual variables of its weights.

    Parameters
    ----------
    X : ndarray or SciPy sparse matrix of shape (n, d)
        Rows.
    y : ndarray of shape (n,)
        -1 or +1.
    max_epochs : int
        Maximum number of epochs; an epoch without a mistake is the last.
    random_state : int, default=0
        Seed of the order of the rows, which is the same in every epoch.

    Returns
    -------
    mistakes : ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> perceptron(np.array([[2.0, 0.0], [-2.0, 0.0]]), np.array([1.0, -1.0]), 5).sum()
    np.float64(1.0)
    """
    from labelfold.numerics import _linear_svm_loops as kernels

    rows, (n, d) = _rows(X)
    order = np.random.default_rng(random_state).permutation(n)
    return kernels.mistakes(*rows, np.asarray(y, dtype=np.float64), order, max_epochs, np.zeros(d + 1))


def svm_objective(
    w: np.ndarray, X: Any, y: np.ndarray, C: Any = 1.0, loss: str = "squared_hinge", intercept: float = 0.0
) -> float:
    """Return the primal objective: half the squared norm of w and the intercept, plus the losses of the rows."""
    slack = np.maximum(0.0, 1 - y * (X @ w + intercept))
    losses = slack if loss == "hinge" else slack * slack
    return float(0.5 * (w @ w + intercept**2) + (C * losses).sum())


def _descend(rows: tuple, one: tuple, tol: float, max_iter: int, seed: int) -> tuple[float, int]:
    """Train one SVM, and write alpha and w: coordinate steps and, with few columns, an interior-point method."""
    from labelfold.numerics import _linear_svm_loops as kernels

    y, upper, diagonal, _, alpha, w, bias = one
    if len(w) > _FEW_COLUMNS or 8 * len(y) * len(w) > _MAX_DENSE:
        return kernels.descend(*rows, *one, tol, max_iter, seed)
    rounds = min(_ROUNDS, max_iter)
    gap, n_iter = kernels.descend(*rows, *one, tol, rounds, seed)
    if gap <= tol or n_iter >= max_iter:
        return gap, n_iter
    used = upper > 0
    found = interior_minimum(_signed_rows(rows, y, bias, len(w) - 1)[used], upper[used], diagonal[used])
    if np.isfinite(found).all():
        alpha[used] = found
    # Coordinate steps set alpha to its bounds exactly.
    gap, more = kernels.descend(*rows, *one, tol, max_iter - n_iter, seed + n_iter)
    return gap, n_iter + more


@np.errstate(all="ignore")
def interior_minimum(Z: np.ndarray, upper: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """Return the alpha that minimises the dual, by a primal-dual interior-point method.

    Its matrix is a diagonal plus Z Z', so a step solves a system with the small matrix of the columns (Woodbury;
    Ferris and Munson, 2002), for Mehrotra's predictor and corrector. Entries of alpha are near
    their bounds, not on them.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        The rows, each times its sign.
    upper, diagonal : ndarray of shape (n,)
        The bounds, above 0 and possibly infinite, and what is added to the diagonal of Z Z'.
    """
    boxed, squares = np.isfinite(upper), np.einsum("ij,ij->i", Z, Z) + diagonal
    alpha = np.minimum(upper / 2, 1 / squares)
    room = upper - alpha
    low, high = (
        np.ones(len(Z)),
        np.where(boxed, 1.0, 0.0),
    )  # the multipliers of alpha >= 0 and of alpha <= upper
    for _ in range(_MAX_STEPS):
        gap = alpha @ low + room[boxed] @ high[boxed]
        if not gap > _SETTLED * alpha.sum():
            break
        gradient = Z @ (Z.T @ alpha) + diagonal * alpha - 1
        theta = np.maximum(diagonal + low / alpha + high / room, _MIN_DIAGONAL * squares)
        A = np.eye(Z.shape[1]) + Z.T @ (Z / theta[:, None])
        if not np.isfinite(A).all():
            break
        factor = linalg.cho_factor(A, overwrite_a=True)

        # Targets of alpha * low and room * high after the step: 0 for the predictor; for the corrector those of a
        # central point, less the second-order terms of the predictor.
        to_low = to_high = 0.0
        for corrected in (False, True):
            b = (to_low / alpha - to_high / room - gradient) / theta
            move = b - Z @ linalg.cho_solve(factor, Z.T @ b, check_finite=False) / theta
            of_low, of_high = (to_low - low * move) / alpha - low, (to_high + high * move) / room - high
            shares = -move / alpha, move / room, -of_low / low, -of_high[boxed] / high[boxed]
            share = 1 / max(1.0, *(one.max(initial=0.0) for one in shares))
            if not corrected:
                after = (alpha + share * move) @ (low + share * of_low)
                after += (room - share * move)[boxed] @ (high + share * of_high)[boxed]
                goal = gap / (len(Z) + boxed.sum()) * (after / gap) ** 3
                to_low, to_high = goal - move * of_low, boxed * (goal + move * of_high)
        share *= _TO_BOUND
        alpha, room = alpha + share * move, room - share * move
        low, high = low + share * of_low, high + share * of_high
    return np.minimum(alpha, upper)


def _signed_rows(rows: tuple, y: np.ndarray, bias: float, d: int) -> np.ndarray:
    """Return dense rows with the column of the intercept, each row times its sign, (n, d + 1)."""
    X, *stored = rows
    Z = np.empty((len(y), d + 1))
    Z[:, :d] = sparse.csr_array(tuple(stored), shape=(len(y), d)).toarray() if X is None else X
    Z[:, d] = bias
    Z *= y[:, None]
    return Z


def _rows(X: Any) -> tuple[tuple, tuple[int, int]]:
    """Return the rows as the compiled loops take them, dense and sparse ones in different forms, and their shape."""
    if not sparse.issparse(X):
        X = np.asarray(X)
        X = np.ascontiguousarray(X, dtype=X.dtype if X.dtype.kind == "f" else np.float64)
        return (_read_only(X), None, None, None), X.shape
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    data = X.data if X.dtype.kind == "f" else X.data.astype(np.float64)
    return (None, _read_only(data), _read_only(X.indices), _read_only(X.indptr)), X.shape


def _read_only(a: np.ndarray) -> np.ndarray:
    """Return a read-only view. Loops are compiled for it only, not again for arrays that may be written to."""
    view = a.view()
    view.flags.writeable = False
    return view


def _check(
    y: np.ndarray, C: Any, alpha: np.ndarray | None, n: int, loss: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return signs, weights and initial values, each (r, n)."""
    if loss not in ("hinge", "squared_hinge"):
        raise ValueError(f"loss={loss!r} was given, where 'hinge' or 'squared_hinge' is expected")
    if y.ndim != 2:
        raise ValueError(f"y has {y.ndim} dimensions, where signs of shape (n,) or (n, r) are expected")
    signs = np.ascontiguousarray(y.T)
    if signs.shape[1:] != (n,):
        raise ValueError(f"there are signs for {len(y)} rows and {n} rows; pass one sign a row")
    if not (np.abs(signs) == 1).all():
        raise ValueError("the signs hold other values than -1 and +1; encode the two classes so")
    C = np.asarray(C, dtype=np.float64)
    if not ((C >= 0) & np.isfinite(C)).all():
        raise ValueError(
            "C has a negative or infinite entry, where finite weights of at least 0 are expected"
        )
    C = np.array(np.broadcast_to(C.T, signs.shape), order="C")
    if alpha is None:
        return signs, C, np.zeros(signs.shape)
    start = np.asarray(alpha, dtype=np.float64).T
    if start.shape != signs.shape or not ((start >= 0) & np.isfinite(start)).all():
        raise ValueError(
            f"alpha of shape {start.T.shape} was given, where {signs.T.shape} finite dual variables of at least 0 "
            "are expected; start from those of an earlier solution, or from None"
        )
    return signs, C, start


def _scaled(rows: tuple, q: np.ndarray, bias: float, n: int) -> tuple[tuple, np.ndarray, float, int]:
    """Return rows divided by a power of two if their squares would overflow or vanish, and its exponent."""
    largest = q.max(initial=0.0)
    if _MIN_SQUARE < largest < 1 / _MIN_SQUARE:
        return rows, q, bias, 0
    X, data, *where = rows
    peak = float(np.abs(data if X is None else X).max(initial=0.0))
    if not np.isfinite(peak):
        raise ValueError("X contains NaN or infinity, where finite numbers are expected")
    if peak == 0:
        return rows, q, bias, 0
    from labelfold.numerics import _linear_svm_loops as kernels

    exponent = int(np.frexp(peak)[1])
    X, data = (None if a is None else _read_only(np.ldexp(a, -exponent)) for a in (X, data))
    rows, bias = (X, data, *where), float(np.ldexp(bias, -exponent))
    return rows, kernels.squared_norms(*rows, n, bias), bias, exponent


def _scale_C(C: np.ndarray, exponent: int) -> np.ndarray:
    """Return C for rows divided by 2 to the exponent; raise an error if it would overflow or vanish."""
    with np.errstate(over="ignore"):
        scaled = np.ldexp(C, 2 * exponent)
    if not np.isfinite(scaled).all() or ((scaled < np.finfo(np.float64).tiny) & (C > 0)).any():
        raise ValueError(
            f"X has values of about {2.0**exponent:.0e}, whose squares times C leave the range of floating-point "
            "numbers; scale X to about 1"
        )
    return scaled
