"""A linear SVM on the embedding of every real set, by either solver: mean AUC and accuracy."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from data_sets import Data
from result_rows import Results, row_key, words
from two_stage_parts.sets import CLASS_SETS, LABEL_SETS, MULTILABEL, TECHNIQUES, Plan, read

PART = "Classifier"
ALL = "all columns"  # the SVM without a reduction
SOLVERS = ("direct", "two-stage")


def classifiers(results: Results, plan: Plan) -> None:
    """Write mean AUC and accuracy on the test half, for each real set, technique, split and solver.

    The ridge is chosen on a third of the training half.
    """
    for name in (*CLASS_SETS, *LABEL_SETS):
        data = read(name, plan)
        methods = ("LDA",) if data.y.ndim == 1 else MULTILABEL
        for seed, method in itertools.product(range(plan.classifier_splits), (*methods, ALL)):
            row = partial(row_key, PART, data, method, seed)
            if results.select(part=PART, dataset=name, method=method, seed=seed):
                continue
            X, y, X_test, y_test = half = halves(data, seed)
            if method == ALL:
                found = {words(solver="none"): measured(*half, tol=1e-4)}
            else:
                ridge = choose_ridge(method, X, y, plan.ridges, seed)
                found = {}
                for solver in SOLVERS:
                    Z, Z_test = embed(TECHNIQUES[method](ridge=ridge, solver=solver), X, y, X_test)
                    found[words(solver=solver, ridge=ridge)] = measured(Z, y, Z_test, y_test)
            for about, scores in found.items():  # the rows of a split are written together
                for measure, value in zip(("AUC", "accuracy"), scores, strict=True):
                    results.add(**row() | {"parameters": f"{words(measure=measure)} {about}"}, ours=value)


def halves(data: Data, seed: int) -> tuple[Any, ...]:
    """Return rows and labels of a random half for training, and of the other for testing."""
    order = np.random.default_rng(seed).permutation(len(data.y))
    train, test = np.array_split(order, 2)
    return data.X[train], data.y[train], data.X[test], data.y[test]


def choose_ridge(method: str, X: Any, y: np.ndarray, ridges: tuple[float, ...], seed: int) -> float:
    """Return the ridge that is best on a third of the training rows: by accuracy, of several labels by AUC."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, held = order[len(y) // 3 :], order[: len(y) // 3]

    def score(ridge: float) -> float:
        Z, Z_held = embed(TECHNIQUES[method](ridge=ridge), X[train], y[train], X[held])
        return measured(Z, y[train], Z_held, y[held])[int(y.ndim == 1)]

    return max(ridges, key=score)


def embed(model: Any, X: Any, y: np.ndarray, X_test: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test rows in the components, multiplied by one number for a mean square of 1.

    W'(X'X + g I)W = I makes tiny embeddings, where C = 1 would mean next to no fit.
    """
    Z = model.fit(X, y).transform(X)
    unit = np.sqrt(Z.size / (Z**2).sum())
    return unit * Z, unit * model.transform(X_test)


def measured(
    Z: Any, y: np.ndarray, Z_test: Any, y_test: np.ndarray, tol: float = 1e-8
) -> tuple[float, float]:
    """Return the mean AUC of a linear SVM over classes or labels, and its share of rows or labels right."""
    svm = LinearSVC(dual=False, tol=tol, max_iter=10_000)
    if y.ndim == 1:
        scores = svm.fit(Z, y).decision_function(Z_test)
        truth = y_test[:, None] == svm.classes_
        right = float(np.mean(svm.predict(Z_test) == y_test))
        if scores.ndim == 1:
            return float(roc_auc_score(truth[:, 1], scores)), right
    else:
        both = [j for j in range(y.shape[1]) if 0 < y[:, j].mean() < 1]
        scores = np.column_stack([svm.fit(Z, y[:, j]).decision_function(Z_test) for j in both])
        truth = y_test[:, both] > 0
        right = float(np.mean((scores > 0) == truth))
    known = [j for j in range(truth.shape[1]) if 0 < truth[:, j].mean() < 1]
    return float(np.mean([roc_auc_score(truth[:, j], scores[:, j]) for j in known])), right
