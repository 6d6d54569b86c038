"""The runs. Each writes its rows as soon as they are known, and only missing ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from common import seconds
from data_sets import rng_of
from result_rows import Results, published, row_key, words
from two_stage_parts.classifiers import embed, halves, measured
from two_stage_parts.sets import CLASS_SETS, MULTILABEL, QUICK, SYNTHETIC, TABLE_ORDER, TECHNIQUES, Plan, read
from two_stage_parts.solutions import Spectrum, distance, lanczos, lsqr, targets


def table_2(results: Results, plan: Plan) -> None:
    """Write the distance between both solutions, for each set, technique and ridge."""
    for name in TABLE_ORDER:
        techniques = ("LDA",) if name in CLASS_SETS or name in ("Syn1", "Syn2") else MULTILABEL
        data = read(name, plan)
        missing = [
            case
            for case in itertools.product(techniques, plan.ridges, ("svd", "solver"))
            if not results.has(**row_key("Table 2", data, case[0], 0, ridge=case[1], against=case[2]))
            and (case[2] == "svd" or data.X.shape[1] < 5000 or case[1] in plan.wide_ridges)
        ]
        spectrum = Spectrum(data.X) if any(against == "svd" for *_, against in missing) else None
        for technique, ridge, against in missing:
            method = TECHNIQUES[technique]
            model = method(ridge=ridge).fit(data.X, data.y)
            if against == "svd":
                W0 = spectrum.directions(targets(technique, data.y), ridge)
            else:
                W0 = method(ridge=ridge, solver="direct").fit(data.X, data.y).components_.T
            ours, size = distance(model.components_.T, W0)
            whole = plan != QUICK and (data.source == "real" or name in SYNTHETIC)
            value = published("two-stage", "Table 2").get((name, technique, words(ridge=ridge)))
            results.add(
                **row_key("Table 2", data, technique, 0, ridge=ridge, against=against),
                published=value.value if whole and value else "",
                ours=ours,
                relative=ours / size,
            )


def figures_1_2(results: Results, plan: Plan) -> None:
    """Write the score of a linear SVM in the reduced space, for both solvers."""
    for name, n_splits in plan.splits:
        data = read(name, plan)
        part, techniques = ("Figure 1", MULTILABEL) if name == "Yeast" else ("Figure 2", ("LDA",))
        for seed, technique, ridge in itertools.product(range(n_splits), techniques, plan.ridges):
            row = partial(row_key, part, data, technique, seed, ridge=ridge)
            if results.has(**row(solver="two-stage")):
                continue
            half = halves(data, seed)
            direct, ours = (
                _classified(TECHNIQUES[technique](ridge=ridge, solver=solver), *half)
                for solver in ("direct", "two-stage")
            )
            results.add(**row(solver="direct"), ours=direct)
            results.add(**row(solver="two-stage"), ours=ours, relative=abs(ours - direct))


def _classified(model: Any, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> float:
    """Return the accuracy, or the mean AUC over labels, of a linear SVM on the embedding."""
    Z, Z_test = embed(model, X, y, X_test)
    return measured(Z, y, Z_test, y_test)[int(y.ndim == 1)]


def scaling(results: Results, plan: Plan, ridge: float = 1.0) -> None:
    """Write the time of both approaches as n or d grows (Figures 3 to 5)."""
    fixed, sizes, beyond = dict(plan.fixed), dict(plan.sizes), dict(plan.beyond)
    for name, figures in (("news20", ("3 left", "3 right")), ("rcv1v2", ("4", "5"))):
        techniques = ("LDA",) if name == "news20" else ("CCA", "OPLS", "HSL-Clique", "HSL-Star")
        data = read(name, plan)
        frequency = np.bincount(data.X.indices, minlength=data.X.shape[1])
        columns = np.argsort(-frequency, kind="stable")
        rows = rng_of(name).permutation(data.X.shape[0])
        for figure in figures:
            for size, technique in _sizes(sizes[figure], beyond[figure], techniques):
                n, d = (size, fixed[figure]) if figure in ("3 left", "4") else (fixed[figure], size)
                row = partial(row_key, f"Figure {figure}", data, technique, n=n, d=d, ridge=ridge)
                rounds = plan.rounds if size in sizes[figure] else 1
                if results.has(**row(solver="two-stage", seed=rounds - 1)):
                    continue
                index = np.sort(rows[:n])
                X, y = data.X[index][:, np.sort(columns[:d])], data.y[index]
                for seed in range(rounds):
                    lsqr_too = technique == techniques[0] and d <= 5000
                    for solver, (spent, ours) in _race(technique, X, y, ridge, lsqr_too).items():
                        results.add(**row(solver=solver, seed=seed), ours=ours, seconds=spent)


def _sizes(
    sizes: Sequence[int], beyond: Sequence[int], techniques: Sequence[str]
) -> Iterator[tuple[int, str]]:
    yield from itertools.product(sizes, techniques)
    yield from itertools.product(beyond, techniques[:1])


def _race(
    technique: str, X: sparse.csr_array, y: np.ndarray, ridge: float, lsqr_too: bool
) -> dict[str, tuple[float, int]]:
    """Return for each solver its time and a check on its work.

    The check is the number of iterations of "lsqr" and "iterations", otherwise the number of directions. The paper
    measures "direct" and "lsqr"; the latter is slow and depends on the technique by the number of targets alone, so
    that it is run for the first technique of a set. The two-stage approach is timed as the estimator runs it by
    default, which factorises the smaller Gram matrix at these sizes, and held to its iterations.
    """
    method = TECHNIQUES[technique]
    solvers = {
        "direct": lambda: lanczos(X, targets(technique, y), ridge).shape[1],
        "lsqr": lambda: lsqr(X, targets(technique, y), ridge)[1],
        "iterations": lambda: method(ridge=ridge, max_gram_bytes=0).fit(X, y).n_iter_,
        "two-stage": lambda: len(method(ridge=ridge).fit(X, y).eigenvalues_),
    }
    left_out = {"direct": X.shape[1] > 5000, "lsqr": not lsqr_too}
    return {solver: seconds(run) for solver, run in solvers.items() if not left_out.get(solver)}
