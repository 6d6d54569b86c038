"""X'X added to a total by BLAS, without Python's lock.

SciPy's wrapper of the routine (syrk) holds the lock, so that the threads of a pass would take turns. The routine is
therefore called by its address, which SciPy offers to Cython code.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, get_blas_funcs

# The C type of the routine's arguments, as far as it does not depend on the precision.
_KNOWN = b"void (char *, char *, int *, int *, "
_NAMES = {np.dtype(np.float64): "dsyrk", np.dtype(np.float32): "ssyrk"}


def add_gram(X: np.ndarray, total: np.ndarray) -> None:
    """Add the upper triangle of X'X to ``total``, a matrix in Fortran order of the same dtype as X.

    Examples
    --------
    >>> total = np.zeros((2, 2), order="F")
    >>> add_gram(np.array([[1.0, 2.0], [3.0, 4.0]]), total)
    >>> total
    array([[10., 14.],
           [ 0., 20.]])
    """
    m, d = X.shape
    if not X.size:
        return
    if not (X.flags.c_contiguous or X.flags.f_contiguous):
        X = np.ascontiguousarray(X)
    # In C order X is X' to a Fortran routine.
    trans, lda = (b"N", d) if X.flags.c_contiguous else (b"T", m)
    routine = _routine(_NAMES[X.dtype])
    if routine is None:
        (syrk,) = get_blas_funcs(["syrk"], [X])
        syrk(1.0, X.T if trans == b"N" else X, beta=1.0, c=total, trans=trans == b"T", overwrite_c=1)
        return
    n, k, step = (ctypes.byref(ctypes.c_int(size)) for size in (d, m, lda))
    one = np.ones(1, dtype=X.dtype).ctypes
    routine(b"U", trans, n, k, one.data, X.ctypes.data, step, one.data, total.ctypes.data, n)


@cache
def _routine(name: str) -> Callable[..., Any] | None:
    """Return BLAS's routine as a function that releases the lock, or None if its arguments are of other types."""
    capsule = cython_blas.__pyx_capi__[name]
    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype, python.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    kind = python.PyCapsule_GetName(capsule)
    if not kind.startswith(_KNOWN):
        return None
    letter, size, number = ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.c_void_p
    prototype = ctypes.CFUNCTYPE(None, letter, letter, size, size, number, number, size, number, number, size)
    return prototype(python.PyCapsule_GetPointer(capsule, kind))
