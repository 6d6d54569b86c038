"""The table that is labelled: its cells as text, its matrix, and the labels it already has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from labelfold.app.compare import as_matrix, image_sides
from labelfold.app.io import Cells, Refusal, Table, as_written, folder_of
from labelfold.app.label._journal import FIELDS
from labelfold.rows import short_indices
from labelfold.tables import Recipe

MOST_CLASSES = 1000


@dataclass(frozen=True)
class Material:
    """A table to label.

    Attributes
    ----------
    name : str
        Name of the table.
    target : str
        Name of the target.
    table : Table
        The table as read.
    X : ndarray or csr_array of shape (n, d)
        The matrix of the rows.
    names : list of str, or None
        Names of the columns of X.
    recipe : Recipe or None
        The recipe that made X from the table.
    cells : Cells
        The rows as text.
    ids : DataFrame or None
        Id columns; no two rows have the same ids.
    given : list of str or None
        Labels of the table itself.
    image_shape : tuple of int, or None
        Height, width and channels, if all columns of X are pixels.
    images : list of Path, or None
        The file of each row, if rows are images.
    notes : list of str
        Sentences for the user.
    """

    name: str
    target: str
    table: Table
    X: Any
    names: list[str] | None
    recipe: Recipe | None
    cells: Cells
    ids: Any
    given: Sequence[str | None]
    image_shape: tuple[int, ...] | None = None
    images: list[Path] | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def content(self) -> Cells:
        """All columns but the target, for the digests that recognise a row."""
        frame = self.table.frame
        if frame is None or self.table.images is not None:
            return self.cells
        return Cells(frame.select([name for name in frame.column_names if name != self.target]))

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.cells.n)

    def called(self, row: int) -> str:
        """Return the name of a row: its id, or its number from 1."""
        return f"row {row + 1}" if self.ids is None else ", ".join(map(str, self.ids.iloc[row]))


def material(
    table: Table,
    given: Sequence[str | None],
    *,
    name: str,
    target: str,
    recipe: Recipe | None = None,
    image_shape: tuple[int, ...] | None = None,
) -> Material:
    """Return a table prepared for labelling.

    The recipe is fitted with the labels of the table itself, to find a column that repeats the target. Later labels
    do not change the recipe, so X stays the same.

    Parameters
    ----------
    table : Table
    given : sequence of str or None
        The labels of the table.
    name, target : str
        Names of the table and of the target.
    recipe : Recipe, optional
        A recipe, perhaps with given roles of columns.
    image_shape : tuple of int, optional
        Height and width, and 3 in colour, if the columns are pixels.
    """
    if len({*given} - {None}) > MOST_CLASSES:
        raise Refusal(
            f"{target} has {len({*given} - {None}):,} different labels in {name}, and the page takes "
            f"{MOST_CLASSES:,} classes; name another --target."
        )
    known = None if all(label is None for label in given) else np.array(list(given), dtype=object)
    shape = image_shape or table.image_shape
    X, names, made, _ = as_matrix(
        table.to_learn(),
        lambda n: known,
        recipe=recipe,
        images=bool(shape),
        feature_names=table.feature_names,
    )
    cells = Cells(table.raw, table.feature_names)
    ids, notes = _ids(table, made, cells), list(table.notes)
    if ids is not None and ids.astype(str).duplicated().any():
        notes.append(
            f"Some rows have the same {', '.join(map(str, ids))}, so that labels are kept by the number of the row."
        )
        ids = None
    return Material(
        name,
        target,
        table,
        short_indices(X),
        names,
        made,
        cells,
        ids,
        given,
        image_sides(X.shape[1], names, shape),
        _image_files(table),
        notes,
    )


def _ids(table: Table, recipe: Recipe | None, cells: Cells) -> Any:
    """Return the columns that name the rows: the given ones, or those that the recipe found."""
    if table.ids is not None:
        return table.ids.reset_index(drop=True)
    found = [] if recipe is None else [name for name in recipe.ids_ if name not in FIELDS]
    return as_written(cells.raw, found) if found and hasattr(cells.raw, "select") else None


def _image_files(table: Table) -> list[Path] | None:
    """Return the file of each row, if rows are images with known paths; otherwise None."""
    if table.images is None or table.ids is None or table.images["column"] not in table.ids:
        return None
    root = folder_of(table.source)
    return [root / str(name).strip() for name in table.ids[table.images["column"]]]
