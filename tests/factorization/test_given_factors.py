"""Zeros in the factors that ``init`` holds: what no update can change is refused or named."""

import warnings

import numpy as np
import pytest

from labelfold import CNMF, DRSVM, KLNMF, SSNMF, NMFAlpha

MULTIPLICATIVE = [KLNMF, NMFAlpha, SSNMF, CNMF]
EVERY = [*MULTIPLICATIVE, DRSVM]
pytestmark = pytest.mark.filterwarnings("ignore:.* stopped after:sklearn.exceptions.ConvergenceWarning")


def problem(n=30, d=7, k=3):
    rng = np.random.default_rng(0)
    X = rng.random((n, d)) + 0.1
    y = np.where(np.arange(n) % 2 == 0, np.arange(n) % 3, -1)
    return X, y, rng.random((n, k)) + 0.1, rng.random((d, k)) + 0.1


@pytest.mark.parametrize("model", EVERY)
def test_a_first_factor_of_zeros(model):
    X, y, H, V = problem()
    with pytest.raises(ValueError, match="the first factor of init holds nothing but zeros"):
        model(3, init=(0 * H, V)).fit(X, y)


@pytest.mark.parametrize("model", MULTIPLICATIVE)
def test_a_second_factor_of_zeros(model):
    X, y, H, V = problem()
    with pytest.raises(ValueError, match="the second factor of init holds nothing but zeros"):
        model(3, init=(H, 0 * V)).fit(X, y)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_the_second_factor_of_drsvm_follows_from_the_first(nonnegative):
    X, y, H, V = problem()
    options = {"nonnegative": nonnegative, "max_iter": 5, "svm_penalty": 1.0, "reconstruction": 1.0}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="init")
        model = DRSVM(3, init=(H, 0 * V), **options).fit(X, y)
    assert model.components_.any(axis=1).all()


@pytest.mark.parametrize(
    ("model", "factor"), [*((model, factor) for model in MULTIPLICATIVE for factor in (0, 1)), (DRSVM, 0)]
)
def test_a_component_of_zeros_stays_and_is_named(model, factor):
    X, y, *init = problem()
    init[factor][:, 1] = 0
    options = {"nonnegative": True} if model is DRSVM else {}
    with pytest.warns(UserWarning, match="init has 1 of 3 components of zeros"):
        fitted = model(3, init=tuple(init), max_iter=10, **options).fit(X, y)
    used = fitted.components_.any(axis=1) & fitted.embedding_.any(axis=0)
    assert used.tolist() == [True, False, True]


def test_without_a_sign_constraint_a_component_of_zeros_is_used():
    X, y, H, V = problem()
    H[:, 1] = 0
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="init")
        model = DRSVM(3, init=(H, V), max_iter=10).fit(X, y)
    assert np.abs(model.components_[1]).max() > 1e-3


@pytest.mark.parametrize("model", MULTIPLICATIVE)
def test_a_row_and_a_column_of_zeros_are_named(model):
    X, y, H, V = problem()
    H[[3, 5]], V[2] = 0, 0
    with pytest.warns(UserWarning, match="for 2 rows and 1 columns in which X is not"):
        model(3, init=(H, V), max_iter=3).fit(X, y)


@pytest.mark.parametrize("model", MULTIPLICATIVE)
def test_zeros_where_x_has_none_but_zeros_are_right(model):
    X, y, H, V = problem()
    X[3], X[:, 2] = 0, 0
    H[3], V[2] = 0, 0
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="init")
        model(3, init=(H, V), max_iter=3).fit(X, y)
