"""Discriminant methods: a few directions that separate labels, from a generalised eigenproblem."""

from labelfold.discriminant._cca import CCA
from labelfold.discriminant._hsl import HSL
from labelfold.discriminant._lda import LDA
from labelfold.discriminant._opls import OPLS
from labelfold.discriminant._ssdr import SSDR

__all__ = ["CCA", "HSL", "LDA", "OPLS", "SSDR"]
