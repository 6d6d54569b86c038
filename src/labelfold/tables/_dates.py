"""Parses dates and times in common layouts, and converts them to columns of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from labelfold.tables._arrow import distinct, is_text, pa, pc, text_cells, written
from labelfold.tables._limits import SAMPLE
from labelfold.tables._numbers import numbers

_TIME = (
    r"(?:(?:T|,?\s+)(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,]\d+)?)?\s*(?P<half>(?i:[ap]\.?m\.?)?))?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2}|[+-]\d{2})?"
)
_WEEKDAY = r"^(?:(?i:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = rf"(?P<name>(?i:{'|'.join(_MONTHS)})[a-z]*)\.?"
# Regular expressions of the layouts by name. A column has either "day first" or "month first", never both.
LAYOUTS = {
    "year first": rf"^(?P<y>\d{{4}})[-/.](?P<m>\d{{1,2}})[-/.](?P<d>\d{{1,2}}){_TIME}$",
    "day first": rf"^(?P<d>\d{{1,2}})[-/.](?P<m>\d{{1,2}})[-/.](?P<y>\d{{4}}|\d{{2}}){_TIME}$",
    "month first": rf"^(?P<m>\d{{1,2}})[-/.](?P<d>\d{{1,2}})[-/.](?P<y>\d{{4}}|\d{{2}}){_TIME}$",
    "day and month by name": rf"{_WEEKDAY}(?P<d>\d{{1,2}})[\s.-]*{_NAME}[\s,-]*(?P<y>\d{{4}}|\d{{2}}){_TIME}$",
    "month by name": rf"{_WEEKDAY}{_NAME}\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y>\d{{4}}){_TIME}$",
    "year and month": r"^(?P<y>\d{4})[-/](?P<m>\d{1,2})$",
    "digits alone": rf"^(?P<y>(?:1[89]|20)\d{{2}})(?P<m>\d{{2}})(?P<d>\d{{2}}){_TIME}$",
    "time of day": r"^(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,]\d+)?)?\s*(?P<half>(?i:[ap]\.?m\.?)?)$",
}
# Layouts that have one meaning, and are read in every column of dates: databases write dates so.
_CLEAR = ("year first", "day and month by name", "month by name")
# Layouts of dates given as numbers: the length of their unit in seconds.
EPOCHS = {"seconds since 1970": 1.0, "milliseconds since 1970": 1e-3}
_EITHER = ("day first", "month first")
DAY = 86_400.0


def layouts_of(cells: Sequence[str]) -> tuple[list[str], float]:
    """Return the layouts of dates in some cells, most frequent first, and the share of cells that they parse.

    Parameters
    ----------
    cells : sequence of str
        Cells without missing values and without surrounding blanks.

    Examples
    --------
    >>> layouts_of(["31.12.1960", "1.2.2003", "2003-02-01"])
    (['day first', 'year first'], 1.0)
    """
    if not cells:
        return [], 0.0
    left = pa.chunked_array([list(cells)], type=pa.string())
    read = {name: ~np.isnan(_read(left, name)[0]) for name in LAYOUTS}
    # a tie is decided by the separator: a slash is American
    usual = "month first" if np.mean(["/" in cell for cell in cells]) > 0.5 else "day first"
    read.pop(min(_EITHER, key=lambda name: (read[name].sum(), name == usual)))
    found, done = [], np.zeros(len(left), dtype=bool)
    while not done.all():
        best = max(read, key=lambda name: (read[name] & ~done).sum())
        if not (read[best] & ~done).any():
            break
        found.append(best)
        done |= read[best]
    return found, float(done.mean())


def instants(column: Any, layouts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return local and universal time of each cell in seconds since 1970, NaN where there is none.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Dates, times, timestamps (with or without a time zone), or text in one of the layouts.
    layouts : sequence of str
        Names of `LAYOUTS`. Each, and then those that have one meaning, is tried on the cells that the previous ones
        could not parse. If empty, as for a recipe learned from typed dates, layouts are inferred from the text.
    """
    types, kind = pa.types, column.type
    if layouts and layouts[0] in EPOCHS and not types.is_temporal(kind):
        seconds = EPOCHS[layouts[0]] * numbers(column, None)
        return seconds, seconds
    if types.is_integer(kind):
        column, kind = column.cast(pa.string()), pa.string()
    if is_text(kind) and not layouts:
        some = text_cells(column.slice(0, SAMPLE), numbers=True).drop_null()
        layouts = layouts_of(some.to_pylist())[0]
    if is_text(kind) and len(column):
        values, codes = distinct(written(column))
        if len(values) < len(codes):  # days repeat
            local, universal = (np.append(part, np.nan) for part in instants(values, layouts))
            return local[codes], universal[codes]
        text = text_cells(column, numbers=True)
        local, universal = np.full(len(text), np.nan), np.full(len(text), np.nan)
        there = pc.is_valid(text).to_numpy()
        for name in [*layouts, *(name for name in _CLEAR if layouts and name not in layouts)]:
            left = np.isnan(local) & there
            if not left.any():
                break
            part = text if left.all() else text.filter(pa.array(left))
            local[left], universal[left] = _read(part, name)
        return local, universal
    if types.is_time(kind):
        ticks = column.cast(pa.time64("us")).cast(pa.int64()).cast(pa.float64(), safe=False).to_numpy() / 1e6
        return ticks, ticks
    if types.is_date(kind):
        column = column.cast(pa.timestamp("s"))
    elif not types.is_timestamp(kind):
        empty = np.full(len(column), np.nan)
        return empty, empty
    zoned = column.type.tz is not None
    local_time = pc.local_timestamp(column) if zoned else column
    return _seconds(local_time), _seconds(column)


def read_wrongly(column: Any, local: np.ndarray, layouts: Sequence[str]) -> np.ndarray | None:
    """Return a mask of the dates of text that are read day first but written month first, or the reverse.

    None unless dates such as 12/31/2019 show that.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
    local : ndarray
        Local time of each cell as the layouts have it; NaN for cells that are no date.
    layouts : sequence of str
        Names of `LAYOUTS`.
    """
    if not is_text(column.type) or not set(_EITHER) & set(layouts):
        return None
    swapped = instants(
        column, [_EITHER[name == _EITHER[0]] if name in _EITHER else name for name in layouts]
    )[0]
    proofs = int(np.isnan(local).sum() - np.isnan(swapped).sum())
    wrong = ~np.isnan(local) & (swapped != local)
    # a single mistyped date is no evidence of another layout
    return wrong if proofs > 0 and proofs >= 0.1 * wrong.sum() else None


def _seconds(column: Any) -> np.ndarray:
    whole = column.cast(pa.timestamp("s", column.type.tz), safe=False).cast(pa.int64())
    return whole.cast(pa.float64(), safe=False).to_numpy()


def _read(text: Any, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """Return local and UTC seconds of text in one layout."""
    fields = pc.extract_regex(text, LAYOUTS[layout])
    names = [field.name for field in fields.type]
    n = len(text)

    def whole(name: str, default: int) -> np.ndarray:
        if name not in names:
            return np.full(n, default, dtype=np.int64)
        cells = pc.struct_field(fields, name)
        cells = pc.if_else(pc.equal(cells, ""), str(default), cells)
        return pc.fill_null(cells.cast("int64"), default).to_numpy()

    good = pc.is_valid(fields).to_numpy().astype(bool)
    year, day = whole("y", 1970), whole("d", 1)
    if "y" in names:  # two digits: the century is inferred; 0001 is the year 1
        short = pc.fill_null(pc.less_equal(pc.utf8_length(pc.struct_field(fields, "y")), 2), False).to_numpy()
        year = np.where(short.astype(bool), np.where(year < 50, 2000, 1900) + year, year)
    month = whole("m", 1)
    if "name" in names:
        start = pc.utf8_lower(pc.utf8_slice_codeunits(pc.struct_field(fields, "name"), 0, 3))
        places = pc.index_in(start, value_set=pa.array(_MONTHS))
        month = pc.fill_null(places, 0).to_numpy().astype(np.int64) + 1
    hour, minute, second = whole("H", 0), whole("M", 0), whole("S", 0)
    if "half" in names:
        half = pc.utf8_lower(pc.utf8_slice_codeunits(pc.struct_field(fields, "half"), 0, 1))
        after = pc.fill_null(pc.equal(half, "p"), False).to_numpy().astype(bool)
        before = pc.fill_null(pc.equal(half, "a"), False).to_numpy().astype(bool)
        hour = np.where(after & (hour < 12), hour + 12, np.where(before & (hour == 12), 0, hour))
    good &= (
        (month >= 1) & (month <= 12) & (day >= 1) & (hour <= 24) & (minute < 60) & (second < 61) & (year > 0)
    )
    first = ((year - 1970) * 12 + np.where(good, month, 1) - 1).astype("datetime64[M]")
    days = first.astype("datetime64[D]").astype(np.int64)
    good &= day <= (first + 1).astype("datetime64[D]").astype(np.int64) - days
    local = np.where(good, (days + day - 1) * DAY + hour * 3600 + minute * 60 + second, np.nan)
    if "zone" not in names:
        return local, local
    digits = pc.replace_substring_regex(pc.struct_field(fields, "zone"), r"[^\d+-]", "")
    digits = pc.replace_substring_regex(digits, r"^([+-]\d{2})$", r"\100")
    digits = pc.if_else(pc.match_substring_regex(digits, r"^[+-]\d{4}$"), digits, "0")
    digits = pc.replace_substring(digits, "+", "")
    offset = pc.fill_null(digits.cast("int64"), 0).to_numpy()
    shift = np.sign(offset) * (np.abs(offset) // 100 * 3600 + np.abs(offset) % 100 * 60)
    return local, local - shift


def calendar_parts(local: np.ndarray, universal: np.ndarray, units: Sequence[str]) -> np.ndarray:
    """Return elapsed days and the features of some units of the calendar, (n, k); rows of NaN for missing dates.

    >>> calendar_parts(np.array([0.0]), np.array([0.0]), ["weekday"]).round(2).tolist()  # a Thursday
    [[0.0, 0.43, -0.9, 0.0]]
    """
    known = ~np.isnan(local)
    stamps = np.where(known, local, 0).astype(np.int64).astype("datetime64[s]")
    columns = [np.where(known, universal, 0) / DAY]
    for unit in units:
        columns += UNITS[unit].parts(stamps)
    parts = np.column_stack(columns).astype(float)
    parts[~known] = np.nan
    return parts


def _day_of_month(stamps: np.ndarray) -> list[np.ndarray]:
    days, months = stamps.astype("datetime64[D]"), stamps.astype("datetime64[M]")
    return [(days - months.astype("datetime64[D]")).astype(np.int64) + 1]


def _month(stamps: np.ndarray) -> list[np.ndarray]:
    return _on_circle(stamps.astype("datetime64[M]").astype(np.int64) % 12 / 12)


def _weekday(stamps: np.ndarray) -> list[np.ndarray]:
    # Monday is 0; 1970 began on a Thursday
    weekday = (stamps.astype("datetime64[D]").astype(np.int64) + 3) % 7
    return [*_on_circle(weekday / 7), weekday >= 5]


def _hour(stamps: np.ndarray) -> list[np.ndarray]:
    return _on_circle((stamps - stamps.astype("datetime64[D]")).astype(np.int64) / DAY)


def _on_circle(share: np.ndarray) -> list[np.ndarray]:
    return [np.sin(2 * np.pi * share), np.cos(2 * np.pi * share)]


class Unit(NamedTuple):
    """A unit of the calendar: its length in days, its features, and the function of time stamps that returns them."""

    days: float
    features: tuple[str, ...]
    parts: Callable[[np.ndarray], list[np.ndarray]]


UNITS = {
    "day of month": Unit(30.4, ("day of month",), _day_of_month),
    "month": Unit(365.25, ("month sin", "month cos"), _month),
    "weekday": Unit(7.0, ("weekday sin", "weekday cos", "weekend"), _weekday),
    "hour": Unit(1.0, ("hour sin", "hour cos"), _hour),
}
