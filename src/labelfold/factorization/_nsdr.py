"""NSDR: a factorisation coupled to kernel support vector machines (Grabocka & Schmidt-Thieme).

The SVMs, which are retrained whenever labelled rows move, are here, the descent in `_offset_factorization.py`, and
the terms of the objective that depend on X in `_offset_model.py`. LSDR shares both.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from labelfold.base import constraints, fitting
from labelfold.factorization._components import chosen
from labelfold.factorization._offset_factorization import CoupledClassifier, OffsetFactorisation
from labelfold.factorization._offset_model import factor_cost
from labelfold.numerics import MAX_GRAM_BYTES
from labelfold.utils import Interval, StrOptions


class NSDR(OffsetFactorisation):
    r"""Non-linearly supervised dimensionality reduction: a factorisation in which a kernel SVM separates the classes.

    .. math:: \min\; b\, \|X - U V - b_u 1' - 1 b_v'\|^2
              + (1 - b) \sum_j \max_{a} \Bigl[ \sum_{i \in L} a_i - \tfrac12 \sum_{i, l \in L} a_i a_l y_{ij} y_{lj}
              K(z_i, z_l) \Bigr] + \lambda_U (\|U\|^2 + \|b_u / t\|^2) + \lambda_V \|V\|^2

    over all rows, with z = [u, bu / t], 0 <= a <= C and a'y = 0: the second term is the optimal objective of a
    support vector machine on the labelled rows. The kernel is :math:`(\gamma z'z + r)^p` or
    :math:`\exp(-\gamma \|z - z'\|^2)`. Two classes have one SVM. Several classes have one SVM each against the rest,
    on the same embedding, and so do the labels of a multi-label Y.

    =======================  =============  ==========================================================
    here                     in the paper   what it is
    =======================  =============  ==========================================================
    U (n, k)                 U              ``embedding_``
    V (k, d)                 V              ``components_``
    bu (n,), bv (d,)         B_U, B_V       ``row_offsets_``, ``column_offsets_``
    a o y                    alpha o Y      ``dual_coef_``, for the rows ``support_``
    reconstruction_share, b  beta           weight of the factorisation, 1 - b that of the labels
    row_penalty              lambda_U       weight of the norm of U and bu
    basis_penalty            lambda_V       weight of the norm of V
    offset_unit, t           1              unit of row offsets
    degree, p                p              degree of the polynomial kernel
    =======================  =============  ==========================================================

    Parameters
    ----------
    n_components : int, default=10
        Number of components k. It may exceed the number of columns of X, with a warning.
    kernel : {"poly", "rbf"}, default="poly"
        The kernel of the SVMs.
    degree : int, default=None
        Degree of the polynomial kernel, at least 1; 1 is a linear SVM. None is 2.
    gamma : float, "auto" or "scale", default="auto"
        Parameter of both kernels. "auto" is 1 divided by the mean squared norm of the initial embedding. "scale" is
        the same, because the columns of that embedding have a mean of 0.
    coef0 : float, default=None
        The constant of the polynomial kernel, at least 0. None is 1.
    C : float or "auto", default="auto"
        Upper bound of the dual variables; a larger one fits the labels more closely. "auto" is 1, which suits the
        kernel of any gamma that is computed from the data.
    reconstruction_share : float or "auto", default="auto"
        Weight of the factorisation against the labels, strictly between 0 and 1. With "auto", b / (1 - b) is 30
        divided by the mean square of the rows along a component.
    row_penalty, basis_penalty : float or "auto", default="auto"
        Weights of the norms of the embedding with its row offsets, and of the components. Directions of X with
        singular values below sqrt(row_penalty basis_penalty) / reconstruction_share are used for the labels only.
        With "auto" this bound is 0.03 times the root mean square of the k largest singular values, and embedded rows
        have a mean squared norm of about 1.
    offset_unit : float or "auto", default="auto"
        The unit t of row offsets in their penalty and in the SVMs. "auto" is the root mean square of the entries of X
        centred by column. The paper uses 1.
    class_weight : dict or "balanced", default=None
        Weight of a row's losses by its class. With "balanced" all classes have the same total. For a multi-label Y it
        is the weight of the positive rows of a label; "balanced" then also weights its negative rows.
    init : {"svd", "random"}, default="svd"
        Initial components: the singular vectors of X centred by column, or by column and row, whichever has the lower
        objective; or random vectors.
    max_iter : int, default=500
        Largest number of iterations.
    tol : float, default=1e-5
        Tolerance: stop when the last five iterations lower the objective by at most this share of it on average.
    max_gram_bytes : int, default=536870912
        Largest size of rows that are kept dense: the labelled ones, and the unlabelled ones or, if they are many, the
        d + 1 rows of their triangular factor. Rows that do not fit, or would be much larger than a sparse X, are read
        in passes instead.
    random_state : int, RandomState instance or None, default=0
        Seed of the initial values.
    verbose : int, default=0
        1 shows a progress bar over the iterations.
    on_interrupt : {"raise", "keep"}, default="raise"
        Whether Ctrl-C raises KeyboardInterrupt, or keeps the result of the last iteration.
    unlabeled : int, str or None, default=-1
        The value in y that marks a row as unlabelled; missing values (None, NaN, pandas.NA) always do.

    Attributes
    ----------
    components_ : ndarray of shape (k, d)
        The basis, V.
    embedding_ : ndarray of shape (n, k)
        The embedding of the training rows. For labelled rows it depends on their labels.
    row_offsets_, column_offsets_ : ndarray of shape (n,), (d,)
        Offsets of the training rows, and of the columns.
    support_ : ndarray of shape (m,)
        Indices of the training rows that are support vectors.
    support_vectors_ : ndarray of shape (m, k + 1)
        The embedding and offset of each, [u, bu / t].
    dual_coef_ : ndarray of shape (r, m)
        Their dual variables, each with the sign of its row, between 0 and C times the weight of its loss.
    intercept_ : ndarray of shape (r,)
        Intercepts of the SVMs.
    reconstruction_share_, row_penalty_, basis_penalty_, offset_unit_, gamma_, C_ : float
        The weights used, as given or chosen.
    objective_ : ndarray of shape (n_iter_,)
        The objective after each iteration; it never rises.
    transduction_ : ndarray of shape (n,) or (n, c)
        A label for every training row: the given one, or the one predicted from its embedding.
    classes_ : ndarray of shape (c,)
        The class values; for multi-label the label columns.
    task_ : str
        How y was read: "binary", "multiclass" or "multilabel".
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of columns of X in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, if X has any.

    Notes
    -----
    Memory beside a dense X, at most: ``112*n*k + 64*(l + d)*d + 24*l*l`` bytes in fit, none in transform, and 24
    MB (docs/memory.md).

    With "auto" weights X and c X have the same predictions.

    ``sample_weight`` multiplies every term of a row, the penalty of its embedding too: whole weights are repeated
    rows, each with the same dual variables. Fits of repeated rows differ, since there any that add up are optimal.

    The embedding of an unlabelled or new row follows from V in closed form: (u, bu / t) is the ridge fit of x - bv on
    the rows of V and a row of t. A labelled row is at this position plus a displacement. V, bv and the displacements
    take quasi-Newton steps together. At every step the SVMs are retrained, with a warm start. There is no step size
    to choose. `transform` of a labelled training row differs from its ``embedding_``.

    Cost of an iteration with l labelled rows: O(d k (l + min(n, d))) if the rows are kept (X is then read three times
    in total), otherwise one pass over X, O(k nnz); and O(l^2 k) for the kernel and its SVMs. Memory: O(nnz + k (n +
    d)), 24 l^2 bytes, and ``max_gram_bytes``.

    The paper states a joint minimum over U and a, although its gradients are those of the objective above. It
    penalises U but not bu, and then there is no minimum: bu + s and bv - s have the same reconstruction, and the loss
    of the labels decreases as s grows. If the dual variables of the SVMs are not unique, the objective has a kink. It
    is not convex: the result depends on the initial values (``init``).

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

    support_: np.ndarray
    support_vectors_: np.ndarray
    dual_coef_: np.ndarray
    intercept_: np.ndarray
    gamma_: float

    _parameter_constraints = OffsetFactorisation._parameter_constraints | {
        "kernel": [StrOptions({"poly", "rbf"})],
        **constraints("C", "gamma"),
        "degree": [Interval(Integral, 1, None, closed="left"), None],
        "coef0": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        kernel: Literal["poly", "rbf"] = "poly",
        degree: int | None = None,
        gamma: float | Literal["auto", "scale"] = "auto",
        coef0: float | None = None,
        C: float | Literal["auto"] = "auto",
        reconstruction_share: float | Literal["auto"] = "auto",
        row_penalty: float | Literal["auto"] = "auto",
        basis_penalty: float | Literal["auto"] = "auto",
        offset_unit: float | Literal["auto"] = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        init: Literal["svd", "random"] = "svd",
        max_iter: int = 500,
        tol: float = 1e-5,
        max_gram_bytes: int = MAX_GRAM_BYTES,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        on_interrupt: Literal["raise", "keep"] = "raise",
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
        self.class_weight = class_weight
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.max_gram_bytes = max_gram_bytes
        self.random_state = random_state
        self.verbose = verbose
        self.on_interrupt = on_interrupt
        self.unlabeled = unlabeled

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Factorise all rows so that kernel SVMs can separate the labelled ones.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, labelled or not, in any container that `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,), or (n, c) for multi-label
            Classes; ``unlabeled`` or a missing value for unlabelled rows.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.

        Returns
        -------
        self : NSDR
        """
        rows = self._rows(X, reset=True)
        labels, weights = self._read_weighted(y, sample_weight, rows.shape[0])
        need = 24 * labels.n_labelled**2
        if need > self.max_gram_bytes:
            raise ValueError(
                f"the kernel of {labels.n_labelled} labelled rows needs {need / 1e6:.0f} MB, more than "
                f"max_gram_bytes={self.max_gram_bytes} allows; label fewer rows, raise max_gram_bytes, or use LSDR"
            )
        given = self._set_up(rows, labels, weights)
        losses = self._loss_weights(labels)
        svms = self._classifier(labels.signs(), given.label_share, given.length, losses)
        Z = self._solve(given, svms)
        assert svms.found is not None
        used = np.flatnonzero(svms.s.any(axis=0))
        self.support_, self.support_vectors_ = labels.index[used], svms.Z[used]
        self.dual_coef_, self.intercept_ = svms.s[:, used], svms.found.bias
        self._store_embedding(rows, labels, Z)
        return self

    def _classifier(
        self, T: np.ndarray, weight: float, length: float, loss_weights: np.ndarray | None = None
    ) -> KernelClassifiers:
        """Store the parameters, and return SVMs of a weight, for rows of a mean squared length."""
        self.gamma_, self.C_ = chosen(self.gamma, 1 / length), chosen(self.C, 1.0)
        C = self.C_ if loss_weights is None else self.C_ * loss_weights
        return KernelClassifiers(T, C=C, weight=weight, tol=1e-8, **self._kernel())

    def _kernel(self) -> dict[str, Any]:
        degree = 2 if self.degree is None else self.degree
        coef0 = 1.0 if self.coef0 is None else self.coef0
        return {"kernel": self.kernel, "degree": degree, "gamma": self.gamma_, "coef0": coef0}

    def _scores_of(self, Z: np.ndarray) -> np.ndarray:
        Z = np.asarray(Z, dtype=np.float64)
        scores = np.empty((len(Z), len(self.intercept_)))
        # In blocks of rows, because the kernel of all rows with the support vectors may not fit into memory.
        step = max(1, 2**22 // max(len(self.support_), 1))
        for start in range(0, len(Z), step):
            here = slice(start, start + step)
            K = kernel_matrix(Z[here], self.support_vectors_, **self._kernel())
            scores[here] = K @ self.dual_coef_.T + self.intercept_  # eq. 33
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
    offset_unit: float = 1.0,
    tol: float = 1e-10,
    **penalties: float,
) -> float:
    """Return the objective of NSDR (eq. 32), in one pass over X, with SVMs trained to a relative gap of ``tol``.

    Parameters
    ----------
    X : container of shape (n, d)
        Rows.
    U, row_offsets, V, column_offsets : ndarray of shapes (n, k), (n,), (k, d), (d,)
        The factors.
    T : ndarray of shape (l, r)
        Signs of the labelled rows, -1 or +1.
    index : ndarray of shape (l,)
        Indices of the labelled rows.
    kernel, degree, gamma, coef0, C, reconstruction_share, row_penalty, basis_penalty, offset_unit
        As in `NSDR`.
    tol : float
        Tolerance of the SVMs.

    Returns
    -------
    f : float
    """
    shared = {"reconstruction_share": reconstruction_share, "offset_unit": offset_unit}
    factors = factor_cost(X, U, row_offsets, V, column_offsets, **shared, **penalties)
    kernel_options: dict[str, Any] = {"kernel": kernel, "degree": degree, "gamma": gamma, "coef0": coef0}
    svms = KernelClassifiers(T, C=C, weight=1 - reconstruction_share, tol=tol, **kernel_options)
    cost = svms.train(np.column_stack([U, np.asarray(row_offsets) / offset_unit])[index].astype(np.float64))
    return factors + cost


class KernelClassifiers(CoupledClassifier):
    r"""r support vector machines on the kernel of the labelled rows.

    .. math:: (1 - b) \sum_j \max_a \Bigl[ \sum_i a_i - \tfrac12 \sum_{i,l} a_i a_l y_{ij} y_{lj} K(z_i, z_l) \Bigr],
              \qquad 0 \le a \le C,\ a'y_j = 0

    Parameters
    ----------
    T : ndarray of shape (l, r)
        Signs.
    C : float or ndarray of shape (l, r)
        Upper bound of the dual variables.
    kernel : {"poly", "rbf"}
        (gamma z'z + coef0)^degree, or exp(-gamma ||z - z||^2).
    degree, gamma, coef0 : int, float, float
        Parameters of the kernel.
    weight : float
        1 - b.
    tol : float
        Tolerance: the relative duality gap.
    """

    def __init__(
        self,
        T: np.ndarray,
        *,
        C: float | np.ndarray,
        kernel: str,
        degree: int,
        gamma: float,
        coef0: float,
        weight: float,
        tol: float,
    ) -> None:
        self.signs = np.ascontiguousarray(T.T)  # (r, l)
        self.C = np.array(np.broadcast_to(np.asarray(C, dtype=np.float64).T, self.signs.shape), order="C")
        self.weight, self.tol = weight, tol
        self.kernel, self.degree, self.gamma, self.coef0 = kernel, degree, gamma, coef0
        self._K = np.empty((len(T), len(T)))
        self.s = np.zeros(self.signs.shape)  # a o y
        self.Z: Any = None  # (l, k + 1), after training
        self.found: KernelSVM | None = None

    def train(self, Z: np.ndarray) -> float:
        self.Z, K = Z, self._kernel(Z)
        if not np.isfinite(K.diagonal()).all():  # the diagonal bounds all entries
            self.found = None
            return np.inf
        self.found = solve_svms(K, self.signs, self.C, self.s, self.tol)
        # The primal objective, which is that of the current SVM even if training stopped early.
        return self.weight * float(self.found.primal.sum())

    def gradient(self) -> np.ndarray:
        gradient = np.zeros_like(self.Z)
        if self.found is not None:
            used = np.flatnonzero(self.s.any(axis=0))
            s = self.s[:, used]
            gradient[used] = -self.weight * self._kernel_gradient(used, s.T @ s)
        return gradient

    def linearised_step(self, D: np.ndarray, L: np.ndarray, root: np.ndarray | None = None) -> np.ndarray:
        r"""Return the displacements (l, k + 1) that are optimal if each f is linearised in w and in its row.

        With g the gradient of f at a row and L L' the inverse of 2 b M, the dual variables move a row to D = sum_j
        s_j (1 - b) L L'g_j. Inserted into f this is another SVM: (1 - b) \|L'g\|^2 is added to the diagonal of its
        kernel, and its targets are y + g'D. Its dual variables are unique. If they equal those of the SVM itself, the
        point is stationary, also at kinks. Several SVMs share their rows and are solved in turn.
        """
        K = self._K
        # The gradient of each f in the position of each row, r times (l, k + 1).
        G = [self._kernel_gradient(slice(None), s) @ L for s in self.s]
        if root is not None:
            G = [g / root for g in G]
        E = D @ np.linalg.inv(L).T  # D = E L'
        s, old, r = self.s.copy(), E, len(self.s)
        E = self.weight * sum(s[j][:, None] * G[j] for j in range(r))
        for _ in range(1 if r == 1 else 10):
            before = s.copy()
            for j in range(r):
                rest = E - self.weight * s[j][:, None] * G[j]
                target = self.signs[j] + np.einsum("ij,ij->i", G[j], old - rest)
                moved = K.copy()
                moved[np.diag_indices_from(moved)] += self.weight * np.einsum("ij,ij->i", G[j], G[j])
                one = slice(j, j + 1)
                solve_svms(moved, self.signs[one], self.C[one], s[one], self.tol, target=target)
                E = rest + self.weight * s[j][:, None] * G[j]
            if np.abs(s - before).max() <= 1e-3 * self.C.max():
                break
        return E @ L.T

    def _kernel_gradient(self, used: Any, weights: np.ndarray) -> np.ndarray:
        """Return the sums over l of ``weights[i, l]`` times the gradient of K(z_i, z_l) in z_i, for the rows used."""
        Z = self.Z[used]
        if self.kernel == "poly":  # eqs. 36 to 39
            lower = kernel_matrix(Z, Z, "poly", self.degree - 1, self.gamma, self.coef0)
            return self.gamma * self.degree * ((weights * lower) @ Z)
        A = weights * self._K[used][:, used]
        return -2 * self.gamma * (A.sum(axis=1)[:, None] * Z - A @ Z)

    def not_converged(self) -> str | None:
        if self.found is None or self.found.gap <= max(self.tol, 1e-6):
            return None
        return gap_message(self.found.gap, self.found.n_iter, self.C, self.tol)

    def _kernel(self, Z: np.ndarray) -> np.ndarray:
        # The memory is reused, since allocating it takes longer than filling it.
        return kernel_matrix(Z, Z, self.kernel, self.degree, self.gamma, self.coef0, out=self._K)


def kernel_matrix(
    Z: np.ndarray,
    other: np.ndarray,
    kernel: str,
    degree: int,
    gamma: float,
    coef0: float,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return the kernel of every row of Z with every row of ``other`` (eq. 31), written to ``out`` if it is given."""
    K = np.matmul(Z, other.T, out=out)
    if kernel == "poly":
        from labelfold.factorization._quadratic_loops import polynomial

        polynomial(K, gamma, coef0, degree)
        return K
    K *= -2
    K += (Z * Z).sum(axis=1)[:, None]
    K += (other * other).sum(axis=1)
    np.maximum(K, 0.0, out=K)
    K *= -gamma
    return np.exp(K, out=K)


class KernelSVM(NamedTuple):
    """r kernel classifiers on the same rows.

    Attributes
    ----------
    alpha : ndarray of shape (n, r)
        The dual variables a, between 0 and C.
    bias : ndarray of shape (r,)
        Added to sum_i a_i y_i K(x_i, x).
    objective : ndarray of shape (r,)
        The dual objective.
    primal : ndarray of shape (r,)
        The primal objective, never below the dual one.
    gap : float
        The largest (primal - dual) / primal, an upper bound of the relative distance of the objectives to the
        optimum.
    n_iter : int
        Largest number of pairs moved.
    converged : bool
        Whether all gaps are within the tolerance.
    """

    alpha: np.ndarray
    bias: np.ndarray
    objective: np.ndarray
    primal: np.ndarray
    gap: float
    n_iter: int
    converged: bool


def gap_message(gap: float, n_iter: int, C: Any, tol: float) -> str:
    """Return a sentence for classifiers that did not converge."""
    return (
        f"stopped after {n_iter} steps with a relative duality gap of {gap:.1e}, short of {tol:.1e}, at "
        f"C={np.max(C):g}; lower C, or scale X"
    )


def solve_svms(
    K: np.ndarray,
    signs: np.ndarray,
    C: np.ndarray,
    s: np.ndarray,
    tol: float,
    max_iter: int | None = None,
    target: np.ndarray | None = None,
) -> KernelSVM:
    r"""Train r classifiers on the same kernel: one against the rest, or one for each label.

    .. math:: \max_a \sum_i a_i - \tfrac12 \sum_{i,l} a_i a_l y_i y_l K_{il}, \qquad
              0 \le a_i \le C_i, \quad \sum_i a_i y_i = 0

    The classifier is f(x) = sum_i a_i y_i K(x_i, x) + bias. libsvm solves the same problem from zero each time. Here
    the dual variables of an earlier classifier on similar rows are a warm start, even if the kernel has changed.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel matrix of the rows: symmetric, positive semi-definite, C-contiguous.
    signs : ndarray of shape (r, n)
        y, -1 or +1. A single class is allowed: the classifier is then its sign.
    C : ndarray of shape (r, n)
        Upper bounds of the dual variables; 0 leaves a row out.
    s : ndarray of shape (r, n)
        Initial values of a o y, overwritten with the solution. They are made feasible and scaled to the best
        multiple, so a warm start is never worse than zero.
    tol : float
        Tolerance: the relative duality gap.
    max_iter : int, optional
        Largest number of pairs to move; ``10,000 + 100 n`` when None.
    target : ndarray of shape (n,), optional
        The loss is max(0, y (target - f)); y itself is the usual target.

    Returns
    -------
    KernelSVM

    Notes
    -----
    Pairs of variables are chosen by second-order information. Between rounds of pairs the m variables strictly
    between their bounds are solved for jointly, at a cost of m^3. The pairs find out which variables these are, and
    the joint solution is accurate to all digits.

    References
    ----------
    R.-E. Fan, P.-H. Chen, C.-J. Lin. Working set selection using second order information for training support vector
    machines. JMLR 6, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[-2.0, -1.0, 1.0, 3.0]])
    >>> found = solve_svms(x.T * x, np.sign(x), np.full((1, 4), 10.0), np.zeros((1, 4)), 1e-8)
    >>> found.alpha.T, found.bias        # the two rows in the middle, and the plane half-way between them
    (array([[0. , 0.5, 0.5, 0. ]]), array([0.]))
    """
    from labelfold.factorization import _quadratic_loops as loops

    low, high = np.minimum(signs * C, 0.0), np.maximum(signs * C, 0.0)
    r, n = signs.shape
    max_iter = 10_000 + 100 * n if max_iter is None else max_iter
    bias, dual, primal, error, gap, n_iter = np.empty(r), np.empty(r), np.empty(r), np.empty(n), 0.0, 0
    for j in range(r):
        bias[j], dual[j], primal[j], one_gap, steps = loops.solve_svm(
            K, signs[j] if target is None else target, low[j], high[j], s[j], error, tol, max_iter
        )
        gap, n_iter = max(gap, one_gap), max(n_iter, steps)
    return KernelSVM(np.abs(s).T, bias, dual, primal, gap, n_iter, gap <= tol)
