"""Linear SVMs, transcribed naively: objectives, and dual coordinate descent in Python without any of its tricks."""

import numpy as np


def primal(w, X, y, C, loss):
    slack = np.maximum(0, 1 - y * (X @ w))
    return w @ w / 2 + np.sum(C * (slack if loss == "hinge" else slack**2))


def dual(alpha, X, y, C, loss):
    """What is at most the least primal objective, for every feasible alpha."""
    w = X.T @ (alpha * y)
    quadratic = 0.0 if loss == "hinge" else np.sum(alpha**2 / (4 * np.asarray(C)))
    return alpha.sum() - w @ w / 2 - quadratic


def descend(X, y, C, loss, rounds):
    """Algorithm 1 of Hsieh et al. 2008: every coordinate in order, again and again; dual objective of each round."""
    n, d = X.shape
    C = np.broadcast_to(np.asarray(C, dtype=float), n)
    alpha, w, history = np.zeros(n), np.zeros(d), []
    for _ in range(rounds):
        for i in range(n):
            D, U = (0.0, C[i]) if loss == "hinge" else (1 / (2 * C[i]), np.inf)
            g = y[i] * (X[i] @ w) - 1 + D * alpha[i]
            q = X[i] @ X[i] + D
            new = U if q == 0 else min(max(alpha[i] - g / q, 0.0), U)
            w = w + (new - alpha[i]) * y[i] * X[i]
            alpha[i] = new
        history.append(dual(alpha, X, y, C, loss))
    return w, alpha, history
