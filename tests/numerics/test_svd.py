"""The randomised SVD: equal to NumPy's on small data, in every container, in the passes it says."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from labelfold.factorization._components import svd_start
from labelfold.numerics._spectral import orthonormal, randomized_svd
from labelfold.rows import Centered, as_rows

EPS = np.finfo(np.float64).eps


def matrix(rng, n: int, d: int, s) -> np.ndarray:
    """Return a random n x d matrix with these singular values."""
    U, _ = np.linalg.qr(rng.standard_normal((n, len(s))))
    V, _ = np.linalg.qr(rng.standard_normal((d, len(s))))
    return (U * s) @ V.T


def check(X: np.ndarray, found, k: int, *, eps: float = EPS, vectors: float | None = 1e-6) -> None:
    """Assert that the k leading singular triplets of a dense X were found.

    Values are to be right to round-off relative to the largest. Vectors are right to about ``tol`` over the gap
    to the next value: ``vectors`` bounds the sine between the subspaces.
    """
    _, s, Vt = np.linalg.svd(X.astype(np.float64), full_matrices=False)
    U = np.asarray(found.U, dtype=np.float64)
    assert found.converged
    assert found.s.shape == (k,)
    assert U.shape == (len(X), k)
    assert found.Vt.shape == (k, X.shape[1])
    round_off = 10 * np.sqrt(max(X.shape)) * eps
    assert np.abs(found.s - s[:k]).max() <= round_off * s[0]
    assert np.abs(found.Vt @ found.Vt.T - np.eye(k)).max() <= 1e-13
    assert np.abs(U.T @ U - np.eye(k)).max() <= max(1e4 * eps, 1e-13)
    assert np.abs(X @ found.Vt.T - U * found.s).max() <= 100 * round_off * s[0]
    if vectors is not None:
        outside = found.Vt - found.Vt @ Vt[:k].T @ Vt[:k]
        assert np.linalg.norm(outside, 2) <= vectors
    largest = np.abs(found.Vt).argmax(axis=1)
    assert (found.Vt[np.arange(k), largest] > 0).all()


@pytest.mark.parametrize("shape", [(60, 20), (20, 60), (40, 40)])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_equals_the_dense_decomposition(shape, k, rng):
    X = rng.standard_normal(shape)
    found = randomized_svd(as_rows(X), k)
    check(X, found, k)
    s = np.linalg.svd(X, compute_uv=False)
    np.testing.assert_allclose(found.s, s[:k], rtol=1e-10)


@pytest.mark.parametrize("k", [3, 10])
def test_restarts(k, rng):
    """A slowly falling spectrum: many more products than the basis may hold."""
    X = rng.standard_normal((400, 300))
    found = randomized_svd(as_rows(X), k, n_oversamples=5)
    assert found.n_iter * (k + 5) > 2 * 4 * (k + 5)
    check(X, found, k)


def test_every_container(container, rng):
    X = matrix(rng, 50, 12, 0.7 ** np.arange(12))
    X[rng.random(X.shape) < 0.3] = 0
    rows = as_rows(container.make(X))
    found = randomized_svd(rows, 4, n_oversamples=3)
    check(X, found._replace(U=rows.get(found.U)), 4)
    dense = randomized_svd(as_rows(X), 4, n_oversamples=3)
    # All start from the same numbers, so that even signs and passes agree.
    np.testing.assert_allclose(found.Vt, dense.Vt, atol=1e-7)
    np.testing.assert_allclose(rows.get(found.U), dense.U, atol=1e-7)
    assert found.n_passes == dense.n_passes


@pytest.mark.parametrize("sparse", [False, True])
def test_centred_rows_give_principal_components(sparse, rng):
    from scipy.sparse import csr_array

    X = rng.standard_normal((80, 15)) * 0.8 ** np.arange(15) + 5
    rows = Centered(as_rows(csr_array(X) if sparse else X))
    check(X - X.mean(axis=0), randomized_svd(rows, 3, n_oversamples=4), 3, eps=10 * EPS)


@pytest.mark.parametrize("k", [15, 20])
def test_small_singular_values_keep_their_digits(k, rng):
    """X'X would hold none of those below 1e-8 of the largest."""
    X = matrix(rng, 200, 20, np.logspace(0, -12, 20))
    check(X, randomized_svd(as_rows(X), k), k, vectors=1e-3)


def test_small_singular_values_beyond_the_first_block(rng):
    X = matrix(rng, 300, 100, np.logspace(0, -12, 100))
    check(X, randomized_svd(as_rows(X), 60), 60, vectors=1e-3)


def test_rank_deficient(rng):
    X = matrix(rng, 60, 30, [3.0, 2.0, 1.0])
    with pytest.warns(
        UserWarning, match="n_components=5 is more than the rank of X, 3; 3 components are kept"
    ):
        found = randomized_svd(as_rows(X), 5)
    check(X, found, 3)


def test_more_components_than_rows_or_columns(rng):
    X = rng.standard_normal((4, 9))
    with pytest.warns(
        UserWarning, match="n_components=7 is more than the rank of X, 4; 4 components are kept"
    ):
        found = randomized_svd(as_rows(X), 7)
    check(X, found, 4)


def test_zeros():
    with pytest.warns(
        UserWarning, match="n_components=2 is more than the rank of X, 0; 0 components are kept"
    ):
        found = randomized_svd(as_rows(np.zeros((5, 4))), 2)
    assert found.U.shape == (5, 0)
    assert found.Vt.shape == (0, 4)


def test_clustered_singular_values(rng):
    """Eight equal values, and eight more within 0.02 %: found with their multiplicity."""
    s = np.r_[np.full(8, 5.0), np.full(8, 4.999), np.linspace(3, 1, 40)]
    X = matrix(rng, 150, 80, s)
    check(X, randomized_svd(as_rows(X), 8), 8, vectors=1e-4)
    check(X, randomized_svd(as_rows(X), 16), 16)
    check(
        X, randomized_svd(as_rows(X), 12), 12, vectors=None
    )  # within a cluster no subspace is the right one


def test_all_singular_values_equal(rng):
    X = matrix(rng, 60, 30, np.ones(30))
    check(X, randomized_svd(as_rows(X), 4), 4, vectors=None)


@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_float32(offset, rng):
    """A large mean makes the other values small beside the first: they keep float32's digits of it."""
    X = (matrix(rng, 3000, 40, 50 * 0.9 ** np.arange(40)) + offset).astype(np.float32)
    found = randomized_svd(as_rows(X), 6)
    assert found.U.dtype == np.float32
    assert found.s.dtype == found.Vt.dtype == np.float64
    check(X, found, 6, eps=np.finfo(np.float32).eps, vectors=1e-3)


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1)])
def test_one_row_or_one_column(shape, rng):
    X = rng.standard_normal(shape)
    check(X, randomized_svd(as_rows(X), 1), 1)


class Counting:
    """Blocks that count how often they are read."""

    def __init__(self, blocks: list) -> None:
        self.blocks, self.reads = blocks, 0

    def __iter__(self):
        self.reads += 1
        return iter(self.blocks)


def test_one_pass_an_iteration_and_one_for_the_left_vectors(rng):
    X = rng.standard_normal((150, 120))
    blocks = Counting(np.array_split(X, 3))
    rows = as_rows(blocks)
    blocks.reads = 0
    found = randomized_svd(rows, 5)
    assert found.n_iter > 5
    assert found.n_passes == rows.n_passes == blocks.reads == found.n_iter + 1


@pytest.mark.parametrize("smallest", [1e-1, 1e-11])
def test_left_vectors_times_a_power_of_the_values(smallest, rng):
    rows = as_rows(matrix(rng, 60, 20, np.logspace(0, np.log10(smallest), 20)))
    plain, scaled = (randomized_svd(rows, 8, power=power) for power in (0.0, 0.5))
    assert scaled.n_passes == plain.n_passes
    np.testing.assert_allclose(scaled.U, plain.U * np.sqrt(plain.s), rtol=1e-9, atol=1e-12)


def test_initial_factors_need_no_pass_beside_those_of_the_singular_vectors(rng):
    X = rng.standard_normal((50, 20))
    rows, alone = as_rows(X), as_rows(X)
    start = svd_start(rows, 20, 0)
    randomized_svd(alone, 20, tol=1e-4)
    assert rows.n_passes == alone.n_passes
    np.testing.assert_allclose(start.H @ start.B.T, X, atol=1e-12)


def test_small_values_cost_at_most_five_passes_more(rng):
    X = matrix(rng, 200, 20, np.logspace(0, -12, 20))
    found = randomized_svd(as_rows(X), 20)
    assert found.n_iter + 1 < found.n_passes <= found.n_iter + 6


def test_stopped_short(rng):
    X = rng.standard_normal((100, 80))
    with pytest.warns(ConvergenceWarning, match=r"stopped after 2 iterations .* raise max_iter, tol"):
        found = randomized_svd(as_rows(X), 5, n_oversamples=2, max_iter=2)
    assert not found.converged
    assert found.n_iter == 2
    assert found.residual > 1e-8
    # Still the best that the space searched holds: close to the truth, from below.
    s = np.linalg.svd(X, compute_uv=False)[:5]
    assert (found.s <= s * (1 + 1e-12)).all()
    assert (found.s >= 0.7 * s).all()


def test_the_residual_is_what_it_says(rng):
    X = rng.standard_normal((100, 80))
    found = randomized_svd(as_rows(X), 5, tol=1e-4)
    R = X.T @ (X @ found.Vt.T) - found.Vt.T * found.s**2
    worst = (np.linalg.norm(R, axis=0) / found.s**2).max()
    assert found.residual == pytest.approx(worst, rel=1e-6)
    assert 1e-8 < found.residual <= 1e-4


def test_the_same_seed_gives_the_same_bits_and_others_the_same_answer(rng):
    rows = as_rows(rng.standard_normal((100, 30)))
    first, second, other = (randomized_svd(rows, 3, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.Vt, second.Vt)
    np.testing.assert_array_equal(first.U, second.U)
    assert not np.array_equal(first.Vt, other.Vt)
    np.testing.assert_allclose(first.Vt, other.Vt, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_scaling_scales_the_values_only(scale, rng):
    X = rng.standard_normal((50, 20))
    one, scaled = randomized_svd(as_rows(X), 3), randomized_svd(as_rows(scale * X), 3)
    np.testing.assert_allclose(scaled.s, scale * one.s, rtol=1e-12)
    np.testing.assert_allclose(scaled.Vt, one.Vt, atol=1e-7)


def test_nothing_warns_on_ordinary_data(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        randomized_svd(as_rows(rng.standard_normal((50, 20))), 20)


def test_no_components():
    with pytest.raises(ValueError, match="n_components=0, where at least 1 is expected"):
        randomized_svd(as_rows(np.ones((3, 3))), 0)


def test_what_little_a_block_adds_is_orthogonal_to_the_basis(rng):
    """Almost all of Q lies in the basis: what is left after one projection is not yet orthogonal."""
    V, _ = np.linalg.qr(rng.standard_normal((80, 10)))
    Q = V @ rng.standard_normal((10, 4)) + 1e-9 * rng.standard_normal((80, 4))
    Q[:, 3] = Q[:, 0]  # and one column adds nothing
    added = orthonormal(Q, V)
    assert added.shape == (80, 3)
    both = np.hstack([V, added])
    assert np.abs(both.T @ both - np.eye(13)).max() < 1e-14
