"""PCALS: a subspace and a function on it, one direction at a time (Zhang, Hou, Xiang & Liu, ECML PKDD 2009).

Where to find what:

    fit                        _nested_subspace.py, class NestedSubspace
    directions, one at a time  _pursuit.py; the search for one: _direction_search.py
    what is read of the rows   _source.py
    predict                    _nested_predictions.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelfold.labels import Labels
from labelfold.numerics.least_squares._pose import MAX_GRAM_BYTES
from labelfold.rows import Block, Rows, as_rows
from labelfold.subspace._choose_size import CANDIDATES, REPEATS
from labelfold.subspace._nested_subspace import NestedSubspace
from labelfold.subspace._source import Source


class PCALS(NestedSubspace):
    r"""PCA-based least squares: a subspace that keeps the rows and tells the labels, and a function on it.

    Directions are found one at a time. Each is the one that lowers most

    .. math:: \|Y - X_L W A\|^2 + \lambda \|X - X W W'\|^2, \qquad W'W = I,

    which, with residual rows R (of which Z are the labelled ones) and residual responses r, is the global maximum of

    .. math:: J(w) = \frac{\|r'Zw\|^2}{\|Zw\|^2} + \lambda \frac{\|Rw\|^2}{\|w\|^2}.

    The directions are nested: the first p of a model are the model with p components. Two classes are one response of
    -1 and +1; several classes, or the labels of a multi-label Y, one each; numbers are responses themselves.

    ====================  ==============  ================================================================
    here                  in the paper    what it is
    ====================  ==============  ================================================================
    X (n, d)              X (d, n)        the rows, less their mean where ``center``
    Y (l, q)              Y               responses of the labelled rows, less their mean where ``center``
    W (d, k)              W               ``components_.T``
    A (k, q)              alpha           ``coef_.T``
    reconstruction        lambda          weight of the rows beside the labels
    r, R                  r, R            what the directions so far leave of Y and X
    ====================  ==============  ================================================================

    Parameters
    ----------
    n_components : int or "cv", default=2
        How many directions, k; "cv" chooses among ``candidates`` by cross-validation, of classes and labels by the
        logarithmic loss, of numbers by R^2.
    reconstruction : float or "auto", default="auto"
        Weight of what the subspace loses of the rows, beside what the function loses of the labels. Large: the
        subspace of PCA. Small: the first direction is that of least squares; where several fit exactly, of these the
        one along which rows vary most. "auto" suits any unit of X and any number of rows: a
        direction of average variance weighs as much as 100 labelled rows, :math:`100 (\|Y\|^2 / l) / (\|X\|^2 / m)`
        with m = min(n, d), constant columns counted.
    center : bool, default=True
        Whether to take their mean from rows and responses; the latter is then the intercept. A sparse X stays sparse.
    refit : bool, default=False
        Whether to fit all coefficients anew together, once the directions are known. With a large ``reconstruction``
        that is PCA and least squares.
    ridge : float, default=0.0
        Added to the diagonal, beside a sum over the labelled rows, where coefficients are fitted anew; of no effect
        without ``refit``.
    task : {"auto", "classification", "regression"}, default="auto"
        "auto" reads floats with fractions as numbers to predict, everything else as classes or labels.
    candidates : int or sequence of int, default=32
        What "cv" chooses from: 1 to that number, or these numbers.
    cv : int, default=5
        How many folds it makes of the labelled rows, fewer where there are not as many (numbers: not twice as
        many). All rows stay, those held out as unlabelled ones; as directions are nested, a fold costs one fit.
    repeats : int, default=3
        How often "cv" draws the folds, for up to 200 labelled rows; once for more.
    one_standard_error : bool, default=False
        Whether "cv" takes the fewest directions within one standard error of the best score, not the best.
    tol : float, default=1e-8
        Where steps towards a direction end, beyond 512 columns: when J's gradient is at most this, relative to J.
        J is then right to about the square of that. Above 2e-7 it is also how much may be missing of a maximum that
        is proved.
    max_iter : int, default=200
        The most such steps for a direction.
    max_gram_bytes : int, default=512 MB
        The most memory for a matrix of size d x d, and for the labelled rows: of more, "cv" draws some at random.
    random_state : int, RandomState instance or None, default=0
        Seeds the folds, the rows in them, and vectors from which principal directions are learned.
    verbose : int, default=0
        1 shows a progress bar over the directions.
    on_interrupt : {"raise", "keep"}, default="raise"
        What Ctrl-C does: end the fit, or keep the directions found so far, if there are any, with a warning.
    unlabeled : int, str or None, default=-1
        The value in y that marks a row as unlabelled; missing values (None, NaN, pandas.NA) always do. In
        regression only they do.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The directions W', orthonormal. Fewer than asked for where X has a smaller rank.
    coef_ : ndarray of shape (q, k)
        Coefficients of the function on the embedding, A'.
    intercept_ : ndarray of shape (q,)
        Its intercepts.
    coef_path_, intercept_path_ : ndarray of shape (k, q, k), (k, q)
        Both with 1, 2 ... k components: ``coef_path_[p - 1, :, :p]``.
    gains_ : ndarray of shape (k,)
        By how much each direction lowered the objective, J(w).
    objective_ : ndarray of shape (k,)
        The objective with 1, 2 ... k components and coefficients as the pursuit found them; it falls.
    mean_ : ndarray of shape (d,)
        What is taken from every row.
    reconstruction_ : float
        The weight used.
    n_components_ : int
        k.
    cv_results_ : dict
        With "cv": ``n_components``, ``scores`` (a row a fold, higher is better: less the loss, or R^2),
        ``mean_score``, ``standard_error``, ``chosen``.
    task_ : str
        "binary", "multiclass", "multilabel" or "regression".
    classes_ : ndarray of shape (c,)
        Classes, or label columns; not there in regression.
    n_iter_ : int
        Steps of all directions together.
    n_features_in_ : int
        Columns seen in fit.
    feature_names_in_ : ndarray of str
        Their names, where X had any.

    Notes
    -----
    Memory beside a dense X, at most: ``32*d*d + 200*(n + d)`` bytes in fit, none in transform, and 24 MB
    (docs/memory.md).

    Dense X of up to 2,048 columns (more where it is slow to read) that fit ``max_gram_bytes``: one pass over X in
    all, :math:`O(n d^2)`, after which a step costs :math:`O(d^2)`; up to 512 columns, :math:`O(d^3)`. Otherwise, and
    where X is sparse: one pass for the mean and one a step, each over a few vectors, and nothing of size d x d;
    memory is that of X and :math:`O(m (n + d))` for a small space of at most 96 vectors m. Labelled rows are taken
    once.

    J has local maxima. Up to 512 columns (64 of a sparse X) each direction is proved to be the global maximum, to a
    few parts in ten million; beyond, it is the global maximum of a space that grew wherever a larger one might have
    been.

    A new row is placed by itself, as the training rows are: `transform` of them is the embedding.

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
        n_components: int | str = 2,
        *,
        reconstruction: float | str = "auto",
        center: bool = True,
        refit: bool = False,
        ridge: float = 0.0,
        task: str = "auto",
        candidates: Any = CANDIDATES,
        cv: int = 5,
        repeats: int = REPEATS,
        one_standard_error: bool = False,
        tol: float = 1e-8,
        max_iter: int = 200,
        max_gram_bytes: int = MAX_GRAM_BYTES,
        random_state: Any = 0,
        verbose: int = 0,
        on_interrupt: str = "raise",
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

    def _source(self, rows: Rows, labels: Labels, Y: np.ndarray) -> Source:
        return Source(
            rows,
            labels,
            Y,
            center=self.center,
            max_gram_bytes=self.max_gram_bytes,
            random_state=self._seed,
        )

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """Return the rows that places in the subspace stand for.

        Parameters
        ----------
        Z : array of shape (n, p)
            What `transform` gave, of all directions or of the first p.

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
    """Return what PCALS minimises (eq. 2), in one pass over X.

    Parameters
    ----------
    X : container of shape (n, d)
        Rows, less their mean where the model was centred.
    W : ndarray of shape (d, k)
        Orthonormal directions.
    A : ndarray of shape (k, q)
        Coefficients.
    Y : ndarray of shape (l, q)
        Responses of the labelled rows, likewise centred.
    index : ndarray of shape (l,)
        Which rows those are.
    reconstruction : float
        As `PCALS` has it.

    Returns
    -------
    f : float
    """
    rows = as_rows(X)
    Z, lost = rows.sweep(_scores_and_loss, shared=(np.asarray(W),))
    return float(((Y - rows.get(Z)[index] @ A) ** 2).sum() + reconstruction * lost)


def gain(X: Any, w: np.ndarray, r: np.ndarray, index: np.ndarray, *, reconstruction: float = 1.0) -> float:
    """Return J(w), by how much a direction lowers the objective, in one pass over X.

    Parameters
    ----------
    X : container of shape (n, d)
        Residual rows; or rows, where w is orthogonal to the directions before it.
    w : ndarray of shape (d,)
        The direction.
    r : ndarray of shape (l, q)
        Residual responses.
    index : ndarray of shape (l,)
        Which rows those are of.
    reconstruction : float
        As `PCALS` has it.

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
