"""From scores to predictions: the same rules for every estimator that predicts."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.utils import get_tags

import labelfold
from labelfold import CCA, DRSVM, HSL, LSDR, NSDR, OPLS, PCALS, SSNMF, TSVM, KernelPCALS, LabelFold
from labelfold.base import Decisions

# What takes the place of an estimator with its defaults: fewer iterations, or a ridge for few rows.
SHORTER = [
    CCA(ridge=0.1),
    HSL(ridge=0.1),
    DRSVM(2, max_iter=5, tol=1.0),
    LSDR(2, max_iter=5, tol=1.0),
    NSDR(2, max_iter=5, tol=1.0),
    SSNMF(2, max_iter=20, tol=1.0),
    TSVM(n_stages=2),
    PCALS(2),
    KernelPCALS(2, n_landmarks=10),
    LabelFold(forms=["as they are"], views=["linear"]),
]
KINDS = [getattr(labelfold, name) for name in labelfold._ESTIMATORS]
MODELS = [
    {type(model): model for model in SHORTER}.get(kind) or kind()
    for kind in KINDS
    if issubclass(kind, Decisions)
]


def problem(task):
    X, y = load_iris(return_X_y=True)
    X, y = X[::2], y[::2]
    if task == "binary":
        return X, np.where(np.arange(75) % 3, (y > 0).astype(int), -1)
    if task == "multiclass":
        return X, np.where(np.arange(75) % 3, y, -1)
    Y = np.column_stack([y == 0, y > 0, X[:, 0] > 6]).astype(float)
    Y[::3] = np.nan
    return X, Y


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_scores_classes_and_probabilities_agree(model, task):
    X, y = problem(task)
    if task == "multilabel" and not get_tags(model).classifier_tags.multi_label:
        with pytest.raises(ValueError, match="y is multilabel"):
            model.fit(X, y)
        return
    model = model.fit(X, y)
    assert model.task_ == task
    F, p, found = model.decision_function(X), model.predict_proba(X), model.predict(X)
    assert ((p >= 0) & (p <= 1)).all()
    if task == "multilabel":
        np.testing.assert_array_equal(found, F > 0)
        np.testing.assert_array_equal(found, p > 0.5)
        return
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(found, model.classes_[p.argmax(axis=1)])
    best = (F > 0).astype(int) if task == "binary" else F.argmax(axis=1)
    np.testing.assert_array_equal(found, model.classes_[best])
    known = y != -1
    assert model.score(X, y) == np.mean(found[known] == y[known])


def test_a_score_that_is_its_target_has_the_same_odds_whatever_the_number_of_classes():
    class Fixed(Decisions):
        pass

    for task, gap, scores in (
        ("binary", 2.0, [[1.0]]),
        ("multiclass", 1.0, np.eye(1, 7)),
        ("multiclass", 2.0, 2 * np.eye(1, 4) - 1),
        ("multilabel", 1.0, [[0.5, -0.5]]),
        ("multilabel", 2.0, [[1.0, -1.0]]),
    ):
        model = Fixed()
        model.task_, model._target_gap = task, gap
        p = model._shares(np.array(scores, dtype=float))
        np.testing.assert_allclose(np.log(p.max() / (1 - p.max())), 2.0)


def test_numbers_have_neither_scores_nor_probabilities():
    X = load_iris().data
    model = OPLS(task="regression").fit(X[:, 1:], X[:, 0])
    for name in ("decision_function", "predict_proba"):
        with pytest.raises(AttributeError, match="has no attribute") as caught:
            getattr(model, name)
        assert "this model predicts numbers" in str(caught.value.__cause__)
