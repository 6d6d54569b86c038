"""Helpers of the experiments: their data, their rows of results, and reports from those rows."""

from __future__ import annotations

import csv
import hashlib
import os
import platform
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import threadpoolctl
from scipy import sparse

import labelfold

RESULTS = Path(__file__).parent / "results"
PUBLISHED = Path(__file__).parent / "published.csv"

# The first six fields identify a row; a re-run computes only missing rows.
KEY = ("part", "dataset", "source", "method", "parameters", "seed")
FIELDS = (*KEY, "published", "ours", "relative", "seconds", "versions")


class Data(NamedTuple):
    """A data set, and whether it is the real one.

    Attributes
    ----------
    name : str
        Name of the set.
    X : ndarray or csr_array of shape (n, d)
        Rows, float64.
    y : ndarray of shape (n,) or (n, c)
        Classes, or 0/1 label columns.
    source : str
        "real" or "generated".
    """

    name: str
    X: Any
    y: np.ndarray
    source: str


def has_data() -> bool:
    """Tell whether the environment names a folder of real data."""
    return bool(os.environ.get("LABELFOLD_DATA"))


def load(name: str, generate: Callable[[np.random.Generator], tuple[Any, np.ndarray]]) -> Data:
    """Return NAME.npz of the folder LABELFOLD_DATA if it exists, else ``generate(rng)``, data of its shape.

    The file holds X, or X_data, X_indices, X_indptr and X_shape; and y (classes) or Y (label columns).
    """
    path = Path(os.environ.get("LABELFOLD_DATA", "")) / f"{name}.npz"
    if not has_data() or not path.is_file():
        X, y = generate(rng_of(name))
        return Data(name, X, y, "generated")
    with np.load(path) as file:
        if "X" in file:
            X = file["X"].astype(np.float64)
        else:
            parts = file["X_data"].astype(np.float64), file["X_indices"], file["X_indptr"]
            X = sparse.csr_array(parts, shape=tuple(file["X_shape"]))
        return Data(name, X, file["y"] if "y" in file else file["Y"], "real")


def rng_of(*words: Any) -> np.random.Generator:
    """Return a random generator seeded by words, the same in every process."""
    return np.random.default_rng(zlib.crc32(" ".join(map(str, words)).encode()))


def dense_classes(rng: np.random.Generator, n: int, d: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian classes with different means, in correlated columns."""
    y = np.arange(n) % c
    X = 0.5 * rng.standard_normal((c, d))[y] + rng.standard_normal((n, d))
    return X @ (np.eye(d) + 0.3 * rng.standard_normal((d, d)) / np.sqrt(d)), y


def dense_labels(rng: np.random.Generator, n: int, d: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian rows and label columns, each the sign of a noisy direction; about a quarter of them are 1."""
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal((d, c)) / np.sqrt(d) + 0.5 * rng.standard_normal((n, c))
    return X, (scores > np.quantile(scores, 0.75)).astype(np.uint8)


def sparse_text(
    rng: np.random.Generator, n: int, d: int, c: int, length: int, *, labels: bool = False
) -> tuple[sparse.csr_array, np.ndarray]:
    """Return unit rows of about ``length`` words of Zipf-like frequency, some typical for the topics of a row."""
    frequency = 1 / (np.arange(d) + 20.0)
    lean = np.exp(0.7 * rng.standard_normal((c, d)))
    topic = np.arange(n) % c
    words = np.empty((n, length), dtype=np.int64)
    for j in range(c):
        p = frequency * lean[j]
        words[topic == j] = rng.choice(d, size=(int((topic == j).sum()), length), p=p / p.sum())
    where = np.repeat(np.arange(n), length).astype(np.int32), words.ravel().astype(np.int32)
    X = sparse.csr_array((np.ones(n * length), where), shape=(n, d))
    X.sum_duplicates()
    X.data *= np.log(1 / frequency)[X.indices]
    X.data /= np.repeat(np.sqrt(X.multiply(X).sum(axis=1)), np.diff(X.indptr))
    if not labels:
        return X, topic
    Y = np.eye(c, dtype=np.uint8)[topic]
    Y[rng.random((n, c)) < 2 / c] = 1
    return X, Y


def words(**parameters: Any) -> str:
    """Return parameters as text for a row: ``ridge=0.01 n=500``."""
    return " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in parameters.items()
    )


def parameter(row: dict[str, str], name: str) -> str:
    """Return one parameter of a row, as text."""
    return dict(word.split("=", 1) for word in row["parameters"].split())[name]


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


class Results:
    """Rows in a CSV file, each written as soon as it is known.

    Parameters
    ----------
    path : path
        The file; existing rows are kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.rows: list[dict[str, str]] = []
        if self.path.is_file():
            with open(self.path, newline="") as file:
                self.rows = list(csv.DictReader(file))
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(FIELDS)
        self._known = {tuple(row[name] for name in KEY) for row in self.rows}

    def has(self, **key: Any) -> bool:
        """Tell whether the row of this key exists."""
        return tuple(str(key[name]) for name in KEY) in self._known

    def add(self, **row: Any) -> None:
        """Write a row; fields that are not given are empty."""
        row = {name: _text(row.get(name, "")) for name in FIELDS} | {"versions": versions()}
        with open(self.path, "a", newline="") as file:
            csv.DictWriter(file, FIELDS, lineterminator="\n").writerow(row)
        self.rows.append(row)
        self._known.add(tuple(row[name] for name in KEY))

    def select(self, **where: Any) -> list[dict[str, str]]:
        """Return the rows with these values."""
        return [row for row in self.rows if all(row[name] == str(value) for name, value in where.items())]


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


def result_folder(quick: bool, output: str | None) -> Path:
    """Return the folder of the results: beside the experiments only for a complete run on real data."""
    if output is not None:
        return Path(output)
    if quick or not has_data():
        return Path(tempfile.gettempdir()) / ("labelfold-quick" if quick else "labelfold-generated")
    return RESULTS


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Limit the library, BLAS and OpenMP to so many threads each."""
    limit = {"LABELFOLD_NUM_THREADS": str(threads)}
    with mock.patch.dict(os.environ, limit), threadpoolctl.threadpool_limits(threads):
        yield


def seconds(f: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time of f, which depends less on other processes than wall-clock time, and its value."""
    start = time.process_time()
    value = f()
    return time.process_time() - start, value


def slope(x: Sequence[float], t: Sequence[float]) -> float:
    """Return the slope of log t against log x."""
    return float(np.polyfit(np.log(x), np.log(t), 1)[0])


class Report:
    """A page of Markdown, with figures beside it.

    Parameters
    ----------
    path : path
        The page.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.parts: list[str] = []

    def text(self, *paragraphs: str) -> None:
        """Add paragraphs or headings."""
        self.parts.extend(paragraphs)

    def table(self, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add a table; the first column is text, the others are numbers."""
        lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
        lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
        self.parts.append("\n".join(lines))

    def figure(self, name: str, caption: str, draw: Callable[[Any], Any]) -> None:
        """Add the figure that ``draw(pyplot)`` returns as NAME.png, or a sentence on why it is missing."""
        try:
            import matplotlib
        except ImportError:
            self.text(f"*({caption} Not drawn: matplotlib is not installed.)*")
            return
        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure = draw(pyplot)
        figure.savefig(self.path.parent / f"{name}.png", dpi=110, metadata={"Software": None})
        pyplot.close(figure)
        self.text(f"![{caption}]({name}.png)", f"*{caption}*")

    def write(self) -> None:
        """Write the page."""
        self.path.write_text("\n\n".join(self.parts) + "\n")
