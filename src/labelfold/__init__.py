"""labelfold: supervised and semi-supervised dimensionality reduction: many columns, many rows, few labels."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

__version__ = version("labelfold")

# Where each public name lives. They are imported when first used, so that the command line starts at once and
# the library needs none of the packages that only the app does.
_PUBLIC = {
    "CCA": "labelfold.spectral.cca:CCA",
    "CNMF": "labelfold.factor.cnmf:CNMF",
    "DRSVM": "labelfold.factor.drsvm:DRSVM",
    "HSL": "labelfold.spectral.hsl:HSL",
    "KLNMF": "labelfold.factor.klnmf:KLNMF",
    "LDA": "labelfold.spectral.lda:LDA",
    "LapRLS": "labelfold.baselines.laprls:LapRLS",
    "KernelPCALS": "labelfold.pursuit.kernel:KernelPCALS",
    "LSDR": "labelfold.factor.lsdr:LSDR",
    "NSDR": "labelfold.factor.nsdr:NSDR",
    "NMFAlpha": "labelfold.factor.nmf_alpha:NMFAlpha",
    "OPLS": "labelfold.spectral.opls:OPLS",
    "PCALS": "labelfold.pursuit.pcals:PCALS",
    "SSDR": "labelfold.spectral.ssdr:SSDR",
    "SSNMF": "labelfold.factor.ssnmf:SSNMF",
    "TSVM": "labelfold.baselines.tsvm:TSVM",
    "as_rows": "labelfold.rows:as_rows",
    "compare": "labelfold.comparison:compare",
    "load": "labelfold.files:load_model",
    "save": "labelfold.files:save_model",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'labelfold' has no attribute {name!r}; it has {', '.join(__all__)}")
    module, _, attribute = _PUBLIC[name].partition(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
