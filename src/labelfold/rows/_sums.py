"""Sums over rows, accumulated block by block and worker by worker.

A partial sum is a small array or scalar, added in float64, or a `Term`, which adds itself to the accumulator of the
worker, so that no block allocates a large sum of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace


class Term:
    """A partial sum that adds itself to an accumulator.

    ``finish`` is applied once, on the host, after all partial sums are merged. It outlives the block, so it must be
    small, and picklable if tasks run in other processes.
    """

    finish: Callable[[Any], Any] | None = None

    def add(self, total: Any) -> Any:
        """Return ``total`` with this block added; ``total`` is None for the first block, and may be modified."""
        raise NotImplementedError

    @staticmethod
    def merge(left: Any, right: Any) -> Any:
        """Return the sum of two workers' totals, in float64 if both are on the host."""
        if isinstance(left, np.ndarray):
            own = (
                left.dtype == np.float64 and left.flags.writeable
            )  # a total from another process may be read-only
            return np.add(left, right, dtype=np.float64, out=left if own else None)
        return left + right


class ArrayTerm(Term):
    """A complete partial sum, kept in its own dtype until workers are merged (for large sums)."""

    def __init__(self, part: Any) -> None:
        self.part = part

    def add(self, total: Any) -> Any:
        """Add the part, in place if that is safe."""
        if total is None:
            return self.part
        if isinstance(total, np.ndarray):
            total += self.part
            return total
        return total + self.part


class Finished(Term):
    """Another term, with a function applied once to the merged sum."""

    def __init__(self, term: Term, finish: Callable[[Any], Any]) -> None:
        self.term = term
        self.merge = term.merge  # type: ignore[method-assign]
        inner = term.finish
        self.finish = finish if inner is None else Chain(inner, finish)

    def add(self, total: Any) -> Any:
        """Add the inner term."""
        return self.term.add(total)


class Together(Term):
    """Several partial sums that are finished as one."""

    def __init__(self, finish: Callable[[tuple], Any], *parts: Any) -> None:
        self.parts = parts
        self.finish = finish

    def add(self, total: Accumulator | None) -> Accumulator:
        """Add every part."""
        total = Accumulator() if total is None else total
        total.add(self.parts)
        return total

    @staticmethod
    def merge(left: Accumulator, right: Accumulator) -> Accumulator:
        """Merge part by part."""
        return left.merge(right)


class Chain:
    """Two functions applied one after the other; picklable if both are."""

    def __init__(self, first: Callable, second: Callable) -> None:
        self.first, self.second = first, second

    def __call__(self, value: Any) -> Any:
        """Return the result of the second function for that of the first."""
        return self.second(self.first(value))


class _Small(Term):
    """A small array or a scalar, added up in float64."""

    def __init__(self, part: Any) -> None:
        self.part = part

    def add(self, total: Any) -> Any:
        if total is not None:
            return total + self.part
        return _float64(self.part)


def _float64(part: Any) -> Any:
    """Return a copy in float64; on a device without float64, the part unchanged."""
    if isinstance(part, (np.ndarray, np.generic, float, int)):
        return np.array(part, dtype=np.float64)
    xp = array_namespace(part)
    try:
        return xp.astype(part, xp.float64)
    except (TypeError, RuntimeError):
        return part


class Accumulator:
    """The running sums of one worker: one total for each partial sum that f returns."""

    def __init__(self) -> None:
        self._single = False
        self._totals: list[Any] | None = None
        self._rules: list[tuple[Callable, Callable | None]] = []

    def add(self, partial: Any) -> None:
        """Add one block's partial sums: None, one sum, or a tuple of sums."""
        if partial is None:
            return
        single = not isinstance(partial, tuple)
        terms = [p if isinstance(p, Term) else _Small(p) for p in ((partial,) if single else partial)]
        if self._totals is None:
            self._single = single
            self._totals = [None] * len(terms)
            self._rules = [(term.merge, term.finish) for term in terms]
        for i, term in enumerate(terms):
            self._totals[i] = term.add(self._totals[i])

    def merge(self, other: Accumulator) -> Accumulator:
        """Add another worker's totals to these."""
        if other._totals is None:
            return self
        if self._totals is None:
            return other
        self._totals = [
            rule[0](left, right)
            for rule, left, right in zip(self._rules, self._totals, other._totals, strict=True)
        ]
        return self

    def finish(self, to_host: Callable[[Any], np.ndarray] = np.asarray, dtype: Any = np.float64) -> Any:
        """Return the sums on the host, finished; arrays in float64, or in their own dtype if ``dtype`` is None."""
        if self._totals is None:
            return None
        values = []
        for total, (_, finish) in zip(self._totals, self._rules, strict=True):
            if isinstance(total, Accumulator):
                value = total.finish(to_host, dtype)
            elif isinstance(total, list):
                value = [to_host(part) for part in total]
            elif isinstance(total, tuple):  # pieces are summed in ``finish``
                value = total
            else:
                value = np.asarray(to_host(total), dtype=dtype)
            value = value if finish is None else finish(value)
            values.append(value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value)
        return values[0] if self._single else tuple(values)


def total(term: Term, dtype: Any = np.float64) -> Any:
    """Return the value of a single term, whose block contains all rows; in its own dtype if ``dtype`` is None."""
    sums = Accumulator()
    sums.add(term)
    return sums.finish(dtype=dtype)
