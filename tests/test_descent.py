"""The loop of every descent: what ends it, what it drops, and what Ctrl-C leaves."""

import pytest

from labelfold.base._descent import descend, repeated


def given(values, careful=()):
    """Give these objectives, numbered; go on after one that rose only where it is ``careful``."""
    for i, value in enumerate(values):
        if (yield i, value) and i not in careful:
            return


def test_an_iteration_that_raises_the_objective_is_dropped_and_is_the_end():
    found = descend(given([3.0, 2.0, 2.5, 1.0]), max_iter=9, tol=0)
    assert found == (1, [3.0, 2.0], True, False, False)
    found = descend(given([3.0, 2.0, 2.5, 1.0]), max_iter=3, tol=0)  # also where it is the last one allowed
    assert found == (1, [3.0, 2.0], True, False, False)


def test_a_more_careful_step_may_follow_and_the_one_dropped_counts():
    found = descend(given([3.0, 2.0, 2.5, 1.0, 1.0], careful=[2]), max_iter=9, tol=0)
    assert found == (4, [3.0, 2.0, 2.0, 1.0, 1.0], True, False, False)
    assert descend(given([3.0, 2.5, 2.0, 1.0]), max_iter=3, tol=0) == (
        2,
        [3.0, 2.5, 2.0],
        False,
        False,
        False,
    )


def test_it_starts_from_a_known_objective_and_ends_with_the_generator():
    shown = []
    options = {"max_iter": 9, "tol": None, "callback": lambda *what: shown.append(what) or False}
    assert descend(given([1.0]), start=("here", 2.0), **options) == (0, [1.0], True, False, False)
    assert descend(given([]), start=("here", 2.0), **options) == ("here", [], True, False, False)
    assert shown == [(1, 1.0)]


def test_a_callback_that_returns_true_ends_it_and_iterations_begin_before_they_end():
    told = []
    options = {
        "begin": lambda: told.append("begin"),
        "callback": lambda i, fall: told.append((i, fall)) or i == 2,
    }
    found = descend(given([3.0, 2.0, 1.0]), max_iter=9, tol=0, **options)
    assert found == (1, [3.0, 2.0], False, False, True)
    assert told == ["begin", (1, float("inf")), "begin", (2, 0.5)]


def test_an_objective_that_is_no_number_is_an_error():
    for options in ({"start": (0, float("nan"))}, {}):
        with pytest.raises(OverflowError):
            descend(given([1.0, float("inf")]), max_iter=9, tol=0, **options)


def test_ctrl_c_keeps_the_last_state_where_asked():
    def step(i):
        if i == 3:
            raise KeyboardInterrupt
        return i + 1, 10.0 - i

    found = descend(repeated(step, 0), max_iter=9, tol=0, keep_on_interrupt=True)
    assert found == (3, [10.0, 9.0, 8.0], False, True, False)
    for start, keep in ((0, False), (3, True)):  # not asked for, or nothing to keep
        with pytest.raises(KeyboardInterrupt):
            descend(repeated(step, start), max_iter=9, tol=0, keep_on_interrupt=keep)
