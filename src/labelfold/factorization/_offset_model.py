r"""X as U V and offsets of rows and columns: the data-dependent terms of the objective of LSDR and NSDR.

With t the unit of row offsets, Z = [U, bu / t] (n x (k+1)), V1 = [V; t 1'] ((k+1) x d) and c = bv, the cost of a row
x of X is

.. math:: b \|x - c - V_1'z\|^2 + \lambda_U \|z\|^2

so an unlabelled row is at q = G'(x - c), G = V1' M^{-1}, M = V1 V1' + (lambda U / b) I, independently of all other
rows. A labelled row is at z = q + its displacement D, which costs b D'MD more.

Two classes compute these terms. `RowsInMemory` keeps rows dense: the labelled ones, and the unlabelled ones or, if
they are many, the d + 1 rows of a triangular factor, which have the same sums (one pass over X in total).
`RowsInPasses` makes a pass over X for each term, and keeps a sparse X sparse.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from scipy import linalg

from labelfold.factorization._components import squared_misfit, svd_start, weighted
from labelfold.rows import Block, Centered, Rows, as_rows, center_parts, check_fits, dense_block_rows


class RowFit(NamedTuple):
    """The matrices of the ridge fit that embeds a row: V1, M and G as above."""

    V1: np.ndarray  # (k + 1, d)
    M: np.ndarray  # (k + 1, k + 1)
    M_inverse: np.ndarray
    G: np.ndarray  # (d, k + 1)


def row_fit(V: np.ndarray, ridge: float, offset_unit: float) -> RowFit:
    """Return V1, M and G, given V (k, d), lambda U / b and the unit of row offsets."""
    V1 = np.vstack([V, np.full(V.shape[1], offset_unit)])
    M = V1 @ V1.T
    M.ravel()[:: len(M) + 1] += ridge
    # LAPACK is called directly: for such a small matrix the wrappers take longer than the computation.
    factor, failed = linalg.lapack.dpotrf(M, lower=1)
    if not failed:
        inverse, failed = linalg.lapack.dpotrs(factor, np.eye(len(M)), lower=1)
    if failed:  # the ridge is lost in round-off
        inverse = np.linalg.pinv(M, hermitian=True)
    return RowFit(V1, M, inverse, V1.T @ inverse)


class RowsInMemory:
    """Centred rows kept dense, first the labelled ones; ``counts`` are the weights of the offset c in each.

    With weights of the rows, rows and counts are multiplied by the square roots of these, and so are positions Z:
    all sums of squares and products are then weighted.
    """

    def __init__(self, X: np.ndarray, counts: np.ndarray, n_labelled: int) -> None:
        self.X, self.counts, self.n_labelled = X, counts, n_labelled
        self._Y = self._Q = self._Z = self._R = np.empty((0, 0))

    def embed(self, f: RowFit, c: np.ndarray) -> np.ndarray:
        """Return q of the labelled rows, (l, k + 1)."""
        self._Y = self.X - self.counts[:, None] * c
        self._Q = self._Y @ f.G
        return self._Q[: self.n_labelled]

    def misfit(self, f: RowFit, c: np.ndarray, Z: np.ndarray) -> tuple[float, float]:
        """Return ||R||^2 and ||Z||^2 over all rows, with the residual R = X - c - Z V1.

        Labelled rows are at Z; the others are at their positions from the last call of `embed`.
        """
        self._Z = np.vstack([Z, self._Q[self.n_labelled :]])
        self._R = self._Y - self._Z @ f.V1
        return float(np.vdot(self._R, self._R)), float(np.vdot(self._Z, self._Z))

    def residual_sums(
        self, f: RowFit, c: np.ndarray, Z: np.ndarray, P: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Z'R (k + 1, d), P'R over labelled rows only, and 1'R (d,), after `misfit` with the same Z."""
        return self._Z.T @ self._R, P.T @ self._R[: self.n_labelled], self.counts @ self._R

    def squares(self, Z: np.ndarray) -> np.ndarray:
        """Return the squared norm of each column of Z over all rows, (k + 1,), after `embed`."""
        Q = self._Q[self.n_labelled :]
        return np.einsum("ij,ij->j", Z, Z) + np.einsum("ij,ij->j", Q, Q)

    def directions(self, k: int, random_state: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the k largest singular values and right singular vectors (k, d) of the rows."""
        return _right_vectors(self.X, k)

    def row_centred_directions(
        self, k: int, found: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the same for rows from which their own means are subtracted."""
        return _right_vectors(self.X - self.X.mean(axis=1, keepdims=True), k)


class RowsInPasses:
    """Rows in their container, with a pass for each term; labelled rows are read into memory.

    ``root`` (n,) has the square roots of the weights of the rows; Z of labelled rows is multiplied by them.
    """

    def __init__(
        self, rows: Rows, mean: np.ndarray, index: np.ndarray, root: np.ndarray | None = None
    ) -> None:
        n = rows.shape[0]
        self.rows, self.mean, self.n, self.n_labelled = rows, mean, n, len(index)
        check_fits(rows, "this factorisation", "use LDA or LabelFold, or fewer labels", n_rows=len(index))
        self.labelled = rows.take(index)
        self.root = root
        self.root_labelled = np.ones(len(index)) if root is None else root[index]
        self.mask = _unlabelled_mask(rows, index, root) if len(index) < n else None
        self._unlabelled: tuple = ()
        self._ZtR = self._colsum = np.empty(0)

    def embed(self, f: RowFit, c: np.ndarray) -> np.ndarray:
        """Return q of the labelled rows, (l, k + 1), and compute those of the others, in one pass over X."""
        shared = (*center_parts(self.mean + c, self.rows.dtype), f.G)
        if self.mask is not None:
            sums = _unlabelled_sums if self.root is None else _weighted_unlabelled_sums
            self._unlabelled = self.rows.sum(sums, self.mask, shared=shared)
        Q = np.asarray(self.labelled.get(self.labelled.map(_embed, shared=shared)), dtype=np.float64)
        return Q if self.root is None else self.root_labelled[:, None] * Q

    def misfit(self, f: RowFit, c: np.ndarray, Z: np.ndarray) -> tuple[float, float]:
        """Return ||R||^2 and ||Z||^2 over all rows; see `RowsInMemory.misfit`."""
        square, YtZ, total = self._labelled_sums(Z, c)
        ZtZ = Z.T @ Z
        ZtR = YtZ.T - ZtZ @ f.V1
        misfit = square - np.vdot(YtZ.T + ZtR, f.V1)
        ones = Z.sum(axis=0) if self.root is None else self.root_labelled @ Z
        colsum, size = total - ones @ f.V1, np.trace(ZtZ)
        if self.mask is not None:
            square, YtQ, total, QtQ, ones = self._unlabelled
            rest = YtQ.T - QtQ @ f.V1
            misfit += square - np.vdot(YtQ.T + rest, f.V1)
            ZtR, colsum, size = ZtR + rest, colsum + total - ones @ f.V1, size + np.trace(QtQ)
        self._ZtR, self._colsum = ZtR, colsum
        return max(float(misfit), 0.0), float(size)

    def residual_sums(
        self, f: RowFit, c: np.ndarray, Z: np.ndarray, P: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Z'R, P'R over labelled rows only, and 1'R; see `RowsInMemory.residual_sums`."""
        PtR = np.zeros((0, len(c)))
        if P.shape[1]:
            _, YtP, _ = self._labelled_sums(P, c)
            PtR = YtP.T - (P.T @ Z) @ f.V1
        return self._ZtR, PtR, self._colsum

    def _labelled_sums(self, W: np.ndarray, c: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return ||Y||^2, Y'W and 1'Y of the labelled rows Y less their centre, weighted."""
        shared = center_parts(self.mean + c, self.rows.dtype)
        if self.root is None:
            return self.labelled.sum(_residual_sums, W, shared=shared)
        return self.labelled.sum(_weighted_residual_sums, W, self.root_labelled, shared=shared)

    def squares(self, Z: np.ndarray) -> np.ndarray:
        """Return the squared norm of each column of Z over all rows, (k + 1,), after `embed`."""
        squares = np.einsum("ij,ij->j", Z, Z)
        return squares if self.mask is None else squares + np.diag(self._unlabelled[3])

    def directions(self, k: int, random_state: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return approximations of the k largest singular values and right singular vectors (k, d) of the rows."""
        rows = weighted(Centered(self.rows, self.mean), self.root)
        start = svd_start(rows, min(k, *self.rows.shape), random_state)
        positive = start.sizes > 0
        s = start.sizes[positive]
        return s, (start.B[:, positive] / np.sqrt(s)).T  # removes the factors sqrt(s)

    def row_centred_directions(
        self, k: int, found: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the same for rows less their own means, approximated from the given ones."""
        s, Vt = found
        return _right_vectors(s[:, None] * (Vt - Vt.mean(axis=1, keepdims=True)), k)


def offset_rows(
    rows: Rows,
    index: np.ndarray,
    mean: np.ndarray,
    k: int,
    max_bytes: int,
    max_growth: float = 4.0,
    few_entries: int = 1_000_000,
    root: np.ndarray | None = None,
) -> RowsInMemory | RowsInPasses:
    """Return the centred rows, kept dense if that is faster and takes at most ``max_bytes``.

    With ``root`` (n,), the square roots of the weights of the rows, rows are multiplied by them.

    They are read in passes if dense rows would have more than ``max_growth`` times the stored entries of X, and more
    than ``few_entries``. In passes ``NSDR(10, max_iter=20)`` on 1,797 x 64 takes 2.4 times as long, on 20,000 x 100
    4.5 times. With all rows kept dense in place of the triangular factor the latter takes 7 times as long.
    """
    n, d = rows.shape
    l, others = len(index), n - len(index)  # noqa: E741
    # A triangular factor costs n d^2, an evaluation n d k, so the factor pays off if d is at most 100 times k.
    as_triangle = others > d + 1
    entries = (l + min(others, d + 1)) * d
    stored = n * rows.row_bytes() / np.dtype(rows.dtype).itemsize
    too_large = 8 * entries > max_bytes or entries > max(max_growth * stored, few_entries)
    if too_large or (as_triangle and d > 100 * (k + 1)):
        return RowsInPasses(rows, mean, index, root)
    X = [_dense(rows, index) - mean]
    counts = np.ones(l + (0 if as_triangle else others))
    rest = index[:0] if as_triangle or not others else np.setdiff1d(np.arange(n), index)
    if root is not None:
        counts = root[np.append(index, rest)]
        X[0] *= counts[:l, None]
    if as_triangle:
        unlabelled = _unlabelled_mask(rows, index, root)
        parts = center_parts(mean, rows.dtype)
        R = rows.sweep(_triangle, unlabelled, shared=parts, most_rows=dense_block_rows(8 * d))[1]
        X.append(R[:, :-1])
        counts = np.append(counts, R[:, -1])
    elif others:
        X.append(_dense(rows, rest) - mean)
        if root is not None:
            X[1] *= counts[l:, None]
    return RowsInMemory(np.vstack(X), counts, l)


class PrincipalDirections(NamedTuple):
    """Singular values and vectors of X as initial values of a basis, each pair (s, Vt) of shapes (m,) and (m, d)."""

    by_column: tuple[np.ndarray, np.ndarray]  # for X centred by column
    by_both: tuple[np.ndarray, np.ndarray]  # for X centred by column and row
    random: np.ndarray  # (k, d)  random vectors of norm 1


def start_directions(
    data: RowsInMemory | RowsInPasses, d: int, k: int, random_state: Any
) -> PrincipalDirections:
    """Return the k largest singular values of X and their vectors."""
    seed = random_state.randint(np.iinfo(np.int32).max)
    by_column = data.directions(k, seed)
    random = np.random.default_rng(seed).standard_normal((k, d))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    return PrincipalDirections(by_column, data.row_centred_directions(k, by_column), random)


def start_bases(
    found: PrincipalDirections, *, b: float, lu: float, lv: float, drawn: bool = False
) -> list[np.ndarray]:
    """Return initial values of V (k, d): singular vectors of X centred by column, and by column and row.

    With ``drawn`` it is one basis instead: random vectors with the mean norm of the singular ones.

    Without labels U V would consist of the singular vectors with their values shrunk by sqrt(lu lv) / b, and their
    norm shared between U and V according to the penalties. Components that this would set to 0 are kept small
    instead, and those beyond the rank are random: a component of 0 has no gradient and would stay 0.
    """
    bases = []
    for s, Vt in (found.by_column,) if drawn else (found.by_both, found.by_column):
        V = found.random.copy()
        sizes = np.zeros(len(V))
        sizes[: len(s)] = s - np.sqrt(lu * lv) / b
        sizes = np.maximum(sizes, 1e-3 * s.max(initial=0.0))
        if drawn:
            sizes[:] = sizes.mean()
        else:
            V[: len(s)] = Vt
        bases.append(V * (np.sqrt(sizes) * (lu / lv) ** 0.25)[:, None])
    return bases


def _right_vectors(X: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest singular values and right singular vectors, with half the digits, as initial values.

    Singular values that are round-off are left out: their vectors depend on the order of summation and would lead to
    different minima.
    """
    d = X.shape[1]
    if d <= 2 * len(X):
        # All of them, because LAPACK may omit some of the first k if eigenvalues are equal.
        values, vectors = linalg.eigh(X.T @ X, check_finite=False, driver="evd")
        s, Vt = np.sqrt(np.maximum(values[::-1][:k], 0.0)), vectors[:, ::-1][:, :k].T
    else:
        _, s, Vt = linalg.svd(X, full_matrices=False, check_finite=False)
        s, Vt = s[:k], Vt[:k]
    # Smaller ones are round-off, since they are square roots of eigenvalues of X'X.
    known = s > 1e-6 * s.max(initial=0.0)
    s, Vt = s[known], Vt[known]
    largest = np.abs(Vt).argmax(axis=1)
    return s, Vt * np.sign(Vt[np.arange(len(Vt)), largest])[:, None]


def _unlabelled_mask(rows: Rows, index: np.ndarray, root: np.ndarray | None) -> Any:
    """Return 0 for labelled rows, at ``index``, and 1 or the root of the weight for others, stored with the rows."""
    if root is None:
        return rows.spread(index, np.zeros(len(index), dtype=rows.dtype), 1)
    mask = root.astype(rows.dtype)
    mask[index] = 0
    return rows.put(mask)


def _dense(rows: Rows, index: np.ndarray) -> np.ndarray:
    return np.asarray(rows.take(index).whole().dense(), dtype=np.float64)


def _embed(X: Block, center: Any, rest: Any, G: Any) -> Any:
    return X.double().shift(center, rest) @ G


def _unlabelled_sums(X: Block, mask: Any, center: Any, rest: Any, G: Any) -> tuple[Any, ...]:
    Y = X.double().shift(center, rest)
    xp = array_namespace(mask)
    mask = xp.astype(mask, Y.dtype, copy=False)
    Q = (Y @ G) * mask[:, None]
    return X.xp.sum(Y.sq() * mask), Y.t(Q), Y.scale(mask).colsum(), Q.T @ Q, X.xp.sum(Q, axis=0)


def _weighted_unlabelled_sums(X: Block, root: Any, center: Any, rest: Any, G: Any) -> tuple[Any, ...]:
    Y = X.double().shift(center, rest).scale(root)
    Q = Y @ G
    return X.xp.sum(Y.sq()), Y.t(Q), Y.scale(root).colsum(), Q.T @ Q, X.xp.sum(Q * root[:, None], axis=0)


def _residual_sums(X: Block, W: Any, center: Any, rest: Any) -> tuple[Any, ...]:
    Y = X.double().shift(center, rest)
    return X.xp.sum(Y.sq()), Y.t(W), Y.colsum()


def _weighted_residual_sums(X: Block, W: Any, root: Any, center: Any, rest: Any) -> tuple[Any, ...]:
    Y = X.double().shift(center, rest).scale(root)
    return X.xp.sum(Y.sq()), Y.t(W), Y.scale(root).colsum()


def _triangle(X: Block, mask: Any, center: Any, rest: Any) -> tuple[None, Any]:
    return None, X.double().shift(center, rest).scale(mask).qr(mask[:, None])


def factor_cost(
    X: Any,
    U: np.ndarray,
    row_offsets: np.ndarray,
    V: np.ndarray,
    column_offsets: np.ndarray,
    *,
    reconstruction_share: float,
    row_penalty: float = 0.1,
    basis_penalty: float = 1.0,
    offset_unit: float = 1.0,
) -> float:
    """Return b ||X - UV - bu 1' - 1 bv'||^2 + lu (||U||^2 + ||bu / t||^2) + lv ||V||^2, in one pass over X."""
    Z = np.column_stack([U, np.asarray(row_offsets) / offset_unit])
    V1 = np.vstack([V, np.full(np.shape(V)[1], offset_unit)])
    misfit = squared_misfit(Centered(as_rows(X), column_offsets), Z, V1.T)
    return float(reconstruction_share * misfit + row_penalty * np.vdot(Z, Z) + basis_penalty * np.vdot(V, V))
