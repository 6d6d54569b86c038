"""The report: self-contained, escaped, readable without its figures."""

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier

from labelfold.app.compare._held_out import predict_with_confidence
from labelfold.app.compare._review import correlations
from labelfold.app.io import FileProblem
from labelfold.app.registry._methods import get_method
from labelfold.app.report import compare
from labelfold.app.report._figures import plain, reliability
from labelfold.app.report._map import map_data
from labelfold.app.report._page import render

pytestmark = pytest.mark.usefixtures("quick_comparisons")
NASTY = "<script>alert(1)</script>"
METHODS = ["lda", "pca-svm", "sklearn-lda", "svm", "opls", "nmf-svm", "drsvm"]


class Page(HTMLParser):
    """Collects what a browser would see: tags with attributes, text outside scripts, and scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.scripts, self._inside = [], [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = (tag, dict(attrs).get("id"))

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside and self._inside[0] in ("script", "style"):
            self.scripts[self._inside] = data
        else:
            self.text.append(data)

    @property
    def data(self):
        return json.loads(self.scripts["script", "data"])

    @property
    def figures(self):
        return self.data["figures"]


def unpacked(values, kind):
    return np.frombuffer(base64.b64decode(values), dtype=kind)


@pytest.fixture(scope="module")
def found():
    X, y = load_iris(return_X_y=True)
    y = np.array([NASTY, 'say "hi" & go', "plain"], dtype=object)[y]
    y[::4] = None
    return compare(
        X, y, METHODS, [6, 30], [1, 2], repeats=2, time_limit=600, progress=False, name=f"flowers {NASTY}"
    )


@pytest.fixture(scope="module")
def text(found):
    return render(found)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_it_needs_nothing_else(page):
    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        assert not {"src", "href", "srcset", "action"} & set(attrs) or attrs["src"].startswith("data:"), tag
    policy = next(a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_plotly_is_inside_once(text):
    assert text.count("plotly.js v") == 1
    assert len(text) < 6_000_000


def test_labels_are_shown_as_text_and_never_run(text, page):
    assert [t for t, _ in page.tags].count("script") == 3
    assert NASTY in "".join(page.text)
    own = text[: text.index("plotly.js v")] + text[text.index('id="data"') :]
    assert NASTY not in own
    assert "alert(1)</script>" not in own
    assert 'say "hi" & go' in "".join(page.text)


def test_the_page_gets_labels_as_they_are_and_puts_them_in_as_text(page):
    """No script of the page makes markup of a string: names go in by textContent, or through plain() to plotly."""
    named = page.data["map"]["methods"][0]["channels"][0]["names"]
    assert NASTY in named
    assert 'say "hi" & go' in named
    own = page.scripts["script", None]
    assert "innerHTML" not in own
    assert "insertAdjacent" not in own
    assert "document.write" not in own
    texts = [t["text"] for f in page.figures.values() for t in f["data"] if "text" in t]
    flat = [x for t in texts for x in ([t] if isinstance(t, str) else t)]
    assert not [x for x in flat if "<" in x]


def test_plain_leaves_quotes_which_plotly_would_not_read_back():
    assert plain('it\'s "a" <b>') == 'it\'s "a" &lt;b&gt;'


def test_the_figures_are_valid_plotly(page):
    import plotly.graph_objects as go

    assert set(page.figures) == {
        "plot-budgets", "plot-sizes", "plot-methods", "plot-calibration",
    }  # fmt: skip
    for figure in page.figures.values():
        go.Figure(figure)  # raises on any unknown property or value
    ids = {a.get("id") for _, a in page.tags}
    assert set(page.figures) <= ids


def test_every_figure_is_described_for_those_who_cannot_see_it(found, page):
    plots = [a for _, a in page.tags if a.get("class") == "plot"]
    assert {a["id"] for a in plots} == set(page.figures)
    for attrs in plots:
        assert attrs["role"] == "img"
        assert len(attrs["aria-label"]) > 20
    curve = next(a["aria-label"] for a in plots if a["id"] == "plot-budgets")
    for mean in found.lines["mean"]:
        assert f"{100 * mean:.1f}%" in curve


def test_the_answer_comes_first_and_the_numbers_are_in_the_table(found, page):
    seen = " ".join("".join(page.text).split())
    assert found.answer in seen
    assert seen.index(found.answer) < seen.index("The map") < seen.index("The numbers")
    for _, row in found.lines.iterrows():
        spread = "" if np.isnan(row["spread"]) else f" ± {100 * row['spread']:.1f}"  # one repeat has none
        assert f"{100 * row['mean']:.1f}%{spread}" in seen
    assert "2 repeats" in seen
    assert re.search(r"scikit-learn \d", seen)
    for method in found.methods.values():
        assert method.summary in seen


def test_light_dark_and_small_screens(text, page):
    assert "prefers-color-scheme: dark" in text
    assert any(a.get("name") == "viewport" for _, a in page.tags)
    for figure in page.figures.values():
        assert figure["layout"]["paper_bgcolor"] == "rgba(0,0,0,0)"


def test_failures_and_interruptions_are_told(found):
    def broken(k, X, random_state):
        raise RuntimeError(NASTY)

    X, y = load_iris(return_X_y=True)
    bad = replace(get_method("svm"), name="bad", title="Bad", build=broken)
    failing = compare(X, y, [bad, "svm"], repeats=2, progress=False)
    failing.stopped = "ctrl-c"
    page = Page(render(failing))
    seen = "".join(page.text)
    assert f"Bad failed in 2 runs: RuntimeError: {NASTY}." in seen
    assert "It was stopped early by Ctrl-C: this is what 4 runs gave." in seen
    assert [t for t, _ in page.tags].count("script") == 3


def test_one_component_is_drawn_against_the_columns_beside_it():
    X, y = load_iris(return_X_y=True)
    found = compare(X[:100], y[:100], ["lda"], budgets=[6], components=2, repeats=1, progress=False)
    (shown,) = found.review.maps
    assert "at random" not in render(found)
    assert shown.axes == ("its one component", "the main direction of the columns beside it")
    x, y = shown.points.T
    assert abs(np.corrcoef(x, y)[0, 1]) < 1e-6
    best = max(abs(np.corrcoef(y, X[:100, j])[0, 1]) for j in range(4))
    assert best > 0.5


def test_the_map_has_every_row_with_its_label_prediction_and_columns(found):
    drawn, data = map_data(found), found.data
    assert drawn["n"] == 150
    assert unpacked(drawn["rows"], "<u4").tolist() == list(range(1, 151))
    np.testing.assert_array_equal(unpacked(drawn["labelled"], "u1"), data.labels.labelled)
    own = {c["name"]: c for c in drawn["methods"][0]["channels"]}
    assert list(own) == [
        "label, or prediction where there is none", "label", "prediction", "confidence",
        "right or wrong without its label",
    ]  # fmt: skip
    label = unpacked(own["label"]["values"], "<u2").astype(int)
    np.testing.assert_array_equal(np.where(label == 65535, -1, label), data.y)
    said = found.fitted().predict(data.X)
    np.testing.assert_array_equal(np.array(data.classes)[unpacked(own["prediction"]["values"], "<u2")], said)
    state = unpacked(own["right or wrong without its label"]["values"], "<u2")
    told = found.review.left_out
    np.testing.assert_array_equal(state[data.labels.index] == 1, told.right(data.truth))
    column = drawn["columns"][2]
    step = (column["high"] - column["low"]) / 254
    values = column["low"] + step * unpacked(column["values"], "u1")
    np.testing.assert_allclose(values, data.X[:, 2], atol=0.51 * step)


def test_several_labels_a_row_are_shown_one_at_a_time():
    X, _ = load_iris(return_X_y=True)
    Y = pd.DataFrame({"<big>": X[:, 2] > 4, "wide": X[:, 1] > 3}).astype(float)
    Y.iloc[::2] = np.nan
    found = compare(X, Y, ["labelfold"], repeats=1, progress=False)
    drawn = map_data(found)
    names = [c["name"] for c in drawn["methods"][0]["channels"]]
    assert names[-2:] == ["confidence", "right or wrong without its label"]
    assert sorted(names[:-2]) == ["label <big>", "label wide"]
    first = next(c for c in drawn["methods"][0]["channels"] if c["name"] == "label <big>")
    assert first["names"] == ["no", "yes"]
    known = found.data.labels.index
    np.testing.assert_array_equal(unpacked(first["values"], "<u2")[known], (X[:, 2] > 4)[known])
    assert "rightly given" in section(render(found), "confusion")


def test_many_rows_are_drawn_in_part_and_the_page_says_so(found, monkeypatch):
    import copy

    monkeypatch.setattr("labelfold.app.compare._review._MAX_POINTS", 130)
    fewer = copy.copy(found)
    fewer.__dict__.pop("review", None)
    assert "130 of 150 rows (drawn at random)" in render(fewer)
    rows = fewer.review.maps[0].rows
    assert len(set(rows)) == 130
    assert set(found.data.unlabelled) <= set(rows)


def test_report_writes_a_file_or_says_why(found, tmp_path):
    path = found.report(tmp_path / "r.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(FileProblem, match="no folder"):
        found.report(tmp_path / "no" / "r.html")


def section(page_text, name):
    """The text of a section, between its heading and the next one."""
    start = page_text.index(f'aria-labelledby="{name}"')
    return page_text[start : page_text.index("</section>", start)]


def test_every_part_is_there(text, found):
    names = re.findall(r'<section aria-labelledby="([a-z-]+)"', text)
    expected = [
        "maps", "steps", "next", "again", "methods", "numbers", "confusion", "calibration", "parts", "budgets",
        "sizes", "how", "left-out",
    ]  # fmt: skip
    assert names == expected
    how = section(text, "how")
    for words in ("Command", "Protocol", "Seed", "numpy", "core"):
        assert words in how


def test_colours_are_the_same_in_every_figure(found, page):
    def colours(name):
        lines = [t for t in page.figures[name]["data"] if "line" in t]
        return {t["meta"].partition(",")[0]: t["line"]["color"] for t in lines}

    by_budget, by_size = colours("plot-budgets"), colours("plot-sizes")
    assert by_size
    assert by_size.items() <= by_budget.items()
    shown = [t for t in page.figures["plot-budgets"]["data"] if "line" in t and "visible" not in t]
    assert len(shown) == 6  # the best; the seventh waits in the legend


def test_the_band_is_one_standard_deviation_and_stops_at_100(found, page):
    band, line = page.figures["plot-budgets"]["data"][:2]
    rows = found.lines[found.lines["label"] == line["meta"]]
    upper, lower = np.split(np.array(band["y"], dtype=float), 2)
    top = np.minimum(rows["mean"] + rows["spread"], 1)
    np.testing.assert_allclose(upper, top, atol=1e-4)
    np.testing.assert_allclose(lower[::-1], rows["mean"] - rows["spread"], atol=1e-4)
    for figure in page.figures.values():
        for trace in figure["data"]:
            if trace.get("fill") == "toself":
                assert max(trace["y"]) <= 1


def test_every_method_has_a_line_with_its_interval_and_rows(found, page):
    drawn = page.figures["plot-methods"]
    titles = [found.methods[m].title for m in found.ranking["method"]]
    assert drawn["layout"]["yaxis"]["ticktext"] == titles
    for label, one in found.scores().items():
        assert 0 <= one.low <= one.value <= one.high <= 1
        assert one.n_rows == found.data.labels.n_labelled, label


def test_the_confusion_counts_every_labelled_row_once(found, text, page):
    held = page.data["held"]
    true, guess = unpacked(held["true"], "<u4"), unpacked(held["guess"], "<u4")
    np.testing.assert_array_equal(true, found.data.truth)
    assert held["names"] == [found.data.row(i) for i in found.data.labels.index]
    shown = section(text, "confusion")
    for c in range(3):
        assert re.search(
            rf'data-true="{c}" data-guess="{c}"[^>]*>{np.sum((true == c) & (guess == c))}<', shown
        )


def test_confidence_beside_how_often_it_was_right(found):
    told = found.review.left_out
    groups = reliability(found)
    assert sum(n for *_, n in groups) == told.tested.sum()
    right = sum(share * n for _, share, _, _, n in groups)
    assert right == pytest.approx(told.right(found.data.truth).sum())
    assert all(low <= share <= high <= 1 for _, share, low, high, _ in groups)
    assert all(n >= 5 for *_, n in groups[:-1])


def test_many_classes_are_a_list_of_mistakes():
    X = np.random.default_rng(0).normal(size=(30, 4))
    X, y = np.repeat(X, 6, axis=0), np.repeat([f"<{i}>" for i in range(30)], 6)
    y[3] = "<7>"
    X = X + 0.01 * np.random.default_rng(1).normal(size=X.shape)
    found = compare(X, y, ["svm"], repeats=1, progress=False)
    shown = section(render(found), "confusion")
    assert "&lt;7&gt;" in shown
    assert 'data-true="' in shown
    assert "true class" not in shown


def test_views_are_told_by_the_columns_they_look_at():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 3)), columns=["<noise>", "signal", "more noise"])
    y = (X["signal"] > 0).to_numpy().astype(object)
    y[::3] = None
    found = compare(X, y, ["labelfold"], repeats=1, progress=False)
    assert sum(view.share for view in found.review.views) == pytest.approx(1, abs=0.05)
    assert all(view.columns[0] == "signal" for view in found.review.views)
    assert "goes along with signal" in section(render(found), "parts")


def test_without_a_reduction_the_map_is_of_the_columns():
    X, y = load_iris(return_X_y=True)
    found = compare(X, y, ["svm"], repeats=1, progress=False)
    (shown,) = found.review.maps
    assert shown.title == "principal components"
    assert np.ptp(shown.points, axis=0).min() > 0
    shown_parts = section(render(found), "parts")
    assert "Taken for 0" in shown_parts


def test_a_wrong_label_is_worth_a_second_look():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
    names[7], names[::3] = "virginica", None
    ids = [f"flower {i}" for i in range(150)]
    found = compare(X, names, ["labelfold"], repeats=1, progress=False, ids=ids)
    again = section(render(found), "again")
    first = re.search(r'<th scope="row">([^<]*)</th><td>([^<]*)</td><td>([^<]*)</td>', again)
    assert first.groups() == ("flower 7", "virginica", "setosa")


def test_rows_to_label_next_are_unsure_ones(found):
    review, data = found.review, found.data
    assert set(review.next_rows) <= set(data.unlabelled)
    _, confidence = predict_with_confidence(found.refit(), data.X[data.unlabelled])
    assert len(set(review.next_rows)) == len(review.next_rows) == 20
    assert review.next_confidence.mean() < confidence.mean()


def test_confidence_and_correlations():
    X, y = load_iris(return_X_y=True)
    from sklearn.svm import LinearSVC

    from labelfold import LDA

    _, sure = predict_with_confidence(LDA().fit(X, y), X)
    np.testing.assert_allclose(sure, LDA().fit(X, y).predict_proba(X).max(axis=1))
    _, gap = predict_with_confidence(LinearSVC().fit(X, y), X)  # it has scores and no probabilities
    assert ((gap >= 0.5) & (gap <= 1)).all()
    two = LinearSVC().fit(X[:100], y[:100])
    _, far = predict_with_confidence(two, X[:100])
    assert np.argmin(far) == np.argmin(np.abs(two.decision_function(X[:100])))
    _, unknown = predict_with_confidence(Mute().fit(X, y), X)
    assert np.isnan(unknown).all()
    Z = X @ np.arange(8.0).reshape(4, 2)
    expected = np.corrcoef(X.T, Z.T)[4:, :4]
    np.testing.assert_allclose(correlations(X, Z), expected, atol=1e-10)
    np.testing.assert_allclose(correlations(sp.csr_array(X), Z), expected, atol=1e-8)
    assert (correlations(np.full((5, 2), 0.1), np.arange(5.0)[:, None]) == 0).all()


class Mute(DummyClassifier):
    """A classifier that never says how sure it is."""

    predict_proba = property()


def test_a_second_ctrl_c_leaves_out_what_takes_fitting(found, tmp_path):
    import copy

    hasty = copy.copy(found)
    hasty.forgo_review()
    names = re.findall(r'<section aria-labelledby="([a-z-]+)"', render(hasty))
    assert not {"maps", "parts", "confusion"} & set(names)
    assert "numbers" in names


def test_no_method_could_be_fitted():
    def broken(k, X, random_state):
        raise RuntimeError("no")

    X, y = load_iris(return_X_y=True)
    bad = replace(get_method("svm"), name="bad", title="Bad", build=broken)
    page = Page(render(compare(X, y, [bad], budgets=[6], repeats=1, progress=False)))
    assert "No method could be fitted" in "".join(page.text)


def test_a_notebook_shows_the_answer_the_methods_and_a_map(found):
    page = Page(found._repr_html_())
    seen = " ".join("".join(page.text).split())
    assert found.answer in seen
    for method in found.methods.values():
        assert method.title in seen
    assert [t for t, _ in page.tags].count("circle") == 150
    assert "script" not in [t for t, _ in page.tags]
    assert NASTY in seen
    assert len(found._repr_html_()) < 100_000


def test_a_comparison_shows_itself(found):
    lines = repr(found).splitlines()
    assert lines[0] == found.answer
    assert len(lines) == 3 + len(found.methods)
    for line, method in zip(lines[3:], found.ranking["method"], strict=True):
        assert line.strip().startswith(found.methods[method].title)
