"""Reads any source into columns or a matrix, y, names and ids. `_sources.py` lists the sources."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelfold.app.io._arrow_tables import (
    Stream,
    as_written,
    chosen,
    group_values,
    plain_numbers,
)
from labelfold.app.io._errors import FileProblem, count, did_you_mean, listed, pa, pd
from labelfold.app.io._label_file import NO_LABEL, LabelFile
from labelfold.app.io._sources import Matrix, Reading, Request, find, folder_of, needed, read
from labelfold.app.io._writing import PLAIN_NUMBER
from labelfold.tables import Blocks, matching, written_numbers

# Up to this many different whole numbers, or labels like "1,5" or "3 kg", are classes. More are numbers to predict,
# unless the whole numbers are the codes of classes.
MAX_CLASSES_AS_NUMBERS = 20
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_WHOLE = re.compile(r"^([+-]?\d+)\.0+$")  # -1.0 is -1 in another spelling


@dataclass(frozen=True)
class Table:
    """A source as the estimators need it.

    Attributes
    ----------
    raw : pyarrow.Table, Blocks, ndarray or csr_array of shape (n, d)
        The columns, for a recipe, if they have names; `Blocks` if the file is large. Otherwise the matrix.
    y : ndarray of shape (n,), DataFrame of shape (n, c), or None
        The target. An unlabelled row has ``None``, or a row of NaN.
    feature_names : list of str, or None
        Column names, if the format has them.
    ids : DataFrame or None
        The identifier columns.
    source : Path or Database
        The source that was read.
    ignored : list of str
        Columns that are not used.
    index_base : int or None
        For svmlight, the index of the first column in the file: 0 or 1.
    targets : list of str
        The target columns, if the format has names.
    notes : list of str
        Sentences about the steps taken to read the source.
    images : dict or None
        If columns are pixels: the ``column`` of paths, the ``size`` of the images, and whether in ``colour``.
    groups : ndarray of shape (n,) or None
        The group of each row as text, None for a row without one.
    frame : pyarrow.Table or None
        All columns as read, including dropped ones; only for the labelling page.
    """

    raw: Any
    y: np.ndarray | None
    feature_names: list[str] | None
    ids: Any
    source: Any
    ignored: list[str] = field(default_factory=list)
    index_base: int | None = None
    targets: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    images: dict[str, Any] | None = None
    frame: Any = None
    groups: np.ndarray | None = None

    @property
    def image_shape(self) -> tuple[int, ...] | None:
        """Height and width of images, and 3 in colour, if all columns are pixels; otherwise None."""
        if self.images is None:
            return None
        shape = (*self.images["size"], *([3] if self.images["colour"] else []))
        return shape if np.prod(shape) == self.raw.shape[1] else None

    @property
    def image_files(self) -> list[Path] | None:
        """The file of each row, if rows are images with known paths; otherwise None."""
        if self.images is None or self.ids is None or self.images["column"] not in self.ids:
            return None
        root = folder_of(self.source)
        return [root / str(name).strip() for name in self.ids[self.images["column"]]]

    def picture(self, row: int, side: int) -> Any:
        """Return the image of a row, with sides of at most ``side`` pixels; None if it cannot be read."""
        from labelfold.app.io._images import picture  # only rows that are images need Pillow

        return None if self.image_files is None else picture(self.image_files[row], side)

    def columns_named(self, role: str, patterns: Sequence[str]) -> list[str]:
        """Return the columns that names and patterns match, or raise an error for one without a match."""
        names = self.feature_names or [f"x{j}" for j in range(self.raw.shape[1])]  # as a recipe calls them
        return chosen(self.source, names, role, patterns)

    def as_written(self, names: Sequence[str]) -> Any:
        """Return some columns as a DataFrame, text as written."""
        blocks = isinstance(self.raw, Blocks)
        return as_written(pa.concat_tables(self.raw.read(list(names))) if blocks else self.raw, names)

    @cached_property
    def X(self) -> Any:
        """The rows as a matrix of numbers; an error names the first cell that is not a number.

        float32 if the file holds only float32, otherwise float64.
        """
        if not hasattr(self.raw, "column_names"):
            if not sp.issparse(self.raw):
                refuse_gaps(self.source, self.raw, self.feature_names)
            return self.raw
        blocks = self.raw.read(self.raw.column_names) if hasattr(self.raw, "read") else [self.raw]
        return np.concatenate([plain_numbers(self.source, block) for block in blocks])

    def filled(self, medians: Sequence[float]) -> tuple[Any, int]:
        """Return the matrix with missing and infinite cells replaced by medians, and the number of these cells."""
        fits = isinstance(self.raw, np.ndarray) and self.raw.shape[1] == len(medians)
        bad = ~np.isfinite(self.raw) if fits else np.zeros(0, dtype=bool)
        if not bad.any():
            return self.X, 0
        return np.where(bad, np.asarray(medians, dtype=self.raw.dtype), self.raw), int(bad.sum())

    def padded(self, n: int | None) -> Table:
        """Return the table with columns of zeros up to n if it is sparse: svmlight does not write trailing zeros."""
        X = self.raw
        if n is None or self.feature_names is not None or not sp.issparse(X) or X.shape[1] >= n:
            return self
        return replace(self, raw=sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n)))

    def to_learn(self) -> Any:
        """Return the columns to learn from; images as a matrix, since they need no recipe."""
        return self.columns() if self.image_shape is None else self.X

    def columns(self) -> Any:
        """Return the columns for a recipe if they have names, otherwise the matrix."""
        if self.feature_names is None or not isinstance(self.raw, np.ndarray):
            return self.raw
        return pd.DataFrame(self.raw, columns=self.feature_names, copy=False)


def read_table(
    path: str | os.PathLike[str],
    *,
    target: str | Sequence[str] | None = None,
    id_columns: Sequence[str] = (),
    group: str | Sequence[str] = (),
    known_ids: Sequence[str] = (),
    drop: Sequence[str] = (),
    features: Sequence[str] | None = None,
    unlabeled_values: Sequence[str] | None = None,
    index_base: int | None = None,
    labels: str | os.PathLike[str] | None = None,
    begin: bool = False,
    reading: Reading | None = None,
    **how: Any,
) -> Table:
    r"""Read a table, with or without a target.

    Parameters
    ----------
    path : path or str
        A file, a folder of images, or the address of a database; `SOURCES` lists them. The separator (comma,
        semicolon, tab or bar) and the encoding of text are detected. An NPZ file holds a dense ``X``, or ``X_data``,
        ``X_indices``, ``X_indptr`` and ``X_shape``, or the arrays of ``scipy.sparse.save_npz``; and ``y`` if there
        are labels.
    target : str or sequence of str, optional
        The column (NPZ: the array, ``y`` by default) of the labels. Empty cells are unlabelled rows. Several columns
        of 0 and 1 mean several labels a row; a pattern such as ``label_*`` names them.
    id_columns : sequence of str
        Columns (NPZ: arrays) that name the rows. They are not in X; those of a text file are kept as written.
    group : str or sequence of str
        The column (NPZ: the array) whose equal values say which rows belong together, such as a patient. It is not
        in X. Of several columns the values together count.
    known_ids : sequence of str
        Columns that name the rows, if the file has them.
    drop : sequence of str
        Columns to leave out.
    features : sequence of str, optional
        The columns of X, in this order; other columns are ignored. By default all columns not named above.
    unlabeled_values : sequence of str, optional
        Values of the target that mean "no label", besides an empty cell; by default NA, NaN, null and similar.
    index_base : {0, 1}, optional
        For svmlight, the index of the first column; detected by default.
    labels : path, optional
        A table of ids, or row numbers from 1, and labels. They replace the labels of the table itself.
    begin : bool, default=False
        Whether the target may be missing, because it is going to be labelled.
    reading : Reading, optional
        Options of reading.
    **how : str
        Options of reading as keywords, such as ``format="csv"`` or ``sheet="2019"``.

    Returns
    -------
    Table
        See its attributes.

    Notes
    -----
    Memory of the process, at most: 300 MB and 8 times the size of the file, unpacked (docs/memory.md).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "flowers.csv")
    >>> _ = path.write_text("length,width,kind\n1.4,0.2,a\n4.7,1.4,\n")
    >>> table = read_table(path, target="kind")
    >>> table.X.tolist(), table.y.tolist(), table.feature_names
    ([[1.4, 0.2], [4.7, 1.4]], ['a', None], ['length', 'width'])
    """
    reading = reading or Reading(**how)
    source, path = find(path, reading)
    notes: list[str] = []
    targets = [] if target is None else [target] if isinstance(target, str) else list(target)
    beside = None if labels is None else LabelFile(labels, targets, notes.append)
    optional = beside is not None or (begin and bool(targets))
    groups = [group] if isinstance(group, str) else list(group)
    request = Request(
        reading, notes.append, targets, id_columns, groups, optional, index_base, known_ids, drop, features
    )
    content, images = read(source, path, request), None
    if reading.image is not None or source.name == "images":
        content, images, request = with_images(path, source, content, request)
    if isinstance(content, Matrix):
        found, ignored = from_matrix(path, content, request)
    else:
        found, ignored = from_frame(path, content, request, beside)
    y, targets = found.y, found.targets
    if beside is not None:
        y, targets = beside.merged(y, found.ids, found.X.shape[0], path), beside.targets
    if y is not None:
        y = read_target(y, unlabeled_values) if y.ndim == 1 else _read_several(path, y, unlabeled_values)
    frame = content if begin and hasattr(content, "select") else None
    return Table(
        found.X,
        y,
        found.names,
        found.ids,
        path,
        ignored,
        found.index_base,
        targets,
        notes,
        images,
        frame,
        found.groups,
    )


def _read_several(path: Any, Y: Any, unlabeled_values: Sequence[str] | None) -> Any:
    """Return 0/1 label columns as a DataFrame, with NaN for unlabelled rows."""
    columns = {name: read_target(column, unlabeled_values) for name, column in pd.DataFrame(Y).items()}
    try:
        return pd.DataFrame({name: column.astype(float) for name, column in columns.items()})
    except ValueError:
        raise FileProblem(
            f"{path} has several target columns, which should hold 0 and 1, and nothing where there is no label."
        ) from None


def read_target(values: Any, unlabeled_values: Sequence[str] | None = None) -> np.ndarray:
    """Return labels, ``None`` where unlabelled, as integers if all are whole numbers.

    >>> read_target(np.array([1.0, np.nan, 2.0])).tolist()
    [1, None, 2]
    >>> read_target(["007", "1", "?"], ["?"]).tolist()
    ['007', '1', None]
    """
    values = pd.Series(values, dtype=None if hasattr(values, "dtype") else object)
    # millions of rows have few distinct labels
    coded = isinstance(values.dtype, pd.CategoricalDtype)
    codes, distinct = (values.cat.codes, values.cat.categories) if coded else pd.factorize(values)
    labels = [*_labels_of(pd.Series(distinct), unlabeled_values), None]
    known = np.array([label is not None for label in labels])[codes]
    if known.all():
        return np.asarray(labels[:-1])[codes]
    y = np.empty(len(labels), dtype=object)
    y[:] = labels
    return y[codes]


def _labels_of(values: Any, unlabeled_values: Sequence[str] | None) -> list:
    """Return distinct values as labels, None for values that mean unlabelled."""
    text = values.astype(str).str.strip()
    spellings = {_WHOLE.sub(r"\1", str(v).strip()) for v in unlabeled_values or NO_LABEL} | {""}
    named = text.str.replace(_WHOLE, r"\1", regex=True).isin(spellings)
    missing = (values.isna() | named).to_numpy(dtype=bool)
    present = values[~missing]
    # pandas counts bool as numeric; here True and False are two classes
    if pd.api.types.is_numeric_dtype(present) and not pd.api.types.is_bool_dtype(present):
        numbers = present.to_numpy(dtype=float)
        whole = np.isfinite(numbers).all() and (numbers == np.round(numbers)).all()
        labels = [int(v) for v in present] if whole else numbers.tolist()
    elif pd.api.types.is_bool_dtype(present):
        labels = [bool(v) for v in present]
    else:
        labels = _numbers_or_names([str(v).strip() for v in present])
    found = iter(labels)
    return [None if gone else next(found) for gone in missing]


def _numbers_or_names(labels: list[str]) -> list:
    """Return text labels as numbers if all are; '007' stays text, and so does 'inf' among whole numbers."""
    finite = [v for v in labels if not _INFINITE.fullmatch(v)]
    if not all(PLAIN_NUMBER.fullmatch(v) and not re.match(r"[+-]?0\d", v) for v in finite):
        return (written_numbers(labels) if len(labels) > MAX_CLASSES_AS_NUMBERS else None) or labels
    whole = all(float(v).is_integer() for v in finite)
    if len(finite) < len(labels):
        return labels if whole else [float(v) for v in labels]
    return [int(float(v)) for v in labels] if whole else [float(v) for v in labels]


def refuse_gaps(path: Any, X: Any, names: list[str] | None) -> None:
    """Raise an error if a matrix has missing or infinite cells; it names the first one."""
    bad = ~np.isfinite(X)
    if not bad.any():
        return
    row, column = np.argwhere(bad)[0]
    what = "empty (or not-a-number)" if np.isnan(X[row, column]) else "infinite"
    place = repr(names[column]) if names else str(column)
    raise FileProblem(
        f"{path} has {count(int(bad.sum()), 'cell')} without a usable number, the first in column {place}, row "
        f"{row + 1}: it is {what}; fill such cells, or fit the model on a dense X, whose medians it then keeps."
    )


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


def with_images(path: Any, source: Any, frame: Any, request: Request) -> tuple[Any, dict[str, Any], Request]:
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
