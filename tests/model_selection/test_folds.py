"""Folds of partly labelled rows: what each holds out, and what it never takes away."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_validate

from labelfold import CCA, LDA
from labelfold.model_selection import (
    LabelBudgetSplit,
    LabelledScorer,
    RepeatedSemiSupervisedKFold,
    SemiSupervisedKFold,
)


def shuffled(values, seed):
    return np.random.default_rng(seed).permutation(values)


def check_folds(splits, n, labelled, pinned=()):
    """Train and test make up all rows; unlabelled ones are never tested; labelled ones once, but for the pinned."""
    tested = np.concatenate([test for _, test in splits])
    assert sorted(tested) == sorted(set(labelled) - set(pinned))
    for train, test in splits:
        assert len(test)
        np.testing.assert_array_equal(np.union1d(train, test), np.arange(n))
        assert len(train) + len(test) == n
        assert (np.diff(train) > 0).all()


@settings(max_examples=80)
@given(
    counts=st.lists(st.integers(1, 25), min_size=2, max_size=6),
    unlabelled=st.integers(0, 30),
    n_splits=st.integers(2, 6),
    shuffle=st.booleans(),
    seed=st.integers(0, 3),
)
def test_classes_are_spread_and_never_lost(counts, unlabelled, n_splits, shuffle, seed):
    y = shuffled(np.repeat([*range(len(counts)), -1], [*counts, unlabelled]), seed)
    pinned = [i for c, m in enumerate(counts) if m == 1 for i in np.flatnonzero(y == c)]
    cv = SemiSupervisedKFold(n_splits, shuffle=shuffle, random_state=seed if shuffle else None)
    if sum(m for m in counts if m > 1) < n_splits:
        with pytest.raises(ValueError, match="fewer folds, or label more"):
            list(cv.split(y, y))
        return
    splits = list(cv.split(y, y))
    assert len(splits) == cv.get_n_splits()
    check_folds(splits, len(y), np.flatnonzero(y >= 0), pinned)
    for c in range(len(counts)):
        held = [int(np.sum(y[test] == c)) for _, test in splits]
        assert max(held) - min(held) <= 1
        assert all((y[train] == c).any() for train, _ in splits)
    sizes = [len(test) for _, test in splits]
    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=60)
@given(
    n=st.integers(20, 80),
    share=st.floats(0.05, 0.6),
    gaps=st.floats(0, 0.5),
    n_splits=st.integers(2, 5),
    seed=st.integers(0, 10),
)
def test_labels_of_several_a_row_are_never_lost(n, share, gaps, n_splits, seed):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, 4)) < share * np.array([1, 0.7, 0.4, 0.2])).astype(float)
    Y[rng.random(n) < gaps] = np.nan
    labelled = np.flatnonzero(~np.isnan(Y[:, 0]))
    cv = SemiSupervisedKFold(n_splits, shuffle=True, random_state=seed)
    if len(labelled) < 8 * n_splits:  # so few that labels with one row each may keep them all
        return
    splits = list(cv.split(None, Y))
    tested = np.concatenate([test for _, test in splits])
    assert len(set(tested)) == len(tested)
    check_folds(splits, n, labelled, set(labelled) - set(tested))
    for j in np.flatnonzero(np.nansum(Y, axis=0)):
        for train, _ in splits:
            assert np.nansum(Y[train, j]) > 0


def test_labels_of_several_a_row_are_spread_better_than_by_chance():
    rng = np.random.default_rng(0)
    Y = (rng.random((400, 8)) < [0.5, 0.3, 0.2, 0.1, 0.08, 0.06, 0.05, 0.05]).astype(float)
    gaps = [
        np.ptp(
            [
                Y[test].sum(axis=0)
                for _, test in SemiSupervisedKFold(5, shuffle=True, random_state=s).split(Y, Y)
            ],
            0,
        )
        for s in range(3)
    ]
    assert np.max(gaps) <= 3
    chance = [
        np.ptp([Y[part].sum(axis=0) for part in np.array_split(rng.permutation(400), 5)], 0) for _ in range(3)
    ]
    assert np.mean(gaps) < 0.3 * np.mean(chance)


def test_continuous_targets_are_spread_by_size():
    y = np.random.default_rng(0).normal(size=60)
    y[::4] = np.nan
    splits = list(SemiSupervisedKFold(5, shuffle=True, random_state=0).split(None, y))
    check_folds(splits, 60, np.flatnonzero(~np.isnan(y)))
    overall = np.nanmedian(y)
    for _, test in splits:
        assert abs(np.sum(y[test] > overall) - np.sum(y[test] < overall)) <= 2


def test_whole_numbers_are_spread_by_size_where_they_are_numbers():
    y = np.r_[np.arange(30.0), np.nan]  # every value once: as classes none could be held out
    with pytest.raises(ValueError, match="labelled rows that can be held out"):
        next(SemiSupervisedKFold(5).split(None, y))
    splits = list(
        RepeatedSemiSupervisedKFold(5, n_repeats=1, random_state=0, task="regression").split(None, y)
    )
    check_folds(splits, 31, np.arange(30))
    for _, test in splits:
        assert (np.sort(y[test]) // 5).tolist() == [0, 1, 2, 3, 4, 5]
    whole = np.arange(-5, 25)
    problem = next(LabelBudgetSplit([10], task="regression").problems(None, whole))
    assert sum(value is not None for value in problem.y) == 10


def test_repeats_and_seeds():
    y = np.repeat([0, 1, -1], [15, 15, 20])

    def draw(**options):
        return [test.tolist() for _, test in RepeatedSemiSupervisedKFold(3, **options).split(y, y)]

    first = draw(n_repeats=4, random_state=1)
    assert len(first) == RepeatedSemiSupervisedKFold(3, n_repeats=4).get_n_splits() == 12
    assert first == draw(n_repeats=4, random_state=1)
    assert first[:6] == draw(n_repeats=2, random_state=1)
    assert first != draw(n_repeats=4, random_state=2)
    assert first[:3] != first[3:6]
    for i in range(0, 12, 3):
        assert sorted(np.concatenate(first[i : i + 3])) == list(range(30))


@pytest.mark.parametrize(
    ("options", "X", "y", "words"),
    [
        ({}, np.zeros((3, 1)), None, "needs y"),
        ({}, None, [-1, -1, None], "no labelled row among its 3"),
        ({"n_splits": 1}, None, [0, 1, 0, 1], "at least 2, not 1"),
        ({"n_splits": 3}, None, [0, 1, 2, 0], "2 of the 4 can"),
        ({}, np.zeros((4, 1)), [0, 1, 1], "y has 3 rows and X has 4"),
    ],
)
def test_requests_that_cannot_be_met(options, X, y, words):
    with pytest.raises(ValueError, match=words):
        list(SemiSupervisedKFold(**options).split(X, y))


def forms(y, hidden):
    """The same labels in every form the library takes, with an estimator for each."""
    names = np.array(["a", "b", "c"], dtype=object)[y]
    Y = np.eye(3)[y]
    Y[hidden] = np.nan
    return {
        "-1": (np.where(hidden, -1, y), LDA()),
        "nan": (np.where(hidden, np.nan, y), LDA()),
        "none": (np.where(hidden, None, y.astype(object)), LDA()),
        "names": (np.where(hidden, None, names), LDA()),
        "mark": (np.where(hidden, "?", names).astype(str), LDA(unlabeled="?")),
        "Int64": (pd.Series(np.where(hidden, pd.NA, y.astype(object))).astype("Int64"), LDA()),
        "matrix": (Y, CCA()),
        "matrix of -1": (np.where(hidden[:, None], -1, np.eye(3, dtype=int)[y]), CCA()),
        "table": (pd.DataFrame(Y, columns=list("abc")), CCA()),
        "all labelled": (y, LDA()),
    }


@pytest.mark.parametrize("form", forms(np.zeros(1, dtype=int), np.array([False])))
@pytest.mark.parametrize("scoring", [None, "labelled"])
@pytest.mark.filterwarnings("error")
def test_grid_search_takes_every_form_of_y(form, scoring):
    X, y = load_iris(return_X_y=True)
    hidden = np.random.default_rng(0).random(150) < 0.6
    labels, model = forms(y, hidden)[form]
    cv = SemiSupervisedKFold(3, shuffle=True, random_state=0, unlabeled=model.unlabeled)
    scorer = None if scoring is None else LabelledScorer("accuracy", unlabeled=model.unlabeled)
    search = GridSearchCV(model, {"ridge": [0.1, 10.0]}, cv=cv, scoring=scorer).fit(X, labels)
    assert search.best_score_ > (0.6 if "matri" in form or form == "table" else 0.9)
    curve = LabelBudgetSplit([6, 15], n_repeats=2, unlabeled=model.unlabeled)
    found = cross_validate(model, X, labels, cv=curve, scoring=scorer)
    assert np.isfinite(found["test_score"]).all()


def test_a_plain_number_of_folds_would_not_do():
    """Why the splitters exist: scikit-learn's default folds refuse NaN, and test on -1 as if it were a class."""
    X, y = load_iris(return_X_y=True)
    y = np.where(np.arange(150) % 3, np.nan, y)
    with pytest.raises(ValueError, match="NaN"):
        GridSearchCV(LDA(), {"ridge": [1.0]}, cv=3).fit(X, y)


def test_they_print_and_travel():
    for cv in (SemiSupervisedKFold(4), RepeatedSemiSupervisedKFold(4, n_repeats=2), LabelBudgetSplit([4])):
        assert repr(cv).startswith(type(cv).__name__ + "(")
        assert repr(pickle.loads(pickle.dumps(cv))) == repr(cv)
