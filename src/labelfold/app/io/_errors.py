"""Errors about files and requests, each one sentence, and what words them; packages that may not be installed."""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from labelfold.utils import Package

# Control characters, marks that change the writing direction, and bytes of a file name that are not text.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# Messages of the operating system for a failing disk or network, independent of the content of the file.
_FAILURES = tuple(
    os.strerror(getattr(errno, name, errno.EIO)) for name in ("EIO", "ESTALE", "ETIMEDOUT", "ENODEV")
)
__all__ = ["arrow_csv", "pa", "pd"]


class FileProblem(ValueError):
    """A file cannot be used. The message is one sentence for the user."""


class Refusal(ValueError):
    """A request cannot be carried out. The message is one sentence for the user."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'a' or 'b'?)`` for the names nearest to ``name``; "" if none is near.

    >>> did_you_mean("lable", ["label", "weight"])
    " (did you mean 'label'?)"
    >>> did_you_mean("zzz", ["label", "weight"])
    ''
    """
    by_lower = {k.lower(): k for k in map(str, known)}
    near = difflib.get_close_matches(str(name).lower(), list(by_lower), n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(repr(by_lower[n]) for n in near)}?)" if near else ""


def listed(names: Iterable[object], most: int = 5) -> str:
    """Return names joined for a sentence; of many names the first few and the number of others.

    >>> listed(["a", "b"])
    "'a', 'b'"
    >>> listed(range(9), most=2)
    "'0', '1' and 7 more"
    """
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(str(n)) for n in names[:most]) + more


def count(number: int, thing: str) -> str:
    """Return a number with its noun, in the plural if needed.

    >>> count(1, "repeat"), count(1200, "row")
    ('1 repeat', '1,200 rows')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def failure_to_read(error: BaseException | None) -> str:
    """Return the message of the operating system if it could not read a file; "" if the content is at fault.

    >>> failure_to_read(ValueError("no table")), failure_to_read(OSError(5, "Input/output error"))
    ('', 'Input/output error')
    """
    while error is not None:
        if said := next((words for words in _FAILURES if words in str(error)), ""):
            return said
        error = error.__cause__ or error.__context__
    return ""


@contextmanager
def reporting(
    path: object, fault: str, cure: str = "write or copy it again", errors: Any = Exception
) -> Iterator[None]:
    """Turn errors into a FileProblem that says what is at fault with a file, and what to do.

    By default these are all errors: the content of a damaged file can be wrong in any way.
    """
    try:
        yield
    except FileProblem:
        raise
    except errors as error:
        raise FileProblem(f"{path} {fault}: {one_line(error)}; {cure}.") from error


@contextmanager
def read_from(path: object) -> Iterator[None]:
    """Raise a FileProblem if the operating system could not read a file, even if its reader raised another error."""
    try:
        yield
    except (OSError, FileProblem) as error:
        if said := failure_to_read(error):
            raise FileProblem(
                f"{path} could not be read: {said}; try again, or copy it to another disk and read that."
            ) from error
        raise


def printable(text: str, *, hide_passwords: bool = False) -> str:
    r"""Return text with control characters escaped, except newlines and tabs, so that none can control the terminal.

    >>> printable("a\x1b[31mb\u202e")
    'a\\x1b[31mb\\u202e'
    """
    text = without_password(text) if hide_passwords else text
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


# The password, between user and host. It may contain @ and blanks, so the last @ ends it.
_USER = r"(?P<before>[A-Za-z][\w+.-]*://[^/\s:@]*:)"
_PASSWORD, _ANY_PASSWORD = re.compile(rf"{_USER}\S*@"), re.compile(rf"{_USER}.*@", re.DOTALL)
_KEY = re.compile(r"(?P<before>[?&](?:ssl)?password=)[^&\s]*", re.IGNORECASE)


def without_password(text: str) -> str:
    """Return text with *** in place of the password of an address in it.

    >>> without_password("postgresql://me:a@b:c@host/shop?sslmode=require was not found.")
    'postgresql://me:***@host/shop?sslmode=require was not found.'
    """
    return _KEY.sub(r"\g<before>***", _PASSWORD.sub(r"\g<before>***@", text))


def hide_password(address: str) -> str:
    """Return an address with *** in place of its password; other text as it is.

    >>> hide_password("postgresql://me:a b@host/shop")
    'postgresql://me:***@host/shop'
    """
    return _KEY.sub(r"\g<before>***", _ANY_PASSWORD.sub(r"\g<before>***@", address))


def one_line(error: BaseException | str) -> str:
    """Return an exception's message as one line without a full stop at the end."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:300].rstrip(". ")


@contextmanager
def refusing() -> Iterator[None]:
    """Turn ValueErrors of the library into a Refusal, so that the command line shows their message only."""
    try:
        yield
    except (FileProblem, Refusal):
        raise
    except ValueError as error:
        raise Refusal(f"{one_line(error)}.") from error


_NEEDED = "The app of labelfold needs pandas and pyarrow: pip install 'labelfold[app]'."
pa: Any = Package("pyarrow", _NEEDED)
if TYPE_CHECKING:
    import pandas as pd
    from pyarrow import csv as arrow_csv
else:
    pd, arrow_csv = Package("pandas", _NEEDED), Package("pyarrow.csv", _NEEDED)
