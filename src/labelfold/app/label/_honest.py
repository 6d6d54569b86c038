"""What the answers say: the accuracy to expect, how it grew, how it will grow, and labels worth a second look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import beta

if TYPE_CHECKING:
    from labelfold import LabelFold

_SURE = 0.8


@dataclass(frozen=True)
class Answer:
    """One answered question, in the order of answering.

    Attributes
    ----------
    row : int
    label : str
    predicted : str or None
        What was predicted before; None where there was no model yet.
    confidence : float
    how : str
        How the row was chosen; "random" ones measure the accuracy.
    n_labels : int
        Labels there were before.
    """

    row: int
    label: str
    predicted: str | None
    confidence: float
    how: str
    n_labels: int


@dataclass(frozen=True)
class Expected:
    """An accuracy to expect.

    Attributes
    ----------
    value, low, high : float
        The accuracy, and a 90% interval.
    n : int
        Random rows it stands on.
    labels : int
        With so many labels.
    """

    value: float
    low: float
    high: float
    n: int
    labels: int


@dataclass(frozen=True)
class Doubt:
    """A label that disagrees with everything around it.

    Attributes
    ----------
    row : int
    label, predicted : str
        The label, and what is predicted without it.
    confidence : float
    """

    row: int
    label: str
    predicted: str
    confidence: float


def expected(answers: Sequence[Answer]) -> Expected | None:
    """Return the accuracy to expect of the present model, from rows drawn at random; None where there are none."""
    right = [a.label == a.predicted for a in answers if a.how == "random" and a.predicted is not None]
    if not right:
        return None
    n, hits = len(right), sum(right)
    low = float(beta.ppf(0.05, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.ppf(0.95, hits + 1, n - hits)) if hits < n else 1.0
    return Expected(hits / n, low, high, n, answers[-1].n_labels + 1)


def curve(answers: Sequence[Answer]) -> list[Expected]:
    """Return the accuracy expected after each random answer."""
    found = []
    for i, answer in enumerate(answers):
        if answer.how == "random" and (one := expected(answers[: i + 1])) is not None:
            found.append(one)
    return found


def forecast(answers: Sequence[Answer], more: int = 20) -> Expected | None:
    """Return the accuracy to expect with more labels; None where too few random rows say so."""
    now = expected(answers)
    if now is None or now.n < 5:
        return None
    return Expected(now.value, now.low, now.high, now.n, now.labels + more)


def look_again(fold: LabelFold, labels: Any) -> list[Doubt]:
    """Return labels that are confidently contradicted when they are left out, the surest first.

    Parameters
    ----------
    fold : LabelFold
        Fitted with these labels.
    labels : ndarray of shape (n,)
        Labels as text, None where there is none.
    """
    rows = np.flatnonzero([label is not None for label in labels])
    own = np.array([labels[i] for i in rows], dtype=object)
    said, sure = fold.loo_predictions_, fold.loo_confidence_
    doubtful = np.flatnonzero((said.astype(str) != own.astype(str)) & (sure >= _SURE))
    doubtful = doubtful[np.argsort(-sure[doubtful], kind="stable")]
    return [Doubt(int(rows[i]), str(own[i]), str(said[i]), float(sure[i])) for i in doubtful]
