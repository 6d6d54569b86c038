"""Linear SVMs beside scikit-learn's LinearSVC(dual=True), at equal objective, with one thread each.

    python benchmarks/svm.py                 every case
    python benchmarks/svm.py --cases small --repeat 30

For each accuracy both solvers run with the loosest tolerance at which the objective is that close to its minimum.
Times are processor seconds, so that other processes matter less, best of several in turn. "ratio" is our time over
theirs.

Cases: "small" 200 x 10 dense, as inside DRSVM; "text" 20,000 x 47,236 sparse, generated with the shape of rcv1 (unit
rows, about 73 non-zeros each, columns of Zipf-like frequency); "rcv1" the real rcv1v2_subset1.npz of the folder
LABELFOLD_DATA, if that is set.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before NumPy reads them

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from labelfold.numerics._linear_svm import linear_svm, svm_objective

MOST_ROUNDS = 20_000
TOLERANCES = np.logspace(0, -9, 19)


def small() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 10))
    return X, np.where(X @ rng.standard_normal(10) + rng.standard_normal(200) > 0, 1.0, -1.0)


def text(n: int = 20_000, d: int = 47_236, length: int = 73) -> tuple[Any, np.ndarray]:
    """Return documents of two topics with mostly common words."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    frequency = 1 / (np.arange(d) + 20.0)
    lean = np.exp(0.7 * rng.standard_normal(d))
    words = np.empty((n, 2 * length), dtype=np.int64)
    for sign in (-1.0, 1.0):
        p = frequency * lean**sign
        words[y == sign] = rng.choice(d, size=((y == sign).sum(), 2 * length), p=p / p.sum())
    lengths = np.clip(rng.lognormal(np.log(73), 0.5, n).astype(int), 10, 2 * length)
    rows = np.repeat(np.arange(n), lengths)
    columns = words[np.arange(2 * length) < lengths[:, None]]
    where = rows.astype(np.int32), columns.astype(np.int32)  # LinearSVC needs 32-bit indices
    X = sparse.csr_array((np.ones(len(rows)), where), shape=(n, d))
    X.data = (1 + np.log(X.data)) * np.log(1 / frequency)[X.indices]
    return _unit(X), y


def rcv1() -> tuple[Any, np.ndarray]:
    with np.load(Path(os.environ["LABELFOLD_DATA"]) / "rcv1v2_subset1.npz") as file:
        parts = file["X_data"].astype(np.float64), file["X_indices"], file["X_indptr"]
        X = sparse.csr_array(parts, shape=tuple(file["X_shape"]))
        common = file["Y"].sum(axis=0).argmax()
        return _unit(X), np.where(file["Y"][:, common] > 0, 1.0, -1.0)


def _unit(X: sparse.csr_array) -> sparse.csr_array:
    X.data /= np.repeat(np.sqrt(X.multiply(X).sum(axis=1)), np.diff(X.indptr))
    return X


def compare(name: str, X: Any, y: np.ndarray, loss: str, C: float, repeat: int) -> None:
    def ours(tol: float) -> np.ndarray:
        return linear_svm(X, y, C, loss=loss, tol=tol, max_iter=MOST_ROUNDS).w

    def theirs(tol: float) -> np.ndarray:
        model = LinearSVC(
            C=C, loss=loss, dual=True, fit_intercept=False, tol=tol, max_iter=MOST_ROUNDS, random_state=0
        )
        return model.fit(X, y).coef_[0]

    least = svm_objective(ours(1e-9), X, y, C, loss)
    for accuracy in (1e-2, 1e-4, 1e-6):
        enough = least * (1 + accuracy)
        pairs = [
            (solve, _loosest(solve, lambda w: svm_objective(w, X, y, C, loss), enough))
            for solve in (ours, theirs)
        ]
        a, b = np.min([[_seconds(solve, tol) for solve, tol in pairs] for _ in range(repeat)], axis=0)
        print(
            f"{name:5} {loss:13} C={C:<3g} within {accuracy:.0e}: "
            f"ours {1e3 * a:8.2f} ms, LinearSVC {1e3 * b:8.2f} ms, ratio {a / b:5.2f}",
            flush=True,
        )


def _loosest(solve: Callable, value: Callable, enough: float) -> float:
    return next((tol for tol in TOLERANCES if value(solve(tol)) <= enough), TOLERANCES[-1])


def _seconds(solve: Callable, tol: float) -> float:
    start = time.thread_time()
    solve(tol)
    return time.thread_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    cases = {"small": small, "text": text} | ({"rcv1": rcv1} if "LABELFOLD_DATA" in os.environ else {})
    parser.add_argument("--cases", nargs="+", choices=cases, default=list(cases))
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.cases:
        X, y = cases[name]()
        stored = f", {X.nnz / X.shape[0]:.0f} non-zeros a row" if sparse.issparse(X) else ""
        source = "real" if name == "rcv1" else "generated"
        print(f"{name}: {source}, {X.shape[0]} x {X.shape[1]}{stored}, {np.mean(y > 0):.0%} positive")
        linear_svm(X, y, max_iter=1)  # compiled before it is timed
        for loss in ("squared_hinge", "hinge"):
            compare(name, X, y, loss, 1.0, options.repeat)


if __name__ == "__main__":
    main()
