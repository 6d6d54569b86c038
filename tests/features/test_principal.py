"""Principal coordinates: those of a dense decomposition, in every container and on either side of X."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import parametrize_with_checks

from labelfold.features import Principal, principal_axes
from labelfold.rows import as_rows


@parametrize_with_checks([Principal(), Principal(2, whiten=True)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def X(rng):
    return rng.standard_normal((60, 8)) * np.array([9.0, 7, 5, 4, 3, 2, 1, 0.5]) + 3


def test_coordinates_are_scikit_learns(X):
    expected = PCA(5, svd_solver="full").fit(X)
    found = Principal(5).fit(X)
    np.testing.assert_allclose(np.abs(found.components_), np.abs(expected.components_), atol=1e-10)
    variance = expected.explained_variance_ * (len(X) - 1) / len(X)
    np.testing.assert_allclose(found.deviations_**2, variance, rtol=1e-10)
    assert found.total_variance_ == pytest.approx(X.var(axis=0).sum())


def test_whitened_coordinates_have_unit_variance(X):
    Z = Principal(4, whiten=True).fit_transform(X)
    np.testing.assert_allclose(Z.T @ Z / len(Z), np.eye(4), atol=1e-10)


def test_every_container_gives_the_same(container, X):
    X = np.where(np.abs(X) < 2, 0.0, X)
    expected = Principal(3).fit(X)
    found = Principal(3).fit(container.make(X))
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-8)
    np.testing.assert_allclose(found.deviations_, expected.deviations_, rtol=1e-10)


@pytest.mark.parametrize("direct", [2000, 0])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_every_way_leads_to_the_same(direct, make, rng, monkeypatch):
    monkeypatch.setattr("labelfold.features._principal._DIRECT", direct)
    X = rng.standard_normal((30, 4)) @ rng.standard_normal((4, 70)) * 3 + rng.standard_normal((30, 70)) / 10
    for rows in (X, X.T.copy()):
        found = principal_axes(as_rows(make(rows)), 4)
        s = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)[:4]
        # Iterated to a residual of 1e-4, singular values are right to its square.
        np.testing.assert_allclose(found.deviations * np.sqrt(len(rows)), s, rtol=1e-7)
        np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(4), atol=1e-7)


def test_axes_of_wide_rows_of_mostly_zeros(rng, monkeypatch):
    monkeypatch.setattr("labelfold.features._principal._DIRECT", 0)
    X = sparse.random_array((60, 400), density=0.05, rng=rng, format="csr")
    X = sparse.csr_array(X.multiply(10.0 ** -np.linspace(0, 4, 60)[:, None]))
    found, dense = principal_axes(as_rows(X), 4), X.toarray()
    s = np.linalg.svd(dense - dense.mean(axis=0), compute_uv=False)[:4]
    np.testing.assert_allclose(found.deviations * np.sqrt(60), s, rtol=1e-7)
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(4), atol=1e-7)


def test_no_more_coordinates_than_the_rank(rng):
    X = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 6))
    assert Principal(5).fit(X).components_.shape == (2, 6)


def test_equal_rows_have_no_coordinates():
    found = principal_axes(as_rows(np.full((5, 3), 0.1)), 2)
    assert found.basis.shape == (3, 0)
    assert found.total == 0
