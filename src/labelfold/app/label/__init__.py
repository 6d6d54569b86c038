"""The labelling page: a local server, the choice of questions, refits, and a map."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
