"""From labels to one score: ridge regression in every view, weights by leave-one-out, and their sum."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from labelfold.labels import Labels
from labelfold.model_selection import Groups
from labelfold.semi_supervised._fold import BlendedScores, FoldedForm, Regressors, fold_in, regressors
from labelfold.semi_supervised._trees import Grown, share_of_trees
from labelfold.semi_supervised._views import RESERVED, FormPieces, Placed, View

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
# Eigenvalues of a kernel below this share of the largest are round-off.
_ROUND_OFF = 1e-12
# Lower bound of 1 - h_ii, which is 0 if a row determines its own value.
_LEAST_GAP = 1e-9
# Weights below this share of the largest are 0.
NEGLIGIBLE = 1e-4
# Number of labelled rows that the indecision on unlabelled rows counts for.
_MORE_ROWS = 20
# Exponent of the error in the weights, for each row.
_POWER = 1 / 3


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


class Reserved(NamedTuple):
    """A share of the weight that is reserved for some views.

    Attributes
    ----------
    views : ndarray of shape (v,), bool
        Mask of the views.
    share : float
        The share if their loss is the least.
    power : float
        How fast the share falls with their loss, as a multiple of the exponent in `weights`.
    """

    views: np.ndarray
    share: float
    power: float


class Spectrum(NamedTuple):
    """The eigendecomposition K + k 11' = U diag(s) U' for the labelled rows in a view."""

    U: np.ndarray
    s: np.ndarray


def spectrum(own: np.ndarray, is_kernel: bool, constant: float) -> Spectrum:
    """Return the eigenvectors of a kernel (l, l), or of the kernel of features (l, p), p < l, plus a constant."""
    if is_kernel:
        s, V = np.linalg.eigh(own + constant)
    else:
        phi = with_constant(own, constant)
        s, V = np.linalg.eigh(phi.T @ phi)
    keep = s > _ROUND_OFF * s[-1]
    s, V = s[keep], V[:, keep]
    return Spectrum(V if is_kernel else phi @ (V / np.sqrt(s)), s)


def with_constant(phi: np.ndarray, constant: float) -> np.ndarray:
    """Return features with an additional constant one."""
    return np.hstack([phi, np.full((len(phi), 1), np.sqrt(constant))])


def coefficients(found: Spectrum, Y: np.ndarray, ridges: np.ndarray) -> np.ndarray:
    """Return alpha for every ridge, (r, l, c), without its component in the null space of the kernel."""
    U, s = found
    return U @ ((U.T @ Y) / (s + ridges[:, None])[:, :, None])


class LeftOut(NamedTuple):
    """Ridge regression in one view, for each of r ridges.

    Attributes
    ----------
    residuals : ndarray of shape (r, l, c)
        y_i less its prediction, with row i and its group left out.
    leverage : ndarray of shape (r, l)
        h_ii.
    """

    residuals: np.ndarray
    leverage: np.ndarray


def leave_one_out(found: Spectrum, Y: np.ndarray, ridges: np.ndarray, groups: Groups) -> LeftOut:
    """Return the residuals of every ridge, each row left out together with its group."""
    U, s = found
    shrink = s / (s + ridges[:, None])  # (r, k)
    gaps = Y - U @ (shrink[:, :, None] * (U.T @ Y))  # (r, l, c)
    leverage = shrink @ (U**2).T
    if groups.are_single:
        return LeftOut(gaps / np.maximum(1 - leverage, _LEAST_GAP)[:, :, None], leverage)
    for r, each in enumerate(shrink):
        for rows in groups.by_size:
            own = U[rows]  # (g, m, k)
            if own.shape[1] <= own.shape[2]:
                gaps[r, rows] = _without((own * each) @ own.swapaxes(1, 2), gaps[r, rows])
                continue
            # (I - U S U')^-1 = I + U (S^-1 - U'U)^-1 U', a k x k system for a large group
            inner = (1 + _LEAST_GAP) * np.eye(len(s)) / each - own.swapaxes(1, 2) @ own
            gaps[r, rows] += own @ np.linalg.solve(inner, own.swapaxes(1, 2) @ gaps[r, rows])
    return LeftOut(gaps, leverage)


def _without(H: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Return (I - H)^-1 e for blocks H (g, m, m) of the hat matrix, and e (g, m, c)."""
    return np.linalg.solve((1 + _LEAST_GAP) * np.eye(H.shape[-1]) - H, e)


def squared_errors(residuals: np.ndarray, scale: np.ndarray | float) -> np.ndarray:
    """Return the squared norm of each row of residuals (..., l, c), columns divided by ``scale`` (c,)."""
    return ((residuals / scale) ** 2).sum(axis=-1)


def undecided(F: np.ndarray) -> np.ndarray:
    """Return the mean squared distance of class scores F (..., u, c) from the nearest class indicator.

    Two classes are one column, coded -1 and +1; more are c columns, less 1/c.
    """
    if F.shape[-1] == 1:
        return ((1 - np.minimum(np.abs(F[..., 0]), 3)) ** 2).mean(axis=-1)
    F = F + 1 / F.shape[-1]
    top = F.argmax(axis=-1)[..., None]
    nearest = np.zeros_like(F)
    np.put_along_axis(nearest, top, 1.0, axis=-1)
    return ((np.clip(F, -1, 2) - nearest) ** 2).sum(axis=-1).mean(axis=-1)


def weights(
    errors: np.ndarray,
    n_labelled: int,
    doubts: np.ndarray | None,
    prior: np.ndarray,
    reserved: Sequence[Reserved] = (),
    least: float = NEGLIGIBLE,
) -> np.ndarray:
    """Return the weight of each view and ridge (v, r, ...); they sum to 1 over both.

    The loss of a view is a mean over the l labelled rows and 20 more, whose loss is the indecision of the view on
    unlabelled rows. The indecision distinguishes views if there are few labels, and matters little if there are many.
    A view is weighted by its best ridge, and its weight is divided among its ridges.

    Parameters
    ----------
    errors : ndarray of shape (v, r, ...)
        Leave-one-out errors; infinite for a ridge that is excluded.
    n_labelled : int
        l, or the number of groups of labelled rows.
    doubts : ndarray of shape (v, r, ...) or None
        Indecision on unlabelled rows; None if there are no classes to decide between.
    prior : ndarray of shape (v,)
        Prior weights.
    reserved : sequence of Reserved
        Shares that are reserved for some views, applied in order.
    least : float
        Weights below this share of the largest are 0.
    """
    more = 0 if doubts is None else _MORE_ROWS
    loss = errors if doubts is None else (n_labelled * errors + more * doubts) / (n_labelled + more)
    log = -(n_labelled + more) * _POWER * np.log(np.maximum(loss, np.finfo(float).tiny))
    best = log.max(axis=1, keepdims=True)
    within = np.exp(log - np.where(np.isfinite(best), best, 0.0))
    within /= np.maximum(within.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    best = best + np.log(prior).reshape(-1, *[1] * (best.ndim - 1))

    def shared(best: np.ndarray) -> np.ndarray:
        w = np.exp(best - best.max(axis=0))
        return w / w.sum(axis=0)

    w = shared(best)
    for views, most, power in reserved:
        if views.any() and np.isfinite(best[views]).any(axis=0).all():
            share = most * np.exp(power * (best[views].max(axis=0) - best.max(axis=0)))
            w = (1 - share) * w
            w[views] += share * shared(best[views])
    w = w * within
    w[w < least * w.max(axis=(0, 1))] = 0.0
    return w / w.sum(axis=(0, 1))


def errors_without_each(
    found: Spectrum, Y: np.ndarray, ridges: np.ndarray, groups: Groups, scale: np.ndarray | float
) -> np.ndarray:
    """Return the left-out error of each ridge without the group of row i, (r, l), for each i."""
    U, s = found
    errors = np.empty((len(ridges), len(U)))
    for r, ridge in enumerate(ridges):
        H = (U * (s / (s + ridge))) @ U.T
        e = (Y - H @ Y) / scale
        errors[r] = _without_pairs(H, e) if groups.are_single else _without_groups(H, e, groups)
    return errors


def _without_pairs(H: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Return for each row i the mean squared residual of the other rows j, each without i and j."""
    n, gap = len(H), np.maximum(1 - np.diagonal(H), _LEAST_GAP)
    determinant = np.maximum(np.outer(gap, gap) - H**2, _LEAST_GAP**2)
    # The residual of j without i and j is ((1 - h_ii) e_j + h_ij e_i) / determinant.
    own, cross, here = (e**2).sum(axis=1), e @ e.T, gap[:, None]
    squares = (here**2 * own + 2 * here * H * cross + H**2 * own[:, None]) / determinant**2
    np.fill_diagonal(squares, 0.0)
    return squares.sum(axis=1) / max(1, n - 1)


def _without_groups(H: np.ndarray, e: np.ndarray, groups: Groups) -> np.ndarray:
    """Return for each row the mean squared residual of the rows of other groups, each without both groups."""
    n, errors = len(H), np.empty(len(H))
    blocks = [(rows, H[rows[:, :, None], rows[:, None, :]]) for rows in groups.by_size]
    for own in (group for rows in groups.by_size for group in rows):
        # H and e of the regression without the group
        turn = _without(H[np.ix_(own, own)], np.hstack([e[own], H[own]]))
        moved, back = e + H[:, own] @ turn[:, : e.shape[1]], turn[:, e.shape[1] :]
        squares = np.zeros(n)
        for rows, block in blocks:
            left = block + H[rows[:, :, None], own] @ np.moveaxis(back[:, rows], 0, 1)
            squares[rows] = (_without(left, moved[rows]) ** 2).sum(axis=-1)
        squares[own] = 0.0
        errors[own] = squares.sum() / max(1, n - len(own))
    return errors
