"""The labelling page: which row to ask next, what the answers say, and a map that moves with them."""

from importlib.util import find_spec

_NEEDS = ("starlette", "uvicorn")


def missing() -> str:
    """Say what is not installed of what the page needs; "" where nothing is missing."""
    absent = [name for name in _NEEDS if find_spec(name) is None]
    return f"The labelling page needs {', '.join(absent)}: pip install 'labelfold[label]'." if absent else ""
