"""The splits: what is held out, what is kept, and that everything is paired and seeded."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.datasets import load_iris

from labelfold import LDA
from labelfold.model_selection import LabelBudgetSplit, default_budgets, label_curve
from labelfold.model_selection._budgets import hide


def codes_of(*counts, unlabelled=0, seed=0):
    codes = np.repeat([*range(len(counts)), -1], [*counts, unlabelled])
    return np.random.default_rng(seed).permutation(codes)


def label_budget_splits(codes, budgets, *, repeats=5, **options):
    return LabelBudgetSplit(budgets, n_repeats=repeats, **options).problems(None, codes)


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


def test_a_share_of_each_class_is_held_out():
    split = next(label_budget_splits(codes_of(100, 50, 10), [10]))
    assert np.bincount(codes_of(100, 50, 10)[split.test]).tolist() == [30, 15, 3]


def test_the_last_row_of_a_class_is_never_held_out():
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


def multilabel(seed, n=120, unlabelled=40):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, 5)) < [0.5, 0.3, 0.2, 0.1, 0.05]).astype(float)
    Y[rng.permutation(n)[:unlabelled]] = np.nan
    return Y


@pytest.mark.parametrize("seed", range(4))
def test_several_labels_a_row(seed):
    Y = multilabel(seed)
    never = np.flatnonzero(np.isnan(Y[:, 0]))
    by_repeat = {}
    for problem in LabelBudgetSplit([10, 20, 40], n_repeats=2).problems(Y, Y):
        given = ~np.isnan(problem.y[:, 0])
        assert given.sum() == problem.budget
        np.testing.assert_array_equal(problem.train[given], problem.kept)
        np.testing.assert_array_equal(problem.y[given], Y[problem.kept])
        assert set(never) <= set(problem.train)
        assert not np.isnan(Y[problem.test]).any()
        left = np.nansum(Y[problem.train], axis=0)
        assert (left > 0).all()  # no label goes missing from training
        kept = np.nansum(problem.y, axis=0)
        # two of each of five labels, and two rows with none, come first
        assert (kept >= np.minimum(2 if problem.budget >= 12 else 1, left)).all()
        by_repeat.setdefault(problem.repeat, []).append(problem)
    for problems in by_repeat.values():
        for small, large in itertools.pairwise(problems):
            np.testing.assert_array_equal(small.test, large.test)
            assert set(small.kept) < set(large.kept)
    share = Y[by_repeat[0][0].test].mean(axis=0) - np.nanmean(Y, axis=0)
    assert np.abs(share).max() < 0.08


def test_continuous_targets():
    y = np.random.default_rng(0).normal(size=50)
    y[:20] = np.nan
    for problem in LabelBudgetSplit([5, 10], n_repeats=2).problems(None, y):
        assert len(problem.test) == 9
        assert np.sum(~np.isnan(problem.y)) == problem.budget


def test_as_a_splitter_rows_beyond_the_budget_are_left_out():
    codes = codes_of(20, 20, unlabelled=30)
    cv = LabelBudgetSplit([4, 10], n_repeats=3)
    splits = list(cv.split(codes, codes))
    assert len(splits) == cv.get_n_splits() == 6
    assert LabelBudgetSplit(n_repeats=2).get_n_splits(codes, codes) == 2 * len(default_budgets(codes))
    for (train, test), problem in zip(splits, cv.problems(codes, codes), strict=True):
        np.testing.assert_array_equal(test, problem.test)
        np.testing.assert_array_equal(train[codes[train] >= 0], problem.kept)
        assert set(np.flatnonzero(codes < 0)) <= set(train)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (np.array([0, 1, 2]), [0, -1, 2]),
        (np.array([3, 1, 2], dtype=np.uint8), [3, None, 2]),
        (np.array(["a", "b", "c"]), ["a", None, "c"]),
        (["a", None, "c"], ["a", None, "c"]),
        (np.array([-1, 1, 1]), [-1, None, 1]),  # two classes: -1 marks nothing here
        (np.array([True, False, True]), [True, None, True]),
        (pd.Series([1, None, 2], dtype="Int64"), [1, None, 2]),
    ],
)
def test_hidden_labels_in_every_form(y, expected):
    before = list(y)
    hidden = hide(y, [1])
    assert hidden.tolist()[0::2] == expected[0::2]
    assert pd.isna(hidden[1]) if expected[1] is None else hidden[1] == expected[1]
    assert list(map(str, y)) == list(map(str, before))


def test_hidden_floats_and_matrices():
    assert np.isnan(hide(np.array([0.0, 1.0]), [1])[1])
    Y = np.eye(3, dtype=int)
    assert np.isnan(hide(Y, [0])[0]).all()
    assert Y[0, 0] == 1
    assert np.isnan(hide(pd.DataFrame(Y), [2])[2]).all()


@pytest.mark.parametrize("form", ["-1", "nan", "none", "names", "series"])
def test_the_curve_is_the_same_in_every_form_of_y(form):
    X, y = load_iris(return_X_y=True)
    hidden = np.arange(150) % 3 == 0
    forms = {
        "-1": np.where(hidden, -1, y),
        "nan": np.where(hidden, np.nan, y),
        "none": np.where(hidden, None, y.astype(object)),
        "names": np.where(hidden, None, np.array(["a", "b", "c"], dtype=object)[y]),
        "series": pd.Series(np.where(hidden, None, y.astype(object))).astype("Int64"),
    }
    cv = LabelBudgetSplit([6, 30], n_repeats=2)
    curve = label_curve(LDA(ridge=0.1), X, forms[form], cv=cv)
    expected = label_curve(LDA(ridge=0.1), X, forms["-1"], cv=cv)
    assert curve["budgets"].tolist() == [6, 30]
    assert curve["test_scores"].shape == curve["fit_times"].shape == (2, 2)
    np.testing.assert_array_equal(curve["test_scores"], expected["test_scores"])


def test_every_draw_of_several_labels_a_row_leaves_as_many_as_the_budget():
    for seed in range(20):
        Y = np.random.default_rng(seed).random((35, 3)) < 0.4
        for problem in LabelBudgetSplit(n_repeats=3, test_size=0.5).problems(None, Y):
            assert len(problem.kept) == problem.budget
