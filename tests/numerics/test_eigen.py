"""Largest eigenvalues from products alone: equal to a dense decomposition, indefinite matrices among them."""

from __future__ import annotations

import numpy as np
import pytest

from labelfold.numerics._spectral import largest_eigenvectors, signed

EPS = np.finfo(np.float64).eps

SPECTRA = {
    "positive": np.linspace(0.1, 5, 120),
    "of both signs": np.linspace(-4, 5, 120),
    "the other end is far larger": np.concatenate([np.linspace(-100, -20, 60), np.linspace(0.1, 5, 60)]),
    "all negative": np.linspace(-5, -0.1, 120),
    "mostly zero": np.concatenate([np.zeros(110), [-3, -2, -1, 1, 2, 3, 4, 5, 6, 7.0]]),
    "one of them many times": np.concatenate([np.full(6, 9.0), np.linspace(-2, 5, 114)]),
}


@pytest.mark.parametrize("block", [None, 3])
@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("name", SPECTRA)
def test_equals_the_dense_decomposition(name, k, block, rng):
    spectrum = np.sort(SPECTRA[name])[::-1]
    U, _ = np.linalg.qr(rng.standard_normal((120, 120)))
    A = (U * spectrum) @ U.T
    seen, widths = [], []

    def operator(P):
        np.testing.assert_allclose(P.T @ P, np.eye(P.shape[1]), atol=1e-13)
        widths.append(P.shape[1])
        return A @ P

    found = largest_eigenvectors(
        operator,
        rng.standard_normal((120, k + 6)),
        k,
        tol=1e-10,
        eps=EPS,
        max_iter=500,
        block=block,
        callback=lambda iteration, residual: seen.append((iteration, residual)),
    )
    assert found.converged
    assert max(widths[1:], default=0) <= (block or k + 6)
    assert [i for i, _ in seen] == list(range(1, found.n_iter + 1))
    assert seen[-1][1] == found.residual <= 1e-10
    norm = np.abs(spectrum).max()
    np.testing.assert_allclose(found.values[:k], spectrum[:k], atol=1e-12 * norm)
    V = found.vectors[:, :k]
    assert np.abs(V.T @ V - np.eye(k)).max() < 1e-13
    # A residual of tol |t| over the gap to the next eigenvalue bounds the sine between the subspaces.
    gap = spectrum[k - 1] - spectrum[k]
    if not gap:  # any vectors of its space will do
        assert np.linalg.norm(A @ V - V * spectrum[:k]) <= 1e-9 * norm
        return
    assert (
        np.linalg.norm(V - U[:, :k] @ (U[:, :k].T @ V), 2)
        <= np.sqrt(k) * 1e-10 * np.abs(spectrum[:k]).max() / gap + 1e-12
    )
    assert found.norm <= norm * (1 + 1e-12)


def test_stops_when_told_and_says_how_far_it_came(rng):
    A = np.diag(np.linspace(1, 2, 300))
    found = largest_eigenvectors(
        lambda P: A @ P, rng.standard_normal((300, 3)), 2, tol=1e-10, eps=EPS, max_iter=3
    )
    assert not found.converged
    assert found.n_iter == 3
    t, V = found.values[:2], found.vectors[:, :2]
    assert found.residual == pytest.approx((np.linalg.norm(A @ V - V * t, axis=0) / t).max(), rel=1e-8)


@pytest.mark.parametrize("A", [np.zeros((5, 5)), np.eye(5), np.diag([2.0, 1, 0, 0, -1])])
def test_few_columns_and_repeated_eigenvalues(A, rng):
    found = largest_eigenvectors(
        lambda P: A @ P, rng.standard_normal((5, 5)), 5, tol=1e-8, eps=EPS, max_iter=9
    )
    assert found.n_iter == 1
    np.testing.assert_allclose(found.values, np.sort(np.diag(A))[::-1], atol=1e-14)


def test_round_off_is_the_end(rng):
    """Products in float32 cannot be told from exact ones below their round-off: no waiting for more."""
    A = np.diag(np.linspace(-1, 3, 200)).astype(np.float32)
    found = largest_eigenvectors(
        lambda P: (A @ P.astype(np.float32)).astype(np.float64),
        rng.standard_normal((200, 12)),
        2,
        tol=1e-14,
        eps=float(np.finfo(np.float32).eps),
        max_iter=300,
    )
    assert found.converged
    np.testing.assert_allclose(found.values[:2], [3, 3 - 4 / 199], atol=1e-5)


def test_signs():
    V = np.array([[0.1, -0.2], [-0.9, 0.1]])
    np.testing.assert_array_equal(signed(V), [[-0.1, 0.2], [0.9, -0.1]])
