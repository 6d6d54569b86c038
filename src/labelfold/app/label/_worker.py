"""The thread that refits the model, one fit at a time, always on the newest labels; and the map that it moves."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from labelfold import LabelFold
from labelfold.app.io import one_line
from labelfold.app.label._accuracy import DoubtfulLabel, doubtful_labels
from labelfold.app.label._questions import unit_scale
from labelfold.features import Layout, Principal, aligned, layout

# Budget: above this number of rows no model is fitted, since a refit would take too long between two
# clicks; rows are only shown and labelled.
_MAX_ROWS = 300_000
# Budgets: time limits of the map in seconds, for few rows and for many, and the largest number of rows that counts as
# few. benchmarks/labelling.py measures the time from a key to the updated map.
_MAP_SECONDS, _FEW = (0.05, 0.4), 20_000
# Budget of time: all views are weighed again if the number of labels has changed by this factor, or if the classes
# have changed. This takes longer than a refit, so it waits until no label has come for this many seconds.
_AGAIN, _PAUSE = 1.3, 0.7


@dataclass(frozen=True)
class Predictions:
    """The newest model with its predictions of all rows. It is immutable.

    Attributes
    ----------
    fold : LabelFold or None
        The model; None if there are fewer than two classes.
    Z : ndarray of shape (n, k)
        The embedding.
    points : ndarray of float32 of shape (n, 2)
        The map.
    predicted : ndarray of int16 of shape (n,)
        Indices of classes of the session, -1 without a prediction.
    confidence : ndarray of float of shape (n,)
    shares : ndarray of float32 of shape (n, c), or None
        The probability of each class of the model.
    doubts : list of DoubtfulLabel
        Labels that may be wrong.
    labels : int
        Number of labels of the fit.
    """

    fold: Any
    Z: np.ndarray
    points: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    shares: np.ndarray | None
    doubts: list[DoubtfulLabel]
    labels: int


class Worker(threading.Thread):
    """A thread that fits the newest labels, and again whenever labels change.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
    labels : callable
        Returns the current labels, an array of text and None, and the classes in the order of the session.
    publish : callable
        Called with each new `Predictions`.
    tell : callable
        Called with a sentence if a fit fails.
    seed : int
    """

    labels: Callable[[], tuple[Any, list[str]]]
    publish: Callable[[Predictions], None]
    tell: Callable[[str], None]
    seed: int
    busy: bool

    def __init__(
        self,
        X: Any,
        labels: Callable[[], tuple[np.ndarray, list[str]]],
        publish: Callable[[Predictions], None],
        tell: Callable[[str], None],
        seed: int = 0,
    ) -> None:
        super().__init__(name="labelfold-refit", daemon=True)
        self.X, self.labels, self.publish, self.tell, self.seed = X, labels, publish, tell, seed
        self.busy = True
        self._wanted, self._done, self._ended = 1, 0, False
        self._changed = threading.Condition()
        self._fold: Any = None
        self._full_at, self._due = 0.0, False
        self._full_classes: set[str] = set()
        self._Z = np.zeros((X.shape[0], 2))
        self._shown: tuple[np.ndarray, np.ndarray] | None = None
        self._map = AlignedMap(X.shape[0], seed=seed)

    def want(self) -> None:
        """Request a fit of the current labels."""
        with self._changed:
            self._wanted += 1
            self.busy = True
            self._changed.notify_all()

    def end(self) -> None:
        """End after the current fit."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def idle(self, seconds: float) -> bool:
        """Wait until the newest labels are fitted; return whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: self._done == self._wanted or self._ended, seconds)

    def run(self) -> None:
        """Compute the views, then fit the newest labels in a loop."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about few labels are expected here
            try:
                self._begin()
            except Exception as error:  # the page also works without a model
                self._fold = None
                self.tell(f"No model can be fitted to these rows: {one_line(error)}.")
            while self._turn():
                pass

    def _turn(self) -> bool:
        """Fit the newest labels, or weigh all views again in a pause; return whether to go on."""
        with self._changed:
            pause = _PAUSE if self._due else None
            self._changed.wait_for(lambda: self._done != self._wanted or self._ended, pause)
            if self._ended:
                return False
            wanted = self._wanted
            full = wanted == self._done
        try:
            self._fit(full)
        except Exception as error:
            self._due = False
            self.tell(f"The last labels could not be fitted: {one_line(error)}.")
        with self._changed:
            self._done = wanted
            self.busy = self._done != self._wanted
            self._changed.notify_all()
        self.tell("")  # reports that the worker is no longer busy
        return True

    def _begin(self, n_components: int = 20) -> None:
        n = self.X.shape[0]
        Z = np.asarray(Principal(n_components, random_state=self.seed).fit_transform(self.X))
        if Z.shape[1] == 0:
            Z = np.zeros((n, 2))
        self._Z = Z
        if n > _FEW:  # t-SNE takes seconds; two principal components come first
            plane = np.zeros((n, 2), dtype=np.float32)
            plane[:, : min(2, Z.shape[1])] = Z[:, :2] / max(float(np.abs(Z).max()), 1e-300)
            self._shown = Z, plane
            self._show(Z, seconds=0.0)
            self._shown = None
        self._show(Z, seconds=2.0)
        if n > _MAX_ROWS:
            self.tell(
                f"There are {n:,} rows; up to {_MAX_ROWS:,} a model is fitted while you label. Here rows are drawn "
                "at random or spread out, and labelfold fit learns from the labels."
            )
            return
        self._fold = start(self.X, seed=self.seed)
        self._Z = self._fold.embedding_

    def _fit(self, full: bool) -> None:
        labels, classes = self.labels()
        known = {label for label in labels if label is not None}
        if self._fold is None or len(known) < 2:
            self._due = False
            self._show(self._Z, seconds=_MAP_SECONDS[0])
            return
        count = int(np.sum(labels != None))  # noqa: E711 - entry by entry
        fold = copy(self._fold).set_params(unlabeled=None).refit(labels, full=full)
        if full:
            self._full_at, self._full_classes = count, known
        self._due = known != self._full_classes or not self._full_at / _AGAIN < count < self._full_at * _AGAIN
        self._fold, self._shown = fold, None
        if full and self._wanted != self._done:
            return  # a new label has come, and its fit should not wait for this map
        place = {name: i for i, name in enumerate(classes)}
        codes = np.array([place[str(name)] for name in fold.classes_], dtype=np.int16)
        shares, Z = fold.label_distributions_, fold.embedding_
        best = shares.argmax(axis=1)
        sure = shares[np.arange(len(best)), best]
        points = self._map.update(Z, seconds=_MAP_SECONDS[len(Z) > _FEW])
        doubts = doubtful_labels(fold, labels)
        self.publish(
            Predictions(fold, Z, points, codes[best], sure, shares.astype(np.float32), doubts, count)
        )

    def _show(self, Z: np.ndarray, seconds: float) -> None:
        """Publish rows without predictions; an existing map stays."""
        n = len(Z)
        if self._shown is None or self._shown[0] is not Z:
            self._shown = Z, self._map.update(Z, seconds=seconds)
        none = np.full(n, -1, dtype=np.int16)
        self.publish(Predictions(None, Z, self._shown[1], none, np.zeros(n), None, [], 0))


def start(X: Any, *, seed: int = 0, n_clusters: int = 8, max_rows: int = 5000) -> LabelFold:
    """Return a LabelFold with computed views. Its classes are clusters of some rows until the first `refit`.

    Its ``embedding_`` is an unsupervised one. The first `refit` with labels should be ``full=True``.
    """
    n = X.shape[0]
    some = np.sort(np.random.default_rng(seed).permutation(n)[:max_rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer different rows than clusters
        away = KMeans(min(n_clusters, n), n_init=1, random_state=seed).fit_transform(X[some])
    y, own = np.full(n, -1), away.argmin(axis=1)
    for j in np.unique(own):
        here = np.flatnonzero(own == j)
        y[some[here[away[here, j].argsort(kind="stable")[:3]]]] = j  # three rows a cluster
    if len(np.unique(own)) < 2:
        raise ValueError("all rows are the same; give rows that differ")
    return LabelFold(random_state=seed).fit(X, y)


class AlignedMap:
    """The map of one session, aligned from one update to the next.

    It lays out the current embedding together with the first one, which does not depend on labels. So a new class, or
    an embedding with one component, changes the map only gradually.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    seed : int, default=0
        Seed of the landmarks.
    share : float, default=0.7
        Weight of the current embedding; the rest is the first one.
    farthest : float, default=0.2
        Largest root mean square movement in one update, relative to the size of the map.
    beyond : float, default=0.005
        The quantiles of this level and of 1 minus it are scaled to -1 and 1.
    """

    def __init__(
        self, n_rows: int, *, seed: int = 0, share: float = 0.7, farthest: float = 0.2, beyond: float = 0.005
    ) -> None:
        self.n_rows, self._seed = n_rows, seed
        self._share, self._farthest, self._beyond = share, farthest, beyond
        self._first: np.ndarray | None = None
        self._last: Layout | None = None
        self._points: np.ndarray | None = None

    def update(self, Z: np.ndarray, *, seconds: float) -> np.ndarray:
        """Return the coordinates of the rows, within about [-1, 1].

        Parameters
        ----------
        Z : ndarray of shape (n, k)
            The embedding; k may change from one update to the next. The first one given should be unsupervised.
        seconds : float
            Approximate time limit of t-SNE. A further update with the same Z continues it.

        Returns
        -------
        points : ndarray of shape (n, 2), float32
        """
        Z = unit_scale(np.asarray(Z, dtype=np.float64).reshape(self.n_rows, -1))
        if self._first is None:
            self._first = Z
        both = [np.sqrt(1 - self._share) * self._first, np.sqrt(self._share) * Z]
        found = self._lay_out(np.hstack(both), seconds)
        low, high = np.quantile(found, [self._beyond, 1 - self._beyond], axis=0)
        points = (found - (low + high) / 2) / (np.max(high - low) / 2 or 1.0)
        if self._points is not None:
            points = aligned(points, self._points)
            moved = np.sqrt(np.mean(np.sum((points - self._points) ** 2, axis=1)))
            part = min(1.0, self._farthest / max(moved, 1e-300))
            points = self._points + part * (points - self._points)
        self._points = points
        return points.astype(np.float32)

    def _lay_out(self, R: np.ndarray, seconds: float) -> np.ndarray:
        if self.n_rows < 4 or not R.any() or find_spec("openTSNE") is None:
            return _plane(R)
        self._last = layout(
            R,
            previous=self._last,
            perplexity=20,
            n_landmarks=500,  # other rows are placed among them
            random_state=self._seed,
            seconds=seconds,
        )
        return self._last.points


def _plane(R: np.ndarray) -> np.ndarray:
    """Return two principal components; 0 if there are fewer."""
    _, V = np.linalg.eigh(R.T @ R)
    points = np.zeros((len(R), 2))
    points[:, : min(2, R.shape[1])] = R @ V[:, ::-1][:, :2]
    return points
