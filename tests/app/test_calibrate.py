"""Confidence is the probability of being right, whatever the scores that it is made from."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_digits

import labelfold
from labelfold.app.compare._data import read_data
from labelfold.app.compare._held_out import (
    calibrate,
    confidence_curve,
    predict_held_out,
    predict_with_confidence,
    score_gap,
)
from labelfold.app.registry._methods import METHODS
from labelfold.app.registry._tuned import without_tuning


def test_the_curve_is_that_of_the_rows():
    rng = np.random.default_rng(0)
    gaps = rng.exponential(2.0, 20_000)
    right = rng.random(len(gaps)) < expit(0.7 * gaps - 0.4)
    a, b = confidence_curve(gaps, right)
    # standard errors of 20,000 rows are below 0.02
    assert a == pytest.approx(0.7, abs=0.06)
    assert b == pytest.approx(-0.4, abs=0.06)


def test_the_curve_does_not_depend_on_the_unit_and_says_nothing_extreme():
    rng = np.random.default_rng(0)
    gaps = rng.exponential(size=40)
    right = rng.random(40) < 0.8
    a, b = confidence_curve(gaps, right)
    np.testing.assert_allclose(confidence_curve(1000 * gaps, right), (a / 1000, b), rtol=1e-4)
    a, b = confidence_curve(gaps[:5], np.ones(5, dtype=bool))
    assert 0.6 < expit(a * np.median(gaps[:5]) + b) < 0.97
    assert np.isfinite(confidence_curve(np.zeros(3), np.array([True, False, True]))).all()
    assert np.isfinite(confidence_curve(np.full(3, np.nan), np.ones(3, dtype=bool))).all()


@pytest.mark.parametrize(
    ("name", "penalty"), [("rbf-svm", {"C": 10.0}), ("svm", {"C": 0.01}), ("sklearn-lda", {})]
)
def test_confidence_is_the_share_of_rows_that_are_right(name, penalty, tmp_path):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:500]
    X, y = X[order], y[order]
    few = np.where(np.arange(len(y)) < 80, y, -1)

    def make(X):
        return METHODS[name].make(X=X, **penalty)

    held = predict_held_out(make, read_data(X, few), 0)
    model = without_tuning(calibrate(make(X).fit(X, few), held))
    predicted, confidence = predict_with_confidence(model, X[80:])
    right = predicted == y[80:]
    # the curve is from 80 rows: their share of right ones has a standard error of at most 4.5 points at 80%
    assert confidence.mean() == pytest.approx(right.mean(), abs=0.135)
    half = confidence > np.median(confidence)
    assert right[half].mean() > right[~half].mean() + 0.1
    loaded = labelfold.load(labelfold.save(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(predict_with_confidence(loaded, X[80:])[1], confidence)


def test_gaps_of_probabilities_and_of_several_labels():
    class Shares:
        def predict_proba(self, X):
            return np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 0.0]])

    np.testing.assert_allclose(score_gap(Shares(), None, np.zeros(2)), [np.log(2), 0])

    class Several(Shares):
        def predict_proba(self, X):
            return np.array([[0.9, 0.2]])

    np.testing.assert_allclose(score_gap(Several(), None, np.zeros((1, 2))), [np.log(4)])


def test_labelfold_keeps_its_own_probabilities():
    X, y = load_digits(return_X_y=True)
    X, few = X[:300], np.where(np.arange(300) < 60, y[:300], -1)
    model = labelfold.LabelFold(random_state=0).fit(X, few)
    assert not hasattr(calibrate(model, object()), "confidence_curve_")
