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


def inverse_root(S):
    """S^(-1/2), pseudo-inverse where S is singular."""
    values, vectors = np.linalg.eigh(S)
    roots = np.array([1 / np.sqrt(v) if v > 1e-10 * values.max() else 0.0 for v in values])
    return vectors @ np.diag(roots) @ vectors.T


def cca_targets(Y):
    """H of section 2.1, for one row a sample: Yc (Yc'Yc)^(-1/2)."""
    Yc = Y - Y.mean(axis=0)
    return Yc @ inverse_root(Yc.T @ Yc)


def opls_targets(Y):
    """H of section 2.2: Yc."""
    return Y - Y.mean(axis=0)


def hypergraph_similarity(Y, expansion):
    """S = I - L of section 2.3, the n x n matrix itself, from the definition of each expansion."""
    n = len(Y)
    S = np.zeros((n, n))
    edge_sizes = Y.sum(axis=0)
    for e in range(Y.shape[1]):
        members = Y[:, e]
        if edge_sizes[e] == 0:
            continue
        weight = {"zhou": 1 / edge_sizes[e], "clique": 1.0, "star": 1 / edge_sizes[e] ** 2}[expansion]
        S += weight * np.outer(members, members)
    if expansion == "zhou":
        degrees = Y.sum(axis=1)
    elif expansion == "clique":
        degrees = (Y @ Y.T).sum(axis=1)
    else:
        degrees = (Y / np.where(edge_sizes > 0, edge_sizes, 1)).sum(axis=1)
    roots = np.array([1 / np.sqrt(v) if v > 0 else 0.0 for v in degrees])
    return roots[:, None] * S * roots


def generalised(X, S, ridge):
    """Solve Xc'S Xc w = s (Xc'Xc + g I) w for a full n x n similarity S (for data where that is regular)."""
    from scipy.linalg import eigh

    Xc = X - X.mean(axis=0)
    s, W = eigh(Xc.T @ S @ Xc, Xc.T @ Xc + ridge * np.eye(X.shape[1]))
    keep = s > 1e-10 * s.max()
    return W[:, keep][:, ::-1], s[keep][::-1]
