"""Parses numbers with decimal commas, thousands separators, percent signs and units."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

import numpy as np

from labelfold.tables._arrow import distinct, is_number, is_text, pa, pc, text_cells, written

# A sign, a currency, digits with separators, a unit. Letters directly before digits are a code, not a number.
_WRITTEN = re.compile(
    r"(?P<sign>[+\-−(]?)\s*(?P<before>[^\w\s.,+\-−()'’]{1,2}|(?:[A-Z]{3}|Rs\.?)(?=\s))?\s*"
    r"(?P<digits>[+\-−]?(?:\d[\d.,'’\s]*|[.,]\d+)(?:[eE][+-]?\d+)?)\s*(?P<after>[^\d\s.,][^\d]{0,11})?\)?"
)
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:[,.]\d{3})+")
_INTEGER = r"\d{{1,3}}(?:{other}\d{{3}})+|\d{{1,3}}(?:[\s'’]\d{{3}})+|\d+"
_MARKED = rf"^[+-]?(?:(?:{_INTEGER})(?:{{decimal}}\d*)?|{{decimal}}\d+)(?:[eE][+-]?\d+)?$"
_INFINITY = r"^(?i:[+-]?(?:inf|infinity))$"
# Unicode blanks that typesetters and spreadsheets put between thousands and before a unit.
_BLANKS = "\u00a0\u2007\u2009\u202f"
_NAMED = re.compile(r"[+-]?(?:inf|infinity)", re.IGNORECASE)
# A mark that is misread multiplies a number by a thousand; ten times the largest number that was learned is beyond
# what new rows usually add. A choice: fewer fractions than the second number prove nothing.
_FAR, _MIN_FRACTIONS = 10, 3
# The spellings of a boolean, in lower case: true first.
_PAIRS = (("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("1", "0"))
_TRUTHS = {spelling: not place for pair in _PAIRS for place, spelling in enumerate(pair)}


class NumberFormat(TypedDict):
    """Number format of a column: the decimal mark, and the units before and after the digits."""

    decimal: str
    before: str
    after: str


PLAIN: NumberFormat = {"decimal": ".", "before": "", "after": ""}


def format_of(cells: Sequence[str]) -> tuple[NumberFormat, float]:
    """Return the number format of some cells, and the share of cells that are numbers in this format.

    Parameters
    ----------
    cells : sequence of str
        Cells without missing values and without surrounding blanks.

    Examples
    --------
    >>> format_of(["1.234,50 €", "7,25 €"])
    ({'decimal': ',', 'before': '', 'after': '€'}, 1.0)
    >>> format_of(["1,234", "98", "unsure", "12"])
    ({'decimal': '.', 'before': '', 'after': ''}, 0.75)
    """
    found = [m for m in map(_WRITTEN.fullmatch, cells) if m]
    if not found:
        return PLAIN, float(np.mean([_NAMED.fullmatch(c) is not None for c in cells])) if cells else 0.0
    before = Counter(m["before"] for m in found if m["before"]).most_common(1)
    after = Counter(_unit(m) for m in found if m["after"]).most_common(1)
    number_format: NumberFormat = {
        "decimal": _decimal([m["digits"] for m in found]),
        "before": before[0][0] if before else "",
        "after": after[0][0] if after else "",
    }
    read = parsed(pa.chunked_array([list(cells)], type=pa.string()), number_format)
    return number_format, 1 - read.null_count / len(read)


def _unit(found: re.Match) -> str:
    """Return the unit after a number in a form to compare: the plural 'years' becomes 'year'."""
    unit = re.sub(f"[{_BLANKS}]", " ", found["after"] or "").strip(" )")
    return re.sub(r"(?<=[^\W\d_]{2})[sS]$", "", unit)


def units_of(cells: Sequence[str]) -> list[str]:
    """Return the units of a column of numbers in two to five different units, most frequent first; otherwise none.

    Single letters, as in 12A and 7B, are not units.

    >>> units_of(["12 kg", "3 lb", "7 KG"]), units_of(["12 kg", "7 kg"]), units_of(["12A", "7B"])
    (['kg', 'lb'], [], [])
    """
    found = [m for m in map(_WRITTEN.fullmatch, cells) if m]
    around = Counter(f"{m['before'] or ''}{_unit(m)}".lower() for m in found)
    often = [unit for unit, times in around.most_common() if unit and times >= 0.02 * len(cells)]
    named = sum(around[unit] for unit in often) >= 0.9 * len(cells)
    letters = any(len(unit) == 1 and unit.isalpha() for unit in often)
    return often if named and not letters and 2 <= len(often) <= 5 else []


def _decimal(digits: list[str]) -> str:
    """Return the decimal mark: a comma if one stands where a thousands separator cannot."""
    for text in digits:
        text = re.sub(r"[\s'’]", "", text.lstrip("+-−"))
        comma, dot = text.rfind(","), text.rfind(".")
        if comma < 0:
            continue
        if dot > comma:
            return "."
        if dot >= 0 or (text.count(",") == 1 and not _GROUPED.fullmatch(text)):
            return ","
    several = any(text.count(".") > 1 for text in digits)
    return "," if several else "."


def parsed(column: Any, number_format: NumberFormat) -> Any:
    """Return a column of text as float64; cells that are not numbers in this format become null."""
    decimal, other = (",", ".") if number_format["decimal"] == "," else (".", ",")
    text = pc.replace_substring_regex(column, f"[{_BLANKS}]", " ")
    text = pc.replace_substring(text, "−", "-")
    text = pc.replace_substring_regex(text, r"^\((.*)\)$", r"-\1")
    if number_format["before"]:
        before = re.escape(number_format["before"])
        text = pc.replace_substring_regex(text, rf"^([+-]?)\s*{before}\s*", r"\1")
    if number_format["after"]:
        text = pc.replace_substring_regex(text, rf"\s*(?i:{re.escape(number_format['after'])}s?)$", "")
    pattern = f"{_MARKED.format(decimal=re.escape(decimal), other=re.escape(other))}|{_INFINITY}"
    text = pc.if_else(pc.match_substring_regex(text, pattern), text, pa.scalar(None, pa.string()))
    text = pc.replace_substring_regex(text, rf"[\s'’{re.escape(other)}]", "")
    return pc.replace_substring(text, decimal, ".").cast(pa.float64())


def written_numbers(cells: Sequence[str]) -> list[float] | None:
    """Return cells as numbers if all have one format with marks or a unit; otherwise None.

    >>> written_numbers(["1,5", "2,25"]), written_numbers(["3 kg", "4 kg"]), written_numbers(["1", "2"])
    ([1.5, 2.25], [3.0, 4.0], None)
    """
    number_format, share = format_of(cells)
    if share < 1 or number_format == PLAIN:
        return None
    found: list[float] = parsed(pa.chunked_array([list(cells)]), number_format).to_pylist()
    return found


def has_thousands(column: Any, number_format: NumberFormat) -> bool:
    """Tell whether a column of text has thousands separators."""
    other = "." if number_format["decimal"] == "," else ","
    return any_match(column, rf"\d[{other}'’ {_BLANKS}]\d{{3}}(?:\D|$)")


def any_match(column: Any, pattern: str) -> bool:
    """Tell whether any cell of a text column matches a pattern."""
    return bool(pc.any(pc.match_substring_regex(column, pattern)).as_py())


def numbers(column: Any, number_format: NumberFormat | None) -> np.ndarray:
    """Return a column of numbers, typed or as text, as an array with NaN for missing cells.

    Infinite cells count as missing. The array is float32 where the column is, float64 otherwise.
    """
    types = pa.types
    if types.is_duration(column.type):
        column = column.cast(pa.duration("us"), safe=False).cast(pa.int64())
        return numbers(column, None) / 1e6
    if types.is_boolean(column.type):
        column = column.cast(pa.int8())
    column = as_simple_numbers(column, number_format)
    if is_text(column.type):
        column = parsed(text_cells(column, numbers=True), number_format or PLAIN)
    single = types.is_float32(column.type)
    values = column.cast(pa.float32() if single else pa.float64(), safe=False).to_numpy()
    infinite = np.isinf(values)
    return np.where(infinite, np.nan, values) if infinite.any() else values


def as_simple_numbers(column: Any, number_format: NumberFormat | None) -> Any:
    """Return a column as numbers if it holds them, or if every cell is one without further marks; else as text."""
    if is_number(column.type):
        return column
    column = written(column)
    return as_plain_numbers(column) if number_format in (None, PLAIN) else column


def is_flag(values: np.ndarray) -> bool:
    """Tell whether numbers are 0 and 1 alone, both of them.

    >>> is_flag(np.array([0, 1, np.nan])), is_flag(np.array([1.0, 1.0]))
    (True, False)
    """
    known = values[~np.isnan(values)]
    both = len(known) > 0 and known.max() == 1 and known.min() == 0
    return bool(both and ((known == 0) | (known == 1)).all())


def with_spelled_flags(column: Any, values: np.ndarray) -> np.ndarray:
    """Return the numbers of a column of 0 and 1, with the booleans that are spelled in words in their places."""
    gone = np.isnan(values)
    if np.count_nonzero(gone) == column.null_count:
        return values
    cells, codes = distinct(text_cells(column.filter(pa.array(gone))))
    meant = [truth(cell) for cell in cells.to_pylist()]
    values = values.copy()
    # index -1, for a missing cell, is the last one
    values[gone] = np.array([np.nan if one is None else float(one) for one in [*meant, None]])[codes]
    return values


def read_wrongly(column: Any, values: np.ndarray, number_format: NumberFormat | None) -> np.ndarray | None:
    """Return a mask of the cells that have another decimal mark than the format, and are read all the same.

    With the point as the decimal mark 1,234 is read as 1234. None unless cells such as 1,5 show that the comma is the
    decimal mark in new rows, or the reverse.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Text.
    values : ndarray
        Its numbers in the format, NaN for cells that are not.
    number_format : NumberFormat or None
        The format.
    """
    own: NumberFormat = number_format or PLAIN
    mark, other = (",", ".") if own["decimal"] == "," else (".", ",")
    proofs = _proofs(column, other, mark)
    if not proofs or proofs <= _proofs(column, mark, other):
        return None
    swapped = parsed(text_cells(column, numbers=True), own | {"decimal": other}).to_numpy()
    if np.isnan(swapped).sum() > np.isnan(values).sum():
        return None
    wrong = ~np.isnan(values) & (swapped != values)
    # a single mistyped cell among numbers with marks between thousands is no evidence of another format
    return wrong if proofs >= 0.1 * wrong.sum() else None


def marked_unlike_learned(
    column: Any, values: np.ndarray, number_format: NumberFormat, range: Sequence[float]
) -> np.ndarray | None:
    """Return a mask of the cells whose mark is likely to mean something else than in the rows of `fit`.

    * Cells that are read with marks between thousands, if most cells are such and far above the numbers of `fit`:
      12,850 among prices of 10 to 20.
    * Cells that are read as fractions, if the numbers of `fit` were whole and all fractions have groups of three
      digits: 1.250.

    Parameters
    ----------
    column, values, number_format
        As in `read_wrongly`.
    range : (float, float, float)
        The smallest and the largest number of `fit`, and 1 if all were whole.
    """
    decimal, other = (",", ".") if number_format["decimal"] == "," else (".", ",")
    low, high, whole = range
    held = np.count_nonzero(~np.isnan(values))
    far = np.abs(values) > _FAR * max(abs(low), abs(high))
    if 2 * np.count_nonzero(far) > held:
        wrong = far & pc.fill_null(pc.match_substring(column, other), False).to_numpy()
        return wrong if 2 * np.count_nonzero(wrong) > held else None
    broken = ~np.isnan(values) & (values % 1 != 0)
    if not whole or np.count_nonzero(broken) < max(_MIN_FRACTIONS, 0.01 * held):
        return None
    cells = pc.utf8_trim_whitespace(column.filter(pa.array(broken)))
    grouped = pc.match_substring_regex(
        cells, rf"(?:^|\D)[1-9]\d{{0,2}}(?:{re.escape(decimal)}\d{{3}})+(?:\D|$)"
    )
    return broken if pc.all(grouped).as_py() else None


def _proofs(text: Any, mark: str, other: str) -> int:
    """Return the number of cells in which ``mark`` cannot stand between thousands."""
    mark, other = re.escape(mark), re.escape(other)
    once = text.filter(pc.match_substring_regex(text, rf"^[^{mark}]*{mark}\d+[^{mark}{other}]*$"))
    grouped = pc.match_substring_regex(once, rf"(?:^|[^\d{other}])[1-9]\d{{0,2}}{mark}\d{{3}}(?:\D|$)")
    return len(once) - (pc.sum(grouped).as_py() or 0)


def as_plain_numbers(column: Any) -> Any:
    """Return text as numbers if every cell is a plain number, otherwise unchanged."""
    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:
        return column


def format_in_words(number_format: NumberFormat, *, thousands: bool = False) -> str:
    """Describe a number format: decimal comma, removed units and thousands separators; "" for plain numbers.

    >>> format_in_words({"decimal": ",", "before": "", "after": "%"})
    "decimal comma, '%' removed"
    """
    removed = ["marks between thousands"] if thousands else []
    removed += [repr(unit) for unit in (number_format["before"], number_format["after"]) if unit]
    parts = ["decimal comma"] if number_format["decimal"] == "," else []
    return ", ".join([*parts, *([f"{' and '.join(removed)} removed"] if removed else [])])


def plain_spelling(value: str) -> str:
    """Return a normalised spelling of flags, whole numbers and accents; other values unchanged.

    >>> plain_spelling("TRUE"), plain_spelling("7.0"), plain_spelling("Oslo")
    ('true', '7', 'Oslo')
    """
    value = unicodedata.normalize("NFC", value)
    lower = value.lower()
    return lower if lower in ("true", "false") else re.sub(r"^([+-]?\d+)\.0+$", r"\1", value)


def truth(value: str) -> bool | None:
    """Return the boolean that a value spells, or None.

    >>> truth("YES"), truth("0.0"), truth("2")
    (True, False, None)
    """
    return _TRUTHS.get(plain_spelling(value).lower())


def booleans(values: Iterable[str]) -> dict[str, bool] | None:
    """Return the boolean of each value of a column if all of them spell one, otherwise None.

    * Both values of a pair occur, such as yes and no. Further letters need their own pair, or a pair of words: T, F
      and N may be three codes.
    * Or all values mean the same and are words: true, Yes.

    >>> booleans(["True", "no", "yes"]), booleans(["M", "F"]), booleans(["T", "N"])
    ({'True': True, 'no': False, 'yes': True}, None, None)
    """
    found: dict[str, bool] = {}
    for value in values:
        meant = truth(value)
        if meant is None:
            return None
        found[value] = meant
    spellings = {plain_spelling(value).lower() for value in found}
    pairs = [pair for pair in _PAIRS if spellings.issuperset(pair)]
    if not pairs:
        words = all(len(spelling) > 1 for spelling in spellings)
        return found if words and len(set(found.values())) == 1 else None
    alone = {s for s in spellings if len(s) == 1 and s.isalpha()} - {s for pair in pairs for s in pair}
    return found if not alone or any(len(pair[0]) > 1 for pair in pairs) else None


def merged(values: Sequence[str], counts: Sequence[int]) -> list[str]:
    """Return the values of a column to learn; spellings of one boolean become the most frequent pair of them.

    Parameters
    ----------
    values : sequence of str
        The distinct cells.
    counts : sequence of int
        How often each occurs.

    Examples
    --------
    >>> merged(["True", "yes", "Y", "no", "FALSE"], [9, 1, 1, 2, 8])
    ['True', 'True', 'True', 'FALSE', 'FALSE']
    """
    values = [unicodedata.normalize("NFC", value) for value in values]
    meant = booleans(values)
    if meant is None:
        return values
    often: dict[str, int] = {}
    for value, times in zip(values, counts, strict=True):
        often[value] = often.get(value, 0) + int(times)
    spelled = {value: plain_spelling(value).lower() for value in often}

    def written(spelling: str) -> list[str]:
        return [value for value in often if spelled[value] == spelling]

    whole = [pair for pair in _PAIRS if all(map(written, pair))]
    # the two values that are kept must spell a pair of booleans without the others
    pair = max(whole, key=lambda pair: sum(often[value] for s in pair for value in written(s)), default=None)
    kept = [written(s) for s in pair] if pair else [list(often)]
    names = {meant[some[0]]: max(some, key=often.__getitem__) for some in kept}
    return [names[meant[value]] for value in values]


def respelled(values: Sequence[str | None], learned: Sequence[str]) -> list[str | None]:
    """Return values of new rows in the spelling of the learned ones; a value that was not learned is unchanged.

    >>> respelled(["1", "0.0", None, "maybe"], ["no", "yes"]), respelled(["7.0", "8"], ["7", "9"])
    (['yes', 'no', None, 'maybe'], ['7', '8'])
    """
    known = {*learned, None}
    if known.issuperset(values):
        return list(values)
    meant = booleans(learned) if len(learned) else None
    by_truth = {} if meant is None else {one: value for value, one in meant.items()}
    by_plain = {plain_spelling(value): value for value in learned}
    return [
        value
        if value is None or value in known
        else by_plain.get(plain_spelling(value)) or by_truth.get(truth(value), value)  # type: ignore[arg-type]
        for value in values
    ]
