"""Run the comparison: every method on the same splits, one row of results a run."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score

from labelfold.app.compare._clock import Clock, TimeUp
from labelfold.app.compare._data import Data, outweighing, read_data
from labelfold.app.compare._plan import Run, images_of, make_plan
from labelfold.app.compare._results import Comparison
from labelfold.app.compare._store import Store
from labelfold.app.io._problems import count, one_line
from labelfold.app.registry._column_forms import chosen_form
from labelfold.app.registry._methods import Method
from labelfold.app.registry._multilabel import right
from labelfold.features._column_kind import AS_IS
from labelfold.model_selection import LabelBudgetSplit

_COMPILING = 0.25  # the share of a time limit in which a method may compile, once on a machine


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
    image_shape: tuple[int, int] | None = None,
    folder: str | os.PathLike | None = None,
    progress: bool = True,
    name: str = "the data",
    command: str | None = None,
) -> Comparison:
    """Find out which method tells the classes apart best, at which size, with how many labels.

    Of the labelled rows a part is held back to test on. Of the others ``budget`` labels are kept and the rest
    hidden; rows without a label stay in training. Every method sees the same splits, so that differences between
    methods have a spread of their own. A method that fails costs its own rows, which say why. Ctrl-C ends the
    comparison with what there is.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n, d)
        The rows.
    y : array-like of shape (n,), or (n, c) of 0 and 1
        Their classes, or several labels a row; None, NaN or ``unlabeled`` where unknown.
    methods : str or Method, or sequence of them, optional
        All that suit the data unless given; ``left_out`` says which do not, and why.
    budgets : int or sequence of int, optional
        Numbers of labels; 2, 5, 10 and 20 a class and as many as there are, within reason, unless given.
    components : int or sequence of int, optional
        Sizes of the embeddings; up to three that the number of classes suggests unless given.
    repeats : int, default=5
        Draws of test rows and labels.
    time_limit : float, optional
        Seconds for the runs, which end with what there is. A run that alone would take a tenth of it is stopped and
        its method not tried again at that size or a larger one.
    random_state : int, default=0
        Seed of everything.
    test_size : float, default=0.3
        The share of labelled rows held back.
    scale : "auto" or bool, default="auto"
        Whether to bring the columns to unit variance first. "auto" does so where they differ in kind, as
        measurements in several units do, and leaves them as they are where they share one, as pixels do; ``notes``
        say what was done and why.
    unlabeled : default=-1
        The label of rows without one; None where only missing values are.
    ids : sequence, optional
        Names of the rows, for the report.
    image_shape : pair of int, optional
        Height and width, where the columns are the pixels of an image; names like ``pixel_0_7`` say so too.
    folder : path, optional
        Where each row of results is written when it is made. The same call with the same folder goes on where it was
        stopped or killed.
    progress : bool, default=True
        Show a progress bar with the time left.
    name : str
        What the report calls the data.
    command : str, optional
        How it was started, for the report.

    Returns
    -------
    Comparison
        Its ``table``, ``best_``, ``refit()`` and ``report(path)``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = compare(X, y, ["lda", "svm"], budgets=[6, 30], components=[1, 2], repeats=2, progress=False)
    >>> found.table.query("method == 'lda'")[["components", "budget", "runs"]].values.tolist()
    [[1, 6, 2], [1, 30, 2], [2, 6, 2], [2, 30, 2]]
    >>> found.refit().transform(X).shape[0]
    150
    """
    if repeats < 1:
        raise ValueError(f"repeats is the number of draws, at least 1, not {repeats}.")
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time_limit is a number of seconds above 0, not {time_limit}.")
    data = read_data(X, y, unlabeled=unlabeled, ids=ids)
    plan = make_plan(data, methods, budgets, components, test_size)
    image_shape = images_of(data, image_shape)
    form, why_form = chosen_form(data.X, scale, data.column)
    settings = {
        "name": name,
        "command": command,
        "n_rows": data.X.shape[0],
        "n_columns": data.X.shape[1],
        "sparse": data.facts.sparse,
        "classes": data.classes,
        "counts": data.labels.counts().tolist(),
        "n_labelled": data.labels.n_labelled,
        "metric": "F1 over all labels" if data.facts.multilabel else "accuracy",
        "budgets": plan.budgets,
        "components": plan.sizes,
        "repeats": repeats,
        "time_limit": time_limit,
        "test_size": test_size,
        "scale": form,
        "random_state": random_state,
        "image_shape": image_shape,
    }
    splits = LabelBudgetSplit(
        plan.budgets[::-1], n_repeats=repeats, test_size=test_size, random_state=random_state
    )
    store = Store(folder, data.fingerprint(random_state, test_size, form, version("labelfold")))
    clock = Clock(time_limit)
    runs = _Runs(data, plan.runs, splits, store, clock, settings)
    try:
        stopped = runs.go(progress)
    finally:
        store.close()
    settings |= {"seconds": clock.seconds(), "resumed": store.resumed}
    wanted = {(run.method.name, run.k) for run in plan.runs}
    rows = [
        row
        for row in store.rows
        if (row["method"], row["k"]) in wanted and row["budget"] in plan.budgets and row["repeat"] < repeats
    ]
    if stopped and not rows:
        if stopped == "ctrl-c":
            raise KeyboardInterrupt
        raise ValueError(
            f"The time limit of {time_limit:g} s was over before the first result; give more, or name fewer or "
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


class _Runs:
    """The runs of a comparison, repeat by repeat and the largest budget first: what matters most comes first."""

    def __init__(
        self,
        data: Data,
        runs: list[Run],
        splits: LabelBudgetSplit,
        store: Store,
        clock: Clock,
        settings: dict,
    ):
        self.data, self.runs, self.splits, self.store, self.clock = data, runs, splits, store, clock
        self.seed, self.scale = settings["random_state"], settings["scale"]
        self.given_up: dict[str, str] = {}
        self._too_large: dict[str, int] = {}
        self._warm: set[str] = set()

    def go(self, progress: bool) -> str | None:
        """Make what is not there yet; return what stopped it, if anything did."""
        repeats, budgets = range(self.splits.n_repeats), self.splits.budgets or ()
        todo = [run.label for r in repeats for b in budgets for run in self._left(b, r)]
        try:
            with self.clock.bar(todo, progress) as bar:
                # drawn as they are needed: together they would take more room than the data
                for problem in self.splits.problems(None, self.data.y):
                    runs = self._left(problem.budget, problem.repeat)
                    if not runs:
                        continue
                    held = self.data.X[problem.test], self.data.y[problem.test]
                    rows = self.data.X[problem.train]
                    for run in runs:
                        bar.start(run.label, f"{run.label}, {problem.budget} labels")
                        self._one(run, problem, rows, *held)
                        bar.done()
        except KeyboardInterrupt:
            return "ctrl-c"
        except TimeUp:
            return "time limit"
        return None

    def _left(self, budget: int, repeat: int) -> list[Run]:
        """Return the runs of a split that are not there yet."""
        return [run for run in self.runs if not self.store.has(run.method.name, run.k, budget, repeat)]

    def _one(self, run: Run, problem: Any, rows: Any, held: Any, truth: np.ndarray) -> None:
        name = run.method.name
        if name in self._too_large and (run.k or 0) >= self._too_large[name]:
            return
        row = {"method": name, "k": run.k, "budget": problem.budget, "repeat": problem.repeat}
        longest = self.clock.most(_COMPILING) or 0.0
        reason = f"compiling, and fitting a few rows, took longer than {longest:.3g} s, a quarter of the time limit"
        try:
            if name not in self._warm:
                with self.clock.turn(_COMPILING):
                    self._warm_up(run, rows, problem.y)
                self._warm.add(name)
            reason = f"a run took longer than {self.clock.most() or 0:.3g} s, a tenth of the time limit"
            with self.clock.turn():
                row |= self._fit(run, rows, problem.y, held, truth)
        except TimeUp:
            if self.clock.over():
                raise
            self._too_large[name] = run.k or 0
            size = "" if run.k is None else f" with {run.k} components or more"
            self.given_up[f"{run.method.title}{size}"] = reason
            return  # no row: another run, with more time, should try it
        except Exception as error:  # the reason is the method's result; the others go on
            row |= {"error": f"{type(error).__name__}: {one_line(error)}"}
        self.store.add(row)

    def _fit(self, run: Run, X: Any, y: np.ndarray, held: Any, truth: np.ndarray) -> dict[str, Any]:
        """Fit once; return the score on the rows held back, seconds, and what was warned of."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = run.make(X, self.seed, self.scale)
            start = time.perf_counter()
            model.fit(X, y)
            fitted = time.perf_counter()
            embedded = model.transform(held) if run.method.embeds else None
            embedding_done = time.perf_counter()
            predicted = model.predict(held)
            # a class may have no row held back, and a wrong guess of it is no news
            warnings.filterwarnings("ignore", message="y_pred contains classes not in y_true")
            balanced = None if truth.ndim == 2 else float(balanced_accuracy_score(truth, predicted))
        size = None
        if embedded is not None:
            size = self.data.X.shape[0] * embedded.shape[1] * embedded.dtype.itemsize
        return {
            "components": None if embedded is None else embedded.shape[1],
            "score": right(truth, predicted),
            "balanced_accuracy": balanced,
            "fit_seconds": fitted - start,
            "transform_seconds": None if embedded is None else embedding_done - fitted,
            "embedding_size": size,
            "note": "; ".join(dict.fromkeys(one_line(w.message) for w in caught)) or None,
        }

    def _warm_up(self, run: Run, X: Any, y: np.ndarray) -> None:
        """Fit on a few rows and forget it, so that no timing holds a compiler's work."""
        known = y >= 0 if y.ndim == 1 else ~np.isnan(y[:, 0])
        some = np.union1d(np.flatnonzero(known)[:500], np.arange(min(200, len(y))))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = run.make(X[some], self.seed, self.scale).fit(X[some], y[some])
                model.predict(X[some[:2]])
            except Exception:  # it will fail again, and be reported, in the runs
                return
