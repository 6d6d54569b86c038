"""The report in a real browser: it draws, says nothing on the console, asks for nothing, and answers the mouse."""

import base64
import json
import re
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from browser import CHROMIUM, Browser
from labelfold.app.report import compare

pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no Chromium here; on Debian: apt-get install chromium"
    ),
    pytest.mark.usefixtures("quick_comparisons"),
]

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
    assert plots == [
        "plot-methods", "plot-calibration", *(f"plot-part-{i}" for i in range(5)), "plot-budgets", "plot-sizes",
    ]  # fmt: skip
    for plot in plots:
        assert page.run(f"document.querySelectorAll('#{plot} .main-svg').length") > 0
        marks = ".heatmaplayer image" if "part" in plot else ".scatterlayer .trace path"
        assert page.run(f"document.querySelectorAll('#{plot} {marks}').length") > 0
    assert ink(page) > 1000
    quiet(page, report)


def ink(page):
    """Return how many pixels of the map are drawn on."""
    page.run("window.redrawMap()")
    return page.run(
        "(() => { const c = document.getElementById('map-canvas'), d = document.createElement('canvas');"
        "Object.assign(d, {width: c.width, height: c.height});"
        "const g = d.getContext('2d', {willReadFrequently: true}); g.drawImage(c, 0, 0);"
        "const p = g.getImageData(0, 0, c.width, c.height).data;"
        "let n = 0; for (let i = 3; i < p.length; i += 4) n += p[i] > 0; return n; })()"
    )


def change(page, control, text):
    """Choose an option by its text."""
    page.run(
        f"(() => {{ const s = document.getElementById('{control}');"
        f"s.value = [...s.options].find((o) => o.textContent === {text!r}).value;"
        "s.dispatchEvent(new Event('change')); })()"
    )


def legend(page):
    return page.run("[...document.getElementById('map-legend').children].map((b) => b.textContent)")


def test_the_legend_shows_and_hides_methods_by_key(page, report):
    visible = "document.getElementById('plot-budgets').data.filter(t => t.visible !== false).length"
    first = "document.querySelector('[aria-labelledby=budgets] .legend')"
    names = page.run(f"[...{first}.children].map(b => b.textContent.slice(2))")
    assert len(names) == 3
    assert page.run(visible) == 6  # a line and its band each
    page.run(f"{first}.querySelector('button').focus()")
    for left, pressed in ((4, "false"), (6, "true")):
        page.run("document.activeElement.click()")
        page.wait(f"{visible} === {left}")
        assert page.run("document.activeElement.ariaPressed") == pressed
    quiet(page, report)


def test_labels_are_text_and_never_run(page):
    assert page.run("document.title").endswith(f"{NASTY}?")
    assert NASTY in page.run("document.getElementById('map-legend').textContent")
    assert page.run("document.querySelectorAll('b, i').length") == 0
    assert page.run("document.querySelectorAll('script').length") == 3


def test_pointing_at_a_row_says_which_it_is(page, report, found):
    """Every kind of point: labelled and unlabelled."""
    shown = found.review.maps[0]
    page.run("document.getElementById('map-canvas').scrollIntoView({block: 'center'})")
    apart = np.linalg.norm(shown.points[:, None] - shown.points, axis=2)
    apart[np.diag_indices_from(apart)] = np.inf
    alone = np.argsort(-apart.min(axis=1))  # others lie under one another
    is_labelled = found.data.labels.labelled[shown.rows]
    for role in (True, False):
        for i in alone[is_labelled[alone] == role][:10]:
            place = page.run(
                "(() => { const b = document.getElementById('map-canvas').getBoundingClientRect(), "
                f"p = labelfoldMap.place({i}); return [b.x + p[0], b.y + p[1]]; }})()"
            )
            page.point_at(*place)
            page.wait("!document.getElementById('map-tip').hidden")
            text = page.run("[...document.getElementById('map-tip').children].map((d) => d.textContent)")
            if text[0] == found.data.row(shown.rows[i]):
                break
        row = shown.rows[i]
        assert text[0] == found.data.row(row)
        assert f"label: {found.data.named(found.data.y[row]) or 'none'}" in text
        assert f"prediction: {found.data.named(shown.predicted[i])}" in text
        assert f"confidence: {shown.confidence[i]:.0%}" in text
    page.point_at(5, 5)
    page.wait("document.getElementById('map-tip').hidden")
    quiet(page, report)


def test_rows_that_are_images_are_shown_beside_points_and_in_lists(page, report, found):
    """The pixels on the screen are those of the row."""
    shown = found.review.maps[0]
    drawn = "(c) => [c.width, c.height, ...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"
    page.run("document.getElementById('map-canvas').scrollIntoView({block: 'center'})")
    place = page.run(
        "(() => { const b = document.getElementById('map-canvas').getBoundingClientRect(), "
        "p = labelfoldMap.place(0); return [b.x + p[0], b.y + p[1]]; })()"
    )
    page.point_at(*place)
    page.wait("document.querySelector('#map-tip canvas') !== null")
    name = page.run("document.querySelector('#map-tip div').textContent")
    beside = page.run(f"({drawn})(document.querySelector('#map-tip canvas'))")
    listed = page.run(f"[...document.querySelectorAll('#next ~ * canvas.picture')].map({drawn})")
    assert len(listed) == len(found.review.next_rows) > 0
    rows = [next(i for i in shown.rows if found.data.row(i) == name), *found.review.next_rows]
    for (width, height, *seen), row in zip([beside, *listed], rows, strict=True):
        assert (width, height) == (8, 8)
        grey = np.array(seen).reshape(64, 4)
        assert (grey[:, 0] == grey[:, 1]).all()
        assert (grey[:, 3] == 255).all()
        np.testing.assert_array_equal(grey[:, 0], np.round(found.data.X[row] * 255 / 16))
    assert page.run("document.querySelector('canvas[data-picture]').ariaLabel") == found.data.row(rows[1])
    quiet(page, report)


def test_the_colours_of_the_map_can_be_chosen(page, report, found):
    names = page.run("[...document.getElementById('map-colour').options].map((o) => o.textContent)")
    columns = [found.data.column(j) for j in range(found.data.X.shape[1])]
    assert names == [
        "label, or prediction where there is none", "label", "prediction", "confidence",
        "right or wrong without its label", *columns,
    ]  # fmt: skip
    assert len(legend(page)) == len(found.data.classes) + 2  # and with and without a label
    for name, shown in (
        ("right or wrong without its label", "right"),
        ("confidence", "0%100%"),
        (columns[10], "0"),
    ):
        change(page, "map-colour", name)
        assert any(shown in text for text in legend(page))
        assert ink(page) > 1000
    change(page, "map-method", found.review.maps[1].title)
    assert ink(page) > 1000
    assert found.review.maps[1].title in page.run("document.getElementById('map-canvas').ariaLabel")
    quiet(page, report)


def test_unlabelled_points_have_the_colour_of_their_prediction_and_labels_are_named(page, found):
    counts = dict(re.fullmatch(r". (.*) \(([\d,]+)\)", text, re.S).groups() for text in legend(page)[:-2])
    shown = found.review.maps[0]
    codes = np.where(found.data.y[shown.rows] < 0, shown.predicted, found.data.y[shown.rows])
    assert {found.data.classes.index(name): int(n) for name, n in counts.items()} == {
        code: int((codes == code).sum()) for code in np.unique(codes)
    }
    assert legend(page)[-2:] == ["⬤ labelled", "• unlabelled"]


def test_the_legend_of_the_map_filters(page):
    whole = ink(page)
    page.run("document.querySelector('#map-legend button').click()")
    assert page.run("document.querySelector('#map-legend button').ariaPressed") == "false"
    assert ink(page) < whole
    page.run("document.querySelector('#map-legend button').click()")
    assert ink(page) == whole


def test_zoom_by_button_key_and_wheel(page):
    page.run("document.getElementById('map-canvas').scrollIntoView({block: 'center'})")
    apart = "labelfoldMap.place(1)[0] - labelfoldMap.place(0)[0]"
    before = page.run(apart)
    page.run("document.getElementById('map-in').click()")
    assert page.run(apart) == pytest.approx(1.4 * before, rel=1e-3)
    page.run("document.getElementById('map-canvas').focus()")
    page.run(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: '+', cancelable: true}))"
    )
    assert page.run(apart) == pytest.approx(1.4 * 1.3 * before, rel=1e-3)
    page.wait("document.getElementById('map-note').textContent.includes('outside of this view')")
    page.run("document.getElementById('map-all').click()")
    page.wait("document.getElementById('map-note').textContent === ''")


def test_the_lasso_lists_its_rows(page, report, found):
    page.run("document.getElementById('map-canvas').scrollIntoView({block: 'center'})")
    page.run("document.getElementById('map-lasso').click()")
    x, y, w, h = page.run(
        "(() => { const b = document.getElementById('map-canvas').getBoundingClientRect();"
        "return [b.x, b.y, b.width, b.height]; })()"
    )
    # within the rounded corners
    page.drag([(x + 9, y + 9), (x + w / 2, y + 9), (x + w / 2, y + h - 9), (x + 9, y + h - 9)])
    page.wait("!document.getElementById('map-chosen').hidden")
    inside = page.run(
        f"[...Array({len(found.review.maps[0].rows)}).keys()].filter((i) => labelfoldMap.place(i)[0] < {w / 2})"
    )
    assert 0 < len(inside) < len(found.review.maps[0].rows)
    names = [found.data.row(found.review.maps[0].rows[i]) for i in inside]
    assert page.run("document.getElementById('map-list').value").split("\n") == names
    quiet(page, report)


def test_the_rows_in_view_are_listed_without_a_mouse(page, found):
    page.run("document.getElementById('map-rows').click()")
    listed = page.run("document.getElementById('map-list').value").split("\n")
    assert sorted(listed) == sorted(found.data.row(i) for i in found.review.maps[0].rows)
    for button in ("labelled", "unlabelled"):
        buttons = "[...document.querySelectorAll('#map-legend button')]"
        page.run(f"{buttons}.find((b) => / {button}$/.test(b.textContent)).click()")
        page.run("document.getElementById('map-rows').click()")
        if button == "labelled":
            listed = page.run("document.getElementById('map-list').value").split("\n")
            assert sorted(listed) == sorted(found.data.row(i) for i in found.data.unlabelled)
    assert page.run("document.getElementById('map-chosen').hidden")


def test_twenty_thousand_rows_move_smoothly(browser, report, tmp_path):
    """The same map with its rows many times over, each time a little aside."""
    text = report.read_text(encoding="utf-8")
    start = text.index('id="data">') + len('id="data">')
    end = text.index("</script>", start)
    data = json.loads(text[start:end])
    rows = data["map"]
    times = -(-20_000 // rows["n"])

    def tiled(packed, kind, jitter=0.0):
        values = np.tile(np.frombuffer(base64.b64decode(packed), dtype=kind), times)
        if jitter:
            values = values + jitter * np.ptp(values) * np.random.default_rng(0).normal(size=len(values))
        return base64.b64encode(values.astype(kind).tobytes()).decode()

    rows.update(n=rows["n"] * times, names=rows["names"] * times, columns=[], rows=tiled(rows["rows"], "<u4"))
    rows["labelled"] = tiled(rows["labelled"], "u1")
    for method in rows["methods"]:
        method.update({axis: tiled(method[axis], "<f4", 0.02) for axis in "xy"})
        method["strength"] = tiled(method["strength"], "u1")
        for channel in method["channels"]:
            channel["values"] = tiled(channel["values"], "<u2" if "names" in channel else "<f4")
    path = tmp_path / "large.html"
    path.write_text(text[:start] + json.dumps(data).replace("<", "\\u003c") + text[end:], encoding="utf-8")
    browser.look()
    browser.open(path)
    frames = browser.run(
        "(async () => { const took = []; let last = performance.now();"
        "for (let i = 0; i < 30; i++) { i % 2 ? labelfoldMap.pan(5, 3) : labelfoldMap.zoom(1.02);"
        "await new Promise(requestAnimationFrame); took.push(performance.now() - last); last = performance.now(); }"
        "return took; })()"
    )
    assert rows["n"] >= 20_000
    assert np.median(frames) < 50  # milliseconds; 17 where nothing else runs
    quiet(browser, path)


def test_the_table_sorts_and_downloads(page, found, tmp_path):
    first = "[...document.querySelectorAll('#table tbody th')].map((h) => h.firstChild.textContent)"
    titles = [found.methods[m].title for m in found.ranking["method"]]
    assert page.run(first) == titles
    page.run("document.querySelector('#table th button').click()")
    assert page.run(first) == sorted(titles, key=str.lower)
    page.run("document.querySelector('#table th button').click()")
    assert page.run(first) == sorted(titles, key=str.lower, reverse=True)
    page.run("document.querySelectorAll('#table th button')[1].click()")
    assert page.run("document.querySelectorAll('#table thead th')[1].ariaSort") == "descending"
    means = page.run(
        "[...document.querySelectorAll('#table tbody tr')].map((r) => +r.cells[1].dataset.value)"
    )
    assert means == sorted(means, reverse=True)
    page.download_to(tmp_path)
    page.run("document.getElementById('download').click()")
    path = tmp_path / "labelfold-methods.csv"
    for _ in range(100):
        if path.exists():
            break
        time.sleep(0.05)
    assert len(pd.read_csv(path)) == len(found.table)


def test_a_number_of_the_confusion_lists_its_rows(page, report, found):
    told, data = found.review.left_out, found.data
    cell = "document.querySelector('.matrix button')"
    a, b = page.run(f"[+{cell}.dataset.true, +{cell}.dataset.guess]")
    page.run(f"{cell}.click()")
    rows = data.labels.index[told.tested & (data.truth == a) & (told.guess == b)]
    assert len(rows) == int(page.run(f"{cell}.textContent"))
    listed = page.run("document.getElementById('held-list').value").split("\n")
    assert listed == [data.row(i) for i in rows]
    quiet(page, report)


def test_on_a_phone_nothing_is_wider_than_the_screen(browser, report):
    browser.look(360, 740, mobile=True)
    browser.open(report)
    assert browser.run("document.documentElement.scrollWidth") <= 360
    sizes = browser.run(
        "[...document.querySelectorAll('p, li, dd, td')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 12
    # the column that decides is on the screen
    decides = "document.querySelectorAll('#table thead th')[1].getBoundingClientRect().right"
    assert browser.run(decides) <= 360
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
    for element in ("body", ".note", ".facts", "h1", "td.best", "dt", "tr.chosen th", "td small", "code"):
        ink = browser.run(f"getComputedStyle(document.querySelector('{element}')).color")
        bright, dim = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, (element, ink)
    figure = browser.run("document.getElementById('plot-budgets')._fullLayout.font.color")
    assert figure == ("#e7ebf0" if dark else "#1d2430")
    quiet(browser, report)


def test_everything_has_a_name_and_a_place_in_the_order_of_keys(page):
    assert page.run("document.getElementById('map-canvas').ariaLabel.length") > 40
    assert page.run(
        "[...document.querySelectorAll('.plot')].every(p => p.getAttribute('aria-label').length > 20)"
    )
    assert page.run("document.querySelectorAll('.images .plot').length") == 5
    page.run("document.body.focus()")
    seen = []
    for _ in range(60):
        page.press("Tab")
        seen.append(page.run("document.activeElement.id || document.activeElement.className"))
    assert {"scroll", "next-list", "map-colour", "map-lasso", "map-canvas", "download"} <= set(seen)


def test_the_list_to_copy(page, found):
    rows = [found.data.row(i) for i in found.review.next_rows]
    assert page.run("document.getElementById('next-list').value").split("\n") == rows
    assert not set(found.review.next_rows) & set(found.data.labels.index)
    page.run("document.querySelector('[data-copy=next-list]').click()")
    page.wait("document.querySelector('[data-copy=next-list]').nextElementSibling.textContent.length > 0")
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
    X.iloc[5, 0] = 60.0  # which does not squeeze the others
    y = (X.iloc[:, 0] > 0).astype(int).to_numpy()
    found = compare(X, y, ["lda", "svm"], budgets=[10], components=1, repeats=1, progress=False, scale=False)
    path = found.report(tmp_path / "report.html")
    browser.look()
    browser.open(path)
    assert browser.run("document.querySelector('.features .name').textContent") == "<b>size</b>"
    places = np.array(browser.run("[...Array(60).keys()].map((i) => labelfoldMap.place(i)[0])"))
    shown = browser.run("document.getElementById('map-canvas').clientWidth")
    assert np.ptp(np.delete(places, 5)) > 0.5 * shown
    assert not 0 < places[5] < shown
    assert "1 of 60 rows lie outside" in browser.run("document.getElementById('map-note').textContent")
    assert "Every row has a label" in browser.run(
        "document.querySelector('[aria-labelledby=next]').textContent"
    )
    quiet(browser, path)


def test_classes_for_which_colours_run_out_are_drawn_alike_and_named(browser, tmp_path):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(45, 6)), 5, axis=0) + 0.01 * rng.normal(size=(225, 6))
    y = np.repeat([f"kind {i:02}" for i in range(45)], 5)
    found = compare(X, y, ["lda"], components=3, repeats=1, progress=False)
    path = found.report(tmp_path / "report.html")
    browser.look()
    browser.open(path)
    assert len(legend(browser)) == 41
    assert legend(browser)[-1] == "● 5 other classes (25)"
    browser.run("document.getElementById('map-canvas').scrollIntoView({block: 'center'})")
    place = browser.run(
        "(() => { const b = document.getElementById('map-canvas').getBoundingClientRect(), "
        "p = labelfoldMap.place(224); return [b.x + p[0], b.y + p[1]]; })()"
    )
    browser.point_at(*place)
    browser.wait("document.getElementById('map-tip').textContent.includes('label: kind 44')")
    quiet(browser, path)
