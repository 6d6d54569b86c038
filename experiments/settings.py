"""Each method of the registry as in `compare`, beside the best of at most 30 settings in hindsight.

    python experiments/settings.py                       everything, hours
    python experiments/settings.py --methods lda pcals   some methods
    python experiments/settings.py --parts registry      only the registry's settings
    python experiments/settings.py --parts labels        cross-validation on the labels, where the registry is behind
    python experiments/settings.py --quick               a small test, seconds

Eight tables, 50 labels, five draws; accuracy on the hidden rows. The settings of a method, in random order, have 20
seconds of processor time on the first draw of a table; the others are left out. A fit with the registry's setting has
20 seconds. Rows are written to settings.csv, and those of the registry to settings_registry.csv, as soon as they are
known, draw by draw and cheap methods first; a re-run computes only missing ones. If the registry's setting is more
than two points behind settings chosen on other draws, the same settings are cross-validated on the labels (part
"labels", settings_labels.csv), which shows whether the labels could have chosen better. settings.md is written from
the three files. Delete settings_registry.csv when the registry has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from common import at_most, experiment
from data_sets import accuracy, masked
from delivered_baselines import Table, draw, read
from labelfold.app.registry import METHODS, Method, ranked_methods
from labelfold.app.registry._adapters import left_out_splits
from labelfold.app.registry._column_forms import chosen_form
from labelfold.app.registry._method import Facts
from labelfold.labels import read_labels
from result_rows import Results, beside, row_key, words
from settings_grids import GRIDS, MOST, prepared
from settings_report import behind, write_report

SETS = ("wine", "ionosphere", "sonar", "satimage", "optdigits", "ssl_g241c", "ssl_g241d", "medicine_space")


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    sets: tuple[str, ...] = SETS
    methods: tuple[str, ...] = tuple(GRIDS)
    draws: int = 5
    labels: int = 50
    tries: int = MOST
    most_rows: int = 1000
    limit: float = (
        20.0  # seconds of processor time: of the registry's fit, and of all settings on the first draw
    )


QUICK = Plan(sets=("wine", "medicine_space"), methods=("lda", "naive-bayes"), draws=2, tries=3, most_rows=80)


def registered(method: Method, X: Any) -> Any:
    """Return a method as in the registry, with the columns in the form that `compare` would choose."""
    return method.make(X=X, scale=chosen_form(X, "auto", str)[0])


def _registered(method: Method, X: Any) -> tuple[Any, Any]:
    return X, registered(method, X)


def warm(method: Method, table: Table, plan: Plan) -> None:
    """Fit a method on a few rows first, so that compilation is not timed."""
    few = draw(table.y, plan.labels, "warm", table.name)
    rows, y = table.X[few], table.y[few].copy()
    y[::3] = -1
    with suppress(Exception):
        registered(method, rows).fit(rows, y).predict(rows)


def cells(registry: Results | None, settings: Results | None, plan: Plan) -> None:
    """Write the accuracy of every method with the registry's or every other setting, for every table and draw."""
    there = {method.name for method in ranked_methods() if method.available}
    warmed: set[str] = set()
    for seed in range(plan.draws):
        for method in (METHODS[m] for m in plan.methods if m in there):
            for name in plan.sets:
                table = read(name, plan.most_rows)
                if method.why_not(Facts.of(table.X, read_labels(table.y))) is not None:
                    continue
                if method.name not in warmed:
                    warm(method, table, plan)
                    warmed.add(method.name)
                if registry is not None:
                    made = partial(_registered, method, table.X)
                    cell(registry, plan.limit, table, method.name, "registry", seed, made, plan)
                if settings is not None:
                    left = plan.limit
                    for parameters, make in settings_of(method, table.X, plan.tries):
                        left -= cell(settings, left, table, method.name, parameters, seed, make, plan)
                        # the first draw decides which settings there is time for
                        left = left if seed == 0 else plan.limit


def what_labels_tell(settings: Results, plan: Plan) -> None:
    """Write the cross-validated score of each setting on the labels, if the registry's choice is behind.

    Labels are hidden in turn and all rows stay. Only settings that finished in every draw are used.
    """
    registry, labels = beside(settings, "settings_registry"), beside(settings, "settings_labels")
    for name, method in behind(registry, settings):
        if name not in plan.sets or method not in plan.methods:
            continue
        table = read(name, plan.most_rows)
        for seed in range(plan.draws):
            known = draw(table.y, plan.labels, name, seed)
            splits, tested = left_out_splits(table.y[known], 5, seed)
            for parameters, make in settings_of(METHODS[method], table.X, plan.tries):
                key = row_key("Labels", table, method, seed) | {"parameters": parameters}
                late = settings.select(**key | {"part": "Settings", "published": "late"})
                if labels.has(**key) or late:
                    continue
                said = np.full(len(table.y), -1)
                with suppress(Exception):
                    for train, test in splits:
                        said[known[test]] = _said(make, table, known[train])[known[test]]
                labels.add(**key, ours=accuracy(table.y, said, known[tested]))


def settings_of(method: Method, X: Any, tries: int) -> Iterator[tuple[str, Callable[[], tuple[Any, Any]]]]:
    """Yield the description of each setting, and a function that returns its rows and its estimator."""
    grid = GRIDS[method.name]
    for setting in grid.settings(tries):

        def make(setting: dict[str, float] = setting) -> tuple[Any, Any]:
            weights = dict(setting)
            rows = prepared(X, weights.pop("scale"), method.nonnegative)
            return rows, grid.make(rows, **weights)

        yield words(**setting), make


def cell(
    results: Results,
    limit: float,
    table: Table,
    method: str,
    parameters: str,
    seed: int,
    make: Callable[[], tuple[Any, Any]],
    plan: Plan,
) -> float:
    """Write the accuracy of one setting for a draw, empty if it takes too long or fails; return the seconds.

    A setting that took too long in an earlier draw is not tried again on that table.
    """
    key = row_key("Settings", table, method, seed) | {"parameters": parameters}
    if results.has(**key):
        return float(results.select(**key)[0]["seconds"] or 0)
    known = draw(table.y, plan.labels, table.name, seed)
    hidden = np.setdiff1d(np.arange(len(table.y)), known)
    failed, spent, right = "late", 0.0, np.nan
    late = {name: key[name] for name in key if name != "seed"} | {"published": "late"}
    if limit > 0 and not results.select(**late):
        start = process_time()
        try:
            with at_most(limit):
                said = _said(make, table, known)
            failed, right = "", accuracy(table.y, said, hidden)
        except TimeoutError:
            pass
        except Exception as error:
            failed = f"{type(error).__name__}: {error}".splitlines()[0][:80]
        spent = process_time() - start
    # seconds count on the first draw only
    results.add(**key, published=failed, ours=right, seconds=spent if seed == 0 else "")
    return spent


def _said(make: Callable[[], tuple[Any, Any]], table: Table, known: np.ndarray) -> np.ndarray:
    rows, model = make()
    return model.fit(rows, masked(table.y, known)).predict(rows)


PARTS = {
    "registry": lambda results, plan: cells(beside(results, "settings_registry"), None, plan),
    "settings": lambda results, plan: cells(None, results, plan),
    "labels": what_labels_tell,
}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compute missing rows, write the report, and return its path."""

    def write(settings: Results, path: Path) -> None:
        registry, labels = (beside(settings, f"settings_{name}") for name in ("registry", "labels"))
        write_report(registry, settings, labels, path)

    takes = {"sets": SETS, "methods": GRIDS, "draws": int, "tries": int}
    return experiment(__doc__, "settings", Plan(), QUICK, PARTS, write, arguments, **takes)


if __name__ == "__main__":
    main()
