"""The ``labelfold`` command: what surrounds the commands, so that every failure is one sentence."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

_APP = ("typer", "rich", "pandas", "pyarrow", "plotly", "jinja2", "skops")
_DEBUG = "LABELFOLD_DEBUG"
_MOMENT = 0.02
_said: set[str] = set()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0 is success, 2 is a request that cannot be met as it stands, 1 is a failure of the system or one that nobody
    foresaw, and 130 is Ctrl-C. With the environment variable ``LABELFOLD_DEBUG`` set, failures come with their
    traceback.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments, those of the process unless given.

    Returns
    -------
    int
        The exit status.
    """
    if argv is None:
        sys.unraisablehook = _unraisable
        for stream in (sys.stdout, sys.stderr):  # a terminal of few letters shows the others by their numbers
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        print("labelfold: Stopped.", file=sys.stderr)  # at once: _say may import what was being imported
        return 130
    except BrokenPipeError:  # the reader of a pipe went away
        _no_more_output()
        return 1
    except OSError as error:
        _no_more_output()
        what = "The output could not be written"
        if error.filename is not None:
            what = f"{error.filename} could not be read or written"
        _say(f"{what}: {error.strerror or error}.", error)
        return 1
    except MemoryError as error:
        _say("There is too little memory for this; give fewer rows or columns, or more memory.", error)
        return 1
    finally:
        if argv is None:  # the process ends: Ctrl-C has nothing to stop any more, and leaves no traceback
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _run(args: list[str]) -> int:
    """Run a command and return its exit status."""
    began = time.perf_counter()
    missing = [name for name in _APP if find_spec(name) is None]
    if missing:
        _say(f"The command line needs {', '.join(missing)}: pip install 'labelfold[app]'.")
        return 2
    from labelfold.app.commands._model import app
    from labelfold.app.io._problems import FileProblem, Refusal, one_line

    _said.clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # _note says each but once
            warnings.showwarning = _note
            words = args or ["--help"]
            status = app(args=words, prog_name="labelfold", standalone_mode=False, obj=began) or 0
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk shows here, and not when nobody can say so any more
        if status == 130:  # what some releases of typer make of Ctrl-C; others raise
            raise KeyboardInterrupt
        return status
    except (FileProblem, Refusal) as error:
        _say(str(error), error)
        return 2
    except (OSError, MemoryError):
        raise
    except Exception as error:
        # typer carries its own copy of click or uses the installed one: told apart by what they can do
        if hasattr(error, "format_message"):
            _say(f"{error.format_message().rstrip('.')}; see {_help(error)}.", error)
            return 2
        if type(error).__name__ == "Abort":
            raise KeyboardInterrupt from None
        hint = f"set {_DEBUG}=1 to see where, and please report it"
        _say(f"Something unforeseen went wrong ({type(error).__name__}: {one_line(error)}); {hint}.", error)
        return 1


def _no_more_output() -> None:
    """Keep the interpreter from complaining on its way out about what it could not write."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unraisable(found: Any) -> None:
    """Have Ctrl-C again where it fell into code that cannot be interrupted, such as a callback of a C library."""
    if found.exc_type is KeyboardInterrupt:
        # a moment later: now it would be raised in here, and lost again
        threading.Timer(_MOMENT, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(found)


def _help(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context else 'labelfold'} --help"


def _say(sentence: str, error: BaseException | None = None) -> None:
    if error is not None and os.environ.get(_DEBUG):
        raise error
    from labelfold.app.io._addresses import without_password
    from labelfold.app.io._problems import printable

    print(f"labelfold: {printable(without_password(sentence))}", file=sys.stderr)


def _note(message: Warning | str, *_: Any, **__: Any) -> None:
    # what a call in Python would pass is an option here
    text = " ".join(str(message).split()).replace("pass unlabeled=None", "pass --label-free ''")
    text = text.replace("although unlabeled=-1", "although -1 usually means no label")
    if text not in _said:
        _said.add(text)
        from labelfold.app.io._addresses import without_password
        from labelfold.app.io._problems import printable

        print(f"Note: {printable(without_password(text))}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
