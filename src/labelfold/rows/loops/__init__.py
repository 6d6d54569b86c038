"""Compiled products of sparse rows, and the steps in vector instructions they are made of."""
