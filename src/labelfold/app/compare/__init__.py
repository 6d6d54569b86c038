"""Compares methods on the user's own data by cross-validation."""

from labelfold.app.compare._results import Comparison
from labelfold.app.compare._runner import compare

__all__ = ["Comparison", "compare"]
