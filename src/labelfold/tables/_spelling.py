"""Decides which spellings are one value: booleans, whole numbers, and the two Unicode forms of accents."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

# The spellings of a boolean, in lower case: true first.
_PAIRS = (("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("1", "0"))
_TRUTHS = {spelling: not place for pair in _PAIRS for place, spelling in enumerate(pair)}


def plain(value: str) -> str:
    """Return a normalised spelling of flags, whole numbers and accents; other values unchanged.

    >>> plain("TRUE"), plain("7.0"), plain("Oslo")
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
    return _TRUTHS.get(plain(value).lower())


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
    spellings = {plain(value).lower() for value in found}
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
    spelled = {value: plain(value).lower() for value in often}

    def written(spelling: str) -> list[str]:
        return [value for value in often if spelled[value] == spelling]

    whole = [pair for pair in _PAIRS if all(map(written, pair))]
    # the two values that are kept must show by themselves that they are booleans
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
    by_plain = {plain(value): value for value in learned}
    return [
        value
        if value is None or value in known
        else by_plain.get(plain(value)) or by_truth.get(truth(value), value)  # type: ignore[arg-type]
        for value in values
    ]
