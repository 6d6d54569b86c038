"""Estimators that predict numbers do not claim scores and probabilities, fitted or not, alone or inside others."""

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from test_meta_estimators import CLASSES, NUMBERS, X, estimators

OF_CLASSES = ("decision_function", "predict_proba", "predict_log_proba")
REGRESSORS = {name: model for name, model in estimators() if is_regressor(model)}
CLASSIFIERS = {
    name: model for name, model in estimators() if hasattr(model, "predict") and not is_regressor(model)
}


def claimed(model):
    return [name for name in OF_CLASSES if hasattr(model, name)]


def test_there_are_some():
    assert len(REGRESSORS) > 5
    assert len(CLASSIFIERS) > 10


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_claims_no_scores_of_classes(name):
    model = clone(REGRESSORS[name])
    assert claimed(model) == claimed(make_pipeline(MaxAbsScaler(), model)) == []
    assert claimed(OneVsRestClassifier(model)) == []
    assert (
        claimed(make_pipeline(MaxAbsScaler(), clone(model)).fit(X, NUMBERS))
        == claimed(model.fit(X, NUMBERS))
        == []
    )
    for method in OF_CLASSES:
        with pytest.raises(AttributeError, match=method):
            getattr(model, method)


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("several", [OneVsRestClassifier, OneVsOneClassifier])
def test_a_regressor_serves_one_versus_rest_and_one_versus_one(name, several):
    found = several(clone(REGRESSORS[name])).fit(X, CLASSES).predict(X)
    assert np.mean(found == CLASSES) > 0.5


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_claims_them_before_it_is_fitted(name):
    model = clone(CLASSIFIERS[name])
    every = list(OF_CLASSES)
    assert claimed(model) == claimed(make_pipeline(MaxAbsScaler(), model)) == every
    assert claimed(OneVsRestClassifier(model)) == ["decision_function", "predict_proba"]


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if "PCALS" in name])
def test_the_first_directions_claim_what_the_model_does(name):
    model = clone(CLASSIFIERS[name]).fit(X, CLASSES)
    assert model.predict_proba(X, n_components=1).shape == (len(X), 3)
    assert model._first(1).task_ == "multiclass"
    numbers = clone(model).set_params(task="auto").fit(X, NUMBERS)  # found to be numbers in fit
    assert claimed(numbers) == claimed(numbers._first(1)) == []
    assert numbers.predict(X, n_components=1).shape == NUMBERS.shape
