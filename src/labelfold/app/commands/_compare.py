"""The commands of the main job: compare, and what it can be tried on."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table as Grid

from labelfold.app.commands._apply import refuse_destination
from labelfold.app.commands._console import (
    MOST_METHODS,
    accuracy_grid,
    console,
    read_labelled,
    recipe_for,
    row_names,
    split_commas,
    whole_numbers,
)
from labelfold.app.commands._deliver import deliver, deliver_alone, name_files, refuse_inputs, refuse_places
from labelfold.app.commands._options import (
    MEMORY,
    GivenRows,
    ImageShape,
    LabelFree,
    SafeCsv,
    Scale,
    Seed,
    Task,
    ToTable,
    app,
    sides,
    takes_rows,
)
from labelfold.app.io._addresses import hidden
from labelfold.app.io._problems import (
    Refusal,
    count,
    printable,
    refusing,
    writable_folder,
)
from labelfold.app.io._sources import find

Folder = Annotated[Path, typer.Option("--output", "-o", help="The folder for report and results.")]
Limit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        help="Seconds for everything. Runs end with what there is, in time for the last fit and the report; "
        "LabelFold, where it comes first, is not cut short. About 50, or more for a large table, unless given.",
    ),
]
# The share of the time limit after which no run is going on: the last fit, the map and the report take time too.
_RUNS_END = 0.75
_DEMO_LABELS = 100
_DEMO: dict[str, Any] = {"time_limit": 60}


@app.command("compare", epilog=MEMORY["compare"])
@takes_rows
def compare_command(
    context: typer.Context,
    rows: GivenRows,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods", "-m", help="Names, with commas between; all that suit the data unless given."
        ),
    ] = None,
    budgets: Annotated[
        list[str] | None,
        typer.Option("--budgets", "-b", help="Smaller numbers of labels, with commas between, for a curve."),
    ] = None,
    components: Annotated[
        list[str] | None,
        typer.Option("-k", "--components", help="Sizes of the embedding, with commas between."),
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", "-r", help="How often the folds are drawn.")] = 5,
    time_limit: Limit = None,
    save: Annotated[
        bool, typer.Option("--save", help="Also write the best model, its embedding and its predictions.")
    ] = False,
    image_shape: ImageShape = None,
    seed: Seed = 0,
    output: Folder = Path("labelfold-compare"),
    label_free: LabelFree = None,
    scale: Scale = None,
    task: Task = "auto",
    to_table: ToTable = None,
    safe_csv: SafeCsv = False,
) -> None:
    """Find the best method for a table, and what accuracy (R² for numbers) to expect of it: a table and a report.

    Each result is on disk when it is made: the same command goes on where it was stopped or killed.
    """
    from labelfold.app.compare._runner import MOST_REPEATS
    from labelfold.app.registry._methods import get_method

    with refusing():
        names = split_commas(methods)
        chosen = None if names is None else [get_method(name) for name in names]
        sizes, counts = whole_numbers("-k", components), whole_numbers("--budgets", budgets)
        if not 1 <= repeats <= MOST_REPEATS:
            raise Refusal(f"--repeats is at least 1 and at most {MOST_REPEATS:,}, not {repeats}.")
        if time_limit is not None and not time_limit > 0:
            raise Refusal(f"--time-limit is a number of seconds above 0, not {time_limit:g}.")
        shape = sides("--image-shape", image_shape)
        where = find(rows.data, rows.reading)[1]
        writable_folder(output)
        refuse_inputs(output, where, rows.labels)
        if to_table is not None and not save:
            raise Refusal("--to-table writes the predictions that --save makes; give that too.")
        refuse_destination(where, None, to_table)
        table, mark, _ = read_labelled(rows, label_free, task)
        recipe = recipe_for(table, rows.roles)
    settings: dict[str, Any] = {
        "methods": chosen,
        "budgets": counts,
        "components": sizes,
        "repeats": repeats,
        "task": task,
        "scale": "auto" if scale is None else scale,
    }
    _compare(
        table,
        mark,
        output,
        save,
        safe_csv=safe_csv,
        to_table=to_table,
        recipe=recipe,
        time_limit=time_limit,
        began=context.obj,
        image_shape=shape or table.image_shape,
        random_state=seed,
        **settings,
    )


@app.command(epilog=MEMORY["shipped"])
def datasets(
    name: Annotated[str | None, typer.Argument(help="Which one to write; lists them unless given.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv, .tsv or .parquet file to write.")
    ] = None,
    labels: Annotated[
        int | None, typer.Option("--labels", help="How many labels to keep; all unless given.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """List the data sets that come with scikit-learn, or write one as a table to try things on."""
    from labelfold.app.io import _shipped as shipped

    if name is None:
        grid = Grid(box=None, pad_edge=False)
        for heading in ("name", "rows", "columns", "classes", "what it is"):
            grid.add_column(heading, justify="right" if heading in ("rows", "columns", "classes") else "left")
        for entry in shipped.SETS.values():
            grid.add_row(entry.name, f"{entry.rows:,}", str(entry.columns), str(entry.classes), entry.what)
        console().print(grid)
        return
    with refusing():
        path = shipped.write(name, output, labels, seed)
        entry = shipped.SETS[name]
    kept = entry.rows if labels is None else labels
    console().print(
        f"{entry.what}: {entry.rows:,} rows × {entry.columns} columns, {kept:,} rows labelled in {entry.classes} "
        f"classes, written to {path}.\nlabelfold compare {shlex.quote(str(path))} --target {entry.target} --id row",
        soft_wrap=True,
    )


@app.command(epilog=MEMORY["shipped"])
def demo(context: typer.Context, output: Folder = Path("demo"), seed: Seed = 0) -> None:
    """Compare the methods on scikit-learn's handwritten digits, most of their labels hidden."""
    from labelfold.app.io import _shipped as shipped
    from labelfold.app.io import read_table

    writable_folder(output)
    entry = shipped.SETS["digits"]
    path = shipped.write("digits", output / "digits.csv", _DEMO_LABELS, seed)
    command = (
        f"labelfold compare {path} --target {entry.target} --id row --time-limit {_DEMO['time_limit']} --save "
        f"--output {output}"
    )
    out = console()
    out.print(
        f"Data: scikit-learn's handwritten digits, {entry.rows:,} images × {entry.columns} pixels, "
        f"{_DEMO_LABELS} of them labelled.\nThis is: {command}",
        soft_wrap=True,
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
    truth = shipped.truth("digits")
    assert table.y is not None
    hidden = np.array([label is None for label in table.y])
    said: Any = read_table(output / "predictions.csv", target="predicted", id_columns=["row", "label"]).y
    share = np.mean(said[hidden] == truth[hidden])
    out.print(
        f"\nOf the {hidden.sum():,} images whose label was hidden, the model names {share:.1%} rightly."
    )


def _compare(
    table: Any,
    mark: Any,
    output: Path,
    save: bool,
    command: str | None = None,
    safe_csv: bool = False,
    to_table: str | None = None,
    *,
    time_limit: float | None,
    began: float,
    **settings: Any,
) -> None:
    """Run a comparison, show it and write it down; ``began`` is when the command was started."""
    from labelfold.app.compare import compare
    from labelfold.app.compare._lock import FolderLock
    from labelfold.app.compare._runner import NothingHeldBack

    called = printable(str(table.source.name or table.source))
    if time_limit is not None:
        time_limit = max(_RUNS_END * time_limit - (time.perf_counter() - began), time_limit / 4)
    with FolderLock(output) as folder:
        refuse_places(output)
        with refusing():
            try:
                found = compare(
                    table.to_learn(),
                    table.y,
                    ids=row_names(table),
                    unlabeled=mark,
                    folder=folder,
                    progress=sys.stderr.isatty(),
                    tell=lambda text: typer.echo(printable(text), err=True),
                    time_limit=time_limit,
                    command=command or printable(shlex.join(["labelfold", *map(hidden, sys.argv[1:])])),
                    feature_names=table.feature_names,
                    **{"name": called} | settings,
                )
            except NothingHeldBack as nothing:
                if not save:
                    raise
                name_files(
                    deliver_alone(nothing, table, output, safe_csv, to_table, settings["random_state"])
                )
                return
        interrupted = found.interrupted
        try:
            # where the reader of a pipe went away, or the disk it goes to is full, the files are still wanted
            with suppress(OSError, SystemExit):
                _show(found, console())
            _ = found.review
        except KeyboardInterrupt:  # another Ctrl-C: what is there, without the fits that maps need
            interrupted = True
            found.forgo_review()
        with refusing():
            written = deliver(found, table, output, save, safe_csv, to_table)
    name_files(written)
    if interrupted:
        raise KeyboardInterrupt


def _show(found: Any, out: Any) -> None:
    """Print the answer, then the table of the best and what failed; what was left out is in the report."""
    out.print("\n".join([found.answer, *found.details]) + "\n", soft_wrap=True)
    out.print(accuracy_grid(found))
    failed = found.table.dropna(subset="error").groupby("label", sort=False)["error"].first()
    for label, why in failed.items():
        out.print(f"{label} failed: {why}.", soft_wrap=True)
    if (more := len(found.ranking) - MOST_METHODS) > 0:
        out.print(f"{count(more, 'more method')} in the report.", soft_wrap=True)
    if found.left_out:
        out.print(f"{count(len(found.left_out), 'method')} left out; the report says why.", soft_wrap=True)
