"""Every method whose cost is passes, on a GPU: seconds, the lower bound of the hardware, and their ratio.

    python benchmarks/gpu.py                   1,000,000 x 1,024 float32, one to two minutes on an H200
    python benchmarks/gpu.py --rows 100000     fewer rows
    python benchmarks/gpu.py --entries 50      a sparse tensor with so many entries a row
    python benchmarks/gpu.py --only LDA        only methods whose name contains this
    python benchmarks/gpu.py --plain           without loops compiled for a GPU
    python benchmarks/gpu.py --device cpu --rows 5000    the same without a GPU, to try the script

The floor of a method is the larger of bytes over copy speed and operations over the speed of a float32 product, both
measured first. Bytes are those of X, as often as the method's passes read it: twice where a pass multiplies by X and
then by X', since X is larger than any cache (of few columns the loops read it once, below this floor); and those of
arrays with an entry for each row that a pass has to read or write, such as the embedding of the rows. Operations are
those of the method's passes. Transforms that solve a small problem for each row do that on the host; its operations
are not counted.

Of a sparse tensor the bytes of X are its values, columns and ends. Each entry also takes a row of a narrow matrix, k
numbers in a product with X or with X', and its floor counts these bytes too. They come from the cache that all
processors share where the matrix fits it, faster than a copy: "cached" is the ratio to a floor that counts them at
the speed of that cache, measured first too, and "bare" the ratio to one without them.

"passes" is the time spent in passes, "labels" that of reading y, and "other" what is left: small algebra, random
numbers and results on the host. The ratio is passes over floor.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # needed by scikit-learn for tensors

import numpy as np
import torch
from sklearn import config_context
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import labelfold.base._estimator as base
from _common import options_of, timed
from labelfold import DRSVM, KLNMF, LDA, PCALS, SSNMF, LabelFold
from labelfold.rows.adapters import _device_blocks as device_blocks
from labelfold.rows.adapters._device import DeviceRows

CLASSES, LABELLED, PARTS = 10, 10_000, 16


class Speeds(NamedTuple):
    """Bytes and operations a second."""

    copy: float
    product: float
    cache: float


class Clock:
    """Seconds spent in passes and in reading labels, and the number of passes."""

    def __init__(self, device: str, n: int) -> None:
        self.device, self.n = device, n
        self.reset()

    def reset(self) -> None:
        """Reset all times."""
        self.passes = self.labels = 0.0
        self.n_passes = 0.0

    def wait(self) -> float:
        """Return the time when the device has finished all operations."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    @contextmanager
    def watching(self):
        """Time every pass over the rows of a device, and every reading of labels."""
        sweep, reader = DeviceRows.sweep, base.read_labels

        def timed_sweep(rows: DeviceRows, *args: Any, **options: Any) -> Any:
            start = self.wait()
            try:
                return sweep(rows, *args, **options)
            finally:
                self.passes += self.wait() - start
                self.n_passes += rows.shape[0] / self.n

        def timed_labels(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return reader(*args, **options)
            finally:
                self.labels += time.perf_counter() - start

        with ExitStack() as patches:
            patches.enter_context(patch.object(DeviceRows, "sweep", timed_sweep))
            patches.enter_context(patch.object(base, "read_labels", timed_labels))
            yield


def made(n: int, d: int, device: str) -> tuple[Any, np.ndarray]:
    """Return non-negative rows that mix 16 parts with weights that depend on the class, and the classes."""
    random = torch.Generator(device=device).manual_seed(0)
    V = torch.rand(d, PARTS, device=device, generator=random) ** 4
    taste = 0.2 + 2 * torch.rand(CLASSES, PARTS, device=device, generator=random) ** 2
    y = torch.randint(CLASSES, (n,), device=device, generator=random)
    X = torch.empty(n, d, device=device)
    for start in range(0, n, 1 << 16):
        here = slice(start, start + (1 << 16))
        H = taste[y[here]] * torch.rand(len(y[here]), PARTS, device=device, generator=random)
        X[here] = H @ V.T
        X[here] += 0.5 * torch.rand(X[here].shape, device=device, generator=random)
    return X, y.cpu().numpy()


def made_sparse(n: int, d: int, entries: int, device: str) -> tuple[Any, np.ndarray]:
    """Return sparse rows with one entry in each of so many parts of the columns, and the classes they depend on."""
    random = torch.Generator(device=device).manual_seed(0)
    y = torch.randint(CLASSES, (n,), device=device, generator=random)
    taste = torch.rand(CLASSES, entries, device=device, generator=random) ** 4
    first = torch.arange(entries, device=device) * (d // entries)
    columns = first + torch.randint(d // entries, (n, entries), device=device, generator=random)
    values = taste[y] * torch.rand(n, entries, device=device, generator=random) + 0.01
    ends = torch.arange(n + 1, device=device) * entries
    return torch.sparse_csr_tensor(
        ends, columns.reshape(-1), values.reshape(-1), size=(n, d)
    ), y.cpu().numpy()


def stored(X: Any) -> tuple[int, float]:
    """Return the bytes of X, and the entries of a row."""
    if X.layout == torch.strided:
        return X.nbytes, X.shape[1]
    parts = X.values(), X.col_indices(), X.crow_indices()
    return sum(part.nbytes for part in parts), X.values().shape[0] / X.shape[0]


def measured(X: Any, clock: Clock) -> Speeds:
    """Return the speed of a copy of X (bytes read and written), and of X'X in float32."""
    there = torch.empty_like(X)
    copy = least(lambda: there.copy_(X), clock)
    part = X[: 1 << 18]
    product = least(lambda: part.T @ part, clock)
    cache = np.inf
    if clock.device == "cuda":
        from _gpu_cache import reader

        read, n_bytes = reader()
        cache = n_bytes / least(read, clock)
    return Speeds(2 * X.nbytes / copy, 2 * part.shape[0] * X.shape[1] ** 2 / product, cache)


def least(run: Callable[[], Any], clock: Clock, repeat: int = 3) -> float:
    """Return the least seconds of some runs after a first one, which compiles."""
    return min([timed(run, clock.wait)[0] for _ in range(repeat + 1)][1:])


class Job(NamedTuple):
    """A fit or a transform: what to run, reads of X a pass, and operations for each entry of X (d, passes).

    ``width`` is how many further numbers a row has that a pass reads or writes. ``gathers`` is how many numbers of
    narrow matrices each entry of a sparse tensor takes, by the number of passes.
    """

    name: str
    run: Callable[[Any, np.ndarray], Any]
    reads: int
    width: int
    operations: Callable[[float, float], float]
    gathers: Callable[[float], float] = lambda p: 0.0


def jobs(models: dict[str, Any], columns: int) -> list[Job]:
    """Return the jobs; fits store their models for the transforms after them."""

    def fit(name: str, model: Any, n_labelled: int | None = None) -> Callable:
        def run(X: Any, y: np.ndarray) -> None:
            some = y if n_labelled is None else np.where(np.arange(len(y)) < n_labelled, y, -1)
            models[name] = model.fit(X, some)

        return run

    def transform(name: str) -> Callable:
        return lambda X, y: models[name].transform(X)

    k, c = PARTS, CLASSES
    sketch = min(c + 64, columns)
    twenty = {"max_iter": 20, "tol": 0}
    by_iterations = fit("LDA iterations", LDA(max_gram_bytes=0, tol=1e-4))
    narrow = fit("DRSVM", DRSVM(10, **twenty), LABELLED)
    factors, labelled = fit("KLNMF", KLNMF(k, **twenty)), fit("SSNMF", SSNMF(k, **twenty), LABELLED)
    kl = 2 * k * (20 + 12 / 8)  # 12 iterations on an eighth of the rows come first

    # A search among 1,000 anchors by 20 and by 50 coordinates in each form, whose result is kept; X'X; coordinates.
    forms = 3 if columns <= 100 else 2
    searches = 2 * 1000 * (20 + 50)

    def folds(d: float, p: float) -> float:
        return forms * (2 * d + 2 * 50 + searches / d)

    def products(p: float) -> float:
        return 2 * (c * (p - 1) + sketch)  # one pass sketches a preconditioner

    return [
        Job("LDA, all labelled", fit("LDA", LDA()), 1, 0, lambda d, p: 2 * d),
        Job("LDA by iterations", by_iterations, 2, 0, lambda d, p: 2 * products(p), products),
        Job("PCALS(8)", fit("PCALS", PCALS(8), LABELLED), 1, 0, lambda d, p: 2 * d),
        Job("DRSVM(10), 20 iterations", narrow, 2, 0, lambda d, p: 40 * p, lambda p: 20 * p),
        Job("KLNMF(16), 20 iterations", factors, 2, 3 * k, lambda d, p: 4 * kl, lambda p: kl),
        Job("SSNMF(16), 20 iterations", labelled, 2, 2 * k, lambda d, p: 4 * k * p, lambda p: 2 * k * p),
        Job("LabelFold, 200 labels", fit("LabelFold", LabelFold(), 200), 1, 2 * (21 + 6), folds),
        Job("LDA.transform", transform("LDA"), 1, c - 1, lambda d, p: 2 * c, lambda p: c - 1),
        Job("LabelFold.transform", transform("LabelFold"), 1, c - 1, folds),
        Job("SSNMF.transform", transform("SSNMF"), 1, k, lambda d, p: 2 * k, lambda p: k),
        Job("KLNMF.transform", transform("KLNMF"), 1, k, lambda d, p: 2 * k, lambda p: k),
    ]


class Run(NamedTuple):
    """Seconds of a run, its number of passes, and its lower bound."""

    total: float
    labels: float
    passes: float
    n_passes: float
    floor: float
    others: tuple[float, ...] = ()

    def line(self, name: str) -> str:
        """Return the run as a line of the table."""
        other = self.total - self.labels - self.passes
        seconds = (self.total, self.labels, other, self.passes, self.floor)
        columns = "".join(f"{value:9.4f}" for value in seconds)
        others = "".join(f"{self.passes / floor:8.1f}" for floor in self.others)
        return f"{name:28}{columns}{self.passes / self.floor:7.1f}{self.n_passes:6.1f}{others}"


def timed_job(job: Job, X: Any, y: np.ndarray, clock: Clock, speeds: Speeds) -> Run:
    """Run a job once."""
    clock.reset()
    total, _ = timed(lambda: job.run(X, y), clock.wait)
    size, entries = stored(X)
    count = X.shape[0] * entries
    n_bytes = (size * job.reads + 4 * X.shape[0] * job.width) * clock.n_passes
    bare = floor = max(
        n_bytes / speeds.copy, count * job.operations(entries, clock.n_passes) / speeds.product
    )
    others: tuple[float, ...] = ()
    if X.layout != torch.strided:
        n_bytes += 4 * count * job.gathers(clock.n_passes)
        floor, others = max(bare, n_bytes / speeds.copy), (max(bare, n_bytes / speeds.cache), bare)
    return Run(total, clock.labels, clock.passes, clock.n_passes, floor, others)


def peers(X: Any, y: np.ndarray) -> list[tuple[str, Callable[[], Any]]]:
    """Return other functions that do similar work on a tensor."""
    labels = torch.asarray(y, device=X.device)

    def plain() -> Any:
        mean = X.mean(0)
        S = X.T @ X - X.shape[0] * torch.outer(mean, mean)
        W = torch.linalg.eigh(S)[1][:, -8:]
        return X @ W - mean @ W

    def one(estimator: Any, *data: Any) -> Callable:
        def run() -> Any:
            with config_context(array_api_dispatch=True):
                return estimator.fit(*data)

        return run

    few = X[: len(X) // 5]
    randomized = PCA(8, svd_solver="randomized", power_iteration_normalizer="QR", random_state=0)
    return [
        ("plain torch: PCA by X'X, and its transform", plain),
        ("scikit-learn PCA(8), covariance_eigh", one(PCA(8, svd_solver="covariance_eigh"), X)),
        ("scikit-learn PCA(8), randomized", one(randomized, X)),
        ("scikit-learn LDA, svd, a fifth of the rows", one(LinearDiscriminantAnalysis(), few, labels[: len(few)])),
    ]  # fmt: skip


def main() -> None:
    options = options_of(
        __doc__, rows=1_000_000, columns=1_024, entries=0, device="cuda", only="", no_peers=False, plain=False
    )
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch finds no CUDA device; pass --device cpu to try the script without one")
    warnings.simplefilter("ignore")
    if options.plain:
        device_blocks._has_triton = lambda: False
    clock = Clock(options.device, options.rows)
    is_sparse, shape = options.entries > 0, (options.rows, options.columns)
    X, y = made(*((1 << 18, 1 << 10) if is_sparse else shape), options.device)
    speeds = measured(X, clock)
    if is_sparse:
        X, y = made_sparse(*shape, options.entries, options.device)
    n, d = shape
    name = torch.cuda.get_device_name() if options.device == "cuda" else "the host"
    print(f"{n:,} x {d:,} float32 on {name}: copies at {speeds.copy / 1e12:.2f} TB/s, products at ", end="")
    print(f"{speeds.product / 1e12:.1f} TFLOP/s, the cache read at {speeds.cache / 1e12:.1f} TB/s")
    titles = f"{'':28}{'total':>9}{'labels':>9}{'other':>9}{'passes':>9}{'floor':>9}{'ratio':>7}{'n':>6}"
    print(titles + f"{'cached':>8}{'bare':>8}" * is_sparse)
    if is_sparse:
        print(f"{options.entries} entries a row")
    models: dict[str, Any] = {}
    skipped = (
        ("LDA, all", "PCALS", "LabelFold") if is_sparse else ()
    )  # of a sparse tensor they make dense blocks
    with clock.watching():
        for job in jobs(models, d):
            if job.name.startswith(skipped):
                continue
            if options.only not in job.name and ".transform" not in job.name:
                continue
            if is_sparse and "LDA iterations" in models:
                models["LDA"] = models["LDA iterations"]
            if job.name.partition(".")[0] not in models and ".transform" in job.name:
                continue
            some = slice(0, n if is_sparse else min(n, 20_000))
            job.run(X if is_sparse else X[some], y[some])  # compiles
            runs = [
                timed_job(job, X, y, clock, speeds) for _ in range(3)
            ]  # the first run also allocates memory
            print(min(runs, key=lambda run: run.total).line(job.name), flush=True)
    if options.no_peers or is_sparse:
        return
    for name, run in peers(X, y):
        try:
            print(f"{name:46}{least(run, clock, 1):9.4f}", flush=True)
        except Exception as error:
            print(f"{name:46} {type(error).__name__}: {str(error).splitlines()[0][:90]}", flush=True)


if __name__ == "__main__":
    main()
