"""With default parameters the unit of X does not matter: X, X / 1000 and 1000 X have the same predictions."""

import numpy as np
import pytest

from labelfold import CNMF, DRSVM, KLNMF, LSDR, NSDR, SSNMF, NMFAlpha

pytestmark = pytest.mark.filterwarnings("ignore:.* stopped after:sklearn.exceptions.ConvergenceWarning")
UNITS = [1e-3, 1e3]
LINEAR = [
    DRSVM(5),
    DRSVM(5, fit_intercept=True, center=True),
    LSDR(5),
    LSDR(5, loss="logistic"),
    NSDR(5),
    NSDR(5, kernel="rbf"),
]
PARTS = [
    DRSVM(5, nonnegative=True, tol=1e-4),
    DRSVM(5, init="random", nonnegative=True, fit_intercept=True, tol=1e-4),
    SSNMF(5),
    SSNMF(5, init="nndsvda"),
]
# These do not predict; what they place is a multiple of the unit's root, or of the unit where parts sum to 1.
PLACES = [CNMF(5), CNMF(5, init="nndsvda"), NMFAlpha(5), KLNMF(5), KLNMF(5, init="nndsvda")]


def gaussians(seed=0, n=200, d=20, n_labelled=40):
    """Two classes around means of their own, away from the origin, and labels of some rows."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, d)) + 0.7 * rng.standard_normal((2, d))[y] + rng.standard_normal(d)
    few = np.full(n, -1)
    few[:n_labelled] = y[:n_labelled]
    return X, few


def parts(seed=0, n=200, d=20, n_labelled=40):
    """Non-negative rows, sums of few parts of which two tell the classes apart, and labels of some rows."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    H = rng.random((n, 6)) * (rng.random((n, 6)) < 0.5)
    H[np.arange(n), y] += 0.5
    X = H @ rng.random((6, d)) + 0.1 * rng.random((n, d))
    few = np.full(n, -1)
    few[:n_labelled] = y[:n_labelled]
    return X, few


def same_in_any_unit(model, X, y, unit):
    """Compare predictions and scores; round-off that iterations have carried on is all they may differ by."""
    model.fit(X, y)
    scores, predicted = model.decision_function(X), model.predict(X)
    model.fit(unit * X, y)
    assert len(np.unique(predicted)) == 2
    np.testing.assert_array_equal(model.predict(unit * X), predicted)
    np.testing.assert_allclose(model.decision_function(unit * X), scores, atol=1e-4 * np.abs(scores).max())


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("model", LINEAR, ids=str)
def test_rows_of_any_sign(model, unit):
    same_in_any_unit(model, *gaussians(), unit)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("model", PARTS, ids=str)
def test_rows_that_are_not_negative(model, unit):
    same_in_any_unit(model, *parts(), unit)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("model", PLACES, ids=str)
def test_places_are_a_multiple(model, unit):
    """Also the number of iterations is the same, and what the places add up to is in the unit of X."""
    X, y = parts()
    model.fit(X, y)
    n_iter, objective = model.n_iter_, model.objective_[-1] / model.objective_[0]
    H, back = model.transform(X), model.inverse_transform(model.transform(X))
    model.fit(unit * X, y)
    assert abs(model.n_iter_ - n_iter) <= 1
    assert model.objective_[-1] / model.objective_[0] == pytest.approx(objective, rel=1e-6)
    other = model.transform(unit * X)
    np.testing.assert_allclose(other / np.linalg.norm(other), H / np.linalg.norm(H), atol=1e-6)
    np.testing.assert_allclose(model.inverse_transform(other), unit * back, atol=1e-6 * unit * back.max())
