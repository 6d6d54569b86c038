"""LDA: linear discriminant analysis, by the two-stage approach (Sun, Ceran & Ye, KDD 2010)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any, Literal, Self

import numpy as np

from labelfold.base import fitting, spread
from labelfold.discriminant._shrinkage import MAX_SHRINKAGE, shrunk_ridge
from labelfold.discriminant._two_stage import (
    Directions,
    LabelledRows,
    LabelSummary,
    TwoStage,
    directions,
    read_labelled,
    ridge_in_use,
    summarised,
)
from labelfold.numerics import MAX_GRAM_BYTES, RidgeProblem
from labelfold.utils import Interval, StrOptions


class LDA(TwoStage):
    r"""Linear discriminant analysis for wide, sparse, streamed and partly labelled data.

    It finds the directions along which class means are far apart relative to the spread of the data,

    .. math:: \max_W \mathrm{tr}(W' S_b W) \quad \text{subject to} \quad W'(S_t + g I) W = I,

    with :math:`S_t = X_c'X_c` and :math:`S_b = \sum_j n_j (c_j - m)(c_j - m)' = X_c' T T' X_c`, by least squares
    instead of an eigenproblem of size d (the two-stage approach). Mean, scatter and targets are those of the labelled
    rows; `transform` and `predict` take any rows.

    ==========  ====================  ===========================================================
    here        in the paper          what it is
    ==========  ====================  ===========================================================
    X_c (n, d)  X (d, n)              labelled rows, centred implicitly (a sparse X stays sparse)
    T (n, c)    H                     one-hot labels, column j divided by sqrt(n_j)
    ridge, g    gamma                 regularisation
    W (d, k)    W                     ``components_.T``
    s (k,)      squared Sigma_A       ``eigenvalues_``
    ==========  ====================  ===========================================================

    Parameters
    ----------
    n_components : int, default=None
        Number of directions; all when None, which is at most the number of classes less one.
    ridge : float, "auto", "cv" or sequence of float, default=0.0
        Added to the diagonal of :math:`X_c'X_c`, a sum over rows, like scikit-learn's alpha. At 0 the solution of
        minimum norm is computed if there are fewer rows than columns; with few labels a positive ridge predicts
        better. "auto" is 0.01 times the number of labelled rows times their mean squared distance from their mean (in
        the space of the kernel, if there is one). "cv" chooses by cross-validation on the labelled rows among
        multiples of this distance, a sequence among its values.
    solver : {"two-stage", "direct"}, default="two-stage"
        "direct" solves the dense d x d problem, for small data and for comparison.
    kernel : {"rbf", "poly", "sigmoid", ...} or callable, default=None
        The kernel, of scikit-learn or a function of two rows; the columns themselves are used when None. The exact
        form needs a square matrix of the labelled rows.
    gamma : float, "auto" or "scale", default="auto"
        Parameter of the kernel, as in scikit-learn. "auto" suits any unit of X: for "rbf", "poly" and "sigmoid" it is
        one over twice the mean squared distance between labelled rows, for other kernels scikit-learn's default.
        "scale" is one over the number of columns times the variance of the entries, as in scikit-learn's SVC.
    degree, coef0 : float, default=None
        Parameters of the kernel, as in scikit-learn; when None, scikit-learn's 3 and 1.
    n_landmarks : int, "auto" or None, default="auto"
        Number of labelled rows that approximate the kernel (Nystroem). None is exact. "auto" is exact if
        ``max_gram_bytes`` allows it, and otherwise uses 1,000 landmarks.
    class_weight : dict or "balanced", default=None
        Weights of the classes: the weight of a row is multiplied by that of its class, or by those of all its labels.
        "balanced" gives every class the same total weight.
    shrinkage : float, "auto" or None, default=None
        Share of the identity in the within-class covariance, 0 to 1: :math:`(1 - a) S_w / l + a m I`, where m is the
        mean variance of the columns within classes. It amounts to a ridge, which is then ``ridge_``, and takes its
        place. "auto" is the formula of Ledoit and Wolf for all rows less their class means. Not with a kernel.
    priors : array-like of shape (n_classes,), default=None
        Class probabilities for `predict`; the shares of the labelled rows when None.
    tol : float, default=1e-8
        Relative residual at which iterations stop, if the problem is too large to factorise.
    max_iter : int, default=1000
        Maximum number of such iterations; each reads X once.
    max_gram_bytes : int, default=512 MB
        Maximum size of a d x d or n x n matrix, and of labelled rows that are read into memory.
    random_state : int, RandomState instance or None, default=0
        Seed of the preconditioner of these iterations; the solution depends on it only within ``tol``.
    verbose : int, default=0
        1 shows a progress bar over these iterations.
    unlabeled : int, str or None, default=-1
        The value in y that marks a row as unlabelled; missing values (None, NaN, pandas.NA) always do.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The directions W', with W'(X_c'X_c + ridge I)W = I.
    eigenvalues_ : ndarray of shape (k,)
        Their eigenvalues, descending: the between-class share of the scatter along a direction.
    explained_variance_ratio_ : ndarray of shape (k,)
        The share of each direction in the between-class variance, measured in units of the within-class variance
        along it, of all directions: s / (1 - s) over its sum.
    coef_, intercept_ : ndarray of shape (q, d), (q,)
        Weights of the columns of X in the scores: `decision_function` is ``X @ coef_.T + intercept_``. q is 1 for two
        classes, otherwise c. Absent with a kernel.
    mean_ : ndarray of shape (d,)
        The mean of the labelled rows.
    means_ : ndarray of shape (c, k)
        Class means in the reduced space.
    priors_ : ndarray of shape (c,)
        Class probabilities.
    classes_ : ndarray of shape (c,)
        The class values.
    task_ : str
        How y was read: "binary" or "multiclass".
    n_iter_ : int
        Iterations of the least-squares solver; 1 for a factorisation.
    residual_ : float
        The relative residual at the end of the iterations; 0 for a factorisation.
    ridge_ : float
        The ridge in use.
    shrinkage_ : float or None
        The shrinkage in use.
    ridges_, ridge_scores_ : ndarray of shape (r,), (folds, r)
        The candidates and their scores, if the ridge was chosen by cross-validation.
    gamma_ : float or None
        The gamma of the kernel, given or computed from the rows.
    feature_map_ : object or None
        The feature map of the kernel. With a kernel, ``components_`` and ``mean_`` are in its space.
    n_features_in_ : int
        Number of columns of X in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, if X has any.

    Notes
    -----
    Memory beside a dense X, at most: ``32*l*d + 48*d*d`` bytes in fit, none in transform, and 24 MB
    (docs/memory.md).

    Cost: one pass over the labelled rows and a factorisation of the smaller of a d x d and an n x n matrix, if that
    fits ``max_gram_bytes`` (a second pass if it is ill-conditioned). Otherwise one pass in each iteration, O(nnz c),
    with O(nnz + c (n + d)) memory.

    The classifier is Gaussian with a common covariance. In the reduced space the within-class scatter is
    :math:`I - \mathrm{diag}(s)`, so squared distances to the class means are weighted by :math:`l / (1 - s_j)`, where
    l is the number of labelled rows. With more rows than columns, ridge 0 and all directions, it is scikit-learn's
    LinearDiscriminantAnalysis, including probabilities. (scikit-learn divides the scatter by l since release 1.9, and
    before by l less the number of classes.)

    A number as ``shrinkage`` gives the predictions of scikit-learn's LinearDiscriminantAnalysis with the same number,
    without ``priors``. Its directions differ: scikit-learn's solver "eigen" also shrinks the between-class scatter.
    scikit-learn's "auto" shrinks the covariance of each class separately, in standardised columns, towards its
    diagonal. Here one number is computed from the within-class covariance of all classes, and shrinks towards the
    identity. Shrinkage takes one more pass, and "auto" two. "auto" also needs the norm of X_c'X_c: several more
    passes if neither X_c'X_c nor X_c X_c' fits ``max_gram_bytes``.

    References
    ----------
    L. Sun, B. Ceran, J. Ye. A scalable two-stage approach for a class of dimensionality reduction
    techniques. KDD 2010.

    O. Ledoit, M. Wolf. A well-conditioned estimator for large-dimensional covariance matrices. Journal of
    Multivariate Analysis 88, 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from labelfold import LDA
    >>> X, y = load_iris(return_X_y=True)
    >>> y[::2] = -1                     # half of the labels are unknown
    >>> lda = LDA().fit(X, y)
    >>> lda.transform(X).shape
    (150, 2)
    >>> lda.predict(X[:3])
    array([0, 0, 0])
    """

    priors_: np.ndarray
    shrinkage_: float | None = None

    _parameter_constraints = {
        **TwoStage._parameter_constraints,
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"}), None],
        "priors": ["array-like", None],
    }
    _rules_out = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        ridge: float | Literal["auto", "cv"] | Sequence[float] | np.ndarray = 0.0,
        solver: Literal["two-stage", "direct"] = "two-stage",
        kernel: str | Callable[..., float] | None = None,
        gamma: float | Literal["auto", "scale"] = "auto",
        degree: float | None = None,
        coef0: float | None = None,
        n_landmarks: int | Literal["auto"] | None = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        shrinkage: float | Literal["auto"] | None = None,
        priors: Sequence[float] | np.ndarray | None = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
        max_gram_bytes: int = MAX_GRAM_BYTES,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        unlabeled: Any = -1,
    ) -> None:
        self.n_components = n_components
        self.ridge = ridge
        self.solver = solver
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.class_weight = class_weight
        self.shrinkage = shrinkage
        self.priors = priors
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
        self._check_shrinkage()
        data = read_labelled(self, X, y, sample_weight)
        ridges = partial(self._shrunk, data) if self.shrinkage is not None else [ridge_in_use(self, data)]
        T = self._targets(data.Y, data.counts)  # (g, q)  a row for each distinct row of labels
        (found,) = directions(self, data, T, ridges)  # W (d, k), s (k,): eq. 27 and 30, or eq. 37
        found = self._store(found)
        self._fit_predictions(found, summarised(self, data))
        return self

    def path(self, X: Any, y: Any, ridges: Sequence[float], sample_weight: Any = None) -> list[Self]:
        """Fit one model for each of several ridges, at the cost of one to three fits; see `CCA.path`.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, as in `fit`.
        y : array-like of shape (n,)
            Targets, as in `fit`.
        ridges : sequence of float
            The ridges.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.

        Returns
        -------
        models : list of estimators
            One fitted model for each ridge, in the given order.
        """
        if self.shrinkage is not None:
            raise ValueError(
                f"path fits ridges, and shrinkage={self.shrinkage!r} was given; leave shrinkage out, or call fit"
            )
        return super().path(X, y, ridges, sample_weight)

    def _check_shrinkage(self) -> None:
        """Refuse parameters that exclude shrinkage."""
        if self.shrinkage is None:
            return
        if not isinstance(self.ridge, Real) or self.ridge != 0:
            raise ValueError(
                f"shrinkage={self.shrinkage!r} and ridge={self.ridge!r} were given, which are two forms of the same "
                "thing; give one of them"
            )
        if self.kernel is not None:
            raise ValueError(
                f"shrinkage={self.shrinkage!r} was given with kernel={self.kernel!r}, whose space has no number of "
                'columns; use a ridge, such as ridge="auto"'
            )

    def _shrunk(self, data: LabelledRows, problem: RidgeProblem) -> list[float]:
        """Store the shrinkage in use, and return the ridge that it amounts to."""
        assert self.shrinkage is not None
        self.shrinkage_, ridge = shrunk_ridge(
            data.rows,
            spread(data.labels.values, data.mask, -1),
            data.labels.class_totals(),
            data.weights,
            None if isinstance(self.shrinkage, str) else float(self.shrinkage),
            partial(problem.squared_gram, self.max_gram_bytes),
        )
        return [ridge]

    def _targets(self, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return one-hot labels, column j divided by sqrt(n_j), so that S_b = X_c'T T'X_c."""
        return Y / np.sqrt(_positive(weights @ Y))  # (g, c)  eq. 14

    def _fit_predictions(self, found: Directions, summary: LabelSummary) -> None:
        """Store the class means and probabilities of the Gaussian classifier."""
        self.means_: np.ndarray = found.targets.T / np.sqrt(_positive(summary.counts))[:, None]
        self.priors_ = summary.counts / summary.n if self.priors is None else _checked(self.priors, summary)
        self._keep_task(summary.task, summary.classes)
        if self.shrinkage is None:
            self.shrinkage_ = None
        self._weight = summary.n
        # Of perfectly separated classes the within-class scatter is only round-off, also that of the rows.
        self._min_scatter = max(1e-10, 100 * summary.eps)
        odds = found.all_s / np.maximum(1 - found.all_s, self._min_scatter)
        self.explained_variance_ratio_ = odds[: len(found.s)] / odds.sum()

    def _score_map(self) -> tuple[np.ndarray, np.ndarray]:
        """Return A and b of the scores Z A' + b: the log-odds of the second class, or the score of each class."""
        # The covariance is (1 - a) (S_w + g I) / l, with shrinkage a.
        precision = self._weight / np.maximum(1 - self.eigenvalues_, self._min_scatter)
        A = precision / (1 - min(self.shrinkage_ or 0.0, MAX_SHRINKAGE)) * self.means_  # (c, k)
        with np.errstate(divide="ignore"):  # a class without rows so far has probability 0
            b = np.log(self.priors_) - 0.5 * (A * self.means_).sum(axis=1)
        return (A[1:] - A[:1], b[1:] - b[:1]) if len(A) == 2 else (A, b)

    def _log_odds(self, F: np.ndarray) -> np.ndarray:
        """Return the scores, which are log odds."""
        return F


def _positive(totals: np.ndarray) -> np.ndarray:
    """Return the weights of the classes, 1 for a class without rows."""
    return np.where(totals > 0, totals, 1.0)


def objective(W: np.ndarray, Sb: np.ndarray) -> float:
    """Return tr(W'S_b W), which the directions maximise."""
    return float(np.trace(W.T @ Sb @ W))


def _checked(priors: Any, summary: LabelSummary) -> np.ndarray:
    """Return the given class probabilities, or raise an error."""
    c = len(summary.classes)
    try:
        found = np.asarray(priors, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != (c,) or not (found > 0).all() or abs(found.sum() - 1) > 1e-6:
        raise ValueError(
            f"priors={priors!r} was given, where {c} positive numbers that sum to 1 are expected, "
            f"one for each class of {summary.classes.tolist()}"
        )
    return found
