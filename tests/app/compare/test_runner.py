"""The comparison: paired, seeded, resumable, honest about failures, interruptions and what is left out."""

import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris
from sklearn.dummy import DummyClassifier

from labelfold.app.compare._data import image_sides, outweighing, read_data
from labelfold.app.compare._held_out import fold_splits
from labelfold.app.compare._runner import make_plan
from labelfold.app.compare._store import COLUMNS, Clock, ProgressBar, Store, TimeUp
from labelfold.app.registry._adapters import OnLabelledRows
from labelfold.app.registry._methods import get_method
from labelfold.app.report import compare

pytestmark = pytest.mark.usefixtures("quick_tuning")
QUICK = {"budgets": [6, 30], "components": 2, "repeats": 3, "time_limit": 600.0, "progress": False}


@pytest.fixture(scope="module")
def data():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def found(data):
    return compare(*data, ["lda", "pca-svm", "svm"], **QUICK)


def scripted(name, build, **changes):
    """A method of the registry under another name, with another estimator in it."""
    return replace(get_method("svm"), name=name, title=name, build=build, **changes)


def doing(action):
    """A classifier that does something when fitted."""

    class Doing(DummyClassifier):
        def fit(self, X, y):
            action()
            return super().fit(X, y)

    return lambda k, X, random_state: OnLabelledRows(Doing())


def test_results_are_one_row_a_run(found):
    runs = found.results.groupby(["budget", "method"]).size()
    assert (runs[[6, 30]] == 3).all()
    assert runs[150].max() == 3  # what is surely behind has fewer
    assert found.results["error"].isna().all()
    assert found.results["score"].between(0, 1).all()
    lda = found.results[found.results["method"] == "lda"]
    assert set(lda["components"]) == {2}
    assert set(lda["embedding_size"]) == {150 * 2 * 8}
    assert found.results.loc[found.results["method"] == "svm", "components"].isna().all()
    assert (found.results["fit_seconds"] > 0).all()


def test_the_table_is_the_mean_of_the_results(found):
    asked = [
        "method",
        "components",
        "budget",
        "mean",
        "spread",
        "fit_seconds",
        "transform_seconds",
        "embedding_size",
    ]
    assert list(found.table.columns[:8]) == asked
    for _, row in found.table.iterrows():
        runs = found.results.query("method == @row.method and budget == @row.budget")["score"]
        assert row["mean"] == pytest.approx(runs.mean())
        assert row["spread"] == pytest.approx(runs.std(ddof=1))
        assert row["runs"] == len(runs)


def test_differences_are_paired_with_the_best(found):
    for budget, rows in found.table.groupby("budget"):
        best = rows.loc[rows["mean"].idxmax()]
        assert best["behind"] == 0
        at = found.results[found.results["budget"] == budget].pivot(
            index="repeat", columns="method", values="score"
        )
        for _, row in rows.iterrows():
            gap = at[best["method"]] - at[row["method"]]
            assert row["behind"] == pytest.approx(gap.mean())
            assert row["behind_spread"] == pytest.approx(gap.std(ddof=1))


def test_the_same_seed_gives_the_same_results(data, found):
    again = compare(*data, ["lda", "svm"], **(QUICK | {"repeats": 2}))
    same = found.results[found.results["method"] != "pca-svm"]
    assert same.query("repeat < 2")["score"].tolist() == again.results["score"].tolist()
    other = compare(*data, ["svm"], **QUICK, random_state=1)
    assert other.results["score"].tolist() != same.loc[same["method"] == "svm", "score"].tolist()


def test_a_method_that_fails_costs_its_own_rows(data):
    def broken(k, X, random_state):
        raise RuntimeError("the wheel\ncame off")

    found = compare(*data, [scripted("broken", broken), "svm"], **QUICK)
    failed = found.results[found.results["method"] == "broken"]
    assert set(failed["error"]) == {"RuntimeError: the wheel came off"}
    assert failed["score"].isna().all()
    assert found.best_ == "svm"
    assert found.table.query("method == 'broken'")["error"].notna().all()
    assert found.answer.startswith("SVM on all 4 columns: expect ")
    assert list(found.out_of_fold) == ["SVM"]


def test_a_method_that_fails_now_and_then_is_no_yardstick(data):
    calls = iter(range(1000))

    def sometimes():
        if next(calls) % 3 == 2:
            raise ValueError("not today")

    found = compare(
        *data, [scripted("flaky", doing(sometimes)), scripted("steady", doing(lambda: None))], **QUICK
    )
    steady = found.table[found.table["method"] == "steady"]
    assert (steady["runs"] == 3).all()
    assert (steady["behind"] == 0).all()


def test_all_failing_is_said(data):
    def broken(k, X, random_state):
        raise RuntimeError("no")

    found = compare(*data, [scripted("broken", broken)], **QUICK)
    assert found.best_ is None
    assert found.best_size_ is None
    assert found.answer.startswith("No method could be fitted")
    with pytest.raises(ValueError, match="none to fit again"):
        found.refit()


@pytest.mark.parametrize("after", [1, 4, 7])
def test_ctrl_c_gives_what_there_is(data, after):
    """A result over all labels takes five fits, one a fold; three of them, then one fit a result of the curve."""
    fits = []

    def impatient():
        fits.append(1)
        if len(fits) > 1 + 5 * min(after, 3) + max(after - 3, 0):  # one fit is the warm-up
            raise KeyboardInterrupt

    found = compare(*data, [scripted("slow", doing(impatient))], **QUICK)
    assert found.interrupted
    assert len(found.results) == after
    assert "stopped early by Ctrl-C: this is what" in " ".join(found.details)


def test_ctrl_c_before_the_first_result_is_ctrl_c(data):
    def impatient():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(*data, [scripted("slow", doing(impatient))], **QUICK)


def test_all_labels_come_first_and_then_the_curve(data, tmp_path):
    compare(*data, ["lda"], **QUICK, folder=tmp_path)
    rows = pd.read_csv(tmp_path / "results.csv")
    assert rows["budget"].tolist() == [150] * 3 + [30, 6] * 3
    assert rows["repeat"].tolist() == [0, 1, 2, 0, 0, 1, 1, 2, 2]


def test_the_time_limit_ends_a_run_in_its_midst(data, monkeypatch):
    """A sleep of a minute in the second fit, after the warm-up, is cut after its share of the limit."""
    monkeypatch.setattr(Clock, "shared", lambda limit, n_methods: Clock(limit))
    began, left = time.perf_counter(), iter([0, 60])
    methods = [scripted("asleep", doing(lambda: time.sleep(next(left)))), "lda"]
    found = compare(*data, methods, **(QUICK | {"time_limit": 20.0}))
    assert time.perf_counter() - began < 18
    assert found.best_ == "lda"
    assert found.stopped is None
    assert len(found.results) == 9
    assert "longer than 3 s of the time limit" in found.left_out["asleep"]


def test_no_run_within_its_share_is_said(data):
    naps = iter([0, 60] * 2)
    methods = [scripted(name, doing(lambda: time.sleep(next(naps)))) for name in ("asleep", "slow")]
    with pytest.raises(ValueError, match="No run ended within its share of the time limit of 3 s; give more"):
        compare(*data, methods, **(QUICK | {"time_limit": 3.0}))


def test_an_alarm_waits_for_the_compiler():
    """Raised inside the compiler, the exception would be printed and the work lost."""
    import numba

    done = []

    def compile_on_and_on():
        while True:  # the alarm rings between two compilations
            done.append(numba.njit(lambda x: x + 1)(41))
            time.sleep(0.02)

    with pytest.raises(TimeUp), Clock(1.0).turn(1.0):
        compile_on_and_on()
    assert set(done) == {42}


def test_what_is_surely_behind_is_not_run_again(data):
    found = compare(*data, [scripted("guess", doing(lambda: None)), "lda"], repeats=4, progress=False)
    runs = found.results.groupby("method").size()
    assert runs["guess"] == 1
    assert runs["lda"] == 4
    assert found.choice.equal == ["LDA"]


def test_a_first_answer_is_told(data):
    said = []
    compare(*data, ["lda"], repeats=2, progress=False, tell=said.append)
    assert len(said) == 1
    assert said[0].startswith("First answer: LDA, about 9")


def test_the_time_limit_ends_everything(data):
    began = time.perf_counter()
    slow = scripted("slow", doing(lambda: time.sleep(0.1)))
    found = compare(*data, [slow], repeats=50, progress=False, time_limit=5.0)
    assert time.perf_counter() - began < 10
    assert found.stopped == "time limit"
    assert 1 <= len(found.results) <= 10
    assert "by the time limit" in " ".join(found.details)
    with pytest.raises(ValueError, match="before the first result"):
        compare(*data, [scripted("slow", doing(lambda: time.sleep(9)))], **(QUICK | {"time_limit": 0.3}))


def test_labelfold_has_its_first_run_whatever_the_limit(data):
    slow = scripted("slow", doing(lambda: time.sleep(0.2)))
    found = compare(*data, ["labelfold", slow], progress=False, time_limit=0.01)
    assert found.stopped == "time limit"
    assert found.results[["method", "repeat"]].values.tolist() == [["labelfold", 0]]
    assert found.best_ == "labelfold"


def test_a_turn_gives_the_signal_back(data):
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeUp), Clock(0.5).turn():
        time.sleep(5)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_time_left_is_that_of_the_runs_left():
    bar = ProgressBar(["slow", "quick", "slow", "quick", "new"], False, Clock(None))
    bar._took = {"slow": [10.0], "quick": [1.0]}
    bar._left.subtract(["slow", "quick"])
    assert bar.seconds_left() == pytest.approx(10 + 1 + 5.5)
    short = ProgressBar(["slow"], False, Clock(3.0))
    short._took = {"slow": [10.0]}
    assert short.seconds_left() <= 3.0


def test_hidden_labels_and_held_out_rows_stay_hidden(data):
    """What the methods are given: the rows of the split, and no label beyond the budget."""
    X, y = data
    X = np.column_stack([X, np.arange(len(X))])  # the last column names the row
    seen = []

    class Recorder(OnLabelledRows):
        def fit(self, X, y):
            seen.append((np.asarray(X)[:, -1].astype(int), np.asarray(y)))
            return super().fit(X, y)

    y = y.astype(float)
    y[::5] = np.nan
    spy = scripted("spy", lambda k, X, random_state: Recorder(DummyClassifier()))
    compare(X, y, [spy], **QUICK, scale=False)
    folds, runs = seen[1:16], seen[16:]  # the first is the warm-up
    assert len(runs) == 6
    for rows, labels in folds:
        np.testing.assert_array_equal(rows, np.arange(150))
        shown = labels >= 0
        np.testing.assert_array_equal(labels[shown], y[shown])
        assert shown.sum() == 120 - 24
    for (rows, labels), budget in zip(runs, [30, 6] * 3, strict=True):
        assert np.sum(labels >= 0) == budget
        assert set(np.flatnonzero(np.isnan(y))) <= set(rows)
        assert (labels[np.isnan(y[rows])] == -1).all()
        np.testing.assert_array_equal(labels[labels >= 0], y[rows][labels >= 0])
        assert len(rows) < len(X)


def test_warnings_become_notes(data, recwarn):
    loud = scripted("loud", doing(lambda: warnings.warn("the wheel is loose", stacklevel=2)))
    found = compare(*data, [loud], **QUICK)
    assert len(found.results) > 0
    assert found.results["note"].str.contains("the wheel is loose").all()
    assert not [w for w in recwarn if "wheel" in str(w.message)]


def test_sizes_a_method_cannot_give_are_not_asked_for(data):
    found = compare(*data, ["lda", "pca-svm"], components=[1, 2, 3], repeats=1, progress=False)
    sizes = found.results.groupby("method")["k"].apply(list)
    assert sizes["lda"] == [1, 2]
    assert sizes["pca-svm"] == [1, 2, 3]
    assert found.results["note"].isna().all()


@pytest.mark.parametrize(("n_labels", "folds"), [(39, 10), (40, 5)])
def test_few_labels_are_compared_by_more_folds(data, n_labels, folds):
    X, y = data[0], np.full(150, np.nan)
    known = np.linspace(0, 149, n_labels).astype(int)
    y[known] = data[1][known]
    fits = []

    class Counted(OnLabelledRows):
        def fit(self, X, y):
            fits.append(np.sum(y >= 0))
            return super().fit(X, y)

    method = scripted("counted", lambda k, X, random_state: Counted(DummyClassifier()))
    compare(X, y, [method], components=2, repeats=1, progress=False)
    in_folds = fits[1:]  # the first is the warm-up
    assert len(in_folds) == folds
    assert sum(n_labels - n for n in in_folds) == n_labels  # each label is hidden once


@pytest.fixture
def two_folds(monkeypatch):
    """Where every method runs, two folds show as much as five."""
    monkeypatch.setattr("labelfold.app.compare._held_out._FOLDS", 2)
    monkeypatch.setattr("labelfold.app.compare._held_out._MORE_FOLDS", 2)


def test_what_suits_is_run_and_what_does_not_is_said(data, two_folds):
    X, y = data[0][::5], data[1][::5]
    found = compare(X - X.mean(axis=0), y, components=2, repeats=1, time_limit=600, progress=False)
    assert {"lda", "opls", "ssdr", "drsvm", "pca-svm", "svm", "label-spreading", "sklearn-lda"} <= set(
        found.methods
    )
    assert found.left_out["NMF + SVM"] == "it takes no negative numbers, and X has some"
    assert "LDA" in found.left_out["CCA"]
    assert found.results["error"].isna().all()


@pytest.mark.slow
def test_what_suits_sparse_rows_is_run(data, two_folds):
    X, y = data[0][::3], data[1][::3]
    sparse = compare(sp.csr_matrix(X), y, components=2, repeats=1, time_limit=600, progress=False)
    assert "dense" in sparse.left_out["scikit-learn LDA"]
    assert "nmf-svm" in sparse.methods
    assert sparse.results["error"].isna().all()


@pytest.mark.slow
def test_several_labels_a_row(data, two_folds):
    X, y = data
    Y = pd.DataFrame({"big": X[:, 2] > 4, "wide": X[:, 1] > 3, "first": y == 0}).astype(float)
    Y.iloc[::4] = np.nan
    found = compare(X, Y, components=2, repeats=1, time_limit=600, progress=False)
    assert {"cca", "opls", "hsl", "drsvm", "svm", "pca-svm", "nmf-svm"} <= set(found.methods)
    assert "several labels a row" in found.left_out["LDA"]
    assert found.results["error"].isna().all()
    assert found.settings["metric"] == "F1 over all labels"
    assert "% F1 on new rows" in found.answer
    scored = found.results.set_index("method")["score"]
    assert {m: found.out_of_fold[found.methods[m].title].score for m in scored.index} == pytest.approx(
        scored.to_dict()
    )
    assert found.refit().predict(X).shape == (150, 3)
    told = found.review.left_out
    assert told.guess.shape == found.data.truth.shape
    assert 0.5 < told.right(found.data.truth).mean() <= 1
    assert len(found.review.next_rows) == 20


def test_refit_speaks_of_the_users_classes(data):
    X, y = data
    names = np.array(["no", "perhaps", "yes"], dtype=object)[y]
    names[::3] = None
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    found = compare(frame, names, ["lda", "svm"], **QUICK)
    model = found.refit()
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert found.best_ == "lda"
    assert model.transform(frame).shape == (150, found.best_size_)
    assert not hasattr(found.refit("svm"), "transform")
    assert found.refit("lda", components=1).transform(frame).shape == (150, 1)
    with pytest.raises(ValueError, match="'opls' was not compared"):
        found.refit("opls")


@pytest.mark.filterwarnings("ignore:The only values of y are -1")
def test_minus_one_may_be_a_class(data):
    X, y = data
    for two, mark in ((np.where(y == 0, -1, 1), -1), (np.where(y == 0, -1, y), None)):
        found = compare(X, two, ["lda"], unlabeled=mark, **QUICK)
        assert set(found.refit().predict(X)) == set(two)


def interrupted_after(folder, data, runs, methods=("lda", "sklearn-lda")):
    """Write the results of a run that was killed after some rows, in the middle of the next."""
    compare(*data, list(methods), **QUICK, folder=folder)
    path = folder / "results.csv"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: runs + 1]) + lines[runs + 1][:9])
    return lines


def test_a_killed_run_goes_on_where_it_was(data, tmp_path):
    before = interrupted_after(tmp_path, data, 5)
    found = compare(*data, ["lda", "sklearn-lda"], **QUICK, folder=tmp_path)
    after = (tmp_path / "results.csv").read_bytes().splitlines(keepends=True)
    assert after[:6] == before[:6]  # seconds and all: not made again
    assert len(after) == len(before) == 19
    keep = ["method", "budget", "repeat", "score"]
    whole = compare(*data, ["lda", "sklearn-lda"], **QUICK)
    pd.testing.assert_frame_equal(found.results[keep], whole.results[keep])
    assert "5 results of an earlier run were reused" in " ".join(found.details)


@pytest.mark.slow
def test_more_of_the_same_takes_over_what_is_there(data, tmp_path):
    compare(*data, ["lda"], **QUICK, folder=tmp_path)
    more = compare(
        *data, ["svm", "lda"], budgets=[6, 30, 60], components=2, repeats=4, progress=False, folder=tmp_path
    )
    assert len(more.results) == len(pd.read_csv(tmp_path / "results.csv"))
    assert "9 results were there" in " ".join(more.notes)
    fewer = compare(*data, ["lda"], **(QUICK | {"repeats": 1}), folder=tmp_path)
    assert len(fewer.results) == 3
    assert len(pd.read_csv(tmp_path / "results.csv")) == len(more.results)


@pytest.mark.parametrize(
    "change",
    ["data", "damaged", *(pytest.param(c, marks=pytest.mark.slow) for c in ("seed", "labels", "scale"))],
)
def test_results_of_something_else_are_put_aside(data, tmp_path, change):
    X, y = data
    compare(X, y, ["lda"], **QUICK, folder=tmp_path)
    before = (tmp_path / "results.csv").read_bytes()
    options = {"random_state": 1} if change == "seed" else {"scale": True} if change == "scale" else {}
    if change == "damaged":
        (tmp_path / "run.json").write_text("{")
    other = compare(
        X * 2 if change == "data" else X,
        np.where(np.arange(150) == 0, -1, y) if change == "labels" else y,
        ["lda"],
        **QUICK,
        **options,
        folder=tmp_path,
    )
    assert (tmp_path / "results.previous.csv").read_bytes() == before
    assert "results.previous.csv" in " ".join(other.notes)
    assert len(pd.read_csv(tmp_path / "results.csv")) == 9


def test_rows_survive_the_way_to_disk_and_back(tmp_path):
    store = Store(tmp_path, "f")
    row = {"method": "a", "k": 2, "budget": 6, "repeat": 0, "score": 0.1 + 0.2, "note": 'says "hi", twice'}
    store.add(row)
    store.add({"method": "b", "k": None, "budget": 6, "repeat": 0, "error": "ValueError: no, <b>"})
    store.close()
    again = Store(tmp_path, "f")
    assert again.rows[0] == dict.fromkeys(COLUMNS) | row
    assert again.has("b", None, 6, 0)
    assert not again.has("b", 2, 6, 0)
    again.close()


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")
def test_kill_minus_nine(tmp_path):
    """The real thing: killed without a chance to tidy up, and started again."""
    methods = ["sklearn-lda", "label-spreading"]
    settings = {"budgets": [20, 50], "components": [2, 5], "repeats": 2, "progress": False}
    code = (
        "import time\n"
        "from sklearn.datasets import load_digits\n"
        "from labelfold import compare\n"
        "from labelfold.app.compare._store import Store\n"
        "X, y = load_digits(return_X_y=True)\n"
        "add = Store.add\n"
        "Store.add = lambda store, row: (add(store, row), time.sleep(0.05))\n"  # so that it is caught in the midst
        f"compare(X[:200], y[:200], {methods}, **{settings}, folder={str(tmp_path)!r})\n"
    )
    results = tmp_path / "results.csv"
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if results.exists() and results.read_bytes().count(b"\n") > 4:
            break
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    before = results.read_bytes()
    before = before[: before.rfind(b"\n") + 1]
    X, y = (part[:200] for part in load_digits(return_X_y=True))
    found = compare(X, y, methods, folder=tmp_path, **settings)
    assert results.read_bytes().startswith(before)
    whole = compare(X, y, methods, **settings)
    keep = ["method", "k", "budget", "repeat", "score", "predicted"]
    pd.testing.assert_frame_equal(found.results[keep], whole.results[keep])


def test_defaults_are_sizes_that_make_sense(data):
    X, y = data
    plan = make_plan(read_data(X, y), ["lda", "pca-svm", "svm"], None, None, 0.3)
    assert [run.k for run in plan.runs] == [2, 3, None]
    assert plan.budgets == []
    X, y = load_digits(return_X_y=True)
    plan = make_plan(read_data(X, y), ["lda", "pca-svm", "svm"], None, None, 0.3)
    assert [run.k for run in plan.runs] == [9, 20, None]


@pytest.mark.parametrize(
    ("names", "d", "expected"),
    [
        ([f"pixel_{i}_{j}" for i in range(8) for j in range(8)], 64, (8, 8)),
        ([f"pixel{i + 1}" for i in range(49)], 49, (7, 7)),
        ([f"px {i}x{j}" for i in range(2) for j in range(5)], 10, (2, 5)),
        ([f"pixel{i}" for i in range(50)], 50, None),
        ([f"pixel_{j}_{i}" for i in range(2) for j in range(5)], 10, None),  # not in order
        ([f"gene{i}" for i in range(49)], 49, None),
        (None, 49, None),
    ],
)
def test_columns_that_are_pixels(names, d, expected):

    X = np.random.default_rng(0).random((6, d))
    data = read_data(X if names is None else pd.DataFrame(X, columns=names), [0, 1] * 3)
    assert image_sides(data.X.shape[1], data.names, None) == expected
    with pytest.raises(ValueError, match="pixels, and X has"):
        image_sides(data.X.shape[1], data.names, (3, 7))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"methods": ["nope"]}, "no method 'nope'"),
        ({"methods": []}, "no method to compare"),
        ({"components": 0}, "at least 1"),
        ({"components": 5}, "larger than X, which has 4 columns"),
        ({"repeats": 0}, "at least 1"),
        ({"budgets": [2]}, "budget of 2"),
        ({"budgets": [200]}, "budget of 200 labels is outside 3 to 105"),
        ({"budgets": [5.5]}, r"budgets are whole numbers, such as \[10, 50\], not \[5.5\]"),
        ({"components": "two"}, "components are whole numbers"),
        ({"time_limit": 0}, "seconds above 0"),
        ({"test_size": 1.0}, "between 0 and 1"),
        ({"ids": ["a"]}, "1 ids for 150 rows"),
    ],
)
def test_requests_that_cannot_be_met(data, options, words):
    with pytest.raises(ValueError, match=words):
        compare(*data, **({"progress": False} | options))


def test_one_method_budget_or_size_needs_no_list(data):
    found = compare(*data, "lda", 30, 2, repeats=1, progress=False)
    assert found.table[["method", "budget", "components"]].values.tolist() == [
        ["lda", 30, 2],
        ["lda", 150, 2],
    ]


def test_targets_that_cannot_be_compared(data):
    X, y = data
    with pytest.raises(ValueError, match="one class"):
        compare(X, np.zeros(len(y), dtype=int), progress=False)
    with pytest.raises(ValueError, match="no labelled row"):
        compare(X, np.full(len(y), np.nan), progress=False)
    with pytest.raises(
        ValueError, match=r"a different label in each of its 150 labelled rows \('0', '1', ...\), as"
    ):
        compare(X, np.arange(150), progress=False)
    with pytest.raises(ValueError, match="more than one column named 'a'"):
        compare(pd.DataFrame(X, columns=list("abca")), y, progress=False)
    with pytest.raises(
        ValueError, match=r'continuous, since task is "classification".* pass task="regression"'
    ):
        compare(X, X[:, 0], task="classification", progress=False)


def test_all_labelled_and_constant_columns_are_said(data):
    X, y = data
    X = np.column_stack([X, np.ones(150), np.zeros(150)])
    found = compare(X, y, ["lda", "svm"], components=2, repeats=1, time_limit=600, progress=False)
    said = " ".join(found.details)
    assert "Every row has a label, so this is supervised" in said
    assert "2 columns hold one value only and cannot help: '4', '5'." in said
    assert found.results["error"].isna().all()
    sparse = compare(sp.csr_array(X), y, ["svm"], repeats=1, progress=False)
    assert "2 columns hold one value only" in " ".join(sparse.details)


def test_scale_is_checked(data):
    with pytest.raises(ValueError, match="scale='yes' was given, where 'auto', True or False"):
        compare(*data, ["svm"], **QUICK, scale="yes")


def test_a_column_that_outweighs_the_others_is_said(data):
    X, y = data
    wide = X * [1, 1, 1, 1e4]
    for scale, said in ((False, True), (True, False)):
        found = compare(wide, y, ["svm"], repeats=1, scale=scale, progress=False)
        assert ("column 3 varies" in " ".join(found.details)) == said
    found = compare(wide, y, ["svm"], budgets=[30], repeats=1, progress=False)
    assert "The columns were brought to unit variance: column 3 varies" in " ".join(found.details)
    assert found.refit().named_steps["scale"].scale_ == pytest.approx(wide.std(axis=0))
    assert outweighing(read_data(X, y)) == []
    assert outweighing(read_data(np.zeros((4, 2)), [0, 1, 0, 1])) == []


def test_labelfold_takes_other_labels_of_the_same_rows(data):
    """The views are made once; the answer is that of a fit for each fold."""
    from labelfold import LabelFold

    X, y = data
    y = np.where(np.arange(150) % 3 == 0, y, -1)
    found = compare(X, y, ["labelfold", "pcals"], repeats=2, time_limit=600, progress=False)
    assert found.results["error"].isna().all()
    again = []
    for split in fold_splits(read_data(X, y), 2, 0):
        guess = np.full(150, -1)
        for part in split.parts:
            guess[part.test] = LabelFold(2, random_state=0).fit(X, part.y).predict(X[part.test])
        again.append(np.mean(guess[y >= 0] == y[y >= 0]))
    mine = found.results[found.results["method"] == "labelfold"]
    assert mine["score"].tolist() == pytest.approx(again)
    assert found.best_ == "labelfold"


def test_one_label_a_class_has_a_sentence(data):
    X, y = data
    y = np.where(np.isin(np.arange(150), [0, 50, 100]), y, -1)
    with pytest.raises(ValueError, match="one labelled row only, so that none can be held out"):
        compare(X, y, progress=False)


def test_what_labelfold_promises_is_its_leave_one_out(data):
    X, y = data
    y = np.where(np.arange(150) % 3 == 0, y, -1)
    found = compare(X, y, ["labelfold", "lda"], repeats=1, progress=False)
    model = found.refit()
    assert found.best_ == "labelfold"
    assert (found.choice.expected, (found.choice.low, found.choice.high)) == (
        model.loo_score_,
        model.loo_interval_,
    )
    assert found.choice.n_rows == 50


def test_images_of_columns_with_other_names_keep_their_pixels():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 16)), columns=[f"{i}x{j}" for i in range(4) for j in range(4)])
    X["0x0"] = 0.0
    y = rng.choice(["p", "q"], 40)
    assert read_data(X, y).X.shape[1] == 15
    assert read_data(X, y, images=True).X.shape[1] == 16
