"""Rows as the page shows them: text with the words that matter, pixels, image files, matrices; and the exports."""

import base64
import io

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from PIL import Image
from sklearn.datasets import dump_svmlight_file, load_digits
from small_session import flowers, session_on

from labelfold.app.commands._cli import main
from labelfold.app.io import load_model, read_table
from labelfold.app.io._errors import Refusal
from labelfold.app.io._label_file import Journal
from labelfold.app.label._export import EXPORTS
from labelfold.app.label._notebook import _table
from labelfold.app.label._row_view import RowView
from labelfold.app.label._session import Session
from labelfold.app.label._table import prepare_table


def opened(tmp_path, table, given=None, *, start=False, **how):
    rows = prepare_table(table, given or [None] * table.raw.shape[0], name="rows", target="kind", **how)
    ids = [] if rows.ids is None else list(rows.ids)
    session = Session(rows, Journal(tmp_path / "l.csv", ids, rows.cells.names or ()), who="ada")
    if start:
        session.start()
        assert session.worker.idle(30)
    return session


def export(session, name, safe_csv=False):
    return EXPORTS[name][0](session, safe_csv)


def frame_of(content):
    return pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)


def test_text_has_the_words_that_matter_as_they_are_written(tmp_path):
    rng = np.random.default_rng(0)
    sorts = {"fruit": ["Äpfel", "pears", "plums"], "tools": ["hammer", "nails", "saws"]}
    common = ["we", "bought", "very", "nice", "things", "at", "the", "market", "for", "our", "house"]
    y = [("fruit", "tools")[i % 2] for i in range(60)]
    said = [" ".join(rng.permutation([*sorts[kind], *rng.choice(common, 5)])) for kind in y]
    frame = pd.DataFrame({"review": said, "price": rng.random(60)})
    session = opened(tmp_path, _table(frame, None, None), y, start=True)
    row = RowView(session).row(0)
    text = row["texts"][0]
    assert (text["name"], text["text"]) == ("review", said[0])
    assert set(text["words"][:3]) == set(sorts["fruit"])
    assert [column["name"] for column in row["columns"]] == ["price"]
    session.close()


def test_before_the_first_fit_columns_stand_first_in_which_the_row_stands_out(tmp_path):
    frame, _ = flowers()
    frame.loc[7, "width"] = 1000.0
    session = session_on(tmp_path / "l.csv", frame)
    row = RowView(session).row(7)
    assert row["columns"][0]["name"] == "width"
    assert row["columns"][0]["place"] > 0.98
    assert (row["predicted"], row["probabilities"]) == (None, [])
    session.close()


def test_missing_cells_have_no_place(tmp_path):
    frame, _ = flowers()
    frame.loc[3, "width"] = None
    session = session_on(tmp_path / "l.csv", frame)
    (cell,) = [one for one in RowView(session).row(3)["columns"] if one["name"] == "width"]
    assert (cell["text"], cell["place"]) == ("", None)
    session.close()


def test_pixels_are_shown_as_an_image(tmp_path):
    X = load_digits().data[:40]
    table = _table(pd.DataFrame(X, columns=[f"pixel{i}" for i in range(64)]), None, None)
    session = opened(tmp_path, table)
    pixels = RowView(session).row(5)["pixels"]
    assert (pixels["width"], pixels["height"], pixels["channels"]) == (8, 8, 1)
    values = np.frombuffer(base64.b64decode(pixels["values"]), "u1")
    np.testing.assert_allclose(values, X[5] / 16 * 255, atol=1)
    session.close()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_matrices_without_names(tmp_path, kind):
    X = np.zeros((30, 500))
    X[:, :3] = np.random.default_rng(0).random((30, 3))
    X[4, 490] = 2.5
    made = sp.csr_array(X) if kind == "sparse" else X
    if kind == "sparse":
        made.indices, made.indptr = made.indices.astype(np.int64), made.indptr.astype(np.int64)
    session = opened(tmp_path, _table(made, None, None), start=True)
    assert session.notes == []
    row = RowView(session).row(4)
    assert {"name": "column 491", "text": "2.5"}.items() <= row["columns"][0].items()
    assert len(row["columns"]) <= 300
    exported = frame_of(export(session, "table.csv"))
    assert list(exported)[-1] == "kind"
    assert exported.shape == ((30, 502) if kind == "dense" else (30, 2))
    session.close()


def test_image_files_are_shown_and_never_by_a_path_of_the_browser(tmp_path):
    for name, colour in (("a", (255, 0, 0)), ("b", (0, 0, 255))):
        (tmp_path / "pics" / name).mkdir(parents=True)
        for i in range(4):
            Image.new("RGB", (1600, 40), colour).save(tmp_path / "pics" / name / f"{i}.jpg")
    table = read_table(tmp_path / "pics", begin=True)
    session = opened(tmp_path, table, list(table.y), start=True)
    shown = RowView(session)
    assert shown.row(5)["image"] is True
    image = Image.open(io.BytesIO(shown.image(5)))
    assert (image.format, image.size) == ("PNG", (1024, 26))
    assert image.getpixel((9, 9))[2] > 200
    (tmp_path / "pics" / "a" / "0.jpg").write_bytes(b"no image")
    assert shown.image(0) is None
    exported = frame_of(export(session, "table.csv"))
    assert list(exported) == ["file", "kind"]
    assert exported["kind"].tolist() == ["a"] * 4 + ["b"] * 4
    session.close()


@pytest.mark.parametrize("name", ["predictions.csv", "model.skops", "report.html"])
def test_an_export_that_needs_a_model_says_so(tmp_path, name):
    session = session_on(tmp_path / "l.csv")
    with pytest.raises(Refusal, match=r"two classes"):
        export(session, name)
    session.close()


def test_exports(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame, truth = flowers()
    frame["kind"] = [str(t) if i < 20 else None for i, t in enumerate(truth)]
    frame["note"] = ["=1+1" if i == 3 else f"a, b {i}" for i in range(60)]
    frame.loc[5, "width"] = None
    frame.to_csv("flowers.csv", index=False)
    table = read_table("flowers.csv", target="kind", id_columns=["name"], drop=["note"], begin=True)
    session = opened(tmp_path, table, list(table.y), start=True)
    session.label([30], "=2+2")
    session.label([0], None)
    session.label([31, 32], "round")
    assert session.worker.idle(30)

    exported = frame_of(export(session, "table.csv"))
    expected = pd.read_csv("flowers.csv", dtype=str, keep_default_na=False)
    expected.loc[[0, 30, 31, 32], "kind"] = ["", "=2+2", "round", "round"]
    pd.testing.assert_frame_equal(exported, expected)
    safe = frame_of(export(session, "table.csv", safe_csv=True))
    assert safe.loc[3, "note"] == "'=1+1"
    assert safe.loc[30, "kind"] == "'=2+2"

    said = frame_of(export(session, "predictions.csv"))
    assert list(said) == ["name", "label", "predicted", "confidence"]
    assert said["confidence"].astype(float).between(0, 1).all()
    assert (said["predicted"] == truth).mean() > 0.9

    (tmp_path / "model.skops").write_bytes(export(session, "model.skops"))
    model = load_model("model.skops")
    columns = pd.read_csv("flowers.csv").drop(columns=["name", "kind", "note"])
    assert (model.predict(columns) == truth).mean() > 0.9
    assert main(["predict", "model.skops", "flowers.csv", "--id", "name"]) == 0
    assert capsys.readouterr().out.startswith("name,predicted,confidence")
    session.close()


def test_the_report(tmp_path):
    frame, truth = flowers()
    session = session_on(tmp_path / "l.csv", frame, [str(t) if i < 30 else None for i, t in enumerate(truth)])
    session.marks.add_class("<script>alert(1)</script>")
    session.label([40], "<script>alert(1)</script>")
    page = export(session, "report.html").decode()
    assert page.lstrip().startswith("<!doctype html>")
    assert "flowers.csv" in page
    assert "No row drawn at random was predicted before it was labelled" in page
    assert "<script>alert(1)" not in page
    assert "colour: category" in page
    session.close()


def test_every_source_is_labelled_as_compare_reads_it(tmp_path, monkeypatch, capsys):
    """CSV, Parquet, JSON lines, NPZ with y, and SQLite: the labels that are there count."""
    import sqlite3

    monkeypatch.chdir(tmp_path)
    frame, truth = flowers()
    frame["kind"] = [str(t) if i % 2 else None for i, t in enumerate(truth)]
    frame.to_csv("a.csv", index=False)
    frame.to_csv("a.tsv.gz", index=False, sep="\t")
    frame.to_parquet("b.parquet")
    frame.to_json("c.jsonl", orient="records", lines=True)
    codes = np.where(np.arange(60) % 2, np.arange(60) % 3, -1)
    np.savez("d.npz", X=frame[["length", "width", "height"]].to_numpy(), y=codes)
    dump_svmlight_file(frame[["length", "width"]].to_numpy(), codes, "g.svm")
    np.save("e.npy", frame[["length", "width"]].to_numpy())
    with sqlite3.connect("f.db") as database:
        frame.to_sql("flowers", database, index=False)
    seen = {}
    monkeypatch.setattr(
        "labelfold.app.label._server.Running.serve",
        lambda self: (
            seen.update(state=self.session.state(), file=self.session.journal.path.name),
            self.close(),
        ),
    )
    for options, labelled, file in (
        ("a.csv --target kind --id name", 30, "a.labels.csv"),
        ("a.tsv.gz --target kind -o gz.csv", 30, "gz.csv"),
        ("b.parquet --target kind", 30, "b.labels.csv"),
        ("c.jsonl --target kind", 30, "c.labels.csv"),
        ("d.npz", 30, "d.labels.csv"),
        ("e.npy --target kind", 0, "e.labels.csv"),
        ("g.svm", 30, "g.labels.csv"),
        ("f.db --table flowers --target kind", 30, "f.flowers.labels.csv"),
        ("a.csv --target new -o other.csv", 0, "other.csv"),
    ):
        assert main(["label", *options.split(), "--no-browser"]) == 0, capsys.readouterr()
        assert (seen["state"]["labelled"], seen["file"]) == (labelled, file)
        assert len(seen["state"]["classes"]) == (3 if labelled else 0)
        assert seen["state"]["n"] == 60
