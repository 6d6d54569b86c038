"""Loops in vector instructions: this numba compiles them, their plain twins give the same, and stand in for them."""

import logging

import numba
import numpy as np
import pytest
from numba import types
from numba.extending import intrinsic
from scipy import sparse

from labelfold.factorization import _divergence_loops as ratio_loops
from labelfold.rows import _sparse_products as sparse_products, _vectors as vectors


def results(X, H, V):
    """What each loop that has a form for k columns makes of a problem."""
    parts = X.data, X.indices, X.indptr
    scattered = np.zeros_like(V)
    sparse_products.csr_scatter(*parts, H, scattered)
    lowest = np.array([1e-200, 1e-300])
    return [
        sparse_products.csr_product(*parts, V),
        scattered,
        sparse_products.outer_product(X.T.tocsr(), H),
        ratio_loops.csr_ratios(*parts, H, V, lowest),
    ]


@pytest.mark.parametrize("k", [3, 10, 64])
def test_plain_loops_give_the_same(k, monkeypatch, caplog):
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(0.4, (7, 300)).astype(float))
    H, V = rng.random((7, k)), rng.random((300, k))
    fast = results(X, H, V)
    assert vectors._usable, "this numba cannot compile the loops in vector instructions"
    monkeypatch.setattr(vectors, "_usable", False)
    for found, expected in zip(results(X, H, V), fast, strict=True):
        # Sums in another order.
        np.testing.assert_allclose(found, expected, atol=1e2 * np.finfo(float).eps * np.abs(expected).max())
    assert "plain ones" not in caplog.text


@intrinsic
def cannot_be_compiled(typing_context, x):
    def generate(context, builder, signature, arguments):
        raise NotImplementedError("no such instruction")

    return x(x), generate


def make(special):
    if special:
        return numba.njit(lambda x: cannot_be_compiled(x))
    return numba.njit(lambda x: x + 1)


def test_what_cannot_be_compiled_is_replaced_and_said_once(monkeypatch, caplog):
    monkeypatch.setattr(vectors, "_usable", True)
    with caplog.at_level(logging.WARNING, "labelfold"):
        assert [vectors.run(make, 8, 1.0), vectors.run(make, 8, 2.0)] == [2.0, 3.0]
    assert caplog.text.count("plain ones are used") == 1


def test_an_error_of_a_compiled_loop_is_its_own(monkeypatch):
    def fail(x):
        if x > 0:
            raise ValueError("x is positive")
        return x

    loop = numba.njit(types.float64(types.float64))(fail)
    with pytest.raises(ValueError, match="x is positive"):
        vectors.run(lambda special: loop, 8, 1.0)
    assert vectors._usable
