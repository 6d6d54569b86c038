"""Shrinkage of the within-class covariance in LDA: the ridge that it amounts to, and scikit-learn's."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from labelfold import LDA
from labelfold.numerics import ridge_problem
from labelfold.rows import as_rows


def class_data(n=60, d=25, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.standard_normal((n, d)) @ np.diag(np.linspace(0.2, 2.0, d)) + 5.0
    X[np.arange(n), y] += 2.0
    return X, y


def within(X, y):
    return X - np.array([X[y == j].mean(axis=0) for j in range(3)])[y]


@pytest.mark.parametrize("shrinkage", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("load", [load_iris, load_wine, class_data])
def test_predictions_are_those_of_scikit_learn(load, shrinkage):
    X, y = load() if load is class_data else load(return_X_y=True)
    X = X / X.std(axis=0)
    ours = LDA(shrinkage=shrinkage).fit(X, y)
    theirs = LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage).fit(X, y)
    assert ours.shrinkage_ == shrinkage
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)
    # The scores of scikit-learn differ from ours by a number that all classes have in common.
    F, F0 = ours.decision_function(X), theirs.decision_function(X)
    np.testing.assert_allclose(F - F.mean(axis=1)[:, None], F0 - F0.mean(axis=1)[:, None], atol=1e-7)


def test_two_classes_and_wide_rows():
    X, y = class_data(40, 90)
    X, y = X[y < 2], y[y < 2]
    ours = LDA(shrinkage=0.3).fit(X, y)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-8)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-8)


@pytest.mark.parametrize("shrinkage", [0.2, 0.7, "auto"])
def test_shrinkage_is_a_ridge(shrinkage):
    X, y = class_data()
    model = LDA(shrinkage=shrinkage).fit(X, y)
    same = LDA(ridge=model.ridge_).fit(X, y)
    np.testing.assert_allclose(model.components_, same.components_, atol=1e-12)
    trace = np.square(within(X, y)).sum()
    a = model.shrinkage_
    assert model.ridge_ == pytest.approx(a / (1 - a) * trace / X.shape[1], rel=1e-10)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((60, 25), {}),
        ((30, 70), {}),
        ((60, 25), {"solver": "direct"}),
        ((60, 25), {"max_gram_bytes": 1000}),
        ((30, 70), {"max_gram_bytes": 0}),
    ],
    ids=str,
)
def test_auto_is_the_formula_of_ledoit_and_wolf(container, shape, options):
    X, y = class_data(*shape)
    expected = ledoit_wolf_shrinkage(within(X, y), assume_centered=True)
    assert 0.01 < expected < 0.99
    model = LDA(shrinkage="auto", **options).fit(container.make(X), y)
    assert model.shrinkage_ == pytest.approx(expected, rel=1e-8)


def test_auto_of_wide_sparse_rows():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, 80)
    X = sparse.random_array((80, 400), density=0.05, rng=rng, format="csr")
    expected = ledoit_wolf_shrinkage(within(X.toarray(), y), assume_centered=True)
    for max_gram_bytes in (512 << 20, 0):
        model = LDA(shrinkage="auto", max_gram_bytes=max_gram_bytes).fit(X, y)
        assert model.shrinkage_ == pytest.approx(expected, rel=1e-8)
    dense = LDA(shrinkage="auto").fit(X.toarray(), y)
    np.testing.assert_allclose(
        LDA(shrinkage="auto").fit(X, y).predict_proba(X), dense.predict_proba(X.toarray()), atol=1e-8
    )


@pytest.mark.parametrize("shrinkage", [0.4, "auto"])
@pytest.mark.parametrize("max_gram_bytes", [512 << 20, 100])
def test_weights_are_repeated_rows(shrinkage, max_gram_bytes):
    X, y = class_data()
    y[::7] = -1
    weights = np.random.default_rng(4).integers(0, 4, len(X))
    options = {"shrinkage": shrinkage, "max_gram_bytes": max_gram_bytes, "tol": 1e-12}
    found = LDA(**options).fit(X, y, sample_weight=weights)
    expected = LDA(**options).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert found.shrinkage_ == pytest.approx(expected.shrinkage_, rel=1e-9)
    assert found.ridge_ == pytest.approx(expected.ridge_, rel=1e-9)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-8)


def test_rows_that_are_equal_within_each_class_are_not_shrunk():
    X, y = np.repeat(np.eye(3), 4, axis=0), np.repeat([0, 1, 2], 4)
    model = LDA(shrinkage="auto").fit(X, y)
    assert model.shrinkage_ == 0.0
    assert model.ridge_ == 0.0
    np.testing.assert_array_equal(model.predict(X), y)


def test_auto_suits_any_unit():
    X, y = load_digits(return_X_y=True)
    one, other = LDA(shrinkage="auto").fit(X, y), LDA(shrinkage="auto").fit(1000 * X, y)
    assert one.shrinkage_ == pytest.approx(other.shrinkage_, rel=1e-9)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(1000 * X), atol=1e-9)


def test_a_later_fit_forgets_the_shrinkage():
    X, y = class_data()
    model = LDA(shrinkage=0.5).fit(X, y).set_params(shrinkage=None)
    np.testing.assert_allclose(model.fit(X, y).predict_proba(X), LDA().fit(X, y).predict_proba(X))
    assert model.shrinkage_ is None


def test_shrinkage_that_cannot_work_is_refused():
    X, y = class_data()
    with pytest.raises(ValueError, match=r"shrinkage=0.5 and ridge=1.0 were given"):
        LDA(shrinkage=0.5, ridge=1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"shrinkage='auto' and ridge='cv' were given"):
        LDA(shrinkage="auto", ridge="cv").fit(X, y)
    with pytest.raises(
        ValueError, match=r"was given with kernel='rbf', whose space has no number of columns"
    ):
        LDA(shrinkage=0.5, kernel="rbf").fit(X, y)
    with pytest.raises(ValueError, match=r"path fits ridges, and shrinkage=0.5 was given"):
        LDA(shrinkage=0.5).path(X, y, [1.0])
    with pytest.raises(AttributeError, match=r"cannot work with shrinkage=0.5"):
        LDA(shrinkage=0.5).partial_fit(X, y)
    with pytest.raises(ValueError, match="'shrinkage' parameter of LDA must be"):
        LDA(shrinkage=1.5).fit(X, y)


@pytest.mark.parametrize("way", ["gram", "dual", "krylov", "factor"])
def test_the_norm_of_the_gram_matrix(way, rng):
    X, T = rng.standard_normal((30, 12)) + 2.0, rng.standard_normal((30, 2))
    weights = rng.uniform(0.0, 2.0, 30)
    Xc = (X - np.average(X, axis=0, weights=weights)) * np.sqrt(weights)[:, None]
    problem = ridge_problem(as_rows(X), T, weights=weights, way=way)
    for max_bytes in (0, 500, 1e6):
        assert problem.squared_gram(max_bytes) == pytest.approx(np.square(Xc.T @ Xc).sum(), rel=1e-12)
