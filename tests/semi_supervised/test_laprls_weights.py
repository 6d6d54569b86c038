"""Weights of rows and classes in LapRLS, weights of the columns, and probabilities of the training rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel

from labelfold import LapRLS
from labelfold.rows import as_rows
from labelfold.semi_supervised._graph import laplacian, nearest, neighbour_graph
from labelfold.semi_supervised._laprls import objective, solve_kernel, solve_spectrum

N = 50


@pytest.fixture
def problem(rng):
    y = np.arange(N) % 3
    X = rng.standard_normal((3, 6))[y] * 1.5 + rng.standard_normal((N, 6))
    return X, y


def some(task, X, y):
    """Return targets of every other row."""
    known = {
        "binary": np.minimum(y, 1),
        "classes": y,
        "labels": np.column_stack([y == 0, X[:, 0] > 0]),
        "numbers": X[:, 0] + 0.3 * X[:, 1],
    }[task].astype(float)
    known[1::2] = np.nan
    return known


def close(found, expected, rtol=1e-6):
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())


OPTIONS = [
    {"smoothness": 0.0},
    {"smoothness": 0.0, "kernel": "rbf"},
    {"smoothness": 20.0, "graph": "given"},
    {"smoothness": 20.0, "graph": "given", "normalized": True},
    {"smoothness": 20.0, "graph": "given", "kernel": "rbf", "normalized": True},
    {"smoothness": 20.0, "graph": "rbf"},
    {"smoothness": 20.0, "graph": "rbf", "kernel": "poly", "fit_intercept": False},
]


@pytest.mark.parametrize("task", ["binary", "classes", "labels", "numbers"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_whole_weights_are_repeated_rows(problem, rng, task, options):
    X, y = problem
    known, w = some(task, X, y), rng.integers(0, 4, N)
    copies = np.repeat(np.arange(N), w)
    if options.get("graph") == "given":
        W = neighbour_graph(*nearest(as_rows(X), 5))
        graphs = (W, W[copies][:, copies])
        if options.get("kernel"):
            graphs = tuple(one.toarray() for one in graphs)
        weighted, repeated = (LapRLS(**{**options, "graph": one}, tol=1e-12) for one in graphs)
    else:
        weighted, repeated = LapRLS(**options, tol=1e-12), LapRLS(**options, tol=1e-12)
    for class_weight in [None] if task == "numbers" else [None, "balanced"]:
        weighted.set_params(class_weight=class_weight).fit(X, known, sample_weight=w)
        repeated.set_params(class_weight=class_weight).fit(X[copies], known[copies])
        assert weighted.ridge_ == pytest.approx(repeated.ridge_, rel=1e-9)
        close(weighted.predict(X), repeated.predict(X))
        close(weighted._score_rows(as_rows(X)), repeated._score_rows(as_rows(X)))
        # a row of weight 0 has no label, and is predicted
        np.testing.assert_array_equal(
            weighted.transduction_[w == 0], weighted.predict(X[w == 0])
        ) if task != "numbers" else close(weighted.transduction_[w == 0], weighted.predict(X[w == 0]))


def test_a_neighbour_graph_has_the_products_of_weights(problem, rng):
    """The neighbours are those of different rows, which repeated rows would not be."""
    X, y = problem
    known, w = some("binary", X, y), rng.uniform(0.5, 2, N)
    model = LapRLS(smoothness=20.0, ridge=1.0, tol=1e-12).fit(X, known, sample_weight=w)
    index = np.flatnonzero(~np.isnan(known))
    W = neighbour_graph(*nearest(as_rows(X), 5)).toarray() * np.outer(w, w)
    L, Y = np.diag(W.sum(axis=0)) - W, 2 * known[index, None] - 1
    F = np.column_stack([X, np.ones(N)])
    D = np.zeros(N)
    D[index] = w[index]
    total = D.sum()
    A = F.T @ (D[:, None] * F) + np.diag([1.0] * 6 + [0.0]) + 20 * total / w.sum() ** 2 * F.T @ L @ F
    B = F[index].T @ (w[index, None] * Y)
    found = np.linalg.solve(A, B)
    close(model.coef_[0], found[:6, 0])
    close(model.intercept_, found[6])


def test_solutions_minimise_the_weighted_objective(problem, rng):
    X, _ = problem
    K, index = rbf_kernel(X, gamma=0.2), np.arange(0, N, 3)
    Y, v = rng.standard_normal((len(index), 2)), rng.uniform(0.2, 3, len(index))
    L = laplacian(neighbour_graph(*nearest(as_rows(X), 4)))
    found = solve_kernel(K, L, index, Y, ridge=0.1, smoothness=5.0, weights=v)
    other = solve_spectrum(K, L, index, Y, 0.1, 5.0, True, v)
    close(K @ found.W + found.intercept, K @ other.W + other.intercept)

    def value(W, b):
        return objective(K @ W, np.sum(W * (K @ W)), L, index, Y, b, 0.1, 5.0, v)

    best = value(found.W, found.intercept)
    for _ in range(20):
        step = 1e-3 * rng.standard_normal(found.W.shape)
        assert value(found.W + step, found.intercept) > best
        assert value(found.W, found.intercept + 1e-3 * rng.standard_normal(2)) > best


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}, {"kernel": "rbf", "n_landmarks": 15}], ids=str)
def test_rows_of_weight_0_are_left_out(problem, rng, options):
    X, y = problem
    known, w = some("classes", X, y), rng.integers(0, 2, N) * 1.5
    kept = w > 0
    model = LapRLS(smoothness=20.0, **options).fit(X, known, sample_weight=w)
    rest = LapRLS(smoothness=20.0, **options).fit(X[kept], known[kept], sample_weight=w[kept])
    close(model.decision_function(X), rest.decision_function(X))
    np.testing.assert_array_equal(model.transduction_[kept], rest.transduction_)
    np.testing.assert_array_equal(model.transduction_[~kept], rest.predict(X[~kept]))
    close(model.label_distributions_, model.predict_proba(X))
    # a graph is that of all rows
    W = neighbour_graph(*nearest(as_rows(X), 5))
    given = LapRLS(smoothness=20.0, graph=W, **options).fit(X, known, sample_weight=w)
    part = LapRLS(smoothness=20.0, graph=W[kept][:, kept], **options).fit(
        X[kept], known[kept], sample_weight=w[kept]
    )
    close(given.decision_function(X), part.decision_function(X))


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}])
@pytest.mark.parametrize("weights", ["binary", "heat"])
def test_equal_weights_change_nothing(problem, options, weights):
    """The penalty of the graph has the total weight of the labelled rows as a factor, and so has the ridge."""
    X, y = problem
    known = some("classes", X, y)
    for graph in ("knn", "rbf"):
        model = LapRLS(smoothness=20.0, graph=graph, weights=weights, **options)
        plain = model.fit(X, known).decision_function(X)
        close(model.fit(X, known, sample_weight=np.full(N, 3.0)).decision_function(X), plain)


def test_a_ridge_is_chosen_by_weighted_scores(problem, rng):
    X, y = problem
    model = LapRLS(ridge="cv", smoothness=0.0).fit(X, some("numbers", X, y), sample_weight=np.full(N, 2.0))
    plain = LapRLS(ridge=model.ridges_ / 2, smoothness=0.0).fit(X, some("numbers", X, y))
    close(model.ridge_scores_, plain.ridge_scores_)
    w = rng.uniform(0, 2, N)
    other = LapRLS(ridge="cv", smoothness=0.0).fit(X, some("numbers", X, y), sample_weight=w)
    assert np.abs(other.ridge_scores_ - model.ridge_scores_).max() > 1e-3


def test_without_a_graph_it_is_ridge_regression(problem, rng):
    X, _ = problem
    target, w = X[:, 0] + 0.5 * rng.standard_normal(N), rng.uniform(0, 2, N)
    model = LapRLS(smoothness=0.0, ridge=2.0, tol=1e-12).fit(X + 3, target, sample_weight=w)
    ridge = Ridge(alpha=2.0).fit(X + 3, target, sample_weight=w)
    close(model.coef_, ridge.coef_)
    assert model.coef_.shape == (6,)
    assert isinstance(model.intercept_, float)
    assert model.intercept_ == pytest.approx(ridge.intercept_, rel=1e-6)


@pytest.mark.parametrize("task", ["binary", "classes", "labels", "numbers"])
def test_the_score_is_linear_in_the_columns(problem, task):
    X, y = problem
    for rows in (X + 3, sparse.csr_array(X)):
        model = LapRLS(smoothness=5.0).fit(rows, some(task, X, y))
        values = model.predict(rows) if task == "numbers" else model.decision_function(rows)
        found = rows @ model.coef_.T + model.intercept_
        np.testing.assert_allclose(found.reshape(values.shape), values, atol=1e-8)


def test_columns_are_selected_by_their_weights(rng):
    X = rng.standard_normal((200, 10))
    y = (X[:, 2] - X[:, 5] > 0).astype(int)
    few = np.where(np.arange(200) < 80, y, -1)
    model = LapRLS(smoothness=0.1)
    assert SelectFromModel(model, max_features=2, threshold=-np.inf).fit(X, few).get_support(
        True
    ).tolist() == [2, 5]
    assert np.flatnonzero(RFE(model, n_features_to_select=2).fit(X, few).support_).tolist() == [2, 5]


@pytest.mark.parametrize("task", ["binary", "classes", "labels", "numbers"])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_probabilities_of_the_training_rows(problem, task, kernel):
    X, y = problem
    model = LapRLS(kernel=kernel, smoothness=5.0).fit(X, some(task, X, y))
    if task == "numbers":
        assert not hasattr(model, "label_distributions_")
    else:
        np.testing.assert_allclose(model.label_distributions_, model.predict_proba(X), atol=1e-10)


def test_balanced_classes_find_more_rows_of_the_rare_one(rng):
    y = (rng.random(400) < 0.1).astype(int)
    X = rng.standard_normal((400, 4)) + 1.5 * y[:, None]
    few, rare = np.where(np.arange(400) < 200, y, -1), (y == 1) & (np.arange(400) >= 200)
    plain, balanced = (LapRLS(class_weight=w, smoothness=0.1).fit(X, few) for w in (None, "balanced"))
    assert balanced.predict(X[rare]).mean() > plain.predict(X[rare]).mean() + 0.1
    with pytest.raises(ValueError, match="class_weight"):
        LapRLS(class_weight="balanced").fit(X, X[:, 0])


def test_every_container_gives_the_same(problem, container, rng):
    X, y = problem
    known, w = some("classes", X, y), rng.integers(0, 3, N).astype(float)
    for options in ({}, {"smoothness": 0.0}, {"kernel": "rbf"}):
        expected = LapRLS(**options).fit(X, known, sample_weight=w)
        model = LapRLS(**options).fit(container.make(X), known, sample_weight=w)
        np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-6)
        np.testing.assert_array_equal(np.asarray(model.transduction_), expected.transduction_)
