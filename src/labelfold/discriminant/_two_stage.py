r"""The two-stage approach: a generalised eigenproblem at the cost of least squares (Sun, Ceran & Ye, KDD 2010).

LDA, CCA, OPLS and HSL maximise :math:`\mathrm{tr}(W' X_c' T T' X_c W)` subject to
:math:`W'(X_c'X_c + g I)W = I`, each with its own target matrix T. In the letters of the paper (X here has one row for
each sample, T is the paper's H, g its gamma):

.. math::

    W_1 &= \arg\min \|X_c W_1 - T\|_F^2 + g \|W_1\|_F^2              && \text{stage 1, eq. 27} \\
    D &= W_1' X_c' T = E\, \mathrm{diag}(s)\, E'                     && \text{stage 2} \\
    W &= W_1 E\, \mathrm{diag}(s)^{-1/2}

W spans the solution of the direct problem, and s are its eigenvalues, without any assumption on X (theorems 2 and 4).

This file has the steps of a ``fit`` as functions; then the base class; then the fits of several ridges, for
`TwoStage.path` and the choice of a ridge, and of batches, for `TwoStage.partial_fit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import clone

from labelfold.base import (
    ITERATIONS,
    Decisions,
    KernelForm,
    LinearReducer,
    Scores,
    constraints,
    indicator_scores,
    labelled_rows,
    spread,
)
from labelfold.discriminant._streaming import OneRidgeOnly, add_batch, start_stream, stream_labels
from labelfold.features import KernelMap, kernel_map
from labelfold.labels import Labels
from labelfold.model_selection import chosen_ridge, default_ridge
from labelfold.numerics import (
    EPS,
    Factor,
    KernelProblem,
    LeastSquares,
    LeastSquaresProblem,
    RowTargets,
    nonnegative_numbers,
    pose,
    read_factor,
    rounding,
    row_spread,
)
from labelfold.rows import Block, Centered, Featurized, Rows
from labelfold.utils import Interval, Progress, StrOptions, warn_user

# Eigenvalues whose relative difference is below this are treated as equal.
_EQUAL = 1e-9


class LabelledRows(NamedTuple):
    """What a fit reads.

    Attributes
    ----------
    rows : Rows
        The labelled rows, or all rows if the labelled ones do not fit ``max_gram_bytes``.
    mask : ndarray of bool or None
        The mask of the labelled rows, if ``rows`` are all rows.
    labels : Labels
    Y : ndarray of shape (g, c)
        The distinct label rows: one-hot rows for classes, otherwise the label columns of each labelled row.
    codes : ndarray of shape (l,) or None
        The index in Y of each labelled row; None if Y has a row for each.
    counts : ndarray of shape (g,)
        Number of labelled rows with each row of Y.
    """

    rows: Rows
    mask: np.ndarray | None
    labels: Labels
    Y: np.ndarray
    codes: np.ndarray | None
    counts: np.ndarray

    @property
    def size(self) -> int:
        """The larger side of X, with which round-off grows."""
        return max(self.rows.shape)


class Directions(NamedTuple):
    """Directions from either solver.

    Attributes
    ----------
    W : ndarray of shape (d, k)
        Directions, W'(X_c'X_c + g I)W = I.
    s : ndarray of shape (k,)
        Eigenvalues, descending.
    targets : ndarray of shape (k, q)
        W'X_c'T, the targets projected onto the directions.
    mean : ndarray of shape (d,)
        The mean of the rows in use.
    n_iter : int
        Iterations of stage 1.
    residual : float
        Relative residual of stage 1.
    """

    W: np.ndarray
    s: np.ndarray
    targets: np.ndarray
    mean: np.ndarray
    n_iter: int = 1
    residual: float = 0.0


@dataclass
class LabelSummary:
    """What predictions need of the labelled rows.

    Attributes
    ----------
    task, classes : str, ndarray
        As in `Labels`.
    n : int
        Number of labelled rows.
    counts : ndarray of shape (c,)
        Number of rows of each class or label; empty in regression.
    y_mean : ndarray of shape (c,)
        Mean of the label columns.
    y_scatter : ndarray of shape (c, c)
        Y_c'Y_c.
    products : callable
        Returns Z'Z and Z'Y_c of the embedded rows Z = X_c W, for some directions.
    flat : bool
        Whether y has one column, so that predictions have one too.
    eps : float
        Relative precision of the rows.
    """

    task: str
    classes: np.ndarray
    n: int
    counts: np.ndarray
    y_mean: np.ndarray
    y_scatter: np.ndarray
    products: Callable[[Directions], tuple[np.ndarray, np.ndarray]]
    flat: bool
    eps: float


def read_labelled(model: TwoStage, X: Any, y: Any) -> LabelledRows:
    """Return the labelled rows, and store the feature map of the kernel."""
    rows = model._rows(X, reset=True)
    labels = model._read_labels(y, rows.shape[0])
    if labels.n_labelled == 1:
        raise ValueError(
            "y has one sample with a label, and a direction takes two that differ; label more rows"
        )
    rows, mask = labelled_rows(rows, labels, model.max_gram_bytes)
    model._set_feature_map(kernel_map, rows, mask=mask, random_state=model.random_state, centred=True)
    model._moments = None
    return LabelledRows(rows, mask, labels, *labels.distinct())


def centered_targets(T: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return T less its mean, where row i has the weight ``weights[i]``; a constant column is exactly 0."""
    n = weights.sum()
    Tc = T - weights @ T / n
    Tc[:, weights @ Tc**2 <= (10 * n * EPS) ** 2 * (weights @ T**2)] = 0.0
    return Tc


def least_squares(
    model: TwoStage, data: LabelledRows, T: np.ndarray, ridges: Sequence[float]
) -> Iterator[LeastSquares]:
    """Stage 1: give W_1 and D for each ridge, from the largest to the smallest; the rows are read once for all.

    T (g, q) has a row for each row of ``data.Y``. A solution starts from that for the next larger ridge.
    """
    bar = Progress(type(model).__name__, model.max_iter, model.verbose) if model.verbose else nullcontext()
    with bar as progress:
        problem = _problem(model, data, centered_targets(T, data.counts), progress)
        if len(ridges) > 1:
            problem.prepare(ridges)
        found = None
        for ridge in sorted(ridges, reverse=True):
            found = problem.solve(ridge, start=found)
            yield found


def _problem(
    model: TwoStage, data: LabelledRows, T: np.ndarray, progress: Callable | None
) -> LeastSquaresProblem:
    """Return the least-squares problem of stage 1, for centred targets."""
    if isinstance(model.feature_map_, KernelMap):
        return _kernel_problem(model.feature_map_, data, T)
    return pose(
        model._seen(data.rows),
        _row_targets(data, T),
        mask=data.mask,
        tol=model.tol,
        max_iter=model.max_iter,
        max_gram_bytes=model.max_gram_bytes,
        random_state=model.random_state,
        callback=progress,
    )


def _row_targets(data: LabelledRows, T: np.ndarray) -> RowTargets:
    """Return the targets of ``data.rows``; 0 for rows outside the mask."""
    if data.codes is None:
        return RowTargets(spread(T, data.mask))
    return RowTargets(T, spread(data.codes, data.mask, -1), data.counts)


def _kernel_problem(kernel: KernelMap, data: LabelledRows, T: np.ndarray) -> KernelProblem:
    """Return the least-squares problem in the space of an exact kernel."""
    K, errors = kernel.of_points(), None
    if kernel.kernel == "linear":
        center = 0.0 if kernel.center is None else float(kernel.center @ kernel.center)
        errors = rounding(np.diagonal(K) + center, kernel.points.shape[1], data.rows.eps)
    return KernelProblem(K, T if data.codes is None else T[data.codes], errors)


def eigenproblem(first: LeastSquares, size: int) -> Directions:
    """Stage 2: return the directions from a least-squares solution; ``size`` is the larger side of X."""
    s, E = np.linalg.eigh(first.D)
    s, E = s[::-1], E[:, ::-1]
    keep = s > 10 * size * EPS * max(s[0], 0.0)
    s, E = s[keep], E[:, keep]
    return _unique(first.W @ (E / np.sqrt(s)), s, E.T, first.mean, first.n_iter, first.residual)


def _unique(
    W: np.ndarray, s: np.ndarray, Et: np.ndarray, mean: np.ndarray, n_iter: int = 1, residual: float = 0.0
) -> Directions:
    """Return the directions W with eigenvalues s and projected targets diag(s)^(1/2) E', made unique.

    With ridge 0 and fewer rows than columns every eigenvalue is 1, and round-off would choose the basis. Within a
    group of equal eigenvalues the directions are rotated so that their targets are upper triangular, which determines
    the basis. The largest coefficient of each direction is positive, so every container gives the same signs.
    """
    rotation = np.eye(len(s))
    for group in np.split(np.arange(len(s)), np.flatnonzero(s[1:] < s[:-1] * (1 - _EQUAL)) + 1):
        if len(group) > 1:
            rotation[np.ix_(group, group)] = np.linalg.qr(Et[group])[0]
    # Rotated last: eigenvalues that are treated as equal still differ in their last digits and scale their vectors.
    W, targets = W @ rotation, rotation.T @ (np.sqrt(s)[:, None] * Et)
    if W.size:
        signs = np.sign(W[np.abs(W).argmax(axis=0), np.arange(W.shape[1])])
        W, targets = W * signs, targets * signs[:, None]
    return Directions(W, s, targets, mean, n_iter, residual)


def direct(model: TwoStage, data: LabelledRows, T: np.ndarray, ridges: Sequence[float]) -> list[Directions]:
    """Return the directions for each ridge from the dense d x d problem, for small data and for comparison."""
    T = centered_targets(T, data.counts)
    if isinstance(model.feature_map_, KernelMap):
        problem = _kernel_problem(model.feature_map_, data, T)
        values, U = problem.gram.spectrum
        sigma = np.sqrt(values)
        return [
            _from_spectrum(U.T @ problem.T, sigma, U / sigma.T, ridge, problem.mean, len(U))
            for ridge in ridges
        ]
    rows = model._seen(data.rows)
    n, d = rows.shape
    if 8 * d * d > model.max_gram_bytes:
        raise ValueError(
            f'solver="direct" needs a {d} x {d} matrix of {8 * d * d / 2**20:,.0f} MB, more than '
            f"max_gram_bytes={model.max_gram_bytes:,} allows; use solver='two-stage', or raise max_gram_bytes"
        )
    weights = np.ones(n) if data.mask is None else data.mask.astype(np.float64)
    mean = rows.sum(_double_sum, weights[:, None])[:, 0] / weights.sum()
    # X_c'X_c = R'R, so its eigenvalues are the squared singular values of R, with all their digits.
    factor = read_factor(rows, _row_targets(data, T).dense, mean, data.mask)
    return [direct_factor(factor, ridge, mean) for ridge in ridges]


def _double_sum(X: Block, weights: Any) -> Any:
    return X.double().t(weights)


def direct_factor(factor: Factor, ridge: float, mean: np.ndarray) -> Directions:
    """Return the directions from a triangular factor R of X_c and Q'T."""
    if factor.full_rank:
        R, B = factor.damped(ridge)
        return _from_whitened(B, lambda P: solve_triangular(R, P, check_finite=False), mean, factor.size)
    U, sigma, V = factor.singular
    return _from_spectrum(U.T @ factor.C, sigma, V, ridge, mean, factor.size)


def _from_spectrum(
    C: np.ndarray, sigma: np.ndarray, V: np.ndarray, ridge: float, mean: np.ndarray, size: int
) -> Directions:
    """Return the directions from X = U diag(sigma) V' and C = U'T."""
    damped = np.hypot(sigma, np.sqrt(ridge))
    return _from_whitened(sigma / damped * C, lambda P: V @ (P / damped), mean, size)


def _from_whitened(
    B: np.ndarray, back: Callable[[np.ndarray], np.ndarray], mean: np.ndarray, size: int
) -> Directions:
    """Return the directions from B = F^(-1) X_c'T (eq. 31), where F F' = X_c'X_c + g I and ``back`` is F^(-T)."""
    P, root, Et = np.linalg.svd(B, full_matrices=False)
    keep = root**2 > 10 * size * EPS * root.max(initial=0.0) ** 2
    return _unique(back(P[:, keep]), root[keep] ** 2, Et[keep], mean)


def summarised(model: TwoStage, data: LabelledRows) -> LabelSummary:
    """Return the summary of labelled rows."""
    labels = data.labels
    n, y_sum = labels.n_labelled, data.counts @ data.Y
    Yc = data.Y - y_sum / n
    scatter = Yc.T @ (data.counts[:, None] * Yc)

    def products(found: Directions) -> tuple[np.ndarray, np.ndarray]:
        return embedding_products(model, data, [found])[0]

    flat = labels.values.ndim == 1
    return LabelSummary(
        labels.task, labels.classes, n, y_sum, y_sum / n, scatter, products, flat, data.rows.eps
    )


def embedding_products(
    model: TwoStage, data: LabelledRows, several: Sequence[Directions]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return Z'Z and Z'Y_c of the embedded rows Z = X_c W for each of several directions, in one pass."""
    rows, mask, labels = data.rows, data.mask, data.labels
    ones = np.ones(rows.shape[0]) if mask is None else mask.astype(np.float64)
    Y = labels.columns()
    Yc = spread(Y - data.counts @ data.Y / data.counts.sum(), mask)
    Ws, mean = [found.W for found in several], several[0].mean
    if model.feature_map_ is None:
        sums = Centered(rows, mean).sum(_regression_sums, Yc, ones, shared=tuple(Ws))
    else:
        scores = Scores(model.feature_map_, mean, np.hstack(Ws))
        ends = tuple(np.cumsum([W.shape[1] for W in Ws]).tolist())
        sums = Featurized(rows, scores.transform).sum(_products, Yc, ones, shared=(ends,))
    return list(zip(sums[::2], sums[1::2], strict=True))


def _products(X: Block, Yc: Any, ones: Any, ends: tuple[int, ...]) -> tuple:
    """Return Z'Z and Z'Y_c of several embeddings Z, which are the columns of X up to these ends."""
    Z, sums = X.raw * ones[:, None], []
    for start, end in pairwise((0, *ends)):
        part = Z[:, start:end]
        sums += [part.T @ part, part.T @ Yc]
    return tuple(sums)


def _regression_sums(X: Block, Yc: Any, ones: Any, *Ws: Any) -> tuple:
    sums = []
    for W in Ws:
        Z = (X @ W) * ones[:, None]
        sums += [Z.T @ Z, Z.T @ Yc]
    return tuple(sums)


class TwoStage(Decisions, KernelForm, LinearReducer):
    """The base of LDA, CCA, OPLS and HSL.

    A subclass has its ``fit`` and defines its targets. It also defines predictions, unless these are a least-squares
    regression of the label columns on the embedding, ``Y ~ Z coef_.T + intercept_``.
    """

    _parameter_constraints = {
        **KernelForm._parameter_constraints,
        **constraints("ridge", *ITERATIONS),
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "solver": [StrOptions({"two-stage", "direct"})],
    }
    _target_gap = 1.0
    _moments: Any
    _stream_classes: Any

    def _targets(self, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return T (m, q) for label rows Y (m, c), where row i has the weight ``weights[i]``."""
        raise NotImplementedError

    def _fit_predictions(self, found: Directions, summary: LabelSummary) -> None:
        """Store the attributes that predictions need."""
        ZtZ, ZtY = summary.products(found)
        if not np.isfinite(ZtZ).all():  # LAPACK would print a message
            raise OverflowError("products of embedded rows overflow")
        self.coef_ = np.linalg.lstsq(ZtZ, ZtY, rcond=None)[0].T
        self.intercept_ = summary.y_mean
        self._keep_task(summary.task, summary.classes, summary.flat)

    def _score_rows(self, rows: Rows) -> np.ndarray:
        return indicator_scores(self._embedded(rows) @ self.coef_.T + self.intercept_, self.task_)

    def _store(self, found: Directions, ridge: float) -> Directions:
        """Store and return the leading directions; warn if there are fewer than requested."""
        rank = len(found.s)
        if rank == 0:
            raise ValueError(
                "no direction tells the labelled rows apart: all have the same labels, or every column of X has the "
                "same mean whatever the label; give labels and columns that vary, check that y belongs to these "
                "rows, or lower a ridge that dwarfs X"
            )
        k = rank if self.n_components is None else min(self.n_components, rank)
        if self.n_components is not None and self.n_components > rank:
            warn_user(
                f"n_components={self.n_components} is more than the {rank} direction{'s' * (rank != 1)} these labels "
                f"and columns allow; {rank} {'are' if rank != 1 else 'is'} kept",
                UserWarning,
            )
        self.components_ = np.ascontiguousarray(found.W.T[:k])
        self.eigenvalues_ = found.s[:k]
        self.mean_ = found.mean
        self.n_iter_ = found.n_iter
        self.residual_ = found.residual
        self.ridge_ = ridge
        return found._replace(W=found.W[:, :k], s=found.s[:k], targets=found.targets[:k])

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether there are components: a first batch may have too few rows for them."""
        return hasattr(self, "components_")

    def path(self, X: Any, y: Any, ridges: Sequence[float]) -> list[Self]:
        """Fit one model for each of several ridges, at the cost of one or two fits.

        The rows are read once for all ridges. Iterations share one Krylov space. If a matrix is factorised instead,
        five ridges or more share one reduction of it to band form.

        Parameters
        ----------
        X, y
            As in `fit`.
        ridges : sequence of float
            The ridges.

        Returns
        -------
        models : list of estimators
            One fitted model for each ridge, in the given order.
        """
        self._validate_params()
        base = clone(self)
        data = read_labelled(base, X, y)
        return _fit_path(base, data, nonnegative_numbers("ridges", ridges))

    @OneRidgeOnly
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from one more batch; the model is then that of `fit` on all rows so far.

        A d x d matrix is kept between batches (within ``max_gram_bytes``), and for multi-label targets one mean for
        each distinct set of labels. Data that is too wide for that can be passed to `fit` as a list of blocks, or as
        a function that returns them, and is then read once in each iteration.

        Parameters
        ----------
        X : container of shape (m, d)
            The batch.
        y : array-like of shape (m,) or (m, c)
            Targets of the batch; unlabelled rows are left out.
        classes : array-like of shape (c,), default=None
            All classes, at the first call. When None, classes are added as they occur. There are no components while
            there is only one row, or only one class.

        Returns
        -------
        self : estimator
        """
        first = getattr(self, "_moments", None) is None
        if first:
            self._validate_params()
        rows = self._rows(X, reset=first)
        if first:
            start_stream(self, rows.shape[1], classes)
        elif classes is not None and self._stream_classes is None:
            raise ValueError(
                "classes was given after the first call of partial_fit; give it at the first, or never"
            )
        add_batch(self, rows, y)
        if self._moments.n:
            _fit_moments(self)
        return self


def _fit_path(base: TwoStage, data: LabelledRows, ridges: Sequence[float]) -> list[Any]:
    """Return a model like ``base`` for each ridge. The attributes of ``base`` are those that do not depend on it."""
    T = base._targets(data.Y, data.counts)
    if base.solver == "direct":
        several = direct(base, data, T, ridges)
    else:
        order = np.argsort(-np.asarray(ridges), kind="stable").tolist()
        solutions = least_squares(base, data, T, ridges)
        found = {i: eigenproblem(first, data.size) for i, first in zip(order, solutions, strict=True)}
        several = [found[i] for i in range(len(ridges))]

    @cache
    def all_products() -> list[tuple[np.ndarray, np.ndarray]]:
        return embedding_products(base, data, several)  # one pass for all models, if the method needs it

    summary, models = summarised(base, data), []
    for i, ridge in enumerate(ridges):

        def products(found: Directions, i: int = i) -> tuple[np.ndarray, np.ndarray]:
            k, (ZtZ, ZtY) = len(found.s), all_products()[i]
            return ZtZ[:k, :k], ZtY[:k]

        model = clone(base).set_params(ridge=ridge)
        vars(model).update({name: value for name, value in vars(base).items() if name.endswith("_")})
        summary.products = products
        model._fit_predictions(model._store(several[i], ridge), summary)
        models.append(model)
    return models


def ridge_in_use(model: TwoStage, data: LabelledRows) -> float:
    """Return the ridge as given, from the scale of the labelled rows, or by cross-validation on them."""
    rows, labels = data.rows, data.labels
    if isinstance(model.ridge, Real):
        return float(model.ridge)
    if isinstance(model.ridge, str) and model.ridge == "auto":
        if isinstance(model.feature_map_, KernelMap):
            return default_ridge(labels.n_labelled, KernelMap.spread(model.feature_map_.of_points()))
        return default_ridge(labels.n_labelled, row_spread(model._seen(rows), data.mask))
    if data.mask is not None:
        most = max(2, int(model.max_gram_bytes / rows.row_bytes()))
        rows = rows.take(np.flatnonzero(data.mask)[:most])
        labels = labels.take(np.arange(min(most, labels.n_labelled)))

    def predict(ridges: np.ndarray, train: np.ndarray, test: np.ndarray) -> list[np.ndarray] | None:
        base, kept = clone(model), labels.take(train)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(base, name, getattr(model, name))
        try:
            part = rows.take(train)
            base._set_feature_map(kernel_map, part, mask=None, random_state=model.random_state, centred=True)
            models = _fit_path(base, LabelledRows(part, None, kept, *kept.distinct()), ridges.tolist())
        except (ValueError, np.linalg.LinAlgError):
            return None  # too few training rows; the final fit reports it if all rows are too few
        held = rows.take(test)
        return [one.predict(held) for one in models]

    return chosen_ridge(model, labels, row_spread(model._seen(rows)), predict)


def _fit_moments(model: Any) -> None:
    """Fit a model to the moments of its batches, unless they are too few for any direction."""
    moments = model._moments
    if model._stream_kind == "regression":
        task, classes, y_mean, cross = "regression", np.zeros(0), moments.y_mean, moments.cross
        link, y_scatter, y_sum = model._link(moments.y_scatter), moments.y_scatter, y_mean * moments.n
        M = cross @ link
    else:
        task, classes, Y = stream_labels(model)
        if task == "one class":
            return
        counts, means = moments.group_means()
        y_sum = counts @ Y
        y_mean = y_sum / moments.n
        Yc = Y - y_mean
        sums = (means * counts[:, None]).T  # (d, g)
        M = sums @ centered_targets(model._targets(Y, counts), counts)
        cross, y_scatter = sums @ Yc, (Yc.T * counts) @ Yc
    problem, ridge = moments.problem(M), float(model.ridge)
    if model.solver == "direct":
        found = direct_factor(problem.factor(), ridge, moments.mean)
    else:
        found = eigenproblem(problem.solve(ridge), max(moments.n, len(moments.mean)))
    if not len(found.s):
        return  # too few rows so far for any direction

    def products(found: Directions) -> tuple[np.ndarray, np.ndarray]:
        return found.W.T @ problem.gram.G @ found.W, found.W.T @ cross

    flat = getattr(model, "_flat", False)
    summary = LabelSummary(task, classes, moments.n, y_sum, y_mean, y_scatter, products, flat, moments.eps)
    model._fit_predictions(model._store(found, ridge), summary)
