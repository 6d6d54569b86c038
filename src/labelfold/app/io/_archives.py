"""Zip archives whose bytes do not depend on the clock."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

_FIRST_DAY = time.struct_time((1980, 1, 1, 0, 0, 0, 1, 1, 0))


@contextmanager
def undated() -> Iterator[None]:
    """Date the members of zip archives 1980-01-01, the earliest date of the format.

    The same content then gives the same bytes, and a clock at 1970 or 2200, which the format cannot store, causes no
    error. `zipfile` reads the clock itself, and neither skops nor NumPy has a parameter for the date.

    Examples
    --------
    >>> import io
    >>> with undated(), zipfile.ZipFile(io.BytesIO(), "w") as archive:
    ...     archive.writestr("a", b"")
    ...     archive.infolist()[0].date_time
    (1980, 1, 1, 0, 0, 0)
    """
    real = vars(zipfile)["time"]
    clock = SimpleNamespace(**vars(real) | {"localtime": lambda *_: _FIRST_DAY})
    vars(zipfile)["time"] = clock
    try:
        yield
    finally:
        vars(zipfile)["time"] = real
