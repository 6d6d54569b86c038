"""Builds the estimator of each method, with defaults chosen from the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy.sparse as sp
from sklearn.decomposition import NMF, PCA, TruncatedSVD
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

import labelfold
from labelfold.app.registry._multilabel import PerLabel, Trees
from labelfold.app.registry._partly_labelled import Coded, Labelled, ReduceThenClassify
from labelfold.app.registry._tuned import Tuned, UnitSpread
from labelfold.app.registry._yardsticks import SupervisedUMAP
from labelfold.numerics import MAX_GRAM_BYTES

# Candidates as multiples of the mean squared spread of the data, the default first; see Tuned. Every method has the
# same candidates, so none gets more tries than another.
GRID = (1.0, 10.0, 0.1, 100.0, 0.01)

# Candidates for the number of components, the default first. They come from eight tables that are not those of
# experiments/settings.py: the best number was 20 to 40 on six, and 2 to 5 on two, by up to 7 points.
SIZES = (20, 40, 10, 5, 2)
# Further candidate for PCA, which is cheap. With many components a linear SVM is the same as on all columns.
_MOST_PRINCIPAL = 100
# Number of unlabelled rows that are used for tuning.
_MOST_UNLABELED = 2000
# The same for slow methods.
_FEW_UNLABELED = 500

# Candidates for a ridge that is also multiplied by the number of labelled rows.
_MEAN_GRID = (0.01, 0.1, 0.001, 1.0, 1e-4)
# Candidates for gamma = 1 / (2 sigma^2) of a graph: sigma is 1/4, 1/2, 1/8, 1 and 1/16 of the root mean square
# distance between two rows, which is the square root of 2 for rows of unit spread.
_GAMMAS = (4.0, 1.0, 16.0, 0.25, 64.0)
# C and gamma of an RBF SVM. For rows of unit spread gamma = 1 is scikit-learn's "scale".
_RBF_GRID = (10.0, 1.0, 100.0, 0.1)
_WIDTHS = (1.0, 0.3, 0.1, 3.0)
# C of a logistic loss. On separable rows its optimum is larger than that of a hinge loss.
_LOGISTIC_GRID = (10.0, 100.0, 1.0, 1000.0, 0.1)
# Pseudo-counts of every word, for rows of unit spread.
_SMOOTHING = (0.1, 0.01, 1.0, 0.001, 10.0)


def _fitting(sizes: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return candidates for the number of components, each at most ``most``."""
    return tuple(dict.fromkeys(min(size, most) for size in sizes))


def _sized(
    model: Any, k: int | None, most: int, random_state: int | None, sizes: tuple[int, ...] = SIZES, **how: Any
) -> Any:
    """Return a model that learns from all rows; its number of components is given or chosen with labels hidden."""
    if k is not None:
        return model.set_params(n_components=min(k, most))
    return _hidden(model, "n_components", _fitting(sizes, most), random_state, **how)


def _size_and(
    k: int | None, most: int, values: tuple[float, ...], sizes: tuple[int, ...] = SIZES
) -> dict[str, Any]:
    """Return arguments of `_hidden` to choose another parameter and, unless given, the number of components."""
    sizes = _fitting(sizes, most) if k is None else (min(k, most),)
    grid = tuple((size, value) for value in values for size in sizes)
    return {"grid": grid, "fallback": "classes" if k is None else None}


def _hidden(
    model: Any, parameter: str | tuple[str, ...], grid: tuple, random_state: int | None, **how: Any
) -> Tuned:
    """Return a model that learns from all rows; the parameter(s) are chosen with labels hidden."""
    usual: dict[str, Any] = {"power": 0, "fallback": "classes", "most_unlabeled": _MOST_UNLABELED}
    return Tuned(model, parameter, grid, hide=True, random_state=random_state, **usual | how)


def label_fold(k: int | None, X: Any, random_state: int | None) -> Any:
    """Return LabelFold, which needs no tuning."""
    return labelfold.LabelFold(k, random_state=random_state)


def two_stage(name: str) -> Callable[..., Any]:
    """Return a builder of a two-stage method. Its ridge is tuned unless given."""

    def build(k: int | None, X: Any, random_state: int | None, ridge: float | None = None) -> Any:
        make = getattr(labelfold, name)
        if ridge is not None:
            return make(n_components=k, ridge=ridge)
        return Tuned(make(n_components=k), "ridge", GRID, random_state=random_state)

    return build


def svm(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
    """Return a linear SVM on all columns."""
    return Labelled(linear_svm(random_state, C))


def pca_svm(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
    """Return principal components (singular vectors if X is sparse) and a linear SVM."""
    reducer, sizes = _principal(k, X, random_state)
    return ReduceThenClassify(reducer, linear_svm(random_state, C), sizes=sizes, nested=True)


def _principal(k: int | None, X: Any, random_state: int | None) -> tuple[Any, tuple[int, ...] | None]:
    """Return a reducer to principal components, and candidates for their number unless given."""
    # the randomised solver for sparse rows gives at most one component fewer than columns
    make, most = (TruncatedSVD, min(X.shape) - 1) if sp.issparse(X) else (PCA, min(X.shape))
    sizes = None if k else _fitting((_MOST_PRINCIPAL, *SIZES), most)
    return make(min(k or _MOST_PRINCIPAL, most), random_state=random_state), sizes


def ssdr_svm(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
    """Return SSDR and a linear SVM."""
    # with more components it approaches a linear SVM on all columns, which scores better than few components
    reducer = labelfold.SSDR(min(k or max(SIZES), X.shape[1]), random_state=random_state)
    return ReduceThenClassify(reducer, linear_svm(random_state, C))


def drsvm(k: int | None, X: Any, random_state: int | None) -> Any:
    """Return DRSVM with an intercept. Its weights follow from the size of the data."""
    model = labelfold.DRSVM(center=True, fit_intercept=True, random_state=random_state)
    return _sized(model, k, min(X.shape), random_state)


def nmf_svm(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
    """Return NMF without labels and a linear SVM."""
    reducer = NMF(min(k or 10, *X.shape), init="nndsvda", max_iter=500, random_state=random_state)
    # the initialisation of scikit-learn treats numbers below 1e-6 as zeros, in any unit of X
    in_unit = Pipeline([("unit", UnitSpread()), ("nmf", reducer)])
    return ReduceThenClassify(
        in_unit, linear_svm(random_state, C), sizes=None if k else _fitting(SIZES, min(X.shape))
    )


def umap_svm(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
    """Return supervised UMAP and a linear SVM."""
    # UMAP is too slow for tuning. 10 components scored 3 to 33 points higher than 2 on usps, COIL, image and
    # newsgroups.
    size = k or max(min(10, X.shape[0] - 2), 1)
    return ReduceThenClassify(SupervisedUMAP(size, random_state=random_state), linear_svm(random_state, C))


def parts_svm(
    name: str, size: int | None = None, *, sizes: tuple[int, ...] = SIZES, hide: bool = False, **options: Any
) -> Callable[..., Any]:
    """Return a builder of a non-negative factorisation of the library and a linear SVM.

    The number of parts is ``size``, or chosen from ``sizes``.

    With ``hide`` the labels of a fold are hidden from the factorisation too, at the cost of a fit for each fold.
    """

    def build(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
        most = min(X.shape)
        reducer = getattr(labelfold, name)(min(k or size or 10, most), random_state=random_state, **options)
        chosen = None if k or size else _fitting(sizes, most)
        model = ReduceThenClassify(reducer, linear_svm(random_state, C), sizes=None if hide else chosen)
        if not (hide and chosen):
            return model
        return _hidden(model, "reducer__n_components", chosen, random_state, cv=3)

    return build


def ssnmf_svm(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
    """Return SSNMF and a linear SVM; number of parts and weight of the labels are chosen with labels hidden."""
    model = ReduceThenClassify(labelfold.SSNMF(random_state=random_state), linear_svm(random_state, C))
    names = ("reducer__n_components", "reducer__supervision")
    # its parts fit the labels, so their number must be chosen by hidden labels
    grid = _size_and(k, min(X.shape), (1.0, 0.1, 10.0), (20, 10, 5, 2))
    return _hidden(model, names, random_state=random_state, power=(0, 1), cv=3, **grid)


def tsvm(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
    """Return a transductive SVM. Its C is tuned unless given."""
    model = _tuned(labelfold.TSVM(random_state=random_state), "C", GRID, C, random_state, fallback="auto")
    # unlabelled rows change the method and its best C, so some take part in the tuning
    return model if C is not None else model.set_params(hide=True, most_unlabeled=_FEW_UNLABELED)


def offsets(name: str) -> Callable[..., Any]:
    """Return a builder of LSDR or NSDR. Their weights follow from the size of the data."""

    def build(k: int | None, X: Any, random_state: int | None) -> Any:
        return _sized(getattr(labelfold, name)(random_state=random_state), k, min(X.shape), random_state)

    return build


def pca_rls(k: int | None, X: Any, random_state: int | None, ridge: float | None = None) -> Any:
    """Return principal components and regularised least squares."""
    reducer, sizes = _principal(k, X, random_state)
    rls: Any = RidgeClassifier(1.0 if ridge is None else ridge)
    if ridge is None:
        in_unit = Pipeline([("unit", UnitSpread()), ("rls", rls)])
        rls = Tuned(in_unit, "rls__alpha", GRID, power=0, random_state=random_state)
    return ReduceThenClassify(reducer, rls, sizes=sizes, nested=True)


def ridge_regression(k: int | None, X: Any, random_state: int | None, ridge: float | None = None) -> Any:
    """Return a ridge regression on all columns. Its ridge is tuned unless given."""
    return Labelled(_tuned(Ridge(), "alpha", GRID, ridge, random_state))


def pca_ridge(k: int | None, X: Any, random_state: int | None, ridge: float | None = None) -> Any:
    """Return principal components and ridge regression."""
    model = pca_svm(k, X, random_state)
    return model.set_params(classifier=_tuned(Ridge(), "alpha", GRID, ridge, random_state))


def svr(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
    """Return an RBF support vector regression on all columns. Its width is tuned, and its C unless given."""
    return Labelled(_rbf(SVR(), "svm__", C, random_state))


def pcals(k: int | None, X: Any, random_state: int | None) -> Any:
    """Return PCA-LS, whose weights do not depend on the unit of X."""
    # the last directions cost most, and more than 20 help little
    sizes, model = tuple(size for size in SIZES if size <= 20), labelfold.PCALS(random_state=random_state)
    return _sized(model, k, min(X.shape), random_state, sizes, nested=True, cv=3)


def kernel_pcals(k: int | None, X: Any, random_state: int | None) -> Any:
    """Return PCA-LS in the space of an RBF kernel."""
    model, names = labelfold.KernelPCALS(random_state=random_state), ("n_components", "gamma")
    # the kernel is as wide as the root mean square distance between two rows, or half as wide
    grid = _size_and(k, X.shape[0], (0.25, 1.0))
    return _hidden(model, names, random_state=random_state, power=(0, -1), nested=True, cv=3, **grid)


def laprls(kernel: str | None) -> Callable[..., Any]:
    """Return a builder of LapRLS, linear or with a kernel; with landmarks if its matrix would not fit in memory."""

    def build(k: int | None, X: Any, random_state: int | None, ridge: float | None = None) -> Any:
        # With smoothness n the graph term is about its mean over rows, for any number of rows. A tenth of that does
        # little harm if classes overlap.
        model = labelfold.LapRLS(kernel=kernel, smoothness=X.shape[0] / 10, random_state=random_state)
        if ridge is not None:
            return model.set_params(ridge=ridge)
        power = 1 if kernel is None else 0  # the space of an RBF kernel has no unit
        return Tuned(
            model,
            "ridge",
            _MEAN_GRID,
            power=power,
            per_label=True,
            fallback="auto",
            hide=True,
            random_state=random_state,
        )

    return build


def propagation(make: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return a builder of a graph method of scikit-learn; with a neighbour graph if all pairs would not fit."""

    def build(k: int | None, X: Any, random_state: int | None, gamma: float | None = None) -> Any:
        n = X.shape[0]
        if 8 * n * n > MAX_GRAM_BYTES:
            # scikit-learn's RBF graph joins all pairs; its neighbour graph has no width to tune
            return Coded(make(kernel="knn", **options))
        model: Any = Coded(make(gamma=_GAMMAS[0] if gamma is None else gamma, **options))
        if gamma is None:
            model = Tuned(model, "estimator__gamma", _GAMMAS, power=0, hide=True, random_state=random_state)
        return Pipeline([("unit", UnitSpread()), ("propagation", model)])

    return build


def trees(kind: str) -> Callable[..., Any]:
    """Return a builder of extra trees or a random forest."""

    def build(k: int | None, X: Any, random_state: int | None) -> Any:
        model = Trees(kind, random_state=random_state)
        # trees treat a column with a range below 1e-7 as constant
        return Labelled(Pipeline([("scale", StandardScaler(with_mean=False)), ("trees", model)]))

    return build


def rbf_svm(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
    """Return an RBF SVM on all columns. Its width is tuned, and its C unless given."""
    return Labelled(_rbf(PerLabel(SVC()), "svm__estimator__", C, random_state))


def _rbf(machine: Any, path: str, C: float | None, random_state: int | None) -> Any:
    """Return an RBF machine whose width is tuned, and its C unless given."""
    model = Pipeline([("unit", UnitSpread()), ("svm", machine)])
    grid = tuple((c, g) for g in _WIDTHS for c in (_RBF_GRID if C is None else (C,)))
    names = (f"{path}C", f"{path}gamma")
    return Tuned(model, names, grid, power=(0, 0), most_rows=500, random_state=random_state)


def logistic(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
    """Return a logistic regression on all columns. Its C is tuned unless given."""
    model = PerLabel(LogisticRegression(max_iter=1000))
    return Labelled(_tuned(model, "estimator__C", _LOGISTIC_GRID, C, random_state))


def naive_bayes(k: int | None, X: Any, random_state: int | None, alpha: float | None = None) -> Any:
    """Return a naive Bayes classifier for counts. Its smoothing is tuned unless given."""
    model = PerLabel(MultinomialNB())
    return Labelled(_tuned(model, "estimator__alpha", _SMOOTHING, alpha, random_state))


def linear_svm(random_state: int | None, C: float | None) -> Any:
    """Return a linear SVM. Its C is tuned unless given."""
    model = PerLabel(LinearSVC(random_state=random_state, max_iter=5000))
    return _tuned(model, "estimator__C", GRID, C, random_state)


def _tuned(
    model: Any,
    parameter: str,
    grid: tuple,
    given: float | None,
    random_state: int | None,
    fallback: Any = None,
) -> Any:
    """Return a model with the given penalty, in the unit of X, or a model tuned on X scaled to unit spread."""
    if given is not None:
        return model.set_params(**{parameter: given})
    model = Pipeline([("unit", UnitSpread()), ("model", model)])
    name = f"model__{parameter}"
    return Tuned(model, name, grid, power=0, fallback=fallback, random_state=random_state)
