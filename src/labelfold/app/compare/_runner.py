"""Run the comparison: every method on the same folds, one row of results a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from labelfold.app.compare._clock import Clock, default_limit
from labelfold.app.compare._data import Data, outweighing, read_data
from labelfold.app.compare._plan import images_of, make_plan
from labelfold.app.compare._results import Comparison
from labelfold.app.compare._runs import Runs
from labelfold.app.compare._splits import budget_splits, n_folds
from labelfold.app.compare._store import Store
from labelfold.app.io._problems import count
from labelfold.app.registry._column_forms import chosen_form
from labelfold.app.registry._methods import Method
from labelfold.features._column_kind import AS_IS
from labelfold.tables import Recipe


class NothingHeldBack(ValueError):
    """There are so few labels that none can be held back; ``data`` are the rows and labels, ``why`` says it."""

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
) -> Comparison:
    """Find the method that predicts best with these labels, and the accuracy, or R², to expect of it on new rows.

    Every labelled row is predicted by models that were not told its label: in each repeat the labelled rows are cut
    into folds, and the labels of each fold are hidden once. All rows stay in training. All methods see the same
    folds, so that differences between them are paired. Methods that are surely behind after the first repeat are
    not run again. Of the methods that cannot be told from the best, LabelFold is recommended, otherwise the best.

    A method that fails costs its own rows, which say why. Ctrl-C ends the comparison with what there is.

    Parameters
    ----------
    X : array-like, sparse matrix or table of shape (n, d)
        The rows. The columns of a table (pandas, polars or pyarrow) may be numbers, categories, dates, text or lists
        of numbers, with cells missing; see `labelfold.Recipe`.
    y : array-like of shape (n,), or (n, c) of 0 and 1
        Their classes, several labels a row, or numbers; None, NaN or ``unlabeled`` (not among numbers) where
        unknown.
    methods : str or Method, or sequence of them, optional
        All that suit the data unless given; ``left_out`` says which do not, and why.
    budgets : int or sequence of int, optional
        Smaller numbers of labels, for a curve of accuracy over labels: so many are kept and the others hidden.
    components : int or sequence of int, optional
        Sizes of the embeddings; one that the number of classes suggests unless given.
    repeats : int, default=5
        How often the folds, and the labels of the curve, are drawn.
    time_limit : float, optional
        Seconds for the runs, which end with what there is; 40 and more with the size of X unless given. LabelFold,
        where it comes first, has its first run whatever it takes. A later run that alone would take a seventh of the
        time, or a method's share where they are few, is stopped, and its method not tried again at that size or a
        larger one.
    random_state : int, default=0
        Seed of everything.
    test_size : float, default=0.3
        The share of labelled rows held back for the curve.
    scale : "auto", bool or str, default="auto"
        The form of the columns: "unit variance" (True), "ranks", "tf-idf" or "as they are" (False). "auto" takes
        tf-idf for counts of words, ranks for heavy tails, unit variance where columns differ in kind, and leaves
        them as they are where they share one; ``notes`` say why. LabelFold makes forms of its own.
    unlabeled : default=-1
        The label of rows without one; None where only missing values are.
    ids : sequence, optional
        Names of the rows, for the report; columns of a table that name its rows unless given.
    recipe : Recipe, optional
        How to read a table where it should not be told from the data, such as ``Recipe(category=["zip"])``.
    image_shape : pair or triple of int, optional
        Height and width, where the columns are the pixels of an image; names like ``pixel_0_7`` say so too. And 3
        where each pixel is three columns: red, green and blue.
    folder : path, optional
        Where each row of results is written when it is made. The same call with the same folder goes on where it was
        stopped or killed.
    progress : bool, default=True
        Show a progress bar with the time left.
    name : str
        What the report calls the data.
    command : str, optional
        How it was started, for the report.
    tell : callable, optional
        Called with what was made of each column that is not plain numbers, and once with a first answer, when every
        quick method has been through all folds once; each time with a sentence.
    task : {"auto", "classification", "regression"}, default="auto"
        Whether y holds classes or numbers. "auto" reads fractions as numbers, and whole numbers as classes unless
        nearly every labelled row has another; ``notes`` say how where that could be doubted.
    feature_names : sequence, optional
        Names of the columns, for the report, where X is a matrix.

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
    if not 1 <= repeats <= MOST_REPEATS:
        raise ValueError(
            f"repeats is the number of draws, at least 1 and at most {MOST_REPEATS:,}, not {repeats}."
        )
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time_limit is a number of seconds above 0, not {time_limit}.")
    data = read_data(
        X,
        y,
        unlabeled=unlabeled,
        ids=ids,
        recipe=recipe,
        task=task,
        images=bool(image_shape),
        feature_names=feature_names,
    )
    if tell is not None and data.recipe is not None:
        for line in data.recipe.lines(most=20, plain=False):
            tell(f"{line}.")
    plan = make_plan(data, methods, budgets, components, test_size)
    if not n_folds(data) and not plan.budgets:
        few = "every class has one labelled row only, so that none"
        if data.facts.numbers:
            few = f"y has a number in {count(data.labels.n_labelled, 'row')} only, so that too few"
        raise NothingHeldBack(data, f"{few} can be held back")
    image_shape = images_of(data, image_shape)
    form, why_form = chosen_form(data.X, scale, data.column, in_unit=data.in_unit)
    settings = {
        "name": name,
        "command": command,
        "n_rows": data.X.shape[0],
        "n_columns": data.X.shape[1],
        "sparse": data.facts.sparse,
        "task": data.facts.task,
        "classes": data.classes,
        "counts": data.counts().tolist(),
        "n_labelled": data.labels.n_labelled,
        "metric": data.measure.name,
        "folds": n_folds(data),
        "budgets": [*plan.budgets, data.labels.n_labelled],
        "components": plan.sizes,
        "repeats": repeats,
        "time_limit": time_limit,
        "test_size": test_size,
        "scale": form,
        "random_state": random_state,
        "image_shape": image_shape,
    }
    store = Store(folder, data.fingerprint(random_state, test_size, form, version("labelfold")))
    n_methods = len({run.method.name for run in plan.runs})
    n_numbers = data.X.nnz if data.facts.sparse else data.X.size
    limit = default_limit(n_numbers, data.labels.n_labelled) if time_limit is None else time_limit
    clock = Clock.shared(limit, n_methods)
    runs = Runs(data, plan.runs, store, clock, settings, tell)
    curve = list(budget_splits(data, plan.budgets, repeats, test_size, random_state))
    try:
        stopped = runs.go(curve, progress)
    finally:
        store.close()
    settings |= {"seconds": clock.seconds(), "resumed": store.resumed}
    wanted = {(run.method.name, run.k) for run in plan.runs}
    rows = [
        row
        for row in store.rows
        if (row["method"], row["k"]) in wanted
        and row["budget"] in settings["budgets"]
        and row["repeat"] < repeats
    ]
    if not rows and runs.given_up:
        raise ValueError(
            f"No run ended within its share of the time limit of {clock.limit:g} s; give more, or name quicker "
            "methods."
        )
    if stopped and not rows:
        if stopped == "ctrl-c":
            raise KeyboardInterrupt
        raise ValueError(
            f"The time limit of {clock.limit:g} s was over before the first result; give more, or name fewer or "
            "quicker methods."
        )
    notes = [*data.notes, *([why_form] if why_form else [])]
    if not why_form and form == AS_IS:
        notes += outweighing(data)
    if store.resumed:
        notes.append(
            f"{store.resumed} results were there from an earlier run and were not made again (remove results.csv to "
            "start afresh)."
        )
    if store.unread:
        notes.append(
            f"{count(store.unread, 'line')} of results.csv {'were' if store.unread > 1 else 'was'} damaged or there "
            f"twice; {store.set_aside} has the file as it was."
        )
    elif store.set_aside:
        notes.append(
            f"The folder held results of other data, another seed or another version: {store.set_aside} has them."
        )
    chosen = {run.method.name: run.method for run in plan.runs}
    return Comparison(rows, settings, chosen, data, plan.left_out | runs.given_up, notes, stopped)
