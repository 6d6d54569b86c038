"""Rows of results: what identifies a row, their files, their groups and means, and the published numbers."""

from __future__ import annotations

import csv
import hashlib
import platform
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import labelfold

PUBLISHED = Path(__file__).parent / "published.csv"
# The first six fields identify a row; a re-run computes only missing rows.
KEY = ("part", "dataset", "source", "method", "parameters", "seed")
FIELDS = (*KEY, "published", "ours", "relative", "seconds", "versions")
Row = dict[str, str]


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def words(**parameters: Any) -> str:
    """Return parameters as text for a row: ``ridge=0.01 n=500``."""
    return " ".join(f"{name}={_word(value)}" for name, value in parameters.items())


def parameter(row: Row, name: str, default: str | None = None) -> str:
    """Return one parameter of a row, as text."""
    found = dict(word.split("=", 1) for word in row["parameters"].split())
    return found[name] if default is None else found.get(name, default)


def row_key(part: str, data: Any, method: str, seed: int, **parameters: Any) -> dict[str, Any]:
    """Return the fields that identify a row; ``data`` has the name and the source of the set."""
    key = {"part": part, "dataset": data.name, "source": data.source, "method": method, "seed": seed}
    return key | {"parameters": words(**parameters)}


def field(row: Row, name: str) -> str:
    """Return a field of a row or, if there is no such field, a parameter."""
    return row[name] if name in FIELDS else parameter(row, name, "")


def grouped(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    """Return rows by a field or parameter, or by several, in the order of their first."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        key = tuple(field(row, name) for name in names)
        groups.setdefault(key if len(names) > 1 else key[0], []).append(row)
    return groups


def values(rows: Iterable[Row], name: str = "ours") -> np.ndarray:
    """Return a field of rows as numbers."""
    return np.array([float(row[name]) for row in rows])


def by_seed(rows: Iterable[Row]) -> dict[str, float]:
    """Return ours of each seed."""
    return {row["seed"]: float(row["ours"]) for row in rows}


def spread(rows: Iterable[Row] | np.ndarray, digits: int = 2) -> str:
    """Return mean and standard deviation of rows or numbers, as ``12.34 ± 0.56``; nothing of none."""
    found = rows if isinstance(rows, np.ndarray) else values(rows)
    return f"{found.mean():.{digits}f} ± {found.std():.{digits}f}" if len(found) else ""


def mean(found: Iterable[float]) -> float:
    """Return the mean of numbers; NaN of none."""
    numbers = list(found)
    return float(np.mean(numbers)) if numbers else np.nan


def standard_error(found: Sequence[float] | np.ndarray) -> float:
    """Return the standard error of the mean; NaN of fewer than two numbers."""
    return float(np.std(found, ddof=1) / np.sqrt(len(found))) if len(found) > 1 else np.nan


def number(value: float, digits: int = 1) -> str:
    """Return a number with a minus sign of its own, or a dash for NaN."""
    return "–" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def mean_and_error(found: Sequence[float] | np.ndarray, digits: int = 2) -> str:
    """Return the mean of differences, with its sign, and its standard error; nothing of fewer than two."""
    if len(found) < 2:
        return ""
    return f"{mean(found):+.{digits}f} ± {standard_error(found):.{digits}f}"


class Published(NamedTuple):
    """A number printed in a paper, with its spread, if any."""

    value: float
    spread: float | None


@cache
def published(paper: str, part: str) -> dict[tuple[str, str, str], Published]:
    """Return the numbers of a table of a paper by set, method and setting (text from `words`)."""
    with open(PUBLISHED, newline="") as file:
        return {
            (row["dataset"], row["method"], row["setting"]): Published(
                float(row["value"]), float(row["spread"]) if row["spread"] else None
            )
            for row in csv.DictReader(file)
            if (row["paper"], row["part"]) == (paper, part)
        }


@cache
def versions() -> str:
    """Return the versions of the results; ``code`` is a digest of the library's source."""
    source = Path(labelfold.__file__).parent
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(source.rglob("*.py")))).hexdigest()
    packages = ("labelfold", "numpy", "scipy", "scikit-learn")
    return " ".join(
        [
            f"python={platform.python_version()}",
            *(f"{name}={version(name)}" for name in packages),
            f"code={code[:8]}",
        ]
    )


# What may differ between the seeds of a packed row, and what stands between their values.
PACKED, BETWEEN = ("seed", "ours", "relative", "seconds", "versions"), ";"


class Results:
    """Rows in a CSV file, each written as soon as it is known.

    ``versions`` is the number of a line of versions.txt, beside the file. A line of the file may hold the rows of
    several seeds: its `PACKED` fields list a value for each seed, or have one for all; its other fields are the same.

    Parameters
    ----------
    path : path
        The file; existing rows are kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(",".join(FIELDS) + "\n")
        with open(self.path, newline="") as file:
            self.rows: list[Row] = [row for line in csv.DictReader(file) for row in _unpacked(line)]
        self._known = {self._key(row) for row in self.rows}

    def _key(self, row: dict[str, Any]) -> tuple[str, ...]:
        return tuple(str(row[name]) for name in KEY)

    def pack(self) -> None:
        """Write the file again, with the rows of all seeds in one line where they are alike."""
        alike = [name for name in FIELDS if name not in PACKED]
        aside = self.path.with_suffix(".part")
        with open(aside, "w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            for rows in grouped(self.rows, *alike).values():
                columns = {name: [row[name] for row in rows] for name in PACKED}
                if any(BETWEEN in text for texts in columns.values() for text in texts):
                    writer.writerows(rows)
                    continue
                lists = {n: v if n == "seed" or len(set(v)) > 1 else v[:1] for n, v in columns.items()}
                writer.writerow(rows[0] | {name: BETWEEN.join(found) for name, found in lists.items()})
        aside.replace(self.path)

    def has(self, **key: Any) -> bool:
        """Tell whether the row of this key exists."""
        return self._key(key) in self._known

    def add(self, **row: Any) -> None:
        """Write a row, unless it exists; fields that are not given are empty."""
        row = {name: _text(row.get(name, "")) for name in FIELDS} | {"versions": self._made_with}
        if self._key(row) in self._known:
            return
        with open(self.path, "a", newline="") as file:
            csv.DictWriter(file, FIELDS, lineterminator="\n").writerow(row)
        self.rows.append(row)
        self._known.add(self._key(row))

    def select(self, **where: Any) -> list[Row]:
        """Return the rows with these values of fields or of parameters."""
        wanted = {name: _word(value) for name, value in where.items()}
        rows = self.rows
        for name, value in wanted.items():
            rows = [row for row in rows if (row[name] if name in FIELDS else field(row, name)) == value]
        return rows

    @cached_property
    def _made_with(self) -> str:
        """The number of the line of versions.txt that has this program's versions, which is added if it is new."""
        known = self.versions_of()
        if versions() not in known:
            with open(self.path.with_name("versions.txt"), "a") as file:
                file.write(versions() + "\n")
        return str([*known, versions()].index(versions()) + 1)

    def made_with(self) -> list[str]:
        """Return the versions of the rows, in alphabetical order."""
        known = self.versions_of()
        return sorted({known[int(row["versions"]) - 1] for row in self.rows})

    def versions_of(self) -> list[str]:
        """Return the versions that the rows of this folder were made with, in the order of their numbers."""
        path = self.path.with_name("versions.txt")
        return path.read_text().splitlines() if path.is_file() else []


def _unpacked(line: Row) -> Iterator[Row]:
    """Yield the row of each seed of a line."""
    if BETWEEN not in line["seed"]:
        yield line
        return
    columns = {name: line[name].split(BETWEEN) for name in PACKED}
    for i in range(len(columns["seed"])):
        yield line | {name: found[i if len(found) > 1 else 0] for name, found in columns.items()}


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


def beside(results: Results, name: str) -> Results:
    """Return the rows of another file in the same folder."""
    return Results(results.path.with_name(f"{name}.csv"))
