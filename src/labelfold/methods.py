"""The registry: which methods there are, what each is for, and how the command line and `compare` make it.

Adding a method is one entry in ``_ENTRIES``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading
from sklearn.svm import LinearSVC

from labelfold.adapters import Coded, Labelled, ReduceThenClassify, Tuned, UnitSpread
from labelfold.numerics.least_squares import MAX_GRAM_BYTES

# Multiples of the data's mean squared spread, most trusted first; see Tuned.
# The same candidates for every method: none gets more tries than another.
GRID = (1.0, 10.0, 0.1, 100.0, 0.01)

# Of penalties beside a mean over rows, where the others' is beside a sum.
_MEAN_GRID = (0.01, 0.1, 0.001, 1.0, 1e-4)
# 1 / (2 sigma^2) for a sigma of 1/4, 1/2, 1/8, 1 and 1/16 of how far rows are apart: a root mean square of sqrt(2),
# in the unit of UnitSpread.
_GAMMAS = (4.0, 1.0, 16.0, 0.25, 64.0)
_LANDMARKS = 1000


@dataclass(frozen=True)
class Method:
    """A method that the command line and `compare` can use, or that is planned.

    Attributes
    ----------
    name : str
        What it is called on the command line.
    title : str
        What it is called in print.
    summary : str
        What it does, and how its penalty is chosen, in a sentence or two.
    labels : {"supervised", "semi-supervised"}
        Whether it learns from the labelled rows only, or from all rows.
    embeds : bool
        Whether it gives an embedding.
    paper : str
        Where it comes from.
    build : callable, optional
        ``build(k, X, random_state)`` gives the estimator; without one the method is planned.
    penalty : str, optional
        The name of the parameter that is tuned unless given.
    compared : bool, default=True
        Whether `compare` tries it unless told which; not where another method gives the same for classes, where its
        weights are not tuned as the others' are, or where a fit takes many times as long.
    most_rows : int, optional
        With more rows than this `compare` leaves it out unless told to try it, and says so: its work grows faster
        than the number of rows does.
    """

    name: str
    title: str
    summary: str
    labels: str
    embeds: bool
    paper: str
    build: Callable[..., Any] | None = None
    penalty: str | None = None
    compared: bool = True
    most_rows: int | None = None

    @property
    def status(self) -> str:
        """``"available"`` or ``"planned"``."""
        return "planned" if self.build is None else "available"

    def make(
        self,
        n_components: int | None = None,
        *,
        X: Any,
        random_state: int | None = 0,
        scale: bool = False,
        **penalty: float,
    ) -> Any:
        """Make the estimator, to be fitted on X and a y in which unlabelled rows are marked.

        Parameters
        ----------
        n_components : int, optional
            Size of the embedding, no more than X allows.
        X : array or sparse matrix of shape (n, d)
            What it will be fitted on; only its shape and kind are looked at.
        random_state : int, optional
            Seed.
        scale : bool, default=False
            Divide each column by its standard deviation first (and centre it where X is dense).
        **penalty : float
            The method's own penalty by its name, in place of tuning: ``ridge=0.1``.

        Returns
        -------
        estimator
            A classifier, with ``transform`` where the method embeds.
        """
        if self.build is None:
            raise ValueError(f"The method {self.name!r} is planned, not there yet.")
        unknown = [p for p in penalty if p != self.penalty]
        if unknown:
            raise ValueError(f"The method {self.name!r} has no parameter {unknown[0]!r}.")
        model = self.build(n_components, X, random_state, **penalty)
        if scale:
            model = Pipeline([("scale", StandardScaler(with_mean=not sp.issparse(X))), ("model", model)])
        return model


def _two_stage(name: str) -> Callable[..., Any]:
    def build(k: int | None, X: Any, random_state: int | None, ridge: float | None = None) -> Any:
        import labelfold

        make = getattr(labelfold, name)
        if ridge is not None:
            return make(n_components=k, ridge=ridge)
        return Tuned(make(n_components=k), "ridge", GRID, random_state=random_state)

    return build


def _svm(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
    return Labelled(_linear_svm(random_state, C))


def _pca_svm(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
    most = min(X.shape)
    if sp.issparse(X):
        # of the randomised solver's making: one component fewer than columns is the most it gives
        reducer = TruncatedSVD(min(k or most, most - 1), random_state=random_state)
    else:
        reducer = PCA(min(k or most, most), random_state=random_state)
    return ReduceThenClassify(reducer, _linear_svm(random_state, C))


def _ssdr_svm(k: int | None, X: Any, random_state: int | None, C: float | None = None) -> Any:
    from labelfold import SSDR

    reducer = SSDR(min(k or 2, X.shape[1]), random_state=random_state)
    return ReduceThenClassify(reducer, _linear_svm(random_state, C))


def _drsvm(k: int | None, X: Any, random_state: int | None) -> Any:
    from labelfold import DRSVM

    model = DRSVM(min(k or 10, *X.shape), random_state=random_state)
    return Pipeline([("unit", UnitSpread()), ("drsvm", model)])


def _pca_rls(k: int | None, X: Any, random_state: int | None, ridge: float | None = None) -> Any:
    model = _pca_svm(k, X, random_state)
    if ridge is not None:
        return model.set_params(classifier=RidgeClassifier(ridge))
    rls = Pipeline([("unit", UnitSpread()), ("rls", RidgeClassifier())])
    return model.set_params(classifier=Tuned(rls, "rls__alpha", GRID, power=0, random_state=random_state))


def _pcals(k: int | None, X: Any, random_state: int | None) -> Any:
    from labelfold import PCALS

    model = PCALS(min(k or 2, *X.shape), random_state=random_state)
    return Pipeline([("unit", UnitSpread()), ("pcals", model)])


def _kernel_pcals(k: int | None, X: Any, random_state: int | None) -> Any:
    from labelfold import KernelPCALS

    return KernelPCALS(min(k or 2, X.shape[0]), n_landmarks="auto", random_state=random_state)


def _laprls(kernel: str | None) -> Callable[..., Any]:
    def build(k: int | None, X: Any, random_state: int | None, ridge: float | None = None) -> Any:
        from labelfold import LapRLS

        n = X.shape[0]
        landmarks = _LANDMARKS if kernel is not None and 8 * n * n > MAX_GRAM_BYTES else None
        # With smoothness n the graph's term is about its mean over rows, whatever their number.
        model = LapRLS(kernel=kernel, n_landmarks=landmarks, smoothness=float(n), random_state=random_state)
        if ridge is not None:
            return model.set_params(ridge=ridge)
        tuned = Tuned(model, "ridge", _MEAN_GRID, power=0, hide=True, random_state=random_state)
        # The space of an RBF kernel has no unit.
        return tuned if kernel is not None else Pipeline([("unit", UnitSpread()), ("laprls", tuned)])

    return build


def _propagation(make: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def build(k: int | None, X: Any, random_state: int | None, gamma: float | None = None) -> Any:
        n = X.shape[0]
        if 8 * n * n > MAX_GRAM_BYTES:
            # scikit-learn's RBF graph joins all pairs; its graph of neighbours has no width.
            return Coded(make(kernel="knn", **options))
        model: Any = Coded(make(gamma=_GAMMAS[0] if gamma is None else gamma, **options))
        if gamma is None:
            model = Tuned(model, "estimator__gamma", _GAMMAS, power=0, hide=True, random_state=random_state)
        return Pipeline([("unit", UnitSpread()), ("propagation", model)])

    return build


def _linear_svm(random_state: int | None, C: float | None) -> Any:
    svm = LinearSVC(random_state=random_state, max_iter=5000)
    if C is not None:
        return svm.set_params(C=C)
    svm = Pipeline([("unit", UnitSpread()), ("svm", svm)])
    return Tuned(svm, "svm__C", GRID, power=0, random_state=random_state)


_TWO_STAGE = (
    "Sun, Ceran & Ye, A scalable two-stage approach for a class of dimensionality reduction, KDD 2010"
)
_SUBSPACE = "Zhang, Hou, Xiang & Liu, Subspace regularization, ECML PKDD 2009"
_NSDR = "Grabocka & Schmidt-Thieme, Learning through non-linearly supervised dimensionality reduction"
_MANIFOLD = "Belkin, Niyogi & Sindhwani, Manifold regularization, JMLR 2006"
_TUNED = "chosen by cross-validation on the labelled rows from multiples of their spread"
_HIDDEN = "chosen by cross-validation with labels hidden in turn"

_ENTRIES = (
    Method(
        "lda",
        "LDA",
        f"Directions that set the class means apart; its ridge is {_TUNED}.",
        "supervised",
        True,
        _TWO_STAGE,
        _two_stage("LDA"),
        "ridge",
    ),
    Method(
        "pca-svm",
        "PCA + SVM",
        f"Principal components of all rows (singular vectors where X is sparse), then a linear SVM; "
        f"its C is {_TUNED}.",
        "semi-supervised",
        True,
        "the usual baseline",
        _pca_svm,
        "C",
    ),
    Method(
        "svm",
        "SVM",
        f"A linear SVM on all columns, no reduction; its C is {_TUNED}.",
        "supervised",
        False,
        "the usual baseline",
        _svm,
        "C",
    ),
    Method(
        "opls",
        "OPLS",
        f"Directions that predict the label columns best; its ridge is {_TUNED}.",
        "supervised",
        True,
        _TWO_STAGE,
        _two_stage("OPLS"),
        "ridge",
    ),
    Method(
        "cca",
        "CCA",
        f"Directions most correlated with the label columns (with classes, LDA's); its ridge is {_TUNED}.",
        "supervised",
        True,
        _TWO_STAGE,
        _two_stage("CCA"),
        "ridge",
        compared=False,
    ),
    Method(
        "hsl",
        "HSL",
        f"Hypergraph spectral learning, for several labels a row (with classes, LDA's); its ridge is {_TUNED}.",
        "supervised",
        True,
        _TWO_STAGE,
        _two_stage("HSL"),
        "ridge",
        compared=False,
    ),
    Method(
        "drsvm",
        "DRSVM",
        "A low-rank factorisation of all rows and a linear SVM on it, learned together, with all weights 1.",
        "semi-supervised",
        True,
        "Fang, Cheng & Hsieh, A hyperplane-based algorithm for semi-supervised dimension reduction, ICDM 2017",
        _drsvm,
        compared=False,
    ),
    Method(
        "ssdr",
        "SSDR + SVM",
        "Directions of much variance that join must-link pairs and part cannot-link pairs, taken from the labels; "
        f"then a linear SVM, whose C is {_TUNED}.",
        "semi-supervised",
        True,
        "Zhang, Zhou & Chen, Semi-supervised dimensionality reduction, SDM 2007",
        _ssdr_svm,
        "C",
    ),
    Method(
        "pcals",
        "PCA-LS",
        "Directions, one at a time, that fit the labels and keep the variance of all rows, which weigh the same.",
        "semi-supervised",
        True,
        _SUBSPACE,
        _pcals,
    ),
    Method(
        "kernel-pcals",
        "Kernel PCA-LS",
        "PCA-LS in the space of an RBF kernel, as wide as two rows are apart on average (Nystroem features where the "
        "kernel matrix would not fit).",
        "semi-supervised",
        True,
        _SUBSPACE,
        _kernel_pcals,
        compared=False,
    ),
    Method(
        "laprls",
        "LapRLS",
        f"Least squares that changes little between neighbours, no reduction; its ridge is {_HIDDEN}.",
        "semi-supervised",
        False,
        _MANIFOLD,
        _laprls(None),
        "ridge",
        most_rows=20_000,
    ),
    Method(
        "kernel-laprls",
        "Kernel LapRLS",
        f"LapRLS in the space of an RBF kernel (Nystroem features where its matrix would not fit), no reduction; its "
        f"ridge is {_HIDDEN}.",
        "semi-supervised",
        False,
        _MANIFOLD,
        _laprls("rbf"),
        "ridge",
        compared=False,
    ),
    Method(
        "grf",
        "GRF",
        "Labels that spread over an RBF graph and stay where they were given, no reduction: scikit-learn's "
        f"LabelPropagation; its gamma is {_HIDDEN} (a graph of neighbours where that would not fit).",
        "semi-supervised",
        False,
        "Zhu, Ghahramani & Lafferty, Semi-supervised learning using Gaussian fields, ICML 2003",
        _propagation(LabelPropagation),
        "gamma",
        compared=False,
    ),
    Method(
        "llgc",
        "LLGC",
        "Labels that spread over an RBF graph and may be overruled, no reduction: scikit-learn's LabelSpreading with "
        f"alpha 0.99; its gamma is {_HIDDEN} (a graph of neighbours where that would not fit).",
        "semi-supervised",
        False,
        "Zhou et al., Learning with local and global consistency, NIPS 2004",
        _propagation(LabelSpreading, alpha=0.99, max_iter=1000),
        "gamma",
        compared=False,
    ),
    Method(
        "pca-rls",
        "PCA + RLS",
        "Principal components of all rows (singular vectors where X is sparse), then regularised least squares; "
        f"its ridge is {_TUNED}.",
        "semi-supervised",
        True,
        "the usual baseline",
        _pca_rls,
        "ridge",
        compared=False,
    ),
    Method("lsdr", "LSDR", "A factorisation tied to a linear classifier.", "semi-supervised", True, _NSDR),
    Method("nsdr", "NSDR", "A factorisation tied to a kernel SVM.", "semi-supervised", True, _NSDR),
    Method(
        "nmf-alpha",
        "NMF-α",
        "Non-negative factors that keep what linear SVMs on the labels look at.",
        "semi-supervised",
        True,
        "Cho & Saul, Nonnegative matrix factorization for semi-supervised dimensionality reduction, 2011",
    ),
    Method(
        "ssnmf",
        "SSNMF",
        "Non-negative factors of the rows and their labels together.",
        "semi-supervised",
        True,
        "Lee, Yoo & Choi, Semi-supervised nonnegative matrix factorization, 2010",
    ),
    Method(
        "cnmf",
        "CNMF",
        "Non-negative factors in which labelled rows of a class share a place.",
        "semi-supervised",
        True,
        "Liu & Wu, Non-negative matrix factorization with constraints, 2010",
    ),
)

METHODS: dict[str, Method] = {method.name: method for method in _ENTRIES}


def available_methods() -> list[Method]:
    """Return the methods that can be made now.

    >>> "svm" in [method.name for method in available_methods()]
    True
    """
    return [method for method in METHODS.values() if method.status == "available"]


def get_method(name: str) -> Method:
    """Return a method that can be made now, or say which can.

    >>> get_method("PCA-SVM").title
    'PCA + SVM'
    """
    from labelfold.files.problem import did_you_mean

    names = [method.name for method in available_methods()]
    method = METHODS.get(str(name).strip().lower().replace("_", "-"))
    if method is None:
        hint = did_you_mean(name, names)
        raise ValueError(f"There is no method {str(name)!r}{hint}; there are {', '.join(names)}.")
    if method.status == "planned":
        raise ValueError(
            f"The method {method.name!r} is planned, not there yet; there are {', '.join(names)}."
        )
    return method
