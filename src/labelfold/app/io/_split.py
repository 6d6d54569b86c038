"""Splits the columns of a table into target, ids, images and features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labelfold.app.io._frames import Stream, as_written, chosen
from labelfold.app.io._problems import FileProblem, did_you_mean, listed
from labelfold.app.io._sources import Matrix, Request
from labelfold.tables._column import matching


def from_frame(
    path: Any,
    frame: Any,
    targets: Sequence[str],
    id_columns: Sequence[str],
    known_ids: Sequence[str],
    drop: Sequence[str],
    features: Sequence[str] | None,
    beside: Any,
    optional: bool,
) -> tuple:
    """Return the parts of a table with named columns."""
    there = frame.column_names
    if optional:
        targets = [name for name in targets if matching(name, there)]
    if beside is not None:
        # a column that the table shares with the file of labels identifies the rows
        id_columns = id_columns or [name for name in beside.keys if name in there]
    targets = chosen(path, there, "target", targets)
    id_columns = chosen(path, there, "id", id_columns) or [c for c in known_ids if c in there]
    aside = {*targets, *id_columns, *chosen(path, there, "dropped", drop)}
    names, ignored = choose_features(path, [c for c in there if c not in aside], features)
    if isinstance(frame, Stream):
        X, frame = frame.split(names, targets, id_columns, sampled=features is None)
    else:
        X = frame.select(names)
    y = as_written(frame, targets, coded=True) if targets else None
    y = y if y is None or len(targets) > 1 else y[targets[0]]
    ids = as_written(frame, id_columns) if id_columns else None
    return X, y, names, ids, ignored, targets, None


def pictured(
    path: Any, source: Any, frame: Any, request: Request
) -> tuple[Any, dict[str, Any], list[str], list[str]]:
    """Return a table with pixels in place of paths, the facts about the images, and its ids and targets."""
    import pyarrow as pa

    from labelfold.app.io._images import CLASS, FILE, with_pixels

    folder = source.name == "images"
    column = FILE if folder else str(request.reading.image)
    if isinstance(frame, Matrix):
        raise FileProblem(f"{path} has no column of paths, so that --image {column} names none.")
    if not hasattr(frame, "select"):
        frame = pa.concat_tables(frame.blocks(frame.column_names))
    frame, size = with_pixels(path, frame, column, request)
    images = {"column": column, "size": list(size), "colour": bool(request.reading.colour)}
    targets = [CLASS] if folder and (request.optional or not request.targets) else list(request.targets)
    ids = chosen(path, frame.column_names, "id", request.ids) or [column]
    # the column of paths is replaced by pixels, so it is not read as text too
    return frame.drop_columns([] if column in ids else [column]), images, ids, targets


def choose_features(
    path: Any, rest: list[str], features: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return the columns of X, in the order of the model if there is one, and the other columns."""
    if features is None:
        if not rest:
            raise FileProblem(
                f"{path} has no column left for X once target, id and dropped ones are taken out."
            )
        return rest, []
    there, wanted = set(rest), set(features)
    absent = [c for c in features if c not in there]
    if absent:
        hint = did_you_mean(absent[0], rest) if len(absent) == 1 else ""
        raise FileProblem(
            f"{path} lacks {len(absent)} of the {len(features)} columns the model was fitted on: "
            f"{listed(absent)}{hint}; add {'it' if len(absent) == 1 else 'them'}, with empty cells where nothing is "
            "known."
        )
    return list(features), [c for c in rest if c not in wanted]
