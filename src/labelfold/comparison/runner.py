"""Run the comparison: every method on the same splits, one row of results a run."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score
from sklearn.utils import check_array
from tqdm.auto import tqdm

from labelfold.comparison.protocol import Split, check_budgets, default_budgets, label_budget_splits
from labelfold.comparison.results import Comparison, Map
from labelfold.files.problem import one_line
from labelfold.labels import Labels, read_labels
from labelfold.methods import Method, available_methods, get_method

_MOST_COMPONENTS = 50
_MOST_POINTS = 600


def compare(
    X: Any,
    y: Any,
    methods: Sequence[str | Method] | None = None,
    budgets: Sequence[int] | None = None,
    n_components: int | Sequence[int] | None = None,
    repeats: int = 5,
    random_state: int = 0,
    progress: bool = True,
    *,
    test_size: float = 0.3,
    scale: bool = False,
    unlabeled: Any = -1,
    name: str = "the data",
) -> Comparison:
    """Find out which method tells the classes apart best with how many labels.

    Of the labelled rows a part is held back to test on. Of the others ``budget`` labels are kept and the rest
    hidden; rows without a label stay in training. Every method sees the same splits. A method that fails
    costs its own rows, which say why. Ctrl-C ends the comparison with what there is.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        The rows.
    y : array-like of shape (n,)
        Their classes; None, NaN or ``unlabeled`` where unknown.
    methods : sequence of str or Method, optional
        Those marked as compared in the registry unless given, less those that say they are for fewer rows.
    budgets : sequence of int, optional
        Numbers of labels; 2, 5, 10 and 20 a class, as far as there are labels, unless given.
    n_components : int or sequence of int, optional
        Sizes of the embeddings; one fewer than classes, and at least 2, unless given.
    repeats : int, default=5
        Draws of test rows and labels.
    random_state : int, default=0
        Seed of everything.
    progress : bool, default=True
        Show a progress bar.
    test_size : float, default=0.3
        The share of labelled rows held back.
    scale : bool, default=False
        Bring the columns to a common scale first.
    unlabeled : default=-1
        The label of rows without one.
    name : str
        What the report calls the data.

    Returns
    -------
    Comparison
        Its ``table``, ``results``, ``best_`` and ``report(path)``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = compare(X, y, ["svm", "pca-svm"], budgets=[6, 30], repeats=2, progress=False)
    >>> found.table[["method", "budget", "runs"]].values.tolist()
    [['svm', 6, 2], ['svm', 30, 2], ['pca-svm', 6, 2], ['pca-svm', 30, 2]]
    """
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    labels = read_labels(y, X.shape[0], unlabeled=unlabeled, estimator="compare")
    codes = np.full(X.shape[0], -1)
    codes[labels.index] = labels.values
    chosen = _default_methods(X.shape[0]) if methods is None else [_method(m) for m in methods]
    if not chosen:
        raise ValueError("There is no method to compare; name at least one.")
    if repeats < 1:
        raise ValueError(f"repeats is the number of draws, at least 1, not {repeats}.")
    budgets = sorted(set(default_budgets(codes, test_size) if budgets is None else budgets))
    check_budgets(codes, budgets, test_size)
    sizes = _sizes(n_components, labels, X)
    plan = [(m, k) for m in chosen for k in (sizes if m.embeds else [None])]

    splits = label_budget_splits(
        codes, budgets, repeats=repeats, test_size=test_size, random_state=random_state
    )
    rows: list[dict[str, Any]] = []
    interrupted = False
    began = time.perf_counter()
    try:
        with tqdm(total=repeats * len(budgets) * len(plan), disable=not progress, unit="fit") as bar:
            for row in _runs(X, codes, splits, plan, random_state, scale, bar):
                rows.append(row)
                bar.update()
    except KeyboardInterrupt:
        if not rows:
            raise
        interrupted = True
    settings = {
        "name": name,
        "n_rows": X.shape[0],
        "n_columns": X.shape[1],
        "sparse": not isinstance(X, np.ndarray),
        "classes": [str(c) for c in labels.classes],
        "counts": labels.counts().tolist(),
        "methods": [m.name for m in chosen],
        "budgets": budgets,
        "n_components": sizes,
        "repeats": repeats,
        "test_size": test_size,
        "scale": scale,
        "random_state": random_state,
        "seconds": time.perf_counter() - began,
    }
    maps = [] if interrupted else _maps(X, codes, chosen, budgets, test_size, random_state, scale)
    return Comparison(rows, settings, {m.name: m for m in chosen}, maps, interrupted)


def _default_methods(n_rows: int) -> list[Method]:
    """Return the methods that are tried unless others are named; say which are left out for the number of rows."""
    usual = [m for m in available_methods() if m.compared]
    left_out = [m for m in usual if m.most_rows is not None and n_rows > m.most_rows]
    if left_out:
        limits = ", ".join(f"{m.name} (made for up to {m.most_rows:,})" for m in left_out)
        warnings.warn(
            f"With {n_rows:,} rows these methods would take long and are left out: {limits}; name them in methods to "
            "try them all the same.",
            UserWarning,
            stacklevel=3,
        )
    return [m for m in usual if m not in left_out]


def _method(method: str | Method) -> Method:
    return method if isinstance(method, Method) else get_method(method)


def _sizes(n_components: int | Sequence[int] | None, labels: Labels, X: Any) -> list[int]:
    if n_components is None:
        return [min(max(2, labels.n_classes - 1), _MOST_COMPONENTS, *X.shape)]
    sizes = sorted({int(k) for k in np.atleast_1d(n_components)})
    if not sizes or sizes[0] < 1:
        raise ValueError(f"n_components is the size of the embedding, at least 1, not {n_components}.")
    return sizes


def _runs(
    X: Any,
    codes: np.ndarray,
    splits: Iterator[Split],
    plan: list[tuple[Method, int | None]],
    random_state: int,
    scale: bool,
    bar: tqdm,
) -> Iterator[dict[str, Any]]:
    """Fit and score every method of the plan on every split."""
    warm = False
    for split in splits:
        rows, held = X[split.train], X[split.test]
        if not warm:
            _warm_up(rows, split.y, plan, random_state, scale)
            warm = True
        for method, k in plan:
            bar.set_description(f"{method.name}, {split.budget} labels")
            row = {"method": method.name, "k": k, "budget": split.budget, "repeat": split.repeat}
            try:
                row |= _run(method, k, rows, split.y, held, codes[split.test], random_state, scale)
            except Exception as error:  # the reason is the method's result; the others go on
                row |= {"error": f"{type(error).__name__}: {one_line(error)}"}
            yield row


def _run(
    method: Method,
    k: int | None,
    X: Any,
    y: np.ndarray,
    held: Any,
    truth: np.ndarray,
    random_state: int,
    scale: bool,
) -> dict[str, Any]:
    """Fit once; return accuracy on the rows held back, seconds, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = method.make(k, X=X, random_state=random_state, scale=scale)
        start = time.perf_counter()
        model.fit(X, y)
        fitted = time.perf_counter()
        embedded = model.transform(held) if method.embeds else None
        embedding_done = time.perf_counter()
        predicted = model.predict(held)
        # a class may have no row held back, and a wrong guess of it is no news
        warnings.filterwarnings("ignore", message="y_pred contains classes not in y_true")
        balanced = balanced_accuracy_score(truth, predicted)
    return {
        "components": None if embedded is None else embedded.shape[1],
        "accuracy": float(np.mean(predicted == truth)),
        "balanced_accuracy": float(balanced),
        "fit_seconds": fitted - start,
        "transform_seconds": None if embedded is None else embedding_done - fitted,
        "note": "; ".join(dict.fromkeys(one_line(w.message) for w in caught)) or None,
    }


def _warm_up(X: Any, y: np.ndarray, plan: list, random_state: int, scale: bool) -> None:
    """Fit each method on a few rows and forget it, so that no timing holds a compiler's work."""
    some = np.union1d(np.flatnonzero(y >= 0), np.arange(min(200, len(y))))
    for method, k in plan:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = method.make(k, X=X[some], random_state=random_state, scale=scale).fit(
                    X[some], y[some]
                )
                model.predict(X[some[:2]])
            except Exception:  # it will fail again, and be reported, in the runs
                continue


def _maps(
    X: Any,
    codes: np.ndarray,
    methods: list[Method],
    budgets: list[int],
    test_size: float,
    random_state: int,
    scale: bool,
) -> list[Map]:
    """Embed the first split of the middle budget in two dimensions with every method that can."""
    budget = budgets[len(budgets) // 2]
    split = next(
        label_budget_splits(codes, [budget], repeats=1, test_size=test_size, random_state=random_state)
    )
    rng = np.random.default_rng(random_state)
    labelled = split.train[split.y >= 0]
    hidden = rng.permutation(split.train[split.y < 0])[:_MOST_POINTS]
    held = rng.permutation(split.test)[:_MOST_POINTS]
    shown = np.concatenate([hidden, held, labelled])
    role = np.repeat(["unlabelled", "held back", "labelled"], [len(hidden), len(held), len(labelled)])
    code = np.where(role == "unlabelled", -1, codes[shown])
    maps = []
    for method in methods:
        if not method.embeds:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = method.make(2, X=X[split.train], random_state=random_state, scale=scale)
                points = np.asarray(model.fit(X[split.train], split.y).transform(X[shown]), dtype=float)
            except Exception:  # the table already says what is wrong with this method
                continue
        flat = points.shape[1] == 1
        if flat:
            points = np.column_stack([points[:, 0], rng.uniform(-1, 1, len(points))])
        maps.append(Map(method.title, points[:, :2], code, role, budget, flat))
    return maps
