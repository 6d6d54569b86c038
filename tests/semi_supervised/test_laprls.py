"""LapRLS: its equations, what it becomes in simple cases, what leaves it alone, and what it refuses."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics import f1_score
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV

from labelfold import LapRLS
from labelfold.semi_supervised._laprls import objective, solve_kernel, solve_spectrum
from reference.laprls import kernel_laprls, knn_weights, laplacian, laprls, rbf_weights

# What an answer may be off by: solves to 1e-8 of the right-hand side, times the condition these problems have.
CLOSE = {"rtol": 1e-6, "atol": 1e-7}


def problem(rng, n=70, d=6, n_labelled=25, task="binary"):
    """Return X, y with gaps, the labelled rows and their targets."""
    X = rng.standard_normal((n, d)) * np.geomspace(1, 3, d) + 1.0
    scores = X @ rng.standard_normal((d, 3))
    index = np.sort(rng.permutation(n)[:n_labelled])
    hidden = np.setdiff1d(np.arange(n), index)
    if task == "binary":
        y = (scores[:, 0] > np.median(scores[:, 0])).astype(int)
        Y = 2.0 * y[index, None] - 1
        y[hidden] = -1
    elif task == "multiclass":
        y = scores.argmax(axis=1)
        Y = np.eye(3)[y[index]]
        y[hidden] = -1
    elif task == "multilabel":
        y = (scores > np.median(scores, axis=0)).astype(float)
        Y = y[index]
        y[hidden] = np.nan
    else:
        y = scores[:, :2].copy() if task == "several targets" else scores[:, 0].copy()
        Y = y[index].reshape(len(index), -1)
        y[hidden] = np.nan
    return X, y, index, Y


TASKS = ["binary", "multiclass", "multilabel", "regression", "several targets"]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("normalized", [False, True])
def test_linear_is_the_normal_equations(rng, task, fit_intercept, normalized):
    X, y, index, Y = problem(rng, task=task)
    L = laplacian(knn_weights(X, 4), normalized=normalized)
    w, b = laprls(X, index, Y, L, 0.03, 200.0, fit_intercept=fit_intercept)
    model = LapRLS(
        ridge=0.03 * len(index),
        smoothness=200.0,
        n_neighbors=4,
        normalized=normalized,
        fit_intercept=fit_intercept,
    ).fit(X, y)
    assert_function(model, w, b)
    assert model.residual_ <= model.tol
    assert_predicts(model, X, X @ w + b, index, y)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("normalized", [False, True])
def test_kernel_is_its_equations_over_all_rows(rng, task, fit_intercept, normalized):
    X, y, index, Y = problem(rng, task=task)
    L = laplacian(knn_weights(X, 4), normalized=normalized)
    K = rbf_kernel(X, gamma=0.05)
    a, b = kernel_laprls(K, index, Y, L, 0.03, 200.0, fit_intercept=fit_intercept)
    model = LapRLS(
        ridge=0.03 * len(index),
        smoothness=200.0,
        kernel="rbf",
        gamma=0.05,
        n_neighbors=4,
        normalized=normalized,
        fit_intercept=fit_intercept,
    ).fit(X, y)
    assert_function(model, a, b)
    new = rng.standard_normal((9, X.shape[1]))
    assert_predicts(model, X, K @ a + b, index, y)
    values = rbf_kernel(new, X, gamma=0.05) @ a + b
    if task == "binary":
        np.testing.assert_allclose(model.decision_function(new), values[:, 0], **CLOSE)
    elif task != "multilabel" and task != "multiclass":
        np.testing.assert_allclose(model.predict(new).reshape(9, -1), values, **CLOSE)


def assert_function(model, W, b):
    """The weights are W, and the intercept is b, less the threshold of labels."""
    found = model.coef_ if model.kernel is None else model.dual_coef_
    np.testing.assert_allclose(np.atleast_2d(found), W.T, **CLOSE)
    assert hasattr(model, "coef_") == (model.kernel is None)
    assert hasattr(model, "dual_coef_") == (model.kernel is not None)
    np.testing.assert_allclose(model.intercept_, b - 0.5 * (model.task_ == "multilabel"), **CLOSE)


def assert_predicts(model, X, F, index, y):
    """What is predicted, scored and transduced follows from the function's values F."""
    kind = model.task_
    if kind == "regression":
        expected = F if y.ndim == 2 else F[:, 0]
        np.testing.assert_allclose(model.predict(X), expected, **CLOSE)
        assert not hasattr(model, "classes_")
        with pytest.raises(AttributeError):
            model.decision_function(X)
    else:
        expected = {
            "binary": (F[:, 0] > 0).astype(int),
            "multiclass": F.argmax(axis=1),
            "multilabel": (F >= 0.5).astype(int),
        }[kind]
        np.testing.assert_array_equal(model.predict(X), expected)
        scores = {"binary": F[:, 0], "multiclass": F, "multilabel": F - 0.5}[kind]
        np.testing.assert_allclose(model.decision_function(X), scores, **CLOSE)
        known = expected[index]
        right = known == y[index]
        score = f1_score(y[index].astype(int), known, average="micro") if y.ndim == 2 else np.mean(right)
        assert model.score(X, y) == pytest.approx(score)
    placed = expected.copy()
    placed[index] = y[index]
    np.testing.assert_allclose(model.transduction_, placed, **CLOSE)


@pytest.mark.parametrize("graph", ["rbf", "heat", "given", "given sparse", "cosine"])
def test_graphs(rng, graph):
    X, y, index, Y = problem(rng)
    options = {"ridge": 0.01 * len(index), "smoothness": 30.0}
    directions = X / np.linalg.norm(X, axis=1, keepdims=True)
    W = {
        "rbf": lambda: rbf_weights(X, 2.0),
        "heat": lambda: knn_weights(X, 5, width=2.0),
        "cosine": lambda: knn_weights(directions, 5),
    }.get(graph, lambda: rbf_weights(X, 1.3))()
    options |= {
        "rbf": {"graph": "rbf", "graph_gamma": 1 / 8},
        "heat": {"weights": "heat", "graph_gamma": 1 / 8},
        "given": {"graph": W},
        "given sparse": {"graph": sparse.coo_matrix(W)},
        "cosine": {"metric": "cosine"},
    }[graph]
    w, b = laprls(X, index, Y, laplacian(W), 0.01, 30.0)
    for rows in (X, sparse.csr_array(X)):
        model = LapRLS(**options).fit(rows, y)
        np.testing.assert_allclose(model.coef_, w.T, **CLOSE)
        np.testing.assert_allclose(model.intercept_, b, **CLOSE)


def test_weights_and_gammas_come_from_the_data(rng):
    """Multiples of mean squared distances, so that a change of unit changes no prediction."""
    X, y, index, _ = problem(rng)
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    gamma = 1 / (2 * squares.mean())
    K = rbf_kernel(X, gamma=gamma)
    ridge = 0.01 * len(index) * (1 - K.mean())
    given = LapRLS(graph="rbf", graph_gamma=gamma, kernel="rbf", gamma=gamma, ridge=ridge).fit(X, y)
    found = LapRLS(graph="rbf", kernel="rbf").fit(X, y)
    np.testing.assert_allclose(found.dual_coef_, given.dual_coef_, rtol=1e-9, atol=1e-12)
    assert found.gamma_ == pytest.approx(gamma)
    assert found.ridge_ == pytest.approx(ridge)
    linear = LapRLS().fit(X, y)
    assert linear.ridge_ == pytest.approx(0.01 * len(index) * X.var(axis=0).sum())
    nearest = np.sort(squares, axis=1)[:, 1:6].mean()
    given = LapRLS(weights="heat", graph_gamma=1 / (2 * nearest)).fit(X, y)
    np.testing.assert_allclose(LapRLS(weights="heat").fit(X, y).coef_, given.coef_, rtol=1e-6)


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("normalized", [False, True])
def test_stationary(rng, kernel, normalized):
    """No small step anywhere lowers the objective by more than round-off; a step that matters raises it."""
    X, y, index, Y = problem(rng)
    model = LapRLS(ridge=0.02 * len(index), smoothness=80.0, kernel=kernel, normalized=normalized).fit(X, y)
    L = laplacian(knn_weights(X, 5), normalized=normalized)
    F = X if kernel is None else model.feature_map_.transform(X)
    inner = np.eye(X.shape[1]) if kernel is None else F

    def value(w, b):
        return objective(F @ w, float(np.sum(w * (inner @ w))), L, index, Y, b, 0.02, 80.0)

    w, b = (model.coef_ if kernel is None else model.dual_coef_).T, model.intercept_
    best = value(w, b)
    for _ in range(20):
        step, lift = rng.standard_normal(w.shape), rng.standard_normal(b.shape)
        step *= np.linalg.norm(w) / np.linalg.norm(step)
        assert value(w + 1e-5 * step, b + 1e-5 * lift) >= best * (1 - 1e-12)
        assert value(w + 0.1 * step, b + 0.1 * lift) > best * (1 + 1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_smoothness_it_is_ridge_regression(rng, fit_intercept):
    X, y, index, Y = problem(rng, task="several targets")
    peer = Ridge(alpha=2.5, fit_intercept=fit_intercept).fit(X[index], Y)
    model = LapRLS(ridge=2.5, smoothness=0.0, fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(model.predict(X), peer.predict(X), **CLOSE)


def test_without_smoothness_or_intercept_it_is_kernel_ridge(rng):
    X, y, index, Y = problem(rng, task="regression")
    peer = KernelRidge(alpha=2.5, kernel="poly", gamma=0.2, degree=2, coef0=1.0)
    peer.fit(X[index], Y[:, 0])
    model = LapRLS(
        ridge=2.5, smoothness=0.0, fit_intercept=False, kernel="poly", gamma=0.2, degree=2, coef0=1.0
    ).fit(X, y)
    np.testing.assert_allclose(model.predict(X), peer.predict(X), **CLOSE)
    hidden = np.setdiff1d(np.arange(len(X)), index)
    assert not model.dual_coef_[:, hidden].any()


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_linear_kernel_is_the_linear_form(rng, normalized, fit_intercept):
    X, y, _, _ = problem(rng, task="multiclass")
    options = {
        "ridge": 0.05,
        "smoothness": 300.0,
        "normalized": normalized,
        "fit_intercept": fit_intercept,
        "tol": 1e-12,
    }
    linear = LapRLS(**options).fit(X, y)
    kernel = LapRLS(kernel="linear", **options).fit(X, y)
    np.testing.assert_allclose(kernel.decision_function(X), linear.decision_function(X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_landmarks_at_all_rows_are_the_exact_kernel(rng, kernel):
    X, y, _, _ = problem(rng)
    # a kernel whose matrix is well-conditioned enough for its root to keep the digits
    gamma = {"rbf": 0.5, "poly": 0.02}[kernel]
    exact = LapRLS(kernel=kernel, gamma=gamma, ridge=0.25, smoothness=50.0).fit(X, y)
    landmarks = clone(exact).set_params(n_landmarks=len(X)).fit(X, y)
    new = X[:10] + 0.1
    np.testing.assert_allclose(landmarks.decision_function(new), exact.decision_function(new), atol=1e-5)
    few = clone(exact).set_params(n_landmarks=12).fit(X, y)
    assert few.dual_coef_.shape == (1, 12)
    assert not np.allclose(few.decision_function(new), exact.decision_function(new), atol=1e-3)
    # features made anew in every pass are those that are kept
    passing = clone(few).set_params(max_gram_bytes=X.nbytes).fit(X, y)
    np.testing.assert_allclose(passing.dual_coef_, few.dual_coef_, **CLOSE)


def test_auto_is_exact_within_the_budget_and_nystroem_beyond(rng, monkeypatch):
    X, y, _, _ = problem(rng)
    exact = LapRLS(kernel="rbf").fit(X, y)
    np.testing.assert_array_equal(
        exact.dual_coef_, LapRLS(kernel="rbf", n_landmarks=None).fit(X, y).dual_coef_
    )
    monkeypatch.setattr("labelfold.features._kernel_map._LANDMARKS", 15)
    few = LapRLS(kernel="rbf", max_gram_bytes=8 * len(X) ** 2 - 1).fit(X, y)
    np.testing.assert_array_equal(few.dual_coef_, LapRLS(kernel="rbf", n_landmarks=15).fit(X, y).dual_coef_)


def test_all_labelled_and_much_smoothness(rng):
    """All labels known still changes the answer; smoothness without end leaves each connected piece constant."""
    X, _, _, _ = problem(rng)
    y = (X[:, 0] > 1).astype(int)
    Y = 2.0 * y[:, None] - 1
    w, b = laprls(X, np.arange(len(X)), Y, laplacian(knn_weights(X, 5)), 0.01, 100.0)
    model = LapRLS(ridge=0.01 * len(X), smoothness=100.0).fit(X, y)
    np.testing.assert_allclose(model.coef_, w.T, **CLOSE)
    np.testing.assert_allclose(model.intercept_, b, **CLOSE)
    np.testing.assert_array_equal(model.transduction_, y)

    apart = np.vstack([X, X + 100.0])
    few = np.full(len(apart), -1)
    few[[0, 1, len(X)]] = [0, 1, 1]
    flat = LapRLS(kernel="rbf", gamma=0.1, smoothness=1e12, ridge=1e-6).fit(apart, few)
    values = flat.decision_function(apart)
    assert np.ptp(values[: len(X)]) < 1e-3
    assert np.ptp(values[len(X) :]) < 1e-3


def test_invariances(rng):
    X, y, _index, _Y = problem(rng)
    options = {"ridge": 0.02, "smoothness": 100.0, "tol": 1e-12}
    values = LapRLS(**options).fit(X, y).decision_function(X)
    order = rng.permutation(len(X))
    moved = LapRLS(**options).fit(X[order], y[order])
    np.testing.assert_allclose(moved.decision_function(X), values, rtol=1e-8, atol=1e-10)
    Q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    turned = LapRLS(**options).fit(X @ Q, y)
    np.testing.assert_allclose(turned.decision_function(X @ Q), values, rtol=1e-8, atol=1e-10)
    shifted = LapRLS(**options).fit(X + 1e4, y)
    np.testing.assert_allclose(shifted.decision_function(X + 1e4), values, rtol=1e-6, atol=1e-6)
    scaled = LapRLS(ridge=0.02 * 1e6, smoothness=100.0, tol=1e-12).fit(X * 1e3, y)
    np.testing.assert_allclose(scaled.decision_function(X * 1e3), values, rtol=1e-8, atol=1e-10)
    names = np.array(["yes", "no"], dtype=object)[y]
    renamed = LapRLS(**options).fit(X, np.where(y < 0, None, names))
    assert renamed.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(renamed.decision_function(X), -values, rtol=1e-8, atol=1e-10)
    doubled = LapRLS(**options).fit(np.hstack([X, X]) / np.sqrt(2), y)
    np.testing.assert_allclose(doubled.decision_function(np.hstack([X, X]) / np.sqrt(2)), values, atol=1e-8)


def test_two_classes_are_half_of_a_one_hot_problem(rng):
    X, y, _, _ = problem(rng)
    few = np.where(y[:, None] < 0, np.nan, np.eye(2)[y])
    both = LapRLS(smoothness=50.0, task="regression").fit(X, few).predict(X)
    np.testing.assert_allclose(
        both[:, 1] - both[:, 0], LapRLS(smoothness=50.0).fit(X, y).decision_function(X), **CLOSE
    )


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}, {"kernel": "rbf", "n_landmarks": 20}], ids=str)
def test_same_answer_in_every_container(rng, container, options):
    X, y, _, _ = problem(rng)
    held = container.make(X)
    expected = LapRLS(smoothness=50.0, **options).fit(X, y)
    model = LapRLS(smoothness=50.0, **options).fit(held, y)
    np.testing.assert_allclose(
        model.decision_function(X), expected.decision_function(X), rtol=1e-6, atol=1e-7
    )
    np.testing.assert_array_equal(model.predict(held), expected.predict(X))


@pytest.mark.usefixtures("many_blocks", "compiled_kernels")
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_many_blocks(rng, make):
    X, y, index, Y = problem(rng)
    w, _ = laprls(X, index, Y, laplacian(knn_weights(X, 5)), 0.01, 100.0)
    np.testing.assert_allclose(
        LapRLS(ridge=0.01 * len(index), smoothness=100.0).fit(make(X), y).coef_, w.T, **CLOSE
    )


def test_float32(rng):
    X, y, _, _ = problem(rng)
    for options in ({}, {"kernel": "rbf"}):
        double = LapRLS(smoothness=50.0, **options).fit(X, y).decision_function(X)
        single = LapRLS(smoothness=50.0, **options).fit(X.astype(np.float32), y).decision_function(X)
        np.testing.assert_allclose(single, double, atol=2e-3)


def test_sparse_wide_rows_need_no_square_matrix(rng, monkeypatch):
    """20,000 columns: a matrix of their products would be 3 GB."""
    X = sparse.random_array((120, 20_000), density=0.002, rng=rng, format="csr")
    y = np.where(np.arange(120) < 60, np.arange(120) % 2, -1)
    monkeypatch.setattr(sparse.csr_array, "toarray", None)
    model = LapRLS(ridge=1e-3, smoothness=10.0).fit(X, y)
    assert model.residual_ <= 1e-8
    monkeypatch.undo()
    dense = X.toarray()
    peer = LapRLS(kernel="linear", ridge=1e-3, smoothness=10.0, graph=knn_weights(dense, 5)).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("d", [6, 600])
def test_badly_conditioned_columns(rng, d):
    """Columns of many scales, and a ridge far below them."""
    X = rng.standard_normal((80, d)) * np.geomspace(1e-3, 1e3, d)
    y = np.where(np.arange(80) < 40, np.arange(80) % 2, -1)
    index = np.flatnonzero(y >= 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LapRLS(ridge=1e-4 * len(index), smoothness=1.0, max_iter=5000).fit(X, y)
    w, b = laprls(X, index, 2.0 * y[index, None] - 1, laplacian(knn_weights(X, 5)), 1e-4, 1.0)
    np.testing.assert_allclose(model.decision_function(X), (X @ w + b)[:, 0], atol=1e-3)


def test_stopped_short_it_says_so(rng):
    X, y, _, _ = problem(rng)
    with pytest.warns(
        ConvergenceWarning, match="LapRLS stopped after 1 iterations with a relative residual"
    ) as caught:
        LapRLS(max_iter=1).fit(X, y)
    assert caught[0].filename == __file__


def test_nothing_is_written_to(rng):
    X, y, _, _ = problem(rng)
    W = rbf_weights(X, 1.0)
    kept = X.copy(), y.copy(), W.copy()
    for array in (X, y, W):
        array.flags.writeable = False
    LapRLS(graph=W).fit(X, y)
    LapRLS(graph=W, kernel="rbf", normalized=True).fit(X, y)
    for array, before in zip((X, y, W), kept, strict=True):
        np.testing.assert_array_equal(array, before)


def test_constant_columns_repeated_rows_and_lone_rows(rng):
    X, y, _, _ = problem(rng)
    X[:, 2] = 7.0
    X[10:20] = X[0]
    for options in ({}, {"kernel": "rbf"}, {"graph": "rbf", "normalized": True}, {"weights": "heat"}):
        assert np.isfinite(LapRLS(**options).fit(X, y).decision_function(X)).all()
    lonely = np.zeros((len(X), len(X)))
    lonely[0, 1] = lonely[1, 0] = 1.0
    assert np.isfinite(LapRLS(graph=lonely, normalized=True).fit(X, y).decision_function(X)).all()
    same = np.ones((6, 3))
    assert np.isfinite(
        LapRLS(graph="rbf", kernel="rbf").fit(same, [0, 1, -1, -1, 0, 1]).decision_function(same)
    ).all()


BAD = [
    ({"ridge": 0.0}, {}, "'ridge' parameter of LapRLS must be a float in the range"),
    ({"smoothness": -1.0}, {}, "'smoothness' parameter of LapRLS"),
    ({"gamma": 1.0}, {}, "gamma=1.0 was given without a kernel; name one"),
    ({"n_landmarks": 9}, {}, "n_landmarks=9 was given without a kernel; name one"),
    ({"kernel": "rfb"}, {}, "kernel='rfb' is not known; use one of"),
    ({"kernel": "rbf", "degree": 2}, {}, "degree=2 belongs to another kernel"),
    (
        {"kernel": "rbf", "n_landmarks": None, "max_gram_bytes": 1000},
        {},
        r"a 70 x 70 matrix of 0 MB, .* n_landmarks",
    ),
    (
        {"graph": "rbf", "max_gram_bytes": 1000},
        {},
        r"RBF graph of 70 rows is a 70 x 70 matrix .* use graph='knn'",
    ),
    ({"graph": np.ones((3, 3))}, {}, "graph is 3 x 3, where 70 x 70 is expected"),
    ({"graph": np.triu(np.ones((70, 70)))}, {}, "graph is not symmetric; pass"),
    ({"graph": -np.ones((70, 70))}, {}, "graph has negative or missing weights; give 0"),
    ({}, {"y": np.full(70, -1)}, "y has no labelled row"),
    ({}, {"y": np.where(np.arange(70) < 9, 3, -1)}, "y has one class only, 3"),
    ({}, {"y": np.zeros(3)}, "y has 3 rows and X has 70"),
    ({"task": "classification"}, {"y": np.linspace(0, 1, 70)}, "Unknown label type: continuous"),
]


@pytest.mark.parametrize(("options", "change", "words"), BAD, ids=[b[2][:40] for b in BAD])
def test_bad_input(rng, options, change, words):
    X, y, _, _ = problem(rng)
    with pytest.raises(ValueError, match=words):
        LapRLS(**options).fit(X, change.get("y", y))


def test_rows_elsewhere_that_would_not_fit(rng, tmp_path):
    X, y, _, _ = problem(rng)
    np.save(tmp_path / "rows.npy", X)
    sentence = r"^LapRLS reads rows .*: 70 x \d+ in a file are .* max_gram_bytes, 100 bytes, .*; use LabelFold or LDA"
    with pytest.raises(ValueError, match=sentence):
        LapRLS(max_gram_bytes=100).fit(tmp_path / "rows.npy", y)
    # without a graph nothing has to be taken
    streamed = LapRLS(smoothness=0.0, max_gram_bytes=100).fit(tmp_path / "rows.npy", y)
    np.testing.assert_allclose(streamed.coef_, LapRLS(smoothness=0.0).fit(X, y).coef_, **CLOSE)


def test_nan_is_unlabelled_in_regression(rng):
    X, y, index, Y = problem(rng, task="regression")
    assert np.isnan(y).any()
    model = LapRLS(ridge=0.01 * len(index), smoothness=1.0).fit(X, y)
    assert model.task_ == "regression"
    w, b = laprls(X, index, Y, laplacian(knn_weights(X, 5)), 0.01, 1.0)
    np.testing.assert_allclose(model.predict(X), (X @ w + b)[:, 0], **CLOSE)


def test_the_poly_kernel_on_new_rows(rng):
    X, y, index, Y = problem(rng)
    K = polynomial_kernel(X, degree=2, gamma=0.1, coef0=1)
    a, b = kernel_laprls(K, index, Y, laplacian(knn_weights(X, 5)), 0.01, 1.0)
    options = {"kernel": "poly", "degree": 2, "gamma": 0.1, "coef0": 1}
    model = LapRLS(ridge=0.01 * len(index), smoothness=1.0, **options).fit(X, y)
    new = rng.standard_normal((5, 6))
    values = polynomial_kernel(new, X, degree=2, gamma=0.1, coef0=1) @ a + b
    np.testing.assert_allclose(model.decision_function(new), values[:, 0], rtol=1e-5, atol=1e-5)


def test_it_is_a_classifier_unless_numbers_are_asked_for(rng):
    assert is_classifier(LapRLS())
    assert is_regressor(LapRLS(task="regression"))
    X, y, index, _ = problem(rng)
    # Folds of a search are then made class by class: with few labels, plain ones may lack a class.
    search = GridSearchCV(LapRLS(), {"ridge": [0.01, 0.1]}, cv=2).fit(X[index], np.sort(y[index]))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("smoothness", [0.0, 1.0])
def test_eigenvalues_give_what_factors_give(rng, smoothness, fit_intercept):
    X, Y = rng.normal(size=(40, 3)), rng.normal(size=(15, 2))
    index = np.sort(rng.permutation(40)[:15])
    K, L = rbf_kernel(X, gamma=0.3), laplacian(knn_weights(X, 5))
    weights = {"ridge": 1e-2, "smoothness": smoothness, "fit_intercept": fit_intercept}
    found = solve_kernel(K, L, index, Y, **weights)
    other = solve_spectrum(K, L, index, Y, *weights.values())
    np.testing.assert_allclose(K @ other.W, K @ found.W, atol=1e-10)
    np.testing.assert_allclose(other.intercept, found.intercept, atol=1e-10)


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_a_kernel_that_dwarfs_the_penalties(rng, scale, repeated):
    """The polynomial kernel of large rows: equal, but for round-off, to the one of small rows without a ridge."""
    X = rng.normal(size=(60, 5))
    y = (X[:, 0] > 0).astype(int)
    if repeated:
        X[30:], y[30:] = X[:30], y[:30]
    known = np.where(np.arange(60) < 20, y, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LapRLS(kernel="poly", gamma=0.2, coef0=0.0, ridge=0.2).fit(scale * X, known)
        # in the unit of the large rows the kernel is scale^6 times as large, and the ridge as many times smaller
        same = LapRLS(kernel="poly", gamma=0.2, coef0=0.0, ridge=0.2 / scale**6).fit(X, known)
    values = model.decision_function(scale * X)
    np.testing.assert_allclose(values, same.decision_function(X), atol=1e-5 * np.abs(values).max())
    assert (model.predict(scale * X[:20]) == y[:20]).mean() >= 0.9


def test_a_kernel_that_overflows_is_refused():
    X = np.array([[1e120], [-1e120], [2e120]])
    with pytest.raises(ValueError, match="scale X"):
        LapRLS(kernel="poly", gamma=1.0, n_neighbors=1).fit(X, [0, 1, 0])


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_float32_rows_whose_squares_leave_its_range_are_refused(scale, rng):
    X = (scale * rng.standard_normal((20, 3))).astype(np.float32)
    y = np.arange(20) % 2
    with pytest.raises(ValueError, match="leave the range of float32; pass float64, or multiply"):
        LapRLS().fit(X, y)
    assert set(LapRLS().fit(X.astype(np.float64), y).predict(X)) <= {0, 1}
