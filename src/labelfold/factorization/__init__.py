"""Factorisations of the data, X = H B', in which labels influence the factors."""

from labelfold.factorization._cnmf import CNMF
from labelfold.factorization._drsvm import DRSVM
from labelfold.factorization._klnmf import KLNMF
from labelfold.factorization._lsdr import LSDR
from labelfold.factorization._nmf_alpha import NMFAlpha
from labelfold.factorization._nsdr import NSDR
from labelfold.factorization._ssnmf import SSNMF

__all__ = ["CNMF", "DRSVM", "KLNMF", "LSDR", "NSDR", "SSNMF", "NMFAlpha"]
