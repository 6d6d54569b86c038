"""Messy tables from the first command to predictions of new rows."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from typer.main import get_command

from labelfold import Recipe, compare, load
from labelfold.app.commands._cli import main
from labelfold.app.commands._model import app

pytestmark = pytest.mark.usefixtures("quick_comparisons")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Breast cancer with an id, categories, a date, a flag, a price and a twentieth of the cells missing."""
    rng = np.random.default_rng(0)
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta((X["worst area"] / 3).round(), unit="D")
    table = X.iloc[:, :6].assign(
        band=pd.qcut(X["worst radius"], 4, labels=["xs", "s", "m", "l"]).astype(object),
        smooth=np.where(X["worst smoothness"] > 0.13, "yes", "no"),
        seen=days.dt.strftime("%d.%m.%Y"),
        cost=[f"{v * 11:,.2f} €".translate(str.maketrans(",.", ".,")) for v in X["worst perimeter"]],
    )
    table = table.astype(object).mask(rng.random(table.shape) < 0.05)
    table.insert(0, "patient", np.arange(1, len(X) + 1))
    truth = pd.Series(np.where(y, "benign", "malignant"), dtype=object)
    new = rng.random(len(X)) < 0.3
    folder = tmp_path_factory.mktemp("messy")
    train = table[~new].assign(patient=np.arange(1, (~new).sum() + 1))
    train["diagnosis"] = truth[~new].where(rng.random((~new).sum()) < 0.2)
    train.to_csv(folder / "train.csv", index=False, sep=";", encoding="cp1252")
    later = table[new].copy()
    later.iloc[:10, later.columns.get_loc("band")] = "enormous"
    later.iloc[:, ::-1].assign(extra=1).to_csv(folder / "new.csv", index=False)
    return folder, truth[new].to_numpy()


def run(capsys, *command):
    code = main([str(part) for part in command])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out, err


def test_fit_inspect_and_predict_without_a_word_about_the_columns(tables, capsys, monkeypatch, tmp_path):
    folder, truth = tables
    monkeypatch.chdir(tmp_path)
    out, err = run(capsys, "fit", folder / "train.csv", "-t", "diagnosis", "-o", "model")
    assert "Note: patient: id; it counts the rows.\n" in err
    assert re.search(
        r"Note: band: category; 4 values, one column each; \d+ missing, a value of its own\.\n", err
    )
    assert re.search(r"Note: seen: date; day first; elapsed time", err)
    assert re.search(r"Note: cost: number; decimal comma, .*'€' removed; \d+ missing, the median", err)
    low = float(re.search(r"90% interval ([\d.]+)% to", out)[1])
    told, _ = run(capsys, "inspect", "model")
    assert "patient: id; it counts the rows" in told
    _, err = run(capsys, "predict", "model", folder / "new.csv", "-o", "said.csv", "-t", "diagnosis")
    assert err == (
        "Note: ignored 'extra', which the model does not use.\n"
        "Note: 10 of 169 cells of 'band' hold a value the model never saw: 'enormous'.\n"
    )
    said = pd.read_csv("said.csv")
    assert said.columns.tolist() == ["patient", "predicted", "confidence"]
    assert 100 * np.mean(said["predicted"] == truth) >= low
    new = pd.read_csv(folder / "new.csv")
    assert load("model").predict(new).tolist() == said["predicted"].tolist()
    new.assign(cost="cheap").to_csv("odd.csv", index=False)
    odd = f"{len(new)} of {len(new)} cells of 'cost' hold no number as the model reads it: 'cheap'"
    assert main(["predict", "model", "odd.csv", "-o", "said.csv"]) == 2
    assert f"labelfold: In odd.csv {odd} (it learned numbers, decimal comma, " in capsys.readouterr().err
    _, err = run(capsys, "predict", "model", "odd.csv", "-o", "said.csv", "--accept-unseen")
    assert f"Note: {odd}.\n" in err
    new.drop(columns=["band", "patient"]).to_csv("less.csv", index=False)
    assert main(["predict", "model", "less.csv", "-o", "said.csv"]) == 2
    assert "lacks 1 of the 10 columns the model was fitted on: 'band'" in capsys.readouterr().err


def test_compare_shows_how_columns_were_read_and_saves_a_model_that_takes_them(
    tables, capsys, monkeypatch, tmp_path
):
    folder, truth = tables
    monkeypatch.chdir(tmp_path)
    command = [
        "compare",
        folder / "train.csv",
        "-t",
        "diagnosis",
        "-m",
        "lda,extra-trees",
        "-r",
        "1",
        "--save",
        "-o",
        "out",
    ]
    _, err = run(capsys, *command, "--category", "smooth", "--drop", "mean a*")
    assert "seen: date; day first; elapsed time" in err
    page = Path("out/report.html").read_text()
    assert '<h2 id="columns">How the columns were read</h2>' in page
    assert "<li>patient: id; it counts the rows</li>" in page
    assert pd.read_csv("out/predictions.csv")["patient"].tolist()[:2] == [1, 2]
    run(capsys, "predict", "out/model.skops", folder / "new.csv", "-o", "said.csv")
    right = np.mean(pd.read_csv("said.csv")["predicted"] == truth)
    assert right >= json.loads(Path("out/answer.json").read_text())["low"]


def test_text_and_labels_are_a_whole_use(capsys, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    words = {"ham": ["lunch", "tomorrow", "meeting", "thanks"], "spam": ["prize", "winner", "cash", "claim"]}
    kind = rng.choice(list(words), 300)
    common = ["the", "a", "of", "to", "and", "you", "we", "your", "with", "this"]
    said = [" ".join(rng.permutation([*rng.choice(common, 7), *rng.choice(words[k], 2)])) for k in kind]
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"message": said, "kind": np.where(np.arange(300) < 40, kind, "")}).to_csv(
        "mail.csv", index=False
    )
    _, err = run(capsys, "fit", "mail.csv", "-t", "kind", "-o", "model")
    assert err == "Note: message: text; tf-idf of its words and of groups of characters.\n"
    run(capsys, "predict", "model", "mail.csv", "-o", "said.csv")
    # each message has two of eight words that tell it apart, and 40 labels show all of them
    assert np.mean(pd.read_csv("said.csv")["predicted"] == kind) > 0.97


def test_patterns_of_target_columns(capsys, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        **{f"label_{j}": (X[:, j] > 0) * 1 for j in range(2)}
    )
    table["city"] = rng.choice(["x", "y"], 80)
    monkeypatch.chdir(tmp_path)
    table.to_csv("t.csv", index=False)
    run(capsys, "fit", "t.csv", "-t", "label_*", "-m", "opls", "-o", "model")
    run(capsys, "predict", "model", "t.csv", "-t", "label_*", "-o", "said.csv")
    assert pd.read_csv("said.csv").columns[:2].tolist() == ["predicted label_0", "predicted label_1"]


def test_a_data_frame_goes_into_compare(tables):
    folder, _ = tables
    table = pd.read_csv(folder / "train.csv", sep=";", encoding="cp1252")
    found = compare(
        table.drop(columns="diagnosis"),
        table["diagnosis"],
        ["lda"],
        repeats=1,
        recipe=Recipe(drop=["cost"]),
        progress=False,
    )
    model = found.refit()
    assert model[0].columns_[-1]["how"] == "you left it out"
    assert found.data.ids[:2] == ["1", "2"]
    assert model.predict(table.head(3)).shape == (3,)


def test_a_polars_frame_is_read_as_a_pandas_frame_is(tables):
    polars = pytest.importorskip(
        "polars", reason="polars is not installed; a foreign Arrow table stands for it"
    )
    folder, _ = tables
    table = pd.read_csv(folder / "train.csv", sep=";", encoding="cp1252")
    X = table.drop(columns="diagnosis")
    expected = Recipe().fit(X, table["diagnosis"])
    other = polars.from_pandas(X)
    found = compare(other, polars.from_pandas(table["diagnosis"]), ["lda"], repeats=1, progress=False)
    assert found.data.recipe.lines() == expected.lines()
    assert found.refit().predict(other.head(3)).tolist() == found.refit().predict(X.head(3)).tolist()


def test_a_table_with_nothing_but_the_arrow_interface_goes_into_compare(tables):
    folder, _ = tables
    table = pd.read_csv(folder / "train.csv", sep=";", encoding="cp1252")
    reader = pa.Table.from_pandas(table.drop(columns="diagnosis")).to_reader()  # gives its rows once
    found = compare(reader, table["diagnosis"], ["lda"], repeats=1, progress=False)
    assert found.data.X.shape[0] == len(table)


def test_an_array_with_gaps(capsys, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    y = np.where(X[:, 0] > 0, "p", "q")
    X[3, 1], X[5, 2] = np.nan, np.inf
    monkeypatch.chdir(tmp_path)
    np.savez("gaps.npz", X=X, y=y)
    np.savez("whole.npz", X=np.nan_to_num(X, posinf=0), y=y)
    _, err = run(capsys, "fit", "gaps.npz", "-m", "lda", "-o", "model")
    assert (
        "Note: x1: number; 1 missing, the median in their place.\nNote: x2: number; 1 cell is infinite" in err
    )
    for name in ("gaps.npz", "whole.npz"):
        run(capsys, "predict", "model", name, "-o", "said.csv")
        assert len(pd.read_csv("said.csv")) == 80
    run(capsys, "fit", "whole.npz", "-m", "lda", "-o", "model")
    _, err = run(capsys, "predict", "model", "gaps.npz", "-o", "said.csv")
    assert "Note: 2 cells of 320 are missing or infinite; the median in their place.\n" in err
    filled = np.nan_to_num(X, posinf=0)
    filled[3, 1], filled[5, 2] = np.median(filled[:, 1]), np.median(filled[:, 2])
    np.savez("filled.npz", X=filled)
    run(capsys, "predict", "model", "filled.npz", "-o", "filled.csv")
    assert Path("said.csv").read_text() == Path("filled.csv").read_text()
    found = compare(X, y, ["lda"], repeats=1, progress=False)
    assert found.refit().predict(X).shape == (80,)


@pytest.mark.parametrize("kind", ["npz", "svmlight"])
def test_missing_values_of_a_sparse_matrix_count_as_0(capsys, monkeypatch, tmp_path, kind):
    rng = np.random.default_rng(0)
    X = sp.random_array((80, 30), density=0.2, rng=rng, format="csr")
    y = np.where(X[:, [0]].toarray().ravel() + X[:, [1]].toarray().ravel() > 0, 1, 0)
    zero = X.copy()
    X.data[[3, 50]], zero.data[[3, 50]] = [np.nan, np.inf], 0.0
    monkeypatch.chdir(tmp_path)
    for name, rows in (("gaps", X), ("zero", zero)):
        if kind == "npz":
            np.savez(f"{name}.npz", X_data=rows.data, X_indices=rows.indices, X_indptr=rows.indptr,
                X_shape=rows.shape, y=y)  # fmt: skip
        else:
            cells = [" ".join(f"{j + 1}:{v!r}" for j, v in zip(r.indices, r.data.tolist(), strict=True))
                for r in (rows[[i]] for i in range(80))]  # fmt: skip
            lines = [f"{label} {row}" for label, row in zip(y, cells, strict=True)]
            Path(f"{name}.svmlight").write_text("\n".join(lines))
    said = "X has 2 stored values that are no finite number; they count as 0, as absent ones do."
    _, err = run(capsys, "fit", f"gaps.{kind}", "-m", "lda", "-o", "model")
    assert f"In gaps.{kind} {said}" in err
    for name in ("gaps", "zero"):
        _, err = run(capsys, "predict", "model", f"{name}.{kind}", "-o", f"{name}.csv")
        assert (said in err) == (name == "gaps")
    assert Path("gaps.csv").read_text() == Path("zero.csv").read_text()
    found = compare(X, y, ["lda"], repeats=1, progress=False)
    assert said in found.data.notes
    assert np.isnan(X.data).sum() == 1  # what was given stays as it is


def test_commands_that_read_a_table_have_the_same_options():
    options = ["target", "id", "drop", "text", "category", "number", "date", "format", "encoding"]
    for command in ("compare", "fit", "transform", "predict"):
        taken = {o for p in get_command(app).commands[command].params for o in p.opts}
        assert {f"--{option}" for option in options} <= taken
