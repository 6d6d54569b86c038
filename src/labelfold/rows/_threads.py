"""The threads of a pass: one pool, with BLAS limited to one thread during the pass."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np
import threadpoolctl

# In newer threadpoolctl only the thread that first limited OpenBLAS can change the limit until it releases it; calls
# from other threads have no effect. Passes may begin and end in any thread.
_release_limit = getattr(
    getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", lambda force: None
)

# Budget: number of multiplications of a job that is handed to a thread. At a few per nanosecond they take longer than
# the tens of microseconds of handing it over.
_WORTH = 2e5
# Budget: entries of an array that a thread computes with at a time, 2.4 MB of float64.
_PIECE = 300_000
# Budget: maximum size of matrices whose factorisations and products, which take milliseconds, BLAS computes with one
# thread.
_SMALL = 512

_VARIABLES = ("LABELFOLD_NUM_THREADS", "OMP_NUM_THREADS")


def n_threads() -> int:
    """Return the number of threads that a pass may use.

    It is ``LABELFOLD_NUM_THREADS``, else ``OMP_NUM_THREADS`` (which joblib sets in its workers), else the number of
    cores available to this process.
    """
    for name in _VARIABLES:
        value = os.environ.get(name, "").split(",")[0].strip()
        if value.isdigit() and int(value) > 0:
            return int(value)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class _Pool:
    """The pool of threads, and the limit of BLAS threads; created on first use, and again in a forked process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.executor: ThreadPoolExecutor | None = None
        self.size = 0
        self.controller: Any = None
        self.n_modules = 0
        self.users = 0
        self.limiter: Any = None

    def submitter(self, size: int) -> ThreadPoolExecutor:
        with self.lock:
            if self.executor is None or self.size < size:
                self.executor = ThreadPoolExecutor(size, thread_name_prefix="labelfold")
                self.size = size
            return self.executor


_pool = _Pool()

# Whether this code runs in a thread of the pool, where it must not wait for other threads of it.
_in_pool: ContextVar[bool] = ContextVar("in_pool", default=False)


def _renew() -> None:
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


@contextmanager
def single_blas(size: int = 0) -> Iterator[None]:
    """Limit BLAS to one thread, unless ``size`` (of the matrices) is large. Several threads may enter at once.

    OpenBLAS's threads wait busily for a tenth of a second after a call, and a pass that follows would share the cores
    with them.
    """
    if size > _SMALL:
        yield
        return
    pool = _pool
    # A counter, because two overlapping passes would otherwise restore each other's limit.
    with pool.lock:
        pool.users += 1
        if pool.users == 1:
            if pool.n_modules != len(sys.modules):  # a newly imported library may have its own BLAS
                pool.controller = threadpoolctl.ThreadpoolController()
                pool.n_modules = len(sys.modules)
            _release_limit(force=True)
            pool.limiter = pool.controller.limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with pool.lock:
            pool.users -= 1
            if pool.users == 0:
                _release_limit(force=True)
                pool.limiter.restore_original_limits()
                pool.limiter = None
                _release_limit(force=True)


def run_jobs(work: Callable[[Any, threading.Event], Any], jobs: Sequence[Any]) -> list[Any]:
    """Return ``[work(job, stop) for job in jobs]``, in threads if there is more than one job.

    ``stop`` is set if a job fails or the user interrupts, so that the others end at their next block.
    """
    stop = threading.Event()
    if len(jobs) <= 1 or _in_pool.get():
        return [work(job, stop) for job in jobs]

    def marked(job: Any) -> Any:
        _in_pool.set(True)
        return work(job, stop)

    with single_blas():
        submit = _pool.submitter(min(len(jobs), n_threads())).submit
        # Each job runs in a copy of this thread's context, which holds NumPy's error state.
        futures = [submit(copy_context().run, marked, job) for job in jobs]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            wait(futures)
            raise


def shares(n_items: int, work: float) -> list[slice]:
    """Return slices of a loop over items, as jobs for `run_jobs`: one for each thread, fewer if there is little work.

    ``work`` is the number of multiplications of the whole loop.

    >>> shares(10, 1e3)
    [slice(0, 10, None)]
    """
    ends = even_ends(n_items, max(1, min(n_items, n_threads(), int(work / _WORTH))))
    return [slice(a, b) for a, b in pairwise(ends)]


def even_ends(n_items: int, n_parts: int) -> list[int]:
    """Return the boundaries of nearly equal parts of a range.

    >>> even_ends(10, 3)
    [0, 3, 7, 10]
    """
    return [round(n_items * i / n_parts) for i in range(n_parts + 1)]


def by_pieces(f: Callable[[Any], Any], array: Any) -> Any:
    """Return ``f(array)`` for a NumPy function of the rows of an array, computed in threads if there are many rows.

    >>> import numpy as np
    >>> by_pieces(np.negative, np.arange(3.0))
    array([-0., -1., -2.])
    """
    if array.size <= _PIECE:
        return f(array)
    like = f(array[:1])
    out = np.empty((len(array), *like.shape[1:]), dtype=like.dtype)

    def work(piece: slice) -> None:
        out[piece] = f(array[piece])

    each_piece(work, len(array), array.size // len(array))
    return out


def each_piece(work: Callable[[slice], Any], n_rows: int, n_columns: int = 1) -> list[Any]:
    """Return the results of ``work`` for slices of an array, computed in threads if there are several.

    >>> each_piece(lambda piece: piece.stop, 3)
    [3]
    """
    step = max(1, _PIECE // max(1, n_columns))
    pieces = [slice(i, min(i + step, n_rows)) for i in range(0, n_rows, step)]
    return run_jobs(lambda piece, stop: None if stop.is_set() else work(piece), pieces)


def in_order(work: Callable[[Any], Any], blocks: Iterable[Any]) -> Iterator[Any]:
    """Yield the result of ``work`` for each block, a few blocks in parallel; a single block needs no thread.

    >>> list(in_order(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    rest = iter(blocks)
    first = list(islice(rest, 2))
    if len(first) < 2:
        yield from map(work, first)
        return
    size = n_threads()
    with ThreadPoolExecutor(size) as pool:
        waiting: deque[Future] = deque()
        for block in chain(first, rest):
            waiting.append(pool.submit(work, block))
            if len(waiting) > size:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
