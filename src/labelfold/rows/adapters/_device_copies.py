"""Copies of array-API arrays (torch, CuPy, ...) to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj, is_cupy_array, is_torch_array

from labelfold.rows import _threads as threads

# Bytes that are copied from a GPU at a time, and the most threads that do so.
_PIECE, _COPIERS = 8 << 20, 8


def plain(a: np.ndarray) -> np.ndarray:
    """Return an array that torch accepts without a warning: contiguous and writable, although it is not modified."""
    return np.require(a, requirements=["C", "W"])


def to_host(x: Any) -> np.ndarray:
    """Return an array-API array as NumPy."""
    if isinstance(x, np.ndarray | np.generic | float | int):
        return np.asarray(x)
    if is_torch_array(x):
        x = x.detach()
        return _copied(x) if x.device.type == "cuda" and x.nbytes > 2 * _PIECE else x.cpu().numpy()
    if is_cupy_array(x):
        return x.get()
    namespace = array_namespace(x)
    if hasattr(namespace, "Device"):  # array-api-strict: only its CPU device can be read
        x = x.to_device(namespace.Device("CPU_DEVICE"))
    return np.from_dlpack(x)


def _copied(x: Any) -> np.ndarray:
    """Return a large tensor on a GPU as NumPy.

    It goes through page-locked memory, in pieces and in threads: the system spends most of the time on the pages of
    the new array.
    """
    import torch

    flat = x.contiguous().reshape(-1)
    out = np.empty(x.shape, dtype=torch.empty(0, dtype=x.dtype).numpy().dtype)
    flat_out, step = out.reshape(-1), _PIECE // x.element_size()
    starts = range(0, flat.shape[0], step)
    torch.cuda.current_stream(x.device).synchronize()

    def copy(pieces: Any, _: Any) -> None:
        stream, held = torch.cuda.Stream(x.device), torch.empty(step, dtype=x.dtype, pin_memory=True)
        for a in pieces:
            piece = flat[a : a + step]
            with torch.cuda.stream(stream):
                held[: len(piece)].copy_(piece, non_blocking=True)
            stream.synchronize()
            flat_out[a : a + step] = held[: len(piece)].numpy()

    n_jobs = min(len(starts), threads.n_threads(), _COPIERS)
    threads.run(copy, [starts[i::n_jobs] for i in range(n_jobs)])
    return out


def any_to_host(x: Any) -> Any:
    """Return an array of any library as NumPy, and anything else as it is."""
    return to_host(x) if is_array_api_obj(x) else x
