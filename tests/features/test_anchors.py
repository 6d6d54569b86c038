"""Anchor graphs: their eigenvectors are those of the graph of the rows, and functions of one row."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from labelfold.features._anchors import (
    Anchors,
    anchor_graph,
    cluster,
    joined,
    means_around,
    nearest_anchors,
    parted,
    rows_around,
)
from labelfold.rows import as_rows


@pytest.fixture
def X(rng):
    return rng.standard_normal((60, 5)) + 3 * rng.integers(0, 2, (60, 1))


def naive_weights(x, anchors, s):
    """Return z(x), one row at a time."""
    d = np.linalg.norm(anchors - x, axis=1)
    near = np.argsort(d, kind="stable")[:s]
    z = np.zeros(len(anchors))
    z[near] = np.exp(-4 * d[near] ** 2 / d[near[-1]] ** 2) if d[near[-1]] > 0 else 1.0
    return z / z.sum()


def graph_of(X, points, s):
    return joined(*nearest(as_rows(X), Anchors(points), s), s, len(points))


def nearest(rows, anchors, k):
    """Return distances and indices of the nearest anchors in host memory."""
    return parted(rows.get(nearest_anchors(rows, anchors, k)))


def smoothest(Z, n_components):
    """Return the smoothest functions on the graph of the rows of Z."""
    return anchor_graph((Z.T @ Z).toarray(), np.asarray(Z.sum(axis=0)), Z.shape[0], n_components)


def test_weights_are_those_of_the_nearest_anchors(X):
    points = X[::3] + 0.01
    Z = graph_of(X, points, 4).toarray()
    np.testing.assert_allclose(Z, [naive_weights(x, points, 4) for x in X], atol=1e-7)


def test_every_container_finds_the_same_anchors(container, X):
    distance, which = nearest(as_rows(container.make(X)), Anchors(X[:20] + 0.01), 5)
    expected = nearest(as_rows(X), Anchors(X[:20] + 0.01), 5)
    np.testing.assert_allclose(distance, expected[0], atol=1e-7)
    np.testing.assert_array_equal(which, expected[1])


def test_functions_are_eigenvectors_of_the_graph_of_the_rows(X):
    tol = 1e-10
    Z = graph_of(X, X[::2], 6)
    found = smoothest(Z, 10)
    U = Z @ found.map
    W = Z.toarray() / Z.sum(axis=0) @ Z.toarray().T
    np.testing.assert_allclose(W.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(W @ U, U * (1 - found.eigenvalues), atol=tol)
    np.testing.assert_allclose(U.T @ U, np.eye(10), atol=tol)
    np.testing.assert_allclose(U.sum(axis=0), 0, atol=tol)
    values = np.sort(np.linalg.eigvalsh((W + W.T) / 2))[::-1][1:11]
    np.testing.assert_allclose(1 - found.eigenvalues, values, atol=tol**2 + 1e-12)


def test_pieces_are_counted(rng):
    X = np.vstack([rng.standard_normal((20, 2)) + 100 * i for i in range(3)])
    assert smoothest(graph_of(X, X, 4), 20).n_pieces == 3
    assert smoothest(graph_of(X[:20], X[:20], 4), 20).n_pieces == 1


def test_equal_rows_are_joined_evenly():
    X = np.zeros((6, 2))
    Z = graph_of(X, X, 3)
    np.testing.assert_allclose(Z.sum(axis=1), 1)
    assert np.isfinite(smoothest(Z, 5).map).all()


def test_anchors_of_no_row_have_no_part(X):
    far = np.vstack([X[::2], np.full((1, 5), 1e6)])
    Z = graph_of(X, far, 5)
    found, without = smoothest(Z, 6), smoothest(graph_of(X, X[::2], 5), 6)
    np.testing.assert_array_equal(found.map[-1], 0.0)
    np.testing.assert_allclose(found.eigenvalues, without.eigenvalues, atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_means_and_rows_around_centres(make, X, many_blocks):
    nearest = np.arange(60) % 7
    nearest[nearest == 5] = 4
    means = means_around(as_rows(make(X)), nearest, 7)
    expected = [X[nearest == j].mean(axis=0) for j in (0, 1, 2, 3, 4, 6)]
    np.testing.assert_allclose(means, expected, atol=1e-12)
    distance = np.abs(X[:, 0])
    chosen = rows_around(distance, nearest)
    assert sorted(nearest[chosen]) == [0, 1, 2, 3, 4, 6]
    for i in chosen:
        assert distance[i] == distance[nearest == nearest[i]].min()


def test_centres_are_different(rng):
    points = np.repeat(rng.standard_normal((4, 2)), 10, axis=0)
    assert len(cluster(points, 8, 0)) == 4


def test_equal_rows_are_at_no_distance_in_any_container(rng):
    points = 1e3 + rng.normal(size=(4, 3))
    X = points[[0, 1, 2, 3, 0, 1]] * (1 + 1e-16)
    for rows in (X, sparse.csr_array(X), np.asfortranarray(X)):
        distance, which = Anchors(np.vstack([points, points])).nearest(rows, 2)
        assert (distance == 0).all()
        assert (which % 4 == np.array([0, 1, 2, 3, 0, 1])[:, None]).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("hold", [np.asarray, sparse.csr_array], ids=["dense anchors", "sparse anchors"])
def test_of_anchors_equally_near_the_first_are_taken_in_every_container(hold, dtype, rng):
    """Rows of few values have many anchors at one distance: which are taken must not be a matter of round-off."""
    X = (rng.random((60, 6)) < 0.4).astype(dtype) / dtype(3)
    anchors = Anchors(hold(X[:40]))
    squares = np.rint(9 * ((X[:, None].astype(float) - X[:40]) ** 2).sum(axis=2))
    expected = np.argsort(squares, axis=1, kind="stable")[:, :5]
    long = sparse.csr_array(X)
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    for given in (X, sparse.csr_array(X), long):
        np.testing.assert_array_equal(anchors.nearest(given, 5)[1], expected)
    alone = np.vstack([anchors.nearest(X[i : i + 1], 5)[1] for i in range(60)])
    np.testing.assert_array_equal(alone, expected)


@pytest.mark.parametrize("hold", [np.asarray, sparse.csr_array])
def test_what_all_rows_have_in_common_costs_no_digits(hold, rng):
    X = np.hstack([np.ones((30, 1)), 1e-7 * rng.random(size=(30, 4))])
    distance, which = nearest(as_rows(hold(X)), Anchors(hold(X[:9])), 3)
    exact = np.sqrt(((X[:, None, 1:] - X[None, :9, 1:]) ** 2).sum(axis=2))
    np.testing.assert_array_equal(which, np.argsort(exact, axis=1)[:, :3])
    np.testing.assert_allclose(distance, np.sort(exact, axis=1)[:, :3], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_nearest_anchors_of_a_row_do_not_depend_on_the_others(make, rng):
    X = rng.standard_normal((700, 6))
    anchors = Anchors(make(rng.standard_normal((300, 6))))
    distance, which = anchors.nearest(make(X), 9)
    for some in (slice(0, 1), slice(3, 5), slice(200, 700)):
        d, w = anchors.nearest(make(X[some]), 9)
        np.testing.assert_array_equal(w, which[some])
        np.testing.assert_allclose(d, distance[some], rtol=1e-12)
    exact = np.sqrt(((X[:, None] - np.asarray(anchors.points @ np.eye(6))) ** 2).sum(axis=2))
    np.testing.assert_array_equal(which, np.argsort(exact, axis=1)[:, :9])
    d, w = anchors.nearest(make(X[:0]), 9)
    assert d.shape == w.shape == (0, 9)


def test_what_anchors_compute_once_is_not_saved(rng):
    anchors = Anchors(rng.standard_normal((300, 6)))
    size = len(pickle.dumps(anchors))
    anchors.nearest(rng.standard_normal((2, 6)), 3)
    assert len(pickle.dumps(anchors)) == size
    assert clone(anchors).points.shape == (300, 6)
    again = pickle.loads(pickle.dumps(anchors))
    np.testing.assert_array_equal(again.nearest(np.zeros((1, 6)), 3), anchors.nearest(np.zeros((1, 6)), 3))
