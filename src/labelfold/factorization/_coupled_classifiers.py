r"""The classifiers that couple a factorisation to its labels; they are retrained whenever labelled rows move.

A "machine" computes the least loss of the labels, for labelled rows at Z = [U, bu] (l x (k+1)), and its gradient in
Z. Classifiers are re-optimised at each step, so by Danskin's theorem the partial gradient is enough. Each training
has a warm start from the previous one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.factorization._kernel_svm import KernelSVM, solve_machines, unsettled

# Newton's method for linear classifiers: relative tolerance on the loss, and most steps.
_NEWTON_TOL = 1e-14
_MOST_NEWTON = 50
# Most rounds over several classifiers.
_MOST_TURNS = 10


class LinearMachine:
    r"""r linear classifiers f = U w + bu + w0 with a smooth loss.

    .. math:: \min_{w, w_0} (1 - b) \sum_{i \in L} \sum_j \ell(y_{ij} f_{ij}) + \lambda_W \|W\|^2

    Parameters
    ----------
    T : ndarray of shape (l, r)
        Signs.
    loss : {"smooth_hinge", "logistic", "squared"}
        See `losses`.
    weight : float
        1 - b.
    penalty : float
        lambda W.
    """

    def __init__(self, T: np.ndarray, *, loss: str, weight: float, penalty: float) -> None:
        self.T, self.loss, self.weight, self.penalty = T, loss, weight, penalty
        self.W: Any = None  # (r, k), after training
        self.intercept: Any = None  # (r,)

    def train(self, Z: np.ndarray) -> float:
        """Return the least loss of the labels for rows at Z."""
        U, offsets = Z[:, :-1], Z[:, -1:]
        r, k = self.T.shape[1], U.shape[1]
        if self.W is None:
            self.W, self.intercept = np.zeros((r, k)), np.zeros(r)
        ones = np.hstack([U, np.ones((len(U), 1))])
        theta = np.hstack([self.W, self.intercept[:, None]])
        for j in range(r):
            theta[j] = self._newton(ones, offsets[:, 0], self.T[:, j], theta[j])
        self.W, self.intercept = theta[:, :-1].copy(), theta[:, -1].copy()
        value, self._slope, _ = losses(self.T * (ones @ theta.T + offsets), self.loss)
        return float(self.weight * value.sum() + self.penalty * (self.W**2).sum())

    def pull(self) -> np.ndarray:
        """Return the gradient of that loss in Z (l, k + 1), after training."""
        pull = self.weight * self._slope * self.T  # (l, r)
        return np.hstack([pull @ self.W, pull.sum(axis=1, keepdims=True)])

    def rows_step(self, D: np.ndarray, L: np.ndarray) -> None:
        """Return None: a smooth loss has no kinks at which L-BFGS could stall."""
        return None

    def shortfall(self) -> str | None:
        """Return None: Newton's method has no duality gap."""
        return None

    def _newton(self, ones: np.ndarray, offsets: np.ndarray, y: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return [w, w0] of one classifier, started from the previous one."""
        ridge = np.full(len(theta), 2 * self.penalty)
        ridge[-1] = 0.0

        def cost(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            value, slope, bend = losses(y * (ones @ theta + offsets), self.loss)
            return self.weight * value.sum() + 0.5 * ridge @ theta**2, slope, bend

        f, slope, bend = cost(theta)
        # Rows far from the boundary have no curvature. If a step was too long, some curvature is added for all rows.
        # A value of 2 for every row bounds that of the loss, so the step cannot fail except by round-off.
        lent = 0.0
        for _ in range(_MOST_NEWTON):
            gradient = self.weight * (ones.T @ (slope * y)) + ridge * theta
            H = self.weight * (ones.T * (bend + lent)) @ ones
            H[np.diag_indices_from(H)] += ridge + 1e-12 * (np.trace(H) + self.weight)
            step = np.linalg.solve(H, gradient)
            fall = gradient @ step
            if not fall > _NEWTON_TOL * max(f, np.finfo(float).tiny):
                break
            new = theta - step
            f_new, slope_new, bend_new = cost(new)
            if f_new <= f - 1e-4 * fall:
                theta, f, slope, bend = new, f_new, slope_new, bend_new
                lent *= 0.1
            elif lent < 2.0:
                lent = min(max(10 * lent, 1e-3), 2.0)
            else:
                break
        return theta


class KernelMachine:
    r"""r support vector machines on the kernel of the labelled rows.

    .. math:: (1 - b) \sum_j \max_a \Bigl[ \sum_i a_i - \tfrac12 \sum_{i,l} a_i a_l y_{ij} y_{lj} K(z_i, z_l) \Bigr],
              \qquad 0 \le a \le C,\ a'y_j = 0

    Parameters
    ----------
    T : ndarray of shape (l, r)
        Signs.
    C : float
        Upper bound of the dual variables.
    kernel : {"poly", "rbf"}
        (gamma z'z + coef0)^degree, or exp(-gamma ||z - z||^2).
    degree, gamma, coef0 : int, float, float
        Parameters of the kernel.
    weight : float
        1 - b.
    tol : float
        Tolerance: the relative duality gap.
    """

    def __init__(
        self,
        T: np.ndarray,
        *,
        C: float,
        kernel: str,
        degree: int,
        gamma: float,
        coef0: float,
        weight: float,
        tol: float,
    ) -> None:
        self.signs = np.ascontiguousarray(T.T)  # (r, l)
        self.C, self.weight, self.tol = np.full(self.signs.shape, float(C)), weight, tol
        self.kernel, self.degree, self.gamma, self.coef0 = kernel, degree, gamma, coef0
        self._K = np.empty((len(T), len(T)))
        self.s = np.zeros(self.signs.shape)  # a o y
        self.Z: Any = None  # (l, k + 1), after training
        self.found: KernelSVM | None = None

    def train(self, Z: np.ndarray) -> float:
        """Return the least loss of the labels for rows at Z."""
        self.Z, K = Z, self._kernel(Z)
        if not np.isfinite(K.diagonal()).all():  # the diagonal bounds all entries
            self.found = None
            return np.inf
        self.found = solve_machines(K, self.signs, self.C, self.s, self.tol)
        # The primal objective, which is that of the current SVM even if training stopped early.
        return self.weight * float(self.found.primal.sum())

    def pull(self) -> np.ndarray:
        """Return the gradient of that loss in Z (l, k + 1), after training."""
        gradient = np.zeros_like(self.Z)
        if self.found is None:
            return gradient
        used = np.flatnonzero(self.s.any(axis=0))
        s, Z = self.s[:, used], self.Z[used]
        if self.kernel == "poly":
            slope = kernel_matrix(Z, Z, "poly", self.degree - 1, self.gamma, self.coef0)
            gradient[used] = (-self.weight * self.gamma * self.degree) * (((s.T @ s) * slope) @ Z)
        else:
            A = (s.T @ s) * self._K[np.ix_(used, used)]
            gradient[used] = (2 * self.weight * self.gamma) * (A.sum(axis=1)[:, None] * Z - A @ Z)
        return gradient

    def rows_step(self, D: np.ndarray, L: np.ndarray) -> np.ndarray:
        r"""Return the displacements (l, k + 1) that are optimal if each f is linearised in w and in its row.

        With g the gradient of f at a row and L L' the inverse of 2 b M, the dual variables move a row to D = sum_j
        s_j (1 - b) L L'g_j. Inserted into f this is another SVM: (1 - b) \|L'g\|^2 is added to the diagonal of its
        kernel, and its targets are y + g'D. Its dual variables are unique. If they equal those of the SVM itself, the
        point is stationary, also at kinks. Several SVMs share their rows and are solved in turn.
        """
        K = self._K
        G = [self._slopes(K, s) @ L for s in self.s]  # r times (l, k + 1)
        E = D @ np.linalg.inv(L).T  # D = E L'
        s, old, r = self.s.copy(), E, len(self.s)
        E = self.weight * sum(s[j][:, None] * G[j] for j in range(r))
        for _ in range(1 if r == 1 else _MOST_TURNS):
            before = s.copy()
            for j in range(r):
                pull = self.weight * np.einsum("ij,ij->i", G[j], G[j])
                rest = E - self.weight * s[j][:, None] * G[j]
                target = self.signs[j] + np.einsum("ij,ij->i", G[j], old - rest)
                pulled = K.copy()
                pulled[np.diag_indices_from(pulled)] += pull
                solve_machines(
                    pulled,
                    self.signs[j : j + 1],
                    self.C[:1],
                    s[j : j + 1],
                    self.tol,
                    target=target,
                )
                E = rest + self.weight * s[j][:, None] * G[j]
            if np.abs(s - before).max() <= 1e-3 * self.C.max():
                break
        return E @ L.T

    def _slopes(self, K: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Return the gradient of f, the SVM with dual variables s, in the position of each row, (l, k + 1)."""
        Z = self.Z
        if self.kernel == "poly":
            base = kernel_matrix(Z, Z, "poly", self.degree - 1, self.gamma, self.coef0)
            return self.gamma * self.degree * (base * s) @ Z
        A = K * s
        return -2 * self.gamma * (A.sum(axis=1)[:, None] * Z - A @ Z)

    def shortfall(self) -> str | None:
        """Return a phrase with the duality gap of SVMs that have not converged; otherwise None."""
        if self.found is None or self.found.gap <= max(self.tol, 1e-6):
            return None
        return unsettled(self.found.gap, self.found.n_iter, self.C, self.tol)

    def _kernel(self, Z: np.ndarray) -> np.ndarray:
        # The memory is reused, since allocating it takes longer than filling it.
        return kernel_matrix(Z, Z, self.kernel, self.degree, self.gamma, self.coef0, out=self._K)


def kernel_matrix(
    Z: np.ndarray,
    other: np.ndarray,
    kernel: str,
    degree: int,
    gamma: float,
    coef0: float,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return the kernel of every row of Z with every row of ``other``, written to ``out`` if it is given."""
    K = np.matmul(Z, other.T, out=out)
    if kernel == "poly":
        from labelfold.factorization._kernel_svm_loops import polynomial

        polynomial(K, gamma, coef0, degree)
        return K
    K *= -2
    K += (Z * Z).sum(axis=1)[:, None]
    K += (other * other).sum(axis=1)
    np.maximum(K, 0.0, out=K)
    K *= -gamma
    return np.exp(K, out=K)


def losses(m: np.ndarray, loss: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a loss of the margins m = y f, its derivative and its second derivative, entry by entry.

    squared (1 - m)^2; logistic log(1 + exp(-m)); smooth hinge 1/2 - m below 0, (1 - m)^2 / 2 up to 1, 0 beyond.

    Examples
    --------
    >>> losses(np.array([-1.0, 0.5, 2.0]), "smooth_hinge")[0]
    array([1.5  , 0.125, 0.   ])
    """
    if loss == "squared":
        return (1 - m) ** 2, -2 * (1 - m), np.full(m.shape, 2.0)
    if loss == "logistic":
        wrong = 0.5 * (1 - np.tanh(0.5 * m))  # 1 / (1 + exp(m)), which cannot overflow
        return np.logaddexp(0.0, -m), -wrong, wrong * (1 - wrong)
    short = np.clip(1 - m, 0.0, 1.0)
    value = np.where(m < 0, 0.5 - m, 0.5 * short * short)
    return value, -short, ((m >= 0) & (m < 1)).astype(np.float64)


Machine = LinearMachine | KernelMachine
