"""What a comparison leaves beside its report: the answer, the model, its embedding and its predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from labelfold.app.commands._apply import said_of, write_predictions
from labelfold.app.commands._console import named_rows, note
from labelfold.app.io._problems import FileProblem

# What a run leaves in its folder, beside results.csv.
_MADE = (
    "report.html",
    "answer.json",
    "model.skops",
    "embedding.parquet",
    "predictions.csv",
    "annotated.h5ad",
)


def clear(output: Path) -> None:
    """Remove what an earlier run made: its files never stand beside those of a new one."""
    for name in _MADE:
        (output / name).unlink(missing_ok=True)


def answer_of(found: Any) -> dict[str, Any]:
    """Return the answer for other programs to read."""
    choice = found.choice
    facts = {
        "method": found.best_,
        "components": found.best_size_,
        "metric": found.settings["metric"],
        "answer": found.answer,
        "details": found.details,
    }
    if choice is not None:
        facts |= {
            "expected": choice.expected,
            "low": choice.low,
            "high": choice.high,
            "n_rows": choice.n_rows,
            "within": choice.within,
            "equal": choice.equal,
        }
    return facts


def save_all(
    model: Any,
    method: Any,
    data: Any,
    choice: Any,
    table: Any,
    output: Path,
    safe_csv: bool,
    to_table: str | None,
) -> dict[str, Path]:
    """Write a fitted model, its embedding of all rows, and what it says of them; return the files."""
    from labelfold.app.commands._model import fit_notes
    from labelfold.app.io import save_model, write_table
    from labelfold.app.registry._tuned import settled

    model, X = settled(model), data.X
    embedded = np.asarray(model.transform(X)) if method.embeds else None
    written = {}
    notes = fit_notes(method, table, data, embedded, choice)
    try:
        written["Model"] = save_model(data.delivered(model), output / "model.skops", **notes)
    except FileProblem as error:
        note(str(error))
    ids = named_rows(table, data.recipe)
    columns: list[str] = []
    if embedded is not None:
        columns = [str(c) for c in model.get_feature_names_out()]
        written["Embedding"] = write_table(output / "embedding.parquet", embedded, columns, ids=ids)
    given = {"label": data.y if data.facts.numbers else [data.named(y) for y in data.y]}
    said = said_of(model, X, data.classes, notes["within"])
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
