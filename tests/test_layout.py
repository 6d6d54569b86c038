"""Layouts: islands stay apart, new rows are placed, and a later layout lies on the last."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from labelfold import LDA, LabelFold, layout
from labelfold.features._layout import aligned

pytest.importorskip("openTSNE", reason="openTSNE is not installed")


@pytest.fixture(scope="module")
def islands():
    rng = np.random.default_rng(0)
    y = np.arange(240) % 6
    return 3 * np.eye(6)[y] + 0.3 * rng.standard_normal((240, 6)), y


@pytest.fixture(scope="module")
def first(islands):
    return layout(islands[0])


def apart(points, y):
    """Return the share of rows whose nearest others are of their own kind."""
    half = len(y) // 2
    return KNeighborsClassifier(5).fit(points[:half], y[:half]).score(points[half:], y[half:])


def test_islands_stay_apart(first, islands):
    assert first.points.shape == (240, 2)
    assert apart(first.points, islands[1]) == 1.0
    np.testing.assert_array_equal(np.asarray(first), first.points)


def test_the_same_rows_give_the_same_layout(first, islands):
    np.testing.assert_array_equal(layout(islands[0]).points, first.points)


def test_new_rows_lie_on_their_islands(first, islands, rng):
    _, y = islands
    new = 3 * np.eye(6) + 0.1 * rng.standard_normal((6, 6))
    near = KNeighborsClassifier(3).fit(first.points, y).predict(first.place(new))
    np.testing.assert_array_equal(near, np.arange(6))


def test_rows_beyond_the_landmarks_lie_among_them(islands):
    Z, y = islands
    found = layout(Z, n_landmarks=120)
    assert len(found.landmarks) == 120
    assert apart(found.points, y) == 1.0


def test_a_later_layout_lies_on_the_last(first, islands, rng):
    Z, y = islands
    moved = Z @ np.linalg.qr(rng.standard_normal((6, 6)))[0] + 0.05 * rng.standard_normal(Z.shape)
    size = np.linalg.norm(first.points - first.points.mean(axis=0))
    again = layout(moved, previous=first)
    afresh = layout(moved)
    assert np.linalg.norm(again.points - first.points) < 0.2 * size
    assert np.linalg.norm(again.points - first.points) < 0.5 * np.linalg.norm(afresh.points - first.points)
    assert apart(again.points, y) == 1.0


def test_a_layout_in_no_time_goes_on_where_it_was_left(first, islands, rng):
    Z, _ = islands
    moved = Z + 0.5 * rng.standard_normal(Z.shape)
    started, again = layout(moved, previous=first, seconds=0), layout(moved, previous=first)
    steps = [np.linalg.norm(one.points - first.points) for one in (started, again)]
    assert 0 < steps[0] < steps[1]


def test_aligned_undoes_a_turn_and_a_shift(rng):
    points = rng.standard_normal((20, 2))
    turn = np.linalg.qr(rng.standard_normal((2, 2)))[0]
    np.testing.assert_allclose(aligned(points @ turn + [3, -1], points), points, atol=1e-12)


def test_digits_are_islands_where_two_discriminants_are_a_heap():
    X, y = load_digits(return_X_y=True)
    known = np.full(len(y), -1)
    chosen = np.random.default_rng(0).permutation(len(y))[:50]
    known[chosen] = y[chosen]
    fold = LabelFold().fit(X, known)
    heap = LDA(2, ridge=1.0).fit(X, known).transform(X)
    islands = layout(fold.embedding_).points
    assert apart(islands, y) > 0.9 > apart(heap, y) + 0.3


@pytest.mark.parametrize("n", [1, 3, 5])
def test_few_rows(n, rng):
    found = layout(rng.standard_normal((n, 3)))
    assert np.isfinite(found.points).all()
    assert found.place(np.zeros((2, 3))).shape == (2, 2)


def test_one_component_and_equal_rows():
    assert np.isfinite(layout(np.arange(50.0)[:, None]).points).all()
    assert np.isfinite(layout(np.zeros((50, 3))).points).all()


def test_refusals(first, islands):
    with pytest.raises(ValueError, match="previous has 240 points and Z has 10 rows"):
        layout(islands[0][:10], previous=first)
    with pytest.raises(ValueError, match="Z has 2 components, where 6 were laid out"):
        first.place(np.zeros((1, 2)))
