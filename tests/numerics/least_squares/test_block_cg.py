"""Block conjugate gradients and their preconditioner against dense algebra."""

import numpy as np
import pytest

from labelfold.numerics._block_cg import (
    Scaling,
    block_cg,
    expected_iterations,
    nystrom_sketch,
    preconditioned_cg,
    shifted_cg,
    thin_qr,
)


def spd(n, eigenvalues, seed=0):
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    return (Q * eigenvalues) @ Q.T


def test_block_cg_with_dependent_and_zero_right_hand_sides():
    A = spd(60, np.linspace(1, 50, 60))
    b = np.random.default_rng(1).standard_normal((60, 2))
    B = np.hstack([b, b[:, :1] - 2 * b[:, 1:], np.zeros((60, 1)), b[:, :1]])
    answer = block_cg(lambda P: A @ P, B, tol=1e-12, max_iter=100)
    assert answer.converged
    np.testing.assert_allclose(answer.X, np.linalg.solve(A, B), atol=1e-10)
    np.testing.assert_array_equal(block_cg(lambda P: A @ P, 0 * B, tol=1e-12, max_iter=9).X, 0 * B)


def test_block_cg_finds_the_least_norm_solution_of_a_singular_system():
    A = spd(50, np.r_[np.zeros(20), np.linspace(1, 9, 30)])
    B = A @ np.random.default_rng(2).standard_normal((50, 4))
    answer = block_cg(lambda P: A @ P, B, tol=1e-12, max_iter=60)
    np.testing.assert_allclose(answer.X, np.linalg.pinv(A) @ B, atol=1e-9)


def test_block_cg_shares_one_krylov_space():
    A = spd(200, np.logspace(0, 3, 200))
    B = np.random.default_rng(3).standard_normal((200, 20))
    together = block_cg(lambda P: A @ P, B, tol=1e-8, max_iter=500)
    alone = max(block_cg(lambda P: A @ P, B[:, [j]], tol=1e-8, max_iter=500).n_iter for j in range(3))
    assert together.converged
    assert together.n_iter < alone / 3
    # With as many iterations as fill the space, whatever the condition.
    assert together.n_iter <= 200 / 20 + 4
    true = np.linalg.norm(B - A @ together.X, axis=0) / np.linalg.norm(B, axis=0)
    assert true.max() == pytest.approx(together.residual, rel=0.1)


def test_block_cg_says_when_it_stopped_short():
    A = spd(100, np.logspace(0, 4, 100))
    B = np.ones((100, 1))
    seen = []
    answer = block_cg(lambda P: A @ P, B, tol=1e-10, max_iter=7, callback=lambda *now: seen.append(now))
    assert not answer.converged
    assert answer.n_iter == 7
    assert seen[-1] == (7, answer.residual)


def test_block_cg_gives_up_when_it_is_slow_and_not_before():
    hard, easy = spd(300, np.logspace(0, 6, 300)), spd(300, np.linspace(1, 2, 300))
    B = np.random.default_rng(4).standard_normal((300, 2))
    slow = block_cg(lambda P: hard @ P, B, tol=1e-8, max_iter=1000, patience=40)
    quick = block_cg(lambda P: easy @ P, B, tol=1e-8, max_iter=1000, patience=40)
    assert (slow.converged, slow.n_iter < 12) == (False, True)
    assert quick.converged


def test_expected_iterations_of_a_steady_rate():
    residuals = [0.5**i for i in range(11)]  # 20 halvings more than these ten
    assert expected_iterations(residuals, 0.5**30) == pytest.approx(20)
    assert expected_iterations(residuals[:4], 0.5**30) == 0
    assert expected_iterations([1.0] * 10, 1e-8) == np.inf


def test_the_sketch_flattens_the_spectrum():
    eigenvalues = np.r_[np.logspace(6, 2, 30), np.linspace(1, 2, 270)]
    A, ridge = spd(300, eigenvalues), 1.0
    sketch = nystrom_sketch(lambda P: A @ P, 300, 60, np.random.RandomState(0))
    half = sketch.half(ridge)
    flat = half(half(A + ridge * np.eye(300)).T)
    assert np.linalg.cond(flat) < 10
    assert np.linalg.cond(A + ridge * np.eye(300)) > 1e5
    np.testing.assert_allclose(sketch.U.T @ sketch.U, np.eye(len(sketch.eigenvalues)), atol=1e-10)
    B = np.random.default_rng(5).standard_normal((300, 3))
    plain = preconditioned_cg(lambda P: A @ P, B, ridge, tol=1e-10, max_iter=1000)
    quick = preconditioned_cg(lambda P: A @ P, B, ridge, sketch, tol=1e-10, max_iter=1000)
    assert quick.n_iter < plain.n_iter / 2
    np.testing.assert_allclose(quick.X, np.linalg.solve(A + ridge * np.eye(300), B), atol=1e-8)


def test_the_diagonal_makes_columns_of_many_sizes_equal():
    rng = np.random.default_rng(13)
    X = rng.standard_normal((400, 120)) * np.logspace(-2, 2, 120)
    A, B, ridge = X.T @ X, rng.standard_normal((120, 3)), 1e-3
    plain = preconditioned_cg(lambda P: A @ P, B, ridge, tol=1e-10, max_iter=1000)
    quick = preconditioned_cg(lambda P: A @ P, B, ridge, Scaling(np.diag(A)), tol=1e-10, max_iter=1000)
    assert quick.converged
    assert quick.n_iter < plain.n_iter / 3
    expected = np.linalg.solve(A + ridge * np.eye(120), B)
    assert np.linalg.norm(quick.X - expected) < 1e-9 * np.linalg.norm(expected)


def test_the_sketch_stays_in_the_range():
    A = spd(80, np.r_[np.zeros(50), np.linspace(1, 100, 30)])
    sketch = nystrom_sketch(lambda P: A @ P, 80, 40, np.random.RandomState(0))
    assert len(sketch.eigenvalues) <= 30
    outside = np.eye(80) - np.linalg.pinv(A) @ A
    assert np.linalg.norm(outside @ sketch.U) < 1e-6


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e6, 1e10, 1e17, np.inf])
def test_thin_qr_whatever_the_condition(condition):
    rng = np.random.default_rng(6)
    U, V = (np.linalg.qr(rng.standard_normal((m, 10)))[0] for m in (200, 10))
    scale = (
        np.logspace(0, -np.log10(condition), 10) if np.isfinite(condition) else np.r_[np.ones(5), np.zeros(5)]
    )
    B = (U * scale) @ V.T
    Q, R = thin_qr(B)
    np.testing.assert_allclose(Q.T @ Q, np.eye(10), atol=1e-10)
    np.testing.assert_allclose(Q @ R, B, atol=1e-13)


def test_block_cg_stops_at_products_that_overflow():
    with np.errstate(invalid="ignore"):
        answer = block_cg(lambda P: np.full_like(P, np.inf), np.ones((5, 2)), tol=1e-8, max_iter=9)
    assert (answer.converged, answer.n_iter) == (False, 0)
    np.testing.assert_array_equal(answer.X, 0)


RIDGES = [3.0, 1e-2, 10.0, 0.5]


@pytest.mark.parametrize("eigenvalues", [np.logspace(0, 3, 150), np.r_[np.zeros(60), np.linspace(1, 9, 90)]])
def test_several_ridges_share_one_krylov_space(eigenvalues):
    A = spd(150, eigenvalues)
    B = A @ np.random.default_rng(10).standard_normal((150, 5))
    products, seen = [], []

    def operator(P):
        products.append(P.shape)
        return A @ P

    together = shifted_cg(
        operator, B, RIDGES, tol=1e-10, max_iter=200, callback=lambda *now: seen.append(now)
    )
    alone = [preconditioned_cg(lambda P: A @ P, B, g, tol=1e-10, max_iter=200) for g in RIDGES]
    for ridge, answer, one in zip(RIDGES, together, alone, strict=True):
        assert answer.converged
        rest = B - A @ answer.X - ridge * answer.X
        true = (np.linalg.norm(rest, axis=0) / np.linalg.norm(B, axis=0)).max()
        assert true == pytest.approx(answer.residual, rel=0.1, abs=1e-12)
        np.testing.assert_allclose(answer.X, np.linalg.solve(A + ridge * np.eye(150), B), atol=1e-6)
        assert abs(answer.n_iter - one.n_iter) <= 2  # it is the same iteration
    assert len(products) == max(answer.n_iter for answer in together)
    assert [i for i, _ in seen] == list(range(1, len(products) + 1))


def test_several_ridges_with_dependent_and_zero_right_hand_sides():
    A = spd(60, np.linspace(0.1, 50, 60))
    b = np.random.default_rng(11).standard_normal((60, 2))
    B = np.hstack([b, b[:, :1] - 2 * b[:, 1:], np.zeros((60, 1)), b[:, :1]])
    for ridge, answer in zip(
        RIDGES, shifted_cg(lambda P: A @ P, B, RIDGES, tol=1e-11, max_iter=99), strict=True
    ):
        np.testing.assert_allclose(answer.X, np.linalg.solve(A + ridge * np.eye(60), B), atol=1e-8)


def test_ridges_that_are_slow_are_left_and_the_others_go_on():
    A = spd(300, np.logspace(-6, 3, 300))
    B = np.random.default_rng(12).standard_normal((300, 2))
    slow, quick = shifted_cg(lambda P: A @ P, B, [1e-6, 1e3], tol=1e-8, max_iter=500, patience=30)
    assert (slow.converged, quick.converged) == (False, True)
    assert slow.n_iter < 20
    stopped = shifted_cg(lambda P: A @ P, B, [1e-6, 1e3], tol=1e-8, max_iter=4)
    assert [answer.n_iter for answer in stopped] == [4, 4]
