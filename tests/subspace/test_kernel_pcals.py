"""KernelPCALS: equal to PCALS on the features, exactly and by Nystroem, on new rows too, within a budget."""

import warnings
from time import process_time

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, make_moons
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

from labelfold import PCALS, KernelPCALS
from labelfold.features import cholesky_features
from labelfold.rows import as_rows
from labelfold.subspace import _kernel_pcals as kernel_pcals, _kernel_pcals as kernel_space
from reference import pcals as naive
from reference.pcals_data import TASKS, centred_responses, problem


@pytest.fixture(params=[90, 300])
def n(request):
    return request.param


def test_a_numpy_number_is_a_parameter():
    X, y = make_moons(40, random_state=0)
    model = KernelPCALS(gamma=np.float64(0.5)).fit(X, y)
    assert model.gamma_ == 0.5


def test_features_are_those_of_the_kernel():
    rng = np.random.default_rng(0)
    for X, rank in (
        (rng.standard_normal((60, 5)), 5),
        (np.repeat(rng.standard_normal((20, 30)), 3, axis=0), 20),
    ):
        K = X @ X.T
        L, order = cholesky_features(K.copy())
        assert L.shape == (60, rank)
        assert sorted(order) == list(range(60))
        np.testing.assert_allclose(L @ L.T, K[np.ix_(order, order)], atol=1e-12)
        np.testing.assert_array_equal(np.triu(L[:rank], 1), 0)
    K = rbf_kernel(rng.standard_normal((700, 40)))
    L, order = cholesky_features(K.copy())
    assert L.shape == (700, 700)
    np.testing.assert_allclose(L @ L.T, K[np.ix_(order, order)], atol=1e-12)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("center", [True, False])
def test_linear_kernel_equals_pcals(n, task, center):
    X, y, _ = problem(task, kind="decay", n=n, d=10)
    new = np.random.default_rng(5).standard_normal((30, 10))
    model = KernelPCALS(4, kernel="linear", reconstruction=0.3, center=center).fit(X, y)
    linear = PCALS(4, reconstruction=0.3, center=center).fit(X, y)
    np.testing.assert_allclose(model.gains_, linear.gains_, rtol=1e-8)
    np.testing.assert_allclose(model.objective_, linear.objective_, rtol=1e-8)
    np.testing.assert_allclose(np.abs(model.transform(new)), np.abs(linear.transform(new)), atol=1e-5)
    function = "predict" if task == "regression" else "decision_function"
    np.testing.assert_allclose(getattr(model, function)(new), getattr(linear, function)(new), atol=1e-5)


def test_equals_the_paper_in_explicit_features(n):
    X, y, index = problem(kind="decay", n=n, d=4)
    options = {"degree": 2, "gamma": 1.0, "coef0": 1.0}
    K = pairwise_kernels(X, metric="poly", **options)
    scores, values = naive.kernel_pca_ls(
        K, index, 2 * y[index, None] - 1, 0.3, 2, find=naive.best_to_all_digits
    )
    model = KernelPCALS(2, kernel="poly", **options, reconstruction=0.3).fit(X, y)
    np.testing.assert_allclose(model.objective_, values, rtol=1e-8)
    np.testing.assert_allclose(np.abs(model.transform(X)), np.abs(scores), atol=1e-4)


def test_directions_are_orthonormal_and_the_objective_is_of_them(n):
    X, y, index = problem(kind="decay", n=n, d=5, n_labelled=40)
    model = KernelPCALS(12, gamma=0.5, reconstruction=1.0).fit(X, y)
    points = model.feature_map_.points
    E = model.components_
    assert E.shape == (12, len(points))
    assert np.abs(E @ rbf_kernel(points, gamma=0.5) @ E.T - np.eye(12)).max() <= 1e-8
    assert (np.diff(model.objective_) < 0).all()
    K = rbf_kernel(X, gamma=0.5)
    Z = model.transform(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-9)
    left = centred_responses(y) - Z[index] @ model.embedding_coef_.T
    lost = np.trace(K) - K.mean() * n - (Z**2).sum()
    np.testing.assert_allclose(model.objective_[-1], (left**2).sum() + lost, rtol=1e-8)


def test_much_weight_on_reconstruction_is_kernel_pca(n):
    X, y, _ = problem(kind="decay", n=n, d=5)
    model = KernelPCALS(3, gamma=0.5, reconstruction=1e9).fit(X, y)
    expected = KernelPCA(3, kernel="rbf", gamma=0.5).fit(X)
    new = np.random.default_rng(0).standard_normal((20, 5))
    np.testing.assert_allclose(np.abs(model.transform(new)), np.abs(expected.transform(new)), atol=1e-6)


@pytest.mark.parametrize("kernel", ["poly", "laplacian", "cosine", "callable"])
def test_other_kernels(kernel):
    X, y, _ = problem(kind="counts", n=80, d=6)
    new = X[:10] + 0.1
    if kernel == "callable":
        model = KernelPCALS(3, kernel=_product).fit(X, y)
        same = KernelPCALS(3, kernel="linear").fit(X, y)
        np.testing.assert_allclose(model.decision_function(new), same.decision_function(new), atol=1e-6)
        return
    model = KernelPCALS(3, kernel=kernel, reconstruction=100.0).fit(X, y)
    K = pairwise_kernels(X, metric=kernel, **({} if model.gamma_ is None else {"gamma": model.gamma_}))
    features = np.linalg.eigh(K)
    keep = features[0] > 1e-12 * features[0][-1]
    explicit = features[1][:, keep] * np.sqrt(features[0][keep])
    expected = PCALS(3, reconstruction=100.0).fit(explicit, y)
    np.testing.assert_allclose(model.objective_, expected.objective_, rtol=1e-7)


def _product(x, y):
    return float(np.dot(x, y))


def test_nystroem_with_all_rows_is_exact_and_with_some_near():
    X, y, _ = problem(kind="decay", n=150, d=5)
    new = np.random.default_rng(0).standard_normal((20, 5))
    exact = KernelPCALS(3, gamma=0.3, reconstruction=1.0).fit(X, y)
    full = KernelPCALS(3, gamma=0.3, reconstruction=1.0, n_landmarks=150).fit(X, y)
    np.testing.assert_allclose(full.objective_, exact.objective_, rtol=1e-4)
    np.testing.assert_allclose(full.decision_function(new), exact.decision_function(new), atol=1e-2)
    some = KernelPCALS(3, gamma=0.3, reconstruction=1.0, n_landmarks=80).fit(X, y)
    assert some.components_.shape == (3, 80)
    assert np.abs(some.components_ @ some.components_.T - np.eye(3)).max() <= 1e-10
    np.testing.assert_allclose(some.gains_, exact.gains_, rtol=0.05)
    data = as_rows(X)
    KernelPCALS(3, gamma=0.3, n_landmarks=20).fit(data, y)
    assert data.n_passes == 1


def test_auto_is_exact_within_the_budget_and_nystroem_beyond(monkeypatch):
    X, y, _ = problem(n=100, d=5)
    exact = KernelPCALS(2).fit(X, y)
    np.testing.assert_array_equal(exact.components_, KernelPCALS(2, n_landmarks=None).fit(X, y).components_)
    monkeypatch.setattr("labelfold.features._kernel_map._LANDMARKS", 30)
    small = KernelPCALS(2, max_gram_bytes=8 * 99 * 99).fit(X, y)
    assert small.components_.shape == (2, 30)


def test_a_kernel_matrix_that_would_not_fit_is_refused():
    X, y, _ = problem(n=1000, d=5)
    with pytest.raises(
        ValueError,
        match=r"1000 x 1000 matrix of 8 MB, more than max_gram_bytes=1,000,000 .* n_landmarks .* to 8,000,000",
    ) as caught:
        KernelPCALS(2, n_landmarks=None, max_gram_bytes=1_000_000).fit(X, y)
    assert "raise max_gram_bytes" in str(caught.value)


def test_gamma_is_of_the_mean_squared_distance_between_rows():
    X, y, _ = problem(n=150, d=5)
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    assert KernelPCALS(2).fit(X, y).gamma_ == pytest.approx(1 / (2 * squares.mean()))
    assert KernelPCALS(2, gamma=3.0).fit(X, y).gamma_ == 3.0


def test_tells_two_moons_apart():
    X, y = make_moons(400, noise=0.05, random_state=0)
    few = np.full(400, -1)
    few[[*np.flatnonzero(y == 0)[:3], *np.flatnonzero(y == 1)[:3]]] = 0, 0, 0, 1, 1, 1
    scores = []
    for gamma in (0.3, 1.2, 5.0, 20.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            scores.append(KernelPCALS(16, gamma=gamma).fit(X, few).score(X, y))
    assert max(scores) > 0.93


def test_same_answer_in_every_container(container):
    X, y, _ = problem("multiclass", kind="counts", n=60, d=6, n_labelled=20)
    expected = KernelPCALS(3).fit(X, y)
    model = KernelPCALS(3).fit(container.make(X), y)
    np.testing.assert_allclose(
        model.decision_function(container.make(X)), expected.decision_function(X), atol=1e-6
    )
    features = KernelPCALS(3, n_landmarks=20).fit(X, y).decision_function(X)
    by_landmarks = KernelPCALS(3, n_landmarks=20).fit(container.make(X), y)
    np.testing.assert_allclose(by_landmarks.decision_function(container.make(X)), features, atol=1e-6)


def test_float32_and_sparse():
    X, y, _ = problem(kind="counts", n=100, d=6)
    double = KernelPCALS(3).fit(X, y)
    single = KernelPCALS(3).fit(X.astype(np.float32), y)
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(
        single.decision_function(X.astype(np.float32)), double.decision_function(X), atol=1e-4
    )
    rows = sparse.csr_array(X)
    np.testing.assert_allclose(
        KernelPCALS(3).fit(rows, y).decision_function(rows), double.decision_function(X), atol=1e-8
    )


def test_a_row_is_placed_by_itself():
    X, y, _ = problem(n=300, d=5)
    model = KernelPCALS(3).fit(X, y)
    np.testing.assert_allclose(model.transform(X[17:18]), model.transform(X)[17:18], atol=1e-10)


def test_choosing_how_many():
    X, y, _ = problem("multiclass", kind="decay", n=300, n_labelled=40)
    model = KernelPCALS("cv", candidates=[1, 2, 4], cv=3).fit(X, y)
    assert model.cv_results_["scores"].shape == (9, 3)
    assert model.n_components_ == model.cv_results_["chosen"]


def test_bad_input_is_refused():
    X, y, _ = problem(n=60, d=5)
    with pytest.raises(ValueError, match="degree=2 belongs to another kernel"):
        KernelPCALS(degree=2).fit(X, y)
    with pytest.raises(ValueError, match="kernel='rbg' is not known"):
        KernelPCALS(kernel="rbg").fit(X, y)
    with pytest.raises(ValueError, match="nothing but equal rows"):
        KernelPCALS().fit(np.ones((60, 3)), y)
    with pytest.warns(UserWarning, match="is more than the rank of X"):
        KernelPCALS(9, kernel="linear").fit(X, y)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "sigmoid", "gamma": 1.0},
        {"kernel": "additive_chi2"},
        {"kernel": lambda x, y: -np.dot(x, y)},
    ],
    ids=["sigmoid", "additive_chi2", "negative"],
)
def test_a_kernel_that_no_features_have_is_refused(options):
    X, y, _ = problem(n=60, d=5)
    with pytest.raises(ValueError, match="not positive semi-definite, so no features have it for products"):
        KernelPCALS(**options).fit(np.abs(X) if options["kernel"] == "additive_chi2" else X, y)


def test_a_kernel_that_is_no_number_is_refused():
    X, y, _ = problem(n=60, d=5)
    with pytest.raises(ValueError, match="kernel of some rows is NaN or infinite"):
        KernelPCALS(kernel=lambda x, y: np.inf).fit(X, y)


def test_a_search_that_round_off_disturbs_ends():
    """A narrow kernel and nearly all rows labelled: the gain is flat up to round-off in many directions."""
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    few = np.where(rng.random(150) >= 0.7, y, 0).astype(float)
    few[rng.permutation(150)[:50]] = np.nan
    start = process_time()
    model = KernelPCALS(2, gamma=1.0 / X.var(axis=0).sum(), random_state=0).fit(X, few)
    assert process_time() - start < 10
    assert model.gains_[0] > model.gains_[1] > 0


def test_a_maximum_is_kept_where_round_off_hides_others():
    """Labels are fitted best along directions of hardly any variance: the search lost its maximum, and went on."""
    rng = np.random.default_rng(150)
    n, d, c = int(rng.integers(520, 900)), int(rng.integers(2, 40)), int(rng.integers(2, 6))
    means, y = rng.standard_normal((c, d)), rng.integers(c, size=n)
    X = means[y] * rng.uniform(0.2, 2) + rng.standard_normal((n, d))
    y[:c], y[150:] = np.arange(c), -1
    model = KernelPCALS(2, kernel="rbf", gamma=0.15630207, reconstruction=0.55605).fit(X, y)
    assert model.n_iter_ < 30
    np.testing.assert_allclose(model.gains_, [235.14, 158.67], atol=0.01)


def test_the_rows_that_span_all_others_do_not_follow_the_order_of_the_rows(rng):
    """All rows have the same kernel with themselves: the first of them must not be the first pivot by its place."""
    x = rng.standard_normal((30, 1))
    K = np.exp(-((x - x.T) ** 2))
    order = rng.permutation(30)
    L, pivots = cholesky_features(K.copy())
    _, moved = cholesky_features(K[np.ix_(order, order)].copy())
    np.testing.assert_array_equal(order[moved[:8]], pivots[:8])
    np.testing.assert_allclose(L @ L.T, K[np.ix_(pivots, pivots)], atol=1e-12)


def large_rank(kernel, seed=0, n=600, n_labelled=60):
    """Rows whose kernel matrix has a large rank, with three classes for some of them, and new rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 700 if kernel == "cosine" else 8))
    y = np.where(np.arange(n) < n_labelled, np.digitize(X[:, 0] + X[:, 1] ** 2, [0.5, 1.5]), -1)
    return X, y, rng.standard_normal((20, X.shape[1]))


def by_features(monkeypatch, **options):
    """Return an unfitted model that factorises its kernel matrix whatever the rank."""
    monkeypatch.setattr(kernel_pcals, "has_large_rank", lambda K: False)
    return KernelPCALS(**options)


@pytest.mark.parametrize(
    ("kernel", "center", "reconstruction"),
    [
        *(("rbf", True, 0.01), ("rbf", False, 1.0), ("rbf", True, 100.0)),
        *(("laplacian", False, 0.01), ("laplacian", True, 1.0), ("laplacian", False, 100.0)),
        *(("cosine", True, 0.01), ("cosine", False, 1.0), ("cosine", True, 100.0)),
    ],
)
def test_coefficients_and_features_give_the_same_directions(kernel, center, reconstruction, monkeypatch):
    X, y, new = large_rank(kernel)
    options = {"n_components": 4, "kernel": kernel, "reconstruction": reconstruction, "center": center}
    with monkeypatch.context() as without:
        without.delattr(kernel_pcals, "KernelFeatures")
        model = KernelPCALS(**options).fit(X, y)
    expected = by_features(monkeypatch, **options).fit(X, y)
    # Both are stationary to their tolerances.
    np.testing.assert_allclose(model.gains_, expected.gains_, rtol=5e-7)
    np.testing.assert_allclose(model.objective_, expected.objective_, rtol=5e-7)
    E = model.components_
    np.testing.assert_allclose(E @ model.feature_map_.of_points() @ E.T, np.eye(4), atol=1e-10)
    if reconstruction == 100.0:
        np.testing.assert_allclose(model.decision_function(new), expected.decision_function(new), atol=1e-5)


def test_round_off_of_the_rows_does_not_change_directions(monkeypatch):
    """Vectors of the search that are nearly dependent must stay orthogonal to those before."""
    X, y, _ = large_rank("cosine")
    monkeypatch.delattr(kernel_pcals, "KernelFeatures")
    gains = []
    for seed in range(4):
        nearly = X * (1 + 1e-15 * np.random.default_rng(seed).standard_normal(X.shape))
        gains.append(KernelPCALS(4, kernel="cosine", reconstruction=0.01).fit(nearly, y).gains_)
    np.testing.assert_allclose(gains, np.tile(gains[0], (4, 1)), rtol=5e-7)


def test_coefficients_reach_the_global_maximum_of_a_dense_search():
    X, y, _ = large_rank("laplacian", n=530)
    y = np.where(y < 0, -1, y > 0)
    model = KernelPCALS(1, kernel="laplacian", reconstruction=0.1).fit(X, y)
    assert model.components_.shape == (1, 530)
    K = pairwise_kernels(X, metric="laplacian")
    H = np.eye(530) - 1 / 530
    values, U = np.linalg.eigh(H @ K @ H)
    features = U[:, 1:] * np.sqrt(values[1:])
    index = np.flatnonzero(y >= 0)
    r = centred_responses(np.where(y < 0, np.nan, y))
    best = naive.best_direction(features, index, r, 0.1, n_grid=12, n_finer=7)[1]
    assert model.gains_[0] >= best * (1 - 1e-9)
    w = np.linalg.lstsq(features, model.transform(X)[:, 0], rcond=None)[0]
    np.testing.assert_allclose(naive.gain(w, features, index, r, 0.1), model.gains_[0], rtol=1e-7)
    assert np.linalg.norm(naive.slope(w, features, index, r, 0.1)) <= 1e-6 * model.gains_[0]


def test_where_coefficients_lose_digits_the_kernel_is_factorised(monkeypatch):
    X, y, new = large_rank("rbf")
    with monkeypatch.context() as strict:
        strict.setattr(kernel_space, "_LOST", 0.0)
        model = KernelPCALS("cv", candidates=[1, 2], cv=3).fit(X, y)
    expected = by_features(
        monkeypatch, n_components=model.n_components_, reconstruction=model.reconstruction_
    )
    np.testing.assert_allclose(
        model.decision_function(new), expected.fit(X, y).decision_function(new), atol=1e-6
    )


def test_repeated_rows_beside_many_others(monkeypatch):
    """Their differences are orthogonal to all rows, so that coefficients along them must not grow."""
    X, y, new = large_rank("laplacian", n=700)
    X[-40:] = X[:40]
    monkeypatch.setattr(kernel_pcals, "has_large_rank", lambda K: True)
    model = KernelPCALS(4, kernel="laplacian").fit(X, y)
    options = {"n_components": 4, "kernel": "laplacian", "reconstruction": model.reconstruction_}
    expected = by_features(monkeypatch, **options).fit(X, y)
    np.testing.assert_allclose(model.gains_, expected.gains_, rtol=5e-7)
    np.testing.assert_allclose(model.decision_function(new), expected.decision_function(new), atol=1e-5)
    assert np.abs(model.components_).max() < 10
