"""OPLS: orthonormalised partial least squares, by the two-stage approach (Sun, Ceran & Ye, KDD 2010)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np

from labelfold.base import constraints, fitting
from labelfold.discriminant._two_stage import (
    TwoStage,
    directions,
    read_labelled,
    ridge_in_use,
    summarised,
)
from labelfold.numerics import MAX_GRAM_BYTES


class OPLS(TwoStage):
    r"""Orthonormalised partial least squares: the directions that predict the targets best.

    .. math:: \max_W \mathrm{tr}(W' X_c' Y_c Y_c' X_c W) \quad \text{subject to} \quad W'(X_c'X_c + g I)W = I

    The targets are T = Y_c, the centred label columns (one-hot for classes, 0/1 for several labels a row) or
    continuous targets. Unlike in LDA and CCA, a column of Y with a larger variance has more weight.

    Parameters
    ----------
    n_components : int, default=None
        Number of directions; all when None.
    task : {"auto", "classification", "regression"}, default="auto"
        "auto" reads floats with fractions as regression targets, everything else as classes or labels.
    ridge : float, "auto", "cv" or sequence of float, default=0.0
        Added to the diagonal of :math:`X_c'X_c`, a sum over rows; see `LDA`.
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

    Notes
    -----
    Memory beside a dense X, at most: ``32*l*d + 48*d*d`` bytes in fit, none in transform, and 24 MB
    (docs/memory.md).

    Cost as for `LDA`, and one more pass over the labelled rows for the regression that `predict` needs. With as many
    components as targets and ridge 0 the predictions are those of least squares.

    References
    ----------
    L. Sun, B. Ceran, J. Ye. A scalable two-stage approach for a class of dimensionality reduction
    techniques. KDD 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from labelfold import OPLS
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> opls = OPLS(n_components=1, task="regression").fit(X, Y)
    >>> opls.transform(X).shape, opls.predict(X).shape
    ((20, 1), (20, 3))
    """

    _parameter_constraints = {
        **TwoStage._parameter_constraints,
        **constraints("task"),
    }
    _allowed = ("binary", "multiclass", "multilabel", "regression")

    def __init__(
        self,
        n_components: int | None = None,
        *,
        task: Literal["auto", "classification", "regression"] = "auto",
        ridge: float | Literal["auto", "cv"] | Sequence[float] | np.ndarray = 0.0,
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
        self.n_components = n_components
        self.task = task
        self.ridge = ridge
        self.solver = solver
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_gram_bytes = max_gram_bytes
        self.random_state = random_state
        self.verbose = verbose
        self.unlabeled = unlabeled

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
        """Return the centred label columns."""
        return Y - weights @ Y / weights.sum()  # (g, c)  eq. 8

    def _link(self, S: np.ndarray) -> np.ndarray:
        """Return L, with targets T = Y_c L, from the scatter S = Y_c'Y_c."""
        return np.eye(len(S))
