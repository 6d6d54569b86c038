"""Weights of columns, explained variance, and rows from scores of LDA, CCA, OPLS, HSL and SSDR; CCA's two sides."""

import numpy as np
import pytest
from sklearn.cross_decomposition import CCA as SklearnCCA
from sklearn.datasets import load_iris, load_linnerud, load_wine, make_multilabel_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from labelfold import CCA, HSL, LDA, OPLS, SSDR

TWO_STAGE = [LDA, CCA, OPLS, HSL]


def numbers(rng, n=80, d=6, t=3):
    X = rng.standard_normal((n, d)) + 3.0
    return X, X[:, :t] @ rng.standard_normal((t, t)) + rng.standard_normal((n, t))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("ridge", [0.0, 1.0])
@pytest.mark.parametrize("maker", TWO_STAGE)
def test_scores_are_linear_in_the_columns(container, maker, ridge, n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes] + 50.0, y[y < n_classes]
    model = maker(ridge=ridge).fit(container.make(X), y)
    assert model.coef_.shape == (1 if n_classes == 2 else 3, 4)
    scores = X @ model.coef_.T + model.intercept_
    F = model.decision_function(X)
    np.testing.assert_allclose(
        scores if n_classes == 3 else scores[:, 0], F, atol=1e-11 * np.abs(model.coef_).max() * 50
    )


@pytest.mark.parametrize("maker", [CCA, OPLS, HSL])
def test_scores_of_labels_are_linear_in_the_columns(maker):
    X, Y = make_multilabel_classification(80, 9, n_classes=4, random_state=0)
    model = maker(ridge=0.1).fit(X, Y)
    np.testing.assert_allclose(
        X @ model.coef_.T + model.intercept_, model.decision_function(X), atol=1e-12 * np.abs(X).max()
    )
    np.testing.assert_array_equal(model.predict(X), X @ model.coef_.T + model.intercept_ > 0)


@pytest.mark.parametrize("maker", [CCA, OPLS])
def test_weights_of_columns_for_numbers_are_those_of_least_squares(maker, rng):
    X, Y = numbers(rng)
    model, theirs = maker().fit(X, Y), LinearRegression().fit(X, Y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=1e-10)
    one = maker().fit(X, Y[:, 0])
    assert one.coef_.shape == (6,)
    assert isinstance(one.intercept_, float)
    np.testing.assert_allclose(X @ one.coef_ + one.intercept_, one.predict(X), atol=1e-10)


@pytest.mark.parametrize("maker", TWO_STAGE)
def test_weights_of_columns_after_a_path_and_after_batches(maker):
    X, y = load_wine(return_X_y=True)
    model = maker(ridge=2.0).fit(X, y)
    (of_path,) = maker().path(X, y, [2.0])
    streamed = maker(ridge=2.0)
    for some in np.array_split(np.random.default_rng(0).permutation(len(X)), 3):
        streamed.partial_fit(X[some], y[some], classes=[0, 1, 2] if not hasattr(streamed, "ridge_") else None)
    for other in (of_path, streamed):
        np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-7 * np.abs(model.coef_).max())
        np.testing.assert_allclose(other.intercept_, model.intercept_, rtol=1e-7)


@pytest.mark.parametrize("maker", TWO_STAGE)
def test_a_kernel_has_no_weights_of_columns(maker):
    X, y = load_iris(return_X_y=True)
    model = maker(kernel="rbf", ridge="auto").fit(X, y)
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "intercept_")
    assert not hasattr(model, "inverse_transform")
    with pytest.raises(AttributeError, match="the columns of X have no weights in a kernel's score"):
        _ = model.coef_


def planted(rng):
    """Rows of three classes that differ in columns 3 and 7 only."""
    y = np.arange(120) % 3
    X = rng.standard_normal((120, 10))
    X[:, 3] += 4.0 * (y == 1)
    X[:, 7] += 4.0 * (y == 2)
    return X, y


@pytest.mark.parametrize("maker", TWO_STAGE)
def test_columns_that_matter_are_selected(maker, rng):
    X, y = planted(rng)
    assert RFE(maker(), n_features_to_select=2).fit(X, y).get_support(indices=True).tolist() == [3, 7]
    assert SelectFromModel(maker(), max_features=2).fit(X, y).get_support(indices=True).tolist() == [3, 7]
    assert SelectFromModel(maker()).fit(X, y).get_support(indices=True).tolist() == [3, 7]


@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize("solver", ["svd", "eigen"])
def test_explained_variance_of_lda_is_scikit_learns(load, solver):
    X, y = load(return_X_y=True)
    theirs = LinearDiscriminantAnalysis(solver=solver).fit(X, y).explained_variance_ratio_
    np.testing.assert_allclose(LDA().fit(X, y).explained_variance_ratio_, theirs, rtol=1e-8)
    one = LDA(n_components=1).fit(X, y)
    np.testing.assert_allclose(one.explained_variance_ratio_, theirs[:1], rtol=1e-8)


def test_explained_variance_of_separated_classes_is_shared_equally(rng):
    X, y = rng.standard_normal((9, 40)), np.arange(9) % 3
    np.testing.assert_allclose(LDA().fit(X, y).explained_variance_ratio_, 0.5, atol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 5.0])
@pytest.mark.parametrize("maker", [CCA, OPLS])
def test_explained_variance_is_what_each_component_adds_to_the_prediction(maker, ridge, rng):
    X, Y = numbers(rng)
    model = maker(ridge=ridge).fit(X, Y)
    added = []
    for k in (1, 2, 3):
        of_k = maker(ridge=ridge, n_components=k).fit(X, Y).predict(X)
        added.append(r2_score(Y, of_k, multioutput="variance_weighted"))
    np.testing.assert_allclose(np.cumsum(model.explained_variance_ratio_), added, atol=1e-10)


@pytest.mark.parametrize("maker", [*TWO_STAGE, SSDR])
def test_rows_from_scores_have_these_scores(maker):
    X, y = load_wine(return_X_y=True)
    model = maker(n_components=2).fit(X, y)
    Z = model.transform(X)
    again = model.inverse_transform(Z)
    assert again.shape == X.shape
    np.testing.assert_allclose(model.transform(again), Z, atol=1e-8 * np.abs(Z).max())


def test_loadings_of_cca_are_scikit_learns():
    X, Y = load_linnerud(return_X_y=True)
    X, Y = ((A - A.mean(axis=0)) / A.std(axis=0, ddof=1) for A in (X, Y))  # as scikit-learn scales them
    ours = CCA(task="regression").fit(X, Y)
    theirs = SklearnCCA(n_components=3, max_iter=50_000, tol=1e-13).fit(X, Y)
    for mine, others in ((ours.x_loadings_, theirs.x_loadings_), (ours.y_loadings_, theirs.y_loadings_)):
        # Scores of scikit-learn have another length, and so have its loadings.
        unit, expected = mine / np.linalg.norm(mine, axis=0), others / np.linalg.norm(others, axis=0)
        np.testing.assert_allclose(np.abs((unit * expected).sum(axis=0)), 1.0, atol=1e-5)
    Z = ours.transform(X)
    np.testing.assert_allclose(
        ours.inverse_transform(Z), theirs.inverse_transform(theirs.transform(X)), atol=1e-5
    )


@pytest.mark.parametrize(
    "options", [{}, {"ridge": 3.0, "ridge_y": 2.0}, {"max_gram_bytes": 0, "ridge": 1.0}], ids=str
)
def test_loadings_are_regressions_on_the_scores(options, container, rng):
    X, Y = numbers(rng)
    model = CCA(n_components=2, tol=1e-12, **options).fit(container.make(X), Y)
    Z, U = model.transform(X, Y)
    Xc, Yc = X - X.mean(axis=0), Y - Y.mean(axis=0)
    np.testing.assert_allclose(model.x_loadings_, np.linalg.lstsq(Z, Xc, rcond=None)[0].T, atol=1e-9)
    np.testing.assert_allclose(model.y_loadings_, np.linalg.lstsq(U, Yc, rcond=None)[0].T, atol=1e-9)
    np.testing.assert_allclose(
        model.inverse_transform(Z) - X.mean(axis=0), Z @ model.x_loadings_.T, atol=1e-9
    )


def test_loadings_take_no_further_pass():
    from labelfold.rows import as_rows

    X, Y = load_linnerud(return_X_y=True)
    of_cca, of_opls = as_rows(X), as_rows(X)
    CCA(task="regression").fit(of_cca, Y)
    OPLS(task="regression").fit(of_opls, Y)
    assert of_cca.n_passes == of_opls.n_passes


def test_a_kernel_has_no_loadings_of_x():
    X, Y = load_linnerud(return_X_y=True)
    model = CCA(task="regression").fit(X, Y)
    model.set_params(kernel="rbf", ridge=0.1).fit(X, Y)
    assert not hasattr(model, "x_loadings_")
    assert model.y_loadings_.shape == (3, 3)
    assert model.correlations(X, Y).shape == (3,)


@pytest.mark.parametrize("method", ["fit", "path", "partial_fit"])
def test_a_ridge_of_the_targets_is_added_to_their_scatter(method, rng):
    X, Y = numbers(rng)
    g, h = 2.0, 30.0
    model = CCA(ridge=g, ridge_y=h)
    if method == "path":
        (model,) = CCA(ridge_y=h).path(X, Y, [g])
    else:
        getattr(model, method)(X, Y)
    Xc, Yc = X - X.mean(axis=0), Y - Y.mean(axis=0)
    A, B = Xc.T @ Xc + g * np.eye(6), Yc.T @ Yc + h * np.eye(3)
    C = Xc.T @ Yc
    s = np.sort(np.linalg.eigvals(np.linalg.solve(A, C @ np.linalg.solve(B, C.T))).real)[::-1][:3]
    np.testing.assert_allclose(model.eigenvalues_, s, rtol=1e-9)
    W, V = model.components_.T, model.y_components_.T
    np.testing.assert_allclose(W.T @ A @ W, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(V.T @ B @ V, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(W.T @ C @ V, np.diag(model.correlations_), atol=1e-9)


def test_a_ridge_of_the_targets_helps_where_they_are_nearly_dependent(rng):
    shared = rng.standard_normal((300, 1))
    X = shared + rng.standard_normal((300, 5))
    Y = shared + np.hstack([rng.standard_normal((300, 1))] * 20) + 1e-3 * rng.standard_normal((300, 20))
    half = slice(0, 60)
    plain, damped = (
        CCA(n_components=1).fit(X[half], Y[half]),
        CCA(n_components=1, ridge_y=10.0).fit(X[half], Y[half]),
    )
    assert damped.correlations(X[60:], Y[60:])[0] > plain.correlations(X[60:], Y[60:])[0] + 0.1


def test_correlations_of_the_rows_of_the_fit_are_those_of_the_fit(container, rng):
    X, Y = numbers(rng)
    model = CCA().fit(X, Y)
    np.testing.assert_allclose(model.correlations(container.make(X), Y), model.correlations_, atol=1e-10)


def test_correlations_of_new_rows_are_those_of_their_scores(rng):
    X, Y = numbers(rng)
    model = CCA().fit(X[:40], Y[:40])
    new, of_new = X[40:], Y[40:].copy()
    of_new[::5] = np.nan
    known = ~np.isnan(of_new).any(axis=1)
    Z, U = model.transform(new[known], of_new[known])
    expected = [np.corrcoef(Z[:, j], U[:, j])[0, 1] for j in range(3)]
    np.testing.assert_allclose(model.correlations(new, of_new), expected, atol=1e-12)
    weights = rng.integers(0, 3, len(new))
    again = np.repeat(np.arange(len(new)), weights)
    np.testing.assert_allclose(
        model.correlations(new, of_new, sample_weight=weights),
        model.correlations(new[again], of_new[again]),
        atol=1e-12,
    )


def test_correlations_of_classes(rng):
    X, y = load_iris(return_X_y=True)
    model = CCA().fit(X, y)
    np.testing.assert_allclose(model.correlations(X, y), model.correlations_, atol=1e-10)
    with pytest.raises(ValueError, match="y has 1 labelled rows of a weight above 0"):
        model.correlations(X[:3], [0, -1, -1])
    assert np.isnan(model.correlations(X[:4], [0, 0, 0, 0])).all()
