"""Spectral methods: a few directions from a generalised eigenproblem."""
