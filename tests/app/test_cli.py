"""The command line: what it writes, and one sentence with the right exit status for everything else."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file, load_wine

import labelfold.app.commands._cli
from labelfold import Recipe
from labelfold.app.commands._cli import main
from labelfold.app.io import load_model, read_table

pytestmark = pytest.mark.usefixtures("quick_comparisons")


@pytest.fixture
def wine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABELFOLD_DEBUG", raising=False)
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = X / X.std()
    labels = y.map({0: "red", 1: "white", 2: "[bold]rosé"}).astype(object)
    labels[::3] = None
    frame = X.assign(kind=labels)
    frame.insert(0, "name", [f"wine {i}" for i in range(len(X))])
    frame.to_csv("wine.csv", index=False)
    frame.to_parquet("wine.parquet")
    return frame


@pytest.fixture
def model(wine, capsys):
    run(capsys, "fit wine.csv --target kind --id name -k 2 --ridge 1 -o model")
    return load_model("model")


def run(capsys, command, status=0):
    """Run a command; return what it says on the two streams."""
    code = main(command.split() if isinstance(command, str) else command)
    out, err = capsys.readouterr()
    assert code == status, err
    assert "Traceback" not in out + err
    return out, err


def refuse(capsys, command, words, status=2):
    """Run a command that cannot be met; return its one sentence."""
    out, err = run(capsys, command, status)
    sentence = err.strip()
    assert sentence.startswith("labelfold: ")
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert words in sentence
    assert out == ""
    return sentence


def numbers(frame):
    return frame.drop(columns=["name", "kind"])


def test_version_and_help(capsys):
    out, _ = run(capsys, "--version")
    assert re.fullmatch(r"labelfold \d+\.\d+\.\d+\n", out)
    help_text, _ = run(capsys, "--help")
    for command in ["methods", "fit", "transform", "predict", "inspect", "compare", "datasets", "demo"]:
        assert command in help_text
    assert run(capsys, [])[0] == help_text


def test_methods(capsys):
    from labelfold.app.registry import METHODS

    out, _ = run(capsys, "methods")
    for name, method in METHODS.items():
        assert len(re.findall(rf"^  {name} ", out, re.MULTILINE)) == 1, name
        assert len(re.findall(rf"^{method.use}$", out, re.MULTILINE)) == 1, method.use
    assert out.index("To start with") < out.index("  labelfold ") < out.index("  lda ") < out.index("Numbers")
    assert "SSNMF + SVM (non-negative parts, then a linear SVM)" in out
    told, _ = run(capsys, "methods lda")
    assert re.search(r"^learns from +labelled rows", told, re.MULTILINE)
    assert re.search(r"^predicts +classes", told, re.MULTILINE)
    told, _ = run(capsys, "methods ridge")
    assert re.search(r"^predicts +numbers", told, re.MULTILINE)
    refuse(capsys, "methods ldaa", "lda")


def test_fit_saves_a_recipe_and_the_model(wine, model, capsys):
    from labelfold import LDA, Recipe

    assert [type(step) for step in model] == [Recipe, LDA]
    assert model[-1].ridge == 1
    assert model.feature_names_in_.tolist() == list(numbers(wine).columns)
    expected = LDA(2, ridge=1.0).fit(
        numbers(wine), wine["kind"].astype(object).where(wine["kind"].notna(), None)
    )
    np.testing.assert_allclose(model.transform(numbers(wine)), expected.transform(numbers(wine)))
    out, _ = run(capsys, "fit wine.parquet --target kind --drop name --scale -m lda -o tuned")
    assert f"{wine['kind'].notna().sum()} rows labelled in 3 classes" in out
    assert "ridge" in out
    assert re.search(
        r"Expect 9\d\.\d% right on new rows \(90% interval \d\d\.\d% to \d+\.\d%, from 118 lab", out
    )


def test_fit_fits_labelfold_unless_told(wine, capsys):
    from labelfold import LabelFold

    out, _ = run(capsys, "fit wine.csv --target kind --id name -o fold")
    assert out.startswith("LabelFold (many views of the rows, weighed by the labels) with 2 components")
    assert "Expect 9" in out
    saved = load_model("fold")[-1]
    assert type(saved) is LabelFold
    told, _ = run(capsys, "inspect fold")
    weights = pd.DataFrame(saved.view_weights_).groupby(["family", "form"])["weight"].sum()
    assert f"{weights.max():.0%}" in told
    run(capsys, "predict fold wine.csv --id name -o said.csv")
    said = pd.read_csv("said.csv")
    hidden = wine["kind"].isna().to_numpy()
    assert hidden.any()
    assert said["confidence"].between(1 / 3, 1).all()


def test_the_form_of_the_columns_is_part_of_the_model(wine, capsys):
    from labelfold import LDA, Recipe

    raw = wine.assign(**load_wine(as_frame=True).data)
    raw.to_csv("raw.csv", index=False)
    command = "fit raw.csv --target kind --id name -k 2 --ridge 1"
    out, _ = run(capsys, f"{command} -o auto")
    assert "The columns were brought to unit variance: proline varies 388 times as much" in out
    run(capsys, f"{command} --scale -o scaled")
    out, _ = run(capsys, f"{command} --no-scale -o plain")
    assert "columns were" not in out
    out, _ = run(capsys, "fit wine.csv --target kind --id name -k 2 --ridge 1 -o same")
    assert "The columns were left as they are: they vary by about as much." in out
    X = numbers(raw)
    np.testing.assert_array_equal(load_model("auto").transform(X), load_model("scaled").transform(X))
    np.testing.assert_allclose(load_model("auto")[:2].transform(X).std(axis=0), 1)
    assert [type(step) for step in load_model("plain")] == [Recipe, LDA]
    assert [type(step) for step in load_model("same")] == [Recipe, LDA]
    out, _ = run(capsys, "inspect auto")
    assert "the model brings the columns to unit variance first" in out
    run(capsys, "predict auto raw.csv --id name -o p.csv")
    assert (pd.read_csv("p.csv")["predicted"] == load_model("auto").predict(X)).all()
    heavy = raw.assign(**np.sinh(8 * (X - X.mean()) / X.std()).add_suffix(" amount")).drop(columns=X.columns)
    heavy.to_csv("heavy.csv", index=False)
    out, _ = run(capsys, "fit heavy.csv --target kind --id name -k 2 --ridge 1 -o ranked")
    assert "The columns were brought to ranks: 100% of them have heavy tails" in out
    out, _ = run(capsys, "inspect ranked")
    assert "the model brings the columns to ranks first" in out


@pytest.mark.parametrize("output", ["out.parquet", "out.csv", "out.tsv", "out.npz"])
def test_transform_writes_every_format(wine, model, capsys, output):
    _, err = run(capsys, f"transform model wine.parquet --id name -o {output}")
    assert err == "Note: ignored 'kind', which the model does not use.\n"
    options = {} if output == "out.npz" else {"id_columns": ["name"]}
    table = read_table(output, **options)
    np.testing.assert_allclose(table.X, model.transform(numbers(wine)))
    assert table.feature_names == list(model.get_feature_names_out())
    if options:
        assert table.ids["name"].tolist() == wine["name"].tolist()
    else:
        assert np.load(output)["name"].tolist() == wine["name"].tolist()


def test_transform_goes_by_column_names(wine, model, capsys):
    shuffled = numbers(wine).sample(frac=1, axis=1, random_state=0)
    shuffled.to_csv("new.csv", index=False)
    _, err = run(capsys, "transform model new.csv -o out.csv --predict")
    assert err == ""
    written = pd.read_csv("out.csv")
    np.testing.assert_allclose(written.iloc[:, :2], model.transform(numbers(wine)))
    assert written["predicted"].tolist() == model.predict(numbers(wine)).tolist()
    shuffled.drop(columns=["ash", "hue"]).to_csv("less.csv", index=False)
    refuse(capsys, "transform model less.csv -o out.csv", "lacks 2 of the 13 columns")


def test_a_large_file_is_embedded_and_predicted_in_blocks(model, capsys, monkeypatch):
    commands = ("transform model wine.csv --predict -o Z.csv", "predict model wine.csv -o P.csv")
    for command in commands:
        run(capsys, command)
    whole = {name: Path(name).read_text() for name in ("Z.csv", "P.csv")}
    monkeypatch.setattr("labelfold.app.io._arrow_tables.LARGE", 100)
    monkeypatch.setattr("labelfold.app.io._csv.BLOCK", 3000)
    sizes, block = [], Recipe._block
    monkeypatch.setattr(Recipe, "_block", lambda self, rows: sizes.append(rows.num_rows) or block(self, rows))
    for command in commands:
        run(capsys, command)
    assert max(sizes) < 50
    for name, text in whole.items():
        found, expected = pd.read_csv(name), pd.read_csv(io.StringIO(text))
        pd.testing.assert_frame_equal(found, expected)


def test_svmlight_needs_no_target_and_keeps_its_columns(wine, capsys):
    X, y = load_wine(return_X_y=True)
    dump_svmlight_file(X, y, "wine.svmlight", zero_based=False)
    run(capsys, "fit wine.svmlight --ridge 1 -o model")
    with open("new.svm", "w") as file:
        file.write("0 2:3.5\n")  # neither the first column nor the last
    run(capsys, "transform model new.svm -o out.npz")
    row = np.zeros((1, 13))
    row[0, 1] = 3.5
    np.testing.assert_allclose(read_table("out.npz").X, load_model("model").transform(row))


def test_unlabelled_spellings(wine, capsys):
    wine.assign(kind=wine["kind"].fillna("?")).to_csv("q.csv", index=False)
    out, _ = run(capsys, "fit q.csv --target kind --id name --unlabeled ? --ridge 1 -o model")
    assert "in 3 classes" in out
    out, _ = run(capsys, "fit q.csv --target kind --id name --ridge 1 -o model")
    assert "in 4 classes" in out


def test_compare_shows_a_table_and_writes_report_and_results(wine, capsys):
    out, err = run(
        capsys,
        "compare wine.csv -t kind --id name -m pca-svm,svm -m lda -b 6,30 -k 2 --repeats 2 -o r",
    )
    assert err.startswith("First answer: ")
    assert "r/report.html" in out
    results = pd.read_csv("r/results.csv")
    assert set(results["method"]) == {"lda", "pca-svm", "svm"}
    answer = json.loads(Path("r/answer.json").read_text(encoding="utf-8"))
    assert answer["answer"] == out.splitlines()[0]
    assert answer["low"] < answer["expected"] < answer["high"]
    for value in results.groupby(["method", "budget"])["score"].mean():
        assert f"{100 * value:.1f}%" in out
    report = Path("r/report.html").read_text(encoding="utf-8")
    assert "[bold]rosé" in report
    assert "wine 1" in report  # rows by their id
    assert not Path("r/model.skops").exists()
    again, _ = run(
        capsys,
        "compare wine.csv -t kind --id name -m pca-svm,svm -m lda -b 6,30 -k 2 --repeats 2 -o r",
    )
    assert f"{len(results)} results of an earlier run were reused" in again


def test_compare_saves_what_the_user_came_for(wine, capsys):
    out, _ = run(capsys, "compare wine.csv -t kind --id name -m lda,svm -b 30 -k 1,2 --repeats 2 --save -o r")
    for name in ("report.html", "results.csv", "model.skops", "embedding.parquet", "predictions.csv"):
        assert f"r/{name}" in out
    saved = load_model("r/model.skops")
    said = pd.read_csv("r/predictions.csv")
    assert list(said.columns) == ["name", "label", "predicted", "confidence"]
    assert said["name"].tolist() == wine["name"].tolist()
    assert said["predicted"].tolist() == saved.predict(numbers(wine)).tolist()
    assert said["label"].isna().tolist() == wine["kind"].isna().tolist()
    assert said["confidence"].between(0, 1).all()
    embedded = pd.read_parquet("r/embedding.parquet")
    np.testing.assert_allclose(embedded.iloc[:, 1:], saved.transform(numbers(wine)))
    told, _ = run(capsys, "inspect r/model.skops")
    assert "178 rows, 118 of them labelled" in told
    assert "component 1: " in told


def test_the_time_limit_is_for_everything(wine, capsys, monkeypatch):
    import labelfold.app.report

    whole, asked = labelfold.app.report.compare, {}

    def shorter(X, y, **settings):
        asked.update(settings)
        return whole(X, y, **(settings | {"repeats": 1}))

    monkeypatch.setattr(labelfold.app.report, "compare", shorter)
    run(capsys, "compare wine.csv -t kind --id name -m lda --time-limit 200 -o r")
    assert 100 < asked["time_limit"] < 0.75 * 200  # less what reading took


def test_one_label_a_class_is_saved_and_said(wine, capsys):
    first = wine["kind"].dropna().drop_duplicates().index
    wine.assign(kind=wine["kind"].where(wine.index.isin(first))).to_csv("few.csv", index=False)
    out, _ = run(capsys, "compare few.csv -t kind --id name --save -o r")
    assert "How well it predicts is not known; label more rows." in out
    said = pd.read_csv("r/predictions.csv")
    assert len(said) == len(wine)
    assert set(said["predicted"]) <= set(wine["kind"].dropna())
    assert not Path("r/report.html").exists()
    run(capsys, "predict r/model.skops wine.csv -o again.csv")
    run(capsys, "compare few.csv -t kind --id name -o q", status=2)


def test_a_class_with_one_label_is_named(wine, capsys):
    rare = wine.index[wine["kind"] == "red"][1:]
    wine.assign(kind=wine["kind"].mask(wine.index.isin(rare))).to_csv("rare.csv", index=False)
    for command in (
        "fit rare.csv -t kind --id name -o m",
        "compare rare.csv -t kind --id name -m lda -r 1 -o r",
    ):
        out, _ = run(capsys, command)
        assert "'red' has one labelled row only" in out


def test_predictions_in_a_pipe_are_as_they_are(wine, capsys):
    wine.assign(kind=wine["kind"].replace("red", "\x1b[31mred\x07")).to_csv("odd.csv", index=False)
    run(capsys, "fit odd.csv -t kind --id name -m lda -o m")
    out, _ = run(capsys, "predict m odd.csv")
    assert "\x1b[31mred\x07" in out


def test_files_are_written_where_the_reader_of_a_pipe_went_away(wine, capsys, monkeypatch):
    def gone(*_):
        raise SystemExit(1)  # rich's answer to a broken pipe

    monkeypatch.setattr("labelfold.app.commands._compare._show", gone)
    run(capsys, "compare wine.csv -t kind --id name -m lda -r 1 --save -o r")
    assert all((Path("r") / name).exists() for name in ("report.html", "predictions.csv", "model.skops"))


def test_signs_as_classes_are_told_with_the_option(wine, capsys):
    wine.assign(kind=np.where(wine["kind"] == "red", 1, -1)).to_csv("signs.csv", index=False)
    _, err = run(capsys, "fit signs.csv -t kind --id name -m lda -o m")
    assert "--label-free" in err
    assert "unlabeled=" not in err


def test_a_time_limit(wine, capsys):
    out, _ = run(capsys, "compare wine.csv -t kind --id name -m lda --repeats 2000 --time-limit 8 -o r")
    assert "stopped early by the time limit" in out
    assert len(pd.read_csv("r/results.csv")) < 2000 * 4 * 2


def test_ctrl_c_in_compare_still_writes(wine, capsys, monkeypatch):
    import labelfold.app.compare._runner as runs

    whole = runs.Runs._fit
    calls = iter(range(1))

    def impatient(self, *args):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return whole(self, *args)

    monkeypatch.setattr(runs.Runs, "_fit", impatient)
    _, err = run(
        capsys, "compare wine.csv -t kind --id name -m svm,lda -b 6,30 -k 2 --repeats 2 -o r", status=130
    )
    assert err == "labelfold: Stopped.\n"
    assert len(pd.read_csv("r/results.csv")) == 1
    report = Path("r/report.html").read_text(encoding="utf-8")
    assert "stopped early by Ctrl-C: this is what 1 run gave. There was no time for LDA." in report
    assert "1 of the 2 repeats asked for" in report


@pytest.mark.parametrize("where", ["app.commands._compare.accuracy_grid", "app.compare._review._maps"])
def test_ctrl_c_after_the_runs_still_writes(wine, capsys, monkeypatch, where):
    def impatient(found):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"labelfold.{where}", impatient)
    run(capsys, "compare wine.csv -t kind --id name -m lda -b 30 -k 2 --repeats 1 -o r", status=130)
    report = Path("r/report.html").read_text(encoding="utf-8")
    assert 'id="maps"' not in report
    assert 'id="numbers"' in report


def test_fit_with_one_label_a_class(wine, capsys):
    few = wine.copy()
    first = few.dropna(subset="kind").groupby("kind").head(1).index
    few.loc[~few.index.isin(first), "kind"] = None
    few.to_csv("few.csv", index=False)
    out, _ = run(capsys, "fit few.csv --target kind --id name -o few")
    assert "too few labels to estimate" in out
    run(capsys, "predict few few.csv --id name -o said.csv")
    assert len(pd.read_csv("said.csv")) == len(wine)


def test_demo(tmp_path, capsys, monkeypatch):
    import labelfold.app.report

    whole = labelfold.app.report.compare
    asked = {}

    def shorter(X, y, **settings):
        asked.update(settings, shape=X.shape, known=sum(v is not None for v in y))
        less = {"methods": ["lda"], "budgets": [20], "components": 9, "repeats": 1}
        return whole(X, y, **(settings | less))

    monkeypatch.setattr(labelfold.app.report, "compare", shorter)
    out, _ = run(capsys, ["demo", "--output", str(tmp_path / "a" / "b")])
    assert asked["shape"] == (1797, 64)
    assert asked["known"] == 100
    assert asked["time_limit"] <= 120
    assert re.search(r"Of the 1,697 images whose label was hidden, the model names \d\d\.\d% rightly", out)
    for name in ("report.html", "model.skops", "predictions.csv", "digits.csv"):
        assert (tmp_path / "a" / "b" / name).exists()


def test_datasets(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, _ = run(capsys, "datasets")
    assert re.search(r"^digits +1,797 +64 +10", out, re.MULTILINE)
    out, _ = run(capsys, "datasets iris --labels 9")
    assert "labelfold compare iris.csv --target species --id row" in out
    frame = pd.read_csv("iris.csv")
    assert frame.shape == (150, 6)
    assert frame["species"].notna().sum() == 9
    assert frame["species"].nunique() == 3
    run(capsys, "datasets wine -o wine.parquet")
    assert pd.read_parquet("wine.parquet")["cultivar"].notna().all()


def test_predict_and_methods_without_an_embedding(wine, capsys):
    run(capsys, "fit wine.csv -t kind --id name -m svm -o svm")
    _, err = run(capsys, "predict svm wine.csv --id name -o out.csv")
    assert err == "Note: ignored 'kind', which the model does not use.\n"
    said = pd.read_csv("out.csv")
    assert list(said.columns) == ["name", "predicted", "confidence"]
    assert said["predicted"].tolist() == load_model("svm").predict(numbers(wine)).tolist()
    refuse(capsys, "transform svm wine.csv -o out.csv", "gives no embedding; labelfold predict")
    told, _ = run(capsys, "inspect svm")
    assert "UnitSpread, then LinearSVC" in told
    assert re.search(r"^chosen +C [\d.e-]+ *$", told, re.MULTILINE)


def test_predictions_go_to_the_screen_unless_a_file_is_named(wine, model, capsys):
    out, err = run(capsys, "predict model wine.csv --id name")
    said = pd.read_csv(io.StringIO(out))
    assert list(said.columns) == ["name", "predicted", "confidence"]
    assert said["predicted"].tolist() == model.predict(numbers(wine)).tolist()
    assert err == "Note: ignored 'kind', which the model does not use.\n"


def test_inspect(wine, model, capsys):
    out, _ = run(capsys, "inspect model")
    for words in ("13: alcohol", "red (", "component 2: ", "labelfold 0."):
        assert words in out
    assert re.search(r"^chosen +ridge 1 *$", out, re.MULTILINE)
    strongest = re.search(r"component 1: (\w+)", out)[1]
    Z = model.transform(numbers(wine))[:, 0]
    together = numbers(wine).corrwith(pd.Series(Z)).abs()
    assert strongest == together.idxmax()


def test_inspect_a_model_saved_in_python(tmp_path, capsys):
    from sklearn.decomposition import PCA

    from labelfold import save

    X, _ = load_wine(return_X_y=True)
    save(PCA(2).fit(X), tmp_path / "pca")
    out, _ = run(capsys, ["inspect", str(tmp_path / "pca")])
    assert re.search(r"^made of +PCA *$", out, re.MULTILINE)
    assert "component 1: column 12 " in out


def test_several_labels_a_row(wine, capsys):
    frame = numbers(wine)
    frame["strong"] = (frame["alcohol"] > frame["alcohol"].median()).astype("Int64")
    frame["pale"] = (frame["color_intensity"] < frame["color_intensity"].median()).astype("Int64")
    frame.loc[::3, ["strong", "pale"]] = pd.NA
    frame.to_csv("two.csv", index=False)
    run(capsys, "compare two.csv -t strong -t pale -m opls,svm -b 20 -k 2 --repeats 1 --save -o r")
    said = pd.read_csv("r/predictions.csv")
    assert {"predicted strong", "predicted pale"} <= set(said.columns)
    out, _ = run(capsys, "fit two.csv -t strong -t pale -m opls --ridge 1 -o model")
    assert "118 rows labelled in 2 classes" in out
    run(capsys, "predict model two.csv -o out.csv")
    assert len(pd.read_csv("out.csv")) == 178


def test_what_counts_as_no_label(wine, capsys):
    frame = numbers(wine).assign(mood=np.resize([-1, 0, 1, 1], 178))
    frame.to_csv("mood.csv", index=False)
    out, err = run(capsys, "fit mood.csv -t mood --ridge 1 -o model")
    assert "45 rows labelled -1 are taken as unlabelled" in err
    assert "133 rows labelled in 2 classes" in out
    out, err = run(
        capsys, ["fit", "mood.csv", "-t", "mood", "--ridge", "1", "-o", "model", "--label-free", ""]
    )
    assert err == ""
    assert "178 rows labelled in 3 classes (all of them: supervised)" in out
    assert load_model("model").classes_.tolist() == [-1, 0, 1]
    command = "fit mood.csv -t mood --ridge 1 -o model --label-free 0 --label-free -1"
    refuse(
        capsys,
        command,
        "The target of mood.csv has one class only, 1, in its 88 labelled rows, the other 90 being missing; label",
    )


def test_labels_that_look_like_none_are_noted(wine, capsys):
    numbers(wine).assign(mood=np.resize(["good", "bad", "?"], 178)).to_csv("mood.csv", index=False)
    _, err = run(capsys, "fit mood.csv -t mood --ridge 1 -o model")
    assert (
        err
        == "Note: 59 rows labelled '?' are taken as a class; --label-free \"?\" says that it means no label.\n"
    )
    _, err = run(capsys, "fit mood.csv -t mood --ridge 1 -o model --label-free ?")
    assert err == ""


def test_two_classes_of_signs_are_noted_once(wine, capsys):
    numbers(wine).assign(sign=np.resize([-1, 1], 178)).to_csv("signs.csv", index=False)
    _, err = run(capsys, "fit signs.csv -t sign -o model")
    assert err == (
        "Note: The only values of the target are -1 and +1, which are read as two classes (89 and 89 rows); if -1 "
        "means unlabelled, give --label-free -1, or give the class another value than 1; "
        'give --label-free "" to silence this warning.\n'
    )


BAD = {
    "fit nil.csv -t kind -o m": "There is no file nil.csv",
    "fit wine.cvs -t kind -o m": "did you mean 'wine.csv'",
    "fit . -t kind -o m": "is a folder",
    "fit wine.csv -o m": "--target",
    "fit wine.csv -t knd -o m": "did you mean 'kind'",
    "fit wine.csv -t kind --id nam -o m": "no id column 'nam'",
    "fit wine.csv -t kind --drop nam -o m": "no dropped column 'nam'",
    "fit wine.csv -t kind --id name -m ldaa -o m": "did you mean 'lda'",
    "fit wine.csv -t kind --id name -m umap -o m": "umap",
    "fit wine.csv -t name -o m --drop kind": "a different label in each of its 178 labelled rows",
    "compare wine.csv -t name --drop kind": "a different label in each of its 178 labelled rows",
    "compare wine.csv -t kind --id name -b 500": "budget of 500 labels is outside 3 to",
    "compare wine.csv -t kind --id name --time-limit 0": "above 0",
    "compare wine.csv -t kind --id name -k 99": "larger than X, which has 13 columns",
    "compare wine.csv -t kind --id name --image-shape 3x3": "9 pixels, and X has 13 columns",
    "compare wine.csv -t kind --id name --image-shape big": "such as 28x28",
    "compare none.csv -t kind": "no labelled row",
    "fit wine.csv -t kind --text nam -o m": "no text column 'nam' (did you mean 'name'?)",
    "fit unspecified.csv -t kind -o m": "67% of the labels of unspecified.csv are 'Unspecified'; give --label-free",
    "fit unsure.csv -t kind -o m": "67% of the labels of unsure.csv are 'unknown'; give --label-free \"unknown\"",
    "compare nothing.csv -t kind": "No column is left to learn from ('x': it holds one value)",
    "compare cut.parquet -t kind": "not a whole Parquet file",
    "inspect nil": "There is no file nil",
    "inspect wine.csv": "is not a labelfold model",
    "predict model wine.csv -o no/o.csv": "no folder no",
    "predict model wine.csv -o o.xls": "does not write",
    "datasets nope": "no data set 'nope'",
    "datasets iris --labels 2": "from 3, one a class, to 150",
    "fit wine.csv -t kind --id name -k 0 -o m": "at least 1, not 0",
    "fit wine.csv -t kind --id name -k two -o m": "'-k'",
    "fit wine.csv -t kind --id name --ridge -1 -o m": "at least 0",
    "fit wine.csv -t kind --id name -m pca-svm --ridge 1 -o m": "has no ridge",
    "fit wine.csv -t kind --id name -o no/m": "no folder no",
    "fit wine.csv -t kind --id name -o wine.csv/m": "not a folder",
    "fit wine.csv -t kind --id name -o .": "is a folder",
    "fit wine.csv -t kind --id name": "--output",
    "fit wine.csv -t kind --format xml -o m": "no format",
    "fit odd.xyz -t kind -o m": ".parquet",
    "fit empty.csv -t kind -o m": "is empty",
    "fit binary.csv -t kind -o m": "binary",
    "fit binary.parquet -t kind -o m": "Parquet",
    "fit one.csv -t kind -o m": "one class only",
    "fit none.csv -t kind -o m": "no labelled row",
    "fit real.csv -t kind --task classification -o m": "fractions",
    "fit nolabels.npz -o m": "--target",
    "transform nil wine.csv -o o.csv": "There is no file nil",
    "transform wine.csv wine.csv -o o.csv": "is not a labelfold model",
    "transform model nil.csv -o o.csv": "There is no file nil.csv",
    "transform model wine.csv -o o.xls": "does not write",
    "transform model wine.csv -o no/o.csv": "no folder no",
    "transform model nolabels.npz -o o.csv": "3 columns for X where the model was fitted on 13",
    "compare nil.csv -t kind": "There is no file nil.csv",
    "compare wine.csv -t kind --id name -m svm,nope": "no method 'nope'",
    "compare wine.csv -t kind --id name -b 2": "budget of 2",
    "compare wine.csv -t kind --id name -b few": "--budgets takes whole numbers",
    "compare wine.csv -t kind --id name -k 0": "-k takes whole numbers from 1 up",
    "compare wine.csv -t kind --id name --repeats 0": "at least 1",
    "compare wine.csv -t kind --id name -o wine.csv": "not a folder",
    "compare one.csv -t kind": 'label rows of two classes or more, or give --label-free "" if',
    "demo -o wine.csv/x": "not a folder",
    "nonsense": "nonsense",
    "fit --nonsense": "--nonsense",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_requests_are_one_sentence(wine, model, capsys, command):
    with open("empty.csv", "w"), open("odd.xyz", "w") as odd:
        odd.write("x")
    for name in ("binary.csv", "binary.parquet"):
        with open(name, "wb") as file:
            file.write(bytes(range(1, 100)))
    for name, values in {"one": "aa", "none": ["", ""], "real": ["0.5", "1.7"]}.items():
        with open(f"{name}.csv", "w") as file:
            file.write("x,kind\n" + "".join(f"{i},{v}\n" for i, v in enumerate(values)))
    np.savez("nolabels.npz", X=np.ones((4, 3)))
    Path("unspecified.csv").write_text("x,kind\n1,Unspecified\n2,b\n3,Unspecified\n")
    Path("unsure.csv").write_text("x,kind\n1,unknown\n2,b\n3,unknown\n")
    Path("nothing.csv").write_text("x,kind\n1,a\n1,b\n1,a\n1,b\n")
    Path("cut.parquet").write_bytes(Path("wine.parquet").read_bytes()[:-40])
    before = set(os.listdir())
    refuse(capsys, command, BAD[command])
    assert set(os.listdir()) - before <= {"labelfold-compare"}


def test_outputs_are_checked_before_the_data_is_read(wine, capsys, monkeypatch):
    monkeypatch.setattr(
        "labelfold.app.io._tables.read_table", lambda *a, **k: pytest.fail("read before checking")
    )
    refuse(capsys, "fit wine.csv -t kind --id name -o no/m", "no folder")
    refuse(capsys, "compare wine.csv -t kind --id name -o wine.csv", "not a folder")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(wine, capsys):
    os.mkdir("closed")
    os.chmod("closed", 0o500)
    refuse(capsys, "fit wine.csv -t kind --id name -o closed/m", "Permission denied")


def test_a_full_or_read_only_disk_is_found_before_the_work(wine, capsys, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    refuse(capsys, "fit wine.csv -t kind --id name -o m", "Read-only file system")


def test_a_failure_nobody_foresaw(wine, capsys, monkeypatch):
    def broken(*args, **kwargs):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("labelfold.app.io.read_table", broken)
    refuse(capsys, "compare wine.csv -t kind", "ZeroDivisionError: oops", status=1)
    sentence = refuse(capsys, "compare wine.csv -t kind", "LABELFOLD_DEBUG=1", status=1)
    assert "unforeseen" in sentence
    monkeypatch.setenv("LABELFOLD_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["compare", "wine.csv", "-t", "kind"])


def test_warnings_are_notes(wine, capsys):
    _, err = run(capsys, "fit wine.csv -t kind --id name -k 9 --ridge 1 -o m")
    assert err.startswith("Note: ")
    assert "\n" not in err.strip()
    assert "n_components=9" in err


def test_the_missing_extra_is_named(capsys, monkeypatch):
    whole = labelfold.app.commands._cli.find_spec
    monkeypatch.setattr(
        labelfold.app.commands._cli, "find_spec", lambda name: None if name == "skops" else whole(name)
    )
    refuse(capsys, "methods", "needs skops: pip install 'labelfold[app]'")


def test_the_installed_command():
    """The real thing once, as a process: exit status, streams, and heavy imports left for later."""
    code = (
        "import sys; from labelfold.app.commands._cli import main; main(['--help']); print('modules', *sys.modules);"
        "sys.exit(main(['fit', 'nil.csv', '-t', 'y', '-o', 'm']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    *_, last = done.stdout.splitlines()
    modules = last.split()
    assert modules[0] == "modules"
    assert "typer" in modules
    assert not {"numpy", "plotly", "skops", "pyarrow.parquet"} & set(modules)


def test_python_m_runs_the_command():
    done = subprocess.run([sys.executable, "-m", "labelfold", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"labelfold {labelfold.__version__}\n")


def test_labels_of_minus_one_are_announced(wine, capsys):
    pd.DataFrame({"a": [1, 2, 4, 4, 5], "b": [2, 3, 5, 4, 5], "mood": [-1, 1, 0, 1, 0]}).to_csv(
        "mood.csv", index=False
    )
    out, err = run(capsys, "fit mood.csv --target mood --ridge 1 -o model")
    assert err == (
        "Note: 1 row labelled -1 is taken as unlabelled; if it is a class, give it another name, or give "
        '--label-free "".\n'
    )
    assert "4 rows labelled in 2 classes" in out


def test_a_model_without_classes_predicts_none(wine, capsys):
    from sklearn.decomposition import PCA

    from labelfold import save

    X = wine.drop(columns=["name", "kind"])
    save(PCA(2).fit(X), "pca")
    refuse(capsys, "transform pca wine.csv -o o.csv --predict", "predicts nothing")
    run(capsys, "transform pca wine.csv -o o.csv")


def test_formulas_in_labels_and_ids_are_written_as_they_are_unless_safe_csv_is_asked_for(wine, capsys):
    marked = wine.assign(kind=wine["kind"].map({"red": "=1+1", "white": "-x"}, na_action="ignore"))
    marked = marked.assign(name=[f"@{i}" if i % 2 else f"-{i}" for i in range(len(wine))])
    marked.to_csv("marked.csv", index=False)
    run(capsys, "fit marked.csv --target kind --id name --ridge 1 -o m")
    run(capsys, "predict m marked.csv --id name -o plain.csv")
    run(capsys, "predict m marked.csv --id name --safe-csv -o safe.csv")
    run(capsys, "transform m marked.csv --id name --predict --safe-csv -o safe.tsv")
    plain = pd.read_csv("plain.csv", dtype=str)
    assert plain["name"].tolist() == marked["name"].tolist()
    assert set(plain["predicted"]) == {"=1+1", "-x"}
    for safe in (pd.read_csv("safe.csv", dtype=str), pd.read_csv("safe.tsv", dtype=str, sep="\t")):
        assert safe["name"].tolist() == [f"'{n}" if n[0] == "@" else n for n in marked["name"]]
        assert safe["predicted"].tolist() == ("'" + plain["predicted"]).tolist()
    command = "compare marked.csv --target kind --id name -m lda -k 2 -b 20 -r 1 --save --safe-csv -o r"
    run(capsys, command)
    assert set(pd.read_csv("r/predictions.csv", dtype=str)["predicted"]) <= {"'=1+1", "'-x"}


def test_labels_do_not_steer_the_terminal(wine, capsys):
    names = {"red": "\x1b]0;title\x07red", "white": "w\x1b[2Jhite", "[bold]rosé": "ro\x9bsé"}
    steering = wine.assign(kind=wine["kind"].map(names, na_action="ignore"))
    steering = steering.rename(columns={"ash": "a\x1b[31msh"})
    steering.to_parquet("s.parquet")
    said = [*run(capsys, "fit s.parquet --target kind --id name --ridge 1 -o m"), *run(capsys, "inspect m")]
    said += run(capsys, "compare s.parquet --target kind --id name -m lda,svm -k 2 -b 20 -r 1 -o r")
    told = steering.assign(**{"col\x1b]0;title\x07our": np.where(steering.index % 2, "dark", "pa\x1b[2Jle")})
    told.to_parquet("t.parquet")  # what is made of that column is told
    said += run(capsys, "compare t.parquet --target kind --id name -m lda -k 2 -b 20 -r 1 -o t")
    steering.drop(columns="a\x1b[31msh").to_parquet("less.parquet")
    said += run(capsys, "predict m less.parquet -o p.csv", status=2)
    assert "\\x1b[2J" in "".join(said)
    assert not set("".join(said)) & set("\x1b\x07\x9b")
