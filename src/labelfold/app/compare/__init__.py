"""Which method, at which size, with how many labels? A paired comparison on one's own data."""

from labelfold.app.compare._results import Comparison
from labelfold.app.compare._runner import compare

__all__ = ["Comparison", "compare"]
