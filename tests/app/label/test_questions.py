"""Questions: one in four at random at every moment, no row twice, spread out from the start, a reason for each."""

import re

import numpy as np
import pytest

from labelfold.app.compare._review import choose_by_gain, distance_to_labelled
from labelfold.app.label._questions import STRATEGIES, Questions, unit_scale
from labelfold.app.label._worker import start

SIZES = (60, 50, 40, 30, 20, 20)


@pytest.fixture(scope="module")
def islands():
    """Return six islands of rows in eight columns, one row far from all, and the name of each row's island."""
    rng = np.random.default_rng(0)
    kind = np.repeat(np.arange(6), SIZES)
    X = 4 * np.eye(6, 8)[kind] + 0.5 * rng.standard_normal((len(kind), 8))
    X = np.vstack([X, 40 * np.eye(8)[7:]])
    names = np.array([f"<b>island {i}" for i in [*kind, 0]], dtype=object)
    order = rng.permutation(len(X))
    return X[order], names[order]


@pytest.fixture(scope="module")
def views(islands):
    return start(islands[0]).set_params(unlabeled=None)


def ask(X, names, most, strategy="mixed", fold=None, seed=0, skip=()):
    """Answer questions; return them with what was answered before each. ``fold`` is fitted again after each."""
    labels, asked, found, answered, model = np.full(len(X), None, dtype=object), [], [], 0, None
    questions = Questions(len(X), seed=seed)
    for i in range(most):
        labelled = np.array([label is not None for label in labels])
        one = questions.next(model, X, labelled, strategy=strategy, asked=asked, n_answered=answered)
        if one is None:
            break
        found.append((one, answered))
        asked.append(one.row)
        if i in skip:
            continue
        answered += 1
        labels[one.row] = names[one.row]
        if fold is not None and len({*labels} - {None}) > 1:
            model = fold.refit(labels, full=model is None)
    return found, labels


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_at_every_moment_one_answer_in_four_was_drawn_at_random(islands, strategy):
    found, _ = ask(*islands, 40, strategy, skip=(4, 5, 12))
    random = 0
    for one, answered in found:
        random += one.how == "random"
        assert random >= (answered + 1) / 4
    assert strategy == "random" or random <= 40 / 4 + 3  # a random row that is skipped is drawn again


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_row_is_asked_twice_and_all_are_in_the_end(islands, strategy):
    X, names = islands[0][:30], islands[1][:30]
    found, _ = ask(X, names, 100, strategy, skip=range(0, 30, 3))
    assert sorted(one.row for one, _ in found) == list(range(30))


def test_labelled_rows_are_not_asked(islands):
    X, _ = islands
    labelled = np.arange(len(X)) != 17
    for answered in (0, 1):
        one = Questions(len(X)).next(None, X, labelled, strategy="mixed", asked=[], n_answered=answered)
        assert one.row == 17
        assert Questions(len(X)).next(None, X, labelled, strategy="mixed", asked=[17], n_answered=1) is None


def test_the_first_dozen_finds_every_island_and_no_lonely_row(islands):
    X, names = islands
    outlier = int(np.argmax(X[:, 7]))
    for seed in range(5):
        found, _ = ask(X, names, 12, seed=seed)
        chosen = [one.row for one, _ in found if one.how == "spread"]
        assert {names[row] for row in chosen} == set(names)
        assert outlier not in chosen[:6]
        assert {one.reason for one, _ in found if one.how == "spread"} == {"one of a spread-out first dozen"}


def test_mixed_questions_teach_more_than_random_ones(islands, views):
    X, names = islands
    right = {}
    for strategy in ("mixed", "random"):
        _, labels = ask(X, names, 10, strategy, views)
        right[strategy] = np.mean(views.refit(labels, full=True).transduction_ == names)
    assert right["mixed"] > right["random"] + 0.05


def test_reasons_say_why(islands, views):
    found, labels = ask(*islands, 16, "mixed", views)
    reasons = [one.reason for one, _ in found if one.how == "settle"]
    assert all(re.search(r"unsure between|unlike|would settle [\d,]+ others", reason) for reason in reasons)
    assert {one.reason for one, _ in found if one.how == "random"} == {
        "drawn at random, to measure the accuracy"
    }
    assert any("others" in reason for reason in reasons)
    fold = views.refit(labels)
    labelled = np.array([label is not None for label in labels])
    one = Questions(len(labels)).next(fold, None, labelled, strategy="unsure", asked=[], n_answered=1)
    p = fold.label_distributions_[one.row]
    first, second = fold.classes_[np.argsort(-p)[:2]]
    assert one.reason == f"unsure between {first} and {second}"  # as it is: the page escapes it
    left = np.flatnonzero(~labelled)
    assert p.max() == fold.label_distributions_[left].max(axis=1).min()


def test_a_question_is_not_beside_one_that_was_skipped():
    line = np.arange(100.0)[:, None]
    labelled = np.zeros(100, dtype=bool)
    first = Questions(100).next(None, line, labelled, strategy="spread", asked=[], n_answered=1)
    second = Questions(100).next(None, line, labelled, strategy="spread", asked=[first.row], n_answered=1)
    assert abs(second.row - first.row) > 20


@pytest.mark.parametrize("Z", [np.zeros((20, 3)), np.full((20, 2), np.nan), np.zeros((20, 0)), None])
def test_rows_that_cannot_be_told_apart_are_drawn(Z):
    one = Questions(20).next(None, Z, np.zeros(20, dtype=bool), strategy="mixed", asked=[3], n_answered=2)
    assert one.how == "random"
    assert one.row != 3


def test_many_rows_are_looked_at_in_part():
    Z = np.random.default_rng(0).standard_normal((150_000, 2)).astype(np.float32)
    labelled = np.zeros(len(Z), dtype=bool)
    labelled[:100_000] = True
    one = Questions(len(Z)).next(None, Z, labelled, strategy="mixed", asked=[], n_answered=13)
    assert one.row >= 100_000


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="no strategy 'best'; give one of mixed, unsure, spread, random"):
        Questions(3).next(None, None, np.zeros(3, dtype=bool), strategy="best", asked=[], n_answered=0)


def test_the_largest_gain_is_taken_one_after_the_other(rng):
    R, unsure = rng.standard_normal((40, 2)), rng.random(40)
    away = np.linalg.norm(R[:, None] - R, axis=2)
    near = distance_to_labelled(R, R[:3])
    chosen = choose_by_gain(away, near, unsure, 5)
    for one in chosen:
        gains = [
            sum(u * max(0, 1 - a / d) for u, a, d in zip(unsure, away[:, c], near, strict=True) if d > 1e-6)
            for c in range(40)
        ]
        assert one.gain == pytest.approx(max(gains), rel=1e-4)
        assert gains[one.candidate] == pytest.approx(max(gains), rel=1e-4)
        near = np.minimum(near, away[:, one.candidate])
    allowed = np.arange(40) == 7
    assert [one.candidate for one in choose_by_gain(away, None, unsure, 3, allowed)] == [7]


def test_unit_has_mean_squared_norm_one(rng):
    R = unit_scale(5 + 3 * rng.standard_normal((50, 4)))
    assert (R**2).sum(axis=1).mean() == pytest.approx(1)
    assert not unit_scale(np.ones((5, 2))).any()
