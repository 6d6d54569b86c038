r"""Ridge regression in every view, its leave-one-out errors in closed form, and the weights they give the views.

With K_c the kernel of the l labelled rows, centred over them, and H the hat matrix of ridge g with an intercept,

.. math:: H = 11'/l + K_c (K_c + g I)^{-1}, \qquad r_i = (y_i - f_i) / (1 - h_{ii}),

r_i is the residual of row i where it is left out. Of two rows left out together the residuals are
:math:`(I - H_{SS})^{-1} (y_S - f_S)`, which gives the errors that a view would have without row i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Eigenvalues of a kernel below this share of the largest are round-off.
_ROUND_OFF = 1e-12

# 1 - h_ii is never below this: the row alone would then say what its own value is.
_LEAST_GAP = 1e-9

# Weights below this share of the largest are 0.
_NEGLIGIBLE = 1e-4


class Spectrum(NamedTuple):
    """K_c = U diag(s) U', of a view's labelled rows."""

    U: np.ndarray
    s: np.ndarray


def spectrum(K: np.ndarray | None, phi: np.ndarray | None) -> Spectrum:
    """Return the eigenvectors of the centred kernel, from the kernel (l, l) or from features (l, p), p < l."""
    if K is None:
        centred = phi - phi.mean(axis=0)
        s, V = np.linalg.eigh(centred.T @ centred)
    else:
        mean = K.mean(axis=0)
        Kc = K - mean - mean[:, None] + mean.mean()
        s, V = np.linalg.eigh((Kc + Kc.T) / 2)
    keep = s > _ROUND_OFF * max(s[-1], 0.0) if len(s) else np.zeros(0, dtype=bool)
    s, V = s[keep], V[:, keep]
    U = V if K is not None else centred @ (V / np.sqrt(s))
    return Spectrum(U, s)


class LeftOut(NamedTuple):
    """Ridge regression in one view, for each of r ridges.

    Attributes
    ----------
    residuals : ndarray of shape (r, l, c)
        y_i less its prediction, with row i left out.
    leverage : ndarray of shape (r, l)
        h_ii, the intercept's part included.
    """

    residuals: np.ndarray
    leverage: np.ndarray


def leave_one_out(found: Spectrum, Y: np.ndarray, ridges: np.ndarray) -> LeftOut:
    """Return the leave-one-out residuals of every ridge."""
    U, s = found
    shrink = s / (s + ridges[:, None])  # (r, k)
    Yc = Y - Y.mean(axis=0)
    fitted = U @ (shrink[:, :, None] * (U.T @ Yc))  # (r, l, c)
    leverage = 1 / len(Y) + shrink @ (U**2).T
    return LeftOut((Yc - fitted) / np.maximum(1 - leverage, _LEAST_GAP)[:, :, None], leverage)


def squared_errors(residuals: np.ndarray, scale: np.ndarray | float) -> np.ndarray:
    """Return the mean squared norm of residuals (..., l, c), columns divided by ``scale`` (c,)."""
    return ((residuals / scale) ** 2).sum(axis=-1).mean(axis=-1)


def weights(errors: np.ndarray, n_labelled: int, prior: np.ndarray | float = 1.0) -> np.ndarray:
    """Return weights proportional to prior e^(-l/2), which sum to 1; errors have any shape, weights the same."""
    log = -n_labelled / 2 * np.log(np.maximum(errors, np.finfo(float).tiny)) + np.log(prior)
    w = np.exp(log - log.max())
    w[w < _NEGLIGIBLE] = 0.0
    return w / w.sum()


def errors_without_each(
    found: Spectrum, Y: np.ndarray, ridges: np.ndarray, left: LeftOut, scale: np.ndarray | float
) -> np.ndarray:
    """Return the leave-one-out error that each ridge would have without row i, (r, l), for each i."""
    U, s = found
    n = len(Y)
    errors = np.empty((len(ridges), n))
    gap = np.maximum(1 - left.leverage, _LEAST_GAP)
    for r, ridge in enumerate(ridges):
        H = 1 / n + (U * (s / (s + ridge))) @ U.T
        e = left.residuals[r] * gap[r][:, None] / scale  # y - f
        determinant = np.maximum(np.outer(gap[r], gap[r]) - H**2, _LEAST_GAP * _LEAST_GAP)
        # Residual of j without i and j: ((1 - h_ii) e_j + h_ij e_i) / determinant.
        own = (e**2).sum(axis=1)
        cross = e @ e.T
        squares = gap[r][:, None] ** 2 * own + 2 * gap[r][:, None] * H * cross + H**2 * own[:, None]
        squares /= determinant**2
        np.fill_diagonal(squares, 0.0)
        errors[r] = squares.sum(axis=1) / max(1, n - 1)
    return errors
