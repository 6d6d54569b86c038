"""The command line's own: the app, and the options that its commands share."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="labelfold",
    help="Fold wide data along its labels: supervised and semi-supervised dimensionality reduction.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Data = Annotated[
    Path,
    typer.Argument(
        help="A .csv, .txt, .tsv, .parquet, .npz or .svmlight file, text also as .gz, .bz2, .zst or .zip.",
        show_default=False,
    ),
]
Model = Annotated[Path, typer.Argument(help="A model that labelfold wrote.", show_default=False)]
Target = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        "-t",
        help='The column of labels, or of numbers. Repeated, or a pattern such as "label_*": columns of 0 and 1, for '
        "several labels a row.",
        show_default=False,
    ),
]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", help="A column that names the rows, carried through (may be repeated)."),
]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="A column to leave out (may be repeated).")]
Text = Annotated[
    list[str] | None,
    typer.Option("--text", help="A column to read as text, whatever it looks like (may be repeated)."),
]
Category = Annotated[
    list[str] | None, typer.Option("--category", help="A column to read as a category (may be repeated).")
]
Number = Annotated[
    list[str] | None, typer.Option("--number", help="A column to read as numbers (may be repeated).")
]
Date = Annotated[
    list[str] | None, typer.Option("--date", help="A column to read as dates (may be repeated).")
]
LabelFree = Annotated[
    list[str] | None,
    typer.Option(
        "--label-free",
        "--unlabeled",
        help="What counts as no label, besides an empty cell (may be repeated). Unless given: -1, NA and the like. "
        'For the empty cell alone: "".',
        show_default=False,
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="csv, tsv, parquet, npz or svmlight, if not by the file's ending."),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        help="The encoding of a text file, such as cp1251 or shift_jis. Unless given: UTF-8 or UTF-16, and other "
        "bytes as Windows-1252.",
        show_default=False,
    ),
]
Scale = Annotated[
    bool | None,
    typer.Option(
        "--scale/--no-scale",
        help="Bring the columns to unit variance first, or leave them as they are. Unless given: as the data says "
        "(unit variance, ranks, tf-idf or as they are).",
        show_default=False,
    ),
]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="Put an apostrophe before labels and ids that a spreadsheet would run as a formula (= + - @).",
    ),
]
Task = Annotated[
    str,
    typer.Option(
        "--task",
        help="classification or regression: whether the target holds classes or numbers. Unless given: fractions are "
        "numbers, text and most whole numbers are classes.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]
TableOut = Annotated[
    Path, typer.Option("--output", "-o", help="A .parquet, .csv, .tsv or .npz file to write.")
]


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"labelfold {version('labelfold')}")
        raise typer.Exit


@app.callback()
def _common(
    show: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


# What the help of commands that read a table ends with.
MEMORY = "At most 300 MB of memory, 8 times the size of the file, and what the method takes (docs/memory.md)."
