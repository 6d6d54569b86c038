"""From labels to one score: ridge regression in every view, weights by leave-one-out, and their sum."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from labelfold.labels import Labels
from labelfold.model_selection import Groups
from labelfold.semi_supervised._fold import BlendedScores, FoldedForm, Regressors, fold_in, regressors
from labelfold.semi_supervised._fold_trees import Grown, share_of_trees
from labelfold.semi_supervised._pieces import FormPieces, Placed
from labelfold.semi_supervised._view_list import RESERVED, View
from labelfold.semi_supervised._view_weights import (
    NEGLIGIBLE,
    LeftOut,
    Reserved,
    Spectrum,
    coefficients,
    errors_without_each,
    leave_one_out,
    spectrum,
    squared_errors,
    undecided,
    weights,
    with_constant,
)

# Views and ridges whose weight is below this share of the largest are ignored in leave-one-out weights.
_LEFT_OUT = 1e-2

# With more labelled rows than this, leave-one-out weights omit only the row's own error. The effect of the row on the
# errors of the others is small then.
_EXACT_ROWS = 500
# The same for groups, by the number of rows times that of groups.
_EXACT_PAIRS = 50_000

# With more labelled rows than this, the regressions that are needed are recomputed instead of keeping all of them.
_KEPT_ROWS = 2000

# The constant added to kernels of mean squared norm 1. It is small for classes, so that few labels do not determine
# class frequencies, and large for labels and numbers, whose mean is informative.
_SHRUNK, _FREE = 0.1, 10.0


class Targets(NamedTuple):
    """The regression targets.

    Attributes
    ----------
    Y : ndarray of shape (l, c)
        Coded labels: -1 and +1 in one column for two classes; for more classes the indicator less 1/c; labels and
        numbers less their mean.
    offset : ndarray of shape (c,)
        Added to predictions.
    scale : ndarray of shape (c,) or float
        Residuals are divided by this before their squares are summed over the columns.
    constant : float
        The constant added to kernels: a small one shrinks the intercept.
    classes : bool
        Whether each row has one class.
    groups : Groups
        Rows that are left out together.
    """

    Y: np.ndarray
    offset: np.ndarray
    scale: np.ndarray | float
    constant: float
    classes: bool
    groups: Groups


def targets_of(labels: Labels, groups: Groups | None = None) -> Targets:
    """Return the regression targets of labels, whose rows are left out one by one unless there are groups."""
    groups = Groups.single(labels.n_labelled) if groups is None else groups
    Y = labels.columns()
    mean, spread = Y.mean(axis=0), Y.std(axis=0)
    if labels.task == "binary":
        return Targets(labels.signs(), np.zeros(1), 1.0, _SHRUNK, True, groups)
    if labels.task == "multiclass":
        share = np.full(Y.shape[1], 1 / Y.shape[1])
        return Targets(Y - share, share, 1.0, _SHRUNK, True, groups)
    scale = np.where(spread > 0, spread, 1.0) if labels.task == "regression" else 1.0
    return Targets(Y - mean, mean, scale, _FREE, False, groups)


class Solution(NamedTuple):
    """Weights of the views, and the score they give.

    Attributes
    ----------
    scores : BlendedScores
        F(x) of any row.
    views : list of View
    weights : ndarray of shape (v, r)
        The weight of each view and ridge; they sum to 1, less the share of the trees.
    errors : ndarray of shape (v, r)
        Their leave-one-out errors.
    left_out : ndarray of shape (l, c)
        F of each labelled row, without that row and its group in the regressions, the trees or the weights.
    tree_error : float
        The squared out-of-sample error of trees; NaN if there are none.
    """

    scores: BlendedScores
    views: list[View]
    weights: np.ndarray
    errors: np.ndarray
    left_out: np.ndarray
    tree_error: float = np.nan

    def with_trees(self, grown: Grown, targets: Targets, least: float = 0.0) -> Solution:
        """Return the solution blended with trees, if their share is at least ``least``."""
        truth = targets.Y + targets.offset
        trees = squared_errors(truth - grown.left_out, targets.scale)
        if self.views:
            views = squared_errors(truth - self.left_out, targets.scale)
            share, each = share_of_trees(views, trees, targets.groups)
        else:
            share, each = 1.0, np.ones(len(trees))
        if share < least:
            return self
        return self._replace(
            scores=self.scores.with_trees(grown.trees, share),
            weights=(1 - share) * self.weights,
            left_out=(1 - each)[:, None] * self.left_out + each[:, None] * grown.left_out,
            tree_error=float(trees.mean()),
        )


class _Fitted(NamedTuple):
    """One view's regression on the labelled rows."""

    view: View
    form: int
    found: Spectrum
    left: LeftOut


class _Problem(NamedTuple):
    """The forms, labelled and some unlabelled rows in their views, and the regression targets."""

    pieces: list[FormPieces]
    placed: list[Placed]
    others: list[Placed]
    targets: Targets
    ridges: np.ndarray

    def fit(self, view: View, form: int) -> tuple[_Fitted, np.ndarray]:
        """Return the regression in a view, and its indecision on unlabelled rows, (r,)."""
        seen = regressors(view, self.pieces[form], self.placed[form], self.others[form])
        found = spectrum(seen.own, seen.is_kernel, self.targets.constant)
        fitted = _Fitted(
            view, form, found, leave_one_out(found, self.targets.Y, self.ridges, self.targets.groups)
        )
        return fitted, _doubt(seen, found, self.targets, self.ridges)


def solve(
    pieces: list[FormPieces],
    placed: list[Placed],
    others: list[Placed],
    targets: Targets,
    ridges: np.ndarray,
    views: Collection[View] | None = None,
    least: float = NEGLIGIBLE,
) -> Solution:
    """Return the blended score of all views, or of the given ones.

    Parameters
    ----------
    pieces, placed, others : list of FormPieces, list of Placed, list of Placed
        The forms; the labelled rows, and some unlabelled rows, in the representations that their views need.
    targets : Targets
    ridges : ndarray of shape (r,)
    views : collection of View, optional
        The views to use; all by default.
    least : float
        Views and ridges whose weight is below this share of the largest are left out of the score.
    """
    problem, n = _Problem(pieces, placed, others, targets, ridges), len(targets.Y)
    used = [
        (view, i) for i, piece in enumerate(pieces) for view in piece.views if views is None or view in views
    ]
    if not used:
        empty = np.zeros((0, len(ridges)))
        mean = targets.Y.mean(axis=0) + targets.offset
        return Solution(BlendedScores([], [], mean), [], empty, empty, np.tile(mean, (n, 1)))
    kept: dict[View, _Fitted] = {}
    errors, doubts = np.empty((len(used), len(ridges))), np.empty((len(used), len(ridges)))
    for j, (view, form) in enumerate(used):
        fit, doubts[j] = problem.fit(view, form)
        errors[j] = squared_errors(fit.left.residuals, targets.scale).mean(axis=-1)
        if n <= _KEPT_ROWS:
            kept[view] = fit
    doubt = doubts if targets.classes and others[0].T.shape[0] else None
    w = weights(errors, len(targets.groups), doubt, *_prior([view for view, _ in used]), least)
    heavy = np.flatnonzero(w.any(axis=1))
    fits = [kept.get(used[j][0]) or problem.fit(*used[j])[0] for j in heavy]
    scores = _fold(fits, w[heavy], problem)
    left_out = _left_out(fits, w[heavy], None if doubt is None else doubt[heavy], problem)
    return Solution(scores, [view for view, _ in used], w, errors, left_out + targets.offset)


def _doubt(seen: Regressors, found: Spectrum, targets: Targets, ridges: np.ndarray) -> np.ndarray:
    """Return the indecision of each ridge's scores on unlabelled rows, (r,)."""
    if not targets.classes or not len(seen.others):
        return np.zeros(len(ridges))
    alpha = coefficients(found, targets.Y, ridges)
    if seen.is_kernel:
        return undecided((seen.others + targets.constant) @ alpha)
    phi, psi = (with_constant(part, targets.constant) for part in (seen.own, seen.others))
    return undecided(psi @ (phi.T @ alpha))


def _prior(views: list[View]) -> tuple[np.ndarray, list[Reserved]]:
    """Return the views' priors, and the shares reserved for some families."""
    families = np.array([view.family for view in views])
    reserved = [Reserved(families == family, *terms) for family, terms in RESERVED.items()]
    return np.array([view.prior for view in views]), reserved


def _fold(fits: list[_Fitted], w: np.ndarray, problem: _Problem) -> BlendedScores:
    """Return the weighted mean of all scores, as one function of a row."""
    pieces, placed, (Y, offset, *_) = problem.pieces, problem.placed, problem.targets
    folded: dict[int, FoldedForm] = {}
    fitted = np.zeros_like(Y)
    for fit, share in zip(fits, w, strict=True):
        used = np.flatnonzero(share)
        alpha = np.tensordot(share[used], coefficients(fit.found, Y, problem.ridges[used]), axes=1)  # (l, c)
        one = folded.setdefault(fit.form, FoldedForm(placed[fit.form].T.shape[1], Y.shape[1]))
        fold_in(fit.view, pieces[fit.form], placed[fit.form], alpha, one)
        fitted += fit.found.U @ (fit.found.s[:, None] * (fit.found.U.T @ alpha))
    # A view is determined up to a constant, which follows from the mean over the labelled rows.
    bias = fitted.mean(axis=0) + offset
    for i, one in folded.items():
        bias -= (one.columns(placed[i]) + one.anchors(pieces[i], placed[i])).mean(axis=0)
    slim = [pieces[i].only(*one.needs()) for i, one in folded.items()]
    return BlendedScores(slim, list(folded.values()), bias)


def _left_out(fits: list[_Fitted], w: np.ndarray, doubts: np.ndarray | None, problem: _Problem) -> np.ndarray:
    """Return F of each labelled row, with its group left out of the regressions and of the weights."""
    Y, scale, groups, ridges = (
        problem.targets.Y,
        problem.targets.scale,
        problem.targets.groups,
        problem.ridges,
    )
    n, counts = len(Y), w > _LEFT_OUT * w.max()
    some = np.flatnonzero(counts.any(axis=1))
    errors = np.full((len(some), len(ridges), n), np.inf)
    for j, i in enumerate(some):
        used = np.flatnonzero(counts[i])
        if n <= _EXACT_ROWS and (groups.are_single or n * len(groups) <= _EXACT_PAIRS):
            errors[j, used] = errors_without_each(fits[i].found, Y, ridges[used], groups, scale)
        else:
            own = squared_errors(fits[i].left.residuals[used], scale)
            errors[j, used] = groups.without(own) / np.maximum(n - groups.sizes[groups.codes], 1)
    doubt = None if doubts is None else doubts[some][:, :, None]
    share = weights(errors, max(len(groups) - 1, 1), doubt, *_prior([fits[i].view for i in some]))
    F = Y.copy()
    for j, i in enumerate(some):
        F -= np.einsum("rl,rlc->lc", share[j], fits[i].left.residuals)
    return F
