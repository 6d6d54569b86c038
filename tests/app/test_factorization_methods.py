"""Factorisations as the registry makes them: weights that follow the data keep what labels there are worth."""

import numpy as np
import pytest

from labelfold import CNMF, DRSVM, KLNMF, LSDR, NSDR, SSNMF, NMFAlpha
from labelfold.app.registry import METHODS
from labelfold.app.registry._adapters import ReduceThenClassify
from labelfold.app.registry._tuned import Tuned


def labelled(X, y, n_labelled=60):
    few = np.full(len(y), -1)
    few[:n_labelled] = y[:n_labelled]
    return X, y, few


def gaussians(seed, n=500, d=50):
    """Two Gaussian classes around means that differ in the last five of ten directions, which have least variance."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    Z = rng.standard_normal((n, d))
    Z[:, 5:10] += np.where(y[:, None] > 0, 0.7, -0.7)
    spread = np.where(np.arange(d) < 10, 4 * 0.6 ** np.arange(d), 0.1)
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return labelled(100 * (Z * spread) @ rotation + 300 * rng.standard_normal(d), y)


def parts(seed, n=500, d=50):
    """Sums of eight parts and a background that all rows share, and of one small part more that tells the class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    H = rng.random((n, 10)) * (rng.random((n, 10)) < 0.5)
    H[:, 8], H[:, 9] = 0.35 * (y == 0) * rng.random(n), 0.35 * (y == 1) * rng.random(n)
    V = rng.random((10, d)) * (rng.random((10, d)) < 0.3)
    return labelled(100 * (H @ V + 2 * rng.random(d) + 0.05 * rng.random((n, d))), y)


def accuracy(name, k, X, y, few):
    """Return how many of the rows without a label are predicted right."""
    hidden = few < 0
    model = METHODS[name].make(k, X=X, random_state=0).fit(X, few)
    return np.mean(model.predict(X[hidden]) == y[hidden])


@pytest.mark.parametrize("name", ["drsvm", "lsdr", "nsdr"])
def test_gaussian_classes(name):
    """At best 94% can be right; an SVM on principal components has 87%, fixed weights on rows of unit spread 70%."""
    found = np.mean([accuracy(name, 10, *gaussians(seed)) for seed in range(3)])
    assert found > 0.8


def test_parts_under_a_background():
    """The background hides the class from hard-margin machines on rows of unit spread, which have 51%."""
    found = np.mean([accuracy("nmf-alpha", 8, *parts(seed)) for seed in range(2)])
    assert found > 0.62


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("drsvm", DRSVM),
        ("lsdr", LSDR),
        ("nsdr", NSDR),
        ("nmf-alpha", NMFAlpha),
        ("klnmf", KLNMF),
        ("ssnmf", SSNMF),
        ("cnmf", CNMF),
    ],
)
def test_the_estimator_sees_x_as_it_is(name, make):
    X, _, _ = parts(0)
    model = METHODS[name].make(5, X=X)
    model = model.estimator if isinstance(model, Tuned) else model
    assert isinstance(model.reducer if isinstance(model, ReduceThenClassify) else model, make)
