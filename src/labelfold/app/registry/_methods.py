"""The registry: which methods there are, what each is for, and how the command line and `compare` make it.

Adding a method is one entry in ``_ENTRIES``, or in ``SEMI_SUPERVISED`` of `_semi_supervised_methods.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labelfold.app.registry import _builders as builders
from labelfold.app.registry._method import TUNED, Method, at_most
from labelfold.app.registry._semi_supervised_methods import SEMI_SUPERVISED
from labelfold.app.registry._yardsticks import ScikitLDA, Spreading

if TYPE_CHECKING:
    from labelfold.app.registry._suitability import Facts


def _most_directions(facts: Facts) -> int:
    return facts.most_directions


def _needs_label_columns(facts: Facts) -> str | None:
    if facts.numbers:
        return "with one number a row it gives what OPLS gives"
    return None if facts.multilabel else "with one class a row it gives what LDA gives"


def _needs_counts(facts: Facts) -> str | None:
    return None if facts.whole else "it takes counts, and X has numbers that are not whole"


def _few_labelled(facts: Facts) -> str | None:
    most = 10_000
    return f"too slow for more than {most:,} labelled rows" if facts.n_labelled > most else None


_TWO_STAGE = (
    "Sun, Ceran & Ye, A scalable two-stage approach for a class of dimensionality reduction, KDD 2010"
)

_ENTRIES = (
    Method(
        "labelfold",
        "LabelFold",
        "Many views of the rows (linear, principal, RBF, Laplace and neighbour-graph; on tables also extra trees), "
        "weighed by leave-one-out on the labels and folded into one score and one embedding.",
        "semi-supervised",
        True,
        "labelfold's own; anchors after Liu, He & Chang, Large graph construction, ICML 2010",
        builders.label_fold,
        own_forms=True,
        by_labels=True,
    ),
    Method(
        "lda",
        "LDA",
        f"Directions that set the class means apart; its ridge is {TUNED}.",
        "supervised",
        True,
        _TWO_STAGE,
        builders.two_stage("LDA"),
        "ridge",
        most=_most_directions,
    ),
    Method(
        "pca-svm",
        "PCA + SVM",
        f"Principal components of all rows (singular vectors where X is sparse), then a linear SVM; "
        f"its C is {TUNED}.",
        "semi-supervised",
        True,
        "the usual baseline",
        builders.pca_svm,
        "C",
    ),
    Method(
        "svm",
        "SVM",
        f"A linear SVM on all columns, no reduction; its C is {TUNED}.",
        "supervised",
        False,
        "the usual baseline",
        builders.svm,
        "C",
    ),
    Method(
        "rbf-svm",
        "RBF SVM",
        f"An SVM with an RBF kernel on all columns, no reduction; its C and gamma are {TUNED}.",
        "supervised",
        False,
        "Boser, Guyon & Vapnik, A training algorithm for optimal margin classifiers, COLT 1992",
        builders.rbf_svm,
        "C",
        suits=_few_labelled,
    ),
    Method(
        "logistic",
        "logistic regression",
        f"Logistic regression on all columns, no reduction; its C is {TUNED}.",
        "supervised",
        False,
        "the usual baseline",
        builders.logistic,
        "C",
    ),
    Method(
        "ridge",
        "ridge regression",
        f"Ridge regression of a number on all columns, no reduction; its ridge is {TUNED}.",
        "supervised",
        False,
        "Hoerl & Kennard, Ridge regression, Technometrics 1970",
        builders.ridge_regression,
        "ridge",
    ),
    Method(
        "pca-ridge",
        "PCA + ridge",
        "Principal components of all rows (singular vectors where X is sparse), then ridge regression of a number; "
        f"its ridge is {TUNED}.",
        "semi-supervised",
        True,
        "the usual baseline",
        builders.pca_ridge,
        "ridge",
    ),
    Method(
        "svr",
        "RBF SVR",
        f"Support vector regression of a number with an RBF kernel, no reduction; its C and gamma are {TUNED}.",
        "supervised",
        False,
        "Drucker, Burges, Kaufman, Smola & Vapnik, Support vector regression machines, NIPS 1996",
        builders.svr,
        "C",
        suits=_few_labelled,
    ),
    Method(
        "extra-trees",
        "extra trees",
        "300 extremely randomised trees (100 for numbers) on all columns, no reduction.",
        "supervised",
        False,
        "Geurts, Ernst & Wehenkel, Extremely randomized trees, Machine Learning 2006",
        builders.trees("extra trees"),
    ),
    Method(
        "random-forest",
        "random forest",
        "A random forest of 300 trees (100 for numbers) on all columns, no reduction.",
        "supervised",
        False,
        "Breiman, Random forests, Machine Learning 2001",
        builders.trees("random forest"),
        compared=False,
    ),
    Method(
        "naive-bayes",
        "naive Bayes",
        f"Multinomial naive Bayes on all columns, for counts, no reduction; its smoothing is {TUNED}.",
        "supervised",
        False,
        "McCallum & Nigam, A comparison of event models for naive Bayes text classification, 1998",
        builders.naive_bayes,
        "alpha",
        suits=_needs_counts,
        nonnegative=True,
        counts=True,
    ),
    Method(
        "opls",
        "OPLS",
        f"Directions that predict the label columns best; its ridge is {TUNED}.",
        "supervised",
        True,
        _TWO_STAGE,
        builders.two_stage("OPLS"),
        "ridge",
        most=_most_directions,
    ),
    Method(
        "cca",
        "CCA",
        f"Directions most correlated with the label columns (with classes, LDA's); its ridge is {TUNED}.",
        "supervised",
        True,
        _TWO_STAGE,
        builders.two_stage("CCA"),
        "ridge",
        suits=_needs_label_columns,
        most=_most_directions,
    ),
    Method(
        "hsl",
        "HSL",
        f"Hypergraph spectral learning, for several labels a row (with classes, LDA's); its ridge is {TUNED}.",
        "supervised",
        True,
        _TWO_STAGE,
        builders.two_stage("HSL"),
        "ridge",
        suits=_needs_label_columns,
        most=_most_directions,
    ),
    Method(
        "drsvm",
        "DRSVM",
        "A low-rank factorisation of all rows and a linear SVM on it, learned together, with weights that follow the "
        "size of the data.",
        "semi-supervised",
        True,
        "Fang, Cheng & Hsieh, A hyperplane-based algorithm for semi-supervised dimension reduction, ICDM 2017",
        builders.drsvm,
    ),
    Method(
        "ssdr",
        "SSDR + SVM",
        "Directions of much variance that join must-link pairs and part cannot-link pairs, taken from the labels; "
        f"then a linear SVM, whose C is {TUNED}.",
        "semi-supervised",
        True,
        "Zhang, Zhou & Chen, Semi-supervised dimensionality reduction, SDM 2007",
        builders.ssdr_svm,
        "C",
    ),
    Method(
        "nmf-svm",
        "NMF + SVM",
        f"Non-negative parts of all rows, found without labels, then a linear SVM; its C is {TUNED}.",
        "semi-supervised",
        True,
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
        "semi-supervised",
        False,
        "Zhou, Bousquet, Lal, Weston & Schölkopf, Learning with local and global consistency, NIPS 2003",
        lambda k, X, random_state: Spreading(),
        suits=at_most(20_000, 2_000_000, "it searches neighbours of every row"),
    ),
    Method(
        "sklearn-lda",
        "scikit-learn LDA",
        "scikit-learn's LinearDiscriminantAnalysis, its covariance shrunk by Ledoit and Wolf's rule.",
        "supervised",
        True,
        "Ledoit & Wolf, Honey, I shrunk the sample covariance matrix, 2004",
        lambda k, X, random_state: ScikitLDA(k),
        suits=at_most(10_000_000, 3_000, "it needs a covariance matrix of the columns"),
        most=_most_directions,
    ),
    Method(
        "umap",
        "UMAP + SVM",
        f"Semi-supervised UMAP of all rows, then a linear SVM; its C is {TUNED}.",
        "semi-supervised",
        True,
        "McInnes, Healy & Melville, UMAP, 2018",
        builders.umap_svm,
        "C",
        needs="umap",
    ),
)

METHODS: dict[str, Method] = {method.name: method for method in (*_ENTRIES, *SEMI_SUPERVISED)}


def available_methods() -> list[Method]:
    """Return the methods that can be made now.

    >>> "svm" in [method.name for method in available_methods()]
    True
    """
    return [method for method in METHODS.values() if method.available]


def get_method(name: str) -> Method:
    """Return a method that can be made now, or say which can.

    >>> get_method("PCA-SVM").title
    'PCA + SVM'
    """
    from labelfold.app.io._problems import did_you_mean

    names = [method.name for method in available_methods()]
    method = METHODS.get(str(name).strip().lower().replace("_", "-"))
    if method is None:
        hint = did_you_mean(name, names)
        raise ValueError(f"There is no method {str(name)!r}{hint}; there are {', '.join(names)}.")
    if not method.available:
        raise ValueError(f"The method {method.name!r} needs a package: {install(method)}.")
    return method


def install(method: Method) -> str:
    """Say how to get the package that a method needs."""
    return f"pip install {'umap-learn' if method.needs == 'umap' else method.needs}"
