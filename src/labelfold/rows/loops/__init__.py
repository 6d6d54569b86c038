"""Compiled products of sparse rows, the vector instructions that they use, and loops for a GPU."""

from __future__ import annotations

from typing import Any

from array_api_compat import is_torch_array


def device_loops(*arrays: Any) -> Any:
    """Return the loops compiled for a GPU, if these arrays are on one, else None."""
    for a in arrays:
        if not is_torch_array(a) or a.device.type != "cuda":
            return None
    try:
        from labelfold.rows.loops import _triton_loops as triton_loops
    except ImportError:  # Triton comes with torch on Linux only
        return None
    return triton_loops


def fused(*arrays: Any) -> Any:
    """Return the loops for a GPU that read the first of these arrays in tiles; None if they do not support it."""
    if not all("float32" in str(a.dtype) for a in arrays):
        return None
    loops = device_loops(*arrays)
    return loops if loops is not None and arrays[0].stride(1) == 1 else None
