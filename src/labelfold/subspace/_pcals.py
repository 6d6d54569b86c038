"""PCALS: a subspace and a linear function on it, one direction at a time (Zhang, Hou, Xiang & Liu, ECML PKDD 2009).

The code is in these files:

    fit                        _nested_subspace.py, class NestedSubspace
    directions, one at a time  _pursuit.py; the search for one: _direction_search.py
    sums over the rows         _source.py
    predict                    _nested_predictions.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelfold.labels import Labels
from labelfold.numerics import MAX_GRAM_BYTES
from labelfold.rows import Block, Rows, as_rows
from labelfold.subspace._nested import CANDIDATES, REPEATS, NestedSubspace
from labelfold.subspace._source import Source


class PCALS(NestedSubspace):
    r"""PCA-based least squares: a subspace that approximates the rows and predicts the labels, and a function on it.

    Directions are found one at a time. Each one lowers as much as possible

    .. math:: \|Y - X_L W A\|^2 + \lambda \|X - X W W'\|^2, \qquad W'W = I.

    With residual rows R (of which Z are the labelled ones) and residual responses r, it is the global maximum of

    .. math:: J(w) = \frac{\|r'Zw\|^2}{\|Zw\|^2} + \lambda \frac{\|Rw\|^2}{\|w\|^2}.

    The directions are nested: the first p of a model are the model with p components. Two classes are one response of
    -1 and +1; several classes, or the labels of a multi-label Y, are one response each; numbers are the responses
    themselves.

    ====================  ==============  ================================================================
    here                  in the paper    what it is
    ====================  ==============  ================================================================
    X (n, d)              X (d, n)        the rows, less their mean with ``center``
    Y (l, q)              Y               responses of the labelled rows, less their mean with ``center``
    W (d, k)              W               ``components_.T``
    A (k, q)              alpha           ``coef_.T``
    reconstruction        lambda          weight of the rows relative to the labels
    r, R                  r, R            residuals of Y and X after the directions so far
    ====================  ==============  ================================================================

    Parameters
    ----------
    n_components : int or "cv", default=2
        Number k of directions; "cv" chooses among ``candidates`` by cross-validation. The score is the logarithmic
        loss of classes or labels, and R^2 of numbers.
    reconstruction : float or "auto", default="auto"
        Weight of the reconstruction error of the rows, relative to the squared error of the labels. If it is large,
        the subspace is that of PCA. If it is small, the first direction is that of least squares; if several
        directions fit exactly, it is the one along which rows vary most. "auto" suits any unit of X and any number of
        rows: a direction of average variance has the weight of 100 labelled rows,
        :math:`100 (\|Y\|^2 / l) / (\|X\|^2 / m)` with m = min(n, d), including constant columns.
    center : bool, default=True
        Whether to subtract the mean from rows and responses; the latter is then the intercept. A sparse X stays
        sparse.
    refit : bool, default=False
        Whether to refit all coefficients jointly when the directions are known. With a large ``reconstruction`` the
        result is PCA followed by least squares.
    ridge : float, default=0.0
        Added to the diagonal, for a sum over the labelled rows, when coefficients are refitted; without ``refit`` it
        has no effect.
    task : {"auto", "classification", "regression"}, default="auto"
        "auto" reads floats with fractions as numbers to predict, everything else as classes or labels.
    candidates : int or sequence of int, default=32
        Numbers of directions for "cv". An integer m stands for 1, 2, ..., m.
    cv : int, default=5
        Number of folds of the labelled rows; fewer if there are fewer rows (for numbers, fewer than twice as many).
        Held-out rows stay in training as unlabelled rows. Directions are nested, so a fold costs one fit.
    repeats : int, default=3
        Number of draws of the folds for up to 200 labelled rows; one for more.
    one_standard_error : bool, default=False
        Whether "cv" chooses the smallest number within one standard error of the best score, instead of the best.
    tol : float, default=1e-8
        Tolerance of the steps towards a direction, beyond 512 columns: the norm of J's gradient, relative to J. The
        relative error of J is then about the square of that. Above 2e-7 it is also the tolerance of the proof of a
        maximum.
    max_iter : int, default=200
        Largest number of such steps for a direction.
    max_gram_bytes : int, default=512 MB
        Largest size of a d x d matrix, and of the labelled rows in memory; if there are more, "cv" draws a sample.
    random_state : int, RandomState instance or None, default=0
        Seed of the folds, of the sample, and of the random start vectors of the search.
    verbose : int, default=0
        1 shows a progress bar over the directions.
    on_interrupt : {"raise", "keep"}, default="raise"
        Whether Ctrl-C raises KeyboardInterrupt, or keeps the directions found so far, if there are any, with a
        warning.
    unlabeled : int, str or None, default=-1
        The value in y that marks a row as unlabelled; missing values (None, NaN, pandas.NA) always do. In
        regression only they do.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The directions W', orthonormal. Fewer than requested if X has a smaller rank.
    coef_ : ndarray of shape (q, k)
        Coefficients of the function on the embedding, A'.
    intercept_ : ndarray of shape (q,)
        Intercepts of the function.
    coef_path_, intercept_path_ : ndarray of shape (k, q, k), (k, q)
        Both with 1, 2 ... k components: ``coef_path_[p - 1, :, :p]``.
    gains_ : ndarray of shape (k,)
        The decrease of the objective by each direction, J(w).
    objective_ : ndarray of shape (k,)
        The objective with 1, 2 ... k components, with the coefficients of the pursuit; it decreases.
    mean_ : ndarray of shape (d,)
        Subtracted from every row.
    reconstruction_ : float
        The weight in use.
    n_components_ : int
        The number k of directions.
    cv_results_ : dict
        With "cv": ``n_components``, ``scores`` (one row for each fold; the negative loss, or R^2), ``mean_score``,
        ``standard_error``, ``chosen``.
    task_ : str
        "binary", "multiclass", "multilabel" or "regression".
    classes_ : ndarray of shape (c,)
        The classes, or label columns; absent in regression.
    n_iter_ : int
        Number of steps of all directions together.
    n_features_in_ : int
        Number of columns of X in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, if X has any.

    Notes
    -----
    Memory beside a dense X, at most: ``32*d*d + 200*(n + d)`` bytes in fit, none in transform, and 24 MB
    (docs/memory.md).

    For dense X of up to 2,048 columns (more if it is slow to read) within ``max_gram_bytes`` there is one pass over X
    in total, :math:`O(n d^2)`, and then a step costs :math:`O(d^2)`; up to 512 columns, :math:`O(d^3)`. The same
    holds for a sparse X with at most 128 entries a row that takes more memory than a d x d matrix. Otherwise there is
    one pass for the mean and one for each step, each with a few vectors, and no d x d matrix. Memory is then that of
    X and :math:`O(m (n + d))` for a small space of at most 96 vectors m. Labelled rows are read once.

    J has local maxima. Up to 512 columns (64 if X is read again for each step) each direction is proved to be the
    global maximum, to a few parts in ten million. With more columns it is the global maximum of a subspace that was
    extended wherever a larger one was possible.

    Each new row is embedded like the training rows, so `transform` of these is their embedding.

    References
    ----------
    Y.-M. Zhang, X. Hou, S. Xiang, C.-L. Liu. Subspace regularization: a new semi-supervised learning method.
    ECML PKDD 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from labelfold import PCALS
    >>> X, y = load_digits(return_X_y=True)
    >>> few = y.copy()
    >>> few[200:] = -1                  # labels for the first two hundred only
    >>> model = PCALS(n_components=16, refit=True).fit(X, few)
    >>> model.transform(X).shape
    (1797, 16)
    >>> bool(model.score(X[200:], y[200:]) > 0.75)
    True
    >>> four = model.predict(X, n_components=4)  # the first four directions are a model, too
    """

    def __init__(
        self,
        n_components: int | Literal["cv"] = 2,
        *,
        reconstruction: float | Literal["auto"] = "auto",
        center: bool = True,
        refit: bool = False,
        ridge: float = 0.0,
        task: Literal["auto", "classification", "regression"] = "auto",
        candidates: int | Sequence[int] | np.ndarray = CANDIDATES,
        cv: int = 5,
        repeats: int = REPEATS,
        one_standard_error: bool = False,
        tol: float = 1e-8,
        max_iter: int = 200,
        max_gram_bytes: int = MAX_GRAM_BYTES,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        on_interrupt: Literal["raise", "keep"] = "raise",
        unlabeled: Any = -1,
    ) -> None:
        self.n_components = n_components
        self.reconstruction = reconstruction
        self.center = center
        self.refit = refit
        self.ridge = ridge
        self.task = task
        self.candidates = candidates
        self.cv = cv
        self.repeats = repeats
        self.one_standard_error = one_standard_error
        self.tol = tol
        self.max_iter = max_iter
        self.max_gram_bytes = max_gram_bytes
        self.random_state = random_state
        self.verbose = verbose
        self.on_interrupt = on_interrupt
        self.unlabeled = unlabeled

    def _sources(self, rows: Rows, labels: Labels, Y: np.ndarray) -> Iterator[Source]:
        yield Source(
            rows,
            labels,
            Y,
            center=self.center,
            max_gram_bytes=self.max_gram_bytes,
            random_state=self._seed,
        )

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """Return the reconstruction of rows from their coordinates in the subspace.

        Parameters
        ----------
        Z : array of shape (n, p)
            Results of `transform`, for all directions or the first p.

        Returns
        -------
        X : ndarray of shape (n, d)
        """
        check_is_fitted(self)
        Z = np.asarray(as_rows(Z).whole().dense())
        if Z.shape[1] > len(self.components_):
            raise ValueError(
                f"Z has {Z.shape[1]} columns, where at most {len(self.components_)} are expected; pass what "
                "transform returns"
            )
        return (Z @ self.components_[: Z.shape[1]] + self.mean_).astype(Z.dtype, copy=False)


def objective(
    X: Any, W: np.ndarray, A: np.ndarray, Y: np.ndarray, index: np.ndarray, *, reconstruction: float = 1.0
) -> float:
    """Return the objective of PCALS (eq. 2), in one pass over X.

    Parameters
    ----------
    X : container of shape (n, d)
        Rows, less their mean if the model was centred.
    W : ndarray of shape (d, k)
        Orthonormal directions.
    A : ndarray of shape (k, q)
        Coefficients.
    Y : ndarray of shape (l, q)
        Responses of the labelled rows, centred in the same way.
    index : ndarray of shape (l,)
        Indices of the labelled rows.
    reconstruction : float
        As in `PCALS`.

    Returns
    -------
    f : float
    """
    rows = as_rows(X)
    Z, lost = rows.sweep(_scores_and_loss, shared=(np.asarray(W),))
    return float(((Y - rows.get(Z)[index] @ A) ** 2).sum() + reconstruction * lost)


def gain(X: Any, w: np.ndarray, r: np.ndarray, index: np.ndarray, *, reconstruction: float = 1.0) -> float:
    """Return J(w), the decrease of the objective by a direction, in one pass over X.

    Parameters
    ----------
    X : container of shape (n, d)
        Residual rows; or rows, if w is orthogonal to the directions before it.
    w : ndarray of shape (d,)
        The direction.
    r : ndarray of shape (l, q)
        Residual responses.
    index : ndarray of shape (l,)
        Indices of the labelled rows.
    reconstruction : float
        As in `PCALS`.

    Returns
    -------
    J : float
    """
    rows = as_rows(X)
    scores = np.asarray(rows.get(rows @ (w / np.linalg.norm(w))), dtype=np.float64)
    z = scores[index]
    fit = float(((r.T @ z) ** 2).sum() / (z @ z)) if z.any() else 0.0
    return fit + reconstruction * float(scores @ scores)


def _scores_and_loss(X: Block, W: Any) -> tuple[Any, Any]:
    X = X.double()
    Z = X @ W
    return Z, X.xp.sum(X.sq()) - X.xp.sum(Z * Z)
