"""A real browser for tests: headless Chromium, driven through its DevTools protocol over a pair of pipes."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# Flags for WebGL without a graphics card.
SOFTWARE_GL = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One page in a headless Chromium. It notes every console error, exception and network request.

    The messages are JSON, each ended by a zero byte, on file descriptors 3 and 4 of the browser.
    """

    def __init__(self, profile: Path, *, flags: Sequence[str] = ("--disable-gpu",)):
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        flags = [
            "--headless", "--no-sandbox", "--no-first-run", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
            f"--user-data-dir={profile}", *flags,
        ]  # fmt: skip
        self._process = os.posix_spawn(
            CHROMIUM,
            [CHROMIUM, *flags, "about:blank"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, to_browser, 3),
                (os.POSIX_SPAWN_DUP2, from_browser, 4),
                *((os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)),
            ],
        )
        os.close(to_browser)
        os.close(from_browser)
        self._rest, self._ids = b"", itertools.count(1)
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = next(
            t for t in self._call("Target.getTargets", session=None)["targetInfos"] if t["type"] == "page"
        )
        self._session = self._attach(target["targetId"])

    def _attach(self, target: str) -> str:
        """Return the session of a tab, with everything noted that happens in it."""
        attached = self._call("Target.attachToTarget", session=None, targetId=target, flatten=True)
        before, self._session = getattr(self, "_session", ""), attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        made, self._session = self._session, before
        return made

    @contextmanager
    def tab(self) -> Iterator[None]:
        """Do what follows in a second tab."""
        target = self._call("Target.createTarget", session=None, url="about:blank")["targetId"]
        before, self._session = self._session, self._attach(target)
        try:
            yield
        finally:
            self._session = before
            self._call("Target.closeTarget", session=None, targetId=target)

    def _call(self, method: str, session: str | None = "", **params):
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _next(self, seconds: float = 60) -> dict:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise TimeoutError("the browser says nothing")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise RuntimeError("the browser is gone")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict) -> None:
        what, params = event.get("method"), event.get("params", {})
        if what == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"]))
        elif what == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(params["args"]))
        elif what == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif what == "Page.javascriptDialogOpening":
            if params["type"] != "beforeunload":
                self.errors.append(f"{params['type']}: {params['message']}")
            answer = {
                "id": next(self._ids),
                "method": "Page.handleJavaScriptDialog",
                "params": {"accept": True},
            }
            os.write(self._out, json.dumps({**answer, "sessionId": event["sessionId"]}).encode() + b"\0")
        elif what == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def look(
        self,
        width: int = 1200,
        height: int = 900,
        *,
        dark: bool = False,
        mobile: bool = False,
        still: bool = False,
        scale: int = 1,
    ) -> None:
        """Choose the size of the window, pixels of the screen for one of the page, and what the reader prefers."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=mobile,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}
        self._call("Emulation.setEmulatedMedia", features=[scheme, motion])

    def open(self, path: Path | str, seconds: float = 60) -> None:
        """Open a report, or an address, and wait until its figures are drawn."""
        self.errors.clear()
        self.requests.clear()
        self._call("Page.navigate", url=path if isinstance(path, str) else path.as_uri())
        self.wait("document.documentElement?.dataset.drawn === 'yes'", seconds)

    @contextmanager
    def before_pages(self, script: str) -> Iterator[None]:
        """Run a script before those of every page that is opened meanwhile."""
        number = self._call("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
        try:
            yield
        finally:
            self._call("Page.removeScriptToEvaluateOnNewDocument", identifier=number)

    def run(self, script: str):
        """Return the value of an expression."""
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def wait(self, script: str, seconds: float = 20) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + seconds
        while not self.run(f"!!({script})"):
            if time.monotonic() > deadline:
                raise TimeoutError(script)
            time.sleep(0.05)

    def point_at(self, x: float, y: float) -> None:
        """Move the mouse."""
        for step in (4, 0):  # a move, not a jump
            self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x - step, y=y)

    def drag(self, path: list[tuple[float, float]], *, shift: bool = False) -> None:
        """Drag the mouse along a path, with the shift key held down if asked."""
        for i, (x, y) in enumerate([path[0], *path, path[-1]]):
            kind = "mousePressed" if i == 0 else "mouseReleased" if i > len(path) else "mouseMoved"
            self.mouse(kind, x, y, shift=shift)

    def mouse(self, kind: str, x: float, y: float, *, shift: bool = False) -> None:
        """Do one thing with the left button: "mousePressed", "mouseMoved" or "mouseReleased"."""
        held = {"button": "left", "buttons": 1, "clickCount": 1, "modifiers": 8 if shift else 0}
        self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **held)

    def download_to(self, folder: Path) -> None:
        """Let files that the page gives be written to a folder."""
        self._call("Browser.setDownloadBehavior", session=None, behavior="allow", downloadPath=str(folder))

    def press(self, key: str) -> None:
        """Press a key: one of text, or one by its name."""
        typed = {"text": key} if len(key) == 1 else {}
        code = ord(key.upper()) if typed else {"Enter": 13, "Escape": 27, "Backspace": 8}.get(key, 9)
        if key == "Enter":
            typed = {"text": "\r"}
        for kind in ("keyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **typed
            )

    def type(self, text: str) -> None:
        """Put text where the focus is."""
        self._call("Input.insertText", text=text)

    def touch(self, *moments: list[tuple[float, float]]) -> None:
        """Put fingers on the screen, move them from moment to moment, and lift them."""
        for i, fingers in enumerate(moments):
            points = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(fingers)]
            kind = "touchMove" if i else "touchStart"
            self._call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
        self._call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def shot(self) -> bytes:
        """Return a picture of what is in the window, as a PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot")["data"])

    def screenshot(self, path: Path, element: str = "document.documentElement") -> None:
        """Write a picture of an element, given by an expression."""
        x, y, width, height = self.run(
            f"(() => {{ const r = {element}.getBoundingClientRect();"
            "return [r.left + scrollX, r.top + scrollY, r.width, r.height]; })()"
        )
        edge = min(x, y, 20)
        clip = {
            "x": x - edge,
            "y": y - edge,
            "width": width + 2 * edge,
            "height": height + 2 * edge,
            "scale": 1,
        }
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self) -> bytes:
        """Return the page as it would be printed."""
        return base64.b64decode(self._call("Page.printToPDF", printBackground=False)["data"])

    def close(self) -> None:
        """End the browser."""
        self._call("Browser.close", session=None)
        os.waitpid(self._process, 0)
        os.close(self._in)
        os.close(self._out)
