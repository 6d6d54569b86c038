"""The mean distance between rows: exact for few rows, close for many, the same in every container."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from labelfold.numerics._distances import mean_distance
from labelfold.rows import as_rows


def test_few_rows_are_all_looked_at(rng, container):
    X = rng.standard_normal((40, 6)) * np.geomspace(1, 100, 6)
    assert mean_distance(as_rows(container.make(X))) == pytest.approx(pdist(X).mean(), rel=1e-9)


def test_many_rows_are_sampled(rng):
    X = rng.standard_normal((3000, 5))
    exact = pdist(X).mean()
    found = [mean_distance(as_rows(X), random_state=seed) for seed in range(3)]
    assert len(set(found)) == 3
    assert found == pytest.approx([exact] * 3, rel=0.03)
    assert mean_distance(as_rows(X), random_state=0) == found[0]


def test_equal_rows_and_one_row_have_none():
    assert mean_distance(as_rows(np.ones((4, 2)))) == 1.0
    assert mean_distance(as_rows(np.ones((1, 2)))) == 1.0
