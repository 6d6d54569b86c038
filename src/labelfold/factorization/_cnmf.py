"""CNMF: non-negative factors in which labelled rows of a class have the same embedding (Liu & Wu, 2010)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

import numpy as np

from labelfold.base import Iterates, fitting, repeated
from labelfold.factorization._components import InitialFactors, factor_sums, squared_misfit, weighted
from labelfold.factorization._squared_nmf import (
    SquaredNMF,
    indicator,
    misfit,
    multiplied,
    rounded,
    row_labels,
    update_basis,
)
from labelfold.labels import Labels
from labelfold.rows import Block, Rows


class CNMF(SquaredNMF):
    r"""Constrained non-negative matrix factorisation: labelled rows of one class have the same embedding.

    .. math:: \min_{H, V \ge 0} \|X - H V'\|^2 \quad \text{with} \quad H_L = Y_L Q

    There is no weight to choose. A row with several labels has the sum of their embeddings; a labelled row without
    any label is at the origin.

    ===========  ===============  ==============================================================
    here         in the paper     what it is
    ===========  ===============  ==============================================================
    X (n, d)     X (d, n)         the rows
    Y_L (l, c)   C                1 if a labelled row belongs to a class, or has a label
    H (n, k)     A Z              ``embedding_``
    V (d, k)     U                ``components_.T``
    Q (c, k)     first c of Z     ``class_embedding_``
    ===========  ===============  ==============================================================

    Parameters
    ----------
    n_components : int, default=10
        Number of components k. It may exceed the number of rows or columns of X, with a warning.
    init : {"random", "nndsvda"} or tuple (H, V), default="random"
        Initial values: random, from singular vectors with zeros replaced, or given. A class starts from the mean of
        its rows of H. Multiplicative updates never change an exact zero.
    max_iter : int, default=200
        Largest number of iterations; each reads X once, or not at all if every row is labelled.
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
        The embedding of the training rows. Labelled rows have the embedding of their class.
    class_embedding_ : ndarray of shape (c, k)
        The embedding of each class or label.
    objective_ : ndarray of shape (n_iter_,)
        The objective after each iteration; it never rises.
    classes_ : ndarray of shape (c,)
        The class values; for multi-label the label columns.
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

    Cost: one pass over X in each iteration, O(k nnz + k^2 (n + d)), and O(nnz + k (n + d) + c d) memory. Of the
    labelled rows only the sums by class, :math:`Y_L'X_L`, are needed, and computed once. An iteration makes a few
    multiplicative updates of H with the products X V of a block, and as many of Q and V.

    The embedding of a new row is its non-negative least-squares fit by the components. So `transform` of a labelled
    training row is not the embedding of its class. Train a classifier on ``transform(X)``, not on ``embedding_``.

    ``sample_weight`` multiplies the term of a row: whole weights are repeated rows. Where random initial values
    depend on the rows, this holds in the mean over seeds.

    References
    ----------
    H. Liu, Z. Wu. Non-negative matrix factorization with constraints. AAAI 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from labelfold.factorization._cnmf import CNMF
    >>> X, y = load_digits(return_X_y=True)
    >>> few = y.copy()
    >>> few[300:] = -1                  # labels for the first three hundred only
    >>> model = CNMF(n_components=20, max_iter=100, tol=1e-3).fit(X / 16, few)
    >>> model.transform(X / 16).shape
    (1797, 20)
    >>> bool((model.embedding_[:300] == model.class_embedding_[y[:300]]).all())
    True
    """

    _allowed = ("binary", "multiclass", "multilabel")

    def __init__(
        self,
        n_components: int = 10,
        *,
        init: Literal["random", "nndsvda"] | tuple[Any, Any] | list[Any] = "random",
        max_iter: int = 200,
        tol: float = 1e-4,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        on_interrupt: Literal["raise", "keep"] = "raise",
        unlabeled: Any = -1,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.on_interrupt = on_interrupt
        self.unlabeled = unlabeled

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Factorise all rows; labelled rows of a class have the same embedding.

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
        self : CNMF
        """
        rows = self._rows(X, reset=True)
        labels, weights = self._read_weighted(y, sample_weight, rows.shape[0])
        root = None if weights is None else np.sqrt(weights)
        counted = weighted(rows, root)
        square, start = self._start(counted, root)
        found = self._descend(iterates(counted, labels, start, square))
        self.components_: np.ndarray = np.ascontiguousarray(found.V.T)
        self.class_embedding_: np.ndarray = found.Q
        self.classes_: np.ndarray = labels.classes
        labelled = labels.index, labels.indicator() @ found.Q
        self.embedding_: Any = self._training_embedding(rows, found.H, root, at=labelled)
        return self


def objective(X: Any, H: np.ndarray, V: np.ndarray) -> float:
    """Return the objective of CNMF (eq. 20 of Cho and Saul, 2011), in one pass; the constraint on H is not checked.

    Parameters
    ----------
    X : container of shape (n, d)
        Rows.
    H, V : ndarray of shapes (n, k), (d, k)
        The factors.

    Returns
    -------
    f : float
    """
    return squared_misfit(X, H, V)


class CNMFFactors(NamedTuple):
    """The factors after an iteration."""

    H: Any  # (n, k)  stored with the rows; 0 for labelled rows
    V: np.ndarray  # (d, k)
    Q: np.ndarray  # (c, k)


def iterates(rows: Rows, labels: Labels, start: InitialFactors, square: float) -> Iterates:
    """Update H and Q, then V, in one pass over X in each iteration; ``square`` is the squared norm of X.

    With weights, rows, H and the rows of Y are multiplied by the roots of the weights.
    """
    Y = labels.indicator()  # (l, c)
    codes = np.arange(labels.n_classes, dtype=np.float64)
    if labels.weights is None:
        XtY = rows.sum(_class_sums, row_labels(rows, labels), shared=(codes,))  # (d, c)
    else:
        root = np.sqrt(labels.weights)
        Y = root[:, None] * Y
        of_row = rows.spread(labels.index, root.astype(rows.dtype))
        XtY = rows.sum(_weighted_class_sums, row_labels(rows, labels), of_row, shared=(codes,))
    YtY = Y.T @ Y
    zeros = np.zeros(labels.n_labelled, dtype=rows.dtype)
    unlabelled = None if labels.all_labelled else rows.spread(labels.index, zeros, 1)

    def step(old: CNMFFactors) -> tuple[CNMFFactors, float]:
        H, V = old.H, old.V
        VtV = V.T @ V
        HtH, XtH = 0.0, 0.0
        if unlabelled is not None:
            H, (HtH, XtH) = rows.sweep(_update_rows, H, unlabelled, shared=(V, VtV))
        Q = rounded(multiplied(old.Q, XtY.T @ V, lambda Q: YtY @ Q @ VtV), rows.dtype)
        HtH, XtH = HtH + Q.T @ YtY @ Q, XtH + XtY @ Q
        V = update_basis(V, XtH, HtH, rows.dtype)
        return CNMFFactors(H, V, Q), misfit(square, V, XtH, HtH)

    # The initial Q: the means of the rows of H by class; for a class without rows, of all labelled rows.
    H, counts = rows.pick(start.H, labels.index).astype(np.float64), labels.class_totals()[:, None]
    mean = H.mean(axis=0) if labels.weights is None else root @ H / labels.total
    Q = np.where(counts > 0, Y.T @ H / np.where(counts > 0, counts, 1), mean)
    return repeated(step, CNMFFactors(start.H, start.B, Q))


def _class_sums(X: Block, T: Any, codes: Any) -> Any:
    return X.double().t(indicator(T, codes)[0])


def _weighted_class_sums(X: Block, T: Any, root: Any, codes: Any) -> Any:
    return X.double().t(indicator(T, codes)[0] * root[:, None])


def _update_rows(X: Block, H: Any, unlabelled: Any, V: Any, VtV: Any) -> tuple[Any, Any]:
    """Return H on unlabelled rows after its updates, H * X V / (H V'V), 0 on the others, and H'H and X'H."""
    H = multiplied(H, X @ V, lambda H: H @ VtV) * unlabelled[:, None]
    return H, factor_sums(X, H)
