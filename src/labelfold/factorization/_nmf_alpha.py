"""NMF-alpha: non-negative factors that keep what tells the classes apart (Cho & Saul, 2011)."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy import sparse

from labelfold._base import fitting, refuse_without_kernel
from labelfold._sklearn import Interval, StrOptions
from labelfold.factorization._directions import dual_directions, machines
from labelfold.factorization._joint_directions import Machines, sums
from labelfold.factorization._supervision_path import SupervisionPath
from labelfold.factorization._weights import WEIGHT, chosen
from labelfold.features._kernel_map import default_gamma, kernel_columns
from labelfold.labels import Labels
from labelfold.numerics.kl._factors import Guide, divergence
from labelfold.numerics.kl._starts import Margins
from labelfold.rows import Rows, as_rows, stored_values

# Landmarks of the kernel form unless told, and its gamma as a multiple of one over twice the mean squared distance
# between rows: parts are of rows that are near each other, and a wider kernel is much the same everywhere.
_MOST_LANDMARKS, _NARROW = 1000, 8.0


class NMFAlpha(SupervisionPath):
    r"""Non-negative matrix factorisation that keeps the directions in which linear SVMs tell labelled rows apart.

    Linear SVMs are trained on the labelled rows first. The weights of each are a difference of two non-negative sums
    of support vectors, :math:`w = X'\alpha_+ - X'\alpha_-`. The factorisation is of all rows and, with a weight, of
    those sums:

    .. math:: \min_{H, V \ge 0} D(X, HV') + \lambda\, D(S'X, S'HV'), \qquad
              D(A, B) = \sum_{ij} A_{ij} \log \frac{A_{ij}}{B_{ij}} - A_{ij} + B_{ij}

    ================  ============  ==============================================================
    here              in the paper  what it is
    ================  ============  ==============================================================
    X (n, d)          X (d, n)      the rows
    H (n, k)          H (k, n)      places of the rows
    V (d, k)          V             ``components_.T``: the parts
    S (n, 2p)         S             ``dual_coef_``: dual variables of p machines, by sign
    supervision       lambda        weight of the second term
    ================  ============  ==============================================================

    Two classes have one machine, several one for each pair (or each against the rest), the labels of a multi-label Y
    one each.

    Three extensions are those that the paper names as future work: directions of a perceptron, which sees each
    labelled row a few times, or of logistic regression (``directions``); directions learned together with the
    factors (``joint``); and a kernel form (``kernel``), which factorises the kernels of the rows with landmarks.
    With ``joint`` the objective is

    .. math:: D(X, HV') + \lambda\, D(S'X, S'HV') + \mu \sum_m E(\alpha_m), \qquad
              E(\alpha) = \tfrac12 \|X'(y \circ \alpha)\|^2 + \tfrac{1}{4C} \|\alpha\|^2 - \sum_i \alpha_i,

    over H, V and the dual variables :math:`\alpha_m \ge 0` of the machines, the non-zeros of S. E is what the dual of
    an SVM with squared hinge minimises.

    Parameters
    ----------
    n_components : int, default=10
        Number of parts, k. More than X has rows or columns is allowed, with a warning.
    supervision : float or "auto", default="auto"
        Weight of the second term, at least 0; with 0 this is `KLNMF`, to the bit. Dual variables shrink with the
        square of the unit of X, so what is much depends on that unit. "auto" is the weight at which both terms are of
        things that sum to the same, ``X.sum() / (dual_coef_.T @ X).sum()``, in any unit: begin there, and try
        some tenths and some times of it with `path`.
    C : float or "auto", default="auto"
        Penalty of the machines on the squared hinge, as in scikit-learn's LinearSVC (without an intercept). "auto" is
        1 divided by the mean squared length of a labelled row.
    multiclass : {"ovo", "ovr"}, default="ovo"
        Whether several classes have a machine for each pair of them, or for each against the rest.
    directions : {"svm", "perceptron", "logistic"}, default="svm"
        The classifiers that the directions come from. The dual variables of a perceptron count its mistakes; it is
        the fastest for very many labelled rows, and needs no ``C``.
    joint : bool, default=False
        Whether the dual variables are learned together with the factors, starting from those of ``directions``. An
        iteration is then ten passes over X and one update of each machine.
    machine_weight : float or "auto", default="auto"
        With ``joint``, the weight of the machines' own objective, mu; as it grows they become SVMs as without
        ``joint``. "auto" is the weight at which that objective starts at the size of the sum of X.
    kernel : {"rbf", "laplacian", "chi2"} or None, default=None
        None factorises X itself. Otherwise the rows are the kernel values of a row with the landmarks, which are
        not negative whatever X is ("chi2" wants an X that is not).
    gamma : float, default=None
        The kernel's own parameter. When None, that of "rbf" is four times one over the mean squared distance between
        rows.
    n_landmarks : int, "auto" or None, default="auto"
        How many rows, drawn at random, are landmarks; None is all of them, "auto" at most 1,000.
    corrected : bool, default=True
        Whether places are given as :math:`Z = H (V'V)^{1/2}`, which has the inner products of the rows (eq. 5) and
        suits linear classifiers, rather than as H, which is not negative. `transform` and `inverse_transform` look at
        it when they are called.
    init : {"random", "nndsvda"} or tuple (H, V), default="random"
        Where to start: drawn near the product of X's margins (and tried on some rows first, where there are many),
        from singular vectors, or given.
    max_iter : int, default=300
        The most iterations; each reads X once.
    tol : float, default=1e-5
        Stop when an iteration lowers the objective by no more than this, relative to it.
    random_state : int, RandomState instance or None, default=0
        Seeds the start.
    verbose : int, default=0
        1 shows a progress bar over the iterations.
    on_interrupt : {"raise", "keep"}, default="raise"
        What Ctrl-C does: end the fit, or keep what the last iteration reached.
    unlabeled : int, str or None, default=-1
        The value in y that marks a row as unlabelled; missing values (None, NaN, pandas.NA) always do.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The parts, V'; in the kernel form of shape (k, number of landmarks).
    embedding_ : ndarray of shape (n, k)
        The places of the training rows as the fit left them, Z or H.
    objective_ : ndarray of shape (n_iter_,)
        The objective after each iteration; it never rises.
    supervision_ : float
        The weight of the second term, lambda, as given or chosen.
    C_ : float
        The machines' penalty, as given or chosen; 0 where there are none.
    dual_coef_ : csr_array of shape (n, 2p)
        S: the machines' dual variables, those of their positive rows first; none where ``supervision`` is 0.
    machine_weight_ : float
        The weight of the machines' own objective, mu, as given or chosen; 0 without ``joint``.
    feature_map_ : KernelMap or None
        The map to the kernel's values; None without a kernel.
    classes_ : ndarray of shape (c,)
        The class values; for multi-label the label columns.
    n_iter_ : int
        Iterations.
    n_features_in_ : int
        Columns seen in fit.
    feature_names_in_ : ndarray of str
        Their names, where X had any.

    Notes
    -----
    Memory beside a dense X, at most: ``96*(n + d)*k`` bytes in fit, ``64*m*k`` in transform, and 24 MB
    (docs/memory.md).

    With more components than X has rows or columns, several coordinates of a row are equally good: a row alone
    and in a batch may get others, above all in float32, where round-off decides how far a step is extrapolated. Their
    divergences from the row differ by no more than 2e-5 of its sum.

    Cost: one pass over X an iteration, O(k nnz), and a look at S'X, which is sparse where X is; O(nnz + k (n + d))
    memory. The labelled rows are taken into memory once, to train the machines. Updates are the paper's eqs. 15 and
    16, and look ahead: see `labelfold.numerics.kl._factors`.

    Memory: as `KLNMF` says, but with at most five arrays of the size of V and seven of the size of H, and with S'X,
    which has no more rows than 2p and no more non-zeros in each than X has columns.

    A new row is placed without labels, by updates of its own, until its divergence is known to be within 1e-5 of its
    sum above the least there is. So `transform` of a training row may differ from its ``embedding_``.

    With ``joint`` an update of the machines costs some twenty products with the labelled rows and with V for each of
    them, whatever the number of rows. In the kernel form a pass makes the kernels of a block of rows with the
    landmarks, which are held in memory.

    The objective is not convex: the answer depends on the start.

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

    _allowed = ("binary", "multiclass", "multilabel")
    _parameter_constraints = {
        **SupervisionPath._parameter_constraints,
        "supervision": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "C": WEIGHT,
        "multiclass": [StrOptions({"ovo", "ovr"})],
        "directions": [StrOptions({"svm", "perceptron", "logistic"})],
        "joint": ["boolean"],
        "machine_weight": WEIGHT,
        "kernel": [StrOptions({"rbf", "laplacian", "chi2"}), None],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "unlabeled": "no_validation",
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        supervision: float | str = "auto",
        C: float | str = "auto",
        multiclass: str = "ovo",
        directions: str = "svm",
        joint: bool = False,
        machine_weight: float | str = "auto",
        kernel: str | None = None,
        gamma: float | None = None,
        n_landmarks: int | str | None = "auto",
        corrected: bool = True,
        init: Any = "random",
        max_iter: int = 300,
        tol: float = 1e-5,
        random_state: Any = 0,
        verbose: int = 0,
        on_interrupt: str = "raise",
        unlabeled: Any = -1,
    ) -> None:
        self.n_components = n_components
        self.supervision = supervision
        self.C = C
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
    def fit(self, X: Any, y: Any) -> Self:
        """Train machines on the labelled rows, then factorise all rows together with the machines' directions.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows without negative entries, labelled or not, in any container `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,), or (n, c) for multi-label
            Classes; ``unlabeled`` or a missing value where unknown.

        Returns
        -------
        self : NMFAlpha
        """
        rows, labels = self._read(X, y)
        found = self._survey(rows)
        guide, learned = self._guide(rows, labels, float(found.column.sum()))
        self._solve(rows, labels, found, guide, learned)
        return self

    def _read(self, X: Any, y: Any) -> tuple[Rows, Labels]:
        """Return the rows to factorise, kernel values in the kernel form, and their labels."""
        rows = self._rows(X, reset=True)
        labels = self._read_labels(y, rows.shape[0])
        self._fit_map(rows)
        return self._seen(rows), labels

    @fitting
    def _solve(
        self,
        rows: Rows,
        labels: Labels,
        found: Margins,
        guide: Guide | None,
        learned: Machines | None,
        start: tuple[Any, np.ndarray] | None = None,
    ) -> Any:
        """Factorise, keep what that learns, and return the last state."""
        ended = self._factorise(rows, found, guide, learned, start)
        if guide is None:
            self.dual_coef_ = sparse.csr_array((rows.shape[0], 0))
        elif learned is not None:
            self.dual_coef_ = _spread(ended.guide.S, labels.index, rows.shape[0])
        self.classes_ = labels.classes
        return ended

    def _fit_map(self, rows: Rows) -> None:
        """Keep the map to the kernel's values; None without a kernel."""
        self.feature_map_ = None
        if self.kernel is None:
            refuse_without_kernel(gamma=self.gamma, n_landmarks=self.n_landmarks)
            return
        landmarks = _MOST_LANDMARKS if isinstance(self.n_landmarks, str) else self.n_landmarks
        gamma = self.gamma
        if gamma is None and self.kernel == "rbf":
            gamma = _NARROW * default_gamma(rows)
        self.feature_map_ = kernel_columns(rows, self.kernel, gamma, landmarks, self.random_state)

    def _guide(self, rows: Rows, labels: Labels, total: float) -> tuple[Guide | None, Machines | None]:
        """Return the second term, and the machines that are learned with the factors, where there are such."""
        n = rows.shape[0]
        self.dual_coef_, self.supervision_ = sparse.csr_array((n, 0)), 0.0
        self.C_, self.machine_weight_ = 0.0, 0.0
        if not isinstance(self.supervision, str) and self.supervision == 0:
            return None, None
        known = (rows if labels.all_labelled and rows.in_memory else rows.take(labels.index)).whole().raw
        self.C_ = chosen(self.C, 1 / _mean_square(known))
        S = dual_directions(known, labels, self.C_, self.multiclass, self.directions)
        learned = None
        if self.joint:
            learned = Machines(known, list(machines(labels, self.multiclass)), self.C_, 1.0)
            S = learned.scaled(S)
            self.machine_weight_ = chosen(self.machine_weight, total / (abs(learned.cost(S)) or 1.0))
            learned = replace(learned, weight=self.machine_weight_)
        kept = sums(S, known, rows.dtype)
        self.supervision_ = _weight(self.supervision, total, kept)
        self.dual_coef_ = _spread(S, labels.index, n)
        # rows that are no support vectors have no part in S, unless it is learned
        used = np.arange(len(labels.index)) if self.joint else np.flatnonzero(np.diff(S.indptr))
        return Guide(S[used], labels.index[used], as_rows(kept), self.supervision_), learned

    def _place(self, rows: Rows) -> Any:
        return super()._place(self._seen(rows))

    def _check_parts(self, what: str) -> None:
        if self.feature_map_ is not None:
            raise ValueError(
                f"{what} was asked of the kernel form, whose components are over landmarks, not over columns of X; "
                "use kernel=None"
            )

    def __sklearn_tags__(self) -> Any:
        """Declare that X must not be negative, unless its kernels are factorised."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.kernel in (None, "chi2")
        return tags


def objective(X: Any, H: np.ndarray, V: np.ndarray, S: Any, *, supervision: float = 1.0) -> float:
    """Return what NMFAlpha minimises (eq. 14), in two passes over X; without the machines' own part.

    Parameters
    ----------
    X : container of shape (n, d)
        Rows.
    H, V : ndarray of shapes (n, k), (d, k)
        Places (not corrected) and parts.
    S : sparse matrix of shape (n, 2p)
        Dual variables.
    supervision : float
        As `NMFAlpha` has it.

    Returns
    -------
    f : float
    """
    rows, S = as_rows(X), sparse.csr_array(S)
    directions = as_rows(sums(S, rows.whole().raw, rows.dtype))
    return divergence(rows, H, V) + supervision * divergence(directions, S.T @ H, V)


def _weight(supervision: float | str, total: float, kept: Any) -> float:
    """Return lambda: as given, or that at which rows and directions sum to the same."""
    if supervision != "auto":
        return float(supervision)
    directions = float(kept.sum(dtype=np.float64))
    return total / directions if directions > 0 else 1.0


def _mean_square(X: Any) -> float:
    """Return the mean squared length of the rows of an array or CSR matrix, 1 where they are all zero."""
    values = np.asarray(stored_values(X), dtype=np.float64)
    return float(np.vdot(values, values)) / X.shape[0] or 1.0


def _spread(S: sparse.csr_array, index: np.ndarray, n: int) -> sparse.csr_array:
    """Return S with a row for each of n rows, those at ``index`` filled."""
    counts = np.zeros(n, dtype=np.int64)
    counts[index] = np.diff(S.indptr)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return sparse.csr_array((S.data, S.indices, indptr), shape=(n, S.shape[1]))
