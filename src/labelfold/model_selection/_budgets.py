"""Learning curves over label budgets: test on held-out rows, keep some of the other labels, hide the rest.

Within a repeat the test rows are the same for every budget, and the labels of a small budget are among those of a
larger one, so that comparisons of methods and budgets are paired.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import BaseCrossValidator

from labelfold.labels import as_array
from labelfold.model_selection._folds import RANGES, LabelStrata, spread_labels
from labelfold.utils import safe_indexing

Split = tuple[np.ndarray, np.ndarray]
# Takes the labelled rows of training and those held out; returns the predictions of each candidate, or None if the
# fold cannot be fitted.
Predict = Callable[[np.ndarray, np.ndarray], Iterable[np.ndarray] | None]


@dataclass(frozen=True)
class LabelProblem:
    """One training problem.

    Parameters
    ----------
    repeat, budget : int
        Number of the draw, and number of labels that are kept.
    train : ndarray
        Rows to fit on: all but the test rows, including rows that never had a label.
    y : ndarray
        Their labels; hidden and unknown ones are marked as unlabelled.
    test : ndarray
        Held-out rows.
    kept : ndarray
        The rows of ``train`` whose label was kept.
    """

    repeat: int
    budget: int
    train: np.ndarray
    y: np.ndarray
    test: np.ndarray
    kept: np.ndarray


class LabelBudgetSplit(BaseCrossValidator):
    """Splits that keep a limited number of labels, for a learning curve.

    In each repeat a share of every class is held out for testing. Of the other labels as many as the budget are kept:
    first one of each class, then a second of each, then in proportion to the class sizes. The same holds for the
    labels of a multi-label Y.

    A splitter can only select rows, not hide their labels. With ``cv=`` of scikit-learn, rows beyond the budget are
    left out of training. `problems` and `label_curve` keep them there as unlabelled rows.

    Parameters
    ----------
    budgets : sequence of int, optional
        Numbers of labels to keep; `default_budgets` by default.
    n_repeats : int, default=5
        Number of draws.
    test_size : float, default=0.3
        The share of each class held out, at least one row, and never the last one.
    random_state : int, default=0
        Seed. With more repeats and the same seed the first repeats stay the same.
    unlabeled : number, str or None, default=-1
        The value of y that marks an unlabelled row; missing values always do.
    task : {"auto", "classification", "regression"}, default="auto"
        Whether y holds classes or numbers; "auto" reads floats with fractions as numbers.

    Examples
    --------
    >>> y = np.repeat([0, 1, -1], [20, 20, 60])
    >>> train, test = next(LabelBudgetSplit([6]).split(y, y))
    >>> len(train), len(test)
    (66, 12)
    >>> problem = next(LabelBudgetSplit([6]).problems(y, y))
    >>> len(problem.train), np.sum(problem.y >= 0)
    (88, np.int64(6))
    """

    # with metadata routing the groups are asked for
    __metadata_request__split: ClassVar[dict[str, bool]] = {"groups": True}

    def __init__(
        self,
        budgets: Sequence[int] | None = None,
        *,
        n_repeats: int = 5,
        test_size: float = 0.3,
        random_state: Any = 0,
        unlabeled: Any = -1,
        task: str = "auto",
    ) -> None:
        self.budgets = budgets
        self.n_repeats = n_repeats
        self.test_size = test_size
        self.random_state = random_state
        self.unlabeled = unlabeled
        self.task = task

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows of each problem; see `problems`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Only its number of rows is used; it may be None.
        y : array-like of shape (n,) or (n, c)
            Labels in any form that the estimators take.
        groups : array-like of shape (n,), optional
            Rows with an equal value belong together.

        Yields
        ------
        train : ndarray
            Rows to train on: the unlabelled ones and ``budget`` others.
        test : ndarray
            Rows to test on.
        """
        known = LabelStrata.of(X, y, self.unlabeled, self.task, groups)
        never = np.setdiff1d(np.arange(known.n), known.index)
        for _, _, test, kept in self._draws(known):
            yield np.union1d(never, kept), test

    def problems(self, X: Any, y: Any, groups: Any = None) -> Iterator[LabelProblem]:
        """Yield the training problems, repeat by repeat, with the labels beyond the budget hidden.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Only its number of rows is used; it may be None.
        y : array-like of shape (n,) or (n, c)
            Labels in any form that the estimators take.
        groups : array-like of shape (n,), optional
            Rows with an equal value belong together. The labelled rows of a group are held out together or not at
            all.

        Yields
        ------
        LabelProblem
            There are ``n_repeats * len(budgets)``.
        """
        known = LabelStrata.of(X, y, self.unlabeled, self.task, groups)
        mark = None if self.task == "regression" else self.unlabeled  # in regression -1 is a number
        for repeat, budget, test, kept in self._draws(known):
            train = known.without(test)
            hidden = hide(y, np.setdiff1d(known.index, kept), mark)
            yield LabelProblem(repeat, budget, train, hidden[train], test, kept)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits.

        Parameters
        ----------
        X : object
            As in `split`; it may be None.
        y : array-like of shape (n,) or (n, c), optional
            Labels, which are needed if the budgets depend on them.
        groups : array-like of shape (n,), optional
            As in `split`.

        Returns
        -------
        n_splits : int
        """
        if self.budgets is not None:
            return self.n_repeats * len(self.budgets)
        known = LabelStrata.of(X, y, self.unlabeled, self.task, groups)
        return self.n_repeats * len(self._default_budgets(known))

    def _draws(self, known: LabelStrata) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
        if self.n_repeats < 1:
            raise ValueError(f"n_repeats is the number of draws, at least 1, not {self.n_repeats!r}.")
        if not 0 < self.test_size < 1:
            raise ValueError(
                f"test_size is the share of labelled rows held out, between 0 and 1, not {self.test_size}."
            )
        budgets = self._checked_budgets(known)
        for repeat in range(self.n_repeats):
            test, queue = self._draw(known, repeat)
            for budget in budgets:
                yield repeat, budget, known.index[test], known.index[np.sort(queue[:budget])]

    def _draw(self, known: LabelStrata, repeat: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the labelled rows to test on, ascending, and the others in the order in which budgets take them."""
        # one generator for each repeat, so that the first repeats do not depend on their number
        rng, n = np.random.default_rng([self.random_state, repeat]), len(known.index)
        shares = np.array([self.test_size, 1 - self.test_size])
        if known.groups is not None:
            part = known.dealt(shares, rng)
        elif known.kind == "classes":
            return _draw_classes(known.values, self.test_size, rng)
        elif known.kind == "regression":
            order, held = rng.permutation(n), _n_held(np.array(n), self.test_size)
            return np.sort(order[:held]), order[held:]
        else:
            part = spread_labels(known.indicator, shares, rng.permutation(n))
            # each draw leaves enough labels for all budgets
            surplus = (part == 0).sum() - _n_held(np.array(n), self.test_size)
            if surplus > 0:
                part[rng.permutation(np.flatnonzero(part == 0))[:surplus]] = 1
        rest = np.flatnonzero(part != 0)
        if known.kind == "regression":
            return np.flatnonzero(part == 0), rng.permutation(rest)
        return np.flatnonzero(part == 0), rest[_queue(known.indicator[rest], rng)]

    def _default_budgets(self, known: LabelStrata) -> list[int]:
        low, high, _ = self._limits(known)
        parts = low if known.kind == "classes" else RANGES
        if known.kind == "multilabel":
            parts = known.indicator.shape[1]
        budgets = [m * parts for m in (2, 5, 10, 20) if m * parts <= high]
        # a single budget shows no growth; if only one fits, all available labels are a second
        return budgets if len(budgets) > 1 or high in budgets else [*budgets, high]

    def _checked_budgets(self, known: LabelStrata) -> Sequence[int]:
        """Return the budgets, or raise an error if the labels do not allow them."""
        low, high, held = self._limits(known)
        if not held:
            raise ValueError(
                f"Every class has one labelled {'row' if known.groups is None else 'group'} only: none can be held "
                "out to test on; label more."
            )
        budgets = self._default_budgets(known) if self.budgets is None else self.budgets
        if not len(budgets):
            raise ValueError("There is no label budget; name at least one.")
        for budget in budgets:
            if not low <= budget <= high:
                why = f"at least one for each of the {low} classes, and " if known.kind == "classes" else ""
                raise ValueError(
                    f"A budget of {budget} labels is outside {low} to {high}: {why}no more than are left of the "
                    f"{len(known.index)} labels once {held} labelled rows are held out to test on."
                )
        return budgets

    def _limits(self, known: LabelStrata) -> tuple[int, int, int]:
        """Return the minimum and maximum number of labels that can be kept, and the number of held-out rows."""
        n = len(known.index)
        low = int(known.values.max()) + 1 if known.kind == "classes" else 1
        if known.groups is not None:
            kept = min(len(self._draw(known, repeat)[1]) for repeat in range(self.n_repeats))
            return low, kept, n - kept
        strata = np.bincount(known.values) if known.kind == "classes" else np.array([n])
        held = int(_n_held(strata, self.test_size).sum())
        return low, n - held, held


def default_budgets(y: Any, test_size: float = 0.3, *, unlabeled: Any = -1) -> list[int]:
    """Return 2, 5, 10 and 20 labels for each class, as far as there are labels to keep.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, c)
        Labels in any form that the estimators take.
    test_size : float, default=0.3
        The share of labelled rows held out.
    unlabeled : number, str or None, default=-1
        The value of y that marks an unlabelled row; missing values always do.

    Returns
    -------
    budgets : list of int

    Examples
    --------
    >>> default_budgets(np.repeat([0, 1, -1], 50))
    [4, 10, 20, 40]
    >>> default_budgets([0, 0, 0, 0, 1, 1, 1, 1])
    [4, 6]
    """
    return LabelBudgetSplit(test_size=test_size)._default_budgets(LabelStrata.of(None, y, unlabeled))


def label_curve(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    cv: LabelBudgetSplit | None = None,
    scoring: Any = None,
) -> dict[str, np.ndarray]:
    """Return the score of an estimator for each number of labels.

    Parameters
    ----------
    estimator : estimator
        Cloned and fitted once for each budget and repeat, on all rows but the held-out ones.
    X : array-like or sparse matrix of shape (n, d)
        The rows.
    y : array-like of shape (n,) or (n, c)
        Labels in any form that the estimators take.
    groups : array-like of shape (n,), optional
        Rows with an equal value belong together. The labelled rows of a group are held out together or not at all.
    cv : LabelBudgetSplit, optional
        Budgets, repeats and seed.
    scoring : str or callable, optional
        A scorer; by default the estimator's own ``score``.

    Returns
    -------
    dict
        ``budgets`` (b,), ``test_scores`` (b, repeats) and ``fit_times`` (b, repeats).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from labelfold import LDA
    >>> curve = label_curve(LDA(ridge=1e3), *load_digits(return_X_y=True), cv=LabelBudgetSplit([20, 200]))
    >>> curve["test_scores"].mean(axis=1).round(1).tolist()
    [0.8, 0.9]
    """
    cv = LabelBudgetSplit() if cv is None else cv
    scorer = check_scoring(estimator, scoring=scoring)
    truth = as_array(y, quiet=True)[0] if not hasattr(y, "iloc") else y
    scores: dict[int, list[float]] = {}
    times: dict[int, list[float]] = {}
    for problem in cv.problems(X, y, groups):
        start = time.perf_counter()
        model = clone(estimator).fit(safe_indexing(X, problem.train), problem.y)
        times.setdefault(problem.budget, []).append(time.perf_counter() - start)
        held = safe_indexing(X, problem.test), safe_indexing(truth, problem.test)
        scores.setdefault(problem.budget, []).append(scorer(model, *held))
    return {
        "budgets": np.array(list(scores)),
        "test_scores": np.array(list(scores.values())),
        "fit_times": np.array(list(times.values())),
    }


def hide(y: Any, rows: np.ndarray, unlabeled: Any = -1) -> np.ndarray:
    """Return a copy of y in which some rows are unlabelled, by a mark that suits its dtype.

    >>> hide(np.array([0, 1, 2]), [1]).tolist(), hide(["a", "b"], [1]).tolist(), hide([1, -1], [1]).tolist()
    ([0, -1, 2], ['a', None], [1, None])
    """
    if hasattr(y, "iloc"):
        y = y.to_numpy(dtype=object if y.ndim == 1 else float)
    array = as_array(y, quiet=True)[0]
    if array.ndim == 2:
        array = array.astype(float)
        array[rows] = np.nan
        return array
    mark = None
    if array.dtype.kind == "f":
        array, mark = array.copy(), np.nan
    elif array.dtype.kind == "i" and unlabeled == -1 and set(np.unique(array)) != {-1, 1}:
        array, mark = array.copy(), -1
    else:
        array = array.astype(object)
    array[rows] = mark
    return array


def _n_held(counts: Any, test_size: float) -> Any:
    """Return how many of ``counts`` rows are held out: at least one, and never all."""
    return np.minimum(np.maximum(np.round(test_size * counts).astype(int), 1), np.maximum(counts - 1, 0))


def _draw_classes(
    codes: np.ndarray, test_size: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    members = [rng.permutation(np.flatnonzero(codes == c)) for c in range(int(codes.max()) + 1)]
    held = _n_held(np.array([len(m) for m in members]), test_size)
    test = np.sort(np.concatenate([m[:h] for m, h in zip(members, held, strict=True)]))
    kept = [m[h:] for m, h in zip(members, held, strict=True)]
    # The j-th row of a class of size s is taken when (j - 1/2) / s of the labels are used (Sainte-Laguë). This is
    # proportional at every budget, and a larger budget keeps all earlier labels. The first two of each class come
    # first.
    rows = np.concatenate(kept)
    place = np.concatenate([np.arange(len(k)) for k in kept])
    size = np.repeat([len(k) for k in kept], [len(k) for k in kept])
    turn = np.where(place < 2, place - 2.0, (place + 0.5) / size)
    return test, rows[np.lexsort((rng.random(len(rows)), turn))]


def _queue(Y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an order of rows such that every prefix has each label in proportion, two of each label first."""
    waiting = [list(rng.permutation(np.flatnonzero(column))) for column in Y.T]
    size, taken = np.maximum(Y.sum(axis=0), 1), np.zeros(Y.shape[1])
    done = np.zeros(len(Y), dtype=bool)
    order: list[int] = []
    while len(order) < len(Y):
        turn = np.where(taken < 2, taken - 2, (taken + 0.5) / size)
        turn[[not w for w in waiting]] = np.inf
        label = int(np.argmin(turn))
        row = waiting[label].pop()
        if not done[row]:
            done[row] = True
            order.append(row)
            taken += Y[row]
    return np.array(order, dtype=int)


def _folds(splits: Iterable[Split], predict: Predict) -> Iterator[tuple[np.ndarray, Iterable[np.ndarray]]]:
    for train, test in splits:
        found = predict(train, test)
        if found is not None:
            yield test, found


def fold_scores(
    splits: Iterable[Split],
    predict: Predict,
    truth: np.ndarray,
    measure: Callable[..., Any],
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return the score of each candidate in each fold, without folds that cannot be fitted.

    Parameters
    ----------
    splits : iterable of (ndarray, ndarray)
        The rows to train on and to test on, of each fold.
    predict : callable
        Takes both, and returns the predictions of each candidate; None if the fold cannot be fitted.
    truth : ndarray of shape (l, ...)
        The labels.
    measure : callable
        The score of labels and their predictions.
    weights : ndarray of shape (l,), optional
        Weights of the rows; ``measure`` gets those of the test rows as ``sample_weight``.

    Returns
    -------
    scores : ndarray of shape (folds, candidates)

    Examples
    --------
    >>> fold_scores([([0], [1])], lambda train, test: [[3], [4]], np.array([4, 4]), lambda y, z: (y == z).all())
    array([[0., 1.]])
    """

    def score(test: np.ndarray, y: Any) -> float:
        options = {} if weights is None else {"sample_weight": weights[test]}
        return float(measure(truth[test], y, **options))

    return np.array([[score(test, y) for y in found] for test, found in _folds(splits, predict)])


def left_out_guesses(
    splits: Iterable[Split], predict: Predict, truth: np.ndarray, n_candidates: int = 1
) -> np.ndarray:
    """Return the out-of-fold predictions of each candidate.

    Parameters
    ----------
    splits : iterable of (ndarray, ndarray)
        The rows to train on and to test on, of each fold.
    predict : callable
        Takes both, and returns the predictions of each candidate; None if the fold cannot be fitted.
    truth : ndarray of shape (l, ...)
        The labels, of which only the shape is used.
    n_candidates : int, default=1
        Number of candidates.

    Returns
    -------
    guesses : ndarray of shape (candidates, l, ...)
        0 for rows that are never held out.

    Examples
    --------
    >>> left_out_guesses([([0], [1])], lambda train, test: [[3]], np.array([4.0, 4.0])).tolist()
    [[0.0, 3.0]]
    """
    guessed = np.zeros((n_candidates, *truth.shape))
    for test, found in _folds(splits, predict):
        for i, y in enumerate(found):
            guessed[i, test] = y
    return guessed
