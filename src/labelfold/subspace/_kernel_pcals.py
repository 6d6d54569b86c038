"""KernelPCALS: PCALS in the space of a kernel, exactly or with Nystroem features.

`fit` and `predict` are those of `NestedSubspace` (`_pcals.py`). The rows are read as features (`KernelFeatures`), or
directions are coefficients of the rows (`KernelCoefficients`, with the products of `KernelSpace`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy import linalg

from labelfold.base import KernelForm
from labelfold.features import KernelMap, cholesky_features, kernel_map, round_off
from labelfold.labels import Labels
from labelfold.numerics import MAX_GRAM_BYTES, whitening
from labelfold.rows import Block, Rows, as_rows, dense_block_rows, run_jobs, shares, single_blas
from labelfold.subspace._pcals import NestedSubspace
from labelfold.subspace._search import LostDigits, is_definite
from labelfold.subspace._space import (
    MAX_NEWTON,
    LabelledSpace,
    Space,
    TrainingData,
    Vectors,
    label_factors,
    rooted_responses,
)
from labelfold.utils import FAST, compiled

# Largest round-off of the scores of labelled rows along a direction, relative to these; and of scores along a vector
# of the search, relative to its norm.
_LOST, _USELESS = 1e-9, 1e-6


class KernelPCALS(KernelForm, NestedSubspace):
    r"""PCA-based least squares in the space of a kernel.

    `PCALS` with the features of a kernel in place of the columns. Its notes on directions and labels also hold here.
    A direction is a sum of the features of rows, :math:`w = \sum_i e_i \phi(x_i)`, so only kernel values between rows
    are needed.

    =====================  ==============  ==========================================================
    here                   in the paper    what it is
    =====================  ==============  ==========================================================
    K (n, n)               K               the kernel matrix of all rows, centred implicitly
    E (m, k)               M, eta          ``components_.T``: coefficients of the directions
    reconstruction         lambda          weight of the rows relative to the labels
    gamma                  sigma           for the RBF kernel, :math:`\gamma = 1 / (2 \sigma^2)`
    =====================  ==============  ==========================================================

    Parameters
    ----------
    n_components : int or "cv", default=2
        Number of directions; see `PCALS`.
    kernel : str or callable, default="rbf"
        As in `sklearn.metrics.pairwise.pairwise_kernels`: "rbf", "poly", "linear", ..., or a function of two rows.
        Without landmarks a kernel that is not positive semi-definite (often "sigmoid") is refused.
    gamma : float, "auto" or "scale", default="auto"
        Parameter of the kernel; see `LDA`. It is computed from all rows.
    degree, coef0 : float, default=None
        Parameters of the kernel; see `LDA`.
    reconstruction : float or "auto", default="auto"
        Weight of the reconstruction error of the features; see `PCALS`.
    n_landmarks : int, "auto" or None, default="auto"
        Number of rows, drawn from all, for Nystroem features that approximate the kernel. Directions are then found
        in these features, so the kernel matrix need not fit in memory. None is exact. "auto" is exact if
        ``max_gram_bytes`` allows it, and otherwise uses 1,000 landmarks.
    center : bool, default=True
        Whether to centre features and responses. New rows are centred in the same way.
    refit : bool, default=False
        Whether to refit all coefficients jointly when the directions are known. With a large ``reconstruction`` the
        result is PCA followed by least squares.
    ridge : float, default=0.0
        Added to the diagonal, for a sum over the labelled rows, when coefficients are refitted; without ``refit`` it
        has no effect.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, or of the labels, in the loss of the labels. "balanced" gives all classes the same
        total weight.
    task : {"auto", "classification", "regression"}, default="auto"
        "auto" reads floats with fractions as numbers to predict, everything else as classes or labels.
    candidates : int or sequence of int, default=32
        Numbers of directions for "cv". An integer m stands for 1, 2, ..., m.
    cv : int, default=5
        Number of folds of the labelled rows; fewer if there are fewer rows (for numbers, fewer than twice as many).
        Held-out rows stay in training as unlabelled rows. Directions are nested, so a fold costs one fit.
    repeats : int, default=3
        Number of draws of the folds for up to 200 labelled rows; one for more.
    one_standard_error : bool, default=False
        Whether "cv" chooses the smallest number within one standard error of the best score, instead of the best.
    tol : float, default=1e-8
        Tolerance of the steps towards a direction; see `PCALS`.
    max_iter : int, default=200
        Largest number of such steps for a direction.
    max_gram_bytes : int, default=512 MB
        Largest size in bytes of the kernel matrix: 512 MB are 8,192 rows, 8 GB 32,768.
    random_state : int, RandomState instance or None, default=0
        Seed of the landmarks, and of the random numbers of `PCALS`.
    verbose : int, default=0
        1 shows a progress bar over the directions.
    on_interrupt : {"raise", "keep"}, default="raise"
        Whether Ctrl-C raises KeyboardInterrupt, or keeps the directions found so far, if there are any, with a
        warning.
    unlabeled : int, str or None, default=-1
        The value in y that marks a row as unlabelled; missing values (None, NaN, pandas.NA) always do. In
        regression only they do.

    Attributes
    ----------
    components_ : ndarray of shape (k, m)
        Coefficients of the directions: of kernel values with m training rows, which span all others up to round-off;
        or of Nystroem features (then orthonormal).
    mean_ : ndarray of shape (m,)
        Subtracted from the kernel values, or features, of a row.
    feature_map_ : object
        The map of a row to its kernel values with these m training rows, or to its Nystroem features.
    gamma_ : float or None
        The gamma of the kernel, given or computed from the rows.
    embedding_coef_ : ndarray of shape (q, k)
        Coefficients of the function on the embedding. The columns of X have no weights (``coef_``), since the
        function is not linear in them.
    embedding_intercept_ : ndarray of shape (q,)
        Intercepts of the function on the embedding.
    embedding_coef_path_, embedding_intercept_path_ : ndarray of shape (k, q, k), (k, q)
        Both with 1, 2 ... k components.
    gains_, objective_, reconstruction_, n_components_, cv_results_
        As in `PCALS`.
    task_, classes_, n_iter_
        As in `PCALS`.
    n_features_in_ : int
        Number of columns of X in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, if X has any.

    Notes
    -----
    Memory beside a dense X, at most: ``40*q*q + 40*q*d`` bytes in fit, none in transform, and 24 MB
    (docs/memory.md).

    Exact: the kernel matrix is computed once, :math:`O(n^2 d)`. For "rbf", "laplacian", "chi2" and "cosine" of a rank
    beyond 512, as a part of the matrix tells, directions are found as coefficients of all rows, and a step is a
    product of K with a few vectors, :math:`O(n^2)`; "auto" then uses m = n. For other kernels, smaller ranks, and
    where such coefficients would lose digits, K is factorised in place, :math:`K = LL'`, where L has as many columns
    m as the rank of K, in :math:`O(n m^2)` time: at most :math:`n^3 / 3`, and little for a smooth kernel. The rows of
    L are features whose inner products are the kernel, and the rest is `PCALS` on them:
    beyond 2,048 a step is a pass over L. Memory is :math:`8 n^2` bytes, and up to 2,048 columns a few m x m matrices.
    Nystroem: one pass over X, as `PCALS` with ``n_landmarks`` columns. The model stores m training rows, or the
    landmarks.

    References
    ----------
    Y.-M. Zhang, X. Hou, S. Xiang, C.-L. Liu. Subspace regularization: a new semi-supervised learning method.
    ECML PKDD 2009.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from labelfold import KernelPCALS
    >>> X, y = make_moons(400, noise=0.05, random_state=0)
    >>> few = y.copy()
    >>> few[20:] = -1
    >>> model = KernelPCALS(n_components=8, gamma=5.0).fit(X, few)
    >>> bool(model.score(X[20:], y[20:]) > 0.95)
    True
    """

    _parameter_constraints = {
        **NestedSubspace._parameter_constraints,
        **KernelForm._parameter_constraints,
        "kernel": [str, callable],
    }

    def __init__(
        self,
        n_components: int | Literal["cv"] = 2,
        *,
        kernel: str | Callable[..., float] = "rbf",
        gamma: float | Literal["auto", "scale"] = "auto",
        degree: float | None = None,
        coef0: float | None = None,
        reconstruction: float | Literal["auto"] = "auto",
        n_landmarks: int | Literal["auto"] | None = "auto",
        center: bool = True,
        refit: bool = False,
        ridge: float = 0.0,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        task: Literal["auto", "classification", "regression"] = "auto",
        candidates: int | Sequence[int] | np.ndarray = 32,
        cv: int = 5,
        repeats: int = 3,
        one_standard_error: bool = False,
        tol: float = 1e-8,
        max_iter: int = 200,
        max_gram_bytes: int = MAX_GRAM_BYTES,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        on_interrupt: Literal["raise", "keep"] = "raise",
        unlabeled: Any = -1,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.reconstruction = reconstruction
        self.n_landmarks = n_landmarks
        self.center = center
        self.refit = refit
        self.ridge = ridge
        self.class_weight = class_weight
        self.task = task
        self.candidates = candidates
        self.cv = cv
        self.repeats = repeats
        self.one_standard_error = one_standard_error
        self.tol = tol
        self.max_iter = max_iter
        self.max_gram_bytes = max_gram_bytes
        self.random_state = random_state
        self.verbose = verbose
        self.on_interrupt = on_interrupt
        self.unlabeled = unlabeled

    def _training_data(
        self, rows: Rows, labels: Labels, Y: np.ndarray, weights: np.ndarray | None, **options: Any
    ) -> Iterator[Any]:
        self._set_feature_map(kernel_map, rows, random_state=self._seed, centred=self.center, weights=weights)
        if not isinstance(self.feature_map_, KernelMap):
            yield TrainingData(self._featurized(rows), labels, Y, weights=weights, **options, is_slow=True)
            return
        if weights is not None:  # the map holds the rows that have a weight
            kept = np.flatnonzero(weights)
            index = np.searchsorted(kept, labels.index)
            labels, weights = replace(labels, labelled=labels.labelled[kept], index=index), weights[kept]
        K = _kernel_matrix(self.feature_map_)
        is_large = self.feature_map_.is_positive and has_large_rank(K)
        if is_large:
            yield KernelCoefficients(
                K, labels, Y, weights=weights, label_weights=options["label_weights"], center=self.center
            )
        data = KernelFeatures(K, labels, Y, weights=weights, **options)
        if is_large:
            data.dimension = len(K)
        # In the space of the kernel all other rows are linear combinations of these.
        self.feature_map_.points = self.feature_map_.points[data.pivots]
        yield data


def _kernel_matrix(feature_map: Any) -> np.ndarray:
    """Return the kernel matrix of the fitted rows."""
    rows = as_rows(feature_map.points)
    most_rows = dense_block_rows(8 * rows.shape[0])
    return rows.sweep(_kernel_rows, shared=(feature_map,), most_rows=most_rows)[0]


def _kernel_rows(X: Block, feature_map: Any) -> tuple[Any, None]:
    return feature_map.of_points(X.raw), None


class KernelFeatures(TrainingData):
    """Rows in the space of a kernel: K = L L' by a pivoted Cholesky factorisation, with the rows of L as features.

    Pivots are chosen greedily, and the factorisation stops when the residual is zero. The r pivot rows then span all
    others. The features of a row are :math:`L_r^{-1} k(x)`, from its kernel values with the pivots, so new rows have
    them too.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel matrix of all rows; it is overwritten.
    labels : Labels
        The labels.
    Y : ndarray of shape (l, q)
        Responses of the labelled rows.
    weights, label_weights : ndarray of shape (n,) and (l,), optional
        As in `TrainingData`.
    center : bool
        Whether to centre features.
    max_gram_bytes : int
        Largest size of an r x r matrix, and of labelled rows.
    random_state : int
        As in `TrainingData`.

    Attributes
    ----------
    pivots : ndarray of shape (r,)
        The rows that span all others.
    feature_mean : ndarray of shape (r,)
        The mean kernel values of all rows with these.
    """

    def __init__(
        self,
        K: np.ndarray,
        labels: Labels,
        Y: np.ndarray,
        *,
        weights: np.ndarray | None = None,
        label_weights: np.ndarray | None = None,
        center: bool,
        max_gram_bytes: int,
        random_state: int = 0,
    ) -> None:
        L, order = cholesky_features(K)
        self.pivots = order[: L.shape[1]]
        # Rows stay in the order of the factorisation, which avoids a copy; labels are permuted accordingly.
        where = np.empty(len(order), dtype=np.intp)
        where[order] = np.arange(len(order))
        index = where[labels.index]
        sort = np.argsort(index)
        mask = np.zeros(len(order), dtype=bool)
        mask[index] = True
        moved = replace(
            labels,
            labelled=mask,
            index=index[sort],
            values=labels.values[sort],
            weights=None if labels.weights is None else labels.weights[sort],
        )
        super().__init__(
            as_rows(L),
            moved,
            Y[sort],
            weights=None if weights is None else weights[order],
            label_weights=None if label_weights is None else label_weights[sort],
            center=center,
            max_gram_bytes=max_gram_bytes,
            random_state=random_state,
        )
        self.triangle = L[: L.shape[1]]
        self.feature_mean = self.triangle @ self.mean

    def components(self, W: np.ndarray) -> np.ndarray:
        """Return directions as combinations of the pivot rows."""
        return linalg.solve_triangular(self.triangle, W, lower=True, trans=1, check_finite=False)


class KernelCoefficients:
    """Rows in the space of a kernel, of which all vectors are combinations; see `KernelSpace`.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel matrix of all rows.
    labels : Labels
        The labels.
    Y : ndarray of shape (l, q)
        Responses of the labelled rows.
    weights, label_weights : ndarray of shape (n,) and (l,), optional
        As in `TrainingData`; weights of rows are above 0.
    center : bool
        Whether to centre features.

    Attributes
    ----------
    labels, Y
        As given.
    dimension : int
        As in `TrainingData`: n, since the rank is large.
    drawn, pivots : ndarray
        Indices of the labelled rows for cross-validation, and of the rows that span all others: all.
    feature_mean : ndarray of shape (n,)
        The mean kernel values of all rows with these.
    """

    def __init__(
        self,
        K: np.ndarray,
        labels: Labels,
        Y: np.ndarray,
        *,
        weights: np.ndarray | None = None,
        label_weights: np.ndarray | None = None,
        center: bool,
    ) -> None:
        n = len(K)
        self.kernel, self.labels, self.Y = K, labels, Y
        self.roots = np.ones(n) if weights is None else np.sqrt(weights)
        self.label_roots = None if label_weights is None else np.sqrt(label_weights)
        self.factor = label_factors(self.roots, self.label_roots, labels.index)
        # The products of rows times the roots of their weights.
        self.K = K if weights is None else K * np.outer(self.roots, self.roots)
        self.dimension, total = n, float(self.roots @ self.roots)
        self.drawn, self.pivots = np.arange(len(Y)), np.arange(n)
        self.feature_mean = K @ self.roots**2 / total if center else np.zeros(n)
        # Centring removes the part along this unit vector.
        self.unit = self.roots / np.sqrt(total) if self.feature_mean.any() else None
        self.noise = 10 * np.sqrt(n) * float(np.finfo(np.float64).eps)

    def known(self, which: np.ndarray | None = None) -> LabelledSpace:
        """Return the data of a pursuit, with all labels known or only some."""
        chosen = slice(None) if which is None else which
        factor = None if self.factor is None else self.factor[chosen]
        space = KernelSpace(self.K, self.unit, self.labels.index[chosen], self.noise, factor)
        return LabelledSpace(space, *rooted_responses(self.Y, self.label_roots, which))

    def scores(self, which: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return the coordinates of some labelled rows along directions."""
        return (self.kernel[self.labels.index[which]] - self.feature_mean) @ self.components(W)

    def components(self, W: np.ndarray) -> np.ndarray:
        """Return directions as combinations of all rows."""
        return self.roots[:, None] * _less(W, self.unit)


def _less(B: np.ndarray, unit: np.ndarray | None) -> np.ndarray:
    """Return columns without their part along a unit vector, if there is one."""
    return B if unit is None else B - np.outer(unit, unit @ B)


def has_large_rank(K: np.ndarray) -> bool:
    """Return whether the rank of a kernel matrix is known to be large, from a part of it.

    Then a factor has nearly as many columns as K. With it a fit takes 4 to 9 times as long as with coefficients, for
    2,000 or 6,000 rows of `benchmarks/pcals.py --only kernel` and False for the result of this function.
    """
    some = np.random.default_rng(0).permutation(len(K))[: MAX_NEWTON + 1]
    if len(some) <= MAX_NEWTON:
        return False
    A = K[np.ix_(some, some)]
    A.flat[:: len(A) + 1] -= round_off(K)
    with single_blas():  # too small for several threads to gain
        return is_definite(A)


class KernelVectors(Vectors):
    """Vectors whose inner product is given by S itself: coefficients of rows in the space of a kernel, with S = K."""

    def dot(self, B: np.ndarray) -> np.ndarray:
        """Return the inner products with other vectors."""
        return self.SQ.T @ B


class KernelSpace(Space):
    r"""Vectors :math:`w = \sum_i a_i \phi(x_i)`, given by their coefficients a (n,).

    The inner product of two vectors is :math:`a'Kb`. Their scores are K a, so ||Xw||^2 = (Ka)'(Ka): as an operator on
    coefficients S is K, and Z' puts numbers at the labelled rows. One product with K serves for the inner products,
    for S and for Z.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel matrix of all rows, which are multiplied by the roots of their weights.
    unit : ndarray of shape (n,) or None
        Features are centred if coefficients have no part along this vector; the roots of the weights, of norm 1.
    index : ndarray of shape (l,)
        The labelled rows.
    noise : float
        See `Space`.
    factor : ndarray of shape (l, 1), optional
        Multiplies the labelled rows.
    """

    block = 2

    def __init__(
        self,
        K: np.ndarray,
        unit: np.ndarray | None,
        index: np.ndarray,
        noise: float,
        factor: np.ndarray | None = None,
    ) -> None:
        self.K, self.unit, self.index, self.noise, self.factor = K, unit, index, noise, factor
        self.size, self.n_labelled = len(K), len(index)
        self.square = float(np.trace(K))
        # Z as products with coefficients (l, n).
        self.Z = K[index]
        if unit is not None:
            mean = unit @ K
            self.square -= float(mean @ unit)
            self.Z -= np.outer(unit[index], mean)
            self.Z -= np.outer(self.Z @ unit, unit)
        self.Z = self._of_labels(self.Z)
        self.row_noise = float(np.finfo(np.float64).eps * np.linalg.norm(K[index], axis=1).max())

    def none(self) -> KernelVectors:
        """Return an empty set of vectors."""
        return KernelVectors(*super().none())

    def times(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return K B and its labelled rows; the columns of B are centred if features are."""
        C = np.ascontiguousarray(B.T)
        n_jobs = len(shares(self.size, float(C.size) * self.size))
        found = run_jobs(lambda job, stop: half_products(self.K, C, 4 * job, 4 * n_jobs), range(n_jobs))
        KB = self._centred(sum(found[1:], found[0]).T)
        return KB, self._of_labels(KB[self.index])

    def _centred(self, B: np.ndarray) -> np.ndarray:
        return _less(B, self.unit)

    def _of_labels(self, Z: np.ndarray) -> np.ndarray:
        return Z if self.factor is None else self.factor * Z

    def on_labelled(self, B: np.ndarray) -> np.ndarray:
        """Return Z B."""
        return self.Z @ B

    def back(self, a: np.ndarray) -> np.ndarray:
        """Return Z'a."""
        B = np.zeros((self.size, a.shape[1]))
        B[self.index] = self._of_labels(a)
        return self._centred(B)

    def labelled_spectrum(self) -> tuple[np.ndarray, Any]:
        """Return the eigenvalues of Z Z' and the vectors."""
        return np.linalg.eigh(self._of_labels(self.Z[:, self.index].T))

    def norm(self, b: np.ndarray) -> float:
        """Return the norm of a vector as if all eigenvalues of K were equal, which saves a product."""
        return float(np.sqrt(self.square / self.size) * np.linalg.norm(b))

    def orthonormal(self, B: np.ndarray, known: Vectors) -> KernelVectors:
        """Return an orthonormal basis of the part of B orthogonal to known vectors, by a few products with K."""
        B = B - known.Q @ known.dot(B)
        norms = None
        for is_last in (False, False, True):
            B = self._centred(B)  # K does not see a constant, which would grow with each step
            found = KernelVectors(B, *self.times(B))
            if norms is None:
                norms = np.sqrt(np.maximum(np.einsum("ij,ij->j", found.Q, found.SQ), 0.0))
            found = found.less(known)
            G = found.dot(found.Q)
            # Vectors of which less than a share of 1e-10 is new are dropped. With less than a thousandth they are
            # multiplied with K again, since differences have lost digits; if that is so again, they are round-off.
            C = whitening((G + G.T) / 2, norms, 1e-10)
            is_little = (np.abs(C) * norms[:, None] > 1e3).any(axis=0)
            # Scaling magnifies what is left of known vectors, so that they are subtracted again.
            found = (found @ (C[:, ~is_little] if is_last else C)).less(known)
            if not is_little.any():
                break
            B, norms = found.Q, np.ones(found.n_vectors)
        if self.row_noise * np.linalg.norm(found.Q, axis=0).max(initial=0.0) > _USELESS:
            raise LostDigits
        return found

    def check(self, w: np.ndarray, z: np.ndarray) -> None:
        """Raise `LostDigits` if the scores z = Zw have too few digits.

        Coefficients of a direction along which rows vary little are large, and cancel in its scores.
        """
        if self.row_noise * np.linalg.norm(w) > _LOST * np.linalg.norm(z) / np.sqrt(self.n_labelled):
            raise LostDigits


@compiled(FAST)
def half_products(K: np.ndarray, X: np.ndarray, start: int, step: int) -> np.ndarray:
    """Return the part of X K, with X (k, n), of four rows out of ``step`` of the upper triangle of K, and its mirror.

    The sum over all ``start`` is X K. K is read half, once for all vectors, which stay in the cache. With
    products by BLAS a fit of 6,000 x 50 takes 2.3 times as long (`benchmarks/pcals.py --only kernel`).
    """
    k, n = X.shape
    Y = np.zeros((k, n))
    for i in range(start, n, step):
        end = min(i + 4, n)
        for v in range(k):
            for a in range(i, end):
                for b in range(i, end):
                    Y[v, a] += K[min(a, b), max(a, b)] * X[v, b]
        if end == n:
            break
        p, q, r, s = K[i, end:], K[i + 1, end:], K[i + 2, end:], K[i + 3, end:]
        for v in range(k):
            x, y = X[v, end:], Y[v, end:]
            a, b, c, d = X[v, i], X[v, i + 1], X[v, i + 2], X[v, i + 3]
            sum_a, sum_b, sum_c, sum_d = 0.0, 0.0, 0.0, 0.0
            for j in range(p.size):
                sum_a += p[j] * x[j]
                sum_b += q[j] * x[j]
                sum_c += r[j] * x[j]
                sum_d += s[j] * x[j]
                y[j] += a * p[j] + b * q[j] + c * r[j] + d * s[j]
            Y[v, i] += sum_a
            Y[v, i + 1] += sum_b
            Y[v, i + 2] += sum_c
            Y[v, i + 3] += sum_d
    return Y
