"""What `labelfold.compare` returns: the results of a comparison with their report."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from labelfold.app.compare import Results, run_comparison

_Arguments = ParamSpec("_Arguments")


class Comparison(Results):
    """The outcome of :func:`labelfold.compare`: its results, in a notebook and in a report.

    The attributes are those of `Results`.
    """

    @classmethod
    def of(cls, found: Results) -> Comparison:
        """Return results as a comparison, without a copy."""
        made = cls.__new__(cls)
        made.__dict__ = found.__dict__
        return made

    def _repr_html_(self) -> str:
        """Return the answer, the ranking and a map, for a notebook."""
        from labelfold.app.report._page import notebook  # needs jinja2

        return notebook(self)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write one offline HTML page: the answer, the figures, the maps, and the rows to label next."""
        from labelfold.app.report._page import write_report

        return write_report(self, path)


def _like(
    run: Callable[_Arguments, Results],
) -> Callable[[Callable[..., Comparison]], Callable[_Arguments, Comparison]]:
    """Return the decorator of a function with the parameters and the documentation of ``run``."""
    return wraps(run, assigned=("__doc__",))


@_like(run_comparison)
def compare(*args: Any, **options: Any) -> Comparison:
    """Compare methods; see `run_comparison`."""
    return Comparison.of(run_comparison(*args, **options))
