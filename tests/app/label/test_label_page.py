"""The labelling page in a real browser, against the command that a user runs."""

import json
import re
import shutil
import subprocess
import sys
import time
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest
from small_session import session_on

from browser import CHROMIUM, SOFTWARE_GL, Browser
from labelfold.app.label._server import Running, _bound

PAGE = Path(__file__).parents[3] / "page"
NASTY = "<img src=x onerror=document.title='run'>"
CLASSES = [NASTY, "long", "flat"]
N = 150
BOX = """(() => { const b = document.querySelector('#map').getBoundingClientRect();
  return [b.x, b.y, b.width, b.height]; })()"""
COMMAND = "import sys; from labelfold.app.commands._cli import main; main()"


@pytest.fixture(scope="module")
def truth():
    return [CLASSES[i % 3] for i in range(N)]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three groups of rows, one after the other; names of columns, cells and rows would be HTML if they could."""
    rng = np.random.default_rng(0)
    centres = 6 * np.eye(3)[np.arange(N) % 3]
    frame = pd.DataFrame(centres + rng.standard_normal((N, 3)), columns=[f"width {NASTY}", "height", "depth"])
    frame.insert(0, "id", [f"row {i} <b>&amp;" for i in range(N)])
    words = np.array(["ripe and sweet", "long and thin", "flat as paper"])[np.arange(N) % 3]
    others = rng.choice(["found", "in", "the", "box", "beside", "an", "old", "door", "left", "there"], (N, 6))
    frame["remark"] = [
        f"A {word} <i>thing</i> {' '.join(more)}" for word, more in zip(words, others, strict=True)
    ]
    path = tmp_path_factory.mktemp("data") / "things.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def address(table):
    command = [
        sys.executable,
        "-c",
        COMMAND,
        "label",
        str(table),
        "--target",
        "kind",
        "--who",
        "ada",
        "--no-browser",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        found = next((line.strip() for line in server.stdout if line.startswith("http")), None)
        assert found is not None
        yield found
        server.kill()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here; on Debian: apt-get install chromium")
    browser = Browser(tmp_path_factory.mktemp("profile"), flags=SOFTWARE_GL)
    yield browser
    browser.close()


@pytest.fixture
def page(browser, address):
    browser.look(1200, 820)
    browser.open(address)
    asked(browser)
    yield browser
    quiet(browser, address)


def quiet(page, address):
    """Tell that the page wrote no error, and asked nothing of anyone but its server."""
    assert page.errors == []
    home = urlsplit(address)
    for url in page.requests:
        assert url.startswith(("data:", "blob:")) or urlsplit(url)[:2] == home[:2], url


def asked(page):
    """Wait until the question is in the panel, and return its row."""
    page.wait("document.querySelector('.asked.question') && labelfoldMap.marks.question >= 0")
    page.wait("+document.querySelector('.ask').dataset.row === labelfoldMap.marks.question")
    return page.run("labelfoldMap.marks.question")


def labelled(page):
    return page.run("+document.querySelector('.progress strong').textContent")


def until_labelled(page, count):
    """Wait until so many are labelled and no key waits for its turn."""
    page.wait(
        f"+document.querySelector('.progress strong').textContent === {count} && !labelfoldQueue.value.length"
    )


def name_class(page, name):
    """Label by typing a name."""
    page.press("n")
    page.type(name)
    page.press("Enter")


def key_of(page, name):
    return page.run(
        "[...document.querySelectorAll('.class')].find((b) => "
        f"b.querySelector('.name').textContent === {json.dumps(name)})?.querySelector('kbd').textContent"
    )


def answer(page, truth):
    """Answer the question rightly, by its key once it has one."""
    row, before = asked(page), labelled(page)
    key = key_of(page, truth[row])
    page.press(key) if key else name_class(page, truth[row])
    until_labelled(page, before + 1)
    return row


def journal(table):
    return pd.read_csv(table.with_name("things.labels.csv"), dtype=str, keep_default_na=False)


def settled(page):
    """Wait until no refit is under way and nothing moves."""
    page.wait("!document.querySelector('.busy.on') && labelfoldMap.t === 1")


WATCHED = """(() => {
  window.seen = [];
  window.jumps = [];
  const map = labelfoldMap, update = map.update.bind(map);
  map.update = (xy, ...more) => {
    const before = [...map.now()];
    update(xy, ...more);
    if (xy) jumps.push(map.now().reduce((most, v, i) => Math.max(most, Math.abs(v - before[i])), 0));
  };
  (function look() { seen.push(map.t); requestAnimationFrame(look); })();
  return [...map.now()]; })()"""


def test_the_map_moves_and_never_jumps(page, truth):
    settled(page)
    before = page.run(WATCHED)
    for _ in range(6):
        answer(page, truth)
    page.wait("jumps.length")
    settled(page)
    assert np.abs(np.subtract(page.run("[...labelfoldMap.now()]"), before)).max() > 0.05
    assert max(page.run("jumps")) < 0.05  # a move begins where the one before had come to
    on_the_way = {t for t in page.run("seen") if 0 < t < 1}
    assert len(on_the_way) >= 3


def test_label_by_key_and_new_classes_by_name(page, table, truth):
    assert page.run("labelfoldMap.painter.words") == ""
    assert page.run("document.querySelector('canvas.points').getContext('webgl2') !== null")
    before = labelled(page)
    rows = [answer(page, truth) for _ in range(9)]
    assert len(set(rows)) == 9
    written = journal(table).tail(9)
    assert written["row"].astype(int).tolist() == [row + 1 for row in rows]
    assert written["label"].tolist() == [truth[row] for row in rows]
    assert set(written["who"]) == {"ada"}
    assert labelled(page) == before + 9
    assert page.run("document.querySelector('[role=status] .saying').textContent").endswith(
        f"{before + 9} labelled."
    )


def test_text_stays_text(page):
    assert page.run("document.title") == "things.csv · labelfold"
    names = page.run("[...document.querySelectorAll('.class .name')].map((e) => e.textContent)")
    assert NASTY in names
    assert page.run("document.querySelectorAll('[onerror], .panel i, .panel b').length") == 0
    assert "<b>&amp;" in page.run("document.querySelector('.ask h2').textContent")
    assert "<i>thing</i>" in page.run("document.querySelector('.text').textContent")
    heads = page.run("[...document.querySelectorAll('.columns th')].map((e) => e.textContent)")
    assert f"width {NASTY}" in heads


def test_the_row_is_shown_in_full(page):
    places = page.run(
        "[...document.querySelectorAll('.columns .place')].map((p) => +p.querySelector('.tick').getAttribute('x'))"
    )
    assert len(places) == 3
    assert all(-2 <= x <= 98 for x in places)
    marked = page.run("[...document.querySelectorAll('.text mark')].map((m) => m.textContent)")
    text = page.run("document.querySelector('.text').textContent")
    assert marked
    assert all(word in text for word in marked)


def test_undo_and_redo(page, truth, table):
    row, before = answer(page, truth), labelled(page)
    page.press("z")
    until_labelled(page, before - 1)
    assert asked(page) == row  # it is asked again
    assert journal(table)["label"].iloc[-1] == ""
    page.press("y")
    until_labelled(page, before)
    assert journal(table)["label"].iloc[-1] == truth[row]


def test_skip_asks_another(page):
    row = asked(page)
    page.press("s")
    page.wait(f"labelfoldMap.marks.question !== {row}")
    assert asked(page) != row


def test_keys_wait_for_their_turn_and_nothing_is_done_before_it_is_saved(page, table):
    row, before = asked(page), labelled(page)
    page.run(
        "window.fetch = ((fetch) => async (...given) => {"
        "if (given[1]?.method) await new Promise((go) => setTimeout(go, 300)); return fetch(...given); })(fetch); 0"
    )
    for key in (key_of(page, "long"), key_of(page, "flat"), key_of(page, "flat")):
        page.press(key)
    assert labelled(page) == before
    assert page.run("document.querySelectorAll('.class.waits').length") == 2
    assert page.run("document.querySelector('.ask').dataset.row") == str(row)
    page.wait("!document.querySelector('.class.waits')")
    until_labelled(page, before + 1)
    written = journal(table).tail(2)
    assert written["label"].tolist() == ["long", "flat"]
    assert written["row"].tolist() == [str(row + 1)] * 2
    assert asked(page) != row


def test_label_by_lasso(page, table):
    settled(page)
    before = labelled(page)
    x, y, _, h = page.run(BOX)
    places = np.array(page.run(f"[...Array({N}).keys()].map((i) => labelfoldMap.place(i))"))
    codes = np.array(page.run("[...labelfoldMap.said.label]"))
    half = float(np.median(places[:, 0]))
    inside = np.flatnonzero(places[:, 0] < half)
    corners = [(2, 2), (half, 2), (half, h - 2), (2, h - 2)]
    page.drag([(x + a, y + b) for a, b in corners], shift=True)
    page.wait("document.querySelector('.ask h2').textContent.endsWith(' rows')")
    assert page.run("document.querySelector('.ask h2').textContent") == f"{len(inside)} rows"
    leave = "[...document.querySelectorAll('.content button')].find((b) => /Leave/.test(b.textContent))"
    page.run(f"{leave}?.click()")
    free = inside[codes[inside] < 0]
    page.wait(f"document.querySelector('.ask h2').textContent === '{len(free)} rows'")
    page.press(key_of(page, "flat"))
    until_labelled(page, before + len(free))
    written = journal(table).tail(len(free))
    assert written["row"].astype(int).tolist() == (free + 1).tolist()
    assert set(written["how"]) == {"lasso"}
    page.press("z")
    until_labelled(page, before)


def test_the_row_under_the_cursor_and_neighbours_by_arrow(page):
    settled(page)
    question = asked(page)
    page.wait("labelfoldMap.places.tree !== null")
    x, y, *_ = page.run(BOX)
    # a row that stands clear of all others
    places = np.array(page.run(f"[...Array({N}).keys()].map((i) => labelfoldMap.place(i))"))
    apart = np.linalg.norm(places[:, None] - places, axis=2) + 1e9 * np.eye(N)
    apart[question] = 0
    row = int(apart.min(axis=1).argmax())
    page.point_at(x + places[row, 0], y + places[row, 1])
    page.wait(f"document.querySelector('.ask').dataset.row === '{row}'")
    assert page.run("document.querySelector('.kind').textContent") == "Under the cursor"
    page.point_at(x + 500, y - 60)
    page.wait(f"document.querySelector('.ask').dataset.row === '{question}'")
    page.run("document.querySelector('#map').focus()")
    gone_through = [question]
    for key in ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"):
        page.press(key)
        time.sleep(0.1)
        gone_through.append(page.run("labelfoldMap.marks.pinned"))
    assert len(set(gone_through)) >= 3
    ways = [(0, -1), (1, -1), (0, 1), (1, 1)]
    for (a, b), (axis, sign) in zip(pairwise(gone_through), ways, strict=True):
        assert a == b or sign * (places[b] - places[a])[axis] > 0
    page.press("Escape")
    assert asked(page) == question


def test_search_and_filter(page):
    page.press("/")
    page.type("row 14 <b>")
    page.wait("/^1 of/.test(document.querySelector('.results').textContent)")
    assert page.run("labelfoldMap.mask.reduce((a, b) => a + b)") == 1
    page.press("Enter")
    page.wait("document.querySelector('.ask').dataset.row === '14'")
    page.run("[...document.querySelectorAll('.results button')].at(-1).click()")
    page.wait("!document.querySelector('.results')")
    page.press("Escape")
    page.press("Escape")
    page.press("f")
    page.wait("document.querySelector('#filter')")
    page.run(
        "(() => { const s = document.querySelectorAll('#filter select')[2]; s.value = 'yes';"
        "s.dispatchEvent(new Event('change')); })()"
    )
    page.wait("document.querySelector('.results')?.textContent.includes(' of 150')")
    found = page.run("parseInt(document.querySelector('.results').textContent)")
    assert found == labelled(page) == page.run("labelfoldMap.mask.reduce((a, b) => a + b)")


def test_reload_keeps_everything(page, address):
    before = page.run("[document.querySelector('.progress').textContent, labelfoldMap.marks.question]")
    page.open(address)
    asked(page)
    assert (
        page.run("[document.querySelector('.progress').textContent, labelfoldMap.marks.question]") == before
    )


def test_two_tabs_see_each_others_labels(page, address, truth):
    before = labelled(page)
    with page.tab():
        page.look(1200, 820)
        page.open(address)
        answer(page, truth)
    until_labelled(page, before + 1)
    row = answer(page, truth)
    settled(page)
    assert page.run(f"labelfoldMap.said.label[{row}]") >= 0


def test_a_label_to_look_at_again(page, truth):
    while labelled(page) < 27:
        answer(page, truth)
    settled(page)
    row, before = asked(page), labelled(page)
    wrong = CLASSES[(CLASSES.index(truth[row]) + 1) % 3]
    page.press(key_of(page, wrong))
    until_labelled(page, before + 1)
    page.wait(
        f"[...document.querySelectorAll('.doubt .id')].some((e) => e.textContent.startsWith('row {row} '))"
    )
    for _ in range(page.run("document.querySelectorAll('.doubt').length")):
        page.press("d")
        time.sleep(0.1)
        if page.run("labelfoldMap.marks.pinned") == row:
            break
    page.wait(f"document.querySelector('.ask').dataset.row === '{row}'")
    page.press(key_of(page, truth[row]))
    page.wait(
        f"![...document.querySelectorAll('.doubt .id')].some((e) => e.textContent.startsWith('row {row} '))"
    )
    assert labelled(page) == before + 1


def test_accuracy_with_its_interval_and_number(page):
    said = page.run("document.querySelector('.figure').textContent")
    assert "90% interval" in said
    assert "drawn at random" in said
    assert page.run("document.querySelector('.curve .line').getAttribute('points').split(' ').length") >= 2


def test_a_random_question_hides_what_is_predicted(page, truth):
    for _ in range(8):
        if page.run("document.querySelector('.reason').textContent.includes('random')"):
            break
        answer(page, truth)
        asked(page)
    assert "hidden" in page.run("document.querySelector('.guess').textContent")
    assert page.run("[...document.querySelectorAll('.chance span')].every((s) => s.style.width === '0%')")
    page.press("p")
    page.wait("document.querySelector('.guess').textContent.includes('predicted')")


def test_the_table_is_exported(page, tmp_path, truth):
    page.download_to(tmp_path)
    page.press("e")
    page.run("document.querySelector('.menu button').click()")
    path = tmp_path / "table.csv"
    page.wait("document.querySelector('.saying.done')?.textContent.includes('ready')")
    deadline = time.monotonic() + 10
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    found = pd.read_csv(path, dtype=str)
    assert len(found) == N
    assert found["kind"].notna().sum() == labelled(page)


def test_what_the_server_refuses_is_said_in_a_sentence(browser, address):
    browser.look(1200, 820)
    browser.open(address)
    asked(browser)
    before = labelled(browser)
    name_class(browser, "nan")
    browser.wait("document.querySelector('.saying.wrong')")
    said = browser.run("document.querySelector('.saying.wrong span').textContent")
    assert said.startswith("row ")
    assert "was not saved" in said
    assert "give the class another name" in said
    assert labelled(browser) == before
    browser.run("[...document.querySelectorAll('.saying button')].at(-1).click()")
    browser.wait("!document.querySelector('.saying')")
    browser.press("9")
    browser.wait("document.querySelector('.saying.wrong')?.textContent.includes('No class has the key 9')")


def test_on_a_phone(browser, address):
    browser.look(375, 700, mobile=True)
    browser.open(address)
    asked(browser)
    settled(browser)
    assert browser.run("document.documentElement.scrollWidth") <= 375
    assert (
        browser.run(
            "Math.min(...[...document.querySelectorAll('.class, .deeds button')].map((b) => b.offsetHeight))"
        )
        >= 34
    )
    classes = browser.run("document.querySelector('.answers').getBoundingClientRect().bottom")
    assert classes <= 701  # to be reached without scrolling
    x, y, w, h = browser.run(BOX)
    scale = browser.run("labelfoldMap.view.scale")
    cx, cy = x + w / 2, y + h / 2
    browser.touch(*([(cx - 20 * i, cy), (cx + 20 * i, cy)] for i in (1, 2, 3)))
    assert browser.run("labelfoldMap.view.scale") == pytest.approx(3 * scale, rel=0.05)
    browser.run("labelfoldMap.all()")
    browser.wait("labelfoldMap.glide === null")
    browser.wait("labelfoldMap.places.tree")
    places = browser.run(f"[...Array({N}).keys()].map((i) => labelfoldMap.place(i))")
    px, py = min(places, key=lambda place: place[1])  # the topmost: no button lies over it
    browser.touch([(x + px, y + py)])
    browser.wait("labelfoldMap.marks.pinned >= 0")
    quiet(browser, address)


LOOKS = """[...document.querySelectorAll(
    'h1, h2, h3, p, span, button, kbd, th, td, label, input, select, summary, text, strong')]
  .filter((e) => e.checkVisibility() && !e.closest(':disabled') && !e.closest('.unseen') &&
    [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
  .map((e) => { let on = e; const solid = (c) => c !== 'rgba(0, 0, 0, 0)';
    while (on && !solid(getComputedStyle(on).backgroundColor)) on = on.parentElement;
    const style = getComputedStyle(e);
    return [e.tagName + '.' + e.className, e.namespaceURI.includes('svg') ? style.fill : style.color,
      getComputedStyle(on ?? document.body).backgroundColor]; })"""


def luminance(colour):
    """Relative luminance of 'rgb(r, g, b)', as WCAG defines it."""
    parts = [float(v) / 255 for v in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_in_light_and_in_dark(browser, address, dark):
    browser.look(1200, 820, dark=dark)
    browser.open(address)
    asked(browser)
    browser.press("9")  # a sentence that something is wrong
    browser.press("f")
    browser.wait("document.querySelector('.saying.wrong') && document.querySelector('#filter')")
    assert (luminance(browser.run("getComputedStyle(document.body).backgroundColor")) < 0.05) == dark
    looks = browser.run(LOOKS)
    assert len(looks) > 50
    for what, ink, paper in looks:
        bright, dim = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, (what, ink, paper)
    quiet(browser, address)


def test_everything_can_be_reached_by_key_in_the_order_it_is_read(page):
    page.run("document.activeElement.blur()")
    seen = []
    for _ in range(60):
        page.press("Tab")
        here = page.run(
            "(() => { const e = document.activeElement, b = e.getBoundingClientRect(), s = getComputedStyle(e);"
            "const name = e.ariaLabel || e.textContent || e.labels?.[0]?.textContent || '';"
            "return [e.id || e.className || e.tagName, name.trim(),"
            "s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2, b.width > 0]; })()"
        )
        if here[0] == "BODY" or (seen and here[:2] == seen[0][:2]):
            break
        seen.append(here)
    names = [name for name, *_ in seen]
    assert all(said and ring and size for _, said, ring, size in seen), seen
    order = ["SUMMARY", "help", "search", "filter-button", "lasso", "map", "content", "class", "new-class"]
    assert [name for name in names if name in order][: len(order) + 2] == [
        *order[:7], *["class"] * 3, "new-class",
    ]  # fmt: skip
    assert len(names) == len(seen) < 60


def test_help_is_a_dialog(page):
    page.press("?")
    page.wait("document.querySelector('dialog').open")
    assert page.run("document.querySelector('dialog').contains(document.activeElement)")
    before = labelled(page)
    page.press("1")  # labels nothing behind it
    page.press("Escape")
    page.wait("!document.querySelector('dialog').open")
    assert labelled(page) == before


def test_who_wants_no_motion_gets_none(browser, address, truth):
    browser.look(1200, 820, still=True)
    browser.open(address)
    settled(browser)
    browser.run(
        "window.seen = []; (function look() { seen.push(labelfoldMap.t); requestAnimationFrame(look); })()"
    )
    moves = browser.run("labelfoldMap.moves")
    answer(browser, truth)
    browser.wait(f"labelfoldMap.moves > {moves}")
    settled(browser)
    assert len([t for t in browser.run("seen") if 0 < t < 1]) == 0


def test_without_webgl_a_sample_is_drawn(browser, address):
    none = (
        "HTMLCanvasElement.prototype.getContext = ((get) => function (kind, ...more) {"
        "return kind.startsWith('webgl') ? null : get.call(this, kind, ...more); })"
        "(HTMLCanvasElement.prototype.getContext)"
    )
    browser.look(1200, 820)
    with browser.before_pages(none):
        browser.open(address)
    asked(browser)
    ink = (
        "(() => { const c = labelfoldMap.canvas, p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "let n = 0; for (let i = 3; i < p.length; i += 4) n += p[i] > 0; return n; })()"
    )
    browser.run("new Promise(requestAnimationFrame)")
    assert browser.run(ink) > 1000
    assert browser.run("labelfoldMap.painter.words") == ""
    browser.run("labelfoldMap.painter.points(new Float32Array(40000), new Float32Array(40000))")
    assert "one row in 3" in browser.run("labelfoldMap.painter.words")
    quiet(browser, address)


def test_a_server_that_is_gone_and_comes_back(browser, tmp_path, monkeypatch):
    token = "the-same-token"
    monkeypatch.setattr("labelfold.app.label._server.secrets.token_urlsafe", lambda _: token)
    running = Running(session_on(tmp_path / "labels.csv"), _bound(0))
    port = int(urlsplit(running.url).port)
    running.start()
    browser.look(1200, 820)
    browser.open(running.url)
    asked(browser)
    name_class(browser, "round")
    until_labelled(browser, 1)
    row = asked(browser)
    running.close()
    browser.wait("document.querySelector('.saying.gone')")
    said = "The server is gone; start it again and reload."
    assert browser.run("document.querySelector('.saying.gone').textContent") == said
    browser.press("1")
    browser.wait("document.querySelector('.saying.wrong')")
    assert "was not saved" in browser.run("document.querySelector('.saying.wrong').textContent")
    browser.wait("document.querySelector('.saying.gone').textContent.includes('1 not saved yet')")
    assert labelled(browser) == 1
    token = "another-token"
    running = Running(session_on(tmp_path / "labels.csv"), _bound(port))
    running.start()
    browser.wait("document.querySelector('.saying.gone').textContent.includes('another address')")
    running.close()
    browser.wait("!document.querySelector('.saying.gone').textContent.includes('another address')")
    token = "the-same-token"
    running = Running(session_on(tmp_path / "labels.csv"), _bound(port))
    running.start()
    try:
        until_labelled(browser, 2)  # by itself, with the key that was pressed meanwhile
        browser.wait("!document.querySelector('.saying.gone')")
        assert running.session.marks.labels[row] == "round"
    finally:
        running.close()


def colours(name):
    text = (PAGE / "src/palette.ts").read_text()
    return re.findall(r"#[0-9a-f]{6}", re.search(rf"const {name} = (.*?);", text, re.DOTALL)[1])


@pytest.mark.skipif(not PAGE.is_dir(), reason="needs the sources of the page")
@pytest.mark.parametrize("theme", ["LIGHT", "DARK"])
def test_colours_of_classes_stay_apart_for_every_eye(theme):
    """Distances in CIELAB, as seen by full, protan, deutan and tritan eyes (Machado, Oliveira & Fernandes, 2009)."""
    eyes = np.array([
        np.eye(3),
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ])  # fmt: skip
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    shown = [*colours(theme), *colours("GREY")]
    assert len(shown) == 11
    values = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in shown])
    light = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    for eye in eyes:
        xyz = np.clip(light @ eye.T, 0, 1) @ to_xyz.T / to_xyz.sum(axis=1)
        f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        lab = np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)
        apart = np.linalg.norm(lab[:, None] - lab, axis=2) + 1e9 * np.eye(len(lab))
        assert apart.min() > 20


def test_the_bundle_is_whole():
    static = files("labelfold.app.label").joinpath("static")
    names = {file.name for file in static.iterdir()}
    assert names == {"index.html", "page.js", "page.css", "LICENSES.txt"}
    script = static.joinpath("page.js").read_text()
    assert "sourceMappingURL" not in script
    assert "new Function" not in script  # which the content-security policy forbids
    licences = static.joinpath("LICENSES.txt").read_text()
    wanted = json.loads((PAGE / "package.json").read_text())["dependencies"] if PAGE.is_dir() else {}
    for name, version in wanted.items():
        assert f"{name} {version} (" in licences


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("npm") is None or not PAGE.is_dir(), reason="needs npm and the sources of the page"
)
def test_the_bundle_is_built_byte_for_byte(tmp_path):
    copy = tmp_path / "page"
    shutil.copytree(PAGE, copy, ignore=shutil.ignore_patterns("node_modules"))
    done = subprocess.run(
        ["npm", "ci", "--ignore-scripts"], cwd=copy, capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        pytest.skip(f"npm's registry cannot be reached: {done.stderr[-200:]}")
    subprocess.run(["npm", "run", "check"], cwd=copy, check=True, timeout=300)
    static = files("labelfold.app.label").joinpath("static")
    for turn in ("first", "second"):
        subprocess.run(["node", "build.mjs", str(tmp_path / turn)], cwd=copy, check=True, timeout=300)
        made = {file.name: file.read_bytes() for file in (tmp_path / turn).iterdir()}
        assert made == {file.name: file.read_bytes() for file in static.iterdir()}
