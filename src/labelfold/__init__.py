"""labelfold: supervised and semi-supervised dimensionality reduction for many columns, many rows and few labels."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

try:
    __version__ = version("labelfold")
except PackageNotFoundError:  # not installed: src is on the path
    __version__ = "0+source"

# The packages of methods.
_FAMILIES = ("discriminant", "subspace", "semi_supervised", "factorization")

# The stub beside this file lists the public names, and editors read it. A name is imported when it is first used, so
# that the command line starts quickly and the library does not need the packages of the app.
_IMPORTS = [
    (node.module, alias)
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
]
# Packages that a user may name, as in ``labelfold.discriminant``.
_PACKAGES = tuple(alias.name for module, alias in _IMPORTS if module is None)
# The place of each public name.
_PUBLIC = {
    alias.asname or alias.name: f"labelfold.{module}:{alias.name}" for module, alias in _IMPORTS if module
}
# Saved models name estimators by these keys, so the keys never change.
_ESTIMATORS = {
    name: place
    for name, place in sorted(_PUBLIC.items())
    if name == "Recipe" or place.startswith(tuple(f"labelfold.{family}:" for family in _FAMILIES))
}

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"labelfold.{name}")  # which sets the attribute too
    if name not in _PUBLIC:
        raise AttributeError(f"module 'labelfold' has no attribute {name!r}; it has {', '.join(__all__)}")
    module, _, attribute = _PUBLIC[name].partition(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_PACKAGES]
