"""PCA-LS, transcribed naively: the gain of a direction, and its global maximum in the ways one would trust most."""

import numpy as np
from scipy import optimize


def gain(w, R, index, r, lam):
    """J(w) of the residual rows R and residual responses r (l, q) of the rows at index."""
    z = R[index] @ w
    zz = z @ z
    # Below this z is round-off, and says nothing of a fit.
    fit = ((r.T @ z) ** 2).sum() / zz if zz > 1e-28 * (R[index] ** 2).sum() * (w @ w) else 0.0
    return fit + lam * ((R @ w) ** 2).sum() / (w @ w)


def trust_region(B, b):
    """The global maximum of w'Bw + 2 b'w over unit vectors, by an eigendecomposition and a secular equation."""
    values, V = np.linalg.eigh(B)
    a = V.T @ b
    scale = max(abs(values[0]), abs(values[-1]), np.linalg.norm(a))
    low, high = values[-1] + 1e-15 * scale, values[-1] + 1.001 * np.linalg.norm(a)
    if high <= low or np.linalg.norm(a / (low - values)) < 1:
        # The hard case: what is left of the length goes along the first eigenvector.
        w = np.append(a[:-1] / (low - values[:-1]), 0.0)
        w[-1] = np.sqrt(max(0.0, 1 - w @ w))
        return V @ w
    mu = optimize.brentq(lambda mu: 1 / np.linalg.norm(a / (mu - values)) - 1, low, high, xtol=1e-16 * scale)
    w = a / (mu - values)
    return V @ (w / np.linalg.norm(w))


def best_direction(R, index, r, lam, n_grid=40, n_finer=13):
    """The global maximum of the gain, for one response: a search over alpha, each a trust-region problem.

    At any w the gain is the largest 2 alpha r'Zw - alpha^2 ||Zw||^2 + lam ||Rw||^2 of any alpha (||w|| = 1): the
    maximum over both is the gain's.
    """
    Z = R[index]
    c, G, S = Z.T @ r[:, 0], Z.T @ Z, lam * R.T @ R
    sizes = np.linalg.eigvalsh(G)
    smallest = sizes[sizes > 1e-12 * sizes[-1]][0]
    largest_alpha = 10 * np.linalg.norm(r) / np.sqrt(smallest)
    grid = np.append(0.0, np.geomspace(1e-8 * largest_alpha, largest_alpha, n_grid))

    def of(alpha):
        w = trust_region(S - alpha**2 * G, alpha * c)
        return gain(w, R, index, r, lam), w

    found = [of(alpha) for alpha in grid]
    best = max(found, key=lambda pair: pair[0])
    # Every peak of the grid may be the highest.
    values = np.array([value for value, _ in found])
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    peaks = [i for i in range(len(grid)) if padded[i + 1] >= max(padded[i], padded[i + 2])]
    for i in sorted(peaks, key=lambda i: -values[i])[:3]:
        finer = np.linspace(grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)], n_finer)
        best = max([best, *(of(alpha) for alpha in finer)], key=lambda pair: pair[0])
    return best[1], best[0]


def slope(w, R, index, r, lam):
    """J's gradient at w."""
    Z, S = R[index], lam * R.T @ R
    z, size = Z @ w, w @ w
    zz, rz = z @ z, r.T @ z
    t, s = rz @ rz / zz, w @ S @ w / size
    return 2 * (Z.T @ (r @ rz - t * z) / zz + (S @ w - s * w) / size)


def local_maximum(w, R, index, r, lam):
    """Where ascent from w ends, and the gain there."""
    args = (R, index, r, lam)
    options = {"maxiter": 5000, "ftol": 1e-16, "gtol": 1e-10}
    found = optimize.minimize(
        lambda w: -gain(w, *args), w, jac=lambda w: -slope(w, *args), method="L-BFGS-B", options=options
    )
    return found.x / np.linalg.norm(found.x), -found.fun


def best_to_all_digits(*args):
    """The naive search, and ascent from where it ends."""
    return local_maximum(best_direction(*args)[0], *args)


def best_of_many_starts(R, index, r, lam, n_starts=8, seed=0):
    """The best of many local maxima, for any number of responses: random starts, and all one would think of."""
    Z = R[index]
    V = np.linalg.svd(R, full_matrices=False)[2]
    fits = [fit / np.linalg.norm(fit) for fit in np.linalg.lstsq(Z, r, rcond=1e-10)[0].T if fit.any()]
    starts = [
        *V[:3],
        *fits,
        *(Z.T @ r).T,
        *np.random.default_rng(seed).standard_normal((n_starts, R.shape[1])),
    ]
    starts += [share * V[0] + (1 - share) * fit for share in (0.01, 0.1, 0.5, 0.9) for fit in fits]
    return max((local_maximum(w, R, index, r, lam) for w in starts if w.any()), key=lambda pair: pair[1])


def pca_ls(X, index, Y, lam, k, center=True, find=best_direction):
    """All of it: directions (k, d), stagewise coefficients (k, q), and the objective of eq. 2 after each."""
    R = X - X.mean(axis=0) if center else X.copy()
    r = Y - Y.mean(axis=0) if center else Y.copy()
    W, alphas, objective = [], [], []
    for _ in range(k):
        w, _ = find(R, index, r, lam)
        z = R[index] @ w
        alpha = r.T @ z / (z @ z)
        r = r - np.outer(z, alpha)
        R = R - np.outer(R @ w, w)
        W.append(w)
        alphas.append(alpha)
        objective.append((r**2).sum() + lam * (R**2).sum())
    return np.array(W), np.array(alphas), np.array(objective)


def kernel_pca_ls(K, index, Y, lam, k, find=best_direction):
    """Algorithm 2, in the explicit features of a kernel matrix: scores (n, k), and the objective after each."""
    n = len(K)
    H = np.eye(n) - 1 / n
    values, U = np.linalg.eigh(H @ K @ H)
    keep = values > 1e-12 * values[-1]
    features = U[:, keep] * np.sqrt(values[keep])
    W, _, objective = pca_ls(features, index, Y, lam, k, find=find)
    return features @ W.T, objective
