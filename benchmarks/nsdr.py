"""The time of NSDR relative to one SVM, on the five data sets of its paper (which reports 380).

    python benchmarks/nsdr.py                     about five minutes on one core
    python benchmarks/nsdr.py --quick             half a minute: short plain descents
    python benchmarks/nsdr.py --sets sonar spect  some of the data

The sets come from the folder LABELFOLD_DATA; otherwise Gaussian classes of the same shapes are generated from a seed.
Four fifths of the rows are labelled and the others unlabelled, as in a fold of the paper. Columns are standardised;
penalties and SVMs are those of the paper's Table 1.

The goal is to reach the objective within 1e-3 of L-BFGS over all variables (U, V and both offsets, with the SVM
retrained at every evaluation) after 2,000 iterations: once from random factors, as in the paper, and once from the
initial values of the library, singular vectors, which also improve the plain descent. Times are processor seconds of
whole fits, best of several in turn, without compilation.
"""

from __future__ import annotations

import time
import warnings
from functools import partial

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from _common import best_of, cores, few_labels, options_of, timed
from common import pinned
from data_sets import has_data
from labelfold.factorization._nsdr import NSDR, KernelClassifiers, objective
from labelfold.factorization._offset_model import offset_rows, row_fit, start_bases, start_directions
from labelfold.rows import as_rows
from nsdr_sets import PAPER, TABLE_1, TABLE_1_NAMES, read

PUBLISHED = 158.065 / 0.415
WITHIN = 1e-3


def plain(X: np.ndarray, few: np.ndarray, options: dict, start: str, max_iter: int) -> float:
    """Return the objective after L-BFGS over all variables."""
    n, d = X.shape
    k, b, lu, lv = (
        options[name] for name in ("n_components", "reconstruction_share", "row_penalty", "basis_penalty")
    )
    index = np.flatnonzero(few >= 0)
    machine = KernelClassifiers(
        (2.0 * few[index] - 1)[:, None],
        C=options["C"],
        kernel="poly",
        degree=options["degree"],
        gamma=1.0,
        coef0=1.0,
        weight=1 - b,
        tol=1e-8,
    )
    if start == "random factors":
        rng = np.random.default_rng(1)
        Z, V = 0.1 * rng.standard_normal((n, k + 1)), 0.1 * rng.standard_normal((k, d))
    else:
        mean = X.mean(axis=0)
        data = offset_rows(as_rows(X), index, mean, k, 2**30)
        directions = start_directions(data, d, k, np.random.RandomState(0))
        bases = start_bases(directions, b=b, lu=lu, lv=lv)
        signs = (2.0 * few[index] - 1)[:, None]
        names = ("C", "degree", "reconstruction_share", "row_penalty", "basis_penalty")
        placed = [(X - mean) @ row_fit(V, lu / b, 1.0).G for V in bases]
        values = [
            objective(
                X, Z[:, :-1], Z[:, -1], V, mean, signs, index, **{name: options[name] for name in names}
            )
            for Z, V in zip(placed, bases, strict=True)
        ]
        Z, V = placed[int(np.argmin(values))], bases[int(np.argmin(values))]

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        Z, V, c = np.split(x, [n * (k + 1), n * (k + 1) + k * d])
        Z, V1 = Z.reshape(n, k + 1), np.vstack([V.reshape(k, d), np.ones(d)])
        R = X - Z @ V1 - c
        cost, pull = machine.train(Z[index]), machine.gradient()
        dZ, dV = 2 * lu * Z - 2 * b * R @ V1.T, 2 * lv * V1[:-1] - 2 * b * Z[:, :-1].T @ R
        dZ[index] += pull
        f = b * np.vdot(R, R) + lu * np.vdot(Z, Z) + lv * np.vdot(V, V) + cost
        return f, np.concatenate([dZ.ravel(), dV.ravel(), -2 * b * R.sum(axis=0)])

    x = np.concatenate([Z.ravel(), V.ravel(), X.mean(axis=0)])
    limits = {"maxiter": max_iter, "maxfun": 3 * max_iter, "ftol": 0.0, "gtol": 0.0}
    return float(minimize(value, x, jac=True, method="L-BFGS-B", options=limits).fun)


def against_one_svm(sets: list[str], plain_iterations: int, repeat: int) -> None:
    print(
        f"Time to within {WITHIN:g} of what {plain_iterations:,} iterations of plain L-BFGS reach, over one SVM fit"
    )
    form = "{:<16} {:>7} {:>8} {:>9}   {:<14} {:>9} {:>8} {:>11} {:>8} {:>6}"
    heads = (
        "set",
        "rows",
        "SVM, ms",
        "ours ends",
        "plain from",
        "ends",
        "seconds",
        "iterations",
        "ms",
        "ratio",
    )
    print(form.format(*heads))
    for name in sets:
        _, X, y, _ = read(name, None)
        few = few_labels(y, int(0.8 * len(y)))
        known = few >= 0
        options = dict(zip(TABLE_1_NAMES["NSDR"], TABLE_1[name][0], strict=True))
        svm = SVC(kernel="poly", C=options["C"], degree=options["degree"], gamma=1.0, coef0=1.0)
        make = partial(NSDR, **options, **PAPER, gamma=1.0, tol=0.0)
        values = make(max_iter=1000).fit(X, few).objective_
        for start in ("random factors", "our start"):
            spent, goal = timed(partial(plain, X, few, options, start, plain_iterations), time.process_time)
            line = [name, f"{known.sum()}x{X.shape[1]}", "", f"{values[-1]:.5g}"]
            line += [start, f"{goal:.5g}", f"{spent:.1f}"]
            reached = np.flatnonzero(values <= goal * (1 + WITHIN))
            if len(reached):
                model = make(max_iter=int(reached[0]) + 1)
                fits = partial(svm.fit, X[known], y[known]), partial(model.fit, X, few)
                theirs, ours = best_of(repeat, fits, 1)
                line[2] = f"{1e3 * theirs:.2f}"
                line += [model.max_iter, f"{1e3 * ours:.1f}", f"{ours / theirs:.1f}"]
            else:
                line += ["never", "", ""]
            print(form.format(*line), flush=True)
    print(f"Published: {PUBLISHED:.0f}. Target: at most 50, better 20.")


def main() -> None:
    options = options_of(__doc__, quick=False, sets=tuple(TABLE_1), repeat=5)
    warnings.simplefilter("ignore", ConvergenceWarning)
    cores(f"; data: {'real' if has_data() else 'generated in the shapes of the real ones'}")
    with pinned(1):
        rng = np.random.default_rng(0)
        NSDR(2, max_iter=3).fit(rng.standard_normal((30, 4)), np.arange(30) % 2)  # compiles
        against_one_svm(options.sets, 200 if options.quick else 2000, options.repeat)


if __name__ == "__main__":
    main()
