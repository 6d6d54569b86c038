"""CSV as people have it: separators, encodings, packing, rows of a wrong length, files read in blocks."""

import gzip
import io
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from labelfold import Recipe
from labelfold.app.io import FileProblem, _arrow_tables as frames, read_table
from labelfold.app.io._csv import distinct_names

TEXT = 'größe{s}note{s}kind\n1{d}5{s}"quoted {s} and ""more""\nin two lines"{s}x\n2{d}25{s}größer{s}\n'
COLUMNS = {"größe": ["1{d}5", "2{d}25"], "note": ['quoted {s} and "more"\nin two lines', "größer"]}


def zipped(files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def packed(name, content):
    if name.endswith(".gz"):
        return gzip.compress(content)
    if name.endswith(".zip"):
        return zipped({"t.csv": content, "README.txt": b"what is in it", "__MACOSX/._t.csv": b"x"})
    return pa.Codec("zstd").compress(content, asbytes=True) if name.endswith(".zst") else content


@pytest.mark.parametrize("name", ["t.txt", "t.tsv", "t.csv.gz", "t.csv.zst", "t.zip"])
@pytest.mark.parametrize(("separator", "decimal"), [(",", "."), (";", ","), ("\t", ","), ("|", ".")])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_separators_encodings_and_packing(tmp_path, name, separator, decimal, encoding):
    path = tmp_path / name
    path.write_bytes(packed(name, TEXT.format(s=separator, d=decimal).encode(encoding)))
    table = read_table(path, target="kind")
    expected = {k: [cell.format(s=separator, d=decimal) for cell in cells] for k, cells in COLUMNS.items()}
    assert table.raw.to_pydict() == expected
    assert table.y.tolist() == ["x", None]
    assert bool(table.notes) == (encoding in ("cp1252", "utf-16"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            zipped({"a.csv": b"a\n1\n", "b.csv": b"a\n1\n"}),
            "holds 2 files ('a.csv', 'b.csv'), where one table is",
        ),
        (zipped({}), "holds 0 files, where one table is expected; unpack it"),
        (zipped({"a.parquet": b"PAR1"}), "has an ending labelfold does not know"),
        (b"no archive", "is not a whole zip archive"),
    ],
)
def test_archives_without_one_table(tmp_path, content, words):
    path = tmp_path / "t.zip"
    path.write_bytes(content)
    with pytest.raises(FileProblem) as error:
        read_table(path)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("encoding", "word"),
    [
        ("cp1251", "Москва"),
        ("shift_jis", "東京"),
        ("iso8859-2", "Győr"),
        ("utf-8", "größer"),
        ("utf-16-be", "é"),
    ],
)
def test_an_encoding_that_is_given(tmp_path, encoding, word):
    path = tmp_path / "t.csv"
    path.write_bytes(f"{word};kind\n{word};x\n".encode(encoding))
    table = read_table(path, target="kind", encoding=encoding.upper())
    assert table.raw.to_pydict() == {word: [word]}
    assert table.notes == ([] if encoding == "utf-8" else [f"{path} was read as {encoding}."])


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32"])
def test_encodings_that_show(tmp_path, encoding):
    path = tmp_path / "t.csv"
    path.write_bytes("a;größe\nx;1\n".encode(encoding))
    table = read_table(path)
    assert table.raw.to_pydict() == {"a": ["x"], "größe": ["1"]}
    assert table.notes == [f"{path} was read as {encoding}."]


@pytest.mark.parametrize(
    ("name", "encoding", "words"),
    [
        (
            "t.csv",
            "utf-9",
            "--encoding is the name of an encoding of text, such as utf-8, cp1251 or shift_jis, not 'utf",
        ),
        ("t.csv", "base64", "not 'base64'"),
        (
            "t.csv",
            "ascii",
            "is not text in the encoding given: 'ascii' codec can't decode byte 0xc3 in position 2",
        ),
        ("t.npz", "ascii", "t.npz is read as npz, which has no encoding; leave out --encoding ascii."),
    ],
)
def test_encodings_that_cannot_be(tmp_path, name, encoding, words):
    (tmp_path / name).write_text("grö,b\n1,2\n", encoding="utf-8")
    with pytest.raises(FileProblem) as caught:
        read_table(tmp_path / name, encoding=encoding)
    assert words in str(caught.value)


def test_lines_in_two_encodings(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a,b\nschön,1\n".encode() + "schön,2\n".encode("latin-1"))
    table = read_table(path)
    assert table.raw.column("a").to_pylist() == ["schön", "schön"]
    assert table.notes == [
        f"{path} is not UTF-8 text throughout; other bytes were read as Windows-1252; --encoding names another "
        "encoding."
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a,b,c\n1,2\n3,4,5\n", {"a": ["1", "3"], "b": ["2", "4"], "c": [None, "5"]}),
        ("a,b\n1,2,\n3,4,\n", {"a": ["1", "3"], "b": ["2", "4"]}),
        ("a,b\nr1,1,2\nr2,3,4\n", {"Unnamed: 0": ["r1", "r2"], "a": ["1", "3"], "b": ["2", "4"]}),
        ("\n\na;b\n1;2\n\n3;4\n", {"a": ["1", "3"], "b": ["2", "4"]}),
        ("text\none, two\nthree\n", {"text": ["one, two", "three"]}),
        ("sep=;\na;b\n1;2\n", {"a": ["1"], "b": ["2"]}),
        ("# made by a tool\n#\na;b\n1;2\n3;4\n", {"a": ["1", "3"], "b": ["2", "4"]}),
        ("# remark\n#a;b\n1;2\n", {"#a": ["1"], "b": ["2"]}),
        ("#a;b\n1;2\n#3;4\n", {"#a": ["1", "#3"], "b": ["2", "4"]}),
        (",a\n0,5\n1,6\n", {"Unnamed: 0": ["0", "1"], "a": ["5", "6"]}),
    ],
)
def test_rows_of_every_length(tmp_path, content, expected):
    (tmp_path / "t.csv").write_text(content)
    assert read_table(tmp_path / "t.csv").raw.to_pydict() == expected


def test_a_target_of_prices(tmp_path):
    (tmp_path / "t.csv").write_text(
        "a;rent\n" + "".join(f"{i};1.{i:03d},50 €\n" for i in range(30)) + "30;\n"
    )
    y = read_table(tmp_path / "t.csv", target="rent").y
    assert y.tolist() == [*(1000.5 + i for i in range(30)), None]
    few = "a;share\n1;5%\n2;10%\n3;5%\n"
    (tmp_path / "few.csv").write_text(few)
    assert read_table(tmp_path / "few.csv", target="share").y.tolist() == ["5%", "10%", "5%"]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.csv.gz"])
def test_a_large_file_is_read_in_blocks(tmp_path, monkeypatch, name):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"x": rng.normal(size=400), "city": rng.choice(["a", "b"], 400), "id": np.arange(400)}
    )
    table["kind"] = np.where(rng.random(400) < 0.1, rng.choice(["p", "q"], 400), None)
    path = tmp_path / name
    table.to_parquet(path) if name == "t.parquet" else table.to_csv(path, index=False)
    whole = read_table(path, target="kind", id_columns=["id"])
    monkeypatch.setattr(frames, "LARGE", 100)
    monkeypatch.setattr("labelfold.tables._arrow.BLOCK", 90)
    monkeypatch.setattr("labelfold.app.io._csv.BLOCK", 3000)
    blocks = read_table(path, target="kind", id_columns=["id"])
    assert blocks.raw.shape == whole.raw.shape == (400, 2)
    assert len(list(blocks.raw.read(blocks.raw.column_names))) > 3
    assert blocks.y.tolist() == whole.y.tolist()
    assert blocks.ids["id"].tolist() == whole.ids["id"].tolist()
    np.testing.assert_array_equal(
        Recipe().fit_transform(blocks.raw, blocks.y), Recipe().fit_transform(whole.raw, whole.y)
    )


def test_a_large_file_with_a_wrong_row_is_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "LARGE", 10)
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 50 + "1,2,3\n")
    with pytest.raises(FileProblem, match="more cells than the header has names in line 52: 3 for 2"):
        read_table(path)


def test_many_columns_of_one_name_take_no_longer_each():
    names = distinct_names(["a"] * 50_000)
    assert (names[0], names[-1], len(set(names))) == ("a", "a.49999", 50_000)


def test_a_long_cell_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"text,kind\n{'word ' * 40_000},a\nshort,b\n")
    table = read_table(path, target="kind")
    assert (table.raw.shape, table.y.tolist()) == ((2, 1), ["a", "b"])


def test_a_zip_whose_member_has_no_head_is_damaged(tmp_path):
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("t.csv", "a,kind\n1,x\n2,y\n")
    path.write_bytes(b"XX" + path.read_bytes()[2:])
    with pytest.raises(FileProblem, match=r"t\.zip is damaged or cut short: .*; write or copy it again"):
        read_table(path, target="kind")
