"""Helpers of the commands: reading tables and options, and printing results.

Like the modules of the commands, this one imports what needs NumPy, pandas or rich in the functions that use it, so
that help and refused options come at once.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from labelfold.app.io import FileProblem, Refusal, count, find, listed, one_line, printable
from labelfold.labels import worded

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

    from labelfold.app.commands._options import GivenRows
    from labelfold.app.io import Table
    from labelfold.app.report import Comparison
    from labelfold.labels import Labels
    from labelfold.tables import Recipe

TASKS = ("auto", "classification", "regression")
MAX_METHODS = 12  # on the screen; the report has all


def accuracy_grid(found: Comparison) -> Grid:
    """Return a table of scores: one row for each method, one column for each budget."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Grid

    budgets = sorted(found.lines["budget"].unique(), key=lambda b: (b != found.budget_, -b))
    measure = found.measure
    grid = Grid(
        title=f"{measure.sentence} on rows held out, ± spread over {found.repeats_run}",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    grid.add_column("method", overflow="fold")
    for heading in [*(f"{b} labels" for b in budgets), "components", "fit"]:
        grid.add_column(heading, justify="right", no_wrap=True)
    own = None if found.winner is None else found.winner["label"]
    for i, (label, rows) in enumerate(found.lines.groupby("label", sort=False)):
        if i >= MAX_METHODS and label != own:
            continue
        at = rows.set_index("budget")
        pairs = at[["mean", "spread"]].reindex(budgets).to_numpy()
        cells = [measure.with_spread(*pair) for pair in pairs]
        sizes = rows["components"].dropna()
        seconds = rows["fit_seconds"].mean()
        fit_time = "–" if seconds != seconds else f"{seconds:.2f} s"
        method = found.methods[rows["method"].iloc[0]]
        grid.add_row(title_and_gloss(method), *cells, str(sizes.max()) if len(sizes) else "–", fit_time)
    return grid


def title_and_gloss(method: Any) -> str:
    """Return the title of a method with a few words about it.

    >>> from labelfold.app.registry import METHODS
    >>> title_and_gloss(METHODS["ssnmf"])
    'SSNMF + SVM (non-negative parts, then a linear SVM)'
    """
    return f"{method.title} ({method.gloss})" if method.gloss else method.title


def read_labelled(
    rows: GivenRows, label_free: list[str] | None, task: str = "auto", group: list[str] | None = None
) -> tuple[Table, int | None]:
    """Read a table with labels.

    Returns
    -------
    table : Table
    mark : int or None
        The value that marks unlabelled rows in its target, besides None.
    """
    source, where = find(rows.data, rows.reading)
    if task not in TASKS:
        raise Refusal(f"--task is {listed(TASKS)}, not {task!r}.")
    if not rows.target and not source.labelled and rows.labels is None:
        raise Refusal(f"Which column of {where} holds the labels? Name it with --target.")
    table = _read(rows, label_free, group=group or ())
    if table.y is None:
        raise Refusal(
            f"{where} has no array y of labels; name the one that holds them with --target, or a file with --labels."
        )
    if label_free is None and table.y.ndim == 1:
        _refuse_marks(table)
    # with --label-free, y holds None for unlabelled rows already
    mark = -1 if label_free is None else None
    labels = _labels(table, mark, task)
    if label_free is None and table.y.ndim == 1:
        _note_marks(table.y, labels)
    return table, mark


def _read(rows: GivenRows, label_free: list[str] | None, **how: Any) -> Table:
    """Read the table that the options describe, and show notes about it."""
    from labelfold.app.io import read_table

    target = rows.target
    table = read_table(
        rows.data,
        target=target[0] if target and len(target) == 1 else target,
        id_columns=rows.ids or (),
        drop=rows.drop or (),
        unlabeled_values=label_free,
        labels=rows.labels,
        reading=rows.reading,
        **how,
    )
    note(*table.notes)
    return table


def read_to_label(rows: GivenRows, label_free: list[str] | None) -> tuple[Table, list[str | None]]:
    """Read a table for the labelling page; it may lack labels, or a column for them.

    Returns
    -------
    table : Table
    labels : list of str or None
        Its labels as text.
    """
    from labelfold.app.io import cell_text

    table = _read(rows, label_free, begin=True)
    n = table.raw.shape[0]
    if table.y is None:
        return table, [None] * n
    if table.y.ndim > 1:
        raise Refusal(
            f"{table.source} has several target columns, and a row gets one class on the page; name one --target."
        )
    mark = -1 if label_free is None else None
    values = table.y.tolist()
    known = {*values} - {None}
    unlabelled = None if known == {-1, 1} else mark
    taken = [None if value == unlabelled else value for value in values]
    if len({*taken} - {None}) > 1:
        if label_free is None:
            _refuse_marks(table)
        if any(isinstance(value, float) and not value.is_integer() for value in known):
            raise Refusal(
                f"The target of {table.source} holds numbers with fractions, and the page labels classes; name "
                "another --target."
            )
        labels = _labels(table, mark, "classification")
        if label_free is None:
            _note_marks(table.y, labels)
    return table, [cell_text(value) or None for value in taken]


def _labels(table: Table, mark: int | None, task: str) -> Labels:
    """Return the parsed target of a table."""
    from labelfold.app.compare import read_target_labels

    try:
        with warnings.catch_warnings(), worded(y=f"the target of {table.source}"):
            warnings.simplefilter("ignore")  # the fit reads the labels again and warns then
            labels, _ = read_target_labels(table.y, unlabeled=mark, task=task, estimator="labelfold")
            return labels
    except ValueError as error:
        raise Refusal(f"{one_line(error)}.") from error


def _refuse_marks(table: Table) -> None:
    """Raise an error if most labels are the same word for a missing value, since it could also be a class."""
    assert table.y is not None
    counts = Counter(v for v in table.y.tolist() if v is not None)
    for value in filter(_like_none, counts):
        if counts[value] > 0.5 * sum(counts.values()):
            raise Refusal(
                f"{counts[value] / sum(counts.values()):.0%} of the labels of {table.source} are {value!r}; give "
                f'--label-free "{value}" if that means no label, or --label-free "" if it is a class.'
            )


def _like_none(label: Any) -> bool:
    """Tell whether a label is a word for "no label" that read_table reads as a class."""
    from labelfold.tables import MISSING

    return isinstance(label, str) and label.lower() in {*MISSING, "none", "unlabeled", "unlabelled"}


def recipe_for(table: Table, roles: dict[str, list[str] | None], keep: list[str] | None = None) -> Recipe:
    """Return a recipe with given roles of columns, e.g. ``{"text": ["comment"]}``, and with columns to keep."""
    from labelfold.tables import Recipe

    given = {role: table.columns_named(role, wanted or ()) for role, wanted in roles.items()}
    return Recipe(**given, keep=table.columns_named("kept", keep or ()))


def tell_recipe(recipe: Recipe | None) -> None:
    """Show a note about each column that is not plain numbers."""
    if recipe is not None:
        note(*(f"{line}." for line in recipe.lines(plain=False, most=20)))


def _note_marks(y: Any, labels: Labels) -> None:
    """Show a note about labels such as -1 or "unknown" that may mean unlabelled."""
    counts = Counter(y.tolist())
    if labels.task == "regression" and (labels.values == -1).any():
        note(
            f"{count(counts[-1], 'row')} with -1: taken as a number; --label-free -1 says that it means no label."
        )
    # if +1 is the only other value, -1 is a class; `read_labels` says so
    elif -1 in counts and not {-1, 1} >= {v for v in counts if v is not None}:
        note(
            f"{count(counts[-1], 'row')} labelled -1 {'are' if counts[-1] > 1 else 'is'} taken as "
            'unlabelled; if it is a class, give it another name, or give --label-free "".'
        )
    for value in sorted(filter(_like_none, counts)):
        note(
            f"{count(counts[value], 'row')} labelled {value!r} {'are' if counts[value] > 1 else 'is'} taken as "
            f'a class; --label-free "{value}" says that it means no label.'
        )


def row_names(table: Table) -> list[str] | None:
    """Return the names of the rows, from their id columns; None if there are none."""
    if table.ids is None:
        return None
    return [", ".join(map(str, row)) for row in table.ids.itertuples(index=False)]


@contextmanager
def using(model: Any) -> Iterator[None]:
    """Turn unexpected errors of a loaded model into a sentence that its file is damaged."""
    try:
        yield
    except (ValueError, OSError, MemoryError):
        raise
    except Exception as error:
        raise FileProblem(
            f"The model in {model} cannot be used ({type(error).__name__}: {one_line(error)}): it is damaged, or was "
            "not written by labelfold; copy it again, or fit it again."
        ) from error


def split_commas(values: list[str] | None) -> list[str] | None:
    """Return the values of an option that is repeated, or given with commas."""
    if values is None:
        return None
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def whole_numbers(option: str, values: list[str] | None) -> list[int] | None:
    """Return the whole numbers of an option that is repeated, or given with commas."""
    parts = split_commas(values)
    if parts is None:
        return None
    wrong = [p for p in parts if not p.isdecimal() or int(p) < 1]
    if wrong or not parts:
        raise Refusal(
            f"{option} takes whole numbers from 1 up, with commas between, not {listed(wrong or values or ())}."
        )
    return [int(p) for p in parts]


def note(*texts: str) -> None:
    """Show notes on standard error."""
    for text in texts:
        typer.echo(f"Note: {printable(text, hide_passwords=True)}", err=True)


def say(text: str) -> None:
    """Show text as it is; the terminal wraps it."""
    console().print(text, soft_wrap=True)


def console() -> Console:
    """Return the console for results. It escapes control characters in text from the data."""
    from rich.console import Console

    class Escaping(Console):
        def render_str(self, text: str, *args: Any, **options: Any) -> Any:
            return super().render_str(printable(text), *args, **options)

    # no markup: text from the data may contain square brackets
    return Escaping(markup=False, highlight=False, emoji=False)
