"""Each method in a few words, grouped by use."""

from __future__ import annotations

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
_GLOSSES = {name: gloss for group in USES.values() for name, gloss in group.items()}


def gloss(name: str) -> str:
    """Return a few words about a method; "" if it is not in the registry.

    >>> gloss("ssnmf"), gloss("my own")
    ('non-negative parts, then a linear SVM', '')
    """
    return _GLOSSES.get(name, "")
