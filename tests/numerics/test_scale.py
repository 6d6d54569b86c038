"""The scale of rows: one pass, every container, far from the origin, and of kernels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import polynomial_kernel

from labelfold.features import KernelMap
from labelfold.numerics._ranges import row_spread
from labelfold.rows import as_rows


def test_mean_squared_distance_from_the_mean(rng, container):
    X = np.abs(rng.standard_normal((200, 7))) * (rng.random((200, 7)) < 0.6)
    rows = as_rows(container.make(X))
    assert row_spread(rows) == pytest.approx(X.var(axis=0).sum(), rel=1e-6)


@pytest.mark.parametrize("away", [0.0, 1e6])
def test_some_rows_far_from_the_origin_in_one_pass(rng, away):
    X = rng.standard_normal((300, 5)) + away
    mask = rng.random(300) < 0.5
    rows = as_rows(X)
    # squares about a row near the mean are of the size of the spread itself: round-off of X is all that is lost
    assert row_spread(rows, mask) == pytest.approx(X[mask].var(axis=0).sum(), rel=1e-8)
    assert rows.n_passes <= 1


def test_equal_rows_have_a_spread_of_one():
    assert row_spread(as_rows(np.full((9, 3), 0.1))) == 1.0
    assert row_spread(as_rows(np.ones((1, 3)))) == 1.0
    assert row_spread(as_rows(np.full((9, 60), 1e6 + 0.4, dtype=np.float32))) == 1.0
    assert row_spread(as_rows(sparse.csr_array(np.full((9, 40), 1e6 + 0.4)))) == 1.0
    assert KernelMap.spread(np.full((9, 9), 0.1)) == 1.0


def test_squares_that_overflow_are_refused():
    with pytest.raises(ValueError, match="squares of X overflow; scale X"):
        row_spread(as_rows(np.array([[1e200], [-1e200]])))


def test_in_the_space_of_a_kernel(rng):
    X = rng.standard_normal((40, 3)) + 1.0
    squares = np.column_stack([X[:, i] * X[:, j] for i in range(3) for j in range(3)])
    K = polynomial_kernel(X, degree=2, gamma=1.0, coef0=0.0)
    assert KernelMap.spread(K) == pytest.approx(squares.var(axis=0).sum())


def test_the_spread_of_single_precision_far_from_0(rng):
    X = (1e6 + rng.normal(size=(30, 60))).astype(np.float32)
    assert row_spread(as_rows(X)) == pytest.approx(X.astype(np.float64).var(axis=0).sum(), rel=1e-6)
