"""From labels to one folded score: ridge regression in every view, weights by leave-one-out, and the fold."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from labelfold.semi_supervised._fold import Folded, Scores, features, fold_in
from labelfold.semi_supervised._pieces import Pieces, Placed
from labelfold.semi_supervised._recipe import View
from labelfold.semi_supervised._view_weights import (
    LeftOut,
    Spectrum,
    errors_without_each,
    leave_one_out,
    spectrum,
    squared_errors,
    weights,
)

# Up to this many labelled rows the errors without a row are exact; above, only the row's own error is left out.
_EXACT_ROWS = 120


class Solution(NamedTuple):
    """What the labels make of the views.

    Attributes
    ----------
    scores : Scores
        F(x) of any row.
    views : list of View
    weights : ndarray of shape (v, r)
        The weight of each view and ridge; they sum to 1.
    errors : ndarray of shape (v, r)
        Their leave-one-out errors.
    left_out : ndarray of shape (l, c)
        F of each labelled row, without that row in the regressions or in the weights.
    """

    scores: Scores
    views: list[View]
    weights: np.ndarray
    errors: np.ndarray
    left_out: np.ndarray


class _Fitted(NamedTuple):
    """One view's regression on the labelled rows."""

    view: View
    pieces: int
    found: Spectrum
    left: LeftOut


def solve(
    pieces: list[Pieces],
    placed: list[Placed],
    Y: np.ndarray,
    ridges: np.ndarray,
    *,
    scale: np.ndarray | float = 1.0,
    views: Collection[View] | None = None,
) -> Solution:
    """Return the blended score of all views, or of those named.

    Parameters
    ----------
    pieces, placed : list of Pieces, list of Placed
        The forms, and the labelled rows as their views see them.
    Y : ndarray of shape (l, c)
        Targets: class indicators, labels or numbers.
    ridges : ndarray of shape (r,)
    scale : ndarray of shape (c,) or float
        What residuals are divided by before their squares are summed over the columns.
    views : collection of View, optional
        Only these.
    """
    fits = []
    for i, (piece, known) in enumerate(zip(pieces, placed, strict=True)):
        for view in piece.views:
            if views is None or view in views:
                found = spectrum(*features(view, piece, known))
                fits.append(_Fitted(view, i, found, leave_one_out(found, Y, ridges)))
    mean = Y.mean(axis=0)
    if not fits:
        empty = np.zeros((0, len(ridges)))
        return Solution(Scores([], [], mean), [], empty, empty, np.tile(mean, (len(Y), 1)))
    errors = np.array([squared_errors(fit.left.residuals, scale) for fit in fits])
    w = weights(errors, len(Y))
    scores = _fold(fits, w, pieces, placed, Y, ridges)
    left_out = _left_out(fits, w, Y, ridges, scale)
    return Solution(scores, [fit.view for fit in fits], w, errors, left_out)


def _fold(
    fits: list[_Fitted],
    w: np.ndarray,
    pieces: list[Pieces],
    placed: list[Placed],
    Y: np.ndarray,
    ridges: np.ndarray,
) -> Scores:
    """Return the weighted mean of all scores, as one function of a row."""
    mean = Y.mean(axis=0)
    folded: dict[int, Folded] = {}
    for fit, share in zip(fits, w, strict=True):
        if share.any():
            U, s = fit.found
            shrink = (share[:, None] / (s + ridges[:, None])).sum(axis=0)
            alpha = U @ (shrink[:, None] * (U.T @ (Y - mean)))  # (l, c)
            known = placed[fit.pieces]
            one = folded.setdefault(fit.pieces, Folded(known.T.shape[1], Y.shape[1]))
            fold_in(fit.view, pieces[fit.pieces], known, alpha, one)
    used = sorted(folded)
    bias = mean.copy()
    for i in used:
        bias -= (folded[i].columns(placed[i]) + folded[i].anchors(pieces[i], placed[i])).mean(axis=0)
    return Scores([pieces[i] for i in used], [folded[i] for i in used], bias)


def _left_out(
    fits: list[_Fitted], w: np.ndarray, Y: np.ndarray, ridges: np.ndarray, scale: np.ndarray | float
) -> np.ndarray:
    """Return F of each labelled row, left out of the regressions and of the weights."""
    n = len(Y)
    without, residuals = [], []
    for fit, share in zip(fits, w, strict=True):
        used = np.flatnonzero(share)
        if not len(used):
            continue
        left = LeftOut(fit.left.residuals[used], fit.left.leverage[used])
        residuals.append(left.residuals)
        if n <= _EXACT_ROWS:
            without.append(errors_without_each(fit.found, Y, ridges[used], left, scale))
        else:
            own = ((left.residuals / scale) ** 2).sum(axis=2)
            without.append((own.sum(axis=1, keepdims=True) - own) / (n - 1))
    errors, residuals = np.concatenate(without), np.concatenate(residuals)  # (p, l), (p, l, c)
    share = np.stack([weights(errors[:, i], n - 1) for i in range(n)], axis=1)
    return Y - np.einsum("pl,plc->lc", share, residuals)
