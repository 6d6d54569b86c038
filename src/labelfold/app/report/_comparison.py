"""What `labelfold.compare` returns: the results of a comparison with their report."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec

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

    def report(self, path: str | os.PathLike) -> Path:
        """Write one offline HTML page: the answer, the figures, the maps, and the rows to label next."""
        from labelfold.app.report._page import write_report

        return write_report(self, path)


def _with_report(run: Callable[_Arguments, Results]) -> Callable[_Arguments, Comparison]:
    @wraps(run)
    def compare(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Comparison:
        return Comparison.of(run(*args, **kwargs))

    return compare


compare = _with_report(run_comparison)
