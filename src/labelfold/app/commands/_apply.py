"""The commands transform and predict, which apply a saved model to rows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelfold.app.commands import _options as options
from labelfold.app.commands._console import note, say, using
from labelfold.app.commands._options import MEMORY, GivenRows, app, takes_rows
from labelfold.app.io import Refusal, count, find, listed, printable, refusing

if TYPE_CHECKING:
    import numpy as np


@app.command(epilog=MEMORY["rows"])
@partial(takes_rows, labels=False)
def transform(
    model: options.Model,
    rows: GivenRows,
    output: options.TableOut,
    predict: Annotated[
        bool, typer.Option("--predict", help="Add a column with the predicted class or number.")
    ] = False,
    accept_unseen: options.AcceptUnseen = False,
    safe_csv: options.SafeCsv = False,
) -> None:
    """Embed the rows of a table with a saved model."""
    from labelfold.app.io import write_table

    needed = {"transform": "gives no embedding; labelfold predict gives its predictions"}
    if predict:
        needed["predict"] = "predicts nothing; leave out --predict"
    with refusing(), using(model):
        saved, table, X = _read_both(model, rows, output, needed)

        def apply(model: Any, X: Any) -> tuple[np.ndarray, ...]:
            return (model.transform(X), *([model.predict(X)] if predict else []))

        embedded, *predicted = _applied(saved, X, table.source, apply, accept_unseen)
        extra = predicted_columns(predicted[0], saved.meta.get("classes")) if predict else None
        columns = [str(c) for c in saved.model.get_feature_names_out()]
        write_table(
            output, embedded, columns, ids=table.ids, extra=extra, safe_csv=safe_csv, source=table.source
        )
        n, k = embedded.shape
        say(f"{count(n, 'row')} in {count(k, 'component')} written to {output}")


@app.command(epilog=MEMORY["rows"])
@partial(takes_rows, labels=False)
def predict(
    model: options.Model,
    rows: GivenRows,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="A .parquet, .csv, .tsv or .npz file. Default: CSV on the screen."
        ),
    ] = None,
    to_table: options.ToTable = None,
    accept_unseen: options.AcceptUnseen = False,
    safe_csv: options.SafeCsv = False,
) -> None:
    """Predict the classes, or numbers, of the rows of a table with a saved model, with a confidence for each."""
    import numpy as np

    from labelfold.app.compare import predict_with_confidence
    from labelfold.app.io import csv_text, write_table

    needed = {"predict": "predicts nothing; labelfold transform gives its embedding"}
    with refusing(), using(model):
        saved, table, X = _read_both(model, rows, output, needed, to_table)
        said, sure = _applied(saved, X, table.source, predict_with_confidence, accept_unseen)
        numbers = not hasattr(saved.model, "classes_")
        extra = columns_of(said, sure, saved.meta.get("classes"), saved.meta.get("within"), numbers=numbers)
        n = table.raw.shape[0]
        if to_table is not None:
            write_predictions(table, to_table, table.ids, extra)
            if output is None:
                return
        if output is None:
            text = csv_text(np.empty((n, 0)), [], ids=table.ids, extra=extra, safe_csv=safe_csv)
            # typer.echo would strip escape sequences
            sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
            return
        nothing = np.empty((n, 0))
        write_table(output, nothing, [], ids=table.ids, extra=extra, safe_csv=safe_csv, source=table.source)
        say(f"{count(n, 'prediction')} written to {output}")


def _applied(
    saved: Any, X: Any, source: Any, apply: Callable[[Any, Any], tuple[np.ndarray, ...]], accept_unseen: bool
) -> tuple[np.ndarray, ...]:
    """Return the arrays that ``apply(model, rows)`` makes of rows, one block after the other if X is read in blocks.

    The recipe converts each block once, and counts the cells that it cannot use as it does.
    """
    import numpy as np
    from sklearn.pipeline import Pipeline

    from labelfold.tables import Blocks

    recipe, parts, tallies = saved.recipe, [], []
    if recipe is None:
        return apply(saved.model, X)
    rest = Pipeline(saved.model.steps[1:] or [("rows", "passthrough")])
    for block in (b for b in X.read(X.column_names) if b.num_rows) if isinstance(X, Blocks) else [X]:
        made, tally = recipe.counted(block)
        parts.append(apply(rest, made))
        tallies.append(tally)
    _tell_unseen(recipe.records(tallies), source, accept=accept_unseen)
    return tuple(map(np.concatenate, zip(*parts, strict=True))) if len(parts) > 1 else parts[0]


def columns_of(
    predicted: np.ndarray,
    confidence: np.ndarray,
    classes: list[str] | None,
    within: float | None,
    *,
    numbers: bool,
) -> dict[str, np.ndarray]:
    """Return predictions and their confidence as columns.

    For numbers there are the ends of the 90% prediction interval in place of a confidence, if ``within`` is known.
    """
    columns = predicted_columns(predicted, classes)
    if not numbers:
        return columns | {"confidence": confidence}
    return columns if within is None else columns | {"low": predicted - within, "high": predicted + within}


def predicted_columns(predicted: np.ndarray, classes: list[str] | None) -> dict[str, np.ndarray]:
    """Return predictions as columns: one, or for several labels a row one for each label."""
    if predicted.ndim == 1:
        return {"predicted": predicted}
    names = classes or range(predicted.shape[1])
    return {f"predicted {name}": predicted[:, j] for j, name in enumerate(names)}


def write_predictions(table: Any, name: str, ids: Any, extra: dict[str, Any]) -> None:
    """Write predictions to a new table of the database that the rows come from."""
    import numpy as np

    n = table.raw.shape[0]
    named = {"row": np.arange(1, n + 1)} if ids is None else {title: ids[title] for title in ids}
    table.source.write_table(name, named | extra)
    say(f"{count(n, 'prediction')} written to the new table {name} of {table.source}")


def _read_both(
    model: Path,
    rows: GivenRows,
    output: Path | None,
    needed: dict[str, str],
    to_table: str | None = None,
) -> tuple[Any, Any, Any]:
    """Read a model and new rows; check first that the model has the methods, and the output can be written."""
    from labelfold.app.io import read_model, read_table, refuse_destination

    source, where = find(rows.data, rows.reading)
    refuse_destination(where, output, to_table, model)
    target = rows.target or []
    saved = read_model(model)
    for method, lack in needed.items():
        if not hasattr(saved.model, method):
            raise Refusal(f"The model in {model} {lack}.")
    recipe = saved.recipe
    table = read_table(
        rows.data,
        id_columns=rows.ids or (),
        known_ids=recipe.ids_ if recipe is not None and rows.ids is None else (),
        drop=rows.drop or (),
        features=saved.columns,
        index_base=saved.meta.get("index_base"),
        reading=_as_fitted_on(rows.reading, saved.meta.get("images"), source),
    )
    note(*table.notes)
    known = {*target, *getattr(recipe, "feature_names_in_", ())}
    left = [name for name in table.ignored if name not in known]
    if ignored := [name for name in left if not any(fnmatchcase(name, pattern) for pattern in target)]:
        note(f"ignored {listed(ignored)}, which the model does not use.")
    if recipe is not None:
        _tell_other_roles(recipe, rows.roles)
    X, filled = saved.rows_of(table)
    if filled:
        note(f"{count(filled, 'cell')} of {X.size:,} are missing or infinite; the median in their place.")
    return saved, table, X


def _as_fitted_on(reading: Any, images: dict[str, Any] | None, source: Any) -> Any:
    """Return the options of reading, with size and colour of images as the model was fitted."""
    if images is None:
        return reading
    size, colour = tuple(images["size"]), images["colour"]
    if reading.image_size not in (None, size) or reading.colour not in (None, colour):
        how = f"{size[0]}x{size[1]} {'in colour' if colour else 'in grey'}"
        note(f"the model reads images at {how}, as it was fitted, whatever the options say.")
    column = reading.image if source.name == "images" else reading.image or images["column"]
    return replace(reading, image=column, image_size=size, colour=colour)


def _tell_unseen(found: Any, source: Any, *, accept: bool) -> None:
    """Show a note about each column with cells that the model cannot use; refuse if most cells of one are such."""
    mostly = found.mostly
    note(*(f"{one.sentence}." for one in found if accept or one not in mostly))
    if mostly and not accept:
        raise Refusal(
            f"In {source} {mostly.sentence}; write such cells as in the table that the model was fitted on, or give "
            "--accept-unseen to predict from the other columns."
        )


def _tell_other_roles(recipe: Any, roles: dict[str, list[str] | None]) -> None:
    """Show a note if an option gives a column another role than the model has for it."""
    read = {column["name"]: column["role"] for column in recipe.columns_}
    for role, names in roles.items():
        for name in names or ():
            if read.get(name, role) != role:
                note(f"the model reads {name!r} as {read[name]}, as it was fitted, whatever --{role} says.")
