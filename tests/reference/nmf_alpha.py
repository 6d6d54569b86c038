"""NMF-alpha, transcribed from Cho & Saul (2011): dense, naive, in the paper's own orientation (X is d x n)."""

import numpy as np


def divergence(A, B):
    """Eq. 2, entry by entry; 0 log 0 is 0."""
    total = 0.0
    for a, b in zip(np.ravel(A), np.ravel(B), strict=True):
        total += (a * np.log(a / b) if a > 0 else 0.0) - a + b
    return total


def loss(X, V, H, S, lam):
    """Eq. 14."""
    return divergence(X, V @ H) + (lam * divergence(X @ S, V @ H @ S) if lam else 0.0)


def update_V(X, V, H, S, lam):
    """Eq. 15."""
    XS, HS = X @ S, H @ S
    R, RS = X / (V @ H), XS / (V @ HS)
    new = np.empty_like(V)
    for i in range(V.shape[0]):
        for k in range(V.shape[1]):
            up = sum(R[i, j] * H[k, j] for j in range(X.shape[1]))
            up += lam * sum(RS[i, q] * HS[k, q] for q in range(S.shape[1]))
            down = H[k].sum() + lam * HS[k].sum()
            new[i, k] = V[i, k] * up / down
    return new


def update_H(X, V, H, S, lam):
    """Eq. 16."""
    XS, HS = X @ S, H @ S
    R, RS = X / (V @ H), XS / (V @ HS)
    new = np.empty_like(H)
    for k in range(H.shape[0]):
        for j in range(H.shape[1]):
            up = V[:, k] @ R[:, j] + lam * sum(V[:, k] @ RS[:, q] * S[j, q] for q in range(S.shape[1]))
            down = V[:, k].sum() + lam * sum(V[:, k].sum() * S[j, q] for q in range(S.shape[1]))
            new[k, j] = H[k, j] * up / down
    return new


def iterate(X, V, H, S, lam, n_iter):
    """H, then V and H in turn; the loss after each update of H."""
    values = []
    for iteration in range(n_iter):
        if iteration:
            V = update_V(X, V, H, S, lam)
        H = update_H(X, V, H, S, lam)
        values.append(loss(X, V, H, S, lam))
    return V, H, values
