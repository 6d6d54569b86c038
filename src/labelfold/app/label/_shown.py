"""Rows as the page shows them."""

from __future__ import annotations

from typing import Any

from labelfold.app.label._session import Session


class Shown:
    """The rows of a session as the page shows them."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def row(self, i: int) -> dict[str, Any]:
        """Return a row."""
        s = self.session
        predicted, _ = s.predictions()
        code = int(predicted[i])
        cells = s.rows.cells.row(i, range(min(s.rows.cells.d, 60)))
        return {
            "row": i,
            "id": s.rows.called(i),
            "label": s.marks.labels[i],
            "predicted": s.marks.classes[code] if code >= 0 else None,
            "probabilities": [],
            "columns": [
                {"name": s.rows.cells.name(j), "text": text, "place": None, "weight": 0.0}
                for j, text in cells
            ],
            "texts": [],
            "pixels": None,
            "image": False,
        }

    def image(self, i: int) -> bytes | None:
        """Return the row's image."""
        return None
