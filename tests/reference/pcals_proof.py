"""The global maximum of PCA-LS's gain with a proof, by branch and bound over the first of its two quotients."""

import numpy as np
from scipy import optimize

from reference import pcals as naive


def proved_maximum(R, index, r, lam, tol=1e-7, starts=(), max_splits=2000):
    r"""Return the direction w (d,), its gain, and an upper bound of the gain of any direction.

    With w of length 1, t = ||r'Zw||^2 / ||Zw||^2, C = Z'r and G = Z'Z, for any nu >= 0

    .. math:: J(w) = t + w'Sw \le h(t, \nu) = t + \lambda_{\max}(S + \nu (CC' - t G)),

    and h is convex in t. An interval of t is proved if, for some nu, h is below the target at both ends, or h at its
    lower end and the length of the interval are together. Other intervals are split. The bound is below the gain by
    more than ``tol`` of it only if round-off stops the splitting.
    """
    V = np.linalg.svd(R, full_matrices=False)
    V = V[2][V[1] > 1e-12 * V[1][0]].T  # all else is orthogonal to the rows
    R, Z = R @ V, R[index] @ V
    C, G, S = Z.T @ r, Z.T @ Z, lam * R.T @ R
    args = (R, index, r, lam)

    def fit(w):
        return naive.gain(w, R, index, r, 0.0)

    def h(t, nu):
        return t + np.linalg.eigvalsh(S + nu * (C @ C.T - t * G))[-1]

    def least_bound(low, high):
        def bound(x):
            nu = np.exp(x)
            at_low = h(low, nu)
            return min(max(at_low, h(high, nu)), at_low + high - low)

        found = optimize.minimize_scalar(bound, bounds=nus, method="bounded", options={"xatol": 1e-3})
        at_zero = high + np.linalg.eigvalsh(S)[-1]  # nu = 0
        return min((found.fun, np.exp(found.x)), (at_zero, 0.0))

    Q, s, P = np.linalg.svd(Z, full_matrices=False)
    kept = s > 1e-12 * s[0]
    fits = (P[kept].T / s[kept]) @ Q[:, kept].T @ r
    largest = np.linalg.svd(Q[:, kept].T @ r)[1][0] ** 2
    nus = np.log(np.array([0.01, 1e4 * np.square(s[0] / s[kept][-1])]) / np.square(s[0]))
    tries = [np.linalg.eigh(S)[1][:, -1], *fits.T, *(V.T @ w for w in starts)]
    w, best = max((naive.local_maximum(v, *args) for v in tries if v.any()), key=lambda pair: pair[1])
    todo, proved = [(0.0, largest)], 0.0
    for _ in range(max_splits):
        if not todo:
            break
        low, high = todo.pop()
        bound, nu = least_bound(low, high)
        if bound > best * (1 + tol):
            # A larger gain is most likely near the eigenvectors of the bound.
            M = [np.linalg.eigh(S + nu * (C @ C.T - t * G))[1][:, -1] for t in (low, high)]
            v = max(M, key=lambda v: naive.gain(v, *args))
            if naive.gain(v, *args) > 0.5 * best:
                w, best = max((w, best), naive.local_maximum(v, *args), key=lambda pair: pair[1])
        if bound <= best * (1 + tol):
            proved = max(proved, bound)
            continue
        t = fit(w)
        middle = t if 0.1 < (t - low) / (high - low) < 0.9 else (low + high) / 2
        todo += [(low, middle), (middle, high)]
    return V @ w, best, max([proved, best, *(least_bound(*interval)[0] for interval in todo)])
