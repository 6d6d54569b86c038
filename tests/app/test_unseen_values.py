"""New rows that spell the values of a table in another way: the same predictions, one sentence, or a refusal."""

import sqlite3
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labelfold.app.io._arrow_tables as frames
from labelfold import Recipe, UnseenValuesWarning, load
from labelfold.app.commands._cli import main

# what is said of honest new rows: people whose names the model has not seen
USUAL = "Note: 91 of 400 cells of 'name' hold a value the model never saw: 'p6', 'p29', 'p93', 'p34'.\n"
pytestmark = pytest.mark.usefixtures("quick_comparisons")
N, LABELLED = 400, 60
CITIES = ["Oslo", "Zürich", "Rome", "Wien"]
WORDS = [
    "the",
    "a",
    "of",
    "and",
    "you",
    "with",
    "this",
    "from",
    "late",
    "early",
    "good",
    "bad",
    "slow",
    "fast",
]


def table(n=N, seed=0):
    """Rows of mixed columns, of which the member and the active ones are of one class, and the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)

    def often(truth, share):
        return np.where(rng.random(n) < share, truth, rng.integers(0, 2, n))

    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), "D")
    frame = pd.DataFrame(
        {
            "member": np.where(often(y, 0.9), "True", "False"),
            "agreed": np.where(often(y, 0.8), "yes", "no"),
            "active": often(y, 0.8),
            "city": np.array(CITIES, dtype=object)[(rng.integers(0, 2, n) + 2 * often(y, 0.5)) % 4],
            "zip": rng.choice(["01010", "02020", "00303", "04040"], n),
            "amount": [f"{v:.2f}" for v in rng.normal(size=n) * 20 + 100 + 20 * y],
            "count": rng.integers(1000, 9000, n),
            "since": days.strftime("%d.%m.%Y"),
            "name": [f"p{v}" for v in rng.integers(0, 260, n)],
            "note": [" ".join(rng.choice(WORDS, 7)) for _ in range(n)],
        }
    ).astype(object)
    return frame.astype({"active": int, "count": int}), np.where(y, "in", "out")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a model of the table, the same rows as a file, and what is predicted of them."""
    folder = tmp_path_factory.mktemp("unseen")
    frame, y = table()
    truth = pd.Series(y, dtype=object).where(np.arange(N) < LABELLED)
    # what a user has: most rows without a label
    frame.assign(kind=truth).to_csv(folder / "train.csv", index=False)
    assert main(["fit", str(folder / "train.csv"), "-t", "kind", "-o", str(folder / "model")]) == 0
    new, answer = table(seed=1)
    new.to_csv(folder / "new.csv", index=False)
    code = main(["predict", str(folder / "model"), str(folder / "new.csv"), "-o", str(folder / "said.csv")])
    assert code == 0
    said = pd.read_csv(folder / "said.csv")
    assert np.mean(said["predicted"] == answer) > 0.9
    return folder, new, said


def spelled(column, words):
    return lambda frame: frame.assign(**{column: frame[column].map(words)})


TRUTH = {"True": "yes", "False": "no"}
CHANGES = {
    # one value in another spelling: the same predictions, and nothing is said
    "0 and 1": (spelled("member", {"True": 1, "False": 0}), "same"),
    "0.0 and 1.0": (spelled("member", {"True": "1.0", "False": "0.0"}), "same"),
    "yes and no": (spelled("member", TRUTH), "same"),
    "Y and N": (spelled("member", {"True": "Y", "False": "N"}), "same"),
    "t and f": (spelled("member", {"True": "t", "False": "f"}), "same"),
    "TRUE and FALSE": (spelled("member", {"True": "TRUE", "False": "FALSE"}), "same"),
    "three spellings": (
        lambda f: f.assign(member=[{"True": ["T", "1", "Yes"], "False": ["F", "0", "No"]}[v][i % 3]
                                   for i, v in enumerate(f["member"])]),
        "same",
    ),
    "yes and no typed": (spelled("agreed", {"yes": True, "no": False}), "same"),
    "yes and no as 1 and 0": (spelled("agreed", {"yes": 1, "no": 0}), "same"),
    "YES and NO": (lambda f: f.assign(agreed=f["agreed"].str.upper()), "same"),
    "1 and 0 as yes and no": (spelled("active", {1: "yes", 0: "no"}), "same"),
    "1 and 0 as True and False": (spelled("active", {1: True, 0: False}), "same"),
    "some 1 and 0 as Y and N": (
        lambda f: f.assign(active=[{1: "Y", 0: "N"}[v] if i % 9 == 0 else v for i, v in enumerate(f["active"])]),
        "same",
    ),
    "accents in two characters": (
        lambda f: f.assign(city=[unicodedata.normalize("NFD", v) for v in f["city"]]),
        "same",
    ),
    "a space around": (lambda f: f.assign(city=" " + f["city"] + "  "), "same"),
    "dates of a database": (
        lambda f: f.assign(since=pd.to_datetime(f["since"], format="%d.%m.%Y").dt.strftime("%Y-%m-%d")),
        "same",
    ),
    "typed dates": (lambda f: f.assign(since=pd.to_datetime(f["since"], format="%d.%m.%Y")), "parquet"),
    "marks between thousands": (lambda f: f.assign(count=[f"{v:,}" for v in f["count"]]), "same"),
    # another value
    "capitals": (lambda f: f.assign(city=f["city"].str.upper()), "'OSLO'", "city"),
    "translated": (spelled("member", {"True": "wahr", "False": "falsch"}), "'falsch'", "member"),
    "other words": (spelled("agreed", {"yes": "ja", "no": "nein"}), "'nein'", "agreed"),
    "codes": (lambda f: f.assign(city=f["city"].map({c: i for i, c in enumerate(CITIES)})), "'0'", "city"),
    "zip codes without zeros": (lambda f: f.assign(zip=f["zip"].str.lstrip("0")), "'1010'", "zip"),
    "decimal comma": (
        lambda f: f.assign(amount=f["amount"].str.replace(".", ",")), "written with a decimal comma", "amount",
    ),
    "decimal comma, three digits": (
        lambda f: f.assign(amount=[f"{float(v):.{3 if i % 2 else 1}f}".replace(".", ",")
                                   for i, v in enumerate(f["amount"])]),
        "written with a decimal comma, and the model learned a decimal point",
        "amount",
    ),
    "units": (lambda f: f.assign(amount=f["amount"] + " kg"), "hold no number as the model reads it", "amount"),
    "another layout": (
        lambda f: f.assign(since=pd.to_datetime(f["since"], format="%d.%m.%Y").dt.strftime("%Y%m%d")),
        "hold no date as the model reads it",
        "since",
    ),
    "month first": (
        lambda f: f.assign(since=pd.to_datetime(f["since"], format="%d.%m.%Y").dt.strftime("%m.%d.%Y")),
        "hold dates with day and month in another order",
        "since",
    ),
    "no number": (lambda f: f.assign(count="lots"), "400 of 400 cells of 'count' hold no number", "count"),
    "dates for numbers": (
        lambda f: f.assign(count=pd.Timestamp("2020-01-01")), "cells of 'count' hold no number", "count",
    ),
    "another language": (
        lambda f: f.assign(note="der und das mit dieser von ihnen"),
        "400 of 400 cells of 'note' hold no word that the model knows",
        "note",
    ),
}  # fmt: skip


def predict(capsys, folder, rows, *options):
    code = main(["predict", str(folder / "model"), str(rows), "-o", "said.csv", *options])
    return code, capsys.readouterr().err


@pytest.mark.parametrize("case", CHANGES)
def test_another_spelling_gives_the_same_or_is_refused(home, case, capsys, monkeypatch, tmp_path):
    folder, new, said = home
    monkeypatch.chdir(tmp_path)
    change, *expected = CHANGES[case]
    rows = change(new)
    rows.to_csv("rows.csv", index=False)
    typed = "rows.csv"
    if expected[0] == "parquet":
        rows.to_parquet("rows.parquet")
        typed = "rows.parquet"  # a CSV file has no types
    code, err = predict(capsys, folder, typed)
    if len(expected) == 1:
        assert (code, err) == (0, USUAL)
        pd.testing.assert_frame_equal(pd.read_csv("said.csv"), said)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert load(folder / "model").predict(rows).tolist() == said["predicted"].tolist()
        return
    words, column = expected
    assert code == 2
    assert not Path("said.csv").exists()
    usual, refusal = err.splitlines(keepends=True)
    assert usual == USUAL
    odd = 383 if case == "month first" else N  # on 17 days the number of the month is that of the day
    assert refusal.startswith(f"labelfold: In rows.csv {odd} of {N} cells of {column!r} ")
    assert words in refusal
    code, err = predict(capsys, folder, "rows.csv", "--accept-unseen")
    assert code == 0
    usual, other = sorted(err.splitlines(keepends=True), key=lambda line: "'name'" not in line)
    assert usual == USUAL
    assert other.startswith(f"Note: {odd} of {N} cells of {column!r} ")
    assert len(pd.read_csv("said.csv")) == N
    with pytest.warns(UnseenValuesWarning, match=f"cells of '{column}' ") as seen:
        load(folder / "model").predict(pd.read_csv("rows.csv", dtype=str))
    assert len(seen) == 1


def stored(frame, path):
    """Write the rows as another source has them: with types of its own."""
    typed = frame.assign(
        member=frame["member"] == "True",
        amount=frame["amount"].astype(float),
        since=pd.to_datetime(frame["since"], format="%d.%m.%Y"),
    )
    if path.suffix == ".parquet":
        typed.to_parquet(path)
    elif path.suffix == ".jsonl":
        typed.assign(since=frame["since"]).to_json(path, orient="records", lines=True)
    elif path.suffix == ".xlsx":
        typed.to_excel(path, index=False)
    else:
        with sqlite3.connect(path) as connection:
            typed.to_sql("rows", connection, index=False)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl", "rows.xlsx", "rows.db"])
def test_the_same_rows_from_another_source(home, name, capsys, monkeypatch, tmp_path):
    folder, new, said = home
    monkeypatch.chdir(tmp_path)
    stored(new, Path(name))
    code, err = predict(capsys, folder, name)
    assert (code, err) == (0, USUAL)
    pd.testing.assert_frame_equal(pd.read_csv("said.csv"), said)


def test_flags_with_gaps(home, capsys, monkeypatch, tmp_path):
    """pandas turns whole numbers with gaps to floats, and flags with gaps to objects."""
    folder, new, _ = home
    monkeypatch.chdir(tmp_path)
    found = []
    for column, words in (("member", {"True": 1.0, "False": 0.0}), ("active", {1: "yes", 0: "no"})):
        for rows in (new, new.assign(**{column: new[column].map(words)})):
            rows.assign(**{column: rows[column].where(np.arange(N) % 5 > 0)}).to_csv("rows.csv", index=False)
            assert predict(capsys, folder, "rows.csv") == (0, USUAL)
            found.append(Path("said.csv").read_text())
    assert found[0] == found[1] != found[2] == found[3]


def test_a_model_of_a_database_reads_a_file(capsys, monkeypatch, tmp_path):
    """The other way round: learned from 0 and 1, dates of a database and numbers, applied to text."""
    monkeypatch.chdir(tmp_path)
    frame, y = table()
    stored(frame.assign(kind=pd.Series(y, dtype=object).where(np.arange(N) < LABELLED)), Path("train.db"))
    assert main(["fit", "train.db", "-t", "kind", "-o", "model"]) == 0
    new, _ = table(seed=1)
    stored(new, Path("new.db"))
    assert predict(capsys, tmp_path, "new.db")[0] == 0
    expected = Path("said.csv").read_text()
    for words in ({"True": "True", "False": "False"}, TRUTH, {"True": "t", "False": "f"}):
        iso = pd.to_datetime(new["since"], format="%d.%m.%Y").dt.strftime("%Y-%m-%d")
        new.assign(member=new["member"].map(words), since=iso).to_csv("new.csv", index=False)
        assert predict(capsys, tmp_path, "new.csv") == (0, USUAL)
        assert Path("said.csv").read_text() == expected


def test_one_new_value_among_many_is_a_note(home, capsys, monkeypatch, tmp_path):
    folder, new, _ = home
    monkeypatch.chdir(tmp_path)
    some = new.astype(object)
    some.loc[:2, "city"] = ["Bergen", "Bergen", "Graz"]
    some.loc[:3, "count"] = ["many", "n/a", "", "many"]
    some.to_csv("rows.csv", index=False)
    code, err = predict(capsys, folder, "rows.csv")
    assert code == 0
    assert sorted(err.splitlines(keepends=True)) == [
        "Note: 2 of 398 cells of 'count' hold no number as the model reads it: 'many'.\n",
        "Note: 3 of 400 cells of 'city' hold a value the model never saw: 'Bergen', 'Graz'.\n",
        USUAL,
    ]


def test_a_single_row(home, capsys, monkeypatch, tmp_path):
    """One new value is usual, a number that cannot be read is not; a row of missing cells holds nothing new."""
    folder, new, _ = home
    monkeypatch.chdir(tmp_path)
    one = new.head(1)
    one.assign(name="somebody").to_csv("rows.csv", index=False)
    said = "Note: 1 of 1 cells of 'name' hold a value the model never saw: 'somebody'.\n"
    assert predict(capsys, folder, "rows.csv") == (0, said)
    one.assign(city="OSLO").to_csv("rows.csv", index=False)
    code, err = predict(capsys, folder, "rows.csv")
    assert code == 0
    assert said.replace("name", "city").replace("somebody", "OSLO") in err
    new.head(5).assign(city="OSLO").to_csv("rows.csv", index=False)
    assert predict(capsys, folder, "rows.csv")[0] == 2
    one.assign(amount="much").to_csv("rows.csv", index=False)
    assert predict(capsys, folder, "rows.csv")[0] == 2
    one.assign(**dict.fromkeys(["member", "city", "amount", "since", "note"], "n/a"), active=None).to_csv(
        "rows.csv", index=False
    )
    code, err = predict(capsys, folder, "rows.csv")
    assert code == 0
    assert "member" not in err


@pytest.mark.parametrize("change", ["capitals", "no number", "0 and 1"])
def test_a_file_in_blocks_is_looked_at_too(home, change, capsys, monkeypatch, tmp_path):
    folder, new, _ = home
    monkeypatch.chdir(tmp_path)
    CHANGES[change][0](new).to_csv("rows.csv", index=False)
    whole = predict(capsys, folder, "rows.csv")
    monkeypatch.setattr(frames, "LARGE", 100)
    assert predict(capsys, folder, "rows.csv") == whole
    assert whole[0] == (0 if change == "0 and 1" else 2)


def test_new_rows_are_converted_once(home, capsys, monkeypatch, tmp_path):
    folder, new, _ = home
    monkeypatch.chdir(tmp_path)
    new.to_csv("rows.csv", index=False)
    blocks, convert = [], Recipe._block
    monkeypatch.setattr(Recipe, "_block", lambda self, block: blocks.append(block) or convert(self, block))
    assert predict(capsys, folder, "rows.csv")[0] == 0
    assert [block.num_rows for block in blocks] == [N]


def test_transform_refuses_alike_and_so_does_a_model_of_compare(home, capsys, monkeypatch, tmp_path):
    folder, new, _ = home
    monkeypatch.chdir(tmp_path)
    new.assign(city=new["city"].str.upper()).to_csv("rows.csv", index=False)
    compare = [
        "compare",
        str(folder / "train.csv"),
        "-t",
        "kind",
        "-m",
        "lda",
        "-r",
        "1",
        "--save",
        "-o",
        "out",
    ]
    assert main(compare) == 0
    capsys.readouterr()
    for model in (folder / "model", "out/model.skops"):
        command = ["transform", str(model), "rows.csv", "-o", "t.csv"]
        assert main(command) == 2
        sentence = capsys.readouterr().err.splitlines()[-1]
        assert "400 of 400 cells of 'city' hold a value the model never saw: " in sentence
        assert "(it learned 'Oslo', 'Rome', 'Wien' and 'Zürich')" in sentence
        assert "--accept-unseen" in sentence
        assert not Path("t.csv").exists()
        assert main([*command, "--accept-unseen"]) == 0
        assert len(pd.read_csv("t.csv")) == N
        Path("t.csv").unlink()
        capsys.readouterr()


def test_a_saved_model_without_the_counts_is_applied(home, capsys):
    """Models of earlier versions lack what `fit` counts now: they know their categories all the same."""
    folder, new, said = home
    model = load(folder / "model")
    for _, part, _ in model[0].transformer_.transformers_:
        for step in [part, *getattr(part, "named_steps", {}).values()]:
            for name in ("rates_", "hashes_", "ends_", "flags", "odd"):
                step.__dict__.pop(name, None)
    assert model.predict(new).tolist() == said["predicted"].tolist()
    found = {one.name: one for one in model[0].unseen(new.assign(city="OSLO"))}
    assert found["city"].most
    assert not found["name"].most
