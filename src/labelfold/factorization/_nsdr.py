"""NSDR: a factorisation tied to a kernel support vector machine (Grabocka & Schmidt-Thieme).

Where to find what:

    fit                        _offset_factorization.py, class OffsetFactorisation
    the descent                _offset_solver.py
    sums over the rows         _offset_model.py
    the classifier             _coupled_classifiers.py, class KernelMachine
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from labelfold._sklearn import Interval, StrOptions
from labelfold.factorization._coupled_classifiers import KernelMachine, kernel_matrix
from labelfold.factorization._offset_factorization import OffsetFactorisation
from labelfold.factorization._offset_model import factor_cost
from labelfold.factorization._weights import WEIGHT, chosen

# The relative duality gap to which machines are trained.
_SVM_TOL = 1e-8


class NSDR(OffsetFactorisation):
    r"""Non-linearly supervised dimensionality reduction: a factorisation in which a kernel SVM parts the classes.

    .. math:: \min\; b\, \|X - U V - b_u 1' - 1 b_v'\|^2
              + (1 - b) \sum_j \max_{a} \Bigl[ \sum_{i \in L} a_i - \tfrac12 \sum_{i, l \in L} a_i a_l y_{ij} y_{lj}
              K(z_i, z_l) \Bigr] + \lambda_U (\|U\|^2 + \|b_u / t\|^2) + \lambda_V \|V\|^2

    over all rows, with z = [u, bu / t], 0 <= a <= C and a'y = 0: what a support vector machine on the labelled rows
    costs at its best. The kernel is :math:`(\gamma z'z + r)^p` or :math:`\exp(-\gamma \|z - z'\|^2)`. Two classes
    have one machine, several classes have one against the rest each, over the same embedding; so have the labels of
    a multi-label Y.

    =======================  =============  ==========================================================
    here                     in the paper   what it is
    =======================  =============  ==========================================================
    U (n, k)                 U              ``embedding_``
    V (k, d)                 V              ``components_``
    bu (n,), bv (d,)         B_U, B_V       ``row_offsets_``, ``column_offsets_``
    a o y                    alpha o Y      ``dual_coef_``, for the rows ``support_``
    reconstruction_share, b  beta           weight of the factorisation, 1 - b that of the labels
    row_penalty              lambda_U       weight of the size of U and bu
    basis_penalty            lambda_V       weight of the size of V
    offset_unit, t           1              unit of row offsets
    degree, p                p              of the polynomial kernel
    =======================  =============  ==========================================================

    Parameters
    ----------
    n_components : int, default=10
        Size of the embedding, k. More than X has columns is allowed, with a warning.
    kernel : {"poly", "rbf"}, default="poly"
        The kernel of the machines.
    degree : int, default=2
        Of the polynomial kernel, at least 1; 1 is a linear machine.
    gamma : float or "auto", default="auto"
        Of either kernel. "auto" is 1 divided by the mean squared length of an embedded row at the start.
    coef0 : float, default=1.0
        The constant of the polynomial kernel, at least 0.
    C : float, default=1.0
        The most that a dual variable may be; larger fits the labels more closely.
    reconstruction_share : float or "auto", default="auto"
        Between 0 and 1, both left out: how much the factorisation counts against the labels. "auto" is the share at
        which b / (1 - b) is 30 divided by the mean square of the rows along a component.
    row_penalty, basis_penalty : float or "auto", default="auto"
        Weights of the size of the embedding and its row offsets, and of the components.
        Directions of X with singular values below sqrt(row_penalty basis_penalty) / reconstruction_share are kept
        for the labels alone. "auto" puts this bound at 0.03 times the root mean square of the k largest singular
        values, and lets embedded rows have a mean squared length of about 1.
    offset_unit : float or "auto", default="auto"
        The unit t of row offsets where they are penalised and classified. "auto" is the root mean square of the
        entries of X centred by column. The paper has 1.
    init : {"svd", "random"}, default="svd"
        Where the components start: the singular vectors of X centred by column or by column and row, whichever costs
        less, or vectors drawn at random.
    max_iter : int, default=500
        The most iterations.
    tol : float, default=1e-5
        Stop when iterations lower the objective by no more than this, relative to it, on average over the last five.
    max_gram_bytes : int, default=536870912
        The most memory for rows kept dense: the labelled ones, and the unlabelled ones or, where they are many, the
        d + 1 rows of their triangular factor. What does not fit, or is much larger than a sparse X, is read in
        passes instead.
    random_state : int, RandomState instance or None, default=0
        Seeds the start.
    verbose : int, default=0
        1 shows a progress bar over the iterations.
    on_interrupt : {"raise", "keep"}, default="raise"
        What Ctrl-C does: end the fit, or keep what the last iteration reached.
    unlabeled : int, str or None, default=-1
        The value in y that marks a row as unlabelled; missing values (None, NaN, pandas.NA) always do.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The basis, V.
    embedding_ : ndarray of shape (n, k)
        Where the fit placed the training rows, labelled ones with regard to their labels.
    row_offsets_, column_offsets_ : ndarray of shape (n,), (d,)
        Their offsets, and those of the columns.
    support_ : ndarray of shape (m,)
        Which training rows support a machine.
    support_vectors_ : ndarray of shape (m, k + 1)
        Their places and offsets, [u, bu / t].
    dual_coef_ : ndarray of shape (r, m)
        Their dual variables, each with the sign of its row.
    intercept_ : ndarray of shape (r,)
        The machines' intercepts.
    reconstruction_share_, row_penalty_, basis_penalty_, offset_unit_, gamma_ : float
        The weights used, as given or chosen.
    objective_ : ndarray of shape (n_iter_,)
        The objective after each iteration; it never rises.
    transduction_ : ndarray of shape (n,) or (n, c)
        A label for every training row: the one given, or the one predicted from its place.
    classes_ : ndarray of shape (c,)
        The class values; for multi-label the label columns.
    task_ : str
        How y was read: "binary", "multiclass" or "multilabel".
    n_iter_ : int
        Iterations.
    n_features_in_ : int
        Columns seen in fit.
    feature_names_in_ : ndarray of str
        Their names, where X had any.

    Notes
    -----
    Memory beside a dense X, at most: ``112*n*k + 64*(l + d)*d + 24*l*l`` bytes in fit, none in transform, and 24
    MB (docs/memory.md).

    With "auto" weights X and c X have the same predictions.

    An unlabelled row lies where V puts it, in closed form, and so does a new one, each by itself: (u, bu / t) is
    the ridge fit of x - bv on the rows of V and a row of t. Labelled rows are written as that place and a
    displacement. V, bv and the displacements take quasi-Newton steps together, the machines being trained anew,
    from the last ones, at every step; there is no step size to set. `transform` of a labelled training row differs
    from its ``embedding_``.

    Cost of an iteration with l labelled rows: O(d k (l + min(n, d))) where the rows are held (X is then read three
    times in all), one pass over X, O(k nnz), where they are not; and O(l^2 k) for the kernel and its machines.
    Memory: O(nnz + k (n + d)), 24 l^2 bytes, and ``max_gram_bytes``.

    The paper writes a joint minimum over U and a, where its slopes are those of the one above; and it penalises U
    and not bu, with which the problem has no minimum: bu + s and bv - s leave the reconstruction, and the machine
    costs less and less as s grows. Where the machines' dual variables are not unique the objective has a kink. It
    is not convex: the answer depends on the start (``init``).

    References
    ----------
    J. Grabocka, L. Schmidt-Thieme. Learning through non-linearly supervised dimensionality reduction.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from labelfold.factorization._nsdr import NSDR
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> known = np.arange(len(y)) % 9 == 0
    >>> few = np.where(known, y, -1)    # labels for every ninth row only
    >>> model = NSDR(n_components=5, degree=2).fit(scale(X), few)
    >>> model.embedding_.shape, bool((model.transduction_ == y)[~known].mean() > 0.9)
    ((569, 5), True)
    """

    _parameter_constraints = OffsetFactorisation._parameter_constraints | {
        "kernel": [StrOptions({"poly", "rbf"})],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "gamma": WEIGHT,
        "coef0": [Interval(Real, 0, None, closed="left")],
        "C": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        kernel: str = "poly",
        degree: int = 2,
        gamma: float | str = "auto",
        coef0: float = 1.0,
        C: float = 1.0,
        reconstruction_share: float | str = "auto",
        row_penalty: float | str = "auto",
        basis_penalty: float | str = "auto",
        offset_unit: float | str = "auto",
        init: str = "svd",
        max_iter: int = 500,
        tol: float = 1e-5,
        max_gram_bytes: int = 2**29,
        random_state: Any = 0,
        verbose: int = 0,
        on_interrupt: str = "raise",
        unlabeled: Any = -1,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.C = C
        self.reconstruction_share = reconstruction_share
        self.row_penalty = row_penalty
        self.basis_penalty = basis_penalty
        self.offset_unit = offset_unit
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.max_gram_bytes = max_gram_bytes
        self.random_state = random_state
        self.verbose = verbose
        self.on_interrupt = on_interrupt
        self.unlabeled = unlabeled

    def _check_size(self, n_labelled: int) -> None:
        need = 24 * n_labelled**2
        if need > self.max_gram_bytes:
            raise ValueError(
                f"the kernel of {n_labelled} labelled rows needs {need / 1e6:.0f} MB, more than max_gram_bytes="
                f"{self.max_gram_bytes} allows; label fewer rows, raise max_gram_bytes, or use LSDR"
            )

    def _machine(self, T: np.ndarray) -> KernelMachine:
        self.gamma_ = chosen(self.gamma, 1 / self._length)
        return KernelMachine(T, C=self.C, weight=self._label_share, tol=_SVM_TOL, **self._kernel())

    def _kernel(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "degree": self.degree, "gamma": self.gamma_, "coef0": self.coef0}

    def _keep_machine(self, machine: KernelMachine, index: np.ndarray) -> None:
        assert machine.found is not None
        used = np.flatnonzero(machine.s.any(axis=0))
        self.support_, self.support_vectors_ = index[used], machine.Z[used]
        self.dual_coef_, self.intercept_ = machine.s[:, used], machine.found.bias

    def _machine_scores(self, Z: np.ndarray) -> np.ndarray:
        scores = np.empty((len(Z), len(self.intercept_)))
        # Some rows at a time: the kernel of all of them with the support vectors may not fit.
        step = max(1, 2**22 // max(len(self.support_), 1))
        for start in range(0, len(Z), step):
            here = slice(start, start + step)
            K = kernel_matrix(Z[here], self.support_vectors_, **self._kernel())
            scores[here] = K @ self.dual_coef_.T + self.intercept_
        return scores


def objective(
    X: Any,
    U: np.ndarray,
    row_offsets: np.ndarray,
    V: np.ndarray,
    column_offsets: np.ndarray,
    T: np.ndarray,
    index: np.ndarray,
    *,
    kernel: str = "poly",
    degree: int = 2,
    gamma: float = 1.0,
    coef0: float = 1.0,
    C: float = 1.0,
    reconstruction_share: float = 0.5,
    row_penalty: float = 0.1,
    basis_penalty: float = 1.0,
    offset_unit: float = 1.0,
    tol: float = 1e-10,
) -> float:
    """Return what NSDR minimises, in one pass over X, the machines trained to a relative duality gap of ``tol``.

    Parameters
    ----------
    X : container of shape (n, d)
        Rows.
    U, row_offsets, V, column_offsets : ndarray of shapes (n, k), (n,), (k, d), (d,)
        The factors.
    T : ndarray of shape (l, r)
        Signs of the labelled rows, -1 or +1.
    index : ndarray of shape (l,)
        Which rows those are.
    kernel, degree, gamma, coef0, C, reconstruction_share, row_penalty, basis_penalty, offset_unit
        As `NSDR` has them.
    tol : float
        Of the machines.

    Returns
    -------
    f : float
    """
    factors = factor_cost(
        X,
        U,
        row_offsets,
        V,
        column_offsets,
        reconstruction_share=reconstruction_share,
        row_penalty=row_penalty,
        basis_penalty=basis_penalty,
        offset_unit=offset_unit,
    )
    kernel_options: dict[str, Any] = {"kernel": kernel, "degree": degree, "gamma": gamma, "coef0": coef0}
    machine = KernelMachine(T, C=C, weight=1 - reconstruction_share, tol=tol, **kernel_options)
    cost = machine.train(
        np.column_stack([U, np.asarray(row_offsets) / offset_unit])[index].astype(np.float64)
    )
    return factors + cost
