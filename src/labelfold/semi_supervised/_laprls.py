"""LapRLS: least squares that is smooth over a graph of all rows (Belkin, Niyogi & Sindhwani, JMLR 2006)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from labelfold.base import (
    ITERATIONS,
    Decisions,
    KernelForm,
    Scores,
    constraints,
    fitting,
    linear_values,
)
from labelfold.features import KernelMap, default_gamma, kernel_map
from labelfold.labels import class_weighted
from labelfold.model_selection import chosen_ridge, default_ridge
from labelfold.numerics import MAX_GRAM_BYTES, ROUND_OFF, nystrom_sketch, preconditioned_cg, row_spread
from labelfold.rows import Centered, Featurized, Rows, Weighted, as_rows, check_fits
from labelfold.semi_supervised._graph import (
    given_graph,
    laplacian,
    nearest,
    neighbour_graph,
    rbf_graph,
)
from labelfold.utils import Interval, Progress, StrOptions, warn_user

# What fits more rows than LapRLS, for its error.
_OF_MORE_ROWS = "use LabelFold or LDA, or leave out some of the unlabelled rows"
_EPS = float(np.finfo(np.float64).eps)
# Budget: up to this many columns (a matrix of 2 MB) the preconditioner is the whole matrix; with more it is a sketch.
_MAX_WHOLE = 512
# Number of columns of a sketch, and of a block of products (with n rows).
_BLOCK = 64
# Budget: maximum number of times that the preconditioned iterations are restarted from the exact residual.
_MAX_RESTARTS = 3


class LapRLS(Decisions, KernelForm):
    r"""Laplacian regularised least squares: a function that fits the labels and varies little between neighbours.

    Finds a linear function, or one in the space of a kernel, and an intercept that minimise

    .. math:: \sum_{i \in L} \|y_i - g(x_i) - b\|^2 + r \|g\|^2 + \gamma_I \frac{l}{n^2} G' L G

    where G has the values of g at all n rows, of which l are labelled, and L is the Laplacian of a graph that joins
    nearby rows. It works well if classes are separated by regions with few rows. If classes overlap, the boundary
    should run through many rows, and the graph term pushes it away from them.

    =====================  =============  ==================================================================
    here                   in the paper   what it is
    =====================  =============  ==================================================================
    ridge, r               l gamma_A      weight of the function's norm, for a sum over labelled rows
    smoothness             gamma_I        weight of its variation along the graph
    coef_ (q, d)           w              g(x) = x'w; q targets, one for two classes (-1 and +1)
    dual_coef_ (q, n)      alpha          g(x) = sum_i alpha_i k(x, x_i), in the space of an exact kernel
    =====================  =============  ==================================================================

    A row of weight w counts as w copies: in the losses, where l is then their total weight, in
    :math:`n = \sum_i w_i`, and in the graph, where an edge has the product of both weights. For whole weights the
    result is that of repeated rows if there is no graph, if the graph is given, and for "rbf" without ``normalized``.
    For "knn" it differs, since the copies of a row would be its neighbours.

    Parameters
    ----------
    ridge : float, "auto", "cv" or sequence of float, default="auto"
        Weight of the norm, for a sum over the labelled rows, like scikit-learn's alpha; above 0. "auto" suits any
        unit of X: it is 0.01 times the number of labelled rows times the mean squared distance of all rows from their
        mean (in the space of the kernel, if there is one). "cv" chooses by cross-validation on the labelled rows
        among multiples of this distance, a sequence among its values; held-out rows stay in the graph.
    smoothness : float, default=1.0
        Weight of the graph; 0 is ridge regression on the labelled rows, and needs no graph. The sum over the graph is
        divided by :math:`n^2`, although a neighbour graph has only about n edges, so large n need larger values.
    kernel : str or callable, default=None
        None for a linear function; otherwise as in `sklearn.metrics.pairwise.pairwise_kernels` ("rbf", "poly", ...).
    gamma : float, "auto" or "scale", default="auto"
        Parameter of the kernel; see `LDA`. It is computed from all rows.
    degree, coef0 : float, default=None
        Parameters of the kernel; see `LDA`.
    n_landmarks : int, "auto" or None, default="auto"
        Number of rows, drawn from all, for Nystroem features that approximate the kernel. The linear form is then
        solved on them, so the kernel matrix need not fit in memory. None is exact. "auto" is exact if
        ``max_gram_bytes`` allows it, and otherwise uses 1,000 landmarks.
    graph : {"knn", "rbf"} or matrix of shape (n, n), default="knn"
        Which rows are joined. "knn": two rows if one is among the nearest neighbours of the other. "rbf": all pairs,
        with weight :math:`\exp(-\gamma \|x - z\|^2)`. A matrix: symmetric weights, sparse or dense.
    n_neighbors : int, default=5
        Number of neighbours of a row for "knn".
    weights : {"binary", "heat"}, default="binary"
        Weights of the edges of "knn": 1, or those of "rbf".
    graph_gamma : float, "auto" or "scale", default="auto"
        The gamma of "rbf" and of "heat". "auto" is one over twice the mean squared distance between rows, or between
        neighbours; "scale" is as in `LDA`.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance for the graph. "cosine" compares directions, which suits text.
    normalized : bool, default=False
        Whether to use :math:`I - D^{-1/2} W D^{-1/2}` in place of the paper's :math:`L = D - W`.
    fit_intercept : bool, default=True
        Whether to fit the intercept b. It is not penalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, or of the labels, in the losses of labelled rows. "balanced" gives all classes the
        same total weight.
    task : {"auto", "classification", "regression"}, default="auto"
        What y holds; "auto" reads floats with fractions as regression, everything else as classes.
    tol : float, default=1e-8
        Relative residual at which conjugate gradients stop (no less than 100 times the round-off of X's dtype).
    max_iter : int, default=1000
        Largest number of iterations.
    max_gram_bytes : int, default=512 MB
        Largest size of one n x n matrix of an exact kernel or an RBF graph (a fit holds up to three at once), of
        Nystroem features that are kept between iterations, and of rows that are read into memory.
    random_state : int, RandomState instance or None, default=0
        Seed of the landmarks and of the preconditioner.
    verbose : int, default=0
        1 shows a progress bar over the iterations.
    unlabeled : int, str or None, default=-1
        The value in y that marks a row as unlabelled; missing values (None, NaN, pandas.NA) always do.

    Attributes
    ----------
    coef_ : ndarray of shape (q, d), or (d,) for numbers given as one column
        Weights of the columns: `decision_function`, or `predict` for numbers, is ``X @ coef_.T + intercept_``. Absent
        with a kernel.
    dual_coef_ : ndarray of shape (q, n) or (q, n_landmarks)
        Weights of the kernel with each fitted row, without rows of weight 0, or of the Nystroem features. Absent
        without a kernel.
    intercept_ : ndarray of shape (q,), or float for numbers given as one column
        b; for several labels a row less 1/2, the threshold.
    mean_ : ndarray of shape (d,) or None
        The mean of the labelled rows, subtracted in the computation of scores; zeros without an intercept, None with
        a kernel.
    transduction_ : ndarray of shape (n,) or (n, c)
        A label for every training row: the given one, or the predicted one. Numbers in regression.
    label_distributions_ : ndarray of shape (n, c)
        The probability of each class, or of each label, for the training rows; see `predict_proba`. Absent in
        regression.
    classes_ : ndarray of shape (c,)
        The classes or label columns; absent in regression.
    task_ : str
        How y was read: "binary", "multiclass", "multilabel" or "regression".
    ridge_ : float
        The ridge in use.
    ridges_, ridge_scores_ : ndarray of shape (r,), (folds, r)
        The candidates and their scores, if the ridge was chosen by cross-validation.
    gamma_ : float or None
        The gamma of the kernel, given or computed from the rows.
    feature_map_ : object or None
        The kernel as a feature map.
    n_iter_ : int
        Number of iterations of conjugate gradients; 1 for an exact kernel.
    residual_ : float
        The relative residual at the end.
    n_features_in_ : int
        Number of columns of X in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, if X has any.

    Notes
    -----
    Memory beside a dense X, at most: ``1.5*X + 400*n`` bytes in fit, none in predict, and 24 MB (docs/memory.md).

    A graph needs all rows: for `fit`, rows from files, devices or Dask are read into memory, within
    ``max_gram_bytes``. Prediction takes any container. Neighbours are exact (scikit-learn's); with more than 15
    columns all pairs are compared, in O(n^2 d) time and O(n) memory.

    Cost of the linear form: two products with X and one with the graph in each iteration, O(nnz + q (n + d)) memory
    and no d x d matrix (except, up to 512 columns, a preconditioner of that size). A sparse X stays sparse. Exact
    kernel:
    O(n^3) time, and n x n matrices. Nystroem: the linear cost with d = n_landmarks.

    Each of several classes, or labels, is a target (0 and 1). The largest prediction, or a threshold of 1/2, decides.

    References
    ----------
    M. Belkin, P. Niyogi, V. Sindhwani. Manifold regularization: a geometric framework for learning from labeled and
    unlabeled examples. JMLR 7, 2006.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from labelfold import LapRLS
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> few = np.full(200, -1)
    >>> for c in (0, 1):
    ...     few[np.flatnonzero(y == c)[:2]] = c            # two labels a moon
    >>> model = LapRLS(kernel="rbf", gamma=5.0, ridge=4e-4, smoothness=100.0).fit(X, few)
    >>> model.score(X, y), model.predict([[0.0, 1.0], [1.0, -0.5]])
    (1.0, array([0, 1]))
    """

    n_iter_: int
    residual_: float

    _allowed = ("binary", "multiclass", "multilabel", "regression")
    _target_gap = 1.0
    ridge_: float
    _parameter_constraints = {
        **KernelForm._parameter_constraints,
        "ridge": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto", "cv"}), "array-like"],
        "smoothness": [Interval(Real, 0, None, closed="left")],
        "graph": [StrOptions({"knn", "rbf"}), "array-like", "sparse matrix"],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "weights": [StrOptions({"binary", "heat"})],
        "graph_gamma": KernelForm._parameter_constraints["gamma"],
        "metric": [StrOptions({"euclidean", "cosine"})],
        "normalized": ["boolean"],
        **constraints("fit_intercept", "class_weight", "task", *ITERATIONS),
    }

    def __init__(
        self,
        *,
        ridge: float | Literal["auto", "cv"] | Sequence[float] | np.ndarray = "auto",
        smoothness: float = 1.0,
        kernel: str | Callable[..., float] | None = None,
        gamma: float | Literal["auto", "scale"] = "auto",
        degree: float | None = None,
        coef0: float | None = None,
        n_landmarks: int | Literal["auto"] | None = "auto",
        graph: Literal["knn", "rbf"] | Any = "knn",  # or a matrix
        n_neighbors: int = 5,
        weights: Literal["binary", "heat"] = "binary",
        graph_gamma: float | Literal["auto", "scale"] = "auto",
        metric: Literal["euclidean", "cosine"] = "euclidean",
        normalized: bool = False,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        task: Literal["auto", "classification", "regression"] = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        max_gram_bytes: int = MAX_GRAM_BYTES,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        unlabeled: Any = -1,
    ) -> None:
        self.ridge = ridge
        self.smoothness = smoothness
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.graph_gamma = graph_gamma
        self.metric = metric
        self.normalized = normalized
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.task = task
        self.tol = tol
        self.max_iter = max_iter
        self.max_gram_bytes = max_gram_bytes
        self.random_state = random_state
        self.verbose = verbose
        self.unlabeled = unlabeled

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the labelled rows with a function that is smooth over all rows.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, labelled or not, in any container that `labelfold.rows.as_rows` takes. They are read into memory.
        y : array-like of shape (n,), or (n, c) for multi-label, or (n, t) for regression
            Targets; ``unlabeled`` or a missing value for unlabelled rows.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.

        Returns
        -------
        self : LapRLS
            The fitted estimator.
        """
        every = rows = self._rows(X, reset=True)
        labels, weights = self._read_weighted(y, sample_weight, rows.shape[0])
        Y = labels.signs() if labels.task == "binary" else labels.columns()  # (l, q)
        v = class_weighted(labels, self.class_weight).row_weights()  # (l,)
        rng = check_random_state(self.random_state)
        index, kept, graph = labels.index, None, self.graph
        if self.smoothness or self.kernel is not None:
            # A graph and a kernel compare each row with others.
            check_fits(rows, "LapRLS", _OF_MORE_ROWS, max_gram_bytes=self.max_gram_bytes)
            rows = rows if rows.in_memory else rows.take(np.arange(rows.shape[0]))
            every = rows
            if weights is not None and not weights.all():
                kept = np.flatnonzero(weights)
                rows, weights, index = rows.take(kept), weights[kept], np.searchsorted(kept, index)
        # The intercept absorbs a constant in the features, which does not change the penalty of the graph.
        centred = self.fit_intercept and not (self.smoothness and self.normalized)
        self._set_feature_map(kernel_map, rows, weights=weights, random_state=rng, centred=centred)
        if self.smoothness and not isinstance(graph, str):
            graph = given_graph(graph, every.shape[0])
            graph = graph if kept is None else graph[kept][:, kept]
        L = self._laplacian(rows, graph, weights) if self.smoothness else None
        self._keep_task(labels.task, labels.classes, labels.values.ndim == 1)
        solve, spread = self._solver(rows, L, rng, weights)

        def predict(ridges: np.ndarray, train: np.ndarray, test: np.ndarray) -> Iterator[np.ndarray]:
            for ridge in ridges:
                found, G = solve(index[train], Y[train], v[train], ridge)
                yield self._decide(G[index[test]] + self._offset(found.intercept))

        if isinstance(self.ridge, Real):
            self.ridge_ = float(self.ridge)
        elif isinstance(self.ridge, str) and self.ridge == "auto":
            self.ridge_ = default_ridge(float(v.sum()), spread())
        else:
            self.ridge_ = chosen_ridge(self, labels, spread(), predict, zero=False)
        with Progress("LapRLS", self.max_iter, self.verbose) as progress:
            found, G = solve(index, Y, v, self.ridge_, progress)

        self._store(found)
        F = G + self._offset(found.intercept)
        if kept is not None:
            fitted, F = F, np.empty((every.shape[0], F.shape[1]))
            rest = np.setdiff1d(np.arange(len(F)), kept)
            F[kept], F[rest] = fitted, self._score_rows(every.take(rest))
        self.transduction_: Any = self._transduce(every, F, labels)
        self.__dict__.pop("label_distributions_", None)
        if labels.task != "regression":
            self.label_distributions_: np.ndarray = self._shares(F)
        return self

    def _store(self, found: LapRLSSolution) -> None:
        """Store the weights of the columns, or those of a kernel, and the intercept."""
        one_number = self.task_ == "regression" and self._flat
        coef, intercept = np.ascontiguousarray(found.W.T), self._offset(found.intercept)
        self.intercept_: Any = float(intercept[0]) if one_number else intercept
        for name in ("coef_", "dual_coef_"):
            self.__dict__.pop(name, None)
        if self.feature_map_ is not None:
            self.dual_coef_: np.ndarray = coef
            self.mean_: Any = None
        else:
            self.coef_: np.ndarray = coef[0] if one_number else coef
            self.mean_ = found.mean
        self.n_iter_, self.residual_ = found.n_iter, found.residual

    def _offset(self, intercept: np.ndarray) -> np.ndarray:
        """Return the intercept of scores, from that of the function: labels, of 0 and 1, are decided at 1/2."""
        return intercept - 0.5 if self.task_ == "multilabel" else intercept

    def _laplacian(self, rows: Rows, graph: Any, weights: np.ndarray | None) -> Any:
        """Return the Laplacian of the given graph, or of the one to build."""
        if isinstance(graph, str) and graph == "knn":
            found = nearest(rows, self.n_neighbors, metric=self.metric)
            gamma = self.graph_gamma
            if gamma == "scale":
                gamma = default_gamma(rows, weights, "scale")
            graph = neighbour_graph(*found, weights=self.weights, gamma=gamma, row_weights=weights)
        elif isinstance(graph, str):
            options: dict[str, Any] = {"metric": self.metric, "max_gram_bytes": self.max_gram_bytes}
            graph = rbf_graph(rows, self.graph_gamma, **options, row_weights=weights)
        L = laplacian(graph, normalized=self.normalized, row_weights=weights)
        # The solvers divide the penalty by the square of the number of rows.
        return L if weights is None else L * (rows.shape[0] / weights.sum()) ** 2

    def _solver(
        self, rows: Rows, L: Any, rng: Any, weights: np.ndarray | None
    ) -> tuple[Callable[..., Any], Callable[[], float]]:
        """Return two functions: one that solves for some labelled rows, and one that gives the spread of all rows.

        The first takes indices of rows, their targets and weights, and the ridge. It returns the solution, and its
        values at all rows without the intercept, (n, q).
        """
        if isinstance(self.feature_map_, KernelMap):
            K = self.feature_map_.of_points()

            def in_kernel_space(
                index: np.ndarray, Y: np.ndarray, v: np.ndarray, ridge: float, callback: Any = None
            ) -> tuple[LapRLSSolution, np.ndarray]:
                found = solve_kernel(K, L, index, Y, **self._weights(ridge, v))
                return found, K @ found.W

            return in_kernel_space, lambda: KernelMap.spread(K, weights)
        if self.feature_map_ is not None:
            rows = Featurized(rows, self.feature_map_.transform)
            if rows.shape[0] * rows.row_bytes() <= self.max_gram_bytes:
                rows = as_rows(rows.values())

        def in_columns(
            index: np.ndarray, Y: np.ndarray, v: np.ndarray, ridge: float, callback: Any = None
        ) -> tuple[LapRLSSolution, np.ndarray]:
            options: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "rng": rng}
            options |= self._weights(ridge, v)
            found = solve_linear(rows, L, index, Y, **options, flat=not self.normalized, callback=callback)
            return found, linear_values(rows, found.W, found.mean)

        return in_columns, lambda: row_spread(rows, weights)

    def _weights(self, ridge: float, v: np.ndarray) -> dict[str, Any]:
        """Return the weights for the solvers, whose objective is that of the class divided by l."""
        return {
            "ridge": ridge / v.sum(),
            "smoothness": self.smoothness,
            "fit_intercept": self.fit_intercept,
            "weights": v,
        }

    def _score_rows(self, rows: Rows) -> np.ndarray:
        if self.feature_map_ is not None:
            W = self.dual_coef_.T
            scores = Scores(self.feature_map_, np.zeros(len(W)), W)
            values = np.asarray(rows.get(Featurized(rows, scores.transform).values()), dtype=np.float64)
        else:
            values = linear_values(rows, np.atleast_2d(self.coef_).T, self.mean_)
        return values + self.intercept_

    def _scores_of(self, F: np.ndarray) -> np.ndarray:
        """Return the scores, for which training has kept them."""
        return F


class LapRLSSolution(NamedTuple):
    """A solution g(x) = x'W, or k(x)'W in a kernel's space, and its intercept.

    Values are computed as (x - mean)'W + mean'W, which avoids cancellation if the mean is large.
    """

    W: np.ndarray
    intercept: np.ndarray
    n_iter: int
    residual: float
    mean: np.ndarray = np.zeros(1)


def objective(
    G: np.ndarray,
    norm: float,
    L: Any,
    index: np.ndarray,
    Y: np.ndarray,
    b: Any,
    ridge: float,
    smoothness: float,
    weights: np.ndarray | None = None,
) -> float:
    """Return the objective of g with values G (n, q), squared norm ``norm`` and intercept b; labels may have weights.

    >>> objective(np.ones((2, 1)), 1.0, np.zeros((2, 2)), np.array([0]), np.zeros((1, 1)), 0.0, 0.5, 1.0)
    1.5
    """
    fit = np.average(((Y - G[index] - b) ** 2).sum(axis=1), weights=weights)
    return float(fit + ridge * norm + smoothness / len(G) ** 2 * np.sum(G * (L @ G)))


def solve_linear(
    rows: Rows,
    L: Any,
    index: np.ndarray,
    Y: np.ndarray,
    *,
    ridge: float,
    smoothness: float,
    fit_intercept: bool = True,
    flat: bool = True,
    weights: np.ndarray | None = None,
    tol: float = 1e-8,
    max_iter: int = 1000,
    rng: Any,
    callback: Callable[[int, float], Any] | None = None,
) -> LapRLSSolution:
    """Solve (X_L'X_L / l + r I + s/n^2 X'LX) W = X_L'Y / l by conjugate gradients, from products only.

    With weights v of the labelled rows 1 / l is v_i / sum v.

    Parameters
    ----------
    rows : Rows
        X (n, d).
    L : sparse or dense matrix of shape (n, n), or None
        The Laplacian; not used if ``smoothness`` is 0.
    index, Y : ndarray
        The labelled rows (l,) and their targets (l, q).
    flat : bool, default=True
        Whether L 1 = 0. X may then be shifted in the graph term, which avoids cancellation if its mean is large.
    weights : ndarray of shape (l,), optional
        Weights of the labelled rows; all are 1 when None.
    """
    n, d = rows.shape
    q = Y.shape[1]
    v = np.ones(len(Y)) if weights is None else weights
    total, v = v.sum(), v[:, None]
    weight = smoothness / n**2
    mean, y_mean = np.zeros(d), np.zeros(q)
    if fit_intercept:
        known = np.zeros(n)
        known[index] = v[:, 0]
        mean, y_mean = Weighted(rows, known).mean() * (n / total), np.average(Y, axis=0, weights=v[:, 0])
        rows = Centered(rows, mean)
    tol = max(tol, 100 * float(np.finfo(rows.dtype).eps))

    def operator(V: np.ndarray) -> np.ndarray:
        out = np.empty((d, V.shape[1]))
        for start in range(0, V.shape[1], _BLOCK):
            here = slice(start, start + _BLOCK)
            Z = rows.get(rows @ V[:, here]).astype(np.float64, copy=False)  # (n, q), labelled rows centred
            T, pull = np.zeros_like(Z), np.zeros(())
            if weight:
                T = weight * (L @ (Z if flat else Z + mean @ V[:, here]))
                pull = pull if flat else np.outer(mean, T.sum(axis=0))
            T[index] += v * Z[index] / total
            out[:, here] = rows.t(T) + pull
        return out

    T = np.zeros((n, q))
    T[index] = v * (Y - y_mean) / total
    B = rows.t(T)
    norms = np.linalg.norm(B, axis=0)
    # Plain iterations first: they suffice if the ridge is large or the columns have similar scales.
    W, rest, n_iter, residual, sketch = np.zeros_like(B), B, 0, np.inf, None
    for restart in range(_MAX_RESTARTS + 1):
        found = preconditioned_cg(
            operator,
            B,
            ridge,
            sketch,
            rest=rest,
            tol=tol / 2,
            max_iter=max_iter - n_iter,
            callback=None if callback is None else partial(_continued, callback, n_iter),
            patience=np.inf if restart else 30.0,
        )
        W, n_iter = W + found.X, n_iter + found.n_iter
        rest = B - operator(W) - ridge * W
        before = residual
        residual = float((np.linalg.norm(rest, axis=0) / np.where(norms > 0, norms, 1.0)).max(initial=0.0))
        if residual <= tol or n_iter >= max_iter or (restart > 1 and residual > before / 2):
            break
        if sketch is None:
            sketch = nystrom_sketch(operator, d, d if d <= _MAX_WHOLE else min(d, _BLOCK + q), rng)
    if residual > tol:
        warn_user(
            f"LapRLS stopped after {n_iter} iterations with a relative residual of {residual:.1e}, short of "
            f"tol={tol:.1e}; raise max_iter, tol or ridge",
            ConvergenceWarning,
        )
    return LapRLSSolution(W, y_mean - mean @ W, n_iter, residual, mean)


def deformed_columns(K: np.ndarray, L: Any, index: np.ndarray, ridge: float, smoothness: float) -> np.ndarray:
    r"""Return A (n, m) such that K A are the columns ``index`` of the kernel that results from K and the graph.

    Over the n rows this deformed kernel is
    :math:`(r K^{-1} + s/n^2 \mathcal{L})^{-1} = K (r I + s/n^2 \mathcal{L} K)^{-1}`, and least squares that is smooth
    over the graph is ridge regression with it. It depends neither on y nor on which rows are labelled. Raises
    LinAlgError if the ridge is lost to round-off beside the graph term.
    """
    n = len(K)
    A = np.zeros((n, len(index)))
    A[index, np.arange(len(index))] = 1.0
    if not smoothness:
        return A / ridge
    M = np.asarray(L @ K)
    M *= smoothness / n**2
    M.flat[:: n + 1] += ridge
    # LAPACK factors the transpose in place.
    norm = linalg.lapack.dlange("1", M.T)
    LU, pivots, failed = linalg.lapack.dgetrf(M.T, overwrite_a=1)
    if failed or linalg.lapack.dgecon(LU, norm)[0] < _min_rcond(n):
        raise linalg.LinAlgError("the ridge is lost beside the graph's term")
    return linalg.lu_solve((LU, pivots), A, trans=1, overwrite_b=True, check_finite=False)


def solve_deformed(
    H: np.ndarray, Y: np.ndarray, *, fit_intercept: bool = True, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return S (l, q) and b (q,) of ridge regression with the deformed kernel: g = H_{.L} S, Y - H S - b = l S.

    With weights v, whose mean is then 1, it is diag(v) (Y - H S - b) = l S. Raises LinAlgError if l is lost to
    round-off beside H.
    """
    n_labelled, q = Y.shape
    roots = _roots(weights, n_labelled)  # (l, 1)
    H = (H + H.T) / 2
    C, Yc, unit = roots * H * roots.T, roots * Y, roots / np.sqrt(n_labelled)
    if fit_intercept:
        C -= unit @ (unit.T @ C)
        C -= (C @ unit) @ unit.T
        Yc = Yc - unit @ (unit.T @ Yc)
    C = C + n_labelled * np.eye(n_labelled)
    norm = linalg.lapack.dlange("1", C)
    U, failed = linalg.lapack.dpotrf(C, overwrite_a=1)
    if failed or linalg.lapack.dpocon(U, norm)[0] < _min_rcond(n_labelled):
        raise linalg.LinAlgError("the labels are lost beside the kernel")
    S = linalg.lapack.dpotrs(U, Yc)[0]
    if not fit_intercept:
        return roots * S, np.zeros(q)
    S = roots * (S - unit @ (unit.T @ S))
    return S, np.average(Y - H @ S, axis=0, weights=roots[:, 0] ** 2)


def _roots(weights: np.ndarray | None, n: int) -> np.ndarray:
    """Return the roots of weights, (n, 1), scaled so that the mean weight is 1; ones if there are none."""
    return np.ones((n, 1)) if weights is None else np.sqrt(weights * (n / weights.sum()))[:, None]


def solve_kernel(
    K: np.ndarray,
    L: Any,
    index: np.ndarray,
    Y: np.ndarray,
    *,
    ridge: float,
    smoothness: float,
    fit_intercept: bool = True,
    weights: np.ndarray | None = None,
) -> LapRLSSolution:
    """Solve over the kernel matrix K of all n rows; g(x) = k(x)'W with W (n, q). Labelled rows may have weights (l,).

    With `solve_spectrum` alone ``LapRLS(kernel="rbf")`` on the 1,797 digits takes 12.8 times as long.
    """
    try:
        A = deformed_columns(K, L, index, ridge, smoothness)
        S, b = solve_deformed(K[index] @ A, Y, fit_intercept=fit_intercept, weights=weights)
    except linalg.LinAlgError:
        return solve_spectrum(K, L, index, Y, ridge, smoothness, fit_intercept, weights)
    return LapRLSSolution(A @ S, b, 1, 0.0)


def solve_spectrum(
    K: np.ndarray,
    L: Any,
    index: np.ndarray,
    Y: np.ndarray,
    ridge: float,
    smoothness: float,
    fit_intercept: bool,
    weights: np.ndarray | None = None,
) -> LapRLSSolution:
    """Solve the same problem as `solve_kernel` by eigenvalues: slower, but stable for any scale of the kernel."""
    n = len(K)
    values, U = np.linalg.eigh((K + K.T) / 2)
    keep = values > n * _EPS * values[-1]
    root, U = np.sqrt(values[keep]), U[:, keep]
    F = U * root  # K = F F', so that g(x_i) = f_i'v and its norm is that of v
    B = F.T @ (L @ F) * (smoothness / n**2) if smoothness else np.zeros((len(root), len(root)))
    b, V = np.linalg.eigh((B + B.T) / 2)
    b = np.maximum(b, n * _EPS * b.max(initial=0.0))  # smaller values are round-off
    V = V / np.sqrt(ridge + b)  # both penalties of g = F V c add up to |c|^2
    X, roots = (F @ V)[index], _roots(weights, len(Y))
    x_mean, y_mean = np.zeros(X.shape[1]), np.zeros(Y.shape[1])
    if fit_intercept:
        x_mean, y_mean = (np.average(A, axis=0, weights=roots[:, 0] ** 2) for A in (X, Y))
    P, s, Qt = np.linalg.svd(roots * (X - x_mean), full_matrices=False)
    C = Qt.T @ ((s / (s**2 + len(Y)))[:, None] * (P.T @ (roots * (Y - y_mean))))
    return LapRLSSolution(U / root @ (V @ C), y_mean - x_mean @ C, 1, 0.0)


def _min_rcond(n: int) -> float:
    """Return the reciprocal condition below which a factor of an n x n matrix is not trusted."""
    return n * ROUND_OFF


def _continued(callback: Callable[..., Any], done: int, i: int, value: float) -> Any:
    """Call back with the count of iterations continued."""
    return callback(done + i, value)
