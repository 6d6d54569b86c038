"""Statistics of out-of-fold predictions: the expected score with its interval, and which methods are equally good.

All methods are cross-validated on the same folds, several times. A score is a function of sums over rows, and
differences between methods are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from labelfold.app.io import count
from labelfold.model_selection import Groups
from labelfold.semi_supervised import R2_WIDER

LEVEL = 0.9  # of every interval
# Both the test rows and the training set are samples. An interval that accounts only for the test rows is too narrow
# by this factor. experiments/delivered.py measures how often the intervals hold.
_WIDER = 1.2
# Draws of the bootstrap. The relative error of a standard deviation is then 1 / sqrt(2 * 1000), about 2%.
_DRAWS = 1000
# A choice: differences below half a percentage point do not matter in practice.
_NEGLIGIBLE = 0.005
R2_GLOSS = (
    "R² is the share of the target's variance that is predicted: 1 is every number right, 0 no better than always "
    "giving their mean."
)


@dataclass
class OutOfFold:
    """The out-of-fold predictions of one method.

    Attributes
    ----------
    measure : Measure
        The score.
    terms : ndarray of shape (r, l, q)
        The terms that each row adds to the sums, in each repeat.
    fold : ndarray of shape (r, l)
        The fold in which the row was held out; -1 if it never was.
    guess : ndarray of shape (r, l) or (r, l, c), optional
        The predictions themselves; 0 for rows never held out.
    groups : Groups, optional
        Rows that were held out together.
    """

    measure: Measure
    terms: np.ndarray
    fold: np.ndarray
    guess: np.ndarray | None = None
    groups: Groups | None = None

    @cached_property
    def mean_terms(self) -> np.ndarray:
        """The terms of each row, averaged over the repeats, (l, q); 0 for rows never held out."""
        return np.where((self.fold >= 0)[..., None], self.terms, 0.0).mean(axis=0)

    @property
    def n_rows(self) -> int:
        """Number of rows that were held out."""
        return int((self.fold >= 0).any(axis=0).sum())

    @property
    def n_groups(self) -> int | None:
        """Number of groups of the rows that were held out; None if these do not belong together."""
        return grouped_into(self.groups, np.flatnonzero((self.fold >= 0).any(axis=0)))

    @property
    def n_effective(self) -> float:
        """Number of independent rows with as much information as the rows that were held out."""
        held = np.flatnonzero((self.fold >= 0).any(axis=0))
        if self.groups is None:
            return float(len(held))
        # the first half of the terms are numerators: of accuracy whether the row is right
        return self.groups.take(held).effective(self.mean_terms[held, : self.terms.shape[2] // 2].sum(axis=1))

    @property
    def within(self) -> float | None:
        """The distance from the prediction within which nine of ten new numbers are expected.

        It is the 0.9 (l + 1)-th smallest of the l out-of-fold errors (split conformal prediction). None for classes,
        and if l is below 9.
        """
        place = int(np.ceil(LEVEL * (self.n_rows + 1) * len(self.terms)))
        away = np.sort(np.sqrt(self.terms[self.fold >= 0, 0]))
        return float(away[place - 1]) if self.measure.kind == "r2" and place <= len(away) else None

    @property
    def score(self) -> float:
        """The score over all rows and repeats."""
        return float(self.measure.value(self.mean_terms.sum(axis=0)))

    def by_fold(self) -> np.ndarray:
        """Return the score in each fold of each repeat, (r, folds)."""
        folds = int(self.fold.max()) + 1
        member = self.fold[:, None, :] == np.arange(folds)[:, None]  # (r, folds, l)
        return self.measure.by_part(np.einsum("rfl,rlq->rfq", member.astype(float), self.terms))

    def first(self, repeats: int) -> OutOfFold:
        """Return the predictions of the first repeats."""
        return OutOfFold(self.measure, self.terms[:repeats], self.fold[:repeats], groups=self.groups)


def grouped_into(groups: Groups | None, index: np.ndarray) -> int | None:
    """Return the number of groups of some rows; None if they do not belong together."""
    some = None if groups is None else groups.take(index)
    return None if some is None or some.are_single else len(some)


def gap(better: OutOfFold, other: OutOfFold) -> tuple[float, float]:
    """Return the difference between the scores of two methods, and the half-width of its 90% interval.

    Differences are paired by fold. Folds share training rows, so the variance is corrected as in Nadeau & Bengio
    (2003): (1/J + test/train) in place of 1/J for J folds.
    """
    repeats = min(len(better.terms), len(other.terms))
    better, other = better.first(repeats), other.first(repeats)
    difference = (better.by_fold() - other.by_fold()).ravel()
    difference = difference[np.isfinite(difference)]
    J, folds = len(difference), int(better.fold.max()) + 1
    if J < 2:
        return better.score - other.score, np.inf
    spread = np.sqrt((1 / J + 1 / (folds - 1)) * difference.var(ddof=1))
    return better.score - other.score, float(stats.t.ppf((1 + LEVEL) / 2, J - 1) * spread)


def wider_for(n_methods: int) -> float:
    """Return the factor that makes the intervals of all differences from the best hold jointly (Šidák).

    >>> round(wider_for(2), 2), round(wider_for(20), 2)
    (1.0, 1.69)
    """
    together = LEVEL ** (1 / max(n_methods - 1, 1))
    return float(stats.norm.ppf((1 + together) / 2) / stats.norm.ppf((1 + LEVEL) / 2))


@dataclass(frozen=True)
class Choice:
    """The recommended method, and its expected score.

    Attributes
    ----------
    chosen : str
        The recommended method.
    equal : list of str
        All methods that are not significantly worse than the best, best first; the recommended one is among them.
    expected : float
        The expected score on new rows: out-of-fold, corrected for the selection of the method.
    low, high : float
        Its 90% interval.
    n_rows : int
        Number of labelled rows that were held out.
    within : float or None
        For numbers: nine of ten new ones are expected within this distance of their prediction.
    n_groups : int or None
        Number of groups of these rows, which were held out together; None without groups.
    """

    chosen: str
    equal: list[str]
    expected: float
    low: float
    high: float
    n_rows: int
    within: float | None = None
    n_groups: int | None = None

    @property
    def rows(self) -> str:
        """The labelled rows that it is from, in words."""
        said = count(self.n_rows, "labelled row")
        return said if self.n_groups is None else f"{said} in {count(self.n_groups, 'group')}"


def choose(found: dict[str, OutOfFold], preferred: Sequence[str], seed: int = 0) -> Choice:
    """Choose a method by out-of-fold predictions.

    It is the first of ``preferred`` that is not significantly worse than the best, at a level corrected for the
    number of methods; otherwise it is the best. The highest of many scores is partly due to chance.

    Parameters
    ----------
    found : dict of str to OutOfFold
        The methods.
    preferred : sequence of str
        Methods in order of preference.
    seed : int
        Seed of the bootstrap that corrects the expected score for the selection.

    Returns
    -------
    Choice
    """
    order = sorted(found, key=lambda name: -found[name].score)
    gaps = {name: gap(found[order[0]], found[name]) for name in order}
    wider = wider_for(len(order))
    margin = {n: max(min(wider * gaps[n][1], 1.0), _NEGLIGIBLE) for n in preferred if n in found}
    chosen = next((name for name, most in margin.items() if gaps[name][0] <= most), order[0])
    equal = [n for n in order if n in (order[0], chosen) or gaps[n][0] <= max(gaps[n][1], _NEGLIGIBLE)]
    expected, draws = _corrected(found, margin, chosen, seed)
    own = found[chosen]
    low, high = interval(own, expected, draws)
    return Choice(chosen, equal, expected, low, high, own.n_rows, own.within, own.n_groups)


def interval(one: OutOfFold, expected: float, draws: np.ndarray) -> tuple[float, float]:
    """Return a 90% interval of the score on new rows: Wilson's for accuracy, otherwise from the bootstrap.

    The bootstrap interval of another share is at least as wide as Wilson's: if all rows are right, all draws agree.
    """
    kind = one.measure.kind
    z = stats.norm.ppf((1 + LEVEL) / 2) * (R2_WIDER if kind == "r2" else _WIDER)
    wilson = _wilson(min(max(expected, 0.0), 1.0), one.n_effective, z)
    if kind == "accuracy":
        return wilson
    half = z * float(draws.std())
    low, high = expected - half, min(expected + half, 1.0)
    return (low, high) if kind == "r2" else (max(min(low, wilson[0]), 0.0), max(high, wilson[1]))


def _wilson(p: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval of z standard errors for a share p of n rows.

    >>> [round(end, 3) for end in _wilson(0.9, 60, 1.645)]
    [0.818, 0.947]
    """
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return float(max(middle - half, 0.0)), float(min(middle + half, 1.0))


def _corrected(
    found: dict[str, OutOfFold], margin: dict[str, float], chosen: str, seed: int
) -> tuple[float, np.ndarray]:
    """Return the expected score, corrected for the selection, and bootstrap draws of the chosen method's score.

    Bootstrap bias correction (Tsamardinos, Greasidou & Borboudakis 2018): the method is selected again on rows, or
    groups, drawn with replacement, and scored on those that were not drawn.
    """
    names = list(found)
    measure, groups = found[chosen].measure, found[chosen].groups
    groups = Groups.single(found[chosen].terms.shape[1]) if groups is None else groups
    rng, n = np.random.default_rng(seed), len(groups)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=_DRAWS).astype(float)[:, groups.codes]
    left_out = (counts == 0).astype(float)
    inside = np.array([measure.value(counts @ found[name].mean_terms) for name in names])  # (m, draws)
    outside = np.array([measure.value(left_out @ found[name].mean_terms) for name in names])
    own = inside[names.index(chosen)]
    if len(names) == 1:
        return found[chosen].score, own
    best = inside.argmax(axis=0)
    top = inside.max(axis=0)
    for name in reversed(list(margin)):
        close = inside[names.index(name)] >= top - margin[name]
        best = np.where(close, names.index(name), best)
    fair = np.take_along_axis(outside, best[None], axis=0)[0]
    return float(np.nanmean(fair)), own


@dataclass(frozen=True)
class Measure:
    """A score that is a function of sums over rows.

    Attributes
    ----------
    name : str
        Its name in reports.
    kind : {"accuracy", "balanced", "f1", "r2"}
        Which score it is. "f1" is micro-averaged over the labels.
    """

    name: str
    kind: str

    @property
    def shares(self) -> bool:
        """Whether it is a share, written as a percentage."""
        return self.kind != "r2"

    @property
    def gloss(self) -> str:
        """Its meaning in a sentence; "" for accuracy."""
        return {
            "r2": R2_GLOSS,
            "f1": "F1 is 100% where every label of every row is given and no other; labels missed and labels wrongly "
            "given lower it alike.",
            "balanced": "Balanced accuracy is the share of rows that are right, class by class, averaged over the "
            "classes: a rare class counts as much as a frequent one.",
        }.get(self.kind, "")

    @property
    def ticks(self) -> str:
        """The plotly format of the numbers of an axis."""
        return ".0%" if self.shares else ".2~f"

    @property
    def sentence(self) -> str:
        """The name at the start of a sentence."""
        return f"{self.name[0].upper()}{self.name[1:]}"

    def _number(self, value: float) -> str:
        times, digits = (100, 1) if self.shares else (1, 2)
        # + 0.0 turns -0.0 into 0.0
        return f"{round(times * value, digits) + 0.0:.{digits}f}".replace("-", "−")

    def show(self, value: float) -> str:
        """Return a score as text.

        >>> Measure("accuracy", "accuracy").show(0.9134), Measure("R²", "r2").show(-0.004)
        ('91.3%', '0.00')
        """
        return "–" if value is None or np.isnan(value) else f"{self._number(value)}{'%' * self.shares}"

    def stated(self, value: float) -> str:
        """Return a score as text with its unit.

        >>> Measure("accuracy", "accuracy").stated(0.9134), Measure("R²", "r2").stated(0.52)
        ('91.3% right', 'an R² of 0.52')
        """
        if not self.shares:
            return f"an {self.name} of {self.show(value)}"
        unit = {"accuracy": "right", "f1": "F1"}.get(self.kind, self.name)
        return f"{self.show(value)} {unit}"

    def difference(self, value: float, spread: float) -> str:
        """Return a difference of scores as text, in percentage points for shares, with its spread if known.

        >>> share = Measure("accuracy", "accuracy")
        >>> share.difference(0.0213, 0.004), share.difference(-0.0213, np.nan), share.difference(-1e-17, 0.01)
        ('2.1 ± 0.4', '−2.1', '0.0 ± 1.0')
        >>> Measure("R²", "r2").difference(0.0213, 0.004)
        '0.02 ± 0.00'
        """
        number = self._number(value)
        return number if np.isnan(spread) else f"{number} ± {self._number(spread)}"

    def with_spread(self, value: float, spread: float) -> str:
        """Return a score as text with its spread over the repeats, if known.

        >>> Measure("accuracy", "accuracy").with_spread(0.913, 0.02), Measure("R²", "r2").with_spread(0.5, np.nan)
        ('91.3% ± 2.0', '0.50')
        """
        if spread is None or np.isnan(spread):
            return self.show(value)
        return f"{self.show(value)} ± {self._number(spread)}"

    def negligible(self, difference: float) -> bool:
        """Tell whether a difference rounds to 0."""
        return round(difference, 3 if self.shares else 2) == 0

    def terms(self, truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Return the terms that each row adds to the sums, (l, q)."""
        if self.kind == "f1":
            tp = (truth * predicted).sum(axis=1)
            return np.column_stack([2 * tp, truth.sum(axis=1) + predicted.sum(axis=1)])
        if self.kind == "r2":
            return np.column_stack([(truth - predicted) ** 2, (truth - truth.mean()) ** 2])
        right = (truth == predicted).astype(float)
        if self.kind == "accuracy":
            return np.column_stack([right, np.ones(len(truth))])
        member = (np.arange(int(truth.max(initial=0)) + 1) == truth[:, None]).astype(float)
        return np.hstack([right[:, None] * member, member])

    def of(self, truth: np.ndarray, predicted: np.ndarray) -> float:
        """Return the score of predictions."""
        return float(self.value(self.terms(truth, predicted).sum(axis=0)))

    def value(self, sums: np.ndarray) -> np.ndarray:
        """Return the score from sums (..., q)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.kind == "r2":
                return np.where(sums[..., 1] > 0, 1 - sums[..., 0] / sums[..., 1], np.nan)
            if self.kind != "balanced":
                empty = 1.0 if self.kind == "f1" else np.nan
                return np.where(sums[..., 1] > 0, sums[..., 0] / sums[..., 1], empty)
            half = sums.shape[-1] // 2
            there = sums[..., half:] > 0
            recall = np.where(there, sums[..., :half] / sums[..., half:], 0.0)
            return recall.sum(axis=-1) / np.maximum(there.sum(axis=-1), 1)

    def by_part(self, sums: np.ndarray) -> np.ndarray:
        """Return the score of each part of the rows from sums (..., parts, q).

        R² of a part uses the variance of all rows, since the numbers of a part may hardly differ.
        """
        if self.kind == "r2":
            whole = np.broadcast_to(sums[..., 1].mean(axis=-1, keepdims=True), sums[..., 1].shape)
            sums = np.stack([sums[..., 0], whole], axis=-1)
        return self.value(sums)


BALANCED = Measure("balanced accuracy", "balanced")


def measure_for(task: str, counts: np.ndarray) -> Measure:
    """Return the score for a target: balanced accuracy if one class is five times as frequent as another.

    >>> measure_for("multiclass", np.array([50, 4])).name
    'balanced accuracy'
    """
    if task == "multilabel":
        return Measure("F1 over all labels", "f1")
    if task == "regression":
        return Measure("R²", "r2")
    if counts.max() >= 5 * counts.min():
        return BALANCED
    return Measure("accuracy", "accuracy")
