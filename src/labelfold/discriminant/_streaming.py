"""Labelled rows that arrive in batches: their moments, which determine the directions of the two-stage methods."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from numbers import Real
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

import numpy as np

from labelfold.labels import read_batch
from labelfold.numerics import FactorProblem
from labelfold.rows import Block, Centered, Rows, check_fits, triangle_of

P = ParamSpec("P")
T = TypeVar("T")


class Moments:
    """Total weight, mean and scatter of the rows, and their cross-products with the labels.

    The scatter is stored as a stack of rows S with S'S = X_c'X_c. A batch extends it (Chan's update of means and
    scatters) by the new rows, centred at their own mean, and one row for the difference of the means. Rows are times
    the square roots of their weights. When the stack grows, it is compressed to its triangular factor. X'X itself
    would lose half of the digits. Continuous targets are further columns of X here.

    For classes and label sets, rows with the same labels share one total weight and one mean, because the targets of
    some methods depend on the final totals.
    """

    def __init__(self, n_columns: int) -> None:
        self.n: float = 0  # total weight of the rows
        self.n_rows, self.n_columns = 0, n_columns
        self.groups: dict[Any, list] = {}
        self.dtype = "float64"  # the lowest precision of the batches
        # Of the columns of X, and then the targets.
        self._means, self._stack = np.zeros(n_columns), np.zeros((0, n_columns))

    @property
    def eps(self) -> float:
        """Relative precision of the rows."""
        return float(np.finfo(self.dtype).eps)

    @property
    def mean(self) -> np.ndarray:
        """The mean of the rows."""
        return self._means[: self.n_columns]

    def add(
        self,
        rows: Rows,
        keys: list,
        *,
        targets: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        """Add a batch: one hashable key for each row (its labels), or continuous targets; positive weights."""
        n_new = rows.shape[0]
        if n_new == 0:
            return
        m = n_new if weights is None else float(weights.sum())
        if np.finfo(rows.dtype).eps > np.finfo(self.dtype).eps:
            self.dtype = str(rows.dtype)
        Y = np.zeros((n_new, 0)) if targets is None else targets
        if not self.n:
            self._means = np.zeros(self.n_columns + Y.shape[1])
            self._stack = np.zeros((0, len(self._means)))
        mean, y_mean = rows.mean(weights), Y.mean(axis=0) if weights is None else weights @ Y / m
        part = Centered(rows, mean)
        R = part.sum(_triangle, Y - y_mean, *(() if weights is None else (np.sqrt(weights),)))
        if targets is None:
            self._add_groups(part, keys, mean, weights)
        away = np.append(mean, y_mean) - self._means
        self._stack = np.vstack([self._stack, R, np.sqrt(self.n * m / (self.n + m)) * away])
        self.n += m
        self.n_rows += n_new
        self._means = self._means + away * (m / self.n)
        if len(self._stack) > 3 * len(away) + 256:
            self._stack = triangle_of(self._stack)

    def _add_groups(self, part: Centered, keys: list, mean: np.ndarray, weights: np.ndarray | None) -> None:
        distinct = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        codes = np.array([distinct[key] for key in keys])
        counts = np.bincount(codes, weights, minlength=len(distinct))
        of_groups = np.eye(len(distinct))[codes]
        # (d, groups), about the batch's mean
        sums = part.t(of_groups if weights is None else of_groups * weights[:, None])
        for key, i in distinct.items():
            count, old = self.groups.get(key, [0, 0.0])
            new = mean + sums[:, i] / counts[i]
            total = count + counts[i]
            self.groups[key] = [total, old + (new - old) * (counts[i] / total)]

    def target_moments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the mean of continuous targets, X_c'Y_c and Y_c'Y_c."""
        S, d = self._stack, self.n_columns
        return self._means[d:], S[:, :d].T @ S[:, d:], S[:, d:].T @ S[:, d:]

    def group_means(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights of the groups (g,), and their means relative to the overall mean (g, d)."""
        counts = np.array([count for count, _ in self.groups.values()], dtype=np.float64)
        return counts, np.array([mean for _, mean in self.groups.values()]) - self.mean

    def problem(self, M: np.ndarray) -> FactorProblem:
        """Return the ridge regression whose right-hand side is M = X_c'T_c."""
        S = self._stack[:, : self.n_columns]
        R = triangle_of(np.vstack([S, np.zeros((max(0, S.shape[1] - len(S)), S.shape[1]))]))
        return FactorProblem.of_triangle(R, M, self.mean, self.n_rows, self.n, self.eps)


def _triangle(X: Block, Y: Any, roots: Any = None) -> Any:
    X = X.double()
    return X.qr(Y) if roots is None else X.scale(roots).qr(Y * roots[:, None])


def start_stream(model: Any, n_columns: int, classes: Any) -> None:
    """Store the state of a model without batches; ``classes`` as in `partial_fit`."""
    name, d = type(model).__name__, n_columns
    if 8 * d * d > model.max_gram_bytes:
        raise ValueError(
            f"{name}.partial_fit keeps a {d} x {d} matrix of {8 * d * d / 2**20:,.0f} MB, more than "
            f"max_gram_bytes={model.max_gram_bytes:,} allows; call fit with a list of blocks, or a function "
            "that returns them"
        )
    model.feature_map_ = None
    model.__dict__.pop("components_", None)  # components of an earlier fit
    model._moments = Moments(d)
    model._stream_kind = None
    model._stream_width = 0
    model._stream_classes = None if classes is None else np.unique(np.asarray(classes))


def add_batch(model: Any, rows: Rows, y: Any, weights: np.ndarray | None) -> None:
    """Add the labelled rows of a batch, with weights of all of its rows, to the moments of a model."""
    n = rows.shape[0]
    kind, known, values = read_batch(
        y,
        unlabeled=model.unlabeled,
        task=_task(model),
        classes=model._stream_classes,
        has_task=hasattr(model, "task"),
        allowed=model._allowed if model._stream_kind is None else None,
        estimator=type(model).__name__,
    )
    if len(known) != n:
        raise ValueError(
            f"y has {len(known)} rows and X has {n}; pass one label, or one unlabelled mark, a row."
        )
    if weights is not None:
        counted = weights > 0
        values, known = values[counted[known]], known & counted
    if not known.any():
        return
    if kind != (model._stream_kind or kind):
        raise ValueError(f"this batch has {kind} targets, where earlier ones had {model._stream_kind}")
    width = values.shape[1] if values.ndim == 2 else 1
    if width != (model._stream_width or width):
        raise ValueError(
            f"y has {width} column{'s' * (width != 1)}, where the {model._stream_width} of the earlier batches "
            "are expected; give every batch the same columns"
        )
    model._stream_kind, model._stream_width = kind, width
    if not known.all():
        check_fits(rows, "partial_fit", "give it smaller batches", n_rows=int(known.sum()))
    taken = rows if known.all() else rows.take(np.flatnonzero(known))
    weights = None if weights is None else weights[known]
    if model.class_weight is not None:
        weights = _class_factors(model, kind, values) * (1.0 if weights is None else weights)
    if kind == "regression":
        model._flat = values.ndim == 1
        model._moments.add(taken, [], targets=values.reshape(len(values), -1), weights=weights)
        return
    keys = distinct_rows(values) if kind == "multilabel" else values.tolist()
    _check_new_keys(model, keys)
    model._moments.add(taken, keys, weights=weights)


def _class_factors(model: Any, kind: str, values: np.ndarray) -> np.ndarray:
    """Return the weight of each row's class, or of all of its labels."""
    given = model.class_weight
    if kind == "regression":
        raise ValueError(
            f"class_weight={given} was given for numbers, which have no classes; use sample_weight"
        )
    named = np.arange(values.shape[1]) if kind == "multilabel" else model._stream_classes
    known = None if named is None else named.tolist()
    strange = [] if known is None else [label for label in given if label not in known]
    if strange or not all(weight > 0 for weight in given.values()):
        of = "the classes" if known is None else f"the classes {known}"
        raise ValueError(f"class_weight={given} was given, where positive weights of {of} are expected")
    if kind == "multilabel":
        factors = [float(given.get(j, 1.0)) for j in range(values.shape[1])]
        return np.where(values > 0, factors, 1.0).prod(axis=1)
    return np.array([float(given.get(label, 1.0)) for label in values.tolist()])


def _task(model: Any) -> str:
    if model._stream_kind is not None:
        return "regression" if model._stream_kind == "regression" else "classification"
    return getattr(model, "task", "auto")


def _check_new_keys(model: Any, keys: list) -> None:
    new = set(keys) - set(model._moments.groups)
    if model._stream_kind == "classes" and model._stream_classes is not None:
        stray = sorted(new - set(model._stream_classes.tolist()))
        if stray:
            raise ValueError(
                f"y holds the class {stray[0]!r}, which is not among classes={model._stream_classes.tolist()}; "
                "name it there at the first call, or leave classes out"
            )
    d, groups = len(model._moments.mean), len(model._moments.groups) + len(new)
    if 8 * d * groups > model.max_gram_bytes:
        raise ValueError(
            f"{groups} distinct sets of labels with a mean of {d} columns each are more than "
            f"max_gram_bytes={model.max_gram_bytes:,} allows; call fit with a list of blocks instead"
        )


def stream_labels(model: Any) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the task, the classes, and the label row of each group of the moments of a model.

    The task is "one class" if there are too few classes so far.
    """
    keys = list(model._moments.groups)
    if model._stream_kind == "multilabel":
        Y = np.array([from_key(key) for key in keys])
        return "multilabel", np.arange(Y.shape[1]), Y
    classes = np.array(sorted(keys)) if model._stream_classes is None else model._stream_classes
    if len(keys) < 2:
        return "one class", classes, np.zeros((0, 0))
    codes = {name: i for i, name in enumerate(classes.tolist())}
    Y = np.eye(len(classes))[[codes[key] for key in keys]]
    return ("binary" if len(classes) == 2 else "multiclass"), classes, Y


def distinct_rows(Y: np.ndarray) -> list[str]:
    """Return one key for each row of a 0/1 matrix, equal for equal rows."""
    return [(row + ord("0")).tobytes().decode() for row in np.ascontiguousarray(Y, dtype=np.uint8)]


def from_key(key: str) -> np.ndarray:
    """Return the 0/1 row of a key."""
    return np.array(list(key), dtype=np.float64)


class OneRidgeOnly(Generic[P, T]):
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
        if isinstance(model.class_weight, str):
            raise AttributeError(
                f"{name} cannot work with class_weight={model.class_weight!r}, which depends on the labels of all "
                "batches; give the weights of the classes as a dict, or call fit on all rows"
            )
        if getattr(model, "shrinkage", None) is not None:
            raise AttributeError(
                f"{name} cannot work with shrinkage={model.shrinkage!r}, which depends on all rows at once; give a "
                "ridge, or call fit on all rows"
            )
        return MethodType(self.method, model)
