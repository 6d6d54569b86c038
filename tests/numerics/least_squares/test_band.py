"""A band matrix in place of a symmetric one, for many ridges."""

import numpy as np
import pytest

from labelfold.numerics import _gram as module
from labelfold.numerics._gram import WIDTH, Band, Gram

EPS = np.finfo(float).eps
RIDGES = [0.0, 1e-2, 1.0, 30.0, 1e5]


def square(m, seed=0, extra=20):
    X = np.random.default_rng(seed).standard_normal((m + extra, m))
    return X.T @ X


@pytest.mark.parametrize("constant", [0.0, 2.0])
@pytest.mark.parametrize(
    ("m", "width"),
    [(1, 3), (2, 1), (5, 1), (7, 3), (64, 64), (65, 64), (66, 64), (150, 16), (2 * WIDTH + 1, WIDTH)],
)
def test_solutions_are_those_of_the_matrix(m, width, constant):
    G, M = square(m), np.random.default_rng(1).standard_normal((m, 3))
    before = G.copy()
    for ridge, (_, F, X) in zip(RIDGES, Band(G, constant, width).solve(M, RIDGES, 1e-12), strict=True):
        expected = np.linalg.solve(G + constant + ridge * np.eye(m), M)
        np.testing.assert_allclose(X, expected, atol=1e-10 * np.abs(expected).max())
        inner = M.T @ expected
        np.testing.assert_allclose(F.T @ F, inner, atol=1e-10 * np.abs(inner).max())
    np.testing.assert_array_equal(G, before)


def test_the_band_is_similar_to_the_matrix():
    G = square(90)
    band = Band(G, width=8)
    B = sum(np.diag(band.B[i, : 90 - i], -i) for i in range(9))
    B = B + np.tril(B, -1).T
    np.testing.assert_allclose(np.linalg.eigvalsh(B), np.linalg.eigvalsh(G), rtol=1e-9)
    assert band.norm == pytest.approx(np.abs(B).sum(axis=0).max())


def test_columns_are_turned_back_in_pieces(monkeypatch):
    G, M = square(80), np.random.default_rng(2).standard_normal((80, 3))
    whole = Band(G, width=8).solve(M, RIDGES, 1e-12)
    monkeypatch.setattr("labelfold.numerics._gram.WIDTH", 6)
    for one, other in zip(whole, Band(G, width=8).solve(M, RIDGES, 1e-12), strict=True):
        np.testing.assert_allclose(one.X, other.X, rtol=1e-10, atol=1e-14)


def test_a_bad_condition_is_not_solved_with():
    Q, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((60, 60)))
    G, M = (Q * np.logspace(0, -12, 60)) @ Q.T, np.ones((60, 1))
    G = (G + G.T) / 2
    found = Band(G, width=8).solve(M, [0.0, 1e-9, 1e-2], EPS / 1e-8)
    assert [one.X is None for one in found] == [True, True, False]
    assert Band(-np.eye(5), width=1).solve(np.ones((5, 1)), [0.5, 2.0], 1e-8)[0].rcond == 0


def counted(monkeypatch):
    """Return lists that grow with every Cholesky factor, and with every reduction to a band."""
    factors, bands = [], []
    trusted = Gram.trusted
    monkeypatch.setattr(Gram, "trusted", lambda self, ridge: factors.append(ridge) or trusted(self, ridge))
    monkeypatch.setattr(module, "Band", lambda *args: bands.append(args) or Band(*args))
    return factors, bands


@pytest.mark.parametrize("n_ridges", [1, 3, 5, 9, 40])
def test_many_ridges_share_one_reduction(n_ridges, monkeypatch):
    factors, bands = counted(monkeypatch)
    m = 2 * WIDTH + 10
    G, M = square(m), np.random.default_rng(4).standard_normal((m, 4))
    gram, ridges = Gram(G, m), list(np.logspace(4, -4, n_ridges))
    gram.expect(ridges)
    for ridge in ridges:
        F, X = gram.solve(M, ridge)
        expected = np.linalg.solve(G + ridge * np.eye(m), M)
        np.testing.assert_allclose(X, expected, atol=1e-9 * np.abs(expected).max())
        np.testing.assert_allclose(F.T @ F, M.T @ expected, rtol=1e-7)
    assert (len(factors), len(bands)) == ((n_ridges, 0) if n_ridges < 5 else (0, 1))


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
