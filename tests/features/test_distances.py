"""Squared distances from fixed points, and rows of unit norm."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from labelfold.features import SquaredDistances
from labelfold.features._anchors import Anchors
from labelfold.rows import unit_rows

HOLD = pytest.mark.parametrize("hold", [np.asarray, sparse.csr_array, sparse.csr_matrix])


@HOLD
@pytest.mark.parametrize("keep", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_are_the_sums_of_squared_differences(hold, keep, centred, dtype, rng):
    X, points = ((rng.random((n, 8)) * (rng.random((n, 8)) < 0.4)).astype(dtype) for n in (7, 11))
    expected = ((X[:, None].astype(float) - points) ** 2).sum(axis=2)
    found = SquaredDistances(keep(points), centred)(hold(X))
    np.testing.assert_allclose(found, expected, atol=1e-14)
    assert found.dtype == np.float64
    assert (found >= 0).all()


def test_a_common_offset_costs_no_digits_if_centred(rng):
    points = 1e8 + rng.random((9, 3))
    exact = ((points[:, None] - points) ** 2).sum(axis=2)
    found = SquaredDistances(points, centred=True)(points)
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)


@HOLD
def test_rows_of_unit_norm(hold, rng):
    X = (
        rng.random((6, 5))
        * (rng.random((6, 5)) < 0.5)
        * np.array([1e-200, 1.0, 1e200, 1.0, 3.0, 1.0])[:, None]
    )
    X[4] = 0
    scaled = X / np.array([1e-200, 1.0, 1e200, 1.0, 3.0, 1.0])[:, None]
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    found = unit_rows(hold(X))
    found = found.toarray() if sparse.issparse(found) else found
    np.testing.assert_allclose(found, scaled / np.where(norms > 0, norms, 1), rtol=1e-14)
    assert unit_rows(hold(np.zeros((2, 3)))).shape == (2, 3)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_nearest_anchors_of_a_row_do_not_depend_on_the_others(make, rng):
    X = rng.standard_normal((700, 6))
    anchors = Anchors(make(rng.standard_normal((300, 6))))
    distance, which = anchors.nearest(make(X), 9)
    for some in (slice(0, 1), slice(3, 5), slice(200, 700)):
        d, w = anchors.nearest(make(X[some]), 9)
        np.testing.assert_array_equal(w, which[some])
        np.testing.assert_allclose(d, distance[some], rtol=1e-12)
    exact = np.sqrt(((X[:, None] - np.asarray(anchors.points @ np.eye(6))) ** 2).sum(axis=2))
    np.testing.assert_array_equal(which, np.argsort(exact, axis=1)[:, :9])
    d, w = anchors.nearest(make(X[:0]), 9)
    assert d.shape == w.shape == (0, 9)


def test_what_anchors_compute_once_is_not_saved(rng):
    anchors = Anchors(rng.standard_normal((300, 6)))
    size = len(pickle.dumps(anchors))
    anchors.nearest(rng.standard_normal((2, 6)), 3)
    assert len(pickle.dumps(anchors)) == size
    assert clone(anchors).points.shape == (300, 6)
    again = pickle.loads(pickle.dumps(anchors))
    np.testing.assert_array_equal(again.nearest(np.zeros((1, 6)), 3), anchors.nearest(np.zeros((1, 6)), 3))
