"""KLNMF: non-negative factors of least I-divergence (Lee & Seung 1999), in memory proportional to the data."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from labelfold.base import fitting
from labelfold.factorization._divergence import divergence
from labelfold.factorization._nmf import DivergenceNMF


class KLNMF(DivergenceNMF):
    r"""Non-negative matrix factorisation by I-divergence, for sparse counts and any other non-negative data.

    It computes parts that add up to every row. They have the largest likelihood if entries are Poisson counts:

    .. math:: \min_{H, V \ge 0} D(X, HV'), \qquad
              D(A, B) = \sum_{ij} A_{ij} \log \frac{A_{ij}}{B_{ij}} - A_{ij} + B_{ij}

    This is the objective of scikit-learn's ``NMF(beta_loss="kullback-leibler", solver="mu")``.

    =============  ====================================================================
    X (n, d)       the rows
    H (n, k)       ``embedding_``: the amount of each part in a row
    V (d, k)       ``components_.T``: the parts
    =============  ====================================================================

    Parameters
    ----------
    n_components : int, default=10
        Number of parts k. It may exceed the number of rows or columns of X, with a warning.
    corrected : bool, default=False
        Whether the embedding is :math:`H (V'V)^{1/2}`, which has the inner products of the rows, rather than H.
    init : {"random", "nndsvda"} or tuple (H, V), default="random"
        Initial values: random near the product of X's margins (if there are many rows, improved on a sample first),
        from singular vectors, or given.
    max_iter : int, default=300
        Largest number of iterations; each reads X once.
    tol : float, default=1e-5
        Tolerance: stop when an iteration lowers the objective by at most this share of it.
    random_state : int, RandomState instance or None, default=0
        Seed of the initial values.
    verbose : int, default=0
        1 shows a progress bar over the iterations.
    on_interrupt : {"raise", "keep"}, default="raise"
        Whether Ctrl-C raises KeyboardInterrupt, or keeps the result of the last iteration.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The parts, V'.
    embedding_ : ndarray of shape (n, k)
        The embedding of the training rows at the end of the fit.
    objective_ : ndarray of shape (n_iter_,)
        The divergence after each iteration; it never rises.
    reconstruction_err_ : float
        The square root of twice the divergence, as in scikit-learn's NMF.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of columns of X in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, if X has any.

    Notes
    -----
    Memory beside a dense X, at most: ``64*(n + d)*k`` bytes in fit, ``64*m*k`` in transform, and 24 MB
    (docs/memory.md).

    With more components than X has rows or columns, the coordinates of a row are not unique. They may differ between
    a row alone and the same row in a batch, in particular in float32, where round-off decides how far a step is
    extrapolated. Their divergences from the row differ by at most 2e-5 of its sum.

    Cost: one pass over X in each iteration, O(k nnz), and O(nnz + k (n + d)) memory. Sparse rows are processed
    non-zero by non-zero in compiled loops, with rows in threads; dense rows in blocks that fit into the cache of a
    core.

    Memory: a sparse X in memory with more than half as many columns as rows is also stored by columns. Besides X
    there are at most three arrays of the size of V and five of the size of H at a time, in the dtype of X. Other X
    need no transpose, but a further array of the size of V for each thread after the first.

    Updates are multiplicative, with extrapolation: see `numerics/kl`. A zero row of X has a zero embedding; columns
    that are zero in X are zero in every part.

    The embedding of a new row is computed by updates of its own, until its divergence is at most 1e-5 of its sum
    above the minimum. So `transform` of a training row may differ from its ``embedding_``, which has not converged
    that far.

    References
    ----------
    D. D. Lee, H. S. Seung. Learning the parts of objects by non-negative matrix factorization. Nature 401, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold import KLNMF
    >>> X = np.array([[4, 2, 0, 0], [2, 1, 0, 0], [0, 0, 1, 3]])
    >>> model = KLNMF(n_components=2).fit(X)
    >>> model.inverse_transform(model.transform(X)).round(2)
    array([[4., 2., 0., 0.],
           [2., 1., 0., 0.],
           [0., 0., 1., 3.]])
    """

    _needs_labels = False

    def __init__(
        self,
        n_components: int = 10,
        *,
        corrected: bool = False,
        init: Literal["random", "nndsvda"] | tuple[Any, Any] | list[Any] = "random",
        max_iter: int = 300,
        tol: float = 1e-5,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        on_interrupt: Literal["raise", "keep"] = "raise",
    ) -> None:
        self.n_components = n_components
        self.corrected = corrected
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.on_interrupt = on_interrupt

    @fitting
    def fit(self, X: Any, y: Any = None) -> Self:
        """Factorise X.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows without negative entries, in any container that `labelfold.rows.as_rows` takes.
        y : object
            Ignored.

        Returns
        -------
        self : KLNMF
        """
        rows = self._rows(X, reset=True)
        self._factorise(rows, self._survey(rows))
        self.reconstruction_err_ = float(np.sqrt(2 * max(self.objective_[-1], 0.0)))
        return self


def objective(X: Any, H: np.ndarray, V: np.ndarray) -> float:
    """Return the objective of KLNMF, D(X, H V'), in one pass over X.

    Parameters
    ----------
    X : container of shape (n, d)
        Rows.
    H, V : ndarray of shapes (n, k), (d, k)
        The factors.

    Returns
    -------
    f : float
    """
    return divergence(X, H, V)
