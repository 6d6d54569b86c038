"""The labelling page: a local server, the choice of questions, refits, and a map."""

from importlib.util import find_spec

_NEEDS = ("starlette", "uvicorn")


def missing() -> str:
    """Return a sentence about missing packages of the page; "" if all are installed."""
    absent = [name for name in _NEEDS if find_spec(name) is None]
    return f"The labelling page needs {', '.join(absent)}: pip install 'labelfold[label]'." if absent else ""
