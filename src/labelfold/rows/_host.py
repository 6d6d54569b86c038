"""Rows of a block for libraries that know NumPy and SciPy only, and what feature maps make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy import sparse

from labelfold.rows._blocks import Block, CSRBlock
from labelfold.rows.adapters._device import to_host


def host(X: Block) -> Any:
    """Return a block's rows as a NumPy array or ``csr_array``."""
    return X.raw if X.is_sparse and sparse.issparse(X.raw) else to_host(X.raw)


def formed(X: Block, form: Callable[[Any], Any]) -> Block:
    """Return what a feature map makes of a block's rows: sparse where it makes sparse rows, otherwise dense."""
    if not X.is_sparse:
        return X.apply(form)
    made = form(X.raw)
    if not sparse.issparse(made):
        return X.apply(lambda _: made)
    return CSRBlock.of(made, 0, made.shape[0], X.dtype)
