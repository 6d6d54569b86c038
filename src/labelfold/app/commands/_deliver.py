"""Writes the report, answer, model and predictions of a comparison: all of them or none."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from labelfold.app.commands._apply import predictions_of_rows, write_predictions
from labelfold.app.commands._console import named_rows, note, say
from labelfold.app.io import finished_together, refuse_input, writable_file, write_finished

_MADE = (
    "model.skops",
    "embedding.parquet",
    "predictions.csv",
    "annotated.h5ad",
    "answer.json",
    "report.html",
)


def refuse_places(output: Path) -> None:
    """Raise an error if one of the files cannot be written, before any work."""
    for name in _MADE:
        writable_file(output / name)


def refuse_inputs(output: Path, *given: object) -> None:
    """Raise an error if writing to the folder would replace or remove a file that is read."""
    for name in (*_MADE, "results.csv", "run.json"):
        refuse_input(output / name, *given)


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
    from labelfold.app.commands._model import fit_notes
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
