"""Sums of two quotients: their derivatives, and that what is called the global maximum is it."""

import itertools

import numpy as np
import pytest
from scipy import optimize

from labelfold.subspace._ratio_sums import PROVED_TO, RatioSum, first_eigenvector, maximise


def problem(m=6, n_rows=4, q=1, weight=1.0, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((20, m)) * np.exp(rng.standard_normal(m))
    return RatioSum(
        weight * A.T @ A,
        rng.standard_normal((n_rows, m)) @ np.diag(np.exp(rng.standard_normal(m))),
        rng.standard_normal((n_rows, q)),
    )


def test_derivatives_are_those_of_the_value():
    for seed in range(5):
        ratio = problem(q=2, seed=seed)
        w = np.random.default_rng(seed).standard_normal(6)
        w /= np.linalg.norm(w)
        gradient, N, _ = ratio.derivatives(w)
        numeric = optimize.approx_fprime(w, ratio.value, 1e-7)
        np.testing.assert_allclose(2 * gradient, numeric, rtol=1e-4, atol=1e-4)
        v = np.random.default_rng(seed + 9).standard_normal(6)
        v -= (v @ w) * w
        v /= np.linalg.norm(v)
        around = [ratio.value(np.cos(a) * w + np.sin(a) * v) for a in (-1e-4, 0, 1e-4)]
        curvature = (around[0] - 2 * around[1] + around[2]) / 1e-8
        np.testing.assert_allclose(-2 * v @ N @ v, curvature, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(N @ w, 0, atol=1e-10)


@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("weight", [1e-4, 0.01, 0.3, 10.0])
@pytest.mark.parametrize("n_rows", [2, 5, 40])
def test_global_maximum_of_three_variables(n_rows, weight, q):
    """On a grid of the whole sphere nothing is larger."""
    a, b = np.meshgrid(np.linspace(0, np.pi, 150), np.linspace(0, np.pi, 150))
    sphere = np.stack([np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)], axis=-1).reshape(-1, 3)
    for seed in range(4):
        ratio = problem(3, n_rows, q, weight, seed)
        found = maximise(ratio)
        U = sphere @ ratio.Z.T
        fit = ((U @ ratio.R) ** 2).sum(axis=1) / np.maximum((U**2).sum(axis=1), 1e-12)
        naive = fit + np.einsum("ij,jk,ik->i", sphere, ratio.S, sphere)
        assert found.value >= naive.max() * (1 - 1e-9)
        np.testing.assert_allclose(found.value, ratio.value(found.w), rtol=1e-12)


@pytest.mark.parametrize("weight", [1e-3, 0.1, 3.0])
def test_the_proof_proves(weight):
    """The intervals cover every first quotient there is, and no bound at their ends exceeds the maximum."""
    for seed in range(5):
        ratio = problem(8, 12, 2, weight, seed)
        found = maximise(ratio)
        cover = found.cover
        assert cover[0].low == 0
        np.testing.assert_allclose(cover[-1].high, ratio.best_fit()[0])
        for left, right in itertools.pairwise(cover):
            assert right.low <= left.high * (1 + 1e-12)
        for low, high, nu in cover[:-1]:
            for t in (low, high):
                assert ratio.top(t, nu)[0] <= found.value * (1 + PROVED_TO)
        low, high, nu = cover[-1]
        assert ratio.top(low, nu)[0] + high - low <= found.value * (1 + PROVED_TO)
        # A bound is one: no vector beats it.
        rng = np.random.default_rng(seed)
        for w in rng.standard_normal((50, 8)):
            t, s, _ = ratio.parts(w)
            assert t + s <= ratio.top(t, cover[len(cover) // 2].nu)[0] * (1 + 1e-12)


def test_a_cover_of_a_smaller_problem_is_a_start():
    ratio = problem(8, 12, 1, 0.1)
    small = RatioSum(ratio.S[:5, :5], ratio.Z[:, :5], ratio.R)
    cover = maximise(small).cover
    again, fresh = maximise(ratio, cover=cover), maximise(ratio)
    np.testing.assert_allclose(again.value, fresh.value, rtol=PROVED_TO)


def test_bounds_by_factor_are_bounds_by_eigenvalue():
    ratio = problem(7, 5, 2, 0.2)
    for t, nu in [(0.0, 0.0), (0.5, 0.1), (2.0, 3.0)]:
        h = ratio.top(t, nu)[0]
        assert ratio.is_below(t, nu, h * (1 + 1e-9))
        assert not ratio.is_below(t, nu, h * (1 - 1e-9))


@pytest.mark.parametrize("share", [1e-7, 1e-3, 0.2, 10.0])
def test_a_vector_beyond_a_target(share):
    for seed in range(5):
        ratio = problem(7, 5, 2, 0.2, seed)
        h = ratio.top(0.5, 0.1)[0]
        w = ratio.beyond(0.5, 0.1, h / (1 + share))
        value = 0.5 + w @ ratio.matrix(0.5, 0.1) @ w
        assert abs(w @ w - 1) < 1e-12
        assert value > h / (1 + share)


def test_ascent_ends_where_the_slope_does():
    for seed in range(10):
        ratio = problem(10, 6, 2, 0.05, seed)
        w, value = ratio.ascend(np.random.default_rng(seed).standard_normal(10))
        assert np.linalg.norm(ratio.derivatives(w)[0]) <= 1e-10 * value


@pytest.mark.parametrize("seed", range(40))
def test_first_eigenvector_of_a_multiple_eigenvalue(seed):
    # LAPACK finds no vector at all for some of these.
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 60))
    v = rng.standard_normal(m)
    v /= np.linalg.norm(v)
    M = 100 * np.eye(m) - 10.0 ** rng.uniform(-12, 0) * np.outer(v, v)
    value, u = first_eigenvector(M)
    assert value == pytest.approx(100, rel=1e-12)
    np.testing.assert_allclose(np.linalg.norm(u), 1, rtol=1e-12)
    np.testing.assert_allclose(M @ u, 100 * u, atol=1e-10)


def test_nothing_to_fit_is_the_first_eigenvector():
    ratio = problem()
    blind = RatioSum(ratio.S, np.zeros((4, 6)), ratio.R)
    value, v = first_eigenvector(ratio.S)
    found = maximise(blind)
    np.testing.assert_allclose(found.value, value)
    np.testing.assert_allclose(abs(found.w @ v), 1)
    idle = maximise(RatioSum(ratio.S, ratio.Z, np.zeros((4, 1))))
    np.testing.assert_allclose(idle.value, value)


def test_one_variable():
    found = maximise(RatioSum(np.array([[2.0]]), np.array([[1.0], [1.0]]), np.array([[1.0], [3.0]])))
    np.testing.assert_allclose(found.value, 10.0)
