"""Search and filter of rows by text, label, prediction or confidence."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from labelfold.app.io import Refusal
from labelfold.app.label._session import Session


def matching_rows(session: Session, wanted: Mapping[str, str]) -> np.ndarray:
    """Return a mask (n,) of the rows that meet all conditions.

    Parameters
    ----------
    session : Session
    wanted : mapping of str to str
        The conditions; an empty value sets none. ``text``: occurs in a cell or an id, or is the row number.
        ``class``: the label. ``predicted``: the predicted class. ``labelled``: "yes" or "no". ``least`` and ``most``:
        bounds of the confidence.
    """
    marks = session.marks
    found = np.ones(session.rows.n, dtype=bool)
    predicted, sure = session.predictions()
    if text := wanted.get("text", "").strip():
        found &= _with_text(session, text[:200])
    for key, codes in (("class", marks.codes), ("predicted", predicted)):
        if name := wanted.get(key, ""):
            found &= codes == (marks.classes.index(name) if name in marks.classes else -2)
    labelled = wanted.get("labelled", "")
    if labelled not in ("", "yes", "no"):
        raise Refusal(f"labelled is yes or no, not {labelled[:40]!r}.")
    if labelled:
        found &= marks.labelled == (labelled == "yes")
    for key, sign in (("least", 1), ("most", -1)):
        if value := wanted.get(key, ""):
            found &= sign * sure >= sign * _share(key, value)
    return found


def _with_text(session: Session, text: str) -> np.ndarray:
    rows = session.rows
    found = rows.cells.holding(text, None if rows.image_shape is None else [])
    lower = text.lower()
    if rows.ids is not None:
        for name in rows.ids:
            found |= np.array([lower in str(value).lower() for value in rows.ids[name]], dtype=bool)
    number = lower.removeprefix("row ").strip()
    if number.isdecimal() and 0 < int(number) <= rows.n and (rows.ids is None or lower.startswith("row ")):
        found[int(number) - 1] = True
    return found


def _share(key: str, value: str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = float("nan")
    if not 0 <= share <= 1:
        raise Refusal(f"{key} is a number from 0 to 1, not {value[:40]!r}.")
    return share
