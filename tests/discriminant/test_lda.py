"""LDA: against the dense problem, against scikit-learn, in every container, and with partly labelled data."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelfold import LDA
from labelfold.discriminant._lda import objective
from reference.two_stage import directions, distance, lda_targets, scatter

RIDGES = [0.0, 1e-6, 1e-3, 1.0, 1e3, 1e6]


def problems():
    """Data sets with every difficulty that a scatter matrix can have."""
    rng = np.random.default_rng(0)

    def noise(n, d):
        return rng.standard_normal((n, d))

    yield "tall", noise(200, 20), rng.integers(0, 4, 200)
    yield "wide", noise(60, 500), rng.integers(0, 4, 60)
    yield "square", noise(50, 50), rng.integers(0, 3, 50)
    yield "rank-deficient", 100 * noise(200, 10) @ noise(10, 40), rng.integers(0, 5, 200)
    yield "wide, rank-deficient", 100 * noise(100, 10) @ noise(10, 400), rng.integers(0, 5, 100)
    yield "rank below the classes", noise(80, 2) @ noise(2, 30), rng.integers(0, 6, 80)
    X = 50 * noise(300, 30)
    yield "duplicated columns", np.hstack([X, X[:, :5]]), rng.integers(0, 5, 300)
    yield "a constant column", np.hstack([X, np.full((300, 1), 7.0)]), rng.integers(0, 5, 300)
    yield "columns of many scales", noise(300, 12) * np.logspace(-3, 3, 12), rng.integers(0, 3, 300)
    yield "a large mean", noise(300, 12) + 1e5, rng.integers(0, 3, 300)
    yield "one column", noise(40, 1), rng.integers(0, 3, 40)
    yield "two classes", noise(90, 15), rng.integers(0, 2, 90)
    yield "duplicated rows", np.repeat(noise(20, 60), 2, axis=0), np.tile([0, 1, 2, 3], 10)
    yield "breast cancer", *load_breast_cancer(return_X_y=True)
    yield "wine", *load_wine(return_X_y=True)


PROBLEMS = list(problems())


@pytest.mark.parametrize("solver", ["two-stage", "direct"])
@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize(("name", "X", "y"), PROBLEMS, ids=[p[0] for p in PROBLEMS])
def test_equals_the_dense_solution(name, X, y, ridge, solver):
    model = LDA(ridge=ridge, solver=solver).fit(X, y)
    W0, s0 = directions(X, lda_targets(y), ridge)
    W = model.components_.T
    assert W.shape == W0.shape
    assert distance(W, W0) <= 1e-8
    np.testing.assert_allclose(model.eigenvalues_, s0, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 10.0])
def test_the_directions_are_whitened_stationary_and_maximal(ridge, rng):
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    W = LDA(ridge=ridge).fit(X, y).components_.T
    St, Sb = scatter(X, y)
    A = St + ridge * np.eye(len(St))
    np.testing.assert_allclose(W.T @ A @ W, np.eye(2), atol=1e-10)
    # Stationary: S_b W lies in the span of (S_t + g I) W.
    np.testing.assert_allclose(Sb @ W, A @ W @ (W.T @ Sb @ W), atol=1e-8 * np.abs(Sb).max())
    best = objective(W, Sb)
    root = np.linalg.inv(np.linalg.cholesky(A)).T
    for _ in range(50):
        Q, _ = np.linalg.qr(rng.standard_normal((13, 2)))
        assert objective(root @ Q, Sb) <= best + 1e-12


@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits, load_breast_cancer])
def test_equals_scikit_learn_where_that_is_defined(load):
    X, y = load(return_X_y=True)
    X = X[:, X.std(axis=0) > 0]
    ours, theirs = LDA().fit(X, y), LinearDiscriminantAnalysis().fit(X, y)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.exp(ours.predict_log_proba(X)), theirs.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_spans_what_scikit_learns_eigen_solver_spans(load):
    X, y = load(return_X_y=True)
    W = LDA().fit(X, y).components_.T
    k = W.shape[1]
    W0 = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :k]
    angles = np.linalg.svd(np.linalg.qr(W)[0].T @ np.linalg.qr(W0)[0], compute_uv=False)
    np.testing.assert_allclose(angles, 1.0, atol=1e-10)


def test_the_classifier_works_in_the_kept_directions():
    X, y = load_digits(return_X_y=True)
    model = LDA(n_components=3).fit(X, y)
    full = LDA().fit(X, y)
    Z, means = model.transform(X), model.means_
    precision = len(y) / (1 - model.eigenvalues_)
    # The textbook rule, written out: prior, and weighted squared distance to each class mean.
    log_p = np.log(np.bincount(y) / len(y)) - 0.5 * (precision * (Z[:, None] - means) ** 2).sum(axis=2)
    np.testing.assert_array_equal(model.predict(X), log_p.argmax(axis=1))
    np.testing.assert_allclose(means, [Z[y == c].mean(axis=0) for c in range(10)], atol=1e-12)
    np.testing.assert_allclose(model.components_, full.components_[:3], atol=1e-12)


@pytest.mark.parametrize("case", ["tall", "wide"])
@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_the_same_answer_in_every_container(container, case, ridge):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((120, 8) if case == "tall" else (30, 70)) * (rng.random((1, 1)) + 1)
    y = rng.integers(0, 3, len(X)).astype(float)
    X[np.arange(len(X)), y.astype(int)] += 1.5
    y[::4] = np.nan
    held = container.make(X)
    model, dense = LDA(ridge=ridge).fit(held, y), LDA(ridge=ridge).fit(X, y)
    tol = 1e-10
    np.testing.assert_allclose(
        model.components_, dense.components_, atol=tol * np.abs(dense.components_).max()
    )
    np.testing.assert_allclose(model.eigenvalues_, dense.eigenvalues_, rtol=tol)
    np.testing.assert_array_equal(model.predict(held), dense.predict(X))
    np.testing.assert_allclose(model.predict_proba(held), dense.predict_proba(X), atol=1e-8)
    assert model.score(held, y) == dense.score(X, y)
    Z = model.transform(held)
    assert tuple(Z.shape) == (len(X), 2)


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_labelled_rows_too_many_to_take_are_masked_instead(container, ridge):
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((150, 6)), rng.integers(0, 3, 150)
    y[rng.random(150) < 0.3] = -1
    expected = LDA(ridge=ridge).fit(X[y >= 0], y[y >= 0])
    masked = LDA(ridge=ridge, max_gram_bytes=6 * 6 * 8).fit(container.make(X), y)
    assert distance(masked.components_.T, expected.components_.T) < 1e-10
    np.testing.assert_allclose(masked.mean_, expected.mean_, atol=1e-12)


@pytest.mark.parametrize("ridge", [1e-2, 1.0])
@pytest.mark.parametrize("shape", [(900, 300), (250, 600)])
@pytest.mark.parametrize("masked", [False, True])
def test_the_iterative_way_reaches_the_same_answer(shape, ridge, masked):
    rng = np.random.default_rng(3)
    X = sparse.random(*shape, density=0.05, format="csr", random_state=4)
    y = rng.integers(0, 4, shape[0])
    if masked:
        y[::5] = -1
    known = y >= 0
    W0, s0 = directions(X.toarray()[known], lda_targets(y[known]), ridge)
    model = LDA(ridge=ridge, max_gram_bytes=0, tol=1e-12).fit(X, y)
    assert model.n_iter_ > 1
    assert distance(model.components_.T, W0) < 1e-8
    np.testing.assert_allclose(model.eigenvalues_, s0, rtol=1e-8)


def test_the_iterative_way_finds_the_least_norm_solution_at_ridge_zero():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((40, 90)), rng.integers(0, 3, 40)
    W0, _ = directions(X, lda_targets(y), 0.0)
    model = LDA(max_gram_bytes=0, tol=1e-12).fit(sparse.csr_array(X), y)
    assert distance(model.components_.T, W0) < 1e-8


def test_stopping_short_is_said():
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((300, 200)), rng.integers(0, 3, 300)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations"):
        LDA(max_gram_bytes=0, max_iter=2).fit(sparse.csr_array(X), y)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_float32_stays_float32(make):
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)).astype(np.float32)
    held, model = make(X), LDA(ridge=1.0)
    Z = model.fit(held, y).transform(held)
    assert Z.dtype == np.float32
    np.testing.assert_allclose(
        model.components_, LDA(ridge=1.0).fit(X.astype(float), y).components_, rtol=1e-5, atol=1e-7
    )


def test_invariances():
    rng = np.random.default_rng(7)
    X, y = make_blobs(150, 6, centers=4, cluster_std=4.0, random_state=0)
    base = LDA().fit(X, y)
    order = rng.permutation(len(X))
    Q, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    p = base.predict_proba(X)
    variants = {
        "rows permuted": LDA().fit(X[order], y[order]).predict_proba(X),
        "columns shifted": LDA().fit(X + 100.0, y).predict_proba(X + 100.0),
        "columns rotated": LDA().fit(X @ Q, y).predict_proba(X @ Q),
        "columns scaled": LDA()
        .fit(X * [1e3, 1, 1, 1, 1e-3, 1], y)
        .predict_proba(X * [1e3, 1, 1, 1, 1e-3, 1]),
        "a column twice": LDA()
        .fit(X[:, [0, 1, 2, 3, 4, 5, 5]], y)
        .predict_proba(X[:, [0, 1, 2, 3, 4, 5, 5]]),
        "labels renamed": LDA().fit(X, np.array(["a", "b", "c", "d"])[y]).predict_proba(X),
    }
    for name, other in variants.items():
        np.testing.assert_allclose(other, p, atol=1e-9, err_msg=name)


def test_unlabelled_rows_change_nothing_but_are_predicted():
    X, y = load_iris(return_X_y=True)
    partly = y.astype(object)
    partly[::3] = None
    model, alone = (
        LDA().fit(X, partly),
        LDA().fit(X[[i for i in range(150) if i % 3]], y[np.arange(150) % 3 > 0]),
    )
    np.testing.assert_allclose(model.components_, alone.components_, atol=1e-12)
    assert model.predict(X).shape == (150,)
    assert model.score(X, partly) == alone.score(X[np.arange(150) % 3 > 0], y[np.arange(150) % 3 > 0])


def test_pandas_in_and_out():
    frame, y = load_iris(return_X_y=True, as_frame=True)
    names = y.map({0: "setosa", 1: "versicolor", 2: "virginica"}).astype("category")
    model = LDA().set_output(transform="pandas").fit(frame, names)
    Z = model.transform(frame)
    assert isinstance(Z, pd.DataFrame)
    assert list(Z.columns) == list(model.get_feature_names_out()) == ["lda0", "lda1"]
    assert list(model.feature_names_in_) == list(frame.columns)
    assert list(model.classes_) == ["setosa", "versicolor", "virginica"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame[frame.columns[::-1]])


def test_pipelines_grid_search_and_clone():
    X, y = load_wine(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), LDA())
    search = GridSearchCV(pipe, {"lda__ridge": [0.0, 1.0], "lda__n_components": [1, 2]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    again = clone(search.best_estimator_)
    assert again.get_params()["lda__ridge"] == search.best_params_["lda__ridge"]
    np.testing.assert_array_equal(again.fit(X, y).predict(X), search.best_estimator_.predict(X))


def test_fit_transform_is_fit_then_transform():
    X, y = load_wine(return_X_y=True)
    y[::2] = -1
    np.testing.assert_array_equal(LDA().fit_transform(X, y), LDA().fit(X, y).transform(X))


def test_more_components_than_there_are_is_said_and_capped():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match="n_components=5 is more than the 2 directions"):
        model = LDA(n_components=5).fit(X, y)
    assert model.components_.shape == (2, 4)


def test_directions_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="no direction tells the labelled rows apart"):
        LDA().fit(np.ones((6, 3)), [0, 0, 0, 1, 1, 1])


def test_priors():
    X, y = load_iris(return_X_y=True)
    priors = [0.8, 0.1, 0.1]
    ours = LDA(priors=priors).fit(X, y).predict_proba(X)
    # scikit-learn centres on the prior-weighted mean, which shifts scores but no probability.
    theirs = LinearDiscriminantAnalysis(priors=priors).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(ours, theirs, atol=1e-9)
    for bad in (
        [0.5, 0.5],
        [1.0, 0.5, -0.5],
        [0.2, 0.2, 0.2],
        [{}, {}, {}],
        ["a", "b", "c"],
        [0.5, np.nan, 0.5],
    ):
        with pytest.raises(ValueError, match="3 positive numbers that sum to 1"):
            LDA(priors=bad).fit(X, y)


@pytest.mark.parametrize("seed", [3, 8, 10])
def test_a_kernel_that_is_nearly_constant_gives_no_direction_of_round_off(seed):
    rng = np.random.default_rng(seed)
    some = rng.standard_normal((8, 28)) + 1000
    X = sparse.csr_array(some[rng.integers(8, size=17)])  # sparse, so that it is not centred
    y = rng.integers(2, size=17)
    y[rng.integers(17, size=5)] = -1
    order = rng.permutation(17)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the digits that are lost
        model = LDA(kernel="poly", degree=0.1).fit(X, y)
        other = LDA(kernel="poly", degree=0.1).fit(X[order], y[order])
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=1e-3)


def test_the_direct_solver_refuses_what_would_not_fit():
    X, y = np.ones((4, 300)), [0, 0, 1, 1]
    with pytest.raises(ValueError, match=r"needs a 300 x 300 matrix.*use solver='two-stage'"):
        LDA(solver="direct", max_gram_bytes=1000).fit(X, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([-1] * 6, "no labelled row"),
        ([-1, -1, 2, 2, 2, -1], "class"),
        ([0, 1, 0], "3"),
        ([0.5, 1.2, 0.1, 2.2, 3.1, 0.7], "Unknown label type: continuous"),
        (np.eye(6)[:, :3], "multi"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(y, message):
    X = np.arange(12.0).reshape(6, 2)
    with pytest.raises(ValueError, match=message) as caught:
        LDA().fit(X, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, pd.DataFrame])
def test_values_that_are_not_finite_are_named(value, make):
    X = np.arange(12.0).reshape(6, 2) + 1
    X[4, 1] = value
    with pytest.raises(ValueError, match="at row 4, column 1"):
        LDA().fit(make(X), [0, 1, 0, 1, 0, 1])
    model = LDA(ridge=1.0).fit(np.random.default_rng(0).standard_normal((6, 2)), [0, 1, 0, 1, 0, 1])
    with pytest.raises(ValueError, match="at row 4, column 1"):
        model.transform(make(X))


def test_not_fitted_and_wrong_width():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(NotFittedError):
        LDA().transform(X)
    with pytest.raises(ValueError, match="4 features"):
        LDA().fit(X, y).predict(X[:, :3])


def test_the_users_arrays_are_left_alone():
    X, y = load_iris(return_X_y=True)
    for array in (X, y):
        array.flags.writeable = False
    LDA(ridge=1.0).fit(X, y).predict(X)
    S = sparse.csr_matrix(X)
    for array in (S.data, S.indices, S.indptr):
        array.flags.writeable = False
    LDA(ridge=1.0).fit(S, y).predict(S)


def test_a_wide_sparse_matrix_is_never_densified():
    import tracemalloc

    rng = np.random.default_rng(8)
    X = sparse.random(600, 50_000, density=0.0005, format="csr", random_state=9)
    y = rng.integers(0, 5, 600)
    tracemalloc.start()
    LDA(ridge=1.0, max_gram_bytes=0, tol=1e-4).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 600 * 50_000 * 8 / 4


@pytest.mark.parametrize("ridge", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_a_sparse_matrix_with_a_large_mean_keeps_its_digits(offset, ridge):
    X, y = load_breast_cancer(return_X_y=True)
    X = X + offset
    dense, held = LDA(ridge=ridge).fit(X, y), LDA(ridge=ridge).fit(sparse.csr_array(X), y)
    assert distance(held.components_.T, dense.components_.T) < 1e-8


@pytest.mark.parametrize("ridge", [0.0, 1.0, 1e3])
def test_a_wide_sparse_matrix_with_columns_of_many_scales_keeps_its_digits(ridge):
    X = np.random.default_rng(0).normal(size=(60, 100)) * np.logspace(-6, 6, 100)
    y = np.arange(60) % 3
    dense, held = LDA(ridge=ridge).fit(X, y), LDA(ridge=ridge).fit(sparse.csr_array(X), y)
    assert distance(held.components_.T, dense.components_.T) < 1e-8


@pytest.mark.parametrize("solver", ["two-stage", "direct"])
def test_the_scale_of_a_column_changes_nothing_but_its_coefficients(solver):
    X, y = load_wine(return_X_y=True)
    scales = 10.0 ** np.arange(-6, 7)
    plain, scaled = LDA(solver=solver).fit(X, y), LDA(solver=solver).fit(X * scales, y)
    np.testing.assert_allclose(np.abs(scaled.components_ * scales), np.abs(plain.components_), rtol=1e-6)


@pytest.mark.parametrize("solver", ["two-stage", "direct"])
def test_many_eigenvalues_that_are_almost_equal(solver):
    X, y = np.random.default_rng(0).standard_normal((300, 1500)), np.arange(300) % 60
    model = LDA(ridge=3e-5, solver=solver).fit(X, y)
    W0, _ = directions(X, lda_targets(y), 3e-5)
    assert distance(model.components_.T, W0) < 1e-10


@pytest.mark.filterwarnings("ignore:.*encountered in matmul:RuntimeWarning")
def test_values_whose_squares_overflow_are_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="squares overflow; divide X"):
        LDA().fit(X * 1e155, y)


def test_what_cannot_be_scored_is_refused():
    X, y = load_iris(return_X_y=True)
    model = LDA().fit(X, y)
    with pytest.raises(ValueError, match="y has 3 rows and X has 150"):
        model.score(X, [0, 1, 2])
    with pytest.raises(ValueError, match="nothing to score"):
        model.score(X, [-1] * 150)


@pytest.mark.parametrize("seed", range(4))
def test_classes_of_an_indefinite_kernel_are_where_their_means_are(seed):
    """Its centred matrix has tiny eigenvalues, whose eigenvectors are not quite orthogonal to the constant one."""
    rng = np.random.default_rng(seed)
    X, y = np.where(rng.random((26, 4)) < 0.5, rng.standard_normal((26, 4)), 0.0), np.arange(26) % 3
    model = LDA(kernel="sigmoid", gamma=0.044).fit(X, y)
    Z = model.transform(X)
    means = np.array([Z[y == c].mean(axis=0) for c in range(3)])
    np.testing.assert_allclose(means, model.means_, atol=1e-3)
