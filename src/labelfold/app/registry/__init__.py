"""The registry: every method that the command line and `compare` can make."""

from labelfold.app.registry._method import Method
from labelfold.app.registry._methods import METHODS, available_methods, get_method, install

__all__ = ["METHODS", "Method", "available_methods", "get_method", "install"]
