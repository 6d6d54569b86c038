"""Reads any source into columns or a matrix, y, names and ids. `_sources.py` lists the sources."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelfold.app.io._frames import Stream, checked, is_large, plain_numbers
from labelfold.app.io._label_file import LabelFile
from labelfold.app.io._problems import FileProblem, count, pa, pd, refuse_bomb, reporting
from labelfold.app.io._sources import Matrix, Reading, Request, find, read
from labelfold.app.io._split import from_frame, from_matrix, pictured
from labelfold.tables import BLOCK, PLAIN, as_arrow, parsed, writing_of

EMPTY = ("NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NULL", "null", "None")
# More than this many different labels like "1,5" or "3 kg" are read as numbers, not as classes.
_MANY = 20
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_WHOLE = re.compile(r"^([+-]?\d+)\.0+$")  # -1.0 is -1 in another spelling
_FEATHER_1 = b"FEA1"


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

    def to_learn(self) -> Any:
        """Return the columns to learn from; images as a matrix, since they need no recipe."""
        return self.columns() if self.image_shape is None else self.X

    def columns(self) -> Any:
        """Return the columns for a recipe if they have names, otherwise the matrix."""
        if self.feature_names is None or not isinstance(self.raw, np.ndarray):
            return self.raw
        return pd.DataFrame(self.raw, columns=self.feature_names, copy=False)


def read_table(
    path: str | os.PathLike,
    *,
    target: str | Sequence[str] | None = None,
    id_columns: Sequence[str] = (),
    group: str | Sequence[str] = (),
    known_ids: Sequence[str] = (),
    drop: Sequence[str] = (),
    features: Sequence[str] | None = None,
    unlabeled_values: Sequence[str] | None = None,
    index_base: int | None = None,
    labels: str | os.PathLike | None = None,
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
        content, images, request = pictured(path, source, content, request)
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
    spellings = {_WHOLE.sub(r"\1", str(v).strip()) for v in unlabeled_values or EMPTY} | {""}
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
    if not all(_NUMBER.fullmatch(v) and not re.match(r"[+-]?0\d", v) for v in finite):
        return _written_numbers(labels) if len(labels) > _MANY else labels
    whole = all(float(v).is_integer() for v in finite)
    if len(finite) < len(labels):
        return labels if whole else [float(v) for v in labels]
    return [int(float(v)) for v in labels] if whole else [float(v) for v in labels]


def _written_numbers(labels: list[str]) -> list:
    """Return text labels as numbers if all have a decimal comma, thousands separators or the same unit."""
    writing, share = writing_of(labels)
    if share < 1 or writing == PLAIN:
        return labels
    return parsed(pa.chunked_array([labels]), writing).to_pylist()


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


def read_arrow(path: Path, kind: str, request: Request) -> Any:
    """Read an Arrow file, an Arrow stream or a Feather file; a large file as a `Stream`."""
    with reporting(path, "is not a whole Arrow or Feather file"):
        with path.open("rb") as file:
            if file.read(4) == _FEATHER_1:
                raise FileProblem(
                    f"{path} is of Feather's first version, of 2016; write it again with a newer one."
                )
        with _opened(path) as reader:
            names = reader.schema.names
        if is_large(path):
            return checked(path, Stream(names, lambda columns: _detached(path, columns)))
        blocks = list(_blocks(path, names)) if len(set(names)) == len(names) else []
        empty = pa.table([[] for _ in names], names=names)
        return checked(path, pa.concat_tables(blocks).unify_dictionaries() if blocks else empty)


def _opened(path: Path) -> Any:
    """Open an Arrow file or stream."""
    source = pa.OSFile(str(path))  # a memory map would keep the pages that were read in memory
    try:
        return pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)


def _blocks(path: Path, columns: list[str]) -> Iterator[Any]:
    """Yield some columns, validated so that a damaged file cannot cause reads outside its buffers."""
    unpacked = 0
    with _opened(path) as reader:
        several = hasattr(reader, "num_record_batches")
        batches = map(reader.get_batch, range(reader.num_record_batches)) if several else reader
        for batch in batches:
            some = pa.Table.from_batches([batch]).select(columns)
            some.validate(full=True)
            unpacked += some.nbytes
            refuse_bomb(path, path.stat().st_size, unpacked)
            table = as_arrow(some)[0]
            for start in range(0, table.num_rows, BLOCK):
                yield table.slice(start, BLOCK)


def _detached(path: Path, columns: list[str]) -> Iterator[Any]:
    """Yield copies of some columns. A batch is one buffer, which a single column would keep in memory."""
    for block in _blocks(path, columns):
        yield block.take(np.arange(block.num_rows))
