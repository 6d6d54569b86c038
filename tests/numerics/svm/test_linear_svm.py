"""Linear SVMs: against liblinear, quadratic programs and a slow twin; warm starts; rows that make trouble."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize, sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from labelfold.numerics._linear_svm import interior_minimum, linear_svm, svm_objective
from labelfold.numerics._linear_svm_loops import descend
from reference import svm as reference

LOSSES = ["squared_hinge", "hinge"]

loss_of = pytest.mark.parametrize("loss", LOSSES)


def data(rng, n=200, d=10, noise=1.0):
    X = rng.standard_normal((n, d))
    return X, np.where(X @ rng.standard_normal(d) + noise * rng.standard_normal(n) > 0, 1.0, -1.0)


def certify(found, X, y, C, loss, tol):
    """Assert, with nothing but weak duality, that w is within ``tol`` of the least objective there is."""
    C = np.broadcast_to(np.asarray(C, dtype=float), y.shape)
    X = X.toarray() if sparse.issparse(X) else X
    X = np.column_stack([X.astype(float), np.full(len(X), float(found.intercept != 0))])
    w = np.append(found.w, found.intercept)
    assert (found.alpha >= 0).all()
    if loss == "hinge":
        assert (found.alpha <= C).all()
    used = C > 0
    assert (found.alpha[~used] == 0).all()
    np.testing.assert_allclose(X.T @ (found.alpha * y), w, atol=1e-9 * max(1.0, np.abs(w).max()))
    P = reference.primal(w, X, y, C, loss)
    D = reference.dual(found.alpha[used], X[used], y[used], C[used], loss)
    gap = (P - D) / P
    assert gap <= tol + 1e-12
    assert found.gap == pytest.approx(gap, abs=1e-10)
    assert found.converged


@loss_of
@pytest.mark.parametrize("C", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("shape", [(200, 10), (60, 300), (300, 2)])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_equals_liblinear(shape, C, loss, fit_intercept, rng):
    """liblinear appends a column of `intercept_scaling` and penalises its weight: at 1, the same problem as ours."""
    X, y = data(rng, *shape)
    X[:, 0] += 0.5
    found = linear_svm(X, y, C, loss=loss, fit_intercept=fit_intercept, tol=1e-7, max_iter=20_000)
    with warnings.catch_warnings():
        # It measures its progress by gradients, which need not be as small as asked for.
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = LinearSVC(
            C=C,
            loss=loss,
            dual=True,
            fit_intercept=fit_intercept,
            intercept_scaling=1,
            tol=1e-8,
            max_iter=50_000,
            random_state=0,
        ).fit(X, y)
    ours = svm_objective(found.w, X, y, C, loss, found.intercept)
    b = float(np.ravel(theirs.intercept_)[0]) if fit_intercept else 0.0
    # It may stop above its optimum, so we must not be above it, and weak duality bounds how far below we are.
    assert ours <= svm_objective(theirs.coef_[0], X, y, C, loss, b) * (1 + 1e-6)
    assert (found.intercept != 0) == fit_intercept
    certify(found, X, y, C, loss, 1e-7)


@loss_of
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_optimality_conditions(loss, C, rng):
    X, y = data(rng)
    found = linear_svm(X, y, C, loss=loss, tol=1e-12, max_iter=100_000)
    margin, a = y * (X @ found.w), found.alpha
    if loss == "squared_hinge":
        np.testing.assert_allclose(a, 2 * C * np.maximum(0, 1 - margin), atol=1e-5 * a.max())
    else:
        near = 1e-5
        assert (margin[a == 0] >= 1 - near).all()
        assert (margin[a == C] <= 1 + near).all()
        assert np.abs(margin[(a > 0) & (a < C)] - 1).max() <= near
    assert np.linalg.norm(X.T @ (a * y) - found.w) <= 1e-12 * np.linalg.norm(found.w)


@loss_of
def test_the_slow_twin(loss, rng):
    X, y = data(rng, 40, 5)
    C = rng.random(40) + 0.1
    w, alpha, _ = reference.descend(X, y, C, loss, 2000)
    assert reference.primal(w, X, y, C, loss) - reference.dual(alpha, X, y, C, loss) < 1e-9
    found = linear_svm(X, y, C, loss=loss, tol=1e-12, max_iter=100_000)
    np.testing.assert_allclose(found.w, w, atol=1e-5)
    if loss == "squared_hinge":  # the hinge's alpha is not unique
        np.testing.assert_allclose(found.alpha, alpha, atol=1e-5)


@loss_of
def test_every_kind_of_rows(loss, rng):
    X, y = data(rng, 80, 12)
    X[rng.random(X.shape) < 0.5] = 0
    X = X.astype(np.float32)
    untidy = sparse.csr_array(X)
    untidy = sparse.csr_array(
        (np.repeat(untidy.data / 2, 2), np.repeat(untidy.indices, 2), 2 * untidy.indptr), shape=X.shape
    )
    wide = sparse.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    kinds = {
        "float32": X,
        "float64": X.astype(float),
        "fortran": np.asfortranarray(X, dtype=float),
        "csr float32": sparse.csr_array(X),
        "csr_matrix": sparse.csr_matrix(X.astype(float)),
        "csc": sparse.csc_array(X),
        "int64 indices": wide,
        "repeated entries": untidy,
    }
    base = linear_svm(X.astype(float), y, loss=loss, fit_intercept=True, tol=1e-11, max_iter=50_000)
    for name, held in kinds.items():
        before = held.copy()
        found = linear_svm(held, y, loss=loss, fit_intercept=True, tol=1e-11, max_iter=50_000)
        np.testing.assert_allclose(found.w, base.w, atol=1e-5, err_msg=name)
        certify(found, X, y, 1.0, loss, 1e-11)
        assert (before != held).sum() == 0
    integers = np.round(3 * X).astype(int)
    found = linear_svm(integers, y, loss=loss, max_iter=50_000)
    certify(found, integers, y, 1.0, loss, 1e-6)


@pytest.mark.parametrize("make", [np.array, sparse.csr_array], ids=["dense", "csr"])
def test_read_only_arrays_compile_nothing_again(make, rng):
    X, y = data(rng, 30, 3)
    written = make(X)
    linear_svm(written, y, np.ones(30), loss="hinge")
    before = list(descend.signatures)
    fixed, C = make(X), np.ones(30)
    for a in (C, fixed) if isinstance(fixed, np.ndarray) else (C, fixed.data, fixed.indices, fixed.indptr):
        a.flags.writeable = False
    linear_svm(fixed, y, C, loss="hinge")
    linear_svm(fixed, y, 1.0, loss="hinge")
    assert descend.signatures == before


@loss_of
def test_a_weight_of_two_is_a_row_twice(loss, rng):
    X, y = data(rng, 50, 4)
    times = rng.integers(0, 4, 50)
    found = linear_svm(X, y, 0.5 * times, loss=loss, tol=1e-10, max_iter=50_000)
    certify(found, X, y, 0.5 * times, loss, 1e-10)
    repeated = linear_svm(
        X.repeat(times, axis=0), y.repeat(times), 0.5, loss=loss, tol=1e-10, max_iter=50_000
    )
    np.testing.assert_allclose(found.w, repeated.w, atol=1e-4)
    assert svm_objective(found.w, X, y, 0.5 * times, loss) == pytest.approx(
        svm_objective(repeated.w, X, y, 0.5 * times, loss), rel=1e-9
    )


@loss_of
@pytest.mark.parametrize("kind", ["moved", "scaled", "far"])
@pytest.mark.parametrize("d", [8, 150])
def test_a_warm_start_is_quicker_and_ends_where_a_cold_one_does(loss, kind, d, rng):
    X, y = data(rng, 300, d)
    alpha = linear_svm(X, y, loss=loss, tol=1e-8, max_iter=50_000).alpha
    moved = {
        "moved": X + 1e-3 * rng.standard_normal(X.shape),
        "scaled": 0.999 * X,
        "far": 3 * rng.standard_normal(X.shape),
    }[kind]
    kept = alpha.copy()
    warm = linear_svm(moved, y, loss=loss, alpha=alpha, max_iter=100_000)
    cold = linear_svm(moved, y, loss=loss, max_iter=100_000)
    np.testing.assert_array_equal(alpha, kept)
    for found in (warm, cold):
        certify(found, moved, y, 1.0, loss, 1e-6)
    if kind != "far":
        assert warm.n_iter <= cold.n_iter
        if d > 129:  # narrow machines have little left to gain
            assert warm.n_iter < 0.75 * cold.n_iter


@loss_of
def test_a_solution_is_a_start_that_needs_no_more_than_a_look(loss, rng):
    X, y = data(rng)
    found = linear_svm(X, y, loss=loss, tol=1e-10, max_iter=50_000)
    assert linear_svm(X, y, loss=loss, alpha=found.alpha).n_iter <= 2
    # A squared hinge scales exactly: rows ten times as long, and weights to match, have alphas a hundredth.
    if loss == "squared_hinge":
        again = linear_svm(10 * X, y, 0.01, loss=loss, alpha=found.alpha)
        assert again.n_iter <= 2
        np.testing.assert_allclose(again.alpha, found.alpha / 100, atol=1e-5)


@loss_of
@pytest.mark.parametrize("start", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_dual_never_falls(loss, start, rng):
    X, y = data(rng, 100, 6)
    C = 0.1 + rng.random(100)
    alpha = 2 * rng.random(100) if start else None
    values = [
        reference.dual(
            linear_svm(X, y, C, loss=loss, alpha=alpha, tol=1e-12, max_iter=m).alpha, X, y, C, loss
        )
        for m in range(1, 60)
    ]
    assert values[0] > 0  # better than alpha = 0, however bad the start was
    assert np.diff(values).min() >= -1e-13 * values[-1]
    slow = reference.descend(X, y, C, loss, 59)[2]
    assert np.diff(slow).min() >= -1e-13 * slow[-1]
    assert values[-1] >= slow[-1] * (1 - 1e-3)  # a random order, and shrinking, lose nothing


small = {"min_value": -3, "max_value": 3, "allow_nan": False, "width": 32}


@settings(max_examples=40)
@given(
    X=hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 3)), elements=st.floats(**small)),
    bits=st.integers(0, 63),
    C=st.floats(0.01, 5.0),
    loss=st.sampled_from(LOSSES),
)
def test_tiny_problems_against_quadratic_programs(X, bits, C, loss):
    n = len(X)
    y = np.array([1.0 if bits >> i & 1 else -1.0 for i in range(n)])
    # The least primal objective, as a smooth program in (w, slacks) with linear constraints.
    d = X.shape[1]

    def value(v):
        slack = v[d:]
        return v[:d] @ v[:d] / 2 + C * (slack.sum() if loss == "hinge" else slack @ slack)

    def slope(v):
        return np.concatenate([v[:d], np.full(n, C) if loss == "hinge" else 2 * C * v[d:]])

    keep_margin = {
        "type": "ineq",
        "fun": lambda v: y * (X @ v[:d]) - 1 + v[d:],
        "jac": lambda v: np.hstack([y[:, None] * X, np.eye(n)]),
    }
    program = optimize.minimize(
        value,
        np.concatenate([np.zeros(d), np.ones(n)]),
        jac=slope,
        bounds=[(None, None)] * d + [(0, None)] * n,
        constraints=[keep_margin],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    found = linear_svm(X, y, C, loss=loss, tol=1e-9, max_iter=100_000)
    certify(found, X, y, C, loss, 1e-9)
    least = reference.primal(found.w, X, y, C, loss)
    assert least <= program.fun * (1 + 1e-6)
    if program.success:
        assert least == pytest.approx(program.fun, rel=1e-5)


@loss_of
@pytest.mark.parametrize("held", [np.asarray, sparse.csr_array])
def test_many_machines_are_as_many_single_ones(loss, held, rng):
    X, _ = data(rng, 90, 5)
    codes = rng.integers(0, 4, 90)
    Y = np.where(codes[:, None] == np.arange(4), 1.0, -1.0)
    C = rng.random((90, 4)) + 0.1
    found = linear_svm(held(X), Y, C, loss=loss, fit_intercept=True, tol=1e-8, max_iter=50_000)
    assert found.w.shape == (4, 5)
    assert found.intercept.shape == (4,)
    assert found.alpha.shape == (90, 4)
    singles = [
        linear_svm(X, Y[:, j], C[:, j], loss=loss, fit_intercept=True, tol=1e-8, max_iter=50_000)
        for j in range(4)
    ]
    for j, one in enumerate(singles):
        np.testing.assert_allclose(found.w[j], one.w, atol=1e-3)
        certify(one, X, Y[:, j], C[:, j], loss, 1e-8)
    assert found.gap <= 1e-8
    again = linear_svm(held(X), Y, C, loss=loss, fit_intercept=True, alpha=found.alpha)
    assert again.n_iter <= 2
    same = linear_svm(held(X), Y, C[:, 0], loss=loss)
    assert same.alpha.shape == (90, 4)


@loss_of
def test_rows_that_make_trouble(loss, rng):
    X, y = data(rng, 30, 3)
    # Rows of zeros cannot be told apart: their loss is 1 each, and their alphas say so.
    zeros = np.vstack([X, np.zeros((2, 3))])
    signs = np.append(y, [1.0, -1.0])
    found = linear_svm(zeros, signs, loss=loss, max_iter=50_000)
    certify(found, zeros, signs, 1.0, loss, 1e-6)
    np.testing.assert_allclose(found.alpha[-2:], 1.0 if loss == "hinge" else 2.0)
    # The same row on both sides.
    certify(
        linear_svm(np.repeat(X, 2, axis=0), np.tile([1.0, -1.0], 30), loss=loss, max_iter=50_000),
        np.repeat(X, 2, axis=0),
        np.tile([1.0, -1.0], 30),
        1.0,
        loss,
        1e-6,
    )
    # One class only: any direction that has all rows on one side, or the intercept alone.
    alone = linear_svm(X, np.ones(30), 10.0, loss=loss, fit_intercept=True, max_iter=50_000)
    certify(alone, X, np.ones(30), 10.0, loss, 1e-6)
    assert (X @ alone.w + alone.intercept > 0).all()
    nothing = linear_svm(np.zeros((4, 2)), np.array([1.0, 1, -1, -1]), loss=loss)
    assert (nothing.w == 0).all()
    assert nothing.converged
    left_out = linear_svm(X, y, 0.0, loss=loss)
    assert (left_out.w == 0).all()
    assert left_out.gap == 0
    assert linear_svm(np.empty((0, 3)), np.empty(0), loss=loss).w.tolist() == [0, 0, 0]


@loss_of
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("scale", [1e-150, 1e-60, 1e60, 1e150])
@pytest.mark.parametrize("held", [np.asarray, sparse.csr_array])
@pytest.mark.filterwarnings("ignore:the support vector machine stopped after 500 rounds")
def test_huge_and_tiny_scales(scale, held, loss, fit_intercept, rng):
    X, y = data(rng, 60, 4)
    C = np.float64(1.0) if fit_intercept else scale**-2.0
    hard = fit_intercept and scale > 1
    found = linear_svm(
        held(scale * X),
        y,
        C,
        loss=loss,
        fit_intercept=fit_intercept,
        tol=1e-10,
        max_iter=500 if hard else 50_000,
    )
    assert np.isfinite(found.w).all()
    if not fit_intercept:  # the same problem in other units
        base = linear_svm(X, y, 1.0, loss=loss, tol=1e-10, max_iter=50_000)
        np.testing.assert_allclose(found.w * scale, base.w, atol=1e-4)
        np.testing.assert_allclose(X.T @ (found.alpha / C * y), base.w, atol=1e-4)
        warm = linear_svm(held(scale * X), y, C, loss=loss, alpha=found.alpha)
        assert warm.n_iter <= 2
    elif scale < 1:  # rows that are nothing beside the ones: the intercept does what it can
        zero = linear_svm(0 * X, y, 1.0, loss=loss, fit_intercept=True, tol=1e-10)
        assert found.intercept == pytest.approx(zero.intercept, rel=1e-6)
    else:  # margins so hard that nothing settles: the gap says so, and alpha is better than none
        assert 0.01 < found.gap <= 1
        units = np.column_stack([X, np.full(60, 1 / scale)])
        assert reference.dual(found.alpha * scale**2, units, y, C * scale**2, loss) > 0


def test_scales_beyond_reach_are_refused(rng):
    X, y = data(rng, 10, 2)
    for scale in (1e-160, 1e160):
        with pytest.raises(ValueError, match="scale X to about 1"):
            linear_svm(scale * X, y)
    with pytest.raises(ValueError, match="NaN or infinity"):
        linear_svm(np.where(np.eye(10, 2) > 0, np.nan, X), y)


@loss_of
def test_a_dual_that_does_not_settle_says_how_far_it_came(loss, rng):
    X, y = data(rng, 300, 150)
    with pytest.warns(
        ConvergenceWarning, match=r"50 rounds with a relative duality gap of .*lower C"
    ) as caught:
        found = linear_svm(X, y, 1e8, loss=loss, max_iter=50)
    assert caught[0].filename == __file__
    assert not found.converged
    assert f"{found.gap:.1e}" in str(caught[0].message)
    w, a = found.w, found.alpha
    P, D = reference.primal(w, X, y, 1e8, loss), reference.dual(a, X, y, 1e8, loss)
    assert found.gap == pytest.approx((P - D) / P, rel=1e-6)


@loss_of
@pytest.mark.parametrize("C", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("shape", [(200, 10), (500, 3), (150, 60), (90, 120)])
@pytest.mark.parametrize("held", [np.asarray, sparse.csr_array])
def test_narrow_machines_are_solved_whatever_c_is(loss, C, shape, held, rng):
    """Coordinate steps alone leave gaps of 1 there; solved for, they end within round-off, which grows with C."""
    X, y = data(rng, *shape)
    weights = C * (0.5 + rng.random(len(y)))
    weights[:3] = 0
    found = linear_svm(held(X), y, weights, loss=loss, fit_intercept=True, tol=1e-12 * C)
    certify(found, X, y, weights, loss, 1e-12 * C)
    assert found.n_iter <= 300


@loss_of
@pytest.mark.parametrize("shape", [(80, 6), (40, 60)])
def test_the_interior_minimum_satisfies_the_optimality_conditions(loss, shape, rng):
    X, y = data(rng, *shape)
    Z = X * y[:, None]
    upper = np.full(len(y), 2.0 if loss == "hinge" else np.inf)
    diagonal = np.full(len(y), 0.0 if loss == "hinge" else 0.25)
    alpha = interior_minimum(Z, upper, diagonal)
    assert ((alpha > 0) & (alpha <= upper)).all()
    gradient = Z @ (Z.T @ alpha) + diagonal * alpha - 1
    # A positive gradient needs alpha = 0, a negative one alpha = upper.
    assert (np.where(gradient > 0, alpha, 0.0) * gradient).sum() < 1e-11
    if loss == "hinge":
        assert (np.where(gradient < 0, upper - alpha, 0.0) * -gradient).sum() < 1e-11
    else:
        assert gradient.min() > -1e-11


def test_the_seed_fixes_the_answer(rng):
    X, y = data(rng)
    one, two, other = (linear_svm(X, y, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.alpha, two.alpha)
    assert (one.alpha != other.alpha).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.array([0.0, 1.0, 1.0])}, "other values than -1 and \\+1"),
        ({"y": np.ones(2)}, "signs for 2 rows and 3 rows"),
        ({"y": np.ones((3, 1, 1))}, "where signs of shape"),
        ({"C": -1.0}, "finite weights of at least 0"),
        ({"C": np.inf}, "finite weights of at least 0"),
        ({"loss": "log"}, "'hinge' or 'squared_hinge'"),
        ({"alpha": -np.ones(3)}, "at least 0"),
        ({"alpha": np.ones(2)}, r"\(2, 1\)"),
    ],
)
def test_what_is_refused(change, message):
    given_ = {"X": np.eye(3), "y": np.array([1.0, -1.0, 1.0])} | change
    with pytest.raises(ValueError, match=message) as caught:
        linear_svm(**given_)
    assert "\n" not in str(caught.value)
