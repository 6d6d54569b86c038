"""New rows that spell the values of a table in another way: the same predictions, one sentence, or a refusal."""

import json
import sqlite3
import unicodedata
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labelfold.app.io._frames as frames
from labelfold import UnseenValuesWarning, load
from labelfold.app._cli import main

# what is said of honest new rows: people whose names the model has not seen
USUAL = "Note: 91 of 400 cells of 'name' hold a value the model never saw: 'p6', 'p29', 'p93', 'p34'.\n"
pytestmark = pytest.mark.usefixtures("quick_comparisons")
N, LABELLED = 400, 60
CITIES = ["Oslo", "Zürich", "Rome", "Wien"]
WORDS = "the a of and you with this from they have late early good bad slow fast big small old new".split()


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


def gaps(column, words):
    """A column of floats: pandas writes integers with gaps as such. The gaps stand for cells that were missing."""
    return lambda frame: frame.assign(**{column: frame[column].map(words).astype(float)})


TRUTH = {"True": "yes", "False": "no"}
CHANGES = {
    # one value in another spelling: the same predictions, and nothing is said
    "0 and 1": (spelled("member", {"True": 1, "False": 0}), "same"),
    "0.0 and 1.0": (spelled("member", {"True": "1.0", "False": "0.0"}), "same"),
    "floats": (gaps("member", {"True": 1, "False": 0}), "same"),
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
    "typed dates": (lambda f: f.assign(since=pd.to_datetime(f["since"], format="%d.%m.%Y")), "parquet"),
    "marks between thousands": (lambda f: f.assign(count=[f"{v:,}" for v in f["count"]]), "same"),
    # another value
    "capitals": (lambda f: f.assign(city=f["city"].str.upper()), "'OSLO'", "city"),
    "translated": (spelled("member", {"True": "wahr", "False": "falsch"}), "'falsch'", "member"),
    "other words": (spelled("agreed", {"yes": "ja", "no": "nein"}), "'nein'", "agreed"),
    "codes": (lambda f: f.assign(city=f["city"].map({c: i for i, c in enumerate(CITIES)})), "'0'", "city"),
    "zip codes without zeros": (lambda f: f.assign(zip=f["zip"].str.lstrip("0")), "'1010'", "zip"),
    "decimal comma": (lambda f: f.assign(amount=f["amount"].str.replace(".", ",")), "no number", "amount"),
    "decimal comma, three digits": (
        lambda f: f.assign(amount=[f"{float(v):.{3 if i % 2 else 1}f}".replace(".", ",")
                                   for i, v in enumerate(f["amount"])]),
        "written with a decimal comma, and the model learned a decimal point",
        "amount",
    ),
    "units": (lambda f: f.assign(amount=f["amount"] + " kg"), "hold no number as the model reads it", "amount"),
    "another layout": (
        lambda f: f.assign(since=pd.to_datetime(f["since"], format="%d.%m.%Y").dt.strftime("%Y-%m-%d")),
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
        typed = "rows.parquet"
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
    assert refusal.startswith(f"labelfold: In rows.csv {N} of {N} cells of {column!r} ")
    assert words in refusal
    code, err = predict(capsys, folder, "rows.csv", "--accept-unseen")
    assert code == 0
    usual, other = sorted(err.splitlines(keepends=True), key=lambda line: "'name'" not in line)
    assert usual == USUAL
    assert other.startswith(f"Note: {N} of {N} cells of {column!r} ")
    assert len(pd.read_csv("said.csv")) == N
    with pytest.warns(UnseenValuesWarning, match=f"cells of '{column}' ") as seen:
        load(folder / "model").predict(pd.read_csv("rows.csv", dtype=str))
    assert len(seen) == 1
