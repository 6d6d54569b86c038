"""SSDR: semi-supervised dimensionality reduction from must-links and cannot-links (Zhang, Zhou & Chen, SDM 2007)."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from labelfold.base import ITERATIONS, LinearReducer, constraints, fitting
from labelfold.labels import Labels, read_weights
from labelfold.numerics import MAX_GRAM_BYTES, RandomRows, largest_eigenvectors, signed
from labelfold.rows import Block, Centered, Rows
from labelfold.utils import Interval, Progress, warn_user

# Maximum number of columns for which a d x d matrix is used in place of iterations, which take 1.5 times as long at
# 1,000 columns and 0.9 times at 2,000 (benchmarks/limits.py --only SSDR). It is also used if nearly all directions
# are requested.
_FEW_COLUMNS = 1000
# An eigenvalue is zero if it is smaller than this many units of round-off.
_PLACES = 10


class SSDR(LinearReducer):
    r"""Semi-supervised dimensionality reduction: spread all rows, separate cannot-links, join must-links.

    It finds orthonormal directions that maximise

    .. math:: J(W) = \tfrac12 \sum_{ij} S_{ij} \|W'x_i - W'x_j\|^2 = \mathrm{tr}(W' X'(D - S)X W)

    where :math:`S_{ij}` is :math:`1/n^2` for any two rows, plus :math:`\alpha/n_C` for a cannot-link, minus
    :math:`\beta/n_M` for a must-link, and D is diagonal with the row sums of S. The links are explicit pairs, or
    follow from labels: must-links between rows of one class, cannot-links between rows of different classes. If rows
    have weights, the entry of two rows is multiplied by both, and :math:`n^2`, n_C and n_M are sums of such products.

    ==================  ============  ===============================================================
    here                in the paper  what it is
    ==================  ============  ===============================================================
    X (n, d)            X (m, n)      all rows, labelled or not
    cannot_link_weight  alpha         weight of cannot-links
    must_link_weight    beta          weight of must-links
    n_C, n_M            n_C, n_M      numbers of links; see Notes
    W (d, k)            eigenvectors  ``components_.T``
    ==================  ============  ===============================================================

    Parameters
    ----------
    n_components : int, default=2
        Number of directions.
    cannot_link_weight : float, default=1.0
        Weight of separating rows of different classes.
    must_link_weight : float, default=20.0
        Weight of joining rows of the same class.
    tol : float, default=1e-6
        Relative residual at which iterations stop, if there are too many columns for a d x d matrix.
    max_iter : int, default=500
        Maximum number of such iterations; each reads X once.
    max_gram_bytes : int, default=512 MB
        Maximum size of a d x d matrix, and of linked rows that are read into memory.
    random_state : int, RandomState instance or None, default=0
        Seed of the initial values of these iterations; the solution depends on it only within ``tol``.
    verbose : int, default=0
        1 shows a progress bar over these iterations.
    unlabeled : int, str or None, default=-1
        The value in y that marks a row as unlabelled; missing values (None, NaN, pandas.NA) always do.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The directions W', orthonormal rows; the largest entry of each is positive.
    eigenvalues_ : ndarray of shape (k,)
        The contribution of each direction to J, descending. It is negative if must-links outweigh everything else.
    mean_ : ndarray of shape (d,)
        The mean of all rows, which `transform` subtracts. The directions do not depend on it: D - S maps constants to
        zero, so J depends only on differences of rows.
    n_iter_ : int
        Number of iterations; 1 if a d x d matrix was decomposed.
    n_features_in_ : int
        Number of columns of X in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, if X has any.

    Notes
    -----
    Memory beside a dense X, at most: ``64*d*d`` bytes in fit, none in transform, and 24 MB (docs/memory.md).

    Cost: one pass over X and a d x d eigenproblem for up to a thousand columns; otherwise one pass in each iteration,
    O(nnz k), with O(nnz + k (n + d)) memory. S has rank c + 1 for c classes; for pairs it is the sum of a matrix of
    rank 1 and a sparse one. It is never computed. Rows in explicit pairs are read into memory; if they do not fit
    ``max_gram_bytes``, an iteration reads X three times.

    For labels, links are counted as by Fang, Cheng & Hsieh (2017): :math:`n_M = \sum_c n_c^2` (each pair in both
    orders, and each row with itself) and :math:`n_C = \sum_{a<b} n_a n_b` (each pair once). For explicit pairs, n_M
    and n_C are the numbers of distinct pairs in the lists, in either order.

    Directions with eigenvalue zero, along which the rows do not differ, are left out, although they would come before
    those with negative eigenvalues. With both weights 0 the method is principal component analysis.

    References
    ----------
    D. Zhang, Z.-H. Zhou, S. Chen. Semi-supervised dimensionality reduction. SDM 2007.

    P.-W. Fang, H.-C. Cheng, C.-J. Hsieh. A hyperplane-based algorithm for semi-supervised dimension reduction.
    ICDM 2017: the implicit form of S, in its appendix.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from labelfold import SSDR
    >>> X, y = load_iris(return_X_y=True)
    >>> y[5::10] = -1                   # some labels are unknown
    >>> SSDR(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    >>> SSDR(n_components=1).fit(X, must_links=[(0, 1), (2, 3)], cannot_links=[(0, 149)]).components_.shape
    (1, 4)
    """

    mean_: np.ndarray

    _parameter_constraints = {
        **constraints("n_components", *ITERATIONS),
        "cannot_link_weight": [Interval(Real, 0, None, closed="left")],
        "must_link_weight": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        cannot_link_weight: float = 1.0,
        must_link_weight: float = 20.0,
        tol: float = 1e-6,
        max_iter: int = 500,
        max_gram_bytes: int = MAX_GRAM_BYTES,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        unlabeled: Any = -1,
    ) -> None:
        self.n_components = n_components
        self.cannot_link_weight = cannot_link_weight
        self.must_link_weight = must_link_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_gram_bytes = max_gram_bytes
        self.random_state = random_state
        self.verbose = verbose
        self.unlabeled = unlabeled

    @fitting
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        must_links: Any = None,
        cannot_links: Any = None,
    ) -> Self:
        """Find the directions, from labels or from pairs of rows.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, linked or not, in any container that `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,), default=None
            Classes; ``unlabeled`` or a missing value for unlabelled rows. None if pairs are given.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.
        must_links, cannot_links : array-like of int, shape (m, 2), default=None
            Pairs of row indices, from 0, that belong together, and that do not.

        Returns
        -------
        self : SSDR
        """
        rows = self._rows(X, reset=True)
        n, d = rows.shape
        if must_links is None and cannot_links is None:
            if y is None:
                raise ValueError(
                    "SSDR requires y to be passed, but the target y is None; pass one label a row, or pairs of rows "
                    "as must_links or cannot_links."
                )
            labels, weights = self._read_weighted(y, sample_weight, n)
            links = label_links(labels, weights, self.cannot_link_weight, self.must_link_weight)
        elif y is not None:
            raise ValueError(
                "SSDR takes its links from y or from pairs, and both were given; pass one of them."
            )
        else:
            weights = read_weights(sample_weight, n)
            links = pair_links(
                must_links, cannot_links, n, weights, self.cannot_link_weight, self.must_link_weight
            )
        with Progress("SSDR", self.max_iter, self.verbose) as progress:
            values, vectors, self.mean_, n_iter = _solve(
                rows,
                links,
                min(self.n_components, d),
                tol=self.tol,
                max_iter=self.max_iter,
                max_gram_bytes=self.max_gram_bytes,
                rng=check_random_state(self.random_state),
                callback=progress,
            )
        kept = len(values)
        if kept < self.n_components:
            warn_user(
                f"n_components={self.n_components} is more than the {kept} directions that the data determine; "
                f"{kept} are kept",
                UserWarning,
            )
        self.components_: np.ndarray = np.ascontiguousarray(signed(vectors).T)
        self.eigenvalues_ = values
        self.n_iter_ = n_iter
        return self


def objective(Z: np.ndarray, S: np.ndarray) -> float:
    """Return J: half the sum of S_ij ||z_i - z_j||^2 over all pairs of embedded rows."""
    squares = (Z**2).sum(axis=1)
    return float(0.5 * (S * (squares[:, None] + squares - 2 * Z @ Z.T)).sum())


def _solve(
    rows: Rows,
    links: Links,
    k: int,
    *,
    tol: float,
    max_iter: int,
    max_gram_bytes: float,
    rng: Any,
    callback: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return the k largest eigenvalues of X'(D - S)X but zeros, their vectors, the mean row, and the iterations."""
    n, d = rows.shape
    of_rows, weight = links.weights, links.total
    # D - S maps constants to zero, so any centre works; one near the mean keeps the digits, and is cheap.
    first = np.arange(min(256, n)) if of_rows is None else np.flatnonzero(of_rows)[:256]
    center = rows.take(first).mean().astype(rows.dtype).astype(np.float64)
    X = Centered(rows, center)
    width = min(k + 10, d)  # further columns speed up the convergence of the last
    direct = 8 * d * d <= max_gram_bytes and (d <= _FEW_COLUMNS or 4 * width >= d)
    classes = np.arange(len(links.mix))
    # The others have a weight of 1 and a degree of 1 / n.
    known = np.flatnonzero((links.codes >= 0) | (links.degrees != 1 / n))
    codes = rows.spread(known, links.codes[known], -1)
    each = () if of_rows is None else (rows.put(of_rows),)
    if direct:
        roots = np.sqrt(np.maximum([links.degrees, -links.degrees], 0.0)).T  # positive and negative part of D
        roots = rows.spread(known, roots[known], (np.sqrt(1 / n), 0.0))
        plus, minus, F, total = X.sum(_moments, codes, roots, *each, shared=(classes,))
    else:
        # X'E (d, c), X'1 (d,), and an initial block within the span of the differences of rows.
        omega = rows.map_aligned(RandomRows(width, rng.randint(np.iinfo(np.int32).max)))
        F, total, Q = X.sum(_start, codes, omega, *each, shared=(classes,))
    linked = np.flatnonzero(np.diff(links.pairs.indptr))
    XL, pairs = X, links.pairs
    if 0 < len(linked) * rows.row_bytes() <= max_gram_bytes:
        XL, pairs = Centered(rows.take(linked), center), pairs[linked][:, linked]

    def less_S(P: np.ndarray) -> np.ndarray:
        """Return -X'S X P."""
        product = F @ (links.mix @ (F.T @ P)) - np.outer(total / weight, (total / weight) @ P)
        return product + XL.t(pairs @ XL.get(XL @ P)) if len(linked) else product

    if direct:
        eps = np.sqrt(max(n, d)) * np.finfo(np.float64).eps
        A = _finite(plus - minus + less_S(np.eye(d)))
        values, vectors = np.linalg.eigh((A + A.T) / 2)
        values, vectors, norm, n_iter = values[::-1], vectors[:, ::-1], np.abs(values).max(), 1
    else:
        eps = float(np.finfo(rows.dtype).eps)
        degrees = rows.spread(known, links.degrees[known].astype(rows.dtype), 1 / n)

        def operator(P: np.ndarray) -> np.ndarray:
            return _finite(X.sum(_weighted_normal, degrees, shared=(P,)) + less_S(P))

        peak = np.abs(Q).max()
        if not peak:
            raise _nothing_varies()
        found = largest_eigenvectors(
            operator, Q / peak, k, tol=tol, eps=eps, max_iter=max_iter, block=max(4, k), callback=callback
        )
        if not found.converged:
            warn_user(
                f"SSDR stopped after {found.n_iter} iterations with a relative residual of {found.residual:.1e}, "
                f"short of tol={tol:.1e}; raise max_iter or tol",
                ConvergenceWarning,
            )
        values, vectors, norm, n_iter = found.values, found.vectors, found.norm, found.n_iter
    # Along a direction with eigenvalue zero the rows do not differ, up to the round-off of A and that of the entries
    # of X in their own precision. The latter is squared, since A contains squares, and is half of the last place.
    own = float(np.finfo(rows.dtype).eps)
    zero = max(
        norm * max(_PLACES * eps, (_PLACES * max(eps, own)) ** 2),
        np.abs(links.degrees).sum() * (own / 2 * np.abs(center).max()) ** 2,
        np.finfo(np.float64).tiny / eps,
    )
    keep = np.flatnonzero(np.abs(values) > zero)[:k]
    if not len(keep):
        raise _nothing_varies()
    return values[keep], vectors[:, keep], center + total / weight, n_iter


def _nothing_varies() -> ValueError:
    return ValueError(
        "the rows of X are all equal, or their squares vanish; vary them, or scale X to about 1."
    )


def _finite(A: np.ndarray) -> np.ndarray:
    if not np.isfinite(A).all():
        raise ValueError("the squares of X overflow; scale X to about 1.")
    return A


def _one_hot(X: Block, codes: Any, classes: Any) -> Any:
    return X.xp.astype(codes[:, None] == classes[None, :], X.dtype)


def _class_sums(X: Block, codes: Any, weights: Any, classes: Any) -> tuple[Any, Any]:
    X = X.double()
    X = X if weights is None else X.scale(weights)
    return X.t(_one_hot(X, codes, classes)), X.colsum()


def _start(X: Block, codes: Any, omega: Any, *rest: Any) -> tuple[Any, ...]:
    weights, classes = rest if len(rest) > 1 else (None, *rest)
    Q = X.double().t(omega if weights is None else omega * weights[:, None])
    return *_class_sums(X, codes, weights, classes), Q


def _moments(X: Block, codes: Any, roots: Any, *rest: Any) -> tuple[Any, ...]:
    weights, classes = rest if len(rest) > 1 else (None, *rest)
    X = X.double()
    plus, minus = X.scale(roots[:, 0]).gram(), X.scale(roots[:, 1]).gram()
    return plus, minus, *_class_sums(X, codes, weights, classes)


def _weighted_normal(X: Block, degrees: Any, P: Any) -> Any:
    return X.t(degrees[:, None] * (X @ P))


class Links(NamedTuple):
    """The matrix S of n rows, implicitly: S = ww'/l^2 - E mix E' - pairs.

    E (n, c) are one-hot codes times the weights w of the rows, whose sum is l.

    Attributes
    ----------
    degrees : ndarray of shape (n,)
        D, the row sums of S.
    weights : ndarray of shape (n,) or None
        w; None if each row counts once.
    codes : ndarray of shape (n,)
        The class of each row; -1 for none.
    mix : ndarray of shape (c, c)
    pairs : csr_array of shape (n, n)
        Symmetric; positive for must-links, negative for cannot-links.
    """

    degrees: np.ndarray
    weights: np.ndarray | None
    codes: np.ndarray
    mix: np.ndarray
    pairs: sparse.csr_array

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return len(self.codes) if self.weights is None else float(self.weights.sum())


def label_links(
    labels: Labels, weights: np.ndarray | None, cannot_link_weight: float, must_link_weight: float
) -> Links:
    """Return the links of classes: must-links within each class, cannot-links between classes."""
    n, c, counts = labels.n_rows, labels.n_classes, labels.class_totals()
    of_same = (counts**2).sum()  # n_M
    of_others = (counts.sum() ** 2 - of_same) / 2  # n_C
    alpha, beta = cannot_link_weight / of_others, must_link_weight / of_same
    mix = (alpha + beta) * np.eye(c) - alpha
    codes = np.full(n, -1, dtype=np.int64)
    codes[labels.index] = labels.values
    degrees = _uniform(weights, n)
    degrees[labels.index] -= labels.row_weights() * (mix @ counts)[labels.values]
    return Links(degrees, weights, codes, mix, sparse.csr_array((n, n)))


def _uniform(weights: np.ndarray | None, n: int) -> np.ndarray:
    """Return the row sums of ww'/l^2."""
    return np.full(n, 1 / n) if weights is None else weights / weights.sum()


def pair_links(
    must_links: Any,
    cannot_links: Any,
    n: int,
    weights: np.ndarray | None,
    cannot_link_weight: float,
    must_link_weight: float,
) -> Links:
    """Return the links of explicit pairs, each counted once; the weight of a pair is the product of its rows'."""
    must, cannot = (
        _read_pairs(given, n, name)
        for given, name in ((must_links, "must_links"), (cannot_links, "cannot_links"))
    )
    both = must[np.isin(must @ [n, 1], cannot @ [n, 1])]
    if len(both):
        raise ValueError(
            f"rows {both[0, 0]} and {both[0, 1]} are in must_links and in cannot_links; "
            "leave the pair in one of them."
        )
    if not len(must) + len(cannot):
        raise ValueError("must_links and cannot_links hold no pair; pass one at least, or labels as y.")
    of_rows = np.ones(n) if weights is None else weights
    joined, separated = (of_rows[links].prod(axis=1) for links in (must, cannot))
    if not joined.any() and not separated.any():
        raise ValueError("sample_weight is 0 in a row of every pair; give both rows of some pairs a weight.")
    values = np.append(
        joined * (must_link_weight / (joined.sum() or 1.0)),
        separated * (-cannot_link_weight / (separated.sum() or 1.0)),
    )
    i, j = np.vstack([must, cannot]).T
    upper = sparse.csr_array((values, (i, j)), shape=(n, n))
    pairs = (upper + upper.T).tocsr()
    degrees = _uniform(weights, n) - pairs.sum(axis=1)
    return Links(degrees, weights, np.full(n, -1, dtype=np.int64), np.zeros((1, 1)), pairs)


def _read_pairs(pairs: Any, n: int, name: str) -> np.ndarray:
    """Return the distinct pairs (m, 2), with the smaller row first."""
    pairs = np.asarray([] if pairs is None else pairs)
    if not pairs.size:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"{name} holds {pairs.dtype} values of shape {pairs.shape}, where pairs of row numbers are expected: "
            "integers of shape (m, 2)."
        )
    for bad, what in (
        (pairs[((pairs < 0) | (pairs >= n)).any(axis=1)], f"where X has rows 0 to {n - 1}"),
        (pairs[pairs[:, 0] == pairs[:, 1]], "where two different rows are expected"),
    ):
        if len(bad):
            raise ValueError(f"{name} has the pair ({bad[0, 0]}, {bad[0, 1]}), {what}; mend or drop it.")
    return np.unique(np.sort(pairs.astype(np.int64), axis=1), axis=0)
