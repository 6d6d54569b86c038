"""What LSDR and NSDR do alike: slopes, containers, placing rows, invariances, sizes, and what they refuse."""

import tracemalloc
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from offset_cases import MODELS, NAMES, TASKS, lsdr, nsdr, problem, rises, signs
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelfold.factorization import (
    _lsdr as lsdr_file,
    _nsdr as nsdr_file,
    _offset_factorization as offset_solver,
    _offset_model as offsets,
)
from labelfold.rows import as_rows

pytestmark = [
    pytest.mark.filterwarnings("ignore:[LN]SDR stopped after:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:n_components=:UserWarning"),
]
BOTH = pytest.mark.parametrize("make", [lsdr, nsdr])


def posed(make, options, data, index, y, k=3):
    """Return the problem that a model poses."""
    model = make(k, **options)
    machine = model._classifier(signs(y)[0], *model._choose_weights(np.ones(k), len(y), 1.0))
    if make is nsdr:
        machine.tol = 1e-12
    return offset_solver.OffsetProblem(data, machine, 50, 0.4, 0.3, 0.7, 1.5)


@pytest.mark.parametrize("kind", ["held", "squeezed", "swept"])
@pytest.mark.parametrize(("make", "options"), MODELS, ids=NAMES)
@pytest.mark.parametrize("task", ["binary", "multilabel"])
def test_slopes_by_finite_differences(make, options, task, kind):
    X, y, index = problem(task)
    rows, mean = as_rows(X), X.mean(axis=0)
    data = (
        offsets.RowsInPasses(rows, mean, index)
        if kind == "swept"
        else offsets.offset_rows(rows, index, mean, 3, 10**9)
    )
    assert (len(data.X) == len(index) + 9) if kind != "swept" else True  # 26 others are squeezed into d + 1
    if kind == "held":
        data = offsets.RowsInMemory(
            np.vstack([X[index], np.delete(X, index, axis=0)]) - mean, np.ones(50), len(index)
        )
    problem_ = posed(make, options, data, index, y)
    rng = np.random.default_rng(1)
    at = rng.standard_normal((3, 8)), 0.3 * rng.standard_normal(8), 0.2 * rng.standard_normal((len(index), 4))
    slopes = problem_.gradient(problem_.evaluate(*at))
    h = 1e-5
    for block, slope in enumerate(slopes):
        move = rng.standard_normal(slope.shape)
        ahead, behind = (
            problem_.evaluate(*(a + sign * h * move if i == block else a for i, a in enumerate(at))).value
            for sign in (1, -1)
        )
        assert (ahead - behind) / (2 * h) == pytest.approx(np.vdot(slope, move), rel=1e-5, abs=1e-6)


def test_held_squeezed_and_swept_rows_give_the_same_sums():
    X, y, index = problem()
    rows, mean = as_rows(X), X.mean(axis=0)
    everything = offsets.RowsInMemory(
        np.vstack([X[index], np.delete(X, index, axis=0)]) - mean, np.ones(50), len(index)
    )
    rng = np.random.default_rng(2)
    at = rng.standard_normal((3, 8)), rng.standard_normal(8), rng.standard_normal((len(index), 4))
    points = [
        posed(nsdr, {}, data, index, y)
        for data in (
            everything,
            offsets.offset_rows(rows, index, mean, 3, 10**9),
            offsets.RowsInPasses(rows, mean, index),
        )
    ]
    first, *others = (one.evaluate(*at) for one in points)
    for other in others:
        for name in ("value", "V", "c", "Z"):
            a, b = getattr(first, name), getattr(other, name)
            np.testing.assert_allclose(b, a, rtol=1e-8, atol=1e-8, err_msg=name)
    squares, *others = (one.squares(first) for one in points)
    for other in others:
        np.testing.assert_allclose(other, squares, rtol=1e-8)
    slopes, *others = (one.gradient(first) for one in points)
    for other in others:
        for a, b, name in zip(slopes, other, slopes._fields, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-8, atol=1e-8, err_msg=name)


@BOTH
def test_the_same_answer_in_every_container(container, make):
    X, y, _ = problem("multiclass" if make is lsdr else "binary")
    held = container.make(X)
    # Few iterations: round-off grows from one to the next.
    model, dense = (make(3, max_iter=8, tol=0).fit(Z, y) for Z in (held, X))
    assert rises(model) <= 1e-10
    np.testing.assert_allclose(model.objective_, dense.objective_, rtol=1e-7)
    np.testing.assert_allclose(model.components_, dense.components_, atol=1e-4)
    np.testing.assert_allclose(model.embedding_, dense.embedding_, atol=1e-4)
    np.testing.assert_allclose(model.row_offsets_, dense.row_offsets_, atol=1e-4)
    np.testing.assert_allclose(model.decision_function(held), dense.decision_function(X), atol=1e-3)
    assert tuple(model.transform(held).shape) == (50, 3)
    assert model.score(held, y) == dense.score(X, y)


@BOTH
def test_the_same_answer_in_every_container_in_passes(container, make, monkeypatch):
    """Data too wide to be held: every evaluation is a pass, and sparse rows stay sparse."""
    in_passes = partial(offsets.offset_rows, max_growth=0.0, few_entries=0)
    monkeypatch.setattr(offset_solver, "offset_rows", in_passes)
    X, y, _ = problem()
    rows = as_rows(container.make(X))
    model = make(3, max_iter=8, tol=0).fit(rows, y)
    dense = make(3, max_iter=8, tol=0).fit(X, y)
    assert rises(model) <= 1e-10
    np.testing.assert_allclose(model.objective_, dense.objective_, rtol=1e-6)
    np.testing.assert_allclose(
        model.embedding_ @ model.components_, dense.embedding_ @ dense.components_, atol=1e-3
    )


@BOTH
def test_held_rows_are_read_a_few_times_in_all(make):
    X, y, _ = problem()
    passes = []
    for max_iter in (3, 30):
        rows = as_rows(X)
        make(3, max_iter=max_iter, tol=0).fit(rows, y)
        passes.append(rows.n_passes)
    assert passes[0] == passes[1] <= 4


@pytest.mark.parametrize(("make", "options"), MODELS, ids=NAMES)
def test_float32_stays_float32(make, options):
    X, y, _ = problem(n=200, n_labelled=40, dtype=np.float32)
    model = make(3, max_iter=100, tol=0, **options).fit(X, y)
    assert rises(model) <= 1e-5
    assert model.embedding_.dtype == model.row_offsets_.dtype == model.transform(X).dtype == np.float32
    double = make(3, max_iter=100, tol=0, **options).fit(X.astype(float), y)
    assert model.objective_[-1] == pytest.approx(double.objective_[-1], rel=1e-2)
    assert model.inverse_transform(model.transform(X)).dtype == np.float32


@BOTH
def test_float32_in_passes(make, monkeypatch):
    in_passes = partial(offsets.offset_rows, max_growth=0.0, few_entries=0)
    monkeypatch.setattr(offset_solver, "offset_rows", in_passes)
    X, y, _ = problem(n=200, n_labelled=40, dtype=np.float32)
    model = make(3, max_iter=60, tol=0).fit(X, y)
    assert rises(model) <= 1e-5
    double = make(3, max_iter=60, tol=0).fit(X.astype(float), y)
    assert model.objective_[-1] == pytest.approx(double.objective_[-1], rel=1e-3)


@pytest.mark.parametrize(("make", "options"), MODELS, ids=NAMES)
def test_new_rows_are_placed_each_by_itself_by_a_ridge_fit(make, options):
    X, y, index = problem()
    model = make(3, reconstruction_share=0.4, row_penalty=0.2, **options).fit(X, y)
    new = np.random.default_rng(4).standard_normal((7, 8))
    V1 = np.vstack([model.components_, np.ones(8)])
    for row in new:
        design = np.vstack([V1.T, np.sqrt(0.2 / 0.4) * np.eye(4)])
        z = np.linalg.lstsq(design, np.append(row - model.column_offsets_, np.zeros(4)))[0]
        np.testing.assert_allclose(model.transform(row[None])[0], z[:3], atol=1e-10)
        np.testing.assert_allclose(model.row_offsets(row[None])[0], z[3], atol=1e-10)
    free = np.setdiff1d(np.arange(50), index)
    np.testing.assert_allclose(model.transform(X)[free], model.embedding_[free], atol=1e-10)
    np.testing.assert_allclose(model.row_offsets(X)[free], model.row_offsets_[free], atol=1e-10)
    assert np.abs(model.transform(X)[index] - model.embedding_[index]).max() > 1e-6
    back = model.inverse_transform(model.transform(new), model.row_offsets(new))
    np.testing.assert_allclose(
        back,
        np.hstack([model.transform(new), model.row_offsets(new)[:, None]]) @ V1 + model.column_offsets_,
        atol=1e-10,
    )
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(new)), back - model.row_offsets(new)[:, None], atol=1e-10
    )


@pytest.mark.parametrize("task", TASKS)
@BOTH
def test_predictions_follow_the_scores(make, task):
    X, y, index = problem(task)
    model = make(3).fit(X, y)
    scores, predicted = model.decision_function(X), model.predict(X)
    if task == "multilabel":
        np.testing.assert_array_equal(predicted, scores > 0)
    elif task == "multiclass":
        np.testing.assert_array_equal(predicted, model.classes_[scores.argmax(axis=1)])
    else:
        np.testing.assert_array_equal(predicted, model.classes_[(scores > 0).astype(int)])
    np.testing.assert_array_equal(model.transduction_[index], y[index])
    free = np.setdiff1d(np.arange(50), index)
    np.testing.assert_array_equal(model.transduction_[free], predicted[free])
    if np.ndim(y) == 2:
        expected = f1_score(y[index].astype(int), predicted[index], average="micro")
    else:
        expected = np.mean((predicted == y)[index])
    assert model.score(X, y) == pytest.approx(expected)


@BOTH
def test_fit_transform_is_fit_then_transform(make):
    X, y, _ = problem()
    np.testing.assert_array_equal(make(3).fit_transform(X, y), make(3).fit(X, y).transform(X))


@BOTH
def test_invariances(make):
    X, y, _ = problem("multiclass", n=60, n_labelled=30)
    options = {"max_iter": 25, "tol": 0}
    model = make(3, **options).fit(X, y)
    order = np.random.default_rng(6).permutation(60)
    shuffled = make(3, **options).fit(X[order], y[order])
    np.testing.assert_allclose(shuffled.objective_, model.objective_, rtol=1e-5)
    shifted = make(3, **options).fit(X + 5 * np.arange(8), y)
    np.testing.assert_allclose(shifted.objective_, model.objective_, rtol=1e-5)
    np.testing.assert_allclose(shifted.column_offsets_ - model.column_offsets_, 5 * np.arange(8), atol=1e-2)
    names = np.array([None, "ant", "bee", "cow"], dtype=object)
    named = make(3, **options).fit(X, names[np.where(np.isnan(y), 0, y + 1).astype(int)])
    np.testing.assert_allclose(named.objective_, model.objective_, rtol=1e-10)
    assert set(named.transduction_) <= {"ant", "bee", "cow"}
    again = make(3, **options).fit(X, y)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)


@BOTH
def test_every_row_labelled_one_component_and_one_column(make):
    X, y, _ = problem(n_labelled=50)
    model = make(3, max_iter=60, tol=0).fit(X, y)
    assert rises(model) <= 1e-10
    np.testing.assert_array_equal(model.transduction_, y)
    narrow = make(1, max_iter=60).fit(X[:, :1], y)
    assert narrow.embedding_.shape == (50, 1)
    assert rises(narrow) <= 1e-10


@BOTH
def test_more_components_than_columns_is_allowed_with_a_warning(make):
    X, y, _ = problem()
    with pytest.warns(UserWarning, match=r"n_components=12 is more than X has columns \(8\) or rows \(50\)"):
        model = make(12, max_iter=50).fit(X, y)
    assert model.embedding_.shape == (50, 12)
    assert rises(model) <= 1e-10
    assert np.isfinite(model.objective_).all()


@BOTH
def test_penalties_that_leave_nothing_are_told(make):
    X, y, _ = problem()
    with pytest.warns(UserWarning, match="have shrunk the components away; lower them"):
        make(3, row_penalty=1e4, basis_penalty=1e4).fit(X, y)


@BOTH
def test_stopped_short_and_settled(make):
    X, y, _ = problem()
    with pytest.warns(ConvergenceWarning, match="SDR stopped after 2 iterations, short of tol=1.0e-09"):
        assert make(3, max_iter=2, tol=1e-9).fit(X, y).n_iter_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = make(3, tol=1e-5).fit(X, y)
    assert len(model.objective_) == model.n_iter_ < 500


@BOTH
def test_interrupted(make, monkeypatch, ctrl_c):
    X, y, _ = problem()
    calls = [0]
    evaluate = offset_solver.OffsetProblem.evaluate

    def stop(self, *args):
        calls[0] += 1
        if calls[0] == 12:
            ctrl_c()
        return evaluate(self, *args)

    monkeypatch.setattr(offset_solver.OffsetProblem, "evaluate", stop)
    with pytest.warns(ConvergenceWarning, match="was interrupted; what its first"):
        model = make(3, on_interrupt="keep", tol=0).fit(X, y)
    assert 0 < model.n_iter_ < 12
    assert model.predict(X).shape == (50,)
    calls[0] = 0
    with pytest.raises(KeyboardInterrupt):
        make(3, tol=0).fit(X, y)


@BOTH
def test_interrupted_half_way_through_a_machine(make, monkeypatch, ctrl_c):
    """What is kept is the machine of the rows that are kept, not of those that were being tried."""
    X, y, _ = problem()
    machine = lsdr_file.LinearClassifiers if make is lsdr else nsdr_file.KernelClassifiers
    train, calls = machine.train, [0]

    def stop(self, Z):
        cost = train(self, Z)
        calls[0] += 1
        if calls[0] == 12:
            ctrl_c()
        return cost

    monkeypatch.setattr(machine, "train", stop)
    with pytest.warns(ConvergenceWarning, match="was interrupted"):
        model = make(3, on_interrupt="keep", tol=0).fit(X, y)
    if make is nsdr:
        Z = np.column_stack([model.embedding_, model.row_offsets_])
        np.testing.assert_array_equal(model.support_vectors_, Z[model.support_])
    again = make(3, max_iter=model.n_iter_, tol=0).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), again.decision_function(X), atol=1e-6)


@BOTH
def test_progress_is_shown(make, capfd):
    X, y, _ = problem()
    make(3, verbose=1, max_iter=5).fit(X, y)
    assert make.__name__.upper() in capfd.readouterr().err


@BOTH
def test_many_sparse_columns_are_never_made_dense(make):
    """2,000 rows of 20,000 columns, 1 in 1,000 of them stored: 320 MB as a dense array."""
    rng = np.random.default_rng(7)
    X = sparse.random(2000, 20_000, 1e-3, format="csr", random_state=rng) * 10
    y = np.full(2000, -1)
    y[:100] = np.arange(100) % 2
    make(2, max_iter=2).fit(X[:, :300], y)  # imports and compiles
    tracemalloc.start()
    model = make(2, max_iter=4).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.embedding_.shape == (2000, 2)
    assert peak < 60e6


@pytest.mark.slow
@BOTH
def test_a_hundred_thousand_rows_and_a_thousand_labels(make, container):
    rng = np.random.default_rng(8)
    Z = rng.standard_normal((100_000, 8)).astype(np.float32)
    X = Z @ rng.standard_normal((8, 500)).astype(np.float32)
    X += rng.standard_normal(X.shape, dtype=np.float32)
    y = np.full(100_000, -1)
    y[:1000] = Z[:1000, 0] * Z[:1000, 1] > 0 if make is nsdr else Z[:1000, 0] > 0
    model = make(8, tol=1e-4).fit(container.make(X), y)
    truth = (Z[:, 0] * Z[:, 1] if make is nsdr else Z[:, 0]) > 0
    assert (model.transduction_ == truth)[1000:].mean() > 0.85


@BOTH
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"reconstruction_share": 0.0},
            "'reconstruction_share' parameter of .SDR must be a float in the range \\(0",
        ),
        (
            {"reconstruction_share": 1.0},
            "'reconstruction_share' parameter of .SDR must be a float in the range \\(0",
        ),
        ({"row_penalty": 0.0}, "'row_penalty' parameter"),
        ({"basis_penalty": -1.0}, "'basis_penalty' parameter"),
        ({"n_components": 0}, "'n_components' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
    ],
)
def test_bad_parameters(make, options, message):
    X, y, _ = problem()
    with pytest.raises(ValueError, match=message):
        make(3).set_params(**options).fit(X, y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nsdr(degree=0), "'degree' parameter of NSDR must be an int in the range \\[1"),
        (nsdr(kernel="cubic"), "'kernel' parameter"),
        (nsdr(gamma=0.0), "'gamma' parameter"),
        (nsdr(C=0.0), "'C' parameter"),
        (lsdr(loss="hinge"), "'loss' parameter"),
        (lsdr(classifier_penalty=0.0), "'classifier_penalty' parameter"),
    ],
)
def test_bad_parameters_of_one(model, message):
    X, y, _ = problem()
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


@BOTH
def test_bad_data(make):
    X, y, _ = problem()
    for value in (np.nan, np.inf):
        bad = X.copy()
        bad[17, 3] = value
        with pytest.raises(ValueError, match="row 17"):
            make(2).fit(bad, y)
        with pytest.raises(ValueError, match="row 17"):
            make(2).fit(X, y).transform(bad)
    with pytest.raises(ValueError, match="nothing but zeros once it is centred"):
        make(2).fit(np.ones((50, 4)), y)
    with pytest.raises(ValueError, match="no labelled row"):
        make(2).fit(X, np.full(50, np.nan))
    with pytest.raises(ValueError, match="one class only"):
        make(2).fit(X, np.where(np.isnan(y), np.nan, 1.0))
    with pytest.raises(ValueError, match="y has 49 rows and X has 50"):
        make(2).fit(X, y[1:])
    with pytest.raises(ValueError, match="X has 3 columns, where 2 are expected"):
        make(2).fit(X, y).inverse_transform(np.ones((4, 3)))
    with pytest.raises(NotFittedError):
        make().transform(X)


@BOTH
def test_a_label_that_no_row_has(make):
    X, y, _ = problem("multilabel")
    y[:, 1] = np.where(np.isnan(y[:, 1]), np.nan, 0.0)
    with pytest.warns(UserWarning, match="No labelled row of Y is positive"):
        model = make(3).fit(X, y)
    assert not model.predict(X)[:, 1].any()
    assert rises(model) <= 1e-10


@BOTH
def test_at_home_in_scikit_learn(make):
    X, y, index = problem(n_labelled=40)
    frame = pd.DataFrame(X, columns=[f"column {j}" for j in range(8)])
    model = make(2).set_output(transform="pandas").fit(frame, y)
    assert list(model.transform(frame).columns) == [f"{make.__name__.lower()}0", f"{make.__name__.lower()}1"]
    assert list(model.feature_names_in_) == list(frame.columns)
    assert clone(model).get_params() == model.get_params()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), make(2, tol=1e-3)),
        {f"{make.__name__.lower()}__reconstruction_share": [0.1, 0.9]},
        cv=2,
    ).fit(X[index], y[index])
    assert search.best_score_ > 0.4


@BOTH
def test_the_users_arrays_stay_as_they_are(make):
    X, y, _ = problem()
    X.flags.writeable = y.flags.writeable = False
    make(2).fit(X, y).predict(X)


@pytest.mark.parametrize("unit", [0.2, 3.0])
@BOTH
def test_a_unit_of_row_offsets_is_a_unit_of_x(make, unit):
    """X with offsets in a unit t is X / t with offsets in a unit of 1, and its weights rescaled."""
    X, y, _ = problem()
    model = make(3, max_iter=30, tol=0).fit(X, y)
    share = 1 / (1 + unit**2)  # b / (1 - b) is 1 / t^2 where it was 1
    ratio = (1 - share) / 0.5
    penalties = {"row_penalty": 0.1 * ratio, "basis_penalty": ratio / unit**2}
    if make is lsdr:
        penalties["classifier_penalty"] = 0.1 * ratio
    other = make(3, reconstruction_share=share, offset_unit=unit, max_iter=30, tol=0, **penalties)
    other.fit(unit * X, y)
    # At the end, where nothing changes any more, round-off says which of the two stops first.
    n_iter = min(len(other.objective_), len(model.objective_))
    assert n_iter > 20
    np.testing.assert_allclose(other.objective_[:n_iter], ratio * model.objective_[:n_iter], rtol=1e-6)
    np.testing.assert_allclose(other.decision_function(unit * X), model.decision_function(X), atol=1e-3)
    np.testing.assert_allclose(other.row_offsets_, unit * model.row_offsets_, atol=1e-3)
    np.testing.assert_allclose(other.row_offsets(unit * X), unit * model.row_offsets(X), atol=1e-3)
    np.testing.assert_allclose(
        other.inverse_transform(other.embedding_, other.row_offsets_),
        unit * model.inverse_transform(model.embedding_, model.row_offsets_),
        atol=1e-2 * unit,
    )


@BOTH
def test_weights_by_themselves_follow_the_data(make):
    """Rows are embedded at a mean squared length of about 1, whatever the size of X and the number of rows."""
    X, y, _ = problem(n=200, n_labelled=40)
    for unit in (1.0, 50.0):
        model = type(make())(3).fit(unit * X, y)
        centred = unit * (X - X.mean(axis=0))
        s = np.linalg.svd(centred, compute_uv=False)[:3]
        odds = 30 / (np.mean(s**2) / 200)
        assert model.reconstruction_share_ == pytest.approx(odds / (1 + odds))
        bound = np.sqrt(model.row_penalty_ * model.basis_penalty_) / model.reconstruction_share_
        assert bound == pytest.approx(0.03 * np.sqrt(np.mean(s**2)))
        assert model.offset_unit_ == pytest.approx(np.sqrt(np.mean(centred**2)))
        assert np.mean((model.embedding_**2).sum(axis=1)) == pytest.approx(1.0, rel=0.25)


def test_singular_vectors_of_round_off_are_no_start(rng):
    """Their direction differs from one order of sums to another, and led to another minimum."""
    for n in (3, 20):
        X = np.column_stack([rng.normal(size=n), 1e-17 * rng.normal(size=(n, 6))])
        s, Vt = offsets._right_vectors(X, 5)
        assert s.shape == (1,)
        np.testing.assert_allclose(np.abs(Vt), np.eye(1, 7), atol=1e-12)


@BOTH
def test_a_random_start_depends_on_the_seed_and_descends(make):
    X, y, _ = problem()
    fits = [make(3, init="random", random_state=seed, max_iter=30).fit(X, y) for seed in (0, 0, 1)]
    for model in fits:
        assert rises(model) <= 0
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)
    assert np.abs(fits[0].components_ - fits[2].components_).max() > 1e-3


def test_random_vectors_have_the_size_of_the_singular_ones(rng):
    X = rng.standard_normal((30, 6))
    held = offsets.RowsInMemory(X - X.mean(axis=0), np.ones(30), 10)
    found = offsets.start_directions(held, 6, 3, np.random.RandomState(0))
    weights = {"b": 0.5, "lu": 0.1, "lv": 0.2}
    (drawn,) = offsets.start_bases(found, **weights, drawn=True)
    singular = offsets.start_bases(found, **weights)[1]
    sizes = (drawn**2).sum(axis=1)
    np.testing.assert_allclose(sizes, (singular**2).sum(axis=1).mean())
