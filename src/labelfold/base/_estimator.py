"""The base classes of estimators: reading X and y, feature maps of kernels, projection, predictions from scores."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial, wraps
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, cast, overload

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.validation import check_is_fitted

from labelfold.base._scores import decide, log_probabilities, measure_of, probabilities
from labelfold.labels import Labels, read_labels, read_weights, score_targets
from labelfold.rows import (
    Centered,
    Featurized,
    Rows,
    alike,
    all_finite,
    as_rows,
    check_fits,
    dense_block_rows,
    gathered,
    to_host,
    validated_rows,
)
from labelfold.utils import (
    CALLBACKS,
    RUNNING,
    CallbackSupportMixin,
    Interval,
    StrOptions,
    available_if,
    documentation,
    fit_context,
    fit_task,
)

_COUNT = Interval(Integral, 1, None, closed="left")
_ABOVE_ZERO = Interval(Real, 0, None, closed="neither")
_FROM_ZERO = Interval(Real, 0, None, closed="left")
_WEIGHTS = (
    *("C", "reconstruction", "row_penalty", "basis_penalty", "factor_penalty", "classifier_penalty"),
    *("svm_penalty", "machine_weight", "offset_unit", "intercept_scaling"),
)
# What a parameter takes in every estimator that has it; docs/parameters.py lists the exceptions, with their reasons.
_SHARED: dict[str, Any] = {
    "n_components": [_COUNT],
    "ridge": [_FROM_ZERO, StrOptions({"auto", "cv"}), "array-like"],
    **{name: [_ABOVE_ZERO, StrOptions({"auto"})] for name in _WEIGHTS},
    "reconstruction_share": [Interval(Real, 0, 1, closed="neither"), StrOptions({"auto"})],
    "supervision": [_FROM_ZERO, StrOptions({"auto"})],
    "kernel": [str, callable, None],
    "gamma": [_ABOVE_ZERO, StrOptions({"auto", "scale"})],
    "degree": [_ABOVE_ZERO, None],
    "coef0": [Interval(Real, None, None, closed="neither"), None],
    "n_landmarks": [_COUNT, StrOptions({"auto"}), None],
    "task": [StrOptions({"auto", "classification", "regression"})],
    "class_weight": [dict, StrOptions({"balanced"}), None],
    **{name: ["boolean"] for name in ("center", "fit_intercept", "corrected")},
    "tol": [_ABOVE_ZERO],
    "max_iter": [_COUNT],
    "max_gram_bytes": [_FROM_ZERO],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
    "on_interrupt": [StrOptions({"raise", "keep"})],
}
# Parameters of iterative estimators.
ITERATIONS = ("tol", "max_iter", "max_gram_bytes", "random_state", "verbose")


def constraints(*names: str, **own: Any) -> dict[str, Any]:
    """Return the constraints of parameters that estimators share, by name, and those of an estimator's own."""
    return {name: _SHARED[name] for name in names} | own


# Containers whose row results are NumPy arrays. Those of others are on their device or cluster.
HostRows = np.ndarray | Sequence[Any] | str | os.PathLike[str]
_Fit = TypeVar("_Fit", bound=Callable[..., Any])
# Log odds of a label, or of a class against all others, if the score equals its target.
_LOG_ODDS = 2.0


class RowsEstimator(CallbackSupportMixin, BaseEstimator):
    """An estimator that reads its data as rows, from every container."""

    task_: str

    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    # The tasks that are accepted.
    _allowed: ClassVar[tuple[str, ...]] = ("binary", "multiclass")

    # Maximum number of components, as a multiple of the larger side of X; None if the method itself keeps at most the
    # rank.
    _max_components: ClassVar[int | None] = None

    # Whether `fit` needs y.
    _needs_labels: ClassVar[bool] = True

    # Whether `fit` learns from unlabelled rows.
    _uses_unlabelled: ClassVar[bool] = True

    # Where a notebook links to: the documentation of the project, where its package names one.
    _doc_link_module = "labelfold"
    _doc_link_template = documentation()

    if TYPE_CHECKING:  # methods of scikit-learn, which has no types

        def set_params(self, **params: Any) -> Self: ...

    def _validate_params(self) -> None:
        """Check the parameters; booleans do not count as numbers."""
        super()._validate_params()
        for name, kinds in self._parameter_constraints.items():
            value = getattr(self, name)
            if isinstance(value, bool) and not {"boolean", "verbose"}.intersection(kinds):
                raise ValueError(
                    f"{name}={value} was given to {type(self).__name__}, where a number is expected"
                )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to be saved or copied to another process; Dask arrays are brought to the host."""
        return {name: gathered(value) for name, value in super().__getstate__().items()}

    def _rows(self, X: Any, *, reset: bool) -> Rows:
        """Return validated rows. With ``reset``, in fit, the number and names of the columns are stored."""
        rows = validated_rows(self, X, reset=reset)
        if reset and self._max_components is not None:
            k, n_max = getattr(self, "n_components", None), self._max_components * max(rows.shape)
            if isinstance(k, Integral) and int(k) > n_max:
                raise ValueError(
                    f"n_components={k} was given for X of {rows.shape[0]} rows and {rows.shape[1]} columns, where "
                    f"{n_max} at most is expected"
                )
        return rows

    def _read_weighted(self, y: Any, sample_weight: Any, n_rows: int) -> tuple[Labels, np.ndarray | None]:
        """Return the labels of the rows, with their weights, and the weights of all rows, None if all are 1."""
        weights = None if sample_weight is None else read_weights(to_host(sample_weight), n_rows)
        return self._read_labels(y, n_rows, weights), weights

    def _read_labels(self, y: Any, n_rows: int | None, weights: np.ndarray | None = None) -> Labels:
        """Return the labels of the rows. All estimators read y through this method."""
        return read_labels(
            to_host(y),
            n_rows,
            unlabeled=self.unlabeled,
            task=getattr(self, "task", "auto"),
            allowed=self._allowed,
            estimator=type(self).__name__,
            weights=weights,
            uses_unlabelled=self._uses_unlabelled,
        )

    def _keep_task(self, task: str, classes: np.ndarray, flat: bool = True) -> None:
        """Store the task and, except in regression, the classes; ``flat`` if the numbers were one column."""
        self.task_, self._flat = task, flat
        if task != "regression":
            self.classes_ = classes
        else:
            self.__dict__.pop("classes_", None)

    def _featurized(self, rows: Rows) -> Rows:
        """Return the rows as the components see them: after the feature map, if there is one."""
        feature_map = getattr(self, "feature_map_", None)
        if feature_map is None:
            return rows
        return Featurized(rows, feature_map.transform, getattr(feature_map, "eps_", 0.0))

    def __sklearn_tags__(self) -> Any:
        """Declare the input that the estimator takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = self._needs_labels
        # Predictions are arrays like X where scikit-learn dispatches. Its checks of this tag also expect fitted
        # attributes in the library of X; here they are NumPy, so that a model of rows on a device predicts any rows.
        tags.array_api_support = get_config()["array_api_dispatch"]
        return tags


class RowsTransformer(TransformerMixin, RowsEstimator):
    """An estimator with ``transform``."""

    if TYPE_CHECKING:  # methods of scikit-learn, which has no types

        @overload
        def fit_transform(self, X: HostRows, y: Any = None, **fit_params: Any) -> np.ndarray: ...
        @overload
        def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any: ...
        def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any: ...

    def __sklearn_tags__(self) -> Any:
        """Declare that float32 stays float32."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class Reducer(ClassNamePrefixFeaturesOutMixin, RowsTransformer):
    """A transformer whose output has one column for each of its ``components_``."""

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]


class KernelForm(RowsEstimator):
    """An estimator with a kernel, or with None for rows as they are."""

    _parameter_constraints = constraints("kernel", "gamma", "degree", "coef0", "n_landmarks")

    def _set_feature_map(self, kernel_map: Callable[..., Any], rows: Rows, **options: Any) -> None:
        """Store ``feature_map_`` and ``gamma_``, None without a kernel; the options are those of ``kernel_map``."""
        self.feature_map_: Any = None
        self.gamma_: float | None = None
        given = {name: getattr(self, name) for name in ("gamma", "degree", "coef0", "n_landmarks")}
        if self.kernel is None:
            refuse_without_kernel(**given)
            return
        options["max_gram_bytes"] = self.max_gram_bytes
        self.feature_map_, self.gamma_ = kernel_map(rows, self.kernel, **given, **options)


def fitting(fit: _Fit) -> _Fit:
    """Decorate a ``fit``: check the parameters first, and raise one clear error if numbers overflow or vanish.

    NumPy's floating-point warnings are suppressed. Either all learned values are finite, or there is an error.
    """

    @wraps(fit)
    def in_range(self: Any, *args: Any, **options: Any) -> Any:
        task = fit_task(self, fit, args, options) if hasattr(self, "_skl_callbacks") else nullcontext()
        outer = RUNNING.set(
            None
        )  # the iterations of an estimator inside another are not those of the outer one
        try:
            with np.errstate(all="ignore"), task:
                fitted = fit(self, *args, **options)
                if not all(all_finite(value) for name, value in vars(self).items() if name.endswith("_")):
                    raise ArithmeticError("a learned number is not finite")
        except (np.linalg.LinAlgError, ArithmeticError) as error:
            raise _out_of_range(self) from error
        finally:
            RUNNING.reset(outer)
        return fitted

    checked = fit_context(prefer_skip_nested_validation=True)(in_range)

    @wraps(fit)
    def outermost(self: Any, *args: Any, **options: Any) -> Any:
        running = RUNNING.get()
        # scikit-learn's context ends the callbacks of an estimator, which a fit within its own fit must not do
        is_inner = running is not None and running.estimator is self
        return (fit if is_inner else checked)(self, *args, **options)

    return cast("_Fit", outermost)


def finite(model: Any, made: Any) -> Any:
    """Return the output of a fitted model; raise an error if it has overflowed."""
    if not all_finite(made):
        raise ValueError(
            f"{type(model).__name__} makes numbers of these rows that leave the range of {made.dtype}; give X in the "
            "scale of the rows it was fitted to, in float64"
        )
    return made


def _out_of_range(model: Any) -> ValueError:
    """Return the error of a fit whose numbers overflow or vanish."""
    return ValueError(
        f"{' '.join(repr(model).split())} was given X whose numbers leave the range of floating point on the way to "
        "a result; multiply X by a constant or scale its columns to about 1, and keep parameters near their defaults"
    )


def refuse_without_kernel(**given: Any) -> None:
    """Raise an error if parameters of a kernel are given without a kernel, unless they are None or "auto"."""
    for name, value in given.items():
        if value is not None and not (isinstance(value, str) and value == "auto"):
            raise ValueError(
                f"{name}={value!r} was given without a kernel; name one, such as kernel='rbf', or leave {name} out"
            )


def labelled_rows(rows: Rows, labels: Labels, max_bytes: int) -> tuple[Rows, np.ndarray | None]:
    """Return the labelled rows if they fit into memory, otherwise all rows with a mask.

    Returns
    -------
    rows : Rows
        The labelled rows, or all rows.
    mask : ndarray of bool or None
        Mask of the labelled rows, if all rows are returned.
    """
    if labels.all_labelled:
        return rows, None
    if labels.n_labelled * rows.row_bytes() <= max_bytes:
        return rows.subset(labels.index), None
    return rows, labels.labelled


def spread(T: np.ndarray, mask: np.ndarray | None, rest: int = 0) -> np.ndarray:
    """Return targets of the labelled rows as targets of the rows from `labelled_rows`; others are ``rest``."""
    if mask is None:
        return T
    full = np.full((len(mask), *T.shape[1:]), rest, dtype=T.dtype)
    full[mask] = T
    return full


class Scores(NamedTuple):
    """Scores of rows, in double precision because large coefficients may cancel."""

    feature_map: Any
    mean: np.ndarray
    W: np.ndarray

    def transform(self, X: Any) -> np.ndarray:
        """Return the scores of some rows."""
        step = dense_block_rows(8 * len(self.mean))
        scores = np.empty((X.shape[0], self.W.shape[1]))
        for start in range(0, X.shape[0], step):
            part = self.feature_map.transform(X[start : start + step].astype(np.float64))
            scores[start : start + step] = (part - self.mean) @ self.W
        return scores


def _is_linear(estimator: Any) -> bool:
    """Check for `available_if`: whether the embedding is linear in the columns of X."""
    if getattr(estimator, "kernel", None) is not None:
        raise AttributeError("the embedding of a kernel has no inverse; use kernel=None")
    return True


def embedding_in_memory(Z: Any, n_columns: int) -> np.ndarray:
    """Return an embedding as an array, from any container, if the rows that are made of it fit into memory.

    Parameters
    ----------
    Z : container of shape (n, p)
        Results of `transform`.
    n_columns : int
        Number of columns of the rows that are made of it.
    """
    rows = as_rows(Z)
    check_fits(rows, "inverse_transform", "transform a part of the rows at a time", n_columns=n_columns)
    return np.asarray(rows.whole().dense())


class LinearReducer(Reducer):
    """A transformer whose output is (X - mean) times ``components_``."""

    mean_: np.ndarray

    @overload
    def transform(self, X: HostRows) -> np.ndarray: ...
    @overload
    def transform(self, X: Any) -> Any: ...
    def transform(self, X: Any) -> Any:
        """Project rows onto the components.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, in any container that `labelfold.rows.as_rows` takes.

        Returns
        -------
        Z : array of shape (n, n_components)
            In host memory for arrays and files; otherwise on the device or cluster of X.
        """
        check_is_fitted(self)
        with np.errstate(over="ignore", invalid="ignore"):
            return finite(self, self._project(self._rows(X, reset=False)))

    @available_if(_is_linear)
    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return rows whose embedding is X: the ones nearest to the mean, unless the method says otherwise.

        Parameters
        ----------
        X : array of shape (n, p)
            Results of `transform`, for all components or the first p.

        Returns
        -------
        rows : ndarray of shape (n, d)
        """
        check_is_fitted(self)
        Z = embedding_in_memory(X, self.n_features_in_)
        if Z.shape[1] > len(self.components_):
            raise ValueError(
                f"X has {Z.shape[1]} columns, where at most {len(self.components_)} are expected; pass what "
                "transform returns"
            )
        return alike(X, (Z @ self._back(Z.shape[1]) + self.mean_).astype(Z.dtype, copy=False))

    def _back(self, p: int) -> np.ndarray:
        """Return the matrix (p, d) that makes rows, less their mean, of the first p components."""
        return np.linalg.pinv(self.components_[:p]).T

    def _project(self, rows: Rows) -> Any:
        W = np.ascontiguousarray(self.components_.T)
        feature_map = getattr(self, "feature_map_", None)
        if feature_map is not None:
            return Featurized(rows, Scores(feature_map, self.mean_, W).transform).values()
        return Centered(rows, self.mean_) @ W

    def _embedded(self, rows: Rows) -> np.ndarray:
        """Return the embedding in host memory in double precision, for functions that may cancel large terms."""
        return np.asarray(rows.get(self._project(rows)), dtype=np.float64)


def classifies(estimator: Any) -> bool:
    """Check for `available_if`: whether the estimator predicts classes or labels."""
    task = getattr(estimator, "task_", getattr(estimator, "task", None))
    if task == "regression" or set(estimator._allowed) == {"regression"}:
        raise AttributeError(
            "scores and probabilities are for classes and labels, and this model predicts numbers"
        )
    return True


class TaskScore:
    """A mixin with ``score`` for the predictions of the task ``task_``: classes, labels or numbers."""

    task_: str

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, micro-averaged F1 (several labels a row) or R^2, on the labelled rows.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, c)
            Targets of the rows; unlabelled rows are left out.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
        """
        found = to_host(self.predict(X))  # type: ignore[attr-defined]
        task = "regression" if self.task_ == "regression" else "classification"
        known, truth = score_targets(
            to_host(y),
            len(found),
            unlabeled=self.unlabeled,  # type: ignore[attr-defined]
            task=task,
            classes=getattr(self, "classes_", None),
        )
        weight = None if sample_weight is None else np.asarray(to_host(sample_weight))[known]
        return float(measure_of(task)(truth, found[known], sample_weight=weight))


class Decisions(TaskScore):
    """A mixin that predicts from scores: by their sign, by the largest of them, or the scores themselves.

    A subclass defines ``_score_rows(rows)``: (n, 1) for two classes, (n, c) for several classes or labels, (n, t) for
    numbers. Its ``fit`` calls `_keep_task`.
    """

    _allowed: ClassVar[tuple[str, ...]]
    classes_: np.ndarray
    _flat: bool = True  # whether numbers were given as one column

    # Difference between the targets of a label, for several classes or labels: 2 for -1 and +1, 1 for 0 and 1.
    _target_gap: ClassVar[float] = 2.0
    # Whether a score of minus infinity can exclude a class.
    _rules_out: ClassVar[bool] = False
    # Attributes that nothing needs once there are scores, or an embedding if the scores are computed from it.
    _before_scores: ClassVar[tuple[str, ...]] = (
        *("embedding_", "row_offsets_", "transduction_"),
        *CALLBACKS,
    )

    def _score_rows(self, rows: Rows) -> np.ndarray:
        """Return the scores of rows, by default from their embedding."""
        return self._scores_of(rows.get(self._embed(rows)))  # type: ignore[attr-defined]

    @available_if(classifies)
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of rows: of the second class against the first, or of each class or label.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n,) or (n, c)
        """
        return self._of_scores(X, "_as_scores")

    def _as_scores(self, F: np.ndarray) -> np.ndarray:
        if not self._rules_out:
            F = finite(self, F)
        return F[:, 0] if self.task_ == "binary" else F

    def predict(self, X: Any) -> np.ndarray:
        """Return the class, the labels or the numbers of each row.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        y : ndarray of shape (n,) or (n, c)
            Classes, 0/1 for multi-label, numbers for regression.
        """
        return self._of_scores(X, "_decide")

    @available_if(classifies)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, or of each label, computed from the scores.

        Unless the method documents otherwise, they are not calibrated on held-out rows and only rank rows. A row
        whose score equals the target of its label has this label with odds of e^2 to 1.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        p : ndarray of shape (n, c)
            Columns in the order of ``classes_``.
        """
        return self._of_scores(X, "_shares")

    @available_if(classifies)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of `predict_proba`, without underflow.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        log_p : ndarray of shape (n, c)
        """
        return self._of_scores(X, "_log_shares")

    def _log_shares(self, F: np.ndarray) -> np.ndarray:
        return log_probabilities(self._log_odds(F), self.task_)

    def _of_scores(self, X: Any, method: str) -> Any:
        """Return what a method makes of the scores of new rows."""
        check_is_fitted(self)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = self._rows(X, reset=False)  # type: ignore[attr-defined]
            made = rows.result(self._score_rows(rows), partial(_finished, self._after_scores(), method))
        return alike(X, made)

    def _after_scores(self) -> Any:
        """Return the estimator without what only scores need, so that it can be sent to the workers of a cluster."""
        own = object.__new__(type(self))
        vars(own).update({name: a for name, a in vars(self).items() if name not in self._before_scores})
        return own

    def _transduce(self, rows: Rows, H: Any, labels: Labels) -> Any:
        """Return a label for every training row: the given one, or the one predicted from its row of H."""
        given = labels.decode(labels.values)
        return rows.result(H, partial(_decided, self._after_scores()), at=(labels.index, given))

    def _scores_of(self, H: np.ndarray) -> np.ndarray:
        """Return the scores of rows from their embedding."""
        raise NotImplementedError

    def _decide(self, F: np.ndarray) -> np.ndarray:
        """Return predictions from scores."""
        return decide(F, self.task_, self._flat, getattr(self, "classes_", None))

    def _shares(self, F: np.ndarray) -> np.ndarray:
        """Return the probability of each class, or of each label, from scores."""
        return probabilities(self._log_odds(F), self.task_)

    def _log_odds(self, F: np.ndarray) -> np.ndarray:
        """Return the log odds of the second class or of each label, or logarithms of odds of classes, from scores."""
        if self.task_ == "multiclass":
            return (_LOG_ODDS + np.log(F.shape[1] - 1)) / self._target_gap * F
        return 2 * _LOG_ODDS / (self._target_gap if self.task_ == "multilabel" else 2.0) * F

    def __sklearn_tags__(self) -> Any:
        """Declare the kind of predictions: classes, one or several a row, unless the task is regression."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.multi_output = "regression" in self._allowed
        if getattr(self, "task", "auto") == "regression":
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        else:
            several = "multilabel" in self._allowed
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_label=several)
        return tags


class LinearScores:
    """A mixin with the weights of the columns, for a score that is linear in X.

    A subclass defines its score of an embedding Z, by default ``Z embedding_coef_' + embedding_intercept_``.
    """

    components_: np.ndarray
    mean_: np.ndarray
    task_: str
    embedding_coef_: np.ndarray
    embedding_intercept_: np.ndarray

    @property
    def coef_(self) -> np.ndarray:
        """The weights of the columns of X in the scores, (q, d); (d,) for numbers that were given as one column."""
        coef, _ = self._column_weights()
        return coef[0] if self._of_one_number() else coef

    @property
    def intercept_(self) -> np.ndarray | float:
        """The score of a row of zeros, (q,); one number for numbers that were given as one column."""
        _, intercept = self._column_weights()
        return float(intercept[0]) if self._of_one_number() else intercept

    def _column_weights(self) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        W, mean = self._linear_map()
        A, b = self._score_map()
        coef = A @ W
        return coef, b - coef @ mean

    def _linear_map(self) -> tuple[np.ndarray, np.ndarray]:
        """Return W (k, d) and the mean (d,) of an embedding Z = (X - mean) W'; AttributeError if there are none."""
        if getattr(self, "feature_map_", None) is not None:
            raise AttributeError(
                "the columns of X have no weights in a kernel's score; use kernel=None, or embedding_coef_"
            )
        return self.components_, self.mean_

    def _score_map(self) -> tuple[np.ndarray, np.ndarray]:
        """Return A (q, k) and b (q,) of the score Z A' + b."""
        return self.embedding_coef_, self.embedding_intercept_

    def _of_one_number(self) -> bool:
        return self.task_ == "regression" and getattr(self, "_flat", False)


def _finished(estimator: Decisions, method: str, F: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return getattr(estimator, method)(F.astype(np.float64, copy=False))


def _decided(estimator: Decisions, H: np.ndarray) -> np.ndarray:
    return estimator._decide(estimator._scores_of(H))
