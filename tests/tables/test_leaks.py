"""Columns that tell which rows are labelled, and columns in which labelled rows differ from the others."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats

from labelfold import LDA, Recipe, load, save
from labelfold.tables._column import TELLS
from labelfold.tables._differences import Differences
from labelfold.tables._target import Target

N, LABELLED = 500, 40


def unlabelled_table(seed=0, n=N):
    """Return a table whose columns go with nothing, labels for some rows, and which rows these are."""
    rng = np.random.default_rng(seed)
    words = ["alpha", "beta", "gamma", "delta", "eps", "zeta", "eta", "theta", "iota", "kappa"]
    table = pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "size": rng.integers(0, 3, n),
            "rare": rng.random(n) < 0.003,
            "plan": rng.choice(["pro", "free", "team"], n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "note": [" ".join(rng.choice(words, 7)) for _ in range(n)],
            "pair": list(rng.normal(size=(n, 2))),
            "few": np.where(rng.random(n) < 0.99, 0.0, 1.0),
        }
    )
    for name in ("age", "plan", "since", "note", "pair"):
        table[name] = table[name].where(rng.random(n) > 0.1)
    y = np.full(n, None, dtype=object)
    some = rng.choice(n, LABELLED, replace=False)
    y[some] = rng.choice(["p", "q"], LABELLED)
    return rng, table, y, ~pd.isna(y)


def filled(kind, rng, y, here):
    """Return a column that is filled where rows are labelled, and goes with the labels."""
    n, truth = len(y), y == "p"
    value = truth * 2.0 + 0.2 * rng.normal(size=n)
    day = pd.Series(pd.Timestamp("2021-01-01") + pd.to_timedelta(100 * truth + rng.integers(0, 60, n), "D"))
    word = pd.Series(np.where(truth, rng.choice(["won", "paid"], n), rng.choice(["lost", "late"], n)))
    said = pd.Series([f"checked by Ann on call {rng.integers(90)} and found {w} at last" for w in word])
    made = {
        "number": lambda: np.where(here, value, np.nan),
        "category with gaps": lambda: word.where(here & (rng.random(n) < 0.8)),
        "0 elsewhere": lambda: np.where(here, 5 + value, 0),
        "-999 elsewhere": lambda: np.where(here, value, -999),
        "-999 or missing elsewhere": lambda: np.where(here, value, np.where(rng.random(n) < 0.4, -999, np.nan)),
        "n/a elsewhere": lambda: np.where(here, np.char.mod("%.2f", 5 + value), "n/a"),
        "a word elsewhere": lambda: word.where(here, "open"),
        "the median elsewhere": lambda: np.where(here, value, np.median(value[here])),
        "flag": lambda: here & truth,
        "one value": lambda: pd.Series("done", index=range(n)).where(here),
        "date": lambda: day.where(here),
        "written date": lambda: day.dt.strftime("%d.%m.%Y").where(here, "unknown"),
        "a day elsewhere": lambda: day.where(here, pd.Timestamp("1900-01-01")),
        "text": lambda: said.where(here),
        "text elsewhere too": lambda: said.where(here, "not checked yet by anyone at all"),
        "list": lambda: pd.Series(np.column_stack([value, rng.normal(size=n)]).tolist()).where(here),
        "list of zeros elsewhere": lambda: [[v, 1.0] if k else [0.0, 0.0] for v, k in zip(value, here, strict=True)],
        "written list": lambda: [f"[{v:.2f}, 1]" if k else "" for v, k in zip(value, here, strict=True)],
        "40% filled": lambda: np.where(here & (rng.random(n) < 0.4), value, np.nan),
        "a few others": lambda: np.where(here | (np.arange(n) == np.flatnonzero(~here)[5]), value, np.nan),
    }  # fmt: skip
    return made[kind]()


KINDS = [
    "number",
    "category with gaps",
    "0 elsewhere",
    "-999 elsewhere",
    "-999 or missing elsewhere",
    "n/a elsewhere",
    "a word elsewhere",
    "the median elsewhere",
    "flag",
    "one value",
    "date",
    "written date",
    "a day elsewhere",
    "text",
    "text elsewhere too",
    "list",
    "list of zeros elsewhere",
    "written list",
    "40% filled",
    "a few others",
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_filled_where_rows_are_labelled_is_left_out(kind):
    rng, table, y, here = unlabelled_table()
    table["opened"] = filled(kind, rng, y, here)
    recipe = Recipe().fit(table, y)
    told = {column["name"]: column for column in recipe.columns_}["opened"]
    assert told["role"] == "left out"
    assert TELLS in told["how"]
    assert told["how"].endswith("--keep opened (in Python: keep=['opened']) keeps it")
    assert recipe.used_ == [name for name in table if name != "opened"]
    assert recipe.differences_ == []
    assert recipe.lines(most=2)[0].startswith("opened: left out; it is ")
    kept = Recipe(keep=["open*"]).fit(table, y)
    assert "opened" in kept.used_
    assert [one["name"].split("[")[0] for one in kept.differences_] == ["opened"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("number", "it is filled in 40 of 40 labelled rows and in 0 of 460 others"),
        ("0 elsewhere", "it is not 0 in 40 of 40 labelled rows and in 0 of 460 others"),
        (
            "-999 or missing elsewhere",
            "it is neither missing nor -999 in 40 of 40 labelled rows and in 0 of 460 others",
        ),
        ("a word elsewhere", "it is not 'open' in 40 of 40 labelled rows and in 0 of 460 others"),
        ("a day elsewhere", "it is not 1900-01-01 in 40 of 40 labelled rows and in 0 of 460 others"),
        (
            "list of zeros elsewhere",
            "it is not the list of the others in 40 of 40 labelled rows and in 0 of 460 others",
        ),
        ("a few others", "it is filled in 40 of 40 labelled rows and in 1 of 460 others"),
    ],
)
def test_how_it_is_filled_is_told(kind, expected):
    rng, table, y, here = unlabelled_table()
    table["opened"] = filled(kind, rng, y, here)
    assert Recipe().fit(table, y).columns_[-1]["how"].partition(", so")[0] == expected


def test_a_given_role_is_no_reason_to_keep_a_leak():
    rng, table, y, here = unlabelled_table()
    table["opened"] = filled("number", rng, y, here)
    assert "opened" not in Recipe(number=["opened"]).fit(table, y).used_
    assert "opened" in Recipe(number=["opened"], keep="opened").fit(table, y).used_
    assert "opened" in Recipe().fit(table).used_  # nobody knows without labels
    assert (
        "opened" in Recipe().fit(table, np.where(np.arange(N) % 2, "p", "q")).used_
    )  # nor if all rows have one


def test_columns_are_kept_whatever_speaks_against_them():
    n = 60
    y = np.arange(n) % 2
    table = pd.DataFrame(
        {"row": np.arange(n), "same": 1, "answer": np.where(y, "a", "b"), "x": np.sin(np.arange(n))}
    )
    table["again"], table["name"] = table["x"], [f"n{i}" for i in range(n)]
    assert Recipe().fit(table, y).used_ == ["x"]
    recipe = Recipe(keep=["*"]).fit(table, y)
    roles = {column["name"]: column["role"] for column in recipe.columns_}
    assert roles == {"row": "number", "same": "number", "answer": "category", "x": "number", "again": "number",
        "name": "category"}  # fmt: skip
    with pytest.raises(
        ValueError, match="keep names the column 'y', which X does not have; it has 'row', 'same'"
    ):
        Recipe(keep=["y"]).fit(table)


def test_several_leaks_share_a_line():
    rng, table, y, here = unlabelled_table()
    for letter in "abcdefgh":
        table[f"answer {letter}"] = filled("number", rng, y, here)
    lines = Recipe().fit(table, y).lines()
    assert lines[0] == (
        "answer a, answer b, answer c, answer d, answer e and 3 more: left out; each is filled in labelled rows (the "
        "first filled in 40 of 40 labelled rows and in 0 of 460 others), so it may tell which rows were labelled, or "
        "their label; --keep (in Python: keep) keeps one"
    )
    assert not any(TELLS in line for line in lines[1:])
    lines = Recipe(drop=["answer [b-z]"]).fit(table, y).lines()
    assert lines[0].endswith("--keep 'answer a' (in Python: keep=['answer a']) keeps it")


def test_a_column_of_numbered_ones_is_left_out_but_a_pixel_stays():
    rng, _, y, here = unlabelled_table()
    values = rng.normal(size=(N, 16))
    values[~here, 5] = 0
    table = pd.DataFrame(values, columns=[f"v{j}" for j in range(16)])
    assert Recipe().fit(table, y).used_ == [f"v{j}" for j in range(16) if j != 5]
    table.columns = [f"pixel_{j // 4}_{j % 4}" for j in range(16)]
    recipe = Recipe().fit(table, y)
    assert recipe.used_ == list(table)
    assert [one["name"] for one in recipe.differences_] == ["pixel_1_1"]


@pytest.mark.parametrize("kind", ["several labels", "numbers"])
def test_labels_of_every_kind(kind):
    rng, table, y, here = unlabelled_table()
    table["opened"] = filled("number", rng, y, here)
    several = np.where(here[:, None], (rng.random((N, 3)) < 0.5) * 1.0, np.nan)
    labels = {"several labels": several, "numbers": np.where(here, rng.normal(size=N), np.nan)}[kind]
    assert "opened" not in Recipe().fit(table, labels).used_


def test_a_model_without_the_leak_comes_back_from_a_file(tmp_path):
    rng, table, y, here = unlabelled_table()
    table["opened"], table["mostly"] = (
        filled("number", rng, y, here),
        np.where(here | (rng.random(N) < 0.05), 1, 0),
    )
    recipe = Recipe(keep=["mostly"]).fit(table, y)
    back = load(save(recipe, tmp_path / "r.skops"))
    assert back.differences_ == recipe.differences_
    assert back.lines() == recipe.lines()
    assert [one["name"] for one in back.differences_] == ["mostly"]
    X = recipe.transform(table.drop(columns="opened"))
    assert abs(back.transform(table.drop(columns="opened")) - X).max() == 0


def differing(kind, rng, here):
    """Return a column in which labelled rows differ."""
    values, more = rng.normal(size=(N, 2)), rng.choice(["b", "c"], N)
    days = pd.to_timedelta(rng.integers(0, 90, N) + 90 * here, "D")
    words = [" ".join(rng.choice(list("uvwxyz"), 6)) for _ in range(N)]
    return {
        "97% missing": np.where(here | (rng.random(N) < 0.03), values[:, 0], np.nan),
        "noise about the median": np.where(here, values[:, 0], 0.1 * values[:, 1]),
        "a shift": values[:, 0] + 3 * here,
        "fewer digits": np.where(here, rng.integers(0, 90, N), 90 * rng.random(N)),
        "two sentinels": np.where(here, values[:, 0], rng.choice([-999, -1], N)),
        "a category": np.where(here, rng.choice(["a", "b"], N), more),
        "a word": [f"call {some} {'checked' if k else ''}" for some, k in zip(words, here, strict=True)],
        "recent days": pd.Timestamp("2020-01-01") + days,
        "an item of a list": (values + 3 * here[:, None] * [0, 1]).tolist(),
    }[kind]


EVENTS = {
    "97% missing": "is missing",
    "noise about the median": "is not between ",
    "a shift": "is above ",
    "fewer digits": "is a whole number",
    "two sentinels": "is ",
    "a category": "is 'a'",
    "a word": "has the word 'checked'",
    "recent days": "is after 2020-0",
    "an item of a list": "is above ",
}


@pytest.mark.parametrize("kind", EVENTS)
def test_a_column_in_which_labelled_rows_differ_is_named(kind):
    rng, table, y, here = unlabelled_table()
    table["other"] = differing(kind, rng, here)
    recipe = Recipe().fit(table, y)
    assert "other" in recipe.used_
    (one,) = recipe.differences_
    assert one["name"] == ("other[1]" if kind == "an item of a list" else "other")
    assert one["what"].startswith(EVENTS[kind])
    (said,) = Differences.sentences(recipe.differences_, len(recipe.used_))
    assert said.startswith(
        f"Labelled rows differ from the others in 1 of {len(table.columns)} columns: 'other"
    )


def test_shares_are_those_of_the_rows():
    here = np.arange(400) < 100
    values = np.where(np.arange(400) % 4 == 0, np.nan, 1.0 * (np.arange(400) < 200) + 1)
    found = Differences(here, 1)
    found.add_matrix(values[:, None], str)
    (one,) = found.result(1)
    assert one["what"] == "is above 1"
    assert (one["labelled"], one["others"]) == (0.75, 0.25)  # a quarter of each is missing
    said = Differences.sentences([one] * 5, 9)[0]
    assert said.startswith(
        "Labelled rows differ from the others in 5 of 9 columns, most in these: '0' is above 1 in 75%"
    )
    assert said.endswith(
        "of the others, '0' is above 1 in 75% and 25%, and '0' is above 1 in 75% and 25%; the estimate is for "
        "rows like the labelled ones."
    )


@pytest.mark.parametrize("times", [21, 24, 27, 30])
def test_the_test_is_fishers(times):
    """With half of the rows labelled both tails are alike, and twice one of them is Fisher's p."""
    event = np.zeros(400)
    event[:times], event[200 : 230 - times] = 1, 1
    found = Differences(np.arange(400) < 200, 1)
    found.add_sparse(sp.csr_array(event[:, None]), str)
    expected = stats.fisher_exact([[times, 200 - times], [30 - times, 170 + times]]).pvalue
    assert [one["p"] for one in found._found] == ([] if expected > 0.01 else [pytest.approx(expected)])


def test_honest_tables_keep_their_columns_and_differ_in_nothing():
    """The levels are 0.001 and 0.01, so that one of 60 tables is no surprise, and three are."""
    named = 0
    for seed in range(60):
        _, table, y, _ = unlabelled_table(seed, 300)
        recipe = Recipe().fit(table, y)
        assert not [column for column in recipe.columns_ if TELLS in column["how"]]
        named += bool(recipe.differences_)
    assert named <= 2


@pytest.mark.parametrize("kind", ["rare counts", "counts", "numbers"])
def test_honest_arrays_keep_their_columns_and_differ_in_nothing(kind):
    named = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        if kind == "rare counts":
            X = (rng.random((N, 5000)) < 0.01) * 1.0
        else:
            X = rng.poisson(0.3, (N, 500)) if kind == "counts" else rng.normal(size=(N, 50))
        y = np.full(N, -1)
        y[rng.choice(N, LABELLED, replace=False)] = rng.integers(0, 2, LABELLED)
        assert Target(y, N).filled_columns(X) == []
        for sparse in (False, True):
            found = Differences(y >= 0, X.shape[1])
            found.add_sparse(sp.csr_array(X), str) if sparse else found.add_matrix(X, str)
            named += bool(found.result(X.shape[1]))
    assert named <= 2


def test_a_sparse_matrix_is_compared_as_a_dense_one_is():
    rng = np.random.default_rng(0)
    here = np.arange(N) < LABELLED
    X = sp.random_array((N, 300), density=0.01, rng=rng).toarray()
    X[:, 7] = np.where(here, 2.0, X[:, 7])
    X[:, 9] = np.where(here, rng.normal(size=N), -999)
    found = Differences(here, 300)
    found.add_sparse(sp.csr_array(X), "c{}".format)
    assert sorted((one["name"], one["what"]) for one in found.result(300)) == [
        ("c7", "is not 0"),
        ("c9", "is above -999"),
    ]


def test_columns_of_an_array_that_tell_are_those_that_tell_one_by_one():
    rng = np.random.default_rng(1)
    y = np.full(N, -1)
    y[rng.choice(N, LABELLED, replace=False)] = rng.integers(0, 2, LABELLED)
    target, here = Target(y, N), y >= 0
    X = (rng.random((N, 40)) < np.linspace(0, 0.008, 40)) * 1.0
    for j, share in enumerate(np.linspace(0, 0.5, 20)):
        X[:, 2 * j] = np.where(here & (rng.random(N) < share), 1.0, X[:, 2 * j])
    one_by_one = [j for j in range(40) if target.filled(X[:, j], 40) is not None]
    assert target.filled_columns(X) == one_by_one
    assert 3 < len(one_by_one) < 20


def test_a_pipeline_without_the_leak_predicts_new_rows():
    rng, table, y, here = unlabelled_table()
    table["opened"] = filled("number", rng, y, here)
    X = Recipe().fit_transform(table, y)
    assert Recipe().fit(table, y).transform(table.drop(columns="opened")).shape == X.shape
    LDA().fit(X, y)


def test_marks_of_a_rare_class_stay():
    """Labels were looked for in a class of one row in a hundred, of which half has each mark."""
    rng = np.random.default_rng(0)
    fraud = rng.random(6000) < 0.01
    here = np.zeros(6000, dtype=bool)
    here[rng.choice(np.flatnonzero(fraud), 40, replace=False)] = True
    here[rng.choice(np.flatnonzero(~fraud), 40, replace=False)] = True
    marks = {f"mark {c}": (rng.random(6000) < np.where(fraud, 0.5, 0.002)).astype(int) for c in "abcdef"}
    table = pd.DataFrame({"amount": rng.normal(size=6000), **marks})
    recipe = Recipe().fit(table, np.where(here, fraud.astype(int), -1))
    assert set(recipe.used_) == set(table)
    assert {one["name"] for one in recipe.differences_} == set(marks)
    # filled in both classes it is no mark of one of them
    table["seen"] = np.where(here & (rng.random(6000) < 0.4) | (rng.random(6000) < 0.004), 1, 0)
    assert "seen" not in Recipe().fit(table, np.where(here, fraud.astype(int), -1)).used_
