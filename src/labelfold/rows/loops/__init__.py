"""Compiled loops: products of sparse rows, and the vector instructions they are made of."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
