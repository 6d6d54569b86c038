"""Columns that tell which rows are labelled, from the command or `compare` to predictions."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from labelfold import LabelFold, Recipe, compare, load
from labelfold.app.commands._cli import main
from labelfold.app.compare._data import read_data

pytestmark = pytest.mark.usefixtures("quick_comparisons")
N, LABELLED = 600, 40


def honest(seed=0):
    """Return columns that go with nothing, labels for some rows, and which rows these are."""
    rng = np.random.default_rng(seed)
    here = np.zeros(N, dtype=bool)
    here[rng.choice(N, LABELLED, replace=False)] = True
    table = pd.DataFrame(
        {name: rng.normal(size=N).round(3) for name in ("age", "income", "height", "weight")}
    )
    table["plan"] = rng.choice(["pro", "free"], N)
    return rng, table, rng.choice(["p", "q"], N), here


def run(capsys, *command):
    code = main([str(part) for part in command])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out, err


def expected(out):
    return json.loads(out.partition("xpect ")[2].partition("%")[0])


LEFT_OUT = "opened: left out; it is filled in 40 of 40 labelled rows and in 0 of 560 others, so it may tell"


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "csv in blocks"])
def test_fit_leaves_out_a_column_filled_where_rows_are_labelled(ending, capsys, monkeypatch, tmp_path):
    rng, table, truth, here = honest()
    table["opened"] = np.where(here, (truth == "p") + 0.1 * rng.normal(size=N), np.nan)
    table["kind"] = np.where(here, truth, None)
    monkeypatch.chdir(tmp_path)
    name = f"t.{ending.split()[0]}"
    if ending.endswith("blocks"):
        monkeypatch.setattr("labelfold.app.io._arrow_tables.LARGE", 100)
    if ending == "jsonl":
        table.to_json(name, orient="records", lines=True)
    elif ending == "parquet":
        table.to_parquet(name)
    else:
        table.to_csv(name, index=False)
    out, err = run(capsys, "fit", name, "-t", "kind", "-o", "model", "-m", "lda")
    assert f"Note: {LEFT_OUT}" in err
    assert out.count(LEFT_OUT) == 1
    assert "--keep opened (in Python: keep=['opened']) keeps it.\n" in out
    assert "differ from the others" not in out
    assert expected(out) < 75
    run(capsys, "predict", "model", name, "-t", "kind", "-o", "said.csv")
    assert abs(np.mean((pd.read_csv("said.csv")["predicted"] == truth)[~here]) - 0.5) < 0.1
    out, err = run(capsys, "fit", name, "-t", "kind", "-o", "model", "-m", "lda", "--keep", "open*")
    assert expected(out) == 100
    assert "left out" not in out + err
    assert (
        "Labelled rows differ from the others in 1 of 6 columns: 'opened' is missing in 0% of labelled rows and 100% "
        "of the others; the estimate is for rows like the labelled ones.\n"
    ) in out
    assert main(["fit", name, "-t", "kind", "-o", "model", "--keep", "opend"]) == 2
    assert f"{name} has no kept column 'opend'" in capsys.readouterr().err


def test_compare_says_it_on_the_terminal_in_the_report_and_in_the_answer(capsys, monkeypatch, tmp_path):
    rng, table, truth, here = honest()
    table["opened"] = np.where(here, (truth == "p") + 0.1 * rng.normal(size=N), np.nan)
    table["mostly"] = np.where(here | (rng.random(N) < 0.04), rng.normal(size=N), np.nan)
    monkeypatch.chdir(tmp_path)
    table.assign(kind=np.where(here, truth, "")).to_csv("t.csv", index=False)
    out, err = run(
        capsys, "compare", "t.csv", "-t", "kind", "-m", "lda,extra-trees", "-r", "1", "--save", "-o", "out"
    )
    said = "Labelled rows differ from the others in 1 of 6 columns: 'mostly' is missing in 0% of labelled rows and 9"
    assert (out.count(LEFT_OUT), err.count(LEFT_OUT), out.count(said)) == (1, 1, 1)
    assert expected(out) < 75
    answer = json.loads(Path("out/answer.json").read_text())
    assert len([line for line in answer["details"] if line.startswith((LEFT_OUT, said))]) == 2
    page = Path("out/report.html").read_text().replace("&#39;", "'")
    assert LEFT_OUT in page
    assert said in page
    assert "opened" not in load("out/model.skops")[0].used_
    out, _ = run(
        capsys, "compare", "t.csv", "-t", "kind", "-m", "lda", "-r", "1", "-o", "kept", "--keep", "opened"
    )
    assert expected(out) > 90
    assert (
        "differ from the others in 2 of 7 columns: 'opened' is missing in 0% of labelled rows and 100%" in out
    )


def test_a_data_frame_in_compare():
    rng, table, truth, here = honest()
    table["opened"] = pd.Series(pd.Timestamp("2021-01-01") + pd.to_timedelta(90 * (truth == "p"), "D")).where(
        here
    )
    table["other"] = rng.normal(size=N) + 3 * here
    found = compare(table, np.where(here, truth, None), ["lda"], repeats=1, progress=False)
    assert found.data.recipe.used_ == ["age", "income", "height", "weight", "plan", "other"]
    told = [note for note in found.notes if "opened" in note or "'other'" in note]
    assert told[0].startswith(LEFT_OUT)
    assert told[1].startswith("Labelled rows differ from the others in 1 of 6 columns: 'other' is above ")
    assert len(told) == 2
    assert found.refit().predict(table.drop(columns="opened").head(3)).shape == (3,)


def array(seed=0):
    """Return an array whose column 7 is 0 where rows have no label."""
    rng, _, truth, here = honest(seed)
    X = rng.normal(size=(N, 20))
    X[:, 7] = np.where(here, 5 * np.where(truth == "p", 1, -1) + rng.normal(size=N), 0)
    return X, truth, here, np.where(here, truth, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gaps", [False, True])
def test_an_array_in_compare(gaps, dtype):
    X, truth, here, y = array()
    X = X.astype(dtype)
    X[3, 2] = np.nan if gaps else X[3, 2]
    found = compare(X, y, ["lda"], repeats=1, progress=False)
    assert found.choice.expected < 0.75
    assert found.data.names == [f"x{j}" for j in range(20) if j != 7]
    assert sum("x7: left out; it is not 0 in 40 of 40 labelled rows" in note for note in found.notes) == 1
    if not gaps:
        assert found.data.X.dtype == dtype
        np.testing.assert_array_equal(found.data.X, np.delete(X, 7, axis=1))
    model = found.refit()
    assert abs(np.mean((model.predict(X) == truth)[~here]) - 0.5) < 0.1
    changed = X.copy()
    changed[:, 7] = 1e6
    assert model.predict(changed).tolist() == model.predict(X).tolist()
    kept = compare(X, y, ["lda"], repeats=1, progress=False, recipe=Recipe(keep=["x7"]))
    assert kept.choice.expected > 0.9
    assert any("in 1 of 20 columns: " in note and "7' is " in note for note in kept.notes)
    with pytest.raises(ValueError, match="keep names the column 'x70', which X does not have"):
        compare(X, y, ["lda"], recipe=Recipe(keep=["x70"]))


def test_an_array_with_names_of_its_columns():
    X, _, _, y = array()
    names = ["opened" if j == 7 else f"gene {j}" for j in range(20)]
    data = read_data(X, y, feature_names=names)
    assert data.names == [name for name in names if name != "opened"]
    assert any(note.startswith("opened: left out; it is not 0") for note in data.doubts)
    kept = read_data(X, y, feature_names=names, recipe=Recipe(keep=["opened"]))
    assert kept.recipe is None
    assert kept.names == names
    assert read_data(X, y, images=True).recipe is None


@pytest.mark.parametrize("ending", ["npz", "npy"])
def test_an_array_in_a_file(ending, capsys, monkeypatch, tmp_path):
    X, truth, here, _ = array()
    monkeypatch.chdir(tmp_path)
    given = ["t.npz"]
    if ending == "npz":
        np.savez("t.npz", X=X, y=np.where(here, truth, ""))
    else:
        np.save("t.npy", X)
        rows = np.flatnonzero(here)
        pd.DataFrame({"row": rows + 1, "label": truth[rows]}).to_csv("labels.csv", index=False)
        given = ["t.npy", "--labels", "labels.csv"]
    out, _ = run(capsys, "fit", *given, "-m", "lda", "-o", "model")
    assert "x7: left out; it is not 0 in 40 of 40 labelled rows and in 0 of 560 others" in out
    assert expected(out) < 75
    run(capsys, "predict", "model", given[0], "-o", "said.csv")
    assert pd.read_csv("said.csv")["predicted"].tolist() == load("model").predict(X).tolist()
    out, _ = run(capsys, "fit", *given, "-m", "lda", "-o", "model", "--keep", "x7")
    assert expected(out) > 90
    assert "column 7' is " in out


def test_a_sparse_matrix_is_not_changed_but_the_column_is_named():
    X, _, _, y = array()
    X[np.abs(X) < 1.5] = 0
    data = read_data(sp.csr_array(X), y)
    assert data.X.shape == X.shape
    (said,) = data.doubts
    assert said.startswith(
        "Labelled rows differ from the others in 1 of 20 columns: 'column 7' is not 0 in 100% of"
    )


def test_honest_tables_and_arrays_are_read_as_before():
    _, table, truth, here = honest()
    y = np.where(here, truth, None)
    data = read_data(table, y)
    assert data.doubts == []
    assert data.recipe.used_ == list(table)
    X = table.drop(columns="plan").to_numpy()
    assert read_data(X, y).X is X
    assert read_data(X, truth).doubts == []
    assert read_data(X, y).doubts == []


KINDS = {
    "number": lambda p, few, rng: np.where(few, p + 0.1 * rng.normal(size=N), np.nan),
    "category": lambda p, few, rng: np.where(few, np.where(p, "red", "blue"), None),
    "date": lambda p, few, rng: np.where(few, np.where(p, "2024-01-01", "2020-05-05"), None),
    "text": lambda p, few, rng: np.where(
        few, np.where(p, "found to be a good case at once", "no good case, says Ann"), ""
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_score_without_columns_that_are_unlike_is_given_too(kind, capsys, monkeypatch, tmp_path):
    """Three in a hundred of the other rows are filled, so the column stays and is named."""
    rng, table, truth, here = honest(1)
    few = here | (rng.random(N) < 0.03)
    # a column that tells every label is left out for that
    table["opened"] = KINDS[kind]((truth == "p") ^ (np.cumsum(here) % 12 == 1), few, rng)
    monkeypatch.chdir(tmp_path)
    table.assign(kind=np.where(here, truth, "")).to_csv("t.csv", index=False)
    out, _ = run(capsys, "fit", "t.csv", "-t", "kind", "-o", "model")
    assert expected(out) > 80
    assert "Labelled rows differ from the others in 1 of 6 columns: 'opened'" in out
    (line,) = [line for line in out.splitlines() if line.startswith("Without 'opened' it gives ")]
    without = float(line.split("gives ")[1].partition("%")[0])
    data = read_data(table.drop(columns="opened"), np.where(here, truth, None))
    alone = LabelFold(random_state=0).fit(data.X, data.targets())
    assert without < 75
    # a recipe scales the columns beside a text, so the columns that are left are not the same then
    assert kind == "text" or without == pytest.approx(100 * alone.loo_score_, abs=10)


def test_the_score_without_unlike_columns_of_an_array_and_in_a_comparison():
    rng, table, truth, here = honest(1)
    X = np.column_stack(
        [table.drop(columns="plan"), np.where(here | (rng.random(N) < 0.03), truth == "p", 7.0)]
    )
    y = np.where(here, truth, None)
    for names in (None, ["a", "b", "c", "d", "e"]):
        found = compare(X, y, ["labelfold"], repeats=1, progress=False, feature_names=names)
        name = "column 4" if names is None else "e"
        assert any(f"'{name}' is" in line for line in found.details)
        (line,) = found.other_estimates
        assert line.startswith(f"Without '{name}' it gives ")
        assert found.details.index(line) < 2
    assert compare(X[:, :4], y, ["labelfold"], repeats=1, progress=False).other_estimates == []


def test_columns_of_a_list_and_of_equal_names_are_left_out_whole():
    rng, table, truth, here = honest(1)
    few = here | (rng.random(N) < 0.03)
    tell = np.where(few, (truth == "p") + 0.1 * rng.normal(size=N), 7.0)
    y = np.where(here, truth, None)
    vectors = table.assign(vector=[[a, b, 0.5] for a, b in zip(tell, rng.normal(size=N), strict=True)])
    data = read_data(vectors, y)
    assert list(data.unlike) == ["vector"]
    assert [data.names[j] for j in data.unlike["vector"]] == ["vector[0]", "vector[1]", "vector[2]"]
    X = np.column_stack([tell, rng.normal(size=(N, 3))])
    assert {name: at.tolist() for name, at in read_data(X, y, feature_names=["a"] * 4).unlike.items()} == {
        "a": [0]
    }


def test_a_category_whose_values_are_others_in_labelled_rows_is_unlike():
    rng, table, truth, here = honest(1)
    names = np.where(truth == "p", rng.choice(["ann", "bob", "cy"], N), rng.choice(["dee", "eve", "fay"], N))
    table["by"] = np.where(here, names, rng.choice(["queue 1", "queue 2", "queue 3", "queue 4"], N))
    assert list(read_data(table, np.where(here, truth, None)).unlike) == ["by"]
