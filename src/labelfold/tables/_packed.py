"""Lists of many columns in saved models, as one text each."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np


class Packed:
    """An estimator whose lists of columns are saved as JSON texts.

    A model file describes every item of a list and every key of a dict by an entry of its own: 100,000 columns took
    several minutes to save, and take a second as texts.
    """

    # Attributes that are made of lists, dicts, text and numbers alone, or are arrays of names.
    _packed: ClassVar[tuple[str, ...]] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, those named packed."""
        state: Any = super().__getstate__()
        return {name: pack(value) if name in self._packed else value for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes, packed or not."""
        for name in self._packed:
            if name in state:
                state = state | {name: unpack(state[name])}
        super().__setstate__(state)  # type: ignore[misc]


def pack(value: Any) -> Any:
    """Return lists, dicts and arrays of names as a text.

    >>> pack(["a", "b"]), unpack(pack(np.array(["a"], dtype=object)))
    ('list ["a", "b"]', array(['a'], dtype=object))
    """
    if isinstance(value, np.ndarray):
        return f"array {json.dumps(value.tolist())}"
    return f"list {json.dumps(value, default=_plain)}" if isinstance(value, list | dict) else value


def _plain(number: Any) -> Any:
    """Return a number of NumPy as one of Python."""
    return number.item()


def unpack(value: Any) -> Any:
    """Return what `pack` was given."""
    if not isinstance(value, str):
        return value
    kind, _, text = value.partition(" ")
    found = json.loads(text)
    return np.array(found, dtype=object) if kind == "array" else found
