"""Sizes from which another method is faster: what labelfold's limits are based on.

    OMP_NUM_THREADS=1 python benchmarks/limits.py                a minute
    OMP_NUM_THREADS=1 python benchmarks/limits.py --only rows    only tables whose name contains this

Each table has the time of the other method relative to the usual one, in turn, best of several: below 1 the other
method is faster. The limit in use is named beside the table. On another machine it may be elsewhere by a factor of
two.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from _common import best_of, documents, options_of
from labelfold import LDA, SSDR
from labelfold.discriminant import _ssdr as ssdr
from labelfold.numerics import _gram as gram, _linear_svm as svm, _ridge_regression as ridge, linear_svm
from labelfold.rows import Rows, _sums as sums, as_rows
from labelfold.rows.adapters import _stream as stream

# A size, and its time relative to the usual way.
Point = tuple[float, float]


def ratio(
    usual: Callable[[], object], other: Callable[[], object], n_threads: int = 1, times: int = 7
) -> float:
    """Return the time of the other way relative to the usual one."""
    usual(), other()  # compiled, and in the cache
    before, after = best_of(times, [usual, other], n_threads)
    return after / before


def rows_between() -> Iterator[Point]:
    """Unwanted rows between two wanted ones, which are read with them: rows of 100 numbers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, np.random.default_rng(0).standard_normal((200_000, 100)))
        rows = as_rows(path)
        for gap in (4, 16, 64, 256):
            index = np.arange(0, rows.shape[0], gap + 1)[:2000]

            def take(limit: int, index: np.ndarray = index) -> None:
                with mock.patch.object(stream, "_MAX_GAP", limit):
                    rows.take(index)

            yield gap, ratio(lambda take=take: take(0), lambda take=take: take(10**9))


def compiled_products() -> Iterator[Point]:
    """Columns that sparse rows are multiplied with, by a compiled loop: 40,000 rows, 10 entries in each."""
    rows = as_rows(sparse.random_array((40_000, 1000), density=0.01, format="csr", rng=0))
    for k in (3, 10, 50):
        M = np.ones((1000, k))

        def multiply(limit: float, M: np.ndarray = M) -> None:
            with mock.patch.object(sums, "_SMALL_PRODUCT", limit):
                rows @ M

        yield k, ratio(lambda run=multiply: run(np.inf), lambda run=multiply: run(0))


def compiled_gram() -> Iterator[Point]:
    """Multiplications in the Gram matrix of sparse rows, by a compiled loop: 10 entries in each row, 300 columns."""
    for n in (1_000, 10_000, 40_000):
        rows = as_rows(sparse.random_array((n, 300), density=1 / 30, format="csr", rng=0))

        def multiply(limit: float, rows: Rows = rows) -> None:
            with mock.patch.object(sums, "_SMALL_PRODUCT", limit):
                rows.gram()

        yield 3000 * n, ratio(lambda run=multiply: run(np.inf), lambda run=multiply: run(0))


def several_ridges() -> Iterator[Point]:
    """Ridges of one matrix, by a tridiagonal form: 1,000 columns, 20 targets."""
    rng = np.random.default_rng(0)
    X, M = rng.standard_normal((1500, 1000)), rng.standard_normal((1000, 20))
    G = X.T @ X
    for count in (2, 3, 5, 10):

        def solve(limit: float, count: int = count) -> None:
            with mock.patch.object(gram, "_MIN_RIDGES", limit):
                found, ridges = gram.Gram(G.copy(), size=1500), np.logspace(0, 3, count)
                found.expect(ridges)
                for one in ridges:
                    found.solve(M, one)

        yield count, ratio(lambda run=solve: run(np.inf), lambda run=solve: run(0), times=2)


def iterations_first() -> Iterator[Point]:
    """Cost of a factorisation, in iterations, which are tried before it: LDA on 3,000 documents."""
    for n_classes in (10, 50, 100, 200):
        X, Y = documents(3000, 20_000, n_classes)
        y = Y.argmax(axis=1)
        rows = as_rows(X)

        def fit(limit: float, X: sparse.csr_array = X, y: np.ndarray = y) -> None:
            with mock.patch.object(ridge, "_MIN_WORTH", limit):
                LDA(ridge=1.0).fit(X, y)

        worth = ridge.iterations_worth(rows, n_classes)
        yield worth, ratio(lambda run=fit: run(np.inf), lambda run=fit: run(0), times=2)


def eigenvectors_of_a_matrix() -> Iterator[Point]:
    """Columns of dense rows for which SSDR iterates, in place of a matrix of all columns: 5,000 rows."""
    rng = np.random.default_rng(0)
    for d in (250, 500, 1000, 2000):
        X, y = rng.standard_normal((5000, d)), np.arange(5000) % 5
        X[:, :5] += 2.0 * np.eye(5)[y]

        def fit(limit: float, X: np.ndarray = X, y: np.ndarray = y) -> None:
            with mock.patch.object(ssdr, "_FEW_COLUMNS", limit):
                SSDR(n_components=4).fit(X, y)

        yield d, ratio(lambda run=fit: run(np.inf), lambda run=fit: run(0), times=2)


def interior_point() -> Iterator[Point]:
    """Columns of an SVM that ends by an interior-point method, after coordinate steps: 1,000 rows, C = 1.

    Without it, 1,000 rounds of coordinate steps end short of the tolerance from 128 columns on.
    """
    rng = np.random.default_rng(0)
    for d in (10, 30, 64, 128, 200):
        X = rng.standard_normal((1000, d))
        y = np.where(X @ rng.standard_normal(d) + 2.0 * rng.standard_normal(1000) > 0, 1.0, -1.0)

        def fit(limit: float, X: np.ndarray = X, y: np.ndarray = y) -> None:
            with mock.patch.object(svm, "_FEW_COLUMNS", limit), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                linear_svm(X, y)

        yield d, ratio(lambda run=fit: run(0), lambda run=fit: run(np.inf), times=2)


TABLES: dict[str, tuple[Callable[[], Iterator[Point]], float | None]] = {
    "rows that are read and not wanted": (rows_between, stream._MAX_GAP),
    "compiled products of sparse rows": (compiled_products, None),
    "compiled Gram matrix of sparse rows": (compiled_gram, sums._SMALL_PRODUCT),
    "ridges for a tridiagonal form": (several_ridges, gram._MIN_RIDGES),
    "iterations before a factorisation": (iterations_first, ridge._MIN_WORTH),
    "iterations of SSDR": (eigenvectors_of_a_matrix, ssdr._FEW_COLUMNS),
    "interior-point method of an SVM": (interior_point, svm._FEW_COLUMNS),
}


def main() -> None:
    """Print the tables."""
    given = options_of(__doc__, only="")
    for name, (points, limit) in TABLES.items():
        if given.only not in name:
            continue
        used = "" if limit is None else f" The limit is {limit:,.0f}."
        print(f"{name}: {' '.join((points.__doc__ or '').split())}{used}")
        for size, found in points():
            print(f"{size:14,.0f}  {found:5.2f}")


if __name__ == "__main__":
    main()
