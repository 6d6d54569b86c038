"""What is made of results: the size chosen, the ranking, and an answer no stronger than the runs."""

from dataclasses import replace

import numpy as np
import pytest

from labelfold.app.compare._results import Results
from labelfold.app.registry._methods import get_method


def made_up(scores, budgets=(10,), sizes=(2,), embeds=True):
    """A comparison with the scores given: {method: {size: one list of repeats a budget}}."""
    rows = [
        {"method": m, "k": k, "components": k, "budget": b, "repeat": r, "score": s}
        for m, of_size in scores.items()
        for k, lists in (of_size if isinstance(of_size, dict) else {sizes[0]: of_size}).items()
        for b, values in zip(budgets, lists, strict=True)
        for r, s in enumerate(values)
    ]
    settings = {"budgets": list(budgets), "components": list(sizes), "n_columns": 9, "metric": "accuracy"}
    settings["repeats"] = max(row["repeat"] for row in rows) + 1
    shown = replace(get_method("svm"), embeds=embeds)
    methods = {m: replace(shown, name=m, title=m.upper()) for m in scores}
    methods |= {m: replace(v, embeds=False) for m, v in methods.items() if m.startswith("raw")}
    for row in rows:
        if row["method"].startswith("raw"):
            row["k"] = row["components"] = None
    return Results(rows, settings, methods, data=None)  # which these results need not


def test_without_predictions_the_best_mean_is_named():
    found = made_up({"a": [[0.9, 0.8, 0.85]], "b": [[0.8, 0.7, 0.75]]})
    assert found.answer == "A with 2 components reached 85.0% right on rows held out."
    assert (found.best_, found.best_size_, found.choice) == ("a", 2, None)


def test_the_largest_budget_decides():
    found = made_up({"a": [[0.6, 0.6], [0.95, 0.95]], "b": [[0.9, 0.9], [0.9, 0.9]]}, budgets=(10, 50))
    assert found.best_ == "a"
    assert "With fewer labels another method was better: B with 10 labels." in found.details


def test_a_budget_that_few_reached_does_not():
    found = made_up({"a": [[0.6, 0.6], [0.95]], "b": [[0.9, 0.9], []]}, budgets=(10, 50))
    assert found.budget_ == 10
    assert found.best_ == "b"


def test_the_smallest_size_within_one_standard_error():
    scores = {"a": {2: [[0.80, 0.82]], 5: [[0.90, 0.94]], 9: [[0.91, 0.95]]}, "b": {2: [[0.5, 0.5]]}}
    found = made_up(scores, sizes=(2, 5, 9))
    # 9 is best with 0.93 and a standard error of 0.02; 5 has 0.92
    assert found.best_size_ == 5
    assert "With 9 components it reached 93.0%, which is within one standard error" in " ".join(found.details)
    assert found.lines["label"].tolist() == ["A, 5", "B, 2"]
    assert found.table.loc[found.table["label"] == "A, 9", "behind"].item() == 0
    assert found.lines.loc[found.lines["label"] == "A, 5", "behind"].item() == 0


def test_what_a_reduction_costs_is_told():
    found = made_up({"a": [[0.9, 0.9]], "raw": [[0.95, 0.96]], "b": [[0.8, 0.8]]})
    assert found.best_ == "raw"
    assert found.ranking["method"].tolist() == ["raw", "a", "b"]
    told = "It does not reduce the columns; with a reduction, A with 2 components reached 90.0%: "
    assert f"{told}5.5 ± 0.7 points worse." in found.details
    worse = made_up({"a": [[0.9, 0.9]], "raw": [[0.85, 0.86]]})
    assert "Without a reduction, RAW on all 9 columns reached 85.5%: 4.5 ± 0.7 points worse." in worse.details
    level = made_up({"a": [[0.9, 0.9]], "raw": [[0.8, 0.96]]})
    assert "about as good" in " ".join(level.details)
    single = made_up({"a": [[0.9]], "raw": [[0.8]]})
    assert "10.0 points worse, in one draw." in " ".join(single.details)
    only = made_up({"raw": [[0.9, 0.9]]})
    assert (only.best_, only.best_size_) == ("raw", None)
    assert "It does not reduce the columns" in " ".join(only.details)


def test_no_better_than_a_guess_is_said():
    found = made_up({"a": [[0.6, 0.7]], "b": [[0.5, 0.5]]})
    found.settings["counts"] = [65, 35]
    assert "the most frequent class would give 65.0%: the columns hardly help" in " ".join(found.details)
    found.settings["counts"] = [50, 50]
    assert "guessing" not in " ".join(found.details)


def test_it_says_how_many_repeats_were_run():
    found = made_up({"a": [[0.9, 0.9, 0.9]], "b": [[0.8, 0.8, 0.8]]})
    assert found.repeats_run == "3 repeats"
    found = made_up({"a": [[0.9, 0.9]], "b": [[0.8, 0.8]]})
    found.settings["repeats"] = 3
    assert found.repeats_run == "2 of the 3 repeats asked for"
    found = made_up({"a": [[0.9], [0.9, 0.8]], "b": [[0.8], [0.8, 0.8]]}, budgets=(10, 50))
    found.settings["repeats"] = 3
    assert found.repeats_run == "1 to 2 of the 3 repeats asked for"


def test_failed_runs_do_not_choose():
    nan = np.nan
    found = made_up(
        {"a": {2: [[0.7, 0.7]], 5: [[nan, nan]]}, "b": {2: [[nan, nan]], 5: [[nan, nan]]}}, sizes=(2, 5)
    )
    assert (found.best_, found.best_size_) == ("a", 2)
    assert found.ranking["mean"].isna().tolist() == [False, True]


def test_a_repeat_that_was_cut_short_does_not_count():
    found = made_up({"a": [[0.9, 0.9, 0.1]], "b": [[0.8, 0.8]]})
    found.stopped = "time limit"
    assert found.table["mean"].tolist() == pytest.approx([0.9, 0.8])
    assert len(found.results) == 5
    whole = made_up({"a": [[0.9, 0.9, 0.1]], "b": [[0.8, 0.8, 0.8]]})
    whole.stopped = "ctrl-c"
    assert whole.table["runs"].tolist() == [3, 3]
    first = made_up({"a": [[0.9]], "b": [[]]})
    first.stopped = "ctrl-c"
    assert first.table["runs"].tolist() == [1]
