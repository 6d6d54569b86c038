"""Helpers of the experiments: their data, their rows of results, and reports from those rows."""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import platform
import signal
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache, cached_property
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
Row = dict[str, str]


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
        return Data(name, rows_of(file), file["y"] if "y" in file else file["Y"], "real")


def rows_of(file: Any) -> Any:
    """Return the rows of a file of `load`."""
    if "X" in file:
        return file["X"].astype(np.float64)
    parts = file["X_data"].astype(np.float64), file["X_indices"], file["X_indptr"]
    return sparse.csr_array(parts, shape=tuple(file["X_shape"]))


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


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def masked(y: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return y with -1, or rows of NaN where rows have several labels, for all rows but the known ones."""
    few = np.full(len(y), -1) if y.ndim == 1 else np.full(y.shape, np.nan)
    few[known] = y[known]
    return few


def several_classes(rng: np.random.Generator, y: np.ndarray, count: int) -> np.ndarray:
    """Draw ``count`` rows, again and again until they have two classes."""
    while len(np.unique(y[(known := rng.permutation(len(y))[:count])])) < 2:
        pass
    return known


def accuracy(truth: np.ndarray, found: np.ndarray, asked: np.ndarray) -> float:
    """Return how many of the rows asked for are right, in per cent."""
    return 100 * float(np.mean(found[asked] == truth[asked]))


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


def mean_and_error(found: Sequence[float] | np.ndarray, digits: int = 2) -> str:
    """Return the mean of differences, with its sign, and its standard error; nothing of fewer than two."""
    gaps = np.asarray(found)
    if len(gaps) < 2:
        return ""
    return f"{gaps.mean():+.{digits}f} ± {gaps.std(ddof=1) / np.sqrt(len(gaps)):.{digits}f}"


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
PACKED, BETWEEN = ("seed", "ours", "relative", "seconds"), ";"


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
        with open(self.path, "w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            for rows in grouped(self.rows, *alike).values():
                columns = {name: [row[name] for row in rows] for name in PACKED}
                lists = {n: v if n == "seed" or len(set(v)) > 1 else v[:1] for n, v in columns.items()}
                writer.writerow(rows[0] | {name: BETWEEN.join(found) for name, found in lists.items()})

    def has(self, **key: Any) -> bool:
        """Tell whether the row of this key exists."""
        return self._key(key) in self._known

    def add(self, **row: Any) -> None:
        """Write a row; fields that are not given are empty."""
        row = {name: _text(row.get(name, "")) for name in FIELDS} | {"versions": self._made_with}
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
    columns = {name: line[name].split(BETWEEN) for name in PACKED}
    for i in range(len(columns["seed"])):
        yield line | {name: found[i if len(found) > 1 else 0] for name, found in columns.items()}


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


def result_folder(quick: bool, output: str | None) -> Path:
    """Return the folder of the results: beside the experiments only for a complete run on real data."""
    if output is not None:
        return Path(output)
    if quick or not has_data():
        return Path(tempfile.gettempdir()) / ("labelfold-quick" if quick else "labelfold-generated")
    return RESULTS


def beside(results: Results, name: str) -> Results:
    """Return the rows of another file in the same folder."""
    return Results(results.path.with_name(f"{name}.csv"))


def experiment(
    doc: str | None,
    name: str,
    plan: Any,
    quick: Any,
    parts: dict[str, Callable[[Results, Any], object]],
    write_report: Callable[[Results, Path], object],
    arguments: Sequence[str] | None,
    threads: int | None = 1,
    **options: Any,
) -> Path:
    """Compute the missing rows of NAME.csv by the command line, write NAME.md, and return its path.

    ``plan`` and ``quick`` are dataclasses, the sizes of a whole run and of a test. ``options`` are fields of theirs
    that the command line may set, each with its choices or its type. ``threads`` None leaves their number as it is.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small pieces, in seconds")
    parser.add_argument("--output", help="folder of the results")
    parser.add_argument("--parts", nargs="*", choices=parts, default=list(parts), help="none: only the page")
    for option, takes in options.items():
        kind: dict[str, Any] = {"type": takes} if callable(takes) else {"choices": list(takes)}
        if isinstance(getattr(plan, option), tuple):
            kind["nargs"] = "+"
        parser.add_argument(f"--{option.replace('_', '-')}", **kind)
    given = vars(parser.parse_args(arguments))
    plan = quick if given["quick"] else plan
    changed = {option: given[option] for option in options if given[option] is not None}
    plan = replace(plan, **{k: tuple(v) if isinstance(v, list) else v for k, v in changed.items()})
    results = Results(result_folder(given["quick"], given["output"]) / f"{name}.csv")
    with warnings.catch_warnings(), pinned(threads) if threads else nullcontext():
        warnings.simplefilter("ignore")
        for part in given["parts"]:
            parts[part](results, plan)
            print(f"{name}: {part} done", flush=True)
    if results.path.parent == RESULTS:
        for path in RESULTS.glob(f"{name}*.csv"):
            Results(path).pack()
    page = results.path.with_suffix(".md")
    write_report(results, page)
    print(f"wrote {page}")
    return page


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Limit the library, BLAS and OpenMP to so many threads each."""
    limit = {"LABELFOLD_NUM_THREADS": str(threads)}
    with mock.patch.dict(os.environ, limit), threadpoolctl.threadpool_limits(threads):
        yield


@contextmanager
def at_most(limit: float) -> Iterator[None]:
    """Raise TimeoutError after ``limit`` seconds of processor time; compiled code ends first."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit, 1.0)  # repeated, since a compiler callback may swallow it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


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
