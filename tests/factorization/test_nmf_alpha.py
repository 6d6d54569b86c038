"""NMFAlpha: the paper's loss and updates, directions from dual variables, every container, and what it refuses."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from labelfold import CNMF, KLNMF, SSNMF, NMFAlpha
from labelfold.app.io._models import load_model, save_model
from labelfold.factorization._dual_directions import dual_directions
from labelfold.factorization._nmf_alpha import objective
from labelfold.labels import read_labels
from labelfold.rows import as_rows
from reference.nmf_alpha import iterate, loss, update_H, update_V

TASKS = ["binary", "multiclass", "multilabel"]
pytestmark = pytest.mark.filterwarnings(
    "ignore:(NMFAlpha|KLNMF|SSNMF|CNMF) stopped after:sklearn.exceptions.ConvergenceWarning",
)


def problem(task="binary", seed=0, n=60, d=25, n_labelled=24, dtype=np.float64):
    """Counts from three parts, some rows labelled by the parts they have."""
    rng = np.random.default_rng(seed)
    Z = rng.gamma(0.4, 3.0, (n, 3))
    X = rng.poisson(Z @ rng.gamma(0.4, 2.0, (3, d)) + 0.1).astype(dtype)
    index = np.sort(rng.permutation(n)[:n_labelled])
    side = Z - np.median(Z, axis=0)
    if task == "multilabel":
        y = np.full((n, 3), np.nan)
        y[index] = side[index] > 0
    else:
        y = np.full(n, np.nan)
        y[index] = (side[index, 0] > 0) if task == "binary" else side[index].argmax(axis=1)
    return X, y, index


def plain_places(model):
    """Return H, from places that may be corrected."""
    if not model.corrected:
        return model.embedding_
    return np.linalg.lstsq(model._root(), model.embedding_.T, rcond=None)[0].T


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_the_directions_are_those_of_the_machines(task, multiclass):
    X, y, index = problem(task)
    labels = read_labels(y, allowed=TASKS)
    S = dual_directions(X[index], labels, 0.5, multiclass).toarray()
    p = S.shape[1] // 2
    assert S.min() >= 0
    if task == "multiclass" and multiclass == "ovo":
        codes = labels.values
        machines = [
            (np.isin(codes, pair), np.where(codes == pair[1], 1, -1))
            for pair in itertools.combinations(range(3), 2)
        ]
    else:
        signs = labels.signs()
        machines = [(np.ones(len(index), dtype=bool), sign) for sign in signs.T]
    assert p == len(machines)
    for j, (which, sign) in enumerate(machines):
        svm = LinearSVC(C=0.5, fit_intercept=False, tol=1e-10, max_iter=100_000)
        w = svm.fit(X[index][which], sign[which]).coef_[0]
        np.testing.assert_allclose(X[index].T @ (S[:, j] - S[:, p + j]), w, atol=2e-3 * np.abs(w).max())
        assert not S[~which][:, [j, p + j]].any()
        assert not S[sign < 0, j].any()
        assert not S[sign > 0, p + j].any()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_the_objective_never_rises_and_is_what_it_says(task, make):
    X, y, index = problem(task)
    model = NMFAlpha(4, supervision=30.0, max_iter=60, tol=0).fit(make(X), y)
    assert len(model.objective_) == model.n_iter_ == 60
    assert (np.diff(model.objective_) <= 0).all()
    H, V, S = plain_places(model), model.components_.T, model.dual_coef_
    assert S.shape[0] == len(X)
    assert set(np.flatnonzero(np.diff(S.indptr))) <= set(index)
    np.testing.assert_allclose(
        model.objective_[-1], loss(X.T, V, np.maximum(H, 1e-300).T, S.toarray(), 30.0), rtol=1e-6
    )
    model = NMFAlpha(4, supervision=30.0, max_iter=60, tol=0, corrected=False).fit(make(X), y)
    H = model.embedding_
    assert H.min() >= 0
    assert V.min() >= 0
    np.testing.assert_allclose(
        model.objective_[-1], objective(make(X), H, V, S, supervision=30.0), rtol=1e-12
    )
    np.testing.assert_allclose(model.objective_[-1], loss(X.T, V, H.T, S.toarray(), 30.0), rtol=1e-12)


def test_not_above_the_papers_own_updates():
    X, y, _ = problem("multiclass")
    rng = np.random.default_rng(0)
    H, V = rng.random((len(X), 4)) + 0.5, rng.random((X.shape[1], 4)) + 0.5
    model = NMFAlpha(4, supervision=10.0, init=(H, V), max_iter=60, tol=0).fit(X, y)
    *_, values = iterate(X.T, V, H.T, model.dual_coef_.toarray(), 10.0, 60)
    assert model.objective_[-1] <= values[-1] * (1 + 1e-3)
    np.testing.assert_allclose(model.objective_[0], values[0], rtol=1e-10)


def test_the_end_is_stationary():
    X, y, _ = problem("multiclass", n=30, d=12)
    X += 0.1
    options = {"corrected": False, "supervision": 5.0}
    model = NMFAlpha(2, max_iter=20_000, tol=1e-15, **options).fit(X, y)
    H, V, S = model.embedding_.T, model.components_.T, model.dual_coef_.toarray()
    np.testing.assert_allclose(update_V(X.T, V, H, S, 5.0), V, atol=1e-5 * V.max())
    np.testing.assert_allclose(update_H(X.T, V, H, S, 5.0), H, atol=1e-5 * H.max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_supervision_is_klnmf_to_the_bit(container, dtype):
    X, y, _ = problem(dtype=dtype)
    held = container.make(X)
    model = NMFAlpha(3, supervision=0, max_iter=8, corrected=False).fit(held, y)
    plain = KLNMF(3, max_iter=8).fit(held)
    np.testing.assert_array_equal(model.components_, plain.components_)
    np.testing.assert_array_equal(model.embedding_, plain.embedding_)
    # a sum of 8-byte numbers in vectors depends in its last digit on where the array begins
    np.testing.assert_allclose(model.objective_, plain.objective_, rtol=1e-14)
    placed = [as_rows(held).get(one.transform(held)) for one in (model, plain)]
    np.testing.assert_array_equal(*placed)
    assert model.embedding_.dtype == placed[0].dtype == dtype


def test_float32_never_rises_in_any_container(container):
    X, y, _ = problem("multiclass", dtype=np.float32)
    X[4], X[:, 6] = 0, 0
    held = container.make(X)
    model = NMFAlpha(3, supervision=20.0, max_iter=20, tol=0, corrected=False).fit(held, y)
    assert (np.diff(model.objective_) <= 0).all()
    exact = objective(X, model.embedding_, model.components_.T, model.dual_coef_, supervision=20.0)
    np.testing.assert_allclose(model.objective_[-1], exact, rtol=1e-5)
    for factor in (model.embedding_, model.components_, as_rows(held).get(model.transform(held))):
        assert np.isfinite(factor).all()
        assert factor.min() >= 0
    assert not model.embedding_[4].any()
    assert not model.components_[:, 6].any()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int32, np.int64, np.uint64, bool])
@pytest.mark.parametrize("task", TASKS)
def test_counts_of_any_dtype(dtype, task):
    X, y, _ = problem(task)
    X = np.minimum(X, 100).astype(dtype)
    options = {"supervision": 5.0, "max_iter": 8, "tol": 0}
    expected = NMFAlpha(3, **options).fit(X.astype(np.float64), y)
    for held in (X, sparse.csr_array(X)):
        model = NMFAlpha(3, **options).fit(held, y)
        assert model.embedding_.dtype == np.float64
        # Machines stop at a gap, not at a point, so that dual variables agree to the root of it.
        np.testing.assert_allclose(model.objective_, expected.objective_, rtol=1e-5)
        np.testing.assert_allclose(model.transform(held), model.transform(X.astype(float)), atol=1e-2)


def test_supervision_keeps_the_directions():
    """The heavier the second term, the smaller its divergence in the end."""
    X, y, _ = problem("multiclass", n=120, d=40)
    begun = NMFAlpha(3, supervision="auto", max_iter=1).fit(X, y)
    S, left = begun.dual_coef_, []
    for weight in (0.0, 1.0, 30.0):
        supervision = weight * begun.supervision_
        model = NMFAlpha(3, supervision=supervision, corrected=False, max_iter=200).fit(X, y)
        left.append(
            objective(X, model.embedding_, model.components_.T, S, supervision=1.0)
            - objective(X, model.embedding_, model.components_.T, S, supervision=0.0)
        )
    assert left[0] > 2 * left[1]
    assert left[1] > 1.5 * left[2]


@pytest.mark.parametrize("task", TASKS)
def test_the_same_answer_in_every_container(container, task):
    X, y, _ = problem(task)
    rng = np.random.default_rng(3)
    start = rng.random((len(X), 3)) + 0.1, rng.random((X.shape[1], 3)) + 0.1
    options = {"supervision": 20.0, "init": start, "max_iter": 12, "tol": 0}
    dense, held = NMFAlpha(3, **options).fit(X, y), container.make(X)
    model = NMFAlpha(3, **options).fit(held, y)
    # Machines stop at a gap, not at a point, so that dual variables agree to the root of it.
    np.testing.assert_allclose(model.objective_, dense.objective_, rtol=1e-5)
    np.testing.assert_allclose(model.components_, dense.components_, atol=1e-4 * dense.components_.max())
    np.testing.assert_allclose(model.embedding_, dense.embedding_, atol=1e-4 * dense.embedding_.max())
    placed = as_rows(held).get(model.transform(held))
    np.testing.assert_allclose(placed, dense.transform(X), atol=1e-2 * dense.embedding_.max())


def test_one_pass_over_x_an_iteration(container):
    X, y, _ = problem("multiclass")
    rows = as_rows(container.make(X))
    NMFAlpha(3, max_iter=6, tol=0).fit(rows, y)
    assert rows.n_passes == 6 + 1  # and the sums of X


def test_float32_stays_float32():
    X, y, _ = problem("multiclass", dtype=np.float32)
    for make in (np.array, sparse.csr_array):
        model = NMFAlpha(3, supervision=10.0, max_iter=60, tol=0).fit(make(X), y)
        assert model.embedding_.dtype == model.transform(make(X)).dtype == np.float32
        assert model.inverse_transform(model.embedding_).dtype == np.float32
        f = model.objective_
        assert (np.diff(f) <= 1e-5 * f[1:]).all()
        exact = NMFAlpha(3, supervision=10.0, max_iter=60, tol=0).fit(make(X.astype(float)), y).objective_
        np.testing.assert_allclose(f[-1], exact[-1], rtol=5e-2)


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
@pytest.mark.parametrize("task", TASKS)
def test_zero_rows_zero_columns_and_multiples(make, task):
    X, y, index = problem(task)
    X[index[0]], X[1], X[:, 6] = 0, 0, 0
    X[index[2]] = 3 * X[index[1]]
    model = NMFAlpha(3, supervision=50.0, corrected=False, max_iter=100).fit(make(X), y)
    for factor in (model.embedding_, model.components_, model.transform(make(X)), model.objective_):
        assert np.isfinite(factor).all()
        assert factor.min() >= 0
    assert not model.components_[:, 6].any()
    assert not model.transform(make(X))[1].any()


def test_corrected_places_keep_inner_products_and_come_back():
    X, y, _ = problem()
    model = NMFAlpha(3, max_iter=50).fit(X, y)
    assert model.corrected
    Z = model.transform(X)
    rebuilt = model.inverse_transform(Z)
    np.testing.assert_allclose(Z @ Z.T, rebuilt @ rebuilt.T, rtol=1e-7, atol=1e-9)
    model.set_params(corrected=False)
    H = model.transform(X)
    assert H.min() >= 0
    np.testing.assert_allclose(model.inverse_transform(H), rebuilt, rtol=1e-7, atol=1e-9)


def test_a_row_has_its_place_whoever_comes_with_it():
    X, y, _ = problem(n=80)
    model = NMFAlpha(3, max_iter=30).fit(sparse.csr_array(X), y)
    together = model.transform(sparse.csr_array(X))
    np.testing.assert_array_equal(model.transform(sparse.csr_array(X[7:9])), together[7:9])
    np.testing.assert_allclose(model.transform(X[7:9]), model.transform(X)[7:9], atol=1e-6)


def test_invariances():
    X, y, index = problem("multiclass")
    rng = np.random.default_rng(3)
    start = rng.random((len(X), 3)) + 0.1, rng.random((X.shape[1], 3)) + 0.1
    options = {"supervision": 20.0, "max_iter": 10, "tol": 0}
    model = NMFAlpha(3, init=start, **options).fit(X, y)
    order, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    moved = NMFAlpha(3, init=(start[0][order], start[1][columns]), **options).fit(
        X[order][:, columns], y[order]
    )
    np.testing.assert_allclose(moved.objective_, model.objective_, rtol=1e-5)
    np.testing.assert_allclose(moved.components_, model.components_[:, columns], atol=1e-4)
    names = np.array([None] * len(y), dtype=object)
    names[index] = np.array(["a", "b", "c"])[y[index].astype(int)]
    renamed = NMFAlpha(3, init=start, **options).fit(X, names)
    np.testing.assert_array_equal(renamed.components_, model.components_)
    assert renamed.classes_.tolist() == ["a", "b", "c"]


def test_a_pair_of_classes_with_one_row_each_works():
    X, _, _ = problem()
    y = np.full(len(X), -1)
    y[[3, 10, 20]] = 0, 1, 2
    for multiclass in ("ovo", "ovr"):
        model = NMFAlpha(3, supervision=10.0, multiclass=multiclass, max_iter=20).fit(X, y)
        assert np.isfinite(model.embedding_).all()
        assert model.dual_coef_.shape == (len(X), 6)


def test_names_of_features_in_and_out():
    X, y, _ = problem()
    X = pd.DataFrame(X, columns=[f"word {j}" for j in range(25)])
    model = NMFAlpha(3, max_iter=20).fit(X, y)
    name, weight = model.top_features(2)[1][0]
    assert (name, weight) == (f"word {model.components_[1].argmax()}", model.components_[1].max())
    assert model.get_feature_names_out().tolist() == ["nmfalpha0", "nmfalpha1", "nmfalpha2"]
    assert list(model.set_output(transform="pandas").transform(X)) == ["nmfalpha0", "nmfalpha1", "nmfalpha2"]


@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])
def test_components_enough_for_loops_of_their_own(dtype):
    X, y, _ = problem("multiclass", dtype=dtype)
    options = {"supervision": 10.0, "max_iter": 20, "tol": 0, "corrected": False}
    model = NMFAlpha(8, **options).fit(sparse.csr_array(X), y)
    dense = NMFAlpha(8, **options).fit(X, y)
    assert model.embedding_.dtype == dtype
    np.testing.assert_allclose(model.objective_, dense.objective_, rtol=1e-5 if dtype == np.float64 else 1e-2)


def test_automatic_supervision_has_no_unit():
    X, y, _ = problem("multiclass")
    options = {"supervision": "auto", "max_iter": 20, "tol": 0, "corrected": False, "C": 1e9}
    model = NMFAlpha(3, **options).fit(X, y)
    directions = (model.dual_coef_.T @ X).sum()
    np.testing.assert_allclose(model.supervision_, X.sum() / directions, rtol=1e-10)
    # With a hard margin dual variables shrink with the square of the unit, and the weight makes up for it.
    other = NMFAlpha(3, **options).fit(100 * X, y)
    np.testing.assert_allclose(other.supervision_, 100**2 * model.supervision_, rtol=1e-3)
    np.testing.assert_allclose(other.objective_, 100 * model.objective_, rtol=1e-3)
    given = NMFAlpha(3, **{**options, "supervision": model.supervision_}).fit(X, y)
    np.testing.assert_array_equal(given.components_, model.components_)
    assert NMFAlpha(3, supervision=0.0, max_iter=2).fit(X, y).supervision_ == 0
    suited = NMFAlpha(3, max_iter=2).fit(X, y)
    known = X[~np.isnan(y)]
    assert pytest.approx(1 / (known**2).sum(axis=1).mean()) == suited.C_
    with pytest.raises(ValueError, match="'supervision' parameter"):
        NMFAlpha(3, supervision="much").fit(X, y)


@pytest.mark.parametrize("model", [NMFAlpha, KLNMF, SSNMF, CNMF])
@pytest.mark.parametrize("task", TASKS)
def test_a_saved_model_is_the_same_when_loaded(model, task, tmp_path):
    X, y, _ = problem(task)
    frame = pd.DataFrame(X, columns=[f"word {j}" for j in range(25)])
    fitted = model(3, max_iter=10).fit(frame, y)
    loaded = load_model(save_model(fitted, tmp_path / "model.skops"))
    assert set(vars(loaded)) == set(vars(fitted))
    np.testing.assert_array_equal(loaded.transform(frame), fitted.transform(frame))
    np.testing.assert_array_equal(loaded.objective_, fitted.objective_)
    assert loaded.top_features(3) == fitted.top_features(3)
    if model is NMFAlpha:
        assert (loaded.dual_coef_ != fitted.dual_coef_).nnz == 0


def test_in_a_pipeline_and_a_search():
    X, _, _ = problem(n=90)
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    pipe = make_pipeline(NMFAlpha(3, max_iter=15), LinearSVC())
    search = GridSearchCV(clone(pipe), {"nmfalpha__supervision": [0.0, 10.0]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.5


def test_what_it_refuses():
    X, y, _ = problem()
    with pytest.raises(ValueError, match="'supervision' parameter"):
        NMFAlpha(3, supervision=-1.0).fit(X, y)
    bad = X.copy()
    bad[5, 2] = -3
    with pytest.raises(ValueError, match=r"passed to NMFAlpha: X holds -3 at row 5, column 2"):
        NMFAlpha(3).fit(bad, y)
    with pytest.raises(ValueError, match="X holds nothing but zeros"):
        NMFAlpha(3).fit(np.zeros_like(X), y)
    bad[5, 2] = np.nan
    with pytest.raises(ValueError, match="NaN at row 5, column 2"):
        NMFAlpha(3).fit(bad, y)
    with pytest.raises(ValueError, match="class"):
        NMFAlpha(3).fit(X, np.zeros(len(X)))
    with pytest.warns(UserWarning, match="n_components=26 is more than the smaller side of X, 25"):
        NMFAlpha(26, max_iter=3).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="NMFAlpha stopped after 2 iterations"):
        NMFAlpha(3, max_iter=2).fit(X, y)
