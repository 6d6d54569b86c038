"""Rows of a quadratic and hinge losses: against a generic convex solver, and the kernels against their slow twins."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear, minimize, nnls

from labelfold.factorization._components import hals, hals_by_columns, nonnegative_least_squares
from labelfold.factorization._drsvm import hinge_row_objectives, hinge_rows

SHAPES = [(1, 1), (1, 5), (3, 4), (8, 3), (5, 12)]  # machines, components


def rows_problem(r, k, seed, n=6):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((k + 3, k)) * np.logspace(0, -1, k)
    return {
        "P": 2 * rng.standard_normal((n, k)),
        "Q": 3 * A.T @ A + 0.1 * np.eye(k),
        "W": rng.standard_normal((r, k)),
        "T": np.sign(rng.standard_normal((n, r))),
        "C": 2 * rng.random((n, r)),
    }, rng.standard_normal(r) / 3


def generic(p, Q, W, t, C, intercept, loss, nonnegative):
    """Minimise over (h, slack), a smooth problem with linear constraints."""
    r, k = W.shape
    squared = loss == "squared_hinge"

    def value(z):
        h, slack = z[:k], z[k:]
        return 0.5 * h @ Q @ h - p @ h + (C * (slack**2 if squared else slack)).sum()

    def gradient(z):
        h, slack = z[:k], z[k:]
        return np.concatenate([Q @ h - p, C * (2 * slack if squared else 1.0)])

    margins = {
        "type": "ineq",
        "fun": lambda z: z[k:] - 1 + t * (W @ z[:k] + intercept),
        "jac": lambda z: np.hstack([t[:, None] * W, np.eye(r)]),
    }
    bounds = [(0 if nonnegative else None, None)] * k + [(0, None)] * r
    start = np.concatenate([np.maximum(np.linalg.solve(Q, p), 0), np.full(r, 5.0)])
    options = {"ftol": 1e-15, "maxiter": 500}
    found = minimize(
        value, start, jac=gradient, bounds=bounds, constraints=[margins], method="SLSQP", options=options
    )
    h = found.x[:k]
    return np.maximum(h, 0) if nonnegative else h


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(("r", "k"), SHAPES)
def test_rows_are_solved_exactly(r, k, loss, nonnegative):
    problem, intercept = rows_problem(r, k, seed=10 * r + k)
    options = {"intercept": intercept, "loss": loss}
    H, dual = hinge_rows(**problem, **options, nonnegative=nonnegative)
    G = np.array(
        [
            generic(p, problem["Q"], problem["W"], t, C, intercept, loss, nonnegative)
            for p, t, C in zip(problem["P"], problem["T"], problem["C"], strict=True)
        ]
    )
    ours, theirs = (hinge_row_objectives(A, **problem, **options) for A in (H, G))
    assert (ours - theirs).max() <= 1e-9 * np.abs(theirs).max()
    # The quadratic is strongly convex, so that nearly the same value is nearly the same row.
    least = np.linalg.eigvalsh(problem["Q"])[0]
    assert (0.5 * least * ((H - G) ** 2).sum(axis=1) <= (theirs - ours) + 1e-9 * np.abs(theirs).max()).all()
    if nonnegative:
        assert H.min() >= 0
    again = hinge_rows(**problem, **options, nonnegative=nonnegative, dual=dual)[0]
    np.testing.assert_allclose(again, H, atol=1e-9 * np.abs(H).max())


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_several_copies_of_one_machine_are_one_heavier_machine(loss):
    problem, _ = rows_problem(1, 4, seed=3)
    thrice = problem | {"W": np.repeat(problem["W"], 3, axis=0)}
    thrice |= {"T": np.repeat(problem["T"], 3, axis=1), "C": np.repeat(problem["C"], 3, axis=1)}
    heavier = problem | {"C": 3 * problem["C"]}
    np.testing.assert_allclose(
        hinge_rows(**thrice, loss=loss)[0], hinge_rows(**heavier, loss=loss)[0], atol=1e-10
    )


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_without_machines_or_weight_only_the_quadratic_counts(loss):
    problem, _ = rows_problem(2, 4, seed=4)
    q = np.linalg.solve(problem["Q"], problem["P"].T).T
    for nothing in ({"W": np.zeros((2, 4))}, {"C": np.zeros((6, 2))}):
        np.testing.assert_allclose(hinge_rows(**(problem | nothing), loss=loss)[0], q, atol=1e-12)
    one = {name: problem[name] for name in ("P", "Q")}
    one |= {"W": np.zeros((1, 4)), "T": problem["T"][:, :1], "C": problem["C"][:, :1]}
    np.testing.assert_allclose(hinge_rows(**one, loss=loss)[0], q, atol=1e-12)


def test_nonnegative_rows_where_single_coordinates_gain_next_to_nothing(rng):
    """One column of A is far larger than all else, and every direction but one is nearly flat."""
    A = np.abs(rng.normal(size=(15, 8)))
    A[3] *= 1e4
    X = np.abs(rng.normal(size=(20, 8))) @ A.T
    H = nonnegative_least_squares(X @ A, A.T @ A)
    exact = np.array([nnls(A, x)[0] for x in X])
    np.testing.assert_allclose(H, exact, atol=1e-4)


def test_nonnegative_rows_equal_a_bounded_least_squares_solver(rng):
    A, X = rng.random((30, 8)), rng.standard_normal((15, 30))
    H = nonnegative_least_squares(X @ A, A.T @ A)
    expected = [lsq_linear(A, x, bounds=(0, np.inf), method="bvls", tol=1e-14).x for x in X]
    np.testing.assert_allclose(H, expected, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_compiled_rounds_equal_their_slow_twin_and_lead_to_the_minimum(dtype, rng):
    A = rng.random((30, 6))
    Q, P = (A.T @ A).astype(dtype), (rng.standard_normal((40, 30)) @ A).astype(dtype)
    H = rng.random((40, 6)).astype(dtype)
    before = H.copy()
    fast, slow = hals(H, P, Q, 3), hals_by_columns(H, P, Q, 3)
    assert fast.dtype == dtype
    np.testing.assert_array_equal(H, before)
    np.testing.assert_allclose(fast, slow, atol=100 * np.finfo(dtype).eps * np.abs(slow).max())
    if dtype is np.float64:
        np.testing.assert_allclose(hals(H, P, Q, 3000), nonnegative_least_squares(P, Q), atol=1e-8)
