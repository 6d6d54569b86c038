"""Compiled loops: products of sparse rows, the vector instructions they are made of, and products on a GPU."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
