"""NMF-alpha: non-negative factors that preserve the directions between classes (Cho & Saul, 2011).

The factorisation is that of KLNMF with a second term (`_klnmf.py`). The directions are non-negative sums of labelled
rows, with dual variables of linear classifiers as weights. The classifiers are trained first, or learned with the
factors (`joint_iterates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state

from labelfold.base import Iterates, constraints, descend, fitting, refuse_without_kernel, repeated
from labelfold.factorization._components import chosen, weighted
from labelfold.factorization._divergence import divergence, sum_of_divergences
from labelfold.factorization._dual_directions import (
    JointSVMs,
    dual_directions,
    rows_divided,
    set_weights,
    training_sets,
    weighted_sums,
)
from labelfold.factorization._klnmf import DivergenceNMF, Margins, PreservedDirections, iterates
from labelfold.features import default_gamma, kernel_columns
from labelfold.labels import Labels, loss_weights
from labelfold.numerics import nonnegative_numbers
from labelfold.rows import Block, Rows, as_rows, check_fits, stored_values
from labelfold.utils import StrOptions


class RowsAndSums(NamedTuple):
    """What a fit reads: the rows, in the kernel form their kernel values, and the weighted sums of the rows."""

    rows: Rows
    labels: Labels
    weights: np.ndarray | None
    sums: Margins


class NMFAlpha(DivergenceNMF):
    r"""Non-negative matrix factorisation that preserves the directions in which linear SVMs separate labelled rows.

    Linear SVMs are trained on the labelled rows first. The weights of each are a difference of two non-negative sums
    of support vectors, :math:`w = X'\alpha_+ - X'\alpha_-`. All rows and, with a weight, these sums are factorised:

    .. math:: \min_{H, V \ge 0} D(X, HV') + \lambda\, D(S'X, S'HV'), \qquad
              D(A, B) = \sum_{ij} A_{ij} \log \frac{A_{ij}}{B_{ij}} - A_{ij} + B_{ij}

    ================  ============  ==============================================================
    here              in the paper  what it is
    ================  ============  ==============================================================
    X (n, d)          X (d, n)      the rows
    H (n, k)          H (k, n)      embedding of the rows
    V (d, k)          V             ``components_.T``: the parts
    S (n, 2p)         S             ``dual_coef_``: dual variables of p SVMs, by sign
    supervision       lambda        weight of the second term
    ================  ============  ==============================================================

    Two classes have one SVM, several classes one for each pair (or for each class against the rest), and the labels
    of a multi-label Y one each.

    Three extensions are named as future work in the paper: directions of a perceptron, which visits each labelled row
    a few times, or of logistic regression (``directions``); directions learned jointly with the factors (``joint``);
    and a kernel form (``kernel``), which factorises the kernel values of the rows with landmarks. With ``joint`` the
    objective is

    .. math:: D(X, HV') + \lambda\, D(S'X, S'HV') + \mu \sum_m E(\alpha_m), \qquad
              E(\alpha) = \tfrac12 \|X'(y \circ \alpha)\|^2 + \tfrac{1}{4C} \|\alpha\|^2 - \sum_i \alpha_i,

    over H, V and the dual variables :math:`\alpha_m \ge 0` of the SVMs, the non-zeros of S. E is the dual objective
    of an SVM with squared hinge.

    Parameters
    ----------
    n_components : int, default=10
        Number of parts k. It may exceed the number of rows or columns of X, with a warning.
    supervision : float or "auto", default="auto"
        Weight of the second term, at least 0; with 0 this is exactly `KLNMF`. Dual variables are inversely
        proportional to the square of the unit of X, so the best weight depends on that unit. "auto" is the weight at
        which both terms have data with the same sum, ``X.sum() / (dual_coef_.T @ X).sum()``, in any unit. Start
        there, and try some fractions and multiples of it with `path`.
    C : float or "auto", default="auto"
        Penalty of the SVMs on the squared hinge, as in scikit-learn's LinearSVC (without an intercept). "auto" is 1
        divided by the mean squared norm of a labelled row. With a hundredth of that all labelled rows have nearly the
        same weight, which did better on word counts with few labels: try both on validation rows.
    class_weight : dict or "balanced", default=None
        Weight of a row's losses by its class, in the classifiers. With "balanced" all classes have the same total.
        For a multi-label Y it is the weight of the positive rows of a label; "balanced" then also weights its
        negative rows.
    multiclass : {"ovo", "ovr"}, default="ovo"
        Whether several classes have one SVM for each pair, or one for each class against the rest.
    directions : {"svm", "perceptron", "logistic"}, default="svm"
        The classifiers that give the directions. The dual variables of a perceptron count its mistakes. It is the
        fastest for very many labelled rows, and needs no ``C``.
    joint : bool, default=False
        Whether the dual variables are learned jointly with the factors, starting from those of ``directions``. An
        iteration then has ten passes over X and one update of each SVM.
    machine_weight : float or "auto", default="auto"
        With ``joint``, the weight mu of the dual objectives. For large values the SVMs are those without ``joint``.
        "auto" is the weight at which these objectives start with the size of the sum of X.
    kernel : {"rbf", "laplacian", "chi2"} or None, default=None
        None factorises X itself. Otherwise the kernel values of a row with the landmarks are factorised, which are
        non-negative for every X ("chi2" needs a non-negative X).
    gamma : float, "auto" or "scale", default="auto"
        Parameter of the kernel; see `LDA`. It is computed from all rows, and "auto" of "rbf" is eight times as large
        as there: parts consist of rows that are near each other.
    n_landmarks : int, "auto" or None, default="auto"
        Number of rows, drawn at random, that are landmarks; all when None, at most 1,000 for "auto".
    corrected : bool, default=True
        Whether the embedding is :math:`Z = H (V'V)^{1/2}`, which has the inner products of the rows (eq. 5) and suits
        linear classifiers, rather than the non-negative H. `transform` and `inverse_transform` read it when they are
        called.
    init : {"random", "nndsvda"} or tuple (H, V), default="random"
        Initial values: random near the product of X's margins (if there are many rows, improved on a sample first),
        from singular vectors, or given.
    max_iter : int, default=300
        Largest number of iterations; each reads X once.
    tol : float, default=1e-5
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
        The parts, V'; in the kernel form of shape (k, number of landmarks).
    embedding_ : ndarray of shape (n, k)
        The embedding of the training rows at the end of the fit, Z or H.
    objective_ : ndarray of shape (n_iter_,)
        The objective after each iteration; it never rises.
    supervision_ : float
        The weight of the second term, lambda, as given or chosen.
    C_ : float
        Penalty of the SVMs, as given or chosen; 0 if there are none.
    dual_coef_ : csr_array of shape (n, 2p)
        S: dual variables of the SVMs, first those of positive rows; empty if ``supervision`` is 0.
    machine_weight_ : float
        The weight mu of the dual objectives, as given or chosen; 0 without ``joint``.
    feature_map_ : KernelMap or None
        The map to the kernel values; None without a kernel.
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
    Memory beside a dense X, at most: ``96*(n + d)*k`` bytes in fit, ``64*m*k`` in transform, and 24 MB
    (docs/memory.md).

    With more components than X has rows or columns, the coordinates of a row are not unique. They may differ between
    a row alone and the same row in a batch, in particular in float32, where round-off decides how far a step is
    extrapolated. Their divergences from the row differ by at most 2e-5 of its sum.

    Cost: one pass over X in each iteration, O(k nnz), and one over S'X, which is sparse if X is; O(nnz + k (n + d))
    memory. The labelled rows are read into memory once, to train the SVMs. Updates are the paper's eqs. 15 and 16,
    with extrapolation: see `labelfold.factorization._klnmf`.

    Memory: as for `KLNMF`, but with at most five arrays of the size of V and seven of the size of H, and with S'X,
    which has at most 2p rows with at most d non-zeros each.

    The embedding of a new row is computed without labels by updates of its own, until its divergence is at most 1e-5
    of its sum above the minimum. So `transform` of a training row may differ from its ``embedding_``.

    With ``joint`` an update of the SVMs costs about twenty products with the labelled rows and with V for each SVM,
    for any number of rows. In the kernel form a pass computes the kernel values of a block of rows with the
    landmarks, which are in memory.

    ``sample_weight`` multiplies the divergence of a row and its loss in the classifiers: whole weights are repeated
    rows, whose dual variables are added. Where random initial values depend on the rows, this holds in the mean over
    seeds.

    The objective is not convex: the result depends on the initial values.

    References
    ----------
    Y. Cho, L. K. Saul. Nonnegative matrix factorization for semi-supervised dimensionality reduction. 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import LinearSVC
    >>> from labelfold import NMFAlpha
    >>> X, y = load_digits(return_X_y=True)
    >>> few = y.copy()
    >>> few[200:] = -1                  # labels for the first two hundred only
    >>> model = NMFAlpha(n_components=20, tol=1e-4).fit(X, few)
    >>> Z = model.transform(X)
    >>> svm = LinearSVC(C=1e-3).fit(Z[:200], y[:200])
    >>> bool(svm.score(Z[200:], y[200:]) > 0.8)
    True
    """

    dual_coef_: Any
    supervision_: float
    machine_weight_: float

    _allowed = ("binary", "multiclass", "multilabel")
    _parameter_constraints = {
        **DivergenceNMF._parameter_constraints,
        **constraints("supervision", "C", "class_weight", "machine_weight", "gamma", "n_landmarks"),
        "multiclass": [StrOptions({"ovo", "ovr"})],
        "directions": [StrOptions({"svm", "perceptron", "logistic"})],
        "joint": ["boolean"],
        "kernel": [StrOptions({"rbf", "laplacian", "chi2"}), None],
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        supervision: float | Literal["auto"] = "auto",
        C: float | Literal["auto"] = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        multiclass: Literal["ovo", "ovr"] = "ovo",
        directions: Literal["svm", "perceptron", "logistic"] = "svm",
        joint: bool = False,
        machine_weight: float | Literal["auto"] = "auto",
        kernel: Literal["rbf", "laplacian", "chi2"] | None = None,
        gamma: float | Literal["auto", "scale"] = "auto",
        n_landmarks: int | Literal["auto"] | None = "auto",
        corrected: bool = True,
        init: Literal["random", "nndsvda"] | tuple[Any, Any] | list[Any] = "random",
        max_iter: int = 300,
        tol: float = 1e-5,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        on_interrupt: Literal["raise", "keep"] = "raise",
        unlabeled: Any = -1,
    ) -> None:
        self.n_components = n_components
        self.supervision = supervision
        self.C = C
        self.class_weight = class_weight
        self.multiclass = multiclass
        self.directions = directions
        self.joint = joint
        self.machine_weight = machine_weight
        self.kernel = kernel
        self.gamma = gamma
        self.n_landmarks = n_landmarks
        self.corrected = corrected
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.on_interrupt = on_interrupt
        self.unlabeled = unlabeled

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train SVMs on the labelled rows, then factorise all rows together with the directions of the SVMs.

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
        self : NMFAlpha
        """
        data = self._read(X, y, sample_weight)
        self._factorise(data, *self._find_directions(data))
        return self

    def path(self, X: Any, y: Any, multiples: Sequence[float], sample_weight: Any = None) -> list[Self]:
        """Fit for several weights of the second term, each with a warm start from the previous one.

        The SVMs are trained once, and a fit with a warm start needs few iterations. ``max_iter`` is the limit of one
        step of the path.

        Parameters
        ----------
        X : container of shape (n, d)
            As in `fit`.
        y : array-like of shape (n,) or (n, c)
            As in `fit`.
        multiples : sequence of float
            The weights, as multiples of the one that ``supervision="auto"`` chooses, in the order of the path; 0 is
            `KLNMF`. Falling ones, say 3, 1, 0.3, 0.1, 0.03, are the better order: factors that were found without
            supervision hardly leave their minimum again.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.

        Returns
        -------
        models : list of NMFAlpha
            One fitted model for each multiple, in the given order, with the weight itself as ``supervision``.
        """
        base = clone(self).set_params(supervision="auto")
        base._validate_params()
        weights = nonnegative_numbers("multiples", multiples)
        data = base._read(X, y, sample_weight)
        directions, svms = base._find_directions(data)
        assert directions is not None
        shared = {name: value for name, value in vars(base).items() if name.endswith("_")}
        models: list[Self] = []
        start, unit = None, directions.weight
        for multiple in weights:
            model = clone(self).set_params(supervision=multiple * unit)
            model.__dict__.update(shared, supervision_=multiple * unit)
            directions = replace(directions, weight=multiple * unit)
            last = model._factorise(data, directions if multiple else None, svms, start)
            start, directions = (last.H, last.V), getattr(last, "directions", directions)
            models.append(model)
        return models

    def _read(self, X: Any, y: Any, sample_weight: Any) -> RowsAndSums:
        """Read the rows to factorise, kernel values in the kernel form, and their labels."""
        rows = self._rows(X, reset=True)
        labels, weights = self._read_weighted(y, sample_weight, rows.shape[0])
        self._fit_map(rows, weights)
        rows = self._featurized(rows)
        return RowsAndSums(rows, labels, weights, self._check_sums(weighted(rows, weights)))

    @fitting
    def _factorise(
        self,
        data: RowsAndSums,
        directions: PreservedDirections | None,
        svms: JointSVMs | None,
        start: tuple[Any, np.ndarray] | None = None,
    ) -> Any:
        """Factorise from ``start``, or from ``init``, store the results, and return the last factors."""
        start = start or self._start(data.rows, data.sums, data.weights)
        counted = weighted(data.rows, data.weights)
        if directions is None or svms is None:
            steps = iterates(counted, start, directions, max_iter=self.max_iter)
        else:
            steps = joint_iterates(counted, start, directions, svms)
        del start  # a basis is large
        last = self._descend(steps)
        self._store(data.rows, last.H, last.V, data.weights)
        n = data.rows.shape[0]
        if directions is None:
            self.dual_coef_ = sparse.csr_array((n, 0))
        elif svms is not None:
            S = rows_divided(last.directions.S, svms.row_weights, power=-1)
            self.dual_coef_ = _with_all_rows(S, data.labels.index, n)
        self.classes_: np.ndarray = data.labels.classes
        return last

    def _fit_map(self, rows: Rows, weights: np.ndarray | None) -> None:
        """Store the map to the kernel values; None without a kernel."""
        self.feature_map_: Any = None
        self.gamma_: float | None = None
        if self.kernel is None:
            refuse_without_kernel(gamma=self.gamma, n_landmarks=self.n_landmarks)
            return
        landmarks = 1000 if isinstance(self.n_landmarks, str) else self.n_landmarks
        gamma = self.gamma
        if gamma == "auto" and self.kernel == "rbf":
            # Parts consist of rows that are near each other, and a wider kernel is nearly constant.
            gamma = 8.0 * default_gamma(rows, weights)
        if weights is not None:
            # Landmarks are drawn by weight, without repetition.
            index = np.flatnonzero(weights)
            if landmarks is not None and landmarks < len(index):
                rng = check_random_state(self.random_state)
                index = np.sort(rng.choice(len(weights), landmarks, replace=False, p=weights / weights.sum()))
            rows, landmarks = rows.subset(index), None
        self.feature_map_ = kernel_columns(rows, self.kernel, gamma, landmarks, self.random_state)
        self.gamma_ = self.feature_map_.params.get("gamma")

    def _find_directions(self, data: RowsAndSums) -> tuple[PreservedDirections | None, JointSVMs | None]:
        """Return the second term, and the SVMs that are learned with the factors; None for what is not used."""
        rows, labels, total = data.rows, data.labels, float(data.sums.column.sum())
        n = rows.shape[0]
        self.dual_coef_, self.supervision_ = sparse.csr_array((n, 0)), 0.0
        self.C_, self.machine_weight_ = 0.0, 0.0
        if not isinstance(self.supervision, str) and self.supervision == 0:
            return None, None
        check_fits(rows, "NMFAlpha", "use SSNMF or LabelFold, or fewer labels", n_rows=labels.n_labelled)
        X = (rows if labels.all_labelled and rows.in_memory else rows.take(labels.index)).whole().raw
        self.C_ = chosen(self.C, 1 / _mean_square(X, labels.weights))
        unweighted = labels.weights is None and self.class_weight is None
        losses = None if unweighted else loss_weights(labels, self.class_weight)
        S = dual_directions(X, labels, self.C_, self.multiclass, self.directions, weights=losses)
        svms = None
        if self.joint:
            sets = list(training_sets(labels, self.multiclass))
            own = None if losses is None else list(set_weights(sets, losses))
            svms = JointSVMs(X, sets, self.C_, 1.0, own, labels.weights)
            S = svms.scaled(S)
            self.machine_weight_ = chosen(self.machine_weight, total / (abs(svms.cost(S)) or 1.0))
            svms = replace(svms, weight=self.machine_weight_)
        StX = weighted_sums(S, X, rows.dtype)
        # With "auto" X and S'X have the same sum.
        self.supervision_ = chosen(self.supervision, total / (float(StX.sum(dtype=np.float64)) or total))
        self.dual_coef_ = _with_all_rows(S, labels.index, n)
        # Rows that are not support vectors are not in S, unless S is learned.
        used = np.arange(len(labels.index)) if self.joint else np.flatnonzero(np.diff(S.indptr))
        S_used = rows_divided(S, labels.weights)[used]
        return PreservedDirections(S_used, labels.index[used], as_rows(StX), self.supervision_), svms

    def _embed(self, rows: Rows) -> Any:
        return self._embed_rows(self._featurized(rows))

    def _check_parts(self, what: str) -> None:
        if self.feature_map_ is not None:
            raise ValueError(
                f"{what} was asked of the kernel form, whose components are over landmarks, not over columns of X; "
                "use kernel=None"
            )

    def __sklearn_tags__(self) -> Any:
        """Declare that X must be non-negative, unless its kernel values are factorised."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.kernel in (None, "chi2")
        return tags


def objective(X: Any, H: np.ndarray, V: np.ndarray, S: Any, *, supervision: float = 1.0) -> float:
    """Return the objective of NMFAlpha (eq. 14), in two passes over X, without the dual objectives.

    Parameters
    ----------
    X : container of shape (n, d)
        Rows.
    H, V : ndarray of shapes (n, k), (d, k)
        The factors (H not corrected).
    S : sparse matrix of shape (n, 2p)
        Dual variables.
    supervision : float
        As in `NMFAlpha`.

    Returns
    -------
    f : float
    """
    rows, S = as_rows(X), sparse.csr_array(S)
    directions = as_rows(weighted_sums(S, rows.whole().raw, rows.dtype))
    return divergence(rows, H, V) + supervision * divergence(directions, S.T @ H, V)


def _mean_square(X: Any, weights: np.ndarray | None = None) -> float:
    """Return the mean squared norm of the rows of an array or CSR matrix; 1 if all are zero."""
    if weights is not None:
        return float(weights @ as_rows(X).map(_squares).astype(np.float64)) / weights.sum() or 1.0
    values = np.asarray(stored_values(X), dtype=np.float64)
    return float(np.vdot(values, values)) / X.shape[0] or 1.0


def _squares(X: Block) -> Any:
    return X.sq()


def _with_all_rows(S: sparse.csr_array, index: np.ndarray, n: int) -> sparse.csr_array:
    """Return S with a row for each of n rows; those not in ``index`` are zero."""
    entries = sparse.coo_array(S)
    return sparse.csr_array((entries.data, (index[entries.row], entries.col)), shape=(n, S.shape[1]))


@dataclass(eq=False)
class JointFactors:
    """Factors, and the directions learned with them."""

    H: Any  # (n, k)  stored with the rows
    V: np.ndarray  # (d, k)
    directions: PreservedDirections


def joint_iterates(
    rows: Rows,
    start: tuple[Any, np.ndarray],
    directions: PreservedDirections,
    svms: JointSVMs,
    n_passes: int = 10,
) -> Iterates:
    """Update factors and SVMs in turn: ``n_passes`` passes over X, then each SVM on the labelled rows.

    Parameters
    ----------
    rows : Rows
        X, n x d, non-negative, each row times its weight.
    start : (H, V), arrays of shapes (n, k) and (d, k)
        Initial factors.
    directions : PreservedDirections
        The initial S, of all labelled rows.
    svms : JointSVMs
        The SVMs.
    n_passes : int
        Number of updates of the factors for each update of the SVMs.

    Yields
    ------
    factors : JointFactors
    objective : float
    """

    def step(old: JointFactors) -> tuple[JointFactors, float]:
        directions = old.directions
        steps = iterates(rows, (old.H, old.V), directions, max_iter=n_passes)
        factors = descend(steps, max_iter=n_passes, tol=0.0).state
        H, V = factors.H, factors.V
        H_L = rows.pick(H, directions.index)  # (l, k)
        if svms.row_weights is not None:
            H_L = H_L / svms.row_weights[:, None]
        S = rows_divided(directions.S, svms.row_weights, power=-1)
        S = svms.updated(S, H_L, V, directions.weight)
        directions = replace(
            directions,
            S=rows_divided(S, svms.row_weights),
            rows=as_rows(weighted_sums(S, svms.X, rows.dtype)),
        )
        G = (S.T @ H_L).astype(rows.dtype, copy=False)
        value = sum_of_divergences(rows, H, V)
        value += directions.weight * sum_of_divergences(directions.rows, G, V)
        return JointFactors(H, V, directions), value + svms.weight * svms.cost(S)

    return repeated(step, JointFactors(*start, directions))
