"""Generated tables: a recipe that can be learned reads the rows it was learned from, and any others."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from labelfold import Recipe
from labelfold.app.commands._cli import main

WORDS = ["red", "Größe", "東京", "a,b", 'say "no"', ";", "|", "tab\there", "new\nline", "?", "none", "-", "5"]
DAYS = ["%d.%m.%Y", "%Y-%m-%dT%H:%M:%S+0200", "%m/%d/%Y %I:%M %p", "%d %b %Y", "%Y%m%d"]
ODD = [",", ".", "+", "e5", "$", "%", "1,", "--1", "1.2.3", "()", "(1)", "1e999", "NaN", "inf", "0x1f"]
EDGES = ["9999-12-31", "0001-01-01", "2020-02-30", "31/12/99", "24:00", "12:60"]


def some_days(rng, n):
    days = pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 40_000, n), unit="D")
    layouts = rng.choice(DAYS, rng.integers(1, 3))
    return [day.strftime(layouts[i % len(layouts)]) for i, day in enumerate(days)]


KINDS = [
    lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-8, 9),
    lambda rng, n: rng.integers(0, 4, n),
    lambda rng, n: [f"{v:,.2f} kg" for v in rng.uniform(0, 5000, n)],
    lambda rng, n: [f"{v:.1f}".replace(".", ",") for v in rng.uniform(0, 5000, n)],
    lambda rng, n: rng.choice(WORDS, n),
    lambda rng, n: [" ".join(rng.choice(WORDS, rng.integers(0, 12))) for _ in range(n)],
    lambda rng, n: [f"id-{i}" for i in range(n)],
    lambda rng, n: np.arange(n),
    some_days,
    lambda rng, n: rng.choice(ODD, n),
    lambda rng, n: rng.choice(EDGES, n),
    lambda rng, n: [None] * n,
    lambda rng, n: ["same"] * n,
    lambda rng, n: rng.choice([True, False], n),
    lambda rng, n: [str(list(row)) for row in rng.integers(0, 9, (n, 3))],
    lambda rng, n: list(rng.normal(size=(n, 2))),
    lambda rng, n: [int(v) if v < 5 else str(v) for v in rng.uniform(0, 10, n)],
    lambda rng, n: [chr(c) for c in rng.integers(32, 0x2FFF, n)],
]


def generated(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 3, 12, 60]))
    columns = {}
    for j, kind in enumerate(rng.integers(0, len(KINDS), rng.integers(1, 7))):
        cells = pd.Series(list(KINDS[kind](rng, n)), dtype=object)
        columns[f"{j} {rng.choice(['date', 'x', 'é'])}"] = cells.where(
            rng.random(n) >= rng.choice([0, 0, 0.1, 0.9]), None
        )
    y = rng.choice(["p", "q", None], n) if rng.random() < 0.7 else None
    return pd.DataFrame(columns), y  # fmt: skip


def dense(X):
    return X.toarray() if sp.issparse(X) else X


@pytest.mark.filterwarnings("ignore::labelfold.UnseenValuesWarning")
@pytest.mark.parametrize("seed", range(40))
def test_what_was_learned_reads_its_own_rows_and_any_others(seed):
    table, y = generated(seed)
    recipe = Recipe()
    try:
        X = dense(recipe.fit_transform(table, y))
    except ValueError as error:
        assert str(error).startswith("No column is left to learn from")  # noqa: PT017
        return
    assert X.shape == (len(table), len(recipe.get_feature_names_out()))
    assert np.isfinite(X).all()
    # one column at a time in single precision, or all in double
    np.testing.assert_allclose(dense(recipe.transform(table)), X, rtol=1e-6, atol=1e-9)
    assert [one.sentence for one in recipe.unseen(table) if one.most] == []
    others, _ = generated(seed + 1000)
    new = pd.DataFrame({name: others.iloc[:, j % others.shape[1]] for j, name in enumerate(table)})
    assert np.isfinite(dense(recipe.transform(new))).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_file_that_can_be_fitted_can_be_predicted(seed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(seed)
    table = pd.concat([generated(2000 + 50 * seed + i)[0] for i in range(3)], axis=1).head(60)
    table.columns = [f"c{j}" for j in range(table.shape[1])]
    table["kind"] = rng.choice(["p", "q", "q", ""], len(table))
    table.to_csv(
        "t.csv",
        index=False,
        sep=str(rng.choice(list(",;\t|"))),
        encoding=str(rng.choice(["utf-8", "utf-16"])),
    )
    status = main(["fit", "t.csv", "-t", "kind", "-m", "lda", "--ridge", "1", "-o", "model"])
    err = capsys.readouterr().err
    assert status in (0, 2), err
    if status == 0:
        assert main(["predict", "model", "t.csv", "-t", "kind", "-o", "said.csv"]) == 0
        assert len(pd.read_csv("said.csv")) == len(table)
    else:
        assert err.splitlines()[-1].startswith("labelfold: ")
