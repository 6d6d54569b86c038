"""Write docs/parameters.md: the meaning of each parameter, and its default in every estimator, from the signatures.

    python docs/parameters.py

tests/test_parameters.py fails if the page and the signatures differ. A new name needs a line in MEANINGS.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import labelfold

PAGE = Path(__file__).with_suffix(".md")

# The meaning of each name, and the scale of its values.
MEANINGS = {
    "n_components": ("number of components", "a count"),
    "ridge": (
        "weight of the squared norm of the coefficients (regularisation)",
        'relative to a sum over rows, as scikit-learn\'s alpha; "auto": 0.01 times the squared distances of labelled '
        'rows from their mean; "cv": chosen by cross-validation on the labelled rows; a sequence: chosen among its '
        "values",
    ),
    "ridge_y": (
        "weight of the squared norm of the coefficients of the targets",
        "relative to a sum over rows of squared targets",
    ),
    "reconstruction": ("weight of the reconstruction error, relative to the loss of the labels", "a factor"),
    "reconstruction_share": (
        "weight of the reconstruction error; that of the labels is 1 minus it",
        "between 0 and 1",
    ),
    "smoothness": (
        "weight of the graph Laplacian penalty",
        "relative to the mean loss of a labelled row, divided by n squared",
    ),
    "supervision": ("weight of the labels, relative to the rows", "a factor"),
    "C": ("weight of a row's loss in a support vector machine", 'scikit-learn\'s C; "auto" suits any unit'),
    "unlabeled_weight": ("total weight of the unlabelled rows, relative to the labelled ones", "a ratio"),
    "svm_penalty": (
        "weight of the squared norms of support vector machines on the embedding",
        "relative to sums over rows",
    ),
    "factor_penalty": ("weight of the squared norms of both factors", "relative to sums over rows"),
    "row_penalty": ("weight of the squared norm of the row factors", "relative to a sum over rows"),
    "basis_penalty": ("weight of the squared norm of the components", "relative to a sum over rows"),
    "classifier_penalty": (
        "weight of the squared norms of linear classifiers",
        "relative to a sum over rows",
    ),
    "offset_unit": ("unit in which offsets of rows are penalised and classified", "the unit of X"),
    "must_link_weight": ("weight of distances of must-link pairs", "relative to the spread of all rows"),
    "cannot_link_weight": ("weight of distances of cannot-link pairs", "relative to the spread of all rows"),
    "class_weight": ("weights of the classes in the terms of the labels", "scikit-learn's"),
    "shrinkage": (
        "share of the identity in the within-class covariance",
        '0 to 1; "auto": the formula of Ledoit and Wolf; None: a ridge in its place',
    ),
    "priors": ("probabilities of the classes", "sum to 1"),
    "positive_fraction": ("share of positive rows among the unlabelled ones", "0 to 1"),
    "kernel": ("kernel of rows", "scikit-learn's names, or a function of two rows"),
    "gamma": (
        "scikit-learn's gamma of the kernel",
        '1 over the squared unit of X; "auto": 1 over twice the mean squared distance between rows; "scale": '
        "scikit-learn's, 1 over the number of columns times the variance of the entries",
    ),
    "graph_gamma": ("gamma of the RBF weights of the graph", "as gamma, between rows or between neighbours"),
    "degree": ("degree of a polynomial kernel", "a number; None: scikit-learn's"),
    "coef0": ("constant of a polynomial or sigmoid kernel", "a number; None: scikit-learn's"),
    "n_landmarks": (
        "number of Nystroem landmarks",
        'a count; None: exact kernel; "auto": exact if it fits in memory',
    ),
    "views": ("families of feature maps that are blended", 'names; "auto": all'),
    "forms": ("forms of the columns for the views", 'names; "auto" chooses from the values'),
    "n_anchors": ("number of anchors of the graph", "a count"),
    "ridges": ("ridges that are blended", "for features of mean squared norm 1; None: 0.001 to 10"),
    "graph": ("kind of graph", "a name, or a matrix of weights"),
    "n_neighbors": ("number of neighbours of a row in the graph", "a count"),
    "weights": ("weights of the edges of the graph", "a name"),
    "metric": ("distance for the neighbours of the graph", "a name"),
    "normalized": ("whether the graph's Laplacian is normalised", "yes or no"),
    "expansion": ("expansion of the hypergraph to a graph", "a name"),
    "solver": ("how directions are computed", "a name"),
    "loss": ("loss of the classifier", "a name"),
    "multiclass": ("one-vs-one or one-vs-rest", "a name"),
    "directions": ("the linear classifiers whose weights are kept", "a name"),
    "joint": ("whether the classifiers are learned with the factors", "yes or no"),
    "machine_weight": (
        "weight of the classifiers' own objective, learned with the factors",
        '"auto" suits any unit',
    ),
    "task": ("classification or regression", 'a name; "auto" decides from y'),
    "center": ("whether rows are centred", "yes or no"),
    "fit_intercept": ("whether there is an intercept", "yes or no"),
    "intercept_scaling": ("value of the constant feature of the intercept", "as in scikit-learn's LinearSVC"),
    "nonnegative": ("whether factors are non-negative", "yes or no"),
    "corrected": ("whether embeddings keep the inner products of the rows", "yes or no"),
    "refit": ("whether all coefficients are refitted jointly", "yes or no"),
    "init": ("initial values of the iterations", "a name, or arrays"),
    "candidates": ('numbers of components that "cv" chooses from', "counts, or the largest"),
    "cv": ('number of folds of "cv"', "a count"),
    "repeats": ('how often "cv" draws the folds, with few labels', "a count"),
    "one_standard_error": ('whether "cv" takes the smallest number within one standard error', "yes or no"),
    "n_stages": ("number of stages in which the weight of unlabelled rows increases", "a count"),
    "max_switches": ("largest number of label pairs that switch at once", "a count"),
    "tol": ("tolerance of convergence", "relative; see the docstring"),
    "max_iter": ("largest number of iterations", "a count"),
    "max_gram_bytes": ("largest memory for square matrices and for rows that are loaded", "bytes"),
    "random_state": ("seed of random numbers", "an int, a RandomState or None"),
    "verbose": ("1 shows a progress bar", "0 or 1"),
    "on_interrupt": ("what Ctrl-C does", '"raise" or "keep"'),
    "number": ("columns to read as numbers", "names, or patterns with *"),
    "category": ("columns to read as categories", "names, or patterns with *"),
    "date": ("columns to read as dates", "names, or patterns with *"),
    "text": ("columns to read as text", "names, or patterns with *"),
    "id": ("id columns", "names, or patterns with *"),
    "drop": ("columns to leave out", "names, or patterns with *"),
    "keep": ("columns that are never left out", "names, or patterns with *"),
    "unlabeled": ("the value of y that means unlabelled", "missing values always do"),
}


_TWO_STAGE = ("CCA", "HSL", "LDA", "OPLS")
_PURSUITS = ("PCALS", "KernelPCALS")
_NONNEGATIVE = ("CNMF", "KLNMF", "NMFAlpha", "SSNMF")
_FACTORISATIONS = (*_NONNEGATIVE, "DRSVM", "LSDR", "NSDR")
# Where an estimator takes other values than the others, and why. All others agree; a test compares them.
OTHER_VALUES = {
    "n_components": {
        (*_TWO_STAGE, "LabelFold"): "None keeps all directions: the labels bound their number",
        _PURSUITS: '"cv" chooses the number by cross-validation: directions are found one after the other, so one '
        "fit serves all numbers. For other methods: scikit-learn's GridSearchCV",
    },
    "ridge": {
        ("LapRLS",): "above 0: the graph alone does not determine the function",
        _PURSUITS: "a number: it is used by refit=True only, for the coefficients of few directions, whose number "
        'n_components="cv" chooses',
    },
    "kernel": {
        ("KernelPCALS",): "not None: that is PCALS",
        ("NMFAlpha",): "rows are replaced by kernel values, which must not be negative",
        ("NSDR",): "not None; the fit needs the gradient of the kernel",
    },
    "degree": {
        ("NSDR",): "whole numbers; the gradient is the kernel of one degree less. None is the paper's 2"
    },
    "coef0": {
        (
            "NSDR",
        ): "at least 0: otherwise the kernel is not positive semi-definite, and the SVM has no optimum"
    },
    "tol": {_FACTORISATIONS: "0 runs all iterations; no residual of a linear system reaches 0"},
    "init": {
        ("DRSVM",): "factors may be negative, as singular vectors are",
        ("LSDR", "NSDR"): "not arrays: rows and offsets follow from the components; these may be negative",
    },
    "loss": {
        ("DRSVM",): "losses of support vector machines",
        ("LSDR",): "smooth losses, which its steps need",
    },
}
# Where an estimator has another default, and why.
OTHER_DEFAULTS = {
    "n_components": {
        (*_TWO_STAGE, "LabelFold"): "all directions: the labels bound their number",
        (*_PURSUITS, "SSDR"): "directions are sorted by what they explain; two make a picture",
    },
    "ridge": {("LapRLS",): "0 is not accepted"},
    "kernel": {("KernelPCALS",): "not None: that is PCALS", ("NSDR",): "the paper's"},
    "center": {("DRSVM",): "the paper's: a sparse or non-negative X is reconstructed as it is"},
    "fit_intercept": {("DRSVM",): "the paper's"},
    "corrected": {("KLNMF",): "its parts are read; NMFAlpha's embedding is classified"},
    "init": {("DRSVM", "LSDR", "NSDR"): "singular vectors, which may be negative, are near the solution"},
    "loss": {("DRSVM",): "the paper's", ("LSDR",): "the paper's"},
    "tol": {
        (*_TWO_STAGE, *_PURSUITS, "LapRLS"): "relative residual of linear systems, or change of a direction",
        ("SSDR", "DRSVM", "LSDR", "NSDR", "KLNMF", "NMFAlpha"): "what a further iteration gains differs",
    },
    "max_iter": {
        (
            *_TWO_STAGE,
            "LapRLS",
            "SSDR",
            "TSVM",
            "KLNMF",
            "NMFAlpha",
            "LSDR",
            "NSDR",
        ): "what one iteration costs and gains differs"
    },
}


def signatures() -> dict[str, dict[str, dict[str, object]]]:
    """Return the default of every parameter, by family, estimator and name."""
    found: dict[str, dict[str, dict[str, object]]] = {
        family: {} for family in (*labelfold._FAMILIES, "tables")
    }
    for name, place in labelfold._ESTIMATORS.items():
        taken = inspect.signature(getattr(labelfold, name)).parameters.values()
        found[place.removeprefix("labelfold.").partition(":")[0]][name] = {p.name: p.default for p in taken}
    return found


def page() -> str:
    """Return the text of the page."""
    families = signatures()
    used = {p for models in families.values() for defaults in models.values() for p in defaults}
    lines = [
        "# Parameters",
        "",
        "A parameter has the same meaning, scale, values and default in all estimators, but for the exceptions",
        'below. If a good value depends on the unit of X, "auto" is a multiple of the scale of the data. So X and',
        "1,000 X get the same predictions. The value in use is the attribute of the same name with an underscore",
        "(`ridge_`, `gamma_`).",
        "",
        "This page is written by `python docs/parameters.py` from the signatures.",
        "",
        *table(["name", "what it is", "scale"], [[f"`{p}`", *MEANINGS[p]] for p in MEANINGS if p in used]),
    ]
    for what, exceptions in (("values", OTHER_VALUES), ("default", OTHER_DEFAULTS)):
        rows = [
            [f"`{p}`", ", ".join(f"`{name}`" for name in sorted(some)), why]
            for p, groups in exceptions.items()
            for some, why in groups.items()
        ]
        lines += ["", f"## Estimators with {'other' if what == 'values' else 'another'} {what}", ""]
        lines += table(["name", "estimators", "why"], rows)
    for family, models in families.items():
        names = [p for p in MEANINGS if any(p in defaults for defaults in models.values())]
        rows = [[f"`{p}`", *(written(d[p]) if p in d else "" for d in models.values())] for p in names]
        lines += [
            "",
            f"## Defaults in `labelfold.{family}`",
            "",
            *table(["", *(f"`{m}`" for m in models)], rows),
        ]
    return "\n".join(lines) + "\n"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def written(default: object) -> str:
    """Return a default as a reader would type it.

    >>> written(512 << 20), written("auto"), written(1e-8)
    ('512 MB', '"auto"', '1e-08')
    """
    if isinstance(default, int) and not isinstance(default, bool) and default >= 1 << 20:
        return f"{default >> 20} MB"
    return f'"{default}"' if isinstance(default, str) else str(default)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
