"""Problems for LSDR and NSDR, and what both are asked."""

import numpy as np

from labelfold.factorization._lsdr import LSDR
from labelfold.factorization._nsdr import NSDR
from labelfold.labels import read_labels

TASKS = ["binary", "multiclass", "multilabel"]
LOSSES = ["smooth_hinge", "logistic", "squared"]
FACTORS = {"reconstruction_share": 0.5, "row_penalty": 0.1, "basis_penalty": 1.0, "offset_unit": 1.0}
KERNELS = [{"degree": 1}, {"degree": 2}, {"degree": 3}, {"kernel": "rbf", "gamma": 0.3}]


def lsdr(n_components=10, **options):
    """Return LSDR with the weights of the paper's experiments where none are given."""
    return LSDR(n_components, **{**FACTORS, "classifier_penalty": 0.1, **options})


def nsdr(n_components=10, **options):
    """Return NSDR with the weights of the paper's experiments where none are given."""
    kernel = {"gamma": 1.0, "degree": 2, "coef0": 1.0, "C": 1.0}
    return NSDR(n_components, **{**FACTORS, **kernel, **options})


MODELS = [(lsdr, {"loss": loss}) for loss in LOSSES] + [(nsdr, options) for options in KERNELS]
NAMES = [*LOSSES, "linear", "degree 2", "degree 3", "rbf"]


def problem(task="binary", seed=0, n=50, d=8, rank=3, n_labelled=24, dtype=np.float64):
    """Rows of about the given rank, classes that a bend in it tells apart, a part of them labelled."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, rank))
    X = Z @ rng.standard_normal((rank, d)) + 0.4 * rng.standard_normal((n, d)) + rng.standard_normal(d)
    index = np.sort(rng.permutation(n)[:n_labelled])
    side = Z + 0.3 * Z[:, ::-1] ** 2 - 0.3
    if task == "multilabel":
        y = np.full((n, 3), np.nan)
        y[index] = side[index] > 0
    else:
        y = np.full(n, np.nan)
        y[index] = (side[index, 0] > 0) if task == "binary" else side[index].argmax(axis=1)
    return X.astype(dtype), y, index


def signs(y):
    labels = read_labels(y, allowed=TASKS)
    return labels.signs(), labels.index


def factors(model):
    """Return U, bu, V and bv of a fitted model."""
    return (
        model.embedding_.astype(float),
        model.row_offsets_.astype(float),
        model.components_,
        model.column_offsets_,
    )


def weights(model, *names):
    return {name: getattr(model, name) for name in names}


def rises(model):
    """Return the largest rise of the objective from an iteration to the next, relative to it."""
    f = model.objective_
    return (np.diff(f) / np.abs(f[1:])).max(initial=-np.inf)
