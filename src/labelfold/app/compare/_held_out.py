"""The expected score of one method on new rows, from out-of-fold predictions or leave-one-out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from labelfold.app.compare._data import Data
from labelfold.app.compare._scores import R2_GLOSS, Choice, Measure, OutOfFold, choose, grouped_into
from labelfold.app.compare._store import int_or_none
from labelfold.app.io import listed
from labelfold.app.registry import fit_grouped, for_classes, only_missing, without_tuning
from labelfold.model_selection import LabelBudgetSplit, RepeatedSemiSupervisedKFold, SemiSupervisedKFold

# With 5 folds 80% of the labels stay in training, with 10 folds 90%. Below _FEW_LABELS labels there are 10, since
# the accuracy depends most on the labels there, and fits are quick.
_FOLDS, _MORE_FOLDS, _FEW_LABELS = 5, 10, 40

# With l numbers their standard deviation has a relative error of about 1 / sqrt(2 l), a quarter at 8. With fewer, R²
# is not estimated.
_MIN_NUMBERS = 8


class Part(NamedTuple):
    """Training rows, their labels (hidden ones marked as unlabelled), and test rows."""

    train: np.ndarray
    y: np.ndarray
    test: np.ndarray


class Split(NamedTuple):
    """The parts that one result is computed from: one part of the curve, or all folds.

    ``budget`` is the number of labels. For folds it is the number of all labels.
    """

    repeat: int
    budget: int
    parts: list[Part]

    @property
    def tested(self) -> np.ndarray:
        """All test rows, part after part."""
        return np.concatenate([part.test for part in self.parts])


def n_folds(data: Data) -> int:
    """Return the number of folds that the labels allow; 0 if there are too few labels."""
    if data.facts.numbers and data.labels.n_labelled < _MIN_NUMBERS:
        return 0
    together = data.groups is not None and not data.groups.are_single
    classes = data.labels.task in ("binary", "multiclass")
    if together and classes and len(np.unique(data.labels.values[data.testable])) < 2:
        return 0  # with one class every prediction is right
    wanted = _MORE_FOLDS if data.labels.n_labelled < _FEW_LABELS else _FOLDS
    for folds in range(wanted, 1, -1):
        splitter = SemiSupervisedKFold(folds, shuffle=True, random_state=0, task=data.facts.task)
        try:
            next(splitter.split(None, data.y, data.group_codes))
        except ValueError:
            continue
        return folds
    return 0


def fold_splits(data: Data, repeats: int, seed: int) -> Iterator[Split]:
    """Yield, for each repeat, folds over all labelled rows.

    The rows of a fold stay in training as unlabelled rows. Rows of a group are in the same fold.
    """
    folds = n_folds(data)
    if not folds:
        return
    everything = np.arange(data.X.shape[0])
    splitter = RepeatedSemiSupervisedKFold(folds, n_repeats=repeats, random_state=seed, task=data.facts.task)
    drawn = splitter.split(None, data.y, data.group_codes)
    for repeat in range(repeats):
        parts = [Part(everything, _hidden(data.y, test), test) for _, test in islice(drawn, folds)]
        yield Split(repeat, data.labels.n_labelled, parts)


def _hidden(y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Return a copy of y in which some rows are unlabelled."""
    y = y.copy()
    y[test] = np.nan if y.dtype.kind == "f" else -1
    return y


def budget_splits(
    data: Data, budgets: Sequence[int], repeats: int, test_size: float, seed: int
) -> Iterator[Split]:
    """Yield the splits of the learning curve, which keep ``budgets`` labels each, largest budget first."""
    if not budgets:
        return
    splitter = LabelBudgetSplit(
        list(budgets)[::-1],
        n_repeats=repeats,
        test_size=test_size,
        random_state=seed,
        task=data.facts.task,
    )
    for problem in splitter.problems(None, data.y, data.group_codes):
        yield Split(problem.repeat, problem.budget, [Part(problem.train, problem.y, problem.test)])


def fold_of_rows(data: Data, repeats: int, seed: int) -> np.ndarray:
    """Return the fold in which each labelled row is held out, (repeats, l); -1 if it never is."""
    found = np.full((repeats, data.labels.n_labelled), -1)
    for split in fold_splits(data, repeats, seed):
        for i, part in enumerate(split.parts):
            found[split.repeat, data.positions(part.test)] = i
    return found


def as_text(predicted: np.ndarray) -> str:
    """Return predictions as text for one cell of a CSV file: class codes, 0/1 labels, or numbers.

    >>> as_text(np.array([2, 0])), as_text(np.array([[0, 1], [1, 1]])), as_text(np.array([0.5, 2.0]))
    ('2 0', '01 11', '0.5 2')
    """
    if predicted.dtype.kind == "f":
        rows = predicted.reshape(len(predicted), -1)
        return " ".join(",".join(f"{v:.9g}" for v in row) for row in rows)
    if predicted.ndim == 1:
        return " ".join(map(str, predicted.tolist()))
    return " ".join("".join(map(str, row)) for row in predicted.astype(int).tolist())


def from_text(text: str, like: np.ndarray) -> np.ndarray:
    """Return the predictions that `as_text` wrote; ``like`` is an array of the same kind.

    >>> from_text("01 11", np.zeros((5, 2), dtype=int)).tolist()
    [[0, 1], [1, 1]]
    """
    words = text.split(" ")
    if like.ndim == 2 and like.dtype.kind != "f":
        return np.array([[int(bit) for bit in word] for word in words])
    if like.dtype.kind == "f":
        rows = np.array([[float(v) for v in word.split(",")] for word in words])
        return rows if like.ndim == 2 else rows[:, 0]
    return np.array([int(word) for word in words])


def predictions_of(
    data: Data, rows: list[dict[str, Any]], pairs: Iterable[tuple], repeats: int, seed: int
) -> dict[tuple, OutOfFold]:
    """Return the out-of-fold predictions of (method, size) pairs, with the repeats that each has."""
    fold, truth = fold_of_rows(data, repeats, seed), data.truth
    cells = {
        (row["method"], int_or_none(row["k"]), int(row["repeat"])): row["predicted"]
        for row in rows
        if row["budget"] == data.labels.n_labelled and isinstance(row["predicted"], str)
    }
    found = {}
    for pair in pairs:
        guesses: list[np.ndarray] = []
        while (*pair, len(guesses)) in cells and len(guesses) < repeats:
            guess, held = np.zeros_like(truth), fold[len(guesses)] >= 0
            guess[held] = from_text(cells[*pair, len(guesses)], truth)
            guesses.append(guess)
        if guesses:
            terms = np.array([data.measure.terms(truth, guess) for guess in guesses])
            found[pair] = OutOfFold(
                data.measure, terms, fold[: len(terms)], np.array(guesses), data.known_groups
            )
    return found


class HeldOut(NamedTuple):
    """Out-of-fold predictions of the labelled rows, with score gaps, from one round of cross-validation.

    Attributes
    ----------
    data : Data
        Rows and labels.
    seed : int
        Seed of the folds.
    guess : ndarray of shape (l,) or (l, c)
        Predictions of the labelled rows.
    gaps : ndarray of shape (l,)
        Difference between the two highest scores; see `score_gap`.
    tested : ndarray of bool of shape (l,)
        Which labelled rows were held out; a class with one label keeps it.
    """

    data: Data
    seed: int
    guess: np.ndarray
    gaps: np.ndarray
    tested: np.ndarray


def predict_held_out(make: Callable[[Any], Any], data: Data, seed: int) -> HeldOut | None:
    """Return out-of-fold predictions of the labelled rows; None if there are too few labels for folds.

    Parameters
    ----------
    make : callable
        ``make(X)`` returns the estimator, not fitted, for rows X.
    data : Data
        Rows and labels.
    seed : int
        Seed of the folds.
    """
    truth, n = data.truth, len(data.truth)
    found = HeldOut(data, seed, np.zeros_like(truth), np.full(n, np.nan), np.zeros(n, dtype=bool))
    split = next(fold_splits(data, 1, seed), None)
    if split is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit on all labels warns
        for part in split.parts:
            rows, held, at = data.X[part.train], data.X[part.test], data.positions(part.test)
            groups = None if data.groups is None else data.groups.take(part.train)
            model = fit_grouped(make(rows), rows, part.y, groups)
            found.guess[at] = model.predict(held)
            found.gaps[at] = score_gap(model, held, found.guess[at])
            found.tested[at] = True
    return found


def fit_on_all_rows(make: Callable[[Any], Any], data: Data, y: Any = None) -> Any:
    """Return the estimator that ``make(X)`` returns, fitted on all rows with all labels, or with the given target."""
    model = make(data.X)
    if -1 in np.asarray(data.labels.classes).tolist():
        model = only_missing(model)
    y = data.targets() if y is None or data.facts.numbers else y
    if not data.facts.multilabel or hasattr(y, "columns"):
        model = for_classes(model, data.labels.classes)
    return fit_grouped(model, data.X, y, data.groups)


class FittedMethod(NamedTuple):
    """A method fitted on all rows, with its expected score on new rows; None if there are too few labels for it."""

    model: Any
    expected: Choice | None
    data: Data

    def sentences(self) -> list[str]:
        """Return sentences about the expected score."""
        told = "There are too few labels to estimate how well it predicts new rows; label more rows."
        if self.expected is not None:
            told = expectation(self.expected, self.data.measure)
        return [told, *other_estimates(self.model, self.data)]


def fit_with_expectation(make: Callable[[Any], Any], data: Data, seed: int, y: Any = None) -> FittedMethod:
    """Return a fitted, calibrated model and its expected score.

    Parameters
    ----------
    make, data, seed
        See `predict_held_out`.
    y : array-like or table, optional
        The target that ``data`` was read from; the model keeps the names of its columns.
    """
    model = without_tuning(fit_on_all_rows(make, data, y))
    found = by_leave_one_out(model, data)
    if found is None:
        held = predict_held_out(make, data, seed)
        found = None if held is None else _expected(held)
        calibrate(model, held)
    return FittedMethod(model, found, data)


def _expected(held: HeldOut) -> Choice:
    """Return the expected score on new rows, with its interval."""
    measure, truth = held.data.measure, held.data.truth
    terms = measure.terms(truth, held.guess)[None]
    fold = fold_of_rows(held.data, 1, held.seed)
    one = OutOfFold(measure, terms, fold, groups=held.data.known_groups)
    return choose({"it": one}, [], held.seed)


def by_leave_one_out(model: Any, data: Data) -> Choice | None:
    """Return the expected score of a model that has leave-one-out predictions, otherwise None.

    Leave-one-out gives accuracy or R². None too if `compare` would use another score, or if there are too few labels.
    """
    if not hasattr(model, "loo_score_") or data.measure.kind not in ("accuracy", "r2") or not n_folds(data):
        return None
    low, high = model.loo_interval_
    if not data.facts.numbers:
        counted = int(data.testable.sum())
        if not counted:
            return None
        several = grouped_into(data.known_groups, np.flatnonzero(data.testable))
        return Choice("it", ["it"], model.loo_score_, low, high, counted, n_groups=several)
    truth = data.truth
    terms = data.measure.terms(truth, model.loo_predictions_)[None]
    left_out = OutOfFold(data.measure, terms, np.arange(len(truth))[None], groups=data.known_groups)
    return Choice("it", ["it"], model.loo_score_, low, high, len(truth), left_out.within, left_out.n_groups)


def _left_out_score(model: Any, data: Data) -> Choice | None:
    """Return the score of leave-one-out predictions by the measure of the comparison; None if it has no meaning."""
    found = by_leave_one_out(model, data)
    if found is not None or not n_folds(data):
        return found
    predicted = np.asarray(model.loo_predictions_)
    guess = predicted if predicted.ndim == 2 else np.searchsorted(data.labels.classes, predicted)
    fold = np.where(data.testable, np.arange(len(guess)), -1)[None]
    one = OutOfFold(data.measure, data.measure.terms(data.truth, guess)[None], fold, groups=data.known_groups)
    return choose({"it": one}, [], 0)


def other_estimates(model: Any, data: Data) -> list[str]:
    """Return sentences about rows that may belong together, and columns in which labelled rows are unlike others."""
    return [*_if_grouped(model, data), *_without_unlike(model, data)]


def _if_grouped(model: Any, data: Data) -> list[str]:
    """Return a sentence about rows that may belong together, with the score if they are left out together.

    The score is that of a LabelFold; other models would have to be fitted again.
    """
    said = []
    for likely in data.likely_groups:
        told = f"{likely.found}."
        if hasattr(model, "loo_score_"):
            again = copy(model).refit(data.targets(), groups=likely.groups.codes, full=True)
            other = _left_out_score(again, replace(data, groups=likely.groups))
            if other is not None:
                measure = data.measure
                shown = f"{measure.show(other.low)} to {measure.show(other.high)}"
                told = (
                    f"{likely.found}; left out together they give {measure.stated(other.expected)} ({shown})."
                )
        said.append(f"{told} {likely.cure}." if likely.cure else told)
    return said


def _without_unlike(model: Any, data: Data) -> list[str]:
    """Return a sentence with the expected score without the columns in which labelled rows are unlike the others.

    The score is that of a LabelFold, which is fitted again.
    """
    gone = np.unique(np.concatenate([[], *data.unlike.values()])).astype(int)
    kept = np.setdiff1d(np.arange(data.X.shape[1]), gone)
    if not len(gone) or not len(kept) or not hasattr(model, "loo_score_"):
        return []
    again = fit_grouped(clone(model), data.X[:, kept], data.targets(), data.groups)
    other = _left_out_score(again, data)
    if other is None:
        return []
    measure = data.measure
    return [
        f"Without {listed(data.unlike, most=3)} it gives {measure.stated(other.expected)} ({measure.show(other.low)} "
        f"to {measure.show(other.high)}); use --drop if new rows are like the unlabelled ones."
    ]


def expectation(found: Choice, measure: Measure) -> str:
    """Return the sentence about the expected score.

    >>> found = Choice("it", ["it"], 0.913, 0.84, 0.962, 60)
    >>> expectation(found, Measure("accuracy", "accuracy"))
    'Expect 91.3% right on new rows (90% interval 84.0% to 96.2%, from 60 labelled rows).'
    """
    said = (
        f"Expect {measure.stated(found.expected)} on new rows (90% interval {measure.show(found.low)} to "
        f"{measure.show(found.high)}, from {found.rows})."
    )
    return said if measure.shares else " ".join([said, *distance(found), R2_GLOSS])


def distance(found: Choice) -> list[str]:
    """Return a sentence with the 90% prediction interval of numbers, if it is known."""
    if found.within is None:
        return []
    return [f"Nine of ten new rows are expected within {found.within:.3g} of their prediction."]


def predict_with_confidence(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's prediction and its confidence, between 0 and 1.

    For a model from `calibrate` it is 1 / (1 + exp(-a m - b)), with m from `score_gap`: the probability that the
    prediction is right. For another model it is its own probability of the class (multi-label: that all labels are
    right). If the model has scores only, it is the same formula with a = 1 and b = 0, which can only rank rows. NaN
    if the model has neither.

    Parameters
    ----------
    model : classifier
        Fitted.
    X : array or sparse matrix of shape (n, d)
        The rows.

    Returns
    -------
    predicted : ndarray of shape (n,) or (n, c)
    confidence : ndarray of shape (n,)
    """
    predicted = np.asarray(model.predict(X))
    curve = getattr(last_step(model), "confidence_curve_", None)
    shares = _shares(model, X, predicted) if curve is None else None
    if shares is not None:
        if predicted.ndim == 2:
            return predicted, np.maximum(shares, 1 - shares).prod(axis=1)
        return predicted, shares.max(axis=1)
    slope, intercept = (1.0, 0.0) if curve is None else curve
    return predicted, expit(slope * score_gap(model, X, predicted) + intercept)


def last_step(model: Any) -> Any:
    """Return the last step of a pipeline, or the model itself."""
    return model[-1] if isinstance(model, Pipeline) else model


def score_gap(model: Any, X: Any, predicted: np.ndarray) -> np.ndarray:
    """Return the difference between the two highest scores of each row; NaN if the model has no scores.

    For two classes it is twice the absolute score. For several labels a row it is that of the least certain label.
    If the model has probabilities only, their logarithms are the scores.
    """
    if hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(X), dtype=float)
        if predicted.ndim == 2:
            return 2 * np.abs(scores).min(axis=1)
        if scores.ndim == 1:
            return 2 * np.abs(scores)
    else:
        shares = _shares(model, X, predicted)
        if shares is None:
            return np.full(len(predicted), np.nan)
        if predicted.ndim == 2:
            shares = np.stack([shares, 1 - shares], axis=-1)
        scores = np.log(np.maximum(shares, _MIN_SHARE))
    best = np.partition(scores, -2, axis=-1)
    gap = best[..., -1] - best[..., -2]
    return gap if gap.ndim == 1 else gap.min(axis=1)


def _shares(model: Any, X: Any, predicted: np.ndarray) -> np.ndarray | None:
    """Return the probabilities of classes or labels; None if the model has none."""
    if not hasattr(model, "predict_proba"):
        return None
    shares = np.asarray(model.predict_proba(X))
    fits = shares.shape == predicted.shape if predicted.ndim == 2 else shares.ndim == 2
    # label propagation gives NaN to rows that no label reaches
    return np.nan_to_num(shares) if fits else None


_MIN_SHARE = 1e-3  # probabilities are clipped here before the logarithm


def is_calibrated(model: Any) -> bool:
    """Tell whether a model needs no calibration: leave-one-out calibrated it, or it does not predict classes."""
    scores = hasattr(model, "predict_proba") or hasattr(model, "decision_function")
    return not scores or hasattr(last_step(model), "loo_score_")


def calibrate(model: Any, held: HeldOut | None) -> Any:
    """Add the calibration curve to a fitted model, for `predict_with_confidence`.

    Parameters
    ----------
    model : classifier
        Fitted on all labels. ``confidence_curve_`` of its last step is set.
    held : HeldOut or None
        Out-of-fold predictions. If None, the model is left unchanged.

    Returns
    -------
    model : classifier
        The given model.
    """
    if held is not None and not is_calibrated(model):
        right = (held.guess == held.data.truth).reshape(len(held.gaps), -1).all(axis=1)
        curve = confidence_curve(held.gaps[held.tested], right[held.tested])
        last_step(model).confidence_curve_ = np.array(curve)
    return model


def confidence_curve(gaps: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Return a > 0 and b such that 1 / (1 + exp(-a gap - b)) is the probability that a prediction is right.

    Platt scaling on held-out rows, with standard normal priors on log a and b, in the unit of the median gap. The
    priors keep the curve moderate if there are few rows, or if all predictions are right.

    Parameters
    ----------
    gaps : ndarray of shape (l,)
        Differences between the two highest scores.
    right : ndarray of bool of shape (l,)
        Whether the prediction was right.

    Returns
    -------
    a, b : float

    Examples
    --------
    >>> a, b = confidence_curve(np.repeat([0.1, 3.0], 50), np.repeat([True, False, True], [25, 25, 50]))
    >>> [round(float(expit(a * gap + b)), 1) for gap in (0.1, 3.0)]
    [0.5, 1.0]
    """
    finite = np.isfinite(gaps)
    gaps, hit = gaps[finite], np.asarray(right, dtype=float)[finite]
    unit = float(np.median(gaps)) if len(gaps) else 0.0
    unit = unit if unit > 0 else 1.0
    x = gaps / unit

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        slope = np.exp(at[0])
        z = slope * x + at[1]
        off = expit(z) - hit
        value = np.sum(np.logaddexp(0, z) - hit * z) + at @ at / 2
        return float(value), np.array([(off * x).sum() * slope, off.sum()]) + at

    found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(-5, 5), (-10, 10)])
    return float(np.exp(found.x[0])) / unit, float(found.x[1])
