"""Entries of the registry: methods that learn from all rows, from the papers that labelfold is after."""

from __future__ import annotations

from sklearn.semi_supervised import LabelPropagation, LabelSpreading

from labelfold.app.registry import _builders as builders
from labelfold.app.registry._method import HIDDEN, TUNED, Method, at_most

_SUBSPACE = "Zhang, Hou, Xiang & Liu, Subspace regularization, ECML PKDD 2009"
_NSDR = "Grabocka & Schmidt-Thieme, Learning through non-linearly supervised dimensionality reduction"
_MANIFOLD = "Belkin, Niyogi & Sindhwani, Manifold regularization, JMLR 2006"

SEMI_SUPERVISED = (
    Method(
        "pcals",
        "PCA-LS",
        "Directions, one at a time, that fit the labels and keep the variance of all rows.",
        "semi-supervised",
        True,
        _SUBSPACE,
        builders.pcals,
    ),
    Method(
        "kernel-pcals",
        "Kernel PCA-LS",
        "PCA-LS in the space of an RBF kernel (Nystroem features where its matrix would not fit), as wide as two "
        f"rows are apart on average or half as wide, {HIDDEN}.",
        "semi-supervised",
        True,
        _SUBSPACE,
        builders.kernel_pcals,
        suits=at_most(5_000, 2_000_000, "it works with a matrix of all pairs of rows"),
        slow=True,
    ),
    Method(
        "laprls",
        "LapRLS",
        f"Least squares that changes little between neighbours, no reduction; its ridge is {HIDDEN}.",
        "semi-supervised",
        False,
        _MANIFOLD,
        builders.laprls(None),
        "ridge",
        suits=at_most(20_000, 2_000_000, "it searches neighbours of every row"),
        slow=True,
    ),
    Method(
        "kernel-laprls",
        "Kernel LapRLS",
        f"LapRLS in the space of an RBF kernel (Nystroem features where its matrix would not fit), no reduction; its "
        f"ridge is {HIDDEN}.",
        "semi-supervised",
        False,
        _MANIFOLD,
        builders.laprls("rbf"),
        "ridge",
        compared=False,
    ),
    Method(
        "grf",
        "GRF",
        "Labels that spread over an RBF graph and stay where they were given, no reduction: scikit-learn's "
        f"LabelPropagation; its gamma is {HIDDEN} (a graph of neighbours where that would not fit).",
        "semi-supervised",
        False,
        "Zhu, Ghahramani & Lafferty, Semi-supervised learning using Gaussian fields, ICML 2003",
        builders.propagation(LabelPropagation),
        "gamma",
        compared=False,
    ),
    Method(
        "llgc",
        "LLGC",
        "Labels that spread over an RBF graph and may be overruled, no reduction: scikit-learn's LabelSpreading with "
        f"alpha 0.99; its gamma is {HIDDEN} (a graph of neighbours where that would not fit).",
        "semi-supervised",
        False,
        "Zhou et al., Learning with local and global consistency, NIPS 2004",
        builders.propagation(LabelSpreading, alpha=0.99, max_iter=1000),
        "gamma",
        compared=False,
    ),
    Method(
        "pca-rls",
        "PCA + RLS",
        "Principal components of all rows (singular vectors where X is sparse), then regularised least squares; "
        f"its ridge is {TUNED}.",
        "semi-supervised",
        True,
        "the usual baseline",
        builders.pca_rls,
        "ridge",
        compared=False,
    ),
    Method(
        "lsdr",
        "LSDR",
        "A factorisation of all rows with offsets, tied to a linear classifier, with weights that follow the size "
        "of the data.",
        "semi-supervised",
        True,
        _NSDR,
        builders.offsets("LSDR"),
    ),
    Method(
        "nsdr",
        "NSDR",
        "A factorisation of all rows with offsets, tied to a kernel SVM (degree 2), with weights that follow "
        "the size of the data.",
        "semi-supervised",
        True,
        _NSDR,
        builders.offsets("NSDR"),
        slow=True,
    ),
    Method(
        "nmf-alpha",
        "NMF-α + SVM",
        "Non-negative factors of all rows that keep what linear SVMs on the labels look at; then a linear SVM, "
        f"whose C is {TUNED}.",
        "semi-supervised",
        True,
        "Cho & Saul, Nonnegative matrix factorization for semi-supervised dimensionality reduction, 2011",
        # its parts keep what tells the labelled rows apart, so that these cannot say how many there should be
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
        "semi-supervised",
        True,
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
        "semi-supervised",
        True,
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
        "semi-supervised",
        True,
        "Liu & Wu, Non-negative matrix factorization with constraints, 2010",
        # its parts are told the labels: only others can say how many there should be (two gain nothing)
        builders.parts_svm("CNMF", sizes=(20, 40, 10, 5), hide=True),
        "C",
        nonnegative=True,
        slow=True,
    ),
    Method(
        "tsvm",
        "TSVM",
        f"A linear SVM on all columns whose margin keeps clear of the unlabelled rows too; its C is {HIDDEN}.",
        "semi-supervised",
        False,
        "Sindhwani & Keerthi, Large scale semi-supervised linear SVMs, SIGIR 2006",
        builders.tsvm,
        "C",
        slow=True,
    ),
)
