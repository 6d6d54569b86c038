"""What the experiments share: the command line, time and threads, and the page of a report."""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import threadpoolctl

from data_sets import has_data
from result_rows import Results

RESULTS = Path(__file__).parent / "results"


def result_folder(quick: bool, output: str | None) -> Path:
    """Return the folder of the results: beside the experiments only for a complete run on real data."""
    if output is not None:
        return Path(output)
    if quick or not has_data():
        return Path(tempfile.gettempdir()) / ("labelfold-quick" if quick else "labelfold-generated")
    return RESULTS


ABOUT = """Real data comes from the folder LABELFOLD_DATA (see DATA.md); where a file is not there, a set of its shape
is generated. Each number is written to {0}.csv as soon as it is known, and a re-run computes only missing ones.
The page {0}.md is written from the CSV file."""


def experiment(
    doc: str | None,
    name: str,
    plan: Any,
    quick: Any,
    parts: dict[str, Callable[[Results, Any], object]],
    write_report: Callable[[Report, Results], object],
    threads: int | None = 1,
    **options: Any,
) -> Callable[[Sequence[str] | None], Path]:
    """Return the command of an experiment: it computes the missing rows of NAME.csv, and writes and returns NAME.md.

    ``plan`` and ``quick`` are dataclasses, the sizes of a whole run and of a test. ``options`` are fields of theirs
    that the command line may set, each with its choices or its type. ``threads`` None leaves their number as it is.
    """
    parser = argparse.ArgumentParser(
        description=doc, epilog=ABOUT.format(name), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small pieces, in seconds")
    parser.add_argument("--output", help="folder of the results")
    parser.add_argument("--parts", nargs="*", choices=parts, default=list(parts), help="none: only the page")
    for option, takes in options.items():
        kind: dict[str, Any] = {"type": takes} if callable(takes) else {"choices": list(takes)}
        if isinstance(getattr(plan, option), tuple):
            kind["nargs"] = "+"
        parser.add_argument(f"--{option.replace('_', '-')}", **kind)

    def main(arguments: Sequence[str] | None = None) -> Path:
        given = vars(parser.parse_args(arguments))
        changed = {option: given[option] for option in options if given[option] is not None}
        changed = {option: tuple(v) if isinstance(v, list) else v for option, v in changed.items()}
        size = replace(quick if given["quick"] else plan, **changed)
        results = Results(result_folder(given["quick"], given["output"]) / f"{name}.csv")
        with warnings.catch_warnings(), pinned(threads) if threads else nullcontext():
            warnings.simplefilter("ignore")
            for part in given["parts"]:
                parts[part](results, size)
                print(f"{name}: {part} done", flush=True)
        if results.path.parent == RESULTS:
            for path in RESULTS.glob(f"{name}*.csv"):
                Results(path).pack()
        page = Report(results.path.with_suffix(".md"))
        write_report(page, results)
        page.write()
        print(f"wrote {page.path}")
        return page.path

    return main


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

    def table(self, header: str | Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add a table; the first column is text, the others are numbers. A header in words has bars between them."""
        header = header.split(" | ") if isinstance(header, str) else header
        lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
        lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
        self.parts.append("\n".join(lines))

    def grid(
        self, corner: str, names: Iterable[str], heads: Sequence[str], cell: Callable[[str, str], str]
    ) -> None:
        """Add a table of cell(name, head): names down, heads across."""
        self.table([corner, *heads], [[name, *(cell(name, head) for head in heads)] for name in names])

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
