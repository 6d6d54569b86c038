"""The sets and methods of the two-stage paper, its published numbers, and the size of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse.linalg import LinearOperator, eigsh, lsqr as scipy_lsqr

from data_sets import Data, load, rng_of, sparse_text
from labelfold import CCA, HSL, LDA, OPLS

BOUND = 1e-8  # of ||WW' - W0W0'||_2 relative to ||W0W0'||_2
RIDGES = (0.0, 1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6)
TECHNIQUES: dict[str, Callable[..., Any]] = {
    "LDA": LDA,
    "CCA": CCA,
    "OPLS": OPLS,
    "HSL-Clique": partial(HSL, expansion="clique"),
    "HSL-Star": partial(HSL, expansion="star"),
    "HSL-Zhou": partial(HSL, expansion="zhou"),
}
MULTILABEL = tuple(name for name in TECHNIQUES if name != "LDA")

# The file of each set of the paper.
CLASS_SETS = {
    "Wine": "wine",
    "Satimage": "satimage",
    "Ionosphere": "ionosphere",
    "Optical digits": "optdigits",
    "USPS": "usps",
}
LABEL_SETS = {"Scene": "scene", "Yeast": "yeast"}
SYNTHETIC = {"Syn1": (1000, 100), "Syn2": (1000, 5000), "Syn3": (1000, 100), "Syn4": (1000, 5000)}
TEXT_SETS = {"news20": "news20_libsvm", "rcv1v2": "rcv1v2_subset1"}
TABLE_ORDER = (*SYNTHETIC, *LABEL_SETS, *CLASS_SETS)
CLASSIFIER, ALL = "Classifier", "all columns"  # the part with the SVM, and the SVM without a reduction
SOLVERS = ("direct", "two-stage")


@dataclass(frozen=True)
class Plan:
    """The size of a run.

    Attributes
    ----------
    ridges : tuple of float
        Values of the regularisation.
    most : tuple of int
        Most rows and columns of each set of Table 2.
    wide_ridges : tuple of float
        Ridges for which ``solver="direct"`` also runs if d is 5000 (half a minute each).
    splits : tuple
        Random halves of Yeast and Wine.
    classifier_splits : int
        Random halves of every real set.
    fixed : dict
        For each figure, the size that is fixed.
    sizes : dict
        The values of the other size: the paper's.
    beyond : dict
        Larger values; the direct approach runs only up to d = 5000.
    rounds : int
        Number of repetitions at the paper's sizes, the solvers in turn; one row for each.
    """

    ridges: tuple[float, ...] = RIDGES
    most: tuple[int, int] = (10**6, 10**6)
    wide_ridges: tuple[float, ...] = (0.0, 1.0)
    splits: tuple[tuple[str, int], ...] = (("Yeast", 5), ("Wine", 20))
    classifier_splits: int = 5
    rounds: int = 2
    fixed: tuple[tuple[str, int], ...] = (("3 left", 5000), ("3 right", 5000), ("4", 5000), ("5", 3000))
    sizes: tuple[tuple[str, tuple[int, ...]], ...] = (
        ("3 left", (500, 1000, 1500, 2000, 2500, 3000)),
        ("3 right", (500, 1000, 1500, 2000, 2500, 3000)),
        ("4", tuple(range(500, 3001, 500))),
        ("5", tuple(range(500, 5001, 500))),
    )
    beyond: tuple[tuple[str, tuple[int, ...]], ...] = (
        ("3 left", (6000, 12000)),
        ("3 right", (10000, 30000, 62061)),
        ("4", (6000,)),
        ("5", (10000, 20000, 47236)),
    )


QUICK = Plan(
    ridges=(0.0, 1.0),
    most=(200, 60),
    splits=(("Yeast", 1), ("Wine", 2)),
    classifier_splits=1,
    rounds=1,
    fixed=tuple((figure, 120) for figure in ("3 left", "3 right", "4", "5")),
    sizes=tuple((figure, (80, 160)) for figure in ("3 left", "3 right", "4", "5")),
    beyond=tuple((figure, ()) for figure in ("3 left", "3 right", "4", "5")),
)


def read(name: str, plan: Plan) -> Data:
    """Return a set by its name in the paper, or some of its rows and columns if the plan is smaller."""
    rows, columns = plan.most
    if name in SYNTHETIC:
        n, d = min(SYNTHETIC[name][0], rows), min(SYNTHETIC[name][1], columns)
        rng = rng_of(name)
        y = rng.integers(0, 5, n) if name in ("Syn1", "Syn2") else rng.integers(0, 2, (n, 5))
        return Data(name, rng.standard_normal((n, d)), y, "generated")
    file = (CLASS_SETS | LABEL_SETS | TEXT_SETS)[name]
    if name in TEXT_SETS and plan == QUICK:
        data = load(file, lambda rng: sparse_text(rng, 400, 600, 8, 60, labels=name == "rcv1v2"))
    elif name in TEXT_SETS:
        data = load(file)
    else:
        data = load(file, rows=rows, columns=columns)
        if data.X.shape[0] > rows or data.X.shape[1] > columns:
            some = np.sort(rng_of(name).permutation(data.X.shape[0])[:rows])
            data = data._replace(X=data.X[some, :columns], y=data.y[some])
    return data._replace(name=name)


def targets(technique: str, y: np.ndarray) -> np.ndarray:
    """Return H of section 2 (n, q), from the definitions, without code of the library."""
    Y = y.astype(np.float64) if y.ndim == 2 else (y[:, None] == np.unique(y)).astype(np.float64)
    Y = Y[:, Y.any(axis=0)]
    members = Y.sum(axis=0)
    if technique == "LDA":
        return Y / np.sqrt(members)
    if technique == "OPLS":
        return Y - Y.mean(axis=0)
    if technique == "CCA":  # Yc (Yc'Yc)^(-1/2) up to a rotation, which does not change S = HH'
        U, sigma, _ = np.linalg.svd(Y - Y.mean(axis=0), full_matrices=False)
        return U[:, sigma > 1e-10 * sigma[0]]
    degree = {"HSL-Clique": Y @ members, "HSL-Star": (Y / members).sum(axis=1), "HSL-Zhou": Y.sum(axis=1)}
    edge = {"HSL-Clique": 1.0, "HSL-Star": members, "HSL-Zhou": np.sqrt(members)}
    d = degree[technique][:, None]
    return np.divide(Y / edge[technique], np.sqrt(d), out=np.zeros_like(Y), where=d > 0)


class Spectrum:
    """X_c = U diag(sigma) V', and the directions of theorem 4 from it.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows.
    """

    def __init__(self, X: np.ndarray) -> None:
        U, sigma, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
        rank = int((sigma > max(X.shape) * np.finfo(float).eps * sigma[0]).sum())
        self.U, self.sigma, self.V = U[:, :rank], sigma[:rank], Vt[:rank].T

    def directions(self, H: np.ndarray, ridge: float) -> np.ndarray:
        """Return W0 (d, k), eq. 37."""
        damped = np.sqrt(self.sigma**2 + ridge)
        P, root, _ = np.linalg.svd((self.sigma / damped)[:, None] * (self.U.T @ H), full_matrices=False)
        keep = root**2 > 1e-11 * root[0] ** 2
        return self.V @ (P[:, keep] / damped[:, None])


def distance(W: np.ndarray, W0: np.ndarray) -> tuple[float, float]:
    """Return ||WW' - W0W0'||_2 and ||W0W0'||_2, from the small factors, without a d x d matrix."""
    R = np.linalg.qr(np.hstack([W, W0]), mode="r")
    A, B = R[:, : W.shape[1]], R[:, W.shape[1] :]
    return float(np.abs(np.linalg.eigvalsh(A @ A.T - B @ B.T)).max()), float(np.linalg.norm(W0, 2) ** 2)


def lanczos(X: sparse.csr_array, H: np.ndarray, ridge: float) -> np.ndarray:
    """Return W0 (d, k) as in section 5.3: factor X_c'X_c + g I, then Lanczos on a symmetric problem."""
    n, mean = X.shape[0], X.mean(axis=0)
    G = (X.T @ X).toarray()
    G -= n * np.outer(mean, mean)
    G[np.diag_indices_from(G)] += ridge
    L = cholesky(G, lower=True, overwrite_a=True, check_finite=False)
    F = solve_triangular(L, X.T @ (H - H.mean(axis=0)), lower=True, check_finite=False)
    operator = LinearOperator((len(L), len(L)), matvec=lambda v: F @ (F.T @ v), dtype=np.float64)
    k = int(np.linalg.matrix_rank(F))
    Q = eigsh(operator, k=k)[1]
    return solve_triangular(L, Q, lower=True, trans="T", check_finite=False)


def centred(X: sparse.csr_array, transposed: sparse.sparray) -> LinearOperator:
    """Return the centred X as an operator, without forming it; ``transposed`` is X' in any layout."""
    mean = X.mean(axis=0)
    return LinearOperator(
        X.shape,
        matvec=lambda v: X @ v - mean @ v,
        rmatvec=lambda u: transposed @ u - mean * u.sum(),
        dtype=np.float64,
    )


def one_by_one(
    operator: LinearOperator, T: np.ndarray, ridge: float, tol: float, most: int
) -> tuple[np.ndarray, int]:
    """Return the ridge regression of each column of T by SciPy's LSQR, and the most iterations of a column."""
    fits = [scipy_lsqr(operator, t, damp=np.sqrt(ridge), atol=tol, btol=tol, iter_lim=most) for t in T.T]
    return np.column_stack([fit[0] for fit in fits]), max(fit[2] for fit in fits)


def lsqr(X: sparse.csr_array, H: np.ndarray, ridge: float, tol: float = 1e-8) -> tuple[np.ndarray, int]:
    """Return W (d, k) as the paper's two stages do, and the most iterations of a target.

    Stage 1 is LSQR on the centred X, one target of H at a time; stage 2 the small eigenproblem.
    """
    T, Xt = H - H.mean(axis=0), X.T.tocsr()
    W1, n_iter = one_by_one(centred(X, Xt), T, ridge, tol, 10 * X.shape[0])
    values, E = np.linalg.eigh(W1.T @ (Xt @ T))
    keep = values > 1e-11 * values[-1]
    return W1 @ (E[:, keep] / np.sqrt(values[keep])), n_iter
