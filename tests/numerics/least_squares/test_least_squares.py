"""The least-squares solver by itself: every way against dense algebra, and what it says of how it got there."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_info, threadpool_limits

from labelfold.numerics import _ridge_regression as module
from labelfold.numerics._gram import Gram
from labelfold.numerics._ridge_krylov import ColumnSide, KrylovProblem
from labelfold.numerics._ridge_regression import (
    DualProblem,
    EitherProblem,
    GramProblem,
    KernelProblem,
    choose_way,
    iterations_worth,
    ridge_problem,
)
from labelfold.rows import as_rows

RIDGES = [0.0, 1e-6, 1.0, 1e6]
EPS = np.finfo(float).eps


def least_squares(rows, T, ridge=0.0, **options):
    return ridge_problem(rows, T, **options).solve(ridge)


def reference(X, T, ridge, mask=None):
    """W from the singular values of the centred rows that count, and W'Xc'Tc."""
    if mask is not None:
        X, T = X[mask], T[mask]
    Xc, Tc = X - X.mean(axis=0), T - T.mean(axis=0)
    U, sigma, Vt = np.linalg.svd(Xc, full_matrices=False)
    # Round-off is that of X: a large mean leaves more of it.
    keep = sigma > max(X.shape) * EPS * max(np.linalg.norm(X, 2), np.finfo(float).tiny)
    U, sigma, Vt = U[:, keep], sigma[keep], Vt[keep]
    W = Vt.T @ ((sigma / (sigma**2 + ridge))[:, None] * (U.T @ Tc))
    return W, W.T @ (Xc.T @ Tc)


def residual(X, T, W, ridge, mask=None):
    """The largest relative residual of the normal equations, from scratch."""
    if mask is not None:
        X, T = X[mask], T[mask]
    Xc, Tc = X - X.mean(axis=0), T - T.mean(axis=0)
    M = Xc.T @ Tc
    rest = M - Xc.T @ (Xc @ W) - ridge * W
    return (np.linalg.norm(rest, axis=0) / np.linalg.norm(M, axis=0)).max()


def apart(W, W0):
    return np.linalg.norm(W - W0) / max(np.linalg.norm(W0), np.finfo(float).tiny)


def problems():
    rng = np.random.default_rng(0)

    def noise(n, d):
        return rng.standard_normal((n, d))

    yield "tall", noise(120, 15)
    yield "wide", noise(25, 90)
    yield "square", noise(40, 40)
    yield "rank-deficient", noise(80, 6) @ noise(6, 20)
    yield "wide, rank-deficient", noise(40, 6) @ noise(6, 90)
    X = noise(90, 12)
    yield "duplicated columns", np.hstack([X, X[:, :4]])
    yield "duplicated rows", np.repeat(noise(15, 50), 2, axis=0)
    yield "a constant column", np.hstack([X, np.full((90, 1), 7.0)])
    yield "a large mean", noise(90, 8) + 1e5
    yield "wide with a large mean", noise(20, 50) + 1e5
    yield "one column", noise(30, 1)
    yield "two rows", noise(2, 5)


PROBLEMS = list(problems())
NAMES = [name for name, _ in PROBLEMS]


def targets(n, q=7, seed=1):
    """Many targets, of which two depend on the others and one is constant."""
    T = np.random.default_rng(seed).standard_normal((n, q)) + 3.0
    return np.hstack([T, T[:, :1] + T[:, 1:2], np.full((n, 1), 2.0)])


@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("way", ["auto", "gram", "dual"])
@pytest.mark.parametrize(("name", "X"), PROBLEMS, ids=NAMES)
def test_direct_ways_equal_the_dense_solution(name, X, way, ridge):
    T = targets(len(X))
    if way == "gram" and name == "wide with a large mean" and ridge < 1:
        pytest.skip("the d x d matrix of fewer rows than columns cannot tell this round-off from data")
    W0, D0 = reference(X, T, ridge)
    found = least_squares(as_rows(X), T, ridge, way=way)
    # A mean of 1e5 leaves a deviation of 1 with eleven digits, of which the condition of X takes a few.
    tol = 1e-7 if "large mean" in name else 1e-8
    assert apart(found.W, W0) < tol
    np.testing.assert_allclose(found.D, D0, atol=tol * np.abs(D0).max())
    np.testing.assert_allclose(found.mean, X.mean(axis=0), rtol=1e-14, atol=1e-14)
    assert found.residual == 0.0
    assert found.n_iter == 1


@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", [name for name in NAMES if "large mean" not in name])
def test_iterations_reach_the_dense_solution(name, make, ridge):
    X = dict(PROBLEMS)[name]
    T = targets(len(X))
    W0, D0 = reference(X, T, ridge)
    found = least_squares(as_rows(make(X)), T, ridge, way="krylov", tol=1e-12)
    assert found.way == "krylov"
    assert found.residual <= 1e-12
    # Where X'X has no say, a residual of tol ||M|| is an error of that over the ridge.
    M = (X - X.mean(axis=0)).T @ (T - T.mean(axis=0))
    error = 1e-12 * np.linalg.norm(M) / ridge if ridge else 0.0
    assert np.linalg.norm(found.W - W0) < 1e-8 * np.linalg.norm(W0) + error
    np.testing.assert_allclose(found.D, D0, atol=1e-8 * np.abs(D0).max())


@pytest.mark.parametrize("ridge", [1e-2, 1.0])
@pytest.mark.parametrize("shape", [(80, 10), (20, 60)])
def test_iterations_on_a_large_mean(shape, ridge):
    X = np.random.default_rng(2).standard_normal(shape) + 1e5
    T = targets(len(X))
    found = least_squares(as_rows(X), T, ridge, way="krylov", tol=1e-9)
    assert apart(found.W, reference(X, T, ridge)[0]) < 1e-6


@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("way", ["gram", "dual", "krylov"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("shape", [(150, 12), (50, 80)])
def test_rows_that_do_not_count_are_left_out(shape, make, way, ridge):
    rng = np.random.default_rng(3)
    X, mask = rng.standard_normal(shape), rng.random(shape[0]) < 0.6
    T = targets(shape[0])
    W0, D0 = reference(X, T, ridge, mask)
    T[~mask] = np.nan
    found = least_squares(as_rows(make(X)), T, ridge, way=way, weights=mask, tol=1e-12)
    assert apart(found.W, W0) < 1e-8
    np.testing.assert_allclose(found.D, D0, atol=1e-8 * np.abs(D0).max())
    np.testing.assert_allclose(found.mean, X[mask].mean(axis=0), atol=1e-14)


@pytest.mark.parametrize("way", ["gram", "dual", "krylov"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("shape", [(200, 20), (40, 120)])
def test_float32_is_as_good_as_its_digits(shape, make, way):
    X = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    T = targets(len(X))
    W0, _ = reference(X.astype(float), T, 1.0)
    found = least_squares(as_rows(make(X)), T, 1.0, way=way)
    # The direct ways add up in float64 what was centred in float32; iterations ask for no more than that has.
    assert found.W.dtype == np.float64
    assert apart(found.W, W0) < (1e-4 if way == "krylov" else 1e-6)
    assert found.residual <= 100 * np.finfo(np.float32).eps


def test_iterations_do_not_ask_float32_for_more_than_it_has():
    X = np.random.default_rng(5).standard_normal((150, 30)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        least_squares(as_rows(X), targets(150), 1.0, way="krylov", tol=1e-14)


def test_the_way_is_chosen_by_shape_and_budget():
    tall, wide = as_rows(np.ones((50, 20))), as_rows(np.ones((20, 50)))
    assert choose_way(tall, 8 * 20 * 20) == "gram"
    assert choose_way(tall, 8 * 20 * 20 - 1) == "krylov"
    assert choose_way(wide, 8 * 20 * 20) == "dual"
    assert choose_way(wide, 8 * 20 * 20 - 1) == "krylov"
    streamed = as_rows([np.ones((10, 50)), np.ones((10, 50))])
    assert choose_way(streamed, 8 * 20 * 20) == "krylov"  # its rows do not fit
    assert choose_way(streamed, 8 * 20 * 50) == "dual"


def test_the_problem_follows_the_choice():
    X, T = np.random.default_rng(6).standard_normal((30, 10)), np.ones((30, 1))
    kinds = {"gram": GramProblem, "dual": DualProblem, "krylov": KrylovProblem}
    for way, kind in kinds.items():
        assert isinstance(ridge_problem(as_rows(X), T, way=way), kind)
    assert isinstance(ridge_problem(as_rows(X), T), GramProblem)
    assert isinstance(ridge_problem(as_rows(X.T.copy()), np.ones((10, 1))), DualProblem)
    assert isinstance(ridge_problem(as_rows(X), T, max_gram_bytes=0), KrylovProblem)


@pytest.fixture
def wide_sparse():
    """Rows whose factorisation costs far more than a few iterations with them."""
    X = sparse.random(900, 3000, density=0.004, format="csr", random_state=0)
    return X, targets(900, 3)


def test_iterations_come_first_where_they_are_quick(wide_sparse, monkeypatch):
    X, T = wide_sparse
    rows = as_rows(X)
    assert iterations_worth(rows, T.shape[1]) > 12
    assert iterations_worth(as_rows(X.astype(np.float32)), T.shape[1]) == 0
    assert iterations_worth(as_rows(X[:100].toarray()), T.shape[1]) == 0
    problem = ridge_problem(rows, T)
    assert isinstance(problem, EitherProblem)
    easy = problem.solve(10.0)
    assert (easy.way, easy.residual <= 1e-8) == ("krylov", True)
    monkeypatch.setattr(problem, "worth", 2.0)
    hard = problem.solve(1e-5)
    assert hard.way == "dual"
    for found, ridge in ((easy, 10.0), (hard, 1e-5)):
        W0, D0 = reference(X.toarray(), T, ridge)
        assert apart(found.W, W0) < 1e-6
        np.testing.assert_allclose(found.D, D0, atol=1e-6 * np.abs(D0).max())
    # What was slow for a ridge is not tried again for a smaller one.
    monkeypatch.setattr(problem.krylov, "attempt", lambda *args: pytest.fail("tried again"))
    assert problem.solve(1e-6).way == "dual"
    assert problem.solve(0.0, start=hard).way == "dual"


@pytest.mark.slow
def test_at_ridge_zero_nothing_is_tried(wide_sparse, monkeypatch):
    X, T = wide_sparse
    problem = ridge_problem(as_rows(X), T)
    monkeypatch.setattr(problem.krylov, "attempt", lambda *args: pytest.fail("tried"))
    assert apart(problem.solve(0.0).W, reference(X.toarray(), T, 0.0)[0]) < 1e-8


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize("shape", [(300, 60), (60, 300)])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_residual_reported_is_the_true_one(make, shape, tol):
    rng = np.random.default_rng(7)
    X = rng.standard_normal(shape) * np.logspace(0, -2, shape[1])
    T = rng.standard_normal((shape[0], 5)) * np.logspace(0, 6, 5)  # targets of many scales
    found = least_squares(as_rows(make(X)), T, 0.1, way="krylov", tol=tol)
    assert found.residual <= tol
    # Its own digits end where round-off of the normal equations begins.
    assert found.residual == pytest.approx(residual(X, T, found.W, 0.1), rel=1e-2, abs=1e-13)


@pytest.mark.parametrize("shape", [(200, 150), (150, 200)])
def test_stopping_short_is_said_with_the_residual_reached(shape):
    X = np.random.default_rng(8).standard_normal(shape)
    T = np.random.default_rng(9).standard_normal((shape[0], 2))
    with pytest.warns(
        ConvergenceWarning, match="stopped after 3 iterations with a relative residual of"
    ) as caught:
        found = least_squares(as_rows(X), T, 1e-3, way="krylov", max_iter=3)
    assert found.n_iter == 3
    assert found.residual == pytest.approx(residual(X, T, found.W, 1e-3), rel=1e-6)
    assert found.residual > 1e-8
    assert f"{found.residual:.1e}" in str(caught[0].message)


def test_targets_that_x_says_nothing_about():
    rng = np.random.default_rng(10)
    X, T = rng.standard_normal((60, 8)), rng.standard_normal((60, 3))
    basis = np.linalg.qr(np.hstack([np.ones((60, 1)), X]))[0]
    T[:, 1] -= basis @ (basis.T @ T[:, 1])
    for way in ("gram", "dual", "krylov"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = least_squares(as_rows(X), T, 0.5, way=way)
        assert np.abs(found.W[:, 1]).max() < 1e-7
        assert apart(found.W, reference(X, T, 0.5)[0]) < 1e-7


@pytest.mark.parametrize("way", ["gram", "dual", "krylov"])
def test_constant_data_or_targets(way):
    constant, varied = np.full((12, 4), 3.0), np.random.default_rng(11).standard_normal((12, 4))
    for X, T in ((constant, varied), (varied, constant)):
        found = least_squares(as_rows(X), T, 1.0, way=way)
        np.testing.assert_allclose(found.W, 0.0, atol=1e-12)
        np.testing.assert_allclose(found.D, 0.0, atol=1e-12)


@pytest.mark.parametrize("way", ["gram", "dual", "krylov"])
@pytest.mark.parametrize("shape", [(160, 30), (40, 160)])
def test_a_path_of_ridges_equals_separate_solves(way, shape):
    X = np.random.default_rng(12).standard_normal(shape)
    T = targets(shape[0])
    problem, found = ridge_problem(as_rows(X), T, way=way, tol=1e-12), None
    for ridge in (1e4, 1e2, 1.0, 1e-2, 0.0):
        found = problem.solve(ridge, start=found)
        assert apart(found.W, reference(X, T, ridge)[0]) < 1e-8


@pytest.mark.parametrize("shape", [(600, 200), (200, 600)])
def test_a_warm_start_saves_iterations_and_passes(shape):
    X = sparse.random(*shape, density=0.2, format="csr", random_state=1).toarray()
    T = np.random.default_rng(13).standard_normal((shape[0], 3))
    ridges = [1.0 * 1.1**-i for i in range(6)]
    warm_rows = as_rows(X)
    problem, found, warm = ridge_problem(warm_rows, T, way="krylov", tol=1e-6), None, 0
    for ridge in ridges:
        found = problem.solve(ridge, start=found)
        warm += found.n_iter
    cold_rows = as_rows(X)
    cold = sum(least_squares(cold_rows, T, ridge, way="krylov", tol=1e-6).n_iter for ridge in ridges)
    assert warm < 0.9 * cold
    assert warm_rows.n_passes < 0.9 * cold_rows.n_passes


@pytest.mark.parametrize("shape", [(300, 60), (60, 300)])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, lambda X: [X[:20], X[20:]]])
def test_ridges_that_were_prepared_take_the_passes_of_one(make, shape):
    X = np.random.default_rng(19).standard_normal(shape)
    T = targets(shape[0])
    ridges = [100.0, 30.0, 10.0, 0.0]
    rows = as_rows(make(X))
    problem = ridge_problem(rows, T, way="krylov", tol=1e-11)
    before = rows.n_passes
    problem.prepare(ridges)
    assert set(problem.prepared) == set(ridges) - {0.0}
    shared = rows.n_passes - before
    most = max(answer.n_iter for answer in problem.prepared.values())
    assert shared <= 2 * most + 2
    for ridge in ridges:
        found = problem.solve(ridge)
        assert found.residual <= 1e-11
        assert apart(found.W, reference(X, T, ridge)[0]) < 1e-8


@pytest.mark.slow
def test_prepared_ridges_that_are_slow_are_factorised(wide_sparse, monkeypatch):
    X, T = wide_sparse
    problem = ridge_problem(as_rows(X), T)
    assert isinstance(problem, EitherProblem)
    monkeypatch.setattr(problem, "worth", 25.0)
    problem.prepare([10.0, 1e-7])
    assert not problem.krylov.was_slow(10.0)
    assert problem.krylov.was_slow(1e-7)
    assert [problem.solve(ridge).way for ridge in (10.0, 1e-7)] == ["krylov", "dual"]
    for ridge in (10.0, 1e-7):
        assert apart(problem.solve(ridge).W, reference(X.toarray(), T, ridge)[0]) < 1e-7


def test_direct_ways_read_the_rows_once_for_a_path():
    rng = np.random.default_rng(14)
    X, T = rng.standard_normal((200, 10)), rng.standard_normal((200, 3))
    rows = as_rows(X)
    problem = ridge_problem(rows, T, way="gram")
    before = rows.n_passes
    for ridge in (10.0, 1.0, 0.1, 0.0):
        problem.solve(ridge)
    assert before == rows.n_passes == 1


def test_an_iteration_on_the_column_side_is_one_pass():
    X = np.random.default_rng(15).standard_normal((300, 100))
    T = np.random.default_rng(16).standard_normal((300, 4))
    seen = []
    rows = as_rows([X[:100], X[100:]])
    before = rows.n_passes
    problem = ridge_problem(rows, T, way="krylov", tol=1e-6, callback=lambda i, r: seen.append((i, r)))
    found = problem.solve(1.0)
    # The mean, X'T, the sketch and the residual at the end take one each.
    assert rows.n_passes - before == found.n_iter + 4
    assert [i for i, _ in seen] == list(range(1, found.n_iter + 1))
    assert seen[-1][1] <= 1e-6


@settings(max_examples=60)
@given(
    n=st.integers(2, 40),
    d=st.integers(1, 40),
    q=st.integers(1, 5),
    rank=st.integers(1, 40),
    ridge=st.sampled_from([0.0, 1e-3, 1.0, 1e3]),
    way=st.sampled_from(["auto", "gram", "dual", "krylov"]),
    is_sparse=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_any_shape_and_rank(n, d, q, rank, ridge, way, is_sparse, seed):
    rng = np.random.default_rng(seed)
    # Orthonormal factors: singular values between 1 and 2, so that every rank is a clear one.
    rank = min(rank, n, d)
    U, V = (np.linalg.qr(rng.standard_normal((m, rank)))[0] for m in (n, d))
    X, T = U * rng.uniform(1, 2, rank) @ V.T, rng.standard_normal((n, q))
    sigma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    if np.any((sigma < 1e-3) & (sigma > 1e-12)):
        return  # centring has made the rank an unclear one
    W0, D0 = reference(X, T, ridge)
    found = least_squares(as_rows(sparse.csr_array(X) if is_sparse else X), T, ridge, way=way, tol=1e-12)
    assert np.linalg.norm(found.W - W0) <= 1e-7 * np.linalg.norm(W0) + 1e-12
    np.testing.assert_allclose(found.D, D0, atol=1e-7 * np.abs(D0).max() + 1e-12)


def one_hot(rng, n=300, questions=3):
    """Codes of some questions as 0 and 1: as many dependent columns, exactly."""
    return np.hstack([np.eye(4)[rng.integers(4, size=n)] for _ in range(questions)])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("masked", [False, True])
def test_dependent_columns_take_no_triangular_factor(make, masked, rng, monkeypatch):
    X, T = one_hot(rng), targets(300)
    mask = np.arange(300) % 3 > 0 if masked else None
    monkeypatch.setattr(module, "read_factor", None)
    found = least_squares(as_rows(make(X)), T, weights=mask, way="gram")
    W, D = reference(X, T, 0.0, mask)
    np.testing.assert_allclose(found.W, W, atol=1e-12)
    np.testing.assert_allclose(found.D, D, atol=1e-12)


def test_of_many_dependent_columns_few_mixtures_are_measured(rng, monkeypatch):
    X, T = one_hot(rng, questions=9), targets(300)
    widths = []
    monkeypatch.setattr(module, "_squares", lambda X, N: widths.append(N.shape[1]) or ((X @ N) ** 2).sum(0))
    monkeypatch.setattr(module, "read_factor", None)
    found = least_squares(as_rows(X), T, way="gram")
    np.testing.assert_allclose(found.W, reference(X, T, 0.0)[0], atol=1e-12)
    assert set(widths) == {4}


@pytest.mark.parametrize("questions", [3, 9])
@pytest.mark.parametrize("small", [1e-7, 1e-9])
def test_a_direction_that_products_lose_in_round_off_is_found(small, questions, rng):
    X, T = one_hot(rng, questions=questions), targets(300)
    X[:, 0] += small * rng.standard_normal(300)  # of singular values down to a multiple of this
    found = least_squares(as_rows(X), T, way="gram")
    W, _ = reference(X, T, 0.0)
    assert np.linalg.norm(W) > 1 / (100 * small)
    assert apart(found.W, W) < 1e-16 / small * 100


@pytest.mark.parametrize(("d", "expected"), [(8, 1), (600, 2)])
def test_small_systems_are_solved_by_one_thread(d, expected, rng, monkeypatch):
    problem = ridge_problem(as_rows(rng.standard_normal((1000, d))), targets(1000), way="gram")
    seen, solve = [], Gram.solve

    def watched(self, M, ridge):
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return solve(self, M, ridge)

    monkeypatch.setattr(Gram, "solve", watched)
    with threadpool_limits(2, user_api="blas"):
        problem.solve(1.0)
    assert set(seen) == {expected}


def test_columns_of_many_scales_are_no_bad_condition():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((100, 6)) * np.logspace(-8, 8, 6)
    assert Gram(X.T @ X, 100).trusted(0.0) is not None
    T = rng.standard_normal((100, 2))
    found = least_squares(as_rows(X), T)
    scaled = least_squares(as_rows(X / np.logspace(-8, 8, 6)), T)
    np.testing.assert_allclose(found.W * np.logspace(-8, 8, 6)[:, None], scaled.W, rtol=1e-8)


def test_the_module_says_what_it_may_take_by_default():
    assert module.MAX_GRAM_BYTES == 512 << 20


@pytest.mark.parametrize("shape", [(300, 120), (120, 300)])
def test_sparse_iterations_go_as_far_as_float64(shape):
    X = sparse.random(*shape, density=0.2, format="csr", random_state=2)
    T = targets(shape[0])
    for ridge in (1e-2, 1.0):
        found = ridge_problem(as_rows(X), T, way="krylov", tol=1e-13).solve(ridge)
        assert found.residual <= 1e-13
        assert apart(found.W, reference(X.toarray(), T, ridge)[0]) < 1e-10


@pytest.mark.parametrize("unit", [1e-25, 1e25, "mean"])
@pytest.mark.parametrize("shape", [(90, 40), (40, 90)])
def test_sparse_data_of_any_unit(shape, unit):
    """Its squares are tiny or huge, or its mean hides the rest."""
    rng = np.random.default_rng(17)
    X, scale = rng.standard_normal(shape), 1.0
    if unit == "mean":
        X = X + 1e4
    else:
        X, scale = X * unit, unit
    T = targets(shape[0])
    ridge = 10 * scale**2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = least_squares(as_rows(sparse.csr_array(X)), T, ridge, way="krylov", tol=1e-9)
    assert found.residual <= 1e-9
    assert apart(found.W, reference(X, T, ridge)[0]) < 1e-7


def test_at_ridge_zero_sparse_iterations_find_least_norm():
    rng = np.random.default_rng(18)
    X = rng.standard_normal((200, 12)) @ rng.standard_normal((12, 40))
    T = targets(200)
    found = least_squares(as_rows(sparse.csr_array(X)), T, 0.0, way="krylov", tol=1e-12)
    assert apart(found.W, reference(X, T, 0.0)[0]) < 1e-9


def test_columns_of_many_sizes_take_no_more_iterations(monkeypatch):
    """The more rows, the less a fixed ridge does for columns of different sizes: their scale does."""
    rng = np.random.default_rng(20)
    X = sparse.random(2000, 150, density=0.2, random_state=3).multiply(np.logspace(-1, 1.5, 150)).tocsr()
    T = rng.standard_normal((2000, 3))
    scaled = least_squares(as_rows(sparse.csr_array(X)), T, 100.0, way="krylov", tol=1e-10)
    assert scaled.residual <= 1e-10
    monkeypatch.setattr("labelfold.numerics._ridge_krylov._MIN_RIDGE", np.inf)
    plain = least_squares(as_rows(sparse.csr_array(X)), T, 100.0, way="krylov", tol=1e-10)
    assert scaled.n_iter < plain.n_iter / 2
    assert apart(scaled.W, reference(X.toarray(), T, 100.0)[0]) < 1e-8


def test_a_path_over_columns_of_many_sizes_takes_no_more_products_than_separate_solves(monkeypatch):
    """Shared iterations cannot scale the columns: for ridges for which they are slow, each takes its own."""
    rng = np.random.default_rng(21)
    n, d = 2000, 3000
    place = np.repeat(np.arange(n), 20), rng.integers(0, d, 20 * n)
    X = (
        sparse.csr_array((rng.random(20 * n), place), shape=(n, d))
        .multiply(10 ** rng.uniform(-2, 2, d))
        .tocsr()
    )
    T = rng.standard_normal((n, 3))
    ridges = (X.multiply(X).sum() / d * np.array([0.003, 0.03])).tolist()
    products, multiply = [], ColumnSide.product
    monkeypatch.setattr(ColumnSide, "product", lambda side, P: products.append(P.shape) or multiply(side, P))
    counts, solutions = [], []
    for together in (False, True):
        problem, found = ridge_problem(as_rows(sparse.csr_array(X)), T, way="krylov", tol=1e-9), None
        products.clear()
        if together:
            problem.prepare(ridges)
        for ridge in ridges[::-1]:
            found = problem.solve(ridge, start=found)
            assert found.residual <= 1e-9
            solutions.append(found.W)
        counts.append(len(products))
    assert counts[1] <= 1.1 * counts[0]
    for one, other in zip(solutions[:2], solutions[2:], strict=True):
        assert apart(other, one) < 1e-6


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("way", ["gram", "dual", "krylov", "factor"])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_whole_weights_are_repeated_rows(container, way, ridge, coded, rng):
    X = rng.standard_normal((24, 9) if way != "dual" else (9, 24)) + 2.0
    weights = rng.integers(0, 4, len(X)).astype(float)
    times = weights.astype(int)
    T, codes = rng.standard_normal((3 if coded else len(X), 2)), rng.integers(0, 3, len(X))
    codes = np.where(times > 0, codes, -1)
    found = ridge_problem(
        as_rows(container.make(X)), T, codes if coded else None, weights=weights, way=way, tol=1e-13
    ).solve(ridge)
    again = np.repeat(codes, times) if coded else None
    repeated = T if coded else np.repeat(T, times, axis=0)
    expected = ridge_problem(as_rows(np.repeat(X, times, axis=0)), repeated, again, way="factor").solve(ridge)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(found.W, expected.W, atol=1e-9 * np.abs(expected.W).max())
    np.testing.assert_allclose(found.D, expected.D, atol=1e-9 * np.abs(expected.D).max())


def test_weights_of_a_kernel_are_repeated_rows(rng):
    X, T, weights = rng.standard_normal((12, 3)), rng.standard_normal((12, 2)), rng.integers(1, 4, 12)
    again = np.repeat(X, weights, axis=0)
    K, new = rbf_kernel(X), rbf_kernel(rng.standard_normal((5, 3)), X)
    for ridge in (0.0, 0.3):
        found = KernelProblem(K, T, weights.astype(float)).solve(ridge)
        expected = KernelProblem(rbf_kernel(again), np.repeat(T, weights, axis=0)).solve(ridge)
        scores = (np.repeat(new, weights, axis=1) - expected.mean) @ expected.W
        np.testing.assert_allclose((new - found.mean) @ found.W, scores, atol=1e-9 * np.abs(scores).max())
        np.testing.assert_allclose(found.D, expected.D, atol=1e-9 * np.abs(expected.D).max())


@pytest.mark.parametrize("way", ["gram", "dual", "factor"])
def test_weights_keep_the_digits_of_single_precision(way, rng):
    X = (rng.standard_normal((30, 8) if way != "dual" else (8, 30)) + 5.0).astype(np.float32)
    T, weights = rng.standard_normal((len(X), 2)), rng.uniform(0.1, 3.0, len(X))
    found = least_squares(as_rows(X), T, 0.1, weights=weights, way=way)
    expected = least_squares(as_rows(X.astype(np.float64)), T, 0.1, weights=weights, way=way)
    np.testing.assert_allclose(found.W, expected.W, atol=1e-5 * np.abs(expected.W).max())
