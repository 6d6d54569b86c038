"""The base of all estimators: it reads X and y, and selects the labelled rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from labelfold.labels import Labels, read_labels
from labelfold.rows import (
    Centered,
    Featurized,
    Rows,
    all_finite,
    gathered,
    to_host,
    validated_rows,
)
from labelfold.utils import Interval, StrOptions, fit_context

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


_Fit = TypeVar("_Fit", bound=Callable[..., Any])
# Bytes of a block of features.
BLOCK_BYTES = 4 << 20


class RowsEstimator(BaseEstimator):
    """An estimator that reads its data as rows, from every container."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    # The tasks that are accepted.
    _allowed: ClassVar[tuple[str, ...]] = ("binary", "multiclass")

    # Largest number of components, as a multiple of the larger side of X; None if the method itself keeps at most the
    # rank.
    _most_components: ClassVar[int | None] = None

    # Whether `fit` needs y.
    _needs_labels: ClassVar[bool] = True

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
        if reset and self._most_components is not None:
            k, most = getattr(self, "n_components", None), self._most_components * max(rows.shape)
            if isinstance(k, Integral) and int(k) > most:
                raise ValueError(
                    f"n_components={k} was given for X of {rows.shape[0]} rows and {rows.shape[1]} columns, where "
                    f"{most} at most is expected"
                )
        return rows

    def _read_labels(self, y: Any, n_rows: int | None) -> Labels:
        """Return the labels of the rows. All estimators read y through this method."""
        return read_labels(
            to_host(y) if hasattr(y, "cpu") else y,  # a tensor may be on a device
            n_rows,
            unlabeled=self.unlabeled,
            task=getattr(self, "task", "auto"),
            allowed=self._allowed,
            estimator=type(self).__name__,
        )

    def _keep_task(self, task: str, classes: np.ndarray, flat: bool = True) -> None:
        """Store the task and, except in regression, the classes; ``flat`` if the numbers were one column."""
        self.task_, self._flat = task, flat
        if task != "regression":
            self.classes_ = classes
        else:
            self.__dict__.pop("classes_", None)

    def _seen(self, rows: Rows) -> Rows:
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
        return tags


class RowsTransformer(TransformerMixin, RowsEstimator):
    """An estimator with ``transform``."""

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
        try:
            with np.errstate(all="ignore"):
                fitted = fit(self, *args, **options)
        except (np.linalg.LinAlgError, ArithmeticError) as error:
            raise _out_of_range(self) from error
        if not all(all_finite(value) for name, value in vars(self).items() if name.endswith("_")):
            raise _out_of_range(self)
        return fitted

    checked: Any = fit_context(prefer_skip_nested_validation=True)(in_range)
    return checked


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


def labelled_rows(rows: Rows, labels: Labels, most_bytes: int) -> tuple[Rows, np.ndarray | None]:
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
    if labels.n_labelled * rows.row_bytes() <= most_bytes:
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
        step = max(1, BLOCK_BYTES // (8 * len(self.mean)))
        scores = np.empty((X.shape[0], self.W.shape[1]))
        for start in range(0, X.shape[0], step):
            part = self.feature_map.transform(X[start : start + step].astype(np.float64))
            scores[start : start + step] = (part - self.mean) @ self.W
        return scores


class LinearReducer(Reducer):
    """A transformer whose output is (X - mean) times ``components_``."""

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

    def _project(self, rows: Rows) -> Any:
        W = np.ascontiguousarray(self.components_.T)
        feature_map = getattr(self, "feature_map_", None)
        if feature_map is not None:
            return Featurized(rows, Scores(feature_map, self.mean_, W).transform).values()
        return Centered(rows, self.mean_) @ W

    def _embedded(self, rows: Rows) -> np.ndarray:
        """Return the embedding in host memory in double precision, for functions that may cancel large terms."""
        return np.asarray(rows.get(self._project(rows)), dtype=np.float64)
