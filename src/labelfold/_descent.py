"""The loop of every method that lowers an objective: when to stop, progress, Ctrl-C, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from labelfold._progress import Progress, warn_of_early_end
from labelfold.rows import _threads as threads

State = TypeVar("State")
# Gives states and their objective; is told after each whether the objective rose.
Iterates = Generator[tuple[Any, float], bool, None]


class Descent(NamedTuple):
    """Where a descent ended, and how.

    Attributes
    ----------
    state : object
        What the last iteration that did not raise the objective left.
    objective : list of float
        The objective after each iteration.
    converged, interrupted : bool
    """

    state: Any
    objective: list[float]
    converged: bool
    interrupted: bool


class Iterative:
    """An estimator with ``max_iter``, ``tol``, ``verbose`` and ``on_interrupt``."""

    max_iter: int
    tol: float
    verbose: int
    on_interrupt: str

    def _descend(self, iterates: Iterates, **options: Any) -> Any:
        """Iterate as the parameters say, keep ``objective_`` and ``n_iter_``, and return the last state.

        BLAS has one thread: between passes it has little to do, and several of its threads would wait for each other
        beside a busy process.
        """
        name = type(self).__name__
        options = {"tol": self.tol, **options}
        with threads.single_blas(), Progress(name, self.max_iter, self.verbose) as progress:
            keep = self.on_interrupt == "keep"
            found = descend(
                iterates, max_iter=self.max_iter, keep_on_interrupt=keep, callback=progress, **options
            )
        warn_of_early_end(found, name, self.tol)
        self.objective_ = np.array(found.objective)
        self.n_iter_ = len(found.objective)
        return found.state


def descend(
    iterates: Iterates,
    *,
    max_iter: int,
    tol: float | None,
    start: tuple[Any, float] | None = None,
    keep_on_interrupt: bool = False,
    callback: Callable[[int, float], None] | None = None,
) -> Descent:
    """Iterate until the objective falls by no more than ``tol``, relative to it.

    A state whose objective is higher than the last is dropped, here and nowhere else. Where the generator then goes
    on, it has a more careful step to take. Where it ends, steps that cannot raise the objective have done so by
    round-off, which is the end of a descent.

    Parameters
    ----------
    iterates : generator
        Gives a state and its objective an iteration, and is sent whether the objective rose.
    max_iter : int
        Largest number of iterations.
    tol : float or None
        When to stop; None where the generator ends by itself.
    start : (state, float), optional
        Where the descent starts and its objective, where that is known.
    keep_on_interrupt : bool, default=False
        Whether Ctrl-C ends the iterations rather than the program.
    callback : callable, optional
        Called after each iteration with its number and how much it gained; after the first where ``start`` is given.

    Returns
    -------
    Descent

    Examples
    --------
    >>> descend(repeated(lambda x: (x / 2, 1 + x), 1.0), max_iter=50, tol=0.1).objective
    [2.0, 1.5, 1.25, 1.125, 1.0625]
    """
    state, last = (None, None) if start is None else start
    if last is not None:
        _check_finite(last)
    objective: list[float] = []
    converged, interrupted, rose = False, False, False
    try:
        for iteration in range(1, max_iter + 1):
            try:
                new, value = iterates.send(rose) if iteration > 1 else next(iterates)
            except StopIteration:
                converged = True
                break
            _check_finite(value)
            fall = np.inf if last is None else (last - value) / max(abs(value), np.finfo(np.float64).tiny)
            rose = fall < 0
            if not rose:
                state, last = new, value
            del new  # it may be large
            objective.append(value if last is None else last)
            if callback is not None and np.isfinite(fall):
                callback(iteration, max(fall, 0.0))
            converged = not rose and tol is not None and fall <= tol
            if converged:
                break
        if rose:  # the last step of all
            objective.pop()
            converged = True
    except KeyboardInterrupt:
        if not (keep_on_interrupt and objective):
            raise
        interrupted = True
    finally:
        iterates.close()
    return Descent(state, objective, converged, interrupted)


def _check_finite(value: float) -> None:
    if not np.isfinite(value):
        raise OverflowError("the objective overflows")


def repeated(step: Callable[[State], tuple[State, float]], state: State) -> Iterates:
    """Repeat a step from a state to the next and its objective: one that cannot raise it but by round-off."""
    rose = False
    while not rose:
        state, value = step(state)
        rose = yield state, value
