"""TSVM: a linear transductive SVM for sparse data, by switching labels in pairs (Sindhwani & Keerthi, 2006)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from labelfold.base import ITERATIONS, Decisions, RowsEstimator, constraints, fitting, linear_values
from labelfold.labels import Labels, loss_weights
from labelfold.numerics import MAX_GRAM_BYTES, LinearSVM, linear_svm, row_spread
from labelfold.rows import Rows, as_rows, check_fits
from labelfold.utils import Interval, Progress, warn_user

# With C="auto", fewer labelled rows than this get the total weight of this many.
_FEW_LABELS = 100
# What fits more rows than TSVM, for its error.
_OF_MORE_ROWS = "use LabelFold, LDA or DRSVM, or leave out some of the unlabelled rows"


class TSVM(Decisions, RowsEstimator):
    r"""Transductive support vector machine: a linear SVM that also keeps unlabelled rows out of its margin.

    It searches labels of the unlabelled rows, with a given share of positive ones, that minimise the objective of an
    SVM:

    .. math:: \min_{w, b, y_U} \tfrac12 (\|w\|^2 + b^2) + C \sum_{i \in L} \ell(y_i (w'x_i + b))
              + C_U \sum_{i \in U} \ell(y_i (w'x_i + b)), \qquad \ell(z) = \max(0, 1 - z)^2

    Two steps alternate. With fixed labels an SVM is trained. With a fixed SVM, pairs of a positive and a negative
    unlabelled row exchange their labels if that lowers the objective, many pairs at once. The weight of the
    unlabelled rows grows in stages from almost 0 to :math:`C_U`. Several classes, and the labels of a multi-label Y,
    are fitted one against the rest. New rows are classified by the SVMs alone.

    =================  ====================  ===========================================================
    here               in the paper          what it is
    =================  ====================  ===========================================================
    C                  1 / (lambda l)        weight of a labelled row
    C_U                lambda' / (lambda u)  weight of an unlabelled row, C ``unlabeled_weight`` l / u
    unlabeled_weight   lambda'               weight of all unlabelled rows over that of all labelled ones
    positive_fraction  r                     share of positive unlabelled rows
    max_switches       S                     maximum number of pairs that exchange labels at once
    =================  ====================  ===========================================================

    A row of weight w counts as w copies, which change their labels together: its loss is multiplied by w, and l, u
    and the shares of positive rows are sums of weights.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Weight of a labelled row's loss, as in scikit-learn's LinearSVC. "auto" suits any unit of X: it is
        :math:`\max(1, 100/l) / u^2` with :math:`u^2` the mean squared distance of all rows from their mean. The
        intercept then costs :math:`b^2 / (2 u^2)`, as it would for X / u.
    unlabeled_weight : float, default=1.0
        Weight of the unlabelled rows together, relative to that of the labelled rows together. 0 is an SVM.
    positive_fraction : float or array-like of shape (c,), default=None
        Share of the unlabelled rows that is positive: of the second class, for two classes; otherwise of each class
        (these add up to 1) or label. None takes the shares of the labelled rows.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, or of the labels, in the losses of labelled rows. "balanced" gives all classes, or a
        label and its absence, the same total weight.
    fit_intercept : bool, default=True
        Whether each SVM has an intercept, penalised like its weights.
    n_stages : int, default=10
        Number of stages in which the weight of the unlabelled rows grows, each time by the same factor.
    max_switches : int, default=None
        Maximum number of pairs that exchange labels at once; None for no limit.
    max_iter : int, default=50
        Maximum number of trainings of an SVM in a stage.
    tol : float, default=1e-4
        Relative duality gap at which the training of an SVM stops.
    max_gram_bytes : int, default=512 MB
        Largest size of rows that are read into memory: label switching needs all rows in memory.
    random_state : int, RandomState instance or None, default=0
        Seed of the order in which a training visits the rows.
    verbose : int, default=0
        1 shows a progress bar over the stages of all machines.
    on_interrupt : {"raise", "keep"}, default="raise"
        Whether Ctrl-C raises KeyboardInterrupt, or keeps the result of the last training.
    unlabeled : int, str or None, default=-1
        The value in y that marks a row as unlabelled; missing values (None, NaN, pandas.NA) always do.

    Attributes
    ----------
    coef_ : ndarray of shape (r, d)
        Weights of the SVMs; r is 1 for two classes, otherwise the number of classes or labels. `decision_function` is
        ``X @ coef_.T + intercept_``.
    intercept_ : ndarray of shape (r,)
        Intercepts of the SVMs; 0 if there are none.
    mean_ : ndarray of shape (d,)
        The mean of all rows, which is subtracted in the computation of scores.
    transduction_ : ndarray of shape (n,) or (n, c)
        A label for every training row: the given one, or the one after switching. With several classes, where a row
        may be positive for several SVMs or none, the class of the highest score.
    switched_signs_ : ndarray of shape (u, r)
        The signs of the unlabelled rows, in their order, in the last training of each SVM; not of rows of weight 0.
    positive_fraction_ : ndarray of shape (r,)
        The required share of positive signs; each column of ``switched_signs_`` has it, up to rounding.
    C_ : float
        The C in use.
    objective_ : list of r lists of ndarray
        For each SVM and stage, the objective after each training; it never rises within a stage. The first stage is
        the SVM of the labelled rows.
    classes_ : ndarray of shape (c,)
        The class values; for multi-label the label columns.
    task_ : str
        How y was read: "binary", "multiclass" or "multilabel".
    n_iter_ : int
        Largest number of trainings of an SVM.
    n_features_in_ : int
        Number of columns of X in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, if X has any.

    Notes
    -----
    Memory beside a dense X, at most: ``0.5*X + 240*n*c`` bytes in fit, none in predict, and 24 MB
    (docs/memory.md).

    Cost: a few tens of warm-started trainings for each SVM, each O(nnz) per epoch, and O(nnz + n + d) memory. A
    sparse X is never made dense. Predictions take one pass over rows in any container.

    The objective has many local minima, and the result is one of them. The stages, which begin with the SVM of the
    labelled rows, avoid most of the bad ones.

    References
    ----------
    V. Sindhwani, S. S. Keerthi. Large scale semi-supervised linear SVMs. SIGIR 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold import TSVM
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 100)
    >>> X = rng.standard_normal((200, 2)) * [3.0, 0.3] + np.outer(2 * y - 1, [0.0, 2.0])
    >>> few = np.full(200, -1)
    >>> few[[0, 1, 100, 101]] = 0, 0, 1, 1
    >>> float(np.mean(TSVM().fit(X, few).transduction_ == y))
    1.0
    """

    switched_signs_: np.ndarray
    objective_: list[list[np.ndarray]]

    _allowed = ("binary", "multiclass", "multilabel")
    _parameter_constraints = {
        **constraints("C", "class_weight", "fit_intercept", *ITERATIONS, "on_interrupt"),
        "unlabeled_weight": [Interval(Real, 0, None, closed="left")],
        "positive_fraction": [Real, "array-like", None],
        "n_stages": [Interval(Integral, 1, 10_000, closed="both")],
        "max_switches": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        C: float | Literal["auto"] = "auto",
        *,
        unlabeled_weight: float = 1.0,
        positive_fraction: Any = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        fit_intercept: bool = True,
        n_stages: int = 10,
        max_switches: int | None = None,
        max_iter: int = 50,
        tol: float = 1e-4,
        max_gram_bytes: int = MAX_GRAM_BYTES,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        on_interrupt: Literal["raise", "keep"] = "raise",
        unlabeled: Any = -1,
    ) -> None:
        self.C = C
        self.unlabeled_weight = unlabeled_weight
        self.positive_fraction = positive_fraction
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.n_stages = n_stages
        self.max_switches = max_switches
        self.max_iter = max_iter
        self.tol = tol
        self.max_gram_bytes = max_gram_bytes
        self.random_state = random_state
        self.verbose = verbose
        self.on_interrupt = on_interrupt
        self.unlabeled = unlabeled

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the SVMs on all rows.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, labelled or not. Rows of other containers are read into memory, within ``max_gram_bytes``.
        y : array-like of shape (n,), or (n, c) for multi-label
            Classes; ``unlabeled`` or a missing value for unlabelled rows.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.

        Returns
        -------
        self : TSVM
            The fitted estimator.
        """
        rows = self._rows(X, reset=True)
        labels, weights = self._read_weighted(y, sample_weight, rows.shape[0])
        fractions = _fractions(self.positive_fraction, labels)
        check_fits(rows, "TSVM", _OF_MORE_ROWS, max_gram_bytes=self.max_gram_bytes)
        X = rows.whole().raw
        spread = row_spread(rows, weights) if self.C == "auto" else 1.0
        self.C_ = max(1.0, _FEW_LABELS / labels.total) / spread if self.C == "auto" else float(self.C)
        row_weights = np.ones(rows.shape[0]) if weights is None else weights
        unlabelled = np.flatnonzero(~labels.labelled & (row_weights > 0))
        share = labels.total / row_weights[unlabelled].sum() if len(unlabelled) else labels.total
        self.mean_: np.ndarray = rows.mean(weights)
        problem = TSVMProblem(
            X=X,
            mean=self.mean_,
            index=labels.index,
            unlabelled=unlabelled,
            C=np.full(labels.n_labelled, self.C_),
            row_weights=row_weights,
            weights=stage_weights(self.C_ * self.unlabeled_weight * share, self.n_stages),
            fit_intercept=self.fit_intercept,
            intercept_scaling=float(np.sqrt(spread)),
            max_switches=self.max_switches,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)),
        )
        losses = self.C_ * loss_weights(labels, self.class_weight)  # (l, r)
        problems = [replace(problem, C=C) for C in losses.T]
        machines = self._train(problems, labels.signs(), fractions)
        self.coef_: np.ndarray = np.array([machine.w for machine in machines])
        self.intercept_: np.ndarray = np.array([machine.intercept for machine in machines])
        self.switched_signs_ = np.column_stack([machine.signs[unlabelled] for machine in machines])
        self.positive_fraction_ = fractions
        self.objective_ = [[np.array(stage) for stage in machine.objective] for machine in machines]
        self.n_iter_: int = max(sum(map(len, machine.objective)) for machine in machines)
        self._keep_task(labels.task, labels.classes)
        several = labels.task == "multiclass"
        scores = np.column_stack([machine.margins if several else machine.signs for machine in machines])
        left_out = row_weights == 0
        scores[left_out] = np.column_stack([machine.margins[left_out] for machine in machines])
        self.transduction_: np.ndarray = self._decide(scores)
        self.transduction_[labels.index] = labels.decode(labels.values)
        return self

    def _train(self, problems: list[TSVMProblem], T: np.ndarray, fractions: np.ndarray) -> list[TrainedSVM]:
        """Return the trained SVMs, and warn about limits that they reached."""
        stages = len(problems[0].weights) if len(problems[0].unlabelled) else 0
        # All SVMs are trained before the first stage, so that an interrupt leaves a complete model.
        machines = [begin(*given) for given in zip(problems, T.T, fractions, strict=True)]
        with Progress("TSVM", max(1, stages * len(machines)), self.verbose) as progress:
            try:
                for j, machine in enumerate(machines):
                    problem = problems[j]
                    for stage in range(stages):
                        machines[j] = machine = anneal(
                            problem, machine, problem.weights[stage], partial(machines.__setitem__, j)
                        )
                        if progress(1 + j * stages + stage, machine.gap):
                            return machines
            except KeyboardInterrupt:
                if self.on_interrupt != "keep":
                    raise
                message = "TSVM was interrupted; what its last training reached is kept"
                warn_user(message, ConvergenceWarning)
                return machines
        short = sum(machine.short for machine in machines)
        if short:
            message = f"in {short} stages of TSVM labels still switched after {self.max_iter} trainings"
            warn_user(f"{message}; raise max_iter", ConvergenceWarning)
        gap = max(machine.gap for machine in machines)
        if gap > self.tol:
            message = (
                f"the support vector machines of TSVM have not settled, their relative duality gap being {gap:.1e}, "
                f"short of tol={self.tol:.1e}; lower C, scale X, or raise tol"
            )
            warn_user(message, ConvergenceWarning)
        return machines

    def _score_rows(self, rows: Rows) -> np.ndarray:
        return linear_values(rows, self.coef_.T, self.mean_) + self.intercept_


def _fractions(given: Any, labels: Labels) -> np.ndarray:
    """Return the share of positive rows for each SVM, (r,)."""
    shares = labels.class_totals() / labels.total
    if given is None:
        return shares[1:] if labels.task == "binary" else shares
    shape = () if labels.task == "binary" else (labels.n_classes,)
    what = {
        "binary": "one number",
        "multiclass": f"an array of {labels.n_classes} numbers that add up to 1, one a class,",
        "multilabel": f"an array of {labels.n_classes} numbers, one a label,",
    }[labels.task]
    try:
        fractions = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        fractions = np.empty(0)
    inside = fractions.shape == shape and bool(((fractions > 0) & (fractions < 1)).all())
    if not inside or (labels.task == "multiclass" and abs(fractions.sum() - 1) > 1e-6):
        raise ValueError(
            f"positive_fraction={given!r} was given, where {what} between 0 and 1 is expected; pass None to take the "
            "shares of the labelled rows"
        )
    return fractions.reshape(-1)


@dataclass(frozen=True, eq=False)
class TSVMProblem:
    """The data of an SVM. Only C differs between several SVMs."""

    X: Any  # (n, d)  NumPy or SciPy sparse
    mean: np.ndarray  # (d,)
    index: np.ndarray  # (l,)
    unlabelled: np.ndarray  # (u,)
    C: np.ndarray  # (l,)  weights of the losses of labelled rows
    row_weights: np.ndarray  # (n,)
    weights: np.ndarray  # weight of an unlabelled row of weight 1 in each stage
    fit_intercept: bool
    intercept_scaling: float  # s: the intercept b costs (b / s)^2 / 2
    max_switches: int | None
    max_iter: int
    tol: float
    random_state: int

    def costs(self, weight: float) -> np.ndarray:
        """Return the weight of every row's loss, (n,); ``weight`` is that of an unlabelled row of weight 1."""
        C = weight * self.row_weights
        C[self.index] = self.C
        return C


@dataclass(frozen=True, eq=False)
class TrainedSVM:
    """An SVM, the signs of its training, and the history of its objective."""

    w: np.ndarray  # (d,)
    intercept: float
    signs: np.ndarray  # (n,)  given or switched
    margins: np.ndarray  # (n,)  w'x + b
    objective: tuple[tuple[float, ...], ...] = ()
    gap: float = 0.0
    short: int = 0  # number of stages that ended while pairs still switched
    excess: float = 0.0  # weight of the positive unlabelled rows, less the required one


def objective(
    w: np.ndarray,
    intercept: float,
    margins: np.ndarray,
    signs: np.ndarray,
    C: np.ndarray,
    intercept_scaling: float = 1.0,
) -> float:
    """Return the objective of an SVM with these margins.

    >>> objective(np.array([1.0]), 0.0, np.array([0.5, 2.0]), np.array([1.0, -1.0]), np.array([1.0, 0.25]))
    3.0
    """
    slack = np.maximum(0.0, 1 - signs * margins)
    return float(0.5 * (w @ w + (intercept / intercept_scaling) ** 2) + (C * slack * slack).sum())


def begin(problem: TSVMProblem, T: np.ndarray, fraction: float) -> TrainedSVM:
    """Return the SVM of the labelled rows, with the unlabelled rows labelled by its ranking."""
    signs = np.ones(problem.X.shape[0])
    signs[problem.index] = T
    C = problem.costs(0.0)
    found, margins = _svm(problem, signs, C, None)
    first = problem.unlabelled[np.argsort(-margins[problem.unlabelled], kind="stable")]
    w = problem.row_weights[first]
    n_positive = np.count_nonzero(np.cumsum(w) <= fraction * w.sum() + w / 2)  # the nearest share
    signs[first[n_positive:]] = -1.0
    value = objective(found.w, found.intercept, margins, signs, C, problem.intercept_scaling)
    excess = float(w[:n_positive].sum() - fraction * w.sum())
    return TrainedSVM(found.w, found.intercept, signs, margins, ((value,),), found.gap, excess=excess)


def anneal(
    problem: TSVMProblem, machine: TrainedSVM, weight: float, keep: Callable[[TrainedSVM], None]
) -> TrainedSVM:
    """Alternate training and switching until no pair gains, with this weight of the unlabelled rows.

    ``keep`` is called with the SVM after each training, so that an interrupt can return it.
    """
    C, w = problem.costs(weight), problem.row_weights[problem.unlabelled]
    is_even = bool((w == w[0]).all())
    earlier = machine.objective
    values: tuple[float, ...] = ()
    for _ in range(problem.max_iter):
        old, signs = machine, machine.signs
        # At the minimum alpha is 2 C slack, which gives a warm start for the current labels.
        alpha = 2 * C * np.maximum(0.0, 1 - signs * old.margins)
        found, margins = _svm(problem, signs, C, alpha)
        value = objective(found.w, found.intercept, margins, signs, C, problem.intercept_scaling)
        stay = objective(old.w, old.intercept, old.margins, signs, C, problem.intercept_scaling)
        if value <= stay:
            machine = replace(old, w=found.w, intercept=found.intercept, margins=margins)
        values = (*values, min(value, stay))
        trained = replace(machine, gap=found.gap, objective=(*earlier, values))
        keep(trained)
        u = problem.unlabelled
        given = (trained.margins[u], signs[u], problem.max_switches)
        pairs = (
            switches(*given) if is_even else weighted_switches(*given, problem.row_weights[u], trained.excess)
        )
        if not len(pairs):
            return trained
        gained = -float(signs[u[pairs]] @ problem.row_weights[u[pairs]])
        signs = signs.copy()
        signs[u[pairs]] *= -1.0
        machine = replace(trained, signs=signs, excess=trained.excess + gained)
    # The SVM belongs to the signs of its training, not to those after a later switch.
    return replace(trained, short=trained.short + 1)


def switches(margins: np.ndarray, signs: np.ndarray, max_pairs: int | None) -> np.ndarray:
    """Return the rows, as many positive as negative ones, that lower the objective by exchanging their signs.

    A positive and a negative row gain if the negative row has the larger margin, since l(z) - l(-z) decreases in z
    for the squared hinge loss l.

    >>> switches(np.array([0.2, -0.1, 0.4, -3.0]), np.array([1.0, 1.0, -1.0, -1.0]), None).tolist()
    [1, 2]
    """
    positive, negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    positive = positive[np.argsort(margins[positive], kind="stable")]
    negative = negative[np.argsort(-margins[negative], kind="stable")]
    m = min(len(positive), len(negative), len(signs) if max_pairs is None else max_pairs)
    gains = margins[positive[:m]] < margins[negative[:m]]
    m = int(np.count_nonzero(gains))  # the first m pairs, since gains are sorted
    return np.concatenate([positive[:m], negative[:m]])


def weighted_switches(
    margins: np.ndarray, signs: np.ndarray, max_pairs: int | None, weights: np.ndarray, excess: float
) -> np.ndarray:
    """Return the rows that lower the objective most by changing their signs, if rows have weights.

    Rows are taken from both sides in the order of `switches`, such that their weights stay as even as possible. The
    weight of the positive rows, which exceeds the required one by ``excess``, may differ from it by half of the
    largest weight.

    >>> margins, signs = np.array([0.2, -0.1, 0.4, -3.0]), np.array([1.0, 1.0, -1.0, -1.0])
    >>> weighted_switches(margins, signs, None, np.array([1.0, 2.0, 2.0, 1.0]), 0.0).tolist()
    [1, 2]
    """
    positive, negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    sides = [positive[np.argsort(margins[positive], kind="stable")]]
    sides.append(negative[np.argsort(-margins[negative], kind="stable")])
    # A row is taken where the weight of the rows before it on its side begins.
    starts = [np.cumsum(weights[side]) - weights[side] for side in sides]
    order = np.concatenate(sides)[np.argsort(np.concatenate(starts), kind="stable")]
    order = order[: None if max_pairs is None else 2 * max_pairs]
    z, w = signs[order] * margins[order], weights[order]
    losses = w * (np.maximum(0.0, 1 + z) ** 2 - np.maximum(0.0, 1 - z) ** 2)
    even = np.abs(excess - np.cumsum(signs[order] * w)) <= max(abs(excess), weights.max() / 2) * (1 + 1e-9)
    change = np.where(even, np.cumsum(losses), np.inf)
    best = int(change.argmin()) if len(order) else 0
    gains = len(order) > 0 and change[best] < -1e-12 * np.abs(losses).sum()
    return order[: best + 1] if gains else order[:0]


def _svm(
    problem: TSVMProblem, signs: np.ndarray, C: np.ndarray, alpha: np.ndarray | None
) -> tuple[LinearSVM, np.ndarray]:
    """Return the SVM for these signs, and the margins of all rows, (n,)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last training warns
        found = linear_svm(
            problem.X,
            signs,
            C,
            fit_intercept=problem.fit_intercept,
            intercept_scaling=problem.intercept_scaling,
            alpha=alpha,
            tol=problem.tol,
            random_state=problem.random_state,
        )
    margins = linear_values(as_rows(problem.X), found.w[:, None], problem.mean)[:, 0] + found.intercept
    # The digits that single precision loses in X w. Double precision is treated alike, so both give the same margins.
    lost = np.finfo(np.float32).eps * (np.abs(problem.mean) @ np.abs(found.w))
    if not problem.fit_intercept or lost <= problem.tol:
        return found, margins
    # The round-off in w, times the distance of the rows from 0, shifts all margins. A Newton step on the intercept
    # alone corrects this.
    slack = np.maximum(0.0, 1 - signs * margins)
    free = 1 / problem.intercept_scaling**2
    slope = found.intercept * free - 2 * (C * signs * slack).sum()
    step = slope / (free + 2 * C[slack > 0].sum())
    return found._replace(intercept=found.intercept - step), margins - step


def stage_weights(last: float, n_stages: int, first: float = 1e-4) -> np.ndarray:
    """Return the weights of an unlabelled row in the stages, empty if the last is 0; ``first`` is relative to it."""
    if last == 0:
        return np.empty(0)
    return last * np.geomspace(first if n_stages > 1 else 1.0, 1.0, n_stages)
