"""The base of estimators with ``set_callbacks``. scikit-learn's callbacks are experimental, and slow to import."""

from __future__ import annotations

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """In place of scikit-learn's base: there is no ``set_callbacks``."""


__all__ = ["CallbackSupportMixin"]
