"""The commands datasets and demo, on data sets of scikit-learn."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table as Grid

from labelfold.app.commands import _options as options
from labelfold.app.commands._compare import Folder, _compare
from labelfold.app.commands._console import console, say
from labelfold.app.commands._options import MEMORY, app
from labelfold.app.io import FileProblem, did_you_mean, pd, read_table, refusing, writable_folder, write_table


@dataclass(frozen=True)
class Shipped:
    """A data set: its name, its loader in ``sklearn.datasets``, and a description."""

    name: str
    loader: str
    target: str
    rows: int
    columns: int
    classes: int
    what: str


SHIPPED = {
    entry.name: entry
    for entry in (
        Shipped("digits", "load_digits", "digit", 1797, 64, 10, "handwritten digits, 8 x 8 pixels"),
        Shipped(
            "breast-cancer", "load_breast_cancer", "diagnosis", 569, 30, 2, "cell nuclei of breast masses"
        ),
        Shipped("wine", "load_wine", "cultivar", 178, 13, 3, "chemical analysis of wines"),
        Shipped("iris", "load_iris", "species", 150, 4, 3, "measurements of irises"),
    )
}


def shipped_truth(name: str) -> np.ndarray:
    """Return the labels of a data set, digits as numbers and classes by name."""
    return _load(name)[2]


def write_shipped(name: str, path: str | Path | None, labels: int | None = None, seed: int = 0) -> Path:
    """Write a data set as a table with row names and a target, in which some labels are kept.

    Parameters
    ----------
    name : str
        Name of the data set.
    path : path, optional
        The .csv, .tsv or .parquet file; ``name.csv`` by default.
    labels : int, optional
        Number of labels to keep, at least one of each class; all by default.
    seed : int, default=0
        Seed of the draw.

    Returns
    -------
    Path
        The file written.
    """
    if name not in SHIPPED:
        raise FileProblem(
            f"There is no data set {name!r}{did_you_mean(name, SHIPPED)}; there are {', '.join(SHIPPED)}."
        )
    X, names, y = _load(name)
    y = y.astype(object)
    if labels is not None:
        classes, n = SHIPPED[name].classes, len(y)
        if not classes <= labels <= n:
            raise FileProblem(
                f"--labels is from {classes}, one a class, to {n}, all there are, not {labels}."
            )
        order = np.random.default_rng(seed).permutation(n)
        # one label of each class first, then others in random order
        first = np.unique(y[order].astype(str), return_index=True)[1]
        kept = np.concatenate([first, np.setdiff1d(np.arange(n), first)])[:labels]
        hidden = np.ones(n, dtype=bool)
        hidden[order[kept]] = False
        y[hidden] = None
    rows = pd.DataFrame({"row": [f"{name}-{i}" for i in range(1, len(y) + 1)]})
    path = Path(f"{name}.csv") if path is None else path
    return write_table(path, X, names, ids=rows, extra={SHIPPED[name].target: y})


def _load(name: str) -> tuple[np.ndarray, list[str], np.ndarray]:
    from sklearn import datasets

    bunch = getattr(datasets, SHIPPED[name].loader)()
    y = bunch.target if name == "digits" else np.asarray(bunch.target_names)[bunch.target]
    return bunch.data, [str(n) for n in bunch.feature_names], y


_DEMO_LABELS = 100

_DEMO: dict[str, Any] = {"time_limit": 60}


@app.command(epilog=MEMORY["shipped"])
def datasets(
    name: Annotated[str | None, typer.Argument(help="The set to write. Default: list all.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv, .tsv or .parquet file to write.")
    ] = None,
    labels: Annotated[
        int | None, typer.Option("--labels", help="Number of labels to keep. Default: all.")
    ] = None,
    seed: options.Seed = 0,
) -> None:
    """List the data sets that come with scikit-learn, or write one as a table to try things on."""
    if name is None:
        grid = Grid(box=None, pad_edge=False)
        for heading in ("name", "rows", "columns", "classes", "what it is"):
            grid.add_column(heading, justify="right" if heading in ("rows", "columns", "classes") else "left")
        for entry in SHIPPED.values():
            grid.add_row(entry.name, f"{entry.rows:,}", str(entry.columns), str(entry.classes), entry.what)
        console().print(grid)
        return
    with refusing():
        path = write_shipped(name, output, labels, seed)
        entry = SHIPPED[name]
    kept = entry.rows if labels is None else labels
    say(
        f"{entry.what}: {entry.rows:,} rows × {entry.columns} columns, {kept:,} rows labelled in {entry.classes} "
        f"classes, written to {path}.\nlabelfold compare {shlex.quote(str(path))} --target {entry.target} --id row"
    )


@app.command(epilog=MEMORY["shipped"])
def demo(context: typer.Context, output: Folder = Path("demo"), seed: options.Seed = 0) -> None:
    """Compare the methods on scikit-learn's handwritten digits, most of their labels hidden."""
    writable_folder(output)
    entry = SHIPPED["digits"]
    path = write_shipped("digits", output / "digits.csv", _DEMO_LABELS, seed)
    command = (
        f"labelfold compare {path} --target {entry.target} --id row --time-limit {_DEMO['time_limit']} --save "
        f"--output {output}"
    )
    say(
        f"Data: scikit-learn's handwritten digits, {entry.rows:,} images × {entry.columns} pixels, "
        f"{_DEMO_LABELS} of them labelled.\nThis is: {command}"
    )
    table = read_table(path, target=entry.target, id_columns=["row"])
    _compare(
        table,
        -1,
        output,
        True,
        command,
        random_state=seed,
        name="the handwritten digits",
        began=context.obj,
        **_DEMO,
    )
    truth = shipped_truth("digits")
    assert table.y is not None
    hidden = np.array([label is None for label in table.y])
    said: Any = read_table(output / "predictions.csv", target="predicted", id_columns=["row", "label"]).y
    share = np.mean(said[hidden] == truth[hidden])
    say(f"\nOf the {hidden.sum():,} images whose label was hidden, the model names {share:.1%} rightly.")
