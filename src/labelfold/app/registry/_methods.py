"""The registry: which methods there are, what each is for, and how the command line and `compare` make it.

Adding a method is one entry in ``_ENTRIES``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.semi_supervised import LabelPropagation, LabelSpreading

from labelfold.app.registry import _builders as builders
from labelfold.app.registry._column_forms import column_form, make_form
from labelfold.app.registry._multilabel import for_task
from labelfold.app.registry._yardsticks import ScikitLDA, Spreading
from labelfold.features._column_kind import AS_IS, TF_IDF

if TYPE_CHECKING:
    from labelfold.app.registry._suitability import Facts


@dataclass(frozen=True)
class Method:
    """A method that the command line and `compare` can use.

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
    build : callable
        ``build(k, X, random_state)`` gives the estimator.
    penalty : str, optional
        The name of the parameter that is tuned unless given.
    compared : bool, default=True
        Whether `compare` tries it unless told which; not where a fit takes many times as long, or another method is
        much the same.
    suits : callable, optional
        ``suits(facts)`` gives the reason why it does not suit some data, or None; `_suitability` already
        asks the estimator about signs, sparsity, several labels a row and numbers.
    most : callable, optional
        ``most(facts)`` gives the largest embedding it can give.
    needs : str, optional
        A package it needs that labelfold does not.
    nonnegative : bool, default=False
        Whether X must not be negative: scaling then leaves its columns where they are.
    own_forms : bool, default=False
        Whether it makes forms of the columns itself, and so is given them as they are.
    counts : bool, default=False
        Whether it is made for counts, and so is given them as they are.
    by_labels : bool, default=False
        Whether its components are by default those that tell the labels apart, and no more.
    slow : bool, default=False
        Whether a fit takes many times as long as most: `compare` runs it after the others.
    """

    name: str
    title: str
    summary: str
    labels: str
    embeds: bool
    paper: str
    build: Callable[..., Any]
    penalty: str | None = None
    compared: bool = True
    suits: Callable[[Facts], str | None] | None = None
    most: Callable[[Facts], int] | None = None
    needs: str | None = None
    nonnegative: bool = False
    own_forms: bool = False
    counts: bool = False
    by_labels: bool = False
    slow: bool = False

    @property
    def available(self) -> bool:
        """Whether the package that it needs, if any, is installed."""
        return self.needs is None or find_spec(self.needs) is not None

    def make(
        self,
        n_components: int | None = None,
        *,
        X: Any,
        random_state: int | None = 0,
        scale: bool | str = False,
        task: str = "classification",
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
        scale : bool or str, default=False
            Which form of the columns the method is given: "as they are", "unit variance", "ranks" or "tf-idf".
            True is unit variance, False as they are. Unit variance is centred, and ranks are around 0, where X is
            dense and the method takes negative numbers. A method made for counts takes them as they are in place of
            tf-idf.
        task : {"classification", "regression"}, default="classification"
            Whether y holds classes, one or several a row, or numbers; `why_not` says which methods take which.
        **penalty : float
            The method's own penalty by its name, in place of tuning: ``ridge=0.1``.

        Returns
        -------
        estimator
            A classifier or a regressor, with ``transform`` where the method embeds.
        """
        unknown = [p for p in penalty if p != self.penalty]
        if unknown:
            raise ValueError(f"The method {self.name!r} has no parameter {unknown[0]!r}.")
        model = self.build(n_components, X, random_state, **penalty)
        if task == "regression":
            model = for_task(model, task)
        form = make_form(self.form(scale), sparse=sp.issparse(X), nonnegative=self.nonnegative)
        return model if form is None else Pipeline([("scale", form), ("model", model)])

    def form(self, scale: bool | str) -> str:
        """Return the form of the columns that the method is given where ``scale`` is asked for.

        >>> METHODS["naive-bayes"].form("tf-idf"), METHODS["svm"].form("tf-idf")
        ('as they are', 'tf-idf')
        """
        form = column_form(scale)
        return AS_IS if self.own_forms or (self.counts and form == TF_IDF) else form


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


def _at_most(rows: int, columns: int, what: str) -> Callable[[Facts], str | None]:
    def suits(facts: Facts) -> str | None:
        if facts.n_rows > rows:
            return f"{what}: too slow for more than {rows:,} rows"
        return f"{what}: too large for more than {columns:,} columns" if facts.n_columns > columns else None

    return suits


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
        f"Directions that set the class means apart; its ridge is {_TUNED}.",
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
        f"its C is {_TUNED}.",
        "semi-supervised",
        True,
        "the usual baseline",
        builders.pca_svm,
        "C",
    ),
    Method(
        "svm",
        "SVM",
        f"A linear SVM on all columns, no reduction; its C is {_TUNED}.",
        "supervised",
        False,
        "the usual baseline",
        builders.svm,
        "C",
    ),
    Method(
        "rbf-svm",
        "RBF SVM",
        f"An SVM with an RBF kernel on all columns, no reduction; its C and gamma are {_TUNED}.",
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
        f"Logistic regression on all columns, no reduction; its C is {_TUNED}.",
        "supervised",
        False,
        "the usual baseline",
        builders.logistic,
        "C",
    ),
    Method(
        "ridge",
        "ridge regression",
        f"Ridge regression of a number on all columns, no reduction; its ridge is {_TUNED}.",
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
        f"its ridge is {_TUNED}.",
        "semi-supervised",
        True,
        "the usual baseline",
        builders.pca_ridge,
        "ridge",
    ),
    Method(
        "svr",
        "RBF SVR",
        f"Support vector regression of a number with an RBF kernel, no reduction; its C and gamma are {_TUNED}.",
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
        f"Multinomial naive Bayes on all columns, for counts, no reduction; its smoothing is {_TUNED}.",
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
        f"Directions that predict the label columns best; its ridge is {_TUNED}.",
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
        f"Directions most correlated with the label columns (with classes, LDA's); its ridge is {_TUNED}.",
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
        f"Hypergraph spectral learning, for several labels a row (with classes, LDA's); its ridge is {_TUNED}.",
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
        f"then a linear SVM, whose C is {_TUNED}.",
        "semi-supervised",
        True,
        "Zhang, Zhou & Chen, Semi-supervised dimensionality reduction, SDM 2007",
        builders.ssdr_svm,
        "C",
    ),
    Method(
        "nmf-svm",
        "NMF + SVM",
        f"Non-negative parts of all rows, found without labels, then a linear SVM; its C is {_TUNED}.",
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
        suits=_at_most(20_000, 2_000_000, "it searches neighbours of every row"),
    ),
    Method(
        "sklearn-lda",
        "scikit-learn LDA",
        "scikit-learn's LinearDiscriminantAnalysis, its covariance shrunk by Ledoit and Wolf's rule.",
        "supervised",
        True,
        "Ledoit & Wolf, Honey, I shrunk the sample covariance matrix, 2004",
        lambda k, X, random_state: ScikitLDA(k),
        suits=_at_most(10_000_000, 3_000, "it needs a covariance matrix of the columns"),
        most=_most_directions,
    ),
    Method(
        "umap",
        "UMAP + SVM",
        f"Semi-supervised UMAP of all rows, then a linear SVM; its C is {_TUNED}.",
        "semi-supervised",
        True,
        "McInnes, Healy & Melville, UMAP, 2018",
        builders.umap_svm,
        "C",
        needs="umap",
    ),
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
        f"rows are apart on average or half as wide, {_HIDDEN}.",
        "semi-supervised",
        True,
        _SUBSPACE,
        builders.kernel_pcals,
        suits=_at_most(5_000, 2_000_000, "it works with a matrix of all pairs of rows"),
        slow=True,
    ),
    Method(
        "laprls",
        "LapRLS",
        f"Least squares that changes little between neighbours, no reduction; its ridge is {_HIDDEN}.",
        "semi-supervised",
        False,
        _MANIFOLD,
        builders.laprls(None),
        "ridge",
        suits=_at_most(20_000, 2_000_000, "it searches neighbours of every row"),
        slow=True,
    ),
    Method(
        "kernel-laprls",
        "Kernel LapRLS",
        f"LapRLS in the space of an RBF kernel (Nystroem features where its matrix would not fit), no reduction; its "
        f"ridge is {_HIDDEN}.",
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
        f"LabelPropagation; its gamma is {_HIDDEN} (a graph of neighbours where that would not fit).",
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
        f"alpha 0.99; its gamma is {_HIDDEN} (a graph of neighbours where that would not fit).",
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
        f"its ridge is {_TUNED}.",
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
        f"whose C is {_TUNED}.",
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
        f"then a linear SVM, whose C is {_TUNED}.",
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
        f"Non-negative factors of the rows and their labels together; then a linear SVM, whose C is {_TUNED}.",
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
        f"whose C is {_TUNED}.",
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
        f"A linear SVM on all columns whose margin keeps clear of the unlabelled rows too; its C is {_HIDDEN}.",
        "semi-supervised",
        False,
        "Sindhwani & Keerthi, Large scale semi-supervised linear SVMs, SIGIR 2006",
        builders.tsvm,
        "C",
        slow=True,
    ),
)

METHODS: dict[str, Method] = {method.name: method for method in _ENTRIES}


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
