"""A tridiagonal matrix in place of a symmetric one, for many ridges."""

import numpy as np
import pytest

from labelfold.numerics import _gram as module
from labelfold.numerics._gram import WIDTH, Gram, Tridiagonal

RIDGES = [0.0, 1e-2, 1.0, 30.0, 1e5]


def square(m, seed=0, extra=20):
    X = np.random.default_rng(seed).standard_normal((m + extra, m))
    return X.T @ X


@pytest.mark.parametrize("m", [1, 2, 3, 7, 65, 2 * WIDTH + 1])
def test_solutions_are_those_of_the_matrix(m):
    G, M = square(m), np.random.default_rng(1).standard_normal((m, 3))
    reduced = Tridiagonal(G.copy(), M)
    for ridge in RIDGES:
        F, X = reduced.solve(ridge)
        expected = np.linalg.solve(G + ridge * np.eye(m), M)
        np.testing.assert_allclose(X, expected, atol=1e-10 * np.abs(expected).max())
        inner = M.T @ expected
        np.testing.assert_allclose(F.T @ F, inner, atol=1e-10 * np.abs(inner).max())


def test_the_condition_is_that_of_the_matrix():
    Q, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((60, 60)))
    G, M = (Q * np.logspace(0, -9, 60)) @ Q.T, np.ones((60, 1))
    reduced = Tridiagonal((G + G.T) / 2, M)
    for ridge in (1e-8, 1e-3, 1.0):
        assert reduced.rcond(ridge) == pytest.approx((1e-9 + ridge) / (1 + ridge), rel=1e-4)
    assert Tridiagonal(-np.eye(5), np.ones((5, 1))).rcond(0.5) == 0


def counted(monkeypatch):
    """Return lists that grow with every Cholesky factor, and with every reduction to a tridiagonal form."""
    factors, reductions = [], []
    trusted = Gram.trusted
    monkeypatch.setattr(Gram, "trusted", lambda self, ridge: factors.append(ridge) or trusted(self, ridge))
    monkeypatch.setattr(module, "Tridiagonal", lambda *args: reductions.append(args) or Tridiagonal(*args))
    return factors, reductions


@pytest.mark.parametrize("constant", [0.0, 2.0])
@pytest.mark.parametrize("n_ridges", [1, 3, 5, 9, 40])
def test_many_ridges_share_one_reduction(n_ridges, constant, monkeypatch):
    factors, reductions = counted(monkeypatch)
    m = 2 * WIDTH + 10
    G, M = square(m), np.random.default_rng(4).standard_normal((m, 4))
    before = G.copy()
    gram, ridges = Gram(G, m, np.full(m, np.sqrt(constant))), list(np.logspace(4, -4, n_ridges))
    gram.expect(ridges)
    for ridge in ridges:
        F, X = gram.solve(M, ridge)
        expected = np.linalg.solve(G + constant + ridge * np.eye(m), M)
        np.testing.assert_allclose(X, expected, atol=1e-9 * np.abs(expected).max())
        np.testing.assert_allclose(F.T @ F, M.T @ expected, rtol=1e-7)
    np.testing.assert_array_equal(G, before)
    assert (len(factors), len(reductions)) == ((n_ridges, 0) if n_ridges < 5 else (0, 1))


def test_a_ridge_that_was_not_announced_has_a_factor_of_its_own(monkeypatch):
    factors, _ = counted(monkeypatch)
    m = 2 * WIDTH
    gram, M = Gram(square(m), m), np.ones((m, 1))
    gram.expect([1.0, 2.0, 3.0, 4.0, 5.0])
    gram.solve(M, 1.0)
    expected = np.linalg.solve(gram.G + 6 * np.eye(m), M)
    np.testing.assert_allclose(gram.solve(M, 6.0)[1], expected, atol=1e-10)
    assert factors == [6.0]


def test_columns_of_many_scales_are_left_to_scaled_factors(monkeypatch):
    factors, _ = counted(monkeypatch)
    m = 2 * WIDTH
    scale = np.logspace(-8, 8, m)
    G = scale[:, None] * square(m) * scale
    M = scale[:, None] * np.ones((m, 1))
    gram, ridges = Gram(G, m), [0.0, 1e-25, 1e-24, 1e-23, 1e30]
    gram.expect(ridges)
    found = [gram.solve(M, ridge) for ridge in ridges]
    assert factors == ridges[:4]
    expected = np.linalg.solve(square(m), np.ones((m, 1)))
    np.testing.assert_allclose(scale[:, None] * found[0][1], expected, atol=1e-8 * np.abs(expected).max())


def test_where_no_scale_would_help_no_factor_is_tried(monkeypatch):
    factors, _ = counted(monkeypatch)
    m = 2 * WIDTH
    X = np.random.default_rng(5).standard_normal((30, m))
    gram, ridges = Gram(X.T @ X, m), [0.0, 1e-8, 1e-7, 1.0, 2.0]
    gram.expect(ridges)
    assert [gram.solve(np.ones((m, 1)), ridge) is None for ridge in ridges] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert factors == []
