"""Statistics of out-of-fold predictions: scores, paired differences, a choice that luck does not make, intervals."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, r2_score

from labelfold.app.compare._scores import Measure, OutOfFold, choose, gap, measure_for

ACCURACY = Measure("accuracy", "accuracy")
R2 = Measure("R²", "r2")


def folds(n, k=5, repeats=1, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(n) % k for _ in range(repeats)])


def rights(right, fold):
    """Out-of-fold predictions that are right where said, (repeats, rows)."""
    right = np.asarray(right, dtype=float)
    return OutOfFold(ACCURACY, np.stack([right, np.ones_like(right)], axis=-1), fold)


@pytest.mark.parametrize(
    ("kind", "score"),
    [
        ("accuracy", accuracy_score),
        ("balanced", balanced_accuracy_score),
        ("f1", lambda a, b: f1_score(a, b, average="micro")),
        ("r2", r2_score),
    ],
)
def test_measures_are_scikit_learns(kind, score, rng):
    truth, guess = rng.integers(0, 3, 60), rng.integers(0, 3, 60)
    if kind == "f1":
        truth, guess = rng.integers(0, 2, (60, 4)), rng.integers(0, 2, (60, 4))
    if kind == "r2":
        truth = rng.standard_normal(60)
        guess = truth + rng.standard_normal(60)
    measure = Measure(kind, kind)
    assert measure.value(measure.terms(truth, guess).sum(axis=0)) == pytest.approx(score(truth, guess))


def test_unequal_classes_are_weighed_alike():
    assert measure_for("binary", np.array([30, 6])).kind == "balanced"
    assert measure_for("binary", np.array([30, 7])).kind == "accuracy"
    assert measure_for("multilabel", np.array([30, 1])).kind == "f1"
    assert measure_for("regression", np.zeros(0)).kind == "r2"


def test_a_gap_is_paired_and_its_variance_corrected(rng):
    fold = folds(40, repeats=2)
    a, b = rng.integers(0, 2, (2, 40)), rng.integers(0, 2, (2, 40))
    differences = [a[r][fold[r] == f].mean() - b[r][fold[r] == f].mean() for r in range(2) for f in range(5)]
    half = stats.t.ppf(0.95, 9) * np.sqrt((1 / 10 + 1 / 4) * np.var(differences, ddof=1))
    assert gap(rights(a, fold), rights(b, fold)) == pytest.approx((a.mean() - b.mean(), half))


def test_rows_never_held_out_do_not_count():
    fold = np.array([[0, 0, 1, 1, -1]])
    one = rights([[1, 1, 1, 0, 0]], fold)
    assert one.score == 0.75
    assert one.n_rows == 4
    np.testing.assert_array_equal(one.by_fold(), [[1.0, 0.5]])


def test_the_preferred_is_taken_where_it_is_as_good_and_only_there(rng):
    fold = folds(100, repeats=3)
    good, bad = rng.random((3, 100)) < 0.9, rng.random((3, 100)) < 0.6
    nearly = good.copy()
    nearly[:, :2] = ~nearly[:, :2]
    found = {"nearly": rights(nearly, fold), "good": rights(good, fold), "bad": rights(bad, fold)}
    assert choose(found, ["nearly"]).chosen == "nearly"
    assert choose(found, ["bad", "nearly"]).chosen == "nearly"
    last = choose(found, ["bad"])
    assert last.chosen == "good" if good.mean() > nearly.mean() else "nearly"
    assert "bad" not in last.equal


def test_the_best_of_many_equals_seldom_beats_the_preferred(rng):
    """Twenty methods that are all right in 70 of 100 cases: the lead of the luckiest is no reason to take it."""
    taken = []
    for seed in range(60):
        fold = folds(60, repeats=5, seed=seed)
        right = rng.random((20, 60)) < 0.7
        found = {str(i): rights(np.tile(one, (5, 1)), fold) for i, one in enumerate(right)}
        taken.append(choose(found, ["0"]).chosen == "0")
    assert np.mean(taken) >= 0.9


def test_luck_is_not_promised(rng):
    """Thirty methods that are all right in 70 of 100 cases: the best of them looks better than it is."""
    best, promised = [], []
    for _ in range(40):
        fold = folds(60)
        found = {str(i): rights(rng.random((1, 60)) < 0.7, fold) for i in range(30)}
        best.append(max(one.score for one in found.values()))
        promised.append(choose(found, []).expected)
    assert np.mean(best) > 0.78
    assert abs(np.mean(promised) - 0.7) < 0.02


@pytest.mark.parametrize(("p", "n"), [(0.7, 30), (0.85, 60), (0.97, 100)])
def test_intervals_hold_the_truth_and_are_not_wide(p, n, rng):
    """Nine in ten, with a standard error of 0.014 on 400 draws; at most 1.5 times the binomial interval's width."""
    inside, width = [], []
    for _ in range(400):
        found = {"a": rights(rng.random((1, n)) < p, folds(n))}
        one = choose(found, [])
        inside.append(one.low <= p <= one.high)
        width.append(one.high - one.low)
    assert np.mean(inside) > 0.9 - 0.02
    binomial = [
        np.diff(stats.binomtest(k, n).proportion_ci(0.9, "wilson"))[0] for k in rng.binomial(n, p, 400)
    ]
    assert np.mean(width) < 1.5 * np.mean(binomial)


def test_intervals_of_other_measures_are_from_the_bootstrap(rng):
    truth = rng.integers(0, 2, 200)
    guess = np.where(rng.random(200) < 0.8, truth, 1 - truth)
    measure = Measure("balanced accuracy", "balanced")
    found = {"a": OutOfFold(measure, measure.terms(truth, guess)[None], folds(200))}
    one = choose(found, [])
    assert one.expected == pytest.approx(balanced_accuracy_score(truth, guess))
    assert 0.05 < one.high - one.low < 0.16


def test_an_interval_is_never_a_point():
    balanced = Measure("balanced accuracy", "balanced")
    truth = np.repeat([0, 1], [10, 17])
    found = choose({"it": OutOfFold(balanced, balanced.terms(truth, truth)[None], folds(27))}, [])
    assert found.expected == found.high == 1.0
    assert 0.85 < found.low < 0.95


def test_numbers_keep_to_the_distance_that_nine_of_ten_left_out_rows_kept():
    truth, fold = np.arange(19.0), np.arange(19)[None] % 5
    guess = truth + np.arange(1, 20) * (-1.0) ** np.arange(19)
    one = OutOfFold(R2, R2.terms(truth, guess)[None], fold)
    assert one.within == 18  # 0.9 (19 + 1) = 18 of the distances 1, ..., 19
    assert OutOfFold(R2, R2.terms(truth[:8], guess[:8])[None], fold[:, :8]).within is None
    assert rights(np.ones((1, 10)), folds(10, repeats=1)).within is None


def test_a_fold_of_numbers_that_hardly_differ_is_scored_by_the_variance_of_all():
    truth, fold = np.array([0.0, 10.0, 5.0, 5.0]), np.array([[0, 0, 1, 1]])
    one = OutOfFold(R2, R2.terms(truth, truth + 1.0)[None], fold)
    assert one.by_fold().tolist() == [[1 - 2 / 25, 1 - 2 / 25]]
    assert one.score == pytest.approx(r2_score(truth, truth + 1))
