"""The base of LDA, CCA, OPLS and HSL, which differ only in their target matrix and their predictions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Self

import numpy as np

from labelfold.base import ITERATIONS, KernelForm, LinearReducer, Scores, fitting, labelled_rows, spread
from labelfold.discriminant._partial_fit import Streaming
from labelfold.discriminant._ridge_path import RidgePath
from labelfold.discriminant._second_stage import (
    Directions,
    Seen,
    centered_targets,
    direct,
    direct_kernel,
    keep_components,
    second_stage,
)
from labelfold.features import KernelMap, kernel_map
from labelfold.labels import Labels
from labelfold.numerics import KernelProblem, LeastSquaresProblem, RowTargets, pose, rounding
from labelfold.rows import Block, Centered, Featurized, Rows
from labelfold.utils import Interval, Progress, StrOptions


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
