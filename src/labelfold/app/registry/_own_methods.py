"""The registry's entries for labelfold's own estimators."""

from __future__ import annotations

from typing import Any

from labelfold.app.registry import _builders as builders
from labelfold.app.registry._method import HIDDEN, TUNED, Method
from labelfold.app.registry._suitability import at_most, most_directions, needs_label_columns

_TWO_STAGE = (
    "Sun, Ceran & Ye, A scalable two-stage approach for a class of dimensionality reduction, KDD 2010"
)
_SUBSPACE = "Zhang, Hou, Xiang & Liu, Subspace regularization, ECML PKDD 2009"
_NSDR = "Grabocka & Schmidt-Thieme, Learning through non-linearly supervised dimensionality reduction"
_MANIFOLD = "Belkin, Niyogi & Sindhwani, Manifold regularization, JMLR 2006"


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
