"""What is taken away from a session: the table, the predictions, the model and the report."""

from __future__ import annotations

from collections.abc import Callable

from labelfold.app.io._problems import Refusal
from labelfold.app.label._session import Session


def table_csv(session: Session, safe_csv: bool) -> bytes:
    """Return the table with the target filled in."""
    raise Refusal("Not there yet.")


EXPORTS: dict[str, tuple[Callable[[Session, bool], bytes], str]] = {
    "table.csv": (table_csv, "text/csv; charset=utf-8"),
}
