"""The commands that make one model: methods and fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table as Grid

from labelfold.app.commands import _apply as apply  # noqa: F401
from labelfold.app.commands import _compare as compare  # noqa: F401 - its commands belong to the app too
from labelfold.app.commands import _inspect as inspect  # noqa: F401
from labelfold.app.commands import _label as label  # noqa: F401
from labelfold.app.commands._console import (
    MOST_TOLD,
    console,
    glossed,
    read_labelled,
    recipe_for,
    row_names,
    tell_recipe,
)
from labelfold.app.commands._options import MEMORY, GivenRows, LabelFree, Scale, Seed, Task, app, takes_rows
from labelfold.app.io._problems import Refusal, count, refuse_input, refusing, writable_file
from labelfold.app.io._sources import find

__all__ = ["app"]


@app.command("methods", epilog=MEMORY["shipped"])
def list_methods(
    name: Annotated[
        str | None, typer.Argument(help="Which one to tell more of; lists them unless given.")
    ] = None,
) -> None:
    """List the methods by what one would use them for, or say more of one."""
    from labelfold.app.registry._glosses import USES
    from labelfold.app.registry._methods import METHODS, get_method, install

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
            out.print(f"  {m.name:<{width}}  {glossed(m)}{more}", soft_wrap=True)
    out.print("\nlabelfold methods NAME says more of one of them.")


def _told(method: Any) -> list[tuple[str, str]]:
    """Return what there is to say of a method."""
    from labelfold.app.registry._methods import install
    from labelfold.app.registry._suitability import takes

    classes, numbers = (takes(method, task) is None for task in ("classification", "regression"))
    facts = [
        ("method", glossed(method)),
        ("what it does", method.summary),
        ("learns from", "labelled rows" if method.labels == "supervised" else "all rows, labelled or not"),
        ("predicts", "classes and numbers" if classes and numbers else "classes" if classes else "numbers"),
        (
            "reduces",
            "yes: transform gives its components" if method.embeds else "no: it looks at all columns",
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
        str | None, typer.Option("--method", "-m", help="See: labelfold methods; labelfold unless given.")
    ] = None,
    components: Annotated[
        int | None, typer.Option("-k", "--components", help="Size of the embedding.")
    ] = None,
    ridge: Annotated[
        float | None,
        typer.Option(
            "--ridge", help="The ridge of lda, or of ridge for numbers; by cross-validation unless given."
        ),
    ] = None,
    label_free: LabelFree = None,
    scale: Scale = None,
    task: Task = "auto",
    seed: Seed = 0,
) -> None:
    """Fit LabelFold, or another method, on a table, say what to expect of it on new rows, and save the model."""
    from sklearn.pipeline import Pipeline

    from labelfold.app._calibrate import calibrate
    from labelfold.app.compare._data import read_data
    from labelfold.app.compare._expect import by_leave_one_out, expectation, expected, hold_back
    from labelfold.app.io import save_model
    from labelfold.app.registry._column_forms import chosen_form
    from labelfold.app.registry._methods import get_method
    from labelfold.app.registry._partly_labelled import only_missing
    from labelfold.app.registry._suitability import refuse_other_task
    from labelfold.app.registry._tuned import settled

    with refusing():
        chosen = get_method(method or ("labelfold" if ridge is None else "lda"))
        if chosen.needs:
            raise Refusal(
                f"Models of {chosen.name} cannot be saved; labelfold compare --save writes its embedding."
            )
        if components is not None and components < 1:
            raise Refusal(f"-k is the size of the embedding, at least 1, not {components}.")
        if ridge is not None and (ridge < 0 or chosen.penalty != "ridge"):
            wrong = f"--ridge is at least 0, not {ridge}" if ridge < 0 else f"{chosen.name!r} has no ridge"
            raise Refusal(f"{wrong}.")
        writable_file(output)
        refuse_input(output, find(rows.data, rows.reading)[1], rows.labels)
        table, mark, labels = read_labelled(rows, label_free, task)
        read = read_data(
            table.to_learn(),
            table.y,
            unlabeled=mark,
            ids=row_names(table),
            recipe=recipe_for(table, rows.roles),
            task=task,
            feature_names=table.feature_names,
        )
        tell_recipe(read.recipe)
        if method is None and ridge is not None and read.facts.numbers:
            chosen = get_method("ridge")
        refuse_other_task(chosen, read.facts.task)
        penalty = {} if ridge is None else {"ridge": ridge}
        form, why_form = chosen_form(read.X, scale, read.column, in_unit=read.in_unit)

        def make(X: Any) -> Any:
            return chosen.make(
                components, X=X, random_state=seed, scale=form, task=read.facts.task, **penalty
            )

        model = make(read.X)
        if mark is None:
            model = only_missing(model)
        model = settled(model.fit(read.X, read.y if read.facts.numbers else table.y))
        found = by_leave_one_out(model, read)
        if found is None:
            held = hold_back(make, read, seed)
            found = None if held is None else expected(held)
            calibrate(model, held)
    embedded = model.transform(read.X) if chosen.embeds else None
    save_model(read.delivered(model), output, **fit_notes(chosen, table, read, embedded, found))
    expect = "No labelled row can be held back, so nothing can be said of new rows; label more rows."
    if found is not None:
        expect = expectation(found, read.measure)
    n, d = table.raw.shape
    last = model[-1] if isinstance(model, Pipeline) else model
    value = f", ridge {last.ridge:.3g}" if hasattr(last, "ridge") else ""
    size = "" if embedded is None else f" with {count(embedded.shape[1], 'component')}"
    everyone = " (all of them: supervised)" if labels.all_labelled else ""
    known = f"in {labels.n_classes} classes"
    if read.facts.numbers:
        known = f"with numbers from {labels.values.min():g} to {labels.values.max():g}"
    console().print(
        f"{glossed(chosen)}{size}{value}, fitted on {n:,} rows × {count(d, 'column')}, {labels.n_labelled:,} rows "
        f"labelled {known}{everyone}.\n"
        + "".join(f"{doubt}\n" for doubt in read.doubts)
        + (f"{why_form}\n" if why_form and chosen.form(form) == form else "")
        + f"{expect}\n"
        + f"Saved to {output}",
        soft_wrap=True,
    )


def fit_notes(method: Any, table: Any, data: Any, embedded: Any, expected: Any) -> dict[str, Any]:
    """Return what to keep beside a model: what it was fitted on, and what its components go along with."""
    from labelfold.app._explain import correlations, top_features
    from labelfold.app.compare._data import medians

    labels = data.labels
    numbers = labels.task == "regression"
    tops = None
    if embedded is not None:
        names = [data.column(j) for j in range(data.X.shape[1])]
        tops = top_features(correlations(data.X, np.asarray(embedded)[:, :MOST_TOLD]), names, MOST_TOLD)
    return {
        "method": method.name,
        "target": table.targets or None,
        # of a matrix without a recipe, which would keep them
        "columns": table.feature_names if data.recipe is None else None,
        "images": table.images,
        "index_base": table.index_base,
        "n_components": None if embedded is None else int(embedded.shape[1]),
        "n_rows": int(data.X.shape[0]),
        "n_labelled": int(labels.n_labelled),
        "counts": None if numbers else labels.counts().tolist(),
        "range": [float(labels.values.min()), float(labels.values.max())] if numbers else None,
        "within": None if expected is None else expected.within,
        "top_features": tops,
        # a matrix without a gap takes no recipe, which would keep these
        "medians": medians(data.X).tolist() if data.recipe is None and not data.facts.sparse else None,
    }
