"""Rows of H for a fixed V on a device, beside the compiled loops of the host."""

import numpy as np
import pytest
from scipy.optimize import nnls

from labelfold.factorization._components import nonnegative_least_squares
from labelfold.factorization._device_rows import divergence_rows, least_squares_rows
from labelfold.factorization._divergence import solve_rows
from labelfold.rows import as_rows

SHAPES = {
    "tall": (300, 40, 5, 1.0),
    "few entries": (300, 40, 5, 0.1),
    "many components": (60, 100, 30, 0.2),
    "more components than columns": (200, 6, 8, 1.0),
}


def made(m, d, k, share):
    """Return rows and a basis, with a row of zeros, columns without components and an empty component."""
    rng = np.random.default_rng(0)
    V = rng.random((d, k)) ** 4 * (rng.random((d, k)) < 0.7)
    V[0], V[:, -1] = 0, 0
    X = rng.poisson(12 * rng.random((m, k)) ** 3 @ V.T + 0.1) * (rng.random((m, d)) < share) * 1.0
    X[0] = 0
    return X, V


def divergences(X, H, V):
    """Return the divergence of each row less its constants, in columns that have components."""
    used = V.any(axis=1)
    X, P = X[:, used], H @ V[used].T
    return P.sum(axis=1) - np.where(X > 0, X * np.log(np.maximum(P, 1e-300)), 0).sum(axis=1)


@pytest.mark.parametrize("shape", SHAPES)
def test_divergence_rows_are_as_good_as_those_of_the_host(shape):
    X, V = made(*SHAPES[shape])
    found = divergence_rows(X, V, 1e-8)
    host = as_rows(X).map(solve_rows, shared=(V, V.sum(axis=0), 1e-8, 5000))
    assert (found >= 0).all()
    assert (found[0] == 0).all()
    assert (found[:, -1] == 0).all()
    worse = divergences(X, found, V) - divergences(X, host, V)
    assert (worse <= 1e-8 * X.sum(axis=1)).all()  # the gap of both


@pytest.mark.parametrize("shape", SHAPES)
def test_divergence_rows_are_stationary(shape):
    X, V = made(*SHAPES[shape])
    H = divergence_rows(X, V, 1e-10)
    X = X * V.any(axis=1)
    slope = V.sum(axis=0) - (X / np.maximum(H @ V.T, 1e-300)) @ V
    size = V.sum(axis=0)
    assert (slope >= -1e-10 * size - 1e-15).all()
    assert (np.abs(slope * H).max(axis=1) <= 1e-6 * np.maximum(X.sum(axis=1), 1)).all()


def test_a_divergence_row_does_not_depend_on_its_neighbours():
    X, V = made(50, 20, 6, 1.0)
    together = divergence_rows(X, V, 1e-8)
    for i in (0, 7, 49):
        np.testing.assert_allclose(
            divergence_rows(X[[i]], V, 1e-8)[0], together[i], atol=1e-6 * together.max()
        )


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_divergence_rows_does_not_matter(unit):
    X, V = made(50, 20, 6, 1.0)
    np.testing.assert_allclose(
        divergence_rows(unit * X, V, 1e-8) / unit, divergence_rows(X, V, 1e-8), atol=1e-6
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_least_squares_rows_equal_scipys(shape):
    X, V = made(*SHAPES[shape])
    V = V + 1e-3 * np.random.default_rng(1).random(V.shape)
    ridge = 1e-3 * np.eye(V.shape[1])
    Q = V.T @ V + ridge @ ridge
    found = least_squares_rows(X @ V, Q)
    stacked = np.vstack([V, ridge])
    for x, h in zip(X[:40], found, strict=False):
        np.testing.assert_allclose(
            h, nnls(stacked, np.append(x, np.zeros(len(Q))))[0], atol=1e-8 * found.max()
        )
    np.testing.assert_allclose(found, nonnegative_least_squares(X @ V, Q), atol=1e-8 * found.max())


def test_least_squares_rows_with_a_nearly_singular_matrix():
    """As low as the host's, which has steps of its own for such matrices."""
    rng = np.random.default_rng(0)
    V = rng.random((30, 6))
    V[:, 5] = V[:, 4] + 1e-6 * rng.random(30)
    P, Q = rng.random((100, 30)) @ V, V.T @ V
    values = [
        0.5 * ((H @ Q) * H).sum(axis=1) - (P * H).sum(axis=1)
        for H in (least_squares_rows(P, Q), nonnegative_least_squares(P, Q))
    ]
    np.testing.assert_allclose(*values, rtol=1e-10)


def test_no_rows():
    assert least_squares_rows(np.zeros((0, 3)), np.eye(3)).shape == (0, 3)
    assert divergence_rows(np.zeros((0, 4)), np.ones((4, 3)), 1e-8).shape == (0, 3)
