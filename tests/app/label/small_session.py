"""A small session to test on."""

import numpy as np
import pandas as pd

from labelfold.app.io._label_file import Journal
from labelfold.app.label._notebook import _table
from labelfold.app.label._session import Session
from labelfold.app.label._table import prepare_table

CLASSES = ("round", "long", "flat")


def flowers(n=60, seed=0):
    """Return a table of three groups, and the group of each row."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    centres = np.array([[0.0, 0.0, 5.0], [6.0, 0.0, 0.0], [0.0, 6.0, 0.0]])
    X = centres[y] + rng.standard_normal((n, 3))
    frame = pd.DataFrame(X.round(3), columns=["length", "width", "height"])
    frame.insert(0, "name", [f"flower {i}" for i in range(n)])
    frame["colour"] = np.array(["red", "blue", "white"])[rng.integers(0, 3, n)]
    return frame, np.array(CLASSES)[y]


def made(frame, given=None, **how):
    """Return a frame as something to label; a column ``name`` names its rows."""
    named = frame.columns.intersection(["name"])
    table = _table(frame.drop(columns=named), None, None)
    if len(named):
        table = table.__class__(**{**table.__dict__, "ids": frame[list(named)]})
    return prepare_table(table, given or [None] * len(frame), name="flowers.csv", target="kind", **how)


def session_on(path, frame=None, given=None, *, start=False, **how):
    """Return a session on some flowers with its journal at a path."""
    rows = made(flowers()[0] if frame is None else frame, given)
    columns = [*(rows.cells.names or ())]
    journal = Journal(path, [] if rows.ids is None else list(rows.ids), columns)
    session = Session(rows, journal, who="ada", **how)
    if start:
        session.start()
        assert session.worker.idle(30)
    return session
