"""A target of numbers, as a user has it: a table with gaps in, predictions, a model and a report out."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelfold.app.commands._cli import main
from labelfold.app.compare._data import read_data, read_target_labels
from labelfold.app.compare._runner import make_plan
from labelfold.app.io import load_model
from labelfold.app.registry._methods import ranked_methods
from labelfold.app.report import compare


def run(capsys, command, status=0):
    """Run a command; return what it says on the two streams."""
    code = main(command.split())
    out, err = capsys.readouterr()
    assert code == status, err
    assert "Traceback" not in out + err
    return out, err


def a_table(n=240, labelled=80):
    """Return columns in several units, a number that bends with them, and which rows keep it."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.standard_normal((n, 5)) * [1, 10, 100, 1, 1], columns=list("abcde"))
    y = 20 + 3 * X["a"] + 0.2 * X["b"] + 2 * np.tanh(2 * X["d"]) + rng.standard_normal(n)
    kept = np.zeros(n, dtype=bool)
    kept[rng.permutation(n)[:labelled]] = True
    return X, y.to_numpy(), kept


def ridge_r2(X, y, kept):
    model = make_pipeline(StandardScaler(), Ridge()).fit(X[kept], y[kept])
    return r2_score(y[~kept], model.predict(X[~kept]))


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """One comparison on the command line, and what it was run on."""
    folder = tmp_path_factory.mktemp("numbers")
    X, y, kept = a_table()
    frame = X.assign(rent=np.where(kept, y, np.nan), name=[f"flat {i}" for i in range(len(X))])
    frame.to_csv(folder / "flats.csv", index=False)
    options = f"--id name -m labelfold,ridge,pcals -b 20 -r 2 --save -o {folder}/out"
    command = f"compare {folder}/flats.csv -t rent {options}"
    assert main(command.split()) == 0
    return folder, X, y, kept


def test_hidden_numbers_are_predicted_about_as_well_as_by_ridge_or_better(compared):
    folder, X, y, kept = compared
    said = pd.read_csv(folder / "out" / "predictions.csv")
    assert said.columns.tolist() == ["name", "label", "predicted", "low", "high"]
    np.testing.assert_allclose(said["label"], np.where(kept, y, np.nan))
    assert r2_score(y[~kept], said["predicted"][~kept]) > ridge_r2(X, y, kept) - 0.01


def test_what_is_promised_holds_on_hidden_rows(compared):
    folder, _, y, kept = compared
    said = pd.read_csv(folder / "out" / "predictions.csv")
    answer = json.loads((folder / "out" / "answer.json").read_text())
    assert answer["metric"] == "R²"
    assert answer["n_rows"] == kept.sum()
    assert answer["low"] < r2_score(y[~kept], said["predicted"][~kept]) < answer["high"] <= 1
    assert f"R² of {answer['expected']:.2f} on new rows" in answer["answer"]
    inside = said["low"].le(y) & said["high"].ge(y)
    np.testing.assert_allclose((said["high"] - said["low"]) / 2, answer["within"])
    # the distance is itself estimated from 80 rows: 0.82 is its coverage's 1% quantile (a beta distribution)
    assert binom.ppf(0.01, (~kept).sum(), 0.82) <= inside[~kept].sum() < (~kept).sum()


def test_the_report_speaks_of_numbers(compared):
    page = (compared[0] / "out" / "report.html").read_text()
    body = re.search(r"<main.*?</main>", page, re.DOTALL)[0]
    data = json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    figures = data["figures"]
    shown = re.sub(r"<[^>]+>", " ", body.split("<dl>")[0].partition("Views that were blended")[0])
    assert not re.search(r"\bclass(es)?\b|confidence|%(?! interval)", shown)
    assert "R² is the share of the target" in shown
    assert "What was predicted for rows held out" in shown
    line, points = figures["plot-held-out"]["data"]
    assert len(points["x"]) == compared[3].sum()
    assert line["x"] == line["y"]
    both, label, said, off = data["map"]["methods"][0]["channels"]
    assert [c["name"] for c in (label, said)] == ["label", "prediction"]
    assert both["low"] == label["low"] == said["low"] < both["high"]
    assert off["low"] == -off["high"]
    assert figures["plot-budgets"]["layout"]["yaxis"]["tickformat"] != ".0%"


def test_the_saved_model_predicts_the_same(compared, tmp_path, monkeypatch, capsys):
    folder, X, _, _ = compared
    monkeypatch.chdir(tmp_path)
    said = pd.read_csv(folder / "out" / "predictions.csv")
    model = folder / "out" / "model.skops"
    np.testing.assert_allclose(load_model(model).predict(X), said["predicted"])
    run(capsys, f"predict {model} {folder}/flats.csv --id name -o again.csv")
    pd.testing.assert_frame_equal(pd.read_csv("again.csv"), said.drop(columns="label"))
    run(capsys, f"transform {model} {folder}/flats.csv --id name --predict -o places.csv")
    np.testing.assert_allclose(pd.read_csv("places.csv")["predicted"], said["predicted"])
    told, _ = run(capsys, f"inspect {model}")
    assert re.search(r"numbers +\d+\.\d+ to \d+\.\d+ in the labelled rows", told)
    assert "nine of ten new rows within" in told


@pytest.mark.parametrize("method", ["labelfold", "ridge"])
def test_fit_reads_whole_numbers_as_numbers_and_says_so(tmp_path, monkeypatch, capsys, method):
    monkeypatch.chdir(tmp_path)
    X, y = load_diabetes(return_X_y=True, scaled=False, as_frame=True)
    kept = np.zeros(len(y), dtype=bool)
    kept[np.random.default_rng(0).permutation(len(y))[:150]] = True
    X.assign(progression=y.where(kept)).to_csv("d.csv", index=False)
    out, _ = run(capsys, f"fit d.csv -t progression -m {method} -o model")
    assert (
        "different whole numbers in 150 labelled rows and was read as numbers; --task classification" in out
    )
    assert re.search(r"Expect an R² of 0\.\d\d on new rows \(90% interval .* from 150 labelled rows\)", out)
    run(capsys, "predict model d.csv -o said.csv")
    said = pd.read_csv("said.csv")
    assert r2_score(y[~kept], said["predicted"][~kept]) > ridge_r2(X, y, kept) - 0.05
    inside = (said["low"].le(y) & said["high"].ge(y))[~kept]
    assert inside.mean() == pytest.approx(0.9, abs=3 * np.sqrt(0.09 / 150 + 0.09 / inside.size))


WRONG = {
    "constant": (np.full(40, 2.5), "", "one value only, 2.5"),
    "infinite": ([*np.linspace(0, 1.3, 39), np.inf], "", "infinity"),
    "classes asked for": (
        np.linspace(0, 1.3, 40),
        "--task classification",
        "holds fractions such as 0.03333333333333333; cut it into classes, or give --task regression",
    ),
    "no such task": (
        np.linspace(0, 1.3, 40),
        "--task guess",
        "--task is 'auto', 'classification', 'regression'",
    ),
    "ids": (np.arange(40), "", "as a column of ids does; pass one with classes"),
    "text": ([f"flat {i}" for i in range(40)], "", "as a column of ids does; pass one with classes"),
    "numbers from text": (["a", "b"] * 20, "--task regression", "convert it to float64"),
    "a method for classes": (
        np.linspace(0, 1.3, 40),
        "-m lda",
        "it takes classes, and y holds numbers; choose",
    ),
    "a method for numbers": (["a", "b"] * 20, "-m ridge", "it takes numbers, and y holds classes; choose"),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("command", ["compare t.csv -t y", "fit t.csv -t y -o m"])
def test_what_cannot_be_done_is_one_sentence(tmp_path, monkeypatch, capsys, command, what):
    monkeypatch.chdir(tmp_path)
    y, options, words = WRONG[what]
    pd.DataFrame({"a": np.random.default_rng(0).standard_normal(40), "y": y}).to_csv("t.csv", index=False)
    out, err = run(capsys, f"{command} {options}".strip(), status=2)
    assert not out
    assert words in err
    assert err.count("\n") == 1
    if "choose among" in err:
        task = "regression" if "lda" in options else "classification"
        named = re.search(r"choose among (.*)\.", err)[1].split(", ")
        assert set(named) <= {
            m.name for m in ranked_methods() if m.available and m.why_not_task(task) is None
        }


def test_three_numbers_are_fitted_but_not_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((30, 2))
    y = np.where(np.arange(30) < 3, X[:, 0], np.nan)
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv("t.csv", index=False)
    _, err = run(capsys, "compare t.csv -t y", status=2)
    assert "a number in 3 rows only, so that too few can be held out" in err
    out, _ = run(capsys, "fit t.csv -t y -o m")
    assert "too few labels to estimate" in out
    run(capsys, "predict m t.csv -o said.csv --drop y")
    assert pd.read_csv("said.csv").columns.tolist() == ["predicted"]


def test_minus_one_is_a_number_among_numbers_and_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((30, 2))
    y = np.where(np.arange(30) < 4, -1, X[:, 0])
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv("t.csv", index=False)
    out, err = run(capsys, "fit t.csv -t y -m ridge -o m")
    assert "30 rows labelled with numbers" in out
    assert "4 rows with -1: taken as a number; --label-free -1" in err
    assert "26 rows labelled with numbers" in run(capsys, "fit t.csv -t y --ridge 1 --label-free -1 -o m")[0]


@pytest.mark.parametrize(
    ("y", "task", "doubted"),
    [
        (np.arange(60) % 21 / 2, "regression", False),
        (np.arange(60) % 20, "multiclass", False),  # twenty different ones are classes
        (np.arange(60) % 40 + 25, "regression", True),
        (np.arange(60) % 40, "multiclass", True),  # as codes of classes count
        (np.where(np.arange(60) < 30, 7 * np.arange(60) % 101 + 2, -1), "regression", True),
        ([f"k{i % 40}" for i in range(60)], "multiclass", False),
    ],
)
def test_when_a_target_is_numbers(y, task, doubted):
    labels, notes = read_target_labels(y)
    assert labels.task == task
    assert bool(notes) == doubted
    assert labels.n_labelled == np.sum(np.asarray(y) != -1)


def test_the_unit_of_the_numbers_does_not_matter():
    """Folds, choice and expectation of y and of a y + b are the same; a wide range decides nothing."""
    X, y, kept = a_table(80, 40)
    first, second = (
        compare(X, np.where(kept, t, np.nan), ["ridge", "pcals"], repeats=1, progress=False)
        for t in (y, 1e6 * y - 3e9)
    )
    scores = [found.results.set_index("method")["score"].sort_index() for found in (first, second)]
    np.testing.assert_allclose(*scores, atol=1e-4)
    assert second.choice.within == pytest.approx(1e6 * first.choice.within, rel=1e-3)
    assert first.choice.chosen == second.choice.chosen


def test_rows_to_label_next_are_far_from_the_labelled_ones():
    X, y, kept = a_table(80, 40)
    X.iloc[5] = 1000.0
    kept[5] = False
    found = compare(X, np.where(kept, y, np.nan), ["ridge"], repeats=1, progress=False)
    rows = found.review.next_rows
    assert rows[0] == 5
    assert not kept[rows].any()
    assert len(set(rows)) == len(rows) == 20


def test_with_many_labels_quick_methods_come_before_labelfold():
    X = np.random.default_rng(0).standard_normal((1001, 2))
    few = np.where(np.arange(1001) < 1000, X[:, 0], np.nan)
    first = [make_plan(read_data(X, y), None, None, None, 0.3).runs[0].method.name for y in (few, X[:, 0])]
    assert first == ["labelfold", "ridge"]


def test_one_column_of_numbers_at_a_time(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((30, 3)), columns=list("abc"))
    X.to_csv("t.csv", index=False)
    _, err = run(capsys, "fit t.csv -t a -t b -o m", status=2)
    assert "The target of t.csv has 2 columns of numbers, and one is predicted at a time" in err
    with pytest.raises(ValueError, match="y has 2 columns of numbers, and one is predicted at a time"):
        compare(X, X[["a", "b"]], progress=False)
