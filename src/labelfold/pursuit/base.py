"""What PCALS and its kernel form have in common: everything but where their rows live."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from labelfold._sklearn import Interval, StrOptions, _fit_context
from labelfold.base import LinearReducer
from labelfold.labels import Labels, read_labels, score_targets
from labelfold.numerics.eigen import signed
from labelfold.progress import Progress
from labelfold.pursuit.choosing import choose_components
from labelfold.pursuit.directions import Pursuit, pursue
from labelfold.pursuit.sources import Known, Source
from labelfold.rows import Block, Rows

TASKS = ("binary", "multiclass", "multilabel", "regression")


def _classifies(estimator: Any) -> bool:
    if getattr(estimator, "task_", None) == "regression":
        raise AttributeError("decision_function is for classes and labels, and this model predicts numbers")
    return True


class NestedSubspace(LinearReducer):
    """Directions found one at a time with a linear function on them: a subclass says where the rows live."""

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"cv"})],
        "reconstruction": [Interval(Real, 0, None, closed="neither")],
        "center": ["boolean"],
        "refit": ["boolean"],
        "ridge": [Interval(Real, 0, None, closed="left")],
        "task": [StrOptions({"auto", "classification", "regression"})],
        "candidates": ["array-like"],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "one_standard_error": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_gram_bytes": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "on_interrupt": [StrOptions({"raise", "keep"})],
        "unlabeled": "no_validation",
    }

    def _source(self, rows: Rows, labels: Labels, Y: np.ndarray) -> Source:
        """Return the rows as the pursuit sees them."""
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Find the directions, and the function on them.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, labelled or not, in any container `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,), (n, c) for multi-label or (n, t) for several numbers
            Classes, 0/1 labels or numbers; ``unlabeled`` (not in regression) or a missing value where unknown.

        Returns
        -------
        self : estimator
        """
        name = type(self).__name__
        rows = self._rows(X, reset=True)
        labels = read_labels(
            y, rows.shape[0], unlabeled=self.unlabeled, task=self.task, allowed=TASKS, estimator=name
        )
        Y = responses(labels)
        source = self._source(rows, labels, Y)
        if self.n_components == "cv":
            self.cv_results_ = choose_components(self, source, labels)
            k = self.cv_results_["chosen"]
        else:
            k = int(self.n_components)
            if k > labels.n_labelled:
                warnings.warn(
                    f"n_components={k} is more than the {labels.n_labelled} labelled rows, so labels say little or "
                    f"nothing about the last directions; label more rows, lower n_components or pass 'cv'",
                    UserWarning,
                    stacklevel=2,
                )
        with Progress(name, k, self.verbose) as progress:
            known, found = self._pursue(source, None, k, progress)
        self._say(found, k, source)
        self._store(found, known, source, labels)
        return self

    def _pursue(
        self, source: Source, which: np.ndarray | None, k: int, callback: Any = None
    ) -> tuple[Known, Pursuit]:
        """Run the pursuit with all labels, or with some of them."""
        known = source.known(which)
        found = pursue(
            known.space,
            self._centred(known.Y, known.ones),
            self.reconstruction,
            k,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state if isinstance(self.random_state, Integral) else 0,
            keep_on_interrupt=self.on_interrupt == "keep",
            callback=callback,
        )
        return known, found

    def _centred(self, A: np.ndarray, ones: np.ndarray) -> np.ndarray:
        return A - np.outer(ones, ones @ A / (ones @ ones)) if self.center else A

    def _coefficients(self, found: Pursuit, known: Known) -> tuple[np.ndarray, np.ndarray]:
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

    def _store(self, found: Pursuit, known: Known, source: Source, labels: Labels) -> None:
        W = source.components(found.W)
        V = signed(W)
        signs = np.where((V == W).all(axis=0), 1.0, -1.0)
        self.components_ = np.ascontiguousarray(V.T)
        self.coef_path_, self.intercept_path_ = self._coefficients(found, known)
        self.coef_path_ = self.coef_path_ * signs
        self.coef_, self.intercept_ = self.coef_path_[-1], self.intercept_path_[-1]
        self.n_components_ = len(found.gains)
        self.gains_, self.objective_ = found.gains, found.objective
        self.mean_ = source.mean
        self.n_iter_ = found.n_iter
        self.task_, self._flat = labels.task, labels.values.ndim == 1
        if labels.task != "regression":
            self.classes_ = labels.classes
        elif hasattr(self, "classes_"):
            del self.classes_

    def _say(self, found: Pursuit, k: int, source: Source) -> None:
        rank = len(found.gains)
        if not rank:
            raise ValueError(
                f"X holds nothing but equal rows{'' if self.center else ' of zeros'}, so there is no direction to find; "
                "give it columns that vary"
            )
        if rank < k and self.on_interrupt == "raise":
            warnings.warn(
                f"n_components={k} is more than the rank of X, {rank}; {rank} component"
                f"{'s are' if rank != 1 else ' is'} kept",
                UserWarning,
                stacklevel=3,
            )
        if not found.converged:
            warnings.warn(
                f"{type(self).__name__} stopped some directions after max_iter={self.max_iter} steps, short of "
                f"tol={self.tol:.0e}; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )

    def transform(self, X: Any, n_components: int | None = None) -> Any:
        """Project rows, each by itself, onto the directions.

        Parameters
        ----------
        X : container of shape (n, d)
            Any rows the library reads.
        n_components : int, optional
            Only the first so many directions; all when None.

        Returns
        -------
        Z : array of shape (n, n_components)
            On the host for arrays and files; otherwise where X is.
        """
        p = self._checked(n_components)
        return self._scored(self._rows(X, reset=False), p)

    def decision_columns(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return the function itself: one column a response.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            With the first so many directions; all when None.

        Returns
        -------
        F : ndarray of shape (n, q)
        """
        p = self._checked(n_components)
        Z = self._host_scores(X, p)
        return self._columns(Z, p)

    @available_if(_classifies)
    def decision_function(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return how far rows lie on the side of the second class (two classes), or of each class or label.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            With the first so many directions; all when None.

        Returns
        -------
        scores : ndarray of shape (n,) or (n, c)
        """
        F = self.decision_columns(X, n_components)
        return F[:, 0] if self.task_ == "binary" else F

    def predict(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return the class, the labels or the numbers of each row.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            With the first so many directions; all when None.

        Returns
        -------
        y : ndarray of shape (n,) or (n, c)
            Classes, 0/1 for multi-label, numbers for regression.
        """
        return self._decide(self.decision_columns(X, n_components))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield what `predict` gives with the first direction, the first two, and so on; X is read once.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Yields
        ------
        y : ndarray of shape (n,) or (n, c)
        """
        Z = self._host_scores(X, self._checked(None))
        for p in range(1, Z.shape[1] + 1):
            yield self._decide(self._columns(Z[:, :p], p))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy (of whole rows, for multi-label) or R^2, on the rows that have labels.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, c)
            Their targets; unlabelled rows are left out.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
        """
        found = self.predict(X)
        known, truth = score_targets(
            y,
            len(found),
            unlabeled=self.unlabeled,
            task="regression" if self.task_ == "regression" else "classification",
            classes=getattr(self, "classes_", None),
        )
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        measure = r2_score if self.task_ == "regression" else accuracy_score
        return float(measure(truth, found[known], sample_weight=weight))

    def _checked(self, n_components: int | None) -> int:
        check_is_fitted(self)
        if n_components is None:
            return self.n_components_
        if not isinstance(n_components, Integral) or not 1 <= n_components <= self.n_components_:
            raise ValueError(
                f"n_components={n_components!r} was given, where 1 to {self.n_components_} is expected, the number "
                "of directions that were fitted"
            )
        return int(n_components)

    def _scored(self, rows: Rows, p: int) -> Any:
        shared = (np.ascontiguousarray(self.components_[:p].T), self.mean_)
        return self._seen(rows).map(_scores, shared=shared)

    def _host_scores(self, X: Any, p: int) -> np.ndarray:
        rows = self._rows(X, reset=False)
        return np.asarray(rows.get(self._scored(rows, p)), dtype=np.float64)

    def _columns(self, Z: np.ndarray, p: int) -> np.ndarray:
        return Z @ self.coef_path_[p - 1, :, :p].T + self.intercept_path_[p - 1]

    def _decide(self, F: np.ndarray) -> np.ndarray:
        return decide(F, self.task_, self._flat, getattr(self, "classes_", None))

    def __sklearn_tags__(self) -> Any:
        """Declare what is predicted."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def responses(labels: Labels) -> np.ndarray:
    """Return what the labelled rows are asked to give, (l, q): signs of classes or labels, or the numbers."""
    if labels.task == "regression":
        return labels.values.reshape(labels.n_labelled, -1)
    return labels.signs().reshape(labels.n_labelled, -1)


def decide(F: np.ndarray, task: str, flat: bool, classes: np.ndarray | None) -> np.ndarray:
    """Return predictions from the columns of a function."""
    if task == "regression":
        return F[:, 0] if flat else F
    if task == "multilabel":
        return (F > 0).astype(np.intp)
    return classes[(F[:, 0] > 0).astype(np.intp) if task == "binary" else F.argmax(axis=1)]


def _scores(X: Block, W: Any, mean: Any) -> Any:
    return X.shift(mean) @ W
