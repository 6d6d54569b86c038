"""LapRLS as its paper has it: dense, one equation at a time, none of the library's code."""

import numpy as np


def knn_weights(X, k, *, width=None):
    """Return W (n, n): 1 (or heat weights) where one row is among the k nearest of the other."""
    n = len(X)
    W = np.zeros((n, n))
    distance = np.array([[np.sqrt(np.sum((x - z) ** 2)) for z in X] for x in X])
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for j in sorted(others, key=lambda j: distance[i, j])[:k]:
            W[i, j] = W[j, i] = 1.0 if width is None else np.exp(-(distance[i, j] ** 2) / (2 * width**2))
    return W


def rbf_weights(X, width):
    """Return W (n, n) of all pairs, 0 on the diagonal."""
    W = np.array([[np.exp(-np.sum((x - z) ** 2) / (2 * width**2)) for z in X] for x in X])
    return W - np.diag(np.diag(W))


def laplacian(W, *, normalized=False):
    """Return D - W, or its normalised form, with zeros for rows that have no neighbour."""
    degree = W.sum(axis=1)
    if not normalized:
        return np.diag(degree) - W
    root = np.array([1 / np.sqrt(a) if a > 0 else 0.0 for a in degree])
    return np.diag((degree > 0).astype(float)) - root[:, None] * W * root


def laprls(X, index, Y, L, ridge, smoothness, *, fit_intercept=True):
    """Return w (d, q) and b (q,): the normal equations, intercept and all, by one dense solve."""
    n, d = X.shape
    J = np.zeros((n, n))
    J[index, index] = 1.0
    m = len(index)
    T = np.zeros((n, Y.shape[1]))
    T[index] = Y
    A = np.zeros((d + 1, d + 1))
    A[:d, :d] = X.T @ J @ X / m + ridge * np.eye(d) + smoothness / n**2 * X.T @ L @ X
    A[:d, d] = A[d, :d] = X.T @ J @ np.ones(n) / m
    A[d, d] = 1.0
    B = np.vstack([X.T @ T / m, T.sum(axis=0) / m])
    if not fit_intercept:
        return np.linalg.solve(A[:d, :d], B[:d]), np.zeros(Y.shape[1])
    solution = np.linalg.solve(A, B)
    return solution[:d], solution[d]


def kernel_laprls(K, index, Y, L, ridge, smoothness, *, fit_intercept=True):
    """Return alpha (n, q) and b (q,).

    They solve (J K / l + r I + s/n^2 L K) alpha + J 1 b / l = J Y / l, with residuals of mean 0.
    """
    n = len(K)
    m = len(index)
    J = np.zeros((n, n))
    J[index, index] = 1.0
    T = np.zeros((n, Y.shape[1]))
    T[index] = Y
    ones = np.ones((n, 1))
    A = J @ K / m + ridge * np.eye(n) + smoothness / n**2 * L @ K
    if not fit_intercept:
        return np.linalg.solve(A, T / m), np.zeros(Y.shape[1])
    A = np.block([[A, J @ ones / m], [ones.T @ J @ K, np.array([[float(m)]])]])
    solution = np.linalg.solve(A, np.vstack([T / m, T.sum(axis=0)]))
    return solution[:n], solution[n]
