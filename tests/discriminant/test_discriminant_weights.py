"""Weights of rows and of classes: whole weights are repeated rows, and a weight of 0 leaves a row out."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine, make_multilabel_classification
from sklearn.model_selection import StratifiedKFold

from labelfold import CCA, HSL, LDA, OPLS, SSDR
from labelfold.rows import as_rows

TWO_STAGE = [LDA, CCA, OPLS, HSL]
TARGETS = [
    *((maker, "classes") for maker in TWO_STAGE),
    *((maker, "labels") for maker in (CCA, OPLS, HSL)),
    *((maker, "numbers") for maker in (CCA, OPLS)),
]
OPTIONS = [
    {},
    {"ridge": "auto"},
    {"solver": "direct", "ridge": 0.5},
    {"max_gram_bytes": 0, "ridge": "auto", "tol": 1e-12},
    {"kernel": "rbf", "ridge": "auto"},
    {"kernel": "linear"},
    {"kernel": "poly", "gamma": "scale", "ridge": "auto", "n_landmarks": 90},
]


def class_data(seed=0):
    """Rows of three classes, a few of them unlabelled, with whole weights of which some are 0."""
    rng = np.random.default_rng(seed)
    X, y = load_iris(return_X_y=True)
    X, y = X[::3] + 0.1 * rng.standard_normal((50, 4)), y[::3].copy()
    y[::7] = -1
    order, weights = rng.permutation(50), rng.integers(0, 4, 50)
    return X[order], y[order], weights


def target_data(kind, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "classes":
        return class_data(seed)
    X, Y = make_multilabel_classification(60, 8, n_classes=3, random_state=seed)
    Y = (
        Y.astype(float)
        if kind == "labels"
        else Y @ rng.standard_normal((3, 2)) + rng.standard_normal((60, 2))
    )
    Y[::9] = np.nan
    return X + rng.standard_normal(X.shape), Y, rng.integers(0, 4, 60)


def assert_same_model(found, expected, X, rtol=1e-8):
    """The models have the same embedding (with a kernel but for signs, which its points decide) and predictions."""
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=rtol, atol=rtol)
    Z, Z0 = found.transform(X), expected.transform(X)
    if getattr(expected, "kernel", None) is not None:
        Z = Z * np.sign((Z * Z0).sum(axis=0))
    np.testing.assert_allclose(Z, Z0, rtol=rtol, atol=rtol * np.abs(Z0).max())
    if hasattr(expected, "ridge_"):
        np.testing.assert_allclose(found.ridge_, expected.ridge_, rtol=rtol)
        F = expected._score_rows(as_rows(X))
        np.testing.assert_allclose(found._score_rows(as_rows(X)), F, atol=rtol * np.abs(F).max())
        if expected.task_ != "regression":
            np.testing.assert_array_equal(found.predict(X), expected.predict(X))
        np.testing.assert_allclose(
            found.explained_variance_ratio_, expected.explained_variance_ratio_, atol=rtol
        )


@pytest.mark.parametrize(("maker", "kind"), TARGETS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_whole_weights_are_repeated_rows(maker, options, kind):
    X, y, weights = target_data(kind)
    found = maker(**options).fit(X, y, sample_weight=weights)
    expected = maker(**options).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights, axis=0))
    # The kernel of landmarks that are copies of others is singular, and its features lose half of the digits.
    assert_same_model(found, expected, X, rtol=1e-7 if "n_landmarks" in options else 1e-8)


@pytest.mark.parametrize("max_gram_bytes", [512 << 20, 0])
def test_whole_weights_of_ssdr_are_repeated_rows(max_gram_bytes):
    X, y, weights = class_data()
    options = {"n_components": 3, "max_gram_bytes": max_gram_bytes, "tol": 1e-12}
    found = SSDR(**options).fit(X, y, sample_weight=weights)
    expected = SSDR(**options).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(found.mean_, expected.mean_, rtol=1e-12)
    assert_same_model(found, expected, X)


@pytest.mark.parametrize("max_gram_bytes", [512 << 20, 0])
def test_weights_of_pairs_are_pairs_of_repeated_rows(max_gram_bytes):
    X, _, weights = class_data()
    weights[:8] = [2, 1, 3, 1, 0, 2, 1, 2]
    must, cannot = [(0, 1), (2, 3), (4, 5)], [(1, 6), (0, 7)]
    options = {"n_components": 3, "max_gram_bytes": max_gram_bytes, "tol": 1e-12}
    found = SSDR(**options).fit(X, sample_weight=weights, must_links=must, cannot_links=cannot)
    copies = np.split(np.arange(weights.sum()), np.cumsum(weights)[:-1])
    of_copies = [[(i, j) for a, b in pairs for i in copies[a] for j in copies[b]] for pairs in (must, cannot)]
    expected = SSDR(**options).fit(
        np.repeat(X, weights, axis=0), must_links=of_copies[0], cannot_links=of_copies[1]
    )
    assert_same_model(found, expected, X)


@pytest.mark.parametrize("maker", [*TWO_STAGE, SSDR])
def test_a_weight_of_0_leaves_a_row_out(container, maker):
    X, y, weights = class_data()
    weights = weights * np.random.default_rng(1).uniform(0.2, 3.0, len(X))
    counted = weights > 0
    found = maker(n_components=2).fit(container.make(X), y, sample_weight=weights)
    expected = maker(n_components=2).fit(X[counted], y[counted], sample_weight=weights[counted])
    assert_same_model(found, expected, X)


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
@pytest.mark.parametrize("maker", TWO_STAGE)
def test_the_same_answer_in_every_container(container, maker, options):
    X, y, weights = class_data()
    weights = weights * 0.3
    found = maker(**options).fit(container.make(X), y, sample_weight=weights)
    assert_same_model(found, maker(**options).fit(X, y, sample_weight=weights), X)


@pytest.mark.parametrize("maker", [*TWO_STAGE, SSDR])
def test_equal_weights_change_nothing_that_has_no_scale(maker):
    X, y, _ = class_data()
    found = maker(n_components=2).fit(X, y, sample_weight=np.full(len(X), 0.37))
    expected = maker(n_components=2).fit(X, y)
    scale = np.sqrt(0.37) if maker is not SSDR else 1.0  # W'X_c'X_c W = I
    Z = expected.transform(X)
    np.testing.assert_allclose(scale * found.transform(X), Z, atol=1e-9 * np.abs(Z).max())
    if maker is not SSDR:
        np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-9)
        np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-8 * np.abs(expected.coef_).max())


@pytest.mark.parametrize("maker", TWO_STAGE)
def test_a_class_without_weight_is_no_class(maker):
    X, y, _ = class_data()
    model = maker().fit(X, y, sample_weight=(y != 1).astype(float))
    assert model.classes_.tolist() == [0, 2]
    assert model.coef_.shape == (1, 4)


@pytest.mark.parametrize(("maker", "kind"), TARGETS)
def test_weighted_batches_give_what_fit_gives(maker, kind):
    X, y, weights = target_data(kind)
    weights = 0.4 * weights
    weights[:10] = 1.0
    model, expected = maker(ridge=0.1), maker(ridge=0.1).fit(X, y, sample_weight=weights)
    for some in np.array_split(np.arange(len(X)), 4):
        model.partial_fit(X[some], y[some], sample_weight=weights[some])
    assert_same_model(model, expected, X)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-8 * np.abs(expected.coef_).max())
    np.testing.assert_allclose(model.mean_, expected.mean_, rtol=1e-10)
    if maker is CCA:
        for name in ("x_loadings_", "y_loadings_"):
            np.testing.assert_allclose(getattr(model, name), getattr(expected, name), atol=1e-8)


@pytest.mark.parametrize("maker", TWO_STAGE)
def test_a_path_with_weights_is_that_of_its_fits(maker):
    X, y, weights = class_data()
    options = {"class_weight": {0: 2.0}}
    for model in maker(**options).path(X, y, [0.1, 1.0, 10.0], sample_weight=weights):
        alone = maker(ridge=model.ridge, **options).fit(X, y, sample_weight=weights)
        assert_same_model(model, alone, X)


@pytest.mark.parametrize("maker", TWO_STAGE)
def test_a_chosen_ridge_scores_with_weights(maker):
    X, y, _ = class_data()
    y = np.where(y < 0, 1, y)
    rng = np.random.default_rng(3)
    flipped = rng.random(50) < 0.3  # rows with a wrong label, which hardly count
    y[flipped] = rng.integers(0, 3, flipped.sum())
    weights = np.where(flipped, 1e-9, 1.0)
    model = maker(ridge=[1e-3, 1e3]).fit(X, y, sample_weight=weights)
    scores = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        one = maker(ridge=1e-3).fit(X[train], y[train], sample_weight=weights[train])
        scores.append(one.score(X[test], y[test], sample_weight=weights[test]))
    np.testing.assert_allclose(model.ridge_scores_[:, 0], scores, atol=1e-12)


def test_landmarks_are_drawn_by_weight():
    X, y, _ = class_data()
    y = np.where(y < 0, 1, y)
    weights = np.where(np.arange(50) < 10, 1.0, 1e-12)
    weights[[10, 30, 49]] = 1.0
    model = LDA(kernel="rbf", n_landmarks=8).fit(X, y, sample_weight=weights)
    landmarks = model.feature_map_.components_ + model.feature_map_.center_
    likely = X[weights == 1.0]
    assert (np.abs(landmarks[:, None] - likely).max(axis=2).min(axis=1) < 1e-12).all()


@pytest.mark.parametrize("maker", TWO_STAGE)
def test_class_weights_are_weights_of_the_rows_of_a_class(maker):
    X, y, weights = class_data()
    weights = weights + 0.5
    found = maker(class_weight={0: 3.0, 2: 0.5}).fit(X, y, sample_weight=weights)
    factors = np.select([y == 0, y == 2], [3.0, 0.5], 1.0)
    expected = maker().fit(X, y, sample_weight=weights * factors)
    assert_same_model(found, expected, X)
    streamed = maker(class_weight={0: 3.0, 2: 0.5})
    for some in np.array_split(np.arange(len(X)), 3):
        streamed.partial_fit(X[some], y[some], sample_weight=weights[some])
    assert_same_model(streamed, expected, X)


@pytest.mark.parametrize("maker", [CCA, OPLS, HSL])
def test_class_weights_of_several_labels_a_row_are_multiplied(maker):
    X, Y, _ = target_data("labels")
    Y = np.nan_to_num(Y)
    factors = np.where(Y[:, 0] > 0, 3.0, 1.0) * np.where(Y[:, 2] > 0, 0.5, 1.0)
    expected = maker().fit(X, Y, sample_weight=factors)
    assert_same_model(maker(class_weight={0: 3.0, 2: 0.5}).fit(X, Y), expected, X)
    assert_same_model(maker(class_weight={0: 3.0, 2: 0.5}).partial_fit(X, Y), expected, X)


def test_balanced_classes_have_equal_priors():
    X, y = load_wine(return_X_y=True)
    y = np.where(y == 2, 1, y)
    model = LDA(class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(model.priors_, [0.5, 0.5])
    assert LDA().fit(X, y).priors_[0] < 0.4


@pytest.mark.parametrize("maker", TWO_STAGE)
def test_balanced_batches_are_refused(maker):
    model = maker(class_weight="balanced")
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="depends on the labels of all batches; give the weights"):
        model.partial_fit(np.eye(3), [0, 1, 0])


@pytest.mark.parametrize("maker", [CCA, OPLS])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_numbers_have_no_class_weights(maker, method):
    with pytest.raises(ValueError, match="for numbers, which have no classes; use sample_weight"):
        getattr(maker(class_weight={0: 2.0}), method)(np.eye(3), [0.5, 1.5, 2.5])


@pytest.mark.parametrize("maker", TWO_STAGE)
def test_class_weights_of_unknown_classes_are_refused(maker):
    X, y, _ = class_data()
    for wrong in ({7: 1.0}, {0: -1.0}):
        with pytest.raises(
            ValueError, match=r"where positive weights of the classes \[0, 1, 2\] are expected"
        ):
            maker(class_weight=wrong).fit(X, y)
        with pytest.raises(
            ValueError, match=r"where positive weights of the classes \[0, 1, 2\] are expected"
        ):
            maker(class_weight=wrong).partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="where positive weights of the classes are expected"):
        maker(class_weight={0: 0.0}).partial_fit(X, y)


@pytest.mark.parametrize("maker", [*TWO_STAGE, SSDR])
def test_wrong_weights_are_refused(maker):
    X, y, _ = class_data()
    with pytest.raises(ValueError, match="sample_weight is an array of shape"):
        maker().fit(X, y, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="where numbers from 0 on are expected"):
        maker().fit(X, y, sample_weight=np.full(len(X), -1.0))
    with pytest.raises(ValueError, match="sample_weight is 0 in all 42 labelled rows"):
        maker().fit(X, y, sample_weight=y < 0)


def test_pairs_without_weight_are_refused():
    X, _, _ = class_data()
    with pytest.raises(ValueError, match="sample_weight is 0 in a row of every pair"):
        SSDR().fit(X, sample_weight=np.arange(50) > 0, must_links=[(0, 1)])


@pytest.mark.parametrize("maker", TWO_STAGE)
def test_rows_that_exceed_the_memory_are_weighted_under_a_mask(maker):
    X, y, weights = class_data()
    options = {"ridge": "auto", "tol": 1e-12}
    found = maker(max_gram_bytes=200, **options).fit(X, y, sample_weight=weights)
    assert_same_model(found, maker(**options).fit(X, y, sample_weight=weights), X, rtol=1e-7)


@pytest.mark.parametrize("maker", TWO_STAGE)
def test_weights_of_wide_rows(maker):
    rng = np.random.default_rng(5)
    X, y, weights = rng.standard_normal((20, 60)), rng.integers(0, 3, 20), rng.integers(1, 4, 20)
    for ridge in (0.0, 1.0, "auto"):
        found = maker(ridge=ridge).fit(X, y, sample_weight=weights)
        expected = maker(ridge=ridge).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
        np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-7)
        np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-8)
