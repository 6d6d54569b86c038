"""The two-stage methods for data that arrives in batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from numbers import Real
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

import numpy as np

from labelfold.base import RowsEstimator
from labelfold.discriminant._moments import Moments, distinct_rows, from_key
from labelfold.discriminant._second_stage import (
    Directions,
    Seen,
    centered_targets,
    direct_factor,
    second_stage,
)
from labelfold.labels import check_kind, read_batch
from labelfold.rows import Rows

P = ParamSpec("P")
T = TypeVar("T")


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
