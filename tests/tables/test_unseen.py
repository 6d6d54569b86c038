"""Values that a recipe has not seen: which spellings are one value, and what is counted in new rows."""

import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import labelfold.tables._arrow as blocks
import labelfold.tables._roles as roles
from labelfold import Recipe, UnseenValuesWarning, load, save
from labelfold.tables._numbers import booleans, merged, respelled
from labelfold.tables._unseen import Unseen

N = 120
Z = np.random.default_rng(0).normal(size=N)


def fitted(**columns):
    """Return a recipe of some columns beside a number."""
    return Recipe().fit(pd.DataFrame({**columns, "z": Z}))


def found(recipe, **columns):
    """Return the records of new rows by column."""
    m = len(next(iter(columns.values())))
    return {one.name: one for one in recipe.unseen(pd.DataFrame({**columns, "z": Z[:m]}))[::-1]}


def values(recipe):
    return recipe.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    ("cells", "same"),
    [
        (["True", "False"], True),
        (["y", "N"], True),
        (["1.0", "0"], True),
        (["T", "F", "yes", "No"], True),
        (["true", "false", "Y"], True),
        (["TRUE", "yes"], True),  # one value and missing cells: what a checkbox gives
        (["Y"], False),
        (["1"], False),
        (["M", "F"], False),
        (["T", "N"], False),
        (["T", "F", "N"], False),
        (["yes", "no", "maybe"], False),
        (["true", "no"], False),
        (["0", "1", "2"], False),
        ([], False),
    ],
)
def test_what_is_a_boolean(cells, same):
    assert (booleans(cells) is not None) == same


def test_what_is_merged_is_seen_as_a_boolean_again():
    for cells, counts in (
        (["true", "yes", "no", "0"], [9, 1, 1, 20]),
        (["Y", "N", "yes", "No", "T"], [5, 5, 2, 2, 9]),
        (["YES", "yes", "no"], [1, 2, 3]),
    ):
        kept = set(merged(cells, counts))
        assert len(kept) == 2
        assert kept <= set(cells)
        assert respelled(["1", "f", "TRUE"], sorted(kept)) != ["1", "f", "TRUE"]
        assert set(respelled(cells, sorted(kept))) == kept


def test_several_spellings_of_a_flag_are_one_column_each():
    flag = np.random.default_rng(0).random(N) < 0.5
    mixed = [
        {True: ["True", "true", "yes", "Y"], False: ["False", "no", "N", "0"]}[f][i % 4]
        for i, f in enumerate(flag)
    ]
    recipe = fitted(a=mixed, b=flag)
    assert [(c["role"], c["how"]) for c in recipe.columns_[:2]] == [
        ("category", "2 values, one column each"),
        ("left out", "it repeats 'a'"),
    ]
    one = fitted(a=flag)
    other = flag[::-1]
    np.testing.assert_array_equal(
        recipe.transform(pd.DataFrame({"a": other.astype(int), "z": Z})),
        one.transform(pd.DataFrame({"a": np.where(other, "t", "F"), "z": Z})),
    )
    always = fitted(a=["True", "true", "yes"] * 40)
    assert always.columns_[0]["how"] == "it holds one value"


def test_a_number_that_is_always_0_or_1_is_a_flag():
    ones = np.random.default_rng(0).integers(0, 2, N)
    strayed = np.where(np.arange(N) % 20 == 3, np.where(ones, "yes", "no"), ones.astype(str))
    for cells in (ones, ones.astype(float), ones.astype(str), strayed):
        recipe = fitted(a=cells)
        assert recipe.columns_[0]["role"] == "number"
        assert recipe.columns_[0]["missing"] == 0
        expected = recipe.transform(pd.DataFrame({"a": ones, "z": Z}))
        for words in (["no", "yes"], ["False", "TRUE"], ["f", "t"], [False, True]):
            new = pd.DataFrame({"a": [words[v] for v in ones], "z": Z})
            assert recipe.unseen(new) == []
            np.testing.assert_array_equal(recipe.transform(new), expected)
    assert found(fitted(a=np.arange(N) % 3), a=["yes", "2"])["a"].odd == 1


def test_numbers_and_accents_of_categories():
    hashed = [f"{v}" for v in np.random.default_rng(0).integers(0, 200, 3000)]
    recipe = Recipe(category=["k"]).fit(
        pd.DataFrame({"k": hashed, "z": np.random.default_rng(1).random(3000)})
    )
    assert recipe.columns_[0]["how"].startswith("200 values, hashed")
    new = pa.table({"k": [float(v) for v in hashed[:9]], "z": Z[:9]})
    text = pa.table({"k": [f"{v}.0" for v in hashed[:9]], "z": Z[:9]})
    expected = recipe.transform(pa.table({"k": hashed[:9], "z": Z[:9]}))
    for rows in (new, text):
        assert recipe.unseen(rows) == []
        np.testing.assert_array_equal(recipe.transform(rows), expected)
    record = recipe.unseen(pa.table({"k": ["199", "x", "x", "y", None, "n/a"], "z": Z[:6]}))[0]
    assert record.sentence == "3 of 4 cells of 'k' hold a value the model never saw: 'x', 'y'"
    assert record.most
    assert values(fitted(k=["Zürich", "Zürich", "Oslo"] * 40))[-2:] == ["k=Oslo", "k=Zürich"]


@pytest.mark.parametrize(
    ("learned", "new", "words", "most"),
    [
        (["a", "b", "c"] * 40, ["a"] * 9 + ["d"], "1 of 10 cells of 'x' hold a value the model never saw: 'd'", 0),
        (["a", "b", "c"] * 40, ["A", "B", "B", "b", None], "3 of 4 cells of 'x' hold a value", True),
        (["a", "b", "c"] * 40, [{"a": 1}] * 3, "3 of 3 cells of 'x' hold a value the model never saw", 1),
        ([f"k{i}" for i in range(80)] + ["a"] * 40, ["n", "a"], "1 of 2 cells of 'x'", False),
        ([f"k{i}" for i in range(80)] + ["a"] * 40, ["n"] * 9, "9 of 9 cells of 'x'", False),
        ([f"k{i}" for i in range(20)] + ["a"] * 100, ["n"] * 9, "9 of 9 cells of 'x'", True),
        (np.arange(N) * 3.5, ["1,5", "7", "8", "9"], "1 of 4 cells of 'x' are written with a decimal comma", False),
        (np.arange(N) * 3.5, ["1,5", "1,234", "8", "9"], "2 of 4 cells of 'x' are written with a decimal comma", 1),
        (np.arange(N) * 3.5, ["0,125", "1,234"], "2 of 2 cells of 'x' are written with a decimal comma", True),
        ([f"{3 * v},5" for v in range(N)], ["1.5", "2.5"], "2 of 2 cells of 'x' are written with a decimal point", 1),
        (np.arange(N) * 3.5, ["1,234"] * 20 + ["1,23"], "1 of 21 cells of 'x' hold no number as the model", False),
        (np.arange(N) * 3.5, [pd.Timestamp("2020-01-01")] * 3, "3 of 3 cells of 'x' hold no number", True),
        (np.arange(N) * 3.5, [{"a": 1}] * 3, "3 of 3 cells of 'x' hold no number", True),
        (np.arange(N) * 3.5, [[1.0, 2.0]] * 3, "3 of 3 cells of 'x' hold no number", True),
        ([[1.0, v] for v in range(N)], [[1.0, 2.0, 3.0]] * 2, "2 of 2 cells of 'x' are no lists of 2 numbers", True),
        (pd.date_range("2019", periods=N), [1.5, 2.5], "2 of 2 cells of 'x' hold no date", True),
        ([*map(str, np.arange(110) * 3)] + ["on request"] * 10, ["on request"], "1 of 1 cells of 'x'", False),
        ([*map(str, np.arange(110) * 3)] + ["on request"] * 10, ["on request"] * 4, "4 of 4 cells of 'x'", True),
    ],
)  # fmt: skip
def test_what_is_counted(learned, new, words, most):
    record = found(fitted(x=learned), x=new)["x"]
    assert record.sentence.startswith(words)
    assert record.most == most


def test_what_is_missing_or_known_is_not_counted():
    recipe = fitted(n=np.arange(N) * 3.5, c=["a", "b"] * 60, d=pd.date_range("2019", periods=N))
    for word in ("", "n/a", "?", "NULL", None, np.nan):
        assert found(recipe, n=[word] * 3, c=[word] * 3, d=[word] * 3) == {}
    assert (
        found(recipe, n=["1,234", " 7 ", "1e3"], c=[" a", "b", "b "], d=["2019-01-01", "2 May 2020", None])
        == {}
    )


def test_text_of_unknown_words():
    rng = np.random.default_rng(0)
    words = [
        "the",
        "a",
        "of",
        "and",
        "you",
        "with",
        "this",
        "from",
        "late",
        "early",
        "good",
        "bad",
        "slow",
        "fast",
    ]
    recipe = fitted(t=[" ".join(rng.choice(words, 7)) for _ in range(N)])
    assert found(recipe, t=["the quick brown fox", "über allen gipfeln ist ruh", "a cat"]) == {}
    record = found(recipe, t=["über allen gipfeln", "ist ruh", "the end", None, "n/a"])["t"]
    assert record.sentence == (
        "2 of 3 cells of 't' hold no word that the model knows: 'über allen gipfeln', 'ist ruh'"
    )
    assert record.most
    # where texts of new words are usual, they are no reason to refuse
    rare = Recipe(text=["t"]).fit(
        pd.DataFrame({"t": [f"w{i} v{i}" for i in range(N - 1)] + ["w0 v0"], "z": Z})
    )
    record = found(rare, t=["something else", "w0"])
    assert record == {}
    assert not found(rare, t=["something else"] * 9)["t"].most


def test_the_sentence_is_short():
    one = Unseen("member", "category", 12, 40, "hold a value the model never saw")
    one.counts.update({"0": 5, "1": 7})
    assert one.sentence == "12 of 40 cells of 'member' hold a value the model never saw: '1', '0'"
    one.counts.update({f"{i} {'long' * 20}": 1 for i in range(9)})
    assert one.sentence.endswith(
        "'1', '0', '0 longlonglonglonglonglonglong...', '1 longlonglonglonglonglonglong...'"
    )


def test_python_is_warned_once_a_call_and_not_in_fit(tmp_path, monkeypatch):
    table = pd.DataFrame({"c": ["a", "b"] * 60, "n": np.arange(N) * 3.5, "z": Z})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recipe = Recipe().fit(table)
        recipe.transform(table)
    new = table.assign(c="A", n="x")
    saved = load(save(recipe, tmp_path / "r.skops"))
    for size in (10**6, 7):  # many blocks, in several threads
        monkeypatch.setattr(blocks, "BLOCK", size)
        for one in (recipe, saved):
            with pytest.warns(UnseenValuesWarning) as seen:
                one.transform(new)
            assert [str(w.message) for w in seen] == [
                "120 of 120 cells of 'n' hold no number as the model reads it: 'x' (it learned numbers); "
                "120 of 120 cells of 'c' hold a value the model never saw: 'A' (it learned 'a' and 'b'); such cells "
                "tell nothing about their rows. Write them as in the table of fit."
            ]
            assert seen[0].filename == __file__
            assert [record.odd for record in one.unseen(new)] == [N, N]


def prices(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"price": rng.gamma(4, 5, n).round(2), "amount": rng.integers(1, 2000, n), "city": "ab" * 1}
    )


def learned_prices():
    table = prices().assign(city=np.where(np.arange(200) % 3, "Oslo", "Bergen")).astype(str)
    return Recipe().fit(table)


def test_marks_that_prove_nothing_are_refused_where_the_numbers_change_their_size():
    recipe, new = learned_prices(), prices(80, 1).assign(city="Oslo").astype(str)
    assert recipe.unseen(new) == []
    comma = new.assign(price=[f"{float(p):.3f}".replace(".", ",") for p in new["price"]])
    (found,) = recipe.unseen(comma)
    assert (found.name, found.most, found.odd) == ("price", True, 80)
    points = new.assign(amount=[f"{int(a):,}".replace(",", ".") for a in new["amount"]])
    (found,) = recipe.unseen(points)
    assert (found.name, found.most) == ("amount", True)
    assert found.odd == sum("." in cell for cell in points["amount"])
    # marks that are read as they are meant
    assert recipe.unseen(new.assign(amount=[f"{int(a):,}" for a in new["amount"]])) == []
    assert recipe.unseen(new.assign(amount=[f"{int(a)}.5" for a in new["amount"]])) == []
    assert recipe.unseen(new.assign(amount=["1.250", *new["amount"][1:]])) == []


@pytest.mark.parametrize("typed", [True, False])
def test_numbers_of_another_size_are_said_and_not_refused(typed):
    recipe, new = learned_prices(), prices(80, 1).assign(city="Oslo")
    new["price"] *= 1000
    (found,) = recipe.unseen(new if typed else new.astype(str))
    assert (found.kind, found.most) == ("range", False)
    assert re.search(
        r"\d\d of 80 cells of 'price' are far from the numbers that the model learned, [\d.]+ to",
        found.sentence,
    )
    new.loc[40:, "price"] = 20.0
    assert recipe.unseen(new) == []


def test_a_column_that_is_empty_in_all_new_rows_is_said():
    recipe, new = learned_prices(), prices(80, 1).assign(city="Oslo").astype(object)
    for name in new:
        (found,) = recipe.unseen(new.assign(**{name: None}))
        assert (found.name, found.kind, found.most) == (name, "empty", False)
        assert found.sentence.endswith("are empty, where the model learned from 200 of 200")
    assert recipe.unseen(new.head(3).assign(city=None)) == []
    gaps = prices().assign(city=np.where(np.arange(200) % 50, None, "Oslo"), price=np.arange(200) % 7)
    assert Recipe().fit(gaps).unseen(new.head(20).assign(city=None, price=3)) == []


def test_numbers_beside_a_flag_and_half_of_a_boolean():
    ones = np.arange(N) % 2
    recipe = fitted(a=ones, b=np.where(ones, "yes", "no"))
    new = {"a": ones[:20], "b": np.where(ones, "yes", "no")[:20]}
    assert found(recipe, **new) == {}
    assert found(recipe, **{**new, "a": ones[:20] + 1})["a"].sentence == (
        "10 of 20 cells of 'a' hold another number than 0 and 1, which the model learned: '2'"
    )
    assert found(recipe, **{**new, "a": 2 - ones[:20] * 4})["a"].most
    half = found(recipe, **{**new, "b": np.where(ones, "ja", "no")[:20]})["b"]
    assert (half.odd, half.most) == (10, True)
    assert not found(recipe, **{**new, "b": ["maybe", *new["b"][1:]]})["b"].most


def test_one_slip_of_the_pen_refuses_nothing():
    days = pd.date_range("2015-01-01", periods=N, freq="7D").strftime("%d.%m.%Y")
    months = pd.date_range("2015-01-01", periods=60, freq="MS").strftime("%d.%m.%Y")
    record = found(fitted(d=days), d=[*months, "01.13.2019"])["d"]
    assert (record.odd, record.held, record.most) == (1, 61, False)
    numbers = fitted(n=np.arange(N) * 1.5, **{f"c{j}": np.arange(N) * (j + 0.5) for j in range(6)})
    rest = {f"c{j}": np.full(50, 20.0) for j in range(6)}
    cells = np.where(np.arange(50) == 7, ">5", "")
    assert not found(numbers, n=cells, **rest)["n"].most
    assert found(numbers, n=np.full(50, ">5"), **rest)["n"].most


def test_one_odd_cell_does_not_hide_that_numbers_are_far():
    new = [*(np.arange(30) * 1e6).astype(str)[1:], "n.d."]
    kinds = [one.kind for one in fitted(n=np.arange(N) * 1.5).unseen(pd.DataFrame({"n": new, "z": Z[:30]}))]
    assert kinds == ["number", "range"]


def test_mostly_empty_columns_are_said():
    recipe = fitted(n=np.arange(N) * 1.5, c=np.where(np.arange(N) % 2, "a", "b"))
    new = {"n": np.where(np.arange(60) % 20, np.nan, 3.0), "c": np.where(np.arange(60) % 20, None, "a")}
    for name in new:
        assert found(recipe, **new)[name].sentence == (
            f"57 of 60 cells of {name!r} are empty, where the model learned from {N} of {N}"
        )


def test_a_text_of_hashed_words_is_not_empty(monkeypatch):
    monkeypatch.setattr(roles, "BLOCK", 50)
    words = np.array(
        ["late", "again", "box", "open", "the", "and", "was", "it", "not", "blue", "very", "order"]
    )
    texts = [" ".join(np.random.default_rng(i).choice(words, 8)) for i in range(N)]
    recipe = fitted(text=texts)
    assert "hashed" in recipe.columns_[0]["how"]
    assert found(recipe, text=texts[:40]) == {}
    assert found(recipe, text=[""] * 40)["text"].kind == "empty"
