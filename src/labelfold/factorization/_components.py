"""The base of factorisations: the main features of each component, and the reconstruction of rows."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelfold.base import Iterative, Reducer, constraints
from labelfold.labels import Labels
from labelfold.numerics import check_norm, count_negative, refuse_negative
from labelfold.rows import Block, Rows, as_rows
from labelfold.utils import Interval, StrOptions


class Factorisation(Iterative, Reducer):
    """A factorisation X = H B' with ``components_`` B' (k, d), found by iterations."""

    _most_components = 10
    _parameter_constraints = constraints(
        *("n_components", "max_iter", "random_state", "verbose", "on_interrupt"),
        tol=[Interval(Real, 0, None, closed="left")],  # 0 takes max_iter iterations
    )

    def transform(self, X: Any) -> Any:
        """Embed rows without labels, each by its best approximation with the components.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, in any container that `labelfold.rows.as_rows` takes.

        Returns
        -------
        H : array of shape (n, k)
            H; or H (V'V)^(1/2) for an estimator with ``corrected=True``. In host memory for arrays and files;
            otherwise on the device or cluster of X.
        """
        check_is_fitted(self)
        return self._place(self._rows(X, reset=False))

    def _place(self, rows: Rows) -> Any:
        raise NotImplementedError


class Parts(Factorisation):
    """A factorisation that models rows as sums of its components alone."""

    def inverse_transform(self, H: Any) -> np.ndarray:
        """Return the reconstruction of rows from their embedding, as sums of the components.

        Parameters
        ----------
        H : array of shape (n, k)
            The embedding of rows, from `transform`.

        Returns
        -------
        X : ndarray of shape (n, d)
        """
        check_is_fitted(self)
        self._check_parts("inverse_transform")
        H = np.asarray(as_rows(H).whole().dense())
        if H.shape[1] != len(self.components_):
            raise ValueError(
                f"H has {H.shape[1]} columns, where {len(self.components_)} are expected; pass what transform returns"
            )
        return (H @ self._back()).astype(H.dtype, copy=False)

    def top_features(self, n: int = 10, feature_names: Any = None) -> list[list[tuple[Any, float]]]:
        """Return the columns with the largest weights in each component.

        Parameters
        ----------
        n : int, default=10
            Number of columns for each component.
        feature_names : array-like of shape (d,), optional
            Names of the columns, for example ``get_feature_names_out()`` of a vectorizer; when None, those of X in
            fit, or the indices of the columns.

        Returns
        -------
        features : list of k lists of (name, weight)
            The largest weights first, by magnitude; zeros are left out.
        """
        check_is_fitted(self)
        self._check_parts("top_features")
        if not isinstance(n, Integral) or n < 0:
            raise ValueError(f"n={n!r} was given, where a whole number of features, 0 or more, is expected")
        names = (
            getattr(self, "feature_names_in_", None) if feature_names is None else np.asarray(feature_names)
        )
        if names is not None and len(names) != self.n_features_in_:
            raise ValueError(
                f"feature_names holds {len(names)} names, where {self.n_features_in_} are expected, one a column"
            )
        features = []
        for b in self.components_:
            best = np.argsort(-np.abs(b), kind="stable")[:n]
            features.append([(int(j) if names is None else str(names[j]), float(b[j])) for j in best if b[j]])
        return features

    def _check_parts(self, what: str) -> None:
        """Raise an error if the components are not over columns of X, so that ``what`` is not available."""

    def _back(self) -> np.ndarray:
        """Return the matrix that maps an embedding to rows, (k, d)."""
        return self.components_


class NonnegativeParts(Parts):
    """A factorisation X = H V' with non-negative factors."""

    _parameter_constraints = {
        **Factorisation._parameter_constraints,
        "init": [StrOptions({"random", "nndsvda"}), tuple, list],
    }

    def __sklearn_tags__(self) -> Any:
        """Declare that X must be non-negative."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


def check_matrix(rows: Rows, *, nonnegative: bool | str, centred: bool = False, estimator: str) -> float:
    """Check that X can be factorised, and return its squared norm, in one pass.

    Parameters
    ----------
    rows : Rows
        The data.
    nonnegative : bool or "always"
        Whether negative entries are refused: because of an option, or "always".
    centred : bool
        Whether the mean is subtracted from the rows.
    estimator : str
        Name of the estimator, for messages.

    Returns
    -------
    square : float
    """
    if nonnegative and centred:
        raise ValueError(
            "nonnegative=True and center=True were given, but a centred X has negative entries; choose one"
        )
    if nonnegative:
        square, n_negative = rows.sum(_square_and_negative)
        refuse_negative(rows, n_negative, by_choice=nonnegative != "always", estimator=estimator)
    else:
        square = rows.sum(_square)
    if square <= 0:  # for centred sparse rows it is a difference, which may be slightly negative
        raise ValueError(
            f"X holds nothing but zeros{' once it is centred' if centred else ''}, so there is nothing to factorise; "
            "give it columns that vary"
        )
    check_norm(square, rows.dtype)
    return square


def loss_weights(labels: Labels, class_weight: Any) -> np.ndarray:
    """Return the weights of the losses, (l, r): one for each row, or for multi-label one for each row and label.

    Examples
    --------
    >>> from labelfold.labels import read_labels
    >>> loss_weights(read_labels(["a", "b", "b", None]), {"a": 3.0}).ravel()
    array([3., 1., 1.])
    """
    multilabel = labels.task == "multilabel"
    shape = (labels.n_labelled, 1 if labels.task == "binary" else labels.n_classes)
    if class_weight is None:
        return np.ones(shape)
    counts = labels.counts()
    if multilabel and isinstance(class_weight, str):
        alike = np.where(labels.values > 0, counts, labels.n_labelled - counts)
        return labels.n_labelled / (2 * alike)
    if isinstance(class_weight, str):
        weights = labels.n_labelled / (labels.n_classes * counts)
    else:
        known = labels.classes.tolist()
        strange = [label for label in class_weight if label not in known]
        if strange or not all(weight > 0 for weight in class_weight.values()):
            raise ValueError(
                f"class_weight={class_weight} was given, where positive weights of the classes {known} are expected"
            )
        weights = np.array([float(class_weight.get(label, 1.0)) for label in known])
    if multilabel:
        return np.where(labels.values > 0, weights, 1.0)
    return np.broadcast_to(weights[labels.values][:, None], shape).copy()


def _square(X: Block) -> Any:
    return X.xp.sum(X.double().sq())


def _square_and_negative(X: Block) -> tuple[Any, Any]:
    return _square(X), count_negative(X)


class ComponentScale(NamedTuple):
    """The scale of the components of a factorisation X = H B' of n rows, from singular values s of X.

    For c X, the data in another unit, they are c, c^2 and c times as large.

    Attributes
    ----------
    size : float
        The root mean square of s.
    variance : float
        The mean of s^2 / n: the mean square of the rows along a component.
    length : float
        The sum of s / n: the mean squared norm of a row of H, if H and B have the same norm.
    """

    size: float
    variance: float
    length: float


def component_scale(sizes: np.ndarray, n: int) -> ComponentScale:
    """Return the scale of the components with these singular values; those of 0 do not count.

    Examples
    --------
    >>> component_scale(np.array([3.0, 4.0, 0.0]), 2)
    ComponentScale(size=3.5355339059327378, variance=6.25, length=3.5)
    """
    square = float(np.mean(sizes[sizes > 0] ** 2))
    return ComponentScale(float(np.sqrt(square)), square / n, float(sizes.sum()) / n)


def chosen(weight: Any, auto: float) -> float:
    """Return a weight as given, or the value of "auto".

    >>> chosen("auto", 3.0), chosen(2, 3.0)
    (3.0, 2.0)
    """
    return float(auto) if isinstance(weight, str) else float(weight)


def factor_sums(X: Block, H: Any) -> tuple[Any, Any]:
    """Return H'H and X'H in float64: the objective is a difference of them, and would cancel in float32."""
    return X.inner(H), X.double().t(H)


def squared_misfit(X: Any, H: np.ndarray, B: np.ndarray) -> float:
    """Return ||X - H B'||^2 in one pass over X.

    >>> squared_misfit(np.eye(2), np.array([[1.0], [0.0]]), np.array([[1.0], [0.0]]))
    1.0
    """
    return float(as_rows(X).sum(_misfit, np.asarray(H), shared=(np.asarray(B),)))


def _misfit(X: Block, H: Any, B: Any) -> Any:
    X = X.double()
    cross, gram = (X @ B) * H, (H @ (B.T @ B)) * H
    return X.xp.sum(X.sq()) - 2 * X.xp.sum(cross) + X.xp.sum(gram)
