"""Recipe on Dask tables: learned as in memory, applied on the workers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

dask = pytest.importorskip("dask", reason="dask is not installed")
dd = pytest.importorskip("dask.dataframe", reason="dask's data frames need pyarrow")
da = pytest.importorskip("dask.array", reason="dask is not installed")
pd = pytest.importorskip("pandas", reason="pandas is not installed")

from sklearn.pipeline import make_pipeline  # noqa: E402

from labelfold import LDA, OPLS, LabelFold, Recipe, UnseenValuesWarning  # noqa: E402
from labelfold.rows import _containers  # noqa: E402
from labelfold.tables import _arrow, _recipe, _stack, _steps  # noqa: E402

N = 240


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(params=[True, False], ids=["arrow-strings", "objects"])
def strings(request):
    with dask.config.set({"dataframe.convert-string": request.param}):
        yield


def messy(rng, n=N):
    """A table of every kind of column, and classes that it tells about."""
    classes = rng.integers(0, 2, n)
    days = pd.to_timedelta(rng.integers(0, 1000, n), unit="D")
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 5, n) + 8 * classes,
            "city": rng.choice(["Paris", "Rome", "Oslo"], n).astype(object),
            "plan": pd.Categorical(rng.choice(["basic", "full"], n)),
            "since": pd.to_datetime("2020-01-01") + days,
            "price": [f"{value:.2f} EUR" for value in 100 * rng.random(n)],
            "visits": rng.integers(0, 50, n),
            "member": rng.random(n) < 0.5,
            "row": np.arange(n),
        }
    )
    for name in ("age", "city", "plan", "since", "price"):
        table.loc[rng.random(n) < 0.1, name] = None
    return table, classes


def said(recipe, table):
    """Return the warnings of a transform, and its matrix."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        Z = recipe.transform(table)
    return [str(one.message) for one in heard if one.category is UnseenValuesWarning], Z


def dense(Z):
    Z = Z.compute() if hasattr(Z, "compute") else Z
    return Z.toarray() if sp.issparse(Z) else Z


def assert_alike(given, table, y=None, **roles):
    """Assert that a Dask table is learned from, and transformed, as the same rows in memory."""
    own, expected = Recipe(**roles), Recipe(**roles)
    Z, want = own.fit_transform(given, y), expected.fit_transform(table, y)
    assert own.columns_ == expected.columns_
    assert own.differences_ == expected.differences_
    assert (own.n_rows_, own.n_learned_from_) == (expected.n_rows_, expected.n_learned_from_)
    assert isinstance(Z, da.Array)
    assert Z.shape == want.shape
    assert Z.dtype == want.dtype
    # Up to round-off, since norms of words are summed in another order for other rows at a time.
    np.testing.assert_allclose(dense(Z), dense(want), rtol=8e-15)
    heard, Z = said(own, given)
    assert heard == said(expected, table)[0]
    np.testing.assert_allclose(dense(Z), dense(expected.transform(table)), rtol=8e-15)
    return own


def test_a_table_is_learned_as_in_memory(rng, strings):
    table, classes = messy(rng)
    y = np.where(rng.random(N) < 0.4, classes, -1)
    recipe = assert_alike(dd.from_pandas(table, npartitions=5), table, y)
    assert len(recipe.used_) == 7
    np.testing.assert_array_equal(recipe.feature_names_in_, list(table.columns))


@pytest.mark.parametrize("kind", ["series", "words", "array"])
def test_labels_on_dask(rng, kind):
    table, classes = messy(rng)
    y = np.where(rng.random(N) < 0.4, classes, -1)
    if kind == "words":
        y = pd.Series(np.array(["no", "yes"])[classes]).where(y >= 0)
    given = da.from_array(y, chunks=70) if kind == "array" else dd.from_pandas(pd.Series(y), npartitions=3)
    ddf = dd.from_pandas(table, npartitions=5)
    expected = make_pipeline(Recipe(), LDA()).fit(table, y)
    model = make_pipeline(Recipe(), LDA()).fit(ddf, given)
    assert model[0].differences_ == expected[0].differences_
    np.testing.assert_allclose(model[1].components_, expected[1].components_, rtol=1e-9, atol=1e-12)


def test_empty_partitions_and_partitions_of_unknown_length(rng, strings):
    table, _ = messy(rng)
    ddf = dd.from_pandas(table, npartitions=6)
    kept = table[(table.row < 80) | (table.row >= 160)]
    some = ddf[(ddf.row < 80) | (ddf.row >= 160)]  # two partitions without a row
    recipe = assert_alike(some, kept)
    Z = recipe.transform(some)
    assert Z.chunks[0] == (40, 40, 40, 40)


def test_categories_that_are_not_known(rng):
    table, _ = messy(rng)
    ddf = dd.from_pandas(table.assign(plan=table.plan.astype(str)), npartitions=4)
    ddf = ddf.assign(plan=ddf.plan.astype("category"))
    assert not ddf.plan.cat.known
    assert_alike(ddf, table.assign(plan=table.plan.astype(str).astype("category")))


def test_partitions_with_other_categories():
    parts = [pd.DataFrame({"plan": pd.Categorical(list(values) * 12)}) for values in ("ab", "bc", "cd")]
    ddf = dd.from_map(lambda part: part, parts, meta=parts[0][:0])
    assert_alike(ddf, pd.concat([part.astype(str) for part in parts]).astype("category"))


def test_cells_of_python_objects_that_are_of_several_types():
    """A partition alone does not tell that the column is text, or has fractions."""
    table = pd.DataFrame(
        {
            "mixed": pd.Series([1, 2] * 20 + ["x", "y"] * 20 + [1.5, None] * 20, dtype=object),
            "number": pd.Series([1, 3] * 20 + [None] * 40 + [1.5, 2.5] * 20, dtype=object),
        }
    )
    with dask.config.set({"dataframe.convert-string": False}):
        recipe = assert_alike(dd.from_pandas(table, npartitions=3), table)
    assert [column["role"] for column in recipe.columns_] == ["category", "number"]


def test_text_stays_sparse(rng):
    words = np.array(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"])
    notes = [" ".join(rng.choice(words, 6)) + f" {i}" for i in range(N)]
    table = pd.DataFrame({"note": notes, "age": rng.random(N)})
    ddf = dd.from_pandas(table, npartitions=3)
    assert_alike(ddf, table, text=["note"])
    Z = Recipe(text=["note"]).fit_transform(ddf)
    assert isinstance(Z._meta, sp.csr_array)
    assert isinstance(Z.compute(), sp.csr_array)
    y = (np.array(["alpha" in note for note in notes])).astype(int)
    model = make_pipeline(Recipe(text=["note"]), LDA()).fit(ddf, y)
    expected = make_pipeline(Recipe(text=["note"]), LDA()).fit(table, y)
    np.testing.assert_array_equal(model.predict(ddf), expected.predict(table))


@pytest.fixture
def few(monkeypatch):
    """A recipe learns from 60 rows and 12 labelled ones."""
    monkeypatch.setattr(_recipe, "LEARNED_FROM", 60)
    monkeypatch.setattr(_recipe, "LABELLED", 12)
    monkeypatch.setattr(_stack, "BLOCK", 72)
    monkeypatch.setattr(_arrow, "BLOCK", 50)


def test_a_sample_of_many_rows(rng, few):
    table, classes = messy(rng)
    recipe = assert_alike(
        dd.from_pandas(table, npartitions=3), table, np.where(rng.random(N) < 0.4, classes, -1)
    )
    assert 60 < recipe.n_learned_from_ < N


def test_a_large_partition_is_transformed_a_block_at_a_time(rng, few, monkeypatch):
    table, _ = messy(rng)
    recipe = Recipe().fit(table)
    longest = []
    read = _steps.ReadNumbers.transform
    monkeypatch.setattr(
        _steps.ReadNumbers, "transform", lambda self, X: longest.append(X.num_rows) or read(self, X)
    )
    recipe.transform(dd.from_pandas(table, npartitions=2)).compute()
    assert max(longest) == 50


@pytest.mark.parametrize("method", [LDA(), OPLS(2), LabelFold()], ids=str)
def test_a_pipeline(method, rng):
    table, classes = messy(rng)
    ddf = dd.from_pandas(table, npartitions=4)
    y = np.where(rng.random(N) < 0.4, classes, -1)
    if isinstance(method, OPLS):
        y = table.visits.to_numpy() + 0.5
        table, ddf = table.drop(columns="visits"), ddf.drop(columns="visits")
    model, expected = (make_pipeline(Recipe(), method).fit(X, y) for X in (ddf, table))
    np.testing.assert_allclose(np.asarray(model.predict(ddf)), expected.predict(table), rtol=1e-8)
    np.testing.assert_allclose(dense(model.transform(ddf)), expected.transform(table), rtol=1e-6, atol=1e-8)


def test_values_never_seen_are_counted_as_in_memory(rng, strings):
    table, _ = messy(rng)
    new = table.assign(city=table.city.str.upper(), price="none at all")
    recipe = Recipe().fit(table)
    ddf = dd.from_pandas(new, npartitions=4)
    heard, _ = said(recipe, ddf)
    assert heard == said(recipe, new)[0]
    assert "'CITY'" not in heard[0]
    assert "of 'city' hold a value the model never saw" in heard[0]
    assert recipe.unseen(ddf) == recipe.unseen(new)
    assert recipe.unseen(ddf).mostly


def test_a_transform_counts_at_once_and_makes_the_matrix_when_it_is_used(rng):
    table, _ = messy(rng)
    recipe = Recipe().fit(table)
    read = []

    def noted(part):
        if len(part):
            read.append(len(part))
        return part

    ddf = dd.from_pandas(table, npartitions=3).map_partitions(noted, meta=table[:0])
    Z = recipe.transform(ddf)
    assert sum(read) == 2 * N  # once for the lengths, once for the counts
    del read[:]
    Z.compute()
    assert sum(read) == N


def test_only_the_columns_in_use_are_read(rng, tmp_path):
    table = messy(rng)[0].drop(columns="plan").assign(unvaried=1)
    dd.from_pandas(table, npartitions=3).to_parquet(tmp_path / "t")
    ddf = dd.read_parquet(tmp_path / "t")
    recipe = Recipe().fit(ddf)
    assert "unvaried" not in recipe.used_
    tasks = " ".join(map(repr, recipe.transform(ddf).dask.values()))
    assert "visits" in tasks
    assert "unvaried" not in tasks
    np.testing.assert_array_equal(dense(recipe.transform(ddf)), Recipe().fit_transform(table))


def test_a_dask_array_of_a_table(rng):
    X = np.empty((90, 3), dtype=object)
    X[:, 0], X[:, 1], X[:, 2] = rng.random(90), rng.choice(["a", "b"], 90), rng.integers(0, 5, 90)
    X[::7, 0] = None
    assert_alike(da.from_array(X, chunks=(40, 2)), X)
    numbers = rng.random((90, 3))
    assert_alike(da.from_array(numbers, chunks=(40, 2)), numbers)


@pytest.mark.parametrize(
    "given", [da.ones(5), dask.delayed(np.ones((2, 2))), dd.from_pandas(pd.Series([1.0]), npartitions=1)]
)
def test_what_is_no_table(given):
    with pytest.raises(
        ValueError, match=r"X is a Dask .* without rows and columns, .*; pass a Dask DataFrame"
    ):
        Recipe().fit(given)


@pytest.mark.parametrize("kind", ["frame", "array"])
def test_a_comparison_reads_a_table_that_fits(kind, rng, monkeypatch):
    pytest.importorskip("plotly", reason="the app is not installed")
    from labelfold.app.compare._data import read_data

    table, classes = messy(rng)
    y = np.where(rng.random(N) < 0.4, classes, -1)
    given = dd.from_pandas(table, npartitions=3)
    if kind == "array":
        table = rng.random((N, 3))
        given = da.from_array(table, chunks=(90, 2))
    found, expected = read_data(given, y), read_data(table, y)
    assert found.names == expected.names
    np.testing.assert_allclose(found.X, expected.X)
    monkeypatch.setattr(_containers, "memory_bytes", lambda: 1_000.0)
    sentence = (
        rf"^compare reads rows .*: 240 x {table.shape[1]} on Dask are .* half of the .*; give compare some"
    )
    with pytest.raises(ValueError, match=sentence):
        read_data(given, y)


def test_names_of_the_rows(rng):
    table = messy(rng)[0].assign(code=[f"no-{i:04d}" for i in range(N)])
    recipe = Recipe(id=["code"]).fit(table)
    assert recipe.row_names(dd.from_pandas(table, npartitions=3)) == recipe.row_names(table)


def test_errors(rng):
    table, _ = messy(rng)
    ddf = dd.from_pandas(table, npartitions=3)
    recipe = Recipe().fit(ddf)
    with pytest.raises(ValueError, match="X lacks 1 of the 7 columns the recipe reads: 'age'"):
        recipe.transform(ddf.drop(columns="age"))
    with pytest.raises(ValueError, match="0 samples"):
        Recipe().fit(ddf[ddf.row < 0])
    with pytest.raises(
        ValueError, match="X is a Dask table without rows, where at least one row is expected"
    ):
        recipe.transform(ddf[ddf.row < 0])
    with pytest.raises(ValueError, match=r"y has 5 rows and X has 240"):
        Recipe().fit(ddf, np.arange(5))


def test_a_table_that_changes_between_passes(rng):
    table, _ = messy(rng)
    recipe, sizes = Recipe().fit(table), [N, N]

    def read(_):
        return table[: sizes.pop() if sizes else 100]

    Z = recipe.transform(dd.from_map(read, [0], meta=table[:0]))
    with pytest.raises(
        ValueError, match=r"has 100 rows, where an earlier pass found 240; .* ddf.persist\(\)"
    ):
        Z.compute()


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.mark.parametrize("persisted", [False, True])
def test_a_cluster(persisted, client, rng):
    table, classes = messy(rng)
    y = np.where(rng.random(N) < 0.4, classes, -1)
    expected = make_pipeline(Recipe(), LDA()).fit(table, y)
    with client.as_current(), dask.config.set(scheduler=client):
        ddf = dd.from_pandas(table, npartitions=4)
        if persisted:
            ddf = client.persist(ddf)
        model = make_pipeline(Recipe(), LDA()).fit(ddf, y)
        np.testing.assert_array_equal(model.predict(ddf), expected.predict(table))
        np.testing.assert_allclose(
            model.transform(ddf).compute(), expected.transform(table), rtol=1e-6, atol=1e-9
        )
    assert model[0].columns_ == expected[0].columns_
