"""Checks of every request: only the page itself may call the server, and requests are limited in size."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

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
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                given = [
                    pair for pair in message.get("headers", []) if pair[0].decode().lower() not in HEADERS
                ]
                message = {**message, "headers": [*given, *own]}
            await send(message)

        status = self._refused(scope)
        if status:
            await with_headers({"type": "http.response.start", "status": status, "headers": []})
            await with_headers({"type": "http.response.body", "body": b""})
            return
        await self.app(scope, receive, with_headers)

    def _refused(self, scope: Scope) -> int:
        """Return the HTTP status of a refusal; 0 if the request is accepted."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        hosts = headers.get("host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return 403
        first, _, rest = scope["path"].removeprefix("/").partition("/")
        if not secrets.compare_digest(first.encode("utf-8", "replace"), self.token.encode()):
            return 404
        origins = headers.get("origin", [])
        own = {f"http://{host}" for host in self.hosts}
        if any(origin not in own for origin in origins):
            return 403
        # a link from another site may open the page; everything else is requested by the page itself
        site = headers.get("sec-fetch-site", ["none"])[0]
        if rest and site not in ("same-origin", "none"):
            return 403
        if scope["method"] == "POST":
            if len(origins) != 1:
                return 403
            kind = headers.get("content-type", [""])[0].partition(";")[0].strip().lower()
            return 0 if kind == "application/json" else 415
        return 0 if scope["method"] in ("GET", "HEAD") else 405
