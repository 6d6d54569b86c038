"""PCALS beside scikit-learn's PCA, and the kernel form beside KernelPCA.

    python benchmarks/pcals.py                   about three minutes on two cores
    python benchmarks/pcals.py --quick           smaller, under a minute
    python benchmarks/pcals.py --only secstr     one table only: secstr or kernel
    python benchmarks/pcals.py --threads 1       the first table with one thread only

Every figure is a ratio of two runs timed side by side (best of several), or seconds if the text says so. The first
table, with LDA of all labels beside PCALS, uses ssl_SecStr from the folder LABELFOLD_DATA, or generated data of its
shape: 83,679 rows of 15 one-hot positions of 21 codes, dense and sparse.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA, KernelPCA

from _common import best_of, cores, few_labels, options_of
from common import pinned
from data_sets import load
from labelfold import LDA, PCALS, KernelPCALS
from labelfold.features import default_gamma
from labelfold.rows import as_rows

N, POSITIONS, CODES = 83_679, 15, 21
LABELLED = 500


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


def beside_pca(repeat: int, all_threads: list[int]) -> None:
    _, X, y, which = load("ssl_SecStr", lambda _: one_hot(N, POSITIONS, CODES))
    y = (y > 0).astype(int)
    few, dense = few_labels(y, LABELLED), X.toarray()
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
    options = options_of(__doc__, quick=False, repeats=3, threads=[1, 2], only=("secstr", "kernel"))
    warnings.simplefilter("ignore")
    repeats, scale = (1, 4) if options.quick else (options.repeats, 1)
    cores()
    if "secstr" in options.only:
        beside_pca(repeats, options.threads)
    if "kernel" in options.only:
        beside_kernel_pca(min(repeats, 2), scale)


if __name__ == "__main__":
    main()
