"""The results of `labelfold compare`, beside ten lines of scikit-learn.

    python experiments/delivered.py                      everything
    python experiments/delivered.py --parts baselines    scikit-learn only
    python experiments/delivered.py --quick              a small test, a minute

Each of ten tables is written to a file with 60 labels, ten times, and the command of the README is run on it.
predictions.csv is compared with the hidden labels. The rows of the baselines are in delivered_baselines.csv.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from common import Report, experiment, pinned, seconds
from data_sets import Data, accuracy
from delivered_baselines import BASELINES, TABLES, draw, predict, read
from result_rows import (
    Results,
    Row,
    beside,
    by_seed,
    grouped,
    mean,
    number,
    parameter,
    row_key,
    standard_error,
    values,
)

# A table with more columns is written as a sparse NPZ file.
MOST_CSV_COLUMNS = 1000


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    sets: tuple[str, ...] = TABLES
    draws: int = 10
    labels: int = 60
    most_rows: int | None = None
    time_limit: float | None = None


QUICK = Plan(sets=("wine", "autos_motorcycles"), draws=2, labels=24, most_rows=80, time_limit=4)


def baselines(results: Results, plan: Plan) -> None:
    """Write the accuracy of every baseline on the hidden rows of every draw."""
    results = beside(results, "delivered_baselines")
    for name in plan.sets:
        table = read(name, plan.most_rows)
        for seed, baseline in product(range(plan.draws), BASELINES):
            key = row_key("Baseline", table, baseline, seed, labels=plan.labels)
            if results.has(**key):
                continue
            known = draw(table.y, plan.labels, name, seed)
            hidden = np.setdiff1d(np.arange(len(table.y)), known)
            with pinned(1):
                spent, said = seconds(partial(predict, baseline, table, plan.most_rows, known))
            results.add(**key, ours=accuracy(table.y, said, hidden), seconds=spent)


def delivered(results: Results, plan: Plan) -> None:
    """Write the results of the command line for every draw: one row for each quantity."""
    limit = {} if plan.time_limit is None else {"limit": plan.time_limit}
    for name in plan.sets:
        table = read(name, plan.most_rows)
        for seed in range(plan.draws):
            row = partial(row_key, "Delivered", table, seed=seed, labels=plan.labels, **limit)
            if results.has(**row("accuracy")):  # it is written last
                continue
            known = draw(table.y, plan.labels, name, seed)
            with tempfile.TemporaryDirectory() as folder:
                found = run(table, known, Path(folder), plan.time_limit)
            spent = found.pop("seconds")
            for quantity, value in found.items():
                results.add(**row(quantity), ours=value, seconds=spent if quantity == "accuracy" else "")


def run(table: Data, known: np.ndarray, folder: Path, time_limit: float | None) -> dict[str, Any]:
    """Run the README's command on a file with the known labels; return its results, with the accuracy last.

    A run without predictions counts as 0% right.
    """
    file = write_table(table, known, folder)
    command = [Path(sys.executable).with_name("labelfold"), "compare", file, "--target", "y", "--id", "id"]
    command += ["--save", "-o", folder / "out"]
    command += [] if time_limit is None else ["--time-limit", str(time_limit)]
    start = time.perf_counter()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    found: dict[str, Any] = {"seconds": time.perf_counter() - start}
    predictions = folder / "out" / "predictions.csv"
    if done.returncode or not predictions.is_file():
        lines = done.stderr.strip().splitlines() or ["no predictions"]
        return found | {"failed": lines[-1], "accuracy": 0.0}
    hidden = np.setdiff1d(np.arange(len(table.y)), known)
    codes, confidence = read_predictions(predictions, len(table.y))
    right, confidence = codes[hidden] == table.y[hidden], confidence[hidden]
    sure = (confidence >= SURE[0]) & (confidence <= SURE[1])
    promise = read_promise(folder / "out" / "answer.json", done.stdout)
    truth = right
    if "balanced" in promise["metric"]:
        truth = [right[table.y[hidden] == c].mean() for c in np.unique(table.y[hidden])]
    found |= promise | {"truth": 100 * float(np.mean(truth))}
    found |= {"sure": int(sure.sum()), "sure and right": int((sure & right).sum())}
    return found | {"accuracy": 100 * float(right.mean())}


def write_table(table: Data, known: np.ndarray, folder: Path) -> Path:
    """Write a table with the known labels: CSV, or sparse NPZ if it has too many columns."""
    n, d = table.X.shape
    y = np.full(n, "", dtype="U8")
    y[known] = [f"c{code}" for code in table.y[known]]
    if d > MOST_CSV_COLUMNS:
        parts = {f"X_{part}": getattr(table.X, part) for part in ("data", "indices", "indptr", "shape")}
        np.savez(folder / "t.npz", y=y, id=np.arange(n), **parts)
        return folder / "t.npz"
    import pandas as pd

    X = table.X.toarray() if sparse.issparse(table.X) else table.X
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)])
    frame.insert(0, "id", np.arange(n))
    frame.assign(y=y).to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def read_predictions(path: Path, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the class code and the confidence of each of n rows, in the order of their ids."""
    import pandas as pd

    frame = pd.read_csv(path).set_index("id").loc[np.arange(n)]
    return frame["predicted"].str.removeprefix("c").astype(int).to_numpy(), frame["confidence"].to_numpy()


def read_promise(path: Path, printed: str) -> dict[str, Any]:
    """Return the method, its expected score (%), interval and metric, from answer.json or from the printed text."""
    if path.is_file():
        answer = json.loads(path.read_text())
        named = {name: answer.get(name) for name in ("expected", "low", "high")}
        shares = {name: 100 * float(share) for name, share in named.items() if share is not None}
        return {"method": answer["method"], "metric": answer["metric"], **shares}
    said = re.search(r"^(.+?) (?:reached|keeps|and .+ are).*? ([\d.]+)%", printed, flags=re.MULTILINE)
    method, expected = (said[1], float(said[2])) if said else ("unknown", np.nan)
    return {"method": method, "metric": "accuracy", "expected": expected}


SURE = (0.85, 0.95)  # predictions with this confidence should be right as often
_LEVEL = 1.6449  # quantile of a 90% normal interval
_WIDEST = 1.5  # largest width, relative to the binomial interval


def write_report(page: Report, results: Results) -> None:
    """Write a table of the results for each setting of the command, the aims, and all baselines."""
    baselines = beside(results, "delivered_baselines")
    page.text(
        "# What `labelfold compare` delivers",
        "Share of hidden labels that predictions.csv names rightly (%), mean over the draws of labels, beside the "
        "best of eight ten-line baselines *in hindsight*: the one with the highest mean on the same hidden rows. "
        "± is the standard error of the mean difference over the draws. *Promised* is the headline, *true* the "
        "same score on the hidden rows, *covered* how often the 90% interval of the headline holds it, *width* "
        "the interval's as a multiple of Wilson's binomial interval for as many labels.",
    )
    settings = sorted({row["parameters"] for row in results.rows})
    for setting in settings:
        _delivered(page, results.select(parameters=setting), baselines, setting)
    if not settings:
        page.text("The command line has not been run yet.")
    _baselines(page, baselines)


def _delivered(page: Report, rows: list[Row], baselines: Results, setting: str) -> None:
    """Add the table of one setting of the command, and the state of the aims."""
    labels = int(parameter(rows[0], "labels"))
    lines, gaps, errors, covered, widths = [], [], [], [], []
    for name, own in grouped(rows, "dataset").items():
        draws = grouped(own, "seed")
        found = {seed: {row["method"]: row["ours"] for row in some} for seed, some in draws.items()}
        ours = by_seed(row for row in own if row["method"] == "accuracy")
        best, theirs = _best(baselines.select(dataset=name, parameters=f"labels={labels}"), ours)
        gap = np.array([ours[seed] - theirs[seed] for seed in theirs])
        error = standard_error(gap)
        if len(gap):
            gaps.append(gap.mean())
            errors.append(error)
        inside, width = _promises(found.values(), labels)
        covered += inside
        widths += width
        spent = [float(row["seconds"]) for row in own if row["method"] == "accuracy"]
        line = [name, len(ours), number(mean(ours.values())), number(mean(theirs.values())), best]
        line.append(f"{number(mean(gap))} ± {number(error)}")
        line += [number(mean(float(v[q]) for v in found.values() if q in v)) for q in ("expected", "truth")]
        line += [f"{sum(inside)} of {len(inside)}", number(mean(width), 2), number(mean(spent), 0)]
        lines.append([*line, _most(v["method"] for v in found.values() if "method" in v)])
    page.text(f"## Delivered ({setting})")
    header = ["table", "draws", "delivered", "best baseline", "which", "difference", "promised", "true"]
    page.table([*header, "covered", "width", "seconds", "chosen most often"], lines)
    failed = [f"{row['dataset']} {row['seed']}: {row['ours']}" for row in rows if row["method"] == "failed"]
    if failed:
        page.text(f"{len(failed)} runs delivered nothing and count as 0% right: " + "; ".join(failed) + ".")
    page.table(["aim", "found", "reached"], _aims(gaps, errors, covered, widths, _pooled(rows)))


def _aims(
    gaps: Sequence[float],
    errors: Sequence[float],
    covered: Sequence[bool],
    widths: Sequence[float],
    sure: tuple[int, int],
) -> list[list[str]]:
    """Return each aim, the result, and whether the aim is met."""
    gap, error = np.array(gaps), np.nan_to_num(np.array(errors))
    close, least = int(np.sum(gap >= -error)), min(gaps, default=np.nan)
    held, width = mean(covered), mean(widths)
    right, count = sure
    share = right / count if count else np.nan
    rows = [
        (
            "difference at least minus one standard error on 8 of 10 tables",
            f"{close} of {len(gap)}",
            0 < 0.8 * len(gap) <= close,
        ),
        ("no difference below -2 points", f"least {number(least)}", least >= -2),
        ("the interval holds the truth in 9 of 10 runs", f"{sum(covered)} of {len(covered)}", held >= 0.9),
        (f"mean width at most {_WIDEST} times the binomial interval", number(width, 2), width <= _WIDEST),
        (
            f"predictions with confidence {SURE[0]} to {SURE[1]} are right as often",
            f"{number(100 * share)}% of {count:,}",
            SURE[0] <= share <= SURE[1],
        ),
    ]
    return [[aim, found, "yes" if reached else "no"] for aim, found, reached in rows]


def _best(rows: list[Row], draws: Iterable[str]) -> tuple[str, dict[str, float]]:
    """Return the baseline with the highest mean over these draws, and its accuracy in each."""
    draws = set(draws)
    rows = [row for row in rows if row["seed"] in draws]
    found = {method: by_seed(own) for method, own in grouped(rows, "method").items()}
    whole = {name: own for name, own in found.items() if len(own) == len(draws)}
    if not whole:
        return "not run", {}
    best = max(whole, key=lambda name: mean(whole[name].values()))
    return best, whole[best]


def _promises(draws: Iterable[dict[str, str]], labels: int) -> tuple[list[bool], list[float]]:
    """Return for each draw whether the interval contains the truth, and its width relative to Wilson's interval."""
    inside, widths = [], []
    for found in draws:
        low, high = float(found.get("low", "nan")), float(found.get("high", "nan"))
        if np.isnan(low) or np.isnan(high):
            continue
        inside.append(low <= float(found["truth"]) <= high)
        widths.append((high - low) / (100 * wilson_width(float(found["expected"]) / 100, labels)))
    return inside, widths


def wilson_width(share: float, count: int) -> float:
    """Return the width of Wilson's 90% interval for a share of ``count`` rows."""
    z2 = _LEVEL**2 / count
    return 2 * _LEVEL * float(np.sqrt(share * (1 - share) / count + z2 / (4 * count))) / (1 + z2)


def _pooled(rows: list[Row]) -> tuple[int, int]:
    """Return the numbers of right and of all predictions with that confidence."""
    right, count = (
        sum(int(row["ours"]) for row in rows if row["method"] == m) for m in ("sure and right", "sure")
    )
    return right, count


def _baselines(page: Report, baselines: Results) -> None:
    """Add a table of all baselines."""
    for setting in sorted({row["parameters"] for row in baselines.rows}):
        rows = baselines.select(parameters=setting)
        methods = grouped(rows, "method")
        lines = []
        for name, own in grouped(rows, "dataset").items():
            cells = grouped(own, "method")
            of = [mean(values(cells.get(m, []))) for m in methods]
            best = np.nanmax(of)
            lines.append([name, *(f"**{number(v)}**" if v == best else number(v) for v in of)])
        spent = [mean(values(own, "seconds")) for own in methods.values()]
        page.text(f"## Baselines ({setting})")
        page.table(["table", *methods], [*lines, ["seconds", *(number(s, 2) for s in spent)]])
        page.text(
            "Columns have unit variance (tf-idf of word counts), over all rows, for the RBF SVM, PCA + SVM, label "
            "spreading and logistic regression. C and gamma of the SVMs are chosen by cross-validation. Components "
            "have 95% of the variance (100 of tf-idf, where LDA has them too). Naive Bayes is Gaussian, or "
            "multinomial for counts."
        )


def _most(values: Iterable[str]) -> str:
    counts = Counter(values).most_common(1)
    return f"{counts[0][0]} ({counts[0][1]})" if counts else "–"


PARTS = {"baselines": baselines, "delivered": delivered}


TAKES = {"sets": TABLES, "draws": int, "time_limit": float}
main = experiment(__doc__, "delivered", Plan(), QUICK, PARTS, write_report, threads=None, **TAKES)

if __name__ == "__main__":
    main()
