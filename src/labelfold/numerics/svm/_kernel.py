r"""Support vector machines on a precomputed kernel, by sequential minimal optimisation, warm-started.

.. math:: \max_a \sum_i a_i - \tfrac12 \sum_{i,l} a_i a_l y_i y_l K_{il}, \qquad
          0 \le a_i \le C_i, \quad \sum_i a_i y_i = 0

The machine is f(x) = sum_i a_i y_i K(x_i, x) + bias. libsvm solves the same problem from nothing each time; here the
dual variables of a machine on slightly different rows are a start, whatever became of the kernel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from labelfold._warn import warn_user
from labelfold.numerics.svm._linear import check_duals


class KernelSVM(NamedTuple):
    """A kernel machine, or r of them that share their rows (shapes in brackets).

    Attributes
    ----------
    alpha : ndarray of shape (n,) [(n, r)]
        The dual variables a, between 0 and C.
    bias : float [ndarray of shape (r,)]
        What is added to sum_i a_i y_i K(x_i, x).
    objective : float [ndarray of shape (r,)]
        The dual objective.
    primal : float [ndarray of shape (r,)]
        The primal objective of the same machine, never below the dual one.
    gap : float
        (primal - dual) / primal [the largest]: how far at most the objectives lie from their optimum.
    n_iter : int
        Pairs moved [the most].
    converged : bool
        Whether the gap is within ``tol`` [all are].
    """

    alpha: np.ndarray
    bias: Any
    objective: Any
    primal: Any
    gap: float
    n_iter: int
    converged: bool


def kernel_svm(
    K: np.ndarray,
    y: np.ndarray,
    C: Any = 1.0,
    *,
    alpha: np.ndarray | None = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
) -> KernelSVM:
    """Train a support vector machine on a kernel matrix.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel of every two rows: symmetric, positive semi-definite.
    y : ndarray of shape (n,)
        -1 or +1. One class only is allowed: the machine is then its sign.
    C : float or ndarray of shape (n,), default=1.0
        The most that a dual variable may be; 0 leaves a row out.
    alpha : ndarray of shape (n,), optional
        Where to start from, for instance the dual variables of a machine on another kernel. What breaks the
        constraints is mended, and the rest scaled to its best multiple: a start is never worse than zero.
    tol : float, default=1e-8
        The relative duality gap to reach.
    max_iter : int, optional
        The most pairs to move; ``10,000 + 100 n`` when None.

    Returns
    -------
    KernelSVM

    Notes
    -----
    Pairs of variables are chosen by second-order information. Between rounds of pairs the m variables that lie
    strictly between their bounds are solved for at once, at a cost of m^3: pairs find out which those are, the solve
    gives them all their digits.

    References
    ----------
    R.-E. Fan, P.-H. Chen, C.-J. Lin. Working set selection using second order information for training support vector
    machines. JMLR 6, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([-2.0, -1.0, 1.0, 3.0])
    >>> found = kernel_svm(np.outer(x, x), np.sign(x), C=10.0)
    >>> found.alpha, found.bias          # the two rows in the middle, and the plane half-way between them
    (array([0. , 0.5, 0.5, 0. ]), 0.0)
    """
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y has {y.ndim} dimensions, where one sign a row is expected; see kernel_svms")
    start = None if alpha is None else np.asarray(alpha)[:, None]
    found = _train(K, y[:, None], C, start, tol, max_iter)
    numbers: dict[str, Any] = {
        name: float(getattr(found, name)[0]) for name in ("bias", "objective", "primal")
    }
    return found._replace(alpha=found.alpha[:, 0], **numbers)


def kernel_svms(
    K: np.ndarray,
    Y: np.ndarray,
    C: Any = 1.0,
    *,
    alpha: np.ndarray | None = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
) -> KernelSVM:
    """Train r machines on the same kernel, one for each column of Y: one-vs-rest, or one a label.

    Parameters
    ----------
    K, tol, max_iter
        As `kernel_svm` has them.
    Y : ndarray of shape (n, r)
        -1 or +1.
    C : float or ndarray of shape (n,) or (n, r), default=1.0
        The most that a dual variable may be.
    alpha : ndarray of shape (n, r), optional
        Dual variables to start from.

    Returns
    -------
    KernelSVM
        With the shapes in brackets.
    """
    return _train(K, Y, C, alpha, tol, max_iter)


def unsettled(gap: float, n_iter: int, C: Any, tol: float) -> str:
    """Return the sentence for machines that stopped short."""
    return (
        f"stopped after {n_iter} steps with a relative duality gap of {gap:.1e}, short of {tol:.1e}, at "
        f"C={np.max(C):g}; lower C, or scale X"
    )


def _train(
    K: np.ndarray,
    Y: np.ndarray,
    C: Any,
    alpha: np.ndarray | None,
    tol: float,
    max_iter: int | None,
) -> KernelSVM:
    K = np.ascontiguousarray(K, dtype=np.float64)
    signs, C, start = _check(K, Y, C, alpha)
    found = solve_machines(K, signs, C, start * signs, tol, max_iter)
    if not found.converged:
        warn_user(
            f"the support vector machine {unsettled(found.gap, found.n_iter, C, tol)}, or raise max_iter or tol",
            ConvergenceWarning,
        )
    return found


def solve_machines(
    K: np.ndarray,
    signs: np.ndarray,
    C: np.ndarray,
    s: np.ndarray,
    tol: float,
    max_iter: int | None = None,
    target: np.ndarray | None = None,
) -> KernelSVM:
    """Solve for s = a o y, all of shape (r, n), in place: `kernel_svms` without its checks and its warning.

    With a ``target`` (n,) the loss is max(0, y (target - f)), of which y itself is the usual one.
    """
    from labelfold.numerics.svm import _smo_loops as kernels

    low, high = np.where(signs > 0, 0.0, -C), np.where(signs > 0, C, 0.0)
    r, n = signs.shape
    most = 10_000 + 100 * n if max_iter is None else max_iter
    bias, dual, primal, error, gap, n_iter = np.empty(r), np.empty(r), np.empty(r), np.empty(n), 0.0, 0
    for j in range(r):
        bias[j], dual[j], primal[j], one_gap, steps = kernels.solve(
            K, signs[j] if target is None else target, low[j], high[j], s[j], error, tol, most
        )
        gap, n_iter = max(gap, one_gap), max(n_iter, steps)
    return KernelSVM(np.abs(s).T, bias, dual, primal, gap, n_iter, gap <= tol)


def _check(
    K: np.ndarray, Y: np.ndarray, C: Any, alpha: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return signs, bounds and start, each (r, n)."""
    n = len(K)
    if K.shape != (n, n):
        raise ValueError(
            f"K has shape {K.shape}, where a kernel matrix is square, one row and column a row of X"
        )
    if not np.isfinite(K).all():
        raise ValueError("K contains NaN or infinity, where finite numbers are expected; scale X")
    return check_duals(Y, C, alpha, n, of=f"a kernel of {n}", bounds="bounds")
