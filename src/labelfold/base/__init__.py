"""What all estimators share: reading X and y, decisions from scores, projection, the loop of iterative methods."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
