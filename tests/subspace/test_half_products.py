"""Products of a symmetric matrix by half of it, beside plain ones."""

import numpy as np
import pytest

from labelfold.subspace._kernel_pcals import half_products


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 37, 130])
@pytest.mark.parametrize("n_jobs", [1, 2, 3, 7])
def test_products_of_all_jobs_add_up_to_those_of_the_matrix(n, n_jobs, rng):
    K = rng.standard_normal((n, n))
    K += K.T
    X = rng.standard_normal((3, n))
    found = sum(half_products(K, X, 4 * job, 4 * n_jobs) for job in range(n_jobs))
    # Both sum n products, in different orders.
    most = 2 * n * np.finfo(np.float64).eps * (np.abs(X) @ np.abs(K))
    assert (np.abs(found - X @ K) <= most).all()


def test_only_the_upper_triangle_is_read(rng):
    K = rng.standard_normal((9, 9))
    K += K.T
    X = rng.standard_normal((2, 9))
    whole = half_products(K, X, 0, 4)
    K[np.tril_indices(9, -1)] = np.nan
    np.testing.assert_array_equal(half_products(K, X, 0, 4), whole)
