"""Weights of rows and classes in TSVM, and weights of the columns."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_selection import RFE, SelectFromModel

from labelfold import TSVM
from labelfold.semi_supervised._tsvm import switches, weighted_switches

N = 80


@pytest.fixture
def clusters(rng):
    y = np.arange(N) % 3
    X = rng.standard_normal((3, 5))[y] * 2 + rng.standard_normal((N, 5))
    return X, y


def some(task, X, y):
    """Return labels of every fourth row."""
    known = {
        "binary": np.minimum(y, 1),
        "classes": y,
        "labels": np.column_stack([y == 0, X[:, 0] > 0]),
    }[task].astype(float)
    known[np.arange(N) % 4 > 0] = np.nan
    return known


def close(found, expected, rtol=1e-5):
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("task", ["binary", "classes", "labels"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("C", ["auto", 0.5])
def test_labelled_rows_of_whole_weights_are_repeated_rows(clusters, rng, task, class_weight, C):
    X, y = clusters
    known, w = some(task, X, y), rng.integers(0, 4, N)
    copies = np.repeat(np.arange(N), w)
    model = TSVM(C, unlabeled_weight=0.0, tol=1e-11, class_weight=class_weight)
    weighted = model.fit(X, known, sample_weight=w)
    F, coef, C_ = weighted.decision_function(X), weighted.coef_, weighted.C_
    repeated = model.fit(X[copies], known[copies])
    assert pytest.approx(repeated.C_, rel=1e-9) == C_
    close(F, repeated.decision_function(X))
    close(coef, repeated.coef_)


@pytest.mark.parametrize("task", ["binary", "classes"])
def test_copies_of_well_separated_rows_take_the_same_labels(rng, task):
    y = np.arange(N) % (2 if task == "binary" else 3)
    X = 8 * np.eye(3)[y] + 0.5 * rng.standard_normal((N, 3))
    known, w = np.where(np.arange(N) % 8 == 0, y, -1), rng.integers(1, 4, N)
    known[:3] = y[:3]
    copies = np.repeat(np.arange(N), w)
    rest = known < 0
    fractions = np.bincount(y[rest], w[rest]) / w[rest].sum()
    model = TSVM(positive_fraction=fractions[1] if task == "binary" else fractions, tol=1e-9)
    F = model.fit(X, known, sample_weight=w).decision_function(X)
    np.testing.assert_array_equal(model.transduction_, y)
    close(F, model.fit(X[copies], known[copies]).decision_function(X), 1e-3)


@pytest.mark.parametrize("task", ["binary", "classes", "labels"])
def test_rows_of_weight_0_are_left_out(clusters, rng, task):
    X, y = clusters
    known, w = some(task, X, y), rng.integers(0, 2, N) * rng.uniform(0.5, 2, N)
    kept = w > 0
    model = TSVM(tol=1e-10).fit(X, known, sample_weight=w)
    rest = TSVM(tol=1e-10).fit(X[kept], known[kept], sample_weight=w[kept])
    close(model.decision_function(X), rest.decision_function(X), 1e-4)
    np.testing.assert_array_equal(model.transduction_[kept], rest.transduction_)
    np.testing.assert_array_equal(model.transduction_[~kept], rest.predict(X[~kept]))
    np.testing.assert_array_equal(model.switched_signs_, rest.switched_signs_)


@pytest.mark.parametrize("c", [0.5, 3.0])
def test_equal_weights_are_another_C(clusters, c):
    X, y = clusters
    known = some("binary", X, y)
    weighted = TSVM(2.0, tol=1e-9).fit(X, known, sample_weight=np.full(N, c))
    plain = TSVM(2.0 * c, tol=1e-9).fit(X, known)
    close(weighted.decision_function(X), plain.decision_function(X))
    np.testing.assert_array_equal(weighted.switched_signs_, plain.switched_signs_)


def test_shares_are_of_weights_and_the_objective_falls(rng):
    y = np.arange(300) % 2
    X = rng.standard_normal((300, 4)) + 0.8 * (2 * y - 1)[:, None]
    known, w = np.where(np.arange(300) < 20, y, -1), rng.uniform(0.1, 3, 300)
    for options in ({}, {"max_switches": 2}, {"positive_fraction": 0.3}):
        model = TSVM(1.0, **options).fit(X, known, sample_weight=w)
        signs, own = model.switched_signs_[:, 0], w[20:]
        share = own[signs > 0].sum() / own.sum()
        assert abs(share - model.positive_fraction_[0]) <= own.max() / 2 / own.sum() * (1 + 1e-6)
        for stage in model.objective_[0]:
            assert (np.diff(stage) <= 1e-12 * stage[0]).all()
        assert any(len(stage) > 1 for stage in model.objective_[0])
    fraction = np.average(y[:20], weights=w[:20])
    assert TSVM(1.0).fit(X, known, sample_weight=w).positive_fraction_[0] == pytest.approx(fraction)


def test_switches_of_equal_weights_are_those_without_weights(rng):
    for _ in range(50):
        margins, signs = rng.standard_normal(30), rng.choice([-1.0, 1.0], 30)
        for most in (None, 2):
            found = weighted_switches(margins, signs, most, np.full(30, 1.7), 0.0)
            assert sorted(found) == sorted(switches(margins, signs, most))


def test_switches_of_weights_lower_the_objective_and_keep_the_share(rng):
    def loss(margins, signs, w):
        return w @ np.maximum(0, 1 - signs * margins) ** 2

    n_switched = 0
    for _ in range(100):
        margins, signs, w = rng.standard_normal(25), rng.choice([-1.0, 1.0], 25), rng.uniform(0.1, 2, 25)
        found = weighted_switches(margins, signs, None, w, 0.3)
        other = signs.copy()
        other[found] *= -1
        n_switched += len(found) > 0
        assert len(found) == 0 or loss(margins, other, w) < loss(margins, signs, w)
        assert abs(0.3 + (other - signs) @ w / 2) <= max(w.max() / 2, 0.3) * (1 + 1e-8)
    assert n_switched > 50


def test_balanced_classes_find_more_rows_of_the_rare_one(rng):
    y = (rng.random(300) < 0.1).astype(int)
    X = rng.standard_normal((300, 4)) + 1.2 * y[:, None]
    known, rare = np.where(np.arange(300) < 150, y, -1), (y == 1) & (np.arange(300) >= 150)
    plain, balanced = (TSVM(class_weight=w, unlabeled_weight=0.1).fit(X, known) for w in (None, "balanced"))
    assert balanced.predict(X[rare]).mean() > plain.predict(X[rare]).mean() + 0.1


@pytest.mark.parametrize("task", ["binary", "classes", "labels"])
def test_the_score_is_linear_in_the_columns(clusters, task):
    X, y = clusters
    for rows in (X + 3, sparse.csr_array(X)):
        model = TSVM().fit(rows, some(task, X, y))
        F = model.decision_function(rows)
        np.testing.assert_allclose((rows @ model.coef_.T + model.intercept_).reshape(F.shape), F, atol=1e-9)


def test_columns_are_selected_by_their_weights(rng):
    X = rng.standard_normal((200, 10))
    y = (X[:, 2] - X[:, 5] > 0).astype(int)
    few = np.where(np.arange(200) < 80, y, -1)
    selected = SelectFromModel(TSVM(), max_features=2, threshold=-np.inf).fit(X, few).get_support(True)
    assert selected.tolist() == [2, 5]
    assert np.flatnonzero(RFE(TSVM(), n_features_to_select=2).fit(X, few).support_).tolist() == [2, 5]


def test_every_container_gives_the_same(clusters, container, rng):
    X, y = clusters
    known, w = some("classes", X, y), rng.integers(0, 3, N).astype(float)
    expected = TSVM(tol=1e-9).fit(X, known, sample_weight=w)
    model = TSVM(tol=1e-9).fit(container.make(X), known, sample_weight=w)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-4)
