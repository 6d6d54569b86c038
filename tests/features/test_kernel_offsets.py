"""Kernels and distances of rows far from 0: the offset costs no digits."""

import numpy as np
import pytest
from scipy import sparse

from labelfold import CCA, LDA, KernelPCALS, LapRLS
from labelfold.numerics._ranges import row_spread
from labelfold.rows import as_rows
from labelfold.semi_supervised._graph import nearest, rbf_graph

MAKERS = {
    "LDA rbf": lambda: LDA(kernel="rbf", gamma=0.5, ridge=0.1),
    "LDA laplacian": lambda: LDA(kernel="laplacian", gamma=0.5, ridge=0.1),
    "LDA linear": lambda: LDA(kernel="linear", ridge=0.1),
    "LDA Nystroem": lambda: LDA(kernel="rbf", gamma=0.5, ridge=0.1, n_landmarks=20, random_state=0),
    "KernelPCALS rbf": lambda: KernelPCALS(2),
    "KernelPCALS linear": lambda: KernelPCALS(2, kernel="linear"),
    "KernelPCALS Nystroem": lambda: KernelPCALS(2, n_landmarks=20, random_state=0),
    "LapRLS rbf": lambda: LapRLS(kernel="rbf"),
    "LapRLS linear": lambda: LapRLS(kernel="linear"),
    "LapRLS RBF graph": lambda: LapRLS(graph="rbf"),
}


@pytest.fixture
def data(rng):
    y = rng.integers(0, 2, 80)
    return rng.normal(size=(80, 3)) + y[:, None], y


def values(model, X):
    return model.transform(X) if hasattr(model, "transform") else model.decision_function(X)


@pytest.mark.parametrize("offset", [1e6, 1e8])
@pytest.mark.parametrize("name", MAKERS)
def test_a_constant_column_changes_nothing(data, name, offset):
    X, y = data
    y = np.where(np.arange(len(y)) < 60, y, 7)  # a third class, so that scores have several columns
    moved = np.column_stack([X, np.full(len(X), offset)])
    plain, other = MAKERS[name]().fit(X, y), MAKERS[name]().fit(moved, y)
    expected, found = values(plain, X), values(other, moved)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-9 * np.abs(expected).max())
    new = X[:5] + 0.1
    expected, found = values(plain, new), values(other, np.column_stack([new, np.full(5, offset)]))
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-9 * np.abs(expected).max())


def test_distances(data):
    X, _ = data
    moved = np.column_stack([X, np.full(len(X), 1e8)])
    assert row_spread(as_rows(moved)) == pytest.approx(row_spread(as_rows(X)), rel=1e-12)
    np.testing.assert_allclose(nearest(as_rows(moved), 5)[0], nearest(as_rows(X), 5)[0], rtol=1e-12)
    graphs = [rbf_graph(as_rows(Z), 1.0, max_gram_bytes=1e9) for Z in (X, moved)]
    np.testing.assert_allclose(graphs[1], graphs[0], rtol=1e-12)


@pytest.mark.parametrize(
    "given",
    [
        {"kernel": "rbf", "gamma": 1e-300},
        {"kernel": "rbf", "gamma": 1e-18},
        {"kernel": "sigmoid", "coef0": 40.0},
    ],
)
def test_a_kernel_that_tells_no_rows_apart_is_refused(data, given):
    for n_landmarks in (None, 20):
        with pytest.raises(ValueError, match="the same value for every two rows of X but for round-off"):
            LDA(ridge=1.0, n_landmarks=n_landmarks, **given).fit(*data)


@pytest.mark.parametrize("kernel", ["poly", "sigmoid"])
def test_a_kernel_that_loses_digits_to_an_offset_says_so(data, kernel):
    X, y = data
    gamma = 0.1 if kernel == "poly" else 1e-13
    far = np.column_stack([X, np.full(len(X), 1e6)])
    with pytest.warns(UserWarning, match=rf"kernel='{kernel}'.* digits are left; centre the columns of X"):
        KernelPCALS(1, kernel=kernel, gamma=gamma).fit(far, y)


def test_a_kernel_that_is_zero_between_all_rows_says_so(data):
    with pytest.warns(UserWarning, match=r"gamma=1e\+300 is 0 between all rows"):
        LDA(kernel="rbf", gamma=1e300, ridge=1.0).fit(*data)


def test_a_kernel_of_counts_names_the_negative_entry(data):
    for n_landmarks in (None, 5):
        with pytest.raises(ValueError, match=r"Negative values in data passed to kernel='chi2': X holds -"):
            LDA(kernel="chi2", ridge=1.0, n_landmarks=n_landmarks).fit(*data)


@pytest.mark.parametrize("n_landmarks", [None, 20])
def test_sparse_rows_with_long_indices(data, n_landmarks):
    X, y = data
    long = sparse.csr_array(X)
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    model = LDA(kernel="laplacian", gamma=0.5, ridge=0.1, n_landmarks=n_landmarks, random_state=0)
    np.testing.assert_allclose(model.fit(long, y).transform(long), model.fit(X, y).transform(X), atol=1e-9)


def test_a_kernel_of_counts_takes_rows_that_are_read_only(rng):
    X, y = rng.random((20, 4)), np.tile([0, 1], 10)
    X.flags.writeable = False
    for n_landmarks in (None, 5):
        shown = LDA(kernel="chi2", ridge=1.0, n_landmarks=n_landmarks, random_state=0).fit(X, y).transform(X)
        assert np.isfinite(shown).all()


def test_a_kernel_that_overflows_says_nothing_but_a_sentence(data, capfd):
    with pytest.raises(ValueError, match="the kernel of some rows is NaN or infinite"):
        LDA(kernel="poly", degree=1e6, n_landmarks=10).fit(1e3 * data[0], data[1])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_kernels_of_single_precision_are_in_double(rng, container):
    X, y = rng.random((30, 3)).astype(np.float32), np.tile([0, 1], 15)
    tiny = (1e-30 * X).astype(np.float32)
    model = LDA(kernel="cosine", ridge=0.1)
    expected = model.fit(container(X.astype(float)), y).transform(container(X.astype(float)))
    found = model.fit(container(tiny), y).transform(container(tiny))
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-4)


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("name", MAKERS)
def test_sparse_rows_get_what_dense_ones_do(data, name, offset):
    """A model of dense rows has a centre, which sparse rows are to have taken off as well."""
    X, y = data[0] + offset, data[1]
    model = MAKERS[name]()
    expected = values(model.fit(X, y), X)
    np.testing.assert_allclose(
        values(model, sparse.csr_array(X)), expected, atol=1e-8 * np.abs(expected).max()
    )
    if offset and name not in ("LDA rbf", "LDA laplacian", "LDA linear", "LDA Nystroem"):
        return  # a gamma or a graph from sparse rows, which are not centred, loses digits
    found = values(model.fit(sparse.csr_array(X), y), sparse.csr_array(X))
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("make", [LDA, CCA], ids=["LDA", "CCA"])
@pytest.mark.parametrize("solver", ["two-stage", "direct"])
def test_round_off_in_nystroems_features_is_no_direction(make, solver):
    """Rows on a line have four directions in the space of a cubic kernel, one of them constant: not five."""
    X = np.zeros((16, 2))
    X[[3, 4, 6, 7, 9, 10, 12], 1] = [0.3, 0.44, -0.74, -0.34, -0.49, -0.33, -4.4]
    X[15, 0] = 0.7
    y = np.arange(16) % 2
    for seed in range(4):
        model = make(kernel="poly", n_landmarks=5, solver=solver, random_state=seed).fit(X, y)
        assert np.abs(model.components_).max() < 1e6
        alone = np.vstack([model.transform(X[i : i + 1]) for i in range(16)])
        np.testing.assert_allclose(alone, model.transform(X), atol=1e-6)


def test_what_all_kernels_have_in_common_is_no_direction(rng):
    """Rows twice, with two labels: beyond six directions centred kernels hold nothing but round-off."""
    X = 1e3 + rng.normal(size=(7, 28))[np.arange(28) % 7]
    y = np.arange(28) % 2
    order = rng.permutation(28)
    one, other = (LDA(kernel="poly", degree=0.1).fit(X[o], y[o]) for o in (np.arange(28), order))
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-4)
