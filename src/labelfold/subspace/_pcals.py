"""PCALS: a subspace and a linear function on it, one direction at a time (Zhang, Hou, Xiang & Liu, ECML PKDD 2009).

`NestedSubspace.fit` is the fit of PCALS and of its kernel form, which differ only in the space of the rows. The
search for a direction is in `_search.py`, the space in `_space.py`, and the choice of their number in `_choice.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any, Literal, Self, overload

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelfold.base import (
    ITERATIONS,
    Decisions,
    HostRows,
    LinearReducer,
    LinearScores,
    classifies,
    constraints,
    fitting,
)
from labelfold.labels import Labels, class_weighted
from labelfold.numerics import MAX_GRAM_BYTES, signed
from labelfold.rows import Block, Rows, as_rows, single_blas
from labelfold.subspace._choice import choose_components
from labelfold.subspace._search import LostDigits, Pursuit, pursue
from labelfold.subspace._space import LabelledSpace, TrainingData
from labelfold.utils import Interval, Progress, StrOptions, available_if, warn_user


# The keyword comes from scikit-learn, which has no types.
class NestedSubspace(LinearScores, Decisions, LinearReducer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Directions found one at a time, of which the first p are themselves a model, with a linear function on them.

    A subclass defines the space of the rows. `LinearReducer.transform` of the model of the first p directions already
    wraps its output in the requested container, with p column names, so nothing is wrapped here.
    """

    embedding_coef_path_: np.ndarray
    embedding_intercept_path_: np.ndarray
    gains_: np.ndarray
    objective_: np.ndarray
    reconstruction_: float
    n_components_: int
    n_iter_: int
    cv_results_: dict[str, Any]

    _allowed = ("binary", "multiclass", "multilabel", "regression")
    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"cv"})],
        **constraints("reconstruction", "center", "class_weight", "task", *ITERATIONS, "on_interrupt"),
        "refit": ["boolean"],
        "ridge": [Interval(Real, 0, None, closed="left")],
        "candidates": [Integral, "array-like"],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "repeats": [Interval(Integral, 1, None, closed="left")],
        "one_standard_error": ["boolean"],
    }

    def _training_data(
        self, rows: Rows, labels: Labels, Y: np.ndarray, weights: np.ndarray | None, **options: Any
    ) -> Iterator[Any]:
        """Yield the rows in the form that the pursuit reads; then, if that loses digits, in one that loses none."""
        raise NotImplementedError

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the directions, and the function on them.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, labelled or not, in any container that `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,), (n, c) for multi-label or (n, t) for several numbers
            Classes, 0/1 labels or numbers. ``unlabeled`` (not in regression) or a missing value marks unlabelled
            rows.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.

        Returns
        -------
        self : estimator
            The fitted estimator.
        """
        name = type(self).__name__
        rows = self._rows(X, reset=True)
        labels, weights = self._read_weighted(y, sample_weight, rows.shape[0])
        if rows.shape[0] == 1 or (weights is not None and np.count_nonzero(weights) == 1):
            raise ValueError("X has one sample, and a direction takes two that differ; give it more rows")
        Y = responses(labels)
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        if self.n_components != "cv" and self.n_components > labels.n_labelled:
            warn_user(
                f"n_components={self.n_components} is more than the {labels.n_labelled} labelled rows, so labels say "
                "little or nothing about the last directions; label more rows, lower n_components or pass 'cv'",
                UserWarning,
            )
        options = {
            "label_weights": class_weighted(labels, self.class_weight).weights,
            "center": self.center,
            "max_gram_bytes": self.max_gram_bytes,
            "random_state": self._seed,
        }
        for data in self._training_data(rows, labels, Y, weights, **options):
            try:
                if self.n_components == "cv":
                    self.cv_results_ = choose_components(self, data)
                k = int(self.cv_results_["chosen"] if self.n_components == "cv" else self.n_components)
                with Progress(name, k, self.verbose) as progress:
                    known, found = self._pursue(data, None, k, progress)
                break
            except LostDigits:
                continue
        self._say(found, k)
        self._store(found, known, data, labels)
        return self

    def _pursue(
        self, data: TrainingData, which: np.ndarray | None, k: int, callback: Any = None
    ) -> tuple[LabelledSpace, Pursuit]:
        """Run the pursuit with all labels, or with some of them."""
        # Matrices of the small space are small, and passes have their own threads.
        with single_blas():
            known = data.known(which)
            Y = self._centred(known.Y, known.ones)
            self.reconstruction_ = (
                _default_reconstruction(known.space.square, data.dimension, Y, float(known.ones @ known.ones))
                if self.reconstruction == "auto"
                else float(self.reconstruction)
            )
            found = pursue(
                known.space,
                Y,
                self.reconstruction_,
                k,
                tol=self.tol,
                max_iter=self.max_iter,
                random_state=self._seed,
                # An interrupted fold would have too few directions.
                keep_on_interrupt=which is None and self.on_interrupt == "keep",
                callback=callback,
            )
        if not len(found.gains):
            raise ValueError(
                f"X holds nothing but {'equal rows' if self.center else 'zeros'}, so there is no direction to find; "
                "give it columns that vary, or multiply X by a constant where its squares vanish"
            )
        return known, found

    def _centred(self, A: np.ndarray, ones: np.ndarray) -> np.ndarray:
        return A - np.outer(ones, ones @ A / (ones @ ones)) if self.center else A

    def _coefficients(self, found: Pursuit, known: LabelledSpace) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients (k, q, k) and intercepts (k, q) with 1, 2 ... k components."""
        Y, Z, ones = known.Y, found.Z, known.ones
        k, q = found.alpha.shape
        y_mean = ones @ Y / (ones @ ones) if self.center else np.zeros(q)
        path, intercepts = np.zeros((k, q, k)), np.tile(y_mean, (k, 1))
        if not self.refit:
            for p in range(1, k + 1):
                path[p - 1, :, :p] = found.alpha[:p].T
            return path, intercepts
        Zc, Yc = self._centred(Z, ones), self._centred(Y, ones)
        z_mean = ones @ (Z - Zc) / (ones @ ones)
        for p in range(1, k + 1):
            stacked = np.vstack([Zc[:, :p], np.sqrt(self.ridge) * np.eye(p)])
            A = np.linalg.lstsq(stacked, np.vstack([Yc, np.zeros((p, q))]), rcond=None)[0]
            path[p - 1, :, :p] = A.T
            intercepts[p - 1] = y_mean - z_mean[:p] @ A
        return path, intercepts

    def _store(self, found: Pursuit, known: LabelledSpace, data: TrainingData, labels: Labels) -> None:
        W = data.components(found.W)
        V = signed(W)
        signs = np.where((V == W).all(axis=0), 1.0, -1.0)
        self.components_ = np.ascontiguousarray(V.T)
        path, self.embedding_intercept_path_ = self._coefficients(found, known)
        self.embedding_coef_path_ = path * signs
        self.embedding_coef_ = self.embedding_coef_path_[-1]
        self.embedding_intercept_ = self.embedding_intercept_path_[-1]
        self.n_components_ = len(found.gains)
        self.gains_, self.objective_ = found.gains, found.objective
        self.mean_ = data.feature_mean
        self.n_iter_ = found.n_iter
        self._keep_task(labels.task, labels.classes, labels.values.ndim == 1)

    def _say(self, found: Pursuit, k: int) -> None:
        """Warn if there are fewer directions than requested, or if some have not converged."""
        rank = len(found.gains)
        plural = "s are" if rank != 1 else " is"
        if found.exhausted:
            warn_user(
                f"n_components={k} is more than the rank of X, {rank}; {rank} component{plural} kept",
                UserWarning,
            )
        elif rank < k and not found.stopped:
            warn_user(
                f"{type(self).__name__} was interrupted; the {rank} component{plural} kept that it had found of {k}",
                ConvergenceWarning,
            )
        if not found.converged:
            warn_user(
                f"{type(self).__name__} stopped some directions after max_iter={self.max_iter} steps, short of "
                f"tol={self.tol:.0e}; raise max_iter or tol",
                ConvergenceWarning,
            )

    @overload
    def transform(self, X: HostRows, n_components: int | None = None) -> np.ndarray: ...
    @overload
    def transform(self, X: Any, n_components: int | None = None) -> Any: ...
    def transform(self, X: Any, n_components: int | None = None) -> Any:
        """Project rows onto the directions.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, in any container that `labelfold.rows.as_rows` takes.
        n_components : int, optional
            Number of leading directions to use; all when None.

        Returns
        -------
        Z : array of shape (n, n_components)
            In host memory for arrays and files; otherwise on the device or cluster of X.
        """
        return super(NestedSubspace, self._first(n_components)).transform(X)

    @available_if(classifies)
    def decision_function(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return the scores of rows: of the second class against the first, or of each class or label.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            Number of leading directions to use; all when None.

        Returns
        -------
        scores : ndarray of shape (n,) or (n, c)
        """
        return super(NestedSubspace, self._first(n_components)).decision_function(X)

    def predict(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return the class, the labels or the numbers of each row.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            Number of leading directions to use; all when None.

        Returns
        -------
        y : ndarray of shape (n,) or (n, c)
            Classes, 0/1 for multi-label, numbers for regression.
        """
        return super(NestedSubspace, self._first(n_components)).predict(X)

    @available_if(classifies)
    def predict_proba(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return the probability of each class, or of each label, computed from the scores (not calibrated).

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            Number of leading directions to use; all when None.

        Returns
        -------
        p : ndarray of shape (n, c)
            Columns in the order of ``classes_``.
        """
        return super(NestedSubspace, self._first(n_components)).predict_proba(X)

    @available_if(classifies)
    def predict_log_proba(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return the logarithm of `predict_proba`, without underflow.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            Number of leading directions to use; all when None.

        Returns
        -------
        log_p : ndarray of shape (n, c)
            Columns in the order of ``classes_``.
        """
        return super(NestedSubspace, self._first(n_components)).predict_log_proba(X)

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predictions with the first direction, the first two, and so on; X is read once.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Yields
        ------
        y : ndarray of shape (n,) or (n, c)
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        Z = self._embedded(rows)
        for p in range(1, Z.shape[1] + 1):
            yield self._decide(self._function(Z[:, :p]))

    def _first(self, n_components: int | None) -> Self:
        """Return the model of the first directions only."""
        check_is_fitted(self)
        if n_components is None or n_components == self.n_components_:
            return self
        if not isinstance(n_components, Integral) or not 1 <= n_components <= self.n_components_:
            raise ValueError(
                f"n_components={n_components!r} was given, where 1 to {self.n_components_} is expected, the number "
                "of directions that were fitted"
            )
        first = copy.copy(self)
        first.components_ = self.components_[: int(n_components)]
        return first

    def _score_rows(self, rows: Rows) -> np.ndarray:
        return self._function(self._embedded(rows))

    def _function(self, Z: np.ndarray) -> np.ndarray:
        """Return the values of the function, (n, q), from coordinates along the first directions."""
        p = Z.shape[1]
        return Z @ self.embedding_coef_path_[p - 1, :, :p].T + self.embedding_intercept_path_[p - 1]


class PCALS(NestedSubspace):
    r"""PCA-based least squares: a subspace that approximates the rows and predicts the labels, and a function on it.

    Directions are found one at a time. Each one lowers as much as possible

    .. math:: \|Y - X_L W A\|^2 + \lambda \|X - X W W'\|^2, \qquad W'W = I.

    With residual rows R (of which Z are the labelled ones) and residual responses r, it is the maximum of

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
    A (k, q)              alpha           ``embedding_coef_.T``
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
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, or of the labels, in the loss of the labels. "balanced" gives all classes the same
        total weight.
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
        relative error of J is then about the square of that.
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
    explained_variance_ratio_ : ndarray of shape (k,)
        The share of the variance of the rows along each direction.
    coef_ : ndarray of shape (q, d), or (d,) for numbers given as one column
        Weights of the columns of X: `decision_function`, or `predict` for numbers, is ``X @ coef_.T + intercept_``.
    intercept_ : ndarray of shape (q,), or float for numbers given as one column
        The function of a row of zeros.
    embedding_coef_ : ndarray of shape (q, k)
        Coefficients of the function on the embedding, A'.
    embedding_intercept_ : ndarray of shape (q,)
        Intercepts of the function on the embedding.
    embedding_coef_path_ : ndarray of shape (k, q, k)
        The coefficients with 1, 2 ... k components: ``embedding_coef_path_[p - 1, :, :p]``.
    embedding_intercept_path_ : ndarray of shape (k, q)
        The intercepts with 1, 2 ... k components.
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

    J has local maxima. The best of those that several starts lead to is taken, in a small subspace that is extended
    towards them. In 360 problems it was the global maximum each time (experiments/pcals_starts.py).

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
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        task: Literal["auto", "classification", "regression"] = "auto",
        candidates: int | Sequence[int] | np.ndarray = 32,
        cv: int = 5,
        repeats: int = 3,
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
        self.class_weight = class_weight
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

    def _training_data(
        self, rows: Rows, labels: Labels, Y: np.ndarray, weights: np.ndarray | None, **options: Any
    ) -> Iterator[TrainingData]:
        yield TrainingData(rows, labels, Y, weights=weights, **options)

    def _store(self, found: Pursuit, known: LabelledSpace, data: TrainingData, labels: Labels) -> None:
        super()._store(found, known, data, labels)
        self.explained_variance_ratio_: np.ndarray = data.explained(found.W, found.squares)


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


def _default_reconstruction(square: float, size: float, Y: np.ndarray, n_labelled: float) -> float:
    """Return a default weight of the reconstruction for any unit of X, from its sum of squares and dimension.

    A direction of average variance has the weight of 100 labelled rows. The fewer labelled rows there are for each
    dimension, the more directions fit them by chance, and the less weight the labels get.
    """
    row = float((Y**2).sum()) / n_labelled
    return 100.0 * (row or 1.0) * size / (square if square > 0 else 1.0)


def responses(labels: Labels) -> np.ndarray:
    """Return the responses of the labelled rows, (l, q): signs of classes or labels, or the numbers."""
    return labels.columns() if labels.task == "regression" else labels.signs()
