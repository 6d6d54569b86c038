"""Subspace regularisation: a subspace and a linear function on it, found one direction at a time."""

from labelfold.subspace._kernel_pcals import KernelPCALS
from labelfold.subspace._pcals import PCALS

__all__ = ["PCALS", "KernelPCALS"]
