r"""The algorithm of DRSVM: it alternates between the factorisation and linear SVMs, with one pass over X each time.

Letters as in `labelfold.factorization._drsvm`. An iteration has four steps, each exact given the others:

1. B from the sums X'H and H'H;
2. H for unlabelled rows from B, in the pass that also computes the sums for the next B;
3. H for labelled rows (read into memory once) from B and W, each row by its small dual problem;
4. W and its intercepts from the labelled rows of H, with a warm start from the previous dual variables.

With B, H >= 0 steps 1 and 2 are rounds of HALS that continue from the previous H, so H is stored with the rows.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from labelfold.base import Iterates
from labelfold.factorization._factor_sums import factor_sums, squared_misfit
from labelfold.factorization._hinge_rows import hinge_row_objectives, hinge_rows
from labelfold.factorization._nonnegative import hals
from labelfold.numerics import Start, linear_svms
from labelfold.rows import Block, Rows, as_rows

# Rounds of HALS in an iteration: they cost little beside the pass, and a few of them save many passes.
_ROUNDS = 8


@dataclass(frozen=True, eq=False)
class DRSVMProblem:
    """The data, the labels and the weights of the terms, which do not change."""

    rows: Rows  # n x d
    index: np.ndarray  # (l,)    labelled rows
    T: np.ndarray  # (l, r)  signs
    C: np.ndarray  # (l, r)  weights of the losses
    squared_norm: float  # ||X||^2
    svm_penalty: float  # a
    reconstruction: float  # b
    factor_penalty: float  # e
    loss: str
    nonnegative: bool
    fit_intercept: bool
    intercept_scaling: float  # constant feature of the SVMs

    @property
    def ridge(self) -> float:
        """Return e / b, which is added to the diagonal of B'B and H'H."""
        return self.factor_penalty / self.reconstruction

    def losses(self, H: np.ndarray, W: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Return the weighted loss of every labelled row and SVM, (l, r)."""
        slack = np.maximum(0.0, 1 - self.T * (H @ W.T + intercept))
        return self.C * (slack if self.loss == "hinge" else slack * slack)

    def machine_objectives(self, H: np.ndarray, W: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Return the objective of each SVM, (r,): its losses and a / 2 times its squared weights."""
        squares = (W * W).sum(axis=1) + (intercept / self.intercept_scaling) ** 2
        return self.losses(H, W, intercept).sum(axis=0) + 0.5 * self.svm_penalty * squares


@dataclass(frozen=True, eq=False)
class Model:
    """State after an iteration: factors, SVMs, and warm starts of the next iteration."""

    B: np.ndarray  # (d, k)
    BtB: np.ndarray  # (k, k)
    H_labelled: np.ndarray  # (l, k)
    H: Any  # (n, k)  stored with the rows; only if it is not a function of B
    W: np.ndarray  # (r, k)
    intercept: np.ndarray  # (r,)
    alpha: np.ndarray | None = None  # (l, r)  dual variables of the SVMs
    dual: np.ndarray | None = None  # dual variables of the labelled rows
    gap: float = 0.0  # largest duality gap of the SVMs
    svm_tol: float = 0.0


def iterates(problem: DRSVMProblem, start: Start, tol: float) -> Iterates:
    """Alternate the four steps; the tolerance of the SVMs follows from ``tol``."""
    rows, index = problem.rows, problem.index
    n, k = rows.shape[0], start.B.shape[1]
    everything = len(index) == n
    labelled = rows if everything and rows.in_memory else rows.subset(index)  # l x d
    mask = None if everything else rows.spread(index, np.zeros(len(index), dtype=rows.dtype), 1)

    svm_tol = float(np.clip(tol, 1e-12, 1e-6))
    H_labelled = rows.pick(start.H, index).astype(np.float64)
    HtH, XtH = rows.sum(factor_sums, start.H)
    r = problem.T.shape[1]
    W, intercept = np.zeros((r, k)), np.zeros(r)
    model = Model(start.B, start.B.T @ start.B, H_labelled, start.H, W, intercept, svm_tol=svm_tol)
    model = _update_machines(problem, model)
    rose = False
    while not rose:
        model = _update_basis(problem, model, XtH, HtH)
        H, XtH, HtH = _place_unlabelled(problem, model, mask)
        model = _place_labelled(problem, replace(model, H=H), labelled)
        XtH_labelled = labelled.sum(_transposed, model.H_labelled)
        XtH_labelled += XtH  # in place: it is large
        XtH, HtH = XtH_labelled, HtH + model.H_labelled.T @ model.H_labelled
        model = _update_machines(problem, model)
        rose = yield model, _value(problem, model, XtH, HtH)


def embed(problem: DRSVMProblem, model: Model) -> Any:
    """Return H (n, k) of the training rows in the fit; in one pass if it is a function of B."""
    rows = problem.rows
    H = model.H if problem.nonnegative else rows @ projection(model.B, problem.ridge, model.BtB)
    return rows.result(H, at=(problem.index, model.H_labelled))


def objective(
    X: Any,
    H: np.ndarray,
    B: np.ndarray,
    W: np.ndarray,
    T: np.ndarray,
    index: np.ndarray,
    *,
    C: Any = 1.0,
    intercept: Any = 0.0,
    loss: str = "squared_hinge",
    svm_penalty: float = 1.0,
    reconstruction: float = 1.0,
    factor_penalty: float = 1.0,
    intercept_scaling: float = 1.0,
) -> float:
    """Return the objective of DRSVM (eq. IV.2), in one pass over X.

    Parameters
    ----------
    X : container of shape (n, d)
        Rows, less their mean if the model was centred.
    H, B, W : ndarray of shapes (n, k), (d, k), (r, k)
        Embedding, basis and SVMs.
    T : ndarray of shape (l, r)
        Signs of the labelled rows, -1 or +1.
    index : ndarray of shape (l,)
        Indices of the labelled rows.
    C : float or ndarray of shape (l, r)
        Weights of the losses.
    intercept : float or ndarray of shape (r,)
        Intercepts of the SVMs.
    loss, svm_penalty, reconstruction, factor_penalty, intercept_scaling
        As in `DRSVM`.

    Returns
    -------
    f : float
    """
    slack = np.maximum(0.0, 1 - T * (H[index] @ W.T + intercept))
    losses = slack if loss == "hinge" else slack * slack
    machines = (W * W).sum() + ((np.broadcast_to(intercept, len(W)) / intercept_scaling) ** 2).sum()
    misfit = squared_misfit(X, H, B)
    size = (B * B).sum() + (H * H).sum()
    f = (C * losses).sum() + 0.5 * (svm_penalty * machines + reconstruction * misfit + factor_penalty * size)
    return float(f)


def projection(B: np.ndarray, ridge: float, BtB: np.ndarray | None = None) -> np.ndarray:
    """Return G = B (B'B + (e/b) I)^(-1), (d, k): an unlabelled row x has h = G'x."""
    return as_rows(B) @ _ridge_inverse(B.T @ B if BtB is None else BtB, ridge)


def _update_basis(problem: DRSVMProblem, model: Model, XtH: np.ndarray, HtH: np.ndarray) -> Model:
    """Return the model with B given H: exactly, or after rounds of HALS (eq. IV.6).

    The columns of X are processed like rows, in blocks and threads.
    """
    columns, dtype = as_rows(XtH), problem.rows.dtype
    if problem.nonnegative:
        M = HtH + problem.ridge * np.eye(len(HtH))
        B, BtB = columns.sweep(_hals_basis, model.B, shared=(M, dtype))
    else:
        B, BtB = columns.sweep(_exact_basis, shared=(_ridge_inverse(HtH, problem.ridge), dtype))
    return replace(model, B=B, BtB=BtB)


def _place_unlabelled(problem: DRSVMProblem, model: Model, mask: Any) -> tuple[Any, Any, Any]:
    """Return H for unlabelled rows if it is stored, and their X'H and H'H: the pass over X (eq. IV.8)."""
    B, BtB, rows = model.B, model.BtB, problem.rows
    if mask is None:
        return model.H, 0.0, 0.0
    if not problem.nonnegative:
        HtH, XtH = rows.sum(_place, mask, shared=(projection(B, problem.ridge, BtB),))
        return None, XtH, HtH
    M = BtB + problem.ridge * np.eye(B.shape[1])
    H, (HtH, XtH) = rows.sweep(_place_nonnegative, model.H, mask, shared=(B, M))
    return H, XtH, HtH


def _place_labelled(problem: DRSVMProblem, model: Model, labelled: Rows) -> Model:
    """Return the model with the labelled rows of H at their minimum, given B and W."""
    b, B, old = problem.reconstruction, model.B, model.H_labelled
    P = b * labelled.get(labelled.map(_product, shared=(B,)))
    Q = b * model.BtB + problem.factor_penalty * np.eye(B.shape[1])
    machines = (P, Q, model.W, problem.T, problem.C)
    options: dict[str, Any] = {"intercept": model.intercept, "loss": problem.loss}
    H, dual = hinge_rows(*machines, **options, nonnegative=problem.nonnegative, dual=model.dual)
    # An iterative solution may lack the last digits; a row that was better keeps its previous embedding.
    worse = hinge_row_objectives(H, *machines, **options) > hinge_row_objectives(old, *machines, **options)
    return replace(model, H_labelled=np.where(worse[:, None], old, H), dual=dual)


def _update_machines(problem: DRSVMProblem, model: Model) -> Model:
    """Return the model with W trained on the labelled rows of H; an SVM that would get worse stays unchanged."""
    H, old = model.H_labelled, (model.W, model.intercept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = linear_svms(
            H,
            problem.T,
            problem.C / problem.svm_penalty,
            loss=problem.loss,
            fit_intercept=problem.fit_intercept,
            intercept_scaling=problem.intercept_scaling,
            alpha=model.alpha,
            tol=model.svm_tol,
        )
    worse = problem.machine_objectives(H, found.w, found.intercept) > problem.machine_objectives(H, *old)
    W, intercept = np.where(worse[:, None], old[0], found.w), np.where(worse, old[1], found.intercept)
    return replace(model, W=W, intercept=intercept, alpha=found.alpha, gap=found.gap)


def _value(problem: DRSVMProblem, model: Model, XtH: np.ndarray, HtH: np.ndarray) -> float:
    """Return the objective, from the sums of the pass."""
    misfit = problem.squared_norm - 2 * np.vdot(model.B, XtH) + (model.BtB * HtH).sum()
    machines = problem.machine_objectives(model.H_labelled, model.W, model.intercept).sum()
    squares = np.trace(model.BtB) + np.trace(HtH)
    return float(machines + 0.5 * (problem.reconstruction * misfit + problem.factor_penalty * squares))


def _ridge_inverse(gram: np.ndarray, ridge: float) -> np.ndarray:
    """Return (gram + ridge I)^(-1), even if the ridge is lost in the round-off of a singular gram."""
    values, vectors = np.linalg.eigh(gram)
    floor = len(gram) * np.finfo(np.float64).eps * values[-1]
    return vectors / (np.maximum(values, floor) + ridge) @ vectors.T


def _exact_basis(XtH: Block, inverse: Any, dtype: Any) -> tuple[Any, Any]:
    return _rounded(XtH @ inverse, dtype)


def _hals_basis(XtH: Block, B: Any, M: Any, dtype: Any) -> tuple[Any, Any]:
    return _rounded(hals(B, XtH.raw, M, _ROUNDS), dtype)


def _rounded(B: np.ndarray, dtype: Any) -> tuple[Any, Any]:
    """Return B rounded to the dtype of X, as used in passes, so that the objective refers to it, and B'B."""
    B = B.astype(dtype, copy=False).astype(np.float64, copy=False)
    return B, B.T @ B


def _product(X: Block, B: Any) -> Any:
    return X.double() @ B


def _transposed(X: Block, H: Any) -> Any:
    return X.double().t(H)


def _place(X: Block, mask: Any, G: Any) -> tuple[Any, Any]:
    return X.projected_sums(G, mask)


def _place_nonnegative(X: Block, H: Any, mask: Any, B: Any, M: Any) -> tuple[Any, Any]:
    H = hals(H, X @ B, M, _ROUNDS) * mask[:, None]
    return H, factor_sums(X, H)
