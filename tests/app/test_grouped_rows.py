"""Rows that belong together, end to end: --group, exact copies, and columns that look like groups."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labelfold import LabelFold, compare, load
from labelfold.app.commands._cli import main
from labelfold.app.compare._data import read_data
from labelfold.app.compare._held_out import by_leave_one_out, fold_splits, other_estimates
from labelfold.app.io import read_table
from labelfold.app.registry._adapters import fit_grouped
from labelfold.app.registry._methods import get_method

pytestmark = pytest.mark.usefixtures("quick_comparisons")

EXPECTED = re.compile(
    r"xpect ([\d.]+)% right on new rows \(90% interval ([\d.]+)% to ([\d.]+)%, from ([^,)]+)"
)


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """Sixty patients of five visits, nine of them labelled, with labels that no column tells."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    patient = np.repeat(np.arange(60), 5)
    frame = pd.DataFrame(
        rng.normal(size=(60, 6))[patient] + 0.2 * rng.normal(size=(300, 6)), columns=list("abcdef")
    )
    truth = np.array(["ill", "well"])[np.r_[0, 1, 0, 1, 0, 1, 0, 1, 1, rng.integers(0, 2, 51)]]
    frame.insert(0, "patient", [f"P{i:03}" for i in patient])
    frame["state"] = np.where(patient < 9, truth[patient], None)
    frame.to_csv("visits.csv", index=False)
    return frame


def run(capsys, command, status=0):
    code = main(command.split())
    out, err = capsys.readouterr()
    assert code == status, err
    return out, err


def expected(out):
    share, low, high, rows = EXPECTED.search(out).groups()
    return float(share), float(low), float(high), rows


def test_a_group_is_held_out_together_and_not_learned_from(visits, capsys):
    out, _ = run(capsys, "fit visits.csv -t state --drop patient -o alone")
    assert expected(out)[0] > 95
    out, _ = run(capsys, "fit visits.csv -t state --group patient -o together")
    share, low, high, rows = expected(out)
    assert share < 90
    assert low < 50 < high
    assert rows == "45 labelled rows in 9 groups"
    assert "patient" not in load("together").feature_names_in_
    new = visits.drop(columns=["patient", "state"]).head(7)
    assert len(load("together").predict(new)) == 7
    # the option holds for methods that are cross-validated too
    out, _ = run(capsys, "fit visits.csv -t state --group patient -m logistic -o other")
    assert expected(out)[0] < 80
    assert expected(out)[3] == "45 labelled rows in 9 groups"


def test_compare_holds_groups_out_together(visits, capsys):
    out, _ = run(capsys, "compare visits.csv -t state -g patient -m labelfold,lda -r 1 -o report")
    share, low, high, rows = expected(out)
    assert share < 90
    assert low < 50 < high
    assert rows == "45 labelled rows in 9 groups"
    assert "not told a label of its group" in out
    assert json.loads(Path("report/answer.json").read_text())["n_groups"] == 9
    assert "9 groups" in Path("report/report.html").read_text()


def test_folds_of_a_comparison_keep_groups_whole(visits):
    groups = visits["patient"].to_numpy()
    data = read_data(visits.drop(columns=["patient", "state"]), visits["state"], groups=groups)
    for split in fold_splits(data, 3, 0):
        for part in split.parts:
            trained = part.train[part.y >= 0]
            assert not set(groups[part.test]) & set(groups[trained])


def test_penalties_are_tuned_on_folds_of_groups(visits):
    """With a group in two folds a nearest neighbour is always right, so the least ridge wins."""
    X, groups = visits[list("abcdef")].to_numpy(), visits["patient"].to_numpy()
    y = visits["state"].to_numpy(dtype=object)
    alone, together = (get_method("rbf-svm").make(X=X, random_state=0) for _ in range(2))
    alone.fit(X, y)
    together.fit(X, y, groups=groups)
    best = [np.max(_tuned(model).scores_) for model in (alone, together)]
    assert best[0] > 0.95
    assert best[1] < 0.8


def _tuned(model):
    return model if hasattr(model, "scores_") else model.classifier_


def test_a_column_that_looks_like_a_group_is_proposed(visits, capsys):
    out, _ = run(capsys, "fit visits.csv -t state -o model")
    (line,) = [line for line in out.splitlines() if line.startswith("'patient' may say")]
    assert "9 values determine 45 labels; left out together they give" in line
    assert line.endswith("Use --group with patient if they do.")
    out, _ = run(capsys, "fit visits.csv -t state --id patient -o model")
    assert "The ids may say which rows belong together" in out
    out, _ = run(capsys, "compare visits.csv -t state -m labelfold -r 1 -o report")
    assert "'patient' may say which rows belong together" in out
    assert "may say which rows belong together" in Path("report/report.html").read_text()
    out, _ = run(capsys, "fit visits.csv -t state --group patient -o model")
    assert "may say" not in out


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(lambda state, rng: state.map({"ill": 1, "well": 2}).fillna(1), id="few values"),
        pytest.param(lambda state, rng: np.arange(len(state)), id="a value a row"),
        pytest.param(lambda state, rng: rng.integers(0, 12, len(state)), id="no label in it"),
    ],
)
def test_other_columns_are_not_proposed(visits, column):
    rng = np.random.default_rng(0)
    table = visits.drop(columns=["patient", "state"]).assign(case_id=column(visits["state"], rng))
    assert read_data(table, visits["state"]).likely_groups == []


def test_whole_numbers_that_the_label_does_not_follow_are_proposed(visits):
    number = np.arange(300) // 5
    table = visits.drop(columns=["patient", "state"])
    (found,) = read_data(table.assign(pat=number), visits["state"]).likely_groups
    assert found.found.startswith("'pat' may say")
    order = np.where(visits["state"] == "ill", number % 9, 10 + number % 9)
    assert read_data(table.assign(score=order), visits["state"]).likely_groups == []


def test_a_column_of_measured_numbers_is_not_proposed(visits):
    scale = visits["state"].map({"ill": 1.5, "well": 7.5}).fillna(3.5) + (np.arange(300) // 3 % 3)
    data = read_data(visits.drop(columns=["patient", "state"]).assign(score=scale), visits["state"])
    assert data.likely_groups == []


def test_rows_labelled_twice(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    promised = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.normal(size=(200, 6)), columns=list("abcdef"))
        X.iloc[20:40] = X.iloc[:20].to_numpy()
        y = np.r_[np.tile(rng.integers(0, 2, 20), 2).astype(str), np.full(160, "")]
        X.assign(name=[f"r{i}" for i in range(200)], kind=y).to_csv("twice.csv", index=False)
        out, _ = run(capsys, "fit twice.csv -t kind -o model")
        assert "40 of the 40 labelled rows are exact copies of another labelled row, far more often" in out
        share, low, high, rows = expected(out)
        assert rows == "40 labelled rows in 20 groups"
        promised.append((share, low < 50 < high))
    assert np.mean([share for share, _ in promised]) < 70
    assert sum(held for _, held in promised) >= 3
    # without other rows nothing tells whether copies are honest: both figures are given
    X.assign(kind=y).head(40).to_csv("all.csv", index=False)
    out, _ = run(capsys, "fit all.csv -t kind -o model")
    assert re.search(
        r"40 of the 40 labelled rows are exact copies of another labelled row; left out together", out
    )


def test_copies_in_a_comparison(capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    X[20:40] = X[:20]
    y = np.full(200, -1)
    y[:40] = np.tile(rng.integers(0, 2, 20), 2)
    found = compare(X, y, ["labelfold", "lda"], repeats=1, progress=False)
    assert found.choice.n_groups == 20
    assert found.choice.expected < 0.8
    assert any("copies are held out together" in note for note in found.notes)


def test_honest_copies_keep_their_estimate():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (300, 4)).astype(float)
    y = np.where(np.arange(300) < 60, (X.sum(axis=1) > 4).astype(int), -1)
    data = read_data(X, y)
    assert data.groups.are_single
    model = fit_grouped(LabelFold(), X, y, data.groups)
    assert model.loo_interval_ == LabelFold().fit(X, y).loo_interval_
    assert by_leave_one_out(model, data).n_groups is None
    (line,) = other_estimates(model, data)
    assert re.match(
        r"\d+ of the 60 labelled rows are exact copies of another labelled row, as other rows are too; left",
        line,
    )
    assert model.groups_.tolist() == list(range(60))


def test_groups_of_other_sources(visits, tmp_path, capsys):
    groups = visits["patient"].to_numpy()
    X, y = visits[list("abcdef")].to_numpy(), visits["state"].fillna("").to_numpy(dtype=str)
    np.savez("visits.npz", X=X, y=y, patient=groups.astype(str))
    assert read_table("visits.npz", group="patient").groups.tolist() == groups.tolist()
    assert expected(run(capsys, "fit visits.npz --group patient -o model")[0])[3].endswith("9 groups")
    visits.to_parquet("visits.parquet")
    assert read_table("visits.parquet", target="state", group="patient").groups.tolist() == groups.tolist()
    both = read_table("visits.csv", target="state", group=["patient", "a"], id_columns=["patient"])
    assert len(set(both.groups)) == 300
    assert both.ids["patient"].tolist() == groups.tolist()
    assert both.feature_names == list("bcdef")
    some = visits.assign(patient=np.where(np.arange(300) % 2, visits["patient"], None))
    some.to_csv("some.csv", index=False)
    assert read_table("some.csv", target="state", group="patient").groups[:4].tolist() == [
        None,
        "P000",
        None,
        "P000",
    ]


def test_large_files_have_groups(visits, monkeypatch, capsys):
    monkeypatch.setattr("labelfold.app.io._arrow_tables.LARGE", 0)
    assert expected(run(capsys, "fit visits.csv -t state --group patient -o model")[0])[3].endswith(
        "9 groups"
    )
    out, _ = run(capsys, "fit visits.csv -t state -o model")
    assert "'patient' may say which rows belong together" in out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("fit visits.csv -t state --group patiant -o m", "no group column 'patiant'"),
        ("fit visits.csv -t state --group state -o m", "cannot be the target and a group"),
        ("fit one.csv -t state --group site -o m", "are in one group"),
        ("fit x.npy --labels visits.csv -t state -g patient -o m", "none can be an id, a group or dropped"),
    ],
)
def test_groups_that_do_not_do(visits, capsys, command, words):
    visits.assign(site="here").to_csv("one.csv", index=False)
    np.save("x.npy", visits[list("abcdef")].to_numpy())
    _, err = run(capsys, command, 2)
    assert words in err
    assert err.startswith("labelfold: ")


def test_numbers_and_several_labels(visits):
    rng, groups = np.random.default_rng(0), visits["patient"].to_numpy()
    X = visits[list("abcdef")]
    value = np.where(visits["state"].notna(), rng.normal(size=60)[np.arange(300) // 5], np.nan)
    found = compare(X, value, ["labelfold", "ridge"], repeats=1, progress=False, groups=groups)
    assert found.choice.n_groups == 9
    assert (
        found.choice.expected
        < 0.5
        < compare(X, value, ["labelfold"], repeats=1, progress=False).choice.expected
    )
    Y = np.where(
        visits["state"].notna().to_numpy()[:, None], rng.integers(0, 2, (60, 3))[np.arange(300) // 5], np.nan
    )
    assert compare(X, Y, ["labelfold"], repeats=1, progress=False, groups=groups).choice.n_groups in (8, 9)


def test_rows_of_a_group_count_once_where_labelled_rows_are_compared_with_others():
    """Honest groups and copies: labelled rows repeat what they hold, and so seem to differ."""
    said = {"alone": 0, "groups": 0, "copies": 0}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        patient = np.repeat(np.arange(80), 6)
        table = pd.DataFrame(rng.normal(size=(80, 8))[patient], columns=list("abcdefgh"))
        table["site"] = rng.choice(["x", "y", "z"], 80)[patient]
        noisy = table.assign(**{c: table[c] + 0.05 * rng.normal(size=480) for c in "abcdefgh"})
        y = np.where(patient < 12, rng.integers(0, 2, 80)[patient], -1)
        alone, grouped = read_data(noisy, y), read_data(noisy, y, groups=patient)
        copied = read_data(table.iloc[np.r_[:72, 72:480:6]].reset_index(drop=True), y[np.r_[:72, 72:480:6]])
        assert len(copied.known_groups) == 12
        for name, data in zip(said, (alone, grouped, copied), strict=True):
            said[name] += any("Labelled rows differ" in doubt for doubt in data.doubts)
    assert said["alone"] >= 6
    assert said["groups"] == said["copies"] == 0


def test_labels_looked_for_in_a_rare_class_make_no_copies():
    """Ten questions with two answers, one case in fifty rows, forty labels of each class."""
    rng = np.random.default_rng(0)
    case = rng.random(6000) < 0.02
    X = (rng.random((6000, 10)) < np.where(case[:, None], 0.75, 0.25)).astype(float)
    y = np.full(6000, -1)
    for c in (0, 1):
        y[rng.choice(np.flatnonzero(case == c), 40, replace=False)] = c
    data = read_data(X, y)
    assert data.groups.are_single
    (likely,) = data.likely_groups
    assert likely.found.endswith("as other rows are too")


def test_a_class_in_one_group_is_not_measured(visits, capsys):
    frame = visits.assign(state=np.where(visits["patient"] == "P000", "ill", "well"))
    frame.loc[45:, "state"] = None
    frame.to_csv("visits.csv", index=False)
    out, _ = run(capsys, "fit visits.csv -t state --group patient -o model")
    assert (
        "'ill' has labelled rows in one group only: how well such rows are predicted cannot be measured"
        in out
    )
    assert "too few labels to estimate" in out
    assert "Expect" not in out


def test_given_groups_do_not_silence_other_signs(visits, capsys):
    rng = np.random.default_rng(0)
    frame = visits.assign(sheet=[f"s{i}" for i in rng.permutation(300)])
    frame.to_csv("visits.csv", index=False)
    out, _ = run(capsys, "fit visits.csv -t state --group sheet -o model")
    assert "'patient' may say which rows belong together" in out
    twice = visits.drop(columns="patient").assign(sheet=frame["sheet"])
    twice.iloc[20:40, :6] = twice.iloc[:20, :6].to_numpy()
    twice.loc[20:39, "state"] = twice.loc[:19, "state"].to_numpy()
    twice.to_csv("twice.csv", index=False)
    out, _ = run(capsys, "fit twice.csv -t state --group sheet -o model")
    assert "40 of the 45 labelled rows are exact copies of another labelled row; left out together" in out


def test_the_score_of_groups_is_given_for_uneven_classes(visits, capsys):
    frame = visits.assign(state=np.where(visits["patient"].isin(["P000", "P004"]), "ill", "well"))
    frame.loc[80:, "state"] = None
    frame.to_csv("visits.csv", index=False)
    out, _ = run(capsys, "fit visits.csv -t state -o model")
    assert "balanced accuracy on new rows" in out
    assert re.search(r"'patient' may say .* left out together they give [\d.]+% balanced accuracy", out)


@pytest.mark.parametrize("column", ["email", "hospital", "the person in charge", "float", "category"])
def test_groups_by_other_names(visits, column):
    number = visits["patient"].str[1:].astype(int)
    values = {
        "float": (number * 7 % 60).astype(float),
        "category": pd.Categorical(number),
        "the person in charge": number.map(lambda i: chr(97 + i % 26) * (1 + i // 26)),
    }.get(column, visits["patient"].str.lower() + "@x.org")
    name = {"float": "MRN", "category": "patient"}.get(column, column)
    table = visits.drop(columns=["patient", "state"]).assign(**{name: values})
    (found,) = read_data(table, visits["state"]).likely_groups
    assert repr(name) in found.found
