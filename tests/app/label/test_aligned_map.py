"""The aligned map: neighbours stay neighbours, it moves and never jumps, and nothing breaks it."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from labelfold.app.label import _worker
from labelfold.app.label._worker import AlignedMap


@pytest.fixture(scope="module")
def rows():
    """Return 700 rows of five kinds: what is known of them without labels, and their kind."""
    rng = np.random.default_rng(0)
    kind = np.arange(700) % 5
    return np.eye(5, 8)[kind] + 0.3 * rng.standard_normal((700, 8)), kind


def embedding(kind, classes, rng):
    """Return an embedding that tells so many of the kinds apart."""
    return np.eye(classes)[np.minimum(kind, classes - 1)][:, 1:] + 0.1 * rng.standard_normal(
        (len(kind), classes - 1)
    )


def together(points, kind):
    half = len(kind) // 2
    return KNeighborsClassifier(5).fit(points[:half], kind[:half]).score(points[half:], kind[half:])


def moved(before, after):
    return np.sqrt(np.mean(np.sum((after - before) ** 2, axis=1)))


def test_the_map_follows_the_classes_and_does_not_jump(rows, rng):
    pytest.importorskip("openTSNE", reason="openTSNE is not installed")
    first, kind = rows
    moving = AlignedMap(700)
    last = moving.update(first, seconds=1)
    assert last.shape == (700, 2)
    assert last.dtype == np.float32
    moves = []
    for classes in (2, 2, 3, 3, 4, 5, 5, 5):
        now = moving.update(embedding(kind, classes, rng), seconds=0.02)
        moves.append(moved(last, now))
        last = now
    assert max(moves) <= 0.2 + 1e-6
    assert together(last, kind) > 0.95
    assert 0.8 < np.quantile(np.abs(last), 0.99) < 1.3
    # it comes to rest
    Z = embedding(kind, 5, rng)
    steps = [moving.update(Z, seconds=0.2) for _ in range(4)]
    assert moved(steps[2], steps[3]) < 0.05
    assert moved(steps[2], steps[3]) < max(moves)


def test_two_sessions_have_the_same_map(rows):
    Z, _ = rows
    np.testing.assert_array_equal(*(AlignedMap(200).update(Z[:200], seconds=5) for _ in range(2)))


@pytest.mark.parametrize(
    "Z",
    [
        np.zeros((60, 3)),
        np.arange(60.0)[:, None],
        np.zeros((60, 0)),
        np.full((60, 2), np.nan),
        np.eye(60)[:, :1],
        1e200 * np.eye(60, 3),
    ],
    ids=["equal", "one component", "none", "not numbers", "one row apart", "large"],
)
def test_embeddings_that_say_little(Z, rng):
    for first in (Z, rng.standard_normal((60, 4))):
        moving = AlignedMap(60)
        for one in (first, Z, Z):
            points = moving.update(one, seconds=0.01)
            assert points.shape == (60, 2)
            assert np.isfinite(points).all()


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_few_rows(n, rng):
    moving = AlignedMap(n)
    for k in (2, 1, 3):
        assert np.isfinite(moving.update(rng.standard_normal((n, k)), seconds=0.01)).all()


def test_without_a_layout_it_is_principal_components(rows, monkeypatch):
    monkeypatch.setattr(_worker, "find_spec", lambda name: None)
    first, kind = rows
    points = AlignedMap(700).update(3 * np.eye(3, 8)[np.minimum(kind, 2)] + 0.1 * first, seconds=0.1)
    assert together(points, np.minimum(kind, 2)) > 0.95
