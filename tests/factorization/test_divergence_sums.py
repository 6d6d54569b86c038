"""Factors of least I-divergence: the updates of the paper, what looking ahead may and may not do, and starts."""

import inspect

import numpy as np
import pytest
from scipy import sparse

from labelfold.base import descend
from labelfold.factorization import _klnmf as factors, _klnmf as starts
from labelfold.factorization._divergence import divergence
from labelfold.factorization._klnmf import (
    PreservedDirections,
    divergence_start,
    iterates,
    margins,
    random_factors,
)
from labelfold.rows import as_rows
from reference import nmf_alpha as reference

AHEAD = {"max_beta": 1.0}  # how far the iterations of these tests look ahead; the fixture `rash` changes it


def divergence_factors(rows, start, guide=None, *, max_iter, max_beta=None, **options):
    """Iterate until convergence."""
    beta = AHEAD["max_beta"] if max_beta is None else max_beta
    steps = iterates(rows, start, guide, max_iter=max_iter, max_beta=beta)
    return descend(steps, max_iter=max_iter, **options)


def problem(seed=0, n=30, d=20, k=4, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.poisson(rng.gamma(0.5, 2.0, (n, 3)) @ rng.gamma(0.5, 1.0, (3, d))).astype(dtype)
    return X, (rng.random((n, k)) + 0.1).astype(dtype), rng.random((d, k)) + 0.1


def guide_of(X, seed=1, q=5, weight=2.5):
    """A guide on a third of the rows, and S in full."""
    rng = np.random.default_rng(seed)
    S = np.zeros((len(X), q))
    index = np.sort(rng.permutation(len(X))[: len(X) // 3])
    S[index] = rng.random((len(index), q)) * (rng.random((len(index), q)) < 0.6)
    # Rows of S that are zero must not matter: the solver is given the others only.
    index = np.flatnonzero(S.any(axis=1))
    sums = (S.T @ X).astype(X.dtype)
    return PreservedDirections(sparse.csr_array(S[index]), index, as_rows(sums), weight), S


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
@pytest.mark.parametrize("guided", [False, True])
def test_without_looking_ahead_these_are_the_papers_updates(make, guided):
    X, H, V = problem()
    guide, S = guide_of(X)
    lam = guide.weight if guided else 0.0
    theirs_V, theirs_H, values = reference.iterate(X.T, V, H.T, S, lam, 6)
    options = {"max_iter": 6, "tol": 0, "max_beta": 0}
    found = divergence_factors(as_rows(make(X)), (H, V), guide if guided else None, **options)
    np.testing.assert_allclose(found.state.V, theirs_V, rtol=1e-12)
    np.testing.assert_allclose(found.state.H, theirs_H.T, rtol=1e-12)
    np.testing.assert_allclose(found.objective, values, rtol=1e-12)


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("dtype", "most"), [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_the_objective_never_rises_and_is_that_of_the_factors(make, guided, seed, dtype, most):
    X, H, V = problem(seed, dtype=dtype)
    guide, S = guide_of(X, seed)
    found = divergence_factors(as_rows(make(X)), (H, V), guide if guided else None, max_iter=120, tol=0)
    values = np.array(found.objective)
    assert (np.diff(values) <= most * values[1:]).all()
    lam = guide.weight if guided else 0.0
    exact = reference.loss(*(a.astype(np.float64) for a in (X.T, found.state.V, found.state.H.T, S)), lam)
    np.testing.assert_allclose(values[-1], exact, rtol=1e-12 if dtype == np.float64 else 1e-5)
    assert found.state.H.min() >= 0
    assert found.state.V.min() >= 0
    assert found.state.H.dtype == found.state.V.dtype == dtype


@pytest.fixture
def rash(monkeypatch):
    """Look so far ahead that many a pass ends higher."""
    monkeypatch.setitem(AHEAD, "max_beta", 50.0)
    monkeypatch.setattr(factors, "_GROWTH", 3.0)
    monkeypatch.setattr(factors, "_MAX_FALL", 0.95)


@pytest.mark.parametrize("guided", [False, True])
def test_a_pass_that_ends_higher_is_dropped(guided, rash):
    X, H, V = problem(n=60, d=40, k=6)
    guide, S = guide_of(X)
    found = divergence_factors(as_rows(X), (H, V), guide if guided else None, max_iter=60, tol=0)
    steps = np.diff(found.objective)
    assert (steps == 0).any()  # it was called back
    assert (steps <= 0).all()
    lam = guide.weight if guided else 0.0
    np.testing.assert_allclose(
        found.objective[-1], reference.loss(X.T, found.state.V, found.state.H.T, S, lam), rtol=1e-12
    )


@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("how", [None, "rash"])
def test_the_last_objective_is_that_of_the_factors_wherever_it_ends(guided, how, request):
    if how is not None:
        request.getfixturevalue(how)
    X, H, V = problem(n=60, d=40, k=6)
    X += 0.1  # no zero row or column, by which the reference would divide
    guide, S = guide_of(X)
    lam = guide.weight if guided else 0.0
    ends = [{"max_iter": m, "tol": 0.0} for m in range(1, 15)]
    ends += [{"max_iter": 1000, "tol": tol} for tol in (1e-1, 1e-2, 1e-3, 1e-4)]
    for end in ends:
        found = divergence_factors(as_rows(X), (H, V), guide if guided else None, **end)
        assert found.converged == (end["tol"] > 0)
        exact = reference.loss(X.T, found.state.V, found.state.H.T, S, lam)
        np.testing.assert_allclose(found.objective[-1], exact, rtol=1e-12)


def test_the_last_pass_is_never_in_vain(rash):
    X, H, V = problem(n=60, d=40, k=6)

    def objective(max_iter):
        return divergence_factors(as_rows(X), (H, V), max_iter=max_iter, tol=0).objective

    dropped = np.flatnonzero(np.diff(objective(25)) == 0) + 2
    assert len(dropped)
    for iteration in dropped:
        values = objective(int(iteration))
        assert values[-1] < values[-2]


def strict(X):
    """X as another array library has it."""
    return pytest.importorskip("array_api_strict").asarray(X)


@pytest.mark.parametrize("make", [np.array, sparse.csr_array, strict])
@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize(("dtype", "share"), [(np.float64, 1e-20), (np.float32, 1e-12)])
def test_entries_are_zero_or_above_the_floor(make, guided, dtype, share):
    rng = np.random.default_rng(0)
    X = np.kron(np.eye(3), np.ones((8, 7))) * rng.integers(1, 9, (24, 1))
    X[4], X[:, 6] = 0, 0
    X = X.astype(dtype)
    rows = as_rows(make(X))
    H, V = random_factors(rows, 3, margins(rows), rng)
    found = divergence_factors(rows, (H, V), guide_of(X)[0] if guided else None, max_iter=400, tol=0)
    found.state.H = np.asarray(rows.get(found.state.H))
    assert found.state.H.dtype == found.state.V.dtype == dtype
    # Rows and columns of zeros are exactly that, and nothing else is.
    np.testing.assert_array_equal((found.state.H > 0).all(axis=1), X.any(axis=1))
    np.testing.assert_array_equal((found.state.V > 0).all(axis=1), X.any(axis=0))
    np.testing.assert_array_equal(found.state.H[4], 0)
    np.testing.assert_array_equal(found.state.V[6], 0)
    least_V, least_H = share * V.mean(), share * found.state.H.max(axis=1, keepdims=True)
    assert (found.state.H - 0.999 * least_H >= 0).all()
    # One of V may be on its way down by as much as the brake allows.
    assert (found.state.V[X.any(axis=0)] >= 0.999 * (1 - factors._MAX_FALL) * least_V).all()
    # The floor was reached: without it these would be nearer to zero.
    assert (found.state.H[X.any(axis=1)] < 1.001 * least_H[X.any(axis=1)]).any()
    assert (found.state.V[X.any(axis=0)] < 1.001 * least_V).any()


@pytest.mark.parametrize("guided", [False, True])
def test_the_end_is_stationary(guided):
    X, H, V = problem(n=20, d=12, k=2)
    X += 0.1  # no zero row or column, by which the reference would divide
    guide, S = guide_of(X)
    lam = guide.weight if guided else 0.0
    found = divergence_factors(as_rows(X), (H, V), guide if guided else None, max_iter=20_000, tol=1e-15)
    V, H = found.state.V, found.state.H.T
    for old, new in (
        (V, reference.update_V(X.T, V, H, S, lam)),
        (H, reference.update_H(X.T, V, H, S, lam)),
    ):
        np.testing.assert_allclose(new, old, atol=1e-5 * old.max())


def test_what_200_plain_updates_reach_takes_a_third_of_the_passes():
    rng = np.random.default_rng(0)
    topics, words = rng.dirichlet(np.full(8, 0.3), 600), rng.dirichlet(np.full(300, 0.05), 8)
    rows = as_rows(sparse.csr_array(rng.poisson(60 * topics @ words).astype(np.float64)))
    drawn = random_factors(rows, 12, margins(rows), np.random.default_rng(0))
    plain = divergence_factors(rows, drawn, max_iter=200, tol=0, max_beta=0).objective
    # Looking ahead from the same factors, and from what some of the rows make of them.
    ahead = divergence_factors(rows, drawn, max_iter=200, tol=0).objective
    start = divergence_start(rows, 12, "random", margins(rows), 0)
    both = divergence_factors(rows, start, max_iter=200, tol=0).objective
    assert np.argmax(np.array(ahead) <= plain[-1]) < 120
    tries = inspect.signature(starts._basis_of_sample).parameters["max_iter"].default
    before = tries * (starts._ROWS_EACH * 12) / 600  # on some of the rows
    assert before + np.argmax(np.array(both) <= plain[-1]) < 200 / 3
    assert min(ahead[-1], both[-1]) < plain[-1]


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1e20, 1e150])
def test_the_unit_of_x_does_not_matter(scale):
    X, *_ = problem()
    values = []
    for unit in (1.0, scale):
        rows = as_rows(X * unit)
        H, V = divergence_start(rows, 3, "random", margins(rows), 0)
        found = divergence_factors(rows, (H, V), max_iter=50, tol=0)
        assert np.isfinite(found.state.H).all()
        assert np.isfinite(found.state.V).all()
        values.append(np.array(found.objective) / unit)
    np.testing.assert_allclose(values[1], values[0], rtol=1e-9)


def test_the_start_is_the_product_of_the_margins_but_for_chance():
    X, *_ = problem(n=50, d=30)
    rows = as_rows(X)
    found = margins(rows)
    np.testing.assert_allclose(found.row, X.sum(axis=1))
    np.testing.assert_allclose(found.column, X.sum(axis=0))
    H, V = random_factors(rows, 7, found, np.random.default_rng(3))
    ratio = (H @ V.T)[X.sum(axis=1) > 0] / np.outer(found.row, found.column / X.sum())[X.sum(axis=1) > 0]
    assert ((ratio[:, found.column > 0] > 1) & (ratio[:, found.column > 0] < 1.44)).all()


def test_of_many_rows_some_are_tried_first(container):
    X, *_ = problem(n=400, d=15)
    rows = as_rows(container.make(X))
    H, V = divergence_start(rows, 3, "random", margins(rows), 0)
    H = rows.get(H)
    assert H.min() >= 0
    assert V.min() >= 0
    # Its basis is better than one that has seen no row, once rows are placed; and the same from every container.
    drawn = random_factors(as_rows(X), 3, margins(as_rows(X)), np.random.default_rng(0))
    placed = [divergence_factors(as_rows(X), f, max_iter=1, tol=0).objective[-1] for f in (drawn, (H, V))]
    assert placed[1] < 0.95 * placed[0]
    dense = divergence_start(as_rows(X), 3, "random", margins(as_rows(X)), 0)
    np.testing.assert_allclose(V, dense[1], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(H, dense[0], rtol=1e-6, atol=1e-12)


def test_zero_rows_and_columns_stay_zero_and_multiples_stay_multiples():
    X, *_ = problem()
    X[4], X[:, 6] = 0, 0
    X[9] = 3 * X[8]
    for make in (np.array, sparse.csr_array):
        rows = as_rows(make(X))
        H, V = divergence_start(rows, 3, "random", margins(rows), 0)
        H = np.array(H)
        H[9] = 3 * H[8]
        found = divergence_factors(rows, (H, V), max_iter=200, tol=0)
        assert np.isfinite(found.state.H).all()
        assert np.isfinite(found.state.V).all()
        assert not found.state.H[4].any()
        assert not found.state.V[6].any()
        np.testing.assert_allclose(found.state.H[9], 3 * found.state.H[8], rtol=1e-10)


def test_one_pass_an_iteration(container):
    X, H, V = problem()
    guide, _ = guide_of(X)
    for given in (None, guide):
        rows = as_rows(container.make(X))
        divergence_factors(rows, (H.astype(rows.dtype), V), given, max_iter=7, tol=0)
        assert rows.n_passes == 7


def test_ctrl_c_keeps_the_last_iteration_where_asked(monkeypatch):
    X, H, V = problem()

    def interrupt(iteration, _):
        if iteration == 5:
            raise KeyboardInterrupt

    found = divergence_factors(
        as_rows(X), (H, V), max_iter=50, tol=0, keep_on_interrupt=True, callback=interrupt
    )
    assert found.interrupted
    assert len(found.objective) == 5
    assert divergence(X, found.state.H, found.state.V) <= found.objective[-1]
    with pytest.raises(KeyboardInterrupt):
        divergence_factors(as_rows(X), (H, V), max_iter=50, tol=0, callback=interrupt)


@pytest.mark.parametrize("name", ["_pass", "_advance"])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("at", range(2, 9))
def test_ctrl_c_anywhere_leaves_factors_no_worse_than_the_last_objective(name, before, at, monkeypatch):
    X, H, V = problem()
    calls, own = [], getattr(factors, name)

    def interrupted(*args):
        calls.append(1)
        if len(calls) == at and before:
            raise KeyboardInterrupt
        result = own(*args)
        if len(calls) == at:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(factors, name, interrupted)
    found = divergence_factors(as_rows(X), (H, V), max_iter=50, tol=0, keep_on_interrupt=True)
    assert found.interrupted
    assert len(found.objective) == (at if name == "_advance" else at - 1)
    assert divergence(X, found.state.H, found.state.V) <= found.objective[-1] * (1 + 1e-12)


def test_an_exact_fit_is_an_end():
    rows = as_rows(np.ones((6, 4)))
    start = random_factors(rows, 1, margins(rows), np.random.default_rng(0))
    found = divergence_factors(rows, start, max_iter=100, tol=1e-5)
    assert found.converged
    assert len(found.objective) < 20
    assert abs(found.objective[-1]) < 1e-12


def test_the_users_arrays_are_not_written_to():
    X, H, V = problem()
    copies = X.copy(), H.copy(), V.copy()
    divergence_factors(as_rows(X), (H, V), max_iter=5, tol=0)
    for array, copy in zip((X, H, V), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
