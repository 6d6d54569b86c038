"""Recipe: what each column of a table becomes, on the rows it was learned from and on new ones."""

import copy
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import make_pipeline

import labelfold.tables._arrow as blocks
import labelfold.tables._recipe as recipes
import labelfold.tables._roles as roles
import labelfold.tables._stack as stacks
from labelfold import LDA, Recipe, UnseenValuesWarning, load, save
from labelfold.tables._arrow import as_arrow
from labelfold.tables._dates import instants, layouts_of
from labelfold.tables._numbers import format_of, numbers, parsed
from labelfold.tables._steps import DistinctValueEncoder, HashedWords

N = 60


def messy(n=N, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    days = pd.Timestamp("1965-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D")
    table = pd.DataFrame(
        {
            "row": np.arange(1, n + 1),
            "code": [f"A-{i}" for i in rng.permutation(n)],
            "size": rng.normal(size=n) + 2 * y,
            "price": [f"{1000 + 900 * v:,.2f} €".translate(str.maketrans(",.", ".,")) for v in rng.random(n)],
            "city": rng.choice(["Oslo", "Rome", "Wien"], n),
            "member": rng.choice([True, False], n),
            "seen": [f"{d:%d.%m.%Y}" for d in days],
            "at": pd.date_range("2020-01-01", periods=n, freq="31h", tz="Europe/Paris"),
            "vector": list(rng.normal(size=(n, 4)).astype(np.float32)),
            "empty": None,
            "same": 7,
            "again": 0.0,
            "answer": np.where(y, "yes", "no"),
        }
    )  # fmt: skip
    table["again"] = table["size"]
    table.loc[::9, ["size", "again"]] = np.nan
    table.loc[::11, "city"] = "?"
    table.loc[4, "price"] = "on request"
    return table, y


@pytest.fixture(scope="module")
def learned():
    table, y = messy()
    return Recipe().fit(table, y)


def told(recipe):
    return {column["name"]: (column["role"], column["how"]) for column in recipe.columns_}


def test_each_column_is_told(learned):
    found = told(learned)
    assert {name: role for name, (role, _) in found.items()} == {
        "row": "id",
        "code": "id",
        "size": "number",
        "price": "number",
        "city": "category",
        "member": "category",
        "seen": "date",
        "at": "date",
        "vector": "list",
        "empty": "left out",
        "same": "left out",
        "again": "left out",
        "answer": "left out",
    }
    assert found["price"][1] == (
        "decimal comma, marks between thousands and '€' removed; 1 cell is no number ('on request')"
    )
    assert found["seen"][1].startswith("day first; elapsed time")
    assert found["again"][1] == "it repeats 'size'"
    assert found["answer"][1] == "it maps one to one onto the target in all 60 labelled rows, so it is a leak"
    said = "'?' means missing; 6 missing, a value of its own"
    assert f"city: category; 3 values, one column each; {said}" in learned.lines()
    assert learned.ids_ == ["row", "code"]
    table, _ = messy()
    assert learned.row_names(table)[0] == f"1, {table['code'][0]}"


def test_every_value_has_its_place(learned):
    table, _ = messy()
    names = list(learned.get_feature_names_out())
    X = pd.DataFrame(learned.transform(table), columns=names)
    price = table["price"].str.replace(" €", "").str.replace(".", "").str.replace(",", ".")
    price = pd.to_numeric(price, errors="coerce")
    price = price.fillna(price.median())
    beside = 0.5 / np.sqrt(6)  # six columns beside the list share half of its length
    expected = beside * (price - price.mean()) / price.std(ddof=0)
    np.testing.assert_allclose(X["price"], expected, atol=1e-9)
    np.testing.assert_allclose(X["city=Oslo"], beside * (table["city"] == "Oslo"))
    np.testing.assert_allclose(X["city=(missing)"], beside * (table["city"] == "?"))
    days = pd.to_datetime(table["seen"], format="%d.%m.%Y").astype("int64")
    assert np.corrcoef(X["seen: days"], days)[0, 1] == pytest.approx(1)
    vectors = np.stack(table["vector"])
    length = np.sqrt(np.mean(np.sum(vectors**2, axis=1)))
    np.testing.assert_allclose(X[[f"vector[{j}]" for j in range(4)]], vectors / length, rtol=1e-6)


def test_new_rows_may_hold_anything(learned):
    table, _ = messy()
    expected = learned.transform(table)
    shuffled = table[learned.used_[::-1]].assign(unknown=1)  # neither order nor company matters
    np.testing.assert_array_equal(learned.transform(shuffled), expected)
    new = pd.DataFrame({name: ["Atlantis", None] for name in learned.used_})
    with pytest.warns(UnseenValuesWarning, match="1 of 1 cells of 'size' hold no number .*'Atlantis'"):
        X = learned.transform(new)
    assert np.isfinite(X).all()
    cities = [name.startswith("city=") for name in learned.get_feature_names_out()]
    assert (X[0, cities] == 0).all()  # a city never seen is none of those
    with pytest.raises(
        ValueError, match="X lacks 2 of the 7 columns the recipe reads: 'size', 'city'; add them"
    ):
        learned.transform(table.drop(columns=["size", "city"]))


def test_a_pipeline_with_a_recipe_comes_back_from_a_file(tmp_path):
    table, y = messy()
    words = np.random.default_rng(0).choice(list("uvwxyz"), (N, 6))
    table["note"] = [f"{' '.join(some)} {'good' if k else 'bad'}" for some, k in zip(words, y, strict=True)]
    model = make_pipeline(Recipe(), LDA()).fit(table, y)
    assert sp.issparse(model[0].transform(table))
    back = load(save(model, tmp_path / "m.skops"))
    np.testing.assert_array_equal(back.predict(table), model.predict(table))
    assert back[0].lines() == model[0].lines()


def test_roles_can_be_given():
    table = pd.DataFrame({"zip": [1010, 1020, 1030] * 10, "x": np.arange(30.0), "n": ["1", "2", "3"] * 10})
    recipe = Recipe(category=["zip"], text="n", drop=["x*"]).fit(table)
    assert {name: role for name, (role, _) in told(recipe).items()} == {
        "zip": "category",
        "x": "left out",
        "n": "text",
    }
    with pytest.raises(ValueError, match="date names the column 'day', which X does not have"):
        Recipe(date=["day"]).fit(table)
    with pytest.raises(ValueError, match=r"No column is left to learn from \('x': it counts the rows\)"):
        Recipe().fit(table[["x"]])


@pytest.mark.parametrize("rows", [12, 40])
def test_a_leak_is_left_out_from_30_labelled_rows_on(rows):
    y = np.array(["a", "b", "c"] * 20, dtype=object)
    y[rows:] = None
    table = pd.DataFrame({"x": np.sin(np.arange(60)), "coded": np.tile([3, 1, 2], 20)})
    role, how = told(Recipe().fit(table, y))["coded"]
    assert role == ("left out" if rows >= 30 else "number")
    assert f"maps one to one onto the target in {'all ' * (rows >= 30)}{rows} labelled rows" in how


def test_whole_numbers_that_differ_are_numbers_unless_they_count_the_rows():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"income": rng.permutation(np.arange(100) * 7), "mixed": rng.permutation(100), "x": rng.random(100)}
    )
    roles = {name: role for name, (role, _) in told(Recipe().fit(table)).items()}
    assert roles == {"income": "number", "mixed": "id", "x": "number"}


def test_numbers_that_are_said_to_be_dates():
    seconds = np.linspace(1.5e9, 1.6e9, 40)
    table = pd.DataFrame(
        {"s": seconds, "ms": seconds[::-1] * 1000, "days": [f"{20200101 + i % 28}" for i in range(40)]}
    )
    recipe = Recipe(date=["s", "ms", "days"]).fit(table)
    how = {name: how.split(";")[0] for name, (_, how) in told(recipe).items()}
    assert how == {"s": "seconds since 1970", "ms": "milliseconds since 1970", "days": "digits alone"}
    names = list(recipe.get_feature_names_out())
    X = recipe.transform(table)
    np.testing.assert_allclose(X[:, names.index("s: days")], X[::-1, names.index("ms: days")])


def test_numbers_that_are_dates_by_their_name_and_size():
    rng = np.random.default_rng(0)
    seconds = rng.integers(15 * 10**8, 17 * 10**8, 50)
    table = pd.DataFrame({"created_at": seconds, "unix": 1000 * rng.permutation(seconds), "sold": seconds + 1,
        "birth_year": rng.integers(1950, 2000, 50)})  # fmt: skip
    for some in (table, table.astype(str)):
        recipe = Recipe().fit(some)
        roles = [(column["role"], column["how"].split(";")[0]) for column in recipe.columns_]
        dates = [("date", "seconds since 1970"), ("date", "milliseconds since 1970")]
        assert roles == [*dates, ("number", ""), ("number", "")]


def test_pixels_stay_where_they_are():
    X = pd.DataFrame(np.zeros((5, 16)), columns=[f"pixel_{i}_{j}" for i in range(4) for j in range(4)])
    X["pixel_1_1"] = np.arange(5.0)
    np.testing.assert_array_equal(Recipe().fit_transform(X), X)
    assert Recipe().fit_transform(X.astype(np.float32)).dtype == np.float32
    first, second = Recipe().fit(X).lines()
    assert first.endswith("pixel_1_0 and 10 more: number; it holds one value, and stays as a pixel")
    assert second == "pixel_1_1: number"


def test_columns_numbered_alike_are_looked_at_as_others_are():
    rng = np.random.default_rng(0)
    y = np.repeat(["p", "q"], 20)
    X = pd.DataFrame(rng.normal(size=(40, 20)), columns=[f"v{j}" for j in range(20)])
    X["v3"], X["v5"], X["v6"], X["v9"] = 7.0, X["v4"], X["v2"], np.where(y == "p", 1, 2)
    recipe = Recipe().fit(X, y)
    assert recipe.lines(plain=False) == [
        "v3: left out; it holds one value",
        "v5, v6: left out; each repeats another, the first 'v4'",
        "v9: left out; it maps one to one onto the target in all 40 labelled rows, so it is a leak",
    ]
    assert len(recipe.used_) == 16


def test_gaps_that_tell_something_have_a_column():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 50)
    table = pd.DataFrame({"a": rng.normal(size=100), "b": rng.normal(size=100)})
    table.loc[(y == 1) & (rng.random(100) < 0.5), "a"] = np.nan
    table.loc[rng.random(100) < 0.2, "b"] = np.nan
    names = Recipe().fit(table, y).get_feature_names_out().tolist()
    assert names == ["b", "a", "missingindicator_a"]
    assert Recipe().fit(table).get_feature_names_out().tolist() == ["a", "b"]


def test_parts_of_the_calendar_that_go_along_with_the_labels():
    days = pd.date_range("2019-01-01", periods=400)
    table = pd.DataFrame({"day": days})
    names = Recipe().fit(table, np.asarray(days.day_of_week >= 5)).get_feature_names_out().tolist()
    assert names == ["day: days", "day: weekday sin", "day: weekday cos", "day: weekend"]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1,5", "-2,25", "1.000,5"], [1.5, -2.25, 1000.5]),
        (["1,234", "2,345,678", "5"], [1234, 2345678, 5]),
        (["$1,200.50", "$3", "-$7"], [1200.5, 3, -7]),
        (["12 %", "7%", "3"], [12, 7, 3]),
        (["1 234,5 kg", "12 kg", "(3)"], [1234.5, 12, -3]),
        (["1\u202f234,5\u00a0€", "12\u00a0€", "1\u00a0000\u00a0€"], [1234.5, 12, 1000]),
        (["1'000", "2", "1e3"], [1000, 2, 1000]),
        (["5", "1.2.3", ","], [5, None, None]),
    ],
)
def test_numbers_as_people_write_them(cells, expected):
    column = pa.chunked_array([cells])
    assert parsed(column, format_of(cells)[0]).to_pylist() == expected
    np.testing.assert_array_equal(numbers(column, format_of(cells)[0]), np.array(expected, dtype=float))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["31.12.1965", "1.2.2003"], ["1965-12-31", "2003-02-01"]),
        (["12/31/65", "1/2/2003 3:05 pm"], ["1965-12-31", "2003-01-02T15:05:00"]),
        (["2020-05-01T10:00:00+02:00", "2020-05-01 10:00:00.5Z"], ["2020-05-01T08:00:00", "2020-05-01T10:00:00"]),
        (["3 March 2021", "Mar 4, 2021", "2021-03-05"], ["2021-03-03", "2021-03-04", "2021-03-05"]),
        (["30.02.2020", "29.02.2020"], ["NaT", "2020-02-29"]),
    ],
)  # fmt: skip
def test_dates_as_people_write_them(cells, expected):
    universal = instants(pa.chunked_array([cells]), layouts_of(cells)[0])[1]
    assert (
        universal.astype("datetime64[s]").astype(str) == np.array(expected, "datetime64[s]").astype(str)
    ).all()


MANY = np.random.default_rng(0).random(100_000)
BAD = {
    "a category with one value and gaps": ({"a": ["x", None] * 15}, "category", (30, 2)),
    "90,000 categories": ({"a": [f"k{i % 90_000}" for i in range(100_000)], "b": MANY}, "category", (100_000, 2)),
    "100,000 categories": ({"a": [f"k{max(i, 9)}" for i in range(100_000)], "b": MANY}, "left out", (100_000, 1)),
    "categories to hash": ({"a": [f"k{i % 1000}" for i in range(5000)]}, "category", (5000, 64)),
    "dates in two formats": ({"a": ["1.2.1901", "1903-04-05", "7.8.1999"] * 9}, "date", None),
    "a stray word": ({"a": [*map(str, range(50)), "broken"]}, "number", (51, 1)),
    "a sentence for a number": ({"a": ["12", "no idea"] * 20}, "category", (40, 2)),
    "codes with zeros in front": ({"a": ["00123", "04512"] * 20}, "category", (40, 2)),
    "lists in a CSV": ({"a": ["[1, 2.5]", "[3e1, -4]"] * 9}, "list", (18, 2)),
    "names alone": ({"a": [f"name{chr(97 + i % 26)}{chr(97 + i % 7)}" for i in range(50)]}, "text", None),
    "infinite numbers": ({"a": [1.0, np.inf, 3.0, -np.inf]}, "number", (4, 1)),
    "mixed types": ({"a": [1, "2", 3.5, None] * 5}, "number", (20, 1)),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_columns_of_every_kind(case):
    columns, role, shape = BAD[case]
    recipe = Recipe()
    X = recipe.fit_transform(pd.DataFrame(columns))
    assert told(recipe)["a"][0] == role
    assert shape is None or X.shape == shape
    assert np.isfinite(X.data if sp.issparse(X) else X).all()


def test_tables_of_any_make():
    table, y = messy()
    expected = Recipe().fit_transform(table, y)
    arrow = as_arrow(table)[0]

    class Foreign:  # what polars and others have in common
        def __arrow_c_stream__(self, requested_schema=None):
            return arrow.__arrow_c_stream__(requested_schema)

    views = [j for j, kind in enumerate(arrow.schema.types) if kind in (pa.string(), pa.large_string())]
    for other in (arrow, Foreign()):
        np.testing.assert_array_equal(Recipe().fit_transform(other, y), expected)
    # polars holds text as views, and categories as dictionaries of views
    for j in views:
        arrow = arrow.set_column(j, arrow.column_names[j], arrow.column(j).cast(pa.string_view()))
    city = arrow.column("city").cast(pa.string()).dictionary_encode().chunk(0)
    coded = pa.DictionaryArray.from_arrays(city.indices, city.dictionary.cast(pa.string_view()))
    coded = arrow.set_column(arrow.column_names.index("city"), "city", coded)
    assert len(views) > 3
    for other in (arrow, Foreign(), coded):
        np.testing.assert_array_equal(Recipe().fit_transform(other, y), expected)


def test_many_rows_are_learned_from_a_sample_and_read_in_blocks(monkeypatch):
    table, y = messy(3000)
    recipe = Recipe().fit(table, y)
    expected = recipe.transform(table)
    monkeypatch.setattr(blocks, "BLOCK", 700)
    np.testing.assert_array_equal(recipe.transform(table), expected)
    monkeypatch.setattr(recipes, "LEARNED_FROM", 500)
    monkeypatch.setattr(recipes, "LABELLED", 100)
    some = Recipe()
    X = some.fit_transform(table, y)
    assert len(X) == len(expected)
    assert some.lines()[0] == f"learned from {some.n_learned_from_} of 3,000 rows, which the counts are of"
    assert told(some)["row"] == told(recipe)["row"]


def test_numbers_in_several_units_are_no_numbers():
    rng = np.random.default_rng(0)
    n = 60
    weight = [f"{v:.4f} {u}" for v, u in zip(rng.random(n) * 90, rng.choice(["kg", "lb"], n), strict=True)]
    age = [f"{v} {'year' if v == 1 else 'Years'}" for v in rng.integers(1, 5, n)]
    recipe = Recipe().fit(pd.DataFrame({"weight": weight, "size": [f"{v // 9} kg" if v % 2 else f"{v // 9} lb"
        for v in range(n)], "age": age}))  # fmt: skip
    units = "numbers in {} and {} are not read as numbers; bring them to one unit"
    weight, size, age = recipe.columns_
    assert (weight["role"], age["role"], age["how"]) == ("left out", "number", "'Year' removed")
    assert weight["how"] in (units.format("'kg'", "'lb'"), units.format("'lb'", "'kg'"))
    assert (size["role"], size["how"].split("; ")[1][:10]) == ("category", "numbers in")


def test_short_texts_count_as_a_category_does():
    rng = np.random.default_rng(0)
    n = 300
    words = [f"{a}{b}" for a in ("red", "big", "old", "new") for b in ("car", "cat", "hat", "cup", "box")]
    table = pd.DataFrame(
        {
            "title": [" ".join(rng.choice(words, 3)) for _ in range(n)],
            "name": [f"{v:05x} {v:06x}" for v in rng.permutation(n) + 10**6],  # no word is there twice
            "person": [f"user{v}@mail.org" for v in [0, *range(1, n)]],
            "almost": [f"P{v}" for v in [7, *range(1, n)]],
            "size": rng.normal(size=n),
        }
    )
    recipe = Recipe().fit(table)
    roles = {column["name"]: column["role"] for column in recipe.columns_}
    assert roles == {"title": "text", "name": "id", "person": "id", "almost": "left out", "size": "number"}
    made = recipe.transform(table)
    size = [j for j, name in enumerate(recipe.get_feature_names_out()) if name == "size"]
    np.testing.assert_allclose(made[:, size].toarray().std(), 1)  # a long text would make it smaller
    np.testing.assert_allclose((made.power(2).sum(axis=1) - made[:, size].power(2).sum(axis=1)), 1)


def test_hashing_is_that_of_scikit_learn():
    values = [*(f"shop {i}" for i in range(300)), None, "é"]
    table = pa.table({"a": values, "b": values[::-1]})
    hasher = FeatureHasher(64, input_type="string")
    expected = hasher.transform([[] if value is None else [value] for value in values]).toarray()
    made = DistinctValueEncoder(hasher).fit(table).transform(table).toarray()
    np.testing.assert_array_equal(made, np.hstack([expected, expected[::-1]]))
    texts = ["Hello, wörld  hello-there_x 12.5", None, "", " . ", "Hello, wörld", "b a b a", "a b", "b a"]
    words = HashedWords(2**10).transform(pa.table({"t": texts}))
    vectors = HashingVectorizer(token_pattern=r"(?u)\b\w+\b", strip_accents="unicode", norm=None,
        alternate_sign=False, n_features=2**10).transform([text or "" for text in texts])  # fmt: skip
    np.testing.assert_array_equal(words.toarray(), vectors.toarray())


def test_text_of_very_many_rows_is_hashed(monkeypatch, tmp_path):
    monkeypatch.setattr(roles, "BLOCK", 50)
    monkeypatch.setattr(stacks, "BLOCK", 50)
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    words = np.array([["cat", "dog", "fish", "bird"], ["car", "bus", "boat", "tram"]])
    table = pd.DataFrame(
        {
            "note": [" ".join(rng.choice(words[i], 6)) for i in y],
            "size": rng.random(80),
            "kind": list("abcd") * 20,
        }
    )
    model = make_pipeline(Recipe(), LDA()).fit(table, y)
    assert model[0].lines()[0] == "note: text; tf-idf of its words, hashed"
    assert len(model[0].get_feature_names_out()) == model[0].transform(table).shape[1]
    assert model[0].transform(table).dtype == np.float32
    save(model, tmp_path / "model")
    assert (load(tmp_path / "model").predict(table) == y).all()


@pytest.mark.parametrize("fuller", [1, 9])
def test_sparse_blocks_are_stacked(fuller):
    rng = np.random.default_rng(0)
    parts = [
        sp.random_array((7, 20), density=0.05 * f, rng=rng, format="csr") for f in (1, fuller, 0, fuller)
    ]
    expected = sp.vstack(parts).toarray()
    np.testing.assert_array_equal(blocks.stacked(iter(parts), 28).toarray(), expected)


def test_a_table_without_rows_is_refused_by_transform(learned):
    table, _ = messy()
    with pytest.raises(ValueError, match="0 sample"):
        learned.transform(table.head(0))


def test_a_year_of_four_digits_is_read_alike_alone_and_among_others():
    cells = ["0001-01-01", "31/12/99", "9999-12-31"]
    layouts = layouts_of(cells)[0]
    together = instants(pa.chunked_array([cells]), layouts)[1]
    alone = [instants(pa.chunked_array([[cell]]), layouts)[1][0] for cell in cells]
    assert together.tolist() == alone
    assert together[0] < 0 < together[1] < together[2]


def test_many_columns_are_saved_as_one_text(tmp_path):
    """The file says nothing of each column by itself, which took several minutes for 100,000 columns."""
    names = [f"c{j}" for j in range(400)]
    numbers = pd.DataFrame(np.random.default_rng(0).normal(size=(9, 400)).round(2).astype(str), columns=names)
    table = numbers.assign(day="2020-01-02", pair=[[1.0, 2.0]] * 9, kind=list("aabbccddd"))
    table.loc[3, "day"] = "2021-05-06"
    recipe = Recipe().fit(table)
    path = save(recipe, tmp_path / "r.skops")
    with zipfile.ZipFile(path) as archive:
        assert archive.read("schema.json").count(b'"__class__"') < 800  # one or two a column would be more
    loaded = load(path)
    assert loaded.columns_ == recipe.columns_
    assert loaded.feature_names_in_.tolist() == recipe.feature_names_in_.tolist()
    np.testing.assert_array_equal(loaded.transform(table), recipe.transform(table))
    np.testing.assert_array_equal(copy.deepcopy(recipe).transform(table), recipe.transform(table))
