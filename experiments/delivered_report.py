"""The page of `delivered.py`, written from its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from common import Report
from result_rows import Results, Row, by_seed, grouped, parameter, values

SURE = (0.85, 0.95)  # predictions with this confidence should be right as often
_LEVEL = 1.6449  # quantile of a 90% normal interval
_WIDEST = 1.5  # largest width, relative to the binomial interval


def write_report(results: Results, baselines: Results, path: Path) -> None:
    """Write a table of the results for each setting of the command, the aims, and all baselines."""
    page = Report(path)
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
    page.write()


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
        error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
        if len(gap):
            gaps.append(gap.mean())
            errors.append(error)
        inside, width = _promises(found.values(), labels)
        covered += inside
        widths += width
        spent = [float(row["seconds"]) for row in own if row["method"] == "accuracy"]
        line = [name, len(ours), _number(_mean(ours.values())), _number(_mean(theirs.values())), best]
        line.append(f"{_number(_mean(gap))} ± {_number(error)}")
        line += [_number(_mean(float(v[q]) for v in found.values() if q in v)) for q in ("expected", "truth")]
        line += [f"{sum(inside)} of {len(inside)}", _number(_mean(width), 2), _number(_mean(spent), 0)]
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
    held, width = _mean(covered), _mean(widths)
    right, count = sure
    share = right / count if count else np.nan
    rows = [
        (
            "difference at least minus one standard error on 8 of 10 tables",
            f"{close} of {len(gap)}",
            0 < 0.8 * len(gap) <= close,
        ),
        ("no difference below -2 points", f"least {_number(least)}", least >= -2),
        ("the interval holds the truth in 9 of 10 runs", f"{sum(covered)} of {len(covered)}", held >= 0.9),
        (f"mean width at most {_WIDEST} times the binomial interval", _number(width, 2), width <= _WIDEST),
        (
            f"predictions with confidence {SURE[0]} to {SURE[1]} are right as often",
            f"{_number(100 * share)}% of {count:,}",
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
    best = max(whole, key=lambda name: _mean(whole[name].values()))
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
            of = [_mean(values(cells.get(m, []))) for m in methods]
            best = np.nanmax(of)
            lines.append([name, *(f"**{_number(v)}**" if v == best else _number(v) for v in of)])
        spent = [_mean(values(own, "seconds")) for own in methods.values()]
        page.text(f"## Baselines ({setting})")
        page.table(["table", *methods], [*lines, ["seconds", *(_number(s, 2) for s in spent)]])
        page.text(
            "Columns have unit variance (tf-idf of word counts), over all rows, for the RBF SVM, PCA + SVM, label "
            "spreading and logistic regression. C and gamma of the SVMs are chosen by cross-validation. Components "
            "have 95% of the variance (100 of tf-idf, where LDA has them too). Naive Bayes is Gaussian, or "
            "multinomial for counts."
        )


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return float(np.mean(values)) if values else np.nan


def _number(value: float, digits: int = 1) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def _most(values: Iterable[str]) -> str:
    counts = Counter(values).most_common(1)
    return f"{counts[0][0]} ({counts[0][1]})" if counts else "–"
