"""The entry point of the ``labelfold`` command. It turns every failure into one sentence."""

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
_MOMENT = 0.02  # seconds until an interrupt is repeated; nobody notices so short a time
_shown_warnings: set[str] = set()  # warnings shown so far


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0 is success, 2 a mistake in the request or the data, 1 a failure of the system or an unexpected error, and 130
    Ctrl-C. If the environment variable ``LABELFOLD_DEBUG`` is set, failures show their traceback.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process by default.

    Returns
    -------
    int
        The exit status.
    """
    if argv is None:
        sys.unraisablehook = _unraisable
        for stream in (sys.stdout, sys.stderr):  # characters that a terminal lacks are escaped
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        print(
            "labelfold: Stopped.", file=sys.stderr
        )  # _print_error may import a module whose import was interrupted
        return 130
    except BrokenPipeError:  # the reader of the pipe has ended
        _no_more_output()
        return 1
    except OSError as error:
        _no_more_output()
        what = "The output could not be written"
        if error.filename is not None:
            what = f"{error.filename} could not be read or written"
        _print_error(f"{what}: {error.strerror or error}.", error)
        return 1
    except MemoryError as error:
        _print_error(
            "There is too little memory for this; give fewer rows or columns, or more memory.", error
        )
        return 1
    finally:
        if argv is None:  # the process ends; Ctrl-C must not print a traceback now
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _run(args: list[str]) -> int:
    """Run a command and return its exit status."""
    began = time.perf_counter()
    missing = [name for name in _APP if find_spec(name) is None]
    if missing:
        _print_error(f"The command line needs {', '.join(missing)}: pip install 'labelfold[app]'.")
        return 2
    from labelfold.app.commands import (  # noqa: F401 - their commands belong to the app
        _apply,
        _compare,
        _label,
    )
    from labelfold.app.commands._model import app
    from labelfold.app.io import FileProblem, Refusal, one_line
    from labelfold.tables import UnseenValuesWarning

    _shown_warnings.clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # _print_warning shows each once
            # the commands refuse, or show a note
            warnings.simplefilter("ignore", UnseenValuesWarning)
            warnings.showwarning = _print_warning
            words = args or ["--help"]
            status = app(args=words, prog_name="labelfold", standalone_mode=False, obj=began) or 0
        if sys.stdout is not None:
            sys.stdout.flush()  # raises here, where it can be reported, if the disk is full
        if status == 130:  # some releases of typer return this on Ctrl-C, others raise
            raise KeyboardInterrupt
        return status
    except (FileProblem, Refusal) as error:
        _print_error(str(error), error)
        return 2
    except (OSError, MemoryError):
        raise
    except Exception as error:
        # typer brings its own copy of click or uses the installed one, so the class cannot be tested
        if hasattr(error, "format_message"):
            _print_error(f"{error.format_message().rstrip('.')}; see {_help(error)}.", error)
            return 2
        if type(error).__name__ == "Abort":
            raise KeyboardInterrupt from None
        hint = f"set {_DEBUG}=1 to see where, and please report it"
        _print_error(
            f"Something unforeseen went wrong ({type(error).__name__}: {one_line(error)}); {hint}.", error
        )
        return 1


def _no_more_output() -> None:
    """Discard further output, so that the interpreter does not report it when it exits."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unraisable(found: Any) -> None:
    """Repeat a Ctrl-C that was ignored because it came in a destructor or in a callback of a C library."""
    if found.exc_type is KeyboardInterrupt:
        # with a delay: raised now it would be ignored again
        threading.Timer(_MOMENT, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(found)


def _help(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context else 'labelfold'} --help"


def _print_error(sentence: str, error: BaseException | None = None) -> None:
    if error is not None and os.environ.get(_DEBUG):
        raise error
    _print_line("labelfold", sentence)


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    text = " ".join(str(message).split())
    if text not in _shown_warnings:
        _shown_warnings.add(text)
        _print_line("Note", text)


def _print_line(who: str, text: str) -> None:
    from labelfold.app.io import printable

    print(f"{who}: {printable(text, hide_passwords=True)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
