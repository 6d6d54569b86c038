"""Copies of array-API arrays (torch, CuPy, ...) to the host, and from it.

Those of a GPU by torch go through page-locked memory, unless they are very small or large: torch keeps it for the
next copy, and the device reads and writes it directly. A new array of the host has pages that the system must provide
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj, is_cupy_array, is_torch_array

from labelfold.rows import _threads as threads

# Bytes that are copied from a GPU at a time, and the most threads that do so.
_PIECE, _COPIERS = 8 << 20, 8
# Bytes below which a copy from a GPU without page-locked memory takes less time; bytes above which one to it does not
# use this memory, which stays allocated.
_FEW, _MANY = 64 << 10, 64 << 20
# Arrays that are copied together begin at multiples of so many numbers: where the device reads several at once.
_APART = 64


def to_device(xp: Any, a: np.ndarray, device: Any, dtype: Any = None) -> Any:
    """Return a NumPy array on a device, perhaps in another dtype of the library."""
    if not _is_gpu(device) or a.nbytes > _MANY:
        # Torch warns of arrays that are not writable, although they are not modified.
        return xp.asarray(np.require(a, requirements=["C", "W"]), dtype=dtype, device=device)
    held = xp.empty(a.shape, dtype=_torch_dtype(a.dtype) if dtype is None else dtype, pin_memory=True)
    _fill(held.numpy(), a)
    return held.to(device, non_blocking=True)


def together(xp: Any, arrays: Sequence[np.ndarray], device: Any, dtype: np.dtype) -> list[Any]:
    """Return several arrays on a device, in one dtype: on a GPU in one copy, which takes as long as that of one."""
    if not _is_gpu(device) or sum(a.nbytes for a in arrays) > _MANY:
        return [to_device(xp, np.asarray(a, dtype=dtype), device) for a in arrays]
    if not arrays:
        return []
    ends = np.cumsum([-(-a.size // _APART) * _APART for a in arrays]).tolist()
    held = xp.empty(ends[-1], dtype=_torch_dtype(dtype), pin_memory=True)
    flat = held.numpy()
    places = [slice(end, end + a.size) for a, end in zip(arrays, [0, *ends], strict=False)]
    for a, place in zip(arrays, places, strict=True):
        _fill(flat[place].reshape(a.shape), a)
    there = held.to(device, non_blocking=True)
    return [there[place].reshape(a.shape) for a, place in zip(arrays, places, strict=True)]


def _fill(out: np.ndarray, a: np.ndarray) -> None:
    """Write an array to another of its shape, perhaps of another dtype; what that cannot hold becomes infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        np.copyto(out, a, casting="unsafe")


def _is_gpu(device: Any) -> bool:
    """Return whether a device is a GPU of torch."""
    return getattr(device, "type", "") == "cuda"


def _torch_dtype(dtype: np.dtype) -> Any:
    import torch

    return torch.from_numpy(np.empty(0, dtype=dtype)).dtype


def to_host(x: Any) -> np.ndarray:
    """Return an array-API array as NumPy."""
    if isinstance(x, np.ndarray | np.generic | float | int):
        return np.asarray(x)
    if is_torch_array(x):
        x = x.detach()
        if x.device.type != "cuda" or x.nbytes < _FEW:
            return x.cpu().numpy()
        return _copied(x) if x.nbytes > 2 * _PIECE else _copied_at_once(x)
    if is_cupy_array(x):
        return x.get()
    namespace = array_namespace(x)
    if hasattr(namespace, "Device"):  # array-api-strict: only its CPU device can be read
        x = x.to_device(namespace.Device("CPU_DEVICE"))
    return np.from_dlpack(x)


def _copied_at_once(x: Any) -> np.ndarray:
    """Return a tensor on a GPU as NumPy: a copy, since forked processes share page-locked memory."""
    import torch

    held = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
    held.copy_(x, non_blocking=True)
    torch.cuda.current_stream(x.device).synchronize()
    return held.numpy().copy()


def _copied(x: Any) -> np.ndarray:
    """Return a large tensor on a GPU as NumPy.

    It is copied in pieces and in threads: the system spends most of the time on the pages of the new array.
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
    threads.run_jobs(copy, [starts[i::n_jobs] for i in range(n_jobs)])
    return out


def any_to_host(x: Any) -> Any:
    """Return an array of any library as NumPy, and anything else as it is."""
    return to_host(x) if is_array_api_obj(x) else x
