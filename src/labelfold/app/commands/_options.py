"""The typer app, and the options that commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from labelfold.app.io._problems import Refusal
from labelfold.app.io._sources import Reading

app = typer.Typer(
    name="labelfold",
    help="Fold wide data along its labels: supervised and semi-supervised dimensionality reduction.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Data = Annotated[
    str,
    typer.Argument(
        help="A file (.csv, .tsv, .parquet, .arrow, .jsonl, .xlsx, .npz, .npy, .svmlight, .h5ad and others; text "
        "also as .gz, .bz2, .zst or .zip), a folder of images, or the address of a database such as sqlite:///shop.db.",
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
        help="Which values mean unlabelled, besides an empty cell (may be repeated). Default: -1, NA and the like. "
        'For the empty cell alone: "".',
        show_default=False,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="csv, tsv, parquet, arrow, jsonl, excel, npz, ..., if the ending of the file does not tell.",
    ),
]
Sheet = Annotated[str | None, typer.Option("--sheet", help="The sheet of a workbook. Default: the first.")]
Query = Annotated[
    str | None, typer.Option("--query", help="An SQL query of a database, which is opened read-only.")
]
FromTable = Annotated[
    str | None, typer.Option("--table", help="The table or view of a database, instead of a query.")
]
Labels = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        help="A table of labels beside the rows: an id, or a row number from 1, and a label. What a labelling tool "
        "exports will do.",
        show_default=False,
    ),
]
Image = Annotated[
    str | None,
    typer.Option("--image", help="A column of paths of images, which are read in its place."),
]
ImageSize = Annotated[
    str | None,
    typer.Option(
        "--image-size",
        help="Height x width, such as 32x48, or one number for both, to which images are scaled. Default: the size "
        "that all images have if it is small, otherwise 32x32.",
        show_default=False,
    ),
]
ImageShape = Annotated[
    str | None,
    typer.Option("--image-shape", help="Height x width, such as 28x28, where the columns are pixels."),
]
Colour = Annotated[
    bool | None,
    typer.Option(
        "--colour/--grey", help="Read images in colour or in grey. Default: grey.", show_default=False
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        help="The encoding of a text file, such as cp1251 or shift_jis. Default: UTF-8 or UTF-16, otherwise "
        "Windows-1252.",
        show_default=False,
    ),
]
Scale = Annotated[
    bool | None,
    typer.Option(
        "--scale/--no-scale",
        help="Bring the columns to unit variance first, or leave them as they are. Default: chosen from the data "
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
ToTable = Annotated[
    str | None,
    typer.Option(
        "--to-table",
        help="Write the predictions to a new table of the database that the rows come from. It must not exist.",
        show_default=False,
    ),
]
Task = Annotated[
    str,
    typer.Option(
        "--task",
        help="classification or regression: whether the target holds classes or numbers. Default: fractions are "
        "numbers, text and most whole numbers are classes.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of all random numbers.")]
TableOut = Annotated[
    Path, typer.Option("--output", "-o", help="A .parquet, .csv, .tsv, .npz or .h5ad file to write.")
]

_SHARED: dict[str, Any] = {
    "target": Target,
    "ids": Ids,
    "drop": Drop,
    "text": Text,
    "category": Category,
    "number": Number,
    "date": Date,
    "labels": Labels,
    "format": Format,
    "encoding": Encoding,
    "sheet": Sheet,
    "query": Query,
    "table": FromTable,
    "image": Image,
    "image_size": ImageSize,
    "colour": Colour,
}
_ROLES = ("text", "category", "number", "date")
# Options that are passed on unchanged; --image-size is parsed first.
_HOW = tuple(one.name for one in fields(Reading) if one.name != "image_size")

# Words that replace y and parameter names in messages about the target.
_WORDS = {
    "y": "the target",
    "only_missing": 'give --label-free ""',
    "regression": "give --task regression",
    "classification": "--task is classification",
}


@dataclass(frozen=True)
class GivenRows:
    """The options about the rows: where they are, the roles of their columns, and how to read them.

    Attributes
    ----------
    data : str
        A path or an address.
    target, ids, drop : list of str, or None
        Columns.
    roles : dict of str to list of str
        Columns by role, such as "text".
    labels : Path or None
        A separate file of labels.
    reading : Reading
    """

    data: str
    target: list[str] | None
    ids: list[str] | None
    drop: list[str] | None
    roles: dict[str, list[str] | None]
    labels: Path | None
    reading: Reading


def takes_rows(command: Callable[..., Any], *, labels: bool = True) -> Callable[..., Any]:
    """Decorate a command: its parameter ``rows`` becomes the options about the rows.

    With ``labels=False`` there is no option --labels.
    """
    shared = {name: kind for name, kind in _SHARED.items() if labels or name != "labels"}
    own = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for name, parameter in own.parameters.items():
        if name != "rows":
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        parameters.append(inspect.Parameter("data", inspect.Parameter.KEYWORD_ONLY, annotation=Data))
        for option, kind in shared.items():
            parameters.append(
                inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            )

    @wraps(command)
    def run(**values: Any) -> Any:
        given = {"labels": None} | {name: values.pop(name) for name in ("data", *shared)}
        reading = Reading(
            **{name: given[name] for name in _HOW}, image_size=sides("--image-size", given["image_size"])
        )
        roles = {role: given[role] for role in _ROLES}
        rows = GivenRows(
            given["data"], given["target"], given["ids"], given["drop"], roles, given["labels"], reading
        )
        from labelfold.labels import worded

        with worded(**_WORDS):
            return command(rows=rows, **values)

    del run.__wrapped__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def sides(option: str, text: str | None) -> tuple[int, int] | None:
    """Return height and width from an option.

    >>> sides("--image-size", "32"), sides("--image-size", "28x32")
    ((32, 32), (28, 32))
    """
    if text is None:
        return None
    found = text.lower().replace("×", "x").split("x")
    found = 2 * found if len(found) == 1 and option == "--image-size" else found
    if len(found) != 2 or not all(side.strip().isdecimal() and int(side) for side in found):
        raise Refusal(f"{option} is height x width, such as 28x28, not {text!r}.")
    return int(found[0]), int(found[1])


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


# The last line of the help of commands that read a table. docs/memory.py has the numbers; a test measures them.
MEMORY = {
    "rows": "At most 300 MB of memory, 8 times the size of the file, and what the method takes (docs/memory.md).",
    "label": "At most 300 MB of memory, 8 times the size of the file, and what LabelFold takes (docs/memory.md).",
    "compare": "At most 400 MB of memory, 12 times the size of the file, and what the largest of the methods takes "
    "(docs/memory.md).",
    "model": "At most 300 MB of memory, and 4 times the size of the file, unpacked (docs/memory.md).",
    "shipped": "At most 600 MB of memory (docs/memory.md).",
}
