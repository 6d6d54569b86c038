"""Weights of rows and classes, weights of columns and explained variance of PCALS and KernelPCALS."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.feature_selection import RFE, SelectFromModel

from labelfold import PCALS, KernelPCALS
from labelfold.subspace._choice import log_score
from labelfold.subspace._search import LostDigits


def data(rng, n=60, d=8):
    y = np.arange(n) % 3
    X = rng.standard_normal((3, d))[y] * 2 + rng.standard_normal((n, d)) * np.linspace(0.5, 2, d)
    return X, y


def some(task, X, y):
    """Return targets of every other row, or of all."""
    known = {
        "classes": y,
        "all": y,
        "numbers": X[:, 0] + 0.3 * X[:, 1],
        "labels": np.column_stack([y == 0, X[:, 0] > 0]),
    }[task].astype(float)
    if task != "all":
        known[1::2] = np.nan
    return known


def close(found, expected, rtol=1e-8):
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("task", ["classes", "all", "numbers"])
@pytest.mark.parametrize(
    "model",
    [
        PCALS(3),
        PCALS(3, refit=True, ridge=0.5, center=False),
        PCALS(3, class_weight="balanced", task="classification"),
        PCALS(3, max_gram_bytes=0),
        PCALS(3, max_gram_bytes=0, center=False, refit=True),
        KernelPCALS(3),
        KernelPCALS(3, kernel="poly", center=False),
        KernelPCALS(3, n_landmarks=None, refit=True),
    ],
    ids=lambda model: " ".join(repr(model).split()),
)
def test_whole_weights_are_repeated_rows(rng, model, task):
    if task == "numbers" and model.class_weight:
        model = PCALS(3, task="regression")
    X, y = data(rng)
    known, w, new = some(task, X, y), rng.integers(0, 4, len(X)), rng.standard_normal((20, 8))
    copies = np.repeat(np.arange(len(X)), w)
    weighted = model.fit(X, known, sample_weight=w)
    found = [weighted.transform(new), weighted.predict(new), weighted.reconstruction_, weighted.gains_]
    coefficients = weighted.embedding_coef_
    repeated = model.fit(X[copies], known[copies])
    expected = [repeated.transform(new), repeated.predict(new), repeated.reconstruction_, repeated.gains_]
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    close(coefficients, repeated.embedding_coef_)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_wide_rows(rng, class_weight):
    X, y = data(rng, 40, 700)
    w, half = rng.integers(0, 4, 40), np.where(np.arange(40) % 2, -1, y)
    copies = np.repeat(np.arange(40), w)
    for budget in (0, 1 << 29):
        model = PCALS(3, class_weight=class_weight, max_gram_bytes=budget)
        found = model.fit(X, half, sample_weight=w).transform(X)
        close(found, model.fit(X[copies], half[copies]).transform(X))


def test_coefficients_of_weighted_rows_are_those_of_features(rng, monkeypatch):
    """The kernel matrix of a large rank, as coefficients of rows and by its factor."""
    X, y = data(rng, 600, 5)
    w, half = rng.uniform(0.2, 2, 600), np.where(np.arange(600) % 2, -1, y)
    w[::7] = 0
    for center in (True, False):
        model = KernelPCALS(3, gamma=3.0, center=center, class_weight={0: 2.0}, tol=1e-10)
        by_rows = model.fit(X, half, sample_weight=w)
        F, gains, n_rows = by_rows.decision_function(X), by_rows.gains_, len(by_rows.feature_map_.points)
        assert n_rows == np.count_nonzero(w)

        def lost(*_):
            raise LostDigits

        monkeypatch.setattr("labelfold.subspace._kernel_pcals.KernelSpace.check", lost)
        by_features = model.fit(X, half, sample_weight=w)
        monkeypatch.undo()
        close(gains, by_features.gains_)
        # directions are stationary to their tolerance
        close(F, by_features.decision_function(X), 1e-6)


def test_landmarks_are_rows_with_a_weight(rng):
    X, y = data(rng, 100)
    w = np.where(np.arange(100) < 50, 0.0, 2.0)
    X[:50] += 100
    model = KernelPCALS(3, n_landmarks=20).fit(X, y, sample_weight=w)
    rest = KernelPCALS(3, n_landmarks=20, gamma=model.gamma_).fit(X[50:], y[50:], sample_weight=w[50:])
    close(model.decision_function(X[50:]), rest.decision_function(X[50:]))


@pytest.mark.parametrize("c", [0.25, 3.0])
def test_equal_weights_change_nothing_where_the_reconstruction_is_given(rng, c):
    X, y = data(rng)
    half, w = some("classes", X, y), np.full(len(X), c)
    plain, weighted = PCALS("cv", reconstruction=1.0, candidates=5), None
    plain.fit(X, half)
    weighted = PCALS("cv", reconstruction=1.0, candidates=5).fit(X, half, sample_weight=w)
    close(weighted.cv_results_["scores"], plain.cv_results_["scores"])
    close(weighted.decision_function(X), plain.decision_function(X))


def test_scores_of_folds_are_weighted():
    Y, F = np.array([[1.0], [-1.0], [1.0]]), np.array([[0.2], [3.0], [-1.0]])
    expected = log_score(Y[[0, 1, 1, 1, 2]], F[[0, 1, 1, 1, 2]])
    assert log_score(Y, F, np.array([1, 3, 1])) == pytest.approx(expected, rel=1e-12)


def test_every_container_gives_the_same(container, rng):
    X, y = data(rng)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    half, w = some("classes", X, y), rng.integers(0, 4, len(X)).astype(float)
    for model in (PCALS(3, class_weight="balanced"), PCALS(3, max_gram_bytes=0), KernelPCALS(3)):
        expected = model.fit(X, half, sample_weight=w).decision_function(X)
        np.testing.assert_allclose(
            model.fit(container.make(X), half, sample_weight=w).decision_function(X), expected, atol=1e-6
        )


def test_classes_weigh_in_the_loss_of_labels_only(rng):
    X, y = data(rng)
    half = np.where(np.arange(60) % 2, -1, y)
    model = PCALS(3, class_weight={0: 3.0}, reconstruction=2.0).fit(X, half)
    known = half[half >= 0]
    signs, w = np.where(known[:, None] == np.arange(3), 1.0, -1.0), np.where(known == 0, 3.0, 1.0)
    z = (X - X.mean(axis=0)) @ model.components_[0]
    z_known, r = z[half >= 0], signs - np.average(signs, axis=0, weights=w)
    gain = ((w * z_known @ r) ** 2).sum() / (w * z_known @ z_known)
    assert model.gains_[0] == pytest.approx(gain + 2.0 * (z @ z), rel=1e-10)
    with pytest.raises(ValueError, match="class_weight"):
        PCALS(class_weight="balanced").fit(X, X[:, 0])


@pytest.mark.parametrize("task", ["classes", "labels", "numbers"])
@pytest.mark.parametrize("options", [{}, {"refit": True}, {"center": False}])
def test_the_score_is_linear_in_the_columns(rng, task, options):
    X, y = data(rng)
    model = PCALS(3, **options).fit(X + 5.0, some(task, X, y))
    values = model.predict(X) if task == "numbers" else model.decision_function(X)
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, values, atol=1e-8)
    assert model.coef_.shape == {"classes": (3, 8), "labels": (2, 8), "numbers": (8,)}[task]
    assert isinstance(model.intercept_, float) == (task == "numbers")


def test_a_kernel_has_no_weights_of_columns_and_no_inverse(rng):
    X, y = data(rng)
    model = KernelPCALS(3).fit(X, y)
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "intercept_")
    assert not hasattr(model, "inverse_transform")
    assert not hasattr(model, "explained_variance_ratio_")
    assert model.embedding_coef_.shape == (3, 3)


def test_columns_are_selected_by_their_weights(rng):
    X = rng.standard_normal((300, 12))
    y = (X[:, 3] - X[:, 7] > 0).astype(int)
    model = PCALS(4, reconstruction=0.01)
    chosen = SelectFromModel(model, max_features=2, threshold=-np.inf).fit(X, y).get_support()
    assert np.flatnonzero(chosen).tolist() == [3, 7]
    assert np.flatnonzero(RFE(model, n_features_to_select=2).fit(X, y).support_).tolist() == [3, 7]
    numbers = X[:, 3] - X[:, 7] + 0.1 * rng.standard_normal(300)
    assert np.flatnonzero(RFE(model, n_features_to_select=2).fit(X, numbers).support_).tolist() == [3, 7]


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("budget", [0, 1 << 29])
def test_explained_variance_is_that_of_the_scores(rng, center, budget):
    X, y = data(rng)
    w = rng.uniform(0, 2, len(X))
    for rows in (X + 1.0, sparse.csr_array(np.where(np.abs(X) < 0.5, 0.0, X))):
        dense = rows.toarray() if sparse.issparse(rows) else rows
        model = PCALS(3, center=center, max_gram_bytes=budget).fit(rows, y, sample_weight=w)
        centred = dense - np.average(dense, axis=0, weights=w)
        Z = centred @ model.components_.T
        np.testing.assert_allclose(
            model.explained_variance_ratio_, w @ Z**2 / (w @ centred**2).sum(), rtol=1e-8
        )
    pca = PCALS(8, reconstruction=1e6).fit(X, y)
    np.testing.assert_allclose(
        pca.explained_variance_ratio_, PCA().fit(X).explained_variance_ratio_, rtol=1e-4
    )


def test_logarithms_of_probabilities_of_the_first_directions(rng):
    X, y = data(rng)
    model = PCALS(4).fit(X, y)
    for p in (None, 2):
        np.testing.assert_allclose(model.predict_log_proba(X, p), np.log(model.predict_proba(X, p)))
