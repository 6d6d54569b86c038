"""Which method, at which size, with how many labels? A paired comparison on one's own data."""

from labelfold.comparison.results import Comparison
from labelfold.comparison.runner import compare

__all__ = ["Comparison", "compare"]
