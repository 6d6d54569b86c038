"""KernelPCALS: PCALS in the space of a kernel, exactly or with Nystroem features.

The code is in these files:

    fit                        _nested_subspace.py, class NestedSubspace
    directions, one at a time  _pursuit.py; the search for one: _direction_search.py
    rows in the kernel's space _kernel_source.py; directions as coefficients of them: _kernel_space.py
    predict                    _nested_predictions.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from labelfold.base import BLOCK_BYTES, KernelForm
from labelfold.features import POSITIVE, KernelMap, kernel_map
from labelfold.labels import Labels
from labelfold.numerics import MAX_GRAM_BYTES
from labelfold.rows import Block, Rows, as_rows
from labelfold.subspace._choose_size import CANDIDATES, REPEATS
from labelfold.subspace._kernel_source import KernelCoefficients, KernelFeatures, has_large_rank
from labelfold.subspace._nested_subspace import NestedSubspace
from labelfold.subspace._source import Source


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
    gamma, degree, coef0 : float, default=None
        Parameters of the kernel; see `LDA`. When None, gamma is computed from all rows.
    reconstruction : float or "auto", default="auto"
        Weight of the reconstruction error of the features; see `PCALS`.
    n_landmarks : int, "auto" or None, default="auto"
        Number of rows, drawn from all, for Nystroem features that approximate the kernel. Directions are then found
        in these features, so the kernel matrix need not fit in memory. None is exact. "auto" is exact if
        ``max_gram_bytes`` allows it, and otherwise uses 1,000 landmarks.
    center : bool, default=True
        Whether to centre features and responses. New rows are centred in the same way.
    refit, ridge, task, candidates, cv, repeats, one_standard_error, tol, max_iter
        As in `PCALS`.
    max_gram_bytes : int, default=512 MB
        Largest size in bytes of the kernel matrix: 512 MB are 8,192 rows, 8 GB 32,768.
    random_state : int, RandomState instance or None, default=0
        Seed of the landmarks, and of the random numbers of `PCALS`.
    verbose, on_interrupt, unlabeled
        As in `PCALS`.

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
    coef_, intercept_, coef_path_, intercept_path_, gains_, objective_, reconstruction_, n_components_, cv_results_
        As in `PCALS`.
    task_, classes_, n_iter_, n_features_in_, feature_names_in_
        As in `PCALS`.

    Notes
    -----
    Memory beside a dense X, at most: ``40*q*q + 40*q*d`` bytes in fit, none in transform, and 24 MB
    (docs/memory.md).

    Exact: the kernel matrix is computed once, :math:`O(n^2 d)`. For "rbf", "laplacian", "chi2" and "cosine" of a rank
    beyond 512, as a part of the matrix tells, directions are found as coefficients of all rows, and a step is a
    product of K with a few vectors, :math:`O(n^2)`; "auto" then uses m = n. For other kernels, smaller ranks, and
    where such coefficients would lose digits, K is factorised in place, :math:`K = LL'`, where L has as many columns
    m as the rank of K, in :math:`O(n m^2)` time: at most :math:`n^3 / 3`, and little for a smooth kernel. The rows of
    L are features whose inner products are the kernel, and the rest is `PCALS` on them: proved up to 512 columns;
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
        n_components: int | str = 2,
        *,
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: float | None = None,
        coef0: float | None = None,
        reconstruction: float | str = "auto",
        n_landmarks: int | str | None = "auto",
        center: bool = True,
        refit: bool = False,
        ridge: float = 0.0,
        task: str = "auto",
        candidates: Any = CANDIDATES,
        cv: int = 5,
        repeats: int = REPEATS,
        one_standard_error: bool = False,
        tol: float = 1e-8,
        max_iter: int = 200,
        max_gram_bytes: int = MAX_GRAM_BYTES,
        random_state: Any = 0,
        verbose: int = 0,
        on_interrupt: str = "raise",
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

    def _sources(self, rows: Rows, labels: Labels, Y: np.ndarray) -> Iterator[Any]:
        self._set_feature_map(kernel_map, rows, random_state=self._seed, centred=self.center)
        options: dict[str, Any] = {
            "center": self.center,
            "max_gram_bytes": self.max_gram_bytes,
            "random_state": self._seed,
        }
        if not isinstance(self.feature_map_, KernelMap):
            yield Source(self._seen(rows), labels, Y, **options, is_slow=True)
            return
        K = _kernel_matrix(self.feature_map_)
        is_large = self.kernel in POSITIVE and has_large_rank(K)
        if is_large:
            yield KernelCoefficients(K, labels, Y, center=self.center)
        source = KernelFeatures(K, labels, Y, **options)
        if is_large:
            source.dimension = len(K)
        # In the space of the kernel all other rows are linear combinations of these.
        self.feature_map_.points = self.feature_map_.points[source.pivots]
        yield source


def _kernel_matrix(feature_map: Any) -> np.ndarray:
    """Return the kernel matrix of the fitted rows."""
    rows = as_rows(feature_map.points)
    most_rows = max(1, BLOCK_BYTES // (8 * rows.shape[0]))
    return rows.sweep(_kernel_rows, shared=(feature_map,), most_rows=most_rows)[0]


def _kernel_rows(X: Block, feature_map: Any) -> tuple[Any, None]:
    return feature_map.of_points(X.raw), None
