"""Parameters of the wrong kind, or beyond measure, are refused with a sentence by every estimator."""

import numpy as np
import pytest

import labelfold

FACTORISATIONS = [name for name in labelfold.factorization.__all__ if name in labelfold._ESTIMATORS]
WITH_COMPONENTS = [
    name for name in labelfold._ESTIMATORS if hasattr(getattr(labelfold, name)(), "n_components")
]


@pytest.fixture
def data(rng):
    X = np.abs(rng.normal(size=(30, 4)))
    return X, (X[:, 0] > X[:, 1]).astype(int)


@pytest.mark.parametrize("name", WITH_COMPONENTS)
def test_true_is_no_number(name, data):
    sentence = f"n_components=True was given to {name}, where a number is expected"
    with pytest.raises(ValueError, match=sentence):
        getattr(labelfold, name)(n_components=True).fit(*data)


@pytest.mark.parametrize("ridges", [{}, [0.0], [], [1.0, -1.0], ["x"], [[1.0]]], ids=str)
def test_ridges_that_are_none(ridges, data):
    with pytest.raises(ValueError, match="where a sequence of finite numbers above 0 is expected"):
        labelfold.LabelFold(ridges=ridges).fit(*data)


@pytest.mark.parametrize("priors", [{}, ["x", "y"], [0.5], [np.nan, 0.5], [1.0, 0.0]], ids=str)
def test_priors_that_are_none(priors, data):
    with pytest.raises(ValueError, match="where 2 positive numbers that sum to 1 are expected"):
        labelfold.LDA(priors=priors).fit(*data)


@pytest.mark.parametrize("k", [10**9, 2**70])
@pytest.mark.parametrize("name", FACTORISATIONS)
def test_more_components_than_could_ever_be_used(name, k, data):
    sentence = f"n_components={k} was given for X of 30 rows and 4 columns, where 300 at most is expected"
    with pytest.raises(ValueError, match=sentence):
        getattr(labelfold, name)(n_components=k).fit(*data)
