"""Factors of a matrix that fits in memory, and when they are trusted."""

import numpy as np

from labelfold.numerics._gram import Gram


def test_a_gram_matrix_is_trusted_while_its_condition_allows():
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 30)))
    G = (Q * np.logspace(0, -14, 30)) @ Q.T
    gram = Gram((G + G.T) / 2, 30)
    assert gram.trusted(0.0) is None
    factor = gram.trusted(1e-3)
    M = np.random.default_rng(7).standard_normal((30, 2))
    np.testing.assert_allclose(factor.solve(M), np.linalg.solve(gram.G + 1e-3 * np.eye(30), M), rtol=1e-8)
    B, _ = factor.solve_both(M)
    np.testing.assert_allclose(B.T @ B, M.T @ factor.solve(M), rtol=1e-10)
    assert Gram(np.zeros((3, 3)), 3).trusted(0.0) is None
