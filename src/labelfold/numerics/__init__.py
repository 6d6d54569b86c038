"""Solvers that know no paper: they see rows and small dense matrices."""
