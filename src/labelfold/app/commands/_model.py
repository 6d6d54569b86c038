"""The commands about one model: methods, fit, transform and predict."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table as Grid

from labelfold.app.commands import _compare as compare  # noqa: F401 - its commands belong to the app too
from labelfold.app.commands import _inspect as inspect  # noqa: F401
from labelfold.app.commands._console import (
    MOST_TOLD,
    as_fitted,
    console,
    glossed,
    named_columns,
    note,
    read_labelled,
    recipe_for,
    recipe_of,
    row_names,
    tell_recipe,
)
from labelfold.app.commands._options import (
    MEMORY,
    Category,
    Data,
    Date,
    Drop,
    Encoding,
    Format,
    Ids,
    LabelFree,
    Model,
    Number,
    SafeCsv,
    Scale,
    Seed,
    TableOut,
    Target,
    Task,
    Text,
    app,
)
from labelfold.app.io._problems import (
    Refusal,
    count,
    existing_file,
    listed,
    printable,
    refusing,
    writable_file,
)

__all__ = ["app"]


@app.command("methods")
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


@app.command(epilog=MEMORY)
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    target: Target = None,
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
    ids: Ids = None,
    drop: Drop = None,
    text: Text = None,
    category: Category = None,
    number: Number = None,
    date: Date = None,
    label_free: LabelFree = None,
    format: Format = None,
    encoding: Encoding = None,
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
        table, mark, labels = read_labelled(data, target, ids, drop, label_free, format, encoding, task)
        recipe = recipe_for(table, text=text, category=category, number=number, date=date)
        names = row_names(table)
        read = read_data(table.columns(), table.y, unlabeled=mark, ids=names, recipe=recipe, task=task)
        tell_recipe(read.recipe)
        if method is None and ridge is not None and read.facts.numbers:
            chosen = get_method("ridge")
        refuse_other_task(chosen, read.facts.task)
        penalty = {} if ridge is None else {"ridge": ridge}
        form, why_form = chosen_form(read.X, scale, read.column, in_unit=read.in_unit)

        def make(rows: Any) -> Any:
            return chosen.make(
                components, X=rows, random_state=seed, scale=form, task=read.facts.task, **penalty
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


@app.command(epilog=MEMORY)
def transform(
    model: Model,
    data: Data,
    output: TableOut,
    target: Target = None,
    ids: Ids = None,
    drop: Drop = None,
    text: Text = None,
    category: Category = None,
    number: Number = None,
    date: Date = None,
    format: Format = None,
    encoding: Encoding = None,
    predict: Annotated[
        bool, typer.Option("--predict", help="Add a column with the predicted class or number.")
    ] = False,
    safe_csv: SafeCsv = False,
) -> None:
    """Embed the rows of a table with a saved model."""
    from labelfold.app.io import write_table

    needed = {"transform": "gives no embedding; labelfold predict gives its predictions"}
    if predict:
        needed["predict"] = "predicts nothing; leave out --predict"
    roles = {"text": text, "category": category, "number": number, "date": date}
    saved, table, X = _read_both(
        model, data, output, target or [], ids, drop or [], roles, (format, encoding), needed
    )
    with refusing():
        embedded = saved.model.transform(X)
        extra = predicted_columns(saved.model.predict(X), saved.meta.get("classes")) if predict else None
        columns = [str(c) for c in saved.model.get_feature_names_out()]
    write_table(output, embedded, columns, ids=table.ids, extra=extra, safe_csv=safe_csv)
    n, k = embedded.shape
    console().print(f"{count(n, 'row')} in {count(k, 'component')} written to {output}", soft_wrap=True)


@app.command(epilog=MEMORY)
def predict(
    model: Model,
    data: Data,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="A .parquet, .csv, .tsv or .npz file; CSV on the screen unless given."
        ),
    ] = None,
    target: Target = None,
    ids: Ids = None,
    drop: Drop = None,
    text: Text = None,
    category: Category = None,
    number: Number = None,
    date: Date = None,
    format: Format = None,
    encoding: Encoding = None,
    safe_csv: SafeCsv = False,
) -> None:
    """Predict the classes, or numbers, of the rows of a table with a saved model, and how sure it is of each."""
    from labelfold.app.io import write_table
    from labelfold.app.io._writing import csv_text

    needed = {"predict": "predicts nothing; labelfold transform gives its embedding"}
    roles = {"text": text, "category": category, "number": number, "date": date}
    saved, table, X = _read_both(
        model, data, output, target or [], ids, drop or [], roles, (format, encoding), needed
    )
    with refusing():
        extra = said_of(saved.model, X, saved.meta.get("classes"), saved.meta.get("within"))
    n = table.raw.shape[0]
    if output is None:
        said = csv_text(np.empty((n, 0)), [], ids=table.ids, extra=extra, safe_csv=safe_csv)
        sys.stdout.write(printable(said) if sys.stdout.isatty() else said)  # typer.echo would strip escapes
        return
    write_table(output, np.empty((n, 0)), [], ids=table.ids, extra=extra, safe_csv=safe_csv)
    console().print(f"{count(n, 'prediction')} written to {output}", soft_wrap=True)


def said_of(model: Any, X: Any, classes: list[str] | None, within: float | None) -> dict[str, np.ndarray]:
    """Return what a model says of rows as columns: predictions, and how sure they are.

    Of numbers: what nine of ten rows are expected between, where the distance is known.
    """
    from labelfold.app._explain import predict_with_confidence

    predicted, confidence = predict_with_confidence(model, X)
    columns = predicted_columns(predicted, classes)
    if hasattr(model, "classes_"):
        return columns | {"confidence": confidence}
    return columns if within is None else columns | {"low": predicted - within, "high": predicted + within}


def predicted_columns(predicted: np.ndarray, classes: list[str] | None) -> dict[str, np.ndarray]:
    """Return predictions as columns: one, or one for each label."""
    if predicted.ndim == 1:
        return {"predicted": predicted}
    names = classes or range(predicted.shape[1])
    return {f"predicted {name}": predicted[:, j] for j, name in enumerate(names)}


def _read_both(
    model: Path,
    data: Path,
    output: Path | None,
    target: list[str],
    ids: list[str] | None,
    drop: list[str],
    roles: dict[str, list[str] | None],
    written: tuple[str | None, str | None],
    needed: dict[str, str],
) -> tuple[Any, Any, Any]:
    """Read a model and new rows for it, having checked that it can do what is needed, and the output be written."""
    from labelfold.app.io import read_model, read_table
    from labelfold.app.io._writing import writable_table

    existing_file(data)
    if output is not None:
        writable_table(output)
    saved = read_model(model)
    for method, lack in needed.items():
        if not hasattr(saved.model, method):
            raise Refusal(f"The model in {model} {lack}.")
    recipe = recipe_of(saved.model)
    table = read_table(
        data,
        id_columns=ids or (),
        known_ids=recipe.ids_ if recipe is not None and ids is None else (),
        drop=drop,
        features=saved.meta.get("feature_names") if recipe is None else named_columns(recipe),
        format=written[0],
        encoding=written[1],
        index_base=saved.meta.get("index_base"),
    )
    for sentence in table.notes:
        note(sentence)
    known = {*target, *getattr(recipe, "feature_names_in_", ())}
    left = [name for name in table.ignored if name not in known]
    if ignored := [name for name in left if not any(fnmatchcase(name, pattern) for pattern in target)]:
        note(f"ignored {listed(ignored)}, which the model does not use.")
    if recipe is not None:
        _tell_other_roles(recipe, roles)
    with refusing():
        X = as_fitted(table, saved, data)
        for sentence in recipe.unread(X) if recipe is not None else ():
            note(sentence)
        return saved, table, X


def _tell_other_roles(recipe: Any, roles: dict[str, list[str] | None]) -> None:
    """Say where an option gives a column another role than the model learned to read it in."""
    read = {column["name"]: column["role"] for column in recipe.columns_}
    for role, names in roles.items():
        for name in names or ():
            if read.get(name, role) != role:
                note(f"the model reads {name!r} as {read[name]}, as it was fitted, whatever --{role} says.")
