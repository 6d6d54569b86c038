"""Scores of predictions (accuracy, balanced accuracy, F1, R²), and how they are written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

R2_GLOSS = (
    "R² is the share of the target's variance that is predicted: 1 is every number right, 0 no better than always "
    "giving their mean."
)


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
