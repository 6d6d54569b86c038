"""Each method of subspace.py with its public estimator: the same labels, and its time."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifier
from sklearn.semi_supervised import LabelPropagation, LabelSpreading

from common import seconds
from labelfold import PCALS, KernelPCALS, LapRLS
from labelfold.app.registry._adapters import ReduceThenClassify
from subspace_methods import (
    KERNEL_WEIGHT,
    LINEAR_WEIGHT,
    METHODS,
    NEIGHBOURS,
    PROPAGATION_ITERATIONS,
    PROPAGATION_TOL,
    SPREADING,
    Rows,
    Task,
)

# An n x n matrix is computed up to this many bytes; that of Waveform has 200 MB.
MOST_BYTES = 1 << 29


def estimator(data: Rows, method: str, config: str, n_labelled: int) -> Any:
    """Return the estimator of a method with a configuration of subspace_methods.py.

    The ridge of LapRLS there belongs to a mean over the labelled rows, as in its paper.
    """
    value = {name: float(number) for name, number in (word.split("=") for word in config.split())}
    p = int(value.get("p", 0))
    gamma = 1 / (2 * (value["kernel_width"] * data.sigma) ** 2) if "kernel_width" in value else "auto"
    if method == "PCA+RLS":
        solver = "arpack" if sparse.issparse(data.X) else "full"
        return ReduceThenClassify(PCA(p, svd_solver=solver, random_state=0), RidgeClassifier(value["ridge"]))
    if method == "PCA-LS":
        return PCALS(p, reconstruction=LINEAR_WEIGHT)
    landmarks = data.n_landmarks if data.large else None
    if method == "KPCA-LS":
        return KernelPCALS(p, kernel="rbf", gamma=gamma, reconstruction=KERNEL_WEIGHT, n_landmarks=landmarks)
    if method in ("LapRLS", "KLapRLS"):
        graph: dict[str, Any] = {"graph": "knn", "n_neighbors": NEIGHBOURS[0]}
        if "graph_width" in value:
            graph = {"graph": "rbf", "graph_gamma": 1 / (2 * (value["graph_width"] * data.sigma) ** 2)}
        kernel = {} if method == "LapRLS" else {"kernel": "rbf", "gamma": gamma, "n_landmarks": landmarks}
        return LapRLS(ridge=value["ridge"] * n_labelled, smoothness=value["smoothness"], **graph, **kernel)
    options: dict[str, Any] = {"tol": PROPAGATION_TOL, "max_iter": PROPAGATION_ITERATIONS}
    if data.large:
        W = data.neighbours[int(value["neighbours"])]
        options["kernel"] = lambda X, Z: sparse.csr_array(W + sparse.eye_array(len(data.y)))
    else:
        options["gamma"] = 1 / (2 * (value["graph_width"] * data.sigma) ** 2)
    if method == "GRF":
        return LabelPropagation(**options)
    # Its stopping rule sums over all rows, so the tolerance is small; exact solutions have none.
    return LabelSpreading(**options | {"alpha": SPREADING, "tol": 1e-8, "max_iter": 5000})


def check(data: Rows, method: str, config: str, task: Task) -> tuple[float, float]:
    """Return the seconds of a fit, and the share (%) of its predictions that agree with the cached computation."""
    only = (config,) if method in ("PCA-LS", "KPCA-LS") else ()
    cached = {name: values for name, _, values in METHODS[method](data, [task], *only)}[config] > 0
    y = np.full(len(data.y), -1)
    y[task.known] = data.y[task.known] > 0
    model = estimator(data, method, config, len(task.known))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spent, _ = seconds(lambda: model.fit(data.X, y))
    found = model.transduction_ if hasattr(model, "transduction_") else model.predict(data.X)
    return spent, 100 * float(np.mean((found[task.asked] > 0) == cached))
