r"""A sum of two Rayleigh quotients, with its local maxima.

.. math:: J(w) = \frac{\|R'Zw\|^2}{\|Zw\|^2} + \frac{w'Sw}{w'w}

`_quotient_sum.py` finds the global maximum.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import lapack

from labelfold.numerics import first_eigenvector, is_definite

EPS = float(np.finfo(np.float64).eps)

# Z is replaced by its triangular factor if it has more rows than this, and more than twice as many rows as columns.
_TALL = 512

# Norms of the gradient relative to J: below the first a point is nearly stationary, below the second stationary.
_FLAT, REACHED = 1e-6, 1e-13

# An eigenvector step that raises J by less than this share is compared with other steps.
_CLEARLY = 1e-3

# Inverse iterations towards an eigenvector, and the shares by which its eigenvalue may exceed a target.
_INVERSE, _ABOVE = 4, (1e-6, 3e-5, 1e-3, 0.03, 1.0)


class RatioSum:
    """J, and the matrices that are needed to maximise it.

    Parameters
    ----------
    S : ndarray of shape (m, m)
        Symmetric positive semi-definite.
    Z : ndarray of shape (l, m)
        Any number of rows l; stored as its triangular factor if l is much larger than m.
    R : ndarray of shape (l, q)
        The responses.
    G : ndarray of shape (m, m), optional
        Z'Z, if it is known.

    Examples
    --------
    >>> import numpy as np
    >>> problem = RatioSum(np.diag([2.0, 1.0]), np.array([[0.0, 1.0]]), np.array([[3.0]]))
    >>> problem.value(np.array([0.0, 1.0]))
    10.0
    >>> round(problem.value(np.array([1.0, 1e-4])), 6)  # any w with Zw not 0 fits exactly
    11.0
    """

    def __init__(self, S: np.ndarray, Z: np.ndarray, R: np.ndarray, G: np.ndarray | None = None) -> None:
        if len(Z) > max(_TALL, 2 * Z.shape[1]):
            Q, Z = np.linalg.qr(Z)
            R = Q.T @ R
        self.S, self.Z, self.R = S, Z, R
        self.C = Z.T @ R
        self.CC, self.G = self.C @ self.C.T, Z.T @ Z if G is None else G
        # Below this squared norm Zw is round-off, and so is its quotient.
        self.least = (16 * EPS) ** 2 * float(np.trace(self.G))

    def parts(self, w: np.ndarray) -> tuple[float, float, float]:
        """Return both quotients, and ||Zw||^2 / ||w||^2."""
        w = w / _length(w)
        u = self.Z @ w
        square = float(u @ u)
        a = u @ self.R
        t = 0.0 if square <= self.least else float(a @ a) / square
        return t, float(w @ self.S @ w), square

    def value(self, w: np.ndarray) -> float:
        """Return J(w)."""
        t, s, _ = self.parts(w)
        return t + s

    def matrix(self, t: float, nu: float) -> np.ndarray:
        """Return S + nu (CC' - t G), whose leading eigenvector is the maximiser for the right t and nu."""
        M = (-nu * t) * self.G
        M += self.S
        if nu:
            M += nu * self.CC
        return M

    def top(self, t: float, nu: float) -> tuple[float, np.ndarray, float]:
        """Return h(t, nu), the eigenvector, and the slope of h in nu."""
        value, v = first_eigenvector(self.matrix(t, nu))
        return t + value, v, self.slope(t, v)

    def slope(self, t: float, v: np.ndarray) -> float:
        """Return v'(CC' - t G)v."""
        a = v @ self.C
        return float(a @ a - t * (v @ self.G @ v))

    def is_below(self, t: float, nu: float, target: float) -> bool:
        """Return whether h(t, nu) is below a target, by a Cholesky factorisation, which costs less than h."""
        A = (nu * t) * self.G
        A -= self.S
        if nu:
            A -= nu * self.CC
        A.flat[:: len(A) + 1] += target - t
        return is_definite(A)

    def beyond(self, t: float, nu: float, target: float) -> np.ndarray:
        """Return nearly the eigenvector of h(t, nu), where h is above a target, in less time than `top`."""
        M = self.matrix(t, nu)
        for share in _ABOVE:
            A = -M
            A.flat[:: len(A) + 1] += (1 + share) * target - t
            L, failed = lapack.dpotrf(A.T, lower=1, overwrite_a=1, clean=0)
            if failed:
                continue
            v = np.random.default_rng(0).standard_normal(len(M))
            for _ in range(_INVERSE):
                v, _ = lapack.dpotrs(L, v / _length(v), lower=1)
            return v / _length(v)
        return self.top(t, nu)[1]

    def best_fit(self) -> tuple[float, np.ndarray]:
        """Return the largest first quotient and its maximiser: the least-squares direction of the responses."""
        R, Z = self.R, self.Z
        if len(Z) > Z.shape[1]:
            Q, Z = np.linalg.qr(Z)
            R = Q.T @ R
        U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
        keep = sigma > max(self.Z.shape) * EPS * sigma.max(initial=0.0)
        if not keep.any():
            return 0.0, np.eye(len(self.S))[0]
        U, sigma, Vt = U[:, keep], sigma[keep], Vt[keep]
        A, s, _ = np.linalg.svd(U.T @ R, full_matrices=False)
        w = (A[:, 0] / sigma) @ Vt
        return float(s[0] ** 2), w / np.linalg.norm(w)

    def rough_fit(self) -> np.ndarray:
        """Return nearly the maximiser of the first quotient, in a fraction of the time of `best_fit`."""
        A = self.G.copy()
        A.flat[:: len(A) + 1] += 1e-10 * np.trace(A) + np.finfo(np.float64).tiny
        _, fits, failed = lapack.dposv(A.T, self.C, lower=1, overwrite_a=1)
        if failed:
            return self.best_fit()[1]
        w = fits @ first_eigenvector(self.C.T @ fits)[1]
        return w if w.any() else self.best_fit()[1]  # there is none if all responses are 0

    def ascend(self, w: np.ndarray, max_iter: int = 60, reached: float = REACHED) -> tuple[np.ndarray, float]:
        """Return a local maximum and its value, by Newton or eigenvector steps from w.

        It is reached if the norm of the gradient, relative to J, is at most ``reached``.
        """
        w = w / _length(w)
        value = self.value(w)
        for _ in range(max_iter):
            gradient, N, M = self.derivatives(w)
            size = _length(gradient)
            if size <= reached * value:
                return w, value
            step = _tangent_step(w, gradient, N)
            # Near a maximum round-off may make a Newton step look like a small descent; a clear descent is rejected.
            least = value * (1 - 64 * EPS) if size <= _FLAT * value else value
            found, higher = step, -np.inf if step is None else self.value(step)
            if found is None or higher <= least:
                found = first_eigenvector(M)[1]
                higher = self.value(found)
                if higher <= value * (1 + _CLEARLY):
                    others = [found, *_uphill(w, gradient, N)]
                    higher, found = max(((self.value(v), v) for v in others), key=lambda pair: pair[0])
            if higher <= value * (1 + 64 * EPS):
                return self._settled(w, value, step, size), value
            w, value = found, higher
        return w, value

    def _settled(self, w: np.ndarray, value: float, step: np.ndarray | None, size: float) -> np.ndarray:
        """Return w to full precision by Newton steps on the gradient, since J itself is flat at its maximum."""
        for _ in range(3):
            if size <= REACHED * value or step is None or self.value(step) < value * (1 - 64 * EPS):
                break
            gradient, N, _ = self.derivatives(step)
            if _length(gradient) > size / 2:
                break
            w, size = step, _length(gradient)
            step = _tangent_step(w, gradient, N)
        return w

    def derivatives(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return half of J's gradient on the sphere, minus half of its second derivative, and `matrix`."""
        t, s, square = self.parts(w)
        nu = 1 / square if square > self.least else 0.0
        M, Gw = self.matrix(t, nu), self.G @ w
        gradient = M @ w - s * w
        of_t = 2 * nu * nu * (self.C @ (self.C.T @ w) - t * Gw)
        # The derivative of M w - s w, projected onto the tangent space of the sphere on both sides.
        Hw = gradient - (of_t * (w @ Gw) + Gw * (of_t @ w))
        half = Hw - (w @ Hw / 2) * w
        N = np.stack([of_t, w, Gw, half]).T @ np.stack([Gw, half, of_t, w])
        N -= M
        N.flat[:: len(w) + 1] += s
        return gradient - (w @ gradient) * w, N, M


def _length(w: np.ndarray) -> float:
    """Return the norm of a vector, in less time than NumPy's function for any array takes."""
    return math.sqrt(w @ w)


def _tangent_step(w: np.ndarray, gradient: np.ndarray, N: np.ndarray) -> np.ndarray | None:
    """Return the unit vector after a Newton step on the sphere; None if J is not concave at w."""
    # N w = 0, so a term along w of the size of N makes the system regular and does not change tangent steps.
    A = np.outer(np.abs(np.diagonal(N)).max(initial=EPS) * w, w)
    A += N
    _, step, failed = lapack.dposv(A.T, gradient, lower=1, overwrite_a=1)
    if failed or not np.isfinite(step).all():
        return None
    step -= (w @ step) * w
    step += w
    return step / _length(step)


def _uphill(w: np.ndarray, gradient: np.ndarray, N: np.ndarray) -> list[np.ndarray]:
    """Return unit vectors after ascent steps along the eigenvectors of N, of the length of Newton's and shorter."""
    values, U = np.linalg.eigh(N)
    length = np.maximum(np.abs(values), 1e-10 * np.abs(values).max(initial=EPS))
    step = U @ ((U.T @ gradient) / length)
    step -= (w @ step) * w
    return [(w + a * step) / np.linalg.norm(w + a * step) for a in 0.2 ** np.arange(8)]
