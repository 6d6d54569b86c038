"""Factorisations of the data, X = H B', in which labels influence the factors."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
