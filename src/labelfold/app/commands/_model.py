"""The commands methods, fit and inspect."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from numbers import Real
from pathlib import Path
from typing import Annotated, Any

import typer

from labelfold.app.commands import _options as options
from labelfold.app.commands._console import (
    console,
    read_labelled,
    recipe_for,
    row_names,
    say,
    tell_recipe,
    title_and_gloss,
    using,
)
from labelfold.app.commands._options import MEMORY, GivenRows, Model, app, takes_rows
from labelfold.app.io import Refusal, count, find, refusing, writable_file

__all__ = ["app"]


@app.command("methods", epilog=MEMORY["shipped"])
def list_methods(
    name: Annotated[str | None, typer.Argument(help="The method to describe. Default: list all.")] = None,
) -> None:
    """List the methods by use, or describe one of them."""
    from rich.table import Table as Grid

    from labelfold.app.registry import METHODS, get_method

    out = console()
    if name is not None:
        with refusing():
            facts = Grid(box=None, show_header=False, pad_edge=False)
            for line in _description(get_method(name)):
                facts.add_row(*line)
        out.print(facts)
        return
    width = max(map(len, METHODS))
    for use, methods in groupby(METHODS.values(), key=lambda method: method.use):
        out.print(f"{use}", style="bold")
        for m in methods:
            more = "" if m.available else f"; not installed: {m.installation}"
            say(f"  {m.name:<{width}}  {title_and_gloss(m)}{more}")
    out.print("\nlabelfold methods NAME describes one of them.")


def _description(method: Any) -> list[tuple[str, str]]:
    """Return the description of a method: headings and texts."""
    classes, numbers = (method.why_not_task(task) is None for task in ("classification", "regression"))
    facts = [
        ("method", title_and_gloss(method)),
        ("what it does", method.summary),
        ("learns from", "labelled rows" if method.labels == "supervised" else "all rows, labelled or not"),
        ("predicts", "classes and numbers" if classes and numbers else "classes" if classes else "numbers"),
        (
            "reduces",
            "yes: transform gives its components" if method.embeds else "no: it uses all columns",
        ),
        ("paper", method.paper),
    ]
    return facts if method.available else [*facts, ("not installed", method.installation)]


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
    class_weight: options.ClassWeight = None,
    seed: options.Seed = 0,
) -> None:
    """Fit LabelFold, or another method, on a table, estimate its score on new rows, and save the model."""
    from labelfold.app.compare import fit_with_expectation, read_data, save_fit
    from labelfold.app.registry import get_method, read_class_weight, weights_sentence

    with refusing():
        chosen = _method_to_fit(method, components, ridge)
        given = options.class_weight_of(class_weight)
        writable_file(output, find(rows.data, rows.reading)[1], rows.labels)
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
            data.checked_sizes(components)
        if method is None and ridge is not None and data.facts.numbers:
            chosen = get_method("ridge")
        chosen.refuse_task(data.facts.task)
        weights = read_class_weight(given, data.labels)
        if weights is not None:
            chosen.refuse_weighted()
        form, why_form = data.chosen_form(scale)
        penalty = {} if ridge is None else {"ridge": ridge}

        def make(X: Any) -> Any:
            how = {
                "random_state": seed,
                "scale": form,
                "task": data.facts.task,
                "class_weight": weights,
            }
            return chosen.make(components, X=X, **how, **penalty)

        fitted = fit_with_expectation(make, data, seed, table.y)
    model = fitted.model
    embedded = model.transform(data.X) if chosen.embeds else None
    save_fit(output, model, chosen, table, data, embedded, fitted.expected)
    lines = [
        _fitted_line(chosen, model, embedded, table, data.labels),
        *_fewer_components(components, chosen, embedded),
        *data.doubts,
        *([why_form] if why_form and chosen.form(form) == form else []),
        *filter(None, [weights_sentence(weights, data.classes)]),
        *fitted.sentences(),
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


def _fitted_line(method: Any, model: Any, embedded: Any, table: Any, labels: Any) -> str:
    """Return a sentence about the fitted model and its data."""
    last = model[-1] if hasattr(model, "steps") else model
    value = f", ridge {last.ridge:.3g}" if hasattr(last, "ridge") else ""
    size = "" if embedded is None else f" with {count(embedded.shape[1], 'component')}"
    known = f"in {labels.n_classes} classes"
    if labels.task == "regression":
        known = f"with numbers from {labels.values.min():g} to {labels.values.max():g}"
    everyone = " (all of them: supervised)" if labels.all_labelled else ""
    n, d = table.raw.shape
    return (
        f"{title_and_gloss(method)}{size}{value}, fitted on {n:,} rows × {count(d, 'column')}, "
        f"{labels.n_labelled:,} rows labelled {known}{everyone}."
    )


def _fewer_components(asked: int | None, method: Any, embedded: Any) -> list[str]:
    """Return a sentence if there are fewer components than were asked for."""
    if asked is None:
        return []
    if embedded is None:
        return [f"-k {asked} has no effect: {method.name} has no components."]
    made = embedded.shape[1]
    return [f"-k {asked} is more than the data determine; the model has {made}."] if made < asked else []


@app.command("inspect", epilog=MEMORY["model"])
def inspect_command(model: Model) -> None:
    """Describe a saved model: method, data, classes, and the columns that its components correlate with."""
    from labelfold.app.io import read_model

    saved = read_model(model)
    with refusing(), using(model):
        _describe_model(saved)


def _describe_model(saved: Any) -> None:
    from rich.table import Table as Grid

    from labelfold.app.registry import METHODS

    meta = saved.meta
    method = METHODS.get(str(meta.get("method")))
    facts = Grid(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(saved, method):
        facts.add_row(name, value)
    console().print(facts)
    tops = meta.get("top_features")
    if tops is None and (weights := getattr(saved.model, "components_", None)) is not None:
        from labelfold.app.compare import top_features

        names = meta.get("feature_names") or [f"column {j}" for j in range(weights.shape[1])]
        tops = top_features(weights, names)
    for i, top in enumerate(tops or (), start=1):
        features = ", ".join(f"{name} {value:+.2f}" for name, value in top)
        say(f"component {i}: {features or 'constant'}")


def _facts(saved: Any, method: Any) -> list[tuple[str, str]]:
    """Return the description of a model: headings and texts."""
    from labelfold.app.compare import view_kinds
    from labelfold.app.registry import AS_IS, form_of

    meta, recipe = saved.meta, saved.recipe
    core = saved.model if recipe is None else saved.model[-1]
    facts = [("model", meta.get("model") or type(saved.model).__name__)]
    if method is not None:
        facts += [("method", title_and_gloss(method)), ("paper", method.paper)]
    facts.append(
        ("written by", f"labelfold {meta.get('labelfold')}, scikit-learn {meta.get('scikit-learn')}")
    )
    if meta.get("n_rows"):
        facts.append(
            ("fitted on", f"{meta['n_rows']:,} rows, {meta.get('n_labelled') or 0:,} of them labelled")
        )
    facts.append(("columns", f"{meta.get('n_features') or 0:,}" + _first_names(meta.get("feature_names"))))
    if recipe is not None:
        facts += [("column" if i else "recipe", line) for i, line in enumerate(recipe.lines())]
    form = form_of(saved.model)
    if form != AS_IS:
        facts.append(("form", f"the model brings the columns to {form} first"))
    classes = meta.get("classes")
    if classes:
        counts = meta.get("counts") or [None] * len(classes)
        named = [c if n is None else f"{c} ({n:,})" for c, n in zip(classes, counts, strict=False)]
        facts.append(("classes", ", ".join(named[:30]) + (" ..." if len(named) > 30 else "")))
    if meta.get("range"):
        low, high = meta["range"]
        facts.append(("numbers", f"{low:g} to {high:g} in the labelled rows"))
    if meta.get("within"):
        facts.append(("expected", f"nine of ten new rows within {meta['within']:.3g} of their prediction"))
    if meta.get("target"):
        target = meta["target"]
        facts.append(("target", target if isinstance(target, str) else ", ".join(target)))
    if meta.get("n_components"):
        facts.append(("components", str(meta["n_components"])))
    views = [f"{view.share:.0%} {view.what} ({view.form})" for view in view_kinds(core)]
    facts += [("view" if i else "views", view) for i, view in enumerate(views)]
    parts = list(_parts(core))
    facts.append(("made of", ", then ".join(type(part).__name__ for part in parts)))
    chosen = [told for part in parts for told in _chosen(part, getattr(method, "penalty", None))]
    return [*facts, ("chosen", ", ".join(chosen))] if chosen else facts


def _parts(model: Any) -> Iterator[Any]:
    """Yield the estimators inside the adapters and pipelines of a fitted model."""
    inside = [step for _, step in getattr(model, "steps", ())]
    for name in ("reducer_", "classifier_", "estimator_"):
        inside += [part for part in [getattr(model, name, None)] if part is not None]
    inside = inside or list(getattr(model, "estimators_", ()))[:1] * hasattr(model, "estimator")
    if not inside:
        yield model
    for part in inside:
        yield from _parts(part)


def _chosen(part: Any, penalty: str | None) -> Iterator[str]:
    """Yield the parameters that were chosen from the data: the penalty, and those that were "auto"."""
    for name, value in part.get_params(deep=False).items():
        chosen = getattr(part, f"{name}_", value)
        if (
            isinstance(chosen, Real)
            and not isinstance(chosen, bool)
            and (name == penalty or chosen is not value)
        ):
            yield f"{name} {chosen:.3g}"


def _first_names(names: list[str] | None) -> str:
    return f": {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}" if names else ""
