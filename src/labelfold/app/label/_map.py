"""Finds the row of each line of a journal, even if the table has changed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from labelfold.app.compare import unit_scale
from labelfold.app.io import FileProblem, Journal, count
from labelfold.app.label._table import Cells
from labelfold.features import Layout, aligned, layout

# Number of landmarks of t-SNE, and its perplexity. Other rows are placed among the landmarks.
_LANDMARKS, _NEIGHBORS = 500, 20
# Weight of the current embedding; the rest is the first, unsupervised one.
_SHARE = 0.7
# Largest root mean square movement in one update, relative to the size of the map.
_FARTHEST = 0.2
# The quantiles of this level and of 1 minus it are scaled to -1 and 1.
_BEYOND = 0.005


class Places:
    """The rows of a table by ids, numbers and content.

    Parameters
    ----------
    cells : Cells
        The rows.
    ids : DataFrame or None
        The id columns; no two rows have the same ids.
    """

    def __init__(self, cells: Cells, ids: Any) -> None:
        self.cells, self.fingerprint = cells, cells.fingerprint()
        self.ids = [] if ids is None else [str(name) for name in ids]
        self._names: list[tuple[str, ...]] = []
        if ids is not None:
            self._names = [tuple(map(str, row)) for row in ids.itertuples(index=False)]

    def names(self, row: int) -> tuple[str, ...]:
        """Return the ids of a row."""
        return self._names[row] if self._names else ()

    def contents(self, rows: Sequence[int]) -> list[str]:
        """Return the digests of the table and of each row, as the journal stores them."""
        return [f"{self.fingerprint}-{digest}" for digest in self.cells.digests(rows)]

    def find(self, journal: Journal, where: Any) -> tuple[list[int], list[str]]:
        """Return the row of each line of a journal, -1 if there is none, and sentences about changes.

        Lines with ids are placed by them. Others are placed by their number if the row is unchanged, otherwise by its
        content if exactly one row has it.

        Parameters
        ----------
        journal : Journal
        where : path or str
            Name of the table.
        """
        lines = journal.lines
        if not lines:
            return [], []
        changed = any(line.content and line.content.partition("-")[0] != self.fingerprint for line in lines)
        by_id = bool(self._names) and journal.ids == self.ids
        if by_id:
            places = {names: row for row, names in enumerate(self._names)}
            rows = [places.get(line.names, -1) for line in lines]
        else:
            rows = [line.number - 1 if line.number <= self.cells.n else -1 for line in lines]
        moved = 0
        if changed and not by_id:
            rows, moved = self._by_content(journal, rows, where)
        notes = []
        if changed:
            how = "by their ids" if by_id else "by their number" + (" or by what they hold" if moved else "")
            notes.append(
                f"{where} has changed since rows were labelled; the rows of the labels were found {how}."
            )
        if lost := {line.names or line.number for line, row in zip(lines, rows, strict=True) if row < 0}:
            notes.append(
                f"{journal.path.name} has labels of {count(len(lost), 'row')} that {where} does not have, the first "
                f"of {min(map(str, lost))!r}; they stay in the file and count for nothing."
            )
        return rows, notes

    def _by_content(self, journal: Journal, rows: list[int], where: Any) -> tuple[list[int], int]:
        """Find rows by their content if the row with their number has changed; also return the number found."""
        held = [line.content.partition("-")[2] for line in journal.lines]
        there = sorted(set(rows) - {-1})
        now = dict(zip(there, self.cells.digests(there), strict=True))
        strays = [k for k, row in enumerate(rows) if held[k] and now.get(row) != held[k]]
        if not strays:
            return rows, 0
        places: dict[str, list[int]] = {}
        for row, digest in enumerate(self.cells.digests()):
            places.setdefault(digest, []).append(row)
        # if most rows are unchanged, a row whose old content is gone was edited, not moved
        stay = 2 * len(strays) < len(rows)
        rows, moved = list(rows), 0
        for k in strays:
            found = places.get(held[k], [])
            if found or not stay:
                rows[k] = found[0] if len(found) == 1 else -1
                moved += rows[k] >= 0
        if all(row < 0 for row in rows):
            raise FileProblem(
                f"{where} holds none of the rows that {journal.path} has labels of; name the column of ids with "
                "--id, or another file of labels with -o."
            )
        return rows, moved


class MovingMap:
    """The map of one session, aligned from one update to the next.

    It lays out the current embedding together with the first one, which does not depend on labels. So a new class, or
    an embedding with one component, changes the map only gradually.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    seed : int, default=0
        Seed of the landmarks.
    """

    def __init__(self, n_rows: int, *, seed: int = 0) -> None:
        self.n_rows, self._seed = n_rows, seed
        self._first: np.ndarray | None = None
        self._last: Layout | None = None
        self._points: np.ndarray | None = None

    def update(self, Z: np.ndarray, *, seconds: float) -> np.ndarray:
        """Return the coordinates of the rows, within about [-1, 1].

        Parameters
        ----------
        Z : ndarray of shape (n, k)
            The embedding; k may change from one update to the next. The first one given should be unsupervised.
        seconds : float
            Approximate time limit of t-SNE. A further update with the same Z continues it.

        Returns
        -------
        points : ndarray of shape (n, 2), float32
        """
        Z = unit_scale(np.asarray(Z, dtype=np.float64).reshape(self.n_rows, -1))
        if self._first is None:
            self._first = Z
        both = [np.sqrt(1 - _SHARE) * self._first, np.sqrt(_SHARE) * Z]
        found = self._lay_out(np.hstack(both), seconds)
        low, high = np.quantile(found, [_BEYOND, 1 - _BEYOND], axis=0)
        points = (found - (low + high) / 2) / (np.max(high - low) / 2 or 1.0)
        if self._points is not None:
            points = aligned(points, self._points)
            moved = np.sqrt(np.mean(np.sum((points - self._points) ** 2, axis=1)))
            part = min(1.0, _FARTHEST / max(moved, 1e-300))
            points = self._points + part * (points - self._points)
        self._points = points
        return points.astype(np.float32)

    def _lay_out(self, R: np.ndarray, seconds: float) -> np.ndarray:
        if self.n_rows < 4 or not R.any() or find_spec("openTSNE") is None:
            return _plane(R)
        self._last = layout(
            R,
            previous=self._last,
            perplexity=_NEIGHBORS,
            n_landmarks=_LANDMARKS,
            random_state=self._seed,
            seconds=seconds,
        )
        return self._last.points


def _plane(R: np.ndarray) -> np.ndarray:
    """Return two principal components; 0 if there are fewer."""
    _, V = np.linalg.eigh(R.T @ R)
    points = np.zeros((len(R), 2))
    points[:, : min(2, R.shape[1])] = R @ V[:, ::-1][:, :2]
    return points
