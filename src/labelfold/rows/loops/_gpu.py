"""Tells which arrays the loops compiled for a GPU take."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

from array_api_compat import is_torch_array


def on_gpu(*arrays: Any) -> bool:
    """Return whether loops compiled for a GPU take these arrays: tensors on one, where Triton is installed."""
    return all(is_torch_array(a) and a.device.type == "cuda" for a in arrays) and _has_triton()


def tiled(*arrays: Any) -> bool:
    """Return whether loops for a GPU that work in tiles take these arrays, of which the first holds rows."""
    return (
        on_gpu(*arrays) and all("float32" in str(a.dtype) for a in arrays) and arrays[0].stride(1) in (0, 1)
    )


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None  # it comes with torch, on Linux only
