"""Write what follows from the list of estimators: public names, cases for mypy, and the table of methods.

    python docs/methods.py

The list is the stubs of the families, `__init__.pyi`. The names go to `labelfold/__init__.pyi`. A row of the table in
the README is the first sentence of a docstring, its reference, and what the record in `app/registry/` says that the
method learns from. tests/test_types.py fails if a file differs.
"""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

from sklearn.base import BaseEstimator

import labelfold
from labelfold.app.registry import ranked_methods

ROOT = Path(__file__).parents[1]
STUB = Path(labelfold.__file__).with_suffix(".pyi")
TYPING_CASES = ROOT / "tests" / "typing_cases.py"
README = ROOT / "README.md"


def estimators(family: str) -> list[str]:
    """Return the estimators in the door of a family.

    >>> estimators("subspace")
    ['KernelPCALS', 'PCALS']
    """
    door = import_module(f"labelfold.{family}")
    found = [(name, getattr(door, name)) for name in door.__all__]
    return sorted(n for n, what in found if isinstance(what, type) and issubclass(what, BaseEstimator))


def stub() -> str:
    """Return the text of the package's stub: the names from the families anew, and the others as they are."""
    imports = {
        f".{node.module or ''}": [(alias.name, alias.asname or alias.name) for alias in node.names]
        for node in ast.parse(STUB.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
    }
    imports |= {f".{family}": [(name, name) for name in estimators(family)] for family in labelfold._FAMILIES}
    public = [name for module, names in imports.items() if module != "." for _, name in names]
    lines = ["# Names from the families are written by `make docs`, from their stubs."]
    for module in sorted(imports):
        names = sorted(imports[module], key=_rank)
        lines += [f"from {module} import (", *(f"    {name} as {alias}," for name, alias in names), ")"]
    lines += ["", "__version__: str", "_ESTIMATORS: dict[str, str]", "", "__all__ = ["]
    lines += [
        f'    "{name}",' for name, _ in sorted([(name, name) for name in [*public, "__version__"]], key=_rank)
    ]
    return "\n".join([*lines, "]"]) + "\n"


def _rank(name: tuple[str, str]) -> tuple[bool, bool, str]:
    """Return the key of ruff's order of names: constants, classes, functions."""
    return not name[0].isupper(), not name[0][0].isupper(), name[0]


def typing_cases() -> str:
    """Return the text of the typing cases, in which every estimator refuses a wrong keyword."""
    cases = [
        f"    labelfold.{name}(unknown=1)  # type: ignore[call-arg]"
        for family in labelfold._FAMILIES
        for name in estimators(family)
    ]
    return replaced(TYPING_CASES, "# Written by `make docs`.", "# End.", cases)


def readme() -> str:
    """Return the text of the README with the table of methods, in the order in which `compare` runs them."""
    # From the doors of the families: `labelfold` has read its own names before a new method was among them.
    public = {
        name.lower(): getattr(import_module(f"labelfold.{family}"), name)
        for family in labelfold._FAMILIES
        for name in estimators(family)
    }
    lines = ["| method | what it does | learns from |", "|---|---|---|"]
    for method in ranked_methods():
        estimator = public.get(method.name.replace("-", ""))
        if estimator is not None:
            doc = estimator.__doc__
            what = " ".join(doc.split("\n\n")[0].split()).rstrip(".")
            rows = "labelled rows" if method.labels == "supervised" else "all rows"
            paper = "" if method.paper.startswith("labelfold's own") else f" ({cited(doc)})"
            lines.append(f"| `{estimator.__name__}` | {what}{paper} | {rows} |")
    assert len(lines) == len(public) + 2, "a public estimator has no record in app/registry/ with its name"
    return replaced(README, "<!-- Written by `make docs`. -->", "<!-- End. -->", lines)


def cited(doc: str) -> str:
    """Return the first reference of a docstring as authors and year.

    >>> cited(labelfold.KLNMF.__doc__)
    'Lee & Seung 1999'
    """
    reference = " ".join(re.search(r"References\n\s+-+\n(.*?)(?:\n\s*\n|\Z)", doc, re.S)[1].split())
    authors = re.match(r"(?:(?:[A-Z]\.[ -]?)+[A-Z][\w'-]+,? ?)+", reference)[0]
    names = re.findall(r"[A-Z][\w'-]+", authors)
    year = re.findall(r"\b(?:19|20)\d\d\b", reference)
    return " ".join([f"{names[0]} et al." if len(names) > 2 else " & ".join(names), *year[-1:]])


def replaced(path: Path, first: str, last: str, lines: list[str]) -> str:
    """Return the text of a file with other lines between the line that ends with ``first`` and that with ``last``."""
    text = path.read_text(encoding="utf-8").splitlines()
    i, j = (next(i for i, line in enumerate(text) if line.endswith(mark)) for mark in (first, last))
    return "\n".join([*text[: i + 1], *lines, *text[j:]]) + "\n"


# What the script writes, and the text of each.
PAGES = {STUB: stub, TYPING_CASES: typing_cases, README: readme}

if __name__ == "__main__":
    for page, text in PAGES.items():
        page.write_text(text(), encoding="utf-8")
