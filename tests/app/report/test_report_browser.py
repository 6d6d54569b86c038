"""The report in a real browser: it draws, says nothing on the console, asks for nothing, and answers the mouse."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from browser import CHROMIUM, Browser
from labelfold.app.compare import compare
from labelfold.app.report._figures import COLOURS

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium here; on Debian: apt-get install chromium"
)

NASTY = "<script>document.title='run'</script>"


@pytest.fixture(scope="module")
def found():
    X, y = load_digits(return_X_y=True, as_frame=True)
    X, y = X[:400], y[:400]
    names = np.array([NASTY, *(f"digit <b>{i}</b>" for i in range(1, 10))], dtype=object)[y]
    names[150:] = None
    ids = [f"image {i} <i>&amp;" for i in range(len(X))]
    return compare(
        X,
        names,
        ["lda", "pca-svm", "naive-bayes"],
        budgets=[20, 80],
        components=[2, 5],
        repeats=2,
        progress=False,
        ids=ids,
        name=f"digits {NASTY}",
    )


@pytest.fixture(scope="module")
def report(found, tmp_path_factory):
    return found.report(tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def page(browser, report):
    browser.look()
    browser.open(report)
    return browser


def quiet(page, report):
    """Tell that the page wrote no error and asked for nothing but itself."""
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith(("data:", "blob:"))] == [report.as_uri()]


def test_it_draws_without_an_error_or_a_request(page, report):
    plots = page.run("[...document.querySelectorAll('.plot')].map(p => p.id)")
    assert plots == ["plot-seconds", "plot-map-0", "plot-map-1", "plot-budgets", "plot-sizes"]
    for plot in plots:
        assert page.run(f"document.querySelectorAll('#{plot} .main-svg').length") > 0
        assert page.run(f"document.querySelectorAll('#{plot} .scatterlayer .trace path').length") > 0
    quiet(page, report)


def test_the_legend_shows_and_hides_methods_by_key(page, report):
    visible = "document.getElementById('plot-budgets').data.filter(t => t.visible !== false).length"
    assert page.run("document.querySelectorAll('.legend').length") == 2
    names = page.run("[...document.querySelector('.legend').children].map(b => b.textContent.slice(2))")
    assert len(names) == 3
    assert page.run(visible) == 6  # a line and its band each
    page.run("document.querySelector('.legend button').focus()")
    for left, pressed in ((4, "false"), (6, "true")):
        page.run("document.activeElement.click()")
        page.wait(f"{visible} === {left}")
        assert page.run("document.activeElement.ariaPressed") == pressed
    quiet(page, report)


def test_labels_are_text_and_never_run(page):
    assert page.run("document.title").endswith(f"{NASTY}?")
    assert NASTY in page.run("document.querySelector('.key').textContent")
    assert page.run("document.querySelectorAll('b, i').length") == 0
    assert page.run("document.querySelectorAll('script').length") == 3


def test_pointing_at_a_row_says_which_it_is(page, report, found):
    """Every kind of point: labelled and unlabelled."""
    shown = found.review.maps[0]
    page.run("document.getElementById('plot-map-0').scrollIntoView({block: 'center'})")
    for role in ("labelled", "unlabelled"):
        text = None
        apart = np.linalg.norm(shown.points[:, None] - shown.points, axis=2)
        apart[np.diag_indices_from(apart)] = np.inf
        alone = np.argsort(-apart.min(axis=1))  # others lie under one another
        for i in alone[shown.role[alone] == role][:10]:
            place = page.run(
                "(() => { const p = document.getElementById('plot-map-0'), l = p._fullLayout, "
                "b = p.querySelector('.nsewdrag').getBoundingClientRect();"
                f"return [b.x + l.xaxis.l2p({float(shown.points[i, 0])}), "
                f"b.y + l.yaxis.l2p({float(shown.points[i, 1])})]; }})()"
            )
            # Away first: what is said of the last point stays until the pointer is elsewhere.
            page.point_at(5, 5)
            page.wait("document.querySelectorAll('#plot-map-0 .hoverlayer .hovertext').length == 0")
            page.point_at(*place)
            page.wait("document.querySelectorAll('#plot-map-0 .hoverlayer .hovertext').length > 0")
            text = page.run(
                "[...document.querySelectorAll('#plot-map-0 .hoverlayer .hovertext tspan')]"
                ".map(t => t.textContent).join('|')"
            )
            if found.data.row(shown.rows[i]) in text:
                break
        row = shown.rows[i]
        label = found.data.named(found.data.y[row])
        assert found.data.row(row) in text
        assert f"label: {label or 'none'}" in text
        assert f"prediction: {shown.predicted[i]}" in text
        assert f"confidence: {shown.confidence[i]:.0%}" in text
        page.point_at(5, 5)
    quiet(page, report)


def test_unlabelled_points_have_the_colour_of_their_prediction(page, found):
    colours = page.run(
        "document.getElementById('plot-map-0')._fullData.filter(t => t.marker.opacity < 0.5).map(t => t.marker.color)"
    )
    shown = found.review.maps[0]
    said = {label for label, role in zip(shown.predicted, shown.role, strict=True) if role == "unlabelled"}
    assert sorted(colours) == sorted(COLOURS[found.data.classes.index(label)] for label in said)


def test_on_a_phone_nothing_is_wider_than_the_screen(browser, report):
    browser.look(360, 740, mobile=True)
    browser.open(report)
    assert browser.run("document.documentElement.scrollWidth") <= 360
    sizes = browser.run(
        "[...document.querySelectorAll('p, li, dd, td')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 12
    # names beside points would cover each other
    assert browser.run("document.getElementById('plot-seconds').data.every(t => t.mode === 'markers')")
    assert browser.run("document.querySelectorAll('.legend').length") == 3
    quiet(browser, report)


def luminance(colour):
    """Relative luminance of 'rgb(r, g, b)', as WCAG defines it."""
    parts = [int(float(v)) / 255 for v in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_in_light_and_in_dark(browser, report, dark):
    browser.look(dark=dark)
    browser.open(report)
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (luminance(paper) < 0.05) == dark
    for element in ("body", ".note", ".facts", "h1", "td.best", "dt", "tr.chosen th", "td small"):
        ink = browser.run(f"getComputedStyle(document.querySelector('{element}')).color")
        bright, dim = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, (element, ink)
    figure = browser.run("document.getElementById('plot-budgets')._fullLayout.font.color")
    assert figure == ("#e7ebf0" if dark else "#1d2430")
    quiet(browser, report)


def test_everything_has_a_name_and_a_place_in_the_order_of_keys(page):
    assert page.run("[...document.querySelectorAll('img')].every(i => i.alt.length > 10)")
    assert page.run(
        "[...document.querySelectorAll('.plot')].every(p => p.getAttribute('aria-label').length > 20)"
    )
    assert page.run("document.querySelectorAll('.images img').length") == 5
    page.run("document.body.focus()")
    seen = []
    for _ in range(14):
        page.press("Tab")
        seen.append(page.run("document.activeElement.id || document.activeElement.className"))
    assert {"scroll", "next-list", "copy"} <= set(seen)


def test_the_list_to_copy(page, found):
    rows = [found.data.row(i) for i in found.review.next_rows]
    assert page.run("document.getElementById('next-list').value").split("\n") == rows
    assert not set(found.review.next_rows) & set(found.data.labels.index)
    page.run("document.getElementById('copy').click()")
    page.wait("document.getElementById('copied').textContent.length > 0")
    assert page.run("getSelection().toString()") == "\n".join(rows)


def test_it_prints_in_dark_ink_whatever_the_screen_is_like(browser, report):
    browser.look(dark=True)
    browser.open(report)
    ink = "document.getElementById('plot-budgets')._fullLayout.font.color"
    browser.run("dispatchEvent(new Event('beforeprint'))")
    browser.wait(f"{ink} === '#1d2430'")
    browser.run("dispatchEvent(new Event('afterprint'))")
    browser.wait(f"{ink} === '#e7ebf0'")
    printed = browser.pdf()
    assert printed.startswith(b"%PDF")
    pages = max(int(n) for n in re.findall(rb"/Count (\d+)", printed))
    assert 3 <= pages <= 12
    quiet(browser, report)


def test_a_comparison_of_columns_with_names(browser, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 4)), columns=["<b>size</b>", "b", "c", "d"])
    y = (X.iloc[:, 0] > 0).astype(int).to_numpy()
    found = compare(X, y, ["lda", "svm"], budgets=[10], components=1, repeats=1, progress=False)
    path = found.report(tmp_path / "report.html")
    browser.look()
    browser.open(path)
    assert browser.run("document.querySelector('.features .name').textContent") == "<b>size</b>"
    assert "Every row has a label" in browser.run(
        "document.querySelector('[aria-labelledby=next]').textContent"
    )
    quiet(browser, path)
