"""LSDR, transcribed from Grabocka & Schmidt-Thieme: dense, naive, a cell and a row at a time, two classes or more.

Corrected: the slopes of the smooth hinge (eqs. 23-25) are -y where y f < 0 and -(1 - y f) y up to 1, the loss
itself is 1/2 - y f below 0 (eq. 15 jumps there), the logistic slopes (eqs. 20-22) have no factor 2, and bu is
penalised with U.
"""

import math

import numpy as np


def loss_and_slope(y, f, loss):
    """Return the loss of one row and its slope in f."""
    if loss == "squared":
        return (y - f) ** 2, -2 * (y - f)
    if loss == "logistic":
        return math.log1p(math.exp(-y * f)), -y / (1 + math.exp(y * f))
    if y * f < 0:
        return 0.5 - y * f, -y
    if y * f < 1:
        return 0.5 * (1 - y * f) ** 2, -(1 - y * f) * y
    return 0.0, 0.0


def factor_part(X, U, bu, V, bv, b, lu, lv):
    """Return the cost of the factors (eq. 3, weighted) and its slopes, cell by cell."""
    f = lu * (np.sum(U**2) + np.sum(bu**2)) + lv * np.sum(V**2)
    dU, dbu, dV, dbv = 2 * lu * U, 2 * lu * bu, 2 * lv * V, np.zeros_like(bv)
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            e = X[i, j] - U[i] @ V[:, j] - bu[i] - bv[j]
            f += b * e**2
            dU[i] -= 2 * b * e * V[:, j]
            dV[:, j] -= 2 * b * e * U[i]
            dbu[i] -= 2 * b * e
            dbv[j] -= 2 * b * e
    return f, dU, dbu, dV, dbv


def objective(X, U, bu, V, bv, W, w0, T, index, *, loss, b, lu, lv, lw):
    """Return the objective and its slopes in U, bu, V, bv, W and w0."""
    f, dU, dbu, dV, dbv = factor_part(X, U, bu, V, bv, b, lu, lv)
    f += lw * np.sum(W**2)
    dW, dw0 = 2 * lw * W, np.zeros(len(W))
    for row, i in enumerate(index):
        for j in range(len(W)):
            value, slope = loss_and_slope(T[row, j], U[i] @ W[j] + bu[i] + w0[j], loss)
            f += (1 - b) * value
            dU[i] += (1 - b) * slope * W[j]
            dbu[i] += (1 - b) * slope
            dW[j] += (1 - b) * slope * U[i]
            dw0[j] += (1 - b) * slope
    return f, dU, dbu, dV, dbv, dW, dw0
