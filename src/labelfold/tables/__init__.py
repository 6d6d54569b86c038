"""Converts tables of mixed columns to matrices of numbers."""

from labelfold.tables._recipe import Recipe

__all__ = ["Recipe"]
