"""Compiled loops: over sparse rows and small problems on the host, and over tensors on a GPU."""

from __future__ import annotations

from typing import Any

from array_api_compat import is_torch_array


def device_loops(*arrays: Any) -> Any:
    """Return the compiled loops that take these arrays, rows one after the other: None where there are none."""
    for a in arrays:
        if not is_torch_array(a) or a.device.type != "cuda":
            return None
    try:
        from labelfold.rows.loops import _triton_loops as triton_loops
    except ImportError:  # Triton comes with torch on Linux only
        return None
    return triton_loops
