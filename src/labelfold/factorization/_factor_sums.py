"""Sums over X for a factorisation X = H B'."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.rows import Block, as_rows


def factor_sums(X: Block, H: Any) -> tuple[Any, Any]:
    """Return H'H and X'H in float64: the objective is a difference of them, and would cancel in float32."""
    return X.inner(H), X.double().t(H)


def squared_misfit(X: Any, H: np.ndarray, B: np.ndarray) -> float:
    """Return ||X - H B'||^2 in one pass over X.

    >>> squared_misfit(np.eye(2), np.array([[1.0], [0.0]]), np.array([[1.0], [0.0]]))
    1.0
    """
    return float(as_rows(X).sum(_misfit, np.asarray(H), shared=(np.asarray(B),)))


def _misfit(X: Block, H: Any, B: Any) -> Any:
    X = X.double()
    cross, gram = (X @ B) * H, (H @ (B.T @ B)) * H
    return X.xp.sum(X.sq()) - 2 * X.xp.sum(cross) + X.xp.sum(gram)
