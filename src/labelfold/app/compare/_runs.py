"""The runs of a comparison: each fits one method on the parts of one split, within a time limit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

import numpy as np

from labelfold.app.compare._choice import OutOfFold, choose, gap
from labelfold.app.compare._clock import Bar, Clock, TimeUp
from labelfold.app.compare._data import Data
from labelfold.app.compare._measure import BALANCED
from labelfold.app.compare._plan import Run
from labelfold.app.compare._results import PREFERRED
from labelfold.app.compare._splits import Part, Split, as_text, fold_splits, predictions_of
from labelfold.app.compare._store import Store
from labelfold.app.io import one_line
from labelfold.app.registry import fit_grouped

# Methods that are significantly worse than the best, by at least this much, are not run in further repeats.
_FAR_BEHIND = 0.01
# The first answer is given when this many methods have finished a repeat.
_FIRST = 3


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
        self.seed, self.scale = settings["random_state"], settings["scale"]
        self.repeats, self.task = settings["repeats"], settings["task"]
        self.measure = data.measure
        self.tell = tell
        self.given_up: dict[str, str] = {}
        self._too_large: dict[str, int] = {}
        self._behind: set[Run] = set()
        # models with ``refit(y)``, which reuse results that do not depend on y
        self._refittable: dict[Run, Any] = {}
        self._told = False
        self._warm: set[str] = set()

    def go(self, curve: list[Split], progress: bool) -> str | None:
        """Make the runs that are not in the store; return why they ended early, or None."""
        folds = list(fold_splits(self.data, self.repeats, self.seed))
        todo = [run.label for split in folds[:1] + curve for run in self._left(split)]
        try:
            with closing(Bar(todo, progress, self.clock)) as bar:
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
        if self.tell is None or self._told:
            return
        found = {run.method.title: one for run, one in self._predictions(1).items()}
        if len(found) >= min(_FIRST, len(self.runs)):
            first, self._told = choose(found, list(found)), True
            stated = self.measure.stated(first.expected)
            self.tell(f"First answer: {first.chosen}, about {stated} on new rows.")

    def _one(self, run: Run, split: Split) -> None:
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
                f"a run took longer than {self.clock.most():.3g} s of the time limit"
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
        guess, truth = np.concatenate(predicted), self.data.truth[self.data.places(tested)]
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
        groups = self.data.groups if whole or self.data.groups is None else self.data.groups.some(part.train)
        model = fit_grouped(run.make(rows, self.seed, self.scale, self.task), rows, part.y, groups)
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
                run.make(X, self.seed, self.scale, self.task).fit(X, y[some]).predict(X[:2])
            except Exception:  # the run itself reports the error
                return
