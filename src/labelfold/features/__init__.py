"""Feature maps: fitted on rows, then applied to each row separately."""

from labelfold.features._anchors import AnchorGraph, Anchors, anchor_graph, joined, nearest_anchors
from labelfold.features._cholesky_features import cholesky_features
from labelfold.features._forms import (
    AsTheyAre,
    ColumnForm,
    Ranks,
    RootCounts,
    TfIdf,
    UnitRows,
    UnitVariance,
    looks_like_counts,
)
from labelfold.features._kernel_map import (
    KernelMap,
    default_gamma,
    exact_map,
    kernel_map,
    kernel_params,
    landmarks_for,
    nystroem_map,
)
from labelfold.features._principal import Axes, Principal, principal_axes

__all__ = [
    "AnchorGraph",
    "Anchors",
    "AsTheyAre",
    "Axes",
    "ColumnForm",
    "KernelMap",
    "Principal",
    "Ranks",
    "RootCounts",
    "TfIdf",
    "UnitRows",
    "UnitVariance",
    "anchor_graph",
    "cholesky_features",
    "default_gamma",
    "exact_map",
    "joined",
    "kernel_map",
    "kernel_params",
    "landmarks_for",
    "looks_like_counts",
    "nearest_anchors",
    "nystroem_map",
    "principal_axes",
]
