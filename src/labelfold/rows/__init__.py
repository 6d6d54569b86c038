"""Data as rows: one protocol over every container that labelfold reads. See docs/architecture.md."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
