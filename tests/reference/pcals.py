"""PCA-LS, transcribed naively: the gain of a direction and its global maximum by the methods one would trust most."""

import numpy as np
from scipy import optimize


def gain(w, R, index, r, lam):
    """J(w) of the residual rows R and residual responses r (l, q) of the rows at index."""
    z = R[index] @ w
    zz = z @ z
    fit = ((r.T @ z) ** 2).sum() / zz if zz > 1e-28 * (R[index] ** 2).sum() else 0.0
    return fit + lam * ((R @ w) ** 2).sum() / (w @ w)


def trust_region(B, b):
    """The global maximum of w'Bw + 2 b'w over unit vectors, by an eigendecomposition and a secular equation."""
    values, V = np.linalg.eigh(B)
    a = V.T @ b
    top = values[-1]
    size = np.linalg.norm(a)
    if size == 0:
        return V[:, -1]

    def excess(mu):
        return 1 - 1 / np.linalg.norm(a / (mu - values))

    low, high = top + 1e-14 * max(1.0, abs(top)), top + size
    if np.linalg.norm(a / (low - values)) < 1:  # the hard case: the rest goes along the first eigenvector
        w = a / np.where(low - values > 0, low - values, 1.0)
        w[-1] = 0.0
        w[-1] = np.sqrt(max(0.0, 1 - w @ w))
        return V @ w
    mu = optimize.brentq(lambda mu: -excess(mu), low, high * (1 + 1e-12) + 1e-300, xtol=1e-300, rtol=1e-14)
    w = a / (mu - values)
    return V @ (w / np.linalg.norm(w))


def best_direction(R, index, r, lam, n_grid=120, rounds=3):
    """The global maximum of the gain over all w, for one response: a search over alpha, each a trust-region problem.

    At the best w the gain is 2 alpha r'Zw - alpha^2 ||Zw||^2 + lam ||Rw||^2 for alpha = r'Zw / ||Zw||^2, and no more for
    any other alpha: so the maximum over both is the gain's.
    """
    Z = R[index]
    c, G, S = Z.T @ r[:, 0], Z.T @ Z, lam * R.T @ R
    sizes = np.linalg.eigvalsh(G)
    smallest = np.linalg.norm(c) / sizes[-1]
    largest = np.linalg.norm(r) / np.sqrt(max(sizes[sizes > 1e-12 * sizes[-1]][0], 1e-300))
    grid = np.concatenate([[0.0], np.geomspace(1e-3 * smallest, 1e3 * largest, n_grid)])
    best, best_w = -np.inf, None
    for _ in range(rounds):
        found = []
        for alpha in grid:
            w = trust_region(S - alpha**2 * G, alpha * c)
            found.append(gain(w, R, index, r, lam))
            if found[-1] > best:
                best, best_w = found[-1], w
        i = int(np.argmax(found))
        grid = np.linspace(grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)], n_grid // 4)
    return best_w, best


def upper_bound(R, index, r, lam, n_grid=200):
    """A number that no gain exceeds, for any number of responses, close to the largest gain.

    If the first part of a gain is at least t, the second is at most the largest eigenvalue of S + nu (CC' - t G) for any
    nu >= 0. That holds for all t of an interval if t is its lower end in the eigenvalue, and its upper end outside.
    """
    Z = R[index]
    C, G, S = Z.T @ r, Z.T @ Z, lam * R.T @ R
    CC = C @ C.T
    t_max = np.linalg.svd(np.linalg.svd(Z, full_matrices=False)[0].T @ r, compute_uv=False)[0] ** 2

    def bound(t):
        def of(log_nu):
            return np.linalg.eigvalsh(S + 10.0**log_nu * (CC - t * G))[-1]

        found = optimize.minimize_scalar(of, bounds=(-12, 12), method="bounded", options={"xatol": 1e-6})
        return min(found.fun, np.linalg.eigvalsh(S)[-1])

    grid = np.linspace(0, t_max, n_grid + 1)
    return max(high + bound(low) for low, high in zip(grid[:-1], grid[1:], strict=True))


def pca_ls(X, y_index, Y, lam, k, center=True, find=best_direction):
    """All of it: directions, stagewise coefficients and the objective of eq. 2 after each."""
    R = X - X.mean(axis=0) if center else X.copy()
    r = (Y - Y.mean(axis=0) if center else Y).astype(float).copy()
    W, alphas, objective = [], [], []
    for _ in range(k):
        w, _ = find(R, y_index, r, lam)
        w = w / np.linalg.norm(w)
        z = R[y_index] @ w
        alpha = r.T @ z / (z @ z)
        r = r - np.outer(z, alpha)
        R = R - np.outer(R @ w, w)
        W.append(w)
        alphas.append(alpha)
        objective.append((r**2).sum() + lam * (R**2).sum())
    return np.array(W), np.array(alphas), np.array(objective)
