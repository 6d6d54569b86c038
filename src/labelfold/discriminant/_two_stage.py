r"""The two-stage approach: a generalised eigenproblem at the cost of least squares (Sun, Ceran & Ye, KDD 2010).

LDA, CCA, OPLS and HSL maximise :math:`\mathrm{tr}(W' X_c' T T' X_c W)` subject to
:math:`W'(X_c'X_c + g I)W = I`, each with its own target matrix T. In the letters of the paper (X here has one row for
each sample, T is the paper's H, g its gamma):

.. math::

    W_1 &= \arg\min \|X_c W_1 - T\|_F^2 + g \|W_1\|_F^2              && \text{stage 1, eq. 27} \\
    D &= W_1' X_c' T = E\, \mathrm{diag}(s)\, E'                     && \text{stage 2, eq. 30} \\
    W &= W_1 E\, \mathrm{diag}(s)^{-1/2}                              && \text{algorithm 2}

W spans the solution of the direct problem, and s are its eigenvalues, without any assumption on X (theorems 2 and 4).
With weights of the rows, means are weighted, and rows of X_c and T are multiplied by the square roots of the weights.

This file has the steps of a ``fit`` as functions; then the base class; then the fits of several ridges, for
`TwoStage.path` and the choice of a ridge, and of batches, for `TwoStage.partial_fit`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from labelfold.base import (
    ITERATIONS,
    Decisions,
    KernelForm,
    LinearReducer,
    LinearScores,
    Scores,
    constraints,
    labelled_rows,
    spread,
)
from labelfold.discriminant._streaming import OneRidgeOnly, add_batch, start_stream, stream_labels
from labelfold.features import KernelMap, kernel_map
from labelfold.labels import Labels, class_weighted, read_weights
from labelfold.model_selection import chosen_ridge, default_ridge
from labelfold.numerics import (
    ROUND_OFF,
    KernelProblem,
    RidgeProblem,
    RidgeSolution,
    nonnegative_numbers,
    ridge_problem,
    row_spread,
)
from labelfold.rows import Block, Centered, Featurized, Rows, triangle_of
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
    codes : ndarray of shape (n,) or None
        The index in Y of each of ``rows``, -1 outside the mask; None if Y has a row for each labelled row.
    counts : ndarray of shape (g,)
        Total weight of the labelled rows with each row of Y.
    """

    rows: Rows
    mask: np.ndarray | None
    labels: Labels
    Y: np.ndarray
    codes: np.ndarray | None
    counts: np.ndarray

    @property
    def weights(self) -> np.ndarray | None:
        """The weights of ``rows``, 0 outside the mask; None if all are 1."""
        return self.labels.weights if self.mask is None else spread(self.labels.row_weights(), self.mask)


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
    all_s : ndarray of shape (r,)
        The eigenvalues of all directions, from which the leading k may have been kept.
    ridge : float
        g.
    n_iter : int
        Iterations of stage 1.
    residual : float
        Relative residual of stage 1.
    """

    W: np.ndarray
    s: np.ndarray
    targets: np.ndarray
    mean: np.ndarray
    all_s: np.ndarray
    ridge: float
    n_iter: int = 1
    residual: float = 0.0


class Products(NamedTuple):
    """Sums over embedded rows Z = X_c W.

    Attributes
    ----------
    ZtZ, ZtY : ndarray of shape (k, k), (k, c)
        Z'Z and Z'Y_c.
    XtY : ndarray of shape (d, c) or None
        X_c'Y_c, if the method needs it.
    """

    ZtZ: np.ndarray
    ZtY: np.ndarray
    XtY: np.ndarray | None

    def leading(self, k: int) -> Products:
        """Return the sums for the first k directions."""
        return Products(self.ZtZ[:k, :k], self.ZtY[:k], self.XtY)


@dataclass
class LabelSummary:
    """What predictions need of the labelled rows.

    Attributes
    ----------
    task, classes : str, ndarray
        As in `Labels`.
    n : float
        Total weight of the labelled rows: their number, if each counts once.
    counts : ndarray of shape (c,)
        Total weight of the rows of each class or label; sums of the columns in regression.
    y_mean : ndarray of shape (c,)
        Mean of the label columns.
    y_scatter : ndarray of shape (c, c)
        Y_c'Y_c.
    products : callable
        Returns the `Products` of some directions.
    flat : bool
        Whether y has one column, so that predictions have one too.
    eps : float
        Relative precision of the rows.
    """

    task: str
    classes: np.ndarray
    n: float
    counts: np.ndarray
    y_mean: np.ndarray
    y_scatter: np.ndarray
    products: Callable[[Directions], Products]
    flat: bool
    eps: float


def read_labelled(model: TwoStage, X: Any, y: Any, sample_weight: Any) -> LabelledRows:
    """Return the labelled rows with their weights, and store the feature map of the kernel."""
    rows = model._rows(X, reset=True)
    labels = model._read_weighted(y, sample_weight, rows.shape[0])[0]
    if model.class_weight is not None:
        labels = class_weighted(labels, model.class_weight)
    if labels.n_labelled == 1:
        raise ValueError(
            "y has one sample with a label, and a direction takes two that differ; label more rows"
        )
    data = labelled_by(labels, *labelled_rows(rows, labels, model.max_gram_bytes))
    model._set_feature_map(
        kernel_map, data.rows, weights=data.weights, random_state=model.random_state, centred=True
    )
    model._moments = None
    return data


def labelled_by(labels: Labels, rows: Rows, mask: np.ndarray | None) -> LabelledRows:
    """Return rows with their labels, and the distinct rows of labels."""
    Y, codes, counts = labels.distinct()
    return LabelledRows(rows, mask, labels, Y, None if codes is None else spread(codes, mask, -1), counts)


def directions(
    model: TwoStage,
    data: LabelledRows,
    T: np.ndarray,
    ridges: Sequence[float] | Callable[[RidgeProblem], Sequence[float]],
) -> list[Directions]:
    """Return the directions for each ridge; the rows are read once for all ridges.

    T (g, q) has a row for each row of ``data.Y``. A solution starts from that for the next larger ridge. The ridges
    may be a function of the problem.
    """
    Tc = centered_targets(T, data.counts)  # (g, q)
    bar = Progress(type(model).__name__, model.max_iter, model.verbose) if model.verbose else nullcontext()
    with bar as progress:
        problem: RidgeProblem
        if isinstance(model.feature_map_, KernelMap):
            problem = _kernel_problem(model.feature_map_, data, Tc)
        else:
            rows = model._featurized(data.rows)
            if model.solver == "direct":
                _check_dense(rows.shape[1], model.max_gram_bytes)
            problem = ridge_problem(
                rows,
                spread(Tc, data.mask) if data.codes is None else Tc,
                data.codes,
                data.counts,
                weights=data.weights,
                way="factor" if model.solver == "direct" else "auto",
                tol=model.tol,
                max_iter=model.max_iter,
                max_gram_bytes=model.max_gram_bytes,
                random_state=model.random_state,
                callback=progress,
            )
        ridges = ridges(problem) if callable(ridges) else ridges
        if model.solver == "direct":
            return [dense_eigenproblem(problem, ridge) for ridge in ridges]
        if len(ridges) > 1:
            problem.prepare(ridges)
        first, found = None, {}
        for ridge in sorted(ridges, reverse=True):
            first = problem.solve(ridge, start=first)  # stage 1: W_1 (d, q), D (q, q)
            found[ridge] = eigenproblem(first, problem.size, ridge)  # stage 2: W (d, k), s (k,)
    return [found[ridge] for ridge in ridges]


def centered_targets(T: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return T less its mean, where row i has the weight ``weights[i]``; a constant column is exactly 0."""
    Tc = T - weights @ T / weights.sum()
    Tc[:, weights @ Tc**2 <= (len(T) * ROUND_OFF) ** 2 * (weights @ T**2)] = 0.0
    return Tc


def _kernel_problem(kernel: KernelMap, data: LabelledRows, T: np.ndarray) -> KernelProblem:
    """Return the ridge regression of centred targets in the space of an exact kernel, whose points are labelled."""
    T = T if data.codes is None else T[data.codes[data.codes >= 0]]
    K, weights = kernel.of_points(), data.labels.weights
    if kernel.kernel != "linear":
        return KernelProblem(K, T, weights)
    center = 0.0 if kernel.center is None else float(kernel.center @ kernel.center)
    return KernelProblem(K, T, weights, np.diagonal(K) + center, kernel.points.shape[1], data.rows.eps)


def _check_dense(d: int, max_gram_bytes: int) -> None:
    """Raise an error if a d x d matrix exceeds the memory budget."""
    if 8 * d * d > max_gram_bytes:
        raise ValueError(
            f'solver="direct" needs a {d} x {d} matrix of {8 * d * d / 2**20:,.0f} MB, more than '
            f"max_gram_bytes={max_gram_bytes:,} allows; use solver='two-stage', or raise max_gram_bytes"
        )


def eigenproblem(first: RidgeSolution, size: int, ridge: float) -> Directions:
    """Stage 2: return the directions from a least-squares solution; ``size`` is the larger side of X."""
    s, E = np.linalg.eigh(first.D)  # D = E diag(s) E', eq. 30
    s, E = s[::-1], E[:, ::-1]
    keep = s > size * ROUND_OFF * max(s[0], 0.0)
    s, E = s[keep], E[:, keep]
    W = first.W @ (E / np.sqrt(s))  # (d, k)  W_1 W_2, algorithm 2
    return _unique(W, s, E.T, first.mean, ridge)._replace(n_iter=first.n_iter, residual=first.residual)


def dense_eigenproblem(problem: RidgeProblem, ridge: float) -> Directions:
    """Return the directions without stage 1, for small data and for comparison (theorem 4)."""
    B, back = problem.whitened(ridge)  # (d, q)  eq. 31, transposed: F^(-1) X_c'T, where F F' = X_c'X_c + g I
    P, root, Et = np.linalg.svd(B, full_matrices=False)  # eq. 32
    keep = root**2 > problem.size * ROUND_OFF * root.max(initial=0.0) ** 2
    return _unique(back(P[:, keep]), root[keep] ** 2, Et[keep], problem.mean, ridge)  # eq. 37


def _unique(W: np.ndarray, s: np.ndarray, Et: np.ndarray, mean: np.ndarray, ridge: float) -> Directions:
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
    return Directions(W, s, targets, mean, s, ridge)


def summarised(model: TwoStage, data: LabelledRows) -> LabelSummary:
    """Return the summary of labelled rows."""
    labels = data.labels
    n, y_sum = labels.total, data.counts @ data.Y
    Yc = data.Y - y_sum / n
    scatter = Yc.T @ (data.counts[:, None] * Yc)

    def products(found: Directions) -> Products:
        return embedding_products(model, data, [found])[0]

    flat = labels.values.ndim == 1
    return LabelSummary(
        labels.task, labels.classes, n, y_sum, y_sum / n, scatter, products, flat, data.rows.eps
    )


def embedding_products(model: TwoStage, data: LabelledRows, several: Sequence[Directions]) -> list[Products]:
    """Return the sums over the embedded rows Z = X_c W for each of several directions, in one pass."""
    rows = data.rows
    roots = np.ones(rows.shape[0]) if data.weights is None else np.sqrt(data.weights)
    Yc = spread(data.labels.columns() - data.counts @ data.Y / data.counts.sum(), data.mask)
    Yc *= roots[:, None]
    W, mean = np.hstack([found.W for found in several]), several[0].mean
    ends = tuple(np.cumsum([len(found.s) for found in several]).tolist())
    has_loadings = model._has_loadings and model.feature_map_ is None
    if model.feature_map_ is None:
        sums = Centered(rows, mean).sum(_products, Yc, roots, shared=(ends, has_loadings, W))
    else:
        scores = Scores(model.feature_map_, mean, W)
        sums = Featurized(rows, scores.transform).sum(_products, Yc, roots, shared=(ends,))
    XtY, pairs = sums[-1] if has_loadings else None, sums[: 2 * len(ends)]
    return [Products(ZtZ, ZtY, XtY) for ZtZ, ZtY in zip(pairs[::2], pairs[1::2], strict=True)]


def _products(
    X: Block, Yc: Any, roots: Any, ends: tuple[int, ...], has_loadings: bool = False, W: Any = None
) -> tuple[Any, ...]:
    """Return Z'Z and Z'Y_c of several embeddings Z: the columns of X W, or of X, up to these ends; and X'Y_c."""
    Z, sums = (X.raw if W is None else X @ W) * roots[:, None], []
    for start, end in pairwise((0, *ends)):
        part = Z[:, start:end]
        sums += [part.T @ part, part.T @ Yc]
    return (*sums, X.double().t(Yc * roots[:, None])) if has_loadings else tuple(sums)


def explained_shares(made: Products, total: float) -> np.ndarray:
    """Return the share of the squares of Y_c that each column of Z explains beyond those before it; their sum is R^2.

    >>> Z = np.array([[2.0, 1.0], [0.0, 1.0], [-2.0, -2.0]])
    >>> Y = np.array([[1.0], [0.0], [-1.0]])  # half of the first column
    >>> explained_shares(Products(Z.T @ Z, Z.T @ Y, None), 2.0).round(9).tolist()
    [1.0, 0.0]
    """
    values, V = np.linalg.eigh(made.ZtZ)
    R = triangle_of(np.sqrt(np.maximum(values, 0.0))[:, None] * V.T)  # R'R = Z'Z
    explained = np.linalg.lstsq(R.T, made.ZtY, rcond=None)[0]  # R'^(-1) Z'Y_c
    return (explained**2).sum(axis=1) / (total or 1.0)


class TwoStage(LinearScores, Decisions, KernelForm, LinearReducer):
    """The base of LDA, CCA, OPLS and HSL.

    A subclass has its ``fit`` and defines its targets. It also defines predictions, unless these are a least-squares
    regression of the label columns on the embedding, ``Y ~ Z embedding_coef_.T + embedding_intercept_``.
    """

    _parameter_constraints = {
        **KernelForm._parameter_constraints,
        **constraints("ridge", "class_weight", *ITERATIONS),
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "solver": [StrOptions({"two-stage", "direct"})],
    }
    _target_gap = 1.0
    # Whether `_fit_predictions` needs X_c'Y_c.
    _has_loadings = False
    class_weight: dict[Any, float] | str | None
    _uses_unlabelled = False
    _moments: Any
    _stream_classes: Any

    def _targets(self, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return T (m, q) for label rows Y (m, c), where row i has the weight ``weights[i]``."""
        raise NotImplementedError

    def _fit_predictions(self, found: Directions, summary: LabelSummary) -> None:
        """Store the attributes that predictions need."""
        self._fit_regression(summary.products(found), summary)

    def _fit_regression(self, made: Products, summary: LabelSummary) -> None:
        """Store the regression of the label columns on the embedding."""
        if not np.isfinite(made.ZtZ).all():  # LAPACK would print a message
            raise OverflowError("products of embedded rows overflow")
        self.embedding_coef_: np.ndarray = np.linalg.lstsq(made.ZtZ, made.ZtY, rcond=None)[0].T
        self.embedding_intercept_: np.ndarray = summary.y_mean
        self.explained_variance_ratio_: np.ndarray = explained_shares(made, np.trace(summary.y_scatter))
        self._keep_task(summary.task, summary.classes, summary.flat)

    def _score_map(self) -> tuple[np.ndarray, np.ndarray]:
        """Return A and b of the scores Z A' + b; their sign, or the largest, decides."""
        A, b = self.embedding_coef_, self.embedding_intercept_
        if self.task_ == "binary":
            return A[1:] - A[:1], b[1:] - b[:1]
        return A, b - 0.5 if self.task_ == "multilabel" else b

    def _score_rows(self, rows: Rows) -> np.ndarray:
        A, b = self._score_map()
        return self._embedded(rows) @ A.T + b

    def _store(self, found: Directions) -> Directions:
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
        self.components_: np.ndarray = np.ascontiguousarray(found.W.T[:k])
        self.eigenvalues_: np.ndarray = found.s[:k]
        self.mean_: np.ndarray = found.mean
        self.n_iter_: int = found.n_iter
        self.residual_: float = found.residual
        self.ridge_: float = found.ridge
        return found._replace(W=found.W[:, :k], s=found.s[:k], targets=found.targets[:k])

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether there are components: a first batch may have too few rows for them."""
        return hasattr(self, "components_")

    def path(self, X: Any, y: Any, ridges: Sequence[float], sample_weight: Any = None) -> list[Self]:
        """Fit one model for each of several ridges, at the cost of one to three fits.

        The rows are read once for all ridges. Iterations share one Krylov space. If a matrix is factorised instead,
        five ridges or more share one reduction of it to tridiagonal form.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, as in `fit`.
        y : array-like of shape (n,) or (n, c)
            Targets, as in `fit`.
        ridges : sequence of float
            The ridges.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.

        Returns
        -------
        models : list of estimators
            One fitted model for each ridge, in the given order.
        """
        self._validate_params()
        base = clone(self)
        data = read_labelled(base, X, y, sample_weight)
        return _fit_path(base, data, nonnegative_numbers("ridges", ridges))

    @OneRidgeOnly
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
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
        sample_weight : array-like of shape (m,), default=None
            Weights of the rows of the batch; a row of weight 0 is left out.

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
        add_batch(self, rows, y, read_weights(sample_weight, rows.shape[0]))
        if self._moments.n:
            _fit_moments(self)
        return self


def _fit_path(base: TwoStage, data: LabelledRows, ridges: Sequence[float]) -> list[Any]:
    """Return a model like ``base`` for each ridge. The attributes of ``base`` are those that do not depend on it."""
    several = directions(base, data, base._targets(data.Y, data.counts), ridges)

    @cache
    def all_products() -> list[Products]:
        return embedding_products(base, data, several)  # one pass for all models, if the method needs it

    summary, models = summarised(base, data), []
    for i, ridge in enumerate(ridges):

        def products(found: Directions, i: int = i) -> Products:
            return all_products()[i].leading(len(found.s))

        model = clone(base).set_params(ridge=ridge)
        vars(model).update({name: value for name, value in vars(base).items() if name.endswith("_")})
        summary.products = products
        model._fit_predictions(model._store(several[i]), summary)
        models.append(model)
    return models


def ridge_in_use(model: TwoStage, data: LabelledRows) -> float:
    """Return the ridge as given, from the scale of the labelled rows, or by cross-validation on them."""
    rows, labels = data.rows, data.labels
    if isinstance(model.ridge, Real):
        return float(model.ridge)
    if isinstance(model.ridge, str) and model.ridge == "auto":
        if isinstance(model.feature_map_, KernelMap):
            return default_ridge(
                labels.total, KernelMap.spread(model.feature_map_.of_points(), labels.weights)
            )
        return default_ridge(labels.total, row_spread(model._featurized(rows), data.weights))
    if data.mask is not None:
        n_rows = max(2, int(model.max_gram_bytes / rows.row_bytes()))
        rows = rows.take(np.flatnonzero(data.mask)[:n_rows])
        labels = labels.take(np.arange(min(n_rows, labels.n_labelled)))

    def predict(ridges: np.ndarray, train: np.ndarray, test: np.ndarray) -> list[np.ndarray] | None:
        base, kept = clone(model), labels.take(train)
        base._has_loadings = False
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(base, name, getattr(model, name))
        try:
            part = rows.take(train)
            base._set_feature_map(
                kernel_map, part, weights=kept.weights, random_state=model.random_state, centred=True
            )
            models = _fit_path(base, labelled_by(kept, part, None), ridges.tolist())
        except (ValueError, np.linalg.LinAlgError):
            return None  # too few training rows; the final fit reports it if all rows are too few
        held = rows.take(test)
        return [one.predict(held) for one in models]

    return chosen_ridge(model, labels, row_spread(model._featurized(rows), labels.weights), predict)


def _fit_moments(model: Any) -> None:
    """Fit a model to the moments of its batches, unless they are too few for any direction."""
    moments = model._moments
    if model._stream_kind == "regression":
        task, classes = "regression", np.zeros(0)
        y_mean, cross, y_scatter = moments.target_moments()
        M, y_sum = cross @ model._link(y_scatter), y_mean * moments.n
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
        found = dense_eigenproblem(problem, ridge)
    else:
        found = eigenproblem(problem.solve(ridge), problem.size, ridge)
    if not len(found.s):
        return  # too few rows so far for any direction

    def products(found: Directions) -> Products:
        Z = problem.factor().R @ found.W
        return Products(Z.T @ Z, found.W.T @ cross, cross)

    flat = getattr(model, "_flat", False)
    summary = LabelSummary(task, classes, moments.n, y_sum, y_mean, y_scatter, products, flat, moments.eps)
    model._fit_predictions(model._store(found), summary)
