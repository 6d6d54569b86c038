"""Adapters of baselines: scikit-learn's LabelSpreading and LDA, and UMAP."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.semi_supervised import LabelSpreading
from sklearn.utils.validation import check_is_fitted, validate_data

from labelfold.app.registry._partly_labelled import Coded, Labelled
from labelfold.labels import read_labels


class Spreading(Coded):
    """scikit-learn's LabelSpreading over a nearest-neighbour graph, for any label values.

    Parameters
    ----------
    n_neighbors : int, default=7
        Number of neighbours in the graph; fewer if there are fewer rows.
    alpha : float, default=0.2
        How much labels may change; see LabelSpreading.
    unlabeled : number or str, default=-1
        The value of y that marks an unlabelled row; missing values always do.

    Attributes
    ----------
    estimator_, classes_, transduction_
        See `Coded`.
    """

    def __init__(self, n_neighbors: int = 7, *, alpha: float = 0.2, unlabeled: Any = -1) -> None:
        super().__init__(LabelSpreading(), unlabeled=unlabeled)
        self.n_neighbors = n_neighbors
        self.alpha = alpha

    def _graph(self, n: int) -> LabelSpreading:
        neighbours = min(self.n_neighbors, n - 1)
        return LabelSpreading(kernel="knn", n_neighbors=neighbours, alpha=self.alpha, max_iter=1000)


class ScikitLDA(TransformerMixin, Labelled):
    """scikit-learn's LinearDiscriminantAnalysis on the labelled rows, with Ledoit and Wolf's shrinkage.

    It predicts from the embedding, as reduced-rank LDA does: by the distance to the class means and the priors.
    (scikit-learn's own ``predict`` uses all directions for every ``n_components``.)

    Parameters
    ----------
    n_components : int, optional
        Size of the embedding, at most the number of classes less one, which is the default.
    unlabeled : number or str, default=-1
        The value of y that marks an unlabelled row; missing values always do.

    Attributes
    ----------
    classifier_ : LinearDiscriminantAnalysis
        Fitted on class codes; without shrinkage if the shrunk covariance is still singular.
    means_ : ndarray of shape (c, k)
        The class means in the embedding.
    classes_ : ndarray of shape (c,)
        The classes.
    """

    def __init__(self, n_components: int | None = None, *, unlabeled: Any = -1) -> None:
        super().__init__(unlabeled=unlabeled)
        self.n_components = n_components

    def fit(self, X: Any, y: Any, groups: Any = None) -> ScikitLDA:
        """Fit on the labelled rows of X; ``groups`` are ignored."""
        X = validate_data(self, X)
        labels = read_labels(y, X.shape[0], unlabeled=self.unlabeled, estimator="ScikitLDA")
        self.task_, self.classes_ = labels.task, labels.classes
        rows, codes = X[labels.index], labels.values
        most = min(labels.n_classes - 1, X.shape[1])
        model = LinearDiscriminantAnalysis(n_components=min(self.n_components or most, most))
        try:
            self.classifier_ = clone(model).set_params(solver="eigen", shrinkage="auto").fit(rows, codes)
        except np.linalg.LinAlgError:  # some columns are constant among few labelled rows
            self.classifier_ = model.fit(rows, codes)
        Z = self.classifier_.transform(rows)
        self.means_ = np.array([Z[codes == c].mean(axis=0) for c in range(labels.n_classes)])
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Project rows onto the discriminant directions."""
        X = self._checked(X)
        return self.classifier_.transform(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return each row's class."""
        best = self._scores(X).argmax(axis=1)
        return self.classes_[best]

    def decision_function(self, X: Any) -> np.ndarray:
        """Return each class's score; for two classes the score of the second over the first."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return each row's class probabilities."""
        return softmax(self._scores(X), axis=1)

    def _scores(self, X: Any) -> np.ndarray:
        Z = self.transform(X)
        return np.log(self.classifier_.priors_) - 0.5 * euclidean_distances(Z, self.means_, squared=True)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the directions."""
        check_is_fitted(self)
        return np.array([f"scikitlda{i}" for i in range(self.means_.shape[1])], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


class SupervisedUMAP(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """umap-learn's semi-supervised UMAP.

    Parameters
    ----------
    n_components : int, default=2
        Size of the embedding.
    n_neighbors : int, default=15
        Number of neighbours in its graph; fewer if there are fewer rows.
    random_state : int, optional
        Seed.
    """

    def __init__(self, n_components: int = 2, *, n_neighbors: int = 15, random_state: Any = None) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> SupervisedUMAP:
        """Lay out all rows; y holds class codes, with -1 for unlabelled rows."""
        from umap import UMAP

        X = validate_data(self, X, accept_sparse="csr")
        self.umap_ = UMAP(
            n_components=self.n_components,
            n_neighbors=max(2, min(self.n_neighbors, X.shape[0] - 1)),
            random_state=self.random_state,
            n_jobs=1,
        ).fit(_as_matrix(X), y)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Place rows in the layout."""
        check_is_fitted(self)
        return self.umap_.transform(_as_matrix(validate_data(self, X, accept_sparse="csr", reset=False)))

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _as_matrix(X: Any) -> Any:
    """Return sparse rows as SciPy's older matrices, the only sparse type that UMAP takes."""
    return sp.csr_matrix(X) if sp.issparse(X) else X
