"""CCA, OPLS and HSL: against the dense problem, each other, scikit-learn, and themselves in another form."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.cross_decomposition import CCA as SklearnCCA
from sklearn.datasets import load_iris, load_linnerud, load_wine, make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold, check_cv
from sklearn.preprocessing import StandardScaler

from labelfold import CCA, HSL, LDA, OPLS, load, save
from labelfold.numerics._gram import Gram
from reference.two_stage import (
    cca_targets,
    directions,
    distance,
    generalised,
    hypergraph_similarity,
    opls_targets,
)

EXPANSIONS = ["zhou", "clique", "star"]
MAKERS = {
    "CCA": CCA,
    "OPLS": OPLS,
    **{f"HSL {e}": lambda e=e, **options: HSL(expansion=e, **options) for e in EXPANSIONS},
}


def label_data(n=120, d=15, c=4, seed=0):
    X, Y = make_multilabel_classification(n, d, n_classes=c, allow_unlabeled=True, random_state=seed)
    rng = np.random.default_rng(seed)
    return X + 0.1 * rng.standard_normal(X.shape), Y.astype(float)


def similarity(name, Y):
    if name == "CCA":
        T = cca_targets(Y)
        return T @ T.T
    if name == "OPLS":
        T = opls_targets(Y)
        return T @ T.T
    return hypergraph_similarity(Y, name.split()[1])


@pytest.mark.parametrize("solver", ["two-stage", "direct"])
@pytest.mark.parametrize("ridge", [0.0, 1e-6, 1.0, 1e4])
@pytest.mark.parametrize("name", MAKERS)
def test_equals_the_generalised_eigenproblem(name, ridge, solver):
    X, Y = label_data()
    assert (Y.sum(axis=1) == 0).any()  # rows without a label take part
    model = MAKERS[name](ridge=ridge, solver=solver).fit(X, Y)
    W0, s0 = generalised(X, similarity(name, Y), ridge)
    assert distance(model.components_.T, W0) < 1e-8
    np.testing.assert_allclose(model.eigenvalues_, s0, rtol=1e-8)


@pytest.mark.parametrize("shape", ["wide", "rank-deficient", "duplicated"])
@pytest.mark.parametrize("ridge", [0.0, 1e-6, 1.0])
@pytest.mark.parametrize("name", ["CCA", "OPLS"])
def test_equals_the_dense_solution_where_x_is_singular(name, ridge, shape):
    rng = np.random.default_rng(1)
    X = {
        "wide": rng.standard_normal((40, 120)),
        "rank-deficient": 50 * rng.standard_normal((100, 6)) @ rng.standard_normal((6, 30)),
        "duplicated": rng.standard_normal((100, 12))[:, [*range(12), 0, 1, 2]],
    }[shape]
    Y = (rng.random((len(X), 3)) < 0.4).astype(float)
    T = cca_targets(Y) if name == "CCA" else opls_targets(Y)
    W0, s0 = directions(X, T, ridge)
    model = MAKERS[name](ridge=ridge).fit(X, Y)
    assert distance(model.components_.T, W0) < 1e-8
    np.testing.assert_allclose(model.eigenvalues_, s0, rtol=1e-8)


@pytest.mark.parametrize("ridge", [0.0, 2.0])
def test_with_classes_cca_and_zhous_hsl_are_lda(ridge):
    X, y = load_wine(return_X_y=True)
    W = LDA(ridge=ridge).fit(X, y).components_.T
    assert distance(CCA(ridge=ridge).fit(X, y).components_.T, W) < 1e-9
    assert distance(HSL(ridge=ridge).fit(X, y).components_.T, W) < 1e-9


def test_an_orthonormal_y_makes_cca_and_opls_one():
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((60, 8)), rng.standard_normal((60, 3))
    Q, _ = np.linalg.qr(Y - Y.mean(axis=0))
    assert distance(CCA().fit(X, Q).components_.T, OPLS().fit(X, Q).components_.T) < 1e-10


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_the_same_answer_in_every_container(container, name, ridge):
    X, Y = label_data(80, 10, 3, seed=3)
    Y[::5] = np.nan
    held = container.make(X)
    model, dense = MAKERS[name](ridge=ridge).fit(held, Y), MAKERS[name](ridge=ridge).fit(X, Y)
    np.testing.assert_allclose(
        model.components_, dense.components_, atol=1e-9 * np.abs(dense.components_).max()
    )
    np.testing.assert_array_equal(model.predict(held), dense.predict(X))


def test_cca_finds_scikit_learns_correlations_and_pairs_of_scores():
    X, Y = load_linnerud(return_X_y=True)
    ours = CCA(task="regression").fit(X, Y)
    theirs = SklearnCCA(n_components=3, max_iter=50_000, tol=1e-12).fit(X, Y)
    a, b = theirs.transform(X, Y)
    expected = [np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(3)]
    np.testing.assert_allclose(ours.correlations_, expected, rtol=1e-5)
    x_scores, y_scores = ours.transform(X, Y)
    np.testing.assert_allclose(x_scores.T @ y_scores, np.diag(ours.correlations_), atol=1e-10)
    np.testing.assert_allclose(y_scores.T @ y_scores, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(x_scores.T @ x_scores, np.eye(3), atol=1e-10)
    np.testing.assert_array_equal(ours.transform(X), x_scores)


def test_cca_scores_of_classes_and_unlabelled_rows():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"], dtype=object)[y]
    model = CCA().fit(X, names)
    partly = names.copy()
    partly[3] = None
    _, scores = model.transform(X, partly)
    assert np.isnan(scores[3]).all()
    assert not np.isnan(np.delete(scores, 3, axis=0)).any()
    with pytest.raises(ValueError, match="which fit has not seen"):
        model.transform(X[:2], ["a", "z"])


@pytest.mark.parametrize("maker", [OPLS, CCA])
def test_all_directions_predict_what_least_squares_predicts(maker):
    X, Y = load_linnerud(return_X_y=True)
    expected = LinearRegression().fit(X, Y).predict(X)
    np.testing.assert_allclose(maker(task="regression").fit(X, Y).predict(X), expected, rtol=1e-9)
    column = maker().fit(X, Y[:, 0] + 0.5)
    assert column.task_ == "regression"
    assert column.predict(X).shape == (20,)
    assert column.score(X, Y[:, 0] + 0.5) == pytest.approx(
        LinearRegression().fit(X, Y[:, 0]).score(X, Y[:, 0])
    )
    with pytest.raises(AttributeError):
        column.decision_function(X)


def test_predictions_of_classes_and_labels():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    for maker in (CCA, OPLS, HSL):
        model = maker().fit(X, y)
        np.testing.assert_array_equal(
            model.predict(X), model.classes_[model.decision_function(X).argmax(axis=1)]
        )
        # The regression of one-hot columns on all directions is the regression on X.
        expected = LinearRegression().fit(X, np.eye(3)[y]).predict(X).argmax(axis=1)
        np.testing.assert_array_equal(model.predict(X), expected)
    X, Y = label_data()
    model = HSL().fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) >= 0).astype(int))
    binary = OPLS().fit(X, Y[:, 0].astype(int))
    np.testing.assert_array_equal(binary.predict(X), (binary.decision_function(X) > 0).astype(int))


KERNELS = [LDA, CCA, OPLS, HSL]


def centred_gram(K):
    H = np.eye(len(K)) - 1 / len(K)
    return H @ K @ H


@pytest.mark.parametrize("solver", ["two-stage", "direct"])
@pytest.mark.parametrize("ridge", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("maker", KERNELS)
def test_the_linear_kernel_is_the_linear_method(maker, ridge, solver):
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((40, 7)) + 2, rng.integers(0, 3, 40)
    new = rng.standard_normal((9, 7))
    linear = maker(ridge=ridge).fit(X, y)
    kernel = maker(ridge=ridge, kernel="linear", solver=solver).fit(X, y)
    P, Q = linear.transform(new), kernel.transform(new)
    np.testing.assert_allclose(Q @ Q.T, P @ P.T, rtol=1e-6, atol=1e-8 * np.abs(P @ P.T).max())
    np.testing.assert_allclose(kernel.eigenvalues_, linear.eigenvalues_, rtol=1e-7)
    np.testing.assert_array_equal(kernel.predict(new), linear.predict(new))


@pytest.mark.parametrize("maker", KERNELS)
def test_the_kernel_form_solves_the_kernel_problem(maker):
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((30, 4)), rng.integers(0, 3, 30)
    ridge, gamma = 0.1, 0.3
    model = maker(ridge=ridge, kernel="rbf", gamma=gamma).fit(X, y)
    K = centred_gram(rbf_kernel(X, gamma=gamma))
    A = model.components_.T
    # W = Phi_c'A: whitened in the kernel's space, and its scores are Kc A.
    np.testing.assert_allclose(A.T @ (K @ K + ridge * K) @ A, np.eye(2), atol=1e-8)
    np.testing.assert_allclose(model.transform(X), K @ A, atol=1e-10)


@pytest.mark.parametrize("maker", KERNELS)
@pytest.mark.parametrize(
    "kernel", [{"kernel": "rbf", "gamma": 0.2}, {"kernel": "poly", "degree": 2, "coef0": 1.0}]
)
def test_nystroem_with_all_rows_is_the_exact_form(maker, kernel, container):
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((36, 5)), rng.integers(0, 3, 36)
    exact = maker(ridge=0.5, **kernel).fit(X, y)
    nystroem = maker(ridge=0.5, n_landmarks=36, **kernel).fit(container.make(X), y)
    new = rng.standard_normal((8, 5))
    P, Q = exact.transform(new), nystroem.transform(new)
    np.testing.assert_allclose(Q @ Q.T, P @ P.T, rtol=1e-5, atol=1e-7 * np.abs(P @ P.T).max())


def test_kernels_separate_what_lines_cannot():
    rng = np.random.default_rng(7)
    angle, radius = rng.uniform(0, 2 * np.pi, 400), np.repeat([1.0, 2.0], 200)
    X = np.c_[radius * np.cos(angle), radius * np.sin(angle)] + 0.1 * rng.standard_normal((400, 2))
    y = np.repeat([0, 1], 200)
    assert LDA(ridge=1.0).fit(X, y).score(X, y) < 0.7
    for options in ({}, {"n_landmarks": 40}):
        assert (
            LDA(ridge=1.0, kernel="rbf", gamma=1.0, **options).fit(X[::2], y[::2]).score(X[1::2], y[1::2])
            > 0.95
        )


@pytest.mark.parametrize("maker", [LDA, CCA, OPLS, HSL])
def test_gamma_and_landmarks_come_from_the_labelled_rows(maker, monkeypatch):
    X, y = load_iris(return_X_y=True)
    y[::3] = -1
    squares = ((X[y >= 0][:, None] - X[y >= 0]) ** 2).sum(axis=2)
    gamma = 1 / (2 * squares.mean())
    exact = maker(kernel="rbf", ridge=1.0).fit(X, y)
    assert exact.gamma_ == pytest.approx(gamma)
    given = maker(kernel="rbf", gamma=gamma, ridge=1.0, n_landmarks=None).fit(X, y)
    np.testing.assert_allclose(exact.components_, given.components_, rtol=1e-7, atol=1e-9)
    # too little memory for the kernel of 100 rows: Nystroem features of some
    monkeypatch.setattr("labelfold.features._kernel_map._LANDMARKS", 15)
    few = maker(kernel="rbf", ridge=1.0, max_gram_bytes=8 * 99**2).fit(X, y)
    np.testing.assert_array_equal(
        few.components_, maker(kernel="rbf", ridge=1.0, n_landmarks=15).fit(X, y).components_
    )


@pytest.mark.parametrize("maker", [CCA, OPLS, HSL])
def test_they_are_classifiers_unless_numbers_are_asked_for(maker):
    assert is_classifier(maker())
    # Folds of a search are made class by class: plain ones of sorted classes would lack one.
    X, y = load_iris(return_X_y=True)
    assert isinstance(check_cv(3, y, classifier=is_classifier(maker())), StratifiedKFold)
    search = GridSearchCV(maker(), {"ridge": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.7
    if maker is not HSL:
        assert is_regressor(maker(task="regression"))
        assert not is_classifier(maker(task="regression"))


def test_one_labelled_row_is_refused():
    with pytest.raises(ValueError, match="y has one sample with a label"):
        OPLS(task="regression").fit(np.eye(3), [1.5, np.nan, np.nan])


def test_a_callable_kernel():
    X, y = load_iris(return_X_y=True)
    by_name = LDA(ridge=1.0, kernel="linear").fit(X[::5], y[::5])
    by_call = LDA(ridge=1.0, kernel=np.dot).fit(X[::5], y[::5])
    poly, polynomial = (
        LDA(ridge=1.0, kernel=k, degree=2, coef0=1.0).fit(X, y) for k in ("poly", "polynomial")
    )
    np.testing.assert_array_equal(poly.components_, polynomial.components_)
    np.testing.assert_allclose(by_call.transform(X), by_name.transform(X), atol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "rbf", "degree": 2}, "degree=2 belongs to another kernel"),
        ({"kernel": "linear", "gamma": 0.1}, "gamma=0.1 belongs to another kernel"),
        ({"kernel": np.dot, "gamma": 0.1}, "a kernel given as a function"),
        ({"gamma": 0.1}, "without a kernel"),
        ({"n_landmarks": 5}, "without a kernel"),
        ({"kernel": "rfb"}, "kernel='rfb' is not known"),
        ({"kernel": "rbf", "n_landmarks": None, "max_gram_bytes": 100}, "leave n_landmarks at"),
        ({"ridge": -1.0}, "ridge"),
        ({"ridge": [1.0, -1.0]}, "at least 0"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(options, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        LDA(**options).fit(X, y)


def streams():
    X, y = load_wine(return_X_y=True)
    yield "LDA", LDA, X, y
    yield "LDA ridge", lambda **o: LDA(ridge=5.0, **o), X, np.array(["a", "b", "c"], dtype=object)[y]
    X, Y = label_data(150, 12, 5, seed=8)
    for name in MAKERS:
        yield name, MAKERS[name], X, Y
    rng = np.random.default_rng(9)
    yield (
        "CCA regression",
        lambda **o: CCA(task="regression", **o),
        X,
        X[:, :3] + rng.standard_normal((150, 3)),
    )
    yield "OPLS regression", lambda **o: OPLS(ridge=1.0, **o), X, rng.standard_normal(150)
    X, y = rng.standard_normal((200, 6)) + 1e5, rng.integers(0, 3, 200)
    yield "a mean of 1e5", LDA, X, y
    X = np.repeat(rng.standard_normal((60, 5)), 2, axis=1)
    yield "rank-deficient", LDA, X, rng.integers(0, 3, 60)


STREAMS = list(streams())


@pytest.mark.parametrize("solver", ["two-stage", "direct"])
@pytest.mark.parametrize("sizes", [[1000], [7] * 40, [1, 100, 2, 1, 50, 400]])
@pytest.mark.parametrize(("name", "maker", "X", "y"), STREAMS, ids=[s[0] for s in STREAMS])
def test_batches_in_any_order_and_size_give_what_fit_gives(name, maker, X, y, sizes, solver):
    rng = np.random.default_rng(10)
    order = rng.permutation(len(X))
    model, start = maker(solver=solver), 0
    for size in sizes:
        batch = order[start : start + size]
        if len(batch):
            model.partial_fit(X[batch], y[batch])
        start += size
    whole = maker().fit(X, y)
    assert distance(model.components_.T, whole.components_.T) < 1e-8
    np.testing.assert_allclose(model.eigenvalues_, whole.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(model.mean_, whole.mean_, rtol=1e-12, atol=1e-12)
    ours, expected = model.predict(X), whole.predict(X)
    if getattr(whole, "task_", None) == "regression":
        np.testing.assert_allclose(ours, expected, rtol=1e-6)
    else:
        np.testing.assert_array_equal(ours, expected)


def test_batches_leave_out_unlabelled_rows_and_take_any_container(container):
    X, y = load_iris(return_X_y=True)
    y[::3] = -1
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], y[order]
    model = LDA()
    for a in range(0, 150, 50):
        model.partial_fit(container.make(X[a : a + 50]), y[a : a + 50])
    assert distance(model.components_.T, LDA().fit(X, y).components_.T) < 1e-8


def test_classes_that_come_late():
    X, y = load_iris(return_X_y=True)  # sorted by class: every batch brings a new one
    model = LDA()
    for c in range(3):
        model.partial_fit(X[y == c], y[y == c])
        assert hasattr(model, "components_") == (c > 0)
    assert distance(model.components_.T, LDA().fit(X, y).components_.T) < 1e-8
    named = LDA().partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    assert list(named.classes_) == [0, 1, 2]
    assert set(named.predict(X)) <= {0, 1}
    np.testing.assert_array_equal(named.partial_fit(X[100:], y[100:]).predict(X), LDA().fit(X, y).predict(X))
    with pytest.raises(ValueError, match=r"the class 2, which is not among classes=\[0, 1\]"):
        LDA().partial_fit(X[:100], y[:100], classes=[0, 1]).partial_fit(X[100:], y[100:])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LDA(kernel="rbf"), "LDA.partial_fit cannot work with kernel='rbf', which .* call fit on all rows"),
        (OPLS(kernel="rbf", n_landmarks=5), "OPLS.partial_fit cannot work with kernel='rbf'"),
        (CCA(ridge="cv"), "CCA.partial_fit cannot work with ridge='cv', which .* give one number"),
        (HSL(ridge=[1.0, 2.0]), r"HSL.partial_fit cannot work with ridge=\[1.0, 2.0\]"),
        (LDA(max_gram_bytes=10), "call fit with a list of blocks"),
    ],
    ids=str,
)
def test_batches_that_cannot_work_are_refused(model, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises((ValueError, AttributeError), match=message):
        model.partial_fit(X, y)
    assert hasattr(model, "partial_fit") == (model.max_gram_bytes == 10)  # what scikit-learn asks


@pytest.mark.parametrize("maker", [LDA, HSL])
def test_a_continuous_y_is_sent_to_methods_that_take_it(maker):
    X, _ = load_linnerud(return_X_y=True)
    for y in (X + 0.5, X[:, 0] + 0.5, pd.DataFrame(X + 0.5)):
        for fit in (maker().fit, maker().partial_fit, maker(solver="direct").fit):
            with pytest.raises(ValueError, match=r"y holds fractions.* such as CCA or OPLS"):
                fit(X, y)
        assert CCA().fit(X, y).task_ == OPLS().fit(X, y).task_ == "regression"


def test_batches_of_the_wrong_kind_or_width_are_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="4 features"):
        LDA().partial_fit(X, y).partial_fit(X[:, :2], y)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        LDA().partial_fit(X, y + 0.5)
    with pytest.raises(ValueError, match="y has 3 rows and X has 150"):
        LDA().partial_fit(X, [0, 1, 2])
    with pytest.raises(ValueError, match="targets, where earlier ones had"):
        OPLS().partial_fit(X, y).partial_fit(X, np.eye(3)[y])
    for columns in (np.eye(3)[y], X):
        with pytest.raises(ValueError, match="y has 2 columns, where the"):
            CCA().partial_fit(X, columns).partial_fit(X, columns[:, :2])


def test_batches_that_say_nothing_yet():
    X, y = load_iris(return_X_y=True)
    unlabelled = LDA().partial_fit(X[:10], np.full(10, -1))
    one_class = LDA().fit(X[::2], y[::2]).partial_fit(X[:10], y[:10])  # an earlier fit is forgotten
    for model in (unlabelled, one_class):
        with pytest.raises(NotFittedError):
            model.predict(X)
    np.testing.assert_allclose(
        unlabelled.partial_fit(X, y).components_, LDA().fit(X, y).components_, atol=1e-10
    )
    np.testing.assert_allclose(
        one_class.partial_fit(X[10:], y[10:]).components_, LDA().fit(X, y).components_, atol=1e-10
    )


@pytest.mark.parametrize("maker", [LDA, HSL])
def test_a_batch_of_whole_numbers_is_not_sent_to_a_task_there_is_not(maker):
    Y = np.array([[0, 3], [1, 0], [2, 1]])
    with pytest.raises(ValueError, match="has the value 3 in row 0, column 1") as told:
        maker().partial_fit(np.eye(3), Y)
    assert "task" not in str(told.value)


@pytest.mark.parametrize("maker", [LDA, CCA, OPLS, HSL])
def test_a_path_of_ridges_is_a_fit_for_each(maker):
    X, y = load_wine(return_X_y=True)
    ridges = [0.0, 10.0, 1e-3, 1e5]
    for ridge, model in zip(ridges, maker().path(X, y, ridges), strict=True):
        alone = maker(ridge=ridge).fit(X, y)
        assert model.ridge == model.ridge_ == ridge
        np.testing.assert_allclose(
            model.components_, alone.components_, atol=1e-10 * np.abs(alone.components_).max()
        )
        np.testing.assert_array_equal(model.predict(X), alone.predict(X))


def test_a_path_reads_the_data_once():
    from labelfold import as_rows

    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    one, many = as_rows(X), as_rows(X)
    LDA(ridge=1.0).fit(one, y)
    LDA().path(many, y, [1.0, 10.0, 100.0, 1000.0])
    assert many.n_passes == one.n_passes


@pytest.mark.parametrize("maker", [CCA, OPLS, HSL])
def test_a_path_reads_the_data_once_more_for_all_its_predictions(maker):
    from labelfold import as_rows

    X, Y = label_data()
    one, many = as_rows(X), as_rows(X)
    maker(ridge=1.0).fit(one, Y)
    models = maker(n_components=2).path(many, Y, [1.0, 10.0, 100.0, 1000.0])
    assert many.n_passes == one.n_passes
    for model in models:
        alone = maker(n_components=2, ridge=model.ridge).fit(X, Y)
        np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-9 * np.abs(alone.coef_).max())


NINE = [0.0, *np.logspace(4, -1, 8)]


def long_paths():
    rng = np.random.default_rng(14)
    y = rng.integers(0, 4, 300)
    means = rng.standard_normal((4, 420))[y]
    wide, tall = rng.standard_normal((300, 420)) + means, rng.standard_normal((300, 210)) + means[:, :210]
    yield "tall", tall, y, {}, 1e-8
    yield "square", wide[:, :300], y, {}, 1e-8
    yield "wide", wide, y, {}, 1e-8
    yield "wide, sparse", sparse.csr_array(np.where(wide > 1, wide, 0)), y, {}, 1e-8
    yield "a large mean", tall + 1e5, y, {}, 1e-6
    yield "rank-deficient", 0.1 * tall[:, :60] @ rng.standard_normal((60, 210)), y, {}, 1e-8
    yield "float32", tall.astype(np.float32), y, {}, 1e-6
    yield "kernel", tall[:, :5], y, {"kernel": "rbf", "gamma": 0.5}, 1e-8
    yield "landmarks", tall[:, :5], y, {"kernel": "rbf", "gamma": 0.5, "n_landmarks": 250}, 1e-7


LONG_PATHS = list(long_paths())


@pytest.mark.parametrize(
    ("name", "X", "y", "options", "tol"),
    [pytest.param(*case, marks=[pytest.mark.slow] * (case[0] == "landmarks")) for case in LONG_PATHS],
    ids=[name for name, *_ in LONG_PATHS],
)
def test_a_long_path_is_a_fit_for_each_and_shares_its_factorisation(name, X, y, options, tol, monkeypatch):
    trusted, factors = Gram.trusted, []
    monkeypatch.setattr(Gram, "trusted", lambda self, ridge: factors.append(ridge) or trusted(self, ridge))
    models = LDA(**options).path(X, y, NINE)
    # At ridge 0 the condition may be too bad for a band matrix; nothing else has a factor of its own.
    assert set(factors) <= {0.0}
    for model in models:
        alone = LDA(ridge=model.ridge, **options).fit(X, y)
        P, Q = model.components_, alone.components_
        assert distance(P.T, Q.T) < tol
        np.testing.assert_allclose(model.eigenvalues_, alone.eigenvalues_, rtol=tol)


def test_folds_share_their_factorisations(monkeypatch):
    from labelfold.numerics import _gram as gram

    reductions, factors = [], []
    reduce, trusted = gram.Tridiagonal, Gram.trusted
    monkeypatch.setattr(gram, "Tridiagonal", lambda *args: reductions.append(args) or reduce(*args))
    monkeypatch.setattr(Gram, "trusted", lambda self, ridge: factors.append(ridge) or trusted(self, ridge))
    _, X, y, *_ = LONG_PATHS[1]
    model = LDA(ridge="cv").fit(X, y)
    assert len(model.ridges_) == 9
    assert (len(reductions), factors) == (5, [model.ridge_])  # one a fold, and the fit at the end


@pytest.mark.parametrize("maker", [LDA, CCA, OPLS, HSL])
@pytest.mark.parametrize("ridge", ["cv", [1e-2, 1.0, 1e6]])
def test_a_ridge_chosen_by_cross_validation(maker, ridge):
    rng = np.random.default_rng(11)
    X = rng.standard_normal((60, 80))
    y = rng.integers(0, 3, 60)
    X[np.arange(60), y] += 3.0
    model = maker(ridge=ridge).fit(X, y)
    best = model.ridge_scores_.mean(axis=0)
    assert model.ridge_ in model.ridges_
    assert best[list(model.ridges_).index(model.ridge_)] == pytest.approx(best.max())
    np.testing.assert_allclose(model.components_, maker(ridge=model.ridge_).fit(X, y).components_, atol=1e-10)


def test_a_ridge_chosen_for_kernels_labels_and_numbers():
    X, Y = label_data(80, 10, 3)
    assert LDA(ridge="cv", kernel="rbf").fit(X, Y[:, 0].astype(int)).ridge_ > 0
    assert HSL(ridge="cv").fit(X, Y).ridge_ > 0
    assert OPLS(ridge="cv", task="regression").fit(X, X[:, 0] + 0.5).ridge_ > 0


def test_label_columns_from_a_table_and_sparse_labels():
    X, Y = label_data(60, 8, 3)
    frame = pd.DataFrame(Y, columns=["red", "green", "blue"])
    model = HSL().fit(X, frame)
    assert list(model.classes_) == ["red", "green", "blue"]
    np.testing.assert_allclose(model.components_, HSL().fit(X, sparse.csr_matrix(Y)).components_)


def test_bad_label_columns():
    X, Y = label_data(60, 8, 3)
    empty = Y.copy()
    empty[:, 1] = 0
    with pytest.warns(UserWarning, match="No labelled row of Y is positive in label columns 1"):
        model = CCA().fit(X, empty)
    assert np.isfinite(model.components_).all()
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        HSL().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="multilabel"):
        LDA().fit(X, Y)
    for name, maker in MAKERS.items():
        for fit in (maker().fit, maker(solver="direct").fit, maker(kernel="rbf").fit):
            with pytest.raises(ValueError, match="no direction"):
                fit(X, np.ones((60, 2)))
        assert not hasattr(maker().partial_fit(X, np.ones((60, 2))), "components_"), name
    with pytest.warns(UserWarning, match="n_components=9 is more than"):
        assert HSL(n_components=9).fit(X, Y).components_.shape[0] == 3


@pytest.mark.parametrize("maker", [CCA, OPLS, HSL])
def test_invariances(maker):
    rng = np.random.default_rng(12)
    X, Y = label_data(80, 6, 3, seed=13)
    base = maker().fit(X, Y)
    order, swap = rng.permutation(80), [2, 0, 1]
    Q, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    Z = base.transform(X)
    P = Z @ Z.T
    for name, other in {
        "rows permuted": maker().fit(X[order], Y[order]).transform(X),
        "labels permuted": maker().fit(X, Y[:, swap]).transform(X),
        "columns shifted": maker().fit(X + 50, Y).transform(X + 50),
        "columns rotated": maker().fit(X @ Q, Y).transform(X @ Q),
    }.items():
        np.testing.assert_allclose(other @ other.T, P, atol=1e-9, err_msg=name)


def test_float32_stays_float32():
    X, Y = label_data()
    for make in (np.asarray, sparse.csr_array):
        held = make(X.astype(np.float32))
        model = CCA(ridge=1.0).fit(held, Y)
        assert model.transform(held).dtype == np.float32


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "model",
    [LDA(kernel="rbf", ridge=1.0), CCA(kernel="poly", n_landmarks=20, ridge=1.0), HSL(), OPLS(ridge="cv")],
    ids=str,
)
def test_saved_models_of_every_form_come_back(model, make, tmp_path):
    X, y = load_iris(return_X_y=True)
    X = make(X)
    fitted = clone(model).fit(X, y)
    back = load(save(fitted, tmp_path / "model"))
    np.testing.assert_allclose(back.transform(X), fitted.transform(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(back.predict(X), fitted.predict(X))


def test_a_saved_model_goes_on_learning(tmp_path):
    X, Y = label_data(90, 6, 3)
    for maker, y in ((LDA, (Y[:, 0] + 2 * Y[:, 1]).astype(int)), (HSL, Y)):
        half = maker().partial_fit(X[:50], y[:50])
        back = load(save(half, tmp_path / "half")).partial_fit(X[50:], y[50:])
        assert distance(back.components_.T, maker().fit(X, y).components_.T) < 1e-8


@pytest.mark.parametrize("maker", [LDA, CCA, OPLS, HSL])
@pytest.mark.parametrize("counts", [(1, 15, 14), (1, 1, 6), (1, 1, 1), (1, 1), (1, 2)])
def test_a_class_of_one_row_is_never_held_out(maker, counts):
    rng = np.random.default_rng(len(counts))
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(y), 4)) + y[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = maker(ridge="cv").fit(X, y)
        given = maker(ridge=[1e-3, 1.0, 1e3]).fit(X, y)
    assert set(model.classes_) == set(y)
    if max(counts) == 1:
        assert model.ridge_scores_.shape == (0, len(model.ridges_))
        assert model.ridge_ == pytest.approx(((X - X.mean(axis=0)) ** 2).sum() / len(X))
        assert given.ridge_ == 1.0
    else:
        assert len(model.ridge_scores_) >= 2


@pytest.mark.parametrize("maker", [CCA, OPLS, HSL])
def test_a_label_of_one_row_is_never_held_out(maker, rng):
    Y = np.zeros((30, 3))
    Y[:10, 0] = Y[5:20, 1] = Y[0, 2] = 1
    model = maker(ridge="cv").fit(rng.normal(size=(30, 4)), Y)
    assert len(model.ridge_scores_) == 5


@pytest.mark.parametrize("maker", [CCA, OPLS])
def test_two_numbers_are_too_few_to_choose_a_ridge_by(maker, rng):
    model = maker(ridge="cv").fit(rng.normal(size=(2, 4)), [0.5, 1.5])
    assert model.ridge_scores_.shape == (0, len(model.ridges_))


def test_choosing_a_ridge_on_a_table_warns_of_nothing(rng):
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"])
    y = np.arange(40) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LDA(ridge="cv").fit(frame, y).predict(frame)


def test_a_ridge_is_chosen_for_classes_of_any_type(rng):
    X = rng.normal(size=(30, 3))
    for names in ([10**30, 10**31], [b"a", b"b"], [Decimal(1), Decimal(2)]):
        y = np.array(names, dtype=object)[(X[:, 0] > 0).astype(int)]
        assert LDA(ridge="cv").fit(X, y).score(X, y) > 0.8
