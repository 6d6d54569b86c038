"""SSNMF and CNMF: the papers' own updates, objectives, stationary points, every container, and what they refuse."""

import inspect
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import reference.squared_nmf as naive
from labelfold.factorization import _cnmf as cnmf, _ssnmf as ssnmf
from labelfold.factorization._cnmf import CNMF
from labelfold.factorization._squared_nmf import multiplied
from labelfold.factorization._ssnmf import SSNMF
from labelfold.labels import read_labels
from labelfold.rows import as_rows

TASKS = ["binary", "multiclass", "multilabel"]
MODELS = [SSNMF, CNMF]
ROUNDS = inspect.signature(multiplied).parameters["rounds"].default
pytestmark = pytest.mark.filterwarnings(
    "ignore:(SSNMF|CNMF) stopped after:sklearn.exceptions.ConvergenceWarning"
)


def problem(task="multiclass", seed=0, n=50, d=12, n_labelled=20, dtype=np.float64):
    """Non-negative rows of about rank 3, some entries 0, a few of them labelled."""
    rng = np.random.default_rng(seed)
    Z = np.abs(rng.standard_normal((n, 3)))
    X = Z @ np.abs(rng.standard_normal((3, d))) + 0.5 * rng.standard_normal((n, d))
    X[X < 0.5] = 0
    index = np.sort(rng.permutation(n)[:n_labelled])
    side = Z - np.median(Z, axis=0)
    if task == "multilabel":
        y = np.full((n, 3), np.nan)
        y[index] = side[index] > 0
    else:
        y = np.full(n, np.nan)
        y[index] = (side[index, 0] > 0) if task == "binary" else side[index].argmax(axis=1)
    return X.astype(dtype), y, index


def indicator(y):
    return read_labels(y, allowed=TASKS).indicator()


def given(X, k=3, seed=5):
    rng = np.random.default_rng(seed)
    return rng.random((X.shape[0], k)), rng.random((X.shape[1], k))


def value(model, X, y):
    """Return the objective of a fitted model."""
    labels = read_labels(y, allowed=TASKS)
    H, V = model.embedding_.astype(float), model.components_.T
    if isinstance(model, CNMF):
        return cnmf.objective(X, H, V)
    factors = H, V, model.class_loadings_
    return ssnmf.objective(X, *factors, labels.indicator(), labels.index, supervision=model.supervision_)


def rises(model):
    f = model.objective_
    return (np.diff(f) / np.abs(f[1:])).max(initial=-np.inf)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("lam", [0.0, 0.5, 20.0])
@pytest.mark.parametrize("k", [3, 7])
def test_ssnmf_makes_the_papers_updates(task, lam, k):
    X, y, index = problem(task)
    H, V = given(X, k)
    Y = indicator(y)
    A = np.full((k, Y.shape[1]), 1 / (Y.shape[1] * H[index].sum(axis=1).mean()))
    H, V, A, values = naive.ssnmf(X, Y, index, H, V, A, lam, 12, ROUNDS)
    model = SSNMF(k, supervision=lam, init=given(X, k), max_iter=12, tol=0).fit(X, y)
    np.testing.assert_allclose(model.objective_, values, rtol=1e-10)
    np.testing.assert_allclose(model.embedding_, H, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.components_, V.T, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.class_loadings_, A, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(value(model, X, y), values[-1], rtol=1e-10)


@pytest.mark.parametrize("task", TASKS)
def test_cnmf_makes_the_papers_updates(task):
    X, y, index = problem(task)
    H, V = given(X)
    Y = indicator(y)
    Q = Y.T @ H[index] / Y.sum(axis=0)[:, None]
    H, V, Q, values = naive.cnmf(X, Y, index, H, V, Q, 12, ROUNDS)
    model = CNMF(3, init=given(X), max_iter=12, tol=0).fit(X, y)
    np.testing.assert_allclose(model.objective_, values, rtol=1e-10)
    np.testing.assert_allclose(model.embedding_, H, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.components_, V.T, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.class_embedding_, Q, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(value(model, X, y), values[-1], rtol=1e-10)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("init", ["random", "nndsvda"])
@pytest.mark.parametrize(("dtype", "bound"), [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_the_objective_never_rises_and_is_what_it_says(make, task, init, dtype, bound):
    X, y, _ = problem(task, n=80, dtype=dtype)
    model = make(4, init=init, max_iter=150, tol=0).fit(X, y)
    assert len(model.objective_) == model.n_iter_ > 10
    assert rises(model) <= bound
    np.testing.assert_allclose(
        model.objective_[-1], value(model, X.astype(float), y), rtol=1e-10 if dtype is np.float64 else 1e-5
    )
    assert model.embedding_.min() >= 0
    assert model.components_.min() >= 0
    assert model.embedding_.dtype == model.transform(X).dtype == dtype


def test_rows_of_low_rank_are_fitted_to_round_off():
    """Where the objective falls to 0 its own round-off is the end, not a rise."""
    rng = np.random.default_rng(0)
    X = rng.random((30, 2)) @ rng.random((2, 8))
    y = np.where(np.arange(30) < 10, np.arange(30) % 2, -1)
    model = SSNMF(2, supervision=0.0, max_iter=20_000, tol=0).fit(X, y)
    assert (np.diff(model.objective_) <= 0).all()
    assert model.objective_[-1] < 1e-6 * np.sum(X**2)


def kkt(gradient, factor):
    """Return how far a factor is from stationary: no gradient where it is above 0, none downwards where it is 0."""
    return max(np.abs(gradient * factor).max(), -gradient.min() * factor.max())


@pytest.mark.parametrize("task", TASKS)
def test_the_end_of_ssnmf_is_stationary(task):
    X, y, index = problem(task)
    lam, Y = 2.0, indicator(y)
    model = SSNMF(2, supervision=lam, max_iter=20_000, tol=1e-13).fit(X, y)
    H, V, A = model.embedding_, model.components_.T, model.class_loadings_
    R, S = H @ V.T - X, np.zeros((len(X), Y.shape[1]))
    S[index] = H[index] @ A - Y
    bound = 1e-4 * np.sum(X**2) / len(X)
    assert kkt(R @ V + lam * S @ A.T, H) < bound
    assert kkt(R.T @ H, V) < bound
    assert kkt(lam * H.T @ S, A) < bound


@pytest.mark.parametrize("task", TASKS)
def test_the_end_of_cnmf_is_stationary(task):
    X, y, index = problem(task)
    model = CNMF(2, max_iter=20_000, tol=1e-13).fit(X, y)
    H, V, Q = model.embedding_, model.components_.T, model.class_embedding_
    R = H @ V.T - X
    free = np.setdiff1d(np.arange(len(X)), index)
    bound = 1e-4 * np.sum(X**2) / len(X)
    assert kkt(indicator(y).T @ (R @ V)[index], Q) < bound
    assert kkt((R @ V)[free], H[free]) < bound
    assert kkt(R.T @ H, V) < bound


def test_without_supervision_it_is_plain_nmf():
    X, y, _ = problem()
    start = given(X)
    other = np.where(np.isnan(y), np.nan, 2 - y)
    model = SSNMF(3, supervision=0.0, init=start, max_iter=300, tol=0).fit(X, y)
    again = SSNMF(3, supervision=0.0, init=start, max_iter=300, tol=0).fit(X, other)
    np.testing.assert_array_equal(model.embedding_, again.embedding_)
    np.testing.assert_array_equal(model.components_, again.components_)
    plain = NMF(3, init="custom", solver="mu", max_iter=3000, tol=0)
    W = plain.fit_transform(X, W=start[0].copy(), H=start[1].T.copy())
    theirs = np.sum((X - W @ plain.components_) ** 2)
    np.testing.assert_allclose(model.objective_[-1], theirs, rtol=1e-3)


def test_cnmf_with_every_row_in_its_own_class_is_plain_nmf():
    X, _, _ = problem(n=20)
    start = given(X)
    model = CNMF(3, init=start, max_iter=50, tol=0).fit(X, np.arange(20))
    free = SSNMF(3, supervision=0.0, init=start, max_iter=50, tol=0).fit(X, np.arange(20) % 2)
    np.testing.assert_allclose(model.objective_, free.objective_, rtol=1e-9)
    np.testing.assert_allclose(model.embedding_, free.embedding_, rtol=1e-6, atol=1e-9)


def test_a_heavy_supervision_fits_the_labels():
    X, y, index = problem()
    errors = []
    for lam in (0.01, 1e4):
        model = SSNMF(3, supervision=lam, max_iter=400).fit(X, y)
        errors.append(np.sum((model.embedding_[index] @ model.class_loadings_ - indicator(y)) ** 2))
    assert errors[1] < 0.05 * errors[0]
    np.testing.assert_array_equal(model.transduction_[index], y[index])


@pytest.mark.parametrize("task", TASKS)
def test_labelled_rows_of_cnmf_share_the_place_of_their_class(task):
    X, y, index = problem(task)
    model = CNMF(3, max_iter=50).fit(X, y)
    np.testing.assert_array_equal(model.embedding_[index], indicator(y) @ model.class_embedding_)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("task", TASKS)
def test_the_same_answer_in_every_container(container, make, task):
    X, y, _ = problem(task)
    held = container.make(X)
    model, dense = (make(3, init=given(X), max_iter=15, tol=0).fit(Z, y) for Z in (held, X))
    np.testing.assert_allclose(model.objective_, dense.objective_, rtol=1e-9)
    np.testing.assert_allclose(model.components_, dense.components_, atol=1e-8)
    np.testing.assert_allclose(model.embedding_, dense.embedding_, atol=1e-8)
    rows = as_rows(held)
    np.testing.assert_allclose(rows.get(model.transform(held)), dense.transform(X), atol=1e-7)
    if make is SSNMF:
        np.testing.assert_array_equal(model.predict(held), dense.predict(X))
        np.testing.assert_array_equal(model.transduction_, dense.transduction_)


@pytest.mark.parametrize(("make", "others"), [(SSNMF, 1), (CNMF, 2)])
def test_one_pass_over_x_an_iteration(container, make, others):
    X, y, _ = problem()
    rows = as_rows(container.make(X))
    make(3, max_iter=9, tol=0).fit(rows, y)
    assert rows.n_passes == 9 + others  # the check; CNMF's sums by class
    rows = as_rows(container.make(X))
    CNMF(3, max_iter=9, tol=0).fit(rows, np.arange(len(X)) % 3)
    assert rows.n_passes == 2


@pytest.mark.parametrize("make", MODELS)
def test_sparse_blocks_through_compiled_kernels_and_threads(many_blocks, compiled_kernels, make):
    X, y, _ = problem()
    model, dense = (make(3, init=given(X), max_iter=15, tol=0).fit(Z, y) for Z in (sparse.csr_array(X), X))
    np.testing.assert_allclose(model.objective_, dense.objective_, rtol=1e-9)
    np.testing.assert_allclose(model.embedding_, dense.embedding_, atol=1e-8)
    np.testing.assert_allclose(model.transform(sparse.csr_array(X)), dense.transform(X), atol=1e-8)


@pytest.mark.parametrize("make", MODELS)
def test_sparse_rows_are_never_made_dense(make):
    rng = np.random.default_rng(0)
    n, d, k = 2000, 5000, 4
    X = sparse.random_array((n, d), density=0.002, rng=rng, format="csr")
    y = np.where(rng.random(n) < 0.1, np.arange(n) % 3, -1)
    make(k, max_iter=2).fit(X, y)  # compiled beforehand
    tracemalloc.start()
    model = make(k, max_iter=5).fit(X, y)
    model.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * d * 8 / 20


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("held", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("init", ["random", "nndsvda"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_zero_rows_zero_columns_and_multiples(make, held, init, dtype):
    X, y, index = problem(dtype=dtype)
    free = np.setdiff1d(np.arange(50), index)
    X[[free[0], index[0]]] = 0
    X[:, [2, 7]] = 0
    X[free[1]] = 3 * X[free[2]]
    X[index[1]] = 2 * X[free[2]]
    model = make(4, init=init, max_iter=400, tol=0).fit(held(X), y)
    for array in (model.embedding_, model.components_, model.objective_, model.transform(held(X))):
        assert np.isfinite(array).all()
        assert array.min() >= 0
    np.testing.assert_array_equal(model.embedding_[free[0]], 0)
    np.testing.assert_array_equal(model.components_[:, [2, 7]], 0)
    np.testing.assert_array_equal(model.transform(held(X))[[free[0], index[0]]], 0)
    assert rises(model) <= (1e-10 if dtype is np.float64 else 1e-5)


@pytest.mark.parametrize("make", MODELS)
def test_transform_places_each_row_by_itself_at_its_minimum(make, rng):
    X, y, _ = problem()
    model = make(4, max_iter=100).fit(X, y)
    new = np.abs(rng.standard_normal((20, X.shape[1])))
    H, V = model.transform(new), model.components_.T
    assert H.min() >= 0
    gradient = (H @ V.T - new) @ V
    np.testing.assert_allclose(np.where(H > 0, gradient, np.minimum(gradient, 0)), 0, atol=1e-8)
    np.testing.assert_allclose(np.vstack([model.transform(x[None]) for x in new]), H, atol=1e-10)
    np.testing.assert_allclose(model.inverse_transform(H), H @ V.T, atol=1e-12)
    np.testing.assert_array_equal(make(4).fit_transform(X, y), make(4).fit(X, y).transform(X))
    names = [f"{make.__name__.lower()}{i}" for i in range(4)]
    assert model.get_feature_names_out().tolist() == names


@pytest.mark.parametrize("make", MODELS)
def test_rows_permuted_columns_permuted_labels_renamed(make, rng):
    X, y, _ = problem("multiclass")
    H, V = given(X)
    model = make(3, init=(H, V), max_iter=20, tol=0).fit(X, y)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    moved = make(3, init=(H[rows], V[columns]), max_iter=20, tol=0).fit(X[rows][:, columns], y[rows])
    np.testing.assert_allclose(moved.embedding_, model.embedding_[rows], atol=1e-8)
    np.testing.assert_allclose(moved.components_, model.components_[:, columns], atol=1e-8)
    words = np.array(["x", "y", "z", None], dtype=object)[np.where(np.isnan(y), 3, y).astype(int)]
    named = make(3, init=(H, V), max_iter=20, tol=0).fit(X, words)
    np.testing.assert_array_equal(named.embedding_, model.embedding_)
    assert named.classes_.tolist() == ["x", "y", "z"]


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_unit_of_x_only_scales(make, scale):
    X, y, _ = problem()
    options = {} if make is CNMF else {"supervision": 0.0}
    model = make(3, max_iter=30, tol=0, **options).fit(X, y)
    other = make(3, max_iter=30, tol=0, **options).fit(X * scale, y)
    np.testing.assert_allclose(other.objective_ / scale**2, model.objective_, rtol=1e-8)
    np.testing.assert_allclose(
        other.inverse_transform(other.embedding_) / scale, model.embedding_ @ model.components_
    )


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, bool])
def test_counts_of_any_dtype(make, dtype):
    X, y, _ = problem()
    counts = (X * (1 if dtype is bool else 3)).astype(dtype)
    expected = make(3, max_iter=10).fit(counts.astype(float), y)
    for held in (counts, sparse.csr_array(counts)):
        model = make(3, max_iter=10).fit(held, y)
        np.testing.assert_allclose(model.objective_, expected.objective_, rtol=1e-10)


@pytest.mark.parametrize("make", MODELS)
def test_features_by_name(make):
    X, y, _ = problem()
    frame = pd.DataFrame(X, columns=[f"word {j}" for j in range(12)])
    model = make(3, max_iter=20).fit(frame, y)
    best = model.top_features(4)
    assert [len(one) for one in best] == [4, 4, 4]
    for weights, one in zip(model.components_, best, strict=True):
        assert [name for name, _ in one] == [f"word {j}" for j in np.argsort(-weights)[:4]]
    with pytest.raises(ValueError, match="feature_names holds 2 names, where 12 are expected"):
        model.top_features(feature_names=["a", "b"])


@pytest.mark.parametrize("task", TASKS)
def test_predictions_are_the_largest_class_weight(task):
    X, y, index = problem(task)
    model = SSNMF(4, max_iter=50).fit(X, y)
    Y = model.transform(X) @ model.class_loadings_
    expected = (Y > 0.5).astype(int) if task == "multilabel" else model.classes_[Y.argmax(axis=1)]
    np.testing.assert_array_equal(model.predict(X), expected)
    scores = {"binary": Y[:, 1:] - Y[:, :1], "multiclass": Y, "multilabel": Y - 0.5}[task]
    np.testing.assert_allclose(model.decision_function(X).reshape(scores.shape), scores, atol=1e-12)
    hits = (expected[index] == y[index]).reshape(len(index), -1).all(axis=1)
    score = (
        np.mean(hits)
        if np.ndim(y) == 1
        else f1_score(y[index].astype(int), model.predict(X)[index], average="micro")
    )
    assert model.score(X, y) == pytest.approx(score)
    np.testing.assert_array_equal(model.transduction_[index], y[index])


def test_a_table_with_names_is_used_without_a_word():
    X, y, _ = problem()
    frame = pd.DataFrame(X, columns=[f"word {j}" for j in range(12)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SSNMF(3, tol=1e-2).fit(frame, y)
        model.predict(frame)
        model.transform(frame)


def test_in_a_pipeline_with_a_classifier():
    X, _, _ = problem(n=90)
    y = np.arange(90) % 2
    pipeline = make_pipeline(CNMF(3, max_iter=20), LinearSVC()).fit(X, y)
    assert pipeline.predict(X).shape == (90,)


@pytest.mark.parametrize("make", MODELS)
def test_more_components_than_rows_or_columns_are_said(make):
    X, y, _ = problem()
    with pytest.warns(UserWarning, match="n_components=20 is more than the rank of X, at most 12"):
        model = make(20, max_iter=50).fit(X, y)
    assert model.components_.shape == (20, 12)
    assert rises(model) <= 1e-10
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize("make", MODELS)
def test_progress_and_stopping_short_are_shown(make, capsys):
    X, y, _ = problem()
    with pytest.warns(ConvergenceWarning, match=r"stopped after 3 iterations, short of tol=1.0e-04; raise"):
        make(3, max_iter=3, verbose=1).fit(X, y)
    assert make.__name__ in capsys.readouterr().err


@pytest.mark.parametrize("make", MODELS)
def test_an_interrupt_ends_the_fit_or_keeps_what_there_is(make, monkeypatch, ctrl_c):
    X, y, _ = problem()
    calls = []

    def interrupt(bar, iteration, value):
        calls.append(iteration)
        if iteration == 4:
            ctrl_c()

    monkeypatch.setattr("labelfold.base._descent.Progress.__call__", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make(3, tol=0).fit(X, y)
    with pytest.warns(
        ConvergenceWarning, match="was interrupted; what its first 4 iterations reached is kept"
    ):
        model = make(3, tol=0, on_interrupt="keep").fit(X, y)
    np.testing.assert_allclose(value(model, X, y), model.objective_[-1], rtol=1e-10)


@pytest.mark.parametrize("make", MODELS)
def test_bad_input_is_refused(make, container):
    X, y, _ = problem()
    name = make.__name__
    bad = X.copy()
    bad[4, 7] = -0.25
    with pytest.raises(
        ValueError, match=f"Negative values in data passed to {name}: X holds -0.25 at row 4, column 7"
    ):
        make(3).fit(container.make(bad), y)
    model = make(3, max_iter=5).fit(X, y)
    with pytest.raises(ValueError, match=r"X holds -0\.25 at row 4, column 7"):
        model.transform(container.make(bad))
    with pytest.raises(ValueError, match="nothing but zeros"):
        make(3).fit(container.make(np.zeros((50, 12))), y)


@pytest.mark.parametrize("make", MODELS)
def test_other_bad_input_is_refused(make):
    X, y, _ = problem()
    H, V = given(X)
    for init, message in (
        ((V, H), "where factors of shapes"),
        ((-H, V), "init holds negative numbers"),
        ((H * np.nan, V), "init holds NaN"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            make(3, init=init).fit(X, y)
        assert "\n" not in str(caught.value)
    for labels, message in (
        (np.full(50, -1), "no labelled row"),
        (np.where(np.isnan(y), -1, 2), "one class only"),
        (y[:5], "y has 5 rows and X has 50"),
        (None, "requires y to be passed"),
    ):
        with pytest.raises(ValueError, match=message):
            make(3).fit(X, labels)
    with pytest.raises(ValueError, match="n_components"):
        make(0).fit(X, y)
    with pytest.raises(ValueError, match="'supervision' parameter of SSNMF must be a float in the range"):
        SSNMF(3, supervision=-1.0).fit(X, y)
    with pytest.raises(NotFittedError):
        make(3).transform(X)
    model = make(3, max_iter=5).fit(X, y)
    with pytest.raises(ValueError, match="X has 2 columns, where 3 are expected"):
        model.inverse_transform(np.ones((4, 2)))


@pytest.mark.parametrize("make", MODELS)
def test_the_users_arrays_are_left_alone(make):
    X, y, _ = problem()
    start = given(X)
    S = sparse.csr_array(X)
    for array in (X, y, *start, S.data, S.indices, S.indptr):
        array.flags.writeable = False
    for data in (X, S):
        make(3, init=start, max_iter=3).fit(data, y).transform(data)
