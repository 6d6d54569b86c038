"""What is labelled, and in which task: the one place where y is interpreted."""

from labelfold.labels._labels import (
    Labels,
    check_kind,
    read_batch,
    read_labels,
    score_mask,
    score_targets,
)

__all__ = ["Labels", "check_kind", "read_batch", "read_labels", "score_mask", "score_targets"]
