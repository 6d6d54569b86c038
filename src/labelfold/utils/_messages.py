"""A progress bar of iterations, and the warning if they ended early."""

from __future__ import annotations

import math
import os
import sys
import warnings
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, Self

import joblib
import sklearn
from sklearn.exceptions import ConvergenceWarning
from tqdm.auto import tqdm

from labelfold.utils._callbacks import IterationTasks

# scikit-learn also calls estimators: in its parameter checks of fit, and in pipelines and searches (joblib).
_NOT_THE_USER = tuple(
    f"{folder}{os.sep}"
    for folder in (Path(__file__).parents[1], Path(sklearn.__file__).parent, Path(joblib.__file__).parent)
)


class Progress:
    """A progress bar that also shows a value, such as the relative decrease; silent unless ``verbose``.

    scikit-learn's callbacks of the fit that runs are told about the iterations too.

    Examples
    --------
    >>> with Progress("LDA", total=2, verbose=0) as progress:
    ...     progress(1, 0.5)
    ...     progress(2, 0.1)
    False
    False
    """

    def __init__(self, title: str, total: int, verbose: int) -> None:
        self._bar: Any = tqdm(total=total, desc=title, disable=not verbose, unit="it")
        self._tasks = IterationTasks(total)

    def begin(self) -> None:
        """Tell callbacks that an iteration begins. If this is not called, it begins when it is done."""
        self._tasks.begin()

    def __call__(self, iteration: int, value: float) -> bool:
        """Show that ``iteration`` is done, and the value that it reached; return whether a callback asks to stop."""
        self._bar.update(iteration - self._bar.n)
        if math.isfinite(value):
            self._bar.set_postfix_str(f"{value:.2e}", refresh=False)
        return self._tasks.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._bar.close()
        if kind is None:  # after an error callbacks are only torn down
            self._tasks.close()


def documentation() -> str:
    """Return the template of the addresses of estimators in the documentation; empty if the package names no site.

    The package names it by the address "Documentation" of its metadata, ``[project.urls]`` in pyproject.toml.
    """
    try:
        addresses = metadata("labelfold").get_all("Project-URL") or []
    except PackageNotFoundError:  # not installed: src is on the path
        return ""
    named = dict(address.split(", ", 1) for address in addresses)
    site = named.get("Documentation", "").rstrip("/")
    return f"{site}/api/{{estimator_name}}.html" if site else ""


def warn_of_early_end(found: Any, estimator: str, tol: float) -> None:
    """Warn if iterations were interrupted or did not converge to ``tol``.

    ``found`` has ``objective``, ``interrupted``, ``converged`` and ``stopped``. A callback that stops the iterations
    is no reason to warn.
    """
    steps = len(found.objective)
    if found.interrupted:
        message = f"{estimator} was interrupted; what its first {steps} iterations reached is kept"
    elif not found.converged and not found.stopped:
        message = (
            f"{estimator} stopped after {steps} iterations, short of tol={tol:.1e}; raise max_iter or tol"
        )
    else:
        return
    warn_user(message, ConvergenceWarning)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the nearest line that is not in labelfold, scikit-learn or joblib.

    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_user("k is large")
    >>> [str(one.message) for one in seen]
    ['k is large']
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USER):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
