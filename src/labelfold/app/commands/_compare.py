"""The commands compare, datasets and demo."""

from __future__ import annotations

import json
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from labelfold.app.commands import _options as options
from labelfold.app.commands._apply import predictions_of_rows, write_predictions
from labelfold.app.commands._console import (
    MOST_METHODS,
    accuracy_grid,
    console,
    note,
    read_labelled,
    recipe_for,
    row_names,
    say,
    split_commas,
    whole_numbers,
)
from labelfold.app.commands._options import MEMORY, GivenRows, app, sides, takes_rows
from labelfold.app.io import (
    Refusal,
    count,
    find,
    finished_together,
    hide_password,
    printable,
    refuse_destination,
    refusing,
    writable_file,
    writable_folder,
    write_finished,
)

Folder = Annotated[Path, typer.Option("--output", "-o", help="The folder for report and results.")]
Limit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        help="Seconds for the whole command. Methods that do not finish in time are left out; the first run of "
        "LabelFold is not limited. Default: about 50, more for a large table.",
    ),
]
# Share of the time limit for the runs; the last fit, the map and the report take the rest.
_RUNS_END = 0.75
_MADE = (
    "model.skops",
    "embedding.parquet",
    "predictions.csv",
    "annotated.h5ad",
    "answer.json",
    "report.html",
)


@app.command("compare", epilog=MEMORY["compare"])
@takes_rows
def compare_command(
    context: typer.Context,
    rows: GivenRows,
    methods: Annotated[
        list[str] | None,
        typer.Option("--methods", "-m", help="Names, separated by commas. Default: all that suit the data."),
    ] = None,
    budgets: Annotated[
        list[str] | None,
        typer.Option("--budgets", "-b", help="Numbers of labels for a learning curve, separated by commas."),
    ] = None,
    components: Annotated[
        list[str] | None,
        typer.Option("-k", "--components", help="Numbers of components, separated by commas."),
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", "-r", help="Number of random draws of the folds.")] = 5,
    time_limit: Limit = None,
    save: Annotated[
        bool, typer.Option("--save", help="Also write the best model, its embedding and its predictions.")
    ] = False,
    image_shape: options.ImageShape = None,
    seed: options.Seed = 0,
    output: Folder = Path("labelfold-compare"),
    group: options.Group = None,
    label_free: options.LabelFree = None,
    scale: options.Scale = None,
    task: options.Task = "auto",
    to_table: options.ToTable = None,
    safe_csv: options.SafeCsv = False,
) -> None:
    """Find the best method for a table and its expected accuracy (R² for numbers), and write a report.

    Each result is written to disk as soon as it is known. The same command resumes after it was stopped or killed.
    """
    from labelfold.app.compare import MOST_REPEATS
    from labelfold.app.registry import get_method

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
        table, mark = read_labelled(rows, label_free, task, group)
        recipe = recipe_for(table, rows.roles, rows.keep)
    _compare(
        table,
        mark,
        output,
        save,
        safe_csv=safe_csv,
        to_table=to_table,
        time_limit=time_limit,
        began=context.obj,
        methods=chosen,
        budgets=counts,
        components=sizes,
        repeats=repeats,
        task=task,
        scale="auto" if scale is None else scale,
        recipe=recipe,
        image_shape=shape or table.image_shape,
        random_state=seed,
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
    """Run a comparison, print it and write its files; ``began`` is the time when the command started."""
    from labelfold.app.compare import NothingHeldOut
    from labelfold.app.io import FolderLock
    from labelfold.app.report import compare

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
                    command=command
                    or printable(shlex.join(["labelfold", *map(hide_password, sys.argv[1:])])),
                    feature_names=table.feature_names,
                    groups=table.groups,
                    **{"name": called} | settings,
                )
            except NothingHeldOut as nothing:
                if not save:
                    raise
                seed = settings["random_state"]
                name_files(output, deliver_alone(nothing, table, output, safe_csv, to_table, seed))
                return
        interrupted = found.interrupted
        try:
            # a closed pipe or a full disk behind standard output must not prevent the files
            with suppress(OSError, SystemExit):
                _show(found)
            _ = found.review
        except KeyboardInterrupt:  # another Ctrl-C: write the report without further fits
            interrupted = True
            found.forgo_review()
        with refusing():
            written = deliver(found, table, output, save, safe_csv, to_table)
    name_files(output, written)
    if interrupted:
        raise KeyboardInterrupt


def _show(found: Any) -> None:
    """Print the answer, the table of the best methods, and errors."""
    say("\n".join([found.answer, *found.details]) + "\n")
    console().print(accuracy_grid(found))
    failed = found.table.dropna(subset="error").groupby("label", sort=False)["error"].first()
    for label, why in failed.items():
        say(f"{label} failed: {why}.")
    if (more := len(found.ranking) - MOST_METHODS) > 0:
        say(f"{count(more, 'more method')} in the report.")
    if found.left_out:
        say(f"{count(len(found.left_out), 'method')} left out; the report says why.")


def refuse_places(output: Path) -> None:
    """Raise an error if one of the files cannot be written, before any work."""
    for name in _MADE:
        writable_file(output / name)


def refuse_inputs(output: Path, *given: object) -> None:
    """Raise an error if writing to the folder would replace or remove a file that is read."""
    for name in (*_MADE, "results.csv", "run.json"):
        writable_file(output / name, *given)


def deliver(
    found: Any, table: Any, output: Path, save: bool, safe_csv: bool, to_table: str | None
) -> dict[str, Path]:
    """Write the report, the answer and, with ``save``, the model; return the files as first written."""
    from labelfold.app.report import write_report

    with finished_together(output, _MADE) as aside:
        written = {"Report": aside / "report.html", "Results": aside / "results.csv"}
        made = {"results.csv"}
        if found.winner is not None:
            text = json.dumps(answer_of(found), indent=1, ensure_ascii=False) + "\n"
            made.add(write_finished(aside / "answer.json", text.encode()).name)
            if save:
                method = found.methods[found.winner["method"]]
                written |= _save(
                    found.fitted(), method, found.data, found.choice, table, aside, safe_csv, to_table
                )
        write_report(found, written["Report"], output, made | {path.name for path in written.values()})
    return written


def deliver_alone(
    nothing: Any, table: Any, output: Path, safe_csv: bool, to_table: str | None, seed: int
) -> dict[str, Path]:
    """Fit and save LabelFold if there are too few labels for a comparison; return the files as first written."""
    from labelfold.app.registry import fit_grouped, get_method, only_missing

    data, method = nothing.data, get_method("labelfold")
    model = only_missing(method.make(X=data.X, random_state=seed, task=data.facts.task))
    fit_grouped(model, data.X, data.targets(), data.groups)
    say(
        f"LabelFold was fitted and nothing compared: {nothing.why}. How well it predicts is not known; label more "
        "rows."
    )
    with finished_together(output, _MADE) as aside:
        return _save(model, method, data, None, table, aside, safe_csv, to_table)


def name_files(output: Path, written: dict[str, Path]) -> None:
    """Print the files, which are in the folder now, and the next command."""
    width = max(map(len, written))
    places = {what: output / path.name for what, path in written.items()}
    say("\n" + "\n".join(f"{what:<{width}}  {path}" for what, path in places.items()))
    if "Model" in places:
        say(f"\nNext: labelfold predict {shlex.quote(str(places['Model']))} new.csv")


def answer_of(found: Any) -> dict[str, Any]:
    """Return the content of answer.json."""
    facts = {
        "method": found.best_,
        "components": found.best_size_,
        "metric": found.settings["metric"],
        "answer": found.answer,
        "details": found.details,
    }
    if found.choice is not None:
        expected = ("expected", "low", "high", "n_rows", "n_groups", "within", "equal")
        facts |= {name: getattr(found.choice, name) for name in expected}
    return facts


def _save(
    model: Any,
    method: Any,
    data: Any,
    choice: Any,
    table: Any,
    output: Path,
    safe_csv: bool,
    to_table: str | None,
) -> dict[str, Path]:
    """Write a fitted model, its embedding and its predictions of all rows; return the files by name."""
    from labelfold.app.compare import fit_notes, named_rows
    from labelfold.app.io import Unsavable, save_model, write_table
    from labelfold.app.registry import settled

    model, X = settled(model), data.X
    embedded = np.asarray(model.transform(X)) if method.embeds else None
    written = {}
    notes = fit_notes(method, table, data, embedded, choice)
    try:
        written["Model"] = save_model(data.delivered(model), output / "model.skops", **notes)
    except Unsavable as error:
        note(str(error))
    ids = named_rows(table, data.recipe)
    columns: list[str] = []
    if embedded is not None:
        columns = [str(c) for c in model.get_feature_names_out()]
        written["Embedding"] = write_table(output / "embedding.parquet", embedded, columns, ids=ids)
    given = {"label": data.y if data.facts.numbers else [data.named(y) for y in data.y]}
    said = predictions_of_rows(model, X, data.classes, notes["within"])
    extra = given | said
    nothing = np.empty((len(data.y), 0))
    written["Predictions"] = write_table(
        output / "predictions.csv", nothing, [], ids=ids, extra=extra, safe_csv=safe_csv
    )
    if getattr(table.source, "suffix", "").lower() == ".h5ad":
        shown = nothing if embedded is None else embedded
        written["Copy"] = write_table(
            output / "annotated.h5ad", shown, columns, extra=said, source=table.source
        )
    if to_table is not None:
        write_predictions(table, to_table, ids, extra)
    return written
