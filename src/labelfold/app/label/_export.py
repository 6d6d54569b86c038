"""Exports of a session: the table, the predictions, the model and the report."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from labelfold.app.compare import Data, named_rows, read_data, save_fit
from labelfold.app.io import Refusal, count, csv_text, pd, read_target
from labelfold.app.label._accuracy import expected
from labelfold.app.label._session import Session
from labelfold.tables import Recipe

_SECONDS = 60.0  # budget for a report, and for a fit that is under way
_one_at_a_time = threading.Lock()  # fits and reports use all cores


def table_csv(session: Session, safe_csv: bool) -> bytes:
    """Return the table with the current labels in the target column; other columns are unchanged.

    For images the other columns are the paths, for a sparse matrix the row numbers.
    """
    rows = session.rows
    frame = _columns(session)
    labels = np.array([label or "" for label in session.marks.labels], dtype=object)
    frame[rows.target] = labels
    return csv_text(np.empty((rows.n, 0)), [], ids=frame, safe_csv=safe_csv).encode()


def predictions_csv(session: Session, safe_csv: bool) -> bytes:
    """Return the label, the prediction and its confidence for each row."""
    _model_of(session)
    predicted, sure = session.predictions()
    classes = np.array(session.marks.classes, dtype=object)
    extra = {
        "label": np.array([label or "" for label in session.marks.labels], dtype=object),
        "predicted": classes[predicted],
        "confidence": np.round(sure, 4),
    }
    nothing = np.empty((session.rows.n, 0))
    return csv_text(nothing, [], ids=_named(session), extra=extra, safe_csv=safe_csv).encode()


def model_skops(session: Session, safe_csv: bool) -> bytes:
    """Return the current model, with all views weighed, as a model file."""
    from labelfold.app.registry import get_method

    with _one_at_a_time:
        fold, data = _model_of(session), _data(session)
        fitted = copy(fold).refit(data.targets(), full=True)
        table = replace(session.rows.table, targets=[session.rows.target])
        method = get_method("labelfold")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.skops"
            return save_fit(path, fitted, method, table, data, fitted.embedding_, None).read_bytes()


def report_html(session: Session, safe_csv: bool) -> bytes:
    """Return a report on LabelFold alone, with the accuracy estimated from random questions."""
    from labelfold.app.report import compare, render

    rows = session.rows
    with _one_at_a_time:
        data = _data(session)
        found = compare(
            data.X,
            data.targets(),
            methods=["labelfold"],
            repeats=1,
            time_limit=_SECONDS,
            unlabeled=None,
            ids=data.ids,
            image_shape=rows.image_shape,
            progress=False,
            name=rows.name,
            command=f"labelfold label {rows.name} --target {rows.target}",
            task="classification",
            feature_names=data.names,
        )
        found.data = replace(found.data, recipe=rows.recipe)
        found.notes.insert(0, _accuracy_sentence(session))
        return render(found).encode()


EXPORTS: dict[str, tuple[Callable[[Session, bool], bytes], str]] = {
    "table.csv": (table_csv, "text/csv; charset=utf-8"),
    "predictions.csv": (predictions_csv, "text/csv; charset=utf-8"),
    "model.skops": (model_skops, "application/octet-stream"),
    "report.html": (report_html, "text/html; charset=utf-8"),
}


def _model_of(session: Session) -> Any:
    """Wait for the model of the newest labels, and return it."""
    if session.worker.is_alive():
        session.worker.idle(_SECONDS)
    latest = session.latest
    if latest is None or latest.fold is None:
        raise Refusal("There is no model yet; label rows of two classes, and wait for the first fit.")
    return latest.fold


def _data(session: Session) -> Data:
    """Return rows and current labels as `compare` and `fit` read them."""
    rows = session.rows
    labels, _ = session.labels()
    if len({label for label in labels if label is not None}) < 2:
        raise Refusal("There are labels of fewer than two classes; label more rows.")
    ids = None if rows.ids is None else [rows.called(i) for i in range(rows.n)]
    # in the types that the file of labels is read in
    y = read_target(labels)
    data = read_data(
        rows.X,
        y,
        unlabeled=None,
        ids=ids,
        # the columns are those that the model on the page was fitted on
        recipe=Recipe(keep=["*"]),
        task="classification",
        feature_names=rows.names,
    )
    return replace(data, recipe=rows.recipe)


def _named(session: Session) -> Any:
    """Return the columns that name the rows, or their numbers."""
    rows = session.rows
    return named_rows(rows.table, rows.recipe) if rows.ids is None else rows.ids


def _columns(session: Session) -> Any:
    """Return the columns of the table, in its order, as they were written."""
    rows = session.rows
    table, raw = rows.table, rows.cells.raw
    if table.image_shape is not None:
        return _named(session).copy()
    whole = table.frame if table.frame is not None else raw
    if hasattr(whole, "column_names"):
        columns = {name: _as_text(whole.column(name)) for name in whole.column_names}
        more = {} if table.ids is None else {n: table.ids[n] for n in table.ids if n not in columns}
        return pd.DataFrame({**more, **columns})
    named = _named(session).copy()
    if not hasattr(raw, "__array__"):  # sparse
        return named
    values = pd.DataFrame(raw, columns=[rows.cells.name(j) for j in range(rows.cells.d)])
    return pd.concat([named.drop(columns=[c for c in named if c in values]), values], axis=1)


def _as_text(column: Any) -> Any:
    """Return an Arrow column for a CSV file; whole numbers stay whole if others are missing."""
    from labelfold.tables import is_text

    if is_text(column.type):
        return column.fill_null("").to_pandas()
    return column.to_pandas(integer_object_nulls=True)


def _accuracy_sentence(session: Session) -> str:
    found = expected(session.marks.answers())
    if found is None:
        return (
            "No row drawn at random was predicted before it was labelled, so that the page knows no accuracy."
        )
    return (
        f"On the labelling page {count(found.n, 'row')} drawn at random, each predicted before it was labelled, give "
        f"an accuracy of {found.value:.0%} ({found.low:.0%} to {found.high:.0%} with 90% confidence)."
    )
