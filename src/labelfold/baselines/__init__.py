"""Baselines that no well-kept library has: methods built on the smoothness of a neighbour graph."""
