"""scikit-learn's callbacks: a fit, and each of its iterations, is a task that they are told about."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

# Attributes of an estimator that belong to its callbacks.
CALLBACKS = ("_skl_callbacks", "_skl_callbacks_to_teardown", "_callback_fit_ctx", "_parent_callback_ctx")


class _Fit(NamedTuple):
    """The fit that runs, the context of its task, and the arguments of the calls."""

    estimator: Any
    context: Any
    told: dict[str, Any]


# None if the innermost fit that runs has no callbacks.
RUNNING: ContextVar[_Fit | None] = ContextVar("running", default=None)


@contextmanager
def fit_task(estimator: Any, fit: Callable[..., Any], args: tuple, options: dict[str, Any]) -> Iterator[None]:
    """Tell the callbacks of an estimator when its fit begins and ends.

    They get X and y of ``fit(estimator, *args, **options)``, and the estimator after the fit. Arguments of fit for
    rows are ``metadata``.
    """
    given = dict(inspect.signature(fit).bind(estimator, *args, **options).arguments)
    X, y = given.get("X"), given.get("y")
    metadata = {name: given[name] for name in ("sample_weight", "groups") if given.get(name) is not None}
    told = {"estimator": estimator, "X": X, "y": y, "metadata": metadata or None}
    context = estimator._init_callback_context(max_subtasks=None)
    context.call_on_fit_task_begin(**told)
    outer = RUNNING.set(_Fit(estimator, context, told))
    try:
        yield
    finally:
        RUNNING.reset(outer)
    context.call_on_fit_task_end(**told, reconstruction_attributes={})


class IterationTasks:
    """The iterations of the fit that runs, each a task for its callbacks; does nothing without callbacks.

    A callback gets no ``fitted_estimator`` during an iteration: a model is complete after the last one only.

    >>> tasks = IterationTasks(total=5)
    >>> tasks.begin(), tasks.end()
    (None, False)
    """

    def __init__(self, total: int) -> None:
        self._all: Any = None
        self._one: Any = None
        self._left, self._stopped = total, False
        running = RUNNING.get()
        if running is not None:
            self._told = running.told
            self._all = running.context.subcontext(task_name="iterations", max_subtasks=total)
            self._all.call_on_fit_task_begin(**self._told)

    def begin(self) -> None:
        """Tell that an iteration begins."""
        if self._all is not None and self._one is None and self._left:
            self._left -= 1
            self._one = self._all.subcontext(task_name="iteration")
            self._one.call_on_fit_task_begin(**self._told)

    def end(self) -> bool:
        """Tell that an iteration has ended, and return whether a callback has requested to stop."""
        if self._all is not None:
            self.begin()
            one, self._one = self._one, None
            if one is not None and one.call_on_fit_task_end(**self._told):
                self._stopped = True
        return self._stopped

    def close(self) -> None:
        """Tell that there are no more iterations."""
        if self._one is not None:
            self.end()
        if self._all is not None:
            self._all.call_on_fit_task_end(**self._told)
