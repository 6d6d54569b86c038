"""The settings of `settings.py`: for each method of the registry, combinations of its weights, sizes and scaling.

Weights are multiples of a unit for columns with a mean variance of 1, so that one grid suits every table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.decomposition import NMF, PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading
from sklearn.svm import SVC, LinearSVC

import labelfold
from data_sets import rng_of
from labelfold.app.registry._adapters import OnClassCodes, OnLabelledRows, ReduceThenClassify
from labelfold.app.registry._reducers import ScikitLDA
from labelfold.app.registry._tuned import UnitSpread

MOST = 30
_DECADES = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3)
_SOME = (0.1, 1.0, 10.0, 100.0)
_SIZES = (2, 5, 10, 20, 40)
# Scaling of the columns: 0 keeps a common unit, 1 scales each column (tf-idf for counts).
_SCALE = {"scale": (0, 1)}


class Grid(NamedTuple):
    """A function that builds a method with given weights, and the weights to try."""

    make: Callable[..., Any]
    levels: dict[str, Sequence[float]]

    def settings(self, most: int = MOST) -> list[dict[str, float]]:
        """Return combinations in random order, at most ``most``."""
        points = list(product(*self.levels.values()))
        chosen = rng_of("settings", *self.levels).permutation(len(points))[:most]
        return [dict(zip(self.levels, points[i], strict=True)) for i in chosen]


def prepared(X: Any, scale: float, nonnegative: bool) -> Any:
    """Return rows with a column variance of 1 on average, or for each column, centred if allowed."""
    if sparse.issparse(X):
        Z = sparse.csr_array(TfidfTransformer().fit_transform(X)) if scale else X
        return Z / np.sqrt(np.mean(Z.multiply(Z).mean(axis=0) - Z.mean(axis=0) ** 2))
    if scale:
        return StandardScaler(with_mean=not nonnegative).fit_transform(X)
    return (X if nonnegative else X - X.mean(axis=0)) / np.sqrt(X.var(axis=0).mean())


def _svm(C: float) -> Any:
    return _in_unit(LinearSVC(C=C, max_iter=5000, random_state=0))


def _in_unit(model: Any) -> Pipeline:
    """Return a classifier after scaling to unit spread, so that its penalty has no unit."""
    return Pipeline([("unit", UnitSpread()), ("model", model)])


def _size(k: float, X: Any) -> int:
    return int(min(k, min(X.shape) - 1))


def _components(X: Any, k: float) -> Any:
    make = TruncatedSVD if sparse.issparse(X) else PCA
    return make(_size(k, X), random_state=0)


def _two_stage(name: str) -> Grid:
    make = getattr(labelfold, name)
    return Grid(lambda X, ridge: make(ridge=ridge * X.shape[1]), {"ridge": _DECADES} | _SCALE)


def _parts(make: Callable[..., Any], levels: dict[str, Sequence[float]]) -> Grid:
    """Return a non-negative factorisation followed by a linear SVM."""

    def build(X: Any, k: float, C: float, **weights: float) -> Any:
        return ReduceThenClassify(_in_unit(make(_size(k, X), random_state=0, **weights)), _svm(C))

    return Grid(build, {"k": _SIZES, "C": _SOME} | levels | _SCALE)


def _offsets(name: str, levels: dict[str, Sequence[float]]) -> Grid:
    def build(X: Any, k: float, **weights: float) -> Any:
        return getattr(labelfold, name)(_size(k, X), random_state=0, max_iter=100, **weights)

    shared = {
        "k": _SIZES,
        "reconstruction_share": (0.1, 0.5, 0.9),
        "row_penalty": (1e-3, 0.1),
        "basis_penalty": (1e-2, 1.0),
    }
    return Grid(build, shared | levels | _SCALE)


def _laprls(X: Any, ridge: float, smoothness: float, neighbours: float, kernel: str | None = None) -> Any:
    options = {"kernel": kernel, "n_neighbors": int(neighbours), "random_state": 0}
    return _in_unit(labelfold.LapRLS(ridge=ridge, smoothness=smoothness * X.shape[0], **options))


def _graph(make: Callable[..., Any], **options: Any) -> Grid:
    levels = {"gamma": (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)} | _SCALE
    return Grid(lambda X, gamma: _in_unit(OnClassCodes(make(gamma=gamma, **options))), levels)


_LAPRLS = {"ridge": (1e-4, 1e-3, 0.01, 0.1, 1.0), "smoothness": (0.0, 0.1, 1.0, 10.0), "neighbours": (5, 10)}

# Cheapest first.
GRIDS: dict[str, Grid] = {
    "lda": _two_stage("LDA"),
    "opls": _two_stage("OPLS"),
    "svm": Grid(lambda X, C: OnLabelledRows(_svm(C)), {"C": _DECADES} | _SCALE),
    "sklearn-lda": Grid(lambda X: ScikitLDA(), _SCALE),
    "label-spreading": Grid(
        lambda X, neighbours, alpha: OnClassCodes(
            LabelSpreading(kernel="knn", n_neighbors=int(neighbours), alpha=alpha, max_iter=1000)
        ),
        {"neighbours": (3, 5, 7, 10, 20), "alpha": (0.2, 0.8, 0.99)} | _SCALE,
    ),
    "naive-bayes": Grid(
        lambda X, alpha: OnLabelledRows(_in_unit(MultinomialNB(alpha=alpha))), {"alpha": _DECADES} | _SCALE
    ),
    "pca-rls": Grid(
        lambda X, k, alpha: ReduceThenClassify(_components(X, k), _in_unit(RidgeClassifier(alpha))),
        {"k": _SIZES, "alpha": _DECADES[:6]} | _SCALE,
    ),
    "pca-svm": Grid(
        lambda X, k, C: ReduceThenClassify(_components(X, k), _svm(C)), {"k": _SIZES, "C": _SOME} | _SCALE
    ),
    "logistic": Grid(
        lambda X, C: OnLabelledRows(_in_unit(LogisticRegression(C=C, max_iter=1000))),
        {"C": (*_DECADES[1:], 1e4)} | _SCALE,
    ),
    "rbf-svm": Grid(
        lambda X, C, gamma: OnLabelledRows(_in_unit(SVC(C=C, gamma=gamma))),
        {"C": (0.1, 1.0, 10.0, 100.0), "gamma": (0.1, 0.3, 1.0, 3.0)} | _SCALE,
    ),
    "ssdr": Grid(
        lambda X, k, must_link_weight, C: ReduceThenClassify(
            labelfold.SSDR(_size(k, X), must_link_weight=must_link_weight, random_state=0), _svm(C)
        ),
        {"k": _SIZES, "must_link_weight": (1.0, 20.0, 400.0), "C": _SOME} | _SCALE,
    ),
    "drsvm": Grid(
        lambda X, k, svm_penalty, reconstruction: labelfold.DRSVM(
            _size(k, X),
            svm_penalty=svm_penalty,
            reconstruction=reconstruction,
            center=True,
            fit_intercept=True,
            random_state=0,
        ),
        {"k": _SIZES, "svm_penalty": _DECADES[1:6], "reconstruction": _DECADES[1:6:2]} | _SCALE,
    ),
    "lsdr": _offsets("LSDR", {"classifier_penalty": (1e-2, 0.1, 1.0)}),
    "nsdr": _offsets("NSDR", {"C": (0.1, 1.0, 10.0), "degree": (1, 2)}),
    "tsvm": Grid(
        lambda X, C, weight: _in_unit(labelfold.TSVM(C, unlabeled_weight=weight)),
        {"C": _DECADES, "weight": (0.1, 1.0)} | _SCALE,
    ),
    "pcals": Grid(
        lambda X, k, reconstruction, ridge: labelfold.PCALS(
            _size(k, X), reconstruction=reconstruction, ridge=ridge, random_state=0
        ),
        {"k": _SIZES, "reconstruction": _DECADES[1:6], "ridge": (0.0, 1.0)} | _SCALE,
    ),
    "laprls": Grid(_laprls, _LAPRLS | _SCALE),
    "ssnmf": _parts(labelfold.SSNMF, {"supervision": (0.01, 0.1, 1.0, 10.0)}),
    "cnmf": _parts(labelfold.CNMF, {}),
    "kernel-pcals": Grid(
        # width 1: the root mean square distance between two rows
        lambda X, k, reconstruction, width: labelfold.KernelPCALS(
            _size(k, X), reconstruction=reconstruction, gamma=0.25 / (X.shape[1] * width**2), random_state=0
        ),
        {"k": _SIZES, "reconstruction": _DECADES[3:], "width": (0.5, 1.0, 2.0)} | _SCALE,
    ),
    "kernel-laprls": Grid(lambda X, **weights: _laprls(X, kernel="rbf", **weights), _LAPRLS | _SCALE),
    "nmf-svm": _parts(
        lambda k, random_state: NMF(k, init="nndsvda", max_iter=500, random_state=random_state), {}
    ),
    "nmf-alpha": _parts(labelfold.NMFAlpha, {"supervision": (0.01, 0.1, 1.0, 10.0)}),
    "klnmf": _parts(
        lambda k, random_state: labelfold.KLNMF(k, corrected=True, random_state=random_state), {}
    ),
    "llgc": _graph(LabelSpreading, alpha=0.99, max_iter=1000),
    "grf": _graph(LabelPropagation),
}
