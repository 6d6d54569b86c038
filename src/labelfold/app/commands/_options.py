"""The typer app, and the options that commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, wraps
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from labelfold.app.io import Reading, Refusal
from labelfold.labels import worded

app = typer.Typer(
    name="labelfold",
    help="Fold wide data along its labels: supervised and semi-supervised dimensionality reduction.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Model = Annotated[Path, typer.Argument(help="A model that labelfold wrote.")]
Group = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        "-g",
        help="A column that says which rows belong together, such as a patient, a document or a batch. Its rows are "
        "held out together, and it is not learned from. (May be repeated: the values together count.)",
    ),
]
LabelFree = Annotated[
    list[str] | None,
    typer.Option(
        "--label-free",
        "--unlabeled",
        help="Which values mean unlabelled, besides an empty cell (may be repeated). Default: -1, NA and the like. "
        'For the empty cell alone: "".',
    ),
]
ImageShape = Annotated[
    str | None,
    typer.Option("--image-shape", help="Height x width, such as 28x28, where the columns are pixels."),
]
Scale = Annotated[
    bool | None,
    typer.Option(
        "--scale/--no-scale",
        help="Bring the columns to unit variance first, or leave them as they are. Default: chosen from the data "
        "(unit variance, ranks, tf-idf or as they are).",
    ),
]
ClassWeight = Annotated[
    list[str] | None,
    typer.Option(
        "--class-weight",
        help="Weights of the classes, so that a rare one counts more: balanced, or NAME=WEIGHT with commas between "
        "(may be repeated).",
    ),
]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="Put an apostrophe before labels and ids that a spreadsheet would run as a formula (= + - @).",
    ),
]
AcceptUnseen = Annotated[
    bool,
    typer.Option(
        "--accept-unseen",
        help="Go on if most cells of a column hold values that the model never saw, or cannot read.",
    ),
]
ToTable = Annotated[
    str | None,
    typer.Option(
        "--to-table",
        help="Write the predictions to a new table of the database that the rows come from. It must not exist.",
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

# Words that replace y and parameter names in messages about the target.
_WORDS = {
    "y": "the target",
    "only_missing": 'give --label-free ""',
    "mark_missing": "give --label-free -1",
    "regression": "give --task regression",
    "classification": "--task is classification",
}


_Columns = list[str] | None


@dataclass(frozen=True)
class GivenRows:
    """The options about the rows: where they are, the roles of their columns, and how to read them."""

    data: Annotated[
        str,
        typer.Argument(
            help="A file (.csv, .tsv, .parquet, .arrow, .jsonl, .xlsx, .npz, .npy, .svmlight, .h5ad and others; text "
            "also as .gz, .bz2, .zst or .zip), a folder of images, or the address of a database such as "
            "sqlite:///shop.db."
        ),
    ]
    target: Annotated[
        _Columns,
        typer.Option(
            "--target",
            "-t",
            help='The column of labels, or of numbers. Repeated, or a pattern such as "label_*": columns of 0 and 1, '
            "for several labels a row.",
        ),
    ] = None
    ids: Annotated[
        _Columns,
        typer.Option("--id", help="A column that names the rows, carried through (may be repeated)."),
    ] = None
    drop: Annotated[_Columns, typer.Option(help="A column to leave out (may be repeated).")] = None
    text: Annotated[
        _Columns, typer.Option(help="A column to read as text, whatever it looks like (may be repeated).")
    ] = None
    category: Annotated[_Columns, typer.Option(help="A column to read as a category (may be repeated).")] = (
        None
    )
    number: Annotated[_Columns, typer.Option(help="A column to read as numbers (may be repeated).")] = None
    date: Annotated[_Columns, typer.Option(help="A column to read as dates (may be repeated).")] = None
    keep: Annotated[
        _Columns,
        typer.Option(
            help="A column that is used even if it may be a leak, an id or one value (may be repeated)."
        ),
    ] = None
    labels: Annotated[
        Path | None,
        typer.Option(
            help="A table of labels beside the rows: an id, or a row number from 1, and a label. What a labelling "
            "tool exports will do."
        ),
    ] = None
    format: Annotated[
        str | None,
        typer.Option(
            help="csv, tsv, parquet, arrow, jsonl, excel, npz, ..., if the ending of the file does not tell."
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            help="The encoding of a text file, such as cp1251 or shift_jis. Default: UTF-8 or UTF-16, otherwise "
            "Windows-1252."
        ),
    ] = None
    sheet: Annotated[str | None, typer.Option(help="The sheet of a workbook. Default: the first.")] = None
    query: Annotated[
        str | None, typer.Option(help="An SQL query of a database, which is opened read-only.")
    ] = None
    table: Annotated[
        str | None, typer.Option(help="The table or view of a database, instead of a query.")
    ] = None
    image: Annotated[
        str | None, typer.Option(help="A column of paths of images, which are read in its place.")
    ] = None
    image_size: Annotated[
        str | None,
        typer.Option(
            help="Height x width, such as 32x48, or one number for both, to which images are scaled. Default: the "
            "size that all images have if it is small, otherwise 32x32."
        ),
    ] = None
    colour: Annotated[
        bool | None,
        typer.Option("--colour/--grey", help="Read images in colour or in grey. Default: grey."),
    ] = None

    @property
    def roles(self) -> dict[str, list[str] | None]:
        """The columns by role, such as "text"."""
        return {role: getattr(self, role) for role in ("text", "category", "number", "date")}

    @cached_property
    def reading(self) -> Reading:
        """The options of reading."""
        given = {one.name: getattr(self, one.name) for one in fields(Reading)}
        return Reading(**given | {"image_size": sides("--image-size", self.image_size)})


def takes_rows(command: Callable[..., Any], *, labels: bool = True) -> Callable[..., Any]:
    """Decorate a command: its parameter ``rows`` becomes the options about the rows.

    With ``labels=False`` there are no options --labels and --keep.
    """
    options = inspect.signature(GivenRows, eval_str=True).parameters.values()
    shared = [option for option in options if labels or option.name not in ("labels", "keep")]
    parameters: list[inspect.Parameter] = []
    for name, own in inspect.signature(command, eval_str=True).parameters.items():
        parameters += shared if name == "rows" else [own]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]

    @wraps(command)
    def run(**values: Any) -> Any:
        rows = GivenRows(**{option.name: values.pop(option.name) for option in shared})
        with worded(**_WORDS):
            return command(rows=rows, **values)

    del run.__wrapped__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def class_weight_of(values: list[str] | None) -> Any:
    """Return the weights of classes from the option: None, "balanced", or a dict of classes as text.

    >>> class_weight_of(["spam=5,ham=1"]), class_weight_of(["balanced"])
    ({'spam': 5.0, 'ham': 1.0}, 'balanced')
    """
    parts = [part.strip() for value in values or () for part in value.split(",") if part.strip()]
    if not values or parts == ["balanced"]:
        return parts[0] if parts else None
    weights = {}
    for part in parts:
        name, equals, weight = part.rpartition("=")
        try:
            weights[name.strip()] = float(weight)
        except ValueError:
            equals = ""
        if not equals:
            raise Refusal(f"--class-weight is balanced, or NAME=WEIGHT with commas between, not {part!r}.")
    return weights


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
