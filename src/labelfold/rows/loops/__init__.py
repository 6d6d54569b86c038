"""Compiled loops over the non-zeros of sparse rows, each beside a slower twin for dense rows and devices."""
