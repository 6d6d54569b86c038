"""Data in float32: what rounding made of dependent columns and rows is no direction, and float64 is as it was."""

import numpy as np
import pytest
import scipy.sparse as sp

from labelfold import CCA, HSL, LDA, OPLS, PCALS, SSDR, LapRLS
from labelfold.numerics._gram import Factor, known_part, rounding

EPS32 = float(np.finfo(np.float32).eps)

MAKERS = {
    "LDA": LDA,
    "LDA direct": lambda: LDA(solver="direct"),
    "LDA tiny ridge": lambda: LDA(ridge=1e-6),
    "CCA": CCA,
    "OPLS": OPLS,
    "HSL": HSL,
    "SSDR": lambda: SSDR(2),
    "PCALS": lambda: PCALS(2),
}


def problem(seed, offset=0.0, n=200, copies=1):
    """Three classes in the plane; the first column is there again, divided by 3, 7, ..."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    a = rng.normal(size=n) + y + offset
    b = rng.normal(size=n) + 2 * (y == 1)
    return np.column_stack([a, *(a / (3 + 4 * i) for i in range(copies)), b]), y


def apart(Z, other):
    """Relative distance of two embeddings, each column up to its sign."""
    Z, other = Z - Z.mean(axis=0), np.asarray(other, dtype=float) - np.mean(other, axis=0, dtype=float)
    assert Z.shape == other.shape
    return np.linalg.norm(Z - other * np.sign((Z * other).sum(axis=0))) / np.linalg.norm(Z)


def allowed(offset):
    """Rounding moves an entry by eps |x|; beside a spread of 1 the directions move by a small multiple of that."""
    return 20 * EPS32 * (1 + offset)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("name", MAKERS)
def test_nearly_dependent_columns_give_what_float64_gives(name, offset, seed):
    X, y = problem(seed, offset)
    single = X.astype(np.float32)
    model, other = MAKERS[name]().fit(X, y), MAKERS[name]().fit(single, y)
    assert apart(model.transform(X), other.transform(single)) <= allowed(offset)
    if hasattr(model, "eigenvalues_"):
        np.testing.assert_allclose(other.eigenvalues_, model.eigenvalues_, rtol=allowed(offset))


@pytest.mark.parametrize("seed", range(5))
def test_the_linear_kernel_of_nearly_dependent_columns(seed):
    X, y = problem(seed)
    single = X.astype(np.float32)
    model, other = LDA().fit(X, y), LDA(kernel="linear").fit(single, y)
    assert apart(model.transform(X), other.transform(single)) <= allowed(0.0)


@pytest.mark.parametrize("copies", [2, 6])
@pytest.mark.parametrize("sparse", [False, True])
def test_several_copies_sparse_or_not(copies, sparse):
    X, y = problem(7, copies=copies)
    single = X.astype(np.float32)
    given = sp.csr_array(single) if sparse else single
    assert apart(LDA().fit(X, y).transform(X), LDA().fit(given, y).transform(given)) <= allowed(0.0)


def test_batches_agree_with_all_rows():
    X, y = problem(3)
    single = X.astype(np.float32)
    model = LDA()
    for part in np.array_split(np.arange(len(y)), 4):
        model.partial_fit(single[part], y[part], classes=[0, 1, 2])
    assert apart(LDA().fit(X, y).transform(X), model.transform(single)) <= allowed(0.0)


@pytest.mark.parametrize("seed", range(5))
def test_nearly_dependent_rows_of_wide_data(seed):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(20, 60))
    y = np.repeat(np.arange(20) % 2, 2)
    X = np.repeat(base, 2, axis=0) * np.tile([1.0, 1 / 3], 20)[:, None]
    single = X.astype(np.float32)
    model, other = LDA().fit(X, y), LDA().fit(single, y)
    assert apart(model.transform(X), other.transform(single)) <= allowed(0.0)
    assert np.abs(other.components_).max() <= 2 * np.abs(model.components_).max()


def test_columns_of_any_scale_stay():
    """Rounding is relative to a column: a small one beside a large one is known as well, copies or not."""
    X, y = problem(1)
    X = X * [1e6, 1e6, 1e-4]
    single = X.astype(np.float32)
    assert apart(LDA().fit(X, y).transform(X), LDA().fit(single, y).transform(single)) <= allowed(0.0)


def test_independent_columns_are_all_kept(rng):
    X = rng.normal(size=(300, 20)).astype(np.float32)
    R = np.linalg.qr(X.astype(np.float64), mode="r")
    noise = rounding((R**2).sum(axis=0), 300, EPS32)
    assert known_part(R, noise) is R
    assert Factor(R, np.zeros((20, 1)), 300, noise).full_rank


def test_rounding_errors_stay_below_their_bound():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        for n, d in ((300, 5), (50, 40), (2000, 100)):
            X = rng.normal(size=(n, d)) * rng.lognormal(size=d) + rng.normal(size=d)
            error = X.astype(np.float32) - X
            bound = rounding((X**2).sum(axis=0), n, EPS32)
            assert np.linalg.norm(error / bound, 2) < 1


@pytest.mark.parametrize(
    "model",
    [
        LDA(kernel="rbf", gamma=1e-4, n_landmarks=12),
        CCA(kernel="rbf", gamma=1e-4, n_landmarks=12),
        LapRLS(kernel="poly", coef0=100.0, ridge=1e-9),
    ],
    ids=lambda model: type(model).__name__,
)
def test_scores_in_a_kernels_space_are_summed_in_double_precision(model, rng):
    """Coefficients there are large and cancel: rows in single precision are not to be summed in it."""
    X, y = rng.normal(size=(40, 3)).astype(np.float32), np.arange(40) % 3
    model.fit(X.astype(np.float64), y)
    exact = model.decision_function(X.astype(np.float64))
    np.testing.assert_allclose(model.decision_function(X), exact, atol=1e-6 * np.abs(exact).max())


@pytest.mark.parametrize("model", [LDA(), CCA(), PCALS(2)], ids=lambda model: type(model).__name__)
def test_rounding_of_the_mean_moves_no_row(model, rng):
    X, y = (1e6 + rng.normal(size=(60, 3))).astype(np.float32), np.arange(60) % 3
    model.fit(X, y)
    np.testing.assert_allclose(model.mean_, X.astype(np.float64).mean(axis=0), rtol=1e-12)
    exact = model.transform(X.astype(np.float64))
    np.testing.assert_allclose(model.transform(X), exact, atol=1e-5 * np.abs(exact).max())
    exact = model.decision_function(X.astype(np.float64))
    np.testing.assert_allclose(model.decision_function(X), exact, atol=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e4])
@pytest.mark.parametrize("make", [LDA, CCA, OPLS, HSL])
def test_a_linear_kernel_without_a_ridge_is_the_method_without_a_kernel(make, offset):
    X, y = problem(0, offset, n=60)
    X = X.astype(np.float32)
    plain, kernel = make().fit(X, y), make(kernel="linear").fit(X, y)
    exact = plain.decision_function(X)
    room = 50 * EPS32 * max(offset, 10.0) * np.abs(exact).max()
    np.testing.assert_allclose(kernel.decision_function(X), exact, atol=room)


def test_equal_columns_in_any_container(container, rng):
    X = rng.normal(size=(40, 4))
    X[:, 3], y = X[:, 0], np.arange(40) % 2
    found = LDA().fit(container.make(X), y).components_
    np.testing.assert_allclose(found, LDA().fit(X, y).components_, atol=1e-10)


def test_scores_of_classes_that_are_separated_perfectly_do_not_follow_round_off():
    """The scatter within classes is round-off of the rows, 1e-7, so scores beyond its inverse have no digit."""
    X, y = np.repeat([[0.1, 3.7], [0.3, 2.9], [7.3, 0.1]], 8, axis=0), np.repeat([0, 1, 2], 8)
    scores = LDA().fit(X.astype(np.float32), y).decision_function(X.astype(np.float32))
    assert np.abs(scores).max() < len(X) / EPS32
