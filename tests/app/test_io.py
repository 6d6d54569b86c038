"""Tables and models on disk: what comes back, and the sentence for everything that cannot."""

import bz2
import gzip
import json
import os
import pickle
import time
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelfold import LDA
from labelfold.app.io import FileProblem, load_model, read_model, read_table, save_model, write_table
from labelfold.app.io._models import FORMAT_VERSION
from labelfold.app.io._tables import read_target
from labelfold.app.registry._adapters import ReduceThenClassify


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(6, 3)), columns=["a", "b", "c"])
    return frame.assign(name=list("uvwxyz"), kind=["p", None, "q", "p", None, "q"])


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.csv.gz", "t.tsv.bz2", "T.CSV"])
def test_named_columns_round_trip(tmp_path, frame, name):
    table = read_table(write(frame, tmp_path / name), target="kind", id_columns=["name"])
    np.testing.assert_array_equal(table.X, frame[["a", "b", "c"]].to_numpy())
    assert table.y.tolist() == ["p", None, "q", "p", None, "q"]
    assert table.feature_names == ["a", "b", "c"]
    assert table.ids["name"].tolist() == list("uvwxyz")
    assert table.source == tmp_path / name


def test_features_are_taken_by_name_in_the_order_asked_for(tmp_path, frame):
    table = read_table(write(frame, tmp_path / "t.csv"), features=["c", "a"])
    np.testing.assert_array_equal(table.X, frame[["c", "a"]].to_numpy())
    assert table.ignored == ["b", "name", "kind"]


def test_single_precision_stays_and_mixed_becomes_double(tmp_path, frame):
    numbers = frame[["a", "b"]].astype(np.float32)
    assert read_table(write(numbers, tmp_path / "s.parquet")).X.dtype == np.float32
    mixed = numbers.assign(n=np.arange(6), flag=[True, False] * 3)
    X = read_table(write(mixed, tmp_path / "m.parquet")).X
    assert X.dtype == np.float64
    np.testing.assert_array_equal(X[:, 2:], np.column_stack([np.arange(6), [1, 0] * 3]))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "", "2"], [1, None, 2]),
        (["1.0", "", "2.0"], [1, None, 2]),
        (["1.5", "2", ""], [1.5, 2.0, None]),
        (["007", "1", "NA"], ["007", "1", "NA"]),  # since "?" was said to be what counts
        (["yes", "no", " "], ["yes", "no", None]),
        (["?", "a", "b"], [None, "a", "b"]),
        (["3", "2", "1"], [3, 2, 1]),
    ],
)
def test_labels_of_a_text_file(tmp_path, cells, expected):
    path = tmp_path / "t.csv"
    path.write_text("x,kind\n" + "".join(f"{i},{c}\n" for i, c in enumerate(cells)))
    found = read_table(path, target="kind", unlabeled_values=["?"]).y.tolist()
    assert found == expected
    assert [type(v) for v in found] == [type(v) for v in expected]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([1.0, np.nan, 3.0]), [1, None, 3]),
        (pd.array([1, None, 3], dtype="Int64"), [1, None, 3]),
        (pd.Categorical(["b", None, "a"]), ["b", None, "a"]),
        (pd.array([True, None, False], dtype="boolean"), [True, None, False]),
        (np.array(["x", "", "y"]), ["x", None, "y"]),
        (np.array([2**53 + 1, 0, 1]), [2**53 + 1, 0, 1]),
    ],
)
def test_labels_that_have_a_type(values, expected):
    found = read_target(values).tolist()
    assert found == expected
    assert [type(v) for v in found] == [type(v) for v in expected]


@pytest.mark.parametrize("layout", ["dense", "save_npz", "csc", "parts"])
def test_npz_layouts(tmp_path, layout):
    X = sp.random_array((8, 5), density=0.4, rng=0, format="csr")
    y = np.array([0, 1] * 4)
    path = tmp_path / "t.npz"
    if layout == "dense":
        np.savez(path, X=X.toarray(), y=y)
    elif layout == "parts":
        np.savez(path, X_data=X.data, X_indices=X.indices, X_indptr=X.indptr, X_shape=X.shape, Y=y)
    else:
        sp.save_npz(path, X.asformat("csc") if layout == "csc" else X)
    table = read_table(path)
    found = table.X if layout == "dense" else table.X.toarray()
    np.testing.assert_array_equal(found, X.toarray())
    assert layout == "dense" or table.X.format == "csr"
    assert (table.y is None) == (layout in ("save_npz", "csc"))


def test_npz_picks_another_target_and_keeps_single_precision(tmp_path):
    X = np.ones((3, 2), dtype=np.float32)
    np.savez(tmp_path / "t.npz", X=X, kind=np.array(["a", "", "b"]), feature_names=["u", "v"])
    table = read_table(tmp_path / "t.npz", target="kind")
    assert table.X.dtype == np.float32
    assert table.y.tolist() == ["a", None, "b"]
    assert table.feature_names == ["u", "v"]
    assert read_table(tmp_path / "t.npz", features=["v"]).ignored == ["u"]


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("name", ["t.svmlight", "t.libsvm", "t.svm.gz"])
def test_svmlight(tmp_path, zero_based, name):
    X = np.arange(1.0, 13.0).reshape(4, 3)
    path = tmp_path / name
    with gzip.open(path, "wb") if name.endswith("gz") else path.open("wb") as file:
        dump_svmlight_file(X, [1, 2, 1, 2], file, zero_based=zero_based)
    table = read_table(path)
    np.testing.assert_array_equal(table.X.toarray(), X)
    assert table.y.tolist() == [1, 2, 1, 2]
    assert table.index_base == (0 if zero_based else 1)


def test_svmlight_rows_without_the_first_column_keep_the_base_of_the_model(tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("1 1:5\n")
    zero_based = read_table(path, format="svmlight", index_base=0)
    np.testing.assert_array_equal(zero_based.X.toarray(), [[0.0, 5.0]])
    one_based = read_table(path, format="svmlight", index_base=1)
    np.testing.assert_array_equal(one_based.X.toarray(), [[5.0]])


TEXT_PROBLEMS = {
    "empty": (b"", {}, "is empty"),
    "blank": (b"\n\n", {}, "is empty"),
    "header only": (b"a,kind\n", {}, "no rows"),
    "target": (b"a,kind\n1,x\n", {"target": "knid"}, "no target column 'knid' (did you mean 'kind'?)"),
    "target, nothing near": (b"a,kind\n1,x\n", {"target": "zzz"}, "(it has 'a', 'kind')"),
    "id": (b"a,name\n1,x\n", {"id_columns": ["nam"]}, "no id column 'nam' (did you mean 'name'?)"),
    "dropped": (b"a,name\n1,x\n", {"drop": ["nme"]}, "no dropped column 'nme'"),
    "features": (b"a,name\n1,x\n", {"features": ["a", "b"]}, "lacks 1 of the 2 columns"),
    "nothing left": (b"kind\nx\n", {"target": "kind"}, "no column left"),
    "words": (
        b"a,city\n1,Oslo\n",
        {},
        "without a usable number in column 'city', the first in row 1: it is 'Oslo'",
    ),
    "hole": (b"a,b\n1,2\n3,\n5,\n", {}, "2 cells without a usable number in column 'b', the first in row 2"),
    "empty column": (
        b"a,b\n1,\n3,\n",
        {},
        "2 cells without a usable number in column 'b', the first in row 1",
    ),
    "infinite": (b"a,b\n1,2\n3,inf\n", {}, "it is infinite"),
    "binary": (bytes(range(1, 60)) * 10, {}, "binary data"),
    "ragged": (b"a,b\n1,2\n1,2,3\n", {}, "t.csv"),
    "longer rows": (b"a,b\n1,2\nr,1,2\n3,4\n", {}, "more cells than the header has names in line 3: 3 for 2"),
}


@pytest.mark.parametrize("case", TEXT_PROBLEMS)
def test_text_problems_are_one_sentence(tmp_path, case):
    content, options, words = TEXT_PROBLEMS[case]
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    check_sentence(lambda: read_table(path, **options).X, words, path)


def check_sentence(action, words, path):
    with pytest.raises(FileProblem) as caught:
        action()
    sentence = str(caught.value)
    assert words in sentence
    assert path.name in sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")


def test_paths_that_are_no_table(tmp_path):
    (tmp_path / "data.csv").write_text("a\n1\n")
    missing = tmp_path / "dta.csv"
    check_sentence(lambda: read_table(missing), "did you mean 'data.csv'?", missing)
    nowhere = tmp_path / "no" / "t.csv"
    check_sentence(lambda: read_table(nowhere), "no folder", nowhere)
    check_sentence(lambda: read_table(tmp_path), "is a folder", tmp_path)
    odd = tmp_path / "t.docx"
    odd.write_text("x")
    check_sentence(lambda: read_table(odd), ".parquet", odd)
    with pytest.raises(FileProblem, match="did you mean 'svmlight'"):
        read_table(tmp_path / "data.csv", format="svm-light")


def test_damaged_files(tmp_path, frame):
    whole = write(frame[["a", "b"]], tmp_path / "t.parquet").read_bytes()
    for name, content in [
        ("cut.parquet", whole[:-20]),
        ("text.parquet", b"a,b\n1,2\n"),
        ("tiny.parquet", b"P"),
    ]:
        path = tmp_path / name
        path.write_bytes(content)
        check_sentence(lambda p=path: read_table(p), "not a whole Parquet file", path)
    np.savez(tmp_path / "t.npz", X=np.eye(50))
    whole = (tmp_path / "t.npz").read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for name, content in [("cut.npz", whole[:-30]), ("flip.npz", bytes(flipped)), ("text.npz", b"hello")]:
        path = tmp_path / name
        path.write_bytes(content)
        check_sentence(lambda p=path: read_table(p), "not a whole NPZ file", path)
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000)[:-12])
    check_sentence(lambda: read_table(path), "is damaged or cut short", path)


def test_npz_problems(tmp_path):
    path = tmp_path / "t.npz"
    cases = [
        ({"X": np.eye(2), "y": np.array([{}, None], dtype=object)}, {}, "Python objects"),
        ({"Z": np.eye(2)}, {}, "no array X"),
        ({"X": np.ones(3)}, {}, "not a matrix of numbers"),
        ({"X": np.array([["a", "b"]])}, {}, "not a matrix of numbers"),
        ({"X": np.eye(2), "y": np.arange(3)}, {}, "2 rows in X but a target of shape (3,)"),
        ({"X": np.eye(2), "kind": np.arange(2)}, {"target": "knd"}, "did you mean 'kind'"),
        ({"X": np.array([[1.0, np.nan]])}, {}, "column 1, row 1"),
        ({"X": np.empty((0, 3))}, {}, "no rows"),
        ({"X": np.eye(2)}, {"id_columns": ["a"]}, "no id array 'a'"),
        ({"X": np.eye(2)}, {"drop": ["a"]}, "no named columns"),
        ({"X": np.eye(2)}, {"target": ["a", "b"]}, "no target columns to choose from"),
        (
            {"X_data": [1.0], "X_indices": [9], "X_indptr": [0, 1], "X_shape": [1, 2]},
            {},
            "valid sparse matrix",
        ),
    ]
    for arrays, options, words in cases:
        np.savez(path, **arrays)
        check_sentence(lambda o=options: read_table(path, **o).X, words, path)


def test_an_object_array_is_not_unpickled(tmp_path):
    path, trace = tmp_path / "t.npz", tmp_path / "trace"
    np.savez(path, X=np.array([Trap(trace)], dtype=object))
    with pytest.raises(FileProblem, match="never opened"):
        read_table(path)
    assert not trace.exists()


@pytest.mark.parametrize("content", ["1 a:b\n", "x y z\n", "1 3:1 2:1\n"])
def test_svmlight_problems(tmp_path, content):
    path = tmp_path / "t.svmlight"
    path.write_text(content)
    check_sentence(lambda: read_table(path), "not svmlight text", path)


@pytest.mark.parametrize("name", ["o.parquet", "o.csv", "o.tsv", "o.npz"])
def test_embeddings_can_be_read_back(tmp_path, frame, name):
    values = np.array([[1.5, -2.0], [0.0, 3.25]])
    ids = frame.loc[[4, 1], ["name"]]
    path = write_table(tmp_path / name, values, ["e0", "e1"], ids=ids, extra={"kind": np.array(["p", "q"])})
    options = {} if name == "o.npz" else {"id_columns": ["name"]}
    table = read_table(path, target="kind", **options)
    np.testing.assert_array_equal(table.X, values)
    assert table.feature_names == ["e0", "e1"]
    assert table.y.tolist() == ["p", "q"]
    if name != "o.npz":
        assert table.ids["name"].tolist() == ["y", "v"]


def test_output_problems(tmp_path, frame):
    values = np.ones((2, 1))
    for path, words in [
        (tmp_path / "o.docx", "does not write"),
        (tmp_path / "no" / "o.csv", "no folder"),
        (tmp_path / "taken.csv", "is a folder"),
    ]:
        if words == "is a folder":
            path.mkdir()
        with pytest.raises(FileProblem, match=words):
            write_table(path, values, ["e0"])
    for path, names, extra, column in [
        ("o.csv", ["name"], None, "name"),
        ("o.csv", ["e0"], {"predicted": [1, 2]}, "predicted"),
        ("o.npz", ["e0"], None, "X"),
        ("o.npz", ["e0"], None, "file"),
    ]:
        ids = frame.loc[:1, ["name"]].rename(columns={"name": column})
        with pytest.raises(FileProblem, match="cannot be written beside"):
            write_table(tmp_path / path, values, names, ids=ids, extra=extra)


def test_a_pipe_is_never_replaced_by_a_model(tmp_path):
    """A finished model is renamed into place: as root that would do away with /dev/null."""
    model, _ = fitted_lda(["p", "q", "r"])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FileProblem, match="a device or a pipe"):
        save_model(model, pipe)
    assert pipe.is_fifo()


def test_a_model_saved_through_a_link_leaves_the_link(tmp_path):
    model, X = fitted_lda(["p", "q", "r"])
    (tmp_path / "real").mkdir()
    link, real = tmp_path / "link", tmp_path / "real" / "model"
    real.write_bytes(b"an older model")
    link.symlink_to(real)
    save_model(model, link)
    assert link.is_symlink()
    np.testing.assert_array_equal(load_model(real).transform(X), model.transform(X))


@pytest.mark.parametrize("meta", [{"feature_names": 5}, {"feature_names": [1]}, {"n_features": "x"}])
def test_a_note_that_lists_no_columns_is_damage(tmp_path, meta):
    model, _ = fitted_lda(["p", "q", "r"])
    path = save_model(model, tmp_path / "model", **meta)
    with pytest.raises(FileProblem, match="does not list columns"):
        load_model(path)


def fitted_lda(classes):
    X, y = load_iris(return_X_y=True, as_frame=True)
    y = np.asarray(classes, dtype=object)[y.to_numpy()]
    y[::3] = None
    return LDA(n_components=2, ridge=0.5).fit(X, y), X


@pytest.mark.parametrize("classes", [["ham", "spam", "é<b>"], [0, 1, 2], [3, 7, 11]])
def test_a_model_comes_back_exactly(tmp_path, classes):
    model, X = fitted_lda(classes)
    path = save_model(model, tmp_path / "m.skops", target="kind")
    saved = read_model(path)
    back = saved.model
    assert type(back) is LDA
    assert back.get_params() == model.get_params()
    for name, value in vars(model).items():
        if isinstance(value, np.ndarray):
            assert getattr(back, name).dtype == value.dtype
            np.testing.assert_array_equal(getattr(back, name), value)
    np.testing.assert_array_equal(back.transform(X), model.transform(X))
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert saved.meta["target"] == "kind"
    assert saved.meta["feature_names"] == list(X.columns)
    assert saved.meta["classes"] == [str(c) for c in sorted(classes)]
    assert saved.meta["n_components"] == 2


def test_pipelines_come_back(tmp_path):
    X, y = load_iris(return_X_y=True)
    for model in (make_pipeline(StandardScaler(), LDA(ridge=0.1)), ReduceThenClassify()):
        model.fit(X, y)
        back = load_model(save_model(model, tmp_path / "m.skops"))
        np.testing.assert_array_equal(back.transform(X), model.transform(X))
        np.testing.assert_array_equal(back.predict(X), model.predict(X))


class Trap:
    """Leaves a trace where a loader runs it."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return os.mkdir, (self.trace,)


def archive_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_archive(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def crafted(path, node):
    """A model file whose tree holds a node that would run something, or lead to it."""
    model, _ = fitted_lda(["a", "b", "c"])
    save_model(model, path)
    members = archive_of(path)
    schema = json.loads(members["schema.json"])
    schema["content"]["content"]["ridge"] = node
    members["schema.json"] = json.dumps(schema).encode()
    return write_archive(path, members)


def text_node(value):
    return {
        "__class__": "str",
        "__module__": "builtins",
        "__loader__": "JsonNode",
        "content": json.dumps(value),
        "is_json": True,
    }


def tuple_node(*nodes):
    return {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": list(nodes)}


def function_node(module, name, loader="FunctionNode"):
    return {"__class__": name, "__module__": module, "__loader__": loader}


def attacks(trace):
    """Name of the type to be refused, and the node that holds it."""
    empty = {
        "__class__": "dict",
        "__module__": "builtins",
        "__loader__": "DictNode",
        "content": {},
        "key_types": {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": []},
    }
    call = {
        "func": function_node("os", "mkdir"),
        "args": tuple_node(text_node(str(trace))),
        "kwds": empty,
        "namespace": empty,
    }
    partial = {
        "__class__": "partial",
        "__module__": "functools",
        "__loader__": "PartialNode",
        "content": call,
    }
    # DictNode calls its key types on its keys: the shortest way from a name to a call
    as_key_type = empty | {
        "content": {str(trace): text_node("x")},
        "key_types": {
            "__class__": "list",
            "__module__": "builtins",
            "__loader__": "ListNode",
            "content": [function_node("os", "mkdir", "TypeNode")],
        },
    }
    ours = empty | {
        "content": {str(trace): text_node("x")},
        "key_types": {
            "__class__": "list",
            "__module__": "builtins",
            "__loader__": "ListNode",
            "content": [function_node("labelfold.app.io._files", "writable_folder", "TypeNode")],
        },
    }
    # neither a public function, nor what lies beside the names of labelfold.saved, nor an allowed class by the
    # module it is defined in
    others = [
        ("labelfold", "save"),
        ("labelfold.saved", "import_module"),
        ("labelfold.saved", "public_path"),
        ("labelfold.app.registry._tuned", "Tuned"),
    ]
    return {
        "os.mkdir": function_node("os", "mkdir"),
        "os.mkdir as key": as_key_type,
        "os.system": function_node("os", "system"),
        "builtins.eval": function_node("builtins", "eval"),
        "functools.partial": partial,
        "labelfold.app.io._files.writable_folder": ours,
        "labelfold.app.io._files.os": function_node("labelfold.app.io._files", "os"),
        "labelfold.app.registry._adapters.clone": function_node("labelfold.app.registry._adapters", "clone"),
        **{f"{module}.{name}": function_node(module, name, "TypeNode") for module, name in others},
    }


@pytest.mark.parametrize("name", attacks(None))
def test_a_crafted_model_is_refused_and_runs_nothing(tmp_path, name):
    trace = tmp_path / "trace"
    path = crafted(tmp_path / "m.skops", attacks(trace)[name])
    with pytest.raises(FileProblem, match="nothing in it was run") as caught:
        load_model(path)
    assert name.split(" ")[0] in str(caught.value)
    assert not trace.exists()


def test_the_attack_would_work_on_a_loader_that_trusts(tmp_path):
    """The test above can fail: with the type trusted, the same file does make the folder."""
    trace = tmp_path / "trace"
    path = crafted(tmp_path / "m.skops", attacks(trace)["os.mkdir as key"])
    skops.io.load(path, trusted=[*skops.io.get_untrusted_types(file=path)])
    assert trace.exists()


def test_files_that_are_no_models(tmp_path):
    trace = tmp_path / "trace"
    model, _ = fitted_lda(["a", "b", "c"])
    path = save_model(model, tmp_path / "whole.skops")
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda member: member.compress_size)
    flipped = bytearray(whole)
    flipped[largest.header_offset + 30 + len(largest.filename) + largest.compress_size // 2] ^= 0xFF
    cases = [
        (pickle.dumps(Trap(trace)), "pickles are never opened"),
        (b"a,b\n1,2\n", "is not a labelfold model"),
        (b"", "is empty"),
        (whole[: len(whole) // 2], "damaged or cut short"),
        (bytes(flipped), "damaged"),
    ]
    for content, words in cases:
        path = tmp_path / "m.skops"
        path.write_bytes(content)
        check_sentence(lambda p=path: load_model(p), words, path)
    assert not trace.exists()
    plain = tmp_path / "plain.skops"
    skops.io.dump(model, plain)
    check_sentence(lambda: load_model(plain), "not a labelfold model", plain)
    check_sentence(lambda: load_model(tmp_path / "nil.skops"), "no file", tmp_path / "nil.skops")


def with_note(path, note):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("labelfold.json", json.dumps(note))
    return path


def test_a_newer_format_is_named_before_anything_is_read(tmp_path):
    path = with_note(
        tmp_path / "m.skops", {"format": "labelfold-model", "format_version": FORMAT_VERSION + 1}
    )
    check_sentence(lambda: load_model(path), "newer labelfold", path)
    path = with_note(tmp_path / "m.skops", {"format": "labelfold-model", "format_version": FORMAT_VERSION})
    check_sentence(lambda: load_model(path), "is damaged", path)
    path = with_note(tmp_path / "m.skops", {"format": "other"})
    check_sentence(lambda: load_model(path), "not a labelfold model", path)


def test_a_model_of_the_format_that_named_modules_is_to_be_fitted_again(tmp_path):
    model, _ = fitted_lda(["a", "b", "c"])
    members = archive_of(save_model(model, tmp_path / "m.skops"))
    note, schema = json.loads(members["labelfold.json"]), json.loads(members["schema.json"])
    note["format_version"] = FORMAT_VERSION - 1
    schema["__module__"] = "labelfold.spectral.lda"
    members |= {"labelfold.json": json.dumps(note).encode(), "schema.json": json.dumps(schema).encode()}
    path = write_archive(tmp_path / "m.skops", members)
    sentence = f"older labelfold (format {FORMAT_VERSION - 1}; this one reads format {FORMAT_VERSION}): fit"
    check_sentence(lambda: load_model(path), sentence, path)


@pytest.mark.parametrize("function", [os.path.abspath, read_table])
def test_what_could_not_be_loaded_is_not_saved(tmp_path, function):
    from sklearn.preprocessing import FunctionTransformer

    model = FunctionTransformer(func=function)
    with pytest.raises(
        FileProblem, match=f"{function.__module__}.{function.__name__}', .*would refuse to load"
    ):
        save_model(model, tmp_path / "m.skops")
    assert not (tmp_path / "m.skops").exists()


def test_a_failed_write_leaves_the_old_model(tmp_path, monkeypatch):
    model, _ = fitted_lda(["a", "b", "c"])
    path = save_model(model, tmp_path / "m.skops")
    before = path.read_bytes()
    monkeypatch.setattr(type(path), "replace", lambda *a: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(FileProblem, match="No space left"):
        save_model(model, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.skops"]


def test_decimals_of_parquet_are_numbers(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    prices = pa.array([Decimal("1.25"), Decimal("-3.50")], type=pa.decimal128(10, 2))
    pq.write_table(pa.table({"price": prices, "n": [1, 2]}), tmp_path / "t.parquet")
    np.testing.assert_array_equal(read_table(tmp_path / "t.parquet").X, [[1.25, 1.0], [-3.5, 2.0]])


def test_ids_and_labels_are_read_as_they_are_written(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,a,kind\n007,1,NA\n1e3,2,x\n,3,y\n")
    table = read_table(path, target="kind", id_columns=["id"])
    assert table.ids["id"].tolist() == ["007", "1e3", ""]
    assert table.y.tolist() == [None, "x", "y"]
    only_empty = read_table(path, target="kind", id_columns=["id"], unlabeled_values=[""])
    assert only_empty.y.tolist() == ["NA", "x", "y"]


@pytest.mark.parametrize(
    ("values", "spellings", "expected"),
    [
        (["-1", "0", "1"], None, [-1, 0, 1]),
        (["-1", "0", ""], ["-1"], [None, 0, None]),
        (["?", "0", "1"], ["?"], [None, 0, 1]),
        (np.array([-1.0, 0.0, 1.0]), ["-1"], [None, 0, 1]),
        (np.array([-1, 0, 1]), ["-1"], [None, 0, 1]),
        (["none", "a", "b"], [""], ["none", "a", "b"]),
    ],
)
def test_what_counts_as_unlabelled(values, spellings, expected):
    assert read_target(values, spellings).tolist() == expected


def test_several_target_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,sport,music\n1,1,0\n2,,\n3,0,1\n")
    table = read_table(path, target=["sport", "music"])
    np.testing.assert_array_equal(table.y, [[1, 0], [np.nan, np.nan], [0, 1]])
    assert table.feature_names == ["a"]
    path.write_text("a,sport,music\n1,yes,0\n2,no,1\n")
    check_sentence(lambda: read_table(path, target=["sport", "music"]), "should hold 0 and 1", path)


def test_npz_ids_and_label_matrices(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(2), y=np.array([[1, 0], [0, 1]]), name=["u", "v"])
    table = read_table(tmp_path / "t.npz", id_columns=["name"])
    assert table.ids["name"].tolist() == ["u", "v"]
    assert table.y.shape == (2, 2)


def test_twenty_thousand_columns(tmp_path):
    path = tmp_path / "wide.csv"
    X = np.arange(6 * 20_000).reshape(6, -1)
    header = ",".join(f"gene {j}" for j in range(20_000))
    rows = (",".join(map(str, row)) + f",{kind}" for row, kind in zip(X, "ppqq  ", strict=True))
    path.write_text(header + ",kind\n" + "\n".join(rows) + "\n")
    began = time.process_time()
    table = read_table(path, target="kind")
    assert time.process_time() - began < 8
    np.testing.assert_array_equal(table.X, X)
    assert table.y.tolist() == ["p", "p", "q", "q", None, None]
    path.write_text(header + ",gene 0\n" + ",".join(["1"] * 20_001) + "\n")
    table = read_table(path)
    assert table.feature_names[-1] == "gene 0.1"
    assert table.notes == [f"{path} has columns of the same name; the later ones are called 'gene 0.1'."]


def test_svmlight_with_an_absurd_index_is_refused_before_it_fills_the_memory(tmp_path):
    path = tmp_path / "t.svmlight"
    path.write_text("1 1:5 2000000000:1\n0 2:1\n")
    check_sentence(lambda: read_table(path), "has an index of 2,000,000,000", path)
    path.write_text("1 1:5 3000000000:1\n0 2:1\n")
    check_sentence(lambda: read_table(path), "has an index above 2,147,483,647", path)
    path.write_text("1 1:5 2000000:1\n0 2:1\n")  # as hashing makes them
    assert read_table(path).X.shape == (2, 2_000_000)
    path.write_text("1 0:5 2:1\n")
    check_sentence(lambda: read_table(path, index_base=1), "counts its columns from 0", path)
    check_sentence(lambda: read_table(path, target="y"), "no target columns to choose from", path)


def other_version(path, **versions):
    """Rewrite what a model file says it was written by."""
    members = archive_of(path)
    note = json.loads(members["labelfold.json"])
    note["meta"] |= versions
    members["labelfold.json"] = json.dumps(note).encode()
    write_archive(path, members)
    return members


@pytest.mark.parametrize(
    ("versions", "words"),
    [({"labelfold": "0.0.3"}, "labelfold 0.0.3"), ({"scikit-learn": "1.2.0"}, "scikit-learn 1.2.0")],
)
def test_a_model_of_another_version_is_said_to_be_one(tmp_path, versions, words):
    model, X = fitted_lda(["a", "b", "c"])
    path = save_model(model, tmp_path / "m.skops")
    load_model(path)
    members = other_version(path, **versions)
    with pytest.warns(UserWarning, match=words) as caught:
        back = load_model(path)
    assert len(caught) == 1
    np.testing.assert_array_equal(back.transform(X), model.transform(X))
    schema = json.loads(members["schema.json"])
    schema["content"]["content"]["components_"] = {"__loader__": "NoSuchNode"}
    members["schema.json"] = json.dumps(schema).encode()
    write_archive(path, members)
    with pytest.raises(FileProblem):
        load_model(path)


def test_a_class_that_only_another_version_has_is_not_called_foreign(tmp_path):
    path = crafted(tmp_path / "m.skops", function_node("labelfold.saved", "Later", "TypeNode"))
    check_sentence(lambda: load_model(path), "no part of a labelfold model", path)
    other_version(path, labelfold="99.0.0")
    check_sentence(lambda: load_model(path), "written by labelfold 99.0.0", path)
    path = crafted(path, function_node("os", "mkdir"))
    other_version(path, labelfold="99.0.0")
    check_sentence(lambda: load_model(path), "nothing in it was run", path)


def test_a_format_that_is_none_is_damage(tmp_path):
    for version in (0, -1, "new", None):
        path = with_note(tmp_path / "m.skops", {"format": "labelfold-model", "format_version": version})
        check_sentence(lambda p=path: load_model(p), "names no format", path)


def test_many_columns_are_matched_with_a_models_in_no_time(tmp_path):
    names = [f"gene {j}" for j in range(30_000)]
    path = tmp_path / "wide.npz"
    np.savez(path, X=np.arange(60_000.0).reshape(2, -1), feature_names=names)
    start = time.process_time()
    table = read_table(path, features=names[:0:-1])
    assert time.process_time() - start < 5  # one look-up a column; one for each pair of columns took a minute
    assert table.ignored == ["gene 0"]
    np.testing.assert_array_equal(table.X[0], np.arange(29_999.0, 0, -1))


def test_devices_and_pipes_are_no_files_to_read(tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero", "/dev/null"):
        with pytest.raises(FileProblem, match="is a device or a pipe; write what it gives to a file first"):
            read_table(path, format="csv")
        with pytest.raises(FileProblem, match="is a device or a pipe"):
            load_model(path)


@pytest.fixture
def small_limits(monkeypatch):
    """Have files refused that unpack to more than a megabyte, so that a test need not fill the memory."""
    monkeypatch.setattr("labelfold.app.io._files.MAX_UNPACKED", 1 << 20)
    monkeypatch.setattr("labelfold.app.io._files.MAX_LINE", 1 << 18)


@pytest.mark.parametrize("name", ["b.csv.gz", "b.svmlight.gz", "b.tsv.bz2", "b.npz", "b.parquet"])
def test_a_small_file_that_would_fill_the_memory_is_refused(tmp_path, small_limits, name):
    path = tmp_path / name
    opener = gzip.open if name.endswith("gz") else bz2.open
    if name == "b.npz":
        np.savez_compressed(path, X=np.zeros((1000, 500)))
    elif name == "b.parquet":
        pd.DataFrame(np.zeros((400_000, 2)), columns=["a", "b"]).to_parquet(path)
    else:
        with opener(path, "wt") as file:
            file.write("a,b\n" if "csv" in name else "a\tb\n" if "tsv" in name else "")
            file.write(("0,0\n" if "csv" in name else "0\t0\n" if "tsv" in name else "1 1:0\n") * 500_000)
    with pytest.raises(FileProblem, match="over 200 times its own size, as no table or model does"):
        read_table(path)


def test_a_packed_file_of_one_line_is_refused(tmp_path, small_limits):
    path = tmp_path / "line.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(np.random.default_rng(0).integers(65, 90, size=1 << 19, dtype=np.uint8).tobytes())
    with pytest.raises(FileProblem, match="has a line of more than 0 MB; it is no table"):
        read_table(path)


def test_arrays_of_an_npz_that_are_not_used_are_not_unpacked(tmp_path, small_limits):
    path = tmp_path / "t.npz"
    X = np.random.default_rng(0).normal(size=(20, 3))
    np.savez_compressed(path, X=X, y=np.arange(20) % 2, unused=np.zeros(10**6))
    np.testing.assert_array_equal(read_table(path).X, X)
    with pytest.raises(FileProblem, match="200 times its own size"):
        read_table(path, target="unused")


def test_a_model_that_compresses_too_well_is_saved_so_that_it_loads(tmp_path, small_limits):
    model = StandardScaler().fit(np.zeros((2, 300_000)))
    path = save_model(model, tmp_path / "m.skops")
    np.testing.assert_array_equal(load_model(path).mean_, model.mean_)
    bomb = tmp_path / "bomb.skops"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name))
    with pytest.raises(FileProblem, match="over 200 times its own size, as no table or model does"):
        load_model(bomb)


@pytest.mark.parametrize("at", [12, -6, "middle"])
@pytest.mark.parametrize("name", ["t.csv.gz", "t.svmlight.gz", "t.tsv.bz2"])
def test_a_flipped_byte_in_a_packed_file(tmp_path, name, at):
    path = tmp_path / name
    text = "a,b\n" + "".join(f"{i},{i * i}\n" for i in range(3000))
    if "svm" in name:
        text = "".join(f"1 1:{i} 2:{i * i}\n" for i in range(1, 3000))
    packed = bytearray(
        (gzip if name.endswith("gz") else bz2).compress(
            text.replace(",", "\t" if "tsv" in name else ",").encode()
        )
    )
    packed[len(packed) // 2 if at == "middle" else at] ^= 0x40
    path.write_bytes(packed)
    with pytest.raises(FileProblem, match="is damaged or cut short: "):
        read_table(path)


@pytest.mark.parametrize("y", [np.ones(3, complex), np.zeros(3, "V4"), np.array(["2020"] * 3, "M8[D]")])
def test_targets_of_an_npz_that_are_neither_numbers_nor_text(tmp_path, y):
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=y)
    with pytest.raises(FileProblem, match="where numbers or text are expected"):
        read_table(tmp_path / "t.npz")


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_a_sparse_shape_beyond_measure(tmp_path, layout):
    shape = (2**40, 2) if layout == "csc" else (2, 2**40)
    parts = {"data": np.ones(1), "indices": np.zeros(1, int), "indptr": np.array([0, 1, 1])}
    np.savez(tmp_path / "t.npz", **parts, shape=np.array(shape), format=np.array(layout))
    with pytest.raises(FileProblem, match="though it holds 1 values in all"):
        read_table(tmp_path / "t.npz")


def test_hostile_parquet_metadata(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"a": [1.0, 2.0]})
    for text in (
        b"{",
        b'{"index_columns": 7, "columns": 3}',
        b'{"index_columns": ["b"], "columns": [{}]}',
        b"[]",
    ):
        pq.write_table(table.replace_schema_metadata({b"pandas": text}), tmp_path / "t.parquet")
        try:
            assert read_table(tmp_path / "t.parquet").X.tolist() == [[1.0], [2.0]]
        except FileProblem as error:
            assert "is not a whole Parquet file" in str(error)  # noqa: PT017


def test_wrong_types_in_a_models_note_are_not_told(tmp_path, capsys):
    from labelfold.app.commands._cli import main

    model, _ = fitted_lda(["a", "b", "c"])
    wrong = {"classes": {"a": 1}, "counts": "many", "target": 3, "top_features": [[["x"]]], "n_rows": "1e9"}
    path = save_model(model, tmp_path / "m.skops", **wrong, method=["lda"], n_components=[2], n_labelled=None)
    assert main(["inspect", str(path)]) == 0
    assert "LDA" in capsys.readouterr().out


@pytest.mark.parametrize("landmarks", [None, 30])
def test_models_with_a_kernel_about_the_mean_come_back(tmp_path, landmarks):
    X, y = load_iris(return_X_y=True)
    model = LDA(kernel="rbf", gamma=0.1, ridge=0.1, n_landmarks=landmarks).fit(X + 1e6, y)
    back = load_model(save_model(model, tmp_path / "m.skops"))
    np.testing.assert_array_equal(back.transform(X + 1e6), model.transform(X + 1e6))
