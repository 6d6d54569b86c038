"""The registry: every method that the command line and `compare` can make, by name."""

from __future__ import annotations

from labelfold.app.registry import _predictors, _reducers
from labelfold.app.registry._method import Method

# As they are written down in these files.
METHODS = {
    found.name: found
    for module in (_reducers, _predictors)
    for found in vars(module).values()
    if isinstance(found, Method)
}


def ranked_methods() -> list[Method]:
    """Return all methods in the order in which they run, and are preferred if they are equally good.

    >>> [method.name for method in ranked_methods()[:3]]
    ['labelfold', 'lda', 'pca-svm']
    """
    return sorted(METHODS.values(), key=lambda method: method.rank)


def get_method(name: str) -> Method:
    """Return a method by name, or raise an error that lists the available names.

    >>> get_method("PCA-SVM").title
    'PCA + SVM'
    """
    from labelfold.app.io import did_you_mean

    names = [method.name for method in ranked_methods() if method.available]
    method = METHODS.get(str(name).strip().lower().replace("_", "-"))
    if method is None:
        hint = did_you_mean(name, names)
        raise ValueError(f"There is no method {str(name)!r}{hint}; there are {', '.join(names)}.")
    if not method.available:
        raise ValueError(f"The method {method.name!r} needs a package: {method.installation}.")
    return method
