"""PCALS: a subspace and a linear function on it, one direction at a time (Zhang, Hou, Xiang & Liu, ECML PKDD 2009)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelfold.labels import Labels
from labelfold.numerics.least_squares import MAX_GRAM_BYTES
from labelfold.pursuit.base import NestedSubspace
from labelfold.pursuit.choosing import CANDIDATES
from labelfold.pursuit.sources import LinearSource, Source
from labelfold.rows import Rows, as_rows


class PCALS(NestedSubspace):
    r"""PCA-based least squares."""

    def __init__(
        self,
        n_components: int | str = 2,
        *,
        reconstruction: float = 1.0,
        center: bool = True,
        refit: bool = False,
        ridge: float = 0.0,
        task: str = "auto",
        candidates: Any = CANDIDATES,
        cv: int = 5,
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
        self.reconstruction = reconstruction
        self.center = center
        self.refit = refit
        self.ridge = ridge
        self.task = task
        self.candidates = candidates
        self.cv = cv
        self.one_standard_error = one_standard_error
        self.tol = tol
        self.max_iter = max_iter
        self.max_gram_bytes = max_gram_bytes
        self.random_state = random_state
        self.verbose = verbose
        self.on_interrupt = on_interrupt
        self.unlabeled = unlabeled

    def _source(self, rows: Rows, labels: Labels, Y: np.ndarray) -> Source:
        return LinearSource(rows, labels, Y, center=self.center, max_gram_bytes=self.max_gram_bytes)

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """Return the rows that places in the subspace stand for.

        Parameters
        ----------
        Z : array of shape (n, p)
            What `transform` gave, of all directions or of the first p.

        Returns
        -------
        X : ndarray of shape (n, d)
        """
        check_is_fitted(self)
        Z = np.asarray(as_rows(Z).whole().dense())
        if Z.shape[1] > len(self.components_):
            raise ValueError(
                f"Z has {Z.shape[1]} columns, where at most {len(self.components_)} are expected; pass what transform "
                "returns"
            )
        return (Z @ self.components_[: Z.shape[1]] + self.mean_).astype(Z.dtype, copy=False)
