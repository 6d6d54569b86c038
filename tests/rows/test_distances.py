"""Squared distances from fixed points, and rows of unit norm."""

import numpy as np
import pytest
from scipy import sparse

from labelfold.rows import AbsoluteDistances, SquaredDistances, unit_rows

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


@HOLD
@pytest.mark.parametrize("keep", [np.asarray, sparse.csr_array])
def test_are_the_sums_of_absolute_differences(hold, keep, rng):
    X, points = (rng.random((n, 8)) * (rng.random((n, 8)) < 0.4) for n in (7, 11))
    expected = np.abs(X[:, None] - points).sum(axis=2)
    np.testing.assert_allclose(AbsoluteDistances(keep(points))(hold(X)), expected, atol=1e-14)
    assert AbsoluteDistances(keep(points))(hold(X)[:0]).shape == (0, 11)


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
