"""NSDR: its objective and slopes, its machines, the naive descent, and its degenerate cases."""

import numpy as np
import pytest
from offset_cases import KERNELS, TASKS, factors, nsdr, problem, rises, signs, weights
from scipy.optimize import lsq_linear
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from labelfold.factorization import _offset_factorization as descent
from labelfold.factorization._nsdr import objective
from reference import nsdr as reference

pytestmark = pytest.mark.filterwarnings("ignore:NSDR stopped after:sklearn.exceptions.ConvergenceWarning")
IDS = ["linear", "degree 2", "degree 3", "rbf"]
NAMES = ("kernel", "degree", "gamma", "coef0", "C", "reconstruction_share", "row_penalty", "basis_penalty")


def letters(model):
    return {
        "C": model.C,
        "b": model.reconstruction_share,
        "lu": model.row_penalty,
        "lv": model.basis_penalty,
        "name": model.kernel,
        **weights(model, "degree", "gamma", "coef0"),
    }


@pytest.mark.parametrize("options", KERNELS, ids=IDS)
@pytest.mark.parametrize("task", TASKS)
def test_never_rises_and_is_what_it_says(task, options):
    X, y, _ = problem(task, n=36, n_labelled=16, d=6)
    model = nsdr(3, C=0.7, reconstruction_share=0.3, max_iter=150, tol=0, **options).fit(X, y)
    assert rises(model) <= 1e-10
    T, index = signs(y)
    f = objective(X, *factors(model), T, index, **weights(model, *NAMES))
    np.testing.assert_allclose(model.objective_[-1], f, rtol=1e-7)
    if model.degree > 1:  # libsvm takes minutes over a linear machine with so many rows on its margin
        naive, *_ = reference.objective(X, *factors(model), T, index, **letters(model))
        np.testing.assert_allclose(f, naive, rtol=1e-6)


@pytest.mark.parametrize("options", KERNELS[1:], ids=IDS[1:])
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_the_end_is_stationary(task, options):
    """With a kernel of more dimensions than there are labelled rows the dual variables are unique: no kinks."""
    X, y, _ = problem(task, n=36, n_labelled=14, d=6, seed=1)
    model = nsdr(4, C=0.5, max_iter=3000, tol=1e-14, **options).fit(X, y)
    T, index = signs(y)
    _, *slopes = reference.objective(X, *factors(model), T, index, **letters(model))
    scale = 2 * model.reconstruction_share * np.linalg.norm(X) * np.linalg.norm(model.components_)
    assert max(np.abs(slope).max() for slope in slopes) < 1e-5 * scale


@pytest.mark.parametrize("options", [KERNELS[0], KERNELS[1]], ids=IDS[:2])
def test_not_above_a_plain_descent_over_all_variables(options):
    X, y, _ = problem(n=26, n_labelled=14, d=5)
    model = nsdr(2, C=0.5, tol=1e-9, max_iter=2000, **options).fit(X, y)
    T, index = signs(y)
    rng = np.random.default_rng(0)
    start = [0.1 * rng.standard_normal(np.shape(a)) for a in factors(model)]
    _, plain = reference.descend(X, *start, T, index, 150, **letters(model))
    assert model.objective_[-1] <= plain * (1 + 1e-3)
    # From our solution it finds nothing better, kinks apart.
    _, beyond = reference.descend(X, *factors(model), T, index, 60, **letters(model))
    assert beyond >= model.objective_[-1] * (1 - 1e-4)


@pytest.mark.parametrize("options", KERNELS, ids=IDS)
def test_the_machine_is_libsvms_and_satisfies_the_conditions_of_optimality(options):
    X, y, index = problem(n_labelled=40)
    model = nsdr(3, C=0.3, **options).fit(X, y)
    Z = np.column_stack([model.embedding_, model.row_offsets_])
    T, _ = signs(y)
    s = np.zeros(len(X))
    s[model.support_] = model.dual_coef_[0]
    a, t = s[index] * T[:, 0], T[:, 0]
    assert a.min() >= 0
    assert a.max() <= 0.3
    assert abs(a @ t) < 1e-10
    margin = t * _scores(model, Z)[index]
    assert (margin[a == 0] >= 1 - 1e-3).all()
    assert (margin[a == 0.3] <= 1 + 1e-3).all()
    np.testing.assert_allclose(margin[(a > 0) & (a < 0.3)], 1.0, atol=1e-3)
    names = {"kernel": model.kernel, "degree": model.degree, "gamma": model.gamma, "coef0": 1.0}
    theirs = SVC(C=0.3, tol=1e-8, **names).fit(Z[index], t)
    np.testing.assert_allclose(_scores(model, Z), theirs.decision_function(Z), atol=1e-3)


def _scores(model, Z):
    K = np.array([[_kernel(model, z, v) for v in model.support_vectors_] for z in Z])
    return K @ model.dual_coef_[0] + model.intercept_[0]


def _kernel(model, z, v):
    options = weights(model, "degree", "gamma", "coef0")
    return reference.kernel(z, v, name=model.kernel, **options)[0]


def test_degree_one_is_the_linear_machine_in_the_same_embedding():
    X, y, index = problem(n_labelled=40)
    model = nsdr(3, degree=1, C=0.4).fit(X, y)
    Z = np.column_stack([model.embedding_, model.row_offsets_])
    T, _ = signs(y)
    linear = SVC(C=0.4, kernel="linear", tol=1e-10).fit(Z[index], T[:, 0])
    # coef0 = 1 adds a constant to the kernel, which a'y = 0 takes out again.
    new = X + 0.1
    placed = np.column_stack([model.transform(new), model.row_offsets(new)])
    np.testing.assert_allclose(model.decision_function(new), linear.decision_function(placed), atol=1e-4)


def test_a_machine_too_weak_to_matter_leaves_the_factorisation():
    """C -> 0: the minimum is known, the singular values of the doubly centred rows less sqrt(lu lv) / b."""
    X, y, _ = problem(n=60)
    model = nsdr(3, C=1e-9, row_penalty=1e-7, basis_penalty=2.0, tol=1e-13, max_iter=2000).fit(X, y)
    level = X - X.mean(axis=0)
    level -= level.mean(axis=1, keepdims=True)
    s = np.linalg.svd(level, compute_uv=False)
    shrink = np.sqrt(1e-7 * 2.0) / 0.5
    least = 0.5 * ((s[3:] ** 2).sum() + 3 * shrink**2) + 2 * 0.5 * shrink * (s[:3] - shrink).sum()
    assert model.objective_[-1] == pytest.approx(least, rel=1e-4)


def test_several_labels_are_several_machines():
    X, y, _ = problem("multilabel")
    model = nsdr(3).fit(X, y)
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert model.decision_function(X).shape == model.predict(X).shape == (50, 3)
    both = nsdr(3).fit(X, np.column_stack([y[:, 0], y[:, 0]]))
    scores = both.decision_function(X)
    np.testing.assert_allclose(scores[:, 0], scores[:, 1], atol=1e-6)


def test_a_machine_that_does_not_settle_is_told_with_numbers():
    X, y, _ = problem()
    message = (
        r"machines of NSDR have not settled: the last stopped after \d+ steps with a relative duality gap of "
        r"\d\.\de[-+]\d\d, short of 1\.0e-08, at C=1e\+06; lower C, or scale X"
    )
    with pytest.warns(ConvergenceWarning, match=message):
        nsdr(3, degree=3, C=1e6, max_iter=2).fit(1e3 * X, y)


def test_more_labelled_rows_than_the_kernel_may_have():
    X, y, _ = problem(n_labelled=50)
    with pytest.raises(
        ValueError, match="the kernel of 50 labelled rows needs 0 MB, more than max_gram_bytes=100"
    ):
        nsdr(2, max_gram_bytes=100).fit(X, y)


def test_steps_of_the_linearised_machine_shorten_the_descent(monkeypatch):
    """Quasi-Newton steps alone are slow where the set of support vectors changes."""
    X, y, _ = problem(n=60, n_labelled=40, d=6, seed=2)
    options = {"degree": 2, "C": 0.7, "reconstruction_share": 0.3, "tol": 0}
    model = nsdr(3, **options, max_iter=100).fit(X, y)
    monkeypatch.setattr(descent.OffsetProblem, "linearised_step", lambda self, at: None)
    without = nsdr(3, **options, max_iter=300).fit(X, y)
    np.testing.assert_array_equal(model.objective_[:30], without.objective_[:30])
    assert rises(model) <= 1e-10
    assert model.objective_[-1] < without.objective_[-1]


def test_at_a_kink_the_smallest_subgradient_vanishes():
    """A linear machine in few dimensions: rows gather on its margin, and its dual variables are not unique.

    With w and the scores fixed, they may be any within their bounds that give the same w. Of all slopes of the
    labelled rows that these make, the smallest is next to nothing; the one at the solver's own choice need not be.
    """
    X, y, index = problem(n=40, n_labelled=26, d=6, seed=2)
    C, b = 0.7, 0.3
    model = nsdr(2, degree=1, C=C, reconstruction_share=b, max_iter=2000, tol=1e-11).fit(X, y)
    U, bu, V, bv = factors(model)
    Z, V1 = np.column_stack([U, bu]), np.vstack([V, np.ones(6)])
    slope = (-2 * b * (X - Z @ V1 - bv) @ V1.T + 2 * model.row_penalty * Z)[index]
    s = np.zeros(40)
    s[model.support_] = model.dual_coef_[0]
    s, Z, t = s[index], Z[index], signs(y)[0][:, 0]
    w = Z.T @ s
    margin = t * (Z @ w + model.intercept_[0])
    most = np.where(margin > 1 + 1e-4, 1e-9, C)
    least = np.where(margin < 1 - 1e-4, C - 1e-9, 0.0)
    assert (np.abs(margin - 1) < 1e-4).sum() > 4  # more than w and the bias have dimensions: a kink
    low, high = np.where(t > 0, least, -most), np.where(t > 0, most, -least)
    same_w = 1e3 * np.vstack([Z.T, np.ones(len(t))])
    A = np.vstack([(1 - b) * np.kron(np.eye(len(t)), w[:, None]), same_w])
    best = lsq_linear(A, np.concatenate([slope.ravel(), 1e3 * w, [0.0]]), (low, high)).x
    scale = np.abs((1 - b) * np.outer(s, w)).max()
    assert np.abs(slope - (1 - b) * np.outer(best, w)).max() < 0.02 * scale
