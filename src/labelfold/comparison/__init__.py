"""Which method, with how many labels? A paired comparison on one's own data."""

from labelfold.comparison.protocol import Split, default_budgets, label_budget_splits
from labelfold.comparison.runner import Comparison, compare

__all__ = ["Comparison", "Split", "compare", "default_budgets", "label_budget_splits"]
