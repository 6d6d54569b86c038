"""What as_rows and a pass refuse, and the sentence they refuse it with."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from containers import params
from labelfold import LDA
from labelfold.rows import Weighted, _threads as threads, as_rows
from labelfold.rows.adapters._local import all_finite

X = np.arange(40.0).reshape(10, 4) + 1


def refused(call, *said: str, error=ValueError) -> str:
    """Assert that a call is refused with one sentence that says these things, without a warning beside it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error) as caught:
            call()
    assert type(caught.value) is error
    message = str(caught.value)
    assert "\n" not in message
    assert not re.search(r"\. [A-Z]", message), f"more than one sentence: {message}"
    for words in said:
        assert words in message, f"{words!r} is not in: {message}"
    return message


def column_sums(X):
    return X.colsum()


@pytest.mark.parametrize("kind", [np.matrix, np.ma.masked_array])
def test_finite_values_of_other_kinds_of_arrays(kind):
    assert all_finite(kind(X))
    wrong = X.copy()
    wrong[7, 2] = np.nan
    assert not all_finite(kind(wrong))


def test_the_check_for_nan_starts_no_threads_of_blas(monkeypatch):
    used = []

    @contextmanager
    def single():
        used.append(True)
        yield

    monkeypatch.setattr(threads, "single_blas", single)
    assert all_finite(X)
    assert used


@pytest.mark.parametrize("container", params("memory", "blocks", "device"))
@pytest.mark.parametrize(("ndim", "said"), [(1, "1 dimension,"), (3, "3 dimensions,")])
def test_other_than_two_dimensions(container, ndim, said, tmp_path):
    other = {1: X[:, 0], 3: X[:, :, None]}[ndim]
    if container.name.startswith(("csr", "csc", "sparse", "mixed", "pandas", "numpy-strided", "npy")):
        pytest.skip("cannot be made with so many dimensions")
    given = container.within(tmp_path).make(other)
    if isinstance(given, list):
        pytest.skip("a list of arrays of other dimensions is nested lists of numbers")
    refused(lambda: as_rows(given), said, "two are expected: rows and columns", "reshape")


def test_other_than_two_dimensions_in_files_lists_and_dask(tmp_path):
    da = pytest.importorskip("dask.array")
    np.save(tmp_path / "one.npy", X[:, 0])
    one = X[:, 0]
    for given in (tmp_path / "one.npy", one.tolist(), da.from_array(one), sparse.coo_array(one), 7.0, []):
        refused(lambda given=given: as_rows(given), "two are expected: rows and columns", "reshape")


def test_blocks_of_other_than_two_dimensions():
    refused(lambda: as_rows(lambda: iter([X, X[0]])), "1 dimension,", "two are expected", "reshape")
    refused(lambda: as_rows([X, X[0]]), "rows of unequal length", "two dimensions", "give every row")


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (np.array([["a", "b"]]), "<U1"),
        (np.array([[1, None]], dtype=object), "object"),
        (X * 1j, "complex128"),
        (sparse.csr_array(X * 1j), "complex128"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "datetime64[D]"),
        ([["a", 1]], "<U"),
        ([X, X * 1j], "complex128"),
        (lambda: iter([np.array([["a"]])]), "<U1"),
    ],
    ids=["strings", "objects", "complex", "sparse-complex", "dates", "lists", "blocks", "function"],
)
def test_other_than_real_numbers(given, dtype):
    refused(lambda: as_rows(given), f"X holds {dtype}", "where real numbers are expected", "convert or drop")


def test_other_than_real_numbers_elsewhere(tmp_path):
    xp, da = pytest.importorskip("array_api_strict"), pytest.importorskip("dask.array")
    np.save(tmp_path / "strings.npy", X.astype(str))
    np.save(tmp_path / "complex.npy", X * 1j)
    np.save(tmp_path / "objects.npy", X.astype(object))
    complex_arrays = (xp.asarray(X * 1j), da.from_array(X * 1j))
    for given in (tmp_path / "strings.npy", tmp_path / "complex.npy", *complex_arrays):
        refused(lambda given=given: as_rows(given), "X holds", "where real numbers", "convert or drop")
    refused(lambda: as_rows(tmp_path / "objects.npy"), "objects.npy cannot be read", "numpy.save")


BAD = [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]


@pytest.mark.parametrize(("value", "name"), BAD, ids=["nan", "inf", "minus-inf"])
def test_values_that_are_not_finite(container, value, name, rng, many_blocks):
    """The row is counted over all blocks, files and chunks, not within one."""
    bad = rng.standard_normal((60, 4))
    bad[37, 2] = value
    where = f"X contains {name} at row 37, column 2 (counted from 0)"
    given = container.make(bad)
    refused(lambda: as_rows(given).sum(column_sums), where, "finite numbers are expected", "impute or drop")


@pytest.mark.parametrize("container", params("memory", "file", "blocks", "device"))
def test_the_first_of_several_bad_values_is_named(container, tmp_path, rng, many_blocks):
    """Not so for Dask, which reports the first task that fails."""
    container = container.within(tmp_path)
    bad = rng.standard_normal((60, 4))
    bad[37:, 2] = np.nan
    bad[20, 3], bad[50, 1] = np.inf, -np.inf
    refused(lambda: as_rows(container.make(bad)).sum(column_sums), "infinity at row 20, column 3")


def test_values_that_are_not_finite_among_taken_rows(container, rng, many_blocks):
    """Also where only some rows are read: the row is named as the user counts it."""
    bad = rng.standard_normal((60, 4))
    bad[37, 2] = np.nan
    given = container.make(bad)
    refused(lambda: as_rows(given).take(np.array([50, 37, 2])), "NaN at row 37, column 2")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2.0], ids=["nan", "inf", "minus-inf", "finite"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("share", [0.0, 0.9], ids=["small", "large"])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_values_of_every_dtype_and_order_are_checked(value, dtype, share, order):
    """Large ones have no finite sum, and no finite sum of squares."""
    some = np.full((40, 8), 1 + share * np.finfo(dtype).max, dtype=dtype)
    some = some[::2, ::2] if order == "strided" else np.asarray(some, order=order)
    some[7, 2] = value
    assert all_finite(some) == (value == 2)


def test_large_finite_values_are_no_infinity(container):
    large = np.full((6, 3), 1e308)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_rows(container.make(large)).shape == (6, 3)


def test_iterators_are_read_only_once():
    for given in (iter([X, X]), (block for block in [X, X]), map(np.asarray, [X, X])):
        refused(
            lambda given=given: as_rows(given),
            "X is an iterator, which can be read only once",
            "several passes",
            "give a list of blocks, or a function",
        )


def test_blocks_of_different_widths():
    refused(lambda: as_rows([X, X[:, :3]]), "the blocks have [3, 4] columns", "as many", "the same columns")


@pytest.mark.parametrize("given", [lambda: iter([]), [X[:0]], [X[:0], X[:0]]], ids=["none", "one", "two"])
def test_no_rows_in_the_blocks(given):
    refused(lambda: as_rows(given), "hold no rows", "at least one row is expected")


@pytest.mark.parametrize("container", params("memory", "file", "device"))
def test_no_rows(container, tmp_path):
    if container.name in ("memmap-offset", "memmap-slice"):
        pytest.skip("a map of nothing cannot be made")
    given = container.within(tmp_path).make(X[:0])
    refused(lambda: as_rows(given), "holds no rows", "at least one row is expected", "give it some")


def test_no_rows_in_a_dask_array():
    da = pytest.importorskip("dask.array")
    refused(lambda: as_rows(da.from_array(X[:0])), "holds no rows", "at least one row is expected")


class Changing:
    """Blocks that are others from the second pass on."""

    def __init__(self, first: list, later: list) -> None:
        self.passes, self.first, self.later = 0, first, later

    def __call__(self):
        self.passes += 1
        return iter(self.first if self.passes == 1 else self.later)


@pytest.mark.parametrize(
    ("later", "said"),
    [
        ([X], "gave 10 rows, where the first gave 20"),
        ([X, X, X], "gave more rows, where the first gave 20"),
        ([], "gave 0 rows, where the first gave 20"),
        ([X, X[:, :3]], "gave 3 columns, where the first gave 4"),
    ],
    ids=["fewer", "more", "none", "narrower"],
)
def test_blocks_that_change_between_passes(later, said):
    rows = as_rows(Changing([X, X], later))
    refused(lambda: rows.sum(column_sums), said, "the blocks must be the same in every pass")


def test_a_function_that_returns_a_used_up_iterator():
    blocks = iter([X, X])
    rows = as_rows(lambda: blocks)
    refused(lambda: rows.sum(column_sums), "gave 0 rows", "the same in every pass")


def test_a_path_that_is_missing(tmp_path):
    path = tmp_path / "missing.npy"
    for given in (path, str(path)):
        refused(
            lambda given=given: as_rows(given), str(path), "does not exist", ".npy", error=FileNotFoundError
        )


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\x93NUMPY\x01\x00"], ids=["empty", "csv", "cut"])
def test_a_file_that_is_not_npy(content, tmp_path):
    path = tmp_path / "table.npy"
    path.write_bytes(content)
    refused(lambda: as_rows(path), str(path), "cannot be read as a .npy file", "numpy.save")


def test_a_folder(tmp_path):
    refused(lambda: as_rows(tmp_path), str(tmp_path), "cannot be read as a .npy file", "numpy.save")


def test_a_file_cut_short(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, X)
    whole = path.read_bytes()
    path.write_bytes(whole[:-50])
    refused(lambda: as_rows(path), str(path), "cannot be read as a .npy file", "numpy.save")


def test_a_file_cut_short_between_passes(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, X)
    given, rows = as_rows(path), as_rows(np.load(path, mmap_mode="r"))
    for read in (given, rows):
        read.sum(column_sums)
    path.write_bytes(path.read_bytes()[:-50])  # a row is 32 bytes
    refused(lambda: given.sum(column_sums), f"{path} has changed since it was first read", "fit again")
    refused(
        lambda: rows.sum(column_sums), f"{path} ends at row 8", "10 rows are expected", "write the file again"
    )


def test_aligned_arrays_of_a_wrong_length(container):
    rows = as_rows(container.make(X))
    said = ("an aligned array has 9 entries for 10 rows", "must have one for each row")
    refused(lambda: rows.t(np.ones(9)), *said)
    refused(lambda: rows.t(np.ones((9, 2))), *said)
    refused(lambda: Weighted(rows, np.ones(9)).sum(column_sums), *said)


def drops_a_row(X):
    return X.sq()[1:]


def test_row_functions_that_return_too_few_rows(container):
    rows = as_rows(container.make(X))
    refused(lambda: rows.map(drops_a_row), "a row function returned", "for a block of", "one for each row")


@pytest.mark.parametrize(
    ("column", "said", "error"),
    [
        (["1.5", "2", "red"], "Column 'colour' holds 'red' in row 2, where LDA expects numbers;", ValueError),
        (pd.Categorical(["a", "b", "a"]), "Column 'colour' holds 'a' in row 0,", ValueError),
        (
            pd.to_datetime(["2024-05-06"] * 3),
            "Column 'colour' holds dates or times, such as 2024-05-06T",
            TypeError,
        ),
        ([1, {"a": 2}, 3], "Column 'colour' holds {'a': 2} of type dict in row 1,", TypeError),
    ],
)
def test_a_column_that_holds_no_numbers_is_named_with_row_and_remedy(column, said, error):
    frame = pd.DataFrame({"size": [1.0, 2.0, 3.0], "colour": column})
    refused(lambda: LDA().fit(frame, [0, 1, 0]), said, "labelfold.Recipe()", "drop the column", error=error)


def test_an_array_of_objects_that_holds_text():
    array = np.array([[1, 2], [3, "four"]], dtype=object)
    refused(lambda: LDA().fit(array, [0, 1]), "Column 1 holds 'four' in row 1, where LDA expects numbers")


def test_a_name_of_a_column_twice_and_rows_of_different_lengths():
    frame = pd.DataFrame(np.eye(3), columns=["a", "b", "a"])
    refused(
        lambda: LDA().fit(frame, [0, 1, 0]), "X has more than one column named 'a'; give each column a name"
    )
    refused(
        lambda: LDA().fit([[1.0], [1.0, 2.0]], [0, 1]), "X holds rows of different lengths", "fill the gaps"
    )
