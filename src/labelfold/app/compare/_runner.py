"""Runs a comparison: every method on the same folds, one row of results for each run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from labelfold.app.compare._clock import Clock, default_limit
from labelfold.app.compare._data import Data, outweighing, read_data
from labelfold.app.compare._plan import Plan, image_sides, make_plan
from labelfold.app.compare._results import Comparison
from labelfold.app.compare._runs import Runs
from labelfold.app.compare._splits import budget_splits, n_folds
from labelfold.app.compare._store import Store
from labelfold.app.io import count
from labelfold.app.registry import AS_IS, Method, chosen_form
from labelfold.tables import Recipe


class NothingHeldOut(ValueError):
    """There are too few labels to hold any out. ``data`` holds the rows and labels, ``why`` the reason."""

    def __init__(self, data: Data, why: str) -> None:
        super().__init__(
            f"{why} to compare methods by; fit LabelFold (labelfold fit, or labelfold.LabelFold), or label more rows"
        )
        self.data, self.why = data, why


MOST_REPEATS = 10_000


def compare(
    X: Any,
    y: Any,
    methods: str | Sequence[str | Method] | None = None,
    budgets: int | Sequence[int] | None = None,
    components: int | Sequence[int] | None = None,
    repeats: int = 5,
    time_limit: float | None = None,
    *,
    random_state: int = 0,
    test_size: float = 0.3,
    scale: bool | str = "auto",
    unlabeled: Any = -1,
    ids: Sequence[Any] | None = None,
    recipe: Recipe | None = None,
    image_shape: tuple[int, ...] | None = None,
    folder: str | os.PathLike | None = None,
    progress: bool = True,
    name: str = "the data",
    command: str | None = None,
    tell: Callable[[str], None] | None = None,
    task: str = "auto",
    feature_names: Sequence[Any] | None = None,
    groups: Any = None,
) -> Comparison:
    """Find the method that predicts best with these labels, and the accuracy, or R², to expect of it on new rows.

    Methods are compared by repeated cross-validation: the labels of each fold are hidden once, while all rows stay
    in training. All methods use the same folds, so their differences are paired. Methods that are significantly
    worse than the best after a repeat are dropped. If LabelFold is not significantly worse than the best method, it
    is recommended, otherwise the simplest method that is not.

    The score is accuracy; balanced accuracy if one class is five times as frequent as another; micro-averaged F1 for
    several labels a row; R² for numbers.

    If a method fails, its results hold the error and the comparison goes on. Ctrl-C ends the comparison, which
    returns the results so far.

    Parameters
    ----------
    X : array-like, sparse matrix or table of shape (n, d)
        The rows. The columns of a table (pandas, polars or pyarrow) may be numbers, categories, dates, text or lists
        of numbers, with cells missing; see `labelfold.Recipe`.
    y : array-like of shape (n,), or (n, c) of 0 and 1
        Classes, several labels a row, or numbers. Unlabelled rows have None, NaN or ``unlabeled`` (for numbers only
        None or NaN).
    methods : str or Method, or sequence of them, optional
        All that suit the data by default; ``left_out`` names the others with the reason.
    budgets : int or sequence of int, optional
        Numbers of labels for a learning curve; the other labels are hidden.
    components : int or sequence of int, optional
        Numbers of components; one that follows from the number of classes by default.
    repeats : int, default=5
        Number of random draws of the folds, and of the labels of the curve.
    time_limit : float, optional
        Seconds for all runs; 40 to 600 by default, depending on the size of X. The results at that time are
        returned. The first run of LabelFold is not limited. Another run is stopped after 15% of the limit (more if
        there are few methods), and its method is then not tried again at that size or a larger one.
    random_state : int, default=0
        Seed of all random numbers.
    test_size : float, default=0.3
        The share of labelled rows held out for the curve.
    scale : "auto", bool or str, default="auto"
        The form of the columns: "unit variance" (True), "ranks", "tf-idf" or "as they are" (False). "auto" takes
        tf-idf for counts of words, ranks for heavy tails, unit variance for columns in different units, and leaves
        other columns as they are; ``notes`` say why. LabelFold chooses its own forms.
    unlabeled : default=-1
        The value of y that means unlabelled, besides missing values; None for missing values only.
    ids : sequence, optional
        Names of the rows, for the report; the id columns of a table by default.
    recipe : Recipe, optional
        How to read a table, such as ``Recipe(category=["zip"])``, if the automatic choice is wrong.
    image_shape : pair or triple of int, optional
        Height and width, if the columns are pixels, and 3 if each pixel is three columns (red, green, blue). Not
        needed for columns with names like ``pixel_0_7``.
    folder : path, optional
        The folder in which each result is written as soon as it is known. The same call with the same folder resumes
        a comparison that was stopped or killed.
    progress : bool, default=True
        Show a progress bar with the time left.
    name : str
        Name of the data in the report.
    command : str, optional
        The command that started it, for the report.
    tell : callable, optional
        Called with a sentence for each column that is not plain numbers, and once with a first answer, after a few
        methods have finished their first repeat.
    task : {"auto", "classification", "regression"}, default="auto"
        Whether y holds classes or numbers. "auto" reads fractions as numbers, and whole numbers as classes unless
        nearly every labelled row has a different one; ``notes`` say how an ambiguous y was read.
    feature_names : sequence, optional
        Names of the columns, for the report, if X is a matrix.
    groups : array-like of shape (n,), optional
        Rows with an equal value belong together, such as the visits of a patient; rows without a value do not. Their
        labels are hidden together, so that the score is that on rows of new groups. By default exact copies among
        the labelled rows are groups if there are significantly more of them than between labelled and other rows.

    Returns
    -------
    Comparison
        Its ``table``, ``best_``, ``refit()`` and ``report(path)``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = compare(X, y, ["lda", "sklearn-lda"], budgets=[30], components=[1, 2], repeats=2, progress=False)
    >>> found.table.query("method == 'lda'")[["components", "budget", "runs"]].values.tolist()
    [[1, 30, 2], [1, 150, 2], [2, 30, 2], [2, 150, 2]]
    >>> bool(found.choice.low < found.choice.expected < found.choice.high)
    True
    >>> found.refit().transform(X).shape[0]
    150
    """
    _check_numbers(repeats, time_limit)
    data = read_data(
        X,
        y,
        unlabeled=unlabeled,
        ids=ids,
        recipe=recipe,
        task=task,
        images=bool(image_shape),
        feature_names=feature_names,
        groups=groups,
    )
    if tell is not None and data.recipe is not None:
        for line in data.recipe.lines(most=20, plain=False):
            tell(f"{line}.")
    plan = make_plan(data, methods, budgets, components, test_size)
    _check_folds(data, plan)
    form, why_form = chosen_form(data.X, scale, data.column, in_unit=data.in_unit)
    settings = _facts(data, plan) | {
        "name": name,
        "command": command,
        "repeats": repeats,
        "time_limit": time_limit,
        "test_size": test_size,
        "scale": form,
        "random_state": random_state,
        "image_shape": image_sides(data.X.shape[1], data.names, image_shape),
    }
    clock = _clock(data, plan, time_limit)
    store = Store(folder, data.fingerprint(random_state, test_size, form, version("labelfold")))
    runs = Runs(data, plan.runs, store, clock, settings, tell)
    curve = list(budget_splits(data, plan.budgets, repeats, test_size, random_state))
    try:
        stopped = runs.go(curve, progress)
    finally:
        store.close()
    settings |= {"seconds": clock.seconds(), "resumed": store.resumed}
    rows = _wanted_rows(store, plan, settings)
    if not rows:
        _refuse_no_results(runs, stopped)
    notes = [*data.notes, *([why_form] if why_form else [])]
    if not why_form and form == AS_IS:
        notes += outweighing(data)
    chosen = {run.method.name: run.method for run in plan.runs}
    left_out = plan.left_out | runs.given_up
    return Comparison(rows, settings, chosen, data, left_out, [*notes, *_store_notes(store)], stopped)


def _check_numbers(repeats: int, time_limit: float | None) -> None:
    if not 1 <= repeats <= MOST_REPEATS:
        raise ValueError(
            f"repeats is the number of draws, at least 1 and at most {MOST_REPEATS:,}, not {repeats}."
        )
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time_limit is a number of seconds above 0, not {time_limit}.")


def _check_folds(data: Data, plan: Plan) -> None:
    """Raise an error if no label can be held out, neither for folds nor for the curve."""
    if n_folds(data) or plan.budgets:
        return
    few = "every class has one labelled row only, so that none"
    if data.facts.numbers:
        few = f"y has a number in {count(data.labels.n_labelled, 'row')} only, so that too few"
    raise NothingHeldOut(data, f"{few} can be held out")


def _facts(data: Data, plan: Plan) -> dict[str, Any]:
    """Return the settings that follow from the data and the plan."""
    return {
        "n_rows": data.X.shape[0],
        "n_columns": data.X.shape[1],
        "sparse": data.facts.sparse,
        "task": data.facts.task,
        "classes": data.classes,
        "counts": data.counts().tolist(),
        "n_labelled": data.labels.n_labelled,
        "n_groups": None if data.known_groups is None else len(data.known_groups),
        "metric": data.measure.name,
        "folds": n_folds(data),
        "budgets": [*plan.budgets, data.labels.n_labelled],
        "components": plan.sizes,
    }


def _clock(data: Data, plan: Plan, time_limit: float | None) -> Clock:
    n_methods = len({run.method.name for run in plan.runs})
    n_numbers = data.X.nnz if data.facts.sparse else data.X.size
    limit = default_limit(n_numbers, data.labels.n_labelled) if time_limit is None else time_limit
    return Clock.shared(limit, n_methods)


def _wanted_rows(store: Store, plan: Plan, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the store that belong to this comparison: a resumed store may hold others."""
    wanted = {(run.method.name, run.k) for run in plan.runs}
    return [
        row
        for row in store.rows
        if (row["method"], row["k"]) in wanted
        and row["budget"] in settings["budgets"]
        and row["repeat"] < settings["repeats"]
    ]


def _refuse_no_results(runs: Runs, stopped: str | None) -> None:
    """Raise the error that explains why there is no result."""
    limit = f"{runs.clock.limit:g} s"
    if runs.given_up:
        raise ValueError(
            f"No run ended within its share of the time limit of {limit}; give more, or name quicker methods."
        )
    if stopped == "ctrl-c":
        raise KeyboardInterrupt
    if stopped:
        raise ValueError(
            f"The time limit of {limit} was over before the first result; give more, or name fewer or quicker "
            "methods."
        )


def _store_notes(store: Store) -> list[str]:
    """Return sentences about the results that were found in the folder."""
    notes = []
    if store.resumed:
        notes.append(
            f"{store.resumed} results of an earlier run were reused (remove results.csv to start afresh)."
        )
    if store.unread:
        were = "were" if store.unread > 1 else "was"
        notes.append(
            f"{count(store.unread, 'line')} of results.csv {were} damaged or repeated; {store.set_aside} is a copy "
            "of the file before it was repaired."
        )
    elif store.set_aside:
        notes.append(
            f"The folder held results of other data, another seed or another version; they are now in "
            f"{store.set_aside}."
        )
    return notes
