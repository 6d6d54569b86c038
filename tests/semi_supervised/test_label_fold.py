"""LabelFold: equal to its transcription, whatever holds the rows; honest where little can be said."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import binom
from sklearn.datasets import make_moons
from sklearn.metrics import r2_score

import labelfold
from labelfold import LabelFold
from labelfold.labels import read_labels
from labelfold.model_selection._groups import Groups
from labelfold.semi_supervised._calibration import accuracy_interval, steepness
from labelfold.semi_supervised._label_fold import unsupervised
from labelfold.semi_supervised._views import KERNELS, View, forms_for, views_of
from labelfold.semi_supervised._weights import (
    default_ridges,
    errors_without_each,
    leave_one_out,
    spectrum,
)
from reference import label_fold as reference

RIDGE = np.array([1e-3, 1e-1, 10.0])
VIEWS = [
    View("as they are", "linear"),
    View("as they are", "principal", 2, prior=0.5),
    View("as they are", "principal", 3, 1.0),
    View("as they are", "principal", 3, 0.5),
    View("as they are", "rbf", 0, 2.0),
    View("as they are", "rbf", 2, 8.0),
    View("as they are", "laplace", 0, 0.25),
    View("as they are", "laplace", 0, 1.0, prior=2.0),
    View("as they are", "graph", 0, 6, "1/(t+.02)^2"),
    View("as they are", "graph", 3, 9, "exp(-30t)"),
]


@pytest.fixture
def clusters(rng):
    y = np.arange(60) % 3
    X = rng.standard_normal((3, 5))[y] * 2 + rng.standard_normal((60, 5)) * [1, 2, 0.5, 1, 1]
    return X, y


def some_labels(y, step=4):
    known = np.full(len(y), -1)
    known[::step] = y[::step]
    return known


def coded(y, known):
    labels = read_labels(known)
    if labels.task == "binary":
        return labels.signs(), 0.0
    return labels.indicator() - 1 / labels.n_classes, 1 / labels.n_classes


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_and_weights_are_those_of_the_transcription(clusters, n_classes):
    X, y = clusters
    known = some_labels(y % n_classes)
    labelled = np.flatnonzero(known >= 0)
    fold = LabelFold(views=VIEWS, forms=[], ridges=RIDGE).fit(X, known)
    Y, offset = coded(y, known)
    F, w = reference.blend({"as they are": X}, VIEWS, Y, labelled, RIDGE, 0.1, True)
    np.testing.assert_allclose(fold.decision_function(X).reshape(len(X), -1), F + offset, atol=1e-7)
    table = dict(zip(fold.view_weights_["view"], fold.view_weights_["weight"], strict=True))
    np.testing.assert_allclose([table[view.name] for view in VIEWS], w, atol=1e-7)


def test_numbers_and_labels_are_those_of_the_transcription(clusters, rng):
    X, y = clusters
    target = X[:, 0] - 2 * X[:, 1] ** 2 + 100
    known = np.where(np.arange(60) % 3, np.nan, target)
    labelled = np.flatnonzero(~np.isnan(known))
    views = VIEWS[:7]
    fold = LabelFold(views=views, forms=[], ridges=RIDGE).fit(X, known)
    mean, spread = known[labelled].mean(), known[labelled].std()
    F, _ = reference.blend(
        {"as they are": X},
        views,
        (known[labelled, None] - mean) / spread,
        labelled,
        RIDGE,
        10.0,
        False,
    )
    np.testing.assert_allclose(fold.predict(X), F[:, 0] * spread + mean, rtol=1e-7)
    L = np.column_stack([X[:, 0] > 0, X[:, 1] > 1, y == 1]).astype(float)
    L[1::3] = np.nan
    with pytest.warns(UserWarning, match="No labelled row"):
        fold = LabelFold(views=views, forms=[], ridges=RIDGE).fit(X, L)
    labelled = np.flatnonzero(~np.isnan(L[:, 0]))
    mean = L[labelled].mean(axis=0)
    F, _ = reference.blend(
        {"as they are": X},
        views,
        L[labelled] - mean,
        labelled,
        RIDGE,
        10.0,
        False,
    )
    np.testing.assert_allclose(fold.decision_function(X) - fold.decision_function(X)[0], F - F[0], atol=1e-7)


@pytest.mark.parametrize("is_kernel", [True, False])
def test_leave_one_out_is_refitting_without_the_row(rng, is_kernel):
    phi, Y = rng.standard_normal((12, 4)), rng.standard_normal((12, 2))
    found = spectrum(phi @ phi.T if is_kernel else phi, is_kernel, 0.1)
    alone = Groups.single(12)
    left = leave_one_out(found, Y, RIDGE, alone)
    K = phi @ phi.T + 0.1
    for r, ridge in enumerate(RIDGE):
        np.testing.assert_allclose(left[r], reference.left_out(K, Y, ridge), atol=1e-9)
    without = errors_without_each(found, Y, RIDGE, alone, 1.0)
    for i in (0, 7):
        rest = np.delete(np.arange(12), i)
        for r, ridge in enumerate(RIDGE):
            residuals = reference.left_out(K[np.ix_(rest, rest)], Y[rest], ridge)
            assert without[r, i] == pytest.approx((residuals**2).sum() / 11, rel=1e-8)


@pytest.mark.parametrize("is_kernel", [True, False])
@pytest.mark.parametrize("codes", ["01120333455266", "00000000122211"])
def test_leaving_out_groups_is_refitting_without_them(rng, is_kernel, codes):
    """A group may be larger than the number of features."""
    phi, Y = rng.standard_normal((14, 4)), rng.standard_normal((14, 2))
    groups = Groups(np.array(list(map(int, codes))))
    found = spectrum(phi @ phi.T if is_kernel else phi, is_kernel, 0.1)
    left, K = leave_one_out(found, Y, RIDGE, groups), phi @ phi.T + 0.1
    without = errors_without_each(found, Y, RIDGE, groups, np.array([1.0, 2.0]))
    for r, ridge in enumerate(RIDGE):
        np.testing.assert_allclose(left[r], reference.left_out(K, Y, ridge, groups.codes), atol=1e-6)
        for i in (0, 5, 8):
            rest = np.flatnonzero(groups.codes != groups.codes[i])
            residuals = reference.left_out(K[np.ix_(rest, rest)], Y[rest], ridge, groups.codes[rest]) / [1, 2]
            # 1 - h is raised by 1e-9, and is 1e-4 at least
            assert without[r, i] == pytest.approx((residuals**2).sum() / len(rest), rel=1e-5)


def test_single_groups_change_nothing(clusters):
    X, y = clusters
    known = some_labels(y)
    plain, grouped = LabelFold().fit(X, known), LabelFold().fit(X, known, groups=range(60))
    np.testing.assert_array_equal(plain.decision_function(X), grouped.decision_function(X))
    assert plain.loo_interval_ == grouped.loo_interval_


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression", "multilabel"])
def test_no_left_out_prediction_depends_on_the_labels_of_its_group(rng, task):
    """Other labels of a group change the scores of its rows in no view, no tree and no weight."""
    groups = np.arange(60) // 4
    X = rng.standard_normal((60, 5)) + rng.standard_normal((15, 5))[groups]
    y = {
        "binary": (X[:, 0] > 0).astype(float),
        "multiclass": np.digitize(X[:, 0], [-0.5, 0.5]).astype(float),
        "regression": X[:, 0] + 0.5,
        "multilabel": (X[:, :2] > 0).astype(float),
    }[task]
    y[40:] = np.nan
    other = y.copy()
    # a permutation of labels within the group keeps their mean, which the targets are centred by
    own = np.flatnonzero(groups == 3)
    other[own] = y[own[::-1]]
    assert not np.array_equal(other[own], y[own])
    # the order of the numbers decides which trees are grown without which part
    views = ["linear", "rbf", *(["trees"] if task != "regression" else [])]
    first, second = (LabelFold(views=views).fit(X, one, groups=groups) for one in (y, other))
    np.testing.assert_allclose(first.loo_predictions_[own], second.loo_predictions_[own], atol=1e-6)
    if task == "regression":
        alone, changed = (LabelFold(views=views).fit(X, one) for one in (y, other))
        assert np.abs(alone.loo_predictions_[own] - changed.loo_predictions_[own]).max() > 1e-3


def test_rows_labelled_twice_promise_no_more_than_they_hold():
    """Twenty rows twice, with labels by the toss of a coin."""
    scores, held = [], 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((300, 8))
        X[20:40] = X[:20]
        known = np.full(300, -1)
        known[:40] = np.tile(rng.integers(0, 2, 20), 2)
        with pytest.warns(UserWarning, match="40 of the 40 labelled rows are exact copies"):
            fold = LabelFold().fit(X, known)
        assert len(set(fold.groups_)) == 20
        held += fold.loo_interval_[0] < 0.5 < fold.loo_interval_[1]
        scores.append(fold.loo_score_)
        assert LabelFold().fit(X, known, groups=range(300)).loo_score_ == 1.0
    assert np.mean(scores) < 0.7
    assert held >= 4


def test_visits_of_a_patient_are_left_out_together(rng):
    groups = np.repeat(np.arange(60), 5)
    X = rng.standard_normal((60, 8))[groups] + 0.2 * rng.standard_normal((300, 8))
    known = np.where(np.arange(300) < 40, rng.integers(0, 2, 60)[groups], -1)
    known[:5], known[5:10] = 0, 1
    fold = LabelFold().fit(X, known)
    assert fold.loo_score_ > 0.9
    own = fold.refit(known, groups=groups, full=True)
    assert own.groups_.tolist() == groups[:40].tolist()
    assert own.loo_score_ < 0.9
    assert own.loo_interval_[1] - own.loo_interval_[0] > 0.4
    assert own.refit(known).groups_.tolist() == groups[:40].tolist()


def test_copies_of_a_discrete_table_are_left_out_alone(rng):
    X = rng.integers(0, 3, (400, 3)).astype(float)
    known = np.where(np.arange(400) < 80, (X[:, 0] > X[:, 1]).astype(int), -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fold = LabelFold().fit(X, known)
    assert len(set(fold.groups_)) == 80


def test_groups_that_say_nothing(rng):
    X, known = rng.standard_normal((30, 3)), np.where(np.arange(30) < 10, np.arange(30) % 2, -1)
    with pytest.raises(ValueError, match="The 10 labelled rows are in one group"):
        LabelFold().fit(X, known, groups=np.zeros(30))
    # all rows of one class are in one group: the share of the other class that is right says nothing
    fold = LabelFold().fit(X, known, groups=np.where(known == 0, 30, np.arange(30)))
    assert np.isnan(fold.loo_score_)
    assert fold.loo_interval_ == (0.0, 1.0)


def test_the_scores_of_all_views_add_up(clusters):
    X, y = clusters
    fold = LabelFold().fit(X, some_labels(y))
    for rows in (X, sparse.csr_array(X)):
        parts = fold.view_scores(rows)
        off = fold.decision_function(rows) - sum(parts.values())
        np.testing.assert_allclose(off, np.broadcast_to(off[0], off.shape), atol=1e-9)
    table = fold.view_weights_
    heavy = {
        (f if f != "principal" else "linear", form)
        for f, form, w in zip(table["family"], table["form"], table["weight"], strict=True)
        if w > 1e-6
    }
    assert heavy <= set(parts)


def test_leave_one_out_says_how_sure_it_is(clusters):
    X, y = clusters
    known = some_labels(y)
    wrong = np.flatnonzero(known >= 0)[3]
    known[wrong] = (known[wrong] + 1) % (y.max() + 1)
    fold = LabelFold().fit(X, known)
    labelled = known >= 0
    sure = fold.loo_confidence_
    assert sure.shape == (labelled.sum(),)
    assert ((sure >= 1 / len(fold.classes_)) & (sure <= 1)).all()
    # the row's own label is not known: of a wrong one it is surely contradicted
    assert fold.loo_predictions_[3] == y[wrong] != known[wrong]
    own = fold.predict_proba(X[labelled])[
        np.arange(len(sure)), np.searchsorted(fold.classes_, fold.loo_predictions_)
    ]
    assert sure[3] > own[3]
    assert not hasattr(LabelFold().fit(X, X[:, 0]), "loo_confidence_")


def test_leave_one_out_score_is_that_of_folds_fitted_without_the_row(clusters):
    X, y = clusters
    known = some_labels(y)
    views = [view for view in VIEWS if view.family not in KERNELS]  # which are centred over the labelled rows
    fold = LabelFold(views=views, forms=[], ridges=RIDGE).fit(X, known)
    right = []
    for i in np.flatnonzero(known >= 0):
        without = known.copy()
        without[i] = -1
        right.append(
            LabelFold(views=views, forms=[], ridges=RIDGE).fit(X, without).transduction_[i] == known[i]
        )
    # Whether a row is labelled has a say in how decided unlabelled rows are: one in 46 may differ.
    assert abs(fold.loo_score_ - np.mean(right)) <= 1 / len(right) + 1e-12


def test_left_out_predictions_of_numbers_are_what_the_score_and_its_interval_stand_on(clusters):
    X, _ = clusters
    y = X[:, 0] + np.sin(3 * X[:, 1])
    known = np.where(np.arange(len(y)) % 4 == 0, y, np.nan)
    fold = LabelFold(views=["linear", "graph"], forms=["as they are"]).fit(X, known)
    assert fold.loo_score_ == r2_score(y[::4], fold.loo_predictions_)
    assert not np.allclose(fold.loo_predictions_, fold.predict(X[::4]))
    low, high = fold.loo_interval_
    assert low < fold.loo_score_ < high <= 1
    other = LabelFold(views=["linear", "graph"], forms=["as they are"]).fit(X, 1024 * known)
    np.testing.assert_allclose(other.loo_interval_, fold.loo_interval_)


@pytest.mark.parametrize("form", ["as they are", "unit variance", "ranks"])
def test_every_container_gives_the_same(container, clusters, form):
    X, y = clusters
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    known = some_labels(y)
    views = [View(form, *view_of(view)) for view in VIEWS]
    expected = LabelFold(5, views=views, forms=[]).fit(X, known)
    fold = LabelFold(5, views=views, forms=[]).fit(container.make(X), known)
    np.testing.assert_allclose(np.abs(fold.embedding_), np.abs(expected.embedding_), atol=1e-6)
    np.testing.assert_array_equal(fold.predict(container.make(X)), expected.predict(X))
    Z = fold.transform(container.make(X[:7]))
    np.testing.assert_allclose(
        np.abs(labelfold.as_rows(container.make(X)).get(Z)), np.abs(expected.embedding_[:7]), atol=1e-6
    )


def test_trees_are_the_same_in_every_container(container, clusters):
    X, y = clusters
    X, known = X * 2.0**12 + 100, some_labels(y)  # exact in float32 too, so that rows take the same paths
    expected = LabelFold(views=["linear", "trees"], forms=["as they are"]).fit(X, known)
    fold = LabelFold(views=["linear", "trees"], forms=["as they are"]).fit(container.make(X), known)
    assert fold.view_weights_["weight"][fold.view_weights_["family"] == "trees"] > 0.05
    np.testing.assert_allclose(
        np.asarray(fold.predict_proba(container.make(X))), expected.predict_proba(X), atol=1e-6
    )


def test_rows_in_single_precision_in_every_container(container, clusters):
    X, y = clusters
    X, known = (X + 1).astype(np.float32), some_labels(y)
    expected = LabelFold(8, n_anchors=40).fit(X, known)
    fold = LabelFold(8, n_anchors=40).fit(container.make(X), known)
    there = container.make(X)
    np.testing.assert_allclose(np.asarray(fold.predict_proba(there)), expected.predict_proba(X), atol=1e-3)
    Z = labelfold.as_rows(there).get(fold.transform(there))
    np.testing.assert_allclose(np.abs(Z), np.abs(expected.embedding_), atol=1e-2)


def view_of(view):
    return view.family, view.space, view.value, view.filter


def test_new_rows_may_come_in_another_container(clusters):
    X, y = clusters
    fold = LabelFold(5).fit(X * [1, 2, 3, 4, 5] + 3.0, some_labels(y))
    new = X[:9] * [1, 2, 3, 4, 5] + 3.5
    np.testing.assert_allclose(
        fold.decision_function(sparse.csr_array(new)), fold.decision_function(new), atol=1e-9
    )


def test_few_anchors_for_many_rows_in_every_container(container, rng, many_blocks):
    X, y = make_moons(400, noise=0.1, random_state=0)
    X = np.hstack([X, 0.1 * rng.standard_normal((400, 3))])
    known = some_labels(y, 40)
    fold = LabelFold(n_anchors=40, views=["graph"], forms=["as they are"], max_gram_bytes=0).fit(
        container.make(X), known
    )
    assert np.mean(fold.transduction_ == y) > 0.9
    expected = LabelFold(n_anchors=40, views=["graph"], forms=["as they are"]).fit(X, known)
    np.testing.assert_allclose(fold.decision_function(X), expected.decision_function(X), atol=1e-5)


@pytest.fixture
def fitted(clusters):
    X, y = clusters
    return LabelFold().fit(X, some_labels(y)), X, y


def test_transform_places_training_rows_where_the_fit_did(fitted):
    fold, X, _ = fitted
    np.testing.assert_allclose(fold.transform(X), fold.embedding_, atol=1e-9)
    np.testing.assert_array_equal(fold.predict(X), fold.transduction_)
    np.testing.assert_allclose(fold.transform(X[5:6]), fold.embedding_[5:6], atol=1e-9)


def test_rows_in_another_order(fitted, rng):
    fold, X, y = fitted
    order = rng.permutation(len(X))
    other = LabelFold().fit(X[order], some_labels(y)[order])
    np.testing.assert_allclose(other.decision_function(X), fold.decision_function(X), atol=1e-6)


def test_classes_by_other_names(fitted):
    fold, X, y = fitted
    names = np.array(["c", "a", "b"])
    known = np.where(some_labels(y) >= 0, names[y], "?")
    other = LabelFold(unlabeled="?").fit(X, known)
    np.testing.assert_allclose(other.decision_function(X), fold.decision_function(X)[:, [1, 2, 0]], atol=1e-7)
    assert other.predict(X).tolist() == names[fold.predict(X)].tolist()


@pytest.mark.parametrize(("scale", "shift"), [(1000.0, 0.0), (1.0, 50.0), (1e-3, -2.0)])
def test_columns_in_other_units(fitted, scale, shift):
    fold, X, y = fitted
    other = LabelFold().fit(scale * X + shift, some_labels(y))
    np.testing.assert_allclose(
        other.decision_function(scale * X + shift), fold.decision_function(X), atol=1e-5
    )


def test_refit_is_a_fresh_fit_with_the_same_views(clusters):
    X, y = clusters
    first, second = some_labels(y), some_labels(y, 5)
    fold = LabelFold().fit(X, first)
    fresh = LabelFold().fit(X, second)
    np.testing.assert_allclose(fold.refit(second, full=True).embedding_, fresh.embedding_, atol=1e-9)
    assert fold.loo_score_ == fresh.loo_score_
    np.testing.assert_array_equal(fold.view_weights_["weight"], fresh.view_weights_["weight"])


def test_refit_weighs_heavy_views_only(clusters, monkeypatch):
    X, y = clusters
    fold = LabelFold().fit(X, some_labels(y))
    views = fold.view_weights_["view"]
    heaviest = views[views != "extra trees"][:8].tolist()
    monkeypatch.setattr("labelfold.semi_supervised._label_fold._REFIT_WORK", 1)
    used = fold.refit(some_labels(y)).view_weights_
    assert sorted(used["view"][used["left_out"] == ""]) == sorted([*heaviest, "extra trees"])


def test_refit_leaves_next_to_no_weight_out_of_the_score(clusters):
    X, y = clusters
    fold = LabelFold().fit(X, some_labels(y))
    every = fold.view_weights_["weight"]
    assert ((every > 0) & (every < 1e-2 * every.max())).any()
    before = fold.transduction_
    weights = fold.refit(some_labels(y)).view_weights_["weight"]
    assert not ((weights > 0) & (weights < 1e-2 * weights.max() / len(default_ridges()))).any()
    assert weights.sum() == pytest.approx(1)
    assert np.mean(fold.transduction_ == before) > 0.95


def test_label_distributions_are_the_probabilities_of_the_training_rows(clusters, tmp_path):
    X, y = clusters
    fold = LabelFold().fit(X, some_labels(y))
    np.testing.assert_allclose(fold.label_distributions_, fold.predict_proba(X), atol=1e-9)
    loaded = labelfold.load(labelfold.save(fold, tmp_path / "fold.skops"))
    assert not hasattr(loaded, "label_distributions_")
    fold.refit(np.where(np.arange(len(y)) % 2, np.nan, X[:, 0] + 0.5))
    assert not hasattr(fold, "label_distributions_")


def test_unsupervised_coordinates_know_no_label(clusters):
    X, y = clusters
    index = np.array([5, 3, 11])
    first, second = (unsupervised(LabelFold().fit(X, some_labels(y, i)), index) for i in (4, 5))
    np.testing.assert_array_equal(first, second)
    every = unsupervised(LabelFold().fit(X, some_labels(y)), np.arange(len(X)))
    np.testing.assert_allclose(first, every[index], atol=1e-12)
    forms = len(set(LabelFold().fit(X, some_labels(y)).view_weights_["form"]))
    assert 0.5 * forms < (every**2).sum(axis=1).mean() <= forms + 1e-9


def test_refit_takes_new_classes_and_other_tasks(fitted):
    fold, X, y = fitted
    known = some_labels(y)
    known[1] = 7
    assert fold.refit(known).classes_.tolist() == [0, 1, 2, 7]
    assert fold.refit(np.where(np.arange(60) % 2, np.nan, X[:, 0] + 0.5)).task_ == "regression"
    assert not hasattr(fold, "classes_")
    assert not hasattr(fold, "decision_function")


def test_saved_models_predict_alike_and_say_that_they_cannot_be_refitted(fitted, tmp_path):
    fold, X, y = fitted
    loaded = labelfold.load(labelfold.save(fold, tmp_path / "fold.skops"))
    np.testing.assert_array_equal(loaded.transform(X), fold.transform(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), fold.predict_proba(X))
    assert loaded.view_weights_["view"].tolist() == fold.view_weights_["view"].tolist()
    with pytest.raises(ValueError, match="a saved model does not hold"):
        loaded.refit(some_labels(y))


def test_weights_are_a_table(fitted):
    pandas = pytest.importorskip("pandas")
    fold, _, _ = fitted
    table = pandas.DataFrame(fold.view_weights_)
    assert table["weight"].sum() == pytest.approx(1)
    assert (np.diff(table["weight"]) <= 0).all()
    assert (table["left_out"] == "").sum() == (~table["loo_error"].isna()).sum()


def test_probabilities(fitted):
    fold, X, _ = fitted
    p = fold.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(fold.classes_[p.argmax(axis=1)], fold.predict(X))


def test_probabilities_are_as_likely_as_they_say(rng):
    # Scores that are the log-probabilities over 3: the steepness is 3.
    F = rng.standard_normal((4000, 3))
    p = np.exp(3 * F) / np.exp(3 * F).sum(axis=1, keepdims=True)
    codes = (rng.random((4000, 1)) < np.cumsum(p, axis=1)).argmax(axis=1)
    # The estimate's standard error is about 0.07.
    assert steepness(F, codes) == pytest.approx(3, abs=0.25)
    assert steepness(np.eye(3)[codes[:20]], codes[:20]) < 20


def test_intervals():
    share, low, high = accuracy_interval(np.arange(50) < 40, Groups.single(50))
    assert share == 0.8
    # Clopper and Pearson's of 90 % for 32 of 40, which binomial tails define.
    assert binom.sf(31, 40, low) == pytest.approx(0.05)
    assert binom.cdf(32, 40, high) == pytest.approx(0.05)
    assert accuracy_interval(np.ones(20, dtype=bool), Groups.single(20))[2] == 1.0
    assert accuracy_interval(np.zeros(20, dtype=bool), Groups.single(20))[1] == 0.0


def test_components_beyond_the_discriminant_ones(clusters):
    X, y = clusters
    fold = LabelFold(6).fit(X, some_labels(y))
    assert fold.embedding_.shape == (60, 6)
    few = LabelFold().fit(X, some_labels(y))
    np.testing.assert_allclose(fold.embedding_[:, :2], few.embedding_, atol=1e-9)
    C = np.corrcoef(fold.embedding_.T)
    np.testing.assert_allclose(C[:2, 2:], 0, atol=1e-5)
    np.testing.assert_allclose(fold.transform(X), fold.embedding_, atol=1e-9)
    assert fold.get_feature_names_out().tolist() == [f"labelfold{j}" for j in range(6)]
    assert LabelFold(1).fit(X, some_labels(y)).embedding_.shape == (60, 1)


def test_more_components_than_there_are(rng):
    X = rng.standard_normal((20, 2))
    with pytest.warns(UserWarning, match="n_components=50 is more than"):
        fold = LabelFold(50, views=["linear"], forms=["as they are"]).fit(
            X, some_labels(np.arange(20) % 2, 3)
        )
    assert fold.embedding_.shape[1] < 50


def reasons(fold):
    table = fold.view_weights_
    return {name: why for name, why in zip(table["view"], table["left_out"], strict=True) if why}


def finite(fold, X):
    assert np.isfinite(fold.embedding_).all()
    assert np.isfinite(fold.transform(X)).all()
    if fold.task_ != "regression":
        assert np.isfinite(fold.predict_proba(X)).all()
    table = fold.view_weights_
    assert np.isfinite(table["loo_error"][table["left_out"] == ""]).all()


def test_constant_columns(rng):
    X = np.full((30, 4), 3.0)
    with pytest.warns(UserWarning, match="no view of X could be made"):
        fold = LabelFold().fit(X, some_labels(np.arange(30) % 2, 3))
    assert set(reasons(fold).values()) == {"all rows are the same", "the labelled rows do not differ"}
    finite(fold, X)
    X[:, 0] = rng.standard_normal(30)
    finite(LabelFold().fit(X, some_labels(np.arange(30) % 2, 3)), X)


def test_fewer_rows_than_neighbours(rng):
    X = rng.standard_normal((8, 3))
    fold = LabelFold().fit(X, [0, 1, 0, 1, -1, -1, -1, -1])
    assert "21 neighbours of 8 rows would be all of them" in reasons(fold).values()
    finite(fold, X)


def test_a_graph_in_pieces(rng):
    X = np.repeat(1000.0 * np.arange(30), 7)[:, None] + rng.standard_normal((210, 2))
    y = np.repeat(np.arange(30) % 2, 7)
    fold = LabelFold(forms=["as they are"]).fit(X, some_labels(y, 7))
    finite(fold, X)
    assert np.mean(fold.transduction_ == y) == 1.0
    many = np.repeat(1000.0 * np.arange(100), 6)[:, None] + rng.standard_normal((600, 2))
    fold = LabelFold(forms=["as they are"]).fit(many, some_labels(np.repeat(np.arange(100) % 2, 6), 6))
    assert "the graph falls into 100 pieces" in reasons(fold).values()
    finite(fold, many)


def test_duplicate_rows(rng):
    X = np.repeat(rng.standard_normal((6, 3)), 20, axis=0)
    y = np.repeat([0, 1, 0, 1, 1, 0], 20)
    for n_anchors in (1000, 30):
        fold = LabelFold(n_anchors=n_anchors).fit(X, some_labels(y, 9))
        finite(fold, X)
        assert np.mean(fold.transduction_ == y) == 1.0


def test_empty_rows_of_counts(rng):
    X = sparse.csr_array(rng.poisson(0.1, (80, 300)).astype(float) * (rng.random((80, 1)) < 0.8))
    assert forms_for(labelfold.as_rows(X)) == ("tf-idf", "root counts")
    fold = LabelFold().fit(X, some_labels(np.arange(80) // 2 % 2, 3))
    finite(fold, X)
    assert np.isfinite(fold.transform(sparse.csr_array((3, 300)))).all()


def test_one_label_a_class_and_a_class_of_one_row(clusters):
    X, y = clusters
    known = np.full(60, -1)
    known[[0, 1, 2]] = y[:3]
    fold = LabelFold().fit(X, known)
    finite(fold, X)
    assert np.mean(fold.transduction_ == y) > 0.5
    lonely = some_labels(y)
    lonely[1] = 3
    fold = LabelFold().fit(X, lonely)
    finite(fold, X)
    assert fold.embedding_.shape == (60, 3)


def test_every_row_labelled(clusters):
    X, y = clusters
    fold = LabelFold().fit(X, y)
    finite(fold, X)
    assert fold.score(X, y) > 0.8


def test_regressions_made_again_are_those_that_were_kept(clusters, monkeypatch):
    X, y = clusters
    kept = LabelFold().fit(X, some_labels(y))
    monkeypatch.setattr("labelfold.semi_supervised._weights.MAX_GRAM_BYTES", 0)
    again = LabelFold().fit(X, some_labels(y))
    np.testing.assert_array_equal(again.embedding_, kept.embedding_)
    assert again.loo_score_ == kept.loo_score_


def test_leaving_out_a_rows_own_error_is_near_to_refitting(rng, monkeypatch):
    y = np.arange(300) % 2
    X = rng.standard_normal((300, 4)) + y[:, None]
    exact = LabelFold(forms=["as they are"]).fit(X, y)
    monkeypatch.setattr("labelfold.semi_supervised._weights._EXACT_ROWS", 0)
    near = LabelFold(forms=["as they are"]).fit(X, y)
    assert abs(near.loo_score_ - exact.loo_score_) <= 0.01


def test_many_labelled_rows_take_landmarks(rng, monkeypatch):
    monkeypatch.setattr("labelfold.semi_supervised._views._KERNEL_ROWS", 30)
    monkeypatch.setattr("labelfold.semi_supervised._views._LINEAR_ROWS", 40)
    X, y = make_moons(150, noise=0.1, random_state=0)
    fold = LabelFold(forms=["as they are"], views=["linear", "rbf", "laplace"]).fit(X, y)
    np.testing.assert_allclose(fold.transform(X), fold.embedding_, atol=1e-9)
    assert fold.score(X, y) > 0.95
    wide = np.hstack([X, rng.standard_normal((150, 200))])
    fold = LabelFold(forms=["as they are"], views=["linear"]).fit(wide, y)
    np.testing.assert_allclose(fold.transform(wide), fold.embedding_, atol=1e-9)


def test_laplace_views_are_for_tables(rng):
    y = np.arange(40) % 2
    X = rng.standard_normal((40, 120)) + y[:, None]
    known = some_labels(y, 3)
    assert "laplace" not in LabelFold().fit(X, known).view_weights_["family"]
    table = LabelFold().fit(X[:, :100], known)
    assert "laplace" in table.view_weights_["family"]
    asked = LabelFold(views=["laplace"], forms=["as they are"]).fit(X, known)
    np.testing.assert_allclose(asked.view_weights_["weight"].sum(), 1.0)
    sparse_rows = LabelFold(views=["laplace"], forms=["as they are"]).fit(sparse.csr_array(X), known)
    np.testing.assert_allclose(sparse_rows.transform(sparse.csr_array(X)), asked.transform(X), atol=1e-9)


def test_several_labels_a_row(clusters, rng):
    X, y = clusters
    L = np.column_stack([y == 0, y != 1, np.zeros(60)]).astype(float)
    L[1::2] = np.nan
    with pytest.warns(UserWarning, match="No labelled row of Y is positive in label columns 2"):
        fold = LabelFold().fit(X, L)
    finite(fold, X)
    assert fold.predict(X).shape == (60, 3)
    assert fold.score(X, L) > 0.8
    np.testing.assert_array_equal(fold.predict_proba(X) > 0.5, fold.predict(X) == 1)
    np.testing.assert_array_equal(fold.decision_function(X) > 0, fold.predict(X) == 1)


def test_numbers_of_different_size_weigh_alike(clusters):
    X, _ = clusters
    Y = np.column_stack([X[:, 0], 1e6 * X[:, 1]]) + 0.5
    Y[1::2] = np.nan
    fold = LabelFold(task="regression").fit(X, Y)
    other = LabelFold(task="regression").fit(X, Y * [1e6, 1.0])
    np.testing.assert_allclose(other.predict(X), fold.predict(X) * [1e6, 1.0], rtol=1e-6)
    finite(fold, X)


@pytest.mark.parametrize(
    ("given", "message"),
    [({"forms": ["cubes"]}, "forms names 'cubes'"), ({"views": ["tree"]}, "views names 'tree'")],
)
def test_names_that_are_not_known(clusters, given, message):
    X, y = clusters
    with pytest.raises(ValueError, match=message):
        LabelFold(**given).fit(X, some_labels(y))


def test_no_warning_on_plain_data(clusters):
    X, y = clusters
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LabelFold().fit(X, some_labels(y))


def test_names_of_views_are_different():
    names = [view.name for view in views_of("ranks")]
    assert len(set(names)) == len(names)
    assert len(set(default_ridges())) == len(default_ridges())
