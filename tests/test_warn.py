"""Warnings are shown at the user's line, whichever method gives them and however it is called."""

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from labelfold import CNMF, DRSVM, KLNMF, SSNMF, TSVM, NMFAlpha

FACTORISATIONS = [KLNMF, NMFAlpha, SSNMF, CNMF, DRSVM]


def data(n=30, d=6):
    rng = np.random.default_rng(0)
    return rng.random((n, d)), np.arange(n) % 2, rng


def seen(model, X, y):
    """Return the warnings of a fit, by itself and in a pipeline, with the files they are shown in."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
        make_pipeline(model).fit(X, y)
    return [(str(one.message), one.filename) for one in caught]


@pytest.mark.parametrize("model", FACTORISATIONS)
@pytest.mark.parametrize("init", ["random", "nndsvda", "given"])
def test_too_many_components_are_said_at_the_users_line(model, init):
    X, y, rng = data()
    if init == "nndsvda" and model is DRSVM:
        init = "svd"
    if init == "given":
        init = rng.random((30, 7)), rng.random((6, 7))
    said = [one for one in seen(model(7, init=init, max_iter=3), X, y) if "n_components=7" in one[0]]
    assert len(said) == 2
    assert {file for _, file in said} == {__file__}


@pytest.mark.parametrize("model", [*(one(2, max_iter=1) for one in FACTORISATIONS), TSVM(C=1e12, tol=1e-14)])
def test_an_early_end_is_said_at_the_users_line(model):
    X, y, _ = data()
    said = seen(model, X, np.where(np.arange(30) < 20, y, -1))
    assert said
    assert {file for _, file in said} == {__file__}


def test_odd_labels_are_said_at_the_users_line():
    X, y, _ = data()
    Y = np.column_stack([y, np.zeros(30, dtype=int)])
    said = [one for one in seen(SSNMF(2), X, Y) if "No labelled row of Y is positive" in one[0]]
    assert len(said) == 2
    assert {file for _, file in said} == {__file__}
