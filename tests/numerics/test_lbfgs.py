"""L-BFGS: it finds minima, never goes up, and says when it can go no further."""

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from labelfold.numerics.lbfgs import lbfgs


def run(function, x, done, most=2000, **options):
    """Return why it ended, the values after each step, and the last point."""
    values, last = [], [x]

    def accept(value, point):
        values.append(value)
        last[0] = point
        return done(value) or len(values) == most

    why = lbfgs(lambda x: (function(x)[0], x), lambda x: function(x)[1], x, accept, **options)
    return why, np.array(values), last[0]


@pytest.mark.parametrize("memory", [1, 5, 20])
def test_a_curved_valley(memory):
    why, values, x = run(lambda x: (rosen(x), rosen_der(x)), np.zeros(6), lambda f: f < 1e-12, memory=memory)
    assert why == "accepted"
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
    why, values, _ = run(lambda x: (x @ x, 2 * x), np.zeros(3), lambda f: False)
    assert why == "stuck"
    assert not len(values)
    # A slope that lies: uphill wherever it points.
    why, values, _ = run(lambda x: (x @ x, -2 * x), np.ones(3), lambda f: False)
    assert why == "stuck"
    assert not len(values)
