"""The honest accuracy: random rows alone, earlier predictions for what they were, intervals that hold; look again."""

import numpy as np
import pytest

from labelfold.app.compare._review import HeldOutPredictions
from labelfold.app.label._accuracy import Answer, curve, doubtful_labels, expected, forecast
from labelfold.app.label._worker import start


def answers(right, every=4, how="random"):
    """Return answers of which every fourth is a random one, right or wrong as told."""
    found = []
    for i, hit in enumerate(right):
        found.append(Answer(i, "a", "a" if hit else "b", 0.7, how, every * i))
        found += [
            Answer(1000 + every * i + j, "a", "b", 0.5, "settle", every * i + j) for j in range(1, every)
        ]
    return found


def simulated(rng, error, power, labels, first=4):
    """Return answers of a session whose error falls to ``error`` as a power of the number of labels."""
    then = np.arange(first, labels, 4)
    q = np.minimum(0.9, error * (labels / then) ** power)
    return [
        Answer(i, "a", "b" if wrong else "a", 0.5, "random", int(at))
        for i, (at, wrong) in enumerate(zip(then, rng.random(len(then)) < q, strict=True))
    ] + [Answer(10_000, "a", "a", 0.5, "settle", labels - 1)]


def test_only_random_rows_that_were_predicted_count():
    some = answers([True, False, True])
    now = expected(some)
    assert now.n == 3
    assert expected([*some, Answer(99, "a", None, 0.0, "random", 12)]).n == 3
    assert expected(answers([True] * 5, how="settle")) is None
    assert expected([]) is None
    assert curve([]) == []
    assert forecast([]) is None


def test_value_lies_in_its_interval_and_extremes_are_open():
    for right in ([True] * 12, [False] * 12, [True] * 11 + [False]):
        now = expected(answers(right))
        assert 0 <= now.low <= now.value <= now.high <= 1
    assert expected(answers([True] * 12)).high == 1.0
    assert expected(answers([False] * 12)).low == 0.0


def test_earlier_predictions_count_less():
    better, worse = expected(answers([False] * 5 + [True] * 10)), expected(answers([True] * 10 + [False] * 5))
    assert better.value > 10 / 15 > worse.value
    assert better.value > worse.value + 0.2


def test_more_rows_make_the_interval_narrower():
    few, many = expected(answers([True, True, False] * 4)), expected(answers([True, True, False] * 40))
    assert many.high - many.low < 0.6 * (few.high - few.low)


@pytest.mark.parametrize("labels", [24, 48, 100, 200])
def test_the_interval_holds_the_accuracy_of_now(labels):
    """Also where accuracy has risen all the time, when the plain share of right rows is far below it."""
    rng = np.random.default_rng(labels)
    held, plain = [], []
    for error in (0.03, 0.1, 0.3):
        for power in (0.0, 0.4, 0.8):
            for _ in range(12):
                some = simulated(rng, error, power, labels)
                now = expected(some)
                held.append(now.low <= 1 - error <= now.high)
                if power == 0.8:
                    plain.append(1 - error - np.mean([a.label == a.predicted for a in some[:-1]]))
    assert np.mean(held) >= 0.85
    assert np.mean(plain) > 0.1


def test_a_forecast_is_better_where_accuracy_has_risen():
    rng = np.random.default_rng(0)
    rising, level = simulated(rng, 0.1, 0.8, 60), answers([True, True, True, False] * 10)
    for some in (rising, level):
        now, later = expected(some), forecast(some)
        assert later.labels == now.labels + 20
        assert now.value < later.value <= 1
    gain = {id(some): forecast(some).value - expected(some).value for some in (rising, level)}
    assert forecast(some, 200).value > forecast(some).value
    share = {id(some): gain[id(some)] / (1 - expected(some).value) for some in (rising, level)}
    assert share[id(rising)] > share[id(level)]
    assert forecast(answers([True] * 4)) is None


def test_the_curve_goes_up_to_now():
    some = answers([False, True] * 5 + [True] * 100)
    points = curve(some)
    assert 2 < len(points) <= 40
    labels = [point.labels for point in points]
    assert labels == sorted(set(labels))
    assert points[-1].n == 110
    assert points[-1].value == pytest.approx(expected(some[: 4 * 109 + 1]).value)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    kind = np.arange(150) % 3
    return 3 * np.eye(3, 6)[kind] + 0.5 * rng.standard_normal((150, 6)), kind.astype(str)


def test_wrong_labels_are_listed_and_right_ones_are_not(table):
    X, y = table
    labels = np.full(150, None, dtype=object)
    labels[:40] = y[:40]
    labels[[4, 11]] = [str((int(y[4]) + 1) % 3), str((int(y[11]) + 2) % 3)]
    fold = start(X).set_params(unlabeled=None).refit(labels, full=True)
    doubts = doubtful_labels(fold, labels)
    assert {doubt.row for doubt in doubts} == {4, 11}
    assert [doubt.confidence for doubt in doubts] == sorted((d.confidence for d in doubts), reverse=True)
    for doubt in doubts:
        assert (doubt.label, doubt.predicted) == (labels[doubt.row], y[doubt.row])
    # by the rule that the report has
    held_out = HeldOutPredictions(fold.loo_predictions_, fold.loo_confidence_, np.ones(40, dtype=bool), "")
    assert {4, 11} == set(held_out.doubtful(labels[:40].astype(fold.loo_predictions_.dtype)).tolist())
    # the only label of its class has nothing around it
    labels[4] = "alone"
    assert {doubt.row for doubt in doubtful_labels(fold.refit(labels), labels)} == {11}
