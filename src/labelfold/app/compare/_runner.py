"""Run the comparison: every method on the same folds, one row of results a run."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score

from labelfold.app.compare._choice import OutOfFold, choose, gap
from labelfold.app.compare._clock import Clock, TimeUp, default_limit
from labelfold.app.compare._data import Data, outweighing, read_data
from labelfold.app.compare._out_of_fold import out_of_fold
from labelfold.app.compare._plan import Run, images_of, make_plan
from labelfold.app.compare._results import PREFERRED, Comparison
from labelfold.app.compare._splits import Part, Split, as_text, budget_splits, fold_splits, n_folds
from labelfold.app.compare._store import Store
from labelfold.app.io._problems import count, one_line
from labelfold.app.registry._column_forms import chosen_form
from labelfold.app.registry._methods import Method
from labelfold.features._column_kind import AS_IS
from labelfold.tables import Recipe

# After the first repeat, methods this far behind the best, and surely behind, are not run again.
_FAR_BEHIND = 0.01
# So many methods make a first answer.
_FIRST = 3


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
    image_shape: tuple[int, int] | None = None,
    folder: str | os.PathLike | None = None,
    progress: bool = True,
    name: str = "the data",
    command: str | None = None,
    tell: Callable[[str], None] | None = None,
    task: str = "auto",
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
        Seconds for the runs, which end with what there is; 40 and more with the size of X unless given. A run that
        alone would take a seventh of it, or a method's share where they are few, is stopped, and its method not tried
        again at that size or a larger one.
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
    tell : callable, optional
        Called with what was made of each column that is not plain numbers, and once with a first answer, when every
        quick method has been through all folds once; each time with a sentence.
    task : {"auto", "classification", "regression"}, default="auto"
        Whether y holds classes or numbers. "auto" reads fractions as numbers, and whole numbers as classes unless
        nearly every labelled row has another; ``notes`` say how where that could be doubted.

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
    [[1, 6, 2], [1, 30, 2], [1, 150, 2], [2, 6, 2], [2, 30, 2], [2, 150, 2]]
    >>> bool(found.choice.low < found.choice.expected < found.choice.high)
    True
    >>> found.refit().transform(X).shape[0]
    150
    """
    if repeats < 1:
        raise ValueError(f"repeats is the number of draws, at least 1, not {repeats}.")
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time_limit is a number of seconds above 0, not {time_limit}.")
    data = read_data(X, y, unlabeled=unlabeled, ids=ids, recipe=recipe, task=task, images=bool(image_shape))
    if tell is not None and data.recipe is not None:
        for line in data.recipe.lines(most=20, plain=False):
            tell(f"{line}.")
    plan = make_plan(data, methods, budgets, components, test_size)
    if not n_folds(data) and not plan.budgets:
        few = "every class has one labelled row only, so that none"
        if data.facts.numbers:
            few = f"y has a number in {count(data.labels.n_labelled, 'row')} only, so that too few"
        raise ValueError(
            f"{few} can be held back to compare methods by; fit LabelFold (labelfold fit, or labelfold.LabelFold), "
            "or label more rows"
        )
    image_shape = images_of(data, image_shape)
    form, why_form = chosen_form(data.X, scale, data.column)
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
    clock = Clock.shared(default_limit(data.X.shape) if time_limit is None else time_limit, n_methods)
    runs = _Runs(data, plan.runs, store, clock, settings, tell)
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


class _Runs:
    """The runs of a comparison: folds over all labels, repeat by repeat, then the curve over fewer labels."""

    def __init__(
        self,
        data: Data,
        runs: list[Run],
        store: Store,
        clock: Clock,
        settings: dict,
        tell: Callable[[str], None] | None,
    ):
        self.data, self.runs, self.store, self.clock = data, runs, store, clock
        self.seed, self.scale = settings["random_state"], settings["scale"]
        self.repeats, self.task = settings["repeats"], settings["task"]
        self.measure = data.measure
        self.tell = tell
        self.given_up: dict[str, str] = {}
        self._too_large: dict[str, int] = {}
        self._behind: set[Run] = set()
        self._views: dict[Run, Any] = {}  # models that take other labels of the same rows at once
        self._told = False
        self._warm: set[str] = set()

    def go(self, curve: list[Split], progress: bool) -> str | None:
        """Make what is not there yet; return what stopped it, if anything did."""
        folds = list(fold_splits(self.data, self.repeats, self.seed))
        todo = [run.label for split in folds[:1] + curve for run in self._left(split)]
        try:
            with self.clock.bar(todo, progress) as bar:
                for split in folds:
                    self._make(split, self._left(split), bar)
                    self._drop(split.repeat + 1)
                for split in curve:
                    self._make(split, self._left(split), bar)
        except KeyboardInterrupt:
            return "ctrl-c"
        except TimeUp:
            return "time limit"
        return None

    def _make(self, split: Split, runs: Iterable[Run], bar: Any) -> None:
        for run in runs:
            bar.start(run.label, f"{run.label}, {split.budget} labels")
            self._one(run, split)
            bar.done()
            self._first_answer()

    def _left(self, split: Split) -> list[Run]:
        """Return the runs of a split that are not there yet, and not out of the race."""
        whole = split.budget == self.data.labels.n_labelled
        return [
            run
            for run in self.runs
            if not self.store.has(run.method.name, run.k, split.budget, split.repeat)
            and not (whole and run in self._behind)
        ]

    def _predictions(self, repeats: int) -> dict[Run, OutOfFold]:
        """Return the out-of-fold predictions so far of every run that was through all folds so often."""
        return out_of_fold(self.data, self.measure, self.store.rows, self.runs, repeats, self.seed)

    def _drop(self, repeats: int) -> None:
        """Leave out of further repeats what is surely behind the best; LabelFold stays."""
        found = {run: one for run, one in self._predictions(repeats).items() if run not in self._behind}
        if len(found) < 2:
            return
        best = max(found.values(), key=lambda one: one.score)
        for run, one in found.items():
            ahead, half = gap(best, one)
            if run.method.name != PREFERRED and ahead > max(half, _FAR_BEHIND):
                self._behind.add(run)

    def _first_answer(self) -> None:
        """Tell, once, what a few methods say after one round of folds."""
        if self.tell is None or self._told:
            return
        found = {run.method.title: one for run, one in self._predictions(1).items()}
        if len(found) >= min(_FIRST, len(self.runs)):
            first, self._told = choose(found, list(found)), True
            self.tell(
                f"First answer: {first.chosen}, about {self.measure.stated(first.expected)} on new rows."
            )

    def _one(self, run: Run, split: Split) -> None:
        name = run.method.name
        if name in self._too_large and (run.k or 0) >= self._too_large[name]:
            return
        row = {"method": name, "k": run.k, "budget": split.budget, "repeat": split.repeat}
        try:
            if name not in self._warm:
                with self.clock.turn(1.0):
                    self._warm_up(run, split)
                self._warm.add(name)
            # LabelFold is what is delivered if nothing is better: it may take what time there is
            with self.clock.turn(1.0 if name == PREFERRED else None):
                row |= self._fit(run, split)
        except TimeUp:
            if self.clock.over():
                raise
            self._too_large[name] = run.k or 0
            size = "" if run.k is None else f" with {run.k} components or more"
            self.given_up[f"{run.method.title}{size}"] = (
                f"a run took longer than {self.clock.most() or 0:.3g} s of the time limit"
            )
            return  # no row: another run, with more time, should try it
        except Exception as error:  # the reason is the method's result; the others go on
            row |= {"error": f"{type(error).__name__}: {one_line(error)}"}
        self.store.add(row)

    def _fit(self, run: Run, split: Split) -> dict[str, Any]:
        """Fit on each part; return the score on the rows held back, seconds, and what was warned of."""
        X, tested = self.data.X, split.tested
        predicted, seconds, embedded = [], 0.0, None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for part in split.parts:
                held = X[part.test]
                start = time.perf_counter()
                model = self._fitted(run, split, part)
                seconds += time.perf_counter() - start
                if run.method.embeds and embedded is None:
                    start = time.perf_counter()
                    embedded = model.transform(held)
                    transform_seconds = time.perf_counter() - start
                predicted.append(np.asarray(model.predict(held)))
        place = np.searchsorted(self.data.labels.index, tested)
        guess, truth = np.concatenate(predicted), self.data.truth[place]
        order = np.argsort(tested)
        size = None
        if embedded is not None:
            size = X.shape[0] * embedded.shape[1] * embedded.dtype.itemsize
        return {
            "components": None if embedded is None else embedded.shape[1],
            "score": float(self.measure.value(self.measure.terms(truth, guess).sum(axis=0))),
            "balanced_accuracy": self._balanced(truth, guess),
            "fit_seconds": seconds / len(split.parts),
            "transform_seconds": None if embedded is None else transform_seconds,
            "embedding_size": size,
            "predicted": as_text(guess[order]),
            "note": "; ".join(dict.fromkeys(one_line(w.message) for w in caught)) or None,
        }

    def _fitted(self, run: Run, split: Split, part: Part) -> Any:
        """Return the method fitted on a part; where it can take other labels of the same rows, by that."""
        whole = split.budget == self.data.labels.n_labelled
        if whole and run in self._views:
            return self._views[run].refit(part.y, full=True)
        rows = self.data.X if whole else self.data.X[part.train]
        model = run.make(rows, self.seed, self.scale, self.task).fit(rows, part.y)
        if whole and callable(getattr(model, "refit", None)):  # of PCALS it is a parameter
            self._views[run] = model
        return model

    def _balanced(self, truth: np.ndarray, guess: np.ndarray) -> float | None:
        if self.measure.kind not in ("accuracy", "balanced"):
            return None
        with warnings.catch_warnings():
            # a class may have no row held back, and a wrong guess of it is no news
            warnings.filterwarnings("ignore", message="y_pred contains classes not in y_true")
            return float(balanced_accuracy_score(truth, guess))

    def _warm_up(self, run: Run, split: Split) -> None:
        """Fit on a few rows and forget it, so that no timing holds a compiler's work."""
        train, y, _ = split.parts[0]
        known = ~np.isnan(y).reshape(len(y), -1)[:, 0] if y.dtype.kind == "f" else y >= 0
        some = np.union1d(np.flatnonzero(known)[:500], np.arange(min(200, len(y))))
        X = self.data.X[train[some]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                run.make(X, self.seed, self.scale, self.task).fit(X, y[some]).predict(X[:2])
            except Exception:  # it will fail again, and be reported, in the runs
                return
