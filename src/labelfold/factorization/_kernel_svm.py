r"""Support vector machines on a precomputed kernel, by sequential minimal optimisation, warm-started.

.. math:: \max_a \sum_i a_i - \tfrac12 \sum_{i,l} a_i a_l y_i y_l K_{il}, \qquad
          0 \le a_i \le C_i, \quad \sum_i a_i y_i = 0

The classifier is f(x) = sum_i a_i y_i K(x_i, x) + bias. libsvm solves the same problem from zero each time. Here the
dual variables of an earlier classifier on similar rows are a warm start, even if the kernel has changed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class KernelSVM(NamedTuple):
    """r kernel classifiers on the same rows.

    Attributes
    ----------
    alpha : ndarray of shape (n, r)
        The dual variables a, between 0 and C.
    bias : ndarray of shape (r,)
        Added to sum_i a_i y_i K(x_i, x).
    objective : ndarray of shape (r,)
        The dual objective.
    primal : ndarray of shape (r,)
        The primal objective, never below the dual one.
    gap : float
        The largest (primal - dual) / primal, an upper bound of the relative distance of the objectives to the
        optimum.
    n_iter : int
        Largest number of pairs moved.
    converged : bool
        Whether all gaps are within the tolerance.
    """

    alpha: np.ndarray
    bias: np.ndarray
    objective: np.ndarray
    primal: np.ndarray
    gap: float
    n_iter: int
    converged: bool


def unsettled(gap: float, n_iter: int, C: Any, tol: float) -> str:
    """Return a sentence for classifiers that did not converge."""
    return (
        f"stopped after {n_iter} steps with a relative duality gap of {gap:.1e}, short of {tol:.1e}, at "
        f"C={np.max(C):g}; lower C, or scale X"
    )


def solve_machines(
    K: np.ndarray,
    signs: np.ndarray,
    C: np.ndarray,
    s: np.ndarray,
    tol: float,
    max_iter: int | None = None,
    target: np.ndarray | None = None,
) -> KernelSVM:
    """Train r classifiers on the same kernel: one against the rest, or one for each label.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel matrix of the rows: symmetric, positive semi-definite, C-contiguous.
    signs : ndarray of shape (r, n)
        y, -1 or +1. A single class is allowed: the classifier is then its sign.
    C : ndarray of shape (r, n)
        Upper bounds of the dual variables; 0 leaves a row out.
    s : ndarray of shape (r, n)
        Initial values of a o y, overwritten with the solution. They are made feasible and scaled to the best
        multiple, so a warm start is never worse than zero.
    tol : float
        Tolerance: the relative duality gap.
    max_iter : int, optional
        Largest number of pairs to move; ``10,000 + 100 n`` when None.
    target : ndarray of shape (n,), optional
        The loss is max(0, y (target - f)); y itself is the usual target.

    Returns
    -------
    KernelSVM

    Notes
    -----
    Pairs of variables are chosen by second-order information. Between rounds of pairs the m variables strictly
    between their bounds are solved for jointly, at a cost of m^3. The pairs find out which variables these are, and
    the joint solution is accurate to all digits.

    References
    ----------
    R.-E. Fan, P.-H. Chen, C.-J. Lin. Working set selection using second order information for training support vector
    machines. JMLR 6, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[-2.0, -1.0, 1.0, 3.0]])
    >>> found = solve_machines(x.T * x, np.sign(x), np.full((1, 4), 10.0), np.zeros((1, 4)), 1e-8)
    >>> found.alpha.T, found.bias        # the two rows in the middle, and the plane half-way between them
    (array([[0. , 0.5, 0.5, 0. ]]), array([0.]))
    """
    from labelfold.factorization import _kernel_svm_loops as kernels

    low, high = np.minimum(signs * C, 0.0), np.maximum(signs * C, 0.0)
    r, n = signs.shape
    most = 10_000 + 100 * n if max_iter is None else max_iter
    bias, dual, primal, error, gap, n_iter = np.empty(r), np.empty(r), np.empty(r), np.empty(n), 0.0, 0
    for j in range(r):
        bias[j], dual[j], primal[j], one_gap, steps = kernels.solve(
            K, signs[j] if target is None else target, low[j], high[j], s[j], error, tol, most
        )
        gap, n_iter = max(gap, one_gap), max(n_iter, steps)
    return KernelSVM(np.abs(s).T, bias, dual, primal, gap, n_iter, gap <= tol)
