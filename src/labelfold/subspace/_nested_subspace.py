"""The base of PCALS and its kernel form, which differ only in the space of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from labelfold.base import ITERATIONS, fitting
from labelfold.labels import Labels
from labelfold.numerics import signed
from labelfold.rows import Rows, single_blas
from labelfold.subspace._choose_size import choose_components
from labelfold.subspace._nested_predictions import NestedPredictions, responses
from labelfold.subspace._pursuit import Pursuit, pursue
from labelfold.subspace._source import LabelledSpace, Source
from labelfold.subspace._vector_spaces import LostDigits
from labelfold.utils import Interval, Progress, StrOptions, warn_user

# With reconstruction="auto", a direction of average variance has the weight of this many labelled rows.
_RECONSTRUCTION = 100.0


class NestedSubspace(NestedPredictions):
    """Directions found one at a time with a linear function on them. A subclass defines the space of the rows."""

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"cv"})],
        "reconstruction": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "center": ["boolean"],
        "refit": ["boolean"],
        "ridge": [Interval(Real, 0, None, closed="left")],
        "task": [StrOptions({"auto", "classification", "regression"})],
        "candidates": [Integral, "array-like"],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "repeats": [Interval(Integral, 1, None, closed="left")],
        "one_standard_error": ["boolean"],
        **ITERATIONS,
        "on_interrupt": [StrOptions({"raise", "keep"})],
    }

    def _sources(self, rows: Rows, labels: Labels, Y: np.ndarray) -> Iterator[Any]:
        """Yield the rows in the form that the pursuit reads; then, if that loses digits, in one that loses none."""
        raise NotImplementedError

    @fitting
    def fit(self, X: Any, y: Any) -> Self:
        """Find the directions, and the function on them.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, labelled or not, in any container that `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,), (n, c) for multi-label or (n, t) for several numbers
            Classes, 0/1 labels or numbers. ``unlabeled`` (not in regression) or a missing value marks unlabelled
            rows.

        Returns
        -------
        self : estimator
        """
        name = type(self).__name__
        rows = self._rows(X, reset=True)
        labels = self._read_labels(y, rows.shape[0])
        if rows.shape[0] == 1:
            raise ValueError("X has one sample, and a direction takes two that differ; give it more rows")
        Y = responses(labels)
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        if self.n_components != "cv" and self.n_components > labels.n_labelled:
            warn_user(
                f"n_components={self.n_components} is more than the {labels.n_labelled} labelled rows, so labels say "
                "little or nothing about the last directions; label more rows, lower n_components or pass 'cv'",
                UserWarning,
            )
        for source in self._sources(rows, labels, Y):
            try:
                if self.n_components == "cv":
                    self.cv_results_ = choose_components(self, source)
                k = int(self.cv_results_["chosen"] if self.n_components == "cv" else self.n_components)
                with Progress(name, k, self.verbose) as progress:
                    known, found = self._pursue(source, None, k, progress)
                break
            except LostDigits:
                continue
        self._say(found, k)
        self._store(found, known, source, labels)
        return self

    def _pursue(
        self, source: Source, which: np.ndarray | None, k: int, callback: Any = None
    ) -> tuple[LabelledSpace, Pursuit]:
        """Run the pursuit with all labels, or with some of them."""
        # Matrices of the small space are small, and passes have their own threads.
        with single_blas():
            known = source.known(which)
            Y = self._centred(known.Y, known.ones)
            n_labelled = len(source.Y if which is None else which)
            self.reconstruction_ = (
                _default_reconstruction(known.space.square, source.dimension, Y, n_labelled)
                if self.reconstruction == "auto"
                else float(self.reconstruction)
            )
            found = pursue(
                known.space,
                Y,
                self.reconstruction_,
                k,
                tol=self.tol,
                max_iter=self.max_iter,
                random_state=self._seed,
                # An interrupted fold would have too few directions.
                keep_on_interrupt=which is None and self.on_interrupt == "keep",
                callback=callback,
            )
        if not len(found.gains):
            raise ValueError(
                f"X holds nothing but {'equal rows' if self.center else 'zeros'}, so there is no direction to find; "
                "give it columns that vary, or multiply X by a constant where its squares vanish"
            )
        return known, found

    def _centred(self, A: np.ndarray, ones: np.ndarray) -> np.ndarray:
        return A - np.outer(ones, ones @ A / (ones @ ones)) if self.center else A

    def _coefficients(self, found: Pursuit, known: LabelledSpace) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients (k, q, k) and intercepts (k, q) with 1, 2 ... k components."""
        Y, Z, ones = known.Y, found.Z, known.ones
        k, q = found.alpha.shape
        y_mean = ones @ Y / (ones @ ones) if self.center else np.zeros(q)
        path, intercepts = np.zeros((k, q, k)), np.tile(y_mean, (k, 1))
        if not self.refit:
            for p in range(1, k + 1):
                path[p - 1, :, :p] = found.alpha[:p].T
            return path, intercepts
        Zc, Yc = self._centred(Z, ones), self._centred(Y, ones)
        z_mean = ones @ (Z - Zc) / (ones @ ones)
        for p in range(1, k + 1):
            stacked = np.vstack([Zc[:, :p], np.sqrt(self.ridge) * np.eye(p)])
            A = np.linalg.lstsq(stacked, np.vstack([Yc, np.zeros((p, q))]), rcond=None)[0]
            path[p - 1, :, :p] = A.T
            intercepts[p - 1] = y_mean - z_mean[:p] @ A
        return path, intercepts

    def _store(self, found: Pursuit, known: LabelledSpace, source: Source, labels: Labels) -> None:
        W = source.components(found.W)
        V = signed(W)
        signs = np.where((V == W).all(axis=0), 1.0, -1.0)
        self.components_ = np.ascontiguousarray(V.T)
        self.coef_path_, self.intercept_path_ = self._coefficients(found, known)
        self.coef_path_ = self.coef_path_ * signs
        self.coef_, self.intercept_ = self.coef_path_[-1], self.intercept_path_[-1]
        self.n_components_ = len(found.gains)
        self.gains_, self.objective_ = found.gains, found.objective
        self.mean_ = source.feature_mean
        self.n_iter_ = found.n_iter
        self._keep_task(labels.task, labels.classes, labels.values.ndim == 1)

    def _say(self, found: Pursuit, k: int) -> None:
        """Warn if there are fewer directions than requested, or if some have not converged."""
        rank = len(found.gains)
        plural = "s are" if rank != 1 else " is"
        if found.exhausted:
            warn_user(
                f"n_components={k} is more than the rank of X, {rank}; {rank} component{plural} kept",
                UserWarning,
            )
        elif rank < k:
            warn_user(
                f"{type(self).__name__} was interrupted; the {rank} component{plural} kept that it had found of {k}",
                ConvergenceWarning,
            )
        if not found.converged:
            warn_user(
                f"{type(self).__name__} stopped some directions after max_iter={self.max_iter} steps, short of "
                f"tol={self.tol:.0e}; raise max_iter or tol",
                ConvergenceWarning,
            )


def _default_reconstruction(square: float, size: int, Y: np.ndarray, n_labelled: int) -> float:
    """Return a default weight of the reconstruction for any unit of X, from its sum of squares and dimension.

    The fewer labelled rows there are for each dimension, the more directions fit them by chance, and the less weight
    the labels get.
    """
    row = float((Y**2).sum()) / n_labelled
    return _RECONSTRUCTION * (row or 1.0) * size / (square if square > 0 else 1.0)
