"""The registry's entries for baselines: scikit-learn's methods and UMAP."""

from __future__ import annotations

from typing import Any

from sklearn.semi_supervised import LabelPropagation, LabelSpreading

from labelfold.app.registry import _builders as builders
from labelfold.app.registry._method import HIDDEN, TUNED, Method
from labelfold.app.registry._suitability import at_most, few_labelled, most_directions, needs_counts
from labelfold.app.registry._yardsticks import ScikitLDA, Spreading

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
