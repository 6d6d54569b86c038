"""The speed at which a GPU reads what lies in the cache that all its processors share."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Numbers that fit the cache with room to spare, 8 MB; how many a program reads at a time, and how many programs.
_SIZE, _BLOCK, _PROGRAMS = 1 << 21, 4096, 1 << 12


@triton.jit
def _read(X, out, size, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, size, BLOCK):
        total += tl.load(X + (program * BLOCK + first) % size + lane, cache_modifier=".cg")
    tl.store(out + program, tl.sum(total, axis=0))


def reader() -> tuple[Any, int]:
    """Return a function that reads a small tensor over and over, and the bytes that it reads."""
    X = torch.rand(_SIZE, device="cuda")
    out = torch.empty(_PROGRAMS, device="cuda")
    return lambda: _read[(_PROGRAMS,)](X, out, _SIZE, BLOCK=_BLOCK, num_warps=8), _PROGRAMS * X.nbytes
