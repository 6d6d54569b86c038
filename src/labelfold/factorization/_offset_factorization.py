"""The base of LSDR and NSDR: factorise with offsets, embed rows, classify them."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelfold.base import Decisions, fitting
from labelfold.factorization._components import Factorisation
from labelfold.factorization._coupled_classifiers import Machine
from labelfold.factorization._inputs import check_matrix
from labelfold.factorization._offset_model import fold, hold, start_bases, start_directions
from labelfold.factorization._offset_solver import OffsetPoint, OffsetProblem, best_start, iterates
from labelfold.factorization._weights import WEIGHT, chosen, component_scale
from labelfold.rows import Centered, Rows, as_rows
from labelfold.utils import Interval, StrOptions, warn_user

# If the squared norm of the components is smaller than this, relative to lambda U / b, every new row is at the
# origin.
_SHRUNK_AWAY = 1e-3
# The multiples of the scales in `_weights.py` for "auto".
_RECONSTRUCTION, _PENALTIES = 30.0, 0.03


class OffsetFactorisation(Decisions, Factorisation):
    """A factorisation with offsets of rows and columns, coupled to a classifier of its labelled rows."""

    _allowed = ("binary", "multiclass", "multilabel")
    _parameter_constraints = {
        **Factorisation._parameter_constraints,
        "reconstruction_share": [Interval(Real, 0, 1, closed="neither"), StrOptions({"auto"})],
        "row_penalty": WEIGHT,
        "basis_penalty": WEIGHT,
        "offset_unit": WEIGHT,
        "init": [StrOptions({"svd", "random"})],
        "max_gram_bytes": [Interval(Integral, 0, None, closed="left")],
    }

    def _check_size(self, n_labelled: int) -> None:
        """Raise an error if there are more labelled rows than memory allows."""

    @abstractmethod
    def _machine(self, T: np.ndarray) -> Machine:
        """Return the classifier for these signs, (l, r), with the weights in use."""

    @abstractmethod
    def _keep_machine(self, machine: Any, index: np.ndarray) -> None:
        """Store the classifier as arrays; ``index`` has the indices of the labelled rows."""

    @abstractmethod
    def _machine_scores(self, Z: np.ndarray) -> np.ndarray:
        """Return the scores (n, r) of rows at Z = [U, bu / offset_unit]."""

    @fitting
    def fit(self, X: Any, y: Any) -> Self:
        """Factorise all rows so that a classifier can separate the labelled ones.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, labelled or not, in any container that `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,), or (n, c) for multi-label
            Classes; ``unlabeled`` or a missing value for unlabelled rows.

        Returns
        -------
        self : estimator
        """
        name = type(self).__name__
        rows = self._rows(X, reset=True)
        labels = self._read_labels(y, rows.shape[0])
        (n, d), k = rows.shape, self.n_components
        mean = rows.mean()
        square = check_matrix(Centered(rows, mean), nonnegative=False, centred=True, estimator=name)
        if k > min(n, d):
            warn_user(
                f"n_components={k} is more than X has columns ({d}) or rows ({n}), so that it is inflated, not "
                "reduced; lower n_components",
                UserWarning,
            )
        self._check_size(labels.n_labelled)
        data = hold(rows, labels.index, mean, k, self.max_gram_bytes)
        directions = start_directions(data, d, k, check_random_state(self.random_state))
        self._choose_weights(directions.centred[0], n, np.sqrt(square / (n * d)))
        weights = self.reconstruction_share_, self.row_penalty_, self.basis_penalty_
        named = dict(zip(("b", "lu", "lv"), weights, strict=True))
        bases = start_bases(directions, **named, drawn=self.init == "random")
        machine = self._machine(labels.signs())
        problem = OffsetProblem(data, machine, n, *weights, self.offset_unit_)
        first = best_start(problem, bases)
        steps = iterates(problem, first, self.tol)
        found = self._descend(steps, tol=None, start=(first, first.value))
        problem.visit(found)  # so that the classifier is trained at the solution
        if not self.n_iter_:  # the start is stationary
            self.objective_, self.n_iter_ = np.array([found.value]), 1
        self._say(found, machine)
        self.components_ = found.V
        self.column_offsets_ = mean + found.c
        self._keep_task(labels.task, labels.classes)
        self._keep_machine(machine, labels.index)
        Z = rows.result(self._place(rows), at=(labels.index, found.Z))
        self.embedding_, self.row_offsets_ = Z[:, :-1].copy(), self.offset_unit_ * Z[:, -1]
        self.transduction_ = self._transduce(rows, Z, labels)
        return self

    def _choose_weights(self, sizes: np.ndarray, n: int, spread: float) -> None:
        """Store the weights, as given or as multiples of the scale of the data.

        ``sizes`` are singular values of X centred by column; ``spread`` is the root mean square of its entries.
        """
        scale = component_scale(sizes, n)
        weight = _RECONSTRUCTION / scale.variance  # weight of the factorisation, for labels of weight 1
        self.reconstruction_share_ = chosen(self.reconstruction_share, weight / (1 + weight))
        given = not isinstance(self.reconstruction_share, str)
        # 1 - b, without cancellation
        self._label_share = 1 - self.reconstruction_share_ if given else 1 / (1 + weight)
        bound = _PENALTIES * self.reconstruction_share_ * scale.size
        self.row_penalty_ = chosen(self.row_penalty, bound * scale.length)
        self.basis_penalty_ = chosen(self.basis_penalty, bound / scale.length)
        self.offset_unit_ = chosen(self.offset_unit, spread)
        # The mean squared norm of an embedded row; the ratio of the penalties decides how U and V share the scale of
        # X.
        self._length = scale.length * np.sqrt(self.basis_penalty_ / self.row_penalty_)

    def transform(self, X: Any) -> Any:
        """Embed rows, as the fit embeds unlabelled ones.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, in any container that `labelfold.rows.as_rows` takes.

        Returns
        -------
        U : array of shape (n, k)
            In host memory for arrays and files; otherwise on the device or cluster of X.
        """
        check_is_fitted(self)
        return self._place(self._rows(X, reset=False), slice(None, -1))

    def row_offsets(self, X: Any) -> np.ndarray:
        """Return the offset of each row, which is not part of `transform`.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        offsets : ndarray of shape (n,)
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return self.offset_unit_ * np.asarray(rows.get(self._place(rows, slice(-1, None))))[:, 0]

    def inverse_transform(self, U: Any, row_offsets: Any = None) -> np.ndarray:
        """Return the reconstruction of rows from their embedding, U V plus the offsets.

        Parameters
        ----------
        U : array of shape (n, k)
            The embedding of rows.
        row_offsets : array-like of shape (n,), optional
            Offsets of the rows, from the method of that name or ``row_offsets_``; zeros when None.

        Returns
        -------
        X : ndarray of shape (n, d)
        """
        check_is_fitted(self)
        U = np.asarray(as_rows(U).whole().dense())
        k = len(self.components_)
        if U.shape[1] != k:
            raise ValueError(
                f"U has {U.shape[1]} columns, where {k} are expected; pass what transform returns"
            )
        X = U @ self.components_ + self.column_offsets_
        if row_offsets is not None:
            X += np.asarray(row_offsets).reshape(len(U), 1)
        return X.astype(U.dtype, copy=False)

    def _place(self, rows: Rows, columns: slice = slice(None)) -> Any:
        """Return Z = [U, bu / offset_unit] of unlabelled rows, or some columns of it, in one pass."""
        ridge = self.row_penalty_ / self.reconstruction_share_
        G = fold(self.components_, ridge, self.offset_unit_).G[:, columns]
        return Centered(rows, self.column_offsets_) @ np.ascontiguousarray(G)

    def _scores_of(self, Z: np.ndarray) -> np.ndarray:
        return self._machine_scores(np.asarray(Z, dtype=np.float64))

    def _say(self, found: OffsetPoint, machine: Machine) -> None:
        """Warn about limits that the solution reached, and about components that vanished."""
        name = type(self).__name__
        shortfall = machine.shortfall()
        if shortfall is not None:
            warn_user(
                f"the support vector machines of {name} have not settled: the last {shortfall}",
                ConvergenceWarning,
            )
        ridge = self.row_penalty_ / self.reconstruction_share_
        if np.vdot(found.V, found.V) < _SHRUNK_AWAY * ridge:
            warn_user(
                f"row_penalty={self.row_penalty_:g} and basis_penalty={self.basis_penalty_:g} have shrunk the "
                "components away; lower them",
                UserWarning,
            )
