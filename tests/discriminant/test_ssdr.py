"""SSDR: against the dense problem, from labels and from pairs, in every container; invariances; bad input."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from labelfold.discriminant._ssdr import SSDR, label_links, objective
from labelfold.rows import as_rows
from reference.ssdr import eigen, links_of_labels, links_of_pairs

# The d x d matrix, and iterations.
WAYS = {"direct": {}, "iterations": {"max_gram_bytes": 0, "tol": 1e-11}}

every_way = pytest.mark.parametrize("way", WAYS)


def partly(y, rng, share=0.7):
    return np.where(rng.random(len(y)) < share, -1, y)


def problems():
    rng = np.random.default_rng(0)

    def noise(n, d):
        return rng.standard_normal((n, d)) * np.linspace(1, 3, d)

    yield "tall", noise(90, 8), partly(rng.integers(0, 3, 90), rng)
    yield "wide", noise(40, 120), partly(rng.integers(0, 3, 40), rng)
    yield "many columns", noise(60, 60), partly(rng.integers(0, 2, 60), rng)
    yield "all labelled", noise(50, 20), rng.integers(0, 5, 50)
    yield "one row a class", noise(50, 20), np.concatenate([[0, 1, 2], np.full(47, -1)])
    yield "one column", noise(30, 1) + 1.0, partly(rng.integers(0, 2, 30), rng)
    yield "a large mean", noise(80, 10) + 1e5, partly(rng.integers(0, 3, 80), rng)
    yield (
        "columns of many scales",
        noise(80, 10) * np.logspace(-3, 3, 10),
        partly(rng.integers(0, 2, 80), rng),
    )
    yield (
        "a constant column",
        np.hstack([noise(80, 6), np.full((80, 1), 0.1)]),
        partly(rng.integers(0, 2, 80), rng),
    )
    yield "duplicated rows", np.repeat(noise(20, 12), 3, axis=0), partly(np.tile([0, 1, 2], 20), rng)
    yield (
        "a column twice",
        noise(70, 9)[:, [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]],
        partly(rng.integers(0, 4, 70), rng),
    )


PROBLEMS = list(problems())


def check(model, X, S, k, tol=1e-8):
    """Assert that the k largest directions of the dense problem were found, to a projector within ``tol``."""
    Xc = X - X.mean(axis=0)  # the dense products would lose the digits that a large mean takes
    values, W = eigen(Xc, S, X.shape[1])
    norm = np.abs(values).max()
    P = model.components_
    assert P.shape == (k, X.shape[1])
    np.testing.assert_allclose(P @ P.T, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(model.eigenvalues_, values[:k], atol=1e-10 * norm)
    assert (np.diff(model.eigenvalues_) <= 0).all()
    if k == len(values) or values[k - 1] - values[k] > 1e-4 * norm:
        assert np.linalg.norm(P.T @ P - W[:, :k] @ W[:, :k].T, 2) <= tol
    np.testing.assert_allclose(model.mean_, X.mean(axis=0), rtol=1e-12, atol=1e-12 * np.abs(X).max())
    # What was maximised, by its own definition: sums over pairs of rows.
    Z = (X - model.mean_) @ P.T
    assert objective(Z, S) == pytest.approx(model.eigenvalues_.sum(), rel=1e-6, abs=1e-8 * norm)


@every_way
@pytest.mark.parametrize(("name", "X", "y"), PROBLEMS, ids=[p[0] for p in PROBLEMS])
def test_equals_the_dense_problem(name, X, y, way):
    k = min(3, X.shape[1])
    model = SSDR(n_components=k, **WAYS[way]).fit(X, y)
    check(model, X, links_of_labels(y), k)


@every_way
@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 20.0), (5.0, 0.0), (100.0, 1.0)])
def test_weights(alpha, beta, way, rng):
    X, y = rng.standard_normal((70, 40)), partly(rng.integers(0, 3, 70), rng)
    model = SSDR(4, cannot_link_weight=alpha, must_link_weight=beta, **WAYS[way]).fit(X, y)
    check(model, X, links_of_labels(y, alpha, beta), 4)


def pairs_of(rng, n, m):
    pairs = np.array([(i, j) for i in range(n) for j in range(i)])
    chosen = pairs[rng.permutation(len(pairs))[: 2 * m]]
    return chosen[:m], chosen[m:]


@every_way
@pytest.mark.parametrize("kinds", ["both", "must", "cannot"])
@pytest.mark.parametrize("shape", [(60, 9), (40, 80)])
def test_pairs_equal_the_dense_problem(kinds, shape, way, rng):
    X = rng.standard_normal(shape) + 3
    must, cannot = pairs_of(rng, shape[0], 15)
    must, cannot = (must if kinds != "cannot" else must[:0]), (cannot if kinds != "must" else cannot[:0])
    model = SSDR(3, **WAYS[way]).fit(X, must_links=must, cannot_links=cannot)
    check(model, X, links_of_pairs(shape[0], must.tolist(), cannot.tolist()), 3)


@pytest.mark.parametrize("budget", [0, 10_000])
def test_linked_rows_are_taken_where_they_fit_and_then_a_product_is_one_pass(budget, rng, monkeypatch):
    """Pairs of rows too many to take are multiplied by two further passes; the answer is the same."""
    X = rng.standard_normal((200, 50))
    pairs = [(0, 1), (2, 150), (7, 9)]
    read = []
    monkeypatch.setattr(SSDR, "_rows", lambda self, X, reset: read.append(as_rows(X)) or read[-1])
    model = SSDR(2, max_gram_bytes=budget, tol=1e-11).fit(X, must_links=pairs)
    check(model, X, links_of_pairs(200, pairs, []), 2)
    # One pass for the class sums, and each product one, or three.
    assert model.n_iter_ > 1
    assert read[0].n_passes == 1 + model.n_iter_ * (1 if budget else 3)


def test_the_direct_way_is_one_pass(rng, monkeypatch):
    read = []
    monkeypatch.setattr(SSDR, "_rows", lambda self, X, reset: read.append(as_rows(X)) or read[-1])
    model = SSDR().fit(rng.standard_normal((200, 10)), partly(rng.integers(0, 2, 200), rng))
    assert (model.n_iter_, read[0].n_passes) == (1, 1)


def test_pairs_and_labels_are_the_same_links_counted_differently(rng):
    X, y = rng.standard_normal((40, 6)), partly(rng.integers(0, 3, 40), rng)
    known = np.flatnonzero(y >= 0)
    pairs = [(i, j) for i in known for j in known if i < j]
    must, cannot = [p for p in pairs if y[p[0]] == y[p[1]]], [p for p in pairs if y[p[0]] != y[p[1]]]
    n_M = (np.bincount(y[known]) ** 2).sum()  # where a list has each pair once, and no row with itself
    by_pairs = SSDR(3, must_link_weight=20.0 * len(must) / n_M).fit(X, must_links=must, cannot_links=cannot)
    by_labels = SSDR(3).fit(X, y)
    np.testing.assert_allclose(by_pairs.components_, by_labels.components_, atol=1e-10)
    np.testing.assert_allclose(by_pairs.eigenvalues_, by_labels.eigenvalues_, rtol=1e-10)
    swapped = [(j, i) for i, j in must] + must[:2]  # the order of a pair, and saying it twice, change nothing
    again = SSDR(3, must_link_weight=20.0 * len(must) / n_M).fit(X, must_links=swapped, cannot_links=cannot)
    np.testing.assert_allclose(again.components_, by_pairs.components_, atol=1e-12)


@every_way
def test_without_weights_it_is_principal_component_analysis(way, rng):
    X, y = rng.standard_normal((80, 30)) * np.linspace(1, 4, 30) + 2, partly(rng.integers(0, 2, 80), rng)
    model = SSDR(3, cannot_link_weight=0.0, must_link_weight=0.0, **WAYS[way]).fit(X, y)
    pca = PCA(3).fit(X)
    np.testing.assert_allclose(np.abs((model.components_ * pca.components_).sum(axis=1)), 1, atol=1e-10)
    np.testing.assert_allclose(model.eigenvalues_, pca.explained_variance_ * 79 / 80, rtol=1e-10)
    np.testing.assert_allclose(np.abs(model.transform(X)), np.abs(pca.transform(X)), atol=1e-6)


def test_the_links_are_a_laplacian(rng):
    """D - S takes constants to zero, which is why X need not be centred."""
    y = partly(rng.integers(0, 3, 30), rng, 0.5)
    from labelfold.labels import read_labels

    links = label_links(read_labels(y), None, 1.0, 20.0)
    E = (links.codes[:, None] == np.arange(3)).astype(float)
    S = np.full((30, 30), 1 / 900) - E @ links.mix @ E.T
    np.testing.assert_allclose(S, links_of_labels(y), atol=1e-15)
    np.testing.assert_allclose((np.diag(links.degrees) - S) @ np.ones(30), 0, atol=1e-15)


@every_way
def test_invariances(way, rng):
    X, y = rng.standard_normal((90, 14)) * np.linspace(1, 3, 14), partly(rng.integers(0, 3, 90), rng)

    def fit(X, y):
        return SSDR(3, **WAYS[way]).fit(X, y)

    base = fit(X, y)
    P = base.components_.T @ base.components_
    order = rng.permutation(90)
    Q, _ = np.linalg.qr(rng.standard_normal((14, 14)))
    names = np.where(y >= 0, np.array(["c", "a", "b"], dtype=object)[y], None)
    variants = {
        "rows permuted": (fit(X[order], y[order]), np.eye(14), 1),
        "labels renamed": (fit(X, names), np.eye(14), 1),
        "columns shifted": (fit(X + np.linspace(-50, 50, 14), y), np.eye(14), 1),
        "columns rotated": (fit(X @ Q, y), Q, 1),
        "scaled": (fit(100 * X, y), np.eye(14), 1e4),
        "every row twice": (fit(np.repeat(X, 2, axis=0), np.repeat(y, 2)), np.eye(14), 1),
    }
    for name, (model, R, factor) in variants.items():
        other = R @ model.components_.T @ model.components_ @ R.T
        np.testing.assert_allclose(other, P, atol=1e-8, err_msg=name)
        np.testing.assert_allclose(model.eigenvalues_, factor * base.eigenvalues_, rtol=1e-9, err_msg=name)


@every_way
@pytest.mark.parametrize("source", ["labels", "pairs"])
def test_the_same_answer_in_every_container(container, way, source, rng):
    X = rng.standard_normal((60, 16)) * np.linspace(1, 3, 16)
    X[rng.random(X.shape) < 0.3] = 0
    given = {"y": partly(rng.integers(0, 3, 60), rng)}
    if source == "pairs":
        given = dict(zip(("must_links", "cannot_links"), pairs_of(rng, 60, 10), strict=True))
    held = container.make(X)
    model, dense = SSDR(2, **WAYS[way]).fit(held, **given), SSDR(2).fit(X, **given)
    np.testing.assert_allclose(model.components_, dense.components_, atol=1e-8)
    np.testing.assert_allclose(model.eigenvalues_, dense.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(model.mean_, dense.mean_, atol=1e-13)
    rows = as_rows(held)
    np.testing.assert_allclose(rows.get(model.transform(held)), dense.transform(X), atol=1e-7)


@every_way
@pytest.mark.parametrize("source", ["labels", "pairs"])
@pytest.mark.usefixtures("many_blocks", "compiled_kernels")
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_many_blocks_in_threads(make, way, source, rng):
    X = rng.standard_normal((150, 30))
    given = {"y": partly(rng.integers(0, 3, 150), rng)}
    S = links_of_labels(given["y"])
    if source == "pairs":
        must, cannot = pairs_of(rng, 150, 20)
        given, S = (
            {"must_links": must, "cannot_links": cannot},
            links_of_pairs(150, must.tolist(), cannot.tolist()),
        )
    check(SSDR(3, **WAYS[way]).fit(make(X), **given), X, S, 3)


@every_way
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_float32_stays_float32(make, way, rng):
    X = (rng.standard_normal((200, 40)) * np.linspace(1, 4, 40) + 3).astype(np.float32)
    y = partly(rng.integers(0, 2, 200), rng)
    model, double = SSDR(2, **WAYS[way]).fit(make(X), y), SSDR(2).fit(X.astype(float), y)
    assert model.transform(make(X)).dtype == np.float32
    assert model.components_.dtype == np.float64
    values, _ = eigen(X.astype(float) - X.mean(axis=0, dtype=float), links_of_labels(y), 40)
    # Round-off of the matrix over the gap to the third eigenvalue.
    near = 100 * np.finfo(np.float32).eps * np.abs(values).max() / (values[1] - values[2])
    P, P0 = (m.components_.T @ m.components_ for m in (model, double))
    assert np.linalg.norm(P - P0, 2) <= near
    np.testing.assert_allclose(
        model.eigenvalues_, double.eigenvalues_, atol=100 * np.finfo(np.float32).eps * np.abs(values).max()
    )


@every_way
def test_directions_that_do_not_exist_are_left_out(way, rng):
    X, y = (
        rng.standard_normal((50, 3)) @ rng.standard_normal((3, 12)) + 1,
        partly(rng.integers(0, 2, 50), rng),
    )
    with pytest.warns(UserWarning, match="n_components=5 is more than the 3 directions") as caught:
        model = SSDR(5, **WAYS[way]).fit(X, y)
    assert caught[0].filename == __file__
    check(model, X, links_of_labels(y), 3)
    assert model.transform(X).shape == (50, 3)
    with pytest.warns(UserWarning, match="n_components=9 is more than the 4 directions"):
        model = SSDR(9, **WAYS[way]).fit(X[:, :3].repeat([2, 1, 1], axis=1) + rng.standard_normal((50, 4)), y)
    assert model.components_.shape == (4, 4)
    for constant in (np.full((6, 3), 0.1), np.zeros((6, 3)), sparse.csr_array((6, 3))):
        with pytest.raises(ValueError, match="rows of X are all equal"):
            SSDR(**WAYS[way]).fit(constant, [0, 1, 0, 1, -1, -1])


@every_way
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scales(way, rng):
    X, y = rng.standard_normal((40, 5)) * [1, 2, 3, 4, 5], partly(rng.integers(0, 2, 40), rng)
    base = SSDR(**WAYS[way]).fit(X, y)
    for scale in (1e-100, 1e100):
        model = SSDR(**WAYS[way]).fit(scale * X, y)
        np.testing.assert_allclose(model.components_, base.components_, atol=1e-9)
        np.testing.assert_allclose(model.eigenvalues_, scale**2 * base.eigenvalues_, rtol=1e-9)
    for scale in (1e-160, 1e160):
        with pytest.raises(ValueError, match="scale X to about 1"):
            SSDR(**WAYS[way]).fit(scale * X, y)


@pytest.mark.filterwarnings("ignore:SSDR stopped after 6 iterations")
def test_a_wide_sparse_matrix_is_never_densified(rng):
    X = sparse.random(1500, 12_000, density=0.001, format="csr", random_state=1)
    y = partly(rng.integers(0, 3, 1500), rng, 0.9)
    SSDR(max_gram_bytes=0, max_iter=6).fit(X[:, :300], y)  # what is loaded once is not counted
    tracemalloc.start()
    SSDR(max_iter=6).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Two bases of four blocks of k + 10 vectors, and about as much again while they are multiplied.
    assert peak < 2.5 * 2 * 4 * 12 * 12_000 * 8
    assert peak < 1500 * 12_000 * 8 / 4


def test_stopping_short_is_said(rng):
    X, y = rng.standard_normal((300, 200)), partly(rng.integers(0, 2, 300), rng)
    with pytest.warns(
        ConvergenceWarning, match=r"stopped after 2 iterations.*raise max_iter or tol"
    ) as caught:
        SSDR(max_gram_bytes=0, max_iter=2).fit(X, y)
    assert caught[0].filename == __file__


def test_progress_is_shown_when_asked_for(rng, capsys):
    X, y = rng.standard_normal((60, 30)), partly(rng.integers(0, 2, 60), rng)
    SSDR(max_gram_bytes=0, verbose=1).fit(X, y)
    assert "SSDR" in capsys.readouterr().err


def test_the_seed_changes_nothing_but_the_last_digits(rng):
    X, y = rng.standard_normal((100, 60)), partly(rng.integers(0, 2, 100), rng)
    one, two = (SSDR(max_gram_bytes=0, tol=1e-11, random_state=seed).fit(X, y) for seed in (0, 1))
    assert (one.components_ != two.components_).any()
    np.testing.assert_allclose(one.components_, two.components_, atol=1e-8)
    same = SSDR(max_gram_bytes=0, tol=1e-11, random_state=np.random.RandomState(0)).fit(X, y)
    np.testing.assert_array_equal(same.components_, one.components_)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "requires y to be passed, but the target y is None; pass one label a row, or pairs"),
        ({"y": [0, 1, 0, 1, -1], "must_links": [(0, 2)]}, "both were given"),
        ({"must_links": []}, "hold no pair"),
        ({"must_links": [(0, 5)]}, r"must_links has the pair \(0, 5\), where X has rows 0 to 4"),
        (
            {"cannot_links": [(0, 1), (-1, 2)]},
            r"cannot_links has the pair \(-1, 2\), where X has rows 0 to 4",
        ),
        ({"cannot_links": [(3, 3)]}, r"cannot_links has the pair \(3, 3\), where two different rows"),
        (
            {"must_links": [(0, 1), (2, 3)], "cannot_links": [(3, 2)]},
            "rows 2 and 3 are in must_links and in cannot_links",
        ),
        ({"must_links": [(0, 1, 2)]}, r"shape \(1, 3\), where pairs of row numbers"),
        ({"must_links": [0, 1]}, r"shape \(2,\), where pairs of row numbers"),
        ({"must_links": [(0.0, 1.0)]}, "float64 values"),
        ({"y": [-1] * 5}, "no labelled row"),
        ({"y": [0, 0, -1, -1, 0]}, "one class only"),
        ({"y": [0, 1]}, "y has 2 rows and X has 5"),
        ({"y": [0.5, 1.2, 0.1, 2.2, 3.1]}, "Unknown label type: continuous"),
    ],
)
def test_bad_links_are_refused(given, message):
    with pytest.raises(ValueError, match=message) as caught:
        SSDR().fit(np.arange(10.0).reshape(5, 2) ** 2, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change", [{"n_components": 0}, {"must_link_weight": -1.0}, {"cannot_link_weight": -1.0}, {"tol": 0.0}]
)
def test_bad_parameters_are_refused(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        SSDR(**change).fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, pd.DataFrame])
def test_values_that_are_not_finite_are_named(make):
    X = np.arange(12.0).reshape(6, 2) ** 2
    X[4, 1] = np.nan
    with pytest.raises(ValueError, match="at row 4, column 1"):
        SSDR().fit(make(X), [0, 1, 0, 1, 0, 1])


def test_pandas_pipelines_and_clones():
    frame, y = load_iris(return_X_y=True, as_frame=True)
    model = SSDR().set_output(transform="pandas").fit(frame, y.where(y.index % 3 == 0))
    Z = model.transform(frame)
    assert list(Z.columns) == list(model.get_feature_names_out()) == ["ssdr0", "ssdr1"]
    assert list(model.feature_names_in_) == list(frame.columns)
    with pytest.raises(NotFittedError):
        clone(model).transform(frame)
    pipe = make_pipeline(SSDR(2), KNeighborsClassifier(5)).fit(frame[::3], y[::3])
    assert pipe.score(frame, y) > 0.9
    pairs = [(0, 1), (50, 51)], [(0, 50)]
    both = SSDR().fit(frame, must_links=pairs[0], cannot_links=pairs[1]).transform(frame)
    np.testing.assert_array_equal(
        SSDR().fit_transform(frame, must_links=pairs[0], cannot_links=pairs[1]), both
    )


def test_the_users_arrays_are_left_alone():
    X, y = load_iris(return_X_y=True)
    pairs = np.array([(1, 0), (3, 2)])
    for array in (X, y, pairs):
        array.flags.writeable = False
    SSDR().fit(X, y).transform(X)
    SSDR().fit(X, must_links=pairs).transform(X)
