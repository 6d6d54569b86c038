"""Converts tables of mixed columns to matrices of numbers."""

from labelfold.tables._recipe import Recipe
from labelfold.tables._unseen import UnseenValuesWarning

__all__ = ["Recipe", "UnseenValuesWarning"]
