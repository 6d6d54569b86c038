"""KLNMF: scikit-learn's loss and better, every container, odd data, and what it refuses."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from labelfold import KLNMF, NMFAlpha
from labelfold.factorization import _divergence
from labelfold.factorization._klnmf import objective
from labelfold.rows import as_rows
from reference.nmf_alpha import divergence as naive_divergence

pytestmark = pytest.mark.filterwarnings(
    "ignore:(KLNMF|NMFAlpha) stopped after:sklearn.exceptions.ConvergenceWarning"
)


def counts(seed=0, n=60, d=25, rank=3, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(0.4, 3.0, (n, rank)) @ rng.gamma(0.4, 2.0, (rank, d)) + 0.05).astype(dtype)


def test_the_objective_is_what_it_says_and_what_scikit_learn_says():
    X = counts()
    model = KLNMF(3, max_iter=40, tol=0).fit(X)
    H, V = model.embedding_, model.components_.T
    assert len(model.objective_) == model.n_iter_ == 40
    assert (np.diff(model.objective_) <= 0).all()
    np.testing.assert_allclose(model.objective_[-1], naive_divergence(X, H @ V.T), rtol=1e-12)
    np.testing.assert_allclose(model.objective_[-1], objective(X, H, V), rtol=1e-12)
    # One update of scikit-learn's from here leaves about the same loss, a little lower.
    theirs = NMF(3, beta_loss="kullback-leibler", solver="mu", init="custom", max_iter=1, tol=0)
    theirs.fit_transform(X, W=H.copy(), H=V.T.copy())
    assert theirs.reconstruction_err_ <= model.reconstruction_err_ * (1 + 1e-6)
    np.testing.assert_allclose(theirs.reconstruction_err_, model.reconstruction_err_, rtol=1e-2)


@pytest.mark.parametrize("seed", range(3))
def test_from_the_same_start_not_above_scikit_learn(seed):
    X = counts(seed)
    rng = np.random.default_rng(seed)
    H, V = rng.random((len(X), 4)) + 0.1, rng.random((X.shape[1], 4)) + 0.1
    theirs = NMF(4, beta_loss="kullback-leibler", solver="mu", init="custom", max_iter=150, tol=0)
    theirs.fit_transform(sparse.csr_matrix(X), W=H.copy(), H=np.ascontiguousarray(V.T))
    ours = KLNMF(4, init=(H, V), max_iter=150, tol=0).fit(sparse.csr_array(X))
    assert ours.reconstruction_err_ <= theirs.reconstruction_err_ * (1 + 2e-3)


@pytest.mark.parametrize("init", ["random", "nndsvda"])
def test_the_same_answer_in_every_container(container, init):
    X = counts()
    dense = KLNMF(3, init=init, max_iter=15, tol=0).fit(X)
    held = container.make(X)
    model = KLNMF(3, init=init, max_iter=15, tol=0).fit(held)
    np.testing.assert_allclose(model.objective_, dense.objective_, rtol=1e-7)
    np.testing.assert_allclose(model.components_, dense.components_, atol=1e-6 * dense.components_.max())
    np.testing.assert_allclose(model.embedding_, dense.embedding_, atol=1e-6 * dense.embedding_.max())
    placed = as_rows(held).get(model.transform(held))
    # A row is placed within 1e-5 of its sum above the least divergence, whose curvature is 1 / p in p.
    made = dense.transform(X) @ dense.components_
    off = ((placed @ model.components_ - made) ** 2 / made).sum(axis=1)
    assert (off <= 2 * 2 * 1e-5 * X.sum(axis=1)).all()
    assert placed.min() >= 0


def test_one_pass_over_x_an_iteration(container):
    rows = as_rows(container.make(counts()))
    KLNMF(3, max_iter=6, tol=0).fit(rows)
    first = rows.n_passes
    rows = as_rows(container.make(counts()))
    KLNMF(3, max_iter=9, tol=0).fit(rows)
    assert rows.n_passes - first == 3
    assert first == 6 + 1  # and the sums of X


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, bool, np.float32, np.uint16])
def test_counts_of_any_dtype(dtype):
    X = counts().astype(dtype)
    reference = KLNMF(3, max_iter=20, tol=0).fit(X.astype(np.float64))
    for made in (X, sparse.csr_array(X)):
        model = KLNMF(3, max_iter=20, tol=0).fit(made)
        rtol = 1e-3 if dtype == np.float32 else 1e-9
        np.testing.assert_allclose(model.objective_[-1], reference.objective_[-1], rtol=rtol)
        kept = np.float32 if dtype == np.float32 else np.float64
        assert model.embedding_.dtype == model.transform(made).dtype == kept


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_zero_rows_zero_columns_and_multiples(make):
    X = counts()
    X[4], X[:, 6] = 0, 0
    X[9] = 3 * X[8]
    model = KLNMF(3, max_iter=100).fit(make(X))
    for factor in (model.embedding_, model.components_, model.transform(make(X))):
        assert np.isfinite(factor).all()
        assert factor.min() >= 0
    assert not model.embedding_[4].any()
    assert not model.components_[:, 6].any()
    placed = model.transform(make(X))
    assert not placed[4].any()
    np.testing.assert_allclose(placed[9] @ model.components_, 3 * placed[8] @ model.components_, rtol=1e-2)


@pytest.mark.parametrize(("n", "d"), [(400, 20_000), (20_000, 400), (12_000, 12_000)])
@pytest.mark.parametrize(("model", "bases", "places"), [(KLNMF, 3, 5), (NMFAlpha, 5, 7)])
def test_memory_is_what_the_notes_say(n, d, model, bases, places, monkeypatch):
    monkeypatch.setenv("LABELFOLD_NUM_THREADS", "1")
    k, rng = 16, np.random.default_rng(0)
    X = sparse.random_array((n, d), density=20_000 / (n * d), rng=rng, format="csr")
    y = np.where(np.arange(n) < 60, np.arange(n) % 3, -1)
    model(k, max_iter=2).fit(X, y)  # compiled beforehand
    tracemalloc.start()
    model(k, max_iter=6, tol=0).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    ratios = X.nnz * 12
    # And some numbers for every row and column: its sum, its count, its smallest entry, ...
    few = 4 * 8 * (n + d) + 2**17
    assert peak < 8 * k * (bases * d + places * n) + ratios + few


def test_exact_factors_are_found():
    rng = np.random.default_rng(0)
    X = np.kron(np.eye(3), np.ones((4, 5))) * rng.integers(1, 9, (12, 1))
    model = KLNMF(3, tol=0, max_iter=2000).fit(X)
    np.testing.assert_allclose(model.inverse_transform(model.embedding_), X, atol=1e-3)


def test_a_warm_start_goes_on_from_where_it_was():
    X = counts()
    first = KLNMF(3, max_iter=20, tol=0).fit(X)
    more = KLNMF(3, init=(first.embedding_, first.components_.T), max_iter=20, tol=0).fit(X)
    assert more.objective_[0] <= first.objective_[-1]
    with pytest.raises(ValueError, match=r"init holds arrays of shapes"):
        KLNMF(3, init=(first.embedding_, first.components_)).fit(X)
    with pytest.raises(ValueError, match="init holds negative numbers"):
        KLNMF(3, init=(-first.embedding_, first.components_.T)).fit(X)


def test_a_start_that_is_given_is_not_what_the_model_keeps():
    X = counts()
    H, V = np.ones((len(X), 1)), np.ones((X.shape[1], 1))
    model = KLNMF(1, init=(H, V), max_iter=1).fit(X)
    assert not np.shares_memory(model.components_, V)
    assert not np.shares_memory(model.embedding_, H)


def test_a_start_with_zero_rows_is_survived():
    X = counts()
    H, V = np.ones((len(X), 3)), np.ones((X.shape[1], 3))
    H[5], V[3] = 0, 0
    model = KLNMF(3, init=(H, V), max_iter=10, tol=0).fit(X)
    assert np.isfinite(model.objective_).all()
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.components_).all()


def test_corrected_places_keep_inner_products_and_come_back():
    X = counts()
    plain = KLNMF(3, max_iter=50).fit(X)
    model = KLNMF(3, max_iter=50, corrected=True).fit(X)
    np.testing.assert_array_equal(plain.components_, model.components_)
    rebuilt = plain.inverse_transform(plain.embedding_)
    np.testing.assert_allclose(model.embedding_ @ model.embedding_.T, rebuilt @ rebuilt.T, rtol=1e-8)
    np.testing.assert_allclose(model.inverse_transform(model.embedding_), rebuilt, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(X)), plain.inverse_transform(plain.transform(X)), atol=1e-8
    )


def test_names_of_features_in_and_out():
    X = pd.DataFrame(counts(), columns=[f"word {j}" for j in range(25)])
    model = KLNMF(3, max_iter=20).fit(X)
    top = model.top_features(4)
    assert len(top) == 3
    assert all(len(part) <= 4 for part in top)
    name, weight = top[0][0]
    assert weight == model.components_[0].max()
    assert name == f"word {model.components_[0].argmax()}"
    assert model.top_features(0) == [[], [], []]
    for n in (-1, 2.5):
        with pytest.raises(ValueError, match=rf"n={n} was given, where a whole number of features"):
            model.top_features(n)
    assert model.get_feature_names_out().tolist() == ["klnmf0", "klnmf1", "klnmf2"]
    assert model.set_output(transform="pandas").transform(X).columns.tolist() == [
        "klnmf0",
        "klnmf1",
        "klnmf2",
    ]


def test_in_a_pipeline_and_cloned():
    X = counts()
    pipe = make_pipeline(FunctionTransformer(np.sqrt), KLNMF(3, max_iter=10))
    assert clone(pipe).fit_transform(X).shape == (60, 3)


def test_ctrl_c_keeps_what_was_reached(monkeypatch):
    X, calls = counts(), []
    kind = type(as_rows(X))
    own = kind.sweep

    def sweep(self, *args, **options):
        calls.append(1)
        if len(calls) == 30:  # beyond the start
            raise KeyboardInterrupt
        return own(self, *args, **options)

    monkeypatch.setattr(kind, "sweep", sweep)
    with pytest.warns(ConvergenceWarning, match="KLNMF was interrupted"):
        model = KLNMF(3, on_interrupt="keep", tol=0).fit(X)
    assert model.n_iter_ == len(model.objective_) > 0
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        KLNMF(3, tol=0).fit(X)


def test_progress_and_warnings(capsys):
    X = counts()
    with pytest.warns(ConvergenceWarning, match=r"KLNMF stopped after 2 iterations, short of tol=1.0e-05"):
        KLNMF(3, max_iter=2, verbose=1).fit(X)
    assert "KLNMF" in capsys.readouterr().err
    with pytest.warns(UserWarning, match=r"n_components=30 is more than the smaller side of X, 25"):
        model = KLNMF(30, max_iter=5).fit(X)
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize("model", [KLNMF(3, max_iter=5), NMFAlpha(3, max_iter=5)])
def test_a_negative_entry_is_named_and_zeros_are_refused(container, model):
    X, y = counts(), np.arange(60) % 2
    X[7, 11], X[9, 3] = -0.5, -2
    message = rf"passed to {type(model).__name__}: X holds -0.5 at row 7, column 11"
    with pytest.raises(ValueError, match=message):
        model.fit(container.make(X), y)
    with pytest.raises(ValueError, match="X holds nothing but zeros"):
        model.fit(container.make(np.zeros((60, 4))), y)
    model.fit(np.abs(X), y)
    with pytest.raises(ValueError, match=message):
        model.transform(container.make(X))


def test_what_it_refuses():
    X = counts()
    with pytest.raises(ValueError, match="X holds nothing but zeros"):
        KLNMF(3).fit(np.zeros((5, 4)))
    with pytest.raises(ValueError, match="NaN at row 2, column 3"):
        KLNMF(3).fit(np.where(np.arange(X.size).reshape(X.shape) == 53, np.nan, X))
    with pytest.raises(ValueError, match="multiply X by a constant"):
        KLNMF(3).fit(X * 1e220)
    with pytest.raises(ValueError, match="'n_components' parameter"):
        KLNMF(0).fit(X)
    with pytest.raises(NotFittedError):
        KLNMF(3).transform(X)
    model = KLNMF(3, max_iter=5).fit(X)
    with pytest.raises(ValueError, match="X has 2 columns, where 3 are expected"):
        model.inverse_transform(np.ones((4, 2)))
    with pytest.raises(ValueError, match="features"):
        model.transform(X[:, :9])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("make", [KLNMF, NMFAlpha])
def test_with_many_components_rows_alone_and_together_have_one_divergence(make, dtype):
    """Several places of a row are equally good; each way of placing it must end within the tolerance of the least."""
    for shape, k in (((9, 3), 10), ((5, 20), 10)):
        X = np.random.default_rng(0).poisson(1.5, shape).astype(dtype) + dtype(0.25)
        model = make(k, max_iter=100).fit(X, np.arange(len(X)) % 2)
        together = model.inverse_transform(model.transform(X)).astype(np.float64)
        scattered = model.inverse_transform(model.transform(sparse.csr_array(X))).astype(np.float64)
        for i, x in enumerate(X.astype(np.float64)):
            alone = model.inverse_transform(model.transform(X[i : i + 1]))[0].astype(np.float64)
            values = [naive_divergence(x, p) for p in (alone, together[i], scattered[i])]
            assert np.ptp(values) <= 2e-5 * x.sum()


@pytest.mark.parametrize("before", [0, 1, 4])
@pytest.mark.parametrize("shape", [(700, 130, 5), (4200, 64, 16), (100, 33, 20), (131, 7, 2)])
def test_the_loops_for_a_device_equal_the_functions_of_the_host(shape, before):
    """Also for rows that lie apart in memory, and begin anywhere."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    from labelfold.factorization import _triton_ratios as loops

    n, d, k = shape
    rng = np.random.default_rng(0)
    V, H = rng.random((d, k)), rng.random((n, k))
    X = rng.poisson(3 * H @ V.T).astype(np.float64)
    X[0] = 0
    around = np.pad(X, ((0, 0), (before, 0)), constant_values=np.nan)  # not of the rows: must not be used
    rows, H_there, V_there = (torch.from_numpy(a).to("cuda", torch.float32) for a in (around, H, V))
    there, floor = (rows[:, before:], H_there, V_there), _divergence.floor("float32")

    def close(found, wanted):
        np.testing.assert_allclose(found.cpu().numpy(), wanted, atol=3e-6 * np.abs(wanted).max())

    R, P = _divergence.array_ratios(np, X, H, V)
    loss = _divergence.block_divergence(np, X, P, R)
    close(loops.ratio_rows(*there, floor), R @ V)
    sums, found = loops.ratio_sums(*there, floor)
    close(sums, R.T @ H)
    assert float(found) == pytest.approx(loss, rel=1e-5)
