"""The loop of every method that lowers an objective: convergence, progress, Ctrl-C, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from labelfold.rows import single_blas
from labelfold.utils import Progress, warn_of_early_end

State = TypeVar("State")
# Yields states and their objective, and is sent after each state whether the objective rose.
Iterates = Generator[tuple[Any, float], bool, None]


class Descent(NamedTuple):
    """The result of a descent.

    Attributes
    ----------
    state : object
        The state of the last iteration that did not raise the objective.
    objective : list of float
        The objective after each iteration.
    converged, interrupted : bool
    stopped : bool
        Whether the callback ended it.
    """

    state: Any
    objective: list[float]
    converged: bool
    interrupted: bool
    stopped: bool = False


class Iterative:
    """An estimator with ``max_iter``, ``tol``, ``verbose`` and ``on_interrupt``."""

    max_iter: int
    tol: float
    verbose: int
    on_interrupt: str

    def _descend(self, iterates: Iterates, **options: Any) -> Any:
        """Iterate with the estimator's parameters, store ``objective_`` and ``n_iter_``, and return the last state.

        BLAS uses one thread: there is little work between passes, and several BLAS threads would wait for each other
        if the machine is busy.
        """
        name = type(self).__name__
        options = {"tol": self.tol, **options}
        with single_blas(), Progress(name, self.max_iter, self.verbose) as progress:
            keep = self.on_interrupt == "keep"
            given: dict[str, Any] = {"max_iter": self.max_iter, "begin": progress.begin, "callback": progress}
            found = descend(iterates, keep_on_interrupt=keep, **given | options)
        warn_of_early_end(found, name, self.tol)
        self.objective_: np.ndarray = np.array(found.objective)
        self.n_iter_: int = len(found.objective)
        return found.state


def descend(
    iterates: Iterates,
    *,
    max_iter: int,
    tol: float | None,
    start: tuple[Any, float] | None = None,
    keep_on_interrupt: bool = False,
    begin: Callable[[], None] | None = None,
    callback: Callable[[int, float], Any] | None = None,
) -> Descent:
    """Iterate until an iteration lowers the objective by at most ``tol``, relative to it.

    A state whose objective is higher than the previous one is rejected; only this function does so. If the generator
    continues after that, it tries a more careful step. If it ends, its steps can raise the objective only by
    round-off, and the descent has converged.

    Parameters
    ----------
    iterates : generator
        Yields a state and its objective in each iteration, and is sent whether the objective rose.
    max_iter : int
        Maximum number of iterations.
    tol : float or None
        Tolerance; None if the generator ends by itself.
    start : (state, float), optional
        The initial state and its objective, if they are known.
    keep_on_interrupt : bool, default=False
        Whether Ctrl-C ends only the iterations, and the last state is returned.
    begin : callable, optional
        Called before each iteration.
    callback : callable, optional
        Called after each iteration with its number and the relative decrease, infinite after the first without
        ``start``. If it returns true, the descent ends.

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
    converged, interrupted, stopped, rose = False, False, False, False
    try:
        for iteration in range(1, max_iter + 1):
            if begin is not None:
                begin()
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
            stopped = callback is not None and bool(callback(iteration, max(fall, 0.0)))
            converged = not rose and tol is not None and fall <= tol
            if converged or stopped:
                break
        if rose:  # the last state was rejected
            objective.pop()
            converged = True
    except KeyboardInterrupt:
        if not (keep_on_interrupt and objective):
            raise
        interrupted = True
    finally:
        iterates.close()
    return Descent(state, objective, converged, interrupted, stopped)


def _check_finite(value: float) -> None:
    if not np.isfinite(value):
        raise OverflowError("the objective overflows")


def repeated(step: Callable[[State], tuple[State, float]], state: State) -> Iterates:
    """Repeat a step that returns the next state and its objective, and can raise the objective only by round-off."""
    rose = False
    while not rose:
        state, value = step(state)
        rose = yield state, value
