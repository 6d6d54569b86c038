"""The comparison: paired, seeded, honest about failures and interruptions."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier

from labelfold.adapters import Labelled
from labelfold.comparison import Comparison, compare
from labelfold.methods import get_method

QUICK = {"budgets": [6, 30], "repeats": 3, "progress": False}


@pytest.fixture(scope="module")
def data():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def found(data):
    return compare(*data, ["lda", "pca-svm", "svm"], **QUICK)


def scripted(name, build, **changes):
    """A method of the registry under another name, with another estimator in it."""
    return replace(get_method("svm"), name=name, title=name, build=build, penalty=None, **changes)


def guessing(k, X, random_state):
    return Labelled(DummyClassifier())


def test_results_are_one_row_a_run(found):
    assert len(found.results) == 3 * 2 * 3
    assert found.results["error"].isna().all()
    assert found.results["accuracy"].between(0, 1).all()
    lda = found.results[found.results["method"] == "lda"]
    assert set(lda["components"]) == {2}
    assert found.results.loc[found.results["method"] == "svm", "components"].isna().all()
    assert (found.results["fit_seconds"] > 0).all()


def test_the_table_is_the_mean_of_the_results(found):
    for _, row in found.table.iterrows():
        runs = found.results.query("method == @row.method and budget == @row.budget")["accuracy"]
        assert row["mean"] == pytest.approx(runs.mean())
        assert row["spread"] == pytest.approx(runs.std(ddof=1))
        assert row["runs"] == 3


def test_differences_are_paired_with_the_best(found):
    for budget, rows in found.table.groupby("budget"):
        best = rows.loc[rows["mean"].idxmax()]
        assert best["behind"] == 0
        at = found.results[found.results["budget"] == budget].pivot(
            index="repeat", columns="method", values="accuracy"
        )
        for _, row in rows.iterrows():
            gap = at[best["method"]] - at[row["method"]]
            assert row["behind"] == pytest.approx(gap.mean())
            assert row["behind_spread"] == pytest.approx(gap.std(ddof=1))


def test_the_ranking_and_the_best(found):
    assert found.ranking["mean"].is_monotonic_decreasing
    assert found.best_ == found.ranking["method"].iloc[0]
    assert found.ranking["behind"].iloc[0] == 0
    title = found.methods[found.best_].title
    assert title in found.answer
    assert found.answer.endswith(".")


def test_the_same_seed_gives_the_same_results(data, found):
    again = compare(*data, ["lda", "svm"], **(QUICK | {"repeats": 2}))
    same = found.results[found.results["method"] != "pca-svm"]
    assert same.query("repeat < 2")["accuracy"].tolist() == again.results["accuracy"].tolist()
    other = compare(*data, ["svm"], **QUICK, random_state=1)
    assert other.results["accuracy"].tolist() != same.loc[same["method"] == "svm", "accuracy"].tolist()


def test_a_method_that_fails_costs_its_own_rows(data):
    def broken(k, X, random_state):
        raise RuntimeError("the wheel\ncame off")

    found = compare(*data, [scripted("broken", broken), "svm"], **QUICK)
    failed = found.results[found.results["method"] == "broken"]
    assert set(failed["error"]) == {"RuntimeError: the wheel came off"}
    assert failed["accuracy"].isna().all()
    assert found.best_ == "svm"
    assert found.table.query("method == 'broken'")["error"].notna().all()
    assert "nothing else ran" in found.answer


def test_a_method_that_fails_now_and_then_is_no_yardstick(data):
    calls = iter(range(1000))

    class Flaky(DummyClassifier):
        def fit(self, X, y):
            if next(calls) % 3 == 2:
                raise ValueError("not today")
            return super().fit(X, y)

    found = compare(
        *data, [scripted("flaky", lambda *a: Labelled(Flaky())), scripted("steady", guessing)], **QUICK
    )
    steady = found.table[found.table["method"] == "steady"]
    assert (steady["runs"] == 3).all()
    assert (steady["behind"] == 0).all()


def test_all_failing_is_said(data):
    def broken(k, X, random_state):
        raise RuntimeError("no")

    found = compare(*data, [scripted("broken", broken)], **QUICK)
    assert found.best_ is None
    assert found.answer.startswith("No method could be fitted")


@pytest.mark.parametrize("after", [1, 5])
def test_ctrl_c_gives_what_there_is(data, after):
    fits = []

    class Impatient(DummyClassifier):
        def fit(self, X, y):
            fits.append(1)
            if len(fits) > after + 1:  # one fit is the warm-up
                raise KeyboardInterrupt
            return super().fit(X, y)

    found = compare(*data, [scripted("slow", lambda *a: Labelled(Impatient()))], **QUICK)
    assert found.interrupted
    assert len(found.results) == after
    assert found.maps == []
    assert isinstance(found.answer, str)


def test_ctrl_c_before_the_first_result_is_ctrl_c(data):
    class Impatient(DummyClassifier):
        def fit(self, X, y):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(*data, [scripted("slow", lambda *a: Labelled(Impatient()))], **QUICK)


def test_hidden_labels_and_held_back_rows_stay_hidden(data):
    """What the methods are given: the rows of the split, and no label beyond the budget."""
    X, y = data
    X = np.column_stack([X, np.arange(len(X))])  # the last column names the row
    seen = []

    class Recorder(Labelled):
        def fit(self, X, y):
            seen.append((np.asarray(X)[:, -1].astype(int), np.asarray(y)))
            return super().fit(X, y)

    y = y.astype(float)
    y[::5] = np.nan
    found = compare(X, y, [scripted("spy", lambda *a: Recorder(DummyClassifier()))], **QUICK)
    runs = seen[1:]  # the first is the warm-up
    assert len(runs) == len(found.results)
    for (rows, labels), budget in zip(runs, found.results["budget"], strict=True):
        assert np.sum(labels >= 0) == budget
        assert set(np.flatnonzero(np.isnan(y))) <= set(rows)
        assert (labels[np.isnan(y[rows])] == -1).all()
        np.testing.assert_array_equal(labels[labels >= 0], y[rows][labels >= 0])
        assert len(rows) < len(X)


def test_warnings_become_notes(data, recwarn):
    found = compare(*data, ["lda"], budgets=[6], repeats=2, progress=False, n_components=[2, 7])
    notes = found.results.set_index("k")["note"]
    assert notes[2].isna().all()
    assert notes[7].str.contains("n_components").all()
    assert set(found.results["components"]) == {2}
    assert set(found.table["label"]) == {"LDA, k = 2", "LDA, k = 7"}
    assert not [w for w in recwarn if "n_components" in str(w.message)]


def test_maps_are_planes_with_hidden_rows_grey(found):
    assert [m.title for m in found.maps] == ["LDA", "PCA + SVM"]
    for shown in found.maps:
        assert shown.points.shape == (150, 2)
        assert not shown.flat
        assert (shown.code[shown.role == "unlabelled"] == -1).all()
        assert (shown.code[shown.role != "unlabelled"] >= 0).all()
        assert np.sum(shown.role == "labelled") == shown.budget


def test_two_classes_sparse_strings_and_gaps(data):
    X, y = data
    X, y = sp.csr_matrix(X[:100]), np.array(["no", "yes"], dtype=object)[y[:100]]
    y[::4] = None
    found = compare(X, y, budgets=[6], repeats=2, progress=False)
    assert found.results["error"].isna().all()
    lda = found.maps[0]
    assert lda.flat
    assert found.results.loc[found.results["method"] == "lda", "components"].eq(1).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"methods": ["nope"]}, "no method 'nope'"),
        ({"methods": []}, "no method to compare"),
        ({"n_components": 0}, "at least 1"),
        ({"repeats": 0}, "at least 1"),
        ({"budgets": [2]}, "budget of 2"),
    ],
)
def test_requests_that_cannot_be_met(data, options, words):
    with pytest.raises(ValueError, match=words):
        compare(*data, **({"progress": False} | options))


def test_targets_that_cannot_be_compared(data):
    X, y = data
    with pytest.raises(ValueError, match="one class"):
        compare(X, np.zeros(len(y), dtype=int), progress=False)
    with pytest.raises(ValueError, match="no labelled row"):
        compare(X, np.full(len(y), np.nan), progress=False)


def made_up(accuracies, budgets=(10,)):
    """A comparison with the accuracies given: {method: one list of repeats a budget}."""
    rows = [
        {"method": m, "k": None, "budget": b, "repeat": r, "accuracy": a}
        for m, lists in accuracies.items()
        for b, values in zip(budgets, lists, strict=True)
        for r, a in enumerate(values)
    ]
    settings = {"budgets": list(budgets), "n_components": [2], "n_columns": 9}
    return Comparison(rows, settings, {m: scripted(m, guessing) for m in accuracies})


def test_the_answer_is_no_stronger_than_the_runs():
    clear = made_up({"a": [[0.9, 0.8, 0.85]], "b": [[0.8, 0.7, 0.75]]})
    assert clear.answer == (
        "a on all 9 columns was the most accurate: 85.0% with 10 labels, 10.0 ± 0.0 points more than "
        "b on all 9 columns, and ahead in all 3 repeats."
    )
    tie = made_up({"a": [[0.9, 0.7, 0.9]], "b": [[0.8, 0.8, 0.8]]})
    assert "nearly tied" in tie.answer
    single = made_up({"a": [[0.9]], "b": [[0.8]]})
    assert "single draw" in single.answer
    level = made_up({"a": [[0.9]], "b": [[0.9]]})
    assert "nearly tied" in level.answer
    crossing = made_up({"a": [[0.6, 0.6], [0.95, 0.95]], "b": [[0.65, 0.65], [0.8, 0.8]]}, budgets=(10, 50))
    assert crossing.best_ == "a"
    assert "Not at every budget, though: b with 10 labels was ahead." in crossing.answer


def test_methods_for_fewer_rows_are_left_out_and_named(data, monkeypatch):
    X, y = data
    limits = {"quick": None, "slow": len(y) - 1, "fits": len(y)}
    usual = [scripted(name, guessing, most_rows=most) for name, most in limits.items()]
    monkeypatch.setattr("labelfold.comparison.runner.available_methods", lambda: usual)
    with pytest.warns(
        UserWarning, match=r"would take long and are left out: slow \(made for up to 1\d\d\); name"
    ):
        found = compare(X, y, budgets=[12], repeats=1, progress=False)
    assert sorted(set(found.results["method"])) == ["fits", "quick"]
    named = compare(X, y, [usual[1]], budgets=[12], repeats=1, progress=False)
    assert set(named.results["method"]) == {"slow"}
