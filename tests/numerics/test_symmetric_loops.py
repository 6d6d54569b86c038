"""Products of a symmetric matrix by half of it, beside plain ones."""

import numpy as np
import pytest

from labelfold.subspace._kernel_pcals import row_ranges, upper_products


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 37, 130])
@pytest.mark.parametrize("n_jobs", [1, 2, 3, 7])
def test_products_of_all_ranges_add_up_to_those_of_the_matrix(n, n_jobs, rng):
    K = rng.standard_normal((n, n))
    K += K.T
    X = rng.standard_normal((3, n))
    ranges = row_ranges(n, n_jobs)
    assert [a for a, _ in ranges[1:]] == [b for _, b in ranges[:-1]]
    assert (ranges[0][0], ranges[-1][1]) == (0, n)
    found = sum(upper_products(K, X, *part) for part in ranges)
    # Both sum n products, in different orders.
    most = 2 * n * np.finfo(np.float64).eps * (np.abs(X) @ np.abs(K))
    assert (np.abs(found - X @ K) <= most).all()


def test_only_the_upper_triangle_is_read(rng):
    K = rng.standard_normal((9, 9))
    K += K.T
    X = rng.standard_normal((2, 9))
    whole = upper_products(K, X, 0, 9)
    K[np.tril_indices(9, -1)] = np.nan
    np.testing.assert_array_equal(upper_products(K, X, 0, 9), whole)


def test_ranges_hold_about_as_many_entries_each():
    sizes = [sum(1000 - i for i in range(a, b)) for a, b in row_ranges(1000, 4)]
    assert max(sizes) < 1.05 * min(sizes)
