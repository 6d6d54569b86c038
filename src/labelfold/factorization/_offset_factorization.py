"""What LSDR and NSDR do alike: factorise with offsets, place rows, classify them."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelfold._base import RowsEstimator
from labelfold._decisions import Decisions
from labelfold._progress import Progress, warn_of_early_end
from labelfold._sklearn import Interval, StrOptions, _fit_context
from labelfold._warn import warn_user
from labelfold.factorization._coupled_classifiers import Machine, signs_of
from labelfold.factorization._inputs import check_matrix
from labelfold.factorization._offset_model import fold, hold, start_bases
from labelfold.factorization._offset_solver import OffsetProblem, OffsetSolution, solve
from labelfold.labels import read_labels
from labelfold.rows import Block, Centered, Rows, as_rows

# Components whose squared size is smaller than this, relative to lambda U / b, put every new row at the origin.
_SHRUNK_AWAY = 1e-3


class OffsetFactorisation(Decisions, ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowsEstimator):
    """A factorisation with offsets of rows and columns, tied to a machine on its labelled rows."""

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "reconstruction": [Interval(Real, 0, 1, closed="neither")],
        "u_penalty": [Interval(Real, 0, None, closed="neither")],
        "v_penalty": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_gram_bytes": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "on_interrupt": [StrOptions({"raise", "keep"})],
        "unlabeled": "no_validation",
    }

    @abstractmethod
    def _machine(self, T: np.ndarray) -> Machine:
        """Return the machine for these signs, (l, r)."""

    @abstractmethod
    def _keep_machine(self, machine: Any, index: np.ndarray) -> None:
        """Remember the machine as arrays; ``index`` says which rows the labelled ones are."""

    @abstractmethod
    def _machine_scores(self, Z: np.ndarray) -> np.ndarray:
        """Return the scores (n, r) of rows at Z = [U, bu]."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Factorise all rows so that the labelled ones can be told apart.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, labelled or not, in any container `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,), or (n, c) for multi-label
            Classes; ``unlabeled`` or a missing value where unknown.

        Returns
        -------
        self : estimator
        """
        name = type(self).__name__
        rows = self._rows(X, reset=True)
        labels = read_labels(
            y,
            rows.shape[0],
            unlabeled=self.unlabeled,
            allowed=("binary", "multiclass", "multilabel"),
            estimator=name,
        )
        (n, d), k = rows.shape, self.n_components
        mean = rows.mean()
        check_matrix(Centered(rows, mean), nonnegative=False, centred=True, estimator=name)
        if k > min(n, d):
            warn_user(
                f"n_components={k} is more than X has columns ({d}) or rows ({n}), so that it is inflated, not "
                "reduced; lower n_components",
                UserWarning,
            )
        machine = self._machine(signs_of(labels))
        data = hold(rows, labels.index, mean, k, self.max_gram_bytes)
        weights = {"b": self.reconstruction, "lu": self.u_penalty, "lv": self.v_penalty}
        bases = start_bases(data, d, k, **weights, random_state=check_random_state(self.random_state))
        problem = OffsetProblem(data, machine, n, self.reconstruction, self.u_penalty, self.v_penalty)
        with Progress(name, self.max_iter, self.verbose) as progress:
            found = solve(
                problem,
                bases,
                max_iter=self.max_iter,
                tol=self.tol,
                keep_on_interrupt=self.on_interrupt == "keep",
                callback=progress,
            )
        self._say(found, machine)
        self.components_ = found.point.V
        self.column_offsets_ = mean + found.point.c
        self.objective_ = np.array(found.objective)
        self.n_iter_ = len(found.objective)
        self.classes_ = labels.classes
        self._task = labels.task
        self._keep_machine(machine, labels.index)
        Z = np.array(rows.get(self._place(rows)))
        Z[labels.index] = found.point.Z
        self.embedding_, self.row_offsets_ = Z[:, :-1].copy(), Z[:, -1].copy()
        self.transduction_ = self._decide(self._scores_of(Z))
        self.transduction_[labels.index] = labels.decode(labels.values)
        return self

    def transform(self, X: Any) -> Any:
        """Place rows, each by itself, as the fit places unlabelled ones.

        Parameters
        ----------
        X : container of shape (n, d)
            Any rows the library reads.

        Returns
        -------
        U : array of shape (n, k)
            On the host for arrays and files; otherwise where X is.
        """
        check_is_fitted(self)
        return self._place(self._rows(X, reset=False), slice(None, -1))

    def row_offsets(self, X: Any) -> np.ndarray:
        """Return the offset of each row, which `transform` leaves out.

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
        return np.asarray(rows.get(self._place(rows, slice(-1, None))))[:, 0]

    def inverse_transform(self, U: Any, row_offsets: Any = None) -> np.ndarray:
        """Return the rows that an embedding stands for, U V and the offsets.

        Parameters
        ----------
        U : array of shape (n, k)
            Places of rows.
        row_offsets : array-like of shape (n,), optional
            The rows' own offsets, from the method of that name or ``row_offsets_``; zeros when None.

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
        """Return [U, bu] of rows without regard to labels, or some of its columns: one pass."""
        G = fold(self.components_, self.u_penalty / self.reconstruction).G[:, columns]
        return rows.map(_place, shared=(self.column_offsets_, np.ascontiguousarray(G)))

    def _placed(self, X: Any) -> np.ndarray:
        rows = self._rows(X, reset=False)
        return np.asarray(rows.get(self._place(rows)))

    def _scores(self, rows: Rows) -> np.ndarray:
        return self._scores_of(rows.get(self._place(rows)))

    def _scores_of(self, Z: np.ndarray) -> np.ndarray:
        scores = self._machine_scores(np.asarray(Z, dtype=np.float64))
        return scores[:, 0] if self._task == "binary" else scores

    def _say(self, found: OffsetSolution, machine: Machine) -> None:
        """Warn where the solution is not all that was asked for."""
        name = type(self).__name__
        warn_of_early_end(found, name, self.tol)
        shortfall = machine.shortfall()
        if shortfall is not None:
            warn_user(
                f"the support vector machines of {name} have not settled: the last {shortfall}",
                ConvergenceWarning,
            )
        ridge = self.u_penalty / self.reconstruction
        if np.vdot(found.point.V, found.point.V) < _SHRUNK_AWAY * ridge:
            warn_user(
                f"u_penalty={self.u_penalty:g} and v_penalty={self.v_penalty:g} have shrunk the components away; "
                "lower them, or multiply X by a constant",
                UserWarning,
            )

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self) -> Any:
        """Declare that float32 stays float32."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _place(X: Block, center: Any, G: Any) -> Any:
    return X.shift(center) @ G
