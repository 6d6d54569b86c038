"""CCA: canonical correlation analysis, by the two-stage approach (Sun, Ceran & Ye, KDD 2010)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal, Self, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelfold.base import HostRows, fitting
from labelfold.discriminant._opls import OPLS
from labelfold.discriminant._two_stage import (
    Directions,
    LabelSummary,
    directions,
    read_labelled,
    ridge_in_use,
    summarised,
)
from labelfold.labels import read_weights, score_targets
from labelfold.numerics import MAX_GRAM_BYTES, ROUND_OFF
from labelfold.rows import gathered, to_host
from labelfold.utils import Interval


class CCA(OPLS):
    r"""Canonical correlation analysis: directions of X and of Y that are most correlated.

    .. math:: \max_W \mathrm{tr}(W' X_c' Y_c (Y_c'Y_c + h I)^+ Y_c' X_c W) \quad \text{subject to} \quad
              W'(X_c'X_c + g I)W = I

    The targets are :math:`T = Y_c (Y_c'Y_c + h I)^{-1/2}`, the root of the pseudo-inverse if label columns are
    dependent. Y may be classes, label columns or continuous targets. With classes the directions are those of `LDA`.

    Parameters
    ----------
    n_components : int, default=None
        Number of directions; all when None.
    task : {"auto", "classification", "regression"}, default="auto"
        "auto" reads floats with fractions as continuous targets, everything else as classes or labels.
    ridge : float, "auto", "cv" or sequence of float, default=0.0
        Added to the diagonal of :math:`X_c'X_c`, a sum over rows; see `LDA`.
    ridge_y : float, default=0.0
        Added to the diagonal of :math:`Y_c'Y_c` (h), for many or nearly dependent columns of Y.
    solver : {"two-stage", "direct"}, default="two-stage"
        "direct" solves the dense d x d problem, for small data and for comparison.
    kernel, gamma, degree, coef0, n_landmarks : str or callable, float, float, float, int
        The kernel form; meanings and defaults are those of `LDA`.
    class_weight : dict or "balanced", default=None
        Weights of the classes; see `LDA`.
    tol, max_iter : float, int, default=1e-8, 1000
        Tolerance and largest number of iterations, for problems too large to factorise. Each iteration reads X once.
    max_gram_bytes : int, default=512 MB
        Maximum size in bytes of a d x d or n x n matrix.
    random_state : int, RandomState instance or None, default=0
        Seed of the preconditioner of these iterations, and of the landmarks.
    verbose : int, default=0
        1 shows a progress bar over these iterations.
    unlabeled : int, str or None, default=-1
        The value in y that marks a row as unlabelled; missing values always do.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The directions W', with W'(X_c'X_c + ridge I)W = I.
    eigenvalues_ : ndarray of shape (k,)
        Their eigenvalues, descending.
    mean_ : ndarray of shape (d,)
        The mean of the labelled rows.
    embedding_coef_, embedding_intercept_ : ndarray of shape (c, k), (c,)
        Regression of the label columns on the embedding, for `predict`.
    coef_, intercept_ : ndarray of shape (q, d), (q,)
        Weights of the columns of X in the scores: `decision_function`, or `predict` in regression, is
        ``X @ coef_.T + intercept_``. q is 1 for two classes; for numbers in one column they are (d,) and a float.
        Absent with a kernel.
    explained_variance_ratio_ : ndarray of shape (k,)
        The share of the variance of the label columns that each component explains beyond those before it. The sum is
        the R^2 of their regression on the embedding.
    task_ : str
        "binary", "multiclass", "multilabel" or "regression".
    classes_ : ndarray of shape (c,)
        The classes, or label columns; absent in regression.
    ridge_, n_iter_, residual_, gamma_, feature_map_ : object
        As in `LDA`.
    n_features_in_ : int
        Number of columns of X in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, if X has any.
    correlations_ : ndarray of shape (k,)
        The canonical correlations, square roots of the eigenvalues (exact if both ridges are 0); those of other rows
        are computed by `correlations`.
    y_components_ : ndarray of shape (k, c)
        Directions V' of the targets, with V'(Y_c'Y_c + ridge_y I)V = I.
    x_loadings_ : ndarray of shape (d, k)
        Regression of the columns of X on the scores of X, by which `inverse_transform` returns rows. Absent with a
        kernel.
    y_loadings_ : ndarray of shape (c, k)
        Regression of the targets on their scores.
    y_mean_ : ndarray of shape (c,)
        The mean of the targets.

    Notes
    -----
    Memory beside a dense X, at most: ``32*l*d + 48*d*d`` bytes in fit, none in transform, and 24 MB
    (docs/memory.md).

    Cost as for `LDA`, and one more pass over the labelled rows for the regression that `predict` needs.

    References
    ----------
    L. Sun, B. Ceran, J. Ye. A scalable two-stage approach for a class of dimensionality reduction
    techniques. KDD 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from labelfold import CCA
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> cca = CCA(task="regression").fit(X, Y)
    >>> cca.correlations_.round(3)
    array([0.796, 0.201, 0.073])
    >>> x_scores, y_scores = cca.transform(X, Y)
    >>> round(float(x_scores[:, 0] @ y_scores[:, 0]), 3)
    0.796
    """

    _has_loadings = True
    _parameter_constraints = {
        **OPLS._parameter_constraints,
        "ridge_y": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        task: Literal["auto", "classification", "regression"] = "auto",
        ridge: float | Literal["auto", "cv"] | Sequence[float] | np.ndarray = 0.0,
        ridge_y: float = 0.0,
        solver: Literal["two-stage", "direct"] = "two-stage",
        kernel: str | Callable[..., float] | None = None,
        gamma: float | Literal["auto", "scale"] = "auto",
        degree: float | None = None,
        coef0: float | None = None,
        n_landmarks: int | Literal["auto"] | None = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
        max_gram_bytes: int = MAX_GRAM_BYTES,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        unlabeled: Any = -1,
    ) -> None:
        super().__init__(
            n_components,
            task=task,
            ridge=ridge,
            solver=solver,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            n_landmarks=n_landmarks,
            class_weight=class_weight,
            tol=tol,
            max_iter=max_iter,
            max_gram_bytes=max_gram_bytes,
            random_state=random_state,
            verbose=verbose,
            unlabeled=unlabeled,
        )
        self.ridge_y = ridge_y

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the directions from the labelled rows.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, labelled or not, in any container that `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,) or (n, c)
            Targets; ``unlabeled`` or a missing value for unlabelled rows.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.

        Returns
        -------
        self : estimator
        """
        data = read_labelled(self, X, y, sample_weight)
        ridge = ridge_in_use(self, data)
        T = self._targets(data.Y, data.counts)  # (g, q)  a row for each distinct row of labels
        (found,) = directions(self, data, T, [ridge])  # W (d, k), s (k,): eq. 27 and 30, or eq. 37
        found = self._store(found)
        self._fit_predictions(found, summarised(self, data))
        return self

    def _targets(self, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return T = Y_c (Y_c'Y_c + h I)^(-1/2)."""
        Yc = super()._targets(Y, weights)
        return Yc @ self._link((Yc.T * weights) @ Yc)  # (g, c)  H of eq. 7

    def _link(self, S: np.ndarray) -> np.ndarray:
        """Return (S + h I)^(-1/2), of the pseudo-inverse if it is singular."""
        values, vectors = np.linalg.eigh((S + S.T) / 2 + self.ridge_y * np.eye(len(S)))
        keep = values > len(S) * ROUND_OFF * max(values[-1], 0.0)
        return (vectors[:, keep] / np.sqrt(values[keep])) @ vectors[:, keep].T

    def _fit_predictions(self, found: Directions, summary: LabelSummary) -> None:
        """Store the regression on the embedding, the directions of the targets, and the loadings of both sides."""
        made = summary.products(found)
        self._fit_regression(made, summary)
        root, S, L = np.sqrt(found.s), summary.y_scatter, self._link(summary.y_scatter)
        self.correlations_ = root
        self.y_components_: np.ndarray = (found.targets / root[:, None]) @ L
        self.y_mean_: np.ndarray = summary.y_mean
        SV = S @ self.y_components_.T  # (c, k)  Y_c'U for the scores U = Y_c V
        self.y_loadings_: np.ndarray = np.linalg.lstsq(self.y_components_ @ SV, SV.T, rcond=None)[0].T
        self.__dict__.pop("x_loadings_", None)  # those of an earlier fit without a kernel
        if made.XtY is not None:
            # (d, k)  X_c'Z = X_c'X_c W, by stage 1: (X_c'X_c + g I) W_1 = X_c'T, T = Y_c L, and W = W_1 E s^(-1/2)
            XtZ = made.XtY @ L @ (found.targets / found.s[:, None]).T - found.ridge * found.W
            self.x_loadings_: np.ndarray = np.linalg.lstsq(made.ZtZ, XtZ.T, rcond=None)[0].T

    def _back(self, p: int) -> np.ndarray:
        """Return the loadings (p, d): rows are the sum of their scores times these."""
        return self.x_loadings_[:, :p].T

    @overload
    def transform(self, X: HostRows, y: None = None) -> np.ndarray: ...
    @overload
    def transform(self, X: Any, y: None = None) -> Any: ...
    @overload
    def transform(self, X: Any, y: Any) -> tuple[Any, np.ndarray]: ...
    def transform(self, X: Any, y: Any = None) -> Any:
        """Project rows, and their targets if given.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, c), default=None
            Targets of the rows, in the form of `fit`.

        Returns
        -------
        x_scores : array of shape (n, k)
        y_scores : ndarray of shape (n, k)
            Only if y is given; NaN for unlabelled rows.
        """
        check_is_fitted(self)
        x_scores = super().transform(X)
        return x_scores if y is None else (x_scores, self._y_scores(y))

    def correlations(self, X: Any, y: Any, sample_weight: Any = None) -> np.ndarray:
        """Return the correlations of the scores of rows with those of their targets, such as those of held-out rows.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, c)
            Targets of the rows, in the form of `fit`; unlabelled rows are left out.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        correlations : ndarray of shape (k,)
            NaN for a component whose scores are constant.
        """
        x_scores, y_scores = self.transform(X, y)
        x_scores = np.asarray(to_host(gathered(x_scores)), dtype=np.float64)
        weights = read_weights(sample_weight, len(y_scores))
        weights = np.ones(len(y_scores)) if weights is None else weights
        counted = ~np.isnan(y_scores).any(axis=1) & (weights > 0)
        if counted.sum() < 2:
            raise ValueError(
                f"y has {counted.sum()} labelled rows of a weight above 0, where a correlation takes two at least"
            )
        Z, U, w = x_scores[counted], y_scores[counted], weights[counted] / weights[counted].sum()
        Z, U = Z - w @ Z, U - w @ U
        with np.errstate(invalid="ignore", divide="ignore"):
            return w @ (Z * U) / np.sqrt((w @ Z**2) * (w @ U**2))

    def _y_scores(self, y: Any) -> np.ndarray:
        classes: Any = getattr(self, "classes_", None)
        task = "regression" if self.task_ == "regression" else "classification"
        known, values = score_targets(y, unlabeled=self.unlabeled, task=task, classes=classes)
        if self.task_ in ("binary", "multiclass"):
            stray = ~np.isin(values, classes)
            if stray.any():
                raise ValueError(
                    f"y holds the class {values[stray][0]!r}, which fit has not seen; "
                    f"its classes are {classes.tolist()}"
                )
            values = np.eye(len(classes))[np.searchsorted(classes, values)]
        Y = values.reshape(len(values), -1)
        if Y.shape[1] != len(self.y_mean_):
            raise ValueError(f"y has {Y.shape[1]} columns, where the {len(self.y_mean_)} of fit are expected")
        scores = np.full((len(known), len(self.y_components_)), np.nan)
        scores[known] = (Y - self.y_mean_) @ self.y_components_.T
        return scores
