"""Write docs/parameters.md: what each parameter means, and its default in every estimator, from the signatures.

    python docs/parameters.py

tests/test_parameters.py fails where the page and the signatures differ. A new name takes a line in MEANINGS.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from labelfold import discriminant, factorization, semi_supervised, subspace, tables

PAGE = Path(__file__).with_suffix(".md")
FAMILIES = (discriminant, subspace, semi_supervised, factorization, tables)

# One meaning a name, and the scale that a value is on.
MEANINGS = {
    "n_components": ("number of components", 'a count; "cv" chooses it, None keeps all there are'),
    "ridge": (
        "weight of the squared norm of a linear function",
        "beside a sum over rows, as scikit-learn's alpha",
    ),
    "reconstruction": (
        "weight of what a reconstruction of the rows loses, beside what is lost of the labels",
        "a factor",
    ),
    "reconstruction_share": (
        "share of the reconstruction, the rest being that of the labels",
        "between 0 and 1",
    ),
    "smoothness": (
        "weight of changes along the graph",
        "beside the mean loss of a labelled row, over n squared",
    ),
    "supervision": ("weight of the labels beside the rows", "a factor"),
    "C": ("weight of a row's loss in a support vector machine", "scikit-learn's C"),
    "unlabeled_weight": ("weight of all unlabelled rows over that of all labelled ones", "a ratio"),
    "svm_penalty": (
        "weight of the squared norms of support vector machines on the embedding",
        "beside sums over rows",
    ),
    "factor_penalty": ("weight of the squared norms of both factors", "beside sums over rows"),
    "row_penalty": ("weight of the squared norm of the rows' factors", "beside a sum over rows"),
    "basis_penalty": ("weight of the squared norm of the components", "beside a sum over rows"),
    "classifier_penalty": ("weight of the squared norms of linear classifiers", "beside a sum over rows"),
    "offset_unit": ("unit of the offsets of rows, where they are penalised and classified", "the unit of X"),
    "must_link_weight": ("how much to gather rows that must link", "beside the spread of all rows"),
    "cannot_link_weight": ("how much to part rows that cannot link", "beside the spread of all rows"),
    "class_weight": ("weights of the classes in the losses", "scikit-learn's"),
    "priors": ("probabilities of the classes", "sum to 1"),
    "positive_fraction": ("share of positive rows among the unlabelled ones", "0 to 1"),
    "kernel": ("kernel of rows", "scikit-learn's names, or a function of two rows"),
    "gamma": (
        "scikit-learn's gamma of the kernel",
        "one over a square of the unit; None: one over twice the mean squared distance between rows",
    ),
    "graph_gamma": (
        "scikit-learn's gamma of the graph's weights",
        "as gamma, between the rows that are joined",
    ),
    "degree": ("degree of a polynomial kernel", "a number; None: scikit-learn's"),
    "coef0": ("constant of a polynomial or sigmoid kernel", "a number; None: scikit-learn's"),
    "n_landmarks": (
        "rows that a kernel is approximated by",
        'a count; None: exact; "auto": exact where it fits',
    ),
    "views": ("families of feature maps that are blended", 'names; "auto": all'),
    "forms": ("forms of the columns that views start from", 'names; "auto" looks at the values'),
    "n_anchors": ("points that the rows of a graph are joined to", "a count"),
    "ridges": ("ridges that are blended", "beside features of mean squared norm 1; None: 0.001 to 10"),
    "graph": ("which rows are joined", "a name, or weights of all pairs"),
    "n_neighbors": ("neighbours of a row in the graph", "a count"),
    "weights": ("what neighbours in the graph are joined by", "a name"),
    "metric": ("what is near, in the graph", "a name"),
    "normalized": ("whether the graph's Laplacian is normalised", "yes or no"),
    "expansion": ("how a hypergraph is made a graph", "a name"),
    "solver": ("how directions are computed", "a name"),
    "loss": ("loss of the classifier", "a name"),
    "multiclass": ("how several classes are made machines", "a name"),
    "directions": ("the linear classifiers whose weights are kept", "a name"),
    "joint": ("whether the classifiers are learned with the factors", "yes or no"),
    "machine_weight": (
        "weight of the classifiers' own objective, learned with the factors",
        '"auto" suits any unit',
    ),
    "task": ("whether y holds classes and labels, or numbers", 'a name; "auto" looks at y'),
    "center": ("whether the mean is taken from the rows", "yes or no"),
    "fit_intercept": ("whether there is an intercept", "yes or no"),
    "intercept_scaling": ("constant feature whose weight is the intercept", "as in scikit-learn's LinearSVC"),
    "nonnegative": ("whether factors are non-negative", "yes or no"),
    "corrected": ("whether embeddings have the inner products of the rows", "yes or no"),
    "refit": ("whether all coefficients are fitted anew together", "yes or no"),
    "init": ("where iterations begin", "a name, or arrays"),
    "candidates": ('numbers of components that "cv" chooses from', "counts"),
    "cv": ('folds of "cv"', "a count"),
    "one_standard_error": ('whether "cv" prefers fewer within a standard error', "yes or no"),
    "n_stages": ("stages in which the weight of unlabelled rows grows", "a count"),
    "max_switches": ("pairs of labels that switch at once", "a count"),
    "tol": ("where iterations stop", "relative; what of is in each docstring"),
    "max_iter": ("the most iterations", "a count"),
    "max_gram_bytes": ("the most memory for square matrices and for rows taken into memory", "bytes"),
    "random_state": ("seed of whatever is drawn", "an int, a RandomState or None"),
    "verbose": ("1 shows a progress bar", "0 or 1"),
    "on_interrupt": ("what Ctrl-C does", '"raise" or "keep"'),
    "number": ("columns to read as numbers", "names, or patterns with *"),
    "category": ("columns to read as categories", "names, or patterns with *"),
    "date": ("columns to read as dates", "names, or patterns with *"),
    "text": ("columns to read as text", "names, or patterns with *"),
    "id": ("columns that name the rows", "names, or patterns with *"),
    "drop": ("columns to leave out", "names, or patterns with *"),
    "unlabeled": ("the value of y that marks a row as unlabelled", "missing values always do"),
}


def signatures() -> dict[str, dict[str, dict[str, object]]]:
    """Return the default of every parameter, by family, estimator and name."""
    return {
        family.__name__.rpartition(".")[2]: {
            name: {p.name: p.default for p in inspect.signature(getattr(family, name)).parameters.values()}
            for name in family.__all__
        }
        for family in FAMILIES
    }


def page() -> str:
    """Return the text of the page."""
    families = signatures()
    used = {p for models in families.values() for defaults in models.values() for p in defaults}
    lines = [
        "# Parameters",
        "",
        "One name means one thing, on one scale. Where the good value of a weight depends on the unit of X, its",
        'default is "auto" (or None, of a gamma): a multiple of the scale of the data itself, so that X and 1,000 X',
        "get the same predictions. The value used is kept in the attribute of the same name with an underscore",
        "(`ridge_`, `gamma_`).",
        "",
        "This page is written by `python docs/parameters.py` from the signatures.",
        "",
        *table(["name", "what it is", "scale"], [[f"`{p}`", *MEANINGS[p]] for p in MEANINGS if p in used]),
    ]
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
