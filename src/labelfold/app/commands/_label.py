"""The command label, which opens the labelling page."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from labelfold.app.commands import _options as options
from labelfold.app.commands._console import note, read_to_label, recipe_for, say, tell_recipe
from labelfold.app.commands._options import MEMORY, GivenRows, app, sides, takes_rows
from labelfold.app.io import Refusal, count, did_you_mean, find, refusing, writable_folder

_TARGET = "label"


@app.command("label", epilog=MEMORY["label"])
@takes_rows
def label_command(
    rows: GivenRows,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file of labels. Default: <name of the data>.labels.csv beside the data.",
        ),
    ] = None,
    strategy: Annotated[
        str, typer.Option("--strategy", help="How the next row is chosen; the page can switch it.")
    ] = "mixed",
    who: Annotated[str | None, typer.Option("--who", help="Who labels. Default: the login name.")] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", help="The port of the page. Default: 8421, or another if that is in use."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser, or print the address only.")
    ] = True,
    image_shape: options.ImageShape = None,
    label_free: options.LabelFree = None,
    seed: options.Seed = 0,
    safe_csv: options.SafeCsv = False,
) -> None:
    """Label the rows of a table on a local page; the model is refitted after each label.

    Every label is on disk before the page shows it. The same command resumes after it was ended or killed.
    """
    from labelfold.app.label import missing_packages

    if lack := missing_packages():
        raise Refusal(lack)
    from labelfold.app.label import open_browser, open_page, prepare_table

    with refusing():
        file = _label_file(rows, output)
        shape = sides("--image-shape", image_shape)
        table, given = read_to_label(rows, label_free)
        made = prepare_table(
            table,
            given,
            name=str(table.source.name or table.source),
            target=_target(table, rows.target),
            recipe=recipe_for(table, rows.roles, rows.keep),
            image_shape=shape,
        )
        tell_recipe(made.recipe)
        running = open_page(made, file, who=who, strategy=strategy, seed=seed, port=port, safe_csv=safe_csv)
        note(*running.session.notes[len(table.notes) :])
    typer.echo(running.url)
    if browser:
        typer.echo(f"Labels go to {file}; Ctrl-C ends.", err=True)
        if not open_browser(running.url):
            note("no browser could be opened; open the address in one.")
    sys.stdout.flush()
    running.serve()
    labels = running.session.marks.n_labels
    say(f"{count(labels, 'row')} labelled, in {file}.")
    if not running.ended(1.0):
        # leaving the interpreter during a fit may abort; all labels are on disk
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _label_file(rows: GivenRows, output: Path | None) -> Path:
    """Return the file of labels, checked before anything is read."""
    from labelfold.app.io import Journal

    file = output or Journal.beside(find(rows.data, rows.reading)[1], rows.reading)
    writable_folder(file.parent, make=False)
    if rows.labels is not None and rows.labels.resolve() == file.resolve():
        raise Refusal(
            f"{file} is the file that labels are written to, and is always read; leave out --labels."
        )
    Journal.refuse_taken(file)
    return file


def _target(table: Any, wanted: list[str] | None) -> str:
    """Return the name of the target, with a note if the table has no such column."""
    if table.targets and table.y is not None:
        return str(table.targets[0])
    name = wanted[0] if wanted else _TARGET
    hint = did_you_mean(name, table.feature_names or ()) if wanted else ""
    if wanted and table.feature_names is not None:
        note(f"{table.source} has no column {name!r}{hint}; all of its labels will be made on the page.")
    return name
