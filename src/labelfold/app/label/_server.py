"""The server of the page: routes, events that report changes to every tab, the port, start and end."""

from __future__ import annotations

import asyncio
import atexit
import getpass
import json
import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from labelfold.app.io import FileProblem, Journal, Refusal, one_line
from labelfold.app.label._export import EXPORTS
from labelfold.app.label._row_view import RowView
from labelfold.app.label._session import Session, checked_name, known_strategy
from labelfold.app.label._table import TableToLabel

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
PORT = 8421
_MAX_BODY, _MAX_BODY_OF_ROW = 65_536, 12  # budget: bytes of a request, and of each row number in it
_MAX_FOUND = 1000  # rows that a search returns
_BEAT = 15.0  # seconds between heartbeats
_MAX_TABS = 64  # budget: each open tab holds a connection
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Page:
    """The routes of a session.

    Parameters
    ----------
    session : Session
    token : str
        The first part of every path.
    port : int
    safe_csv : bool
        Whether exports have an apostrophe before text that a spreadsheet would run as a formula.
    """

    def __init__(self, session: Session, token: str, port: int, *, safe_csv: bool = False) -> None:
        self.session, self.row_view, self.safe_csv = session, RowView(session), safe_csv
        self._tabs: set[asyncio.Event] = set()
        self._ending = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._static = _bundle()
        acts: dict[str, Callable[[dict[str, Any]], None]] = {
            "label": self._label,
            "skip": lambda body: session.skip(_given(body, "row", int, "a whole number")),
            "undo": lambda body: session.undo(),
            "redo": lambda body: session.redo(),
            "strategy": lambda body: session.choose(_given(body, "name", str, "text")),
            "class": lambda body: session.add_class(_given(body, "name", str, "text")),
        }
        gets: dict[str, Callable[[Request], Response]] = {
            "state": self._state,
            "points": lambda request: _octets(session.points()),
            "said": lambda request: _octets(session.predictions_of_all()),
            "row/{row:int}": lambda request: JSONResponse(self.row_view.row(self._row(request))),
            "image/{row:int}": self._image,
            "search": self._search,
            "find": self._find,
            "export/{name}": self._export,
            "static/{name}": lambda request: self._file(request.path_params["name"]),
            "": lambda request: self._file("index.html"),
        }
        routes = [Route(f"/{path}", answer) for path, answer in gets.items()]
        routes += [
            Route(f"/{path}", partial(self._posted, act), methods=["POST"]) for path, act in acts.items()
        ]
        routes.append(Route("/events", self._events))
        app = Starlette(
            routes=[Mount(f"/{token}", routes=routes)],
            lifespan=self._lifespan,
            exception_handlers={HTTPException: _http_error, ValueError: _refusal, Exception: _server_error},
        )
        self.app = Guard(app, token, port)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        end = self.session.listen(self._wake)
        try:
            yield
        finally:
            end()
            self._loop = None

    def end(self) -> None:
        """Close the event streams of all tabs, so that the server can end."""
        self._ending = True
        self._wake()

    def _wake(self) -> None:
        """Send the newest state to every tab. May be called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake_tabs)

    def _wake_tabs(self) -> None:
        for tab in self._tabs:
            tab.set()

    async def _events(self, request: Request) -> Response:
        if len(self._tabs) >= _MAX_TABS:
            raise HTTPException(429, "Too many tabs are open; close some.")
        return StreamingResponse(self._states(), media_type="text/event-stream")

    async def _states(self) -> AsyncIterator[bytes]:
        """Yield the newest state, at once and after every change; states in between are skipped."""
        changed = asyncio.Event()
        changed.set()
        self._tabs.add(changed)
        try:
            while not self._ending:
                try:
                    await asyncio.wait_for(changed.wait(), _BEAT)
                except TimeoutError:
                    yield b": \n\n"
                    continue
                changed.clear()
                state = await run_in_threadpool(self._state)
                yield b"event: state\ndata: " + bytes(state.body) + b"\n\n"
        finally:
            self._tabs.discard(changed)

    async def _posted(self, act: Callable[[dict[str, Any]], None], request: Request) -> Response:
        limit = _MAX_BODY + _MAX_BODY_OF_ROW * self.session.rows.n * (request.url.path.endswith("/label"))
        body = await _body(request, limit)

        await run_in_threadpool(act, body)
        return await run_in_threadpool(self._state)

    def _state(self, request: Request | None = None) -> Response:
        return JSONResponse(self.session.state())

    def _label(self, body: dict[str, Any]) -> None:
        rows, label = body.get("rows"), body.get("label", "")
        if not isinstance(rows, list) or any(type(row) is not int for row in rows):
            raise Refusal("rows is a list of whole numbers.")
        if label is not None and not isinstance(label, str):
            raise Refusal("label is text, or null to take a label back.")
        self.session.label(rows, label)

    def _row(self, request: Request) -> int:
        row = int(request.path_params["row"])
        if not 0 <= row < self.session.rows.n:
            raise HTTPException(404, f"There is no row {row}.")
        return row

    def _image(self, request: Request) -> Response:
        found = self.row_view.image(self._row(request))
        if found is None:
            raise HTTPException(404, "This row has no image that can be read.")
        return Response(found, media_type="image/png")

    def _search(self, request: Request) -> Response:
        found = np.flatnonzero(matching_rows(self.session, request.query_params))
        return JSONResponse({"rows": found[:_MAX_FOUND].tolist(), "total": len(found)})

    def _find(self, request: Request) -> Response:
        return _octets(matching_rows(self.session, request.query_params).astype("u1").tobytes())

    def _export(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in EXPORTS:
            raise HTTPException(404, f"There is no export of that name; there are {', '.join(EXPORTS)}.")
        make, kind = EXPORTS[name]
        content = make(self.session, self.safe_csv)
        return Response(
            content, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'}
        )

    def _file(self, name: str) -> Response:
        if name not in self._static:
            raise HTTPException(404, "There is no such file.")
        content, kind = self._static[name]
        return Response(content, headers={"content-type": kind})


async def _body(request: Request, limit: int) -> dict[str, Any]:
    """Read a request of at most ``limit`` bytes as a JSON object."""
    length = request.headers.get("content-length", "0")
    parts, size = [], 0
    if length.isdecimal() and int(length) > limit:
        raise HTTPException(413, f"A request has {limit:,} bytes at most.")
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise HTTPException(413, f"A request has {limit:,} bytes at most.")
        parts.append(part)
    try:
        body = json.loads(b"".join(parts) or b"{}")
    except (ValueError, RecursionError):
        raise HTTPException(400, "The request is no JSON.") from None
    if not isinstance(body, dict):
        raise HTTPException(400, "The request is no JSON object.")
    return body


def _given(body: dict[str, Any], name: str, kind: type, words: str) -> Any:
    if type(body.get(name)) is not kind:
        raise Refusal(f"{name} is {words}.")
    return body[name]


def _octets(content: bytes) -> Response:
    return Response(content, media_type="application/octet-stream")


def _error(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.detail)


async def _refusal(request: Request, error: Exception) -> Response:
    """Return the sentence of an error; a label that could not be written is no fault of the request."""
    status = 409 if "/export/" in request.url.path else 400
    if request.method == "POST" and isinstance(error, FileProblem):
        status = 507
    known = isinstance(error, Refusal | FileProblem)
    return _error(status, str(error) if known else f"{one_line(error)}.")


async def _server_error(request: Request, error: Exception) -> Response:
    return _error(500, f"Something unforeseen went wrong ({type(error).__name__}: {one_line(error)}).")


def _bundle() -> dict[str, tuple[bytes, str]]:
    """Return the files of the page by name. No other file is served."""
    folder = files("labelfold.app.label").joinpath("static")
    held = {}
    for file in folder.iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if file.is_file() and suffix in _TYPES:
            held[file.name] = file.read_bytes(), _TYPES[suffix]
    return held


class Guard:
    """ASGI middleware that accepts requests from the page itself only.

    * The first part of the path is the token; any other path gets an empty 404.
    * Host is 127.0.0.1 or localhost with the port, which prevents DNS rebinding.
    * Origin, if present, and Sec-Fetch-Site are those of the page. A POST must have an Origin.
    * A POST is JSON, which a form of another site cannot send without a preflight request.

    Parameters
    ----------
    app : ASGI application
    token : str
    port : int
    """

    def __init__(self, app: Any, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it to the application."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        status = self._refused(scope)
        if status:
            await with_headers({"type": "http.response.start", "status": status, "headers": []})
            await with_headers({"type": "http.response.body", "body": b""})
            return
        await self.app(scope, receive, with_headers)

    def _refused(self, scope: Scope) -> int:
        """Return the HTTP status of a refusal; 0 if the request is accepted."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return 403
        first, _, rest = scope["path"].removeprefix("/").partition("/")
        if not secrets.compare_digest(first.encode("utf-8", "replace"), self.token.encode()):
            return 404
        origins = headers.getlist("origin")
        own = {f"http://{host}" for host in self.hosts}
        if any(origin not in own for origin in origins):
            return 403
        # a link from another site may open the page; everything else is requested by the page itself
        if rest and headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403
        if scope["method"] == "POST":
            if len(origins) != 1:
                return 403
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            return 0 if kind == "application/json" else 415
        return 0 if scope["method"] in ("GET", "HEAD") else 405


def matching_rows(session: Session, wanted: Mapping[str, str]) -> np.ndarray:
    """Return a mask (n,) of the rows that meet all conditions.

    Parameters
    ----------
    session : Session
    wanted : mapping of str to str
        The conditions; an empty value sets none. ``text``: occurs in a cell or an id, or is the row number.
        ``class``: the label. ``predicted``: the predicted class. ``labelled``: "yes" or "no". ``least`` and ``most``:
        bounds of the confidence.
    """
    marks = session.marks
    found = np.ones(session.rows.n, dtype=bool)
    predicted, sure = session.predictions()
    if text := wanted.get("text", "").strip():
        found &= _with_text(session, text[:200])
    for key, codes in (("class", marks.codes), ("predicted", predicted)):
        if name := wanted.get(key, ""):
            found &= codes == (marks.classes.index(name) if name in marks.classes else -2)
    labelled = wanted.get("labelled", "")
    if labelled not in ("", "yes", "no"):
        raise Refusal(f"labelled is yes or no, not {labelled[:40]!r}.")
    if labelled:
        found &= marks.labelled == (labelled == "yes")
    for key, sign in (("least", 1), ("most", -1)):
        if value := wanted.get(key, ""):
            found &= sign * sure >= sign * _share(key, value)
    return found


def _with_text(session: Session, text: str) -> np.ndarray:
    rows = session.rows
    found = rows.cells.holding(text, None if rows.image_shape is None else [])
    lower = text.lower()
    if rows.ids is not None:
        for name in rows.ids:
            found |= np.array([lower in str(value).lower() for value in rows.ids[name]], dtype=bool)
    number = lower.removeprefix("row ").strip()
    if number.isdecimal() and 0 < int(number) <= rows.n and (rows.ids is None or lower.startswith("row ")):
        found[int(number) - 1] = True
    return found


def _share(key: str, value: str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = float("nan")
    if not 0 <= share <= 1:
        raise Refusal(f"{key} is a number from 0 to 1, not {value[:40]!r}.")
    return share


class Running:
    """A session that is served at a local address.

    Parameters
    ----------
    session : Session
    bound : socket, optional
        The socket; by default at port 8421, or at another one if that is in use.
    safe_csv : bool

    Attributes
    ----------
    url : str
        The address, with the token.
    """

    def __init__(
        self, session: Session, bound: socket.socket | None = None, *, safe_csv: bool = False
    ) -> None:
        self.session = session
        self._socket = _bound(None) if bound is None else bound
        number = self._socket.getsockname()[1]
        token = secrets.token_urlsafe(24)
        self.url: str = f"http://127.0.0.1:{number}/{token}/"
        self._page = Page(session, token, number, safe_csv=safe_csv)
        config = uvicorn.Config(
            self._page.app,
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=2,
            limit_concurrency=256,
            h11_max_incomplete_event_size=32_768,
        )
        self._server = _Server(config, self._page)
        self._thread: threading.Thread | None = None
        self._closed = False

    def serve(self) -> None:
        """Serve until Ctrl-C; then end."""
        try:
            self.session.start()
            self._server.run(sockets=[self._socket])
        except KeyboardInterrupt:  # uvicorn raises it again when it has ended
            pass
        finally:
            self.close()

    def start(self) -> None:
        """Serve in a thread of its own."""
        self.session.start()
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="labelfold-page", daemon=True
        )
        self._thread.start()
        atexit.register(self._leave)

    def _leave(self) -> None:
        """Close when the interpreter exits, since exiting during a fit may abort."""
        self.close()
        self.ended(30)

    def ended(self, seconds: float) -> bool:
        """Wait for the current fit, which cannot be interrupted; return whether it has ended."""
        if self.session.worker.is_alive():
            self.session.worker.join(seconds)
        return not self.session.worker.is_alive()

    def close(self) -> None:
        """End the server and close the journal. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._server.should_exit = True
        self._page.end()
        if self._thread is not None:
            self._thread.join(5)
        self._socket.close()
        self.session.close()


def open_page(
    rows: TableToLabel,
    file: str | os.PathLike[str],
    *,
    who: str | None,
    strategy: str,
    seed: int,
    port: int | None,
    safe_csv: bool,
) -> Running:
    """Return a page that is ready to serve. Errors are raised before the file of labels is created.

    Parameters
    ----------
    rows : TableToLabel
        The table.
    file : path
        The file of labels.
    who : str or None
        Who labels; None for the login name.
    strategy, seed, port, safe_csv
        See `Session` and `Running`.
    """
    named = checked_name(login() if who is None else who, "--who")
    known_strategy(strategy)
    bound = _bound(port)
    journal = None
    try:
        ids = [] if rows.ids is None else list(rows.ids)
        table = rows.table
        own = () if table.frame is None else table.frame.column_names
        journal = Journal(file, ids, [*(table.feature_names or ()), *table.targets, *ids, *own])
        session = Session(rows, journal, who=named, strategy=strategy, seed=seed)
        return Running(session, bound, safe_csv=safe_csv)
    except BaseException:
        bound.close()
        if journal is not None:
            journal.close()
        raise


def login() -> str:
    """Return the login name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # there is no login name
        return "somebody"


def open_browser(url: str) -> bool:
    """Open a browser; return whether there is one."""
    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False


class _Server(uvicorn.Server):
    """A server that closes the event streams of its tabs before it shuts down."""

    def __init__(self, config: uvicorn.Config, page: Page) -> None:
        super().__init__(config)
        self._page = page

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Handle Ctrl-C."""
        self._page.end()
        super().handle_exit(sig, frame)


def _bound(port: int | None) -> socket.socket:
    """Return a local socket, or raise an error if the port is in use."""
    for wanted in (PORT, 0) if port is None else (port,):
        # with an explicit protocol; without it asyncio leaves Nagle's algorithm on, which delays each answer by 40 ms
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if sys.platform != "win32":  # on Windows it would share the port with another program
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(("127.0.0.1", wanted))
            bound.listen(128)
            return bound
        except OSError as error:
            bound.close()
            problem = error
        except OverflowError:
            bound.close()
            raise FileProblem(f"--port is a number from 1 to 65535, not {wanted}.") from None
    raise FileProblem(
        f"Port {port} cannot be used: {problem.strerror or problem}; leave out --port, and a free one is found."
    )
