"""Label budgets: hold some labelled rows back for testing, keep a few labels of the rest, hide the others.

Within a repeat the test rows are the same for every budget, and the labels of a small budget are among those
of a larger one, so that methods and budgets are compared in pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

UNLABELLED = -1


@dataclass(frozen=True)
class Split:
    """One training problem.

    Attributes
    ----------
    repeat, budget : int
        Which draw, and how many labels are kept.
    train : ndarray
        Rows to fit on: all but the test rows, those that never had a label included.
    y : ndarray
        Their class codes, -1 where hidden or never known.
    test : ndarray
        Rows held back.
    """

    repeat: int
    budget: int
    train: np.ndarray
    y: np.ndarray
    test: np.ndarray


def default_budgets(codes: np.ndarray, test_size: float = 0.3) -> list[int]:
    """Return 2, 5, 10 and 20 labels a class as far as there are labels to keep.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Class codes 0..c-1, -1 where unlabelled.
    test_size : float, default=0.3
        The share of labelled rows held back.

    Examples
    --------
    >>> default_budgets(np.repeat([0, 1, -1], 50))
    [4, 10, 20, 40]
    >>> default_budgets(np.repeat([0, 1], 4))
    [4]
    """
    counts = np.bincount(codes[codes >= 0])
    most = int(np.sum(counts - _n_test(counts, test_size)))
    budgets = [m * len(counts) for m in (2, 5, 10, 20) if m * len(counts) <= most]
    return budgets or [most]


def label_budget_splits(
    codes: np.ndarray,
    budgets: Sequence[int],
    *,
    repeats: int = 5,
    test_size: float = 0.3,
    random_state: int = 0,
) -> Iterator[Split]:
    """Draw the training problems, repeat by repeat.

    The labels kept are drawn class by class: one of each class first, then a second of each, then in
    proportion to the class sizes.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Class codes 0..c-1, -1 where unlabelled.
    budgets : sequence of int
        How many labels to keep; at least one a class.
    repeats : int, default=5
        Number of draws.
    test_size : float, default=0.3
        The share of each class held back, at least one row, and never the last one.
    random_state : int, default=0
        Seed; the same seed gives the same splits.

    Yields
    ------
    Split
        ``repeats * len(budgets)`` of them.

    Examples
    --------
    >>> codes = np.repeat([0, 1, -1], [20, 20, 60])
    >>> split = next(label_budget_splits(codes, [6]))
    >>> len(split.test), len(split.train), np.sum(split.y >= 0)
    (12, 88, np.int64(6))
    """
    codes = np.asarray(codes)
    check_budgets(codes, budgets, test_size)
    for repeat in range(repeats):
        # a generator for each repeat: more repeats leave the first ones as they were
        rng = np.random.default_rng([random_state, repeat])
        test, queue = _draw(codes, test_size, rng)
        train = np.setdiff1d(np.arange(len(codes)), test)
        for budget in budgets:
            y = np.full(len(codes), UNLABELLED)
            y[queue[:budget]] = codes[queue[:budget]]
            yield Split(repeat, budget, train, y[train], test)


def check_budgets(codes: np.ndarray, budgets: Sequence[int], test_size: float) -> None:
    """Refuse a comparison that the labels do not allow, in a sentence."""
    if not 0 < test_size < 1:
        raise ValueError(
            f"test_size is the share of labelled rows held back, between 0 and 1, not {test_size}."
        )
    counts = np.bincount(codes[codes >= 0])
    held = _n_test(counts, test_size)
    most = int(np.sum(counts - held))
    if not held.any():
        raise ValueError(
            "Every class has one labelled row only: none can be held back to test on; label more."
        )
    if not len(budgets):
        raise ValueError("There is no label budget; name at least one.")
    for budget in budgets:
        if not len(counts) <= budget <= most:
            raise ValueError(
                f"A budget of {budget} labels is outside {len(counts)} to {most}: at least one for each of "
                f"the {len(counts)} classes, and no more than are left once {held.sum()} labelled rows are "
                "held back to test on."
            )


def _n_test(counts: np.ndarray, test_size: float) -> np.ndarray:
    """Return how many rows of each class are held back."""
    return np.minimum(np.maximum(np.round(test_size * counts).astype(int), 1), np.maximum(counts - 1, 0))


def _draw(codes: np.ndarray, test_size: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the test rows, and the other labelled rows in the order in which budgets take them."""
    n_classes = int(codes.max()) + 1
    members = [rng.permutation(np.flatnonzero(codes == c)) for c in range(n_classes)]
    held = _n_test(np.array([len(m) for m in members]), test_size)
    test = np.sort(np.concatenate([m[:h] for m, h in zip(members, held, strict=True)]))
    kept = [m[h:] for m, h in zip(members, held, strict=True)]
    # The j-th row of a class of size s waits until (j - 1/2) / s of the labels are given out (Sainte-Laguë:
    # in proportion at every budget, and a larger one takes back nothing); the first two of each go before.
    rows = np.concatenate(kept)
    place = np.concatenate([np.arange(len(k)) for k in kept])
    size = np.repeat([len(k) for k in kept], [len(k) for k in kept])
    turn = np.where(place < 2, place - 2.0, (place + 0.5) / size)
    return test, rows[np.lexsort((rng.random(len(rows)), turn))]
