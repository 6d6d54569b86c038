"""The command inspect, which describes a saved model."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any

from rich.table import Table as Grid

from labelfold.app.commands._console import console, glossed, recipe_of, say, using
from labelfold.app.commands._options import MEMORY, Model, app
from labelfold.app.compare import MOST_COMPONENTS, view_kinds
from labelfold.app.io import refusing


@app.command(epilog=MEMORY["model"])
def inspect(model: Model) -> None:
    """Describe a saved model: method, data, classes, and the columns that its components correlate with."""
    from labelfold.app.io import read_model

    saved = read_model(model)
    with refusing(), using(model):
        _tell(saved)


def _tell(saved: Any) -> None:
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
        tops = top_features(weights[:MOST_COMPONENTS], names, MOST_COMPONENTS)
    for i, top in enumerate(tops or (), start=1):
        features = ", ".join(f"{name} {value:+.2f}" for name, value in top)
        say(f"component {i}: {features or 'constant'}")


def _facts(saved: Any, method: Any) -> list[tuple[str, str]]:
    """Return the description of a model: headings and texts."""
    from labelfold.app.registry import AS_IS, form_of

    meta, recipe = saved.meta, recipe_of(saved.model)
    core = saved.model if recipe is None else saved.model[-1]
    facts = [("model", meta.get("model") or type(saved.model).__name__)]
    if method is not None:
        facts += [("method", glossed(method)), ("paper", method.paper)]
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
        settled = getattr(part, f"{name}_", value)
        if (
            isinstance(settled, Real)
            and not isinstance(settled, bool)
            and (name == penalty or settled is not value)
        ):
            yield f"{name} {settled:.3g}"


def _first_names(names: list[str] | None) -> str:
    return f": {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}" if names else ""
