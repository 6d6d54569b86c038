"""Feature maps: learned from rows, and functions of one row afterwards."""

from labelfold.features._kernel_map import (
    KernelMap,
    cholesky_features,
    exact_map,
    kernel_params,
    landmarks_for,
    nystroem_map,
)

__all__ = [
    "KernelMap",
    "cholesky_features",
    "exact_map",
    "kernel_params",
    "landmarks_for",
    "nystroem_map",
]
