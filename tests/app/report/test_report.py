"""The report: self-contained, escaped, readable without its figures."""

import base64
import json
import re
import struct
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier

from labelfold.app._explain import correlations, predict_with_confidence
from labelfold.app.compare import compare
from labelfold.app.compare._next_rows import spread_out
from labelfold.app.io import FileProblem
from labelfold.app.registry._methods import get_method
from labelfold.app.report._figures import MOST_CLASSES, class_look, plain
from labelfold.app.report._page import render
from labelfold.app.report._thumbnails import picture

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
    def figures(self):
        return json.loads(self.scripts["script", "figures"])


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
    own = text[: text.index("plotly.js v")] + text[text.index('id="figures"') :]
    assert NASTY not in own
    assert "alert(1)</script>" not in own
    assert 'say "hi" & go' in "".join(page.text)


def test_plotly_gets_labels_with_their_brackets_escaped(page):
    texts = [t["text"] for f in page.figures.values() for t in f["data"] if "text" in t]
    flat = [x for t in texts for x in ([t] if isinstance(t, str) else t)]
    named = [x for x in flat if "alert" in x]
    assert named
    assert all("&lt;script&gt;alert(1)&lt;/script&gt;" in x for x in named)
    assert not [x for x in flat if "<" in x.replace("<br>", "")]
    assert any('say "hi" &amp; go' in x for x in flat)


def test_plain_leaves_quotes_which_plotly_would_not_read_back():
    assert plain('it\'s "a" <b>') == 'it\'s "a" &lt;b&gt;'


def test_the_figures_are_valid_plotly(page):
    import plotly.graph_objects as go

    assert set(page.figures) == {
        "plot-budgets", "plot-sizes", "plot-seconds", *(f"plot-map-{i}" for i in range(2)),
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
    assert seen.index(found.answer) < seen.index("What it costs")
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
    bad = replace(get_method("svm"), name="bad", title="Bad", build=broken, penalty=None)
    failing = compare(X, y, [bad, "svm"], repeats=2, progress=False)
    failing.stopped = "ctrl-c"
    page = Page(render(failing))
    seen = "".join(page.text)
    assert f"Bad failed in 2 runs: RuntimeError: {NASTY}." in seen
    assert "It was stopped early by Ctrl-C: this is what 4 runs gave." in seen
    assert [t for t, _ in page.tags].count("script") == 3


def test_one_component_is_drawn_against_nothing_and_says_so():
    X, y = load_iris(return_X_y=True)
    found = compare(X[:100], y[:100], ["lda"], budgets=[6], components=2, repeats=1, progress=False)
    page = Page(render(found))
    assert "the height of a point is random" in "".join(page.text)
    assert page.figures["plot-map-0"]["layout"]["yaxis"]["title"]["text"] == "at random, no meaning"


def test_classes_can_be_told_apart():
    looks = [class_look(code) for code in range(MOST_CLASSES)]
    assert len(set(looks)) == MOST_CLASSES
    assert class_look(-1) == class_look(MOST_CLASSES)
    assert class_look(-1) not in looks


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
    expected = ["seconds", "numbers", "maps", "budgets", "sizes", "parts", "confusion", "next", "how"]
    assert [n for n in names if n != "left-out"] == expected
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


def test_the_band_is_one_standard_deviation(found, page):
    band, line = page.figures["plot-budgets"]["data"][:2]
    rows = found.lines[found.lines["label"] == line["meta"]]
    upper, lower = np.split(np.array(band["y"], dtype=float), 2)
    np.testing.assert_allclose(upper - np.array(line["y"]), rows["spread"], atol=1e-4)
    np.testing.assert_allclose(upper - lower[::-1], 2 * rows["spread"], atol=1e-4)


def test_the_confusion_counts_every_row_held_back(found, text):
    confusion = found.review.confusion
    best = found.winner
    assert confusion.sum() == best["runs"] * found.data.labels.n_labelled
    assert np.trace(confusion) / confusion.sum() == pytest.approx(best["mean"])
    for value in np.diag(confusion):
        assert f">{value}</td>" in section(text, "confusion")


def test_many_classes_are_a_list_of_mistakes(found):
    from labelfold.app.report._held_back import _mistakes

    total = np.diag(np.full(30, 9))
    total[3, 7] = 4
    rows = _mistakes(total, [f"<{i}>" for i in range(30)])
    assert rows.count("<tr>") == 1
    assert "&lt;3&gt;" in rows
    assert "31%" in rows


def test_rows_to_label_next_are_unsure_and_spread_out(found):
    review, data = found.review, found.data
    assert set(review.next_rows) <= set(data.unlabelled)
    _, confidence = predict_with_confidence(found.refit(), data.X[data.unlabelled])
    assert review.next_confidence[0] == confidence.min()
    assert len(set(review.next_rows)) == len(review.next_rows) == 20
    # of the fifth that it is least sure of, or the twenty
    assert review.next_confidence.max() <= np.sort(confidence)[max(20, len(confidence) // 5) - 1]


def test_spread_out_takes_no_neighbours():
    Z = np.array([[0.0, 0], [0.01, 0], [5, 5], [5.01, 5], [0, 5]])
    assert spread_out(Z, 3).tolist() in ([0, 3, 4], [0, 2, 4])
    assert spread_out(np.zeros((4, 2)), 3).tolist() == [0]


def test_pictures_of_components(tmp_path):
    values = np.array([[0.0, 1.0], [-1.0, 0.5]])
    uri = picture(values, 1.0)
    raw = base64.b64decode(uri.partition(",")[2])
    assert raw.startswith(b"\x89PNG")
    assert struct.unpack(">II", raw[16:24]) == (2, 2)
    start = raw.index(b"IDAT") + 4
    lines = zlib.decompress(raw[start:-16])
    assert list(lines) == [0, 255, 255, 255, 178, 24, 43, 0, 33, 102, 172, 216, 140, 149]


def test_confidence_and_correlations():
    X, y = load_iris(return_X_y=True)
    from labelfold import LDA, OPLS

    _, sure = predict_with_confidence(LDA().fit(X, y), X)
    np.testing.assert_allclose(sure, LDA().fit(X, y).predict_proba(X).max(axis=1))
    _, gap = predict_with_confidence(OPLS(ridge=1.0).fit(X, y), X)
    assert ((gap >= 0.5) & (gap <= 1)).all()
    two = OPLS(ridge=1.0).fit(X[:100], y[:100])
    _, far = predict_with_confidence(two, X[:100])
    scores = np.abs(two.decision_function(X[:100]).reshape(100, -1))
    assert np.argmin(far) == np.argmin(scores[:, 0] if scores.shape[1] == 1 else np.ptp(scores, axis=1))
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
    bad = replace(get_method("svm"), name="bad", title="Bad", build=broken, penalty=None)
    page = Page(render(compare(X, y, [bad], budgets=[6], repeats=1, progress=False)))
    assert "No method could be fitted" in "".join(page.text)
