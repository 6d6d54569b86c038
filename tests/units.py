"""The check that a model with default parameters does not know the unit of X."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

# A power of two would be exact in floating point and hide a threshold that is not relative.
UNITS = (1e3, 1e-3)


def check_unit_free(model: Any, X: np.ndarray, y: np.ndarray, *, rtol: float = 1e-5) -> None:
    """Assert that X, 1000 X and X / 1000 get the same predictions, and the same embeddings but for their unit.

    ``rtol`` is how far embeddings may differ beside their largest value: some multiple of the model's own tolerance.
    Predicted classes and labels must be equal.
    """
    fitted = clone(model).fit(X, y)
    for unit in UNITS:
        other = clone(model).fit(unit * X, y)
        if hasattr(model, "predict"):
            found, expected = other.predict(unit * X), fitted.predict(X)
            if found.dtype.kind == "f":
                np.testing.assert_allclose(found, expected, atol=rtol * np.abs(expected).max())
            else:
                np.testing.assert_array_equal(found, expected)
        if hasattr(model, "transform"):
            _same_but_for_a_factor(other.transform(unit * X), fitted.transform(X), rtol)


def _same_but_for_a_factor(A: np.ndarray, B: np.ndarray, rtol: float) -> None:
    assert A.shape == B.shape
    factor = float((A * B).sum() / (B * B).sum())
    assert factor > 0
    np.testing.assert_allclose(A / factor, B, rtol=0, atol=rtol * np.abs(B).max())
