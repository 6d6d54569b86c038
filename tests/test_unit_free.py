"""Default parameters suit any unit of X: X, 1000 X and X / 1000 give the same model."""

import numpy as np
import pytest

import labelfold
from labelfold import LDA, PCALS, TSVM, KernelPCALS, LapRLS
from units import check_unit_free


def takers(task):
    """Return the estimators that take a task, with their defaults.

    Those of tests/factorization are checked there, on rows of their kind.
    """
    kinds = [
        getattr(labelfold, name)
        for name, place in labelfold._ESTIMATORS.items()
        if not place.startswith(("labelfold.factorization", "labelfold.tables"))
    ]
    return [kind() for kind in kinds if task in kind._allowed]


CLASSES = takers("multiclass")
CLASSES += [
    LDA(ridge="cv"),
    LDA(kernel="rbf", ridge="cv"),
    LDA(kernel="poly", ridge="cv"),
    PCALS("cv"),
    KernelPCALS(kernel="sigmoid", n_landmarks=20),
    LapRLS(kernel="rbf"),
    LapRLS(kernel="rbf", n_landmarks=20),
    LapRLS(kernel="poly", graph="rbf"),
    LapRLS(weights="heat"),
    TSVM(fit_intercept=False),
]
LABEL_COLUMNS = takers("multilabel")
NUMBERS = [model.set_params(task="regression") for model in takers("regression")]


def rows(rng):
    """Return rows far from the origin, columns of unlike spread, and what three classes add to them."""
    codes = rng.integers(0, 3, 120)
    X = rng.standard_normal((120, 15)) * np.geomspace(0.2, 3.0, 15) + 5.0
    return X + 1.5 * np.eye(15)[codes] + np.eye(15)[codes + 9], codes


@pytest.mark.parametrize("model", CLASSES, ids=str)
@pytest.mark.filterwarnings("ignore:n_components=:UserWarning")
def test_classes(rng, model):
    X, codes = rows(rng)
    check_unit_free(model, X, np.where(rng.random(120) < 0.6, codes, -1))


@pytest.mark.parametrize("model", LABEL_COLUMNS, ids=str)
def test_label_columns(rng, model):
    X, codes = rows(rng)
    Y = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1]], dtype=float)[codes]
    Y[rng.random(120) < 0.4] = np.nan
    check_unit_free(model, X, Y)


@pytest.mark.parametrize("model", NUMBERS, ids=str)
def test_numbers(rng, model):
    X, codes = rows(rng)
    y = X @ rng.standard_normal(15) + codes
    y[rng.random(120) < 0.4] = np.nan
    check_unit_free(model, X, y)
