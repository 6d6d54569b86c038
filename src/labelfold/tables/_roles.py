"""Finds the role of each column: number, category, date, text, list, or left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from labelfold.tables._arrow import (
    distinct,
    is_number,
    is_text,
    pa,
    pc,
    text_cells,
    words_for_missing,
    written,
)
from labelfold.tables._column import (
    Column,
    filled_where_labelled,
    is_constant,
    left_out,
    pixel_columns,
    vector_columns,
    with_remark,
)
from labelfold.tables._dates import DAY, EPOCHS, UNITS, calendar_parts, instants, layouts_of
from labelfold.tables._differences import Differences, shown_as
from labelfold.tables._limits import BLOCK, LENGTH, MAX_VALUES, MIN_CELLS, SAMPLE
from labelfold.tables._numbers import (
    any_match,
    as_plain_numbers,
    format_in_words,
    format_of,
    has_thousands,
    is_flag,
    numbers,
    units_of,
    with_spelled_flags,
)
from labelfold.tables._steps import learned_values, lists
from labelfold.tables._target import Target
from labelfold.tables._unseen import share_of_strays

# Choices, which the examples of tests/tables hold: the share of non-missing cells that must be numbers, dates or
# lists.
_MIN_SHARE = 0.9
# Cells are text if they have at least this many words on average, and more than this share of them are distinct.
_TEXT_WORDS, _MIN_DISTINCT = 5.0, 0.2
# The same number for short text whose cells hardly repeat, and the largest share of distinct words.
_SHORT_TEXT_WORDS, _MAX_DISTINCT_WORDS = 2.0, 0.5
# Budget: number of columns for hashed categories, a few more than a category has one by one (MAX_VALUES).
HASHED = 64
# A choice: if categories occur fewer times than this on average, only frequent ones get a column.
_MIN_TIMES = 3
_EPOCH = re.compile(r"epoch|unix|(?:^|_)ts$", re.IGNORECASE)
# Numbers are taken for seconds since 1970 if they are in this range.
_FIRST, _LAST = np.array(["1980", "2050"], dtype="datetime64[s]").astype(np.float64)
_DATED = re.compile(r"date|time|day|dob|birth|_at$|_on$|stamp", re.IGNORECASE)


def columns_of(
    table: Any,
    places: np.ndarray,
    n: int,
    given: Mapping[str, str],
    keep: Collection[str],
    target: Target,
    differences: Differences,
) -> list[Column]:
    """Return the description of each column of an Arrow table.

    Parameters
    ----------
    table : pyarrow.Table
        The rows to fit on.
    places : ndarray
        Their indices in the whole table, ascending.
    n : int
        Number of rows of the whole table.
    given : mapping of str to str
        Roles of columns given by the user.
    keep : set of str
        Columns that are not left out.
    target : Target
        The labels, to find leaks and informative missing cells.
    differences : Differences
        Gets the columns in use.
    """
    last = table.num_rows - 1
    sample = table.take(np.linspace(0, last, SAMPLE).astype(int)) if last >= SAMPLE else table
    vectors = set(vector_columns(table.column_names))
    pixels, shape = pixel_columns(table.column_names)
    kept = set(pixels if shape is not None else ())
    found: list[Column] = []
    seen: dict[tuple, str] = {}
    for name in table.column_names:
        if given.get(name) in ("id", "left out"):
            how = "it names the rows" if given[name] == "id" else "you left it out"
            found.append(Column(name, given[name], how))
            continue
        cells = table.column(name)
        column = found_as = _column_of(name, cells, sample.column(name), given.get(name), target)
        if column.missing and column.role in ("number", "category", "date"):
            column = with_remark(
                column, words_for_missing(sample.column(name), numbers=column.role != "category")
            )
        if name in kept:
            flat = name not in given and column.used and column.data is not None and is_constant(column.data)
            column = with_remark(column, "it holds one value, and stays as a pixel") if flat else column
        elif name not in keep and column.used:
            column = _left_out_if_filled(column, cells, target, table.num_columns)
            if name not in given and column.used:
                column = left_out(column, target, places, seen)
        if column.role == "number" and column.missing:
            column = replace(column, gaps_predict=target.predicted_by_gaps(np.isnan(column.data)))
        if column.used:
            differences.add(found_as, cells)
        # the values of a wide table are not kept a second time
        found.append(replace(column, data=None) if name in vectors else column)
    found = _names_as_text(found, table, given)
    # with very many rows, word pairs and character groups would fill the memory
    how, many = "tf-idf of its words, hashed", n > BLOCK
    return [replace(c, how=how, hashed=True) if many and c.role == "text" else c for c in found]


def _left_out_if_filled(column: Column, cells: Any, target: Target, columns: int) -> Column:
    """Return the column, as left out if labelled rows are filled and the others are not."""
    if not len(target.labelled_and_others[0]):
        return column
    values, words = column.data, None
    if column.role == "text":
        texts, values = distinct(text_cells(cells))
        words = texts.to_pylist()
    filled = target.filled(values, columns)
    if filled is None:
        return column
    shown = "the list of the others"
    if column.role in ("category", "text"):
        words = learned_values(cells)[0] if words is None else words
        shown = repr(words[int(filled.value)][:LENGTH]) if filled.value is not None else ""
    elif column.role in ("number", "date") and filled.value is not None:
        shown = shown_as(column.role, filled.value)
    return filled_where_labelled(column, filled, shown)


def _names_as_text(found: list[Column], table: Any, given: Mapping[str, str]) -> list[Column]:
    """Return the columns; if none would be used, names that hardly repeat are read as text."""
    free = [c for c in found if c.name not in given and c.levels and is_text(table.column(c.name).type)]
    rare = [c for c in free if c.role == "category" and _hardly_repeats(c, table.num_rows)]
    if any(c.used and c not in rare for c in found):
        return found
    names = {c.name for c in rare or (c for c in free if c.role == "id")}
    return [_text(c.name, table.column(c.name)) if c.name in names else c for c in found]


def _hardly_repeats(column: Column, n: int) -> bool:
    """Tell whether the values of a category are too rare to be useful."""
    return column.levels * _MIN_TIMES > n and column.levels > MAX_VALUES


def _column_of(name: str, cells: Any, sample: Any, role: str | None, target: Target) -> Column:
    """Return a column with its given role, or with the role that its type and cells suggest."""
    types, kind = pa.types, cells.type
    if types.is_null(kind) or cells.null_count == len(cells):
        return Column(name, "left out", "it is empty")
    nested = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if nested and role is None:
        return _list(name, cells) if is_number(kind.value_type) else _text(name, cells)
    if types.is_nested(kind) and not nested:
        return Column(name, "left out", f"its cells are of type {str(kind)[:40]}, which is not read")
    if types.is_binary(kind) or types.is_large_binary(kind):
        return Column(name, "left out", "its cells are bytes, which are not read")
    if role == "text":
        return _text(name, cells)
    if role == "number" or (role is None and (is_number(kind) or types.is_duration(kind))):
        return (
            _date(name, cells, sample, target)
            if role is None and _is_epoch(name, cells)
            else _number(name, cells, sample)
        )
    if role == "date" or (role is None and types.is_temporal(kind)):
        return _date(name, cells, sample, target)
    if role == "category" or types.is_boolean(kind) or types.is_dictionary(kind):
        return _category(name, cells)
    return _of_text_column(name, cells, sample, target)


def _of_text_column(name: str, cells: Any, sample: Any, target: Target) -> Column:
    """Find the role of a text column."""
    quick = as_plain_numbers(cells)
    if not is_text(quick.type) and _is_epoch(name, quick):
        return _date(name, cells, sample, target)
    if not is_text(quick.type) and not _DATED.search(name) and not any_match(cells, r"^0\d"):
        return _number(name, quick, sample)
    some = [cell for cell in text_cells(sample, numbers=True).to_pylist() if cell is not None]
    if not some:
        some = text_cells(cells, numbers=True).drop_null()[:SAMPLE].to_pylist()
    if not some:
        return Column(name, "left out", "every cell is missing")
    if (
        _share(cell[:1] == "[" and cell[-1:] == "]" for cell in some) >= _MIN_SHARE
        and _share(map(_is_list, some)) >= _MIN_SHARE
    ):
        return _list(name, cells)
    coded = _share(re.fullmatch(r"0\d+", cell) is not None for cell in some) >= 0.1
    dated = _DATED.search(name) is not None
    if not coded and format_of(some)[1] >= _MIN_SHARE and not (dated and layouts_of(some)[1] >= _MIN_SHARE):
        return _number(name, cells, sample)
    if layouts_of(some)[1] >= _MIN_SHARE:
        return _date(name, cells, sample, target)
    # ids such as "order no 17" differ only in their numbers
    shapes = {re.sub(r"\d+", "#", cell) for cell in some}
    words = np.mean([len(re.findall(r"\w+", cell) if "://" in cell else cell.split()) for cell in some])
    if words >= _TEXT_WORDS and len(shapes) > max(_MIN_DISTINCT * len(some), MIN_CELLS):
        return _text(name, cells)
    column = _category(name, cells)
    if (
        _hardly_repeats(column, len(cells))
        and words >= _SHORT_TEXT_WORDS
        and len(shapes) > _MIN_DISTINCT * len(some)
    ):
        every = [word for cell in some for word in cell.lower().split()]
        if len(set(every)) < _MAX_DISTINCT_WORDS * len(every):
            return replace(_text(name, cells), short=True)
    if units := units_of(some):
        several = f"{', '.join(map(repr, units[:-1]))} and {units[-1]!r}"
        how = f"numbers in {several} are not read as numbers; bring them to one unit"
        return replace(with_remark(column, how), reading=how)
    return column


def _is_epoch(name: str, cells: Any) -> bool:
    """Tell whether numbers are seconds or milliseconds since 1970: whole, recent, and with a column name of dates."""
    if not (_DATED.search(name) or _EPOCH.search(name)) or not is_number(cells.type):
        return False
    values = numbers(cells, None)
    values = values[~np.isnan(values)]
    if not len(values) or (values % 1 != 0).any():
        return False
    return any(unit * values.min() > _FIRST and unit * values.max() < _LAST for unit in EPOCHS.values())


def _text(name: str, cells: Any) -> Column:
    text = written(cells)
    if not any_match(text, r"[\p{L}\p{N}]"):
        return Column(name, "left out", "no cell in it has a word")
    return Column(name, "text", "tf-idf of its words and of groups of characters", missing=text.null_count)


def _number(name: str, cells: Any, sample: Any) -> Column:
    number_format, odd = None, ""
    cells = as_plain_numbers(cells) if is_text(cells.type) else cells
    if is_text(cells.type):
        some = [cell for cell in text_cells(sample, numbers=True).to_pylist() if cell is not None]
        number_format = format_of(some)[0]
    values = numbers(cells, number_format)
    flag = is_flag(values)
    values = with_spelled_flags(cells, values) if flag else values
    missing = int(np.isnan(values).sum())
    if number_format is not None and missing:
        written = text_cells(cells, numbers=True)
        infinite = pc.match_substring_regex(written, r"^(?i:[+-]?inf(inity)?)$")
        stray = written.filter(pa.array(np.isnan(values))).drop_null()
        infinities = pc.sum(infinite).as_py() or 0
        strays = len(stray) - infinities
        example = next((c for c in stray.to_pylist() if "inf" not in c.lower()), "")
        odd = f"{_cells_are(strays)} no number ({example[:LENGTH]!r})" if strays else ""
    else:
        nans = pc.sum(pc.is_nan(cells)).as_py() if pa.types.is_floating(cells.type) else 0
        infinities = missing - cells.null_count - (nans or 0)
    parts = [odd]
    if number_format is not None:
        parts.insert(0, format_in_words(number_format, thousands=has_thousands(sample, number_format)))
    parts += [f"{_cells_are(infinities)} infinite"] if infinities else []
    if missing == len(values):
        return Column(name, "left out", "no cell in it is a number")
    share = share_of_strays(cells, np.isnan(values)) if missing > cells.null_count else 0.0
    how = "; ".join(filter(None, parts))
    known = values[~np.isnan(values)] if missing else values
    span = float(known.min()), float(known.max()), bool((known % 1 == 0).all())
    return Column(name, "number", how, number_format, missing, flag=flag, odd=share, range=span, data=values)


def _cells_are(count: int) -> str:
    return f"{count:,} cell{'s are' if count > 1 else ' is'}"


def _date(name: str, cells: Any, sample: Any, target: Target) -> Column:
    layouts: list[str] = []
    if not pa.types.is_temporal(cells.type):
        cut = text_cells(sample, numbers=True).drop_null()
        layouts = layouts_of(cut.to_pylist())[0]
        since = np.empty(0) if layouts else numbers(sample, None)
        if (known := since[~np.isnan(since)]).size:
            # the unit in which they are nearest to the usual range, in digits
            size, usual = np.log(np.median(np.abs(known)) or 1.0), np.log([_FIRST, _LAST]).mean()
            layouts = [min(EPOCHS, key=lambda layout: abs(size + np.log(EPOCHS[layout]) - usual))]
    local, universal = instants(cells, layouts)
    missing = int(np.isnan(local).sum())
    if missing == len(local):
        return Column(name, "left out", "no cell in it is a date")
    days = (np.nanmax(universal) - np.nanmin(universal)) / DAY
    # a part of the calendar adds nothing to the elapsed time within one period
    units = [name for name, unit in UNITS.items() if days >= 2 * unit.days]
    units = [
        u for u in units if target.correlated_columns(calendar_parts(local, universal, [u])[:, 1:]).any()
    ]
    how = [" and ".join(layouts), ", ".join(["elapsed time", *units])]
    reading = {"layouts": layouts, "units": units}
    share = share_of_strays(cells, np.isnan(local))
    return Column(name, "date", "; ".join(filter(None, how)), reading, missing, odd=share, data=universal)


def _category(name: str, cells: Any) -> Column:
    values, codes = learned_values(cells)
    missing = int((codes < 0).sum())
    counts = np.sort(np.bincount(codes[codes >= 0], minlength=1))[::-1]
    covered = counts[:MAX_VALUES].sum()
    often = counts.sum() >= _MIN_TIMES * len(values)
    hashed = len(values) > MAX_VALUES and covered < 0.5 * counts.sum() and often
    how = f"{len(values):,} value{'s' * (len(values) != 1)}, "
    if hashed:
        how += f"hashed to {HASHED} columns"
    elif len(values) > MAX_VALUES:
        how += "one column for each frequent one, others together"
    else:
        how += "one column each" + (", rare ones together" if counts[-1] < 2 else "")
    return Column(name, "category", how, None, missing, len(values), hashed, data=codes)


def _list(name: str, cells: Any) -> Column:
    if is_text(cells.type):
        some = text_cells(cells).drop_null()[:SAMPLE].to_pylist()
        widths = Counter(len(_items(cell)) for cell in some)
    else:
        lengths = pc.list_value_length(cells).drop_null().to_numpy()
        widths = Counter(lengths.tolist())
    width, often = widths.most_common(1)[0] if widths else (0, 0)
    if not width or often < _MIN_SHARE * sum(widths.values()):
        return Column(name, "left out", "its lists differ in length")
    values = lists(cells, width)
    missing = int(np.isnan(values).any(axis=1).sum())
    length = float(np.sqrt(np.nan_to_num(np.nanmean(np.sum(values * values, axis=1, dtype=np.float64)))))
    reading = {"width": width, "length": length or 1.0}
    share = share_of_strays(cells, np.isnan(values).all(axis=1))
    # a number for each list, the same for equal lists
    single = (values * np.random.default_rng(0).normal(size=width)).sum(axis=1, dtype=np.float64)
    return Column(name, "list", f"{width:,} columns", reading, missing, odd=share, data=single)


def _items(cell: str) -> list[str]:
    return [part for part in re.split(r"[\s,;]+", cell.strip("[]() ")) if part]


def _is_list(cell: str) -> bool:
    items = _items(cell)
    return len(items) > 1 and all(re.fullmatch(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?", item) for item in items[:50])


def _share(tests: Any) -> float:
    found = list(tests)
    return sum(found) / len(found) if found else 0.0
