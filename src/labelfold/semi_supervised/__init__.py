"""Classifiers that learn from labelled and unlabelled rows together."""

from labelfold.semi_supervised._label_fold import LabelFold
from labelfold.semi_supervised._laprls import LapRLS
from labelfold.semi_supervised._tsvm import TSVM

__all__ = ["TSVM", "LabelFold", "LapRLS"]
