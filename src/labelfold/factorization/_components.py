"""The base of factorisations: components and their main features, initial values, and non-negative rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple, overload

import numpy as np
from array_api_compat import array_namespace, device
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelfold.base import HostRows, Iterative, Reducer, constraints, embedding_in_memory
from labelfold.factorization._device_rows import least_squares_rows
from labelfold.numerics import RandomRows, check_norm, count_negative, randomized_svd, refuse_negative
from labelfold.rows import (
    Block,
    Rows,
    Weighted,
    as_rows,
    in_float64,
    on_accelerator,
    run_jobs,
    shares,
    to_device,
    to_host,
)
from labelfold.utils import Interval, StrOptions, warn_user


class Factorisation(Iterative, Reducer):
    """A factorisation X = H B' with ``components_`` B' (k, d), found by iterations."""

    _max_components = 10
    _parameter_constraints = constraints(
        *("n_components", "max_iter", "random_state", "verbose", "on_interrupt"),
        tol=[Interval(Real, 0, None, closed="left")],  # 0 takes max_iter iterations
    )

    @overload
    def transform(self, X: HostRows) -> np.ndarray: ...
    @overload
    def transform(self, X: Any) -> Any: ...
    def transform(self, X: Any) -> Any:
        """Embed rows without labels, each by its best approximation with the components.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, in any container that `labelfold.rows.as_rows` takes.

        Returns
        -------
        H : array of shape (n, k)
            H; or H (V'V)^(1/2) for an estimator with ``corrected=True``. In host memory for arrays and files;
            otherwise on the device or cluster of X.
        """
        check_is_fitted(self)
        return self._embed(self._rows(X, reset=False))

    def _embed(self, rows: Rows) -> Any:
        """Return the embedding of unlabelled rows, in one pass."""
        raise NotImplementedError

    def _training_embedding(
        self,
        rows: Rows,
        H: Any,
        scale: np.ndarray | None,
        *,
        f: Callable[[np.ndarray], np.ndarray] | None = None,
        at: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Any:
        """Return the embedding of the training rows, from that of the rows times ``scale``.

        Rows of weight 0 are embedded as new rows are. ``f`` and ``at`` are those of `Rows.result`.
        """
        if scale is None:
            return rows.result(H, f, at)
        scale = scale.astype(rows.dtype)  # as the rows were multiplied
        H = rows.map_aligned(_divided, H, rows.put(scale))
        left_out = np.flatnonzero(scale == 0)
        if len(left_out):
            others = rows.subset(left_out)
            values = others.get(self._embed_rows(others))
            index, known = (left_out[:0], values[:0]) if at is None else at
            at = np.concatenate([index, left_out]), np.concatenate([known, values])
        return rows.result(H, f, at)

    def _embed_rows(self, rows: Rows) -> Any:
        """Return the embedding of unlabelled rows, as the factorisation gets them."""
        return self._embed(rows)

    def _read_embedding(self, X: Any) -> np.ndarray:
        """Return a given embedding as an array, with an error if it does not have a column for each component."""
        H, k = embedding_in_memory(X, self.n_features_in_), len(self.components_)
        if H.shape[1] != k:
            raise ValueError(
                f"X has {H.shape[1]} columns, where {k} are expected; pass what transform returns"
            )
        return H


class AdditiveFactorisation(Factorisation):
    """A factorisation that models rows as sums of its components alone."""

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return the reconstruction of rows from their embedding, as sums of the components.

        Parameters
        ----------
        X : array of shape (n, k)
            The embedding of rows, from `transform`.

        Returns
        -------
        rows : ndarray of shape (n, d)
        """
        check_is_fitted(self)
        self._check_parts("inverse_transform")
        H = self._read_embedding(X)
        return (H @ self._back()).astype(H.dtype, copy=False)

    def top_features(self, n: int = 10, feature_names: Any = None) -> list[list[tuple[Any, float]]]:
        """Return the columns with the largest weights in each component.

        Parameters
        ----------
        n : int, default=10
            Number of columns for each component.
        feature_names : array-like of shape (d,), optional
            Names of the columns, for example ``get_feature_names_out()`` of a vectorizer; when None, those of X in
            fit, or the indices of the columns.

        Returns
        -------
        features : list of k lists of (name, weight)
            The largest weights first, by magnitude; zeros are left out.
        """
        check_is_fitted(self)
        self._check_parts("top_features")
        if not isinstance(n, Integral) or n < 0:
            raise ValueError(f"n={n!r} was given, where a whole number of features, 0 or more, is expected")
        names = (
            getattr(self, "feature_names_in_", None) if feature_names is None else np.asarray(feature_names)
        )
        if names is not None and len(names) != self.n_features_in_:
            raise ValueError(
                f"feature_names holds {len(names)} names, where {self.n_features_in_} are expected, one a column"
            )
        features = []
        for b in self.components_:
            best = np.argsort(-np.abs(b), kind="stable")[:n]
            features.append([(int(j) if names is None else str(names[j]), float(b[j])) for j in best if b[j]])
        return features

    def _check_parts(self, what: str) -> None:
        """Raise an error if the components are not over columns of X, so that ``what`` is not available."""

    def _back(self) -> np.ndarray:
        """Return the matrix that maps an embedding to rows, (k, d)."""
        return self.components_


class NonnegativeFactorisation(AdditiveFactorisation):
    """A factorisation X = H V' with non-negative factors."""

    _parameter_constraints = {
        **Factorisation._parameter_constraints,
        "init": [StrOptions({"random", "nndsvda"}), tuple, list],
    }

    def __sklearn_tags__(self) -> Any:
        """Declare that X must be non-negative."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


def weighted(rows: Rows, root: np.ndarray | None) -> Rows:
    """Return diag(root) X, or X without weights.

    Least squares are homogeneous: with the square roots of the weights, H of the new rows is diag(root) H, and every
    sum of squares or products over rows is weighted. Divergences are homogeneous too, with the weights themselves.
    """
    return rows if root is None else Weighted(rows, root)


def total_weight(weights: np.ndarray | None, n: int) -> float:
    """Return the sum of the weights of n rows."""
    return n if weights is None else float(weights.sum())


def times(start: int, stop: int, H: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return rows of H times a number each."""
    return H * scale[:, None].astype(H.dtype)


def _divided(start: int, stop: int, H: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return H / np.where(scale > 0, scale, 1)[:, None]


def check_matrix(rows: Rows, *, nonnegative: bool | str, centred: bool = False, estimator: str) -> float:
    """Check that X can be factorised, and return its squared norm, in one pass.

    Parameters
    ----------
    rows : Rows
        The data.
    nonnegative : bool or "always"
        Whether negative entries are refused: because of an option, or "always".
    centred : bool
        Whether the mean is subtracted from the rows.
    estimator : str
        Name of the estimator, for messages.

    Returns
    -------
    square : float
    """
    if nonnegative and centred:
        raise ValueError(
            "nonnegative=True and center=True were given, but a centred X has negative entries; choose one"
        )
    if nonnegative:
        square, n_negative = rows.sum(_square_and_negative)
        refuse_negative(rows, n_negative, by_choice=nonnegative != "always", estimator=estimator)
    else:
        square = rows.sum(_square)
    if square <= 0:  # for centred sparse rows it is a difference, which may be slightly negative
        raise ValueError(
            f"X holds nothing but zeros{' once it is centred' if centred else ''}, so there is nothing to factorise; "
            "give it columns that vary"
        )
    check_norm(square, rows.dtype)
    return square


def shrunk_away(B: np.ndarray, ridge: float, share: float = 1e-3) -> bool:
    """Return whether the components B are so small beside the ridge of the rows that new rows are at the origin.

    >>> shrunk_away(np.full((2, 1), 1e-3), 1.0), shrunk_away(np.ones((2, 1)), 1.0)
    (True, False)
    """
    return bool(np.linalg.norm(B, 2) ** 2 < share * ridge)


def _square(X: Block) -> Any:
    return X.xp.sum(X.double().sq())


def _square_and_negative(X: Block) -> tuple[Any, Any]:
    return _square(X), count_negative(X)


class ComponentScale(NamedTuple):
    """The scale of the components of a factorisation X = H B' of n rows, from singular values s of X.

    For c X, the data in another unit, they are c, c^2 and c times as large.

    Attributes
    ----------
    size : float
        The root mean square of s.
    variance : float
        The mean of s^2 / n: the mean square of the rows along a component.
    length : float
        The sum of s / n: the mean squared norm of a row of H, if H and B have the same norm.
    """

    size: float
    variance: float
    length: float


def component_scale(sizes: np.ndarray, n: float) -> ComponentScale:
    """Return the scale of the components with these singular values; those of 0 do not count.

    Examples
    --------
    >>> component_scale(np.array([3.0, 4.0, 0.0]), 2)
    ComponentScale(size=3.5355339059327378, variance=6.25, length=3.5)
    """
    square = float(np.mean(sizes[sizes > 0] ** 2))
    return ComponentScale(float(np.sqrt(square)), square / n, float(sizes.sum()) / n)


def chosen(weight: Any, auto: float) -> float:
    """Return a weight as given, or the value of "auto".

    >>> chosen("auto", 3.0), chosen(2, 3.0)
    (3.0, 2.0)
    """
    return float(auto) if isinstance(weight, str) else float(weight)


def factor_sums(X: Block, H: Any) -> tuple[Any, Any]:
    """Return H'H and X'H in float64: the objective is a difference of them, and would cancel in float32."""
    return X.inner(H), X.double().t(H)


def squared_misfit(X: Any, H: np.ndarray, B: np.ndarray) -> float:
    """Return ||X - H B'||^2 in one pass over X.

    >>> squared_misfit(np.eye(2), np.array([[1.0], [0.0]]), np.array([[1.0], [0.0]]))
    1.0
    """
    return float(as_rows(X).sum(_misfit, np.asarray(H), shared=(np.asarray(B),)))


def _misfit(X: Block, H: Any, B: Any) -> Any:
    X = X.double()
    cross, gram = (X @ B) * H, (H @ (B.T @ B)) * H
    return X.xp.sum(X.sq()) - 2 * X.xp.sum(cross) + X.xp.sum(gram)


class InitialFactors(NamedTuple):
    """Initial factors.

    Attributes
    ----------
    H : array of shape (n, k)
        One row for each row of X, stored with the rows.
    B : ndarray of shape (d, k)
        The basis.
    rank : int
        An upper bound of the rank of X; singular vectors beyond it are zero.
    sizes : ndarray of shape (k,)
        The singular values of X, 0 beyond its rank. For random or given factors, k equal values whose squares add up
        to the squared norm of X.
    """

    H: Any
    B: np.ndarray
    rank: int
    sizes: np.ndarray


def factor_start(
    rows: Rows,
    k: int,
    init: Any,
    squared_norm: float,
    random_state: Any,
    *,
    nonnegative: bool,
    root: np.ndarray | None = None,
    keeps_zeros: bool = False,
) -> InitialFactors:
    """Return the factors named by ``init``, "svd", "nndsvd", "nndsvda" or "random", or given as ``init``.

    Parameters
    ----------
    rows : Rows
        n rows of d columns.
    k : int
        Number of columns of the factors. There is a warning if it exceeds the rank of X.
    init : str or (H, B)
        With ``nonnegative`` "svd" means "nndsvd". "nndsvda" has no zeros, for multiplicative updates, which keep
        zeros.
    squared_norm : float
        Squared norm of X, which scales random factors.
    random_state : int, RandomState instance or None
        Seed of the singular vectors or of the random factors.
    nonnegative : bool
        Whether the factors must be non-negative.
    root : ndarray of shape (n,), optional
        The square roots of the weights by which rows of X are multiplied; rows of H are too.
    keeps_zeros : bool
        Whether updates are multiplicative, so that zeros of given factors stay zeros.

    Returns
    -------
    InitialFactors
    """
    if isinstance(init, str):
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        if init == "random":
            start = random_start(rows, k, np.sqrt(squared_norm), seed, nonnegative=nonnegative, root=root)
        else:
            start = (nndsvd_start if nonnegative or init == "nndsvd" else svd_start)(rows, k, seed)
            start = _without_zeros(rows, start, root) if init == "nndsvda" else start
    else:
        start = _given(rows, k, init, np.sqrt(squared_norm), nonnegative)
        _check_zeros(rows, start, nonnegative, keeps_zeros)
        if root is not None:
            start = start._replace(H=rows.map_aligned(times, start.H, rows.put(root)))
    if k > start.rank:
        warn_user(
            f"n_components={k} is more than the rank of X, at most {start.rank}; the components beyond it add "
            "nothing, so lower n_components"
        )
    return start


def svd_start(rows: Rows, k: int, random_state: Any) -> InitialFactors:
    """Return H = U sqrt(s) and B = V sqrt(s), with zero columns beyond the rank of X."""
    found = _svd(rows, k, random_state, power=0.5)
    rank = len(found.s)
    wide = np.eye(rank, k)
    H = found.U if rank == k else rows.map(_times, found.U, shared=(wide,))
    return InitialFactors(
        H, found.Vt.T @ (np.sqrt(found.s)[:, None] * wide), rank, np.pad(found.s, (0, k - rank))
    )


def nndsvd_start(rows: Rows, k: int, random_state: Any) -> InitialFactors:
    """Return non-negative factors: the larger of the positive and the negative part of each pair of singular vectors.

    References
    ----------
    C. Boutsidis, E. Gallopoulos. SVD based initialization: a head start for nonnegative matrix factorization. Pattern
    Recognition 41, 2008.
    """
    found = _svd(rows, k, random_state)
    B, signs, scales = np.zeros((found.Vt.shape[1], k)), np.ones(len(found.s)), np.zeros(len(found.s))
    sizes_u = np.sqrt(rows.sum_aligned(_squares_by_sign, found.U))  # (2, r)
    for j, s in enumerate(found.s):
        best = 0.0
        for sign, size_u in zip((1.0, -1.0), sizes_u[:, j], strict=True):
            v = np.maximum(sign * found.Vt[j], 0.0)
            size_v = np.linalg.norm(v)
            if size_u * size_v > best:
                best = float(size_u * size_v)
                root = np.sqrt(s * best)
                signs[j], scales[j], B[:, j] = sign, root / size_u, root * v / size_v
    H = rows.map_aligned(partial(_one_sign, signs, scales, k, rows.dtype), found.U)
    return InitialFactors(H, B, len(found.s), np.pad(found.s, (0, k - len(found.s))))


def _squares_by_sign(U: np.ndarray) -> np.ndarray:
    U = U.astype(np.float64)
    return np.array([np.square(np.maximum(sign * U, 0.0)).sum(axis=0) for sign in (1.0, -1.0)])


def _one_sign(
    signs: np.ndarray, scales: np.ndarray, k: int, dtype: Any, start: int, stop: int, U: np.ndarray
) -> np.ndarray:
    """Return the parts of one sign of singular vectors, scaled; columns beyond the rank are zero."""
    H = np.zeros((stop - start, k), dtype=dtype)
    H[:, : len(signs)] = scales * np.maximum(signs * U.astype(np.float64), 0.0)
    return H


def _without_zeros(
    rows: Rows, start: InitialFactors, root: np.ndarray | None, share: float = 0.01
) -> InitialFactors:
    """Return the factors with zeros replaced by a share of the mean of the factor."""
    n, k = rows.shape[0], start.B.shape[1]
    if root is None:
        minimum = share * float(rows.sum_aligned(np.sum, start.H)) / (n * k)
        H = rows.map_aligned(partial(_fill, minimum), start.H)
    else:
        roots = rows.put(root)
        mean = float(rows.sum_aligned(np.vdot, rows.map_aligned(_row_sums, start.H), roots))
        H = rows.map_aligned(partial(_fill_weighted, share * mean / (float(root @ root) * k)), start.H, roots)
    return InitialFactors(H, np.where(start.B > 0, start.B, share * start.B.mean()), start.rank, start.sizes)


def _fill(value: float, start: int, stop: int, H: np.ndarray) -> np.ndarray:
    return np.where(H > 0, H, H.dtype.type(value))


def _fill_weighted(value: float, start: int, stop: int, H: np.ndarray, root: np.ndarray) -> np.ndarray:
    return np.where(H > 0, H, (value * root)[:, None].astype(H.dtype))


def _row_sums(start: int, stop: int, H: np.ndarray) -> np.ndarray:
    return H.sum(axis=1, dtype=np.float64)


def random_start(
    rows: Rows, k: int, size: float, random_state: Any, *, nonnegative: bool, root: np.ndarray | None = None
) -> InitialFactors:
    """Return random factors whose product has a norm of about ``size``, drawn in row order on the host.

    Rows of H are multiplied by ``root``, the square roots of the weights of the rows.
    """
    n, d = rows.shape
    rng = np.random.default_rng(random_state)
    B = rng.standard_normal((d, k)) * np.sqrt(size / (d * np.sqrt(k)))
    scale = float(np.sqrt(size / ((n if root is None else root @ root) * np.sqrt(k))))
    H = rows.map_aligned(RandomRows(k, random_state, rng, scale, rows.dtype, nonnegative=nonnegative))
    if root is not None:
        H = rows.map_aligned(times, H, rows.put(root))
    return InitialFactors(H, np.abs(B) if nonnegative else B, min(k, n, d), np.full(k, size / np.sqrt(k)))


def _given(rows: Rows, k: int, init: Any, size: float, nonnegative: bool) -> InitialFactors:
    n, d = rows.shape
    init = [to_host(factor) for factor in init]
    shapes = [np.shape(factor) for factor in init]
    if shapes != [(n, k), (d, k)]:
        raise ValueError(
            f"init holds arrays of shapes {shapes}, where factors of shapes {(n, k)} and {(d, k)} are expected"
        )
    H, B = (np.asarray(factor, dtype=np.float64) for factor in init)
    if not (np.isfinite(H).all() and np.isfinite(B).all()):
        raise ValueError("init holds NaN or infinity, where finite numbers are expected")
    if nonnegative and (H.min() < 0 or B.min() < 0):
        raise ValueError("init holds negative numbers where none is expected; clip them")
    return InitialFactors(rows.put(H.astype(rows.dtype)), B, min(k, n, d), np.full(k, size / np.sqrt(k)))


def _check_zeros(rows: Rows, start: InitialFactors, nonnegative: bool, keeps_zeros: bool) -> None:
    """Raise an error if a factor is all zeros, and warn if zeros keep a component, a row or a column from its data.

    The first update makes B of H, so zeros of H alone matter, unless updates are multiplicative. Without a sign
    constraint the labels move rows along any component.
    """
    H, B = rows.get(start.H), start.B
    for name, factor in (("first", H), ("second", B)) if keeps_zeros else (("first", H),):
        if not factor.any():
            raise ValueError(
                f"the {name} factor of init holds nothing but zeros, which no update can change; give it positive "
                "numbers, or use another init"
            )
    if not nonnegative:
        return
    used = np.count_nonzero(H.any(axis=0) & B.any(axis=0) if keeps_zeros else H.any(axis=0))
    if used < B.shape[1]:
        warn_user(
            f"init has {B.shape[1] - used} of {B.shape[1]} components of zeros, which no update can change, so that "
            "they add nothing; give them positive numbers, or lower n_components"
        )
    if not keeps_zeros or (H.any(axis=1).all() and B.any(axis=1).all()):
        return
    squares, columns = rows.sweep(_row_and_column_squares)
    counts = (~H.any(axis=1) & (rows.get(squares) > 0)).sum(), (~B.any(axis=1) & (columns > 0)).sum()
    if any(counts):
        warn_user(
            f"init is 0 in every component for {counts[0]} rows and {counts[1]} columns in which X is not, and no "
            "update can change that; give them positive numbers"
        )


def _row_and_column_squares(X: Block) -> tuple[Any, Any]:
    return X.sq(), X.colsq()


def _svd(rows: Rows, k: int, random_state: Any, power: float = 0.0) -> Any:
    """Return approximate singular values and vectors, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings(
            "ignore", message="n_components=.* is more than the rank", category=UserWarning
        )
        # Initial values need not be exact.
        return randomized_svd(rows, k, tol=1e-4, max_iter=20, random_state=random_state, power=power)


def _times(X: Block, U: Any, M: Any) -> Any:
    return U @ M


def nonnegative_least_squares(P: Any, Q: np.ndarray) -> Any:
    """Return the h >= 0 that minimises 1/2 h'Qh - p'h, for each row p of P; Q is positive definite.

    P is an array of any library, and the result has its type and dtype. It is computed in float64: by compiled loops
    on the host, and by functions of the array API on other devices.

    Examples
    --------
    >>> import numpy as np
    >>> nonnegative_least_squares(np.array([[1.0, -2.0]]), np.eye(2))
    array([[1., 0.]])
    """
    if on_accelerator(P):
        xp = array_namespace(P)
        found = least_squares_rows(in_float64(xp, P), to_device(xp, Q, device(P)))
        return xp.astype(found, P.dtype, copy=False)
    right = np.ascontiguousarray(to_host(P), dtype=np.float64)
    factor = linalg.cho_factor(Q)
    scale = 0.5 * np.einsum("ij,ij->i", right, linalg.cho_solve(factor, right.T).T)
    # If Q is this badly conditioned, coordinate steps may gain almost nothing far from the minimum.
    stiff = linalg.lapack.dpocon(factor[0], np.linalg.norm(Q, 1))[0] < 1e-6
    H = np.zeros_like(right)
    minimise_rows(Q, np.zeros_like(H), -right, np.zeros_like(H), np.full(H.shape, np.inf), H, scale, stiff)
    return to_device(array_namespace(P), H, device(P), P.dtype)


def hals(H: np.ndarray, P: Any, Q: Any, rounds: int = 8) -> np.ndarray:
    """Return H after rounds of HALS: each column in turn minimises 1/2 tr(HQH') - tr(P'H), clipped at 0.

    Rows are independent: a round is one exact step for each coordinate of each row. Some rounds cost little beside a
    pass over X, and save several passes.

    Examples
    --------
    >>> import numpy as np
    >>> hals(np.zeros((1, 2)), np.array([[1.0, -2.0]]), np.eye(2))
    array([[1., 0.]])
    """
    found = np.array(H, dtype=np.float64, order="C")
    zeros, upper = np.zeros_like(found), np.full(found.shape, np.inf)
    minimise_rows(
        np.asarray(Q, np.float64), zeros, -np.asarray(P, np.float64), zeros, upper, found, rounds=rounds
    )
    return found.astype(H.dtype, copy=False)


def hals_by_columns(H: Any, P: Any, Q: Any, rounds: int = 8) -> Any:
    """Return the same for any array that follows the array API, one column of all rows at a time."""
    xp = array_namespace(H)
    for j in list(range(H.shape[1])) * rounds:
        column = H[:, j] + (P[:, j] - H @ Q[:, j]) / Q[j, j]
        column = xp.where(column > 0, column, xp.zeros_like(column))
        H = xp.concat([H[:, :j], column[:, None], H[:, j + 1 :]], axis=1)
    return H


def minimise_rows(
    K: np.ndarray,
    diagonal: np.ndarray,
    linear: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    S: np.ndarray,
    scale: np.ndarray | None = None,
    stiff: bool = False,
    rounds: int = 2000,
) -> None:
    """Minimise 1/2 s'(K + diag)s + linear's within [low, high], for each row of S in place and in threads.

    A row is done when a round of coordinate steps gains at most 1e-24 of its ``scale``, or after a number of rounds;
    without a scale all rounds are made. With ``stiff`` K is nearly singular.
    """
    from labelfold.factorization import _quadratic_loops as loops

    gain = np.full(len(S), -1.0) if scale is None else 1e-24 * scale

    def minimise(some: slice, stop: Any) -> None:
        loops.minimise(
            K, diagonal[some], linear[some], low[some], high[some], S[some], gain[some], rounds, stiff
        )

    # Most rows take about eight rounds.
    run_jobs(minimise, shares(len(S), 8.0 * float(S.size) * S.shape[1]))
