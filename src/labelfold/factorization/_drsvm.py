"""DRSVM: dimension reduction and a linear SVM learned together (Fang, Cheng & Hsieh, ICDM 2017)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from labelfold.base import Decisions, Iterates, LinearScores, constraints, fitting
from labelfold.factorization._components import (
    AdditiveFactorisation,
    InitialFactors,
    check_matrix,
    chosen,
    component_scale,
    factor_start,
    factor_sums,
    hals,
    hals_by_columns,
    nonnegative_least_squares,
    shrunk_away,
    squared_misfit,
    total_weight,
    weighted,
)
from labelfold.factorization._hinge_rows import hinge_losses, hinge_row_objectives, hinge_rows
from labelfold.labels import loss_weights
from labelfold.numerics import linear_svm
from labelfold.rows import Block, Centered, Rows, as_rows, check_fits
from labelfold.utils import StrOptions, warn_user


class DRSVM(LinearScores, Decisions, AdditiveFactorisation):
    r"""Dimension reduction and a linear SVM learned together, from a few labels and many rows.

    It computes a low-rank factorisation of all rows in which linear SVMs separate the labelled ones:

    .. math:: \min_{H, B, W} \sum_{i \in L} \sum_j \ell(y_{ij}, w_j'h_i) + \tfrac{a}{2} \|W\|^2
              + \tfrac{b}{2} \|X - H B'\|^2 + \tfrac{e}{2} (\|B\|^2 + \|H\|^2)
              \qquad (\text{optionally } B, H \ge 0)

    with :math:`\ell(y, z) = \max(0, 1 - yz)` or its square. Two classes have one SVM. Several classes have one SVM
    each against the rest, all on the same factorisation, and so do the labels of a multi-label Y.

    ===================  =============  ==============================================================
    here                 in the paper   what it is
    ===================  =============  ==============================================================
    X (n, d)             X (d, n)       the rows, less their mean with ``center``
    H (n, k)             H (k, n)       ``embedding_``
    B (d, k)             B              ``components_.T``
    W (r, k)             w              ``embedding_coef_``; r is 1 for two classes, else their number
    svm_penalty, a       lambda 1       the SVM's C is 1 / a
    reconstruction, b    lambda 2       weight of the factorisation
    factor_penalty, e    lambda 3       weight of the norm of the factors
    ===================  =============  ==============================================================

    Parameters
    ----------
    n_components : int, default=10
        Number of components k. It may exceed the number of rows or columns of X, with a warning.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        The loss of a labelled row.
    svm_penalty : float or "auto", default="auto"
        Weight of the norm of the SVMs; a smaller one fits the labels more closely. "auto" is the mean squared norm of
        the initial embedding, which is the sum of the k largest singular values of X divided by n; a tenth of it for
        the plain hinge. The paper uses 1.
    reconstruction : float or "auto", default="auto"
        Weight of the factorisation. For large values the result is a truncated SVD, and an SVM on it. "auto" is 100
        divided by the mean square of the rows along a component. A labelled row then pays 50 to move by one standard
        deviation. The paper uses 1.
    factor_penalty : float or "auto", default="auto"
        Weight of the norm of the factors. Directions of X with singular values below ``factor_penalty /
        reconstruction`` are shrunk to 0. With "auto" this bound is a hundredth of the root mean square of the k
        largest singular values. The paper uses 1.
    nonnegative : bool, default=False
        Whether B and H must be non-negative; X must be too. Components are then parts: see `top_features`.
    fit_intercept : bool, default=False
        Whether each SVM has an intercept, penalised like its weights: the weight of a constant feature of h that is
        neither in H nor in B.
    intercept_scaling : float or "auto", default="auto"
        That constant feature. "auto" is the root mean square norm of the embedded rows, so that an intercept costs
        the same in any unit of X.
    class_weight : dict or "balanced", default=None
        Weight of a row's losses by its class. With "balanced" the weights of classes are inversely proportional to
        their number of labels. For a multi-label Y it is the weight of the positive rows of a label; "balanced" then
        also weights its negative rows.
    center : bool, default=False
        Whether to factorise X less the mean of its rows. A sparse X stays sparse.
    init : {"svd", "random", "nndsvd"} or tuple (H, B), default="svd"
        Initial values: singular vectors times the square roots of their values, random, or given. With
        ``nonnegative`` "svd" means "nndsvd", its non-negative form.
    max_iter : int, default=200
        Largest number of iterations; each reads X once.
    tol : float, default=1e-6
        Tolerance: stop when an iteration lowers the objective by at most this share of it.
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
        The basis, B'.
    embedding_ : ndarray of shape (n, k)
        The embedding of the training rows. For labelled rows it depends on their labels.
    embedding_coef_ : ndarray of shape (r, k)
        Weights of the SVMs on the embedding.
    embedding_intercept_ : ndarray of shape (r,)
        Intercepts of the SVMs; 0 if there are none.
    coef_, intercept_ : ndarray of shape (r, d), (r,)
        Weights of the columns of X: scores are ``X @ coef_.T + intercept_``. Not with ``nonnegative``, whose scores
        are not linear in X.
    objective_ : ndarray of shape (n_iter_,)
        The objective after each iteration; it never rises.
    transduction_ : ndarray of shape (n,) or (n, c)
        A label for every training row: the given one, or the one predicted from its embedding.
    svm_penalty_, reconstruction_, factor_penalty_, intercept_scaling_ : float
        The weights used, as given or chosen.
    mean_ : ndarray of shape (d,)
        Subtracted from every row; zeros unless ``center``.
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
    Memory beside a dense X, at most: ``48*(n + d)*k`` bytes in fit, ``160*m*k`` in transform, and 24 MB
    (docs/memory.md).

    Cost: one pass over X in each iteration, O(k nnz + k^2 (n + d)), and O(nnz + k (n + d)) memory. Labelled rows are
    read into memory once and solved exactly, each by a dual problem with one variable for each SVM (and, if
    non-negative, for each component). With thousands of labels of many classes this takes most of the time. The
    unlabelled rows of H are a function of B and recomputed in each pass; only with ``nonnegative`` they are stored
    with the rows.

    ``sample_weight`` multiplies every term of a row, the penalty of its embedding too: whole weights are repeated
    rows.

    The embedding of a new row is that of an unlabelled one, :math:`h = (B'B + \tfrac{e}{b} I)^{-1} B'x` or its
    non-negative equivalent. So `transform` of a labelled training row differs from its ``embedding_``.

    With "auto" weights X and c X have the same predictions: in another unit the objective is the same function of
    rescaled factors if a is c times, b 1 / c^2 times and e 1 / c times as large. The singular values are those of the
    initial factors. With ``init`` "random" or given factors, they are replaced by k equal values whose squares add up
    to the squared norm of X.

    The objective is not convex: the result is a stationary point, and depends on the initial values.

    References
    ----------
    H. Fang, M. Cheng, C.-J. Hsieh. A hyperplane-based algorithm for semi-supervised dimension reduction. ICDM 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from labelfold.factorization._drsvm import DRSVM
    >>> X, y = load_digits(return_X_y=True)
    >>> few = y.copy()
    >>> few[100:] = -1                  # labels for the first hundred only
    >>> model = DRSVM(n_components=12, tol=1e-4).fit(X, few)
    >>> model.transform(X).shape
    (1797, 12)
    >>> bool(model.score(X[100:], y[100:]) > 0.8)
    True
    """

    mean_: np.ndarray
    svm_penalty_: float

    _allowed = ("binary", "multiclass", "multilabel")
    _parameter_constraints = {
        **AdditiveFactorisation._parameter_constraints,
        "loss": [StrOptions({"squared_hinge", "hinge"})],
        **constraints("svm_penalty", "reconstruction", "factor_penalty", "intercept_scaling"),
        **constraints("class_weight", "center", "fit_intercept"),
        "nonnegative": ["boolean"],
        "init": [StrOptions({"svd", "random", "nndsvd"}), tuple, list],
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        loss: Literal["squared_hinge", "hinge"] = "squared_hinge",
        svm_penalty: float | Literal["auto"] = "auto",
        reconstruction: float | Literal["auto"] = "auto",
        factor_penalty: float | Literal["auto"] = "auto",
        nonnegative: bool = False,
        fit_intercept: bool = False,
        intercept_scaling: float | Literal["auto"] = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        center: bool = False,
        init: Literal["svd", "random", "nndsvd"] | tuple[Any, Any] | list[Any] = "svd",
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        on_interrupt: Literal["raise", "keep"] = "raise",
        unlabeled: Any = -1,
    ) -> None:
        self.n_components = n_components
        self.loss = loss
        self.svm_penalty = svm_penalty
        self.reconstruction = reconstruction
        self.factor_penalty = factor_penalty
        self.nonnegative = nonnegative
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.center = center
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.on_interrupt = on_interrupt
        self.unlabeled = unlabeled

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Factorise all rows so that SVMs can separate the labelled ones.

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
        self : DRSVM
        """
        rows = self._rows(X, reset=True)
        labels, weights = self._read_weighted(y, sample_weight, rows.shape[0])
        root = None if weights is None else np.sqrt(weights)
        if self.center:
            rows = Centered(rows, rows.mean(weights))
        counted = weighted(rows, root)
        square = check_matrix(counted, nonnegative=self.nonnegative, centred=self.center, estimator="DRSVM")
        start = factor_start(
            counted,
            self.n_components,
            self.init,
            square,
            self.random_state,
            nonnegative=self.nonnegative,
            root=root,
        )
        self._choose_weights(start.sizes, total_weight(weights, rows.shape[0]))
        problem = DRSVMProblem(
            rows=counted,
            index=labels.index,
            T=labels.signs(),
            C=loss_weights(labels, self.class_weight),
            root=None if root is None else root[labels.index, None],
            squared_norm=square,
            svm_penalty=self.svm_penalty_,
            reconstruction=self.reconstruction_,
            factor_penalty=self.factor_penalty_,
            loss=self.loss,
            nonnegative=self.nonnegative,
            fit_intercept=self.fit_intercept,
            intercept_scaling=self.intercept_scaling_,
        )
        found = self._descend(iterates(problem, start, self.tol))
        _warn(found, self)
        self.components_: np.ndarray = np.ascontiguousarray(found.B.T)
        self.embedding_coef_ = found.W
        self.embedding_intercept_ = found.intercept
        self.mean_ = rows.center if self.center and isinstance(rows, Centered) else np.zeros(rows.shape[1])
        self._keep_task(labels.task, labels.classes)
        labelled = labels.index, found.H_labelled
        if self.nonnegative:
            self.embedding_: Any = self._training_embedding(rows, found.H, root, at=labelled)
        else:  # unlabelled rows are a function of B
            H = rows @ projection(found.B, problem.ridge, found.BtB)
            self.embedding_ = rows.result(H, at=labelled)
        self.transduction_: Any = self._transduce(rows, self.embedding_, labels)
        return self

    def _choose_weights(self, sizes: np.ndarray, n: float) -> None:
        """Store the weights, as given or as multiples of the scale of the components.

        The plain hinge needs a smaller penalty, since a labelled row pulls with at most 1 / svm_penalty.
        """
        scale = component_scale(sizes, n)
        self.svm_penalty_ = chosen(self.svm_penalty, (0.1 if self.loss == "hinge" else 1.0) * scale.length)
        self.reconstruction_: float = chosen(self.reconstruction, 100.0 / scale.variance)
        bound = 0.01 * scale.size
        self.factor_penalty_: float = chosen(self.factor_penalty, self.reconstruction_ * bound)
        self.intercept_scaling_: float = chosen(self.intercept_scaling, np.sqrt(scale.length))

    def _embed(self, rows: Rows) -> Any:
        if self.center:
            rows = Centered(rows, self.mean_)
        B, ridge = self.components_.T, self.factor_penalty_ / self.reconstruction_
        if not self.nonnegative:
            return rows @ projection(B, ridge)
        # As an argument of `partial` the matrix stays in float64 when it is passed to blocks.
        solve = partial(nonnegative_least_squares, Q=B.T @ B + ridge * np.eye(B.shape[1]))
        return rows.map(_embed, shared=(B, solve))

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return the reconstruction of rows from their embedding H, which is H B' plus the mean.

        Parameters
        ----------
        X : array of shape (n, k)
            The embedding of rows.

        Returns
        -------
        rows : ndarray of shape (n, d)
        """
        rows = super().inverse_transform(X)
        return (rows + self.mean_).astype(rows.dtype, copy=False)

    def _scores_of(self, H: np.ndarray) -> np.ndarray:
        return H @ self.embedding_coef_.T + self.embedding_intercept_

    def _linear_map(self) -> tuple[np.ndarray, np.ndarray]:
        if self.nonnegative:
            raise AttributeError(
                "the columns of X have no weights in the score of a non-negative embedding, which is not linear in "
                "X; use nonnegative=False, or embedding_coef_"
            )
        return projection(self.components_.T, self.factor_penalty_ / self.reconstruction_).T, self.mean_

    def __sklearn_tags__(self) -> Any:
        """Declare whether X must be non-negative."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.nonnegative
        return tags


def _warn(found: DRSVMState, model: DRSVM) -> None:
    """Warn about limits that the solution reached, and about components that vanished."""
    if found.gap > max(found.svm_tol, 1e-4):
        warn_user(
            f"the support vector machines of DRSVM have not settled, their relative duality gap being "
            f"{found.gap:.1e}; raise svm_penalty, or scale X",
            ConvergenceWarning,
        )
    ridge = model.factor_penalty_ / model.reconstruction_
    if shrunk_away(found.B, ridge):
        warn_user(
            f"factor_penalty={model.factor_penalty_:g} has shrunk the components away, the singular values of X "
            f"being below factor_penalty / reconstruction = {ridge:g}; lower it",
            UserWarning,
        )


@dataclass(frozen=True, eq=False)
class DRSVMProblem:
    """The data, the labels and the weights of the terms, which do not change."""

    rows: Rows  # n x d, times the square roots of the weights of the rows
    index: np.ndarray  # (l,)    labelled rows
    T: np.ndarray  # (l, r)  signs
    C: np.ndarray  # (l, r)  weights of the losses
    squared_norm: float  # ||X||^2
    svm_penalty: float  # a
    reconstruction: float  # b
    factor_penalty: float  # e
    loss: str
    nonnegative: bool
    fit_intercept: bool
    intercept_scaling: float  # constant feature of the SVMs
    root: np.ndarray | None = None  # (l, 1)  square roots of the weights of the labelled rows

    @property
    def ridge(self) -> float:
        """Return e / b, which is added to the diagonal of B'B and H'H."""
        return self.factor_penalty / self.reconstruction

    def to_rows(self, H: np.ndarray) -> np.ndarray:
        """Return factors of labelled rows, as those of the rows times the roots of their weights."""
        return H if self.root is None else self.root * H

    def of_rows(self, H: np.ndarray) -> np.ndarray:
        """Return the factors of labelled rows from those of the rows times the roots of their weights."""
        return H if self.root is None else H / self.root

    def svm_objectives(self, H: np.ndarray, W: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Return the objective of each SVM, (r,): its losses and a / 2 times its squared weights."""
        squares = (W * W).sum(axis=1) + (intercept / self.intercept_scaling) ** 2
        losses = self.C * hinge_losses(self.T * (H @ W.T + intercept), self.loss)
        return losses.sum(axis=0) + 0.5 * self.svm_penalty * squares


@dataclass(frozen=True, eq=False)
class DRSVMState:
    """State after an iteration: factors, SVMs, and warm starts of the next iteration."""

    B: np.ndarray  # (d, k)
    BtB: np.ndarray  # (k, k)
    H_labelled: np.ndarray  # (l, k)
    H: Any  # (n, k)  stored with the rows; only if it is not a function of B
    W: np.ndarray  # (r, k)
    intercept: np.ndarray  # (r,)
    alpha: np.ndarray | None = None  # (l, r)  dual variables of the SVMs
    dual: np.ndarray | None = None  # dual variables of the labelled rows
    gap: float = 0.0  # largest duality gap of the SVMs
    svm_tol: float = 0.0


def iterates(problem: DRSVMProblem, start: InitialFactors, tol: float) -> Iterates:
    """Alternate the four steps; the tolerance of the SVMs follows from ``tol``."""
    rows, index = problem.rows, problem.index
    n, k = rows.shape[0], start.B.shape[1]
    everything = len(index) == n
    check_fits(rows, "DRSVM", "use LDA or LabelFold, or fewer labels", n_rows=len(index))
    labelled = rows if everything and rows.in_memory else rows.subset(index)  # l x d
    mask = None if everything else rows.spread(index, np.zeros(len(index), dtype=rows.dtype), 1)

    svm_tol = float(np.clip(tol, 1e-12, 1e-6))
    H_labelled = problem.of_rows(rows.pick(start.H, index).astype(np.float64))
    HtH, XtH = rows.sum(factor_sums, start.H)
    r = problem.T.shape[1]
    W, intercept = np.zeros((r, k)), np.zeros(r)
    model = DRSVMState(start.B, start.B.T @ start.B, H_labelled, start.H, W, intercept, svm_tol=svm_tol)
    model = _train_svms(problem, model)
    rose = False
    while not rose:
        model = _update_basis(problem, model, XtH, HtH)
        H, XtH, HtH = _update_unlabelled(problem, model, mask)
        model = _update_labelled(problem, replace(model, H=H), labelled)
        H_labelled = problem.to_rows(model.H_labelled)
        XtH_labelled = labelled.sum(_transposed, H_labelled)
        XtH_labelled += XtH  # in place: it is large
        XtH, HtH = XtH_labelled, HtH + H_labelled.T @ H_labelled
        model = _train_svms(problem, model)
        rose = yield model, _objective_of_sums(problem, model, XtH, HtH)


def objective(
    X: Any,
    H: np.ndarray,
    B: np.ndarray,
    W: np.ndarray,
    T: np.ndarray,
    index: np.ndarray,
    *,
    C: Any = 1.0,
    intercept: Any = 0.0,
    loss: str = "squared_hinge",
    svm_penalty: float = 1.0,
    reconstruction: float = 1.0,
    factor_penalty: float = 1.0,
    intercept_scaling: float = 1.0,
) -> float:
    """Return the objective of DRSVM (eq. IV.2), in one pass over X.

    Parameters
    ----------
    X : container of shape (n, d)
        Rows, less their mean if the model was centred.
    H, B, W : ndarray of shapes (n, k), (d, k), (r, k)
        Embedding, basis and SVMs.
    T : ndarray of shape (l, r)
        Signs of the labelled rows, -1 or +1.
    index : ndarray of shape (l,)
        Indices of the labelled rows.
    C : float or ndarray of shape (l, r)
        Weights of the losses.
    intercept : float or ndarray of shape (r,)
        Intercepts of the SVMs.
    loss, svm_penalty, reconstruction, factor_penalty, intercept_scaling
        As in `DRSVM`.

    Returns
    -------
    f : float
    """
    losses = hinge_losses(T * (H[index] @ W.T + intercept), loss)
    norm = (W * W).sum() + ((np.broadcast_to(intercept, len(W)) / intercept_scaling) ** 2).sum()
    misfit = squared_misfit(X, H, B)
    size = (B * B).sum() + (H * H).sum()
    f = (C * losses).sum() + 0.5 * (svm_penalty * norm + reconstruction * misfit + factor_penalty * size)
    return float(f)


def projection(B: np.ndarray, ridge: float, BtB: np.ndarray | None = None) -> np.ndarray:
    """Return G = B (B'B + (e/b) I)^(-1), (d, k): an unlabelled row x has h = G'x."""
    return as_rows(B) @ _ridge_inverse(B.T @ B if BtB is None else BtB, ridge)


def _update_basis(problem: DRSVMProblem, model: DRSVMState, XtH: np.ndarray, HtH: np.ndarray) -> DRSVMState:
    """Return the model with B given H: exactly, or after rounds of HALS (eq. IV.6).

    The columns of X are processed like rows, in blocks and threads.
    """
    columns, dtype = as_rows(XtH), problem.rows.dtype
    if problem.nonnegative:
        M = HtH + problem.ridge * np.eye(len(HtH))
        B, BtB = columns.sweep(_hals_basis, model.B, shared=(M, dtype))
    else:
        B, BtB = columns.sweep(_exact_basis, shared=(_ridge_inverse(HtH, problem.ridge), dtype))
    return replace(model, B=B, BtB=BtB)


def _update_unlabelled(problem: DRSVMProblem, model: DRSVMState, mask: Any) -> tuple[Any, Any, Any]:
    """Return H for unlabelled rows if it is stored, and their X'H and H'H: the pass over X (eq. IV.8)."""
    B, BtB, rows = model.B, model.BtB, problem.rows
    if mask is None:
        return model.H, 0.0, 0.0
    if not problem.nonnegative:
        HtH, XtH = rows.sum(_unlabelled_sums, mask, shared=(projection(B, problem.ridge, BtB),))
        return None, XtH, HtH
    M = BtB + problem.ridge * np.eye(B.shape[1])
    H, (HtH, XtH) = rows.sweep(_update_nonnegative, model.H, mask, shared=(B, M))
    return H, XtH, HtH


def _update_labelled(problem: DRSVMProblem, model: DRSVMState, labelled: Rows) -> DRSVMState:
    """Return the model with the labelled rows of H at their minimum, given B and W."""
    b, B, old = problem.reconstruction, model.B, model.H_labelled
    P = b * problem.of_rows(labelled.get(labelled.map(_product, shared=(B,))))
    Q = b * model.BtB + problem.factor_penalty * np.eye(B.shape[1])
    # The terms of a row are divided by its weight.
    terms = (P, Q, model.W, problem.T, problem.of_rows(problem.of_rows(problem.C)))
    options: dict[str, Any] = {"intercept": model.intercept, "loss": problem.loss}
    H, dual = hinge_rows(*terms, **options, nonnegative=problem.nonnegative, dual=model.dual)
    # An iterative solution may lack the last digits; a row that was better keeps its previous embedding.
    worse = hinge_row_objectives(H, *terms, **options) > hinge_row_objectives(old, *terms, **options)
    return replace(model, H_labelled=np.where(worse[:, None], old, H), dual=dual)


def _train_svms(problem: DRSVMProblem, model: DRSVMState) -> DRSVMState:
    """Return the model with W trained on the labelled rows of H; an SVM that would get worse stays unchanged."""
    H, old = model.H_labelled, (model.W, model.intercept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = linear_svm(
            H,
            problem.T,
            problem.C / problem.svm_penalty,
            loss=problem.loss,
            fit_intercept=problem.fit_intercept,
            intercept_scaling=problem.intercept_scaling,
            alpha=model.alpha,
            tol=model.svm_tol,
        )
    worse = problem.svm_objectives(H, found.w, found.intercept) > problem.svm_objectives(H, *old)
    W, intercept = np.where(worse[:, None], old[0], found.w), np.where(worse, old[1], found.intercept)
    return replace(model, W=W, intercept=intercept, alpha=found.alpha, gap=found.gap)


def _objective_of_sums(problem: DRSVMProblem, model: DRSVMState, XtH: np.ndarray, HtH: np.ndarray) -> float:
    """Return the objective, from the sums of the pass."""
    misfit = problem.squared_norm - 2 * np.vdot(model.B, XtH) + (model.BtB * HtH).sum()
    svms = problem.svm_objectives(model.H_labelled, model.W, model.intercept).sum()
    squares = np.trace(model.BtB) + np.trace(HtH)
    return float(svms + 0.5 * (problem.reconstruction * misfit + problem.factor_penalty * squares))


def _ridge_inverse(gram: np.ndarray, ridge: float) -> np.ndarray:
    """Return (gram + ridge I)^(-1), even if the ridge is lost in the round-off of a singular gram."""
    values, vectors = np.linalg.eigh(gram)
    floor = len(gram) * np.finfo(np.float64).eps * values[-1]
    return vectors / (np.maximum(values, floor) + ridge) @ vectors.T


def _exact_basis(XtH: Block, inverse: Any, dtype: Any) -> tuple[Any, Any]:
    return _rounded(XtH @ inverse, dtype)


def _hals_basis(XtH: Block, B: Any, M: Any, dtype: Any) -> tuple[Any, Any]:
    return _rounded(hals(B, XtH.raw, M), dtype)


def _rounded(B: np.ndarray, dtype: Any) -> tuple[Any, Any]:
    """Return B rounded to the dtype of X, as used in passes, so that the objective refers to it, and B'B."""
    B = B.astype(dtype, copy=False).astype(np.float64, copy=False)
    return B, B.T @ B


def _product(X: Block, B: Any) -> Any:
    return X.double() @ B


def _transposed(X: Block, H: Any) -> Any:
    return X.double().t(H)


def _unlabelled_sums(X: Block, mask: Any, G: Any) -> tuple[Any, Any]:
    return X.projected_sums(G, mask)


def _update_nonnegative(X: Block, H: Any, mask: Any, B: Any, M: Any) -> tuple[Any, Any]:
    # The compiled loop of `hals` takes arrays in host memory.
    update = hals_by_columns if X.kind == "device" else hals
    H = update(H, X @ B, M) * mask[:, None]
    return H, factor_sums(X, H)


def _embed(X: Block, B: Any, solve: Callable[[Any], Any]) -> Any:
    return solve(X @ B)
