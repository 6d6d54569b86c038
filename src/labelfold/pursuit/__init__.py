"""Projection pursuit: a subspace and a function on it, found one direction at a time."""
