"""Write docs/memory.md: the largest memory of every fit, transform, reader and command.

    python docs/memory.py

The formulas of an estimator are in its docstring, as `sentence` writes them; those of processes are in the table
below. tests/test_memory.py measures each as the resident memory of a separate process. It fails if a docstring, the
help of a command or the page differs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import labelfold

PAGE = Path(__file__).with_suffix(".md")

# Bytes for blocks of rows, threads and code that is compiled or loaded on first use, in addition to any formula.
OVERHEAD = 24 << 20

LETTERS = {
    "X": "bytes of X in memory, as float64",
    "n": "rows",
    "d": "columns",
    "l": "labelled rows",
    "k": "components",
    "c": "classes",
    "m": "rows that are transformed or predicted",
    "q": "rows of the kernel matrix: n if it fits `max_gram_bytes`, otherwise `n_landmarks`",
    "a": "anchors",
}


class Peak(NamedTuple):
    """The largest memory in bytes besides X and the result: formulas in the letters above."""

    fit: str
    use: str = "0"


def stated(name: str) -> Peak:
    """Return the formulas in the docstring of an estimator.

    >>> stated("SSDR")
    Peak(fit='64*d*d', use='0')
    """
    words = " ".join(getattr(labelfold, name).__doc__.split())
    found = re.search(
        r"Memory beside a dense X, at most: ``([^`]+)`` bytes in fit, (?:none|``([^`]+)``) in ", words
    )
    if found is None:
        raise ValueError(f"The docstring of {name} states no memory; state it as docs/memory.py does.")
    return Peak(found[1], found[2] or "0")


ESTIMATORS = {name: stated(name) for name in labelfold._ESTIMATORS if name != "Recipe"}


class Process(NamedTuple):
    """The largest memory of a whole process: a number of MB, and a multiple of F."""

    what: str
    megabytes: int
    times: int = 0
    more: str = ""


# By the name under which tests/peak_commands.py measures each.
PROCESSES = {
    "recipe": Process("`labelfold.Recipe`", 300, 8),
    "reading": Process(
        "reading CSV, Parquet, Arrow, JSON lines, Excel, NPZ, NPY, SVMlight, SQLite, DuckDB and AnnData",
        300,
        8,
    ),
    "rows": Process("`labelfold fit`, `predict`, `transform`", 300, 8, "and what the method takes"),
    "label": Process("`labelfold label`", 300, 8, "and what LabelFold takes"),
    "compare": Process("`labelfold compare`", 400, 12, "and what the largest of the methods takes"),
    "model": Process("`labelfold inspect`, reading a model", 300, 4),
    "shipped": Process("`labelfold demo`, `datasets`, `methods`", 600),
}
# The sentence in the docstring of `read_table`.
READER = "Memory of the process, at most: 300 MB and 8 times the size of the file, unpacked (docs/memory.md)."


def sentence(name: str) -> str:
    """Return the sentence about memory in the docstring of an estimator.

    >>> sentence("SSDR")
    'Memory beside a dense X, at most: ``64*d*d`` bytes in fit, none in transform, and 24 MB (docs/memory.md).'
    """
    peak = ESTIMATORS[name]
    use = "none" if peak.use == "0" else f"``{peak.use}``"
    return (
        f"Memory beside a dense X, at most: ``{peak.fit}`` bytes in fit, {use} in {verb(name)}, and "
        f"{OVERHEAD >> 20} MB (docs/memory.md)."
    )


def verb(name: str) -> str:
    """Return the method that a fitted estimator applies to rows."""
    return "transform" if hasattr(getattr(labelfold, name), "transform") else "predict"


def bound(formula: str, **letters: float) -> float:
    """Return the number of bytes that a formula allows.

    >>> bound("8*n*k", n=10, k=2) - OVERHEAD
    160.0
    """
    return float(eval(formula, {}, letters)) + OVERHEAD


def most(name: str, size: float) -> float:
    """Return the number of bytes that a process may use for a file of a given size.

    >>> most("model", 1e6) == 300 * 2**20 + 4e6
    True
    """
    return float((PROCESSES[name].megabytes << 20) + PROCESSES[name].times * size)


def help_of(name: str) -> str:
    """Return the last sentence of the help of a command.

    >>> help_of("shipped")
    'At most 600 MB of memory (docs/memory.md).'
    """
    one = PROCESSES[name]
    parts = [f"{one.megabytes} MB of memory"]
    if one.times:
        unpacked = "" if one.more else ", unpacked"
        parts.append(f"{'' if one.more else 'and '}{one.times} times the size of the file{unpacked}")
    return f"At most {', '.join([*parts, *([one.more] if one.more else [])])} (docs/memory.md)."


def _written(one: Process) -> str:
    of_file = f" + {one.times} F" if one.times else ""
    return f"{one.megabytes} MB{of_file}{f', {one.more}' if one.more else ''}"


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# Memory",
        "",
        "Upper bounds of the memory in bytes, without X and the result, for a dense X in memory. Each formula has a "
        f"further {OVERHEAD >> 20} MB for",
        "blocks of rows, threads and code that is loaded on first use. Rows from a file or from blocks are read in",
        "blocks, so X itself is not in memory, except for methods that load rows (LapRLS, TSVM: within",
        "`max_gram_bytes`). A sparse X counts with 12 bytes for each stored entry.",
        "",
        "This page is written by `python docs/memory.py`; `tests/test_memory.py` measures each line as the resident "
        "memory of a process.",
        "",
        *table(["letter", "what it is"], [[f"`{x}`", what] for x, what in LETTERS.items()]),
        "",
        *table(
            ["estimator", "fit", "transform or predict"],
            [[f"`{name}`", f"`{peak.fit}`", f"`{peak.use}`"] for name, peak in ESTIMATORS.items()],
        ),
        "",
        "Files and commands: the memory of the whole process, for a file of F bytes (unpacked; for Parquet, the "
        "memory of its",
        "columns). Files of more than 512 MB, and databases, are read in blocks and take less; `predict` and",
        "`transform` then never hold the matrix.",
        "",
        *table(["what", "at most"], [[one.what, _written(one)] for one in PROCESSES.values()]),
        "",
        "Rows of files in Python (`labelfold.rows.read_rows`, or a path as X): decoding a Parquet, CSV or svmlight",
        "file of any size takes at most 300 MB, and a pass over its rows, or those of a .npy file, a few blocks of",
        "512 KB (sparse: 5 MB). The temporary file takes disk space ([sources](sources.md)). Measured by",
        "`python benchmarks/streaming.py`, also within a third of the file (`--limit-memory`).",
    ]
    return "\n".join(lines) + "\n"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
