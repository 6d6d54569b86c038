"""DRSVM, transcribed from Fang, Cheng & Hsieh (ICDM 2017): dense, naive, column by column, two classes.

In our orientation (X is n x d). One correction: in eq. IV.17 M = 2 y w_j - 2 w_j (H^(j) w^(j)); the paper's last
equality drops the second 2.
"""

import warnings

import numpy as np
from sklearn.svm import LinearSVC


def objective(X, H, B, W, T, index, *, a=1.0, b=1.0, e=1.0, loss="squared_hinge", C=1.0, intercept=0.0):
    """Eq. IV.2, term by term; T holds the signs (l, r) of the rows at ``index``."""
    f = 0.0
    for row, i in enumerate(index):
        for j in range(len(W)):
            bias = np.broadcast_to(intercept, len(W))[j]
            z = max(0.0, 1 - T[row, j] * (W[j] @ H[i] + bias))
            f += np.broadcast_to(C, T.shape)[row, j] * (z if loss == "hinge" else z**2)
    f += a / 2 * (np.sum(W**2) + np.sum(np.broadcast_to(intercept, len(W)) ** 2))
    return f + b / 2 * np.sum((X - H @ B.T) ** 2) + e / 2 * (np.sum(B**2) + np.sum(H**2))


def column_by_column(
    X, y, index, H, B, *, a=1.0, b=1.0, e=1.0, loss="squared_hinge", nonnegative=False, n_iter=40
):
    """Algorithm 1: b_1 .. b_k, then h_1 .. h_k, then w; y holds the signs (l,) of the rows at ``index``.

    Returns the factors, w and the objective after each iteration.
    """
    H, B = H.copy(), B.copy()
    k = B.shape[1]
    w = svm(H[index], y, 1 / a, loss)
    others = np.setdiff1d(np.arange(len(X)), index)
    values = []
    for _ in range(n_iter):
        XH, HH = X.T @ H, H.T @ H
        for j in range(k):  # eq. IV.6
            B[:, j] = (XH[:, j] - B @ HH[:, j] + B[:, j] * HH[j, j]) / (HH[j, j] + e / b)
            if nonnegative:
                B[:, j] = np.maximum(B[:, j], 0)
        XB, BB = X @ B, B.T @ B
        for j in range(k):
            rest = XB[:, j] - H @ BB[:, j] + H[:, j] * BB[j, j]
            H[others, j] = rest[others] / (BB[j, j] + e / b)  # eq. IV.8
            H[index, j] = labelled_column(H[index], w, j, y, b * rest[index], b * BB[j, j] + e, loss)
            if nonnegative:
                H[:, j] = np.maximum(H[:, j], 0)
        new = svm(H[index], y, 1 / a, loss)
        if machine(H[index], y, new, a, loss) < machine(H[index], y, w, a, loss):
            w = new
        values.append(objective(X, H, B, w[None], y[:, None], index, a=a, b=b, e=e, loss=loss))
    return H, B, w, values


def labelled_column(H, w, j, y, rest, curvature, loss):
    """Eq. IV.12 to IV.17: the better of the minima on either side of the kink tau, and of tau itself."""
    if w[j] == 0:
        return rest / curvature
    without = H @ w - H[:, j] * w[j]
    tau = (1 - y * without) / (y * w[j])
    if loss == "hinge":
        inside = (rest + y * w[j]) / curvature
    else:
        inside = (rest + 2 * y * w[j] - 2 * w[j] * without) / (curvature + 2 * w[j] ** 2)
    outside = rest / curvature
    # S+ = {1 - y w'h >= 0} is the half-line below tau where y w_j > 0, above it otherwise.
    below = y * w[j] > 0
    plus = np.where(below, np.minimum(inside, tau), np.maximum(inside, tau))
    minus = np.where(below, np.maximum(outside, tau), np.minimum(outside, tau))
    return plus + minus - tau  # eq. IV.15


def machine(H, y, w, a, loss):
    """Half of a times the squared weights, and the losses."""
    z = np.maximum(0.0, 1 - y * (H @ w))
    return a / 2 * w @ w + (z if loss == "hinge" else z**2).sum()


def svm(H, y, C, loss):
    """Liblinear's machine without an intercept."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dual = loss == "hinge"
        model = LinearSVC(
            C=C, loss=loss, dual=dual, fit_intercept=False, tol=1e-8, max_iter=20_000, random_state=0
        )
        return model.fit(H, y).coef_[0]
