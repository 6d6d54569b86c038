"""Weights of rows and classes: whole weights are repeated rows, and a row of weight 0 is left out."""

import numpy as np
import pytest
from scipy import sparse

import labelfold
from labelfold import CNMF, DRSVM, KLNMF, LSDR, NSDR, SSNMF, NMFAlpha

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* stopped after:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:n_components=:UserWarning"),
]
K = 3


def problem(task="multiclass", seed=0, n=60, d=8):
    """Non-negative rows of three classes, half of them labelled, with whole weights from 0 to 3."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 3, n)
    X = np.abs(rng.standard_normal((n, d)) + 2 * rng.random((3, d))[code])
    known = np.arange(n) % 2 == 0
    if task == "multilabel":
        y = np.where(known[:, None], np.stack([code == 0, code != 1], axis=1), np.nan)
    else:
        y = np.where(known, code > 0 if task == "binary" else code, -1)
    return X, y, rng.integers(0, 4, n)


def given(X, seed=1):
    rng = np.random.default_rng(seed)
    return rng.random((len(X), K)) + 0.1, rng.random((X.shape[1], K)) + 0.1


# Descents of so few steps that round-off does not grow, from a start that follows from the sums over rows or is given.
MODELS = {
    "drsvm": (DRSVM, {"max_iter": 20, "tol": 1e-12}),
    "drsvm, centred": (DRSVM, {"max_iter": 20, "tol": 1e-12, "center": True, "fit_intercept": True}),
    "drsvm, hinge": (DRSVM, {"max_iter": 20, "tol": 1e-12, "loss": "hinge", "class_weight": "balanced"}),
    "drsvm, non-negative": (DRSVM, {"max_iter": 20, "tol": 1e-12, "nonnegative": True}),
    "drsvm, given": (DRSVM, {"max_iter": 20, "tol": 1e-12, "init": "given", "class_weight": {0: 3.0}}),
    "lsdr": (LSDR, {"max_iter": 15}),
    "lsdr, logistic": (LSDR, {"max_iter": 15, "loss": "logistic", "class_weight": "balanced"}),
    "lsdr, squared": (LSDR, {"max_iter": 15, "loss": "squared", "max_gram_bytes": 0}),
    "lsdr, passes": (LSDR, {"max_iter": 15, "max_gram_bytes": 0}),
    "nsdr": (NSDR, {"max_iter": 10}),
    "nsdr, rbf": (NSDR, {"max_iter": 10, "kernel": "rbf", "class_weight": "balanced"}),
    "klnmf": (KLNMF, {"init": "nndsvda", "max_iter": 40}),
    "klnmf, given": (KLNMF, {"init": "given", "max_iter": 40, "corrected": True}),
    "nmfalpha": (NMFAlpha, {"init": "nndsvda", "max_iter": 30}),
    "nmfalpha, ovr": (
        NMFAlpha,
        {"init": "given", "max_iter": 30, "multiclass": "ovr", "class_weight": "balanced"},
    ),
    "nmfalpha, logistic": (NMFAlpha, {"init": "given", "max_iter": 30, "directions": "logistic"}),
    "nmfalpha, joint": (
        NMFAlpha,
        {"init": "given", "max_iter": 3, "joint": True, "class_weight": "balanced"},
    ),
    "ssnmf": (SSNMF, {"init": "nndsvda", "max_iter": 40}),
    "ssnmf, given": (SSNMF, {"init": "given", "max_iter": 40, "class_weight": "balanced"}),
    "cnmf": (CNMF, {"init": "nndsvda", "max_iter": 40}),
    "cnmf, given": (CNMF, {"init": "given", "max_iter": 40}),
}


def fitted(name, X, y, weights=None, init=None, **options):
    """Return the fitted model of a name; ``init`` has the given factors of the rows."""
    model, own = MODELS[name]
    own = {**own, **options}
    if own.get("init") == "given":
        own["init"] = init
    return model(K, **own).fit(X, y, sample_weight=weights)


def learned(model, X):
    """Return what a model has learned from the sums over rows, and its results for rows."""
    names = (
        "components_",
        "embedding_coef_",
        "class_loadings_",
        "class_embedding_",
        "column_offsets_",
        "objective_",
    )
    found = {name: getattr(model, name) for name in names if hasattr(model, name)}
    found["Z"] = model.transform(X)
    if hasattr(model, "decision_function"):
        found["F"] = model.decision_function(X)
    return found


def assert_same(model, other, X, tol=1e-8):
    ours, theirs = learned(model, X), learned(other, X)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        scale = np.abs(theirs[name]).max()
        np.testing.assert_allclose(value, theirs[name], atol=tol * scale, rtol=0, err_msg=name)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("name", MODELS)
def test_whole_weights_are_repeated_rows(name, task):
    if task == "multilabel" and isinstance(MODELS[name][1].get("class_weight"), dict):
        pytest.skip("its class_weight names a class")
    X, y, weights = problem(task)
    H, V = given(X)
    index = np.repeat(np.arange(len(X)), weights)
    model = fitted(name, X, y, weights, (H, V))
    repeated = fitted(name, X[index], y[index], None, (H[index], V))
    assert_same(model, repeated, X)
    first = np.searchsorted(index, np.flatnonzero(weights))
    kept = weights > 0
    scale = np.abs(repeated.embedding_).max()
    np.testing.assert_allclose(model.embedding_[kept], repeated.embedding_[first], atol=1e-8 * scale, rtol=0)
    # A row of weight 0 has the embedding of a new row.
    np.testing.assert_allclose(model.embedding_[~kept], model.transform(X[~kept]), atol=1e-8 * scale, rtol=0)
