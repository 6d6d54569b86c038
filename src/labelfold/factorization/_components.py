"""The base of factorisations: the main features of each component, and the reconstruction of rows."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelfold.base import Iterative, Reducer
from labelfold.rows import Rows, as_rows
from labelfold.utils import Interval, StrOptions


class Factorisation(Iterative, Reducer):
    """A factorisation X = H B' with ``components_`` B' (k, d), found by iterations."""

    _most_components = 10
    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "on_interrupt": [StrOptions({"raise", "keep"})],
    }

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
