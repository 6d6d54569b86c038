"""The methods that reduce the columns, one record each: its description, and how its estimator is made.

`compare` and the command line read the records. A new method is a record here, or in ``_predictors.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.decomposition import NMF, PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted, validate_data

import labelfold
from labelfold.app.registry._adapters import OnLabelledRows, ReduceThenClassify, Shape
from labelfold.app.registry._method import HIDDEN, TUNED, Facts, Method, at_most, method
from labelfold.app.registry._tuned import Tuned, UnitSpread, around, linear_svm
from labelfold.labels import read_labels

# Budget of five: candidates for the number of components, the default first, in steps of about a factor of 2.
# experiments/settings.py compares the chosen number with the best one in hindsight.
SIZES = (20, 40, 10, 5, 2)
_DIRECTIONS = "Few features that tell classes or labels apart"
semi_supervised = partial(method, use="Few features learned from all rows, labelled or not")
parts = partial(method, use="Non-negative parts of counts and intensities", nonnegative=True)
_SUBSPACE = "Zhang, Hou, Xiang & Liu, Subspace regularization, ECML PKDD 2009"
_NSDR = "Grabocka & Schmidt-Thieme, Learning through non-linearly supervised dimensionality reduction"


def _two_stage(title: str, gloss: str, what: str, rank: int, **more: Any) -> Method:
    """Return the record of a two-stage method; ``what`` are its directions."""

    def build(k: int | None, shape: Shape, random_state: int | None, ridge: float | None = None) -> Any:
        make = getattr(labelfold, title)
        if ridge is not None:
            return make(n_components=k, ridge=ridge)
        return Tuned(make(n_components=k), "ridge", around(1.0), random_state=random_state)

    return Method(
        title.lower(),
        title,
        gloss,
        f"{what}; its ridge is {TUNED}.",
        "Sun, Ceran & Ye, A scalable two-stage approach for a class of dimensionality reduction, KDD 2010",
        build,
        use=_DIRECTIONS,
        rank=rank,
        labels="supervised",
        directions="limit",
        **more,
    )


def _needs_label_columns(facts: Facts) -> str | None:
    """Return why a method for multi-label y does not suit."""
    if facts.numbers:
        return "with one number a row it gives what OPLS gives"
    return None if facts.multilabel else "with one class a row it gives what LDA gives"


def _sizes_up_to(limit: int, sizes: tuple[int, ...] = SIZES) -> tuple[int, ...]:
    """Return candidates for the number of components, each at most ``limit``."""
    return tuple(dict.fromkeys(min(size, limit) for size in sizes))


def principal_then(
    k: int | None, shape: Shape, random_state: int | None, classifier: Any, largest: int = 100
) -> ReduceThenClassify:
    """Return principal components (singular vectors if X is sparse), then a classifier or regressor.

    The largest candidate for their number is larger than for other methods, since more components cost little. A
    linear SVM on many more is the same as on all columns.
    """
    # the randomised solver for sparse rows gives at most one component fewer than columns
    make, limit = (TruncatedSVD, shape.max_rank - 1) if shape.sparse else (PCA, shape.max_rank)
    sizes = None if k else _sizes_up_to(limit, (largest, *SIZES))
    reducer = make(min(k or largest, limit), random_state=random_state)
    return ReduceThenClassify(reducer, classifier, sizes=sizes, nested=True)


def _with_hidden_labels(
    model: Any, parameter: str | tuple[str, ...], grid: tuple, random_state: int | None, **how: Any
) -> Tuned:
    """Return a model that learns from all rows; the parameter(s) are chosen with labels hidden.

    At most 2,000 unlabelled rows take part in the choice.
    """
    usual: dict[str, Any] = {"power": 0, "fallback": "classes", "most_unlabeled": 2000}
    return Tuned(model, parameter, grid, hide=True, random_state=random_state, **usual | how)


def _with_size(
    model: Any,
    k: int | None,
    shape: Shape,
    random_state: int | None,
    sizes: tuple[int, ...] = SIZES,
    **how: Any,
) -> Any:
    """Return a model that learns from all rows; its number of components is given or chosen with labels hidden."""
    if k is not None:
        return model.set_params(n_components=min(k, shape.max_rank))
    return _with_hidden_labels(
        model, "n_components", _sizes_up_to(shape.max_rank, sizes), random_state, **how
    )


def _size_and(
    k: int | None, limit: int, values: tuple[float, ...], sizes: tuple[int, ...] = SIZES
) -> dict[str, Any]:
    """Return a grid of another parameter and, unless given, the number of components."""
    sizes = _sizes_up_to(limit, sizes) if k is None else (min(k, limit),)
    grid = tuple((size, value) for value in values for size in sizes)
    return {"grid": grid, "fallback": "classes" if k is None else None}


def _parts_svm(
    name: str, size: int | None = None, *, sizes: tuple[int, ...] = SIZES, hide: bool = False, **options: Any
) -> Callable[..., Any]:
    """Return a builder of a non-negative factorisation of the library and a linear SVM.

    The number of parts is ``size``, or chosen from ``sizes``.

    With ``hide`` the labels of a fold are hidden from the factorisation too, at the cost of a fit for each fold.
    """

    def build(k: int | None, shape: Shape, random_state: int | None, C: float | None = None) -> Any:
        limit = shape.max_rank
        reducer = getattr(labelfold, name)(min(k or size or 10, limit), random_state=random_state, **options)
        chosen = None if k or size else _sizes_up_to(limit, sizes)
        model = ReduceThenClassify(reducer, linear_svm(random_state, C), sizes=None if hide else chosen)
        if not (hide and chosen):
            return model
        return _with_hidden_labels(model, "reducer__n_components", chosen, random_state, cv=3)

    return build


@method(
    "labelfold",
    "LabelFold",
    gloss="many views of the rows, weighed by the labels",
    summary="Many views of the rows (linear, principal, RBF, Laplace and neighbour-graph; on tables also extra "
    "trees), weighed by leave-one-out on the labels and folded into one score and one embedding.",
    paper="labelfold's own; anchors after Liu, He & Chang, Large graph construction, ICML 2010",
    use="To start with",
    rank=1,
    own_forms=True,
    directions="default",
)
def label_fold(k: int | None, shape: Shape, random_state: int | None) -> Any:
    """Return LabelFold, which needs no tuning."""
    return labelfold.LabelFold(k, random_state=random_state)


lda = _two_stage(
    "LDA",
    "directions that set the class means apart",
    "Directions that set the class means apart",
    rank=1,
)


@method(
    "sklearn-lda",
    "scikit-learn LDA",
    gloss="scikit-learn's linear discriminant analysis",
    summary="scikit-learn's LinearDiscriminantAnalysis, its covariance shrunk by Ledoit and Wolf's rule.",
    paper="Ledoit & Wolf, Honey, I shrunk the sample covariance matrix, 2004",
    use=_DIRECTIONS,
    rank=5,
    labels="supervised",
    suits=at_most(10_000_000, 3_000, "it needs a covariance matrix of the columns"),
    directions="limit",
)
def sklearn_lda(k: int | None, shape: Shape, random_state: int | None) -> Any:
    """Return scikit-learn's LDA."""
    return ScikitLDA(k)


opls = _two_stage(
    "OPLS",
    "directions that predict the labels best",
    "Directions that predict the label columns best",
    rank=3,
)


cca = _two_stage(
    "CCA",
    "directions most correlated with the labels",
    "Directions most correlated with the label columns (with classes, LDA's)",
    rank=3,
    suits=_needs_label_columns,
)


hsl = _two_stage(
    "HSL",
    "directions that join rows with labels in common",
    "Hypergraph spectral learning, for several labels a row (with classes, LDA's)",
    rank=3,
    suits=_needs_label_columns,
)


@semi_supervised(
    "pca-svm",
    "PCA + SVM",
    gloss="principal components, then a linear SVM",
    summary="Principal components of all rows (singular vectors where X is sparse), then a linear SVM; its C is "
    f"{TUNED}.",
    paper="the usual baseline",
    rank=1,
)
def pca_svm(k: int | None, shape: Shape, random_state: int | None, C: float | None = None) -> Any:
    """Return principal components and a linear SVM."""
    return principal_then(k, shape, random_state, linear_svm(random_state, C))


@semi_supervised(
    "pcals",
    "PCA-LS",
    gloss="directions that fit the labels and keep the variance",
    summary="Directions, one at a time, that fit the labels and keep the variance of all rows.",
    paper=_SUBSPACE,
    rank=6,
)
def pcals(k: int | None, shape: Shape, random_state: int | None) -> Any:
    """Return PCA-LS, whose weights do not depend on the unit of X."""
    # the last directions cost most, and more than 20 help little
    sizes, model = tuple(size for size in SIZES if size <= 20), labelfold.PCALS(random_state=random_state)
    return _with_size(model, k, shape, random_state, sizes, cv=3)


@semi_supervised(
    "kernel-pcals",
    "Kernel PCA-LS",
    gloss="the same along curves: PCA-LS with a kernel",
    summary="PCA-LS in the space of an RBF kernel (Nystroem features where its matrix would not fit), as wide as "
    f"two rows are apart on average or half as wide, {HIDDEN}.",
    paper=_SUBSPACE,
    rank=6,
    suits=at_most(5_000, 2_000_000, "it works with a matrix of all pairs of rows"),
    slow=True,
)
def kernel_pcals(k: int | None, shape: Shape, random_state: int | None) -> Any:
    """Return PCA-LS in the space of an RBF kernel."""
    model, names = labelfold.KernelPCALS(random_state=random_state), ("n_components", "gamma")
    # the kernel is as wide as the root mean square distance between two rows, or half as wide
    grid = _size_and(k, shape.n_rows, (0.25, 1.0))
    return _with_hidden_labels(model, names, random_state=random_state, power=(0, -1), cv=3, **grid)


@semi_supervised(
    "ssdr",
    "SSDR + SVM",
    gloss="directions that join rows of a class, then a linear SVM",
    summary="Directions of much variance that join must-link pairs and part cannot-link pairs, taken from the "
    f"labels; then a linear SVM, whose C is {TUNED}.",
    paper="Zhang, Zhou & Chen, Semi-supervised dimensionality reduction, SDM 2007",
    rank=4,
)
def ssdr_svm(k: int | None, shape: Shape, random_state: int | None, C: float | None = None) -> Any:
    """Return SSDR and a linear SVM."""
    # with more components it approaches a linear SVM on all columns, which scores better than few components
    reducer = labelfold.SSDR(min(k or max(SIZES), shape.n_columns), random_state=random_state)
    return ReduceThenClassify(reducer, linear_svm(random_state, C))


@semi_supervised(
    "drsvm",
    "DRSVM",
    gloss="a factorisation and a linear SVM, learned together",
    summary="A low-rank factorisation of all rows and a linear SVM on it, learned together, with weights that "
    "follow the size of the data.",
    paper="Fang, Cheng & Hsieh, A hyperplane-based algorithm for semi-supervised dimension reduction, ICDM 2017",
    rank=3,
)
def drsvm(k: int | None, shape: Shape, random_state: int | None) -> Any:
    """Return DRSVM with an intercept. Its weights follow from the size of the data."""
    model = labelfold.DRSVM(center=True, fit_intercept=True, random_state=random_state)
    return _with_size(model, k, shape, random_state)


@semi_supervised(
    "lsdr",
    "LSDR",
    gloss="a factorisation tied to a linear classifier",
    summary="A factorisation of all rows with offsets, tied to a linear classifier, with weights that follow the "
    "size of the data.",
    paper=_NSDR,
    rank=8,
)
def lsdr(k: int | None, shape: Shape, random_state: int | None) -> Any:
    """Return LSDR. Its weights follow from the size of the data."""
    return _with_size(labelfold.LSDR(random_state=random_state), k, shape, random_state)


@semi_supervised(
    "nsdr",
    "NSDR",
    gloss="a factorisation tied to a kernel SVM",
    summary="A factorisation of all rows with offsets, tied to a kernel SVM (degree 2), with weights that follow "
    "the size of the data.",
    paper=_NSDR,
    rank=8,
    slow=True,
)
def nsdr(k: int | None, shape: Shape, random_state: int | None) -> Any:
    """Return NSDR. Its weights follow from the size of the data."""
    return _with_size(labelfold.NSDR(random_state=random_state), k, shape, random_state)


@semi_supervised(
    "pca-rls",
    "PCA + RLS",
    gloss="principal components, then least squares",
    summary="Principal components of all rows (singular vectors where X is sparse), then regularised least "
    f"squares; its ridge is {TUNED}.",
    paper="the usual baseline",
    rank=7,
    compared=False,
)
def pca_rls(k: int | None, shape: Shape, random_state: int | None, ridge: float | None = None) -> Any:
    """Return principal components and regularised least squares."""
    rls: Any = RidgeClassifier(1.0 if ridge is None else ridge)
    if ridge is None:
        in_unit = Pipeline([("unit", UnitSpread()), ("rls", rls)])
        rls = Tuned(in_unit, "rls__alpha", around(1.0), power=0, random_state=random_state)
    return principal_then(k, shape, random_state, rls)


@semi_supervised(
    "umap",
    "UMAP + SVM",
    gloss="a layout of neighbours, then a linear SVM",
    summary=f"Semi-supervised UMAP of all rows, then a linear SVM; its C is {TUNED}.",
    paper="McInnes, Healy & Melville, UMAP, 2018",
    rank=5,
    needs="umap",
)
def umap_svm(k: int | None, shape: Shape, random_state: int | None, C: float | None = None) -> Any:
    """Return supervised UMAP and a linear SVM."""
    # UMAP is too slow for tuning. 10 components scored 3 to 33 points higher than 2 on usps, COIL, image and
    # newsgroups.
    reducer: Any = SupervisedUMAP(k or max(min(10, shape.n_rows - 2), 1), random_state=random_state)
    if shape.sparse:  # SciPy's older matrices are the only sparse type that UMAP takes
        older = FunctionTransformer(sp.csr_matrix, accept_sparse=True)
        reducer = Pipeline([("older", older), ("umap", reducer)])
    return ReduceThenClassify(reducer, linear_svm(random_state, C))


@parts(
    "nmf-svm",
    "NMF + SVM",
    gloss="non-negative parts found without labels, then a linear SVM",
    summary=f"Non-negative parts of all rows, found without labels, then a linear SVM; its C is {TUNED}.",
    paper="the usual baseline for counts and intensities",
    rank=4,
    slow=True,
)
def nmf_svm(k: int | None, shape: Shape, random_state: int | None, C: float | None = None) -> Any:
    """Return NMF without labels and a linear SVM."""
    reducer = NMF(min(k or 10, shape.max_rank), init="nndsvda", max_iter=500, random_state=random_state)
    # the initialisation of scikit-learn treats numbers below 1e-6 as zeros, in any unit of X
    in_unit = Pipeline([("unit", UnitSpread()), ("nmf", reducer)])
    sizes = None if k else _sizes_up_to(shape.max_rank)
    return ReduceThenClassify(in_unit, linear_svm(random_state, C), sizes=sizes)


@parts(
    "ssnmf",
    "SSNMF + SVM",
    gloss="non-negative parts, then a linear SVM",
    summary=f"Non-negative factors of the rows and their labels together; then a linear SVM, whose C is {TUNED}.",
    paper="Lee, Yoo & Choi, Semi-supervised nonnegative matrix factorization, 2010",
    rank=9,
    slow=True,
)
def ssnmf_svm(k: int | None, shape: Shape, random_state: int | None, C: float | None = None) -> Any:
    """Return SSNMF and a linear SVM; number of parts and weight of the labels are chosen with labels hidden."""
    model = ReduceThenClassify(labelfold.SSNMF(random_state=random_state), linear_svm(random_state, C))
    names = ("reducer__n_components", "reducer__supervision")
    # its parts fit the labels, so their number must be chosen by hidden labels
    grid = _size_and(k, shape.max_rank, around(1.0, 0.1, 3), (20, 10, 5, 2))
    return _with_hidden_labels(model, names, random_state=random_state, power=(0, 1), cv=3, **grid)


cnmf = parts(
    "cnmf",
    "CNMF + SVM",
    gloss="non-negative parts with one place a class, then a linear SVM",
    summary="Non-negative factors in which labelled rows of a class share a place; then a linear SVM, whose C is "
    f"{TUNED}.",
    paper="Liu & Wu, Non-negative matrix factorization with constraints, 2010",
    rank=9,
    slow=True,
)(_parts_svm("CNMF", sizes=(20, 40, 10, 5), hide=True))


nmf_alpha = parts(
    "nmf-alpha",
    "NMF-α + SVM",
    gloss="non-negative parts that linear SVMs look at, then a linear SVM",
    summary="Non-negative factors of all rows that keep what linear SVMs on the labels look at; then a linear "
    f"SVM, whose C is {TUNED}.",
    paper="Cho & Saul, Nonnegative matrix factorization for semi-supervised dimensionality reduction, 2011",
    rank=8,
    counts=True,
)(_parts_svm("NMFAlpha", size=20))


klnmf = parts(
    "klnmf",
    "KL-NMF + SVM",
    gloss="non-negative parts by divergence, then a linear SVM",
    summary="Non-negative factors of all rows by I-divergence, found without labels, in memory proportional to "
    f"the data; then a linear SVM, whose C is {TUNED}.",
    paper="Lee & Seung, Learning the parts of objects by non-negative matrix factorization, Nature 1999",
    rank=8,
    compared=False,
    counts=True,
)(_parts_svm("KLNMF", corrected=True))


class ScikitLDA(TransformerMixin, OnLabelledRows):
    """scikit-learn's LinearDiscriminantAnalysis on the labelled rows, with Ledoit and Wolf's shrinkage.

    It predicts from the embedding, as reduced-rank LDA does: by the distance to the class means and the priors.
    (scikit-learn's own ``predict`` uses all directions for every ``n_components``.)

    Parameters
    ----------
    n_components : int, optional
        Size of the embedding, at most the number of classes less one, which is the default.
    unlabeled : number or str, default=-1
        The value of y that marks an unlabelled row; missing values always do.

    Attributes
    ----------
    classifier_ : LinearDiscriminantAnalysis
        Fitted on class codes; without shrinkage if the shrunk covariance is still singular.
    means_ : ndarray of shape (c, k)
        The class means in the embedding.
    classes_ : ndarray of shape (c,)
        The classes.
    """

    def __init__(self, n_components: int | None = None, *, unlabeled: Any = -1) -> None:
        super().__init__(unlabeled=unlabeled)
        self.n_components = n_components

    def fit(self, X: Any, y: Any, groups: Any = None) -> ScikitLDA:
        """Fit on the labelled rows of X; ``groups`` are ignored."""
        X = validate_data(self, X)
        labels = read_labels(y, X.shape[0], unlabeled=self.unlabeled, estimator="ScikitLDA")
        self.task_, self.classes_ = labels.task, labels.classes
        rows, codes = X[labels.index], labels.values
        most = min(labels.n_classes - 1, X.shape[1])
        model = LinearDiscriminantAnalysis(n_components=min(self.n_components or most, most))
        try:
            self.classifier_ = clone(model).set_params(solver="eigen", shrinkage="auto").fit(rows, codes)
        except np.linalg.LinAlgError:  # some columns are constant among few labelled rows
            self.classifier_ = model.fit(rows, codes)
        Z = self.classifier_.transform(rows)
        self.means_ = np.array([Z[codes == c].mean(axis=0) for c in range(labels.n_classes)])
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Project rows onto the discriminant directions."""
        X = self._checked(X)
        return self.classifier_.transform(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return each row's class."""
        best = self._scores(X).argmax(axis=1)
        return self.classes_[best]

    def decision_function(self, X: Any) -> np.ndarray:
        """Return each class's score; for two classes the score of the second over the first."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return each row's class probabilities."""
        return softmax(self._scores(X), axis=1)

    def _scores(self, X: Any) -> np.ndarray:
        Z = self.transform(X)
        return np.log(self.classifier_.priors_) - 0.5 * euclidean_distances(Z, self.means_, squared=True)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the directions."""
        check_is_fitted(self)
        return np.array([f"scikitlda{i}" for i in range(self.means_.shape[1])], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


class SupervisedUMAP(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """umap-learn's semi-supervised UMAP.

    Parameters
    ----------
    n_components : int, default=2
        Size of the embedding.
    n_neighbors : int, default=15
        Number of neighbours in its graph; fewer if there are fewer rows.
    random_state : int, optional
        Seed.
    """

    def __init__(self, n_components: int = 2, *, n_neighbors: int = 15, random_state: Any = None) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> SupervisedUMAP:
        """Lay out all rows; y holds class codes, with -1 for unlabelled rows."""
        from umap import UMAP

        X = validate_data(self, X, accept_sparse="csr")
        self.umap_ = UMAP(
            n_components=self.n_components,
            n_neighbors=max(2, min(self.n_neighbors, X.shape[0] - 1)),
            random_state=self.random_state,
            n_jobs=1,
        ).fit(X, y)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Place rows in the layout."""
        check_is_fitted(self)
        return self.umap_.transform(validate_data(self, X, accept_sparse="csr", reset=False))

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
