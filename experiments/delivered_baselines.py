"""The tables of `delivered.py`, and the predictions of ten lines of scikit-learn for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC, LinearSVC

from data_sets import Data, complete, load, masked, reduced, rng_of

DENSE = ("wine", "ionosphere", "sonar", "pima", "satimage", "optdigits", "ida_image", "ssl_g241c")
# Classes of news20_bydate_counts, by their index in alphabetical order.
COUNTS = {"autos_motorcycles": (7, 8), "medicine_space": (13, 14)}
TABLES = (*DENSE, *COUNTS)
MOST_ROWS, MOST_DOCUMENTS = 3000, 2000
FEWEST_ROWS_OF_A_WORD = 5


@cache
def read(name: str, most_rows: int | None = None) -> Data:
    """Return a table by name, with at most 3,000 rows (2,000 for counts of words), or ``most_rows``."""
    if name in COUNTS:
        data = load("news20_bydate_counts", _documents)
        kept = np.isin(data.y, COUNTS[name])
        X, y = data.X[kept], data.y[kept]
    else:
        data = load(name, rows=MOST_ROWS)
        X, y = complete(data.X, data.y)
    most = most_rows or (MOST_DOCUMENTS if name in COUNTS else MOST_ROWS)
    X, y = reduced(X, y, most, "rows", name)
    if sparse.issparse(X):
        X = X[:, np.bincount(X.indices, minlength=X.shape[1]) >= FEWEST_ROWS_OF_A_WORD]
    return Data(name, X, np.unique(y, return_inverse=True)[1], data.source)


def _documents(rng: np.random.Generator) -> tuple[sparse.csr_array, np.ndarray]:
    """Return counts of Zipf-like words in four classes, each with typical words."""
    n, d, length = 800, 300, 60
    classes = np.array(sorted(c for pair in COUNTS.values() for c in pair))
    codes = np.arange(n) % len(classes)
    frequency = np.exp(0.7 * rng.standard_normal((len(classes), d))) / (np.arange(d) + 20.0)
    frequency /= frequency.sum(axis=1, keepdims=True)
    return sparse.csr_array(rng.multinomial(length, frequency[codes]).astype(float)), classes[codes]


def draw(y: np.ndarray, labels: int, *words: Any) -> np.ndarray:
    """Return the indices of labelled rows: in proportion to the classes, at least one of each."""
    rng = rng_of("labels", *words)
    sizes = np.bincount(y)
    share = sizes * labels / len(y)
    counts = np.maximum(np.floor(share), 1).astype(int)
    # remaining labels go to the classes with the largest deviation from proportion
    while counts.sum() != labels:
        step = 1 if counts.sum() < labels else -1
        off = np.where((counts > 1) | (step > 0), step * (share - counts), -np.inf)
        counts[off.argmax()] += step
    parts = [rng.permutation(np.flatnonzero(y == c))[:k] for c, k in enumerate(counts)]
    return np.sort(np.concatenate(parts))


@cache
def _scaled(table_name: str, most_rows: int | None) -> Any:
    """Return all rows with unit variance, or tf-idf for counts."""
    table = read(table_name, most_rows)
    return (TfidfTransformer() if sparse.issparse(table.X) else StandardScaler()).fit_transform(table.X)


@cache
def _components(table_name: str, most_rows: int | None) -> np.ndarray:
    """Return principal components of all scaled rows with 95% of the variance, or 100 components of tf-idf."""
    Z = _scaled(table_name, most_rows)
    reducer = TruncatedSVD(min(100, *Z.shape), random_state=0) if sparse.issparse(Z) else PCA(0.95)
    return reducer.fit_transform(Z)


def _lda(X: Any, Z: Any, P: np.ndarray) -> tuple[Any, ClassifierMixin]:
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    return (P if sparse.issparse(X) else X), model


def _rbf_svm(X: Any, Z: Any, P: np.ndarray) -> tuple[Any, ClassifierMixin]:
    # 1 / gamma of scikit-learn's "scale", the spread of the rows
    spread = 1.0 if sparse.issparse(Z) else Z.shape[1]
    grid = {"C": np.logspace(-1, 3, 5), "gamma": np.logspace(-2, 1, 4) / spread}
    return Z, GridSearchCV(SVC(), grid)


def _pca_svm(X: Any, Z: Any, P: np.ndarray) -> tuple[Any, ClassifierMixin]:
    return P, GridSearchCV(LinearSVC(max_iter=5000), {"C": np.logspace(-3, 1, 5)})


def _naive_bayes(X: Any, Z: Any, P: np.ndarray) -> tuple[Any, ClassifierMixin]:
    return X, MultinomialNB() if sparse.issparse(X) else GaussianNB()


def _label_spreading(X: Any, Z: Any, P: np.ndarray) -> tuple[Any, ClassifierMixin]:
    return Z, LabelSpreading(kernel="knn", n_neighbors=7, max_iter=1000)


# Each gets the rows unchanged, scaled and reduced, and returns the rows that it uses and a classifier.
BASELINES: dict[str, Callable[[Any, Any, np.ndarray], tuple[Any, ClassifierMixin]]] = {
    "shrinkage LDA": _lda,
    "random forest": lambda X, Z, P: (X, RandomForestClassifier(300, random_state=0)),
    "extra trees": lambda X, Z, P: (X, ExtraTreesClassifier(300, random_state=0)),
    "RBF SVM": _rbf_svm,
    "PCA + SVM": _pca_svm,
    "label spreading": _label_spreading,
    "logistic regression": lambda X, Z, P: (Z, LogisticRegression(max_iter=1000)),
    "naive Bayes": _naive_bayes,
}


def predict(baseline: str, table: Data, most_rows: int | None, known: np.ndarray) -> np.ndarray:
    """Return the predictions of a baseline for every row of a table, given the labels of the known rows."""
    key = table.name, most_rows
    rows, model = BASELINES[baseline](table.X, _scaled(*key), _components(*key))
    y = table.y[known]
    if isinstance(model, GridSearchCV):
        model.set_params(cv=max(2, min(5, np.bincount(y).min())))
    if isinstance(model, LabelSpreading):
        few = masked(table.y, known)
        with np.errstate(invalid="ignore"):  # rows that no label reaches get the first class
            return model.fit(rows, few).transduction_
    return model.fit(rows[known], y).predict(rows)
