"""LSDR: a factorisation coupled to linear classifiers (Grabocka & Schmidt-Thieme).

The classifiers, which are retrained whenever labelled rows move, are here, the descent in `_offset_factorization.py`,
and the terms of the objective that depend on X in `_offset_model.py`. NSDR shares both.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from scipy.special import log_expit

from labelfold.base import LinearScores, constraints, fitting
from labelfold.factorization._components import chosen
from labelfold.factorization._offset_factorization import ROUND_OFF, CoupledClassifier, OffsetFactorisation
from labelfold.factorization._offset_model import factor_cost
from labelfold.numerics import MAX_GRAM_BYTES
from labelfold.utils import StrOptions


class LSDR(LinearScores, OffsetFactorisation):
    r"""Linearly supervised dimensionality reduction: a factorisation in which a linear classifier separates classes.

    .. math:: \min\; b\, \|X - U V - b_u 1' - 1 b_v'\|^2 + (1 - b) \sum_{i \in L} \sum_j \ell(y_{ij} f_{ij})
              + \lambda_U (\|U\|^2 + \|b_u / t\|^2) + \lambda_V \|V\|^2 + \lambda_W \|W\|^2,
              \qquad f_{ij} = u_i'w_j + b_{u,i} / t + w_{0,j}

    over all rows, with a smooth loss of the labelled ones: the smooth hinge (1/2 - m for m < 0, (1 - m)^2 / 2 up to
    1, then 0), the logistic loss log(1 + exp(-m)), or the squared loss (1 - m)^2. Two classes have one classifier.
    Several classes have one classifier each against the rest, on the same embedding, and so do the labels of a
    multi-label Y.

    =======================  =============  ==========================================================
    here                     in the paper   what it is
    =======================  =============  ==========================================================
    U (n, k)                 U              ``embedding_``
    V (k, d)                 V              ``components_``
    bu (n,), bv (d,)         B_U, B_V       ``row_offsets_``, ``column_offsets_``
    W (r, k), w0 (r,)        W, W_0         ``embedding_coef_``, ``embedding_intercept_``
    reconstruction_share, b  beta           weight of the factorisation, 1 - b that of the labels
    row_penalty              lambda_U       weight of the norm of U and bu
    basis_penalty            lambda_V       weight of the norm of V
    classifier_penalty       lambda_W       weight of the norm of W
    offset_unit, t           1              unit of row offsets
    =======================  =============  ==========================================================

    Parameters
    ----------
    n_components : int, default=10
        Number of components k. It may exceed the number of columns of X, with a warning.
    loss : {"smooth_hinge", "logistic", "squared"}, default="smooth_hinge"
        The loss of a labelled row.
    reconstruction_share : float or "auto", default="auto"
        Weight of the factorisation against the labels, strictly between 0 and 1. With "auto", b / (1 - b) is 30
        divided by the mean square of the rows along a component.
    row_penalty, basis_penalty : float or "auto", default="auto"
        Weights of the norms of the embedding with its row offsets, and of the components. Directions of X with
        singular values below sqrt(row_penalty basis_penalty) / reconstruction_share are used for the labels only.
        With "auto" this bound is 0.03 times the root mean square of the k largest singular values, and embedded rows
        have a mean squared norm of about 1.
    classifier_penalty : float or "auto", default="auto"
        Weight of the norm of the classifiers. "auto" is half the mean squared norm of an embedded row, times the
        share of the labels, 1 - b.
    offset_unit : float or "auto", default="auto"
        The unit t of row offsets in their penalty and in the classifiers. "auto" is the root mean square of the
        entries of X centred by column. The paper uses 1.
    class_weight : dict or "balanced", default=None
        Weight of a row's losses by its class. With "balanced" all classes have the same total. For a multi-label Y it
        is the weight of the positive rows of a label; "balanced" then also weights its negative rows.
    init : {"svd", "random"}, default="svd"
        Initial components: the singular vectors of X centred by column, or by column and row, whichever has the lower
        objective; or random vectors.
    max_iter : int, default=500
        Largest number of iterations.
    tol : float, default=1e-5
        Tolerance: stop when the last five iterations lower the objective by at most this share of it on average.
    max_gram_bytes : int, default=536870912
        Largest size of rows that are kept dense: the labelled ones, and the unlabelled ones or, if they are many, the
        d + 1 rows of their triangular factor. Rows that do not fit, or would be much larger than a sparse X, are read
        in passes instead.
    random_state : int, RandomState instance or None, default=0
        Seed of the initial values.
    verbose : int, default=0
        1 shows a progress bar over the iterations.
    on_interrupt : {"raise", "keep"}, default="raise"
        Whether Ctrl-C raises KeyboardInterrupt, or keeps the result of the last iteration.
    unlabeled : int, str or None, default=-1
        The value in y that marks a row as unlabelled; missing values (None, NaN, pandas.NA) always do.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The basis, V.
    embedding_ : ndarray of shape (n, k)
        The embedding of the training rows. For labelled rows it depends on their labels.
    row_offsets_, column_offsets_ : ndarray of shape (n,), (d,)
        Offsets of the training rows, and of the columns.
    embedding_coef_, embedding_intercept_ : ndarray of shape (r, k), (r,)
        The classifiers on the embedding, to whose scores the row offset in its unit is added.
    coef_, intercept_ : ndarray of shape (r, d), (r,)
        Weights of the columns of X: scores are ``X @ coef_.T + intercept_``, row offsets included.
    reconstruction_share_, row_penalty_, basis_penalty_, offset_unit_, classifier_penalty_ : float
        The weights used, as given or chosen.
    objective_ : ndarray of shape (n_iter_,)
        The objective after each iteration; it never rises.
    transduction_ : ndarray of shape (n,) or (n, c)
        A label for every training row: the given one, or the one predicted from its embedding.
    classes_ : ndarray of shape (c,)
        The class values; for multi-label the label columns.
    task_ : str
        How y was read: "binary", "multiclass" or "multilabel".
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of columns of X in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, if X has any.

    Notes
    -----
    Memory beside a dense X, at most: ``64*n*k + 64*(l + d)*d`` bytes in fit, none in transform, and 24 MB
    (docs/memory.md).

    With "auto" weights X and c X have the same predictions.

    ``sample_weight`` multiplies every term of a row, the penalty of its embedding too: whole weights are repeated
    rows.

    The embedding of an unlabelled or new row follows from V in closed form: (u, bu / t) is the ridge fit of x - bv on
    the rows of V and a row of t. A labelled row is at this position plus a displacement. V, bv and the displacements
    take quasi-Newton steps together. At every step the classifiers are retrained, with a warm start. There is no step
    size to choose. `transform` of a labelled training row differs from its ``embedding_``.

    Cost of an iteration with l labelled rows: O(d k (l + min(n, d))) if the rows are kept (X is then read three times
    in total), otherwise one pass over X, O(k nnz); and O(l k^2) for each classifier. Memory: O(nnz + k (n + d)) and
    ``max_gram_bytes``.

    The paper penalises U but not bu. With bu + s and bv - s the reconstruction is the same, and the loss of the
    labels decreases as s grows, so here bu is penalised with U. The smooth hinge of the paper is 1 - m below 0, which
    has a jump, and its gradients omit y. The objective is not convex: the result depends on the initial values, which
    are the singular vectors of X centred by column, or by column and row, whichever has the lower objective.

    References
    ----------
    J. Grabocka, L. Schmidt-Thieme. Learning through non-linearly supervised dimensionality reduction.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from labelfold.factorization._lsdr import LSDR
    >>> X, y = load_wine(return_X_y=True)
    >>> few = y.copy()
    >>> few[::3], few[1::3] = -1, -1    # labels for every third row only
    >>> model = LSDR(n_components=8, loss="logistic").fit(scale(X), few)
    >>> model.embedding_.shape, bool((model.transduction_ == y).mean() > 0.95)
    ((178, 8), True)
    >>> model.predict_proba(scale(X)).shape
    (178, 3)
    """

    _parameter_constraints = OffsetFactorisation._parameter_constraints | {
        "loss": [StrOptions({"smooth_hinge", "logistic", "squared"})],
        **constraints("classifier_penalty"),
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        loss: Literal["smooth_hinge", "logistic", "squared"] = "smooth_hinge",
        reconstruction_share: float | Literal["auto"] = "auto",
        row_penalty: float | Literal["auto"] = "auto",
        basis_penalty: float | Literal["auto"] = "auto",
        classifier_penalty: float | Literal["auto"] = "auto",
        offset_unit: float | Literal["auto"] = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        init: Literal["svd", "random"] = "svd",
        max_iter: int = 500,
        tol: float = 1e-5,
        max_gram_bytes: int = MAX_GRAM_BYTES,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        on_interrupt: Literal["raise", "keep"] = "raise",
        unlabeled: Any = -1,
    ) -> None:
        self.n_components = n_components
        self.loss = loss
        self.reconstruction_share = reconstruction_share
        self.row_penalty = row_penalty
        self.basis_penalty = basis_penalty
        self.classifier_penalty = classifier_penalty
        self.offset_unit = offset_unit
        self.class_weight = class_weight
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.max_gram_bytes = max_gram_bytes
        self.random_state = random_state
        self.verbose = verbose
        self.on_interrupt = on_interrupt
        self.unlabeled = unlabeled

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Factorise all rows so that linear classifiers can separate the labelled ones.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, labelled or not, in any container that `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,), or (n, c) for multi-label
            Classes; ``unlabeled`` or a missing value for unlabelled rows.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.

        Returns
        -------
        self : LSDR
        """
        rows = self._rows(X, reset=True)
        labels, weights = self._read_weighted(y, sample_weight, rows.shape[0])
        given = self._set_up(rows, labels, weights)
        losses = self._loss_weights(labels)
        classifier = self._classifier(labels.signs(), given.label_share, given.length, losses)
        Z = self._solve(given, classifier)
        self.embedding_coef_, self.embedding_intercept_ = classifier.W, classifier.intercept
        self._store_embedding(rows, labels, Z)
        return self

    def _classifier(
        self, T: np.ndarray, weight: float, length: float, loss_weights: np.ndarray | None = None
    ) -> LinearClassifiers:
        """Store the penalty, and return classifiers of a weight, for rows of a mean squared length."""
        self.classifier_penalty_: float = chosen(self.classifier_penalty, 0.5 * weight * length)
        options: dict[str, Any] = {"weight": weight, "penalty": self.classifier_penalty_}
        return LinearClassifiers(T, loss=self.loss, loss_weights=loss_weights, **options)

    def _log_odds(self, F: np.ndarray) -> np.ndarray:
        """Return log odds; for the logistic loss those of its model, normalised for several classes."""
        if self.loss != "logistic":
            return super()._log_odds(F)
        return log_expit(F) if self.task_ == "multiclass" else F

    def _scores_of(self, Z: np.ndarray) -> np.ndarray:
        Z = np.asarray(Z, dtype=np.float64)
        return Z[:, :-1] @ self.embedding_coef_.T + Z[:, -1:] + self.embedding_intercept_  # eq. 10

    def _linear_map(self) -> tuple[np.ndarray, np.ndarray]:
        return self._position_map().T, self.column_offsets_

    def _score_map(self) -> tuple[np.ndarray, np.ndarray]:
        W = self.embedding_coef_
        return np.hstack([W, np.ones((len(W), 1))]), self.embedding_intercept_


def objective(
    X: Any,
    U: np.ndarray,
    row_offsets: np.ndarray,
    V: np.ndarray,
    column_offsets: np.ndarray,
    W: np.ndarray,
    intercept: np.ndarray,
    T: np.ndarray,
    index: np.ndarray,
    *,
    loss: str = "smooth_hinge",
    classifier_penalty: float = 0.1,
    reconstruction_share: float = 0.5,
    offset_unit: float = 1.0,
    **penalties: float,
) -> float:
    """Return the objective of LSDR (eq. 1, with the losses of eqs. 11, 12 and 15), in one pass over X.

    Parameters
    ----------
    X : container of shape (n, d)
        Rows.
    U, row_offsets, V, column_offsets : ndarray of shapes (n, k), (n,), (k, d), (d,)
        The factors.
    W, intercept : ndarray of shapes (r, k), (r,)
        The classifiers.
    T : ndarray of shape (l, r)
        Signs of the labelled rows, -1 or +1.
    index : ndarray of shape (l,)
        Indices of the labelled rows.
    loss, reconstruction_share, row_penalty, basis_penalty, classifier_penalty, offset_unit
        As in `LSDR`.

    Returns
    -------
    f : float
    """
    shared = {"reconstruction_share": reconstruction_share, "offset_unit": offset_unit}
    factors = factor_cost(X, U, row_offsets, V, column_offsets, **shared, **penalties)
    scores = U[index] @ W.T + np.asarray(row_offsets)[index][:, None] / offset_unit + intercept
    value, *_ = losses(T * scores, loss)
    return factors + float((1 - reconstruction_share) * value.sum() + classifier_penalty * np.vdot(W, W))


class LinearClassifiers(CoupledClassifier):
    r"""r linear classifiers f = U w + bu + w0 with a smooth loss.

    .. math:: \min_{w, w_0} (1 - b) \sum_{i \in L} \sum_j \ell(y_{ij} f_{ij}) + \lambda_W \|W\|^2

    Parameters
    ----------
    T : ndarray of shape (l, r)
        Signs.
    loss : {"smooth_hinge", "logistic", "squared"}
        See `losses`.
    weight : float
        1 - b.
    penalty : float
        lambda W.
    loss_weights : ndarray of shape (l, r), optional
        Weights of the losses.
    """

    def __init__(
        self,
        T: np.ndarray,
        *,
        loss: str,
        weight: float,
        penalty: float,
        loss_weights: np.ndarray | None = None,
    ) -> None:
        self.T, self.loss, self.weight, self.penalty = T, loss, weight, penalty
        self.loss_weights = loss_weights
        self.W: Any = None  # (r, k), after training
        self.intercept: Any = None  # (r,)

    def train(self, Z: np.ndarray) -> float:
        U, offsets = Z[:, :-1], Z[:, -1:]
        r, k = self.T.shape[1], U.shape[1]
        if self.W is None:
            self.W, self.intercept = np.zeros((r, k)), np.zeros(r)
        ones = np.hstack([U, np.ones((len(U), 1))])
        theta = np.hstack([self.W, self.intercept[:, None]])
        for j in range(r):
            theta[j] = self._newton(ones, offsets[:, 0], j, theta[j])
        self.W, self.intercept = theta[:, :-1].copy(), theta[:, -1].copy()
        value, self._slope, _ = self._losses(self.T * (ones @ theta.T + offsets))
        return float(self.weight * value.sum() + self.penalty * (self.W**2).sum())

    def gradient(self) -> np.ndarray:
        slope = self.weight * self._slope * self.T  # (l, r)  eqs. 17, 20 and 23
        return np.hstack([slope @ self.W, slope.sum(axis=1, keepdims=True)])

    def _losses(
        self, margins: np.ndarray, which: int | slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the weighted losses of some classifiers, and their derivatives."""
        found = losses(margins, self.loss)
        if self.loss_weights is None:
            return found
        value, slope, bend = (self.loss_weights[:, which] * part for part in found)
        return value, slope, bend

    def _newton(self, ones: np.ndarray, offsets: np.ndarray, j: int, theta: np.ndarray) -> np.ndarray:
        """Return [w, w0] of one classifier, started from the previous one."""
        y = self.T[:, j]
        # The curvature of the loss is at most 2, or 2 times the weight.
        largest = 2.0 if self.loss_weights is None else 2 * self.loss_weights[:, j]
        ridge = np.full(len(theta), 2 * self.penalty)
        ridge[-1] = 0.0

        def cost(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            value, slope, bend = self._losses(y * (ones @ theta + offsets), j)
            return self.weight * value.sum() + 0.5 * ridge @ theta**2, slope, bend

        f, slope, bend = cost(theta)
        # Rows far from the boundary have no curvature. If a step was too long, some curvature is added for all rows.
        # As a share of the largest curvature; with all of it the step cannot fail except by round-off.
        added = 0.0
        for _ in range(50):
            gradient = self.weight * (ones.T @ (slope * y)) + ridge * theta
            H = self.weight * (ones.T * (bend + added * largest)) @ ones
            H[np.diag_indices_from(H)] += ridge + 1e-12 * (np.trace(H) + self.weight)
            step = np.linalg.solve(H, gradient)
            fall = gradient @ step
            if not fall > ROUND_OFF * max(f, np.finfo(float).tiny):
                break
            new = theta - step
            f_new, slope_new, bend_new = cost(new)
            if f_new <= f - 1e-4 * fall:
                theta, f, slope, bend = new, f_new, slope_new, bend_new
                added *= 0.1
            elif added < 1.0:
                added = min(max(10 * added, 5e-4), 1.0)
            else:
                break
        return theta


def losses(m: np.ndarray, loss: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a loss of the margins m = y f, its derivative and its second derivative, entry by entry.

    squared (1 - m)^2 (eq. 11); logistic log(1 + exp(-m)) (eq. 12); smooth hinge 1/2 - m below 0, (1 - m)^2 / 2 up to
    1, 0 beyond (eq. 15, corrected).

    Examples
    --------
    >>> losses(np.array([-1.0, 0.5, 2.0]), "smooth_hinge")[0]
    array([1.5  , 0.125, 0.   ])
    """
    if loss == "squared":
        return (1 - m) ** 2, -2 * (1 - m), np.full(m.shape, 2.0)
    if loss == "logistic":
        wrong = 0.5 * (1 - np.tanh(0.5 * m))  # 1 / (1 + exp(m)), which cannot overflow
        return np.logaddexp(0.0, -m), -wrong, wrong * (1 - wrong)
    short = np.clip(1 - m, 0.0, 1.0)
    value = np.where(m < 0, 0.5 - m, 0.5 * short * short)
    return value, -short, ((m >= 0) & (m < 1)).astype(np.float64)
