"""Splits the columns of a table into target, ids, images and features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelfold.app.io._frames import Stream, as_written, chosen, group_values
from labelfold.app.io._label_file import LabelFile
from labelfold.app.io._problems import FileProblem, count, did_you_mean, listed, pa
from labelfold.app.io._sources import Matrix, Request, needed
from labelfold.tables import matching


def from_frame(path: Any, frame: Any, request: Request, beside: LabelFile | None) -> tuple[Matrix, list[str]]:
    """Return the parts of a table with named columns, and the columns that are not used."""
    there = frame.column_names
    targets, ids, features = request.targets, request.ids, request.features
    groups = chosen(path, there, "group", request.groups)
    if request.optional:
        targets = [name for name in targets if matching(name, there)]
    if beside is not None:
        # a column that the table shares with the file of labels identifies the rows
        ids = ids or [name for name in beside.keys if name in there]
    targets = chosen(path, there, "target", targets)
    ids = chosen(path, there, "id", ids) or [c for c in request.known_ids if c in there]
    if both := set(targets) & set(groups):
        raise FileProblem(
            f"{path}: {listed(sorted(both))} cannot be the target and a group; name another --group."
        )
    aside = {*targets, *ids, *groups, *chosen(path, there, "dropped", request.drop)}
    names, ignored = _choose_features(path, [c for c in there if c not in aside], features)
    if isinstance(frame, Stream):
        X, frame = frame.split(names, targets, [*ids, *groups], sampled=features is None)
    else:
        X = frame.select(names)
    y = as_written(frame, targets, coded=True) if targets else None
    y = y if y is None or len(targets) > 1 else y[targets[0]]
    named = as_written(frame, ids) if ids else None
    return Matrix(X, y, names, named, targets, groups=group_values(as_written(frame, groups))), ignored


def from_matrix(path: Any, content: Matrix, request: Request) -> tuple[Matrix, list[str]]:
    """Return a matrix with the columns to use, and the names of the other columns."""
    ignored: list[str] = []
    X, names, drop, features = content.X, content.names, request.drop, request.features
    if drop and names is None:
        raise FileProblem(f"{path} has no named columns, so none can be an id or dropped.")
    if 0 in X.shape:
        raise FileProblem(f"{path} has no {'rows' if X.shape[0] == 0 else 'columns'} in X.")
    if names and (features is not None or drop):
        gone = set(chosen(path, names, "dropped", drop))
        place = {name: j for j, name in enumerate(names)}
        names, ignored = _choose_features(path, [name for name in names if name not in gone], features)
        X = X[:, [place[name] for name in names]]
    X, told = without_gaps(X)
    for sentence in told:
        request.note(f"In {path} {sentence}")
    return replace(content, X=X, names=names), ignored


def without_gaps(X: Any) -> tuple[Any, list[str]]:
    """Return a sparse matrix with 0 for missing and infinite values, and sentences about them.

    0 is the median of most columns of a sparse matrix. A dense matrix is returned unchanged.

    >>> made, told = without_gaps(sp.csr_array([[0.0, np.nan], [2.0, 0.0]]))
    >>> made.toarray().tolist(), told
    ([[0.0, 0.0], [2.0, 0.0]], ['X has 1 stored value that is no finite number; it counts as 0, as absent ones do.'])
    """
    bad = ~np.isfinite(X.data) if sp.issparse(X) and X.dtype.kind == "f" else np.zeros(0, dtype=bool)
    if not bad.any():
        return X, []
    X = X.copy()
    X.data[bad] = 0.0
    one = bad.sum() == 1
    return X, [
        f"X has {count(int(bad.sum()), 'stored value')} that {'is' if one else 'are'} no finite number; "
        f"{'it counts' if one else 'they count'} as 0, as absent ones do."
    ]


def pictured(path: Any, source: Any, frame: Any, request: Request) -> tuple[Any, dict[str, Any], Request]:
    """Return a table with pixels in place of paths, the facts about the images, and its ids and targets."""
    needed(path, "PIL", "images")
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
    frame = frame.drop_columns([] if column in ids else [column])
    return frame, images, replace(request, ids=ids, targets=targets)


def _choose_features(
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
