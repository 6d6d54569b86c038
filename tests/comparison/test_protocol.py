"""The splits: what is held back, what is kept, and that everything is paired and seeded."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelfold.comparison import default_budgets, label_budget_splits


def codes_of(*counts, unlabelled=0, seed=0):
    codes = np.repeat([*range(len(counts)), -1], [*counts, unlabelled])
    return np.random.default_rng(seed).permutation(codes)


def counts_kept(split, n_classes):
    return np.bincount(split.y[split.y >= 0], minlength=n_classes)


@settings(max_examples=60)
@given(
    counts=st.lists(st.integers(2, 40), min_size=2, max_size=6),
    unlabelled=st.integers(0, 30),
    seed=st.integers(0, 5),
    share=st.floats(0.1, 0.6),
    data=st.data(),
)
def test_what_every_split_keeps(counts, unlabelled, seed, share, data):
    codes = codes_of(*counts, unlabelled=unlabelled, seed=seed)
    c = len(counts)
    most = max(default_budgets(codes, share))
    budget = data.draw(st.integers(c, max(most, c)))
    splits = list(label_budget_splits(codes, [budget], repeats=2, test_size=share, random_state=seed))
    assert [s.repeat for s in splits] == [0, 1]
    for split in splits:
        assert np.array_equal(np.union1d(split.train, split.test), np.arange(len(codes)))
        assert not np.intersect1d(split.train, split.test).size
        assert (codes[split.test] >= 0).all()
        assert set(np.flatnonzero(codes < 0)) <= set(split.train)
        given_labels = split.y >= 0
        assert given_labels.sum() == budget
        np.testing.assert_array_equal(split.y[given_labels], codes[split.train][given_labels])
        kept = counts_kept(split, c)
        assert kept.min() >= 1
        left = np.bincount(codes[split.train][codes[split.train] >= 0], minlength=c)
        if budget >= 2 * c:
            assert (kept >= np.minimum(2, left)).all()


def test_a_share_of_each_class_is_held_back():
    split = next(label_budget_splits(codes_of(100, 50, 10), [10]))
    assert np.bincount(codes_of(100, 50, 10)[split.test]).tolist() == [30, 15, 3]


def test_the_last_row_of_a_class_is_never_held_back():
    codes = codes_of(10, 1, 2)
    for split in label_budget_splits(codes, [3], repeats=5, test_size=0.5):
        assert np.bincount(codes[split.train]).tolist() == [5, 1, 1]
        assert counts_kept(split, 3).tolist() == [1, 1, 1]


def test_labels_are_kept_in_proportion():
    codes = codes_of(400, 200, 100)
    for budget in (70, 140, 280):
        kept = counts_kept(next(label_budget_splits(codes, [budget])), 3)
        expected = budget * np.array([4, 2, 1]) / 7
        # Sainte-Laguë rounding; the two labels every class gets first are within its share here
        assert np.abs(kept - expected).max() <= 1


def test_budgets_are_nested_and_share_the_test_rows():
    codes = codes_of(60, 40, 20, unlabelled=50)
    by_repeat = {}
    for split in label_budget_splits(codes, [3, 6, 12, 40], repeats=3):
        by_repeat.setdefault(split.repeat, []).append(split)
    for splits in by_repeat.values():
        for small, large in itertools.pairwise(splits):
            np.testing.assert_array_equal(small.test, large.test)
            kept = small.y >= 0
            np.testing.assert_array_equal(small.y[kept], large.y[kept])
    first, second = by_repeat[0][0], by_repeat[1][0]
    assert not np.array_equal(first.test, second.test)


def test_seeds():
    codes = codes_of(30, 30)

    def tests(**options):
        return [s.test.tolist() for s in label_budget_splits(codes, [6], **options)]

    assert tests(random_state=1) == tests(random_state=1)
    assert tests(random_state=1) != tests(random_state=2)
    assert tests(repeats=5)[:2] == tests(repeats=2)


@pytest.mark.parametrize(
    ("counts", "budgets", "share", "words"),
    [
        ([20, 20], [1], 0.3, "outside 2 to 28"),
        ([20, 20], [4, 29], 0.3, "outside 2 to 28"),
        ([20, 20], [], 0.3, "no label budget"),
        ([1, 1], [2], 0.3, "one labelled row only"),
        ([20, 20], [4], 1.5, "between 0 and 1"),
    ],
)
def test_impossible_splits(counts, budgets, share, words):
    with pytest.raises(ValueError, match=words):
        next(label_budget_splits(codes_of(*counts), budgets, test_size=share))


@pytest.mark.parametrize("counts", [(2, 2), (3, 1), (50, 50, 50), (5,) * 20])
def test_default_budgets_are_possible(counts):
    codes = codes_of(*counts)
    budgets = default_budgets(codes)
    assert budgets == sorted(set(budgets))
    assert len(list(label_budget_splits(codes, budgets, repeats=1))) == len(budgets)
