"""One small table, and how it is written in every format that labelfold reads."""

import json
import sqlite3

import numpy as np
import pandas as pd
import pyarrow as pa


def mixed_table(n=90):
    """Return a table of an id, numbers with gaps, whole numbers, a category, a date and a third of the labels."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 2)) + y[:, None] * [2.0, -1.5]
    return pd.DataFrame(
        {
            "id": [f"c{i:03d}" for i in rng.permutation(n)],
            "size": x[:, 0].round(4),
            "weight": np.where(rng.random(n) < 0.1, np.nan, x[:, 1].round(4)),
            "visits": rng.integers(0, 50, n),
            "city": rng.choice(["Rome", "Oslo", "Wien"], n),
            "since": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), unit="D"),
            "kind": pd.Series(np.array(["ant", "bee", "cat"])[y]).where(rng.random(n) < 0.5),
        }
    )


def as_text(frame):
    """Return the frame with dates as they are written."""
    return frame.assign(since=frame["since"].dt.strftime("%Y-%m-%d"))


def objects(frame):
    """Return the rows as JSON has them."""
    rows = as_text(frame).astype(object).where(frame.notna(), None)
    return rows.to_dict("records")


def write_lines(frame, path):
    path.write_text("".join(json.dumps(row) + "\n" for row in objects(frame)))


def write_nested(frame, path):
    """Write the columns of numbers in an object of their own."""
    rows = [
        {k: v for k, v in row.items() if k not in ("size", "weight")}
        | {"of": {"size": row["size"], "weight": row["weight"]}}
        for row in objects(frame)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_stream(frame, path):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pa.ipc.new_stream(path, table.schema) as made:
        made.write_table(table, max_chunksize=20)


def write_sqlite(frame, path):
    with sqlite3.connect(path) as made:
        as_text(frame).to_sql("t", made, index=False)
    made.close()


def write_duckdb(frame, path):
    import duckdb

    with duckdb.connect(path) as made:
        made.register("frame", frame)
        made.execute("create table t as select * from frame")


FORMATS = {
    "t.csv": lambda frame, path: as_text(frame).to_csv(path, index=False),
    "t.parquet": lambda frame, path: frame.to_parquet(path),
    "t.feather": lambda frame, path: frame.to_feather(path),
    "t.arrow": write_stream,
    "t.jsonl": write_lines,
    "t.json": lambda frame, path: path.write_text(json.dumps(objects(frame), indent=1)),
    "t.xlsx": lambda frame, path: frame.to_excel(path, index=False),
    "t.db": write_sqlite,
    "t.duckdb": write_duckdb,
}
