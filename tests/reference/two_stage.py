"""The two-stage family, transcribed naively: dense, by singular values, with none of the library's code."""

import numpy as np


def scatter(X, y):
    """S_t and S_b of Sun, Ceran & Ye (eq. 12) as plain sums: Xc'Xc and the weighted class means."""
    m = X.mean(axis=0)
    St = (X - m).T @ (X - m)
    Sb = np.zeros_like(St)
    for c in np.unique(y):
        difference = X[y == c].mean(axis=0) - m
        Sb += (y == c).sum() * np.outer(difference, difference)
    return St, Sb


def lda_targets(y):
    """H of eq. 13: one-hot, column j divided by sqrt(n_j)."""
    classes = np.unique(y)
    return np.stack([(y == c) / np.sqrt((y == c).sum()) for c in classes], axis=1)


def directions(X, T, ridge, tiny=1e-11):
    """W0 of theorem 4, eq. 37, and the eigenvalues: from the singular value decomposition of the centred X."""
    Xc = X - X.mean(axis=0)
    U, sigma, Vt = np.linalg.svd(Xc, full_matrices=False)
    rank = int((sigma > max(X.shape) * np.finfo(float).eps * sigma[0]).sum())
    U, sigma, V = U[:, :rank], sigma[:rank], Vt[:rank].T
    damped = np.sqrt(sigma**2 + ridge)
    B = T.T @ U * (sigma / damped)
    _, root, VBt = np.linalg.svd(B, full_matrices=False)
    keep = root**2 > tiny * root[0] ** 2
    return V @ (VBt[keep].T / damped[:, None]), root[keep] ** 2


def distance(W, W0):
    """The paper's measure ||WW' - W0W0'||_2, relative to ||W0W0'||_2."""
    P0 = W0 @ W0.T
    return np.linalg.norm(W @ W.T - P0, 2) / np.linalg.norm(P0, 2)
