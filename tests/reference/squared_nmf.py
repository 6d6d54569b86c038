"""SSNMF (Lee, Yoo & Choi, 2010) and CNMF (Liu & Wu, 2010): dense, naive, one row a sample.

An iteration makes ``rounds`` updates of each factor in turn; 1 is the papers' own.
"""

import numpy as np


def ratio(a, b):
    """a / b, and 0 where both are 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def ssnmf_objective(X, H, V, A, Y, index, lam):
    """Eq. 18 of Cho & Saul, entry by entry."""
    f = 0.0
    for i in range(X.shape[0]):
        f += sum((X[i, j] - H[i] @ V[j]) ** 2 for j in range(X.shape[1]))
    for row, i in enumerate(index):
        f += lam * sum((Y[row, j] - H[i] @ A[:, j]) ** 2 for j in range(Y.shape[1]))
    return f


def ssnmf(X, Y, index, H, V, A, lam, n_iter, rounds):
    """Weighted non-negative factorisation of [X, Y], the weight of unlabelled rows of Y being 0."""
    full = np.zeros((len(X), Y.shape[1]))
    full[index] = Y
    W = np.zeros_like(full)
    W[index] = 1.0
    values = []
    for _ in range(n_iter):
        for _ in range(rounds):
            up = X @ V + lam * (W * full) @ A.T
            down = H @ V.T @ V + lam * (W * (H @ A)) @ A.T
            H = H * ratio(up, down)
        for _ in range(rounds):
            V = V * ratio(X.T @ H, V @ H.T @ H)
        for _ in range(rounds):
            A = A * ratio(H.T @ (W * full), H.T @ (W * (H @ A)))
        values.append(ssnmf_objective(X, H, V, A, Y, index, lam))
    return H, V, A, values


def cnmf(X, Y, index, H, V, Q, n_iter, rounds):
    """X = A Z V' with A = [[Y, 0], [0, I]], labelled rows first, as the paper has it."""
    free = np.setdiff1d(np.arange(len(X)), index)
    order = np.concatenate([index, free])
    (known, c), u = Y.shape, len(free)
    A = np.zeros((len(X), c + u))
    A[:known, :c] = Y
    A[known:, c:] = np.eye(u)
    S, Z = X[order], np.vstack([Q, H[free]])
    values = []
    for _ in range(n_iter):
        for _ in range(rounds):
            Z = Z * ratio(A.T @ S @ V, A.T @ A @ Z @ V.T @ V)
        for _ in range(rounds):
            V = V * ratio(S.T @ A @ Z, V @ Z.T @ A.T @ A @ Z)
        values.append(np.sum((S - A @ Z @ V.T) ** 2))
    H = np.empty((len(X), V.shape[1]))
    H[order] = A @ Z
    return H, V, Z[:c], values
