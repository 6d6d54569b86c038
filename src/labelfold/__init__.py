"""labelfold: supervised and semi-supervised dimensionality reduction for many columns, many rows and few labels."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labelfold import (
        app as app,
        base as base,
        discriminant as discriminant,
        factorization as factorization,
        features as features,
        labels as labels,
        model_selection as model_selection,
        numerics as numerics,
        rows as rows,
        semi_supervised as semi_supervised,
        subspace as subspace,
        tables as tables,
        utils as utils,
    )
    from labelfold.app.io import load_model as load, save_model as save
    from labelfold.app.label import label
    from labelfold.app.report import compare
    from labelfold.discriminant import CCA, HSL, LDA, OPLS, SSDR
    from labelfold.factorization import CNMF, DRSVM, KLNMF, LSDR, NSDR, SSNMF, NMFAlpha
    from labelfold.features import layout
    from labelfold.rows import as_rows
    from labelfold.semi_supervised import TSVM, LabelFold, LapRLS
    from labelfold.subspace import PCALS, KernelPCALS
    from labelfold.tables import Recipe, UnseenValuesWarning

try:
    __version__ = version("labelfold")
except PackageNotFoundError:  # not installed: src is on the path
    __version__ = "0+source"

# The module of each public name. A name is imported when it is first used, so that the command line starts quickly
# and the library does not need the packages of the app. The imports above are for editors. Saved models name
# estimators by these keys, so the keys never change.
_ESTIMATORS = {
    "CCA": "labelfold.discriminant:CCA",
    "CNMF": "labelfold.factorization:CNMF",
    "DRSVM": "labelfold.factorization:DRSVM",
    "HSL": "labelfold.discriminant:HSL",
    "KLNMF": "labelfold.factorization:KLNMF",
    "KernelPCALS": "labelfold.subspace:KernelPCALS",
    "LDA": "labelfold.discriminant:LDA",
    "LSDR": "labelfold.factorization:LSDR",
    "LabelFold": "labelfold.semi_supervised:LabelFold",
    "LapRLS": "labelfold.semi_supervised:LapRLS",
    "NMFAlpha": "labelfold.factorization:NMFAlpha",
    "NSDR": "labelfold.factorization:NSDR",
    "OPLS": "labelfold.discriminant:OPLS",
    "PCALS": "labelfold.subspace:PCALS",
    "Recipe": "labelfold.tables:Recipe",
    "SSDR": "labelfold.discriminant:SSDR",
    "SSNMF": "labelfold.factorization:SSNMF",
    "TSVM": "labelfold.semi_supervised:TSVM",
}
# Packages that a user may name, as in ``labelfold.discriminant``; each is imported when it is first used.
_PACKAGES = (
    "app",
    "base",
    "discriminant",
    "factorization",
    "features",
    "labels",
    "model_selection",
    "numerics",
    "rows",
    "semi_supervised",
    "subspace",
    "tables",
    "utils",
)
_PUBLIC = _ESTIMATORS | {
    "UnseenValuesWarning": "labelfold.tables:UnseenValuesWarning",
    "as_rows": "labelfold.rows:as_rows",
    "compare": "labelfold.app.report:compare",
    "label": "labelfold.app.label:label",
    "layout": "labelfold.features:layout",
    "load": "labelfold.app.io:load_model",
    "save": "labelfold.app.io:save_model",
}

__all__ = [
    "CCA",
    "CNMF",
    "DRSVM",
    "HSL",
    "KLNMF",
    "LDA",
    "LSDR",
    "NSDR",
    "OPLS",
    "PCALS",
    "SSDR",
    "SSNMF",
    "TSVM",
    "KernelPCALS",
    "LabelFold",
    "LapRLS",
    "NMFAlpha",
    "Recipe",
    "UnseenValuesWarning",
    "__version__",
    "as_rows",
    "compare",
    "label",
    "layout",
    "load",
    "save",
]


if not TYPE_CHECKING:  # otherwise a type checker would accept any name

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
