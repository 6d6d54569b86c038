"""The form of the columns: tf-idf of counts, ranks of heavy tails, unit variance where they differ in kind."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import datasets

from labelfold.app.registry._column_forms import AS_IS, RANKS, TF_IDF, UNIT_VARIANCE, column_kind


def pixels(rng):
    """Images of a bright spot somewhere about the middle: edges are nearly always 0, and there is one range."""
    place = np.arange(12)
    at = rng.normal(5.5, 2, size=(2, 300, 1))
    across, down = (np.exp(-((place - where) ** 2) / 3) for where in at)
    spots = (down[:, :, None] * across[:, None, :]).reshape(300, 144)
    return np.round(255 * np.clip(1.3 * spots - 0.1, 0, 1))


def spectra(rng):
    """Smooth curves of which one peak is many times as high as the rest."""
    place = np.linspace(0, 1, 120)
    peaks = np.exp(-((place - rng.uniform(0.45, 0.55, size=(200, 1))) ** 2) / 0.003)
    return 50 * rng.uniform(1, 2, size=(200, 1)) * peaks + np.sin(3 * place) * rng.uniform(
        0, 1, size=(200, 1)
    )


def one_hot(rng):
    return np.eye(30)[rng.geometric(0.2, size=300).clip(max=30) - 1]


SHARED = {
    "pixels": pixels,
    "spectra": spectra,
    "one-hot": one_hot,
    "answers": lambda rng: rng.choice([1.0, 2.0], size=(100, 20)),
    "counts of few things": lambda rng: rng.poisson(0.4, size=(300, 20)).astype(float),
    "correlations": lambda rng: np.tanh(rng.normal(size=(100, 15))),
    "Gaussian": lambda rng: rng.normal(size=(200, 40)),
    "lengths in cm": lambda rng: rng.gamma(5, [1.0, 0.5, 2.0, 0.8], size=(150, 4)),
    "one column": lambda rng: np.column_stack([rng.normal(size=20), np.full(20, 7.0)]),
    "constant": lambda rng: np.ones((5, 3)),
    "sparse words": lambda rng: sp.random_array((200, 900), density=0.02, rng=rng, format="csr"),
    "sparse one-hot": lambda rng: sp.csr_array(one_hot(rng)),
    "sparse, empty": lambda rng: sp.csr_array((4, 3)),
}

DIFFERENT = {
    "wine": lambda rng: datasets.load_wine().data,
    "cells": lambda rng: datasets.load_breast_cancer().data,
    "two units": lambda rng: rng.normal(size=(50, 2)) * [1, 20],
    "half large": lambda rng: rng.normal(size=(90, 10)) * ([1] * 4 + [1000] * 6),
    "exponential": lambda rng: rng.exponential(np.geomspace(1, 100, 8), size=(300, 8)),
    "one-hot and income": lambda rng: np.column_stack([one_hot(rng), rng.lognormal(10, 0.5, 300)]),
    "sparse one-hot and income": lambda rng: sp.csr_array(
        np.column_stack([one_hot(rng), rng.lognormal(10, 0.5, 300)])
    ),
}


def words(rng):
    return rng.poisson(np.geomspace(0.002, 1, 200), size=(300, 200)).astype(float)


def frequencies(rng):
    """Percentages of words that most texts have not, and lengths of texts."""
    shares = rng.exponential(0.1, size=(300, 50)) * (rng.random((300, 50)) < 0.1)
    return np.column_stack([shares, rng.lognormal(4, 1.5, size=(300, 3))])


OTHERS = {
    "word counts": (words, TF_IDF),
    "sparse word counts": (lambda rng: sp.csr_array(words(rng)), TF_IDF),
    "word frequencies and lengths": (frequencies, RANKS),
    "amounts of one unit": (lambda rng: rng.lognormal(0, 2, size=(400, 12)), RANKS),
    "answers and amounts": (
        lambda rng: np.column_stack([rng.integers(0, 2, (400, 9)), rng.lognormal(0, 2, size=(400, 2))]),
        RANKS,
    ),
}
ALL = SHARED | DIFFERENT | {name: make for name, (make, _) in OTHERS.items()}


@pytest.mark.parametrize("name", OTHERS)
def test_counts_of_words_become_tf_idf_and_heavy_tails_ranks(name, rng):
    make, form = OTHERS[name]
    assert column_kind(make(rng)).form == form


@pytest.mark.parametrize("name", SHARED)
def test_columns_of_one_kind_stay_as_they_are(name, rng):
    assert column_kind(SHARED[name](rng)).form == AS_IS


@pytest.mark.parametrize("name", DIFFERENT)
def test_columns_of_several_kinds_are_brought_to_unit_variance(name, rng):
    assert column_kind(DIFFERENT[name](rng)).form == UNIT_VARIANCE


@pytest.mark.parametrize("name", ALL)
def test_neither_the_unit_nor_the_order_of_rows_matters(name, rng):
    X = ALL[name](rng)
    kind = column_kind(X)
    # counts have a unit: 1
    assert column_kind(X * 0.125) == kind or kind.reason.startswith("they are counts")
    order = rng.permutation(X.shape[0])
    assert column_kind(X[order]).form == kind.form


@pytest.mark.parametrize("name", ["pixels", "wine", "two units", "amounts of one unit"])
def test_shifts_do_not_matter(name, rng):
    X = ALL[name](rng)
    assert column_kind(X + 1000).form == column_kind(X).form


def test_the_column_that_outweighs_is_named():
    kind = column_kind(datasets.load_wine().data)
    assert datasets.load_wine().feature_names[kind.column] == "proline"
    assert kind.reason == "varies 388 times as much as the columns usually do"


def test_many_rows_are_looked_at_in_part(rng):
    X = rng.normal(size=(30_000, 3)) * [1, 1, 1e4]
    assert column_kind(X).form == column_kind(X[:5000]).form == UNIT_VARIANCE
