"""labelfold: supervised and semi-supervised dimensionality reduction for many columns, many rows, few labels."""

from importlib.metadata import version

from labelfold.spectral.lda import LDA

__version__ = version("labelfold")

__all__ = ["LDA", "__version__"]
