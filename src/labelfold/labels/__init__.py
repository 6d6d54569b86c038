"""Reads y: which rows are labelled, in which task, with which values."""

from labelfold.labels._labels import (
    Labels,
    check_kind,
    read_batch,
    read_labels,
    score_mask,
    score_targets,
)
from labelfold.labels._wording import worded, wording

__all__ = [
    "Labels",
    "check_kind",
    "read_batch",
    "read_labels",
    "score_mask",
    "score_targets",
    "worded",
    "wording",
]
