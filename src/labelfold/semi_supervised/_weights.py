"""From labels to the weights of the views: ridge regression in every view, compared by leave-one-out."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from labelfold.labels import Labels
from labelfold.model_selection import Groups
from labelfold.numerics import MAX_GRAM_BYTES
from labelfold.semi_supervised._blend import BlendedScores, FormScore
from labelfold.semi_supervised._trees import GrownTrees, share_of_trees
from labelfold.semi_supervised._views import RESERVED, FormRows, FormViews, Regressors, View

# Budget of time in predictions: views whose weight is below this share of the largest one get 0.
_NEGLIGIBLE = 1e-4
# The same for weights that are computed without a row, and for those of `refit`, which are computed many times.
MINOR = 1e-2
# Budget of time, cubic in the labelled rows: with more of them, leave-one-out weights omit only the row's own error.
# The effect of the row on the errors of the others is small then.
_EXACT_ROWS = 500
# The same budget for groups, by the number of rows times that of groups.
_EXACT_PAIRS = 50_000
# The constant added to kernels of mean squared norm 1. It is small for classes, so that few labels do not determine
# class frequencies, and large for labels and numbers, whose mean is informative. This constant, and the last two of
# this file, were chosen by accuracy on the sets that experiments/label_fold.py names.
_SHRUNK, _FREE = 0.1, 10.0
# Precision: eigenvalues below this share of the largest one are left out. It may be smaller than `_views.ROUND_OFF`,
# since ridge regression gives a direction the weight s / (s + ridge), which is then small.
_ROUND_OFF = 1e-12
# Precision: lower bound of 1 - h_ii, which is 0 up to round-off if a row determines its own value.
_MIN_GAP = 1e-9
# Weight of the indecision on unlabelled rows in the loss, as a number of labelled rows.
_MORE_ROWS = 20
# A weight is a negative power of the loss. The exponent is the number of rows divided by this.
_ROWS_A_POWER = 3


def default_ridges() -> np.ndarray:
    """Return the candidate ridges for features of mean squared norm 1."""
    return np.logspace(-3, 1, 5)


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
    weights : ndarray of shape (l,) or None
        Weights of the rows; None if all are 1.
    """

    Y: np.ndarray
    offset: np.ndarray
    scale: np.ndarray | float
    constant: float
    classes: bool
    groups: Groups
    weights: np.ndarray | None = None

    def rooted(self, A: np.ndarray) -> np.ndarray:
        """Return rows (..., l, c) times the roots of their weights, with which sums of squares are weighted."""
        return A if self.weights is None else A * np.sqrt(self.weights)[:, None]

    def unrooted(self, A: np.ndarray) -> np.ndarray:
        """Return rows (..., l, c) divided by the roots of their weights."""
        return A if self.weights is None else A / np.sqrt(self.weights)[:, None]

    def mean_error(self, residuals: np.ndarray) -> np.ndarray:
        """Return the weighted mean over the rows of squared `rooted` residuals, (...), from (..., l, c)."""
        errors = squared_errors(residuals, self.scale)
        return errors.mean(axis=-1) if self.weights is None else errors.sum(axis=-1) / self.weights.sum()


def targets_of(labels: Labels, groups: Groups | None = None) -> Targets:
    """Return the regression targets of labels, whose rows are left out one by one unless there are groups."""
    groups = Groups.single(labels.n_labelled) if groups is None else groups
    Y, w = labels.columns(), labels.weights
    if labels.task == "binary":
        return Targets(labels.signs(), np.zeros(1), 1.0, _SHRUNK, True, groups, w)
    if labels.task == "multiclass":
        share = np.full(Y.shape[1], 1 / Y.shape[1])
        return Targets(Y - share, share, 1.0, _SHRUNK, True, groups, w)
    mean = np.average(Y, axis=0, weights=w)
    spread = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=w))
    scale = np.where(spread > 0, spread, 1.0) if labels.task == "regression" else 1.0
    return Targets(Y - mean, mean, scale, _FREE, False, groups, w)


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

    def with_trees(self, grown: GrownTrees, targets: Targets, min_share: float = 0.0) -> Solution:
        """Return the solution blended with trees, if their share is at least ``min_share``."""
        truth = targets.Y + targets.offset
        left = targets.rooted(truth - grown.left_out)
        trees = squared_errors(left, targets.scale)
        share, each = 1.0, np.ones(len(trees))
        if self.views:
            views = squared_errors(targets.rooted(truth - self.left_out), targets.scale)
            share, each = share_of_trees(views, trees, targets.groups)
        if share < min_share:
            return self
        return self._replace(
            scores=self.scores.with_trees(grown.trees, share),
            weights=(1 - share) * self.weights,
            left_out=(1 - each)[:, None] * self.left_out + each[:, None] * grown.left_out,
            tree_error=float(targets.mean_error(left)),
        )


class _Regression(NamedTuple):
    """Ridge regression of the labels in one view, for each of r ridges.

    A row of weight w is multiplied by the root of w, and so are its target and its residuals. The hat matrix of these
    rows leaves a row out with all of its weight.
    """

    view: View
    form: int
    spectrum: Spectrum
    residuals: np.ndarray  # (r, l, c)  each row left out with its group, times the root of its weight
    indecision: np.ndarray  # (r,)  indecision on unlabelled rows


def solve(
    forms: list[FormViews],
    labelled: np.ndarray,
    unlabelled: np.ndarray,
    targets: Targets,
    ridges: np.ndarray,
    views: Collection[View] | None = None,
    other_weights: np.ndarray | None = None,
) -> Solution:
    """Return the blended score of all views, or of the given ones.

    Parameters
    ----------
    forms : list of FormViews
    labelled : ndarray of shape (l,)
        Indices of the labelled rows.
    unlabelled : ndarray of bool
        Which of the sample of other rows are unlabelled.
    targets : Targets
    ridges : ndarray of shape (r,)
    views : collection of View, optional
        The views to use; all by default. With a choice, views of a minor weight are left out of the score.
    other_weights : ndarray of float, optional
        Weights of the unlabelled rows of the sample; all are 1 when None.
    """
    own = [form.of_training(labelled) for form in forms]
    others = [form.others.take(unlabelled) for form in forms]
    n, Y = len(targets.Y), targets.rooted(targets.Y)

    def fit(view: View, i: int) -> _Regression:
        given = forms[i].regressors(view, own[i], others[i], targets.weights)
        found = spectrum(given.own, given.is_kernel, targets.constant, targets.weights)
        residuals = leave_one_out(found, Y, ridges, targets.groups)
        undecided = _view_indecision(given, found, targets, ridges, other_weights)
        return _Regression(view, i, found, residuals, undecided)

    used = [
        (view, i) for i, form in enumerate(forms) for view in form.scales if views is None or view in views
    ]
    if not used:
        empty = np.zeros((0, len(ridges)))
        mean = np.average(targets.Y, axis=0, weights=targets.weights) + targets.offset
        return Solution(BlendedScores([], mean), [], empty, empty, np.tile(mean, (n, 1)))
    kept: dict[int, _Regression] = {}
    room = MAX_GRAM_BYTES
    errors, indecisions = np.empty((len(used), len(ridges))), np.empty((len(used), len(ridges)))
    for j, (view, i) in enumerate(used):
        found = fit(view, i)
        indecisions[j], errors[j] = found.indecision, targets.mean_error(found.residuals)
        room -= found.spectrum.U.nbytes + found.residuals.nbytes
        if room > 0:  # the others are fitted again if they have weight
            kept[j] = found
    use_indecision = targets.classes and bool(unlabelled.any())
    every = [view for view, _ in used]
    w = view_weights(
        errors,
        len(targets.groups),
        indecisions if use_indecision else None,
        every,
        _NEGLIGIBLE if views is None else MINOR,
    )
    heavy = np.flatnonzero(w.any(axis=1)).tolist()
    fits = [kept.get(j) or fit(*used[j]) for j in heavy]
    scores = _blend(forms, own, fits, w[heavy], targets, ridges)
    left_out = _left_out(fits, w[heavy], use_indecision, targets, ridges)
    return Solution(scores, every, w, errors, left_out + targets.offset)


def _view_indecision(
    given: Regressors,
    found: Spectrum,
    targets: Targets,
    ridges: np.ndarray,
    weights: np.ndarray | None,
) -> np.ndarray:
    """Return the indecision of each ridge's scores on unlabelled rows, (r,)."""
    if not targets.classes or not len(given.others):
        return np.zeros(len(ridges))
    alpha = targets.rooted(coefficients(found, targets.rooted(targets.Y), ridges))
    if given.is_kernel:
        return indecision((given.others + targets.constant) @ alpha, weights)
    phi, psi = (with_constant(part, targets.constant) for part in (given.own, given.others))
    return indecision(psi @ (phi.T @ alpha), weights)


def _blend(
    forms: list[FormViews],
    labelled: list[FormRows],
    fits: list[_Regression],
    w: np.ndarray,
    targets: Targets,
    ridges: np.ndarray,
) -> BlendedScores:
    """Return the weighted mean of all scores, as one function of a row."""
    Y, scores, fitted = targets.rooted(targets.Y), {}, np.zeros_like(targets.Y)
    w_labels = targets.weights
    for fit, share in zip(fits, w, strict=True):
        used, (U, s), i = np.flatnonzero(share), fit.spectrum, fit.form
        alpha = np.tensordot(share[used], coefficients(fit.spectrum, Y, ridges[used]), axes=1)  # (l, c)
        if i not in scores:
            scores[i] = FormScore(forms[i], labelled[i].T.shape[1], Y.shape[1])
        scores[i].add(forms[i], fit.view, labelled[i], targets.rooted(alpha), w_labels)
        fitted += U @ (s[:, None] * (U.T @ alpha))
    # A view is determined up to a constant, which follows from the mean over the labelled rows.
    bias = np.average(targets.unrooted(fitted), axis=0, weights=w_labels) + targets.offset
    for i, score in scores.items():
        bias -= np.average(score(labelled[i]), axis=0, weights=w_labels)
        score.reduce()
    return BlendedScores(list(scores.values()), bias)


def _left_out(
    fits: list[_Regression], w: np.ndarray, use_indecision: bool, targets: Targets, ridges: np.ndarray
) -> np.ndarray:
    """Return F of each labelled row, with its group left out of the regressions and of the weights."""
    Y, groups, n = targets.rooted(targets.Y), targets.groups, len(targets.Y)
    counts = w > MINOR * w.max()
    fits = [fit for fit, some in zip(fits, counts, strict=True) if some.any()]
    errors = np.full((len(fits), len(ridges), n), np.inf)
    for j, (fit, used) in enumerate(zip(fits, counts[counts.any(axis=1)], strict=True)):
        if n <= _EXACT_ROWS and (groups.are_single or n * len(groups) <= _EXACT_PAIRS):
            errors[j, used] = errors_without_each(
                fit.spectrum, Y, ridges[used], groups, targets.scale, targets.weights
            )
        else:
            own = squared_errors(fit.residuals[used], targets.scale)
            errors[j, used] = groups.without(own) / _rest(groups, targets.weights)
    indecisions = np.array([fit.indecision for fit in fits])[:, :, None] if use_indecision else None
    share = view_weights(errors, max(len(groups) - 1, 1), indecisions, [fit.view for fit in fits])
    left = sum(np.einsum("rl,rlc->lc", one, fit.residuals) for one, fit in zip(share, fits, strict=True))
    return targets.Y - targets.unrooted(np.asarray(left))


class Spectrum(NamedTuple):
    """The eigendecomposition R (K + k 11') R = U diag(s) U' for labelled rows in a view, R the roots of weights."""

    U: np.ndarray
    s: np.ndarray


def spectrum(
    own: np.ndarray, is_kernel: bool, constant: float, weights: np.ndarray | None = None
) -> Spectrum:
    """Return the eigenvectors of a kernel (l, l), or of the kernel of features (l, p), p < l, plus a constant.

    With weights rows are multiplied by their roots first.
    """
    roots = None if weights is None else np.sqrt(weights)
    if is_kernel:
        K = own + constant
        s, V = np.linalg.eigh(K if roots is None else K * np.outer(roots, roots))
    else:
        phi = with_constant(own, constant)
        phi = phi if roots is None else phi * roots[:, None]
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


def leave_one_out(found: Spectrum, Y: np.ndarray, ridges: np.ndarray, groups: Groups) -> np.ndarray:
    """Return the residuals of every ridge, (r, l, c), each row left out together with its group."""
    U, s = found
    shrink = s / (s + ridges[:, None])  # (r, k)
    gaps = Y - U @ (shrink[:, :, None] * (U.T @ Y))  # (r, l, c)
    if groups.are_single:
        return gaps / np.maximum(1 - shrink @ (U**2).T, _MIN_GAP)[:, :, None]  # 1 - h_ii
    for r, each in enumerate(shrink):
        for rows in groups.by_size:
            own = U[rows]  # (g, m, k)
            if own.shape[1] <= own.shape[2]:
                gaps[r, rows] = _solve_left_out((own * each) @ own.swapaxes(1, 2), gaps[r, rows])
                continue
            # (I - U S U')^-1 = I + U (S^-1 - U'U)^-1 U', a k x k system for a large group
            inner = (1 + _MIN_GAP) * np.eye(len(s)) / each - own.swapaxes(1, 2) @ own
            gaps[r, rows] += own @ np.linalg.solve(inner, own.swapaxes(1, 2) @ gaps[r, rows])
    return gaps


def _solve_left_out(H: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Return (I - H)^-1 e for blocks H (g, m, m) of the hat matrix, and e (g, m, c)."""
    return np.linalg.solve((1 + _MIN_GAP) * np.eye(H.shape[-1]) - H, e)


def squared_errors(residuals: np.ndarray, scale: np.ndarray | float) -> np.ndarray:
    """Return the squared norm of each row of residuals (..., l, c), columns divided by ``scale`` (c,)."""
    return ((residuals / scale) ** 2).sum(axis=-1)


def indecision(F: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the mean squared distance of class scores F (..., u, c) from the nearest class indicator.

    Two classes are one column, coded -1 and +1; more are c columns, less 1/c. Rows have weights (u,).
    """
    if F.shape[-1] == 1:
        return np.average((1 - np.minimum(np.abs(F[..., 0]), 3)) ** 2, axis=-1, weights=weights)
    F = F + 1 / F.shape[-1]
    top = F.argmax(axis=-1)[..., None]
    nearest = np.zeros_like(F)
    np.put_along_axis(nearest, top, 1.0, axis=-1)
    return np.average(((np.clip(F, -1, 2) - nearest) ** 2).sum(axis=-1), axis=-1, weights=weights)


def view_weights(
    errors: np.ndarray,
    n_labelled: int,
    indecisions: np.ndarray | None,
    views: list[View],
    negligible: float = _NEGLIGIBLE,
) -> np.ndarray:
    """Return the weight of each view and ridge (v, r, ...); they sum to 1 over both.

    The loss of a view is a mean over the l labelled rows and 20 more, whose loss is the indecision of the view on
    unlabelled rows. The indecision distinguishes views if there are few labels, and matters little if there are many.
    A view is weighted by its best ridge, and its weight is divided among its ridges. Some families have a reserved
    share of the weight.

    Parameters
    ----------
    errors : ndarray of shape (v, r, ...)
        Leave-one-out errors; infinite for a ridge that is excluded.
    n_labelled : int
        l, or the number of groups of labelled rows.
    indecisions : ndarray of shape (v, r, ...) or None
        Indecision on unlabelled rows; None if there are no classes to decide between.
    views : list of View
        They have prior weights.
    negligible : float
        Weights below this share of the largest are 0.
    """
    n_rows, loss = n_labelled, errors
    if indecisions is not None:
        n_rows = n_labelled + _MORE_ROWS
        loss = (n_labelled * errors + _MORE_ROWS * indecisions) / n_rows
    tiny = np.finfo(float).tiny
    log = -n_rows / _ROWS_A_POWER * np.log(np.maximum(loss, tiny))
    best = log.max(axis=1, keepdims=True)
    within = np.exp(log - np.where(np.isfinite(best), best, 0.0))
    within /= np.maximum(within.sum(axis=1, keepdims=True), tiny)
    prior = np.array([view.prior for view in views])
    best = best + np.log(prior).reshape(-1, *[1] * (best.ndim - 1))

    def shared(best: np.ndarray) -> np.ndarray:
        w = np.exp(best - best.max(axis=0))
        return w / w.sum(axis=0)

    w, families = shared(best), np.array([view.family for view in views])
    for family, (reserved, power) in RESERVED.items():
        some = families == family
        if some.any() and np.isfinite(best[some]).any(axis=0).all():
            share = reserved * np.exp(power * (best[some].max(axis=0) - best.max(axis=0)))
            w = (1 - share) * w
            w[some] += share * shared(best[some])
    w = w * within
    w[w < negligible * w.max(axis=(0, 1))] = 0.0
    return w / w.sum(axis=(0, 1))


def errors_without_each(
    found: Spectrum,
    Y: np.ndarray,
    ridges: np.ndarray,
    groups: Groups,
    scale: np.ndarray | float,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return the left-out error of each ridge without the group of row i, (r, l), for each i."""
    (U, s), rest = found, _rest(groups, weights)
    errors = np.empty((len(ridges), len(U)))
    for r, ridge in enumerate(ridges):
        H = (U * (s / (s + ridge))) @ U.T
        e = (Y - H @ Y) / scale
        errors[r] = (_without_pairs(H, e) if groups.are_single else _without_groups(H, e, groups)) / rest
    return errors


def _rest(groups: Groups, weights: np.ndarray | None) -> np.ndarray:
    """Return for each row the total weight of the rows of other groups; 1 if there are none."""
    rest = groups.without(np.ones(len(groups.codes)) if weights is None else weights)
    return np.where(rest > 0, rest, 1.0)


def _without_pairs(H: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Return for each row i the sum of the squared residuals of the other rows j, each without i and j."""
    gap = np.maximum(1 - np.diagonal(H), _MIN_GAP)
    determinant = np.maximum(np.outer(gap, gap) - H**2, _MIN_GAP**2)
    # The residual of j without i and j is ((1 - h_ii) e_j + h_ij e_i) / determinant.
    own, cross, here = (e**2).sum(axis=1), e @ e.T, gap[:, None]
    squares = (here**2 * own + 2 * here * H * cross + H**2 * own[:, None]) / determinant**2
    np.fill_diagonal(squares, 0.0)
    return squares.sum(axis=1)


def _without_groups(H: np.ndarray, e: np.ndarray, groups: Groups) -> np.ndarray:
    """Return for each row the sum of the squared residuals of the rows of other groups, each without both groups."""
    n, errors = len(H), np.empty(len(H))
    blocks = [(rows, H[rows[:, :, None], rows[:, None, :]]) for rows in groups.by_size]
    for own in (group for rows in groups.by_size for group in rows):
        # H and e of the regression without the group
        turn = _solve_left_out(H[np.ix_(own, own)], np.hstack([e[own], H[own]]))
        moved, back = e + H[:, own] @ turn[:, : e.shape[1]], turn[:, e.shape[1] :]
        squares = np.zeros(n)
        for rows, block in blocks:
            left = block + H[rows[:, :, None], own] @ np.moveaxis(back[:, rows], 0, 1)
            squares[rows] = (_solve_left_out(left, moved[rows]) ** 2).sum(axis=-1)
        squares[own] = 0.0
        errors[own] = squares.sum()
    return errors
