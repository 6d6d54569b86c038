"""The commands methods and fit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from labelfold.app.commands import (
    _apply as apply,  # noqa: F401
    _compare as compare,  # noqa: F401 - its commands belong to the app too
    _inspect as inspect,  # noqa: F401
    _label as label,  # noqa: F401
    _options as options,
)
from labelfold.app.commands._console import (
    console,
    glossed,
    read_labelled,
    recipe_for,
    row_names,
    say,
    tell_recipe,
)
from labelfold.app.commands._options import MEMORY, GivenRows, app, takes_rows
from labelfold.app.io import Refusal, count, find, refuse_input, refusing, writable_file

__all__ = ["app"]


@app.command("methods", epilog=MEMORY["shipped"])
def list_methods(
    name: Annotated[str | None, typer.Argument(help="The method to describe. Default: list all.")] = None,
) -> None:
    """List the methods by use, or describe one of them."""
    from labelfold.app.registry import METHODS, USES, get_method, install

    out = console()
    if name is not None:
        with refusing():
            facts = Grid(box=None, show_header=False, pad_edge=False)
            for line in _told(get_method(name)):
                facts.add_row(*line)
        out.print(facts)
        return
    width = max(map(len, METHODS))
    for use, methods in USES.items():
        out.print(f"{use}", style="bold")
        for m in (METHODS[name] for name in methods):
            more = "" if m.available else f"; not installed: {install(m)}"
            say(f"  {m.name:<{width}}  {glossed(m)}{more}")
    out.print("\nlabelfold methods NAME describes one of them.")


def _told(method: Any) -> list[tuple[str, str]]:
    """Return the description of a method: headings and texts."""
    from labelfold.app.registry import install, takes

    classes, numbers = (takes(method, task) is None for task in ("classification", "regression"))
    facts = [
        ("method", glossed(method)),
        ("what it does", method.summary),
        ("learns from", "labelled rows" if method.labels == "supervised" else "all rows, labelled or not"),
        ("predicts", "classes and numbers" if classes and numbers else "classes" if classes else "numbers"),
        (
            "reduces",
            "yes: transform gives its components" if method.embeds else "no: it uses all columns",
        ),
        ("paper", method.paper),
    ]
    return facts if method.available else [*facts, ("not installed", install(method))]


@app.command(epilog=MEMORY["rows"])
@takes_rows
def fit(
    rows: GivenRows,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    method: Annotated[
        str | None, typer.Option("--method", "-m", help="See: labelfold methods. Default: labelfold.")
    ] = None,
    components: Annotated[
        int | None, typer.Option("-k", "--components", help="Number of components.")
    ] = None,
    ridge: Annotated[
        float | None,
        typer.Option(
            "--ridge", help="The ridge of lda, or of ridge for numbers. Default: by cross-validation."
        ),
    ] = None,
    group: options.Group = None,
    label_free: options.LabelFree = None,
    scale: options.Scale = None,
    task: options.Task = "auto",
    seed: options.Seed = 0,
) -> None:
    """Fit LabelFold, or another method, on a table, estimate its score on new rows, and save the model."""
    from labelfold.app.compare import (
        checked_sizes,
        expectation,
        fit_notes,
        if_grouped,
        read_data,
        without_unlike,
    )
    from labelfold.app.io import save_model
    from labelfold.app.registry import chosen_form, get_method, refuse_other_task

    with refusing():
        chosen = _method_to_fit(method, components, ridge)
        writable_file(output)
        refuse_input(output, find(rows.data, rows.reading)[1], rows.labels)
        table, mark = read_labelled(rows, label_free, task, group)
        data = read_data(
            table.to_learn(),
            table.y,
            unlabeled=mark,
            ids=row_names(table),
            recipe=recipe_for(table, rows.roles, rows.keep),
            task=task,
            images=table.image_shape is not None,
            feature_names=table.feature_names,
            groups=table.groups,
        )
        tell_recipe(data.recipe)
        if components is not None:
            checked_sizes(components, data)
        if method is None and ridge is not None and data.facts.numbers:
            chosen = get_method("ridge")
        refuse_other_task(chosen, data.facts.task)
        form, why_form = chosen_form(data.X, scale, data.column, in_unit=data.in_unit)
        penalty = {} if ridge is None else {"ridge": ridge}
        made = partial(
            chosen.make, components, random_state=seed, scale=form, task=data.facts.task, **penalty
        )
        model, expected = _fit_and_expect(made, data, table.y, mark is None, seed)
    embedded = model.transform(data.X) if chosen.embeds else None
    save_model(data.delivered(model), output, **fit_notes(chosen, table, data, embedded, expected))
    lines = [
        _fitted_line(chosen, model, embedded, table, data.labels),
        *_fewer_components(components, chosen, embedded),
        *data.doubts,
        *([why_form] if why_form and chosen.form(form) == form else []),
        "There are too few labels to estimate how well it predicts new rows; label more rows."
        if expected is None
        else expectation(expected, data.measure),
        *if_grouped(model, data),
        *without_unlike(model, data),
        f"Saved to {output}",
    ]
    say("\n".join(lines))


def _method_to_fit(method: str | None, components: int | None, ridge: float | None) -> Any:
    """Return the method that the options of fit ask for."""
    from labelfold.app.registry import get_method

    chosen = get_method(method or ("labelfold" if ridge is None else "lda"))
    if chosen.needs:
        raise Refusal(
            f"Models of {chosen.name} cannot be saved; labelfold compare --save writes its embedding."
        )
    if components is not None and components < 1:
        raise Refusal(f"-k is the number of components, at least 1, not {components}.")
    if ridge is not None and ridge < 0:
        raise Refusal(f"--ridge is at least 0, not {ridge}.")
    if ridge is not None and chosen.penalty != "ridge":
        raise Refusal(f"{chosen.name!r} has no ridge.")
    return chosen


def _fit_and_expect(made: Any, data: Any, y: Any, only_gaps: bool, seed: int) -> tuple[Any, Any]:
    """Return the fitted, calibrated model and its expected score; None for the score if too few rows are labelled.

    ``made(X=X)`` returns the estimator for rows X. With ``only_gaps`` only missing values of y mean unlabelled.
    """
    from labelfold.app.compare import by_leave_one_out, calibrate, expected, predict_held_out
    from labelfold.app.registry import fit_grouped, only_missing, settled

    model = made(X=data.X)
    if only_gaps:
        model = only_missing(model)
    model = settled(fit_grouped(model, data.X, data.y if data.facts.numbers else y, data.groups))
    found = by_leave_one_out(model, data)
    if found is None:
        held = predict_held_out(lambda X: made(X=X), data, seed)
        found = None if held is None else expected(held)
        calibrate(model, held)
    return model, found


def _fitted_line(method: Any, model: Any, embedded: Any, table: Any, labels: Any) -> str:
    """Return a sentence about the fitted model and its data."""
    from labelfold.app.compare import last_step

    last = last_step(model)
    value = f", ridge {last.ridge:.3g}" if hasattr(last, "ridge") else ""
    size = "" if embedded is None else f" with {count(embedded.shape[1], 'component')}"
    known = f"in {labels.n_classes} classes"
    if labels.task == "regression":
        known = f"with numbers from {labels.values.min():g} to {labels.values.max():g}"
    everyone = " (all of them: supervised)" if labels.all_labelled else ""
    n, d = table.raw.shape
    return (
        f"{glossed(method)}{size}{value}, fitted on {n:,} rows × {count(d, 'column')}, {labels.n_labelled:,} rows "
        f"labelled {known}{everyone}."
    )


def _fewer_components(asked: int | None, method: Any, embedded: Any) -> list[str]:
    """Return a sentence if there are fewer components than were asked for."""
    if asked is None:
        return []
    if embedded is None:
        return [f"-k {asked} has no effect: {method.name} has no components."]
    made = embedded.shape[1]
    return [f"-k {asked} is more than the data determine; the model has {made}."] if made < asked else []
