"""The registry: the methods that the command line and `compare` can make.

Adding a method takes an entry in ``_own_methods.py`` or ``_baselines.py``, its name in ``_ORDER``, and a few words
in ``_glosses.py``.
"""

from __future__ import annotations

from typing import Any

from sklearn.semi_supervised import LabelPropagation, LabelSpreading

from labelfold.app.registry import _builders as builders
from labelfold.app.registry._method import HIDDEN, TUNED, Method
from labelfold.app.registry._suitability import (
    at_most,
    few_labelled,
    most_directions,
    needs_counts,
    needs_label_columns,
)
from labelfold.app.registry._yardsticks import ScikitLDA, Spreading

# The order in which methods are run and listed. Among equally good methods the first is recommended, so simple
# methods come first.
# fmt: off
_ORDER = (
    "labelfold", "lda", "pca-svm", "svm", "rbf-svm", "logistic", "ridge", "pca-ridge", "svr",
    "extra-trees", "random-forest", "naive-bayes", "opls", "cca", "hsl", "drsvm", "ssdr", "nmf-svm",
    "label-spreading", "sklearn-lda", "umap", "pcals", "kernel-pcals", "laprls", "kernel-laprls", "grf",
    "llgc", "pca-rls", "lsdr", "nsdr", "nmf-alpha", "klnmf", "ssnmf", "cnmf", "tsvm",
)
# fmt: on
_TWO_STAGE = (
    "Sun, Ceran & Ye, A scalable two-stage approach for a class of dimensionality reduction, KDD 2010"
)
_SUBSPACE = "Zhang, Hou, Xiang & Liu, Subspace regularization, ECML PKDD 2009"
_NSDR = "Grabocka & Schmidt-Thieme, Learning through non-linearly supervised dimensionality reduction"
_MANIFOLD = "Belkin, Niyogi & Sindhwani, Manifold regularization, JMLR 2006"
# Learns from the labelled rows only, and does not reduce them.
_ON_LABELLED: dict[str, Any] = {"labels": "supervised", "embeds": False}
BASELINES = (
    Method(
        "pca-svm",
        "PCA + SVM",
        f"Principal components of all rows (singular vectors where X is sparse), then a linear SVM; "
        f"its C is {TUNED}.",
        "the usual baseline",
        builders.pca_svm,
        "C",
    ),
    Method(
        "svm",
        "SVM",
        f"A linear SVM on all columns, no reduction; its C is {TUNED}.",
        "the usual baseline",
        builders.svm,
        "C",
        **_ON_LABELLED,
    ),
    Method(
        "rbf-svm",
        "RBF SVM",
        f"An SVM with an RBF kernel on all columns, no reduction; its C and gamma are {TUNED}.",
        "Boser, Guyon & Vapnik, A training algorithm for optimal margin classifiers, COLT 1992",
        builders.rbf_svm,
        "C",
        **_ON_LABELLED,
        suits=few_labelled,
    ),
    Method(
        "logistic",
        "logistic regression",
        f"Logistic regression on all columns, no reduction; its C is {TUNED}.",
        "the usual baseline",
        builders.logistic,
        "C",
        **_ON_LABELLED,
    ),
    Method(
        "ridge",
        "ridge regression",
        f"Ridge regression of a number on all columns, no reduction; its ridge is {TUNED}.",
        "Hoerl & Kennard, Ridge regression, Technometrics 1970",
        builders.ridge_regression,
        "ridge",
        **_ON_LABELLED,
    ),
    Method(
        "pca-ridge",
        "PCA + ridge",
        "Principal components of all rows (singular vectors where X is sparse), then ridge regression of a number; "
        f"its ridge is {TUNED}.",
        "the usual baseline",
        builders.pca_ridge,
        "ridge",
    ),
    Method(
        "svr",
        "RBF SVR",
        f"Support vector regression of a number with an RBF kernel, no reduction; its C and gamma are {TUNED}.",
        "Drucker, Burges, Kaufman, Smola & Vapnik, Support vector regression machines, NIPS 1996",
        builders.svr,
        "C",
        **_ON_LABELLED,
        suits=few_labelled,
    ),
    Method(
        "extra-trees",
        "extra trees",
        "300 extremely randomised trees (100 for numbers) on all columns, no reduction.",
        "Geurts, Ernst & Wehenkel, Extremely randomized trees, Machine Learning 2006",
        builders.trees("extra trees"),
        **_ON_LABELLED,
    ),
    Method(
        "random-forest",
        "random forest",
        "A random forest of 300 trees (100 for numbers) on all columns, no reduction.",
        "Breiman, Random forests, Machine Learning 2001",
        builders.trees("random forest"),
        **_ON_LABELLED,
        compared=False,
    ),
    Method(
        "naive-bayes",
        "naive Bayes",
        f"Multinomial naive Bayes on all columns, for counts, no reduction; its smoothing is {TUNED}.",
        "McCallum & Nigam, A comparison of event models for naive Bayes text classification, 1998",
        builders.naive_bayes,
        "alpha",
        **_ON_LABELLED,
        suits=needs_counts,
        nonnegative=True,
        counts=True,
    ),
    Method(
        "nmf-svm",
        "NMF + SVM",
        f"Non-negative parts of all rows, found without labels, then a linear SVM; its C is {TUNED}.",
        "the usual baseline for counts and intensities",
        builders.nmf_svm,
        "C",
        nonnegative=True,
        slow=True,
    ),
    Method(
        "label-spreading",
        "label spreading",
        "scikit-learn's LabelSpreading over a graph of 7 nearest neighbours, no reduction.",
        "Zhou, Bousquet, Lal, Weston & Schölkopf, Learning with local and global consistency, NIPS 2003",
        lambda k, X, random_state: Spreading(),
        embeds=False,
        suits=at_most(20_000, 2_000_000, "it searches neighbours of every row"),
    ),
    Method(
        "sklearn-lda",
        "scikit-learn LDA",
        "scikit-learn's LinearDiscriminantAnalysis, its covariance shrunk by Ledoit and Wolf's rule.",
        "Ledoit & Wolf, Honey, I shrunk the sample covariance matrix, 2004",
        lambda k, X, random_state: ScikitLDA(k),
        labels="supervised",
        suits=at_most(10_000_000, 3_000, "it needs a covariance matrix of the columns"),
        most=most_directions,
    ),
    Method(
        "umap",
        "UMAP + SVM",
        f"Semi-supervised UMAP of all rows, then a linear SVM; its C is {TUNED}.",
        "McInnes, Healy & Melville, UMAP, 2018",
        builders.umap_svm,
        "C",
        needs="umap",
    ),
    Method(
        "grf",
        "GRF",
        "Labels that spread over an RBF graph and stay where they were given, no reduction: scikit-learn's "
        f"LabelPropagation; its gamma is {HIDDEN} (a graph of neighbours where that would not fit).",
        "Zhu, Ghahramani & Lafferty, Semi-supervised learning using Gaussian fields, ICML 2003",
        builders.propagation(LabelPropagation),
        "gamma",
        embeds=False,
        compared=False,
    ),
    Method(
        "llgc",
        "LLGC",
        "Labels that spread over an RBF graph and may be overruled, no reduction: scikit-learn's LabelSpreading with "
        f"alpha 0.99; its gamma is {HIDDEN} (a graph of neighbours where that would not fit).",
        "Zhou et al., Learning with local and global consistency, NIPS 2004",
        builders.propagation(LabelSpreading, alpha=0.99, max_iter=1000),
        "gamma",
        embeds=False,
        compared=False,
    ),
    Method(
        "pca-rls",
        "PCA + RLS",
        "Principal components of all rows (singular vectors where X is sparse), then regularised least squares; "
        f"its ridge is {TUNED}.",
        "the usual baseline",
        builders.pca_rls,
        "ridge",
        compared=False,
    ),
)
# Uses, with the methods for each and a few words about them.
USES: dict[str, dict[str, str]] = {
    "To start with": {
        "labelfold": "many views of the rows, weighed by the labels",
    },
    "Few features that tell classes or labels apart": {
        "lda": "directions that set the class means apart",
        "sklearn-lda": "scikit-learn's linear discriminant analysis",
        "opls": "directions that predict the labels best",
        "cca": "directions most correlated with the labels",
        "hsl": "directions that join rows with labels in common",
    },
    "Few features learned from all rows, labelled or not": {
        "pca-svm": "principal components, then a linear SVM",
        "pcals": "directions that fit the labels and keep the variance",
        "kernel-pcals": "the same along curves: PCA-LS with a kernel",
        "ssdr": "directions that join rows of a class, then a linear SVM",
        "drsvm": "a factorisation and a linear SVM, learned together",
        "lsdr": "a factorisation tied to a linear classifier",
        "nsdr": "a factorisation tied to a kernel SVM",
        "pca-rls": "principal components, then least squares",
        "umap": "a layout of neighbours, then a linear SVM",
    },
    "Non-negative parts of counts and intensities": {
        "nmf-svm": "non-negative parts found without labels, then a linear SVM",
        "ssnmf": "non-negative parts, then a linear SVM",
        "cnmf": "non-negative parts with one place a class, then a linear SVM",
        "nmf-alpha": "non-negative parts that linear SVMs look at, then a linear SVM",
        "klnmf": "non-negative parts by divergence, then a linear SVM",
    },
    "Classes on all columns, no reduction": {
        "svm": "a linear classifier with a wide margin",
        "rbf-svm": "a classifier with a wide, curved margin",
        "logistic": "a linear classifier with probabilities",
        "extra-trees": "votes of many random decision trees",
        "random-forest": "votes of many decision trees",
        "naive-bayes": "word frequencies of each class",
    },
    "Classes of all rows at once, no reduction": {
        "label-spreading": "labels passed on between neighbours",
        "laprls": "least squares that changes little between neighbours",
        "kernel-laprls": "the same along curves: LapRLS with a kernel",
        "tsvm": "a linear classifier whose margin avoids unlabelled rows",
        "grf": "labels passed on between neighbours, given ones kept",
        "llgc": "labels passed on between neighbours, given ones overruled",
    },
    "Numbers": {
        "ridge": "a linear prediction with small weights",
        "pca-ridge": "principal components, then a linear prediction",
        "svr": "a smooth curved prediction",
    },
}


def _two_stage(title: str, what: str, **more: Any) -> Method:
    """Return the entry of a two-stage method; ``what`` are its directions."""
    summary, build = f"{what}; its ridge is {TUNED}.", builders.two_stage(title)
    more |= {"labels": "supervised", "most": most_directions}
    return Method(title.lower(), title, summary, _TWO_STAGE, build, "ridge", **more)


OWN = (
    Method(
        "labelfold",
        "LabelFold",
        "Many views of the rows (linear, principal, RBF, Laplace and neighbour-graph; on tables also extra trees), "
        "weighed by leave-one-out on the labels and folded into one score and one embedding.",
        "labelfold's own; anchors after Liu, He & Chang, Large graph construction, ICML 2010",
        builders.label_fold,
        own_forms=True,
        by_labels=True,
    ),
    _two_stage("LDA", "Directions that set the class means apart"),
    _two_stage("OPLS", "Directions that predict the label columns best"),
    _two_stage(
        "CCA",
        "Directions most correlated with the label columns (with classes, LDA's)",
        suits=needs_label_columns,
    ),
    _two_stage(
        "HSL",
        "Hypergraph spectral learning, for several labels a row (with classes, LDA's)",
        suits=needs_label_columns,
    ),
    Method(
        "drsvm",
        "DRSVM",
        "A low-rank factorisation of all rows and a linear SVM on it, learned together, with weights that follow the "
        "size of the data.",
        "Fang, Cheng & Hsieh, A hyperplane-based algorithm for semi-supervised dimension reduction, ICDM 2017",
        builders.drsvm,
    ),
    Method(
        "ssdr",
        "SSDR + SVM",
        "Directions of much variance that join must-link pairs and part cannot-link pairs, taken from the labels; "
        f"then a linear SVM, whose C is {TUNED}.",
        "Zhang, Zhou & Chen, Semi-supervised dimensionality reduction, SDM 2007",
        builders.ssdr_svm,
        "C",
    ),
    Method(
        "pcals",
        "PCA-LS",
        "Directions, one at a time, that fit the labels and keep the variance of all rows.",
        _SUBSPACE,
        builders.pcals,
    ),
    Method(
        "kernel-pcals",
        "Kernel PCA-LS",
        "PCA-LS in the space of an RBF kernel (Nystroem features where its matrix would not fit), as wide as two "
        f"rows are apart on average or half as wide, {HIDDEN}.",
        _SUBSPACE,
        builders.kernel_pcals,
        suits=at_most(5_000, 2_000_000, "it works with a matrix of all pairs of rows"),
        slow=True,
    ),
    Method(
        "laprls",
        "LapRLS",
        f"Least squares that changes little between neighbours, no reduction; its ridge is {HIDDEN}.",
        _MANIFOLD,
        builders.laprls(None),
        "ridge",
        embeds=False,
        suits=at_most(20_000, 2_000_000, "it searches neighbours of every row"),
        slow=True,
    ),
    Method(
        "kernel-laprls",
        "Kernel LapRLS",
        f"LapRLS in the space of an RBF kernel (Nystroem features where its matrix would not fit), no reduction; its "
        f"ridge is {HIDDEN}.",
        _MANIFOLD,
        builders.laprls("rbf"),
        "ridge",
        embeds=False,
        compared=False,
    ),
    Method(
        "lsdr",
        "LSDR",
        "A factorisation of all rows with offsets, tied to a linear classifier, with weights that follow the size "
        "of the data.",
        _NSDR,
        builders.offsets("LSDR"),
    ),
    Method(
        "nsdr",
        "NSDR",
        "A factorisation of all rows with offsets, tied to a kernel SVM (degree 2), with weights that follow "
        "the size of the data.",
        _NSDR,
        builders.offsets("NSDR"),
        slow=True,
    ),
    Method(
        "nmf-alpha",
        "NMF-α + SVM",
        "Non-negative factors of all rows that keep what linear SVMs on the labels look at; then a linear SVM, "
        f"whose C is {TUNED}.",
        "Cho & Saul, Nonnegative matrix factorization for semi-supervised dimensionality reduction, 2011",
        # its parts depend on the labels, so labelled rows cannot choose their number
        builders.parts_svm("NMFAlpha", size=20),
        "C",
        nonnegative=True,
        counts=True,
    ),
    Method(
        "klnmf",
        "KL-NMF + SVM",
        "Non-negative factors of all rows by I-divergence, found without labels, in memory proportional to the data; "
        f"then a linear SVM, whose C is {TUNED}.",
        "Lee & Seung, Learning the parts of objects by non-negative matrix factorization, Nature 1999",
        builders.parts_svm("KLNMF", corrected=True),
        "C",
        compared=False,
        nonnegative=True,
        counts=True,
    ),
    Method(
        "ssnmf",
        "SSNMF + SVM",
        f"Non-negative factors of the rows and their labels together; then a linear SVM, whose C is {TUNED}.",
        "Lee, Yoo & Choi, Semi-supervised nonnegative matrix factorization, 2010",
        builders.ssnmf_svm,
        "C",
        nonnegative=True,
        slow=True,
    ),
    Method(
        "cnmf",
        "CNMF + SVM",
        "Non-negative factors in which labelled rows of a class share a place; then a linear SVM, "
        f"whose C is {TUNED}.",
        "Liu & Wu, Non-negative matrix factorization with constraints, 2010",
        # its parts depend on the labels, so hidden labels choose their number (2 parts gain nothing)
        builders.parts_svm("CNMF", sizes=(20, 40, 10, 5), hide=True),
        "C",
        nonnegative=True,
        slow=True,
    ),
    Method(
        "tsvm",
        "TSVM",
        f"A linear SVM on all columns whose margin keeps clear of the unlabelled rows too; its C is {HIDDEN}.",
        "Sindhwani & Keerthi, Large scale semi-supervised linear SVMs, SIGIR 2006",
        builders.tsvm,
        "C",
        embeds=False,
        slow=True,
    ),
)


_ENTRIES = {method.name: method for method in (*OWN, *BASELINES)}


METHODS: dict[str, Method] = {name: _ENTRIES[name] for name in _ORDER}


def available_methods() -> list[Method]:
    """Return the methods whose packages are installed.

    >>> "svm" in [method.name for method in available_methods()]
    True
    """
    return [method for method in METHODS.values() if method.available]


def get_method(name: str) -> Method:
    """Return a method by name, or raise an error that lists the available names.

    >>> get_method("PCA-SVM").title
    'PCA + SVM'
    """
    from labelfold.app.io import did_you_mean

    names = [method.name for method in available_methods()]
    method = METHODS.get(str(name).strip().lower().replace("_", "-"))
    if method is None:
        hint = did_you_mean(name, names)
        raise ValueError(f"There is no method {str(name)!r}{hint}; there are {', '.join(names)}.")
    if not method.available:
        raise ValueError(f"The method {method.name!r} needs a package: {install(method)}.")
    return method


def install(method: Method) -> str:
    """Return the command that installs the package a method needs."""
    return f"pip install {'umap-learn' if method.needs == 'umap' else method.needs}"


def gloss(name: str) -> str:
    """Return a few words about a method; "" if it is not in the registry.

    >>> gloss("ssnmf"), gloss("my own")
    ('non-negative parts, then a linear SVM', '')
    """
    return _GLOSSES.get(name, "")


_GLOSSES = {name: gloss for group in USES.values() for name, gloss in group.items()}
