"""The base of PCALS and its kernel form, which differ only in the space of the rows."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelfold.base import ITERATIONS, Decisions, LinearReducer, classifies, constraints, fitting
from labelfold.labels import Labels
from labelfold.model_selection import best_candidate, fold_scores, one_standard_error
from labelfold.numerics import signed
from labelfold.rows import Rows, single_blas
from labelfold.subspace._direction_search import Pursuit, pursue
from labelfold.subspace._source import LabelledSpace, Source
from labelfold.subspace._vector_spaces import LostDigits
from labelfold.utils import Interval, Progress, StrOptions, available_if, warn_user

# With reconstruction="auto", a direction of average variance has the weight of this many labelled rows.
_RECONSTRUCTION = 100.0
# Largest number of directions to choose from; number of draws of the folds, for up to FEW labelled rows.
CANDIDATES, REPEATS, FEW = 32, 3, 200


# The keyword comes from scikit-learn, which has no types.
class NestedPredictions(Decisions, LinearReducer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Directions of which the first p are themselves a model.

    `LinearReducer.transform` of the model of the first p directions already wraps its output in the requested
    container, with p column names, so nothing is wrapped here.
    """

    _allowed = ("binary", "multiclass", "multilabel", "regression")

    def transform(self, X: Any, n_components: int | None = None) -> Any:
        """Project rows onto the directions.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, in any container that `labelfold.rows.as_rows` takes.
        n_components : int, optional
            Number of leading directions to use; all when None.

        Returns
        -------
        Z : array of shape (n, n_components)
            In host memory for arrays and files; otherwise on the device or cluster of X.
        """
        return super(NestedPredictions, self._first(n_components)).transform(X)

    @available_if(classifies)
    def decision_function(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return the scores of rows: of the second class against the first, or of each class or label.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            Number of leading directions to use; all when None.

        Returns
        -------
        scores : ndarray of shape (n,) or (n, c)
        """
        return super(NestedPredictions, self._first(n_components)).decision_function(X)

    def predict(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return the class, the labels or the numbers of each row.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            Number of leading directions to use; all when None.

        Returns
        -------
        y : ndarray of shape (n,) or (n, c)
            Classes, 0/1 for multi-label, numbers for regression.
        """
        return super(NestedPredictions, self._first(n_components)).predict(X)

    @available_if(classifies)
    def predict_proba(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return the probability of each class, or of each label, computed from the scores (not calibrated).

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            Number of leading directions to use; all when None.

        Returns
        -------
        p : ndarray of shape (n, c)
            Columns in the order of ``classes_``.
        """
        return super(NestedPredictions, self._first(n_components)).predict_proba(X)

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predictions with the first direction, the first two, and so on; X is read once.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Yields
        ------
        y : ndarray of shape (n,) or (n, c)
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        Z = self._embedded(rows)
        for p in range(1, Z.shape[1] + 1):
            yield self._decide(self._function(Z[:, :p]))

    def _first(self, n_components: int | None) -> Self:
        """Return the model of the first directions only."""
        check_is_fitted(self)
        if n_components is None or n_components == self.n_components_:
            return self
        if not isinstance(n_components, Integral) or not 1 <= n_components <= self.n_components_:
            raise ValueError(
                f"n_components={n_components!r} was given, where 1 to {self.n_components_} is expected, the number "
                "of directions that were fitted"
            )
        first = copy.copy(self)
        first.components_ = self.components_[: int(n_components)]
        return first

    def _score_rows(self, rows: Rows) -> np.ndarray:
        return self._function(self._embedded(rows))

    def _function(self, Z: np.ndarray) -> np.ndarray:
        """Return the values of the function, (n, q), from coordinates along the first directions."""
        p = Z.shape[1]
        return Z @ self.coef_path_[p - 1, :, :p].T + self.intercept_path_[p - 1]


class NestedSubspace(NestedPredictions):
    """Directions found one at a time with a linear function on them. A subclass defines the space of the rows."""

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"cv"})],
        **constraints("reconstruction", "center", "task", *ITERATIONS, "on_interrupt"),
        "refit": ["boolean"],
        "ridge": [Interval(Real, 0, None, closed="left")],
        "candidates": [Integral, "array-like"],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "repeats": [Interval(Integral, 1, None, closed="left")],
        "one_standard_error": ["boolean"],
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


def responses(labels: Labels) -> np.ndarray:
    """Return the responses of the labelled rows, (l, q): signs of classes or labels, or the numbers."""
    return labels.columns() if labels.task == "regression" else labels.signs()


def choose_components(estimator: Any, source: Source) -> dict[str, Any]:
    """Return the score of each number of directions on held-out labels.

    Folds are stratified by class. Held-out rows stay in training as unlabelled rows. Directions are nested, so one
    fit for each fold serves all candidates. If the labelled rows exceed the memory budget, a random sample of them is
    used. The score of classes and labels is the negative logarithmic loss, of numbers R^2. With few labels the
    accuracy would be equal for many candidates, or differ by one row.

    Parameters
    ----------
    estimator : NestedSubspace
        Its parameters ``candidates``, ``cv``, ``repeats`` and ``one_standard_error`` are used.
    source : Source
        The rows, already read.

    Returns
    -------
    results : dict
        ``n_components`` (m,), ``scores`` (folds, m), ``mean_score``, ``standard_error`` (m,), and ``chosen``.
    """
    candidates = checked_candidates(estimator.candidates)
    labels = source.labels.take(source.drawn)
    Y = source.Y[source.drawn]

    def predict(train: np.ndarray, test: np.ndarray) -> Iterator[np.ndarray]:
        known, found = estimator._pursue(source, source.drawn[train], int(candidates[-1]))
        path, intercepts = estimator._coefficients(found, known)
        Z = source.scores(source.drawn[test], found.W)
        for p in np.minimum(candidates, len(path)):
            yield Z[:, :p] @ path[p - 1, :, :p].T + intercepts[p - 1]

    repeats = estimator.repeats if labels.n_labelled <= FEW else 1
    splits = [_splits(labels, estimator, estimator._seed + i) for i in range(repeats)]
    measure = r2_score if labels.task == "regression" else log_score
    table = fold_scores([split for some in splits for split in some], predict, Y, measure)
    # Repeats use the same rows, so they do not count as more rows in the standard error.
    error = table.std(axis=0, ddof=1) / np.sqrt(len(splits[0]))
    best = best_candidate(table, -candidates)
    if estimator.one_standard_error:
        best = one_standard_error(table.T, candidates, float(error[best]))
    return {
        "n_components": candidates,
        "scores": table,
        "mean_score": table.mean(axis=0),
        "standard_error": error,
        "chosen": int(candidates[best]),
    }


def log_score(Y: np.ndarray, F: np.ndarray) -> float:
    """Return the negative mean logarithmic loss of scores F for signs Y; the log-odds are twice the score.

    >>> round(log_score(np.array([[1.0], [-1.0]]), np.array([[0.0], [0.0]])), 3)
    -0.693
    """
    return -float(np.logaddexp(0.0, -2 * Y * F).mean())


def _splits(labels: Labels, estimator: Any, seed: int) -> Any:
    n = labels.n_labelled
    # R^2 needs two numbers in a fold.
    a_fold = 2 if labels.task == "regression" else 1
    least = max(3, 2 * a_fold)
    if n < least:
        raise ValueError(
            f"n_components='cv' holds out labels and y has {n} labelled row{'s' if n > 1 else ''}; label {least} or "
            "more, or give n_components as a number"
        )
    folds = min(estimator.cv, n // a_fold)
    if labels.task in ("binary", "multiclass") and labels.counts().max() >= 2:
        folds = max(2, min(folds, int(labels.counts().max())))
        splitter: Any = StratifiedKFold(folds, shuffle=True, random_state=seed)
        with warnings.catch_warnings():
            # A class with fewer rows than folds is missing in some folds.
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            return list(splitter.split(np.zeros(n), labels.values))
    return list(KFold(folds, shuffle=True, random_state=seed).split(np.zeros(n)))


def checked_candidates(candidates: Any) -> np.ndarray:
    """Return candidates as ascending integers, or raise an error if they are not valid."""
    values = np.arange(1, int(candidates) + 1) if isinstance(candidates, Integral) else np.asarray(candidates)
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iu" or values.min() < 1:
        raise ValueError(
            f"candidates={candidates!r} was given, where whole numbers of at least 1 are expected, such as "
            f"{CANDIDATES} for 1 to {CANDIDATES}, or (2, 4, 8)"
        )
    return np.unique(values).astype(int)
