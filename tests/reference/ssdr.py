"""SSDR, transcribed naively: the full S of the appendix of Fang, Cheng & Hsieh (2017), and a dense eigenproblem."""

import numpy as np


def links_of_labels(y, alpha=1.0, beta=20.0):
    """S from labels, -1 being none: p^2 + q^2 must-links and pq cannot-links for two classes of p and q rows."""
    n = len(y)
    known = [c for c in np.unique(y) if c != -1]
    sizes = [int((y == c).sum()) for c in known]
    n_M = sum(p * p for p in sizes)
    n_C = sum(sizes[a] * sizes[b] for a in range(len(sizes)) for b in range(a))
    S = np.full((n, n), 1 / n**2)
    for i in range(n):
        for j in range(n):
            if y[i] != -1 and y[j] != -1:
                S[i, j] += -beta / n_M if y[i] == y[j] else alpha / n_C
    return S


def links_of_pairs(n, must, cannot, alpha=1.0, beta=20.0):
    """S from pairs of rows, each pair counted once."""
    must, cannot = {frozenset(p) for p in must}, {frozenset(p) for p in cannot}
    S = np.full((n, n), 1 / n**2)
    for pairs, weight in ((must, -beta), (cannot, alpha)):
        for i, j in map(tuple, pairs):
            S[i, j] += weight / len(pairs)
            S[j, i] += weight / len(pairs)
    return S


def eigen(X, S, k, tiny=1e-12):
    """The k largest algebraic eigenvalues of X'(D - S)X, and their vectors, among directions in which rows differ."""
    _, sigma, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    V = Vt[sigma > tiny * sigma[0]].T
    D = np.diag(S.sum(axis=0))
    values, vectors = np.linalg.eigh(V.T @ (X.T @ (D - S) @ X) @ V)
    return values[::-1][:k], (V @ vectors)[:, ::-1][:, :k]
