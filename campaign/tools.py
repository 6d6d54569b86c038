"""Cases for tools that are not estimators of rows: tables, splitters, kernel maps, anchors and layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from drawn import class_codes, class_targets, matrices, number_targets, odd_targets, plain, several_labels
from hypothesis import strategies as st
from scipy import sparse

import labelfold
from labelfold import model_selection
from labelfold.features import kernel_map
from labelfold.features._anchors import (
    Anchors,
    anchor_graph,
    joined as joined_anchors,
    nearest_anchors,
    parted,
)
from labelfold.features._kernel_map import KernelMap
from labelfold.labels import score_targets
from labelfold.rows import as_rows


@dataclass
class ToolCase:
    """One tool with its input: ``run`` returns a result, or raises the error of the tool."""

    name: str
    words: str
    run: Callable[[], None] = field(repr=False)

    def __repr__(self) -> str:
        return f"{self.name}: {self.words}"


@st.composite
def tool_cases(draw: st.DrawFn, name: str) -> ToolCase:
    """Draw a case of a tool."""
    return draw(TOOLS[name]())


@st.composite
def _any_target(draw: st.DrawFn) -> Any:
    codes = draw(class_codes())
    kinds = [class_targets(codes)] * 4 + [
        several_labels(len(codes)),
        number_targets(len(codes)),
        odd_targets(codes),
    ]
    return draw(draw(st.sampled_from(kinds)))


@st.composite
def _folds(draw: st.DrawFn) -> ToolCase:
    target, k = draw(_any_target()), draw(st.sampled_from([2, 3, 5]))
    repeated = draw(st.booleans())

    def run() -> None:
        options = {"unlabeled": -1} | target.parameters
        if repeated:
            make = model_selection.RepeatedSemiSupervisedKFold
            splitter = make(k, n_repeats=2, random_state=0, **options)
        else:
            splitter = model_selection.SemiSupervisedKFold(k, shuffle=True, random_state=0, **options)
        before = plain(target.y)
        first, again = ([(list(a), list(b)) for a, b in splitter.split(None, target.y)] for _ in "12")
        assert first == again, "drawn twice, the folds differ"
        assert plain(target.y) == before, "y was changed"
        assert len(first) == k * (2 if repeated else 1), "another number of folds"
        known = score_targets(target.y, **options)[0]
        for train, test in first:
            assert sorted(train + test) == list(range(len(known))), "train and test are not all rows"
            assert known[test].all(), "a row without a label was held out"
        held = [i for _, test in first[:k] for i in test]
        assert len(set(held)) == len(held), "a row was held out twice"

    return ToolCase("SemiSupervisedKFold", f"{k} folds, y: {target.words}", run)


@st.composite
def _budgets(draw: st.DrawFn) -> ToolCase:
    target, share = draw(_any_target()), draw(st.sampled_from([0.1, 0.3, 0.5]))
    budgets = draw(st.sampled_from([None, None, [4], [2, 8], [10**6]]))

    def run() -> None:
        options = {"unlabeled": -1} | target.parameters
        splitter = model_selection.LabelBudgetSplit(budgets, n_repeats=2, test_size=share, **options)
        known = score_targets(target.y, **options)[0]
        problems = list(splitter.problems(None, target.y))
        assert len(problems) == splitter.get_n_splits(None, target.y)
        for problem in problems:
            assert known[problem.test].all(), "a row without a label is tested on"
            assert not set(problem.test) & set(problem.train), "a row is trained and tested on"
            left = score_targets(problem.y, **options)[0]
            assert left.sum() == problem.budget, (
                f"{left.sum()} labels are left of a budget of {problem.budget}"
            )

    return ToolCase("LabelBudgetSplit", f"{budgets}, test {share}, y: {target.words}", run)


@st.composite
def _recipe(draw: st.DrawFn) -> ToolCase:
    from tables.test_fuzz import generated

    seed, told = draw(st.integers(0, 2**31)), draw(st.booleans())

    def run() -> None:
        table, y = generated(seed)
        y = y if told else None
        before = repr(table.to_dict())
        recipe = labelfold.Recipe().fit(table, y)
        X = _dense(recipe.transform(table))
        assert X.shape == (len(table), len(recipe.get_feature_names_out()))
        assert np.isfinite(X).all(), "a cell that is not finite"
        assert repr(table.to_dict()) == before, "the table was changed"
        again = labelfold.Recipe().fit(table, y)
        assert np.array_equal(X, _dense(again.transform(table))), "fitted twice, the rows differ"
        rows = [0, len(table) // 2, len(table) - 1]
        alone = np.vstack([_dense(recipe.transform(table.iloc[[i]])) for i in rows])
        assert np.allclose(alone, X[rows], rtol=1e-5, atol=1e-7), "row by row it differs"
        order = np.random.default_rng(0).permutation(len(table))
        moved = _dense(recipe.transform(table.iloc[order]))
        assert np.allclose(moved, X[order], rtol=1e-5, atol=1e-7), "rows in another order differ"
        others, _ = generated(seed + 1)
        new = pd.DataFrame({name: others.iloc[:, j % others.shape[1]] for j, name in enumerate(table)})
        assert np.isfinite(_dense(recipe.transform(new))).all(), "a cell of another table is not finite"

    return ToolCase("Recipe", f"table {seed}, {'y' if told else 'no y'}", run)


@st.composite
def _kernel_map(draw: st.DrawFn) -> ToolCase:
    drawn = draw(matrices(draw(class_codes()), False))
    kernel = draw(st.sampled_from(["rbf", "laplacian", "linear", "poly", "sigmoid", "cosine"]))
    landmarks = draw(st.sampled_from([None, "auto", 3, 100]))
    gamma = (
        draw(st.sampled_from(["auto", "scale", 0.1, 1e-300, 1e300]))
        if kernel in ("rbf", "laplacian")
        else "auto"
    )

    def run() -> None:
        made, _ = kernel_map(
            as_rows(drawn.X), kernel, gamma=gamma, degree=None, coef0=None, n_landmarks=landmarks,
            max_gram_bytes=1e9, random_state=0,
        )  # fmt: skip
        X = drawn.X.astype(float)
        if isinstance(made, KernelMap):
            made.of_points()  # as a fit begins: products that overflow are refused here
        K = made.transform(X)
        assert np.isfinite(K).all(), "a feature that is not finite"
        # Nystroem features divide round-off by square roots of small eigenvalues; estimators are checked instead.
        # With a gamma of 1e300 the distance of a row from itself is nothing but round-off.
        if landmarks != 3 and landmarks != 100 and gamma in ("auto", "scale", 0.1):
            assert np.allclose(made.transform(X[:1]), K[:1], rtol=1e-6, atol=1e-9 * np.abs(K).max()), (
                "row by row"
            )

    return ToolCase("kernel_map", f"{kernel}, gamma {gamma}, {landmarks}, X: {', '.join(drawn.words)}", run)


@st.composite
def _anchors(draw: st.DrawFn) -> ToolCase:
    drawn = draw(matrices(draw(class_codes()), False))
    m, k = draw(st.integers(1, 8)), draw(st.integers(1, 5))

    def run() -> None:
        rows = as_rows(drawn.X)
        points = np.asarray(drawn.X[:m], dtype=float)
        distance, which = parted(rows.get(nearest_anchors(rows, Anchors(points), min(k, len(points)))))
        assert np.isfinite(distance).all(), "a distance that is not finite"
        Z = joined_anchors(distance, which, min(k, len(points)), len(points))
        assert np.allclose(Z.sum(axis=1), 1), "weights of a row do not add up to 1"
        mass = np.asarray(Z.sum(axis=0)).ravel()
        found = anchor_graph((Z.T @ Z).toarray(), mass, Z.shape[0], 3)
        assert all(np.isfinite(part).all() for part in found), "a graph that is not finite"

    return ToolCase("anchors", f"{m} anchors, {k} neighbours, X: {', '.join(drawn.words)}", run)


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


TOOLS = {
    "Recipe": _recipe,
    "SemiSupervisedKFold": _folds,
    "LabelBudgetSplit": _budgets,
    "kernel_map": _kernel_map,
    "anchors": _anchors,
}
