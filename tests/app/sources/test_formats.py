"""The same small table in every format: the same recipe, model and predictions; and bad files, a sentence each."""

import io
import json
import re
import zipfile

import anndata
import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from shapes import FORMATS, as_text, mixed_table, objects, write_lines, write_nested

from labelfold import Recipe
from labelfold.app.commands._cli import main
from labelfold.app.io import FileProblem, _arrow_tables as gathering, load_model, read_table

pytestmark = pytest.mark.usefixtures("quick_comparisons")


def run(capsys, *command, status=0):
    code = main([str(part) for part in command])
    out, err = capsys.readouterr()
    assert code == status, err
    assert "Traceback" not in out + err
    return out, err


def refused(action, *words):
    with pytest.raises(FileProblem) as caught:
        action()
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    for word in words:
        assert word in sentence
    return sentence


@pytest.fixture(scope="module")
def frame():
    return mixed_table()


@pytest.fixture(scope="module")
def fitted(frame, tmp_path_factory):
    """The model and the predictions of the CSV file."""
    folder = tmp_path_factory.mktemp("csv")
    FORMATS["t.csv"](frame, folder / "t.csv")
    assert main(["fit", str(folder / "t.csv"), "-t", "kind", "--id", "id", "-o", str(folder / "m")]) == 0
    assert main(["predict", str(folder / "m"), str(folder / "t.csv"), "-o", str(folder / "p.csv")]) == 0
    return load_model(folder / "m"), pd.read_csv(folder / "p.csv")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_model_and_predictions(name, frame, fitted, tmp_path, capsys):
    FORMATS[name](frame, tmp_path / name)
    model, predictions = fitted
    out, _ = run(capsys, "fit", tmp_path / name, "-t", "kind", "--id", "id", "-o", tmp_path / "m")
    assert "fitted on 90 rows × 5 columns" in out
    run(capsys, "predict", tmp_path / "m", tmp_path / name, "--id", "id", "-o", tmp_path / "p.csv")
    mine, theirs = load_model(tmp_path / "m").named_steps["recipe"], model.named_steps["recipe"]
    assert [(c["name"], c["role"], c["missing"]) for c in mine.columns_] == [
        (c["name"], c["role"], c["missing"]) for c in theirs.columns_
    ]
    assert mine.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    found = pd.read_csv(tmp_path / "p.csv")
    assert found["id"].tolist() == frame["id"].tolist()
    assert found["predicted"].tolist() == predictions["predicted"].tolist()
    np.testing.assert_allclose(found["confidence"], predictions["confidence"], rtol=1e-9)


def numbers_as_csv(X, y, folder):
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(X.shape[1])])
    frame.assign(kind=y).to_csv(folder / "t.csv", index=False)
    return ["t.csv", "--target", "kind"]


def numbers_as_npy(X, y, folder):
    np.save(folder / "t.npy", X)
    rows = np.flatnonzero([label is not None for label in y])
    pd.DataFrame({"row": rows + 1, "label": y[rows]}).to_csv(folder / "l.csv", index=False)
    return ["t.npy", "--labels", "l.csv"]


def numbers_as_npz(X, y, folder):
    np.savez(folder / "t.npz", X=X, y=np.where([label is None for label in y], "", y).astype(str))
    return ["t.npz"]


def numbers_as_h5ad(X, y, folder):
    obs = pd.DataFrame({"kind": pd.Categorical(y)}, index=[str(i) for i in range(len(y))])
    anndata.AnnData(X, obs=obs).write_h5ad(folder / "t.h5ad")
    return ["t.h5ad", "--target", "kind"]


def numbers_as_sparse_h5ad(X, y, folder):
    return numbers_as_h5ad(sp.csr_matrix(X), y, folder)


MATRICES = [numbers_as_csv, numbers_as_npy, numbers_as_npz, numbers_as_h5ad, numbers_as_sparse_h5ad]


def test_a_matrix_of_numbers_gives_the_same_model_in_every_format(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 90)
    X = (rng.normal(size=(90, 6)) + 1.5 * np.eye(3, 6)[kind]).round(4)
    y = np.where(rng.random(90) < 0.4, np.array(["a", "b", "c"], dtype=object)[kind], None)
    found = {}
    for write in MATRICES:
        data, *where = write(X, y, tmp_path)
        run(capsys, "fit", data, *where, "-o", "m")
        out, _ = run(capsys, "predict", "m", data)
        found[write.__name__] = pd.read_csv(io.StringIO(out))[["predicted", "confidence"]]
    expected = found["numbers_as_csv"]
    for name, one in found.items():
        assert one["predicted"].tolist() == expected["predicted"].tolist(), name
        np.testing.assert_allclose(one["confidence"], expected["confidence"], atol=1e-6, err_msg=name)


def test_a_model_of_one_format_reads_every_other(frame, tmp_path):
    """Flags, dates and whole numbers are typed in some formats and text in others, in one spelling or another."""
    rng = np.random.default_rng(0)
    frame = frame.assign(
        flag=rng.random(90) < 0.5, zone=np.where(rng.random(90) < 0.2, np.nan, rng.integers(1, 5, 90))
    )
    tables = {}
    for name, write in FORMATS.items():
        write(frame, tmp_path / name)
        tables[name] = read_table(tmp_path / name, target="kind", id_columns=["id"])
    del tables["t.db"]  # SQLite has no flags
    for name, table in tables.items():
        recipe = Recipe(category=["zone"]).fit(table.raw, table.y)
        own = recipe.transform(table.raw)
        assert own.shape == (90, 14)
        for other in tables:
            np.testing.assert_allclose(recipe.transform(tables[other].raw), own, err_msg=f"{name}, {other}")


def test_objects_in_objects_are_columns_of_their_own(frame, tmp_path):
    write_nested(frame, tmp_path / "t.jsonl")
    write_lines(frame, tmp_path / "flat.jsonl")
    flat, nested = (read_table(tmp_path / f"{n}.jsonl", target="kind").raw for n in ("flat", "t"))
    assert set(nested.column_names) == {"id", "of.size", "of.weight", "visits", "city", "since"}
    for name in ("size", "weight"):
        assert nested.column(f"of.{name}").equals(flat.column(name))


def test_keys_of_some_lines_and_values_of_two_types(tmp_path, monkeypatch):
    """What differs from block to block is brought to one type: numbers, and text where there are both."""
    monkeypatch.setattr("labelfold.app.io._json_lines.BLOCK", 64)
    rows = [{"a": 1, "b": "x"}] * 8 + [{"a": 2.5, "b": 3, "c": True}] * 8 + [{"b": "2020-01-01"}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    table = read_table(tmp_path / "t.jsonl").raw
    assert table.column("a").to_pylist() == [1.0] * 8 + [2.5] * 8 + [None]
    assert table.column("b").to_pylist() == ["x"] * 8 + ["3"] * 8 + ["2020-01-01"]
    assert table.column("c").to_pylist() == [None] * 8 + [True] * 8 + [None]


@pytest.mark.parametrize("name", ["t.jsonl", "t.xlsx", "t.db", "t.duckdb"])
def test_many_rows_are_kept_on_disk_and_read_in_blocks(name, frame, tmp_path, monkeypatch):
    """The blocks of a large source give the same matrix as the whole of a small one."""
    FORMATS[name](frame, tmp_path / name)
    whole = read_table(tmp_path / name, target="kind", id_columns=["id"])
    monkeypatch.setattr(gathering, "_IN_MEMORY", 1000)
    monkeypatch.setattr(gathering, "CELLS", 70)
    monkeypatch.setattr("labelfold.app.io._databases.CELLS", 70)
    monkeypatch.setattr("labelfold.app.io._json_lines.BLOCK", 1000)
    blocks = read_table(tmp_path / name, target="kind", id_columns=["id"])
    assert type(blocks.raw).__name__ == "Blocks"
    assert len(list(blocks.raw.read(["size"]))) > 5
    assert blocks.y.tolist() == whole.y.tolist()
    assert blocks.ids.equals(whole.ids)
    np.testing.assert_array_equal(
        Recipe().fit_transform(blocks.raw, blocks.y), Recipe().fit_transform(whole.raw, whole.y)
    )


def test_a_sheet_by_name(frame, tmp_path, capsys):
    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"remark": ["made by hand"]}).to_excel(book, sheet_name="about", index=False)
        frame.to_excel(book, sheet_name="2019", index=False, startrow=2)
    table = read_table(path, target="kind", sheet="2019")
    assert table.raw.num_rows == len(frame)
    assert table.raw.column_names == ["id", "size", "weight", "visits", "city", "since"]
    assert read_table(path).notes == [f"{path} has 2 sheets, and 'about' was read; --sheet names another."]
    refused(lambda: read_table(path, sheet="2109"), "has no sheet '2109'", "did you mean '2019'?", "'about'")
    refused(lambda: read_table(tmp_path / "book.xlsx", query="select 1"), "which has no query", "leave out")
    _, err = run(capsys, "fit", path, "-t", "kind", "--sheet", "2020", "-o", tmp_path / "m", status=2)
    assert re.fullmatch(r"labelfold: .* has no sheet '2020'; it has 'about', '2019'\.\n", err)


def test_cells_of_a_sheet(tmp_path):
    """Whole numbers are whole, an empty cell is missing, names are made to differ, empty columns are left out."""
    book = openpyxl.Workbook()
    for row in [
        ["code", "code", None, "mixed", None],
        [7, 1.5, None, "a", "x"],
        [8, None, None, 3, "y"],
        [None] * 5,
        [9, 2, None, 2.5, None],
    ]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    table = read_table(tmp_path / "t.xlsx")
    assert table.raw.to_pydict() == {
        "code": [7, 8, 9],
        "code.1": [1.5, None, 2.0],
        "mixed": ["a", "3", "2.5"],
        "Unnamed: 4": ["x", "y", None],
    }
    assert table.notes == [
        f"{tmp_path / 't.xlsx'} has columns of the same name; the later ones are called 'code.1'."
    ]


def test_a_title_above_the_names(tmp_path):
    book = openpyxl.Workbook()
    for row in [
        ["Sales 2019"],
        [],
        ["made by", "Ann"],
        ["id", "sold", "city", "kind"],
        [1, 2, "x", "a"],
        [2, 3, "y"],
    ]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    table = read_table(tmp_path / "t.xlsx")
    assert table.raw.column_names == ["id", "sold", "city", "kind"]
    assert "2 rows above the names of the columns" in table.notes[0]


def test_an_open_document_sheet(tmp_path):
    rows = [("size", "kind"), (1.5, "a"), (2, "b")]
    cells = "".join(
        "<table:table-row>"
        + "".join(
            f'<table:table-cell office:value-type="float" office:value="{v}"/>'
            if isinstance(v, int | float)
            else f'<table:table-cell office:value-type="string"><text:p>{v}</text:p></table:table-cell>'
            for v in row
        )
        + "</table:table-row>"
        for row in rows
    )
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text")
    )
    content = (
        f'<?xml version="1.0"?><office:document-content {spaces}><office:body><office:spreadsheet>'
        f'<table:table table:name="s">{cells}</table:table></office:spreadsheet></office:body>'
        "</office:document-content>"
    )
    with zipfile.ZipFile(tmp_path / "t.ods", "w") as made:
        made.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        made.writestr("META-INF/manifest.xml", "<manifest/>")
        made.writestr("content.xml", content)
    assert read_table(tmp_path / "t.ods").raw.to_pydict() == {"size": [1.5, 2.0], "kind": ["a", "b"]}


def twice(path):
    table = pa.table([[1, 2], [3, 4]], names=["a", "a"])
    with pa.ipc.new_file(path, table.schema) as made:
        made.write_table(table)


def empty_sheet(path):
    pd.DataFrame(columns=["a", "b"]).to_excel(path, index=False)


BAD = {
    "old.feather": (lambda p: p.write_bytes(b"FEA1 of old"), "of Feather's first version"),
    "cut.arrow": (lambda p: p.write_bytes(b"ARROW1\0\0 and no more"), "not a whole Arrow or Feather file"),
    "none.arrow": (lambda p: pd.DataFrame({"a": []}).to_feather(p), "has a header but no rows"),
    "twice.arrow": (twice, "more than one column named 'a'"),
    "cut.xlsx": (lambda p: p.write_bytes(b"PK\3\4 and no more"), "not a whole workbook"),
    "none.xlsx": (empty_sheet, "has no rows"),
    "nothing.xlsx": (lambda p: openpyxl.Workbook().save(p), "no sheet with anything in it"),
    "broken.jsonl": (lambda p: p.write_text('{"a": 1}\n{"a": \n'), "no JSON object in line 2"),
    "list.jsonl": (lambda p: p.write_text('{"a": 1}\n[1, 2]\n'), "'[1, 2]' in line 2, where an object"),
    "array.json": (lambda p: p.write_text("[1, 2]"), "not all items are objects"),
    "open.json": (lambda p: p.write_text('[{"a": 1}, '), "is not whole JSON"),
    "blank.jsonl": (lambda p: p.write_text("\n\n"), "has no rows"),
    "deep.jsonl": (
        lambda p: p.write_text('{"a": ' + "[" * 10**5 + "]" * 10**5 + "}"),
        "no JSON object in line 1",
    ),
    "twice.jsonl": (
        lambda p: p.write_text('{"a": {"b": 1}, "a.b": 2}\n'),
        "more than one column named 'a.b'",
    ),
    "keys.jsonl": (
        lambda p: p.write_text("".join(f'{{"k{i}": 1}}\n' for i in range(600))),
        "other keys in nearly every line",
    ),
    "utf16.jsonl": (lambda p: p.write_text('{"a": 1}', encoding="utf-16"), "is UTF-16 text"),
    "cut.npy": (lambda p: p.write_bytes(b"\x93NUMPY"), "not a whole NPY file"),
    "flat.npy": (lambda p: np.save(p, np.zeros(3)), "an X of shape (3,)"),
    "objects.npy": (lambda p: np.save(p, np.array([[None]]), allow_pickle=True), "not a whole NPY file"),
    "text.db": (lambda p: p.write_text("no database at all"), "no SQLite or DuckDB database"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name, tmp_path):
    make, words = BAD[name]
    make(tmp_path / name)
    refused(lambda: read_table(tmp_path / name), words, name)


def test_a_small_workbook_that_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("labelfold.app.io._files.MAX_UNPACKED", 1 << 20)
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("xl/worksheets/sheet1.xml", bytes(2 << 20))
    refused(lambda: read_table(tmp_path / "t.xlsx"), "over 200 times its own size")


@pytest.mark.parametrize("name", ["t.csv.gz", "t.jsonl.gz", "t.jsonl.zip"])
def test_packed_text(name, frame, tmp_path):
    write = {"csv": as_text(frame).to_csv, "jsonl": as_text(frame).to_json}[name.split(".")[1]]
    how = {"index": False} if "csv" in name else {"orient": "records", "lines": True}
    inside = {"compression": {"method": "zip", "archive_name": "t.jsonl"}} if name.endswith("zip") else {}
    write(tmp_path / name, **how, **inside)
    assert read_table(tmp_path / name, target="kind").raw.num_rows == len(frame)


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("t.xlsx", "python_calamine", "excel"),
        ("t.h5ad", "anndata", "h5ad"),
        ("t.db", "sqlalchemy", "sql"),
        ("t.csv", "PIL", "images"),
    ],
)
def test_a_missing_extra_is_named(name, module, extra, tmp_path, monkeypatch):
    """No traceback where the package that reads a source is not installed."""
    path = tmp_path / name
    path.write_text("photo,kind\nx.png,a\n" if name == "t.csv" else "SQLite format 3")
    found = __import__("importlib.util").util.find_spec
    for where in ("labelfold.app.io._sources.find_spec",):
        monkeypatch.setattr(where, lambda wanted: None if wanted == module else found(wanted))
    how = {"image": "photo"} if name == "t.csv" else {}
    refused(lambda: read_table(path, **how), f"read with {module}", f"pip install 'labelfold[{extra}]'")


def test_bytes_that_are_no_utf8_in_json(tmp_path):
    (tmp_path / "t.jsonl").write_bytes(b'{"city": "K\xf6ln"}\n{"city": "Bonn"}\n')
    table = read_table(tmp_path / "t.jsonl")
    assert table.raw.column("city").to_pylist() == ["Köln", "Bonn"]
    assert "read as Windows-1252" in table.notes[0]


def test_dates_in_json_are_read_as_in_csv(frame, tmp_path):
    """Text that looks like a date stays text until the recipe reads it, and so do ids that look like one."""
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in objects(frame)))
    table = read_table(tmp_path / "t.jsonl", id_columns=["since"])
    assert table.ids["since"].tolist() == frame["since"].dt.strftime("%Y-%m-%d").tolist()
