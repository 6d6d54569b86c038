"""PCALS beside scikit-learn's PCA, its growth, and the kernel form beside KernelPCA.

    python benchmarks/pcals.py                   about three minutes on two cores
    python benchmarks/pcals.py --quick           smaller, under a minute
    python benchmarks/pcals.py --only secstr     one table only: secstr, growth or kernel

Every figure is a ratio of two runs timed side by side (best of several), or seconds if the text says so. The first
table, with LDA of all labels beside PCALS, uses ssl_SecStr from the folder LABELFOLD_DATA, or generated data of its
shape: 83,679 rows of 15 one-hot positions of 21 codes, dense and sparse.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA, KernelPCA

from _common import best_of, pinned, slope
from labelfold import LDA, PCALS, KernelPCALS
from labelfold.features import default_gamma
from labelfold.rows import as_rows

N, POSITIONS, CODES = 83_679, 15, 21
LABELLED = 500


def secstr() -> tuple[sparse.csr_array, np.ndarray, str]:
    """Return the rows and classes of ssl_SecStr, or generated ones of its shape, and which of the two."""
    folder = os.environ.get("LABELFOLD_DATA")
    path = Path(folder) / "ssl_SecStr.npz" if folder else None
    if path is None or not path.exists():
        X, y = one_hot(N, POSITIONS, CODES)
        return X, y, "generated with the shape of ssl_SecStr (set LABELFOLD_DATA for the real one)"
    with np.load(path) as file:
        parts = file["X_data"].astype(np.float64), file["X_indices"], file["X_indptr"]
        return sparse.csr_array(parts, shape=tuple(file["X_shape"])), (file["y"] > 0).astype(int), "real"


def one_hot(n: int, positions: int, codes: int, seed: int = 0) -> tuple[sparse.csr_array, np.ndarray]:
    """Return rows of one-hot codes, a Markov chain along the positions, and two classes set by a few codes."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(codes, 2.0))
    code = np.empty((n, positions), dtype=np.int64)
    code[:, 0] = rng.choice(codes, n, p=share)
    for j in range(1, positions):
        stays = rng.random(n) < 0.15
        code[:, j] = np.where(stays, code[:, j - 1], rng.choice(codes, n, p=share))
    weight = rng.standard_normal(codes) * np.exp(-((np.arange(positions) - positions // 2) ** 2) / 8)[:, None]
    score = weight[np.arange(positions), code].sum(axis=1)
    y = (score + score.std() * rng.standard_normal(n) > np.median(score)).astype(int)
    indices = (code + codes * np.arange(positions)).ravel()
    indptr = np.arange(0, n * positions + 1, positions)
    return sparse.csr_array((np.ones(n * positions), indices, indptr), shape=(n, codes * positions)), y


def few_labels(y: np.ndarray, n_labelled: int = LABELLED) -> np.ndarray:
    few = np.full(len(y), -1)
    chosen = np.random.default_rng(1).permutation(len(y))[:n_labelled]
    few[chosen] = y[chosen]
    return few


def beside_pca(repeat: int, all_threads: list[int]) -> None:
    X, y, which = secstr()
    few, dense = few_labels(y), X.toarray()
    print(
        f"\nSecStr ({which}): {dense.shape[0]:,} x {dense.shape[1]} dense float64, p = 8, {LABELLED} labels"
    )
    print("PCALS and LDA over scikit-learn's PCA(8) on the same array; target: at most 1.5 of sparse X")
    print(f"{'threads':>8} {'method':>12} {'PCA, s':>8} {'ours, s':>9} {'ratio':>6} {'of sparse X':>12}")
    for threads in all_threads:
        with pinned(threads):
            methods = {f"PCALS, {weight}": (PCALS(8, reconstruction=weight), few) for weight in (1.0, 0.01)}
            for name, (model, labels) in (methods | {"LDA": (LDA(), y)}).items():
                runs = [
                    lambda: PCA(8).fit(dense),
                    lambda m=model, labels=labels: m.fit(dense, labels),
                    lambda m=model, labels=labels: m.fit(X, labels),
                ]
                pca, ours, by_sparse = best_of(repeat, runs, threads)
                row = (threads, name, pca, ours, ours / pca, by_sparse / pca)
                print("{:>8} {:>12} {:>8.3f} {:>9.3f} {:>6.2f} {:>12.2f}".format(*row))


def growth(repeat: int, scale: int) -> None:
    n, d, p = 20_000 // scale, 200, 4
    print(
        f"\nGrowth of a fit on normal rows, 100 labels: seconds ~ size^exponent, beside {n:,} x {d}, p = {p}"
    )
    print(f"{'in':>4} {'sizes':>28} {'seconds':>32} {'exponent':>9}")
    rng = np.random.default_rng(0)
    spread = 1 / np.sqrt(np.arange(1, 4 * d + 1))
    X = rng.standard_normal((4 * n, 4 * d)) * spread
    y = (X[:, :20].sum(axis=1) > 0).astype(int)
    cases = {
        "n": [(size, d, p) for size in (n, 2 * n, 4 * n)],
        "d": [(n, size, p) for size in (d // 2, d, 2 * d)],
        "p": [(n, d, size) for size in (p, 2 * p, 4 * p)],
    }
    with pinned(1):
        for name, shapes in cases.items():
            seconds = []
            for rows, columns, k in shapes:
                part, few = np.ascontiguousarray(X[:rows, :columns]), few_labels(y[:rows], 100)
                model = PCALS(k)
                seconds += best_of(repeat, [lambda m=model, A=part, b=few: m.fit(A, b)], 1)
            sizes = [shape["ndp".index(name)] for shape in shapes]
            shown = ", ".join(f"{value:.3f}" for value in seconds)
            print(f"{name:>4} {sizes!s:>28} {shown:>32} {slope(sizes, seconds):>9.2f}")
        documents = sparse.random_array((5000 // scale, 40_000), density=2e-3, format="csr", rng=rng)
        few = few_labels(np.asarray(documents[:, :400].sum(axis=1) > 0.4).ravel().astype(int), 100)
        model = PCALS(4, tol=1e-5)
        seconds = best_of(1, [lambda: model.fit(documents, few)], 1)[0]
        print(
            f"sparse {documents.shape[0]:,} x 40,000, {documents.nnz:,} non-zeros, p = 4, a pass a step: "
            f"{seconds:.2f} s, {model.n_iter_} passes"
        )


def beside_kernel_pca(repeat: int, scale: int) -> None:
    print("\nKernelPCALS(8) over scikit-learn's KernelPCA(8), RBF of the same width, 100 labels, two threads")
    print(f"{'n':>7} {'columns':>8} {'rank':>6} {'KernelPCA, s':>13} {'exact':>6} {'500 landmarks':>14}")
    rng = np.random.default_rng(0)
    with pinned(2):
        for n, d in ((2000 // scale, 5), (2000 // scale, 50), (6000 // scale, 5), (6000 // scale, 50)):
            X = rng.standard_normal((n, d))
            few = few_labels((X[:, 0] + X[:, 1] ** 2 > 1).astype(int), 100)
            gamma = default_gamma(as_rows(X))
            exact, some = KernelPCALS(8, gamma=gamma), KernelPCALS(8, gamma=gamma, n_landmarks=500)
            runs = [
                lambda X=X, g=gamma: KernelPCA(8, kernel="rbf", gamma=g).fit(X),
                lambda X=X, b=few, m=exact: m.fit(X, b),
                lambda X=X, b=few, m=some: m.fit(X, b),
            ]
            theirs, ours, landmarks = best_of(repeat, runs, 2)
            row = (n, d, exact.components_.shape[1], theirs, ours / theirs, landmarks / theirs)
            print("{:>7,} {:>8} {:>6} {:>13.3f} {:>6.2f} {:>14.2f}".format(*row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer repeats")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of the first table")
    parser.add_argument("--only", choices=["secstr", "growth", "kernel"], help="one table alone")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    repeats, scale = (1, 4) if arguments.quick else (arguments.repeats, 1)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if arguments.only in (None, "secstr"):
        beside_pca(repeats, arguments.threads)
    if arguments.only in (None, "growth"):
        growth(repeats, scale)
    if arguments.only in (None, "kernel"):
        beside_kernel_pca(min(repeats, 2), scale)


if __name__ == "__main__":
    main()
