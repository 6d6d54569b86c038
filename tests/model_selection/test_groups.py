"""Groups: read in any form, dealt to parts as wholes, held out together, and found as exact copies."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score

from labelfold import LDA, LabelFold
from labelfold.model_selection import (
    LabelBudgetSplit,
    RepeatedSemiSupervisedKFold,
    SemiSupervisedKFold,
    label_curve,
)
from labelfold.model_selection._groups import Groups, copies_of, read_groups
from labelfold.rows._host import row_hashes


def copies(labelled, others):
    return copies_of(row_hashes(labelled), row_hashes(others))


@pytest.mark.parametrize(
    "groups",
    [
        ["a", "b", None, "a", ""],
        np.array([3.0, 7.0, np.nan, 3.0, np.nan]),
        pd.Series(["x", "y", pd.NA, "x", None], dtype="string"),
        pd.Series([1, 2, None, 1, None], dtype="Int64"),
        pd.Series(["a", "b", None, "a", None], dtype="category"),
        pd.to_datetime(pd.Series(["2020-01-01", "2021-01-01", None, "2020-01-01", None])),
        [("p", 1), ("p", 2), None, ("p", 1), None],
    ],
    ids=["list", "floats", "string", "nullable", "category", "dates", "tuples"],
)
def test_a_row_without_a_group_is_one_by_itself(groups):
    if isinstance(groups, list) and isinstance(groups[0], tuple):
        groups = pd.Series(groups)
    assert read_groups(groups, 5).codes.tolist() == [0, 1, 2, 0, 3]


@pytest.mark.parametrize("groups", [[1, 2], np.ones((3, 2))])
def test_groups_of_the_wrong_shape_are_refused(groups):
    with pytest.raises(ValueError, match=r"groups is .* for 3 rows; pass one value a row"):
        read_groups(groups, 3)


def test_sums_and_sums_without_the_own_group(rng):
    codes = rng.integers(0, 6, 30)
    groups, values = Groups(np.unique(codes, return_inverse=True)[1]), rng.standard_normal((2, 3, 30))
    for i, code in enumerate(groups.codes):
        own = groups.codes == code
        np.testing.assert_allclose(groups.sums(values)[..., code], values[..., own].sum(axis=-1))
        np.testing.assert_allclose(groups.without(values)[..., i], values[..., ~own].sum(axis=-1))
    assert sorted(np.concatenate([rows.ravel() for rows in groups.by_size])) == list(range(30))
    for rows in groups.by_size:
        assert (groups.codes[rows] == groups.codes[rows][:, :1]).all()


def test_rows_of_a_group_count_for_as_many_as_are_independent(rng):
    groups = Groups(np.repeat(np.arange(200), 5))
    alike, unlike = np.repeat(rng.random(200) < 0.8, 5), rng.random(1000) < 0.8
    assert groups.effective(alike.astype(float)) == pytest.approx(200, rel=0.01)
    assert 700 < groups.effective(unlike.astype(float)) <= 1000
    assert Groups(np.repeat(np.arange(4), 5)).effective(np.ones(20)) == pytest.approx(4)
    assert Groups.single(7).effective(np.arange(7.0)) == 7


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_whole_groups_are_dealt_and_no_class_leaves_training(data):
    l = data.draw(st.integers(2, 60), "l")  # noqa: E741
    codes = np.array(data.draw(st.lists(st.integers(0, 12), min_size=l, max_size=l), "groups"))
    y = np.array(data.draw(st.lists(st.integers(0, 3), min_size=l, max_size=l), "y"))
    k = data.draw(st.integers(2, 5), "k")
    groups = read_groups(codes, l)
    order = np.random.default_rng(0).permutation(len(groups))
    part = groups.dealt(np.eye(4)[y], np.full(k, 1 / k), order)
    for code in range(len(groups)):
        assert len(set(part[groups.codes == code])) == 1
    for c in set(y):
        assert -1 in part[y == c] or len(set(part[y == c])) > 1


def test_shares_of_rows_and_classes_are_kept(rng):
    codes, y = np.repeat(np.arange(120), 3), rng.integers(0, 3, 360)
    part = Groups(codes).dealt(np.eye(3)[y], np.array([0.3, 0.7]), rng.permutation(120))
    assert (part == 0).mean() == pytest.approx(0.3, abs=0.02)
    for c in range(3):
        assert (part[y == c] == 0).mean() == pytest.approx(0.3, abs=0.04)


@pytest.mark.parametrize("kind", ["classes", "numbers", "several labels"])
def test_folds_keep_groups_whole(rng, kind):
    groups = np.repeat(np.arange(24), 5)
    y = {
        "classes": np.where(np.arange(120) < 90, rng.integers(0, 3, 24)[groups], -1),
        "numbers": np.where(np.arange(120) < 90, rng.standard_normal(120), np.nan),
        "several labels": np.where(np.arange(120)[:, None] < 90, rng.integers(0, 2, (120, 3)), np.nan),
    }[kind]
    held = []
    for train, test in RepeatedSemiSupervisedKFold(4, n_repeats=2, random_state=0).split(None, y, groups):
        assert not set(groups[test]) & set(groups[np.setdiff1d(train, np.arange(90, 120))])
        assert set(range(90, 120)) <= set(train)
        assert 10 <= len(test) <= 35
        held.append(test)
    assert sorted(np.concatenate(held[:4])) == sorted(np.concatenate(held[4:]))


def test_single_groups_change_nothing(rng):
    y = rng.integers(-1, 3, 80)
    for plain, grouped in zip(
        SemiSupervisedKFold(4, shuffle=True, random_state=1).split(None, y),
        SemiSupervisedKFold(4, shuffle=True, random_state=1).split(None, y, np.arange(80)),
        strict=True,
    ):
        assert plain[1].tolist() == grouped[1].tolist()


def test_too_few_groups_are_refused():
    y, groups = [0, 0, 1, 1, 0, 1], ["a", "a", "a", "a", "b", "b"]
    with pytest.raises(ValueError, match="3 folds need as many groups of labelled rows"):
        next(SemiSupervisedKFold(3).split(None, y, groups))


def test_budgets_keep_groups_whole(rng):
    groups = np.repeat(np.arange(40), 4)
    y = np.where(np.arange(160) < 120, rng.integers(0, 2, 160), -1)
    splitter = LabelBudgetSplit([4, 20], n_repeats=3)
    for problem in splitter.problems(None, y, groups):
        assert not set(groups[problem.test]) & set(groups[problem.kept])
        assert len(problem.kept) == problem.budget == (problem.y != -1).sum()
        assert len(problem.test) / 120 == pytest.approx(0.3, abs=0.05)
    assert splitter.get_n_splits(None, y, groups) == len(list(splitter.split(None, y, groups))) == 6
    default = LabelBudgetSplit(n_repeats=2)
    assert default.get_n_splits(None, y, groups) == len(list(default.split(None, y, groups)))
    with pytest.raises(ValueError, match="A budget of 100 labels is outside"):
        next(LabelBudgetSplit([100]).problems(None, y, groups))


def test_a_score_without_the_group_is_lower_where_groups_repeat_their_rows(rng):
    groups = np.repeat(np.arange(30), 4)
    X, y = rng.standard_normal((30, 20))[groups], rng.integers(0, 2, 30)[groups]
    model, cv = LogisticRegression(C=100), SemiSupervisedKFold(5, shuffle=True, random_state=0)
    apart = cross_val_score(model, X, y, cv=cv).mean()
    together = cross_val_score(model, X, y, cv=cv, groups=groups).mean()
    assert apart > 0.95
    assert together < 0.7
    curve = [label_curve(LDA(ridge=0.1), X, y, groups=g, cv=LabelBudgetSplit([60])) for g in (None, groups)]
    assert curve[0]["test_scores"].mean() > 0.85 > 0.7 > curve[1]["test_scores"].mean()


@pytest.mark.parametrize(
    "make", [np.asarray, np.asfortranarray, sparse.csr_matrix, sparse.csr_array, sparse.csc_array]
)
def test_equal_rows_have_equal_hashes(rng, make):
    X = rng.integers(-2, 3, (60, 7)).astype(np.float32)
    X[0], X[1] = 0.0, -0.0
    expected = np.unique(X + 0.0, axis=0, return_inverse=True)[1].ravel()
    for values in (X, X.astype(np.float64)):
        codes = np.unique(row_hashes(make(values)), return_inverse=True)[1]
        np.testing.assert_array_equal(codes[:, None] == codes, expected[:, None] == expected)
    assert row_hashes(make(X))[5] == row_hashes(X.astype(np.float64))[5]


def test_stored_zeros_are_zeros():
    stored = sparse.csr_array((np.array([1.0, 0.0]), np.array([0, 2]), np.array([0, 2])), shape=(1, 3))
    assert row_hashes(stored)[0] == row_hashes(np.array([[1.0, 0.0, 0.0]]))[0]


def test_rows_that_were_labelled_twice_are_found(rng):
    X = rng.standard_normal((500, 6))
    found = copies(np.vstack([X[:20], X[:20]]), X[40:])
    assert found.beyond_chance
    assert found.n_copies == 40
    assert found.groups.codes.tolist() == [*found.groups.codes[:20].tolist()] * 2
    # a few copies among many, and copies of unlabelled rows too
    assert copies(np.vstack([X[:60], X[:4]]), X[100:]).beyond_chance
    twice = np.vstack([X, X])
    assert copies(twice[np.r_[:30, 500:530]], twice[np.r_[30:500, 530:1000]]).beyond_chance


def test_honest_copies_are_no_groups():
    """Of tables with few distinct values about one in a hundred is taken for one with copies."""
    taken, some = 0, 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        weights = rng.dirichlet(np.full(4, 0.5))
        X = rng.choice(4, p=weights, size=(400, 3)).astype(float)
        found = copies(X[:80], X[80:])
        taken, some = taken + found.beyond_chance, some + found.n_copies
    assert some > 150 * 20
    assert taken <= 5  # the chance of more is below 0.001 at a level of 0.01


def test_without_other_rows_copies_are_only_counted(rng):
    X = rng.standard_normal((20, 3))
    found = copies(np.vstack([X, X]), X[:0])
    assert (found.n_copies, found.beyond_chance) == (40, False)


def test_groups_are_routed_to_splitters(rng):
    seen = []

    class Noting(SemiSupervisedKFold):
        def split(self, X, y=None, groups=None):
            seen.append(groups)
            return super().split(X, y, groups)

    groups, X = np.repeat(np.arange(12), 5), rng.standard_normal((60, 3))
    y = np.arange(12)[groups] % 2
    with config_context(enable_metadata_routing=True):
        model = LabelFold(views=["linear"]).set_fit_request(groups=True)
        GridSearchCV(model, {"n_anchors": [50]}, cv=Noting(3)).fit(X, y, groups=groups)
        GridSearchCV(LDA(), {"ridge": [1.0]}, cv=Noting(3)).fit(X, y)
    assert seen[0].tolist() == groups.tolist()
    assert seen[-1] is None


def test_joined_groups_are_the_finest_that_hold_both(rng):
    a, b = (read_groups(rng.integers(0, 20, 40), 40) for _ in range(2))
    both = a.joined(b).codes
    for one in (a, b):
        for code in range(len(one)):
            assert len(set(both[one.codes == code])) == 1
    assert Groups.single(40).joined(a).codes.tolist() == a.codes.tolist()


def test_copies_of_many_other_rows_are_no_sign_of_double_records(rng):
    X = rng.integers(0, 2, (300, 3)).astype(float)
    found = copies(X[:40], X[40:])
    assert found.usual
    assert not found.beyond_chance
