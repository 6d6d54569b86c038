"""Sums of two quotients: their derivatives, and that the highest maximum from several starts is the global one."""

import numpy as np
import pytest
from scipy import optimize

from labelfold.subspace._search import RatioSum, first_eigenvectors


def highest(ratio):
    return ratio.modes(ratio.starts())[0]


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
        gradient, N = ratio.derivatives(w)
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
        value, w = highest(ratio)
        U = sphere @ ratio.Z.T
        fit = ((U @ ratio.R) ** 2).sum(axis=1) / np.maximum((U**2).sum(axis=1), 1e-12)
        naive = fit + np.einsum("ij,jk,ik->i", sphere, ratio.S, sphere)
        assert value >= naive.max() * (1 - 1e-9)
        np.testing.assert_allclose(value, ratio.value(w), rtol=1e-12)


def test_ascent_ends_where_the_slope_does():
    for seed in range(10):
        ratio = problem(10, 6, 2, 0.05, seed)
        value, w = ratio.ascend(np.random.default_rng(seed).standard_normal(10))
        assert np.linalg.norm(ratio.derivatives(w)[0]) <= 1e-10 * value


@pytest.mark.parametrize("seed", range(40))
def test_first_eigenvector_of_a_multiple_eigenvalue(seed):
    # LAPACK finds no vector at all for some of these.
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 60))
    v = rng.standard_normal(m)
    v /= np.linalg.norm(v)
    M = 100 * np.eye(m) - 10.0 ** rng.uniform(-12, 0) * np.outer(v, v)
    (value,), u = first_eigenvectors(M, 1)
    u = u[:, 0]
    assert value == pytest.approx(100, rel=1e-12)
    np.testing.assert_allclose(np.linalg.norm(u), 1, rtol=1e-12)
    np.testing.assert_allclose(M @ u, 100 * u, atol=1e-10)


def test_nothing_to_fit_is_the_first_eigenvector():
    ratio = problem()
    blind = RatioSum(ratio.S, np.zeros((4, 6)), ratio.R)
    (expected,), v = first_eigenvectors(ratio.S, 1)
    value, w = highest(blind)
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(abs(w @ v[:, 0]), 1)
    idle, _ = highest(RatioSum(ratio.S, ratio.Z, np.zeros((4, 1))))
    np.testing.assert_allclose(idle, expected)


def test_one_variable():
    value, _ = highest(RatioSum(np.array([[2.0]]), np.array([[1.0], [1.0]]), np.array([[1.0], [3.0]])))
    np.testing.assert_allclose(value, 10.0)
