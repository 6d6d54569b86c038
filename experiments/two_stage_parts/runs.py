"""The runs. Each writes its rows as soon as they are known, and only missing ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from common import Data, Results, rng_of, seconds, words
from two_stage_parts.sets import (
    CLASS_SETS,
    MULTILABEL,
    PUBLISHED,
    QUICK,
    RIDGES,
    SYNTHETIC,
    TABLE_ORDER,
    TECHNIQUES,
    Plan,
    read,
)
from two_stage_parts.solutions import Spectrum, distance, lanczos, targets


def table_2(results: Results, plan: Plan) -> None:
    """Write the distance between both solutions, for each set, technique and ridge."""
    for name in TABLE_ORDER:
        techniques = ("LDA",) if name in CLASS_SETS or name in ("Syn1", "Syn2") else MULTILABEL
        data = read(name, plan)
        missing = [
            case
            for case in itertools.product(techniques, plan.ridges, ("svd", "solver"))
            if not results.has(**_row("Table 2", data, case[0], ridge=case[1], against=case[2]))
            and (case[2] == "svd" or data.X.shape[1] < 5000 or case[1] in plan.wide_ridges)
        ]
        spectrum = Spectrum(data.X) if any(against == "svd" for *_, against in missing) else None
        for technique, ridge, against in missing:
            method = TECHNIQUES[technique]
            time, model = seconds(partial(method(ridge=ridge).fit, data.X, data.y))
            if against == "svd":
                W0 = spectrum.directions(targets(technique, data.y), ridge)
            else:
                W0 = method(ridge=ridge, solver="direct").fit(data.X, data.y).components_.T
            ours, size = distance(model.components_.T, W0)
            whole = plan is not QUICK and (data.source == "real" or name in SYNTHETIC)
            values = PUBLISHED.get((name, technique), ()) if whole else ()
            results.add(
                **_row("Table 2", data, technique, ridge=ridge, against=against),
                published=values[RIDGES.index(ridge)] if values else "",
                ours=ours,
                relative=ours / size,
                seconds=time,
            )
            _say(name, technique, words(ridge=ridge, against=against), f"relative {ours / size:.1e}")


def _row(part: str, data: Data, method: str, seed: int = 0, **parameters: Any) -> dict[str, Any]:
    return {
        "part": part,
        "dataset": data.name,
        "source": data.source,
        "method": method,
        "parameters": words(**parameters),
        "seed": seed,
    }


def _say(*what: Any) -> None:
    print(*what, flush=True)


def figures_1_2(results: Results, plan: Plan) -> None:
    """Write the score of a linear SVM in the reduced space, for both solvers."""
    for name, n_splits in plan.splits:
        data = read(name, plan)
        part, techniques = ("Figure 1", MULTILABEL) if name == "Yeast" else ("Figure 2", ("LDA",))
        for seed, technique, ridge in itertools.product(range(n_splits), techniques, plan.ridges):
            row = partial(_row, part, data, technique, seed, ridge=ridge)
            if results.has(**row(solver="two-stage")):
                continue
            half = _halves(data, seed)
            (direct, time), (ours, our_time) = (
                _classified(TECHNIQUES[technique](ridge=ridge, solver=solver), *half)
                for solver in ("direct", "two-stage")
            )
            results.add(**row(solver="direct"), ours=direct, seconds=time)
            results.add(**row(solver="two-stage"), ours=ours, relative=abs(ours - direct), seconds=our_time)
        _say(name, "done")


def _halves(data: Data, seed: int) -> tuple[np.ndarray, ...]:
    order = np.random.default_rng(seed).permutation(len(data.y))
    train, test = np.array_split(order, 2)
    return data.X[train], data.y[train], data.X[test], data.y[test]


def _classified(
    model: Any, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> tuple[float, float]:
    """Return the accuracy, or the mean AUC over labels, of a linear SVM on the embedding; and the time of the fit."""
    time, _ = seconds(partial(model.fit, X, y))
    Z, Z_test = model.transform(X), model.transform(X_test)
    # W'(X'X + g I)W = I gives tiny embeddings, for which C = 1 would be a very weak fit; one factor for all columns.
    unit = np.sqrt(Z.size / (Z**2).sum())
    Z, Z_test = unit * Z, unit * Z_test
    svm = LinearSVC(dual=False, tol=1e-8, max_iter=10_000)
    if y.ndim == 1:
        return float(np.mean(svm.fit(Z, y).predict(Z_test) == y_test)), time
    both = [j for j in range(y.shape[1]) if 0 < y[:, j].mean() < 1 and 0 < y_test[:, j].mean() < 1]
    aucs = [roc_auc_score(y_test[:, j], svm.fit(Z, y[:, j]).decision_function(Z_test)) for j in both]
    return float(np.mean(aucs)), time


def scaling(results: Results, plan: Plan, ridge: float = 1.0) -> None:
    """Write the time of both approaches as n or d grows (Figures 3 to 5)."""
    fixed, sizes, beyond = dict(plan.fixed), dict(plan.sizes), dict(plan.beyond)
    for name, figures in (("news20", ("3 left", "3 right")), ("rcv1v2", ("4", "5"))):
        techniques = ("LDA",) if name == "news20" else ("CCA", "OPLS", "HSL-Star")
        data = read(name, plan)
        frequency = np.bincount(data.X.indices, minlength=data.X.shape[1])
        columns = np.argsort(-frequency, kind="stable")
        rows = rng_of(name).permutation(data.X.shape[0])
        for figure in figures:
            for size, technique in _sizes(sizes[figure], beyond[figure], techniques):
                n, d = (size, fixed[figure]) if figure in ("3 left", "4") else (fixed[figure], size)
                row = partial(_row, f"Figure {figure}", data, technique, n=n, d=d, ridge=ridge)
                if results.has(**row(solver="two-stage")):
                    continue
                index = np.sort(rows[:n])
                X, y = data.X[index][:, np.sort(columns[:d])], data.y[index]
                for solver, (time, ours, ratio) in _race(technique, X, y, ridge, plan.rounds).items():
                    results.add(**row(solver=solver), ours=ours, relative=ratio, seconds=time)
                _say(f"Figure {figure}", technique, f"{n} x {d}")


def _sizes(
    sizes: Sequence[int], beyond: Sequence[int], techniques: Sequence[str]
) -> Iterator[tuple[int, str]]:
    yield from itertools.product(sizes, techniques)
    yield from itertools.product(beyond, techniques[:1])


def _race(
    technique: str, X: sparse.csr_array, y: np.ndarray, ridge: float, rounds: int
) -> dict[str, tuple[float, float, float]]:
    """Return for each solver its best time, a check of its result, and its time relative to the two-stage approach.

    The check is the number of iterations for "iterations", otherwise the number of directions. The two-stage approach
    is timed with the defaults of the estimator, which factorise the smaller Gram matrix at these sizes, and with
    iterations only, as in the paper.
    """
    method = TECHNIQUES[technique]
    solvers = {
        "direct": lambda: lanczos(X, targets(technique, y), ridge).shape[1],
        "iterations": lambda: method(ridge=ridge, max_gram_bytes=0).fit(X, y).n_iter_,
        "two-stage": lambda: len(method(ridge=ridge).fit(X, y).eigenvalues_),
    }
    if X.shape[1] > 5000:
        del solvers["direct"]
    times: dict[str, list[float]] = {solver: [] for solver in solvers}
    checks = {}
    for _, solver in itertools.product(range(rounds), solvers):
        time, checks[solver] = seconds(solvers[solver])
        times[solver].append(time)
    best = {solver: min(values) for solver, values in times.items()}
    return {solver: (best[solver], checks[solver], best[solver] / best["two-stage"]) for solver in solvers}
