"""The trees that LabelFold blends with its views."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.tree import ExtraTreeClassifier, ExtraTreeRegressor

import labelfold
from labelfold import LabelFold
from labelfold.semi_supervised._trees import TreeNodes, grow, share_of_trees, single

WITHOUT = ["linear", "principal", "rbf", "laplace", "graph"]


@pytest.fixture
def thresholds(rng):
    """Return rows of 30 columns, of which two decide, by thresholds: what views of all columns hardly see."""
    X = rng.standard_normal((400, 30))
    y = (X[:, 0] > 0.3).astype(int) + (X[:, 1] > 0.5)
    known = np.where(np.arange(400) % 5 == 0, y, -1)
    return X, y, known


def of_each_tree(nodes, X):
    """Return what every tree says of rows, (trees, n, c)."""
    return np.moveaxis(nodes.values[nodes._leaves(X)], 0, 1)


def places(nodes, X):
    return ((X - nodes.middle) / nodes.size).astype(np.float32)[:, nodes.columns]


def test_trees_on_coded_classes_are_those_of_a_classifier(thresholds):
    """Squared errors of class indicators, summed, are Gini's index."""
    X, y, _ = thresholds
    settings = {"max_features": "sqrt", "random_state": 3}
    coded = ExtraTreeRegressor(**settings).fit(X[::5], np.eye(3)[y[::5]]).predict(X)
    np.testing.assert_allclose(coded, ExtraTreeClassifier(**settings).fit(X[::5], y[::5]).predict_proba(X))


def test_a_labelled_row_is_told_by_trees_that_have_not_seen_it(thresholds):
    X, y, _ = thresholds
    X, Y = X[:47], np.eye(3)[y[:47]]
    grown = grow(X, Y, 1.0, False, 0, per_part=4)
    said = of_each_tree(grown.trees, places(grown.trees, X))
    # a tree is right on every row that it was grown on, so the rows it errs on are of its own part
    wrong = np.abs(said - Y).max(axis=2) > 1e-9
    seen = np.array([~wrong[i : i + 4].any(axis=0) for i in range(0, 40, 4)])
    assert (seen.sum(axis=0) >= 9).all()
    for j in np.flatnonzero((~seen).any(axis=0)):
        part = 4 * int(np.argmin(seen[:, j]))
        np.testing.assert_allclose(grown.left_out[j], said[part : part + 4, j].mean(axis=0))


def test_the_share_of_trees():
    ones = np.ones(60)
    assert share_of_trees(ones, ones / 2)[0] == share_of_trees(ones, ones)[0] == 0.5
    share, each = share_of_trees(ones, 2 * ones)
    np.testing.assert_allclose(share, 0.25)
    np.testing.assert_allclose(each, 0.5 * 2.0 ** (-59 / 60))


def test_the_blend_is_the_share_of_each(thresholds):
    X, _, known = thresholds
    both, views, trees = (
        LabelFold(views=views).fit(X, known) for views in ([*WITHOUT, "trees"], WITHOUT, ["trees"])
    )
    share = both.view_weights_["weight"][both.view_weights_["view"] == "extra trees"][0]
    assert 0 < share <= 0.5
    np.testing.assert_allclose(both.view_weights_["weight"].sum(), 1.0)
    np.testing.assert_allclose(
        both.decision_function(X),
        (1 - share) * views.decision_function(X) + share * trees.decision_function(X),
        atol=1e-9,
    )
    parts = both.view_scores(X)
    np.testing.assert_allclose(parts["trees", "as they are"], share * trees.decision_function(X), atol=1e-9)


def test_trees_see_two_columns_among_sixty():
    gains = []
    for seed in range(3):
        X = np.random.default_rng(seed).standard_normal((400, 60))
        y = 2 * (X[:, 0] > 0) + (np.abs(X[:, 1]) > 0.67)
        known = np.where(np.arange(400) % 4 == 0, y, -1)
        hidden = known < 0
        folds = [LabelFold(views=views).fit(X, known) for views in ("auto", WITHOUT)]
        gains.append(np.subtract(*(fold.score(X[hidden], y[hidden]) for fold in folds)))
    assert np.mean(gains) > 0.01


@pytest.mark.parametrize("kind", ["classes", "two", "labels", "numbers", "several numbers"])
def test_every_task_and_a_saved_model(thresholds, tmp_path, kind):
    X, y, known = thresholds
    targets = {
        "classes": known,
        "two": np.where(known < 0, -1, known > 0),
        "labels": np.where(known[:, None] < 0, np.nan, np.column_stack([y > 0, y > 1])),
        "numbers": np.where(known < 0, np.nan, y + 0.25),
        "several numbers": np.where(known[:, None] < 0, np.nan, np.column_stack([y + 0.25, 1e3 * y])),
    }
    fold = LabelFold(views=["linear", "trees"]).fit(X, targets[kind])
    assert "extra trees" in fold.view_weights_["view"]
    loaded = labelfold.load(labelfold.save(fold, tmp_path / "fold.skops"))
    np.testing.assert_array_equal(loaded.predict(X), fold.predict(X))
    np.testing.assert_allclose(loaded.transform(X), fold.transform(X), atol=1e-12)
    np.testing.assert_allclose(fold.transform(X), fold.embedding_, atol=1e-9)


def naive_leaf(nodes, x, root):
    """Return the leaf of one tree that one row reaches, a step at a time."""
    while nodes.left[root] != root:
        goes_left = x[nodes.column[root]] <= nodes.threshold[root]
        root = nodes.left[root] if goes_left else nodes.right[root]
    return root


def test_a_walk_through_all_trees_is_that_through_each(thresholds, monkeypatch):
    X, y, _ = thresholds
    trees = [ExtraTreeRegressor(random_state=i).fit(X[::5], np.eye(3)[y[::5]]).tree_ for i in range(7)]
    nodes = TreeNodes(trees, np.concatenate([tree.value for tree in trees]).reshape(-1, 3))
    np.testing.assert_allclose(
        nodes(X), np.mean([tree.predict(single(X))[:, :, 0] for tree in trees], axis=0)
    )
    X = np.vstack([X, nodes.threshold[nodes.column == 0][:20, None] * np.ones(30)])  # on a threshold
    places = single(X)[:, nodes.columns]
    expected = [[naive_leaf(nodes, x, root) for root in nodes.roots] for x in places]
    np.testing.assert_array_equal(nodes._leaves(places), expected)
    monkeypatch.setattr("labelfold.semi_supervised._trees._PLACES", 900)  # two trees at a time
    np.testing.assert_array_equal(nodes._leaves(places), expected)
    alone = np.vstack([nodes._leaves(places[i : i + 1]) for i in range(len(places))])
    np.testing.assert_array_equal(alone, expected)


def test_trees_are_the_same_for_sparse_rows_a_single_row_and_in_a_saved_model(thresholds):
    X, y, _ = thresholds
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    nodes = grow(X[:80], np.eye(3)[y[:80]], 1.0, False, 0, per_part=4).trees
    expected = nodes(X)
    saved = pickle.dumps(nodes)
    assert len(saved) < 1.1 * sum(value.nbytes for value in vars(nodes).values() if hasattr(value, "nbytes"))
    for one in (nodes, pickle.loads(saved)):
        for rows in (X, sparse.csr_array(X), np.asfortranarray(X)):
            np.testing.assert_array_equal(one(rows), expected)
        np.testing.assert_array_equal(np.vstack([one(X[i : i + 1]) for i in range(len(X))]), expected)
        assert one(X[:0]).shape == (0, 3)


@pytest.mark.parametrize("unit", [1e-150, 1e-3, 1e5, 1e150])
def test_the_unit_and_the_origin_of_columns_do_not_count(thresholds, unit):
    X, _, known = thresholds
    fold, other = (LabelFold(views=["trees"]).fit(rows, known) for rows in (X, unit * (X + 7)))
    np.testing.assert_array_equal(other.predict(unit * (X + 7)), fold.predict(X))


def test_the_order_of_rows_does_not_count(thresholds, rng):
    X, _, known = thresholds
    order = rng.permutation(400)
    fold, other = LabelFold(views=["trees"]).fit(X, known), LabelFold(views=["trees"])
    np.testing.assert_allclose(
        other.fit(X[order], known[order]).decision_function(X), fold.decision_function(X), atol=1e-12
    )


def test_where_there_are_no_trees(rng, thresholds):
    X, _, known = thresholds
    wide = rng.standard_normal((60, 101))
    assert "trees" not in LabelFold().fit(wide, np.arange(60) % 3 - 1).view_weights_["family"]
    assert (
        "trees"
        in LabelFold(views=["linear", "trees"]).fit(wide, np.arange(60) % 3 - 1).view_weights_["family"]
    )
    wider = LabelFold(views=["linear", "trees"]).fit(rng.standard_normal((20, 5001)), np.arange(20) % 3 - 1)
    why = dict(zip(wider.view_weights_["view"], wider.view_weights_["left_out"], strict=True))
    assert why["extra trees"] == "trees are grown on 5,000 columns at most"
    X = np.where(known[:, None] >= 0, 1.0, X)
    same = LabelFold(views=["linear", "trees"]).fit(X, known).view_weights_
    assert "the labelled rows do not differ" in same["left_out"]


def test_many_labels_keep_the_trees_small(rng):
    X = rng.standard_normal((6000, 3))
    nodes = grow(X, np.eye(2)[(X[:, 0] > 0).astype(int)], 1.0, False, 0).trees
    assert nodes.values.size <= 4_000_000
    assert nodes.depth < 60


def test_a_reason_against_trees_ends_with_the_labels_it_was_for(thresholds):
    X, y, known = thresholds
    X = np.where((known >= 0)[:, None], 1.0, X)
    fold = LabelFold(views=["linear", "trees"]).fit(X, known)
    assert "the labelled rows do not differ" in fold.view_weights_["left_out"]
    fold.refit(np.where(np.arange(400) % 7 == 1, y, -1))
    assert not fold.view_weights_["left_out"].any()
