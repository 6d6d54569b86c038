"""A product that is added to an array in place: every layout and dtype."""

import numpy as np
import pytest

from labelfold.rows._block_sums import add_product, less_outer

LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": lambda A: np.repeat(np.repeat(A, 2, axis=0), 3, axis=1)[::2, ::3],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(300, 5, 4), (300, 1, 1), (1, 3, 2), (0, 3, 2), (6, 0, 2), (6, 3, 0)])
def test_a_product_is_added_in_place(shape, layout, dtype, rng):
    n, k, m = shape
    make = LAYOUTS[layout]
    A, left, right = (make(rng.standard_normal(s).astype(dtype)) for s in ((n, m), (n, k), (k, m)))
    expected, place = A + left @ right, A.ctypes.data
    most = (k + 2) * np.finfo(dtype).eps * (np.abs(A) + np.abs(left) @ np.abs(right))
    add_product(A, left, right)
    assert A.ctypes.data == place
    assert (np.abs(A - expected) <= most).all()


def test_factors_of_more_digits_are_rounded_once(rng):
    A, left, right = rng.standard_normal((9, 2)), rng.standard_normal((9, 3)), rng.standard_normal((3, 2))
    A = (left @ right + 1e-4 * A).astype(np.float32)  # most digits cancel
    expected = (A - left @ right).astype(np.float32)
    assert less_outer(A, left, right) is A
    np.testing.assert_allclose(A, expected, rtol=2 * np.finfo(np.float32).eps)
