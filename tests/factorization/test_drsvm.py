"""DRSVM: its objective and stationary points, the paper's own algorithm, every container, and what it refuses."""

import itertools
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from labelfold.factorization import _drsvm as drsvm_solver
from labelfold.factorization._components import nndsvd_start, svd_start
from labelfold.factorization._drsvm import DRSVM, objective
from labelfold.factorization._hinge_rows import hinge_row_objectives, hinge_rows
from labelfold.labels import loss_weights, read_labels
from labelfold.numerics._linear_svm import linear_svm
from labelfold.rows import Centered, as_rows
from reference.drsvm import column_by_column, objective as naive_objective

LOSSES = ["squared_hinge", "hinge"]
TASKS = ["binary", "multiclass", "multilabel"]
PAPER = {"svm_penalty": 1.0, "reconstruction": 1.0, "factor_penalty": 1.0, "intercept_scaling": 1.0}
pytestmark = pytest.mark.filterwarnings("ignore:DRSVM stopped after:sklearn.exceptions.ConvergenceWarning")


def drsvm(k=10, **options):
    """Return DRSVM with the paper's weights where none are given."""
    return DRSVM(k, **{**PAPER, **options})


def problem(task="binary", seed=0, n=60, d=12, rank=3, n_labelled=15, dtype=np.float64):
    """Non-negative rows of about the given rank, a few of them labelled."""
    rng = np.random.default_rng(seed)
    Z = np.abs(rng.standard_normal((n, rank)))
    X = Z @ np.abs(rng.standard_normal((rank, d))) + 0.3 * np.abs(rng.standard_normal((n, d)))
    index = np.sort(rng.permutation(n)[:n_labelled])
    side = Z - np.median(Z, axis=0)
    if task == "multilabel":
        y = np.full((n, 3), np.nan)
        y[index] = side[index] > 0
    else:
        y = np.full(n, np.nan)
        y[index] = (side[index, 0] > 0) if task == "binary" else side[index].argmax(axis=1)
    return X.astype(dtype), y, index


def signs(y):
    labels = read_labels(y, allowed=TASKS)
    return labels.signs(), labels.index


def value(model, X, y, compute=objective, **options):
    """Return the objective of a fitted model, as ``compute`` has it."""
    T, index = signs(y)
    weights = loss_weights(read_labels(y, allowed=TASKS), model.class_weight)
    factors = (model.embedding_.astype(float), model.components_.T, model.embedding_coef_)
    return compute(
        X, *factors, T, index, C=weights, intercept=model.embedding_intercept_, loss=model.loss, **options
    )


def rises(model):
    """Return the largest rise of the objective from an iteration to the next, relative to it."""
    f = model.objective_
    return (np.diff(f) / np.abs(f[1:])).max(initial=-np.inf)


@pytest.mark.parametrize(("task", "loss", "nonnegative"), [*itertools.product(TASKS, LOSSES, [False, True])])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_objective_never_rises_and_is_what_it_says(task, loss, nonnegative, fit_intercept):
    X, y, _ = problem(task)
    weights = {"svm_penalty": 0.3, "reconstruction": 2.0, "factor_penalty": 0.5}
    model = drsvm(
        4,
        loss=loss,
        nonnegative=nonnegative,
        fit_intercept=fit_intercept,
        class_weight="balanced",
        max_iter=60,
        tol=0,
        **weights,
    ).fit(X, y)
    assert len(model.objective_) == model.n_iter_ > 5
    assert rises(model) <= 1e-10
    letters = {"a": 0.3, "b": 2.0, "e": 0.5}
    np.testing.assert_allclose(
        model.objective_[-1], value(model, X, y, naive_objective, **letters), rtol=1e-12
    )
    np.testing.assert_allclose(model.objective_[-1], value(model, X, y, **weights), rtol=1e-12)
    if nonnegative:
        assert model.embedding_.min() >= 0
        assert model.components_.min() >= 0
    if not fit_intercept:
        assert not model.embedding_intercept_.any()


@pytest.mark.parametrize(("loss", "nonnegative"), [*itertools.product(LOSSES, [False, True])])
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_the_objective_never_rises_in_float32(task, loss, nonnegative):
    X, y, _ = problem(task, n=300, n_labelled=40, dtype=np.float32)
    model = drsvm(4, loss=loss, nonnegative=nonnegative, max_iter=80, tol=0).fit(X, y)
    assert rises(model) <= 1e-5
    np.testing.assert_allclose(model.objective_[-1], value(model, X.astype(float), y), rtol=1e-5)
    assert model.embedding_.dtype == model.transform(X).dtype == np.float32


@pytest.mark.parametrize(("task", "loss", "nonnegative"), [*itertools.product(TASKS, LOSSES, [False, True])])
def test_the_end_is_stationary(task, loss, nonnegative):
    """Given the others, each block is at its minimum: unlabelled rows, labelled rows, basis and machines."""
    X, y, index = problem(task, n=40)
    a, b, e = 0.5, 1.0, 0.7
    model = drsvm(
        3,
        loss=loss,
        nonnegative=nonnegative,
        svm_penalty=a,
        factor_penalty=e,
        max_iter=20_000,
        tol=1e-14,
    ).fit(X, y)
    H, B, W = model.embedding_, model.components_.T, model.embedding_coef_
    T, _ = signs(y)
    free = np.setdiff1d(np.arange(len(X)), index)
    residual = X - H @ B.T
    scale = np.linalg.norm(X.T @ H)

    def kkt(gradient, factor):
        if nonnegative:
            gradient = np.where(factor > 0, gradient, np.minimum(gradient, 0))
        return np.linalg.norm(gradient) / scale

    assert kkt(e * B - b * residual.T @ H, B) < 1e-5
    assert kkt((e * H - b * residual @ B)[free], H[free]) < 1e-5
    f = model.objective_[-1]
    rows = (b * X[index] @ B, b * B.T @ B + e * np.eye(3), W, T, np.ones(T.shape))
    best = hinge_rows(*rows, loss=loss, nonnegative=nonnegative)[0]
    gain = (
        hinge_row_objectives(H[index], *rows, loss=loss).sum()
        - hinge_row_objectives(best, *rows, loss=loss).sum()
    )
    assert abs(gain) < 1e-8 * f
    found = linear_svm(H[index], T, 1 / a, loss=loss, tol=1e-10, max_iter=100_000)
    z = [np.maximum(0, 1 - T * (H[index] @ V.T)) for V in (W, found.w)]
    costs = [
        a / 2 * (V**2).sum() + (s if loss == "hinge" else s**2).sum()
        for V, s in zip((W, found.w), z, strict=True)
    ]
    assert costs[0] - costs[1] < 1e-8 * f


def ours_and_the_papers(loss, nonnegative, seed, n_iter):
    """Return our objective and that of the paper's algorithm, after as many iterations from the same start."""
    X, y, index = problem(seed=seed, **({"n": 40, "d": 70} if seed % 2 else {}))
    X = X if nonnegative else X - X.mean(axis=0)
    start = (nndsvd_start if nonnegative else svd_start)(as_rows(X), 3, 0)[:2]
    options = {"loss": loss, "nonnegative": nonnegative}
    *_, theirs = column_by_column(X, 2 * y[index] - 1, index, *start, **options, n_iter=n_iter)
    assert (np.diff(theirs) <= 1e-9 * theirs[0]).all()
    ours = drsvm(3, init=start, max_iter=n_iter, tol=0, **options).fit(X, y).objective_
    return ours[-1], theirs[-1]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_not_above_the_papers_own_algorithm(loss, nonnegative, seed):
    ours, theirs = ours_and_the_papers(loss, nonnegative, seed, 40)
    assert ours <= theirs * (1 + 1e-4)


def test_the_coordinate_steps_of_the_paper_stop_short_on_the_hinge_and_ours_do_not():
    pairs = np.array([ours_and_the_papers("hinge", False, seed, 100) for seed in (0, 2, 4)])
    assert (pairs[:, 0] < pairs[:, 1] * (1 - 1e-4)).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("task", TASKS)
def test_a_heavy_reconstruction_gives_svd_and_svm(task, loss):
    X, y, index = problem(task, n=80, d=15)
    model = drsvm(3, loss=loss, reconstruction=1e8, tol=1e-15, max_iter=300).fit(X, y)
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    Q, _ = np.linalg.qr(model.components_.T)
    np.testing.assert_allclose(np.linalg.svd(Q.T @ Vt[:3].T, compute_uv=False), 1.0, atol=1e-8)
    T, _ = signs(y)
    # The machines see the embedding up to a rotation, which their objective does not.
    H = (U[:, :3] * np.sqrt(s[:3]))[index]
    W = linear_svm(H, T, loss=loss, tol=1e-10, max_iter=100_000).w
    np.testing.assert_allclose(model.embedding_[index] @ model.embedding_coef_.T, H @ W.T, atol=1e-3)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_without_labels_to_fit_it_is_a_shrunk_factorisation(nonnegative):
    """With machines too dear to use, what is left has a known minimum: singular values less e / b."""
    X, y, _ = problem()
    model = drsvm(3, svm_penalty=1e12, nonnegative=nonnegative, tol=1e-15, max_iter=3000).fit(X, y)
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    best = (U[:, :3] * (s[:3] - 1)) @ Vt[:3]
    least = 0.5 * np.sum((X - best) ** 2) + np.sum(s[:3] - 1) + len(signs(y)[0])
    if nonnegative:
        assert model.objective_[-1] > least * (1 - 1e-10)
    else:
        np.testing.assert_allclose(model.objective_[-1], least, rtol=1e-7)
        np.testing.assert_allclose(model.embedding_ @ model.components_, best, atol=1e-3 * np.abs(X).max())


def test_one_pass_over_x_an_iteration(container):
    X, y, _ = problem("multiclass")
    counts = []
    for max_iter in (3, 9):
        rows = as_rows(container.make(X))
        drsvm(3, max_iter=max_iter, tol=0).fit(rows, y)
        counts.append(rows.n_passes)
    assert counts[1] - counts[0] == 6
    rows = as_rows(container.make(X))
    drsvm(3, max_iter=9, tol=0, nonnegative=True, init="random").fit(rows, y)
    assert rows.n_passes == 9 + 2  # its norm, and the sums of the start


@pytest.mark.parametrize(("loss", "nonnegative"), [("squared_hinge", False), ("hinge", True)])
@pytest.mark.parametrize("task", TASKS)
def test_the_same_answer_in_every_container(container, task, loss, nonnegative):
    X, y, _ = problem(task)
    options = {"loss": loss, "nonnegative": nonnegative, "fit_intercept": True, "max_iter": 15, "tol": 0}
    rng = np.random.default_rng(3)
    start = rng.random((len(X), 3)), rng.random((X.shape[1], 3))
    dense = drsvm(3, init=start, **options).fit(X, y)
    held = container.make(X)
    model = drsvm(3, init=start, **options).fit(held, y)
    assert rises(model) <= 1e-10
    np.testing.assert_allclose(model.objective_, dense.objective_, rtol=1e-9)
    np.testing.assert_allclose(model.components_, dense.components_, atol=1e-6)
    np.testing.assert_allclose(model.embedding_, dense.embedding_, atol=1e-6)
    np.testing.assert_array_equal(model.predict(held), dense.predict(X))
    np.testing.assert_array_equal(model.transduction_, dense.transduction_)
    np.testing.assert_allclose(model.decision_function(held), dense.decision_function(X), atol=1e-5)
    assert model.score(held, y) == dense.score(X, y)
    assert tuple(model.transform(held).shape) == (len(X), 3)


@pytest.mark.parametrize("options", [{}, {"center": True}, {"init": "random"}, {"init": "nndsvd"}])
def test_the_same_answer_in_every_container_from_every_start(container, options):
    X, y, _ = problem()
    model, dense = (drsvm(3, max_iter=15, tol=0, **options).fit(Z, y) for Z in (container.make(X), X))
    np.testing.assert_allclose(model.objective_, dense.objective_, rtol=1e-8)
    np.testing.assert_allclose(
        model.embedding_ @ model.components_, dense.embedding_ @ dense.components_, atol=1e-5
    )


@pytest.mark.parametrize("nonnegative", [False, True])
def test_sparse_blocks_through_compiled_kernels_and_threads(many_blocks, compiled_kernels, nonnegative):
    X, y, _ = problem("multiclass")
    X[X < 0.8] = 0
    start = np.random.default_rng(0).random((len(X), 3)), np.random.default_rng(1).random((X.shape[1], 3))
    model, dense = (
        drsvm(3, nonnegative=nonnegative, init=start, max_iter=15, tol=0).fit(Z, y)
        for Z in (sparse.csr_array(X), X)
    )
    np.testing.assert_allclose(model.objective_, dense.objective_, rtol=1e-9)
    np.testing.assert_allclose(model.embedding_, dense.embedding_, atol=1e-6)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_row_labelled(loss, nonnegative):
    X, y, index = problem(n_labelled=60)
    model = drsvm(3, loss=loss, nonnegative=nonnegative, max_iter=50, tol=0).fit(X, y)
    assert len(index) == len(X)
    assert rises(model) <= 1e-10
    np.testing.assert_allclose(model.objective_[-1], value(model, X, y), rtol=1e-12)
    np.testing.assert_array_equal(model.transduction_, y)
    sparse_too = drsvm(3, loss=loss, nonnegative=nonnegative, max_iter=50, tol=0).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(sparse_too.objective_, model.objective_, rtol=1e-8)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_transform_places_each_row_by_itself_at_its_minimum(nonnegative, rng):
    X, y, index = problem()
    model = drsvm(
        4, factor_penalty=0.5, reconstruction=2.0, nonnegative=nonnegative, tol=1e-13, max_iter=3000
    ).fit(X, y)
    new = np.abs(rng.standard_normal((20, X.shape[1])))
    H, B = model.transform(new), model.components_.T
    np.testing.assert_allclose(np.vstack([model.transform(x[None]) for x in new]), H, atol=1e-12)
    gradient = 0.5 * H - 2.0 * (new - H @ B.T) @ B
    if nonnegative:
        assert H.min() >= 0
        gradient = np.where(H > 0, gradient, np.minimum(gradient, 0))
    np.testing.assert_allclose(gradient, 0, atol=1e-9)
    # Unlabelled training rows are new rows; labelled ones moved for their labels.
    free = np.setdiff1d(np.arange(len(X)), index)
    np.testing.assert_allclose(model.transform(X)[free], model.embedding_[free], atol=1e-3)
    assert np.abs(model.transform(X)[index] - model.embedding_[index]).max() > 1e-2
    back = model.inverse_transform(H)
    np.testing.assert_allclose(back, H @ B.T, atol=1e-12)


def test_fit_transform_is_fit_then_transform():
    X, y, _ = problem()
    np.testing.assert_array_equal(drsvm(3).fit_transform(X, y), drsvm(3).fit(X, y).transform(X))


def test_centring_is_fitting_centred_rows():
    X, y, _ = problem()
    mean = X.mean(axis=0)
    model, plain = drsvm(3, center=True).fit(X, y), drsvm(3).fit(X - mean, y)
    np.testing.assert_allclose(model.mean_, mean, atol=1e-14)
    np.testing.assert_allclose(model.objective_, plain.objective_, rtol=1e-9)
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X - mean), atol=1e-6)
    np.testing.assert_allclose(value(model, Centered(as_rows(X)), y), model.objective_[-1], rtol=1e-10)
    H = model.transform(X)
    np.testing.assert_allclose(model.inverse_transform(H), H @ model.components_ + mean, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_invariances(loss):
    X, y, _ = problem("multiclass", n=90, n_labelled=30)
    options = {"loss": loss, "tol": 1e-10, "max_iter": 300}
    base = drsvm(3, **options).fit(X, y)
    scores, f = base.decision_function(X), base.objective_[-1]
    rng = np.random.default_rng(1)
    order = rng.permutation(len(X))
    Q, _ = np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))
    names = np.array(["c", "a", "b"], dtype=object)
    renamed = np.array([None if np.isnan(label) else names[int(label)] for label in y], dtype=object)
    variants = {
        "rows permuted": (drsvm(3, **options).fit(X[order], y[order]), X, [0, 1, 2]),
        "columns rotated": (drsvm(3, **options).fit(X @ Q, y), X @ Q, [0, 1, 2]),
        "labels renamed": (drsvm(3, **options).fit(X, renamed), X, [2, 0, 1]),
        "a column of zeros": (
            drsvm(3, **options).fit(np.hstack([X, np.zeros((90, 1))]), y),
            np.hstack([X, np.zeros((90, 1))]),
            [0, 1, 2],
        ),
    }
    for name, (model, data, columns) in variants.items():
        np.testing.assert_allclose(model.objective_[-1], f, rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(model.decision_function(data)[:, columns], scores, atol=0.02, err_msg=name)


def test_scaling_x_is_rescaling_the_weights():
    """X = s X' is the same problem with a / s, b s^2 and e s."""
    X, y, _ = problem()
    model = drsvm(3, svm_penalty=2.0, tol=0, max_iter=30).fit(X, y)
    scaled = drsvm(3, svm_penalty=2.0 * 4, reconstruction=1 / 16, factor_penalty=1 / 4, tol=0, max_iter=30)
    scaled.fit(4 * X, y)
    np.testing.assert_allclose(scaled.objective_, model.objective_, rtol=1e-9)
    np.testing.assert_allclose(scaled.decision_function(4 * X), model.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_predictions_agree_with_the_machines(task, nonnegative):
    X, y, index = problem(task)
    model = drsvm(3, nonnegative=nonnegative, fit_intercept=True, svm_penalty=0.1).fit(X, y)
    scores = model.transform(X) @ model.embedding_coef_.T + model.embedding_intercept_
    found = model.decision_function(X)
    assert found.shape == ((len(X),) if task == "binary" else (len(X), 3))
    np.testing.assert_allclose(found.reshape(len(X), -1), scores, atol=1e-12)
    expected = {
        "binary": lambda s: model.classes_[(s[:, 0] > 0).astype(int)],
        "multiclass": lambda s: model.classes_[s.argmax(axis=1)],
        "multilabel": lambda s: (s > 0).astype(int),
    }[task]
    np.testing.assert_array_equal(model.predict(X), expected(scores))
    np.testing.assert_array_equal(model.transduction_[index], y[index])
    free = np.setdiff1d(np.arange(len(X)), index)
    own = model.embedding_ @ model.embedding_coef_.T + model.embedding_intercept_
    np.testing.assert_array_equal(model.transduction_[free], expected(own)[free])
    assert model.score(X, y) == np.mean(
        np.all((model.predict(X) == y)[index].reshape(len(index), -1), axis=1)
    )


def test_class_weights():
    X, y, index = problem("multiclass")
    labels = read_labels(y)
    balanced = loss_weights(labels, "balanced")
    np.testing.assert_allclose([balanced[labels.values == c, 0].sum() for c in range(3)], len(index) / 3)
    np.testing.assert_array_equal(loss_weights(labels, {0.0: 5.0})[:, 1], np.where(labels.values == 0, 5, 1))
    Y = problem("multilabel")[1]
    several = read_labels(Y, allowed=TASKS)
    by_label = loss_weights(several, "balanced")
    for j in range(3):
        positive = several.values[:, j] > 0
        np.testing.assert_allclose(by_label[positive, j].sum(), by_label[~positive, j].sum())
    np.testing.assert_array_equal(loss_weights(several, {1: 4.0})[:, 1], np.where(several.values[:, 1], 4, 1))
    # A weight of two is a labelled row twice, as far as its losses go.
    heavy = drsvm(3, class_weight={0.0: 50.0}, svm_penalty=1e-2).fit(X, y)
    light = drsvm(3, class_weight={0.0: 0.02}, svm_penalty=1e-2).fit(X, y)
    assert (heavy.predict(X) == 0).sum() > (light.predict(X) == 0).sum()
    for bad in ({7.0: 1.0}, {0.0: -1.0}):
        with pytest.raises(ValueError, match="positive weights of the classes"):
            drsvm(3, class_weight=bad).fit(X, y)


def test_top_features_are_named():
    X, y, _ = problem()
    names = [f"word {j}" for j in range(X.shape[1])]
    model = drsvm(3, nonnegative=True).fit(pd.DataFrame(X, columns=names), y)
    top = model.top_features(4)
    assert [len(component) for component in top] == [4, 4, 4]
    for b, component in zip(model.components_, top, strict=True):
        assert [weight for _, weight in component] == sorted(b, reverse=True)[:4]
        assert all(b[names.index(name)] == weight for name, weight in component)
    plain = drsvm(3, nonnegative=True).fit(X, y)
    assert plain.top_features(1)[0][0][0] == int(plain.components_[0].argmax())
    assert plain.top_features(1, feature_names=names)[0][0][0] == top[0][0][0]
    with pytest.raises(ValueError, match="holds 2 names, where 12 are expected"):
        plain.top_features(feature_names=["a", "b"])


def test_pandas_pipelines_grid_search_and_clone():
    X, y = load_digits(return_X_y=True)
    y = np.where(np.arange(len(y)) < 300, y, -1)
    frame = pd.DataFrame(X[:400] / 16).rename(columns=str)
    model = drsvm(5, max_iter=10, tol=1e-3).set_output(transform="pandas").fit(frame, y[:400])
    assert list(model.transform(frame).columns) == list(model.get_feature_names_out())
    assert model.get_feature_names_out()[0] == "drsvm0"
    pipe = make_pipeline(FunctionTransformer(), drsvm(5, max_iter=10, tol=1e-3))
    search = GridSearchCV(pipe, {"drsvm__svm_penalty": [1.0, 0.1]}, cv=2).fit(X[:400] / 16, y[:400])
    again = clone(search.best_estimator_).fit(X[:400] / 16, y[:400])
    np.testing.assert_array_equal(again.predict(X / 16), search.best_estimator_.predict(X / 16))
    few = np.where(np.arange(400) < 100, y[:400], -1)
    many = drsvm(12, svm_penalty=0.1, reconstruction=10.0, tol=1e-4).fit(X[:400] / 16, few)
    alone = LinearSVC(random_state=0).fit(X[:100] / 16, few[:100])
    assert many.score(X[100:300] / 16, y[100:300]) > alone.score(X[100:300] / 16, y[100:300]) - 0.1


def test_the_same_seed_gives_the_same_answer():
    X, y, _ = problem()
    for init in ("svd", "random"):
        one, two = (drsvm(3, init=init, random_state=5, max_iter=5, tol=0).fit(X, y) for _ in range(2))
        np.testing.assert_array_equal(one.components_, two.components_)
    other = drsvm(3, init="random", random_state=6, max_iter=5, tol=0).fit(X, y)
    assert np.abs(other.components_ - one.components_).max() > 1e-3


def test_stopping_short_and_interrupts(monkeypatch, ctrl_c):
    X, y, _ = problem()
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations"):
        drsvm(3, max_iter=2).fit(X, y)
    done = drsvm(3, max_iter=3, tol=0).fit(X, y)
    place, calls = drsvm_solver._update_unlabelled, itertools.count(1)

    def interrupted(*args):
        if next(calls) == 4:
            ctrl_c()
        return place(*args)

    monkeypatch.setattr(drsvm_solver, "_update_unlabelled", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted; what its first 3 iterations reached is kept"):
        kept = drsvm(3, tol=0, on_interrupt="keep").fit(X, y)
    np.testing.assert_array_equal(kept.objective_, done.objective_)
    np.testing.assert_allclose(kept.embedding_, done.embedding_, atol=1e-12)
    calls = itertools.count(1)
    with pytest.raises(KeyboardInterrupt):
        drsvm(3, tol=0).fit(X, y)


def test_memory_is_that_of_x_and_the_factors():
    rng = np.random.default_rng(8)
    X = sparse.random(3000, 20_000, density=0.001, format="csr", random_state=9)
    y = np.where(np.arange(3000) < 100, rng.integers(0, 2, 3000), -1)
    start = rng.random((3000, 3)), rng.random((20_000, 3))
    drsvm(3, init=start, max_iter=2).fit(X, y)  # compiles
    tracemalloc.start()
    drsvm(3, init=start, max_iter=3).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A few copies of the factors, and of X at most one: nothing like the 480 MB of a dense X.
    assert peak < 12 * X.data.nbytes + 24 * 8 * 3 * (3000 + 20_000)


def test_negative_entries_are_named(container):
    X, y, _ = problem()
    X[17, 5] = -0.25
    X[40, 2] = -1.0
    with pytest.raises(ValueError, match=r"X holds -0.25 at row 17, column 5") as caught:
        drsvm(3, nonnegative=True).fit(container.make(X), y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("init", ["svd", "random"])
def test_more_components_than_rows_or_columns_are_said(nonnegative, init):
    X, y, _ = problem()
    with pytest.warns(UserWarning, match="n_components=20 is more than the rank of X, at most 12"):
        model = drsvm(20, nonnegative=nonnegative, init=init).fit(X, y)
    assert model.components_.shape == (20, 12)
    assert rises(model) <= 1e-10
    wide = X[:6], np.array([0, 1, 0, np.nan, np.nan, 1])
    with pytest.warns(UserWarning, match="n_components=8 is more than the rank of X, at most 6"):
        drsvm(8, nonnegative=nonnegative, init=init).fit(*wide)


@pytest.mark.parametrize(("loss", "nonnegative"), [*itertools.product(LOSSES, [False, True])])
def test_one_labelled_row_a_class(loss, nonnegative):
    X, _, _ = problem()
    y = np.full(len(X), -1)
    y[[3, 17, 30]] = 0, 1, 2
    model = drsvm(3, loss=loss, nonnegative=nonnegative).fit(X, y)
    assert rises(model) <= 1e-10
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize(("loss", "nonnegative"), [*itertools.product(LOSSES, [False, True])])
def test_labels_that_contradict_on_equal_rows(loss, nonnegative):
    X, y, index = problem()
    X, y = np.vstack([X, X[index]]), np.concatenate([y, 1 - y[index]])
    model = drsvm(3, loss=loss, nonnegative=nonnegative).fit(X, y)
    assert rises(model) <= 1e-10
    np.testing.assert_allclose(model.objective_[-1], value(model, X, y), rtol=1e-12)
    # New rows know no label: equal ones are placed alike, whatever their copies were told.
    np.testing.assert_array_equal(model.transform(X[index]), model.transform(X[60:]))


@pytest.mark.parametrize("nonnegative", [False, True])
def test_constant_and_zero_data(nonnegative):
    _, y, _ = problem()
    with pytest.warns(UserWarning, match="more than the rank of X, at most 1"):
        model = drsvm(3, nonnegative=nonnegative).fit(np.full((60, 12), 2.0), y)
    assert np.isfinite(model.embedding_).all()
    assert rises(model) <= 1e-10
    with pytest.raises(ValueError, match="nothing but zeros, so there is nothing to factorise"):
        drsvm(3, nonnegative=nonnegative).fit(np.zeros((60, 12)), y)
    with pytest.raises(ValueError, match="nothing but zeros once it is centred"):
        drsvm(3, center=True).fit(np.full((60, 12), 2.0), y)


@pytest.mark.parametrize(("loss", "nonnegative"), [*itertools.product(LOSSES, [False, True])])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_rows_of_zeros_stay_at_the_origin(loss, nonnegative, make):
    X, y, index = problem()
    free = np.setdiff1d(np.arange(60), index)[:5]
    X[free] = 0
    X[index[0]] = 0
    model = drsvm(3, loss=loss, nonnegative=nonnegative).fit(make(X), y)
    np.testing.assert_array_equal(model.embedding_[free], 0)
    np.testing.assert_array_equal(model.transform(make(X))[index[0]], 0)


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="0 sample"):
        drsvm(3).fit(np.zeros((0, 4)), [])


@pytest.mark.parametrize("scale", [1e-150, 1e-75, 1e75, 1e150])
def test_scales_whose_squares_cannot_be_held_are_refused(scale):
    X, y, _ = problem()
    with pytest.raises(ValueError, match=r"X has a norm of .* multiply X by a constant") as caught:
        drsvm(3).fit(X * scale, y)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="expected of float32 values"):
        drsvm(3).fit((X * 1e20).astype(np.float32), y)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1e-60, 1e-8, 1e8, 1e60])
def test_other_scales_work_or_are_said_to_be_shrunk_away(scale, loss, nonnegative):
    X, y, _ = problem()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = drsvm(3, loss=loss, nonnegative=nonnegative, max_iter=30).fit(X * scale, y)
    shrunk = any("has shrunk the components away" in str(one.message) for one in caught)
    assert shrunk == (scale < 1)
    assert rises(model) <= 1e-10
    assert np.isfinite(model.decision_function(X * scale)).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_dual_that_does_not_settle_is_said_with_its_gap(loss):
    X, y, index = problem()
    X[index[1]] = X[index[0]]
    y[index[:2]] = 0, 1
    with pytest.warns(ConvergenceWarning, match=r"have not settled.*gap being \d"):
        model = drsvm(3, loss=loss, svm_penalty=1e-14, reconstruction=1e8, max_iter=3).fit(X * 30, y)
    assert rises(model) <= 1e-10


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([-1] * 6, "no labelled row"),
        ([-1, -1, 2, 2, 2, -1], "one class only"),
        ([0, 1, 0], "y has 3 rows and X has 6"),
        ([0.5, 1.2, 0.1, 2.2, 3.1, 0.7], "Unknown label type: continuous"),
        (np.full((6, 2), np.nan), "no labelled row"),
        (None, "requires y to be passed"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(y, message):
    with pytest.raises(ValueError, match=message) as caught:
        drsvm(1).fit(np.arange(12.0).reshape(6, 2), y)
    assert "\n" not in str(caught.value)


def test_other_bad_input_is_refused():
    X, y, _ = problem()
    H, B = np.ones((60, 3)), np.ones((12, 3))
    for options, message in (
        ({"init": (B, H)}, r"shapes \[\(12, 3\), \(60, 3\)\], where factors of shapes"),
        ({"init": (H,)}, r"where factors of shapes \(60, 3\) and \(12, 3\)"),
        ({"init": (H * np.nan, B)}, "init holds NaN"),
        ({"init": (-H, B), "nonnegative": True}, "negative numbers where none is expected"),
        ({"nonnegative": True, "center": True}, "choose one"),
    ):
        with pytest.raises(ValueError, match=message):
            drsvm(3, **options).fit(X, y)
    with pytest.raises(ValueError, match="factor_penalty"):
        drsvm(3, factor_penalty=0.0).fit(X, y)
    with pytest.raises(NotFittedError):
        drsvm(3).predict(X)
    model = drsvm(3).fit(X, y)
    with pytest.raises(ValueError, match="12 features"):
        model.predict(X[:, :5])
    with pytest.raises(ValueError, match="X has 2 columns, where 3 are expected"):
        model.inverse_transform(np.ones((4, 2)))


def test_the_users_arrays_are_left_alone():
    X, y, _ = problem()
    start = np.ones((60, 3)), np.ones((12, 3))
    S = sparse.csr_array(X)
    for array in (X, y, *start, S.data, S.indices, S.indptr):
        array.flags.writeable = False
    for data, nonnegative in itertools.product((X, S), (False, True)):
        drsvm(3, init=start, nonnegative=nonnegative, max_iter=3).fit(data, y).predict(data)
