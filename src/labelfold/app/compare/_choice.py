"""Statistics of out-of-fold predictions: the score to expect, its interval, and which methods are equally good.

Every labelled row is predicted by models that were not told its label, several times over, by all methods on the same
folds. Scores of a method are then sums over rows, and differences between methods are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from labelfold.app.compare._measure import Measure
from labelfold.semi_supervised._calibration import R2_WIDER

LEVEL = 0.9  # of every interval
# Factor that widens intervals: they account for the sampling of test rows, but not of the training set.
_WIDER = 1.2
_DRAWS = 1000
# Differences below half a percentage point do not matter in practice.
_NEGLIGIBLE = 0.005


@dataclass
class OutOfFold:
    """The out-of-fold predictions of one method.

    Attributes
    ----------
    measure : Measure
        How they are scored.
    terms : ndarray of shape (r, l, q)
        What each row adds to the sums, in each repeat.
    fold : ndarray of shape (r, l)
        In which fold the row was held back; -1 where it never was.
    """

    measure: Measure
    terms: np.ndarray
    fold: np.ndarray

    @cached_property
    def mean_terms(self) -> np.ndarray:
        """The terms of each row, averaged over the repeats, (l, q); 0 for rows never held back."""
        return np.where((self.fold >= 0)[..., None], self.terms, 0.0).mean(axis=0)

    @property
    def n_rows(self) -> int:
        """How many rows were predicted."""
        return int((self.fold >= 0).any(axis=0).sum())

    @property
    def within(self) -> float | None:
        """Distance that nine of ten new numbers keep to from their prediction, from the rows held back.

        Of l rows it is the distance that 0.9 (l + 1) of them keep to, which holds for one more row drawn as they were
        (split conformal prediction). None for classes, and where l is below 9.
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
        """Return the predictions of the first repeats only."""
        return OutOfFold(self.measure, self.terms[:repeats], self.fold[:repeats])


def gap(better: OutOfFold, other: OutOfFold) -> tuple[float, float]:
    """Return by how much one method is ahead, and the half-width of a 90% interval.

    Differences are taken fold by fold. Folds share training rows, so their variance is corrected as Nadeau & Bengio
    (2003) do: (1/J + test/train) in place of 1/J for J folds.
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
    """Return the factor by which intervals of all differences from the best are widened to hold jointly (Šidák).

    >>> round(wider_for(2), 2), round(wider_for(20), 2)
    (1.0, 1.69)
    """
    together = LEVEL ** (1 / max(n_methods - 1, 1))
    return float(stats.norm.ppf((1 + together) / 2) / stats.norm.ppf((1 + LEVEL) / 2))


@dataclass(frozen=True)
class Choice:
    """What is delivered, and what to expect of it.

    Attributes
    ----------
    chosen : str
        The method delivered.
    equal : list of str
        All that the labels cannot tell from the best, best first; the chosen one is among them.
    expected : float
        The score to expect on new rows: out-of-fold, corrected for having chosen.
    low, high : float
        Its 90% interval.
    n_rows : int
        How many labelled rows that stands on.
    within : float or None
        Where numbers are predicted: nine of ten new ones are expected within this distance of their prediction.
    """

    chosen: str
    equal: list[str]
    expected: float
    low: float
    high: float
    n_rows: int
    within: float | None = None


def choose(found: dict[str, OutOfFold], preferred: Sequence[str], seed: int = 0) -> Choice:
    """Choose among methods by their out-of-fold predictions.

    The best of many scores is partly luck. So the first method of ``preferred`` is taken whose distance to the best
    is no more than luck explains among so many methods; the best where there is none.

    Parameters
    ----------
    found : dict of str to OutOfFold
        The methods.
    preferred : sequence of str
        Those that are taken where they are as good as the best, first ones first.
    seed : int
        Of the bootstrap that corrects the expected score for the choice.

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
    return Choice(chosen, equal, expected, *interval(own, expected, draws), own.n_rows, own.within)


def interval(one: OutOfFold, expected: float, draws: np.ndarray) -> tuple[float, float]:
    """Return a 90% interval of the score on new rows: Wilson's for shares of rows, otherwise from the bootstrap."""
    z = stats.norm.ppf((1 + LEVEL) / 2) * (R2_WIDER if one.measure.kind == "r2" else _WIDER)
    if one.measure.kind == "r2":
        half = z * float(draws.std())
        return float(expected - half), float(min(expected + half, 1.0))
    middle, half = _wilson(min(max(expected, 0.0), 1.0), one.n_rows, z)
    if one.measure.kind != "accuracy":
        # No less than Wilson's: where all rows are right the draws are alike, and yet nothing is sure.
        middle, half = expected, max(half, z * float(draws.std()))
    return float(max(middle - half, 0.0)), float(min(middle + half, 1.0))


def _wilson(p: float, n: int, z: float) -> tuple[float, float]:
    """Return the middle and the half width of Wilson's interval for a share p of n rows, z deviations wide.

    >>> middle, half = _wilson(1.0, 10, 1.645)
    >>> round(middle - half, 3), round(middle + half, 3)
    (0.787, 1.0)
    """
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    return middle, z / (1 + z**2 / n) * float(np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)))


def _corrected(
    found: dict[str, OutOfFold], margin: dict[str, float], chosen: str, seed: int
) -> tuple[float, np.ndarray]:
    """Return the score to expect of what is chosen, and bootstrap draws of the chosen method's score.

    Rows are drawn with replacement. The choice is made again on those drawn, and scored on those that were not
    (Tsamardinos, Greasidou & Borboudakis 2018): the choice is never made on the rows that it is scored on.
    """
    names = list(found)
    measure, n = found[chosen].measure, found[chosen].terms.shape[1]
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=_DRAWS).astype(float)
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
