"""The labelling page for notebooks: `labelfold.label` and the object that it returns."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_array

from labelfold.app.io import Refusal, Table, cell_text, count, pd, refusing
from labelfold.app.label._table import prepare_table
from labelfold.tables import Recipe, as_arrow, in_memory, is_table

if TYPE_CHECKING:
    from labelfold.app.label._server import Running


_NEEDS = ("starlette", "uvicorn")


def missing_packages() -> str:
    """Return a sentence about missing packages of the page; "" if all are installed."""
    absent = [name for name in _NEEDS if find_spec(name) is None]
    return f"The labelling page needs {', '.join(absent)}: pip install 'labelfold[label]'." if absent else ""


class Labelling:
    """A running labelling page. It runs until `close` is called or the process ends.

    Attributes
    ----------
    url : str
        The address of the page, for a browser on this machine.
    file : Path
        The file of labels.
    """

    url: str
    file: Path

    def __init__(self, running: Running) -> None:
        self._running = running
        self.url, self.file = running.url, running.session.journal.path

    def labels(self) -> np.ndarray:
        """Return the current labels of all rows: text, None where unlabelled."""
        return self._running.session.labels()[0]

    def close(self) -> None:
        """End the page. The labels stay in the file, and `labels` still works."""
        self._running.close()

    def __enter__(self) -> Labelling:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """Return where the page is."""
        done = self._running.session.marks.n_labels
        return f"Labelling at {self.url}: {count(done, 'row')} labelled, in {self.file}"

    def _repr_html_(self) -> str:
        """Return a link to the page, for a notebook."""
        url = html.escape(self.url)
        done = self._running.session.marks.n_labels
        return (
            f'<a href="{url}" target="_blank" rel="noopener noreferrer">Open the labelling page</a>: '
            f"{count(done, 'row')} labelled, in {html.escape(str(self.file))}"
        )


def label(
    X: Any,
    y: Any = None,
    *,
    file: str | os.PathLike[str] = "labels.csv",
    ids: Sequence[Any] | None = None,
    target: str = "label",
    name: str = "the rows",
    unlabeled: Any = -1,
    recipe: Recipe | None = None,
    image_shape: tuple[int, ...] | None = None,
    feature_names: Sequence[Any] | None = None,
    strategy: str = "mixed",
    who: str | None = None,
    port: int | None = None,
    browser: bool = False,
    safe_csv: bool = False,
    random_state: int = 0,
) -> Labelling:
    """Open a local page for labelling rows; the model is refitted after each label.

    Every label is on disk, in ``file``, before the page shows it. The same call resumes the session.

    Parameters
    ----------
    X : array-like, sparse matrix or table of shape (n, d)
        The rows, as :func:`labelfold.compare` takes them.
    y : array-like of shape (n,), optional
        Existing labels; None, NaN or ``unlabeled`` for unlabelled rows.
    file : path, default="labels.csv"
        The file of labels; it is created if missing.
    ids : sequence, optional
        Unique names of the rows, by which labels are found again if X has changed.
    target : str, default="label"
        Name of the target.
    name : str
        Name of the table on the page.
    unlabeled : default=-1
        The value of y that means unlabelled, besides missing values.
    recipe : Recipe, optional
        How to read a table, if the automatic choice is wrong.
    image_shape : pair or triple of int, optional
        Height and width, and 3 in colour, if the columns are pixels.
    feature_names : sequence, optional
        Names of the columns of a matrix.
    strategy : str, default="mixed"
        How the next row is chosen; the page can switch it.
    who : str, optional
        Who labels; the login name by default.
    port : int, optional
        The port; by default 8421, or another if that is in use.
    browser : bool, default=False
        Whether to open a browser.
    safe_csv : bool, default=False
        Whether exports have an apostrophe before text that a spreadsheet would run as a formula.
    random_state : int, default=0
        Seed of all random numbers.

    Returns
    -------
    Labelling
        An object with ``url``, ``labels()`` and ``close()``; it can be used in a ``with`` statement.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> import labelfold
    >>> file = pathlib.Path(tempfile.mkdtemp(), "iris.csv")
    >>> with labelfold.label(load_iris().data, file=file) as page:
    ...     address, labels = page.url, page.labels()
    >>> address.startswith("http://127.0.0.1:"), len(labels)
    (True, 150)
    """
    if lack := missing_packages():
        raise ImportError(lack)
    from labelfold.app.label._server import open_browser, open_page

    with refusing():
        table = _table(X, ids, feature_names)
        rows = prepare_table(
            table,
            _given(y, table.raw.shape[0], unlabeled),
            name=name,
            target=target,
            recipe=recipe,
            image_shape=image_shape,
        )
        running = open_page(
            rows, file, who=who, strategy=strategy, seed=random_state, port=port, safe_csv=safe_csv
        )
    running.start()
    if browser:
        open_browser(running.url)
    return Labelling(running)


def _table(X: Any, ids: Sequence[Any] | None, feature_names: Sequence[Any] | None) -> Table:
    """Return rows in memory as a `Table`."""
    X = in_memory(X, "label")
    raw, names = None, None if feature_names is None else [str(name) for name in feature_names]
    if not is_table(X):
        raw = check_array(X, accept_sparse="csr", dtype=None, ensure_all_finite=False)
        numbers = raw.dtype.kind in "biuf"
        raw = raw.astype(np.float32 if raw.dtype == np.float32 else np.float64) if numbers else None
    if raw is None:
        raw = as_arrow(X)[0]
        names = list(raw.column_names)
    n = raw.shape[0]
    if ids is not None and len(ids) != n:
        raise Refusal(f"There are {len(ids)} ids for {n} rows; pass one a row.")
    named = None if ids is None else pd.DataFrame({"id": [str(one) for one in ids]})
    return Table(
        raw, None, names, named, None, frame=None if names is None or feature_names is not None else raw
    )


def _given(y: Any, n: int, unlabeled: Any) -> list[str | None]:
    """Return labels as text, None for unlabelled rows."""
    if y is None:
        return [None] * n
    if np.shape(y) != (n,):
        raise Refusal(f"y has the shape {np.shape(y)} for {n} rows; pass one label a row.")
    values = np.asarray(y).tolist()
    gone = (value is None or value != value or value == unlabeled for value in values)
    return [None if none else cell_text(value) or None for none, value in zip(gone, values, strict=True)]
