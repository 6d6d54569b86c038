"""Arrays of other libraries under scikit-learn's array_api_dispatch: predictions are arrays like X."""

import numpy as np
import pytest
import sklearn
from array_api_compat import device
from sklearn.base import clone
from sklearn.utils import get_tags

from labelfold import LDA, PCALS
from labelfold.rows import to_host
from test_meta_estimators import N, X, estimators, target_of

METHODS = ("transform", "predict", "decision_function", "predict_proba", "predict_log_proba")
CASES = dict(estimators())


def strict(values):
    import array_api_strict as xp

    return xp.asarray(values, device=xp.Device("device1"))


def torch(values):
    return pytest.importorskip("torch").asarray(values)


@pytest.mark.filterwarnings("ignore:(DRSVM|SSNMF|CNMF|KLNMF|NMFAlpha|LSDR|NSDR) stopped")
@pytest.mark.parametrize("make", [strict, torch])
@pytest.mark.parametrize("name", CASES)
def test_predictions_are_arrays_like_the_rows(name, make):
    model = clone(CASES[name])
    rows, y = make(X), make(target_of(model))
    with sklearn.config_context(array_api_dispatch=True):
        assert get_tags(model).array_api_support
        model.fit(rows, y)
        made = {method: getattr(model, method)(rows) for method in METHODS if hasattr(model, method)}
        if "predict" in made:
            assert model.score(rows, y) == pytest.approx(model.score(X, target_of(model)), rel=1e-12)
    assert {type(values) for values in made.values()} == {type(rows)}
    assert {device(values) for values in made.values()} == {device(rows)}
    for method, values in made.items():
        if method != "transform":  # with dispatch or not, X is worked on in its own library
            plain = getattr(model, method)(rows)
            assert isinstance(plain, np.ndarray)
            np.testing.assert_array_equal(plain, to_host(values))


@pytest.mark.parametrize("make", [strict, torch])
def test_text_stays_numpy_and_so_does_what_is_made_of_numpy(make):
    names = np.array(["ham", "spam"])[np.arange(N) % 2]
    with sklearn.config_context(array_api_dispatch=True):
        model = LDA().fit(make(X), names)
        assert isinstance(model.predict(make(X)), np.ndarray)
        assert not isinstance(model.predict_proba(make(X)), np.ndarray)
        assert isinstance(model.predict_proba(X), np.ndarray)
        nested = PCALS(2).fit(make(X), np.arange(N) % 2)
        assert not isinstance(nested.predict(make(X), n_components=1), np.ndarray)


def test_labels_and_weights_may_be_on_a_device():
    plain = LDA().fit(X, target_of(LDA()))
    np.testing.assert_array_equal(LDA().fit(X, strict(target_of(plain))).components_, plain.components_)
    labels, weights = plain._read_weighted(strict(target_of(plain)), strict(np.full(N, 2.0)), N)
    np.testing.assert_array_equal(weights, 2)
    np.testing.assert_array_equal(labels.weights, 2)
