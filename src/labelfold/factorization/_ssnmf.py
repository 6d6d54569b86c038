"""SSNMF: non-negative factors of the rows and of their labels together (Lee, Yoo & Choi, 2010)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from labelfold.base import Decisions, Iterates, constraints, fitting, indicator_scores, repeated
from labelfold.factorization._components import InitialFactors, chosen, squared_misfit, weighted
from labelfold.factorization._squared_nmf import (
    SquaredNMF,
    indicator,
    misfit,
    multiplied,
    rounded,
    row_labels,
    update_basis,
)
from labelfold.labels import Labels, class_weighted
from labelfold.rows import Block, Rows


class SSNMF(Decisions, SquaredNMF):
    r"""Semi-supervised non-negative matrix factorisation: rows and labels from the same embedding.

    It computes non-negative factors of all rows whose embedding also predicts the known labels:

    .. math:: \min_{H, V, A \ge 0} \|X - H V'\|^2 + \lambda \|Y_L - H_L A\|^2

    ======================  ============  ==============================================================
    here                    in the paper  what it is
    ======================  ============  ==============================================================
    X (n, d)                X (d, n)      the rows
    Y_L (l, c)              Y (c, n)      1 if a labelled row belongs to a class, or has a label
    H (n, k)                S             ``embedding_``
    V (d, k)                A             ``components_.T``
    A (k, c)                B             ``class_loadings_``
    supervision, lambda     lambda        weight of the labels
    ======================  ============  ==============================================================

    Parameters
    ----------
    n_components : int, default=10
        Number of components k. It may exceed the number of rows or columns of X, with a warning.
    supervision : float or "auto", default="auto"
        Weight of the labels. 0 is unsupervised factorisation. The two terms start at about :math:`\|X\|^2` and
        :math:`\lambda \|Y_L\|^2`; with "auto" the second is 0.3 of the first, in any unit of X.
    class_weight : dict or "balanced", default=None
        Weight of a row's label term by its class. With "balanced" all classes have the same total. For a multi-label
        Y a row has the product of the weights of its labels.
    init : {"random", "nndsvda"} or tuple (H, V), default="random"
        Initial values: random, from singular vectors with zeros replaced, or given. Multiplicative updates never
        change an exact zero.
    max_iter : int, default=200
        Largest number of iterations; each reads X once.
    tol : float, default=1e-4
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
        The parts, V'.
    embedding_ : ndarray of shape (n, k)
        The embedding of the training rows. For labelled rows it depends on their labels.
    class_loadings_ : ndarray of shape (k, c)
        The weight of each class or label in each component.
    supervision_ : float
        The weight of the labels, as given or chosen.
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
    Memory beside a dense X, at most: ``48*(n + d)*k`` bytes in fit, ``160*m*k`` in transform, and 24 MB
    (docs/memory.md).

    With more components than X has rows or columns, the coordinates of a row are not unique. They may differ between
    a row alone and the same row in a batch, but give the same reconstruction.

    Cost: one pass over X in each iteration, O(k nnz + k^2 (n + d)), and O(nnz + k (n + d)) memory. An iteration makes
    a few multiplicative updates of H with the products X V of a block, and as many of V and A from the sums X'H, H'H,
    H_L'Y_L and H_L'H_L.

    The embedding of a new row is its non-negative least-squares fit by the components. So `transform` of a labelled
    training row differs from its ``embedding_``, in particular if ``supervision`` is large. The largest entry of h'A
    is predicted (for label columns: those above a half). A classifier trained on ``transform(X)`` of the labelled
    rows is often better.

    ``sample_weight`` multiplies both terms of a row: whole weights are repeated rows. Where random initial values
    depend on the rows, this holds in the mean over seeds.

    References
    ----------
    H. Lee, J. Yoo, S. Choi. Semi-supervised nonnegative matrix factorization. IEEE Signal Processing Letters 17(1),
    2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from labelfold.factorization._ssnmf import SSNMF
    >>> X, y = load_digits(return_X_y=True)
    >>> few = y.copy()
    >>> few[300:] = -1                  # labels for the first three hundred only
    >>> model = SSNMF(n_components=20, max_iter=100, tol=1e-3).fit(X, few)
    >>> model.transform(X).shape, model.class_loadings_.shape
    ((1797, 20), (20, 10))
    >>> bool((model.objective_[1:] <= model.objective_[:-1]).all())
    True
    """

    _allowed = ("binary", "multiclass", "multilabel")
    _parameter_constraints = {
        **SquaredNMF._parameter_constraints,
        **constraints("supervision", "class_weight"),
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        supervision: float | Literal["auto"] = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        init: Literal["random", "nndsvda"] | tuple[Any, Any] | list[Any] = "random",
        max_iter: int = 200,
        tol: float = 1e-4,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        on_interrupt: Literal["raise", "keep"] = "raise",
        unlabeled: Any = -1,
    ) -> None:
        self.n_components = n_components
        self.supervision = supervision
        self.class_weight = class_weight
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.on_interrupt = on_interrupt
        self.unlabeled = unlabeled

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Factorise all rows together with the labels.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows without negative entries, labelled or not, in any container that `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,), or (n, c) for multi-label
            Classes; ``unlabeled`` or a missing value for unlabelled rows.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.

        Returns
        -------
        self : SSNMF
        """
        rows = self._rows(X, reset=True)
        labels, weights = self._read_weighted(y, sample_weight, rows.shape[0])
        root = None if weights is None else np.sqrt(weights)
        counted = weighted(rows, root)
        square, start = self._start(counted, root)
        losses = class_weighted(labels, self.class_weight)
        self.supervision_: float = chosen(self.supervision, 0.3 * square / (_squared_norm(losses) or 1.0))
        found = self._descend(iterates(counted, labels, start, square, self.supervision_, losses.weights))
        self.components_: np.ndarray = np.ascontiguousarray(found.V.T)
        self.class_loadings_: np.ndarray = found.A
        self.embedding_: Any = self._training_embedding(rows, found.H, root)
        self._keep_task(labels.task, labels.classes)
        self.transduction_: Any = self._transduce(rows, self.embedding_, labels)
        return self

    def _scores_of(self, H: np.ndarray) -> np.ndarray:
        return indicator_scores(H @ self.class_loadings_, self.task_)

    def __sklearn_tags__(self) -> Any:
        """Declare a poor score: non-negative weights without an intercept cannot separate all separable classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


def objective(
    X: Any,
    H: np.ndarray,
    V: np.ndarray,
    A: np.ndarray,
    Y: np.ndarray,
    index: np.ndarray,
    *,
    supervision: float = 1.0,
) -> float:
    """Return the objective of SSNMF (eq. 18 of Cho and Saul, 2011), in one pass over X.

    Parameters
    ----------
    X : container of shape (n, d)
        Rows.
    H, V, A : ndarray of shapes (n, k), (d, k), (k, c)
        The factors and class loadings.
    Y : ndarray of shape (l, c)
        0/1 labels of the labelled rows.
    index : ndarray of shape (l,)
        Indices of the labelled rows.
    supervision : float
        As in `SSNMF`.

    Returns
    -------
    f : float
    """
    return squared_misfit(X, H, V) + supervision * float(((Y - H[index] @ A) ** 2).sum())


class SSNMFFactors(NamedTuple):
    """The factors after an iteration."""

    H: Any  # (n, k)  stored with the rows
    V: np.ndarray  # (d, k)
    A: np.ndarray  # (k, c)


def iterates(
    rows: Rows,
    labels: Labels,
    start: InitialFactors,
    square: float,
    supervision: float,
    losses: np.ndarray | None = None,
) -> Iterates:
    """Update H, V and A in turn, in one pass over X in each iteration; ``square`` is the squared norm of X.

    With weights w, rows and H are multiplied by their roots. ``losses`` (l,) are the weights of the label terms.
    """
    codes, T = np.arange(labels.n_classes, dtype=np.float64), row_labels(rows, labels)
    squared_labels = _squared_norm(replace(labels, weights=losses))
    root = 1.0 if labels.weights is None else np.sqrt(labels.weights)
    update: Callable[..., Any] = _update_rows
    of_rows: tuple[Any, ...] = (T,)
    if losses is not None:
        # ||Y - H A||^2 of these rows has the weight m = losses / w; m times Y is losses / sqrt(w).
        both = np.column_stack([losses / root, np.sqrt(losses) / root]).astype(rows.dtype)
        update, of_rows = _update_weighted_rows, (T, rows.spread(labels.index, both))

    def step(old: SSNMFFactors) -> tuple[SSNMFFactors, float]:
        shared = (old.V, old.V.T @ old.V, old.A, codes, supervision)
        H, (HtH, XtH, HlHl, HlY) = rows.sweep(update, old.H, *of_rows, shared=shared)
        V = update_basis(old.V, XtH, HtH, rows.dtype)
        A = rounded(multiplied(old.A, HlY, lambda A: HlHl @ A), rows.dtype)
        label_misfit = float(squared_labels - 2 * (A * HlY).sum() + ((A @ A.T) * HlHl).sum())
        return SSNMFFactors(H, V, A), misfit(square, V, XtH, HtH) + supervision * label_misfit

    # With the initial A labelled rows belong to all classes equally.
    sums = rows.pick(start.H, labels.index).astype(np.float64).sum(axis=1)
    mean_sum = np.average(sums / root, weights=labels.weights)
    weight = 1.0 / (labels.n_classes * mean_sum) if mean_sum > 0 else 1.0
    A = np.full((start.B.shape[1], labels.n_classes), weight)
    return repeated(step, SSNMFFactors(start.H, start.B, A))


def _update_rows(
    X: Block, H: Any, T: Any, V: Any, VtV: Any, A: Any, codes: Any, lam: float
) -> tuple[Any, Any]:
    """Return H after its updates, H * (X V + lam Y A') / (H V'V + lam H_L A A'), and H'H, X'H, H_L'H_L, H_L'Y."""
    Y, labelled = indicator(T, codes)
    return _updated(X, H, Y, labelled, labelled, V, VtV, A, lam)


def _update_weighted_rows(
    X: Block, H: Any, T: Any, weights: Any, V: Any, VtV: Any, A: Any, codes: Any, lam: float
) -> tuple[Any, Any]:
    """Return the same; ``weights`` are those of Y, and the roots of those of H_L, 0 for unlabelled rows."""
    Y, _ = indicator(T, codes)
    root = weights[:, 1:]
    return _updated(X, H, Y * weights[:, :1], root * root, root, V, VtV, A, lam)


def _updated(
    X: Block, H: Any, Y: Any, weight: Any, root: Any, V: Any, VtV: Any, A: Any, lam: float
) -> tuple[Any, Any]:
    AAt = A @ A.T

    def denominator(H: Any) -> Any:
        return H @ VtV + lam * weight * (H @ AAt)

    H = multiplied(H, X @ V + lam * (Y @ A.T), denominator)
    return H, (X.inner(H), X.double().t(H), X.inner(H * root), X.inner(H, Y))


def _squared_norm(labels: Labels) -> float:
    """Return ||Y_L||^2, the number of ones in Y_L, or their weight."""
    return float(labels.class_totals().sum())
