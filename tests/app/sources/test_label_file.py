"""Labels in a file of their own: by id or row number, for every source, and what a labelling tool exports."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from shapes import FORMATS, mixed_table
from test_formats import refused, run

from labelfold.app.io import read_table

pytestmark = pytest.mark.usefixtures("quick_comparisons")


@pytest.fixture
def frame():
    return mixed_table()


def labels_of(frame, **columns):
    known = frame["kind"].notna()
    return pd.DataFrame(columns).assign(label=frame["kind"].to_numpy())[known.to_numpy()]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet", "t.xlsx", "t.db"])
@pytest.mark.parametrize("by", ["id", "row"])
def test_labels_beside_a_table(name, by, frame, tmp_path):
    FORMATS[name](frame.drop(columns="kind"), tmp_path / name)
    key = frame["id"] if by == "id" else np.arange(1, len(frame) + 1)
    labels_of(frame, **{by: key}).sample(frac=1, random_state=0).to_csv(tmp_path / "l.csv", index=False)
    table = read_table(tmp_path / name, labels=tmp_path / "l.csv")
    assert [None if v is None else v for v in table.y] == frame["kind"].where(
        frame["kind"].notna(), None
    ).tolist()
    assert ("id" in table.raw.column_names) == (by == "row")


def test_the_same_model_with_the_labels_beside(frame, tmp_path, capsys):
    FORMATS["t.csv"](frame, tmp_path / "t.csv")
    FORMATS["t.csv"](frame.drop(columns="kind"), tmp_path / "x.csv")
    labels_of(frame, id=frame["id"]).to_csv(tmp_path / "l.csv", index=False)
    one, _ = run(capsys, "fit", tmp_path / "t.csv", "-t", "kind", "--id", "id", "-o", tmp_path / "m")
    two, _ = run(capsys, "fit", tmp_path / "x.csv", "--labels", tmp_path / "l.csv", "-o", tmp_path / "m")
    assert one == two
    out, _ = run(
        capsys, "compare", tmp_path / "x.csv", "--labels", tmp_path / "l.csv", "-m", "lda", "-r", 1, "-o",
        tmp_path / "out",
    )  # fmt: skip
    assert "LDA" in out


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "sparse.npz"])
def test_labels_beside_a_matrix(name, tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X = rng.normal(size=(60, 5)) + 2 * y[:, None]
    if name == "x.npy":
        np.save(tmp_path / name, X)
    elif name == "x.npz":
        np.savez(tmp_path / name, X=X, y=np.full(60, -1), name=[f"r{i}" for i in range(60)])
    else:
        sp.save_npz(tmp_path / name, sp.csr_array(X))
    pd.DataFrame({"row": np.arange(1, 41), "label": np.array(["no", "yes"])[y[:40]]}).to_csv(
        tmp_path / "l.csv", index=False
    )
    table = read_table(tmp_path / name, labels=tmp_path / "l.csv")
    assert table.y[:40].tolist() == np.array(["no", "yes"])[y[:40]].tolist()
    assert set(table.y[40:]) == {None}
    out, _ = run(
        capsys, "fit", tmp_path / name, "--labels", tmp_path / "l.csv", "-o", tmp_path / "m", "-m", "lda"
    )
    assert "40 rows labelled in 2 classes" in out
    if name == "x.npz":
        named = pd.DataFrame({"name": ["r7", "r3"], "kind": ["a", "b"]})
        named.to_csv(tmp_path / "n.csv", index=False)
        table = read_table(tmp_path / name, labels=tmp_path / "n.csv", id_columns=["name"])
        assert (table.y[7], table.y[3]) == ("a", "b")


def test_new_labels_take_the_place_of_old_ones(tmp_path):
    """A few more labels of a table that has some: 7 stays, 8 is corrected, and a row gets its first."""
    (tmp_path / "t.csv").write_text("id,x,kind\na,1,7\nb,2,8\nc,3,\nd,4,\n")
    (tmp_path / "l.csv").write_text("id,kind\nb,7\nc,9\nd,\n")
    table = read_table(tmp_path / "t.csv", target="kind", labels=tmp_path / "l.csv")
    assert table.y.tolist() == [7, 7, 9, None]


def test_what_a_labelling_tool_exports(tmp_path):
    """Its own ids and folders before the names of files, and columns of its own."""
    (tmp_path / "t.csv").write_text("file,x\nimg/a.png,1\nimg/b.png,2\nimg/c.png,3\n")
    (tmp_path / "export.csv").write_text(
        "annotation_id,choice,created_at,id,image\n17,cat,2024-01-01,1,/data/upload/3/a.png\n"
        "18,dog,2024-01-01,2,/data/upload/3/c.png\n"
    )
    table = read_table(tmp_path / "t.csv", id_columns=["file"], labels=tmp_path / "export.csv")
    assert table.y.tolist() == ["cat", None, "dog"]


def test_several_labels_a_row(tmp_path):
    (tmp_path / "t.csv").write_text("id,x\na,1\nb,2\nc,3\n")
    (tmp_path / "l.csv").write_text("id,is_red,is_big\na,1,0\nc,1,1\n")
    table = read_table(tmp_path / "t.csv", target="is_*", labels=tmp_path / "l.csv")
    np.testing.assert_array_equal(table.y, [[1, 0], [np.nan, np.nan], [1, 1]])
    assert table.targets == ["is_red", "is_big"]


BAD = {
    "id,label\nx,1\ny,2\n": "speaks of none of the 3 rows",
    "row,label\n0,a\n1,b\n": "rows are numbered from 1",
    "row,label\n1,a\n1,b\n": "has two labels for row 1, 'a' and 'b'",
    "row,label\n7,a\n8,b\n": "speaks of none of the 3 rows",
    "1,a\n2,b\n": "it needs a header, such as row,label",
    "label\na\nb\n": "no column that says of which rows",
    "row,one,two\n1,a,b\n": "should hold a column of labels",
    "id,label\n": "has a header but no rows",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_label_files(text, tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    (tmp_path / "l.csv").write_text(text)
    refused(lambda: read_table(tmp_path / "x.npy", labels=tmp_path / "l.csv"), BAD[text], "l.csv")


def test_lines_of_no_row_are_told(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    (tmp_path / "l.csv").write_text("row,label\n1,a\n2,b\n9,c\n")
    table = read_table(tmp_path / "x.npy", labels=tmp_path / "l.csv")
    path = tmp_path / "l.csv"
    assert table.notes == [
        f"1 line of {path} is of rows that {tmp_path / 'x.npy'} does not have, the first of '9'."
    ]


def test_a_matrix_without_labels_says_how_to_give_them(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.eye(3))
    _, err = run(capsys, "fit", tmp_path / "x.npy", "-o", tmp_path / "m", status=2)
    assert "--labels" in err
    refused(lambda: read_table(tmp_path / "x.npy", target="y"), "holds one array and no target", "--labels")
    refused(lambda: read_table(tmp_path / "x.npy", labels=tmp_path / "no.csv"), "There is no file")
