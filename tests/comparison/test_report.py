"""The report: self-contained, escaped, readable without its figures."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import load_iris

from labelfold.comparison import compare
from labelfold.comparison.figures import MOST_CLASSES, class_look, plain
from labelfold.comparison.report import render
from labelfold.files import FileProblem
from labelfold.methods import available_methods

NASTY = "<script>alert(1)</script>"


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
    return compare(X, y, budgets=[6, 30], repeats=2, progress=False, name=f"flowers {NASTY}")


@pytest.fixture(scope="module")
def text(found):
    return render(found)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_it_needs_nothing_else(page):
    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        assert not {"src", "href", "srcset", "action"} & set(attrs), (tag, attrs)
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
    assert all(x.startswith("&lt;script&gt;alert(1)&lt;/script&gt;") for x in named)
    assert not [x for x in flat if "<" in x]
    assert any('say "hi" &amp; go' in x for x in flat)


def test_plain_leaves_quotes_which_plotly_would_not_read_back():
    assert plain('it\'s "a" <b>') == 'it\'s "a" &lt;b&gt;'


def test_the_figures_are_valid_plotly(page):
    import plotly.graph_objects as go

    maps = sum(method.embeds and method.compared for method in available_methods())
    assert set(page.figures) == {"plot-curve", *(f"plot-map-{i}" for i in range(maps))}
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
    curve = next(a["aria-label"] for a in plots if a["id"] == "plot-curve")
    for mean in found.table["mean"]:
        assert f"{100 * mean:.1f}%" in curve


def test_the_answer_comes_first_and_the_numbers_are_in_the_table(found, page):
    seen = " ".join("".join(page.text).split())
    assert found.answer in seen
    assert seen.index(found.answer) < seen.index("Accuracy by number of labels")
    for _, row in found.table.iterrows():
        assert f"{100 * row['mean']:.1f}% ± {100 * row['spread']:.1f}" in seen
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
    from dataclasses import replace

    from labelfold.methods import get_method

    def broken(k, X, random_state):
        raise RuntimeError(NASTY)

    X, y = load_iris(return_X_y=True)
    bad = replace(get_method("svm"), name="bad", title="Bad", build=broken, penalty=None)
    failing = compare(X, y, [bad, "svm"], budgets=[6], repeats=2, progress=False)
    failing.interrupted = True
    page = Page(render(failing))
    seen = "".join(page.text)
    assert f"Bad failed in 2 runs: RuntimeError: {NASTY}." in seen
    assert "Stopped early: this is what 4 runs gave." in seen
    assert [t for t, _ in page.tags].count("script") == 3


def test_one_component_is_drawn_against_nothing_and_says_so():
    X, y = load_iris(return_X_y=True)
    found = compare(X[:100], y[:100], ["lda"], budgets=[6], repeats=1, progress=False)
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
