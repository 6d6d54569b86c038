"""The report of a comparison: one HTML page that needs no network and no other file."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
