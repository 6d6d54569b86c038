"""Warnings where the mark of unlabelled rows, -1, may be a class."""

import warnings

import numpy as np
import pandas as pd
import pytest

import labelfold
from labelfold import LDA, compare
from labelfold.app.commands import main
from labelfold.labels import marks_known, read_labels

LEAVES_OUT = ["CCA", "HSL", "LDA", "OPLS"]  # they learn from labelled rows only


def rows(n=60):
    return np.random.default_rng(0).random((n, 4))


def told(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if issubclass(one.category, UserWarning)]


@pytest.mark.parametrize("name", LEAVES_OUT)
def test_a_class_is_not_left_out_in_silence(name):
    y = np.arange(60) % 3 - 1
    model = getattr(labelfold, name)(1)
    (message,) = told(lambda: model.fit(rows(), y))
    assert message == (
        f"{name} leaves out the 20 rows of y that are -1 as unlabelled, although -1 is no more frequent than 0 (20 "
        "rows); pass unlabeled=None if -1 is a class, or mark those rows by NaN if they are unlabelled."
    )
    assert told(lambda: model.set_params(unlabeled=None).fit(rows(), y)) == []
    assert model.classes_.tolist() == [-1, 0, 1]
    model.set_params(unlabeled=-1)
    assert told(lambda: model.fit(rows(), np.where(y < 0, np.nan, y))) == []
    assert model.classes_.tolist() == [0, 1]


def test_which_estimators_leave_unlabelled_rows_out():
    """The class attribute is right: only where it says so, unlabelled rows change nothing."""
    X = rows()
    y = np.where(np.arange(60) % 2, np.arange(60) // 2 % 3, np.nan)
    y[y > 1] = 0
    known = ~np.isnan(y)
    found = []
    for name in labelfold._ESTIMATORS:
        kind = getattr(labelfold, name)
        if name == "Recipe":
            continue
        options = {"n_components": 1} if "n_components" in kind._get_param_names() else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            both = [kind(**options).fit(X, y), kind(**options).fit(X[known], y[known])]
        done = "decision_function" if hasattr(both[0], "decision_function") else "transform"
        a, b = (getattr(model, done)(X) for model in both)
        same = a.shape == b.shape and np.allclose(a, b, rtol=1e-6, equal_nan=True)
        assert same != kind._uses_unlabelled, name
        found += [name] * same
    assert found == LEAVES_OUT


@pytest.mark.parametrize(
    "y",
    [
        [-1] * 31 + [0] * 30 + [1] * 9,  # more frequent than every class
        [0] * 30 + [1] * 30,  # no mark
        [None] * 10 + [0] * 30 + [1] * 30,
        [-1] * 5 + ["a"] * 30 + ["b"] * 30,  # a number among texts is no class
    ],
)
def test_what_is_in_no_doubt(y):
    assert told(lambda: LDA().fit(rows(len(y)), y)) == []


def test_the_mark_is_compared_with_the_most_frequent_class():
    for n_marked, doubts in ((30, 1), (31, 0)):
        y = [-1] * n_marked + [0] * 30 + [1] * 3
        assert len(told(lambda y=y: LDA().fit(rows(len(y)), y))) == doubts
    y = [9] * 30 + [0] * 30 + [1] * 30
    (message,) = told(lambda: LDA(unlabeled=9).fit(rows(90), y))
    assert "rows of y that are 9 as unlabelled" in message


def test_two_classes_are_told_with_what_to_do():
    y = [1] * 4 + [-1] * 6
    (message,) = told(lambda: read_labels(y))
    assert message == (
        "The only values of y are -1 and +1, which are read as two classes (6 and 4 rows); if -1 means unlabelled, "
        "mark those rows by NaN, or give the class another value than 1; pass unlabeled=None to silence this warning."
    )
    with pytest.raises(ValueError, match=r"y has one class only, 1\.0, in its 4 labelled rows"):
        read_labels(np.where(np.array(y) < 0, np.nan, y))
    with marks_known():
        assert told(lambda: read_labels(y)) == []


def test_compare_is_in_no_doubt(tmp_path, capsys):
    X, y = rows(), np.arange(60) % 3 - 1
    found = compare(X, y, ["lda", "svm"], repeats=1, progress=False)
    assert found.results["note"].isna().all()
    assert told(lambda: found.refit("lda")) == []
    pd.DataFrame(X).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    assert main(["fit", f"{tmp_path}/t.csv", "-t", "y", "-m", "lda", "-o", f"{tmp_path}/m.skops"]) == 0
    said = capsys.readouterr().err
    assert said.count("labelled -1 are taken as unlabelled; if it is a class, give it another name") == 1
    assert "leaves out" not in said
    pd.DataFrame(X).assign(y=np.where(y > 0, 1, -1)).to_csv(tmp_path / "t.csv", index=False)
    assert main(["fit", f"{tmp_path}/t.csv", "-t", "y", "-m", "lda", "-o", f"{tmp_path}/m.skops"]) == 0
    said = capsys.readouterr().err
    assert (
        said.count("read as two classes (40 and 20 rows); if -1 means unlabelled, give --label-free -1, or")
        == 1
    )
