"""Feature maps: learned from rows, and functions of one row afterwards."""

from labelfold.features._kernel_map import (
    KernelMap,
    cholesky_features,
    default_gamma,
    exact_map,
    kernel_map,
    kernel_params,
    landmarks_for,
    nystroem_map,
    refuse_without_kernel,
)

__all__ = [
    "KernelMap",
    "cholesky_features",
    "default_gamma",
    "exact_map",
    "kernel_map",
    "kernel_params",
    "landmarks_for",
    "nystroem_map",
    "refuse_without_kernel",
]
