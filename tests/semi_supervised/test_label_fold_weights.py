"""Weights of rows and classes in LabelFold: whole weights are repeated rows, and a weight of 0 leaves a row out."""

import numpy as np
import pytest

from labelfold import LabelFold
from labelfold.model_selection import Groups
from labelfold.semi_supervised._trees import grow
from labelfold.semi_supervised._weights import errors_without_each, leave_one_out, spectrum

RIDGE = np.array([1e-3, 1e-1, 10.0])
N = 90


@pytest.fixture
def clusters(rng):
    y = np.arange(N) % 3
    X = rng.standard_normal((3, 5))[y] * 2 + rng.standard_normal((N, 5)) * [1, 2, 0.5, 1, 1]
    return X, y


def some(task, X, y):
    """Return targets of every other row."""
    known = {
        "binary": np.minimum(y, 1).astype(float),
        "multiclass": y.astype(float),
        "multilabel": np.column_stack([X[:, 0] > 0, X[:, 1] > 0, y == 1]).astype(float),
        "regression": X[:, 0] + 0.3 * X[:, 1] ** 2,
    }[task]
    known[1::2] = np.nan
    return known


def close(found, expected, rtol):
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.nanmax(np.abs(expected)))


@pytest.mark.parametrize(
    ("task", "class_weight"),
    [
        *((task, None) for task in ("binary", "multiclass", "multilabel", "regression")),
        *((task, "balanced") for task in ("binary", "multiclass", "multilabel")),
    ],
)
def test_whole_weights_are_repeated_rows_that_are_left_out_together(clusters, rng, task, class_weight):
    """Groups of copies are inverted with a lower bound of 1e-9, and single rows without one, hence 1e-6."""
    X, y = clusters
    known, w, new = some(task, X, y), rng.integers(1, 4, N), rng.standard_normal((20, 5))
    copies = np.repeat(np.arange(N), w)
    options = {"views": ["linear", "principal", "rbf", "laplace"], "class_weight": class_weight}
    weighted = LabelFold(5, **options).fit(X, known, sample_weight=w)
    repeated = LabelFold(5, **options).fit(X[copies], known[copies], groups=copies)
    first = np.unique(copies, return_index=True)[1]
    close(weighted.predict(new), repeated.predict(new), 1e-6)
    close(np.abs(weighted.transform(new)), np.abs(repeated.transform(new)), 1e-5)
    close(np.abs(weighted.embedding_), np.abs(repeated.embedding_[first]), 1e-5)
    close(weighted.loo_score_, repeated.loo_score_, 1e-6)
    close(weighted.loo_interval_, repeated.loo_interval_, 1e-6)
    for name in ("weight", "loo_error"):
        close(
            np.sort(weighted.view_weights_[name]), np.sort(repeated.view_weights_[name]), 1e-5
        )  # NaN: left out
    if task != "regression":
        close(weighted.predict_proba(new), repeated.predict_proba(new), 1e-6)


@pytest.mark.parametrize("task", ["multiclass", "multilabel", "regression"])
@pytest.mark.parametrize("options", [{}, {"n_anchors": 15}, {"forms": ["ranks"], "n_components": 6}])
def test_rows_of_weight_0_are_left_out(clusters, rng, task, options):
    X, y = clusters
    known, new = some(task, X, y), rng.standard_normal((20, 5))
    w = rng.integers(0, 2, N) * rng.uniform(0.5, 2, N)
    kept = w > 0
    fold = LabelFold(**options).fit(X, known, sample_weight=w)
    rest = LabelFold(**options).fit(X[kept], known[kept], sample_weight=w[kept])
    close(fold.transform(new), rest.transform(new), 1e-9)
    close(fold.embedding_[kept], rest.embedding_, 1e-9)
    close(fold.embedding_[~kept], rest.transform(X[~kept]), 1e-9)
    close(fold.transduction_[~kept], rest.predict(X[~kept]), 1e-9)
    close(fold.loo_interval_, rest.loo_interval_, 1e-9)
    assert len(fold.groups_) == len(rest.groups_)


@pytest.mark.parametrize("views", [["graph"], ["trees"]])
def test_what_is_drawn_agrees_with_repeated_rows_in_the_mean_over_seeds(clusters, rng, views):
    X, y = clusters
    known, w = some("binary", X, y), rng.integers(1, 4, N)
    copies = np.repeat(np.arange(N), w)
    options = {"views": views, "forms": ["as they are"], "n_anchors": 25}
    found, expected = [], []
    for seed in range(12):
        found.append(LabelFold(**options, random_state=seed).fit(X, known, sample_weight=w))
        repeated = LabelFold(**options, random_state=seed)
        expected.append(repeated.fit(X[copies], known[copies], groups=copies))
    found, expected = (np.array([one.predict_proba(X)[:, 1] for one in each]) for each in (found, expected))
    error = np.sqrt((found.var(axis=0, ddof=1) + expected.var(axis=0, ddof=1)) / 12)
    gap = np.abs(found.mean(axis=0) - expected.mean(axis=0))
    unweighted = LabelFold(**options).fit(X, known).predict_proba(X)[:, 1]
    assert np.sqrt(np.mean(gap**2)) < 2 * np.sqrt(np.mean(error**2)) + 0.01
    assert np.sqrt(np.mean(gap**2)) < np.sqrt(np.mean((unweighted - expected.mean(axis=0)) ** 2))


@pytest.mark.parametrize("is_kernel", [True, False])
def test_left_out_errors_are_those_of_weighted_regressions_without_the_row(rng, is_kernel):
    phi, Y, w = rng.standard_normal((12, 4)), rng.standard_normal((12, 2)), rng.uniform(0.2, 3, 12)
    groups, roots = Groups.single(12), np.sqrt(w)[:, None]
    found = spectrum(phi @ phi.T if is_kernel else phi, is_kernel, 0.1, w)
    left = leave_one_out(found, roots * Y, RIDGE, groups) / roots
    without = errors_without_each(found, roots * Y, RIDGE, groups, 1.0, w)
    F = np.hstack([phi, np.full((12, 1), np.sqrt(0.1))])

    def residual(i, rows, ridge):
        D = w[rows, None] * F[rows]
        return Y[i] - F[i] @ np.linalg.solve(F[rows].T @ D + ridge * np.eye(5), D.T @ Y[rows])

    for r, ridge in enumerate(RIDGE):
        for i in (0, 7):
            rest = np.delete(np.arange(12), i)
            np.testing.assert_allclose(left[r, i], residual(i, rest, ridge), atol=1e-9)
            errors = [(residual(j, rest[rest != j], ridge) ** 2).sum() for j in rest]
            assert without[r, i] == pytest.approx(np.average(errors, weights=w[rest]), rel=1e-8)


def test_leaves_of_trees_are_weighted_means():
    X = np.repeat([[0.0], [1.0]], 20, axis=0)
    Y = np.tile([[1.0], [0.0]], (20, 1))
    w = np.where(Y[:, 0] > 0, 9.0, 1.0)
    trees = grow(X, Y, 1.0, False, 0, weights=w).trees
    # a tree leaves out 4 of 40 rows: at most 2 of either kind are not in a leaf of 20
    assert (np.abs(trees(X[:1]) - 0.9) < 0.03).all()
    assert (np.abs(grow(X, Y, 1.0, False, 0).trees(X[:1]) - 0.5) < 0.03).all()


def test_weights_of_classes_count_for_labels_only(clusters):
    X, y = clusters
    known = some("multiclass", X, y)
    by_class = LabelFold(class_weight={0: 3.0}).fit(X, known)
    by_row = LabelFold().fit(X, known)
    unweighted = by_row.loo_predictions_
    # the views of `refit` are those of `fit`
    by_row.refit(known, sample_weight=np.where(known == 0, 3.0, 1.0), full=True)
    close(by_class.decision_function(X), by_row.decision_function(X), 1e-9)
    close(by_class.predict_proba(X), by_row.predict_proba(X), 1e-9)
    right = by_class.loo_predictions_ == known[::2]
    assert by_class.loo_score_ == pytest.approx(right.mean(), abs=1e-12)
    assert by_row.loo_score_ == pytest.approx(
        np.average(right, weights=np.where(known[::2] == 0, 3.0, 1.0)), abs=1e-12
    )
    assert (by_class.loo_predictions_ == 0).sum() >= (unweighted == 0).sum()


def test_balanced_classes_find_more_rows_of_the_rare_one(rng):
    y = (rng.random(600) < 0.08).astype(int)
    X = rng.standard_normal((600, 4)) + 1.3 * y[:, None]
    known = np.where(np.arange(600) < 200, y, -1)
    plain, balanced = (LabelFold(class_weight=w).fit(X, known) for w in (None, "balanced"))
    rare = (y == 1) & (known < 0)
    assert (balanced.predict(X[rare]) == 1).mean() > (plain.predict(X[rare]) == 1).mean() + 0.1


def test_refit_takes_other_weights_and_else_those_of_fit(clusters, rng):
    X, y = clusters
    known, w = some("multiclass", X, y), rng.uniform(0.5, 2, N)
    fold = LabelFold().fit(X, known, sample_weight=w)
    expected = fold.decision_function(X)
    close(fold.refit(known, full=True).decision_function(X), expected, 1e-12)
    other = fold.refit(known, sample_weight=np.ones(N), full=True).decision_function(X)
    assert np.abs(other - expected).max() > 1e-3


def test_every_container_gives_the_same(container, clusters, rng):
    X, y = clusters
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    known, w = some("multiclass", X, y), rng.integers(0, 4, N).astype(float)
    expected = LabelFold(5, n_anchors=20).fit(X, known, sample_weight=w)
    fold = LabelFold(5, n_anchors=20).fit(container.make(X), known, sample_weight=w)
    np.testing.assert_allclose(np.abs(fold.embedding_), np.abs(expected.embedding_), atol=1e-6)
    np.testing.assert_array_equal(fold.transduction_, expected.transduction_)


def test_words_are_counted_with_their_weights(rng):
    X = rng.poisson(0.1, (80, 300)).astype(float)
    X[:, :5] += rng.integers(0, 2, 80)[:, None]
    known, w = np.where(np.arange(80) < 40, X[:, 0] > 0, -1), rng.integers(1, 4, 80)
    copies, options = np.repeat(np.arange(80), w), {"views": ["linear", "rbf"]}
    weighted = LabelFold(**options).fit(X, known, sample_weight=w)
    repeated = LabelFold(**options).fit(X[copies], known[copies], groups=copies)
    assert set(weighted.view_weights_["form"]) == {"tf-idf", "root counts"}
    close(weighted.decision_function(X), repeated.decision_function(X), 1e-6)


def test_one_row_with_a_weight(clusters):
    X, y = clusters
    with pytest.raises(ValueError, match="one class only"):
        LabelFold().fit(X, y, sample_weight=np.eye(N)[0])
    with pytest.raises(ValueError, match="X has one sample"):
        LabelFold().fit(X, X[:, 0], sample_weight=np.eye(N)[0])
