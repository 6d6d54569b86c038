"""The seven methods of subspace.py, each for many sets of labels of the same rows at once.

Cross-validation fits a method hundreds of times on the same rows with other labels. Kernels, graphs and
decompositions do not depend on labels: here they are computed once for each configuration, and the rest of a fit is
small. Results are those of the public estimators; the part "Check" of the experiment compares them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from sklearn.datasets import make_moons
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.semi_supervised import LabelPropagation, LabelSpreading
from sklearn.utils import check_random_state

from common import seconds
from data_sets import masked, rng_of
from labelfold import PCALS, KernelPCALS, LapRLS
from labelfold.app.registry._adapters import ReduceThenClassify
from labelfold.features._kernel_map import nystroem_map
from labelfold.numerics._block_cg import block_cg
from labelfold.rows import as_rows
from labelfold.semi_supervised._graph import laplacian, nearest, neighbour_graph
from labelfold.semi_supervised._laprls import deformed_columns, solve_deformed
from labelfold.subspace._search import pursue
from labelfold.subspace._space import MatrixSpace, Space
from result_rows import words

# The paper's grids.
SIZES = (2, 4, 8, 16, 32)
WIDTHS = (2.0, 1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)  # times the mean distance between rows
PENALTIES = (1e4, 1e2, 1.0, 1e-2, 1e-4)
# Most configurations of a method; LapRLS uses this many of its 150, and of the 900 of its kernel form.
MOST = 30
N_LANDMARKS = 500
SUFFIX, CAUSE = ", library's choice", "Cause"  # of the name of a table; of a part
TRIED = 90  # configurations of KLapRLS in that part, of 900
WHOLE, HINDSIGHT = ", whole grid", ", hindsight"  # of the name of a table, where all are used
NEIGHBOURS = (5, 10, 20)  # for GRF and LLGC if an RBF graph would not fit; LapRLS uses 5
LINEAR_WEIGHT, KERNEL_WEIGHT = 1.0, 100.0  # of reconstruction in PCA-LS
SPREADING = 0.99  # alpha of LLGC
TOL, FOLD_TOL = 1e-8, 1e-4  # of PCA-LS: for estimators, and for fits scored on a fold only
PROPAGATION_TOL, PROPAGATION_ITERATIONS = 1e-3, 1000  # scikit-learn's
HARMONIC_TOL = 1e-6  # of the fixed point that replaces iterations on a large graph


@dataclass(eq=False)
class Rows:
    """A data set, and results that do not depend on labels.

    Attributes
    ----------
    name, source : str
        Name of the set, and "real" or "generated".
    X : ndarray or csr_array of shape (n, d)
        The rows.
    y : ndarray of shape (n,)
        -1 and +1.
    large : bool
        Whether n x n matrices would not fit, so that neighbour graphs and Nystroem features are used instead.
    n_landmarks : int
        Number of rows for Nystroem features.
    configurations : int
        Most configurations of a method.
    sizes : tuple of int
        Candidates for the number of components.
    kept : dict
        Features by width, cached because they take longer than a pursuit in them.
    """

    name: str
    source: str
    X: Any
    y: np.ndarray
    large: bool = False
    n_landmarks: int = N_LANDMARKS
    configurations: int = MOST
    sizes: tuple[int, ...] = SIZES
    kept: dict[float, np.ndarray] = field(default_factory=dict)

    @cached_property
    def squares(self) -> np.ndarray:
        """Squared distances between all rows, (n, n)."""
        return euclidean_distances(self.X, squared=True)

    @cached_property
    def sigma(self) -> float:
        """The mean distance between two rows."""
        if self.large:
            some = np.sort(check_random_state(0).permutation(len(self.y))[:1000])
            squares = euclidean_distances(self.X[some], squared=True)
        else:
            squares = self.squares
        n = len(squares)
        return float(np.sqrt(squares).sum()) / (n * (n - 1))

    def rbf(self, width: float) -> np.ndarray:
        """Return the kernel of all rows, with a width in units of sigma."""
        return np.exp(self.squares / (-2 * (width * self.sigma) ** 2))

    @cached_property
    def neighbours(self) -> dict[int, sparse.csr_array]:
        """Graphs of nearest neighbours, by their number."""
        distance, neighbour = nearest(as_rows(self.X), max(NEIGHBOURS))
        return {k: neighbour_graph(distance[:, :k], neighbour[:, :k]) for k in NEIGHBOURS}

    def graphs(self) -> Iterator[tuple[str, Any]]:
        """Return the graphs for GRF and LLGC; the weight of a row with itself is 0."""
        if self.large:
            yield from ((words(neighbours=k), W) for k, W in self.neighbours.items())
            return
        for width in WIDTHS:
            W = self.rbf(width)
            np.fill_diagonal(W, 0.0)
            yield words(graph_width=width), W

    def laplacian(self, width: float | None) -> Any:
        """Return the Laplacian of the RBF graph, or of five neighbours if there is no width."""
        if width is None:
            return laplacian(self.neighbours[NEIGHBOURS[0]])
        W = self.rbf(width)
        np.fill_diagonal(W, 0.0)
        return laplacian(W)

    def landmarks(self, width: float, seed: int = 0) -> np.ndarray:
        """Return Nystroem features of all rows, (n, m)."""
        gamma = 1 / (2 * (width * self.sigma) ** 2)
        fitted = nystroem_map(as_rows(self.X), "rbf", {"gamma": gamma}, self.n_landmarks, seed)
        return fitted.transform(self.X)

    def features(self, width: float) -> np.ndarray:
        """Return the centred rows in the space of an RBF kernel: exact, or Nystroem features."""
        if width not in self.kept:
            if self.large:
                # The rows that KernelPCALS(random_state=0) draws.
                Z = self.landmarks(width, int(check_random_state(0).randint(np.iinfo(np.int32).max)))
                self.kept[width] = principal_coordinates(Z - Z.mean(axis=0))
            else:
                self.kept[width] = coordinates(self.rbf(width))
        return self.kept[width]

    @property
    def is_wide(self) -> bool:
        """Whether there are more columns than rows."""
        return self.X.shape[1] > self.X.shape[0]

    @cached_property
    def centred(self) -> np.ndarray:
        """The centred rows; if there are more columns than rows, in the form of `coordinates`."""
        if not self.is_wide:
            X = self.X.toarray() if sparse.issparse(self.X) else self.X
            return X - X.mean(axis=0)
        return coordinates(
            np.asarray((self.X @ self.X.T).todense() if sparse.issparse(self.X) else self.X @ self.X.T)
        )


class Task(NamedTuple):
    """Rows with known labels, and rows to predict."""

    known: np.ndarray
    asked: np.ndarray


def share_right(data: Rows, task: Task, values: np.ndarray) -> float:
    """Return how many of the rows asked for are right (%); a value of 0 is for the first class, as in argmax."""
    return 100 * float(np.mean((values > 0) == (data.y[task.asked] > 0)))


Found = Iterator[tuple[str, int, np.ndarray]]
"""For a configuration and the index of a task: values at the rows to predict, above 0 for the second class."""


def coordinates(K: np.ndarray) -> np.ndarray:
    """Return centred coordinates (n, r) of rows, from their inner products K; largest variance first."""
    Kc = K - K.mean(axis=0)
    Kc -= Kc.mean(axis=1, keepdims=True)
    values, U = linalg.eigh(Kc, overwrite_a=True, check_finite=False, driver="evd")
    keep = values > len(K) * np.finfo(float).eps * values[-1]
    return U[:, keep][:, ::-1] * np.sqrt(values[keep][::-1])


def principal_coordinates(X: np.ndarray) -> np.ndarray:
    """Return the same rows in coordinates of their principal directions; largest variance first."""
    values, V = linalg.eigh(X.T @ X, check_finite=False)
    keep = values > noise_of(X) * values[-1]
    return X @ V[:, keep][:, ::-1]


def balanced(count: int, **levels: Sequence[float]) -> list[dict[str, float]]:
    """Return ``count`` different combinations, drawn so that each level of a parameter occurs about equally often.

    >>> len(balanced(6, a=(1, 2, 3), b=(1, 2)))
    6
    """
    most = int(np.prod([len(values) for values in levels.values()]))
    if most <= count:
        grid = np.meshgrid(*levels.values(), indexing="ij")
        return [
            dict(zip(levels, map(float, point), strict=True))
            for point in zip(*map(np.ravel, grid), strict=True)
        ]
    rng = rng_of("design", *levels)
    while True:
        columns = [rng.permutation(np.resize(values, count)) for values in levels.values()]
        rows = sorted(set(zip(*(column.tolist() for column in columns), strict=True)), reverse=True)
        if len(rows) == count:
            return [dict(zip(levels, row, strict=True)) for row in rows]


def pca_rls(data: Rows, tasks: Sequence[Task]) -> Found:
    """Principal components of all rows, then ridge regression on the labelled ones."""
    X = data.centred
    _, _, V = linalg.svd(X if X.shape[0] < 4 * X.shape[1] else linalg.qr(X, mode="r")[0], full_matrices=False)
    Z = X @ V[: max(data.sizes)].T
    for p in (p for p in data.sizes if p <= Z.shape[1]):
        for ridge in PENALTIES:
            for i, task in enumerate(tasks):
                model = RidgeClassifier(ridge).fit(Z[task.known, :p], data.y[task.known])
                yield words(p=p, ridge=ridge), i, model.decision_function(Z[task.asked, :p])


def grf(data: Rows, tasks: Sequence[Task]) -> Found:
    """Label propagation: scikit-learn's iterations, all tasks in one product; on a large graph its fixed point."""
    for config, W in data.graphs():
        solve = _harmonic if data.large else _propagate
        for i, F in enumerate(solve(W, data.y, tasks)):
            yield config, i, F[tasks[i].asked]


def _clamped(n: int, tasks: Sequence[Task]) -> np.ndarray:
    clamp = np.zeros((n, len(tasks)), dtype=bool)
    for i, task in enumerate(tasks):
        clamp[task.known, i] = True
    return clamp


def _propagate(W: np.ndarray, y: np.ndarray, tasks: Sequence[Task]) -> Iterator[np.ndarray]:
    """Yield for each task the share of the second class minus that of the first, at convergence."""
    clamp = _clamped(len(y), tasks)
    degree = W.sum(axis=1)[:, None] + 1.0  # the weight of a row with itself is 1
    given = np.where(clamp, (y > 0)[:, None], 0.0)
    # The two shares of a row add up to 1 once labels reach it, so the second share and this mark are sufficient.
    share, reached = given, clamp.astype(float)
    going, done = np.arange(len(tasks)), [np.empty(0)] * len(tasks)
    change, total = np.full(len(tasks), np.inf), None
    for iteration in range(PROPAGATION_ITERATIONS + 1):
        last = iteration == PROPAGATION_ITERATIONS
        for place in np.flatnonzero((change < PROPAGATION_TOL) | last):
            done[going[place]] = 2 * share[:, place] - reached[:, place]
        stay = (change >= PROPAGATION_TOL) & (not last)
        if not stay.any():
            break
        if not stay.all():
            share, reached, going = share[:, stay], reached[:, stay], going[stay]
            total = None if total is None else total[:, stay]
        before, reached_before = share, reached
        if total is None:
            total = np.where(clamp[:, going], 1.0, (W @ reached + reached) / degree)
            reached = (total > 0).astype(float)
        share = np.where(clamp[:, going], given[:, going], (W @ share + share) / degree)
        share = np.divide(share, total, out=np.zeros_like(share), where=total > 0)
        change = np.abs(share - before).sum(axis=0)
        change += np.abs((reached - share) - (reached_before - before)).sum(axis=0)
        if (reached != reached_before).any():
            total = None
    yield from done


def _harmonic(W: Any, y: np.ndarray, tasks: Sequence[Task]) -> Iterator[np.ndarray]:
    """Yield the limit of propagation for each task: each unknown row has the mean of its neighbours.

    By conjugate gradients with one column for each task, which has its own known rows and steps.
    """
    clamp = _clamped(len(y), tasks)
    degree = np.maximum(np.asarray(W.sum(axis=1)).reshape(-1, 1), np.finfo(float).tiny)
    given = np.where(clamp, y[:, None], 0.0)
    F, R = given.copy(), np.where(clamp, 0.0, W @ given)
    P = R / degree
    rho = np.einsum("ij,ij->j", R, P)
    goal = HARMONIC_TOL**2 * rho
    for _ in range(PROPAGATION_ITERATIONS):
        AP = np.where(clamp, 0.0, degree * P - W @ P)
        curve = np.einsum("ij,ij->j", P, AP)
        step = np.divide(rho, curve, out=np.zeros_like(rho), where=curve > 0)
        F += step * P
        R -= step * AP
        Q = R / degree
        before, rho = rho, np.einsum("ij,ij->j", R, Q)
        if (rho <= goal).all():
            break
        P *= np.divide(rho, before, out=np.zeros_like(rho), where=before > 0)
        P += Q
    yield from F.T


def llgc(data: Rows, tasks: Sequence[Task]) -> Found:
    """Label spreading: (I - alpha S) F = Y, where S is the graph normalised by roots of degrees."""
    Y = np.zeros((len(data.y), len(tasks)))
    for i, task in enumerate(tasks):
        Y[task.known, i] = data.y[task.known]
    for config, W in data.graphs():
        degree = np.asarray(W.sum(axis=1)).ravel()
        root = 1 / np.sqrt(np.where(degree > 0, degree, 1.0))
        if sparse.issparse(W):
            S = sparse.diags_array(root) @ W @ sparse.diags_array(root)
            F = block_cg(lambda P, S=S: P - SPREADING * (S @ P), Y, tol=1e-10, max_iter=1000).X
        else:
            W *= -SPREADING * root
            W *= root[:, None]
            W.flat[:: len(W) + 1] += 1.0
            F = linalg.solve(W, Y, assume_a="pos", overwrite_a=True, check_finite=False)
        for i, task in enumerate(tasks):
            yield config, i, F[task.asked, i]


def laprls(data: Rows, tasks: Sequence[Task]) -> Found:
    """Linear LapRLS."""
    levels = {"ridge": PENALTIES, "smoothness": PENALTIES} | ({} if data.large else {"graph_width": WIDTHS})
    X = data.centred
    last = None
    for config in sorted(balanced(data.configurations, **levels), key=lambda c: -c.get("graph_width", 0.0)):
        width = config.get("graph_width")
        if last is None or last[0] != width:
            last = width, X.T @ (data.laplacian(width) @ X)
        yield from smooth_linear(X, last[1], config, words(**config), data.y, tasks)


def smooth_linear(
    X: np.ndarray, G: np.ndarray, config: dict[str, float], name: str, y: np.ndarray, tasks: Sequence[Task]
) -> Found:
    """Return LapRLS of all tasks from G = X'LX."""
    union, places = _union(tasks)
    M = config["smoothness"] / len(X) ** 2 * G
    M.flat[:: len(M) + 1] += config["ridge"]
    A = linalg.solve(M, X[union].T, assume_a="pos", check_finite=False)  # (d, m)
    H = X[union] @ A
    for i, (task, at) in enumerate(zip(tasks, places, strict=True)):
        S, b = solve_deformed(H[np.ix_(at, at)], y[task.known, None])
        yield name, i, (X[task.asked] @ (A[:, at] @ S) + b)[:, 0]


def _union(tasks: Sequence[Task]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the rows that are known in some task, and the indices of each task's rows among them."""
    union = np.unique(np.concatenate([task.known for task in tasks]))
    return union, [np.searchsorted(union, task.known) for task in tasks]


def kernel_laprls(data: Rows, tasks: Sequence[Task]) -> Found:
    """LapRLS in the space of an RBF kernel."""
    levels = {"ridge": PENALTIES, "smoothness": PENALTIES, "kernel_width": WIDTHS}
    if data.large:
        L = data.laplacian(None)
        last = None
        design = balanced(data.configurations, **levels)
        for config in sorted(design, key=lambda c: -c["kernel_width"]):
            if last is None or last[0] != config["kernel_width"]:
                F = data.landmarks(config["kernel_width"])
                last = config["kernel_width"], F, F.T @ (L @ F)
            yield from smooth_linear(*last[1:], config, words(**config), data.y, tasks)
        return
    union, places = _union(tasks)
    for config in balanced(data.configurations, **levels, graph_width=WIDTHS):
        K = data.rbf(config["kernel_width"])
        L = data.laplacian(config["graph_width"])
        A = deformed_columns(K, L, union, config["ridge"], config["smoothness"])
        H = K[union] @ A
        for i, (task, at) in enumerate(zip(tasks, places, strict=True)):
            S, b = solve_deformed(H[np.ix_(at, at)], data.y[task.known, None])
            yield words(**config), i, (K[task.asked] @ (A[:, at] @ S) + b)[:, 0]


class Principal(Space):
    """Rows in coordinates in which their sum of squares is diagonal, from `coordinates`.

    Parameters
    ----------
    values : ndarray of shape (r,)
        The diagonal.
    Z : ndarray of shape (l, r)
        The labelled rows.
    """

    noise = 1e-14

    def __init__(self, values: np.ndarray, Z: np.ndarray) -> None:
        self.values, self.Z = values, Z
        self.size, self.n_labelled, self.square = len(values), len(Z), float(values.sum())

    def times(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return S B and Z B."""
        return self.values[:, None] * B, self.Z @ B

    def on_labelled(self, B: np.ndarray) -> np.ndarray:
        """Return Z B."""
        return self.Z @ B

    def back(self, a: np.ndarray) -> np.ndarray:
        """Return Z'a."""
        return self.Z.T @ a

    def labelled_spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the eigenvalues of Z Z' and the vectors."""
        return np.linalg.eigh(self.Z @ self.Z.T)


def pcals(data: Rows, tasks: Sequence[Task], only: str = "") -> Found:
    """PCA-LS; for one configuration if ``only`` is given."""
    sizes = (int(only.split("=")[1]),) if only else data.sizes
    yield from pursuits(data, tasks, data.centred, LINEAR_WEIGHT, sizes, is_principal=data.is_wide)


def kernel_pcals(data: Rows, tasks: Sequence[Task], only: str = "") -> Found:
    """PCA-LS in the space of an RBF kernel; for one configuration if ``only`` is given."""
    widths, sizes = WIDTHS[: max(1, data.configurations // len(data.sizes))], data.sizes
    if only:
        value = dict(word.split("=") for word in only.split())
        widths, sizes = (float(value["kernel_width"]),), (int(value["p"]),)
    for width in widths:
        found = pursuits(data, tasks, data.features(width), KERNEL_WEIGHT, sizes, is_principal=True)
        yield from ((f"{words(kernel_width=width)} {name}", i, values) for name, i, values in found)


def pursuits(
    data: Rows,
    tasks: Sequence[Task],
    X: np.ndarray,
    weight: float,
    sizes: Sequence[int],
    *,
    is_principal: bool,
) -> Found:
    """Return PCA-LS of all tasks, with one pursuit each: directions are nested.

    X are centred rows; ``is_principal`` tells whether their coordinates are those of principal directions.
    """
    squares = np.einsum("ij,ij->j", X, X) if is_principal else X.T @ X
    for i, task in enumerate(tasks):
        Z = X[task.known]
        space = Principal(squares, Z) if is_principal else MatrixSpace(squares, Z, noise_of(X))
        y = data.y[task.known, None].astype(float)
        # Folds need only a few rows: four digits of a direction are enough to decide their sides.
        tol = FOLD_TOL if len(task.asked) < len(task.known) else TOL
        found = pursue(space, y - y.mean(), weight, max(sizes), tol=tol)
        V = X[task.asked] @ found.W
        for p in sizes:
            values = V[:, :p] @ found.alpha[:p] + y.mean()
            yield words(p=p), i, values[:, 0]


def noise_of(X: np.ndarray) -> float:
    """Return the norm of X'X v for a unit vector v orthogonal to X, relative to X'X: round-off."""
    return max(X.shape) * np.finfo(float).eps


METHODS: dict[str, Callable[[Rows, Sequence[Task]], Found]] = {
    "PCA+RLS": pca_rls,
    "GRF": grf,
    "LLGC": llgc,
    "LapRLS": laprls,
    "KLapRLS": kernel_laprls,
    "PCA-LS": pcals,
    "KPCA-LS": kernel_pcals,
}

# The paper's names of methods in the registry.
REGISTERED = {
    "pca-rls": "PCA+RLS",
    "grf": "GRF",
    "llgc": "LLGC",
    "laprls": "LapRLS",
    "kernel-laprls": "KLapRLS",
    "pcals": "PCA-LS",
    "kernel-pcals": "KPCA-LS",
}


def toy(name: str, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two Gaussians or two moons of n rows each, their classes, and labels of a few (-1 for the others)."""
    rng = rng_of("toy", name, n)
    y = np.repeat([0, 1], n)
    if name == "Two Gaussians":
        X = rng.standard_normal((2 * n, 2)) + 1.5 * y[:, None]
        # The labelled row of a class is on the side of its own class.
        side = X.sum(axis=1) > 1.5
        known = np.array([rng.choice(np.flatnonzero((y == c) & (side == c))) for c in (0, 1)])
    else:
        X, y = make_moons(2 * n, noise=0.08, random_state=0)
        known = np.concatenate([rng.choice(np.flatnonzero(y == c), 3, replace=False) for c in (0, 1)])
    return X, y, masked(y, known)


def toy_model(method: str, X: np.ndarray, n_labelled: int, config: str) -> Any:
    """Return an estimator from the text of its parameters, in which the ridge belongs to a mean over rows."""
    value = {name: float(number) for name, number in (word.split("=") for word in config.split())}
    distance = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2)).sum() / (len(X) * (len(X) - 1))
    gamma = 1 / (2 * (value["kernel_width"] * distance) ** 2)
    if method == "KPCA-LS":
        return KernelPCALS(int(value["p"]), gamma=gamma, reconstruction=KERNEL_WEIGHT)
    return LapRLS(
        kernel="rbf",
        gamma=gamma,
        ridge=value["ridge"] * n_labelled,
        smoothness=value["smoothness"],
        graph="rbf",
        graph_gamma=1 / (2 * (value["graph_width"] * distance) ** 2),
    )


def estimator(data: Rows, method: str, config: str, n_labelled: int) -> Any:
    """Return the estimator of a method with a configuration of subspace_methods.py.

    The ridge of LapRLS there belongs to a mean over the labelled rows, as in its paper.
    """
    value = {name: float(number) for name, number in (word.split("=") for word in config.split())}
    p = int(value.get("p", 0))
    gamma = 1 / (2 * (value["kernel_width"] * data.sigma) ** 2) if "kernel_width" in value else "auto"
    if method == "PCA+RLS":
        solver = "arpack" if sparse.issparse(data.X) else "full"
        return ReduceThenClassify(PCA(p, svd_solver=solver, random_state=0), RidgeClassifier(value["ridge"]))
    if method == "PCA-LS":
        return PCALS(p, reconstruction=LINEAR_WEIGHT)
    landmarks = data.n_landmarks if data.large else None
    if method == "KPCA-LS":
        return KernelPCALS(p, kernel="rbf", gamma=gamma, reconstruction=KERNEL_WEIGHT, n_landmarks=landmarks)
    if method in ("LapRLS", "KLapRLS"):
        graph: dict[str, Any] = {"graph": "knn", "n_neighbors": NEIGHBOURS[0]}
        if "graph_width" in value:
            graph = {"graph": "rbf", "graph_gamma": 1 / (2 * (value["graph_width"] * data.sigma) ** 2)}
        kernel = {} if method == "LapRLS" else {"kernel": "rbf", "gamma": gamma, "n_landmarks": landmarks}
        return LapRLS(ridge=value["ridge"] * n_labelled, smoothness=value["smoothness"], **graph, **kernel)
    options: dict[str, Any] = {"tol": PROPAGATION_TOL, "max_iter": PROPAGATION_ITERATIONS}
    if data.large:
        W = data.neighbours[int(value["neighbours"])]
        options["kernel"] = lambda X, Z: sparse.csr_array(W + sparse.eye_array(len(data.y)))
    else:
        options["gamma"] = 1 / (2 * (value["graph_width"] * data.sigma) ** 2)
    if method == "GRF":
        return LabelPropagation(**options)
    # Its stopping rule sums over all rows, so the tolerance is small; exact solutions have none.
    return LabelSpreading(**options | {"alpha": SPREADING, "tol": 1e-8, "max_iter": 5000})


def check(data: Rows, method: str, config: str, task: Task) -> tuple[float, float]:
    """Return the seconds of a fit, and the share (%) of its predictions that agree with the cached computation."""
    only = (config,) if method in ("PCA-LS", "KPCA-LS") else ()
    cached = {name: values for name, _, values in METHODS[method](data, [task], *only)}[config] > 0
    y = np.full(len(data.y), -1)
    y[task.known] = data.y[task.known] > 0
    model = estimator(data, method, config, len(task.known))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spent, _ = seconds(lambda: model.fit(data.X, y))
    found = model.transduction_ if hasattr(model, "transduction_") else model.predict(data.X)
    return spent, 100 * float(np.mean((found[task.asked] > 0) == cached))
