"""TSVM: what switching does to its objective and balance, where it is an SVM, and what it refuses."""

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from labelfold.labels import read_labels
from labelfold.numerics._linear_svm import linear_svm, svm_objective
from labelfold.rows import as_rows
from labelfold.semi_supervised._tsvm import TSVM, objective, switches

TASKS = ["binary", "multiclass", "multilabel"]


def problem(task="binary", seed=0, n=120, d=6, n_labelled=24, dtype=np.float64):
    """Overlapping Gaussian classes, a few rows labelled."""
    rng = np.random.default_rng(seed)
    c = 2 if task == "binary" else 3
    code = rng.integers(c, size=n)
    X = 0.4 * rng.standard_normal((c, d))[code] + rng.standard_normal((n, d))
    index = np.sort(rng.permutation(n)[:n_labelled])
    if task == "multilabel":
        truth = np.eye(3)[code]
        truth[rng.random((n, 3)) < 0.2] = 1
        y = np.full((n, 3), np.nan)
    else:
        truth = code.astype(float)
        y = np.full(n, np.nan)
    y[index] = truth[index]
    return X.astype(dtype), y, truth


def signs_of(y):
    labels = read_labels(y, allowed=TASKS)
    return labels.signs(), labels.index


def parts(model, X, y):
    """Return each machine's signs of all rows, and the weights of their losses in the last stage."""
    T, index = signs_of(y)
    free = np.setdiff1d(np.arange(X.shape[0]), index)
    signs = np.empty((X.shape[0], T.shape[1]))
    signs[index], signs[free] = T, model.switched_signs_
    C = np.full(X.shape[0], model.C_)
    C[free] = model.C_ * model.unlabeled_weight * len(index) / max(len(free), 1)
    return signs, C, index, free


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("max_switches", [None, 1])
@pytest.mark.parametrize(("dtype", "bound"), [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_the_objective_never_rises_in_a_stage_and_is_what_it_says(task, max_switches, dtype, bound):
    trainings = []
    for seed in range(4):
        X, y, _ = problem(task, seed, dtype=dtype)
        model = TSVM(C=0.5, unlabeled_weight=5.0, max_switches=max_switches, n_stages=2, max_iter=200)
        model.fit(X, y)
        signs, C, _, _ = parts(model, X, y)
        assert len(model.objective_) == signs.shape[1]
        for j, stages in enumerate(model.objective_):
            assert len(stages) == 1 + 2
            for values in stages:
                trainings.append(len(values))
                assert (np.diff(values) <= bound * values[1:]).all()
            machine = (model.coef_[j], X.astype(float), signs[:, j], C)
            expected = svm_objective(*machine, intercept=model.intercept_[j])
            np.testing.assert_allclose(stages[-1][-1], expected, rtol=1e-12 if dtype is np.float64 else 1e-5)
        assert model.n_iter_ == max(sum(map(len, stages)) for stages in model.objective_)
    assert max(trainings) > 2  # labels did switch, more than once


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("max_switches", [None, 1])
def test_at_the_end_neither_machine_nor_pair_can_do_better(task, max_switches):
    X, y, _ = problem(task)
    model = TSVM(C=1.0, max_switches=max_switches, n_stages=3, tol=1e-9, max_iter=200).fit(X, y)
    signs, C, _, free = parts(model, X, y)
    best = linear_svm(X, signs, C, fit_intercept=True, tol=1e-10)
    np.testing.assert_allclose(model.coef_, best.w, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, best.intercept, atol=1e-4)
    margins = X @ model.coef_.T + model.intercept_
    for j in range(signs.shape[1]):
        start = objective(model.coef_[j], model.intercept_[j], margins[:, j], signs[:, j], C)
        positive, negative = (free[signs[free, j] == sign] for sign in (1, -1))
        for a in positive:
            for b in negative[::5]:
                other = signs[:, j].copy()
                other[[a, b]] = -1, 1
                assert objective(model.coef_[j], model.intercept_[j], margins[:, j], other, C) >= start


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("n", [47, 120])
def test_the_balance_holds_to_the_row(task, n):
    X, y, _ = problem(task, n=n)
    model = TSVM(n_stages=3).fit(X, y)
    T, index = signs_of(y)
    np.testing.assert_allclose(model.positive_fraction_, (T > 0).mean(axis=0))
    u = n - len(index)
    expected = np.floor(model.positive_fraction_ * u + 0.5)
    np.testing.assert_array_equal((model.switched_signs_ > 0).sum(axis=0), expected)
    free = np.setdiff1d(np.arange(n), index)
    if task == "binary":
        assert model.transduction_[free].sum() == expected[0]
    if task == "multilabel":
        np.testing.assert_array_equal(model.transduction_[free].sum(axis=0), expected)
    np.testing.assert_array_equal(model.transduction_[index], y[index])


@pytest.mark.parametrize(
    ("task", "fraction"),
    [("binary", 0.25), ("multiclass", [0.2, 0.3, 0.5]), ("multilabel", [0.1, 0.5, 0.9])],
)
def test_a_balance_that_is_given_is_kept(task, fraction):
    X, y, _ = problem(task)
    model = TSVM(positive_fraction=fraction, n_stages=3).fit(X, y)
    expected = np.floor(np.ravel(fraction) * len(model.switched_signs_) + 0.5)
    np.testing.assert_array_equal((model.switched_signs_ > 0).sum(axis=0), expected)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("held", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_unlabelled_rows_or_their_weight_it_is_the_svm(task, held, fit_intercept):
    X, y, _ = problem(task)
    T, index = signs_of(y)
    options = {"tol": 1e-8, "fit_intercept": fit_intercept}
    for model, rows in (
        (TSVM(C=2.0, **options).fit(held(X[index]), y[index]), index),
        (TSVM(C=2.0, unlabeled_weight=0.0, **options).fit(held(X), y), index),
    ):
        best = linear_svm(X[rows], T, 2.0, fit_intercept=fit_intercept, tol=1e-10)
        np.testing.assert_allclose(model.coef_, best.w, atol=1e-4)
        np.testing.assert_allclose(model.intercept_, best.intercept, atol=1e-4)
        assert [len(stages) for stages in model.objective_] == [1] * T.shape[1]
    if task == "binary":
        theirs = LinearSVC(C=2.0, fit_intercept=fit_intercept, tol=1e-8, max_iter=10**5).fit(
            X[index], y[index]
        )
        np.testing.assert_allclose(model.decision_function(X), theirs.decision_function(X), atol=1e-3)


def test_automatic_C_is_that_of_rows_of_unit_spread():
    X, y, _ = problem()
    X = 40 * (X - X.mean(axis=0)) + 1.0
    unit = np.sqrt(X.var(axis=0).sum())
    options = {"n_stages": 3, "tol": 1e-9}
    model = TSVM(**options).fit(X, y)
    n_labelled = np.isfinite(y).sum()
    assert pytest.approx(100 / n_labelled / unit**2) == model.C_
    expected = TSVM(C=100 / n_labelled, **options).fit(X / unit, y)
    np.testing.assert_allclose(model.coef_ * unit, expected.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-5)
    for found, value in zip(model.objective_[0], expected.objective_[0], strict=True):
        np.testing.assert_allclose(found[-1] * unit**2, value[-1], rtol=1e-8)


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(1)])
def test_random_state_is_any(random_state):
    X, y, _ = problem()
    model = TSVM(n_stages=2, tol=1e-9, random_state=random_state).fit(X, y)
    np.testing.assert_allclose(
        model.coef_, TSVM(n_stages=2, tol=1e-9).fit(X, y).coef_, atol=1e-3 * np.abs(model.coef_).max()
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_right_where_an_svm_is_wrong(seed):
    """Two long clusters, one row of each labelled: an SVM cuts through both, and a gap runs between them."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], 100)
    X = rng.standard_normal((200, 2)) * [3.0, 0.3] + np.outer(2 * y - 1, [0.0, 1.0])
    few = np.full(200, -1)
    few[[0, 100]] = 0, 1
    assert LinearSVC().fit(X[few >= 0], few[few >= 0]).score(X, y) < 0.85
    model = TSVM(C=1.0).fit(X, few)
    assert np.mean(model.transduction_ == y) == 1.0
    new = np.array([[-4.0, 0.9], [4.0, -0.9], [0.0, 1.0], [0.0, -1.0]])
    assert model.predict(new).tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("task", TASKS)
def test_the_same_answer_in_every_container(container, task):
    X, y, _ = problem(task)
    X[np.abs(X) < 0.5] = 0
    held = container.make(X)
    model, dense = (TSVM(n_stages=3, tol=1e-8).fit(Z, y) for Z in (held, X))
    np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-4)
    np.testing.assert_array_equal(model.switched_signs_, dense.switched_signs_)
    np.testing.assert_array_equal(model.transduction_, dense.transduction_)
    np.testing.assert_array_equal(model.predict(held), dense.predict(X))
    assert model.decision_function(held).shape == ((120,) if task == "binary" else (120, 3))


def test_rows_elsewhere_are_taken_into_memory_within_a_budget(container):
    X, y, _ = problem()
    rows = as_rows(container.make(X))
    if rows.in_memory:
        TSVM(n_stages=2, max_gram_bytes=0).fit(rows, y)
        return
    with pytest.raises(
        ValueError,
        match=r"^TSVM reads rows .* (in a file|in blocks|on a device|on Dask) are .*, 100 bytes, .*; use LabelFold",
    ) as caught:
        TSVM(max_gram_bytes=100).fit(rows, y)
    assert "\n" not in str(caught.value)


def test_sparse_rows_are_never_made_dense():
    rng = np.random.default_rng(0)
    n, d = 2000, 5000
    X = sparse.random_array((n, d), density=0.002, rng=rng, format="csr")
    y = np.where(rng.random(n) < 0.1, np.arange(n) % 3, -1)
    TSVM(n_stages=2).fit(X[:50], np.arange(50) % 3)  # compiled beforehand
    tracemalloc.start()
    TSVM(n_stages=2).fit(X, y).predict(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * d * 8 / 20


def test_rows_permuted_classes_renamed_and_turned_round():
    X, y, _ = problem()
    model = TSVM(n_stages=3, tol=1e-8).fit(X, y)
    order = np.random.default_rng(1).permutation(len(X))
    moved = TSVM(n_stages=3, tol=1e-8).fit(X[order], y[order])
    np.testing.assert_array_equal(moved.transduction_, model.transduction_[order])
    words = np.array(["ham", "spam", None], dtype=object)[np.where(np.isnan(y), 2, y).astype(int)]
    named = TSVM(n_stages=3, tol=1e-8).fit(X, words)
    np.testing.assert_array_equal(named.transduction_ == "spam", model.transduction_ == 1)
    turned = TSVM(n_stages=3, tol=1e-8).fit(X, 1 - y)
    if (turned.switched_signs_ > 0).sum() == (model.switched_signs_ < 0).sum():
        np.testing.assert_allclose(turned.coef_, -model.coef_, atol=1e-4)


def test_several_classes_are_one_machine_against_the_rest_each():
    X, y, _ = problem("multiclass")
    model = TSVM(n_stages=3, tol=1e-8).fit(X, y)
    for j in range(3):
        against = TSVM(n_stages=3, tol=1e-8).fit(X, np.where(np.isnan(y), np.nan, y == j))
        np.testing.assert_allclose(model.coef_[j], against.coef_[0], atol=1e-4)
    free = np.isnan(y)
    scores = model.decision_function(X)
    np.testing.assert_array_equal(model.transduction_[free], scores[free].argmax(axis=1))


def test_a_label_that_no_row_has_stays_off():
    X, y, _ = problem("multilabel")
    y[:, 1] = np.where(np.isnan(y[:, 1]), np.nan, 0)
    with pytest.warns(UserWarning, match="No labelled row of Y is positive in label columns 1"):
        model = TSVM(n_stages=2).fit(X, y)
    assert not model.transduction_[:, 1].any()
    assert (model.switched_signs_[:, 1] == -1).all()


def test_switches_pair_the_rows_that_gain_most():
    margins = np.array([0.9, -0.5, 0.1, 0.4, -0.9, 2.0])
    signs = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    assert sorted(switches(margins, signs, None).tolist()) == [1, 2, 3, 5]
    assert sorted(switches(margins, signs, 1).tolist()) == [1, 5]
    assert switches(margins, np.sign(margins), None).tolist() == []
    assert switches(np.zeros(4), np.array([1.0, -1.0, 1.0, -1.0]), None).tolist() == []


def test_stopping_short_is_said_and_the_machine_goes_with_its_labels():
    X, y, _ = problem(n=300)
    with pytest.warns(
        ConvergenceWarning, match=r"in \d+ stages of TSVM labels still switched after 1 trainings"
    ):
        model = TSVM(C=1.0, n_stages=1, max_iter=1, tol=1e-9, unlabeled_weight=5.0).fit(X, y)
    signs, C, _, _ = parts(model, X, y)
    expected = svm_objective(model.coef_[0], X, signs[:, 0], C, intercept=model.intercept_[0])
    np.testing.assert_allclose(model.objective_[0][-1][-1], expected, rtol=1e-12)
    with pytest.warns(ConvergenceWarning, match=r"have not settled.*gap being \d"):
        TSVM(C=1e12, n_stages=1, tol=1e-14).fit(X, y)


def test_progress_and_interrupt(monkeypatch, capsys, ctrl_c):
    X, y, _ = problem("multiclass")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = TSVM(n_stages=3, verbose=1).fit(X, y)
    assert "TSVM" in capsys.readouterr().err

    def interrupt(bar, iteration, value):
        if iteration == 4:
            ctrl_c()

    monkeypatch.setattr("labelfold.semi_supervised._tsvm.Progress.__call__", interrupt)
    with pytest.raises(KeyboardInterrupt):
        TSVM(n_stages=3).fit(X, y)
    with pytest.warns(
        ConvergenceWarning, match="TSVM was interrupted; what its last training reached is kept"
    ):
        model = TSVM(n_stages=3, on_interrupt="keep").fit(X, y)
    np.testing.assert_array_equal(model.coef_[0], whole.coef_[0])
    assert [len(stages) for stages in model.objective_] == [4, 2, 1]
    np.testing.assert_array_equal(model.positive_fraction_, whole.positive_fraction_)


@pytest.mark.parametrize(
    ("task", "fraction"),
    [
        ("binary", 0.0),
        ("binary", 1.0),
        ("binary", -0.2),
        ("binary", float("nan")),
        ("binary", [0.5, 0.5]),
        ("multiclass", 0.5),
        ("multiclass", [0.5, 0.5]),
        ("multiclass", [0.5, 0.5, 0.5]),
        ("multilabel", [0.5, 1.5, 0.5]),
    ],
)
def test_a_fraction_that_cannot_be_is_refused(task, fraction):
    X, y, _ = problem(task)
    with pytest.raises(
        ValueError, match=r"positive_fraction=.* between 0 and 1 is expected; pass None"
    ) as caught:
        TSVM(positive_fraction=fraction).fit(X, y)
    assert "\n" not in str(caught.value)


def test_other_bad_input_is_refused():
    X, y, _ = problem()
    for labels, message in (
        (np.full(120, -1), "no labelled row"),
        (np.where(np.isnan(y), -1, 2), "one class only"),
        (y[:7], "y has 7 rows and X has 120"),
        (None, "requires y to be passed"),
    ):
        with pytest.raises(ValueError, match=message):
            TSVM().fit(X, labels)
    for options in ({"C": 0.0}, {"unlabeled_weight": -1.0}, {"n_stages": 0}, {"max_switches": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            TSVM(**options).fit(X, y)
    with pytest.raises(NotFittedError):
        TSVM().predict(X)
    with pytest.raises(ValueError, match="6 features"):
        TSVM(n_stages=1).fit(X, y).predict(X[:, :5])


def test_at_home_in_scikit_learn():
    X, y, _ = problem(n_labelled=60)
    known = ~np.isnan(y)
    search = GridSearchCV(TSVM(n_stages=2), {"C": [0.01, 1.0]}, cv=3).fit(X[known], y[known])
    assert search.best_estimator_.predict(X).shape == (120,)
    model = clone(TSVM(C=3.0)).fit(X, y)
    assert model.C == 3.0
    assert model.score(X, y) == np.mean(model.predict(X)[known] == y[known])


def test_the_users_arrays_are_left_alone():
    X, y, _ = problem()
    S = sparse.csr_array(X)
    for array in (X, y, S.data, S.indices, S.indptr):
        array.flags.writeable = False
    for data in (X, S):
        TSVM(n_stages=2).fit(data, y).predict(data)


def test_score_says_what_it_cannot_score():
    X, y = np.random.default_rng(0).random((30, 5)), np.arange(30) % 2
    model = TSVM().fit(X, y)
    with pytest.raises(ValueError, match="y has no labelled row"):
        model.score(X, np.full(30, -1))
    with pytest.raises(ValueError, match="y has 20 rows and X has 30"):
        model.score(X, y[:20])
