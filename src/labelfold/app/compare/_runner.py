"""Runs a comparison: every method on the same folds, one row of results for each run."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from labelfold.app.compare._data import Data, image_sides, outweighing, read_data, whole_numbers
from labelfold.app.compare._held_out import (
    Part,
    Split,
    as_text,
    budget_splits,
    fold_splits,
    n_folds,
    predictions_of,
)
from labelfold.app.compare._results import PREFERRED, Results
from labelfold.app.compare._scores import BALANCED, OutOfFold, choose, gap
from labelfold.app.compare._store import Clock, ProgressBar, Store, TimeUp, default_limit
from labelfold.app.io import count, one_line
from labelfold.app.registry import (
    AS_IS,
    Method,
    fit_grouped,
    get_method,
    ranked_methods,
    read_class_weight,
    weights_sentence,
)
from labelfold.model_selection import LabelBudgetSplit
from labelfold.tables import Recipe

MAX_REPEATS = 10_000
# Budget: methods that are significantly worse than the best, by at least this much, are not run in further repeats.
_FAR_BEHIND = 0.01
# A choice of presentation: the first answer is given when this many methods have finished a repeat.
_FIRST = 3
# Budget: default number of components of methods that do not reduce to discriminant directions, at most.
_MAX_COMPONENTS = 50
# Budget: with more labelled rows LabelFold takes long, so quick methods run first and give a first answer.
_MANY_LABELLED = 1000


@dataclass(frozen=True)
class Run:
    """A method with a number of components k; None if it does not embed."""

    method: Method
    k: int | None

    @property
    def label(self) -> str:
        """Its name in reports."""
        return self.method.title if self.k is None else f"{self.method.title}, {self.k}"

    def make(self, X: Any, **how: Any) -> Any:
        """Return the estimator, not fitted; see `Method.make`."""
        return self.method.make(self.k, X=X, **how)


@dataclass(frozen=True)
class Plan:
    """The runs of each split, the budgets of the curve, the sizes asked for, and methods left out with reasons."""

    runs: list[Run]
    budgets: list[int]
    sizes: list[int]
    left_out: dict[str, str]


def make_plan(
    data: Data,
    methods: Sequence[str | Method] | None,
    budgets: int | Sequence[int] | None,
    components: int | Sequence[int] | None,
    test_size: float,
    weighted: bool = False,
) -> Plan:
    """Return the plan of a comparison, and check the parameters; ``weighted`` says that classes have weights."""
    if not 0 < test_size < 1:
        raise ValueError(
            f"test_size is the share of labelled rows held out, between 0 and 1, not {test_size}."
        )
    chosen, left_out = _methods(data, methods, weighted)
    budgets = [] if budgets is None else whole_numbers("budgets", budgets)
    if budgets:  # raises an error now if there are too few labels for them
        splitter = LabelBudgetSplit(budgets, n_repeats=1, test_size=test_size, task=data.facts.task)
        next(splitter.split(None, data.y))
    sizes = None if components is None else data.checked_sizes(components)
    runs = []
    for method in chosen:
        limit = max(data.facts.n_directions, 1) if method.directions == "limit" else data.X.shape[1]
        ks: list[int | None] = [None]
        if method.embeds:
            ks = sorted({min(k, limit) for k in sizes or [_default_size(method, data)]})
        runs += [Run(method, k) for k in ks]
    late = data.labels.n_labelled > _MANY_LABELLED
    runs.sort(key=lambda run: run.method.slow or (late and run.method.own_forms))
    return Plan(runs, budgets, sizes or [], left_out)


def _methods(
    data: Data, methods: Sequence[str | Method] | None, weighted: bool
) -> tuple[list[Method], dict[str, str]]:
    """Return the methods to run, and the titles of the others with reasons."""
    if methods is not None:
        methods = [methods] if isinstance(methods, str | Method) else methods
        chosen = [m if isinstance(m, Method) else get_method(m) for m in methods]
        if not chosen:
            raise ValueError("There is no method to compare; name at least one.")
        for method in chosen:
            method.refuse_task(data.facts.task)
            if weighted:
                method.refuse_weighted()
        return list({m.name: m for m in chosen}.values()), {}
    chosen, left_out = [], {}
    reason: str | None
    for method in ranked_methods():
        if not method.available:
            reason = f"it is not installed ({method.installation})"
        elif not method.compared:
            reason = "it is run only where asked for by name"
        else:
            reason = method.why_not(data.facts) or (method.why_not_weighted() if weighted else None)
        if reason:
            left_out[method.title] = reason
        else:
            chosen.append(method)
    if not chosen:
        reasons = "; ".join(f"{title}: {reason}" for title, reason in left_out.items())
        raise ValueError(f"No method suits these data. {reasons}.")
    return chosen, left_out


def _default_size(method: Method, data: Data) -> int:
    """Return the default number of components.

    It is the number of discriminant directions, or more for unsupervised components. In regression LabelFold has two,
    for a map.
    """
    n, d = data.X.shape
    natural = data.facts.n_directions
    if method.directions == "limit":
        return natural
    if method.directions == "default":
        return min(2, d) if data.facts.numbers else natural
    return max(min(max(2 * natural, 20), d - 1, n, _MAX_COMPONENTS), 1)


class NothingHeldOut(ValueError):
    """There are too few labels to hold any out. ``data`` holds the rows and labels, ``why`` the reason."""

    data: Data
    why: str

    def __init__(self, data: Data, why: str) -> None:
        super().__init__(
            f"{why} to compare methods by; fit LabelFold (labelfold fit, or labelfold.LabelFold), or label more rows"
        )
        self.data, self.why = data, why


def run_comparison(
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
    folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
    name: str = "the data",
    command: str | None = None,
    tell: Callable[[str], None] | None = None,
    task: str = "auto",
    feature_names: Sequence[Any] | None = None,
    groups: Any = None,
    class_weight: Any = None,
) -> Results:
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
    class_weight : dict or "balanced", default=None
        Weights of the classes, for every method: "balanced" gives all classes the same total, and classes that a
        dict does not name have the weight 1. Methods that take no weights are left out; ``left_out`` names them.

    Returns
    -------
    Comparison
        Its ``table``, ``best_``, ``refit()`` and ``report(path)``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> from labelfold import compare
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
    weights = read_class_weight(class_weight, data.labels)
    plan = make_plan(data, methods, budgets, components, test_size, weighted=weights is not None)
    _check_folds(data, plan)
    form, why_form = data.chosen_form(scale)
    settings = _facts(data, plan) | {
        "name": name,
        "command": command,
        "repeats": repeats,
        "time_limit": time_limit,
        "test_size": test_size,
        "scale": form,
        "random_state": random_state,
        "class_weight": weights,
        "image_shape": image_sides(data.X.shape[1], data.names, image_shape),
    }
    clock = _clock(data, plan, time_limit)
    what = (random_state, test_size, form, version("labelfold"), *([] if weights is None else [weights]))
    store = Store(folder, data.fingerprint(*what))
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
    notes = [*data.notes, *filter(None, [why_form, weights_sentence(weights, data.classes)])]
    if not why_form and form == AS_IS:
        notes += outweighing(data)
    chosen = {run.method.name: run.method for run in plan.runs}
    left_out = plan.left_out | runs.given_up
    return Results(rows, settings, chosen, data, left_out, [*notes, *_store_notes(store)], stopped)


def _check_numbers(repeats: int, time_limit: float | None) -> None:
    if not 1 <= repeats <= MAX_REPEATS:
        raise ValueError(
            f"repeats is the number of draws, at least 1 and at most {MAX_REPEATS:,}, not {repeats}."
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


class Runs:
    """The runs of a comparison: repeats of folds over all labels, then the learning curve."""

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
        self.seed, self.repeats = settings["random_state"], settings["repeats"]
        self.how = {name: settings[name] for name in ("random_state", "scale", "task", "class_weight")}
        self.measure = data.measure
        self.tell = tell
        self.given_up: dict[str, str] = {}
        self._too_large: dict[str, int] = {}
        self._behind: set[Run] = set()
        # models with ``refit(y)``, which reuse results that do not depend on y
        self._refittable: dict[Run, Any] = {}
        self._has_answered = False
        self._warm: set[str] = set()

    def go(self, curve: list[Split], progress: bool) -> str | None:
        """Make the runs that are not in the store; return why they ended early, or None."""
        folds = list(fold_splits(self.data, self.repeats, self.seed))
        todo = [run.label for split in folds[:1] + curve for run in self._remaining(split)]
        try:
            with closing(ProgressBar(todo, progress, self.clock)) as bar:
                for split in folds:
                    self._make_runs(split, self._remaining(split), bar)
                    self._drop(split.repeat + 1)
                for split in curve:
                    self._make_runs(split, self._remaining(split), bar)
        except KeyboardInterrupt:
            return "ctrl-c"
        except TimeUp:
            return "time limit"
        return None

    def _make_runs(self, split: Split, runs: Iterable[Run], bar: Any) -> None:
        for run in runs:
            bar.start(run.label, f"{run.label}, {split.budget} labels")
            self._make_run(run, split)
            bar.done()
            self._first_answer()

    def _remaining(self, split: Split) -> list[Run]:
        """Return the runs of a split that are not in the store, without the dropped methods."""
        return [
            run
            for run in self.runs
            if not self.store.has(run.method.name, run.k, split.budget, split.repeat)
            and not (self._whole(split) and run in self._behind)
        ]

    def _whole(self, split: Split) -> bool:
        """Tell whether a split consists of folds over all labels, not of a part of the curve."""
        return split.budget == self.data.labels.n_labelled

    def _predictions(self, repeats: int) -> dict[Run, OutOfFold]:
        """Return the out-of-fold predictions of every run that has finished ``repeats`` repeats."""
        runs = {(run.method.name, run.k): run for run in self.runs}
        found = predictions_of(self.data, self.store.rows, runs, repeats, self.seed)
        return {runs[pair]: one for pair, one in found.items() if len(one.terms) == repeats}

    def _drop(self, repeats: int) -> None:
        """Drop methods that are significantly worse than the best from further repeats, except LabelFold."""
        found = {run: one for run, one in self._predictions(repeats).items() if run not in self._behind}
        if len(found) < 2:
            return
        best = max(found.values(), key=lambda one: one.score)
        for run, one in found.items():
            ahead, half = gap(best, one)
            if run.method.name != PREFERRED and ahead > max(half, _FAR_BEHIND):
                self._behind.add(run)

    def _first_answer(self) -> None:
        """Report the first answer, once, when a few methods have finished a repeat."""
        if self.tell is None or self._has_answered:
            return
        found = {run.method.title: one for run, one in self._predictions(1).items()}
        if len(found) >= min(_FIRST, len(self.runs)):
            first, self._has_answered = choose(found, list(found)), True
            stated = self.measure.stated(first.expected)
            self.tell(f"First answer: {first.chosen}, about {stated} on new rows.")

    def _make_run(self, run: Run, split: Split) -> None:
        name = run.method.name
        if name in self._too_large and (run.k or 0) >= self._too_large[name]:
            return
        row = {"method": name, "k": run.k, "budget": split.budget, "repeat": split.repeat}
        # LabelFold may use all of the time; its first run is not limited, so that there is a model to deliver
        preferred = name == PREFERRED
        clock = Clock(None) if preferred and not self.store.rows else self.clock
        try:
            if name not in self._warm and not preferred:
                with clock.turn(1.0):
                    self._warm_up(run, split)
                self._warm.add(name)
            with clock.turn(1.0 if preferred else None):
                row |= self._fit(run, split)
        except TimeUp:
            if self.clock.over():
                raise
            self._too_large[name] = run.k or 0
            size = "" if run.k is None else f" with {run.k} components or more"
            self.given_up[f"{run.method.title}{size}"] = (
                f"a run took longer than {self.clock.run_limit():.3g} s of the time limit"
            )
            return  # no row is stored, so that a comparison with more time tries it again
        except Exception as error:  # the error is stored; the other methods go on
            row |= {"error": f"{type(error).__name__}: {one_line(error)}"}
        self.store.add(row)

    def _fit(self, run: Run, split: Split) -> dict[str, Any]:
        """Fit on each part; return the score on the test rows, the seconds and the warnings."""
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
        guess, truth = np.concatenate(predicted), self.data.truth[self.data.positions(tested)]
        order = np.argsort(tested)
        classes = self.measure.kind in ("accuracy", "balanced")
        size = None
        if embedded is not None:
            size = X.shape[0] * embedded.shape[1] * embedded.dtype.itemsize
        return {
            "components": None if embedded is None else embedded.shape[1],
            "score": self.measure.of(truth, guess),
            "balanced_accuracy": BALANCED.of(truth, guess) if classes else None,
            "fit_seconds": seconds / len(split.parts),
            "transform_seconds": None if embedded is None else transform_seconds,
            "embedding_size": size,
            "predicted": as_text(guess[order]),
            "note": "; ".join(dict.fromkeys(one_line(w.message) for w in caught)) or None,
        }

    def _fitted(self, run: Run, split: Split, part: Part) -> Any:
        """Return the method fitted on a part, by ``refit`` if it has one and the rows are the same."""
        whole = self._whole(split)
        if whole and run in self._refittable:
            return self._refittable[run].refit(part.y, full=True)
        rows = self.data.X if whole else self.data.X[part.train]
        groups = self.data.groups if whole or self.data.groups is None else self.data.groups.take(part.train)
        model = fit_grouped(run.make(rows, **self.how), rows, part.y, groups)
        if whole and callable(getattr(model, "refit", None)):  # for PCALS it is a parameter
            self._refittable[run] = model
        return model

    def _warm_up(self, run: Run, split: Split) -> None:
        """Fit on a few rows, so that compilation is not part of any timing."""
        train, y, _ = split.parts[0]
        known = ~np.isnan(y).reshape(len(y), -1)[:, 0] if y.dtype.kind == "f" else y >= 0
        some = np.union1d(np.flatnonzero(known)[:500], np.arange(min(200, len(y))))
        X = self.data.X[train[some]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                run.make(X, **self.how).fit(X, y[some]).predict(X[:2])
            except Exception:  # the run itself reports the error
                return
