"""The base of LDA, CCA, OPLS and HSL, which differ only in their target matrix and their predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial, update_wrapper
from itertools import pairwise
from numbers import Integral, Real
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from labelfold.base import (
    ITERATIONS,
    KernelForm,
    LinearReducer,
    RowsEstimator,
    Scores,
    fitting,
    labelled_rows,
    measure_of,
    spread,
)
from labelfold.discriminant._second_stage import (
    Directions,
    Moments,
    Seen,
    centered_targets,
    direct,
    direct_factor,
    direct_kernel,
    distinct_rows,
    from_key,
    keep_components,
    second_stage,
)
from labelfold.features import KernelMap, kernel_map
from labelfold.labels import Labels, check_kind, read_batch
from labelfold.model_selection import SemiSupervisedKFold, best_candidate, fold_scores
from labelfold.numerics import (
    KernelProblem,
    LeastSquaresProblem,
    RowTargets,
    nonnegative_numbers,
    pose,
    rounding,
    row_spread,
)
from labelfold.rows import Block, Centered, Featurized, Rows
from labelfold.utils import Interval, Progress, StrOptions

N_FOLDS = 5
# Candidates of ridge="cv", as multiples of the mean squared deviation of a labelled row.
CV_GRID = tuple(10.0 ** np.arange(-4, 4.5, 1.0))
P = ParamSpec("P")
T = TypeVar("T")


class RidgePath(RowsEstimator):
    """The part of the two-stage methods that handles several ridges."""

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
        rows = self._rows(X, reset=True)
        labels = self._read(y, rows.shape[0])
        used, mask = labelled_rows(rows, labels, self.max_gram_bytes)
        return self._fit_path(used, mask, labels, nonnegative_numbers("ridges", ridges))

    def _fit_path(self, used: Rows, mask: Any, labels: Labels, ridges: Any) -> list[Self]:
        base = clone(self)
        base.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            base.feature_names_in_ = self.feature_names_in_
        base._set_feature_map(kernel_map, used, mask=mask, random_state=self.random_state, centred=True)
        seen = base._what_was_seen(used, mask, labels)
        directions = base._solve(used, mask, labels, ridges)

        @cache
        def regressions() -> list[tuple[np.ndarray, np.ndarray]]:
            return seen.regression(*directions)  # one pass for all, if a method needs it

        def leading(i: int, found: Directions) -> list[tuple[np.ndarray, np.ndarray]]:
            k, (ZtZ, ZtY) = len(found.s), regressions()[i]
            return [(ZtZ[:k, :k], ZtY[:k])]

        models = []
        for i, (ridge, found) in enumerate(zip(ridges, directions, strict=True)):
            model = clone(self).set_params(ridge=ridge)
            model.__dict__.update({name: value for name, value in vars(base).items() if name.endswith("_")})
            model._store(found, ridge, replace(seen, regression=partial(leading, i)))
            models.append(model)
        return models

    def _choose_ridge(self, used: Rows, mask: np.ndarray | None, labels: Labels) -> float:
        """Return the ridge chosen by cross-validation on the labelled rows, for "cv" or a sequence."""
        if mask is not None:
            most = max(2, int(self.max_gram_bytes / used.row_bytes()))
            used = used.take(np.flatnonzero(mask)[:most])
            labels = labels.take(np.arange(min(most, labels.n_labelled)))
        deviation, tiny = row_spread(self._seen(used)), float(np.finfo(np.float64).tiny)
        if isinstance(self.ridge, str):
            ridges = deviation * np.array(CV_GRID)
        else:
            ridges = np.asarray(nonnegative_numbers("ridges", self.ridge))
        self.ridges_, self.ridge_scores_ = ridges, self._fold_scores(used, labels, ridges)
        if not len(self.ridge_scores_):
            # no row can be held out, so the ridge nearest to the spread of the rows is used, a safe choice
            nearest = np.abs(np.log(np.maximum(ridges, tiny)) - np.log(deviation)).argmin()
            return float(ridges[nearest])
        return float(ridges[best_candidate(self.ridge_scores_, ridges)])  # ties: the larger ridge

    def _fold_scores(self, used: Rows, labels: Labels, ridges: np.ndarray) -> np.ndarray:
        """Return the score of each ridge on each fold of the labelled rows that can be fitted."""

        def predict(train: np.ndarray, test: np.ndarray) -> list[np.ndarray] | None:
            try:
                models = self._fit_path(used.take(train), None, labels.take(train), ridges)
            except (ValueError, np.linalg.LinAlgError):
                return None  # too few training rows; the final fit reports it if all rows are too few
            held = used.take(test)
            return [model.predict(held) for model in models]

        truth = labels.decode(labels.values)
        scores = fold_scores(_folds(labels), predict, truth, measure_of(labels.task))
        return scores.reshape(len(scores), len(ridges))


class _WhereItCan(Generic[P, T]):
    """A method of models without a kernel and with one ridge; for other models `hasattr` is False."""

    def __init__(self, method: Callable[Concatenate[Any, P], T]) -> None:
        self.method: Callable[..., Any] = method
        update_wrapper(cast("Callable[..., Any]", self), method)

    def __get__(self, model: Any, owner: Any = None) -> Callable[P, T]:
        if model is None:
            return self.method
        name = f"{type(model).__name__}.partial_fit"
        if model.kernel is not None:
            raise AttributeError(
                f"{name} cannot work with kernel={model.kernel!r}, which compares every row with rows of all "
                "batches; call fit on all rows, with n_landmarks where they are many"
            )
        if not isinstance(model.ridge, Real):
            raise AttributeError(
                f"{name} cannot work with ridge={model.ridge!r}, which is chosen from all rows at once; give one "
                "number, or call fit on all rows"
            )
        return MethodType(self.method, model)


class Streaming(RowsEstimator):
    """The part of the two-stage methods that learns from batches."""

    _moments: Any

    @_WhereItCan
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
            self._start_stream(rows, classes)
        elif classes is not None and self._stream_classes is None:
            raise ValueError(
                "classes was given after the first call of partial_fit; give it at the first, or never"
            )
        self._add_batch(rows, y)
        self._solve_stream()
        return self

    def _start_stream(self, rows: Rows, classes: Any) -> None:
        name, d = type(self).__name__, rows.shape[1]
        if 8 * d * d > self.max_gram_bytes:
            raise ValueError(
                f"{name}.partial_fit keeps a {d} x {d} matrix of {8 * d * d / 2**20:,.0f} MB, more than "
                f"max_gram_bytes={self.max_gram_bytes:,} allows; call fit with a list of blocks, or a function "
                "that returns them"
            )
        self.feature_map_: Any = None
        self.__dict__.pop("components_", None)  # components of an earlier fit
        self._moments = Moments(d)
        self._stream_kind: str | None = None
        self._stream_width = 0
        self._stream_classes = None if classes is None else np.unique(np.asarray(classes))

    def _add_batch(self, rows: Rows, y: Any) -> None:
        n = rows.shape[0]
        kind, known, values = read_batch(
            y,
            unlabeled=self.unlabeled,
            task=self._stream_task(),
            classes=self._stream_classes,
            has_task=hasattr(self, "task"),
        )
        if len(known) != n:
            raise ValueError(
                f"y has {len(known)} rows and X has {n}; pass one label, or one unlabelled mark, a row."
            )
        if not known.any():
            return
        if kind != (self._stream_kind or kind):
            raise ValueError(f"this batch has {kind} targets, where earlier ones had {self._stream_kind}")
        if self._stream_kind is None:
            check_kind(kind, self._allowed, type(self).__name__)
        width = values.shape[1] if values.ndim == 2 else 1
        if width != (self._stream_width or width):
            raise ValueError(
                f"y has {width} column{'s' * (width != 1)}, where the {self._stream_width} of the earlier batches "
                "are expected; give every batch the same columns"
            )
        self._stream_kind, self._stream_width = kind, width
        taken = rows if known.all() else rows.take(np.flatnonzero(known))
        if kind == "regression":
            self._flat = values.ndim == 1
            self._moments.add(taken, [], targets=values.reshape(len(values), -1))
            return
        keys = distinct_rows(values) if kind == "multilabel" else values.tolist()
        self._check_keys(keys)
        self._moments.add(taken, keys)

    def _stream_task(self) -> str:
        if self._stream_kind is not None:
            return "regression" if self._stream_kind == "regression" else "classification"
        return getattr(self, "task", "auto")

    def _check_keys(self, keys: list) -> None:
        new = set(keys) - set(self._moments.groups)
        if self._stream_kind == "classes" and self._stream_classes is not None:
            stray = sorted(new - set(self._stream_classes.tolist()))
            if stray:
                raise ValueError(
                    f"y holds the class {stray[0]!r}, which is not among classes={self._stream_classes.tolist()}; "
                    "name it there at the first call, or leave classes out"
                )
        d, groups = len(self._moments.mean), len(self._moments.groups) + len(new)
        if 8 * d * groups > self.max_gram_bytes:
            raise ValueError(
                f"{groups} distinct sets of labels with a mean of {d} columns each are more than "
                f"max_gram_bytes={self.max_gram_bytes:,} allows; call fit with a list of blocks instead"
            )

    def _solve_stream(self) -> None:
        moments = self._moments
        if moments.n == 0:
            return  # no labelled row so far
        if self._stream_kind == "regression":
            link = self._link(moments.y_scatter)
            M, cross, y_mean, y_scatter = (
                moments.cross @ link,
                moments.cross,
                moments.y_mean,
                moments.y_scatter,
            )
            task, classes, y_sum = "regression", np.zeros(0), moments.y_mean * moments.n
        else:
            keys, counts, means = moments.group_means()
            task, classes, Y = self._stream_labels(keys)
            if task == "one class":
                return
            T = self._targets(Y, counts)
            y_sum = counts @ Y
            y_mean = y_sum / moments.n
            Yc = Y - y_mean
            M = (means * counts[:, None]).T @ centered_targets(T, counts)
            cross, y_scatter = (means * counts[:, None]).T @ Yc, (Yc.T * counts) @ Yc
        problem = moments.problem(M)
        size = max(moments.n, len(moments.mean))
        if self.solver == "direct":
            found = direct_factor(problem.factor(), float(self.ridge), moments.mean)
        else:
            found = second_stage(problem.solve(float(self.ridge)), size)

        if not len(found.s):
            return  # too few rows so far for any direction

        def regression(found: Directions) -> list[tuple[np.ndarray, np.ndarray]]:
            return [(found.W.T @ problem.gram.G @ found.W, found.W.T @ cross)]

        flat = getattr(self, "_flat", False)
        self._store(
            found,
            float(self.ridge),
            Seen(task, classes, moments.n, y_sum, y_mean, y_scatter, regression, flat, moments.eps),
        )

    def _stream_labels(self, keys: list) -> tuple[str, np.ndarray, np.ndarray]:
        """Return the task, the classes, and the label row of each group."""
        if self._stream_kind == "multilabel":
            Y = np.array([from_key(key) for key in keys])
            return "multilabel", np.arange(Y.shape[1]), Y
        classes = np.array(sorted(keys)) if self._stream_classes is None else self._stream_classes
        if len(keys) < 2:
            return "one class", classes, np.zeros((0, 0))
        codes = {name: i for i, name in enumerate(classes.tolist())}
        Y = np.eye(len(classes))[[codes[key] for key in keys]]
        return ("binary" if len(classes) == 2 else "multiclass"), classes, Y


class TwoStage(RidgePath, Streaming, KernelForm, LinearReducer):
    """A method of the two-stage family. A subclass defines its targets and its predictions."""

    _parameter_constraints = {
        **KernelForm._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "ridge": [Interval(Real, 0, None, closed="left"), StrOptions({"cv"}), "array-like"],
        "solver": [StrOptions({"two-stage", "direct"})],
        **ITERATIONS,
    }

    def _targets(self, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return T (m, q) for label rows Y (m, c), where row i has the weight ``weights[i]``."""
        raise NotImplementedError

    def _fit_head(self, found: Directions, seen: Seen) -> None:
        """Store the attributes that predictions need."""
        raise NotImplementedError

    @fitting
    def fit(self, X: Any, y: Any) -> Self:
        """Find the directions from the labelled rows.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, labelled or not, in any container that `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,) or (n, c)
            Targets; ``unlabeled`` or a missing value for unlabelled rows.

        Returns
        -------
        self : estimator
        """
        rows = self._rows(X, reset=True)
        labels = self._read(y, rows.shape[0])
        used, mask = labelled_rows(rows, labels, self.max_gram_bytes)
        self._moments = None
        self._set_feature_map(kernel_map, used, mask=mask, random_state=self.random_state, centred=True)
        given = isinstance(self.ridge, Real)
        ridge = float(self.ridge) if given else self._choose_ridge(used, mask, labels)
        (found,) = self._solve(used, mask, labels, [ridge])
        self._store(found, ridge, self._what_was_seen(used, mask, labels))
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether there are components: a first batch may have too few rows for them."""
        return hasattr(self, "components_")

    def _read(self, y: Any, n_rows: int | None) -> Labels:
        labels = self._read_labels(y, n_rows)
        if labels.n_labelled == 1:
            raise ValueError(
                "y has one sample with a label, and a direction takes two that differ; label more rows"
            )
        return labels

    def _solve(
        self, used: Rows, mask: np.ndarray | None, labels: Labels, ridges: Sequence[float]
    ) -> list[Directions]:
        """Return the directions for each ridge; the data is read once."""
        Y, codes, counts = labels.distinct()
        table = centered_targets(self._targets(Y, counts), counts)
        counted = None if codes is None else counts
        T = RowTargets(table, codes, counted)
        rows, size = self._seen(used), max(used.shape)
        if isinstance(self.feature_map_, KernelMap):
            K = self.feature_map_.of_points()
            exact = KernelProblem(K, T.dense, _rounding(self.feature_map_, K, used.eps))
            if self.solver == "direct":
                return [direct_kernel(exact, ridge) for ridge in ridges]
            return solve_along(exact, ridges, size)
        if mask is not None:
            if codes is None:
                T = RowTargets(spread(table, mask))
            else:
                T = RowTargets(table, spread(codes, mask, -1), counted)
        if self.solver == "direct":
            return [direct(rows, T.dense, g, mask=mask, max_gram_bytes=self.max_gram_bytes) for g in ridges]
        bar = Progress(type(self).__name__, self.max_iter, self.verbose) if self.verbose else nullcontext()
        with bar as progress:
            problem = pose(
                rows,
                T,
                mask=mask,
                tol=self.tol,
                max_iter=self.max_iter,
                max_gram_bytes=self.max_gram_bytes,
                random_state=self.random_state,
                callback=progress,
            )
            return solve_along(problem, ridges, size)

    def _store(self, found: Directions, ridge: float, seen: Seen) -> None:
        found = keep_components(found, self.n_components)
        self.components_ = np.ascontiguousarray(found.W.T)
        self.eigenvalues_ = found.s
        self.mean_ = found.mean
        self.n_iter_ = found.n_iter
        self.residual_ = found.residual
        self.ridge_ = ridge
        self._fit_head(found, seen)

    def _what_was_seen(self, rows: Rows, mask: np.ndarray | None, labels: Labels) -> Seen:
        Y, _, counts = labels.distinct()
        y_mean = counts @ Y / counts.sum()

        def regression(*found: Directions) -> list[tuple[np.ndarray, np.ndarray]]:
            ones = np.ones(rows.shape[0]) if mask is None else mask.astype(np.float64)
            Ws, mean = [one.W for one in found], found[0].mean
            Yc = spread(labels.columns() - y_mean, mask)
            if self.feature_map_ is None:
                sums = Centered(rows, mean).sum(_regression_sums, Yc, ones, shared=tuple(Ws))
            else:
                scores = Scores(self.feature_map_, mean, np.hstack(Ws))
                ends = tuple(np.cumsum([W.shape[1] for W in Ws]).tolist())
                sums = Featurized(rows, scores.transform).sum(_products, Yc, ones, shared=(ends,))
            return list(zip(sums[::2], sums[1::2], strict=True))

        flat = labels.values.ndim == 1
        scatter = (Y - y_mean).T @ (counts[:, None] * (Y - y_mean))
        known = (labels.task, labels.classes, labels.n_labelled)
        return Seen(*known, counts @ Y, y_mean, scatter, regression, flat, rows.eps)


def solve_along(problem: LeastSquaresProblem, ridges: Sequence[float], size: int) -> list[Directions]:
    """Return the directions for each ridge; each solution starts from that for the next larger ridge."""
    problem.prepare(ridges)
    found: dict[int, Directions] = {}
    first = None
    for i in sorted(range(len(ridges)), key=lambda i: -ridges[i]):
        first = problem.solve(ridges[i], start=first)
        found[i] = second_stage(first, size)
    return [found[i] for i in range(len(ridges))]


def _rounding(kernel_map: KernelMap, K: np.ndarray, eps: float) -> np.ndarray | None:
    """Return the rounding errors of rows in the space of a linear kernel."""
    if kernel_map.kernel != "linear":
        return None
    center = 0.0 if kernel_map.center is None else float(kernel_map.center @ kernel_map.center)
    return rounding(np.diagonal(K) + center, kernel_map.points.shape[1], eps)


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


def _folds(labels: Labels) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the folds of the labelled rows; no fold removes a class, or a label, from training."""
    n = labels.n_labelled
    if labels.task == "regression":
        folds = min(N_FOLDS, n // 2)  # R^2 is not defined for one row
        return list(KFold(folds, shuffle=True, random_state=0).split(np.zeros(n))) if folds > 1 else []
    counts = labels.counts()
    several = counts[counts > 1]
    if labels.task == "multilabel":
        folds, usual = min(N_FOLDS, n), KFold
    else:
        folds, usual = min([N_FOLDS, *several.tolist()]), StratifiedKFold
    if not len(several) or folds < 2:
        return []
    splitter = usual if (counts > 1).all() else SemiSupervisedKFold
    values = labels.values
    try:
        return list(splitter(folds, shuffle=True, random_state=0).split(np.zeros(n), values))
    except ValueError:  # too few rows with several labels to hold any out
        return []
