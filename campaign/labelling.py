"""The labelling page, killed, refused by the disk and attacked by requests: a confirmed label is never lost."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from child import Command, Ended, run_tries
from disk import KINDS, Disk, can_happen
from scenarios import warm, write_table

NAMES = ("label-kill", "label-disk")
HOSTILE = ("http",)
_TRIES = 4
COMMAND = "label t.csv -t kind --id name --no-browser --who ada"
_ARGUMENTS = COMMAND.split()
_ODD = ["a", "b, c", 'd "e"', "=1+1", "é 漢", "<b>f</b>", "-g", "h;i"]


class Page:
    """A page in a child process, and its client."""

    def __init__(self, folder: Path, prepare: Callable[[], Any] | None = None):
        self.folder = folder
        self.command = Command(_ARGUMENTS, folder, prepare)
        self.url = ""
        end = time.monotonic() + 60
        while not self.url.endswith("\n") and time.monotonic() < end:
            time.sleep(0.005)
            self.command._listen()
            self.url = next(iter(self.command.said.values())).decode()
            if os.waitid(os.P_PID, self.command.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
        self.url = self.url.strip()
        self.client = httpx.Client(timeout=20)

    def post(self, path: str, **body: Any) -> httpx.Response:
        """Send a request in the form of the page."""
        origin = self.url.rstrip("/").rsplit("/", 1)[0]
        return self.client.post(self.url + path, json=body, headers={"origin": origin})

    def state(self) -> dict[str, Any]:
        """Return the state of the page."""
        return self.client.get(self.url + "state").json()

    def end(self, how: int = signal.SIGINT) -> Ended:
        """End the page."""
        self.client.close()
        self.command.send(how)
        return self.command.wait()


def run_batch(name: str, seed: int, number: int, *, shown: bool = False) -> tuple[Counter[str], str]:
    """Disturb a page several times; return the numbers of results and sentences, and the failure, if any."""
    warm()
    rng = random.Random(f"{name}:{seed}:{number}")
    attack = {"label-kill": _killed, "label-disk": _denied, "http": _hostile}[name]

    def attempt(folder: Path) -> list[str]:
        write_table(folder / "t.csv", 0)
        return attack(folder, rng)

    return run_tries([(name, attempt)] * _TRIES, shown, errors=(AssertionError, httpx.HTTPError))


def _some_label(rng: random.Random) -> dict[str, Any]:
    rows = rng.sample(range(60), rng.choice([1, 1, 1, 5]))
    return {"rows": rows, "label": rng.choice([*_ODD, None])}


def _journal(folder: Path) -> tuple[dict[int, str], list[list[str]]]:
    """Return the label of each row according to the complete lines of the journal, and these lines."""
    content = (folder / "t.labels.csv").read_bytes()
    lines = list(csv.reader(io.StringIO(content[: content.rfind(b"\n") + 1].decode(), newline="")))
    header, rest = lines[0], lines[1:]
    place = header.index("label")
    return {int(line[0]) - 1: line[place] for line in rest if len(line) == len(header)}, rest


def _check_restart(folder: Path, wanted: dict[int, str | None], maybe: dict[int, str | None]) -> None:
    """Check that a restarted page has every confirmed label."""
    page = Page(folder)
    assert page.url, f"no page: {page.command.wait().err}"
    for row, label in wanted.items():
        said = page.client.get(f"{page.url}row/{row}").json()["label"]
        assert said == label or (row in maybe and said == maybe[row]), f"row {row}: {said!r}, not {label!r}"
    ended = page.end()
    ended.check_words()
    assert ended.status == 0, ended.err


def _killed(folder: Path, rng: random.Random) -> list[str]:
    """Label until the page is killed, and check that all confirmed labels are on disk."""
    when = rng.uniform(0, 0.4)
    page = Page(folder)
    end, given, asked = time.monotonic() + when, {}, {}
    pid = os.fork()
    if not pid:
        time.sleep(when)
        os.kill(page.command.pid, signal.SIGKILL)
        os._exit(0)
    while time.monotonic() < end + 5:
        body = _some_label(rng)
        asked = dict.fromkeys(body["rows"], body["label"])
        try:
            answer = page.post("label", **body)
        except httpx.HTTPError:
            break
        assert answer.status_code == 200, answer.text
        given |= asked
        asked = {}
    os.waitpid(pid, 0)
    ended = page.end(signal.SIGKILL)
    assert ended.status == -signal.SIGKILL, f"killed after {when:.3f} s, status {ended.status}: {ended.err}"
    _check_restart(folder, given, asked)
    return ["result"]


def _denied(folder: Path, rng: random.Random) -> list[str]:
    """Let a write of the journal fail; confirmed labels stay, and an error reports the others."""
    kind = rng.choice([kind for kind in KINDS if can_happen(kind, "write")])
    number = rng.randrange(2, 14)
    page = Page(folder, Disk(folder, kind, number).install)
    given: dict[int, str | None] = {}
    asked: dict[int, str | None] = {}
    refused = 0
    for _ in range(8 if page.url else 0):
        body = _some_label(rng)
        asked = dict.fromkeys(body["rows"], body["label"])
        before = (folder / "t.labels.csv").read_bytes()
        try:
            answer = page.post("label", **body)
        except httpx.HTTPError:
            break
        if answer.status_code == 200:
            given |= asked
        else:
            refused += 1
            assert answer.status_code == 507, answer.text
            assert answer.json()["error"].endswith("."), answer.text
            untouched = (folder / "t.labels.csv").read_bytes() == before
            assert untouched or kind == "EIO from then on", (
                f"{kind} at call {number}: the journal was changed"
            )
        asked = {}
    ended = page.end()
    ended.check_words()
    assert kind != "short" or (ended.status == 0 and not refused), (
        f"a short write (call {number}) is no failure: {ended.err}"
    )
    _check_restart(folder, given, asked)
    return ["sentence" if refused or ended.status > 0 else "result"]


def _hostile(folder: Path, rng: random.Random) -> list[str]:
    """Send requests that no page should send; all are refused, and the page continues."""
    page = Page(folder)
    port = int(page.url.split(":")[2].split("/")[0])
    token = page.url.rstrip("/").rsplit("/", 1)[1]
    assert page.post("label", rows=[30], label="a").status_code == 200
    before = (folder / "t.labels.csv").read_bytes()
    held: list[socket.socket] = []
    answers = []
    for _ in range(25):
        name = rng.choice(list(_REQUESTS))
        made = _made(name, rng, port, token)
        if isinstance(made, int):  # a number of silent connections
            for _ in range(made):
                one = socket.create_connection(("127.0.0.1", port), 5)
                one.sendall(f"GET /{token}/state HTTP/1.1\r\n".encode())
                held.append(one)
            continue
        status = _sent(port, made)
        assert status is None or 400 <= status < 500 or status == 503, f"{name}: {made[:200]!r}: {status}"
        answers.append("sentence")
    for one in held:
        one.close()
    assert (folder / "t.labels.csv").read_bytes() == before, "a request that was refused wrote a label"
    assert _waited(page)["labelled"] == 19, "the labels changed"
    ended = page.end()
    ended.check_words()
    assert (ended.status, ended.mebibytes < 1200) == (0, True), f"{ended.mebibytes:.0f} MiB: {ended.err}"
    return answers


def _waited(page: Page) -> dict[str, Any]:
    """Return the state after the held connections are closed."""
    for _ in range(40):
        answer = page.client.get(page.url + "state")
        if answer.status_code == 200:
            return answer.json()
        time.sleep(0.1)
    raise AssertionError("the page does not answer any more")


def _sent(port: int, request: bytes) -> int | None:
    """Send bytes; return the status of the answer, None if the connection was closed."""
    try:
        with socket.create_connection(("127.0.0.1", port), 10) as one:
            one.settimeout(10)
            one.sendall(request)
            start = one.recv(1 << 16)
    except (ConnectionError, BrokenPipeError):
        return None
    return int(start.split()[1]) if start.startswith(b"HTTP/") else None


def _request(
    port: int, token: str, path: str = "label", body: Any = None, method: str = "POST", **headers: str
) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    here = f"127.0.0.1:{port}"
    own = {
        "host": here,
        "origin": f"http://{here}",
        "content-type": "application/json",
        "connection": "close",
    }
    own |= {"content-length": str(len(content))} | {k.replace("_", "-"): v for k, v in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in own.items() if value is not None)
    return f"{method} /{token}/{path} HTTP/1.1\r\n{head}\r\n".encode() + content


# What is wrong with a request that labels a row: of each field one is drawn.
_REQUESTS: dict[str, dict[str, list[Any]]] = {
    "wrong token": {"token": ["", "x", "{cut}", "{token}a", "{upper}"]},
    "wrong host": {"host": ["evil.example", "evil.example:{port}", "", "127.0.0.1", "[::1]:{port}"]},
    "wrong origin": {"origin": ["null", "http://evil.example", "https://127.0.0.1:{port}", ""]},
    "wrong type": {"content_type": ["text/plain", ""]},
    "wrong method": {"method": ["PUT", "DELETE", "GET", "PATCH", "TRACE", "X"]},
    "huge body": {"body": [b'{"rows": [' + b"1," * 2_000_000 + b"1]}"]},
    "huge length": {"content_length": [str(10**12)]},
    "negative length": {"content_length": ["-1", "x", "1e3"]},
    "huge header": {"x": ["y" * 200_000]},
    "many headers": {f"x{i}": ["y"] for i in range(20_000)},
    "no JSON": {
        "body": [b"{", b"[", b"\xff\xfe", b"nul", b"[" * 100_000, b'{"a":' * 50_000, b"5", b'"x"'],
    },
    "wrong rows": {
        "body": [
            {"rows": rows, "label": "x"}
            for rows in ([60], [-1], [2**70], ["5"], [None], [5.0], [True], {}, "5", None, [])
        ]
    },
    "wrong class": {
        "body": [
            {"rows": [5], "label": label}
            for label in ("", " ", "\x1b[31m", "a\nb", "\x00", "x" * 201, 5, [], {}, "NA", "\u202e", "\ud800", "-1",
                          True)
        ]
    },
    "wrong skip": {"path": ["skip"], "body": [{"row": row} for row in (60, -1, "5", None, 1e300, [])]},
    "wrong strategy": {"path": ["strategy"], "body": [{"name": name} for name in ("x", "\x1b[0m", 5, None)]},
    "path": {
        "path": ["static/../../x", "static/..%2f..%2fetc%2fpasswd", "image/../t.csv", "row/9999999999999999",
                 "export/../../t.csv", "static/%00", "row/-1", "row/x", "static//etc/passwd", "%2e%2e/"],
        "body": [None],
        "method": ["GET"],
    },
    "query": {
        "path": ["search?least=nan", "search?labelled=x", "find?most=2", "search?least=" + "9" * 5000],
        "body": [None],
        "method": ["GET"],
    },
    "no HTTP": {},
    "two lengths": {},
    "slow clients": {},
}  # fmt: skip


def _made(name: str, rng: random.Random, port: int, token: str) -> bytes | int:
    """Return a request, or a number of connections that stay silent."""
    if name == "no HTTP":
        return rng.choice([b"\x16\x03\x01\x02\x00\x01", b"\r\n\r\n", b"GET\r\n\r\n", b"\0" * 5000])
    if name == "slow clients":
        return rng.choice([50, 300, 1000])
    drawn = {"token": token, "body": {"rows": [5], "label": "x"}}
    drawn |= {field: rng.choice(values) for field, values in _REQUESTS[name].items()}
    here = {"port": port, "token": token, "cut": token[:-1], "upper": token.upper()}
    drawn |= {field: drawn[field].format(**here) for field in ("token", "host", "origin") if field in drawn}
    request = _request(port, **drawn)
    if name == "two lengths":
        both = b"\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
        return request.replace(b"\r\n\r\n", both, 1)
    return request


def opened_only() -> None:
    """Let a page end when it is ready, to test how it reads its files."""
    from labelfold.app.label._server import Running

    def serve(page: Any) -> None:
        page.close()

    Running.serve = serve  # type: ignore[method-assign]


def with_labels(folder: Path) -> None:
    """Write a journal of some labels."""
    from labelfold.app.io._label_file import Journal, Line

    journal = Journal(folder / "t.labels.csv", ["name"], ["name", "a", "b", "c", "d", "kind"])
    for i in range(30):
        label = _ODD[i % len(_ODD)]
        journal.append([Line(i + 1, (f"row {i}",), label, journal.now(), "ada", "random", "a", 0.5, "")])
    journal.close()
