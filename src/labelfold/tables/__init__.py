"""Tables as people have them: what each column is, and how it becomes numbers."""

from labelfold.tables._recipe import Recipe

__all__ = ["Recipe"]
