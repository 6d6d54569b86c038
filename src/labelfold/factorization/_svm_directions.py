"""Directions that tell classes apart, as non-negative sums of labelled rows: the dual variables of linear SVMs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.labels import Labels
from labelfold.numerics.svm._linear import linear_svm, linear_svms

# The relative duality gap of the machines.
_TOL = 1e-6


def dual_directions(X: Any, labels: Labels, C: float, multiclass: str) -> sparse.csr_array:
    """Return S (l, 2p): the dual variables of p linear SVMs, first of positive rows, then of negative ones (eq. 17).

    A machine's weights are w = X'(S_+ - S_-), so that S_+'X and S_-'X are the non-negative parts to be kept (eq. 7).

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (l, d)
        The labelled rows.
    labels : Labels
        One machine for two classes; for several one for each pair ("ovo") or for each against the rest ("ovr"); for
        multi-label one a label.
    C : float
        The machines' penalty on the squared hinge.
    multiclass : {"ovo", "ovr"}

    Returns
    -------
    S : csr_array of shape (l, 2p)

    Examples
    --------
    >>> from labelfold.labels import read_labels
    >>> S = dual_directions(np.array([[2.0, 0.0], [0.0, 2.0]]), read_labels(["a", "b"]), 1e6, "ovo")
    >>> S.toarray().round(3)
    array([[0.  , 0.25],
           [0.25, 0.  ]])
    """
    if labels.task == "multiclass" and multiclass == "ovo":
        pairs = list(itertools.combinations(range(labels.n_classes), 2))
        columns = [_between(X, labels.values, *pair, C) for pair in pairs]
        positive, negative = zip(*columns, strict=True)
        return sparse.csr_array(sparse.hstack([*positive, *negative], format="csr"))
    signs = labels.signs().reshape(labels.n_labelled, -1)
    alpha = linear_svms(X, signs, C, tol=_TOL).alpha  # (l, p)
    return sparse.csr_array(np.hstack([alpha * (signs > 0), alpha * (signs < 0)]))


def _between(
    X: Any, codes: np.ndarray, first: int, second: int, C: float
) -> tuple[sparse.csc_array, sparse.csc_array]:
    """Return the dual variables of the machine between two classes, as two columns (l, 1) of all labelled rows."""
    here = np.flatnonzero((codes == first) | (codes == second))
    alpha = linear_svm(X[here], np.where(codes[here] == second, 1.0, -1.0), C, tol=_TOL).alpha
    columns = []
    for code in (second, first):
        which = (codes[here] == code) & (alpha > 0)
        at = here[which]
        parts = (alpha[which], (at, np.zeros_like(at)))
        columns.append(sparse.csc_array(parts, shape=(len(codes), 1)))
    return columns[0], columns[1]
