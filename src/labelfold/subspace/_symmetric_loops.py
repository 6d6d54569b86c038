"""Products of a symmetric matrix with a few vectors that read half of it, since an entry serves for two places."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from labelfold.utils import FAST, compiled


def row_ranges(n: int, n_jobs: int) -> list[tuple[int, int]]:
    """Return ranges of the rows of an upper triangle of order n with about as many entries each.

    >>> row_ranges(100, 2)
    [(0, 28), (28, 100)]
    """
    # The rows before i hold the share 1 - (1 - i/n)^2 of the entries. The loop takes four rows at a time.
    ends = [4 * round(n * (1 - (1 - j / n_jobs) ** 0.5) / 4) for j in range(n_jobs)] + [n]
    return [(a, b) for a, b in pairwise(ends) if a < b]


@compiled(FAST)
def upper_products(K: np.ndarray, X: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return the part of X K, with X (k, n), of some rows of the upper triangle of K (n, n) and their mirror image.

    The sum over all rows is X K. Four rows at a time stay in the cache for all vectors.
    """
    k, n = X.shape
    Y = np.zeros((k, n))
    for i in range(start, stop, 4):
        end = min(i + 4, stop)
        for v in range(k):
            x, y = X[v], Y[v]
            for a in range(i, end):
                for b in range(i, end):
                    y[a] += K[min(a, b), max(a, b)] * x[b]
            if end == i + 4:
                _four(
                    K[i, end:],
                    K[i + 1, end:],
                    K[i + 2, end:],
                    K[i + 3, end:],
                    x[i:end],
                    y[i:end],
                    x[end:],
                    y[end:],
                )
            else:
                for a in range(i, end):
                    for j in range(end, n):
                        y[a] += K[a, j] * x[j]
                        y[j] += K[a, j] * x[a]
    return Y


@compiled(FAST)
def _four(
    p: np.ndarray,
    q: np.ndarray,
    r: np.ndarray,
    s: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    right: np.ndarray,
    below: np.ndarray,
) -> None:
    """Add the products of four rows to y (4,), and those of their mirror image to ``below``."""
    a, b, c, d = x[0], x[1], x[2], x[3]
    sum_a, sum_b, sum_c, sum_d = 0.0, 0.0, 0.0, 0.0
    for j in range(right.size):
        sum_a += p[j] * right[j]
        sum_b += q[j] * right[j]
        sum_c += r[j] * right[j]
        sum_d += s[j] * right[j]
        below[j] += a * p[j] + b * q[j] + c * r[j] + d * s[j]
    y[0] += sum_a
    y[1] += sum_b
    y[2] += sum_c
    y[3] += sum_d
