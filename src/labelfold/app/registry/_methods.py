"""The registry: the methods that the command line and `compare` can make.

Adding a method takes an entry in ``_own_methods.py`` or ``_baselines.py``, its name in ``_ORDER``, and a few words
in ``_glosses.py``.
"""

from __future__ import annotations

from labelfold.app.registry._baselines import BASELINES
from labelfold.app.registry._method import Method
from labelfold.app.registry._own_methods import OWN

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
