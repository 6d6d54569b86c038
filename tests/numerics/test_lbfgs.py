"""L-BFGS: it finds minima, never goes up, and says when it can go no further."""

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from labelfold.factorization._offset_factorization import lbfgs


def run(function, x, done, most=2000, **options):
    """Return whether it came to an end by itself, the values after each step, and the last point."""
    values, last = [], x
    for value, last in lbfgs(lambda x: (function(x)[0], x), lambda x: function(x)[1], x, **options):
        values.append(value)
        if done(value) or len(values) == most:
            return False, np.array(values), last
    return True, np.array(values), last


@pytest.mark.parametrize("memory", [1, 5, 20])
def test_a_curved_valley(memory):
    stuck, values, x = run(
        lambda x: (rosen(x), rosen_der(x)), np.zeros(6), lambda f: f < 1e-12, memory=memory
    )
    assert not stuck
    assert (np.diff(values) < 0).all()
    np.testing.assert_allclose(x, 1.0, atol=1e-5)


def test_a_badly_scaled_bowl_to_its_last_digits():
    scales = np.logspace(0, 6, 20)
    _, values, x = run(
        lambda x: (0.5 * scales @ x**2, scales * x), np.ones(20), lambda f: f < 1e-20, memory=30
    )
    assert values[-1] < 1e-20
    assert np.abs(x).max() < 1e-8


def test_where_there_is_no_value_it_steps_back():
    def barrier(x):
        if x[0] <= 0:
            return np.inf, np.zeros(1)
        return x[0] - np.log(x[0]), 1 - 1 / x

    _, _, x = run(barrier, np.array([1e-3]), lambda f: f < 1 + 1e-12)
    np.testing.assert_allclose(x, 1.0, atol=1e-5)


def test_stuck_where_no_step_helps():
    stuck, values, _ = run(lambda x: (x @ x, 2 * x), np.zeros(3), lambda f: False)
    assert stuck
    assert not len(values)
    # A slope that lies: uphill wherever it points.
    stuck, values, _ = run(lambda x: (x @ x, -2 * x), np.ones(3), lambda f: False)
    assert stuck
    assert not len(values)


def test_slopes_are_asked_for_only_where_the_step_is_low_enough():
    asked = []

    def value(x):
        return rosen(x), x

    def gradient(x):
        asked.append(rosen(x))
        return rosen_der(x)

    for best, _ in lbfgs(value, gradient, np.array([-1.2, 1.0])):
        if best < 1e-10:
            break
    start, *steps = asked
    assert start == rosen(np.array([-1.2, 1.0]))
    assert (np.diff(asked) < 0).all()  # a step that went up was never asked
    assert best == steps[-1]


def test_the_first_step_is_no_longer_than_asked():
    seen = []

    def value(x):
        seen.append(x)
        return float(x @ x) + 1e6, x

    next(lbfgs(value, lambda x: 2 * x, np.ones(3), first_step=0.25))
    np.testing.assert_allclose(seen[1], 0.5)  # 1 - 0.25 * 2


def test_leaps_are_steps_among_the_others():
    """Every third step a leap is offered: the one that is lower is taken, and the descent goes on after both."""
    offered, taken, values = [], [], []

    def leap(x, extra):
        offered.append((len(values), float(np.abs(x - extra).max())))
        lower = 0.5 * (x + 1)
        if rosen(lower) >= rosen(x):
            return None
        taken.append(len(values))
        return lower, rosen(lower), lower

    start, done = np.zeros(6), 1e-12
    for value, x in lbfgs(lambda x: (rosen(x), x), rosen_der, start, extra_step=leap, extra_step_every=3):
        values.append(value)
        assert value == rosen(x)
        if value < done:
            break
    assert value < done
    assert (np.diff(values) < 0).all()
    steps = [at - sum(before < at for before in taken) for at, _ in offered]
    assert steps == list(range(3, 3 * len(offered) + 1, 3))
    assert not any(apart for _, apart in offered)
    assert 0 < len(taken) < len(offered)
