"""Subspace regularisation: a subspace and a linear function on it, found one direction at a time."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
