"""LSDR: its objective and slopes, its stationary points, and what becomes of it in the limit."""

import numpy as np
import pytest
from offset_cases import LOSSES, TASKS, factors, lsdr, problem, rises, signs, weights
from scipy.special import expit

from labelfold.factorization import _lsdr as coupled
from labelfold.factorization._lsdr import objective
from reference import lsdr as reference

pytestmark = pytest.mark.filterwarnings("ignore:LSDR stopped after:sklearn.exceptions.ConvergenceWarning")
NAMES = ("loss", "reconstruction_share", "row_penalty", "basis_penalty", "classifier_penalty")


def naive(model, X, y):
    """Return the reference's objective and slopes at a fitted model."""
    T, index = signs(y)
    letters = {
        "b": model.reconstruction_share,
        "lu": model.row_penalty,
        "lv": model.basis_penalty,
        "lw": model.classifier_penalty,
    }
    return reference.objective(
        X,
        *factors(model),
        model.embedding_coef_,
        model.embedding_intercept_,
        T,
        index,
        loss=model.loss,
        **letters,
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("task", TASKS)
def test_never_rises_is_what_it_says_and_ends_where_no_slope_is_left(task, loss):
    X, y, _ = problem(task)
    model = lsdr(
        3, loss=loss, reconstruction_share=0.3, classifier_penalty=0.2, tol=1e-13, max_iter=3000
    ).fit(X, y)
    assert rises(model) <= 1e-10
    f, *slopes = naive(model, X, y)
    np.testing.assert_allclose(model.objective_[-1], f, rtol=1e-10)
    T, index = signs(y)
    ours = objective(
        X,
        *factors(model),
        model.embedding_coef_,
        model.embedding_intercept_,
        T,
        index,
        **weights(model, *NAMES),
    )
    np.testing.assert_allclose(ours, f, rtol=1e-10)
    scale = 2 * model.reconstruction_share * np.linalg.norm(X) * np.linalg.norm(model.components_)
    assert max(np.abs(slope).max() for slope in slopes) < 1e-5 * scale


@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_of_the_losses(loss):
    m = np.array([-3.0, -0.5, 0.3, 0.9, 1.5, 30.0, -800.0])
    value, slope, bend = coupled.losses(m, loss)
    h = 1e-5
    np.testing.assert_allclose(
        (coupled.losses(m + h, loss)[0] - coupled.losses(m - h, loss)[0]) / (2 * h),
        slope,
        atol=1e-6,
    )
    np.testing.assert_allclose(
        (coupled.losses(m + h, loss)[1] - coupled.losses(m - h, loss)[1]) / (2 * h),
        bend,
        atol=1e-4,
    )
    for margin, one in zip(m[:-1], value[:-1], strict=True):
        assert one == pytest.approx(reference.loss_and_slope(1, margin, loss)[0])
        assert one == pytest.approx(reference.loss_and_slope(-1, -margin, loss)[0])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("start", [0.0, 50.0])
def test_the_classifier_is_the_best_for_its_rows(loss, start):
    """From nothing and from a far start, beyond which the smooth hinge has no curvature."""
    X, y, index = problem(n_labelled=40)
    T, _ = signs(y)
    Z = X[index][:, :4] / 3
    machine = coupled.LinearClassifiers(T, loss=loss, weight=0.7, penalty=0.05)
    machine.W, machine.intercept = np.full((1, 3), start), np.array([-start])
    cost, slope = machine.train(Z), machine.gradient()

    def value(W, intercept, Z):
        f = Z[:, :-1] @ W.T + Z[:, -1:] + intercept
        return 0.7 * coupled.losses(T * f, loss)[0].sum() + 0.05 * (W**2).sum()

    assert cost == pytest.approx(value(machine.W, machine.intercept, Z))
    rng = np.random.default_rng(0)
    for _ in range(20):
        step = 1e-3 * rng.standard_normal(4)
        assert value(machine.W + step[:3], machine.intercept + step[3:], Z) >= cost - 1e-12
    # Danskin: with the classifier trained anew the slope in Z is that at the fixed one.
    move = rng.standard_normal(Z.shape)
    h = 1e-5
    ahead, behind = machine.train(Z + h * move), machine.train(Z - h * move)
    assert (ahead - behind) / (2 * h) == pytest.approx(np.vdot(slope, move), rel=1e-5)


def test_reconstruction_alone_gives_the_singular_vectors_of_the_doubly_centred_rows():
    X, y, _ = problem(n=60, d=9)
    model = lsdr(
        3, reconstruction_share=1 - 1e-9, row_penalty=1e-9, basis_penalty=1e-9, tol=1e-14, max_iter=2000
    ).fit(X, y)
    level = X - X.mean(axis=0)
    level -= level.mean(axis=1, keepdims=True)
    Vt = np.linalg.svd(level)[2][:3]
    # A multiple of the ones may be shared between V and the row offsets.
    V = model.components_ - model.components_.mean(axis=1, keepdims=True)
    Q = np.linalg.qr(V.T)[0]
    np.testing.assert_allclose(np.linalg.svd(Q.T @ Vt.T, compute_uv=False), 1.0, atol=1e-6)
    back = model.inverse_transform(model.embedding_, model.row_offsets_)
    best = X - level + level @ Vt.T @ Vt
    np.testing.assert_allclose(back, best, atol=1e-4)


@pytest.mark.parametrize("task", TASKS)
def test_probabilities_are_those_of_the_scores(task):
    X, y, _ = problem(task)
    model = lsdr(3, loss="logistic").fit(X, y)
    p, scores = model.predict_proba(X), model.decision_function(X)
    if task == "binary":
        np.testing.assert_allclose(p[:, 1], expit(scores))
    elif task == "multilabel":
        np.testing.assert_allclose(p, expit(scores))
    else:
        np.testing.assert_allclose(p, expit(scores) / expit(scores).sum(axis=1, keepdims=True))
    if task != "multilabel":
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))


def test_probabilities_of_other_losses_are_those_of_their_targets():
    X, y, _ = problem()
    model = lsdr(2, loss="squared").fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expit(2 * model.decision_function(X)))


def test_the_row_offset_counts_in_the_score():
    X, y, _ = problem()
    model = lsdr(3).fit(X, y)
    U, offsets = model.transform(X), model.row_offsets(X)
    np.testing.assert_allclose(
        model.decision_function(X),
        U @ model.embedding_coef_[0] + offsets + model.embedding_intercept_[0],
        atol=1e-10,
    )
