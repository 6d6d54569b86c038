r"""The two-stage approach: a generalised eigenproblem at the cost of least squares (Sun, Ceran & Ye, KDD 2010).

LDA, CCA, OPLS and HSL maximise :math:`\mathrm{tr}(W' X_c' T T' X_c W)` subject to
:math:`W'(X_c'X_c + g I)W = I`, each with its own target matrix T. In the letters of the paper (X here has one row for
each sample, T is the paper's H, g its gamma):

.. math::

    W_1 &= \arg\min \|X_c W_1 - T\|_F^2 + g \|W_1\|_F^2              && \text{stage 1, eq. 27} \\
    D &= W_1' X_c' T = E\, \mathrm{diag}(s)\, E'                     && \text{stage 2, eq. 30} \\
    W &= W_1 E\, \mathrm{diag}(s)^{-1/2}                              && \text{algorithm 2}

W spans the solution of the direct problem, and s are its eigenvalues, without any assumption on X (theorems 2 and 4).

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
    ROUND_OFF,
    KernelProblem,
    RidgeProblem,
    RidgeSolution,
    nonnegative_numbers,
    ridge_problem,
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
    codes : ndarray of shape (n,) or None
        The index in Y of each of ``rows``, -1 outside the mask; None if Y has a row for each labelled row.
    counts : ndarray of shape (g,)
        Number of labelled rows with each row of Y.
    """

    rows: Rows
    mask: np.ndarray | None
    labels: Labels
    Y: np.ndarray
    codes: np.ndarray | None
    counts: np.ndarray


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
    return labelled_by(labels, rows, mask)


def labelled_by(labels: Labels, rows: Rows, mask: np.ndarray | None) -> LabelledRows:
    """Return rows with their labels, and the distinct rows of labels."""
    Y, codes, counts = labels.distinct()
    return LabelledRows(rows, mask, labels, Y, None if codes is None else spread(codes, mask, -1), counts)


def directions(
    model: TwoStage, data: LabelledRows, T: np.ndarray, ridges: Sequence[float]
) -> list[Directions]:
    """Return the directions for each ridge; the rows are read once for all ridges.

    T (g, q) has a row for each row of ``data.Y``. A solution starts from that for the next larger ridge.
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
                mask=data.mask,
                way="factor" if model.solver == "direct" else "auto",
                tol=model.tol,
                max_iter=model.max_iter,
                max_gram_bytes=model.max_gram_bytes,
                random_state=model.random_state,
                callback=progress,
            )
        if model.solver == "direct":
            return [dense_eigenproblem(problem, ridge) for ridge in ridges]
        if len(ridges) > 1:
            problem.prepare(ridges)
        first, found = None, {}
        for ridge in sorted(ridges, reverse=True):
            first = problem.solve(ridge, start=first)  # stage 1: W_1 (d, q), D (q, q)
            found[ridge] = eigenproblem(first, problem.size)  # stage 2: W (d, k), s (k,)
    return [found[ridge] for ridge in ridges]


def centered_targets(T: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return T less its mean, where row i has the weight ``weights[i]``; a constant column is exactly 0."""
    n = weights.sum()
    Tc = T - weights @ T / n
    Tc[:, weights @ Tc**2 <= (n * ROUND_OFF) ** 2 * (weights @ T**2)] = 0.0
    return Tc


def _kernel_problem(kernel: KernelMap, data: LabelledRows, T: np.ndarray) -> KernelProblem:
    """Return the ridge regression of centred targets in the space of an exact kernel, whose points are labelled."""
    T = T if data.codes is None else T[data.codes[data.codes >= 0]]
    K = kernel.of_points()
    if kernel.kernel != "linear":
        return KernelProblem(K, T)
    center = 0.0 if kernel.center is None else float(kernel.center @ kernel.center)
    return KernelProblem(K, T, np.diagonal(K) + center, kernel.points.shape[1], data.rows.eps)


def _check_dense(d: int, max_gram_bytes: int) -> None:
    """Raise an error if a d x d matrix exceeds the memory budget."""
    if 8 * d * d > max_gram_bytes:
        raise ValueError(
            f'solver="direct" needs a {d} x {d} matrix of {8 * d * d / 2**20:,.0f} MB, more than '
            f"max_gram_bytes={max_gram_bytes:,} allows; use solver='two-stage', or raise max_gram_bytes"
        )


def eigenproblem(first: RidgeSolution, size: int) -> Directions:
    """Stage 2: return the directions from a least-squares solution; ``size`` is the larger side of X."""
    s, E = np.linalg.eigh(first.D)  # D = E diag(s) E', eq. 30
    s, E = s[::-1], E[:, ::-1]
    keep = s > size * ROUND_OFF * max(s[0], 0.0)
    s, E = s[keep], E[:, keep]
    W = first.W @ (E / np.sqrt(s))  # (d, k)  W_1 W_2, algorithm 2
    return _unique(W, s, E.T, first.mean, first.n_iter, first.residual)


def dense_eigenproblem(problem: RidgeProblem, ridge: float) -> Directions:
    """Return the directions without stage 1, for small data and for comparison (theorem 4)."""
    B, back = problem.whitened(ridge)  # (d, q)  eq. 31, transposed: F^(-1) X_c'T, where F F' = X_c'X_c + g I
    P, root, Et = np.linalg.svd(B, full_matrices=False)  # eq. 32
    keep = root**2 > problem.size * ROUND_OFF * root.max(initial=0.0) ** 2
    return _unique(back(P[:, keep]), root[keep] ** 2, Et[keep], problem.mean)  # eq. 37


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
    W, mean = np.hstack([found.W for found in several]), several[0].mean
    ends = tuple(np.cumsum([len(found.s) for found in several]).tolist())
    if model.feature_map_ is None:
        sums = Centered(rows, mean).sum(_products, Yc, ones, shared=(ends, W))
    else:
        scores = Scores(model.feature_map_, mean, W)
        sums = Featurized(rows, scores.transform).sum(_products, Yc, ones, shared=(ends,))
    return list(zip(sums[::2], sums[1::2], strict=True))


def _products(X: Block, Yc: Any, ones: Any, ends: tuple[int, ...], W: Any = None) -> tuple[Any, ...]:
    """Return Z'Z and Z'Y_c of several embeddings Z: the columns of X W, or of X, up to these ends."""
    Z, sums = (X.raw if W is None else X @ W) * ones[:, None], []
    for start, end in pairwise((0, *ends)):
        part = Z[:, start:end]
        sums += [part.T @ part, part.T @ Yc]
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
    _uses_unlabelled = False
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
        self.coef_: np.ndarray = np.linalg.lstsq(ZtZ, ZtY, rcond=None)[0].T
        self.intercept_: np.ndarray = summary.y_mean
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
        self.components_: np.ndarray = np.ascontiguousarray(found.W.T[:k])
        self.eigenvalues_: np.ndarray = found.s[:k]
        self.mean_: np.ndarray = found.mean
        self.n_iter_: int = found.n_iter
        self.residual_: float = found.residual
        self.ridge_ = ridge
        return found._replace(W=found.W[:, :k], s=found.s[:k], targets=found.targets[:k])

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether there are components: a first batch may have too few rows for them."""
        return hasattr(self, "components_")

    def path(self, X: Any, y: Any, ridges: Sequence[float]) -> list[Self]:
        """Fit one model for each of several ridges, at the cost of one to three fits.

        The rows are read once for all ridges. Iterations share one Krylov space. If a matrix is factorised instead,
        five ridges or more share one reduction of it to tridiagonal form.

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
    several = directions(base, data, base._targets(data.Y, data.counts), ridges)

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
        return default_ridge(labels.n_labelled, row_spread(model._featurized(rows), data.mask))
    if data.mask is not None:
        n_rows = max(2, int(model.max_gram_bytes / rows.row_bytes()))
        rows = rows.take(np.flatnonzero(data.mask)[:n_rows])
        labels = labels.take(np.arange(min(n_rows, labels.n_labelled)))

    def predict(ridges: np.ndarray, train: np.ndarray, test: np.ndarray) -> list[np.ndarray] | None:
        base, kept = clone(model), labels.take(train)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(base, name, getattr(model, name))
        try:
            part = rows.take(train)
            base._set_feature_map(kernel_map, part, mask=None, random_state=model.random_state, centred=True)
            models = _fit_path(base, labelled_by(kept, part, None), ridges.tolist())
        except (ValueError, np.linalg.LinAlgError):
            return None  # too few training rows; the final fit reports it if all rows are too few
        held = rows.take(test)
        return [one.predict(held) for one in models]

    return chosen_ridge(model, labels, row_spread(model._featurized(rows)), predict)


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
        found = eigenproblem(problem.solve(ridge), problem.size)
    if not len(found.s):
        return  # too few rows so far for any direction

    def products(found: Directions) -> tuple[np.ndarray, np.ndarray]:
        Z = problem.factor().R @ found.W
        return Z.T @ Z, found.W.T @ cross

    flat = getattr(model, "_flat", False)
    summary = LabelSummary(task, classes, moments.n, y_sum, y_mean, y_scatter, products, flat, moments.eps)
    model._fit_predictions(model._store(found, ridge), summary)
