"""PCALS: global maxima, its objective, what it becomes at either end, every container, and what it refuses."""

import itertools
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelfold import PCALS
from labelfold.labels import read_labels
from labelfold.rows import as_rows
from labelfold.subspace import _search as search
from labelfold.subspace._pcals import gain, objective, responses
from reference import pcals as naive
from reference.pcals_data import KINDS, TASKS, centred_responses, problem
from reference.pcals_proof import proved_maximum

WEIGHTS = [1e-6, 1e-2, 1.0, 1e6]


def residuals(model, X, y):
    """Yield what directions are looked for in: residual rows, residual responses, and the direction found there."""
    R, r, index = (
        X - X.mean(axis=0),
        centred_responses(y),
        np.flatnonzero(~np.isnan(np.asarray(y).reshape(len(y), -1)[:, 0])),
    )
    for w in model.components_:
        yield R, index, r, w
        z = R[index] @ w
        r = r - np.outer(z, r.T @ z / (z @ z))
        R = R - np.outer(R @ w, w)


def assert_global(model, X, y, find):
    for j, (R, index, r, w) in enumerate(residuals(model, X, y)):
        reached = naive.gain(w, R, index, r, model.reconstruction_)
        np.testing.assert_allclose(model.gains_[j], reached, rtol=1e-7)
        assert reached >= (1 - 1e-6) * find(R, index, r, model.reconstruction_)[1]


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("n_labelled", [6, 60])
@pytest.mark.parametrize("kind", KINDS)
def test_every_direction_is_a_global_maximum(kind, n_labelled, weight):
    X, y, _ = problem(kind=kind, d=15, n_labelled=n_labelled)
    model = PCALS(2, reconstruction=weight).fit(X, y)
    assert_global(model, X, y, naive.best_direction)


def proved(*args):
    w, best, bound = proved_maximum(*args)
    assert bound <= best * (1 + 1e-6)
    return w, best


@pytest.mark.parametrize("weight", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", ["decay", "counts"])
def test_and_a_proof_finds_no_larger_one(kind, task, weight):
    X, y, _ = problem(task, kind, n=80, d=15, n_labelled=20)
    model = PCALS(2, reconstruction=weight).fit(X, y)
    assert_global(model, X, y, proved)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_and_in_many_more_problems(seed):
    rng = np.random.default_rng(seed)
    for kind, weight in itertools.product(KINDS, [*WEIGHTS, 0.03, 30.0]):
        n_labelled = int(rng.choice([5, 10, 40, 140]))
        X, y, _ = problem(kind=kind, d=int(rng.choice([5, 30, 100, 200])), n_labelled=n_labelled, seed=seed)
        if len(np.unique(y[~np.isnan(y)])) < 2:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = PCALS(4, reconstruction=weight).fit(X, y)
        assert_global(model, X, y, proved_maximum)


@pytest.mark.parametrize("weight", [1e-3, 0.1])
@pytest.mark.parametrize("task", ["multiclass", "multilabel", "regression"])
@pytest.mark.parametrize("kind", ["many scales", "one-hot"])
def test_and_of_several_responses(kind, task, weight):
    X, y, _ = problem(task, kind, d=15)
    model = PCALS(3, reconstruction=weight).fit(X, y)
    assert_global(model, X, y, naive.best_of_many_starts)


@pytest.mark.parametrize(("d", "n_labelled"), [(200, 40), (200, 300), (100, 60)])
@pytest.mark.parametrize("kind", ["many scales", "one-hot"])
def test_and_of_more_columns_than_the_small_space(kind, d, n_labelled):
    assert d > search.MAX_VECTORS
    X, y, _ = problem(kind=kind, n=400, d=d, n_labelled=n_labelled)
    model = PCALS(2, reconstruction=0.01).fit(X, y)
    assert_global(model, X, y, lambda *args: naive.best_direction(*args, n_grid=25, n_finer=7))


@pytest.mark.parametrize("max_gram_bytes", [0, 20_000])
@pytest.mark.parametrize(
    ("kind", "weight"), [("many scales", 0.01), ("one-hot", 1.0), ("low rank", 1e-3), ("decay", 0.1)]
)
def test_a_pass_a_step_finds_them_as_well(kind, weight, max_gram_bytes):
    # With 20,000 bytes there is room for the labelled rows, with none they are read with all others.
    X, y, _ = problem(kind=kind, n=300, d=100, n_labelled=20)
    model = PCALS(3, reconstruction=weight, max_gram_bytes=max_gram_bytes).fit(X, y)
    direct = PCALS(3, reconstruction=weight).fit(X, y)
    np.testing.assert_allclose(model.gains_, direct.gains_, rtol=1e-6)
    np.testing.assert_allclose(model.decision_function(X), direct.decision_function(X), rtol=1e-3, atol=1e-3)


def test_ascent_from_random_starts_would_have_missed_some():
    """The problems have local maxima: otherwise the tests above would show little."""
    X, y, index = problem(kind="decay", n=60, d=10, n_labelled=15)
    model = PCALS(1, reconstruction=0.1).fit(X, y)
    R, r = X - X.mean(axis=0), centred_responses(y)
    starts = np.random.default_rng(0).standard_normal((8, 10))
    found = [naive.local_maximum(w, R, index, r, 0.1)[1] for w in starts]
    assert min(found) < 0.9 * model.gains_[0]
    assert max(found) <= model.gains_[0] * (1 + 1e-9)


def test_directions_beyond_what_labels_tell_fill_the_space():
    """The small space of a hundred columns comes to be all that directions leave: nothing may be in it twice."""
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((300, 100)), np.full(300, -1)
    y[:60] = np.arange(60) % 2
    model = PCALS(40, reconstruction=1e-6).fit(X, y)
    assert model.n_iter_ < 200
    R = X - X.mean(axis=0)
    lost = 1e-6 * ((R**2).sum() - np.cumsum(((R @ model.components_.T) ** 2).sum(axis=0)))
    # The first direction fits the labels exactly; all that is left is reconstruction.
    np.testing.assert_allclose(model.objective_, lost, rtol=1e-6)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_the_objective_falls_and_is_what_it_says(task, center):
    X, y, index = problem(task)
    model = PCALS(5, center=center, reconstruction=0.3).fit(X, y)
    Y = responses(read_labels(y, allowed=TASKS))
    if center:
        Y = Y - Y.mean(axis=0)
    before = objective(
        X - model.mean_, np.empty((20, 0)), np.empty((0, Y.shape[1])), Y, index, reconstruction=0.3
    )
    for p in range(1, 6):
        A = model.embedding_coef_path_[p - 1, :, :p].T
        after = objective(X - model.mean_, model.components_[:p].T, A, Y, index, reconstruction=0.3)
        np.testing.assert_allclose(model.objective_[p - 1], after, rtol=1e-10)
        np.testing.assert_allclose(before - after, model.gains_[p - 1], rtol=1e-8)
        before = after
    assert (np.diff(model.objective_) < 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", [1e-3, 1.0])
def test_every_direction_is_stationary(kind, weight):
    X, y, _ = problem(kind=kind)
    model = PCALS(3, reconstruction=weight).fit(X, y)
    for R, index, r, w in residuals(model, X, y):
        slope = naive.slope(w, R, index, r, weight)
        assert np.linalg.norm(slope) <= 1e-8 * naive.gain(w, R, index, r, weight)


@pytest.mark.parametrize("center", [True, False])
def test_equals_the_naive_pursuit(center):
    X, y, index = problem(kind="decay", d=10)
    Y = responses(read_labels(y))
    W, alphas, values = naive.pca_ls(X, index, Y, 0.3, 3, center=center, find=naive.best_to_all_digits)
    model = PCALS(3, reconstruction=0.3, center=center).fit(X, y)
    signs = np.sign((model.components_ * W).sum(axis=1))
    np.testing.assert_allclose(model.components_, W * signs[:, None], atol=1e-5)
    np.testing.assert_allclose(model.embedding_coef_[0], alphas[:, 0] * signs, rtol=1e-4)
    np.testing.assert_allclose(model.objective_, values, rtol=1e-8)


@pytest.mark.parametrize("max_gram_bytes", [1 << 29, 0])
def test_many_directions_stay_orthonormal(max_gram_bytes):
    X, y, _ = problem(kind="many scales", n=100, d=66, n_labelled=50)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "n_components=64 is more than the 50 labelled", UserWarning)
        model = PCALS(64, max_gram_bytes=max_gram_bytes).fit(X, y)
    W = model.components_
    assert W.shape == (64, 66)
    assert np.abs(W @ W.T - np.eye(64)).max() <= 1e-10
    assert (np.diff(model.objective_) < 0).all()


def test_much_weight_on_reconstruction_is_pca_and_least_squares():
    X, y, index = problem("regression", kind="decay", n_labelled=40)
    model = PCALS(4, reconstruction=1e10, refit=True).fit(X, y)
    pca = PCA(4).fit(X)
    np.testing.assert_allclose(np.abs((model.components_ * pca.components_).sum(axis=1)), 1, atol=1e-9)
    for p in range(1, 5):
        least_squares = LinearRegression().fit(pca.transform(X)[index, :p], y[index])
        expected = least_squares.predict(pca.transform(X)[:, :p])
        np.testing.assert_allclose(model.predict(X, n_components=p), expected, rtol=1e-6, atol=1e-8)
    ridge = PCALS(4, reconstruction=1e10, refit=True, ridge=2.0).fit(X, y)
    expected = Ridge(2.0).fit(pca.transform(X)[index], y[index]).predict(pca.transform(X))
    np.testing.assert_allclose(ridge.predict(X), expected, rtol=1e-6, atol=1e-8)


def test_little_weight_on_reconstruction_is_least_squares():
    X, y, index = problem("regression", kind="many scales", d=8, n_labelled=60)
    model = PCALS(1, reconstruction=1e-9).fit(X, y)
    R = X - X.mean(axis=0)
    w = np.linalg.lstsq(R[index], y[index] - y[index].mean(), rcond=None)[0]
    np.testing.assert_allclose(model.embedding_coef_[0] * model.components_[0], w, rtol=1e-5, atol=1e-8)


def test_and_where_many_fit_exactly_the_one_with_most_variance():
    X, y, index = problem("regression", kind="many scales", d=15, n_labelled=5)
    model = PCALS(1, reconstruction=1e-9).fit(X, y)
    R, r = X - X.mean(axis=0), y[index] - y[index].mean()
    np.testing.assert_allclose(model.predict(X[index]), y[index], rtol=1e-4)
    # Directions that fit exactly: the null space of the labelled rows, and the least-squares one.
    V = np.linalg.svd(R[index])[2][5:]
    fit = np.linalg.lstsq(R[index], r, rcond=None)[0]
    basis = np.vstack([V, fit / np.linalg.norm(fit)])
    best = basis.T @ np.linalg.eigh(basis @ R.T @ R @ basis.T)[1][:, -1]
    assert abs(best @ model.components_[0]) >= 1 - 1e-4


def test_no_responses_left_is_pca():
    # One direction fits two labelled rows exactly; the rest is about the rows alone.
    X, y, _ = problem(kind="many scales", n_labelled=2)
    y[np.flatnonzero(~np.isnan(y))] = 0, 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = PCALS(3, reconstruction=1e-6).fit(X, y)
    R = X - X.mean(axis=0)
    R = R - np.outer(R @ model.components_[0], model.components_[0])
    principal = np.linalg.svd(R)[2][:2]
    np.testing.assert_allclose(np.abs((principal * model.components_[1:]).sum(axis=1)), 1, atol=1e-5)


def test_nested_models():
    X, y, _ = problem("multiclass")
    model = PCALS(6).fit(X, y)
    staged = list(model.staged_predict(X))
    assert len(staged) == 6
    for p in (1, 3, 6):
        fewer = PCALS(p).fit(X, y)
        np.testing.assert_allclose(fewer.components_, model.components_[:p], atol=1e-9)
        np.testing.assert_allclose(
            fewer.decision_function(X), model.decision_function(X, n_components=p), atol=1e-8
        )
        np.testing.assert_array_equal(fewer.predict(X), model.predict(X, n_components=p))
        np.testing.assert_array_equal(staged[p - 1], fewer.predict(X))
        np.testing.assert_allclose(fewer.transform(X), model.transform(X, n_components=p), atol=1e-8)
    for p in (0, 7, 2.5):
        with pytest.raises(ValueError, match=r"n_components=.* was given, where 1 to 6 is expected"):
            model.predict(X, n_components=p)


def test_inverse_transform_gives_the_projection_back():
    X, y, _ = problem()
    model = PCALS(4).fit(X, y)
    W = model.components_
    expected = (X - model.mean_) @ W.T @ W + model.mean_
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), expected, atol=1e-10)
    first = (X - model.mean_) @ W[:2].T @ W[:2] + model.mean_
    np.testing.assert_allclose(model.inverse_transform(model.transform(X, 2)), first, atol=1e-10)
    with pytest.raises(ValueError, match="X has 5 columns, where at most 4 are expected"):
        model.inverse_transform(np.ones((3, 5)))


@pytest.mark.parametrize("task", TASKS)
def test_tasks(task):
    X, y, index = problem(task, n_labelled=60)
    model = PCALS(4, refit=True).fit(X, y)
    assert model.task_ == task
    assert model.predict(X).shape == y.shape
    assert model.score(X, y) > (0.25 if task == "multilabel" else 0.4)
    assert hasattr(model, "decision_function") == (task != "regression")
    assert hasattr(model, "classes_") == (task != "regression")
    np.testing.assert_allclose(model.score(X[index], y[index]), model.score(X, y))
    if task == "regression":
        assert not hasattr(model.fit(*problem("binary")[:2]).fit(X, y), "classes_")


def test_several_numbers_and_classes_of_any_kind():
    X, y, _ = problem("regression")
    Y = np.column_stack([y, 2 * y])
    model = PCALS(3, task="regression").fit(X, Y)
    np.testing.assert_allclose(model.predict(X)[:, 1], 2 * model.predict(X)[:, 0])
    X, y, _ = problem("multiclass")
    names = np.array(["a", "b", "c"], dtype=object)
    words = np.array([names[int(v)] if v == v else None for v in y], dtype=object)
    assert set(PCALS(3).fit(X, words).predict(X)) <= set(names)
    whole = PCALS(3, task="regression").fit(X, np.round(10 * X[:, 0]))
    assert whole.task_ == "regression"
    assert PCALS(3).fit(X, np.round(3 * X[:, 0])).task_ == "multiclass"


def test_same_answer_in_every_container(container, many_blocks):
    X, y, _ = problem("multiclass", kind="counts", n=60, d=8, n_labelled=20)
    model, expected = PCALS(3).fit(container.make(X), y), PCALS(3).fit(X, y)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-7)
    np.testing.assert_allclose(
        model.decision_function(container.make(X)), expected.decision_function(X), atol=1e-7
    )
    by_passes = PCALS(3, max_gram_bytes=0).fit(container.make(X), y)
    np.testing.assert_allclose(by_passes.components_, expected.components_, atol=1e-5)


@pytest.mark.parametrize("n_labelled", [20, 100])
def test_one_pass_where_a_matrix_fits_and_one_a_step_where_not(n_labelled):
    d = search.MAX_VECTORS + 6
    X, y, _ = problem(n=100, d=d, n_labelled=n_labelled)
    data = as_rows(X)
    PCALS(5).fit(data, y)
    assert data.n_passes == 1
    cv = as_rows(X)
    PCALS("cv", candidates=[1, 2, 3]).fit(cv, y)
    assert cv.n_passes == 1
    data = as_rows(X)
    model = PCALS(5, max_gram_bytes=d * n_labelled * 8 - 1 if n_labelled == 20 else 0).fit(data, y)
    assert data.n_passes >= model.n_iter_ > 5


@pytest.mark.parametrize(
    ("kind", "d", "n_labelled"), [("counts", 200, 40), ("one-hot", 200, 250), ("decay", 90, 10)]
)
@pytest.mark.parametrize("weight", [1e-6, 0.01, 1.0])
def test_sparse_rows_are_read_again_if_wide_and_maxima_are_global_as_well(kind, d, n_labelled, weight):
    X, y, _ = problem(kind=kind, n=300, d=d, n_labelled=n_labelled)
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.3, X, 0.0)
    data = as_rows(sparse.csr_array(X))
    model = PCALS(2, reconstruction=weight).fit(data, y)
    is_narrow = 300 * data.row_bytes() >= 8 * d * d  # the matrix of products is no larger than X
    assert data.n_passes == 1 if is_narrow else data.n_passes >= model.n_iter_ > 2
    assert_global(model, X, y, lambda *args: naive.best_direction(*args, n_grid=25, n_finer=7))


def test_sparse_rows_with_a_column_far_from_zero_keep_their_digits():
    """Products of sparse rows are centred afterwards, which would cost them eight digits."""
    X, y, _ = problem(kind="one-hot", n=400, d=12, n_labelled=60)
    far = X.copy()
    far[:, 3] += 1e4
    data = as_rows(sparse.csr_array(far))
    model, expected = PCALS(4).fit(data, y), PCALS(4).fit(X, y)
    assert data.n_passes > 1
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-7)


def test_passes_are_fewer_than_a_krylov_method_needs_for_pca_alone():
    X = sparse.random_array((600, 3000), density=5e-3, format="csr", rng=np.random.default_rng(0))
    y = np.full(600, np.nan)
    y[:40] = np.arange(40) % 2
    data, count = as_rows(X), itertools.count()
    PCALS(4).fit(data, y)
    mean = X.mean(axis=0)

    def products(v):
        next(count)
        h = X @ v - mean @ v
        return X.T @ h - mean * h.sum()

    eigsh(LinearOperator((3000, 3000), matvec=products), 4, tol=1e-8)
    assert data.n_passes < next(count)


@pytest.mark.parametrize("d", [2000, 4000])
def test_sparse_rows_stay_sparse_and_nothing_is_d_by_d(d):
    X = sparse.random_array((200, d), density=1e-2, format="csr", rng=np.random.default_rng(0))
    y = np.full(200, np.nan)
    y[:40] = np.arange(40) % 2
    X.data.flags.writeable = False
    tracemalloc.start()
    model = PCALS(2, tol=1e-4).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.components_.shape == (2, d)
    # Of 2,000 columns that would be 32 MB. Two sets of 96 vectors are 3 MB, and twice that while they grow.
    assert peak < 8 * d * 96 * 5
    assert model.score(X, y) > 0.9


def test_float32_stays_float32():
    X, y, _ = problem(kind="decay")
    single = PCALS(3).fit(X.astype(np.float32), y)
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    double = PCALS(3).fit(X, y)
    np.testing.assert_allclose(single.components_, double.components_, atol=1e-4)
    by_passes = PCALS(3, max_gram_bytes=0).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(by_passes.objective_, double.objective_, rtol=1e-5)
    assert (np.diff(by_passes.objective_) < 0).all()


def test_invariances():
    X, y, _ = problem(kind="decay")
    rng = np.random.default_rng(1)
    expected = PCALS(3).fit(X, y).decision_function(X)
    order = rng.permutation(len(X))
    np.testing.assert_allclose(PCALS(3).fit(X[order], y[order]).decision_function(X), expected, atol=1e-7)
    np.testing.assert_allclose(PCALS(3).fit(X + 1e3, y).decision_function(X + 1e3), expected, atol=1e-6)
    Q = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    np.testing.assert_allclose(PCALS(3).fit(X @ Q, y).decision_function(X @ Q), expected, atol=1e-7)
    # Rows in other units are as another weight on them.
    one = PCALS(3, reconstruction=1.0).fit(X, y).decision_function(X)
    np.testing.assert_allclose(
        PCALS(3, reconstruction=1 / 100).fit(10 * X, y).decision_function(10 * X), one, atol=1e-7
    )
    np.testing.assert_allclose(PCALS(3).fit(X, 1 - y).decision_function(X), -expected, atol=1e-7)


def test_random_state_and_clones_repeat():
    X, y, _ = problem(n=200, d=100)
    for seed in (0, 7, np.random.RandomState(0)):
        model = PCALS(3, max_gram_bytes=0, random_state=seed)
        first = clone(model).fit(X, y)
        np.testing.assert_array_equal(first.components_, clone(model).fit(X, y).components_)
    other = PCALS(3, max_gram_bytes=0, random_state=5).fit(X, y)
    np.testing.assert_allclose(other.gains_, first.gains_, rtol=1e-7)


def test_at_home_in_scikit_learn():
    X, y = load_digits(return_X_y=True)
    few = np.where(np.arange(len(y)) < 300, y, -1)
    search_ = GridSearchCV(
        make_pipeline(StandardScaler(), PCALS(4)), {"pcals__reconstruction": [0.1, 1.0]}, cv=3
    )
    search_.fit(X[:400], few[:400])
    assert search_.best_score_ > 0.3
    frame = pd.DataFrame(X[:100], columns=[f"pixel {i}" for i in range(64)])
    model = PCALS(3).set_output(transform="pandas").fit(frame, y[:100])
    assert list(model.transform(frame)) == ["pcals0", "pcals1", "pcals2"]
    two = model.transform(frame, n_components=2)
    assert list(two) == ["pcals0", "pcals1"]
    np.testing.assert_allclose(two, model.transform(frame)[["pcals0", "pcals1"]])
    assert model.feature_names_in_[1] == "pixel 1"


def test_interrupt_keeps_what_was_found(monkeypatch):
    X, y, _ = problem()
    original, calls = search.Search.next_direction, itertools.count(1)

    def interrupted(self, r):
        if next(calls) % 4 == 0:
            raise KeyboardInterrupt
        return original(self, r)

    monkeypatch.setattr(search.Search, "next_direction", interrupted)
    with pytest.raises(KeyboardInterrupt):
        PCALS(6).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="PCALS was interrupted; the 3 components are kept") as caught:
        model = PCALS(6, on_interrupt="keep").fit(X, y)
    assert caught[0].filename == __file__
    assert model.components_.shape == (3, 20)
    # A fold has nothing that is worth keeping.
    with pytest.raises(KeyboardInterrupt):
        PCALS("cv", candidates=[2, 6], on_interrupt="keep").fit(X, y)
    monkeypatch.undo()
    np.testing.assert_array_equal(model.predict(X), PCALS(3).fit(X, y).predict(X))


def test_progress_is_shown(capsys):
    X, y, _ = problem()
    PCALS(4, verbose=1).fit(X, y)
    assert "PCALS" in capsys.readouterr().err


def test_more_components_than_the_rank_are_said_and_dropped():
    X, y, _ = problem(kind="exact rank")
    for options in ({}, {"max_gram_bytes": 0}):
        with pytest.warns(
            UserWarning, match="n_components=9 is more than the rank of X, 6; 6 components are kept"
        ) as caught:
            model = PCALS(9, **options).fit(X, y)
        assert caught[0].filename == __file__
        assert model.components_.shape == (6, 20)
        assert np.abs(model.components_ @ model.components_.T - np.eye(6)).max() <= 1e-10
        R = X - X.mean(axis=0)
        np.testing.assert_allclose(R @ model.components_.T @ model.components_, R, atol=1e-8)


def test_fewer_labels_than_directions_are_said():
    X, y, _ = problem(n_labelled=4)
    with pytest.warns(UserWarning, match="n_components=6 is more than the 4 labelled rows") as caught:
        model = PCALS(6, refit=True).fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert np.isfinite(model.decision_function(X)).all()


def test_constant_columns_do_no_harm():
    X, y, _ = problem(d=10)
    padded = np.hstack([X, np.full((150, 2), 7.0)])
    # "auto" counts columns, whether they vary or not
    expected = PCALS(3, reconstruction=1.0).fit(X, y).decision_function(X)
    for options in ({}, {"max_gram_bytes": 0}):
        model = PCALS(3, reconstruction=1.0, **options).fit(padded, y)
        np.testing.assert_allclose(model.components_[:, 10:], 0, atol=1e-9)
        np.testing.assert_allclose(model.decision_function(padded), expected, atol=1e-5)
    with pytest.raises(ValueError, match="nothing but equal rows, so there is no direction to find"):
        PCALS(2).fit(np.full((20, 3), 2.0), np.arange(20) % 2)
    with pytest.raises(ValueError, match="nothing but zeros, so there is no direction to find"):
        PCALS(2, center=False).fit(np.zeros((20, 3)), np.arange(20) % 2)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_labels_that_no_direction_fits_leave_the_principal_directions(form):
    """Also for more columns than a Gram matrix is factorised for."""
    X = np.random.default_rng(0).standard_normal((620, 600))
    y = np.full(620, np.nan)
    y[:50] = 3.0
    found = PCALS(2, task="regression", reconstruction=1.0).fit(form(X), y).components_
    R = X - X.mean(axis=0)
    expected = np.linalg.svd(R, full_matrices=False)[2][:2]
    np.testing.assert_allclose(np.abs((found * expected).sum(axis=1)), 1, atol=1e-6)
    X[:50], y[:50] = 0, np.arange(50)
    found = PCALS(2, task="regression", reconstruction=1.0, center=False).fit(form(X), y).components_
    expected = np.linalg.svd(X, full_matrices=False)[2][:2]
    np.testing.assert_allclose(np.abs((found * expected).sum(axis=1)), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([-1] * 6, "no labelled row"),
        ([-1, -1, 2, 2, 2, -1], "one class only"),
        ([0, 1, 0], "y has 3 rows and X has 6"),
        (np.full((6, 2), np.nan), "no labelled row"),
        ([0.5, np.nan, np.inf, 1, 2, 3], "inf"),
        (None, "requires y to be passed"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(y, message):
    with pytest.raises(ValueError, match=message) as caught:
        PCALS(1).fit(np.arange(12.0).reshape(6, 2) ** 2, y)
    assert "\n" not in str(caught.value)


def test_other_bad_input_is_refused():
    X, y, _ = problem()
    for options, message in (
        ({"n_components": 0}, "n_components"),
        ({"n_components": "best"}, "n_components"),
        ({"reconstruction": 0.0}, "reconstruction"),
        ({"ridge": -1.0}, "ridge"),
        ({"task": "ranking"}, "task"),
        ({"n_components": "cv", "candidates": []}, "whole numbers of at least 1 are expected"),
        ({"n_components": "cv", "candidates": [0, 2]}, "whole numbers of at least 1 are expected"),
    ):
        with pytest.raises(ValueError, match=message):
            PCALS(**options).fit(X, y)
    holes = X.copy()
    holes[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        PCALS().fit(holes, y)
    with pytest.raises(NotFittedError):
        PCALS().predict(X)
    model = PCALS().fit(X, y)
    with pytest.raises(ValueError, match="20 features"):
        model.predict(X[:, :5])
    two = np.full(150, np.nan)
    two[:2] = 0, 1
    with pytest.raises(ValueError, match="holds out labels and y has 2 labelled rows"):
        PCALS("cv").fit(X, two)


def test_stopped_short_is_said():
    X, y, _ = problem(n=300, d=100)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 steps, short of"):
        PCALS(2, max_iter=1, max_gram_bytes=0, reconstruction=0.01).fit(X, y)


def test_the_users_arrays_are_left_alone():
    X, y, _ = problem()
    S = sparse.csr_array(X)
    for array in (X, y, S.data, S.indices, S.indptr):
        array.flags.writeable = False
    for data, size in itertools.product((X, S), (1 << 29, 0)):
        PCALS(3, max_gram_bytes=size, refit=True).fit(data, y).predict(data)


@pytest.mark.parametrize("task", TASKS)
def test_choosing_how_many(task):
    X, y, _ = problem(task, kind="decay", n_labelled=50)
    model = PCALS("cv", candidates=[1, 2, 4, 8], cv=4, repeats=2).fit(X, y)
    results = model.cv_results_
    assert results["scores"].shape == (8, 4)
    assert results["n_components"].tolist() == [1, 2, 4, 8]
    np.testing.assert_allclose(results["mean_score"], results["scores"].mean(axis=0))
    assert model.n_components_ == results["chosen"] == [1, 2, 4, 8][int(np.argmax(results["mean_score"]))]
    careful = PCALS("cv", candidates=[1, 2, 4, 8], cv=4, repeats=2, one_standard_error=True).fit(X, y)
    best = int(np.argmax(results["mean_score"]))
    good = results["mean_score"] >= results["mean_score"][best] - results["standard_error"][best]
    assert careful.n_components_ == [1, 2, 4, 8][int(np.argmax(good))]
    assert careful.n_components_ <= model.n_components_
    # Rows that folds share between repeats do not count twice.
    np.testing.assert_allclose(results["standard_error"], results["scores"].std(axis=0, ddof=1) / 2)


def test_folds_are_what_fits_on_them_would_be():
    X, y, index = problem(kind="decay", n_labelled=40)
    seen = []

    class Watched(PCALS):
        def _pursue(self, data, which, k, callback=None):
            seen.append((which, k))
            return super()._pursue(data, which, k, callback)

    model = Watched("cv", candidates=[2, 3, 5], cv=4, repeats=2).fit(X, y)
    assert [k for _, k in seen] == [5] * 8 + [model.n_components_]  # one fit a fold, and the last
    assert {tuple(which) for which, _ in seen[:4]} != {tuple(which) for which, _ in seen[4:8]}
    for (which, _), row in zip(seen[:-1], model.cv_results_["scores"], strict=True):
        held = np.setdiff1d(np.arange(40), which)
        fold = y.copy()
        fold[index[held]] = np.nan
        counts = np.bincount(y[index[held]].astype(int), minlength=2)
        assert abs(counts - np.bincount(y[index].astype(int)) / 4).max() < 1  # classes are spread evenly
        for p, score in zip([2, 3, 5], row, strict=True):
            probability = PCALS(p).fit(X, fold).predict_proba(X[index[held]])
            truth = y[index[held]].astype(int)
            assert -log_loss(truth, probability, labels=[0, 1]) == pytest.approx(score)


def test_cv_default_candidates_and_small_ranks():
    X, y, _ = problem(kind="exact rank", n_labelled=30)
    model = PCALS("cv").fit(X, y)
    assert model.cv_results_["n_components"].tolist() == list(range(1, 33))
    assert len(model.cv_results_["scores"]) == 3 * 5
    assert model.n_components_ <= 6
    fully = PCALS("cv", max_gram_bytes=0, candidates=[1, 2]).fit(X, (X[:, 0] > 0).astype(int))
    assert fully.n_components_ in (1, 2)


@pytest.mark.parametrize("n_labelled", [4, 5, 7])
def test_cv_of_few_numbers_scores_every_fold(n_labelled):
    X, y, _ = problem("regression", kind="decay", n_labelled=n_labelled)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PCALS("cv", candidates=[1, 2], one_standard_error=True).fit(X, y)
    assert model.cv_results_["scores"].shape == (3 * (n_labelled // 2), 2)
    assert np.isfinite(model.cv_results_["scores"]).all()
    with pytest.raises(ValueError, match="y has 3 labelled rows; label 4 or more"):
        PCALS("cv").fit(X, problem("regression", kind="decay", n_labelled=3)[1])


@pytest.mark.filterwarnings("error")
def test_cv_of_equal_rows_says_only_that():
    with pytest.raises(ValueError, match="nothing but equal rows, so there is no direction to find"):
        PCALS("cv").fit(np.ones((20, 3)), np.arange(20) % 2)


@pytest.mark.parametrize("in_folds", [64, 120])
@pytest.mark.parametrize("n_unlabelled", [0, 1])
def test_cv_of_more_labelled_rows_than_fit_draws_some_of_every_class(monkeypatch, n_unlabelled, in_folds):
    """Rows are often sorted by class: the first that fit would all be of one."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 200)
    X = rng.standard_normal((400, 5)) + y[:, None]
    y[:n_unlabelled] = -1
    data, taken = as_rows(X), []
    original = type(data).take
    monkeypatch.setattr(type(data), "take", lambda self, at: taken.append(len(at)) or original(self, at))
    model = PCALS("cv", candidates=[1, 2], max_gram_bytes=8 * 5 * in_folds).fit(data, y)
    assert max(taken) <= in_folds
    assert model.cv_results_["mean_score"].max() < 1
    assert model.score(X, y) > 0.8


def test_gain_counts_what_a_direction_brings():
    X, y, index = problem()
    w = np.random.default_rng(0).standard_normal(20)
    r = centred_responses(y)
    assert gain(X, w, r, index, reconstruction=0.3) == pytest.approx(naive.gain(w, X, index, r, 0.3))


@pytest.mark.parametrize(("d", "n_labelled", "size"), [(5, 20, 5), (40, 10, 40), (90, 10, 60)])
@pytest.mark.parametrize("max_gram_bytes", [1e9, 0])
def test_automatic_weight_is_in_units_of_rows_and_labels(d, n_labelled, size, max_gram_bytes):
    X, y, _ = problem(n=60, d=d, n_labelled=n_labelled)
    r = centred_responses(y)
    expected = 100 * (r**2).mean(axis=0).sum() / (60 * X.var(axis=0).sum() / size)
    model = PCALS(1, max_gram_bytes=max_gram_bytes).fit(X, y)
    assert model.reconstruction_ == pytest.approx(expected)
    given = PCALS(1, reconstruction=expected, max_gram_bytes=max_gram_bytes).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), given.decision_function(X), atol=1e-6)
