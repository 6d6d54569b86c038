"""Scorers that leave unlabelled rows out, and the one-standard-error rule."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.metrics import balanced_accuracy_score, f1_score, get_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from labelfold import LDA
from labelfold.model_selection import LabelledScorer, OneStandardError, SemiSupervisedKFold
from labelfold.model_selection._scoring import one_standard_error


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True)
    hidden = np.random.default_rng(0).random(150) < 0.5
    return X, y, hidden, LDA(ridge=5.0).fit(X, np.where(hidden, -1, y))


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "f1_macro", "neg_log_loss"])
def test_unlabelled_rows_do_not_count(iris, metric):
    X, y, hidden, model = iris
    expected = get_scorer(metric)(model, X[~hidden], y[~hidden])
    scorer = pickle.loads(pickle.dumps(LabelledScorer(metric)))
    for marked in (
        np.where(hidden, -1, y),
        np.where(hidden, np.nan, y),
        np.where(hidden, None, y.astype(object)),
    ):
        assert scorer(model, X, marked) == pytest.approx(expected)
    assert scorer(model, sp.csr_array(X), np.where(hidden, -1, y)) == pytest.approx(expected)
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = LDA(ridge=5.0).fit(frame, np.where(hidden, -1, y))
    assert scorer(named, frame, np.where(hidden, -1, y)) == pytest.approx(expected)
    assert scorer(model, X, y) == pytest.approx(get_scorer(metric)(model, X, y))


def test_functions_and_their_options(iris):
    X, y, hidden, model = iris
    marked = np.where(hidden, -1, y)
    predicted = model.predict(X[~hidden])
    assert LabelledScorer(balanced_accuracy_score)(model, X, marked) == balanced_accuracy_score(
        y[~hidden], predicted
    )
    weighted = LabelledScorer(f1_score, average="weighted")
    assert weighted(model, X, marked) == f1_score(y[~hidden], predicted, average="weighted")
    assert "average='weighted'" in repr(weighted)


def test_the_models_classes_settle_what_minus_one_means(iris):
    X, y, _, _ = iris
    two = np.where(y == 0, -1, 1)
    model = LDA(unlabeled=None).fit(X, two)
    assert LabelledScorer()(model, X, two) == model.score(X, two)
    assert LabelledScorer()(model, X[:5], two[:5]) == 1.0


def test_nothing_to_score_is_said(iris):
    X, _, _, model = iris
    with pytest.raises(ValueError, match="no labelled row"):
        LabelledScorer()(model, X[:2], [-1, -1])


@given(
    scores=st.lists(st.lists(st.integers(0, 100), min_size=4, max_size=4), min_size=1, max_size=8),
    seed=st.integers(0, 5),
)
def test_the_choice_is_small_and_good_enough(scores, seed):
    scores = np.array(scores) / 100
    sizes = np.random.default_rng(seed).permutation(len(scores)) + 1
    means = scores.mean(axis=1)
    chosen = one_standard_error(scores, sizes)
    best = int(np.argmax(means))
    error = scores[best].std(ddof=1) / 2
    assert means[chosen] >= means[best] - error
    smaller = sizes < sizes[chosen]
    assert (means[smaller] < means[best] - error).all()


def test_failed_fits_are_no_candidates():
    scores = np.array([[np.nan, 0.9], [0.8, 0.8], [0.7, 0.7]])
    assert one_standard_error(scores, np.array([1, 2, 3])) == 1
    with pytest.raises(ValueError, match="Every candidate failed"):
        one_standard_error(np.full((2, 2), np.nan), np.array([1, 2]))


def test_among_equal_sizes_the_best_mean_wins():
    scores = np.array([[0.90, 0.94], [0.91, 0.95], [0.89, 0.95]])
    assert one_standard_error(scores, np.array([2, 2, 3])) == 1


def test_in_a_grid_search(iris):
    X, y, hidden, _ = iris
    marked = np.where(hidden, -1, y)
    model = make_pipeline(PCA(), LDA())
    grid = {"pca__n_components": [None, 3, 2, 1], "lda__ridge": [0.0, 1.0]}
    scoring = {"plain": LabelledScorer(), "balanced": LabelledScorer("balanced_accuracy")}
    rule = OneStandardError("pca__n_components", metric="balanced")
    cv = SemiSupervisedKFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(model, grid, cv=cv, scoring=scoring, refit=rule).fit(X, marked)
    results = pd.DataFrame(search.cv_results_)
    means = results["mean_test_balanced"]
    # scikit-learn's spread is over the folds, with their number in place of one less
    error = results["std_test_balanced"][means.idxmax()] / np.sqrt(5 - 1)
    sizes = results["param_pca__n_components"].fillna(99)
    good = results[means >= means.max() - error]
    assert search.best_params_["pca__n_components"] == sizes[good.index].min()
    assert search.best_estimator_.predict(X).shape == (150,)


def test_searches_it_cannot_read():
    scores = {"split0_test_score": [1.0], "split1_test_score": [1.0]}
    with pytest.raises(ValueError, match="should vary one parameter named 'n_components'"):
        OneStandardError()(scores | {"param_ridge": [1.0]})
    with pytest.raises(ValueError, match="no scores named 'f1'"):
        OneStandardError(metric="f1")(scores | {"param_n_components": [1]})
