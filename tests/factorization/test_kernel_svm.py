"""Kernel machines by SMO: libsvm's optimum, the conditions of optimality, and warm starts."""

import numpy as np
import pytest
from sklearn.svm import SVC

from labelfold.factorization._nsdr import gap_message, solve_svms


def kernel_svm(K, y, C=1.0, *, alpha=None, tol=1e-8, max_iter=None):
    """Train one machine, on its own: the fields of what `solve_svms` finds are then of one machine."""
    start = np.zeros(len(y)) if alpha is None else alpha
    bounds = np.broadcast_to(np.asarray(C, dtype=float), y.shape).copy()
    found = solve_svms(K, y[None], bounds[None], (start * y)[None], tol, max_iter)
    numbers = {name: float(getattr(found, name)[0]) for name in ("bias", "objective", "primal")}
    return found._replace(alpha=found.alpha[:, 0], **numbers)


def problem(seed=0, n=80, d=5, degree=2, noise=0.5, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.sign(X[:, 0] * X[:, 1] + noise * rng.standard_normal(n))
    return (scale * X @ X.T + 1) ** degree, y


def conditions(K, y, C, found):
    """Return by how much the worst row breaks the conditions of optimality, and |a'y|."""
    a = found.alpha
    margin = y * (K @ (a * y) + found.bias)
    short, over = 1 - margin, margin - 1
    broken = np.where(a < C, np.maximum(short, 0), 0) + np.where(a > 0, np.maximum(over, 0), 0)
    return broken.max(), abs(a @ y)


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_libsvms_optimum_and_the_conditions_of_optimality(degree, C):
    K, y = problem(degree=degree)
    found = kernel_svm(K, y, C, tol=1e-10)
    theirs = SVC(C=C, kernel="precomputed", tol=1e-6, max_iter=10**6).fit(K, y)
    s = np.zeros(len(y))
    s[theirs.support_] = theirs.dual_coef_[0]
    dual = s @ y - 0.5 * s @ K @ s
    assert found.objective >= dual * (1 - 1e-10)
    assert theirs.fit_status_ == 0
    np.testing.assert_allclose(found.objective, dual, rtol=1e-6)
    assert found.objective <= found.primal
    assert found.gap <= 1e-10
    assert ((found.alpha >= 0) & (found.alpha <= C)).all()
    broken, balance = conditions(K, y, C, found)
    assert broken < 1e-3
    assert balance < 1e-9 * C * len(y)
    np.testing.assert_allclose(
        found.objective, found.alpha.sum() - 0.5 * (found.alpha * y) @ K @ (found.alpha * y)
    )
    ours = np.sign(K @ (found.alpha * y) + found.bias)
    assert (ours == theirs.predict(K)).mean() > 0.97


def test_a_separable_problem_has_margin_one_at_the_support_vectors():
    K, y = problem(n=30, d=8, degree=3)
    found = kernel_svm(K, y, 1e6, tol=1e-9)
    margin = y * (K @ (found.alpha * y) + found.bias)
    np.testing.assert_allclose(margin[found.alpha > 0], 1.0, atol=1e-5)
    assert margin.min() > 1 - 1e-5


def test_a_bound_of_its_own_for_every_row():
    K, y = problem(noise=2.0)
    C = np.random.default_rng(1).uniform(0.0, 2.0, len(y))
    C[:5] = 0.0
    found = kernel_svm(K, y, C, tol=1e-10)
    assert (found.alpha <= C).all()
    assert not found.alpha[:5].any()
    assert conditions(K, y, C, found)[0] < 1e-3
    used = C > 0
    left_out = kernel_svm(K[np.ix_(used, used)], y[used], C[used], tol=1e-10)
    np.testing.assert_allclose(found.objective, left_out.objective, rtol=1e-9)


def test_a_warm_start_gives_the_same_in_fewer_steps():
    K, y = problem(n=200, noise=1.0)
    rng = np.random.default_rng(2)
    E = 1e-3 * rng.standard_normal((200, 200))
    near = K + E @ E.T
    first = kernel_svm(K, y, 1.0)
    cold, warm = kernel_svm(near, y, 1.0), kernel_svm(near, y, 1.0, alpha=first.alpha)
    np.testing.assert_allclose(warm.objective, cold.objective, rtol=1e-7)
    assert warm.n_iter < cold.n_iter / 2
    again = kernel_svm(K, y, 1.0, alpha=first.alpha)
    np.testing.assert_allclose(again.objective, first.objective, rtol=1e-8)


def test_a_start_that_breaks_the_constraints_is_mended():
    K, y = problem(noise=1.0)
    start = np.random.default_rng(3).uniform(0, 5, len(y))
    found, plain = kernel_svm(K, y, 0.5, alpha=start), kernel_svm(K, y, 0.5)
    np.testing.assert_allclose(found.objective, plain.objective, rtol=1e-7)
    assert found.alpha.max() <= 0.5
    assert abs(found.alpha @ y) < 1e-9


def test_many_kernels_of_low_rank_all_settle():
    """Round-off must not make a variable at its bound count as free: its error would then count for the bias."""
    rng = np.random.default_rng(9)
    start = None
    for _ in range(300):
        Z = rng.uniform(0.2, 2.0) * rng.standard_normal((24, 4))
        found = kernel_svm((Z @ Z.T + 1) ** 2, np.sign(rng.standard_normal(24)), 1.0, alpha=start)
        assert found.converged
        start = found.alpha


def test_round_off_does_not_undo_the_joint_solution():
    """Rows that hardly move: a few pairs find the new solution, even if it gains less than round-off of the dual."""
    rng = np.random.default_rng(0)
    Z = 3 * rng.standard_normal((200, 4))
    y = np.sign(Z[:, 0] * Z[:, 1] + 0.3 * rng.standard_normal(200))
    alpha = kernel_svm((Z @ Z.T + 1) ** 2, y, 1000.0).alpha
    for size in np.logspace(-8, -2, 20):
        Z = Z + size * rng.standard_normal(Z.shape)
        found = kernel_svm((Z @ Z.T + 1) ** 2, y, 1000.0, alpha=alpha)
        assert found.converged
        assert found.n_iter < 200
        alpha = found.alpha


def test_rows_that_repeat_each_other():
    """A singular kernel: the dual variables are not unique, the machine is."""
    K, y = problem(n=40, noise=1.0)
    twice = np.tile(np.arange(40), 3)
    found = kernel_svm(K[np.ix_(twice, twice)], y[twice], 1.0, tol=1e-9)
    single = kernel_svm(K, y, 3.0, tol=1e-9)
    np.testing.assert_allclose(found.objective, single.objective, rtol=1e-7)
    np.testing.assert_allclose(found.alpha.reshape(3, 40).sum(axis=0), single.alpha, atol=1e-3)


def test_several_machines_are_each_its_own():
    K, _ = problem()
    Y = np.sign(np.random.default_rng(4).standard_normal((80, 3)))
    together = solve_svms(K, Y.T.copy(), np.full((3, 80), 0.5), np.zeros((3, 80)), 1e-8)
    for j in range(3):
        one = kernel_svm(K, Y[:, j], 0.5)
        np.testing.assert_allclose(together.alpha[:, j], one.alpha, atol=1e-12)
        np.testing.assert_allclose([together.bias[j], together.primal[j]], [one.bias, one.primal])


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_one_class_is_its_sign(sign):
    K, y = problem()
    found = kernel_svm(K, np.full(len(y), sign))
    assert not found.alpha.any()
    assert found.bias == sign
    assert found.gap == 0


def test_one_that_does_not_settle_says_so_with_numbers():
    K, y = problem(noise=2.0)
    found = kernel_svm(K, y, 1e8, max_iter=7)
    assert not found.converged
    assert found.n_iter == 7
    said = gap_message(found.gap, found.n_iter, 1e8, 1e-8)
    assert "after 7 steps with a relative duality gap of" in said
    assert "at C=1e+08" in said


def test_the_kernel_stays_as_it_is():
    K, y = problem()
    before = K.copy()
    kernel_svm(K, y, 1.0)
    np.testing.assert_array_equal(K, before)
