"""Every reading of y, and every refusal, that the rest of the library relies on."""

import time
import warnings
from datetime import date
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelfold import LDA
from labelfold.labels import Labels, read_labels, score_targets
from labelfold.model_selection import SemiSupervisedKFold

ALL = ("binary", "multiclass", "multilabel", "regression")
NAN = float("nan")


@pytest.fixture(autouse=True)
def _no_silent_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def same(a: Labels, b: Labels) -> None:
    assert a.task == b.task
    for name in ("classes", "labelled", "index", "values"):
        x, y = getattr(a, name), getattr(b, name)
        assert x.dtype.kind == y.dtype.kind, name
        np.testing.assert_array_equal(x, y, err_msg=name)


def refusal(y, *args, error=ValueError, **options) -> str:
    """Return the message, having checked that it is one sentence with a remedy."""
    with pytest.raises(error) as caught:
        read_labels(y, *args, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert ". " not in message
    assert ";" in message
    return message


def test_integers_with_the_default_mark():
    labels = read_labels(np.array([2, -1, 0, 1, -1, 2]))
    assert labels.task == "multiclass"
    assert labels.classes.tolist() == [0, 1, 2]
    assert labels.classes.dtype == np.int64
    assert labels.labelled.tolist() == [True, False, True, True, False, True]
    assert labels.labelled.dtype == bool
    assert labels.index.tolist() == [0, 2, 3, 5]
    assert labels.values.tolist() == [2, 0, 1, 2]
    assert labels.values.dtype.kind == "i"
    assert (labels.n_rows, labels.n_labelled, labels.n_classes, labels.all_labelled) == (6, 4, 3, False)
    assert labels.counts().tolist() == [1, 1, 2]
    assert labels.indicator().tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert labels.signs().tolist() == [[-1, -1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
    assert labels.decode(np.array([1, 0])).tolist() == [1, 0]


def test_binary_signs_point_to_the_second_class():
    labels = read_labels(["no", "yes", "no"])
    assert labels.task == "binary"
    assert labels.all_labelled
    assert labels.signs().tolist() == [[-1], [1], [-1]]
    assert labels.signs().dtype == np.float64
    assert labels.indicator().tolist() == [[1, 0], [0, 1], [1, 0]]
    assert labels.decode([1, 0]).tolist() == ["yes", "no"]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float32", "float64", "bool"])
def test_classes_keep_their_dtype(dtype):
    labels = read_labels(np.array([0, 1, 1], dtype=dtype))
    assert labels.classes.dtype == np.dtype(dtype)
    assert labels.classes.tolist() == [0, 1]
    assert labels.all_labelled


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (np.array([3.0, NAN, 5.0]), "f"),
        ([3, None, 5], "i"),
        ([3, NAN, 5], "i"),
        ([3, pd.NA, 5], "i"),
        ((3.0, None, 5.0), "f"),
        (np.array([3, None, 5], dtype=object), "i"),
        (pd.Series([3, None, 5]), "f"),
        (pd.Series([3, None, 5], dtype="Int64"), "i"),
        (pd.Series([3, None, 5], dtype="Int64").array, "i"),
        (pd.Series([3, None, 5], dtype="Float64"), "f"),
        (pd.Series([3, None, 5], dtype=object), "i"),
        (pd.Series([3, None, 5], dtype="category"), "i"),
        (pd.Series([3, None, 5], index=[9, 9, 1], dtype="Int64"), "i"),
        (np.ma.array([3, 4, 5], mask=[0, 1, 0]), "i"),
        (np.array([3, -1, 5], dtype="int8"), "i"),
        (np.array([3, -1.0, 5]), "f"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_spellings_of_unlabelled_numbers(y, kind):
    labels = read_labels(y)
    assert labels.classes.dtype.kind == kind
    assert labels.classes.tolist() == [3, 5]
    assert labels.index.tolist() == [0, 2]
    assert labels.values.tolist() == [0, 1]


@pytest.mark.parametrize(
    "y",
    [
        ["b", None, "a"],
        ["b", NAN, "a"],
        ["b", pd.NA, "a"],
        ["b", -1, "a"],
        np.array(["b", None, "a"], dtype=object),
        np.array(["b", NAN, "a"], dtype=object),
        pd.Series(["b", None, "a"]),
        pd.Series(["b", None, "a"], dtype="string"),
        pd.Series(["b", None, "a"], dtype="string[pyarrow]"),
        pd.Series(["b", None, "a"], dtype=object),
        pd.Series(["b", None, "a"], dtype=pd.CategoricalDtype(["never", "b", "a"])),
        pd.Categorical(["b", None, "a"], categories=["b", "a", "never"]),
        pd.DataFrame({"y": ["b", None, "a"]})["y"],
        np.array(["b", None, "a"], dtype=np.dtypes.StringDType(na_object=None)),
    ],
    ids=lambda v: f"{type(v).__name__}-{getattr(v, 'dtype', '')}",
)
def test_spellings_of_unlabelled_text(y):
    labels = read_labels(y)
    assert labels.classes.tolist() == ["a", "b"]
    assert labels.index.tolist() == [0, 2]
    assert labels.values.tolist() == [1, 0]


@pytest.mark.parametrize("mark", ["", "?"])
def test_text_mark(mark):
    for y in (["b", mark, "a"], np.array(["b", mark, "a"]), pd.Series(["b", mark, "a"]), ("b", mark, "a")):
        labels = read_labels(y, unlabeled=mark)
        assert labels.classes.tolist() == ["a", "b"]
        assert labels.index.tolist() == [0, 2]
    assert read_labels([1, 2, mark], unlabeled=mark).index.tolist() == [0, 1]
    assert read_labels([b"x", b"y", b"?"], unlabeled=b"?").classes.tolist() == [b"x", b"y"]
    assert read_labels(np.array([b"x", b"y", b"?"]), unlabeled=b"?").classes.dtype.kind == "S"


def test_a_mark_of_another_kind_than_y_marks_nothing():
    assert read_labels(np.array([b"x", b"?"]), unlabeled="?").all_labelled
    assert read_labels(np.array([0, 1]), unlabeled="?").all_labelled
    assert read_labels(np.array([False, True]), unlabeled=0).all_labelled
    assert read_labels(np.array([False, True], dtype=object), unlabeled=1).all_labelled


@pytest.mark.parametrize("mark", [0, 0.0, np.int8(0), np.float32(0)])
def test_another_number_as_mark(mark):
    labels = read_labels(np.array([-1, 0, 1]), unlabeled=mark)
    assert labels.classes.tolist() == [-1, 1]
    assert labels.index.tolist() == [0, 2]


@pytest.mark.parametrize("mark", [None, NAN, np.float64("nan")])
def test_without_a_mark_every_value_is_a_class_and_missing_ones_stay_unlabelled(mark):
    labels = read_labels([-1, 0, None, 1], unlabeled=mark)
    assert labels.classes.tolist() == [-1, 0, 1]
    assert labels.labelled.tolist() == [True, True, False, True]
    assert "rows are missing;" in refusal([None, None], unlabeled=mark)


def test_text_of_a_list_is_a_numpy_string_and_of_objects_stays_object():
    assert read_labels(["a", "b", None]).classes.dtype.kind == "U"
    assert read_labels([b"a", b"b"]).classes.dtype.kind == "S"
    assert read_labels([np.str_("a"), "b"]).classes.dtype.kind == "U"
    assert read_labels(np.array(["a", "b"], dtype=object)).classes.dtype == object
    assert read_labels(np.array(["a", "bcd"])).classes.dtype == np.dtype("<U3")


def test_text_that_numpy_would_merge_stays_apart():
    assert read_labels(["a", "a\0"]).classes.tolist() == ["a", "a\0"]


def test_text_minus_one_is_a_class_with_a_warning():
    y = np.array(["a", "b", -1])
    with pytest.warns(UserWarning, match="text '-1', read as a class") as caught:
        assert read_labels(y).n_classes == 3
    assert len(caught) == 1
    assert read_labels(y, unlabeled="-1").n_classes == 2
    assert read_labels(y, unlabeled=None).n_classes == 3


def test_other_class_types():
    days = np.array(["2024-01-02", "NaT", "2024-01-01"], dtype="datetime64[D]")
    assert read_labels(days).index.tolist() == [0, 2]
    assert read_labels(pd.Series(days.astype("datetime64[s]"))).values.tolist() == [1, 0]
    assert read_labels([date(2024, 1, 2), None, date(2024, 1, 1)]).values.tolist() == [1, 0]
    assert read_labels([pd.Timestamp("2024-01-02"), pd.NaT, pd.Timestamp("2024-01-01")]).n_labelled == 2
    assert read_labels([2**70, 1, -1]).classes.tolist() == [1, 2**70]
    assert read_labels([2**63, -2]).classes.tolist() == [-2, 2**63]
    assert read_labels(range(3)).n_classes == 3
    assert read_labels([True, False, None]).classes.dtype == bool
    assert read_labels(pd.Series([True, False, None], dtype="boolean")).classes.dtype == bool
    assert read_labels(pd.Series([1, 2, None], dtype="Int32")).classes.dtype == np.int32


def test_arrays_of_other_libraries():
    import array_api_strict
    import dask.array

    class NotAnArray:
        def __array__(self, dtype=None, copy=None):
            return np.array([1, 0, -1], dtype=dtype)

    expected = read_labels(np.array([1, 0, -1]))
    for y in (
        dask.array.from_array(np.array([1, 0, -1]), chunks=2),
        array_api_strict.asarray([1, 0, -1]),
        NotAnArray(),
        memoryview(np.array([1, 0, -1])),
    ):
        same(read_labels(y), expected)


@pytest.mark.parametrize(("module", "make"), [("torch", "tensor"), ("polars", "Series")])
def test_arrays_of_extras(module, make):
    library = pytest.importorskip(module, reason=f"{module} is not needed to test the rest")
    same(read_labels(getattr(library, make)([1, 0, -1])), read_labels(np.array([1, 0, -1])))


def test_y_is_never_written_to_or_shared():
    for y, options in (
        (np.array([1, -1, 0]), {}),
        (np.array([0.5, NAN, 1.0]), {"allowed": ALL}),
        (np.array([[0.5, 1], [NAN, NAN]]), {"allowed": ALL}),
        (np.array([[0.0, 1], [1, 0]]), {"allowed": ALL}),
        (np.array(["a", None, "b"], dtype=object), {}),
    ):
        y.flags.writeable = False
        labels = read_labels(y, **options)
        assert not any(np.shares_memory(y, getattr(labels, k)) for k in ("values", "classes", "labelled"))


def test_labels_are_frozen():
    with pytest.raises(AttributeError):
        read_labels([0, 1]).task = "regression"


@pytest.mark.parametrize("y", [[-1, 1, 1], np.array([-1.0, 1, 1]), pd.Series([-1, 1, 1], dtype="Int64")])
def test_signs_alone_are_two_classes_with_a_warning(y):
    with pytest.warns(UserWarning, match="unlabeled=None") as caught:
        labels = read_labels(y)
    assert len(caught) == 1
    assert labels.classes.tolist() == [-1, 1]
    assert labels.all_labelled
    assert labels.signs().tolist() == [[-1], [1], [1]]
    same(read_labels(y, unlabeled=None), labels)


def test_signs_with_missing_values():
    with pytest.warns(UserWarning, match="-1 and \\+1"):
        labels = read_labels([-1, 1, None])
    assert labels.classes.tolist() == [-1, 1]
    assert labels.index.tolist() == [0, 1]


def test_signs_and_zero_leave_minus_one_unlabelled():
    labels = read_labels([-1, 0, 1])
    assert labels.classes.tolist() == [0, 1]
    assert labels.index.tolist() == [1, 2]


def test_minus_one_and_another_value_is_one_class():
    message = refusal([-1, 2, 2, -1])
    assert "one class only, 2, in its 2 labelled rows, the other 2 being missing or -1" in message
    assert "unlabeled=None" in message
    assert read_labels([-1, 2], unlabeled=None).classes.tolist() == [-1, 2]


def test_the_sign_rule_is_for_minus_one_only():
    assert "one class" in refusal([0, 1, 1], unlabeled=0)


def test_multilabel_rows():
    Y = np.array([[1, 0, 1], [NAN, NAN, NAN], [0, 0, 0], [-1, -1, -1], [0, 1, 0]])
    labels = read_labels(Y, 5, allowed=ALL)
    assert labels.task == "multilabel"
    assert labels.classes.tolist() == [0, 1, 2]
    assert labels.labelled.tolist() == [True, False, True, False, True]
    assert labels.values.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert labels.values.dtype == np.float64
    assert labels.indicator().tolist() == labels.values.tolist()
    assert not np.shares_memory(labels.indicator(), labels.values)  # callers centre and scale it
    assert labels.signs().tolist() == [[1, -1, 1], [-1, -1, -1], [-1, 1, -1]]
    assert labels.counts().tolist() == [1, 1, 1]
    assert labels.counts().dtype.kind == "i"
    decoded = labels.decode(np.array([[1.0, 0.0]]))
    assert decoded.tolist() == [[1, 0]]
    assert decoded.dtype.kind == "i"


@pytest.mark.parametrize(
    "Y",
    [
        [[1, 0], [0, 1], [NAN, NAN]],
        [[1, 0], [0, 1], [None, None]],
        [[True, False], [False, True], [None, None]],
        [[1, 0], [0, 1], [-1, -1]],
        np.array([[1, 0], [0, 1], [-1, -1]], dtype="int8"),
        np.array([[1, 0], [0, 1], [NAN, NAN]], dtype="float32"),
        np.array([[1, 0], [0, 1], [pd.NA, None]], dtype=object),
        np.ma.array([[1, 0], [0, 1], [1, 1]], mask=[[0, 0], [0, 0], [1, 1]]),
    ],
    ids=lambda Y: f"{type(Y).__name__}-{getattr(Y, 'dtype', Y[0])}",
)
def test_spellings_of_unlabelled_rows(Y):
    same(read_labels(Y, allowed=ALL), read_labels(np.array([[1, 0], [0, 1], [NAN, NAN]]), allowed=ALL))


def test_text_mark_of_multilabel_rows():
    labels = read_labels([[1, 0], ["?", "?"], [0, 1]], unlabeled="?", allowed=ALL)
    assert labels.index.tolist() == [0, 2]
    assert "mixes labels of types int and str" in refusal([[1, 0], [1, "?"]], unlabeled="?", allowed=ALL)


def test_multilabel_without_a_mark():
    assert "-1 in row 1, column 0" in refusal([[1, 0], [-1, -1]], unlabeled=None, allowed=["multilabel"])
    assert read_labels([[1, 1], [None, None]], unlabeled=None, allowed=ALL).index.tolist() == [0]


@pytest.mark.parametrize("dtype", ["int64", "float64", "Int64", "boolean", object])
def test_dataframe_names_the_classes(dtype):
    Y = pd.DataFrame({"sport": [1, 0, 1], "art": [0, 1, 1]}, index=[7, 7, 3]).astype(dtype)
    labels = read_labels(Y, allowed=ALL)
    assert labels.classes.tolist() == ["sport", "art"]
    assert labels.values.tolist() == [[1, 0], [0, 1], [1, 1]]
    gap = pd.DataFrame({"sport": [1, None, 0], "art": [0, None, 1]}, dtype="Int64")
    assert read_labels(gap, allowed=ALL).index.tolist() == [0, 2]


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, sparse.coo_array, sparse.csc_matrix])
def test_sparse_indicator(kind):
    labels = read_labels(kind(np.array([[1, 0], [0, 0], [0, 1]])), 3, allowed=ALL)
    assert labels.task == "multilabel"
    assert labels.all_labelled
    assert labels.values.tolist() == [[1, 0], [0, 0], [0, 1]]


def test_empty_label_columns_warn_by_name():
    Y = pd.DataFrame({"a": [1, 0], "b": [0, 0], "c": [0, 0]})
    with pytest.warns(UserWarning, match="label columns 'b', 'c';"):
        labels = read_labels(Y, allowed=ALL)
    assert labels.counts().tolist() == [1, 0, 0]
    with pytest.warns(UserWarning, match="label columns 1;"):  # its one positive is unlabelled
        read_labels([[1, 0], [1, 0], [1, 1]], unlabeled=1, allowed=ALL)


def test_multilabel_refusals():
    Y = np.zeros((9, 2))
    Y[1:8, 0] = NAN
    assert "rows 1, 2, 3, 4, 5 and 2 more" in refusal(Y, allowed=ALL)
    assert "value 2 in row 1, column 1" in refusal([[1, 0], [0, 2]], allowed=["multilabel"])
    assert 'task="regression"' in refusal([[1, 0], [0, 2]], allowed=ALL)
    assert 'task="regression"' not in refusal([[1, 0], [0, 2]], allowed=["multilabel"])
    assert "value 0.5 in row 2, column 0" in refusal([[NAN, NAN], [1, 0], [0.5, 1]], allowed=["multilabel"])
    assert "value 0.5" in refusal([[0.5, 1], [1, 0]], task="classification", allowed=ALL)
    assert "value -1 in row 0, column 1" in refusal([[1, -1], [-1, 1]], allowed=["multilabel"])
    assert "value 'x' in row 1, column 0" in refusal([[None, None], ["x", "y"]], allowed=["multilabel"])
    assert "MultiLabelBinarizer" in refusal([["x"], ["x", "y"]], allowed=["multilabel"])
    assert "contains infinity" in refusal([[NAN, NAN], [1, np.inf]], allowed=["multilabel"])
    assert "no labelled row" in refusal([[NAN, NAN], [-1, -1]], allowed=["multilabel"])
    assert "no labelled row" in refusal([[None, None]], allowed=["multilabel"])


def test_fractions_are_regression_where_allowed():
    y = np.array([0.5, NAN, -1.0, 2.0], dtype="float32")
    labels = read_labels(y, allowed=ALL)
    assert labels.task == "regression"
    assert labels.classes.shape == (0,)
    assert labels.n_classes == 0
    assert labels.index.tolist() == [0, 2, 3]  # -1 is a value here
    assert labels.values.tolist() == [0.5, -1.0, 2.0]
    assert labels.values.dtype == np.float64
    assert labels.decode([0.25]).tolist() == [0.25]
    for method in ("indicator", "signs", "counts"):
        with pytest.raises(ValueError, match=f"{method}.*regression"):
            getattr(labels, method)()


def test_the_task_settles_what_whole_numbers_are():
    y = [-1, 0, 3, None]
    assert read_labels(y, task="regression", allowed=ALL).values.tolist() == [-1, 0, 3]
    assert read_labels(y, task="classification", allowed=ALL).classes.tolist() == [0, 3]
    assert read_labels(y, task="auto", allowed=ALL).classes.tolist() == [0, 3]
    assert read_labels(y, allowed=["regression"]).values.tolist() == [-1, 0, 3]
    assert read_labels([True, False], task="regression", allowed=ALL).values.tolist() == [1, 0]
    assert read_labels([Fraction(1, 2), 1], allowed=ALL).values.tolist() == [0.5, 1]
    assert read_labels([1.5, "?"], unlabeled="?", allowed=ALL).index.tolist() == [0]
    # A constant target is no one-class error.
    assert read_labels([2, 2], task="regression", allowed=ALL).values.tolist() == [2, 2]


def test_regression_on_several_targets():
    Y = np.array([[0.5, 1], [NAN, NAN], [-1, -1]])
    labels = read_labels(Y, allowed=ALL)
    assert labels.task == "regression"
    assert labels.index.tolist() == [0, 2]
    assert labels.values.tolist() == [[0.5, 1], [-1, -1]]
    counts = [[3, 1], [-1, -1]]
    assert read_labels(counts, task="regression", allowed=ALL).values.tolist() == counts
    assert "partly missing in rows 0" in refusal([[0.5, NAN], [1, 2]], allowed=ALL)


def test_regression_refusals():
    assert "Unknown label type: continuous" in refusal([0.5, 1.0, NAN], estimator="DRSVM")
    assert "DRSVM" in refusal([0.5, 1.0], estimator="DRSVM")
    assert "such as 0.25" in refusal(np.array([1.0, 0.25]))
    assert "Unknown label type: continuous" in refusal([0.5, 1.0], task="classification", allowed=ALL)
    assert "y is regression" in refusal([0.5, 1.0], task="regression", estimator="DRSVM")
    assert "holds 'a' and the task is regression" in refusal(["a", "b"], task="regression", allowed=ALL)
    assert "no labelled row" in refusal(np.array(["?"]), unlabeled="?", task="regression", allowed=ALL)
    message = refusal([NAN, NAN], task="regression", allowed=ALL)
    assert "no labelled row" in message
    assert "-1" not in message


@pytest.mark.parametrize(
    "column", [[[0], [1], [-1]], np.array([[0], [1], [-1]]), pd.DataFrame({"y": [0, 1, -1]})]
)
def test_a_column_is_read_as_one_dimension(column):
    with pytest.warns(
        DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"
    ):
        labels = read_labels(column, 3)
    same(labels, read_labels([0, 1, -1]))


def test_shape_refusals():
    assert "shape (2, 2, 2)" in refusal(np.zeros((2, 2, 2)))
    assert "a single int" in refusal(3)
    assert "a single str" in refusal("abab")
    assert "a single set" in refusal({1, 2})
    assert "shape (3, 0)" in refusal(np.zeros((3, 0)), allowed=ALL)
    assert "y has 3 rows and X has 4" in refusal([0, 1, 0], 4)
    assert "y has 3 rows and X has 4" in refusal(pd.Series([0, None, 1]), 4)
    assert "y has 2 rows and X has 4" in refusal(np.eye(2), 4, allowed=ALL)


def test_none_is_refused_in_the_words_of_scikit_learn():
    message = refusal(None, estimator="DRSVM")
    assert "DRSVM requires y to be passed, but the target y is None" in message


@pytest.mark.parametrize(
    "y", [[], [-1, -1], [None, NAN], np.full(3, NAN), pd.Series([None, None], dtype="Int64")]
)
def test_no_labelled_row(y):
    assert f"no labelled row, all of its {len(y)} rows are missing or -1" in refusal(y)


@pytest.mark.parametrize(
    "y", [[1, 1], np.ones(3), ["a", "a", None], [True, True], pd.Series(["a"], dtype="category")]
)
def test_one_class(y):
    assert "one class only" in refusal(y)


@pytest.mark.parametrize(
    ("y", "types"),
    [
        (["a", 1], "int and str"),
        (["a", 1, None, 2.5], "float and int and str"),
        (np.array(["a", 1.5], dtype=object), "float and str"),
        (pd.Series(["a", 1]), "int and str"),
        ([b"a", "b"], "bytes and str"),
        (["a", True], "bool and str"),
        ([date(2024, 1, 1), 1], "date and int"),
    ],
)
def test_mixed_types(y, types):
    assert f"mixes labels of types {types};" in refusal(y)


@pytest.mark.parametrize(
    "y", [[np.inf, 1, 0], np.array([0, -np.inf, 1]), np.full(3, np.inf), [1, float("inf"), None]]
)
def test_infinity(y):
    assert "Input y contains infinity" in refusal(y)
    assert "Input y contains infinity" in refusal(y, task="regression", allowed=ALL)


def test_the_row_of_an_infinity_counts_unlabelled_rows():
    assert "in row 2;" in refusal([-1, None, np.inf, 1])


def test_labels_that_cannot_be_classes():
    assert "type complex" in refusal(np.array([1j, 2j]))
    assert "type dict" in refusal([{}, {}])
    assert "type object" in refusal([object(), object()])
    assert "type tuple" in refusal(np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]))


def test_a_y_that_numpy_cannot_read():
    class OnDevice:
        def __array__(self, dtype=None, copy=None):
            raise TypeError("not here\nbut there")

    assert "OnDevice" in refusal(OnDevice())


def test_task_not_allowed_names_estimator_and_tasks():
    message = refusal([[1, 0], [0, 1]], estimator="DRSVM")
    assert "DRSVM takes binary or multiclass targets and y is multilabel" in message
    message = refusal([0, 1, 2], estimator="TSVM", allowed=["binary"])
    assert "Only binary classification is supported" in message
    assert "TSVM takes binary targets and y is multiclass" in message
    message = refusal([[1, 0], [0, 1]], allowed=["binary", "regression"])
    assert 'pass task="regression"' in message
    assert "y is binary" in refusal([1, 0], task="classification", allowed=["regression"])


@pytest.mark.parametrize("mark", [True, np.bool_(True), [-1], {}, 1j, object(), np.array([1, 2])])
def test_mark_of_a_wrong_kind(mark):
    assert "unlabeled is" in refusal([0, 1], unlabeled=mark, error=TypeError)


def test_unknown_task():
    assert "'ranking'" in refusal([0, 1], task="ranking")


def score_mask(y, **options):
    return score_targets(y, **options)[0]


def test_score_mask():
    assert score_mask([0, -1, 2, None]).tolist() == [True, False, True, False]
    assert score_mask([-1, -1]).tolist() == [False, False]
    assert score_mask([3, 3, -1]).tolist() == [True, True, False]
    assert score_mask(["a", "?"], unlabeled="?").tolist() == [True, False]
    assert score_mask([-1, 1]).tolist() == [True, True]
    assert score_mask([-1, 0], unlabeled=None).tolist() == [True, True]
    assert score_mask([0.5, -1, NAN]).tolist() == [True, True, False]
    assert score_mask([1, -1, NAN], task="regression").tolist() == [True, True, False]
    assert score_mask([[1, 0], [0, 0], [-1, -1], [NAN, NAN]]).tolist() == [True, True, False, False]
    assert score_mask([[1], [-1], [0]]).tolist() == [True, False, True]
    assert score_mask(pd.Series([1, None, 0], dtype="Int64")).tolist() == [True, False, True]


def test_the_model_settles_whether_minus_one_is_a_class():
    assert score_mask([-1, 1], classes=np.array([0, 1])).tolist() == [False, True]
    assert score_mask([-1, -1], classes=np.array([-1, 1])).tolist() == [True, True]
    assert score_mask([-1, 0, 1], classes=np.array([-1, 1])).tolist() == [True, True, True]
    assert score_mask([[1, 0], [-1, -1]], classes=np.arange(2)).tolist() == [True, False]
    assert score_mask([1.0, -1.0], task="regression", classes=np.empty(0)).tolist() == [True, True]


@pytest.mark.parametrize(
    "y", [[1, None, 0], ["a", None, "b"], pd.Series([1, None, 0], dtype="Int64"), [0.0, NAN, 1]]
)
def test_score_targets_suit_metrics(y):
    mask, values = score_targets(y)
    assert mask.tolist() == [True, False, True]
    assert accuracy_score(values, values) == 1.0


@st.composite
def coded(draw):
    """Return codes 0..c-1 of at least two classes, -1 for unlabelled, and c."""
    c = draw(st.integers(2, 6))
    codes = draw(st.lists(st.integers(-1, c - 1), max_size=30))
    return np.array(draw(st.permutations([*codes, *range(c)]))), c


@given(coded(), st.data())
def test_renaming_classes_changes_only_names(y, data):
    codes, c = y
    renamed = sorted(data.draw(st.lists(st.text(max_size=3), min_size=c, max_size=c, unique=True)))
    labels = read_labels(codes)
    other = read_labels([renamed[k] if k >= 0 else None for k in codes], unlabeled=None)
    assert other.classes.tolist() == renamed
    np.testing.assert_array_equal(other.values, labels.values)
    np.testing.assert_array_equal(other.labelled, labels.labelled)
    assert other.decode(other.values).tolist() == [renamed[k] for k in codes if k >= 0]


@given(coded())
def test_every_spelling_of_unlabelled_reads_alike(y):
    codes, c = y
    expected = read_labels(codes)
    assert expected.n_classes == c
    assert expected.n_labelled == (codes >= 0).sum()
    for gap in (None, NAN, pd.NA, np.float32("nan"), -1):
        cells = [int(k) if k >= 0 else gap for k in codes]
        same(read_labels(cells), expected)
        same(read_labels(pd.Series(cells, dtype="Int64")), expected)
        same(read_labels(np.array(cells, dtype=object)), expected)
    same(read_labels([int(k) if k >= 0 else "?" for k in codes], unlabeled="?"), expected)
    same(read_labels(np.where(codes < 0, 99, codes), unlabeled=99), expected)
    same(read_labels(np.ma.masked_less(codes, 0), unlabeled=None), expected)


@given(coded(), st.randoms(use_true_random=False))
def test_permuting_rows_permutes_labels(y, random):
    codes, _ = y
    order = np.array(random.sample(range(len(codes)), len(codes)))
    labels, moved = read_labels(codes), read_labels(codes[order])
    np.testing.assert_array_equal(moved.classes, labels.classes)
    np.testing.assert_array_equal(moved.labelled, labels.labelled[order])
    full = np.full(len(codes), -1)
    full[labels.index] = labels.values
    np.testing.assert_array_equal(moved.values, full[order][moved.index])


@given(coded())
def test_one_hot_as_multilabel_agrees_with_classes(y):
    codes, c = y
    Y = np.where((codes < 0)[:, None], NAN, codes[:, None] == np.arange(c))
    labels, matrix = read_labels(codes), read_labels(Y, allowed=ALL)
    np.testing.assert_array_equal(matrix.labelled, labels.labelled)
    np.testing.assert_array_equal(matrix.values, labels.indicator())
    np.testing.assert_array_equal(matrix.counts(), labels.counts())
    np.testing.assert_array_equal(labels.indicator().argmax(axis=1), labels.values)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.complex_numbers()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.dates()
    | st.datetimes()
    | st.timedeltas()
    | st.sampled_from(
        [pd.NA, pd.NaT, np.float32(1), np.datetime64("NaT"), np.bool_(True), np.int8(-1), object()]
    )
    | st.builds(np.zeros, st.integers(0, 3)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(max_size=1), inner)
    ),
    max_leaves=8,
)


@given(st.lists(anything, max_size=5), st.sampled_from(["auto", "classification", "regression"]))
def test_any_list_is_read_or_refused_in_one_line(y, task):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        refused = None
        try:
            labels = read_labels(y, task=task, allowed=ALL)
        except (ValueError, TypeError) as error:
            refused = str(error)
    if refused is None:
        assert labels.n_rows == len(y)
        assert len(labels.values) == len(labels.index) == labels.labelled.sum() > 0
    else:
        assert "\n" not in refused
        assert refused.endswith(".")


@pytest.mark.parametrize(
    ("make", "seconds"),
    [
        (lambda k: k, 1.0),
        (lambda k: k.astype(str), 4.0),
        (lambda k: k.astype(str).astype(object), 4.0),
        (lambda k: k.astype(str).tolist(), 4.0),
    ],
    ids=["int", "str", "object", "list"],
)
def test_a_million_labels(make, seconds):
    y = make(np.random.default_rng(0).integers(0, 20, 1_000_000))
    start = time.process_time()
    assert read_labels(y).n_classes == 20
    assert time.process_time() - start < seconds


def test_the_empty_text_is_said_to_be_a_class():
    with pytest.warns(UserWarning, match="y holds the empty text '', read as a class; pass unlabeled=''"):
        assert read_labels(np.array(["a", "", "b"], dtype=object)).classes.tolist() == ["", "a", "b"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_labels(np.array(["a", "", "b"]), unlabeled="").labelled.tolist() == [True, False, True]
        assert read_labels(np.array(["a", "", "b"]), unlabeled=None).n_classes == 3


@pytest.mark.parametrize("scoring", [None, "accuracy"])
@pytest.mark.parametrize("search", [False, True])
def test_plain_folds_over_rows_without_labels_are_warned_of(search, scoring):
    X, y = load_iris(return_X_y=True)
    y[np.arange(150) % 5 > 0] = -1
    model = make_pipeline(StandardScaler(), LDA())

    def scored(cv):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            if search:
                GridSearchCV(model, {"lda__n_components": [1, 2]}, cv=cv, scoring=scoring).fit(X, y)
            else:
                cross_val_score(model, X, y, cv=cv, scoring=scoring)
        return [one for one in seen if "SemiSupervisedKFold" in str(one.message)]

    said = scored(5)
    assert said
    assert "24 of the 30 rows that cross-validation holds out are unlabelled" in str(said[0].message)
    assert said[0].filename == __file__
    assert scored(SemiSupervisedKFold(5)) == []


@pytest.mark.parametrize("scale", [1e100, 1e-100])
def test_numbers_that_have_no_room_in_single_precision(scale):
    for y in (scale * np.array([0.5, 1.5, 2.5]), scale * np.ones((3, 2))):
        with pytest.raises(ValueError, match="multiply all of them by a constant"):
            read_labels(y, task="regression", allowed=["regression"])
