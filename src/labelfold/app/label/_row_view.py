"""Rows as the page shows them: columns ranked by importance, texts with important words, pixels."""

from __future__ import annotations

import io
import re
import unicodedata
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from labelfold.app.compare import correlations
from labelfold.app.label._session import Session
from labelfold.app.label._table import TableToLabel
from labelfold.app.report import as_base64
from labelfold.rows import dense

# Choices of presentation, and a budget of the time between two rows: the rows that a row is compared with.
_SAMPLE = 2000
_MAX_COLUMNS = 300
_MAX_WORDS = 12
_MAX_CELL = 80  # characters; a longer cell is shown as text
_MAX_SIDE = 1024  # largest side of an image in pixels


class RowView:
    """The rows of a session as the page shows them.

    Parameters
    ----------
    session : Session
    """

    def __init__(self, session: Session) -> None:
        self.session, self.rows = session, session.rows
        rows = self.rows
        drawn = np.random.default_rng(0).permutation(rows.n)[:_SAMPLE]
        self._some = np.sort(drawn)
        self._X = rows.X[self._some]
        self._owner, self._number, self._texts = _owners(rows)
        spread = StandardScaler(with_mean=False).fit(self._X)
        self._mean, self._std = np.asarray(spread.mean_), np.asarray(spread.scale_)
        self._of: Any = None  # the predictions that these weights are from
        self._weights: np.ndarray | None = None
        ends = dense(self._X) if rows.image_shape is not None else np.zeros((1, 1))
        self._low, self._high = float(ends.min()), float(ends.max())

    def row(self, i: int) -> dict[str, Any]:
        """Return the content of the page for a row: columns, texts, probabilities."""
        rows, latest, marks = self.rows, self.session.latest, self.session.marks
        shares: list[dict[str, Any]] = []
        if latest is not None and latest.shares is not None:
            named = zip(latest.fold.classes_, latest.shares[i].tolist(), strict=True)
            shares = [{"name": str(name), "p": round(p, 4)} for name, p in named]
            shares.sort(key=lambda one: -one["p"])
        code = -1 if latest is None else int(latest.predicted[i])
        x = dense(rows.X[[i]])[0].astype(np.float64)
        weights = self._weigh(latest)
        columns, texts = self._columns(i, x, weights)
        return {
            "row": i,
            "id": rows.called(i),
            "label": marks.labels[i],
            "predicted": marks.classes[code] if code >= 0 else None,
            "probabilities": shares,
            "columns": columns,
            "texts": texts,
            "pixels": self._pixels(x),
            "image": rows.images is not None,
        }

    def image(self, i: int) -> bytes | None:
        """Return the image of a row as a PNG of limited size; None if there is none or it cannot be read."""
        if self.rows.images is None:
            return None
        found = self.rows.table.picture(i, _MAX_SIDE)
        if found is None:
            return None
        out = io.BytesIO()
        found.save(out, "PNG")
        return out.getvalue()

    def _weigh(self, latest: Any) -> np.ndarray | None:
        """Return the correlation of each column of X with the embedding; None if there is no model yet."""
        if latest is None or latest.fold is None:
            return None
        if self._of is not latest:
            found = np.abs(correlations(self._X, latest.Z[self._some]))
            self._weights, self._of = found.max(axis=0), latest
        return self._weights

    def _columns(
        self, i: int, x: np.ndarray, weights: np.ndarray | None
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the columns of a row, the most important first, and its texts."""
        cells = self.rows.cells
        if self.rows.image_shape is not None:
            return [], []
        each = np.abs(x - self._mean) / self._std if weights is None else weights
        strength = np.zeros(cells.d)
        np.maximum.at(strength, self._owner, each)
        chosen = np.argsort(-strength, kind="stable")
        if self.rows.recipe is None:  # entries that are not 0 come first
            chosen = np.concatenate([chosen[x[chosen] != 0], chosen[x[chosen] == 0]])
        shown = [j for j in chosen.tolist() if j not in self._texts][:_MAX_COLUMNS]
        texts = []
        for j, text in cells.row(i, self._texts):
            texts.append({"name": cells.name(j), "text": text, "words": self._words(j, text, x, weights)})
        written = cells.row(i, shown)
        places = self._places(x, [self._number[j] for j, text in written])
        columns: list[dict[str, Any]] = []
        for (j, text), place in zip(written, places, strict=True):
            if len(text) > _MAX_CELL and self._number[j] < 0:
                texts.append({"name": cells.name(j), "text": text, "words": []})
                continue
            place = None if not text else place
            weight = strength[j] if weights is not None else 0.0 if place is None else abs(2 * place - 1)
            columns.append(
                {"name": cells.name(j), "text": text, "place": place, "weight": round(float(weight), 4)}
            )
        columns.sort(key=lambda column: -column["weight"])
        return columns, texts

    def _places(self, x: np.ndarray, numbers: list[int]) -> list[float | None]:
        """Return the quantiles of the values of a row among other rows, from 0 to 1; None if not a number."""
        known = [c for c in numbers if c >= 0]
        others = dense(self._X[:, known]) if known else np.zeros((1, 0))
        own = x[known].astype(others.dtype)
        places = ((others < own).mean(axis=0) + (others == own).mean(axis=0) / 2).tolist()
        found = dict(zip(known, places, strict=True))
        return [round(found[c], 4) if c >= 0 else None for c in numbers]

    def _words(self, j: int, text: str, x: np.ndarray, weights: np.ndarray | None) -> list[str]:
        """Return the most important words of a text, as written in it."""
        names = self.rows.names or []
        here = np.flatnonzero((self._owner == j) & (x != 0))
        score = np.abs(x[here]) * (1.0 if weights is None else weights[here])
        before = f"{self.rows.cells.name(j)}: "
        written = {_plain(word): word for word in re.findall(r"\w+", text)}
        found: dict[str, None] = {}
        for c in here[np.argsort(-score, kind="stable")]:
            word = written.get(names[c].removeprefix(before))
            if word is not None:
                found[word] = None
            if len(found) == _MAX_WORDS:
                break
        return list(found)

    def _pixels(self, x: np.ndarray) -> dict[str, Any] | None:
        shape = self.rows.image_shape
        if shape is None:
            return None
        seen = np.clip((x - self._low) / ((self._high - self._low) or 1.0), 0, 1)
        return {
            "width": shape[1],
            "height": shape[0],
            "channels": shape[2] if len(shape) > 2 else 1,
            "values": as_base64(np.round(255 * seen), "u1"),
        }


def _owners(rows: TableToLabel) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return which columns of X come from which columns of the table.

    Three results: for each column of X its column of the table; for each column of the table the column of X with its
    number, -1 if there is none; and the columns of text.
    """
    d = rows.cells.d
    if rows.recipe is None:
        every = np.arange(rows.X.shape[1])
        return every, every, []
    names = rows.cells.names or [f"x{j}" for j in range(d)]
    place = {name: j for j, name in enumerate(names)}
    roles = {column["name"]: column["role"] for column in rows.recipe.columns_}
    owner, number = np.array([place[name] for name in rows.recipe.owners()]), np.full(d, -1)
    for c, name in enumerate(rows.names or ()):
        j = owner[c]
        if roles[names[j]] in ("number", "date") and name in (names[j], f"{names[j]}: days"):
            number[j] = c
    return owner, number, [place[name] for name, role in roles.items() if role == "text" and name in place]


def _plain(word: str) -> str:
    """Return a word as the recipe's terms write it: in lower case, without accents."""
    parts = unicodedata.normalize("NFKD", word.lower())
    return "".join(part for part in parts if not unicodedata.combining(part))
