"""The page's server: what it answers, and to whom it does not."""

import base64
import json
import re
import socket
import time

import httpx
import numpy as np
import pytest
from small_session import flowers, session_on

from labelfold.app.label._server import HEADERS, Running

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """One that is fitted, with three labels of the table; tests of this file leave other rows as they are."""
    frame, truth = flowers()
    given = [str(t) if i < 3 else None for i, t in enumerate(truth)]
    session = session_on(tmp_path_factory.mktemp("served") / "flowers.labels.csv", frame, given, start=True)
    yield session
    session.close()


class Client(httpx.Client):
    """A client of a real server: paths follow the token, and a POST has the page's own Origin unless said."""

    def __init__(self, running):
        self.here, self.token = running.url.rstrip("/").rsplit("/", 1)
        self.port = int(self.here.rpartition(":")[2])
        super().__init__(base_url=self.here, timeout=20)

    @property
    def own(self):
        return {"origin": self.here, **JSON}

    def at(self, path):
        return f"/{self.token}/{path}"


@pytest.fixture(scope="module")
def page(session):
    running = Running(session)
    running.start()
    with Client(running) as client:
        yield client
    running.close()


def get(page, path, status=200, **headers):
    answer = page.get(page.at(path), headers=headers)
    assert answer.status_code == status, answer.text
    return answer


def post(page, path, body, status=200, **headers):
    answer = page.post(page.at(path), content=json.dumps(body), headers={**page.own, **headers})
    assert answer.status_code == status, answer.text
    if status >= 400 and answer.content:
        assert answer.json()["error"].endswith(".")
    return answer


def test_label_undo_and_redo(page, session):
    state = post(page, "label", {"rows": [7, 8], "label": "new"}).json()
    assert state["classes"][-1] == {"name": "new", "count": 2}
    assert (state["labelled"], state["can_undo"]) == (5, True)
    assert session.journal.path.read_text().count(",new,") == 2
    assert post(page, "undo", {}).json()["labelled"] == 3
    assert post(page, "redo", {}).json()["labelled"] == 5
    assert post(page, "label", {"rows": [7, 8], "label": None}).json()["labelled"] == 3
    assert get(page, "state").json()["labelled"] == 3


def test_points_and_what_is_said(page, session):
    assert session.worker.idle(30)
    state = get(page, "state").json()
    points = np.frombuffer(get(page, f"points?v={state['points_version']}").content, "<f4")
    assert points.shape == (120,)
    said = get(page, f"said?v={state['said_version']}").content
    predicted, labels, sure = said[:120], said[120:240], np.frombuffer(said[240:], "u1")
    assert len(sure) == 60
    assert set(np.frombuffer(predicted, "<i2")) <= {0, 1, 2}
    assert (np.frombuffer(labels, "<i2")[:3] >= 0).all()
    assert sure.max() > 100


def test_a_row_is_shown_with_ranked_columns(page):
    row = get(page, "row/4").json()
    assert (row["row"], row["id"], row["label"]) == (4, "flower 4", None)
    assert row["predicted"] == row["probabilities"][0]["name"]
    assert sum(one["p"] for one in row["probabilities"]) == pytest.approx(1, abs=0.01)
    columns = {one["name"]: one for one in row["columns"]}
    assert set(columns) == {"length", "width", "height", "colour"}
    weights = [one["weight"] for one in row["columns"]]
    assert weights == sorted(weights, reverse=True)
    assert row["columns"][-1]["name"] == "colour"
    assert columns["colour"]["place"] is None
    frame = flowers()[0]
    rank = (frame["length"] < frame["length"][4]).mean() + 0.5 / 60
    assert columns["length"]["place"] == pytest.approx(rank, abs=1e-3)
    assert float(columns["length"]["text"]) == frame["length"][4]
    assert (row["texts"], row["pixels"], row["image"]) == ([], None, False)


def test_search_and_filter(page, session):
    def rows(query):
        found = get(page, f"search?{query}").json()
        mask = np.frombuffer(get(page, f"find?{query}").content, "u1")
        assert np.flatnonzero(mask).tolist() == found["rows"]
        assert found["total"] == len(found["rows"])
        return found["rows"]

    frame = flowers()[0]
    assert rows("text=FLOWER+59") == [59]
    assert rows("text=red") == np.flatnonzero(frame["colour"] == "red").tolist()
    assert rows("text=row+3") == [2]
    assert rows("labelled=yes") == [0, 1, 2]
    assert rows("class=round") == [0]
    assert rows("class=unheard+of") == []
    assert rows("predicted=long&labelled=no&least=0&most=1")
    assert rows("") == list(range(60))
    for query in ("labelled=perhaps", "least=x", "most=2", "least=nan"):
        assert get(page, f"search?{query}", 400).json()["error"]


def test_skip_strategy_and_class(page):
    row = get(page, "state").json()["question"]["row"]
    state = post(page, "skip", {"row": row}).json()
    assert state["skipped"] == 1
    assert state["question"]["row"] != row
    assert post(page, "undo", {}).json()["question"]["row"] == row
    assert post(page, "strategy", {"name": "random"}).json()["question"]["how"] == "random"
    assert post(page, "class", {"name": "spare"}).json()["classes"][-1] == {"name": "spare", "count": 0}


@pytest.mark.parametrize("path", ["", "state", "static/index.html", "events", "../", "x"])
def test_without_the_token_there_is_nothing(page, path):
    for start in ("", "wrong", page.token[:-1], page.token + "x", page.token.swapcase(), "%73ecret"):
        answer = page.get(f"/{start}/{path}")
        assert (answer.status_code, answer.content) == (404, b"")


def test_the_answer_to_a_wrong_token_names_none(page):
    assert page.token not in str(page.get("/wrong/state").headers)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:PORT",
        "127.0.0.1",
        "127.0.0.1:1",
        "[::1]:PORT",
        "0.0.0.0:PORT",
        "",
    ],
)
def test_another_host_is_refused(page, host):
    """DNS rebinding: a name of somebody else that points to this machine."""
    host = host.replace("PORT", str(page.port))
    answer = page.get(page.at("state"), headers={"host": host})
    assert (answer.status_code, answer.content) == (403, b"")
    assert page.post(page.at("undo"), headers={**page.own, "host": host}).status_code == 403


def test_localhost_is_this_machine_too(page):
    there = f"localhost:{page.port}"
    assert get(page, "state", host=there)
    assert post(page, "skip", {"row": 3}, host=there, origin=f"http://{there}")
    post(page, "undo", {})


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "https://127.0.0.1:PORT", "http://127.0.0.1:1", ""]
)
def test_a_foreign_origin_is_refused(page, session, origin):
    origin = origin.replace("PORT", str(page.port))
    before = session.journal.path.read_bytes()
    assert (
        page.post(
            page.at("label"), json={"rows": [9], "label": "x"}, headers={**page.own, "origin": origin}
        ).status_code
        == 403
    )
    assert page.get(page.at("state"), headers={"origin": origin}).status_code == 403
    assert session.journal.path.read_bytes() == before


def test_a_post_needs_an_origin_and_json(page, session):
    before = session.journal.path.read_bytes()
    body = '{"rows": [9], "label": "x"}'
    for headers, status in (
        ({"content-type": "application/json"}, 403),
        ({"origin": page.here, "content-type": "text/plain"}, 415),
        ({"origin": page.here, "content-type": "application/x-www-form-urlencoded"}, 415),
        ({"origin": page.here}, 415),
    ):
        assert page.post(page.at("label"), content=body, headers=headers).status_code == status
    assert session.journal.path.read_bytes() == before


def test_what_another_site_asks_for_is_refused(page):
    for site in ("cross-site", "same-site"):
        assert page.get(page.at("state"), headers={"sec-fetch-site": site}).status_code == 403
        assert post(page, "undo", {}, 403, **{"sec-fetch-site": site})
    assert get(page, "state", **{"sec-fetch-site": "same-origin"})


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(page, method):
    assert page.request(method, page.at("label"), headers=page.own).status_code == 405
    assert page.get(page.at("label")).status_code == 405


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("label", {"rows": [60], "label": "a"}),
        ("label", {"rows": [-1], "label": "a"}),
        ("label", {"rows": [True], "label": "a"}),
        ("label", {"rows": [1.5], "label": "a"}),
        ("label", {"rows": ["1"], "label": "a"}),
        ("label", {"rows": 1, "label": "a"}),
        ("label", {"rows": [], "label": "a"}),
        ("label", {"rows": [1]}),
        ("label", {"rows": [1], "label": 5}),
        ("label", {"rows": [1], "label": "a\0"}),
        ("label", {"rows": [1], "label": "\ud800"}),
        ("label", {"rows": [10**30], "label": "a"}),
        ("skip", {"row": 60}),
        ("skip", {"row": "1"}),
        ("skip", {}),
        ("strategy", {"name": "best"}),
        ("strategy", {"name": ["best"]}),
        ("class", {"name": "\x1b[31m"}),
        ("class", {"name": None}),
        ("label", [1]),
        ("label", "x"),
    ],
)
def test_a_bad_request_is_a_sentence_and_changes_nothing(page, session, path, body):
    before = session.journal.path.read_bytes()
    assert "Traceback" not in post(page, path, body, 400).text
    assert session.journal.path.read_bytes() == before


def test_no_json_is_a_sentence(page):
    for content in (b"{", b"\xff\xfe", b"[" * 30_000, b'{"rows": NaN}'):
        answer = page.post(page.at("label"), content=content, headers=page.own)
        assert answer.status_code == 400
        assert answer.json()["error"]


def test_huge_requests_are_refused(page):
    assert post(page, "skip", {"row": 1, "more": "x" * 70_000}, 413)
    assert post(page, "label", {"rows": [1] * 100_000, "label": "a"}, 413)
    chunks = (b"x" * 10_000 for _ in range(100))  # no length is said
    assert page.post(page.at("skip"), content=chunks, headers=page.own).status_code == 413


@pytest.mark.parametrize(
    "path",
    ["static/../_server.py", "static/..%2f_server.py", "static/%2e%2e/x", "static//etc/passwd", "static/x.py",
     "image/%2e%2e/state", "image/0", "row/60", "row/-1", "row/x", "export/%2e%2e/state", "export/secret", "nothing"],
)  # fmt: skip
def test_no_path_of_the_browser_is_opened(page, path):
    answer = page.get(page.at(f"{path}"))
    assert answer.status_code == 404
    assert b"import" not in answer.content


def test_every_answer_has_the_headers(page):
    for answer in (
        page.get(page.at("state")),
        page.get(page.at("points")),
        page.get("/wrong"),
        page.get(page.at("nothing")),
        page.post(page.at("label"), json={}, headers=page.own),
    ):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert HEADERS["x-content-type-options"] == "nosniff"
    assert HEADERS["cache-control"] == "no-store"
    assert HEADERS["referrer-policy"] == "no-referrer"
    assert HEADERS["cross-origin-resource-policy"] == "same-origin"


def test_the_page_itself_and_an_export_are_served(page):
    index = get(page, "")
    assert index.headers["content-type"].startswith("text/html")
    assert "style=" not in index.text
    for name in re.findall(r'(?:src|href)="(static/[^"]+)"', index.text):
        assert get(page, name).headers["content-type"].split(";")[0] in (
            "text/javascript",
            "text/css",
            "image/svg+xml",
        )
    table = get(page, "export/table.csv")
    assert table.headers["content-disposition"] == 'attachment; filename="table.csv"'
    assert len(table.text.splitlines()) == 61


def test_hostile_text_stays_text(page):
    name = "</script><img src=x onerror=alert(1)>"
    answer = post(page, "class", {"name": name})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["classes"][-1]["name"] == name


@pytest.fixture
def running(tmp_path):
    running = Running(session_on(tmp_path / "r.labels.csv", flowers()[0]))
    running.start()
    yield running
    running.close()


def events(url):
    """Yield the states that a tab is told, until there are no more."""
    with httpx.stream("GET", url + "events", timeout=10) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line[6:])


def test_every_tab_is_told(running):
    """Over real sockets: a label of one tab reaches another, and the map moves."""
    origin = running.url.rsplit("/", 2)[0]
    here = {"origin": origin}
    told = events(running.url)
    first = next(told)
    assert first["labelled"] == 0
    assert running.session.worker.idle(30)
    truth = flowers()[1]
    for row in range(6):
        httpx.post(
            running.url + "label", json={"rows": [row], "label": str(truth[row])}, headers=here
        ).raise_for_status()
    until = time.monotonic() + 10
    for state in told:
        if state["labelled"] == 6 and not state["busy"] and state["points_version"] > first["points_version"]:
            break
        assert time.monotonic() < until
    assert len(state["classes"]) == 3
    assert state["version"] > first["version"]


def test_it_listens_to_this_machine_alone_and_ends(running):
    assert running._socket.getsockname()[0] == "127.0.0.1"
    port = int(running.url.split(":")[2].split("/")[0])
    told = events(running.url)
    next(told)
    began = time.monotonic()
    running.close()
    running.close()
    assert time.monotonic() - began < 4
    with socket.socket() as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.1", port))


def test_tokens_differ_and_are_long(running, tmp_path):
    other = Running(session_on(tmp_path / "o.labels.csv"))
    one, two = (base64.urlsafe_b64decode(r.url.split("/")[3]) for r in (running, other))
    assert one != two
    assert len(one) >= 16
    assert other.url.split("/")[2] != running.url.split("/")[2]  # the usual port is taken
    other.close()
