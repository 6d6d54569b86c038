"""Runs the server: port, token, thread, start and end."""

from __future__ import annotations

import atexit
import getpass
import os
import secrets
import socket
import sys
import threading
import webbrowser
from typing import Any

import uvicorn

from labelfold.app.io import FileProblem, Journal
from labelfold.app.label._server import Page
from labelfold.app.label._session import Session, checked_name, known_strategy
from labelfold.app.label._table import Material

PORT = 8421


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
        self.url = f"http://127.0.0.1:{number}/{token}/"
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
    rows: Material,
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
    rows : Material
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
    except (OSError, KeyError, ImportError):  # the user has no name
        return "somebody"


def show(url: str) -> bool:
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
