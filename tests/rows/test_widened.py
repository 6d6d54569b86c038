"""X'H in float64 of float32 rows, a few rows at a time."""

import numpy as np
import pytest

from labelfold.rows import _blocks
from labelfold.rows._blocks import BESIDE, WidenedBlock
from labelfold.rows._sums import total


@pytest.mark.parametrize("shape", [(23, 4, 3), (8, 4, 3), (24, 4, 1), (0, 4, 3), (23, 0, 3), (23, 4, 0)])
@pytest.mark.parametrize("strided", [False, True])
def test_sums_of_several_tiles_are_those_of_all_rows(shape, strided, rng, monkeypatch):
    monkeypatch.setattr(_blocks, "DENSE_BYTES", 1)
    monkeypatch.setattr(_blocks, "DENSE_ROWS", 8 / BESIDE)
    n, d, k = shape
    X = rng.standard_normal((2 * n, d)).astype(np.float32)
    X = X[::2] if strided else X[:n]
    X.flags.writeable = False
    H = rng.standard_normal((n, k))
    for columns in (H, *H.T[:1]):
        wide = X.astype(np.float64)
        bound = n * np.finfo(np.float64).eps * (np.abs(wide).T @ np.abs(columns))
        assert (np.abs(total(WidenedBlock(X).t(columns)) - wide.T @ columns) <= bound).all()
