"""Tests in which columns labelled rows differ from the others, and says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln

from labelfold.tables._arrow import pc, text_cells
from labelfold.tables._column import Column
from labelfold.tables._limits import AT_ONCE, LENGTH, MAX_VALUES, MIN_CELLS, SAMPLE, SIGNIFICANCE, SPARSE
from labelfold.tables._steps import learned_values, lists

# Budgets of time and of 80 MB: largest number of unlabelled rows that are compared. If there are more cells than the
# second number they are fewer, down to the third.
_MAX_OTHERS, _MAX_CELLS, _MIN_COMPARED = 20_000, 10_000_000, 300


class Differences:
    """Collects the columns in which labelled rows differ from the others.

    A column becomes events of a row: a number is at most a decile, between two deciles, the most frequent number, a
    whole number, or missing; a category is one of its frequent values; a text has a word. If labelled rows are a
    random sample, the number of them with an event has a hypergeometric distribution, given the rows where the column
    is known. The p of a column is the minimum of the two-sided p of its events (twice the smaller tail), times their
    number. A column differs if p times the number of columns is at most 0.01. So the chance that a random sample
    differs in any column is at most 0.01, however the columns depend on each other.

    Parameters
    ----------
    labelled : ndarray of shape (n,), bool, or None
        Which rows have a label. Nothing is tested if all have, or none.
    columns : int
        The number of columns. If it is large, fewer rows are compared.
    taking_part : ndarray of shape (n,), bool, optional
        The rows that are compared; all by default.
    """

    def __init__(
        self, labelled: np.ndarray | None, columns: int, taking_part: np.ndarray | None = None
    ) -> None:
        self._found: list[dict[str, Any]] = []
        self._waiting: list[tuple[str, np.ndarray]] = []
        both = [np.zeros(0, dtype=bool)] * 2 if labelled is None else [labelled, ~labelled]
        if taking_part is not None and labelled is not None:
            both = [part & taking_part for part in both]
        some = [np.flatnonzero(part) for part in both]
        self.active: bool = bool(len(some[0]) and len(some[1]))
        if not self.active:
            return
        rng = np.random.default_rng(0)
        most = int(np.clip(_MAX_CELLS // max(columns, 1), _MIN_COMPARED, _MAX_OTHERS))
        for i, limit in enumerate((min(most, SAMPLE), most)):
            if len(some[i]) > limit:
                some[i] = np.sort(rng.choice(some[i], limit, replace=False))
        self.rows: np.ndarray = np.concatenate(some)  # labelled ones first
        n = len(self.rows)
        # the first row counts labelled rows, the second all
        self._indicators = np.ones((2, n), dtype=np.float32)
        self._indicators[0, len(some[0]) :] = 0
        self._sizes = self._indicators.sum(axis=1).astype(np.int64)
        self._at_once = max(AT_ONCE // n, 1)
        self._logs = gammaln(np.arange(n + 1) + 1.0)

    def result(self, columns: int) -> list[dict[str, Any]]:
        """Return the columns that differ, the largest difference first.

        Parameters
        ----------
        columns : int
            The number of columns that were compared.

        Returns
        -------
        list of dict
            ``name``; ``what`` its cells are; the shares of ``labelled`` rows and of the ``others`` in which they are;
            ``p``; and the ``distance``: the difference of these shares or, of a category, half the sum of the
            differences of all its values if that is more.
        """
        self._test_waiting()
        sure = [one for one in self._found if one["p"] * columns <= SIGNIFICANCE]
        return sorted(sure, key=lambda one: -abs(one["labelled"] - one["others"]))

    @staticmethod
    def sentences(found: Sequence[dict[str, Any]], columns: int, most: int = 3) -> list[str]:
        r"""Return a sentence on the columns in which labelled rows differ, if there are any; ``most`` are named.

        >>> age = {"name": "age", "what": "is above 41", "labelled": 0.62, "others": 0.2}
        >>> print(Differences.sentences([age], 14)[0].replace("; ", ";\n").replace(": ", ":\n"))
        Labelled rows differ from the others in 1 of 14 columns:
        'age' is above 41 in 62% of labelled rows and 20% of the others;
        the estimate is for rows like the labelled ones.
        """
        if not found:
            return []
        named: list[str] = []
        for one in found[:most]:
            of = ("", "") if named else (" of labelled rows", " of the others")
            shares = f"{_percent(one['labelled'])}{of[0]} and {_percent(one['others'])}{of[1]}"
            named.append(f"{one['name']!r} {one['what']} in {shares}")
        *first, last = named
        shown = f"{', '.join(first)}{',' * (len(first) > 1)} and {last}" if first else last
        return [
            f"Labelled rows differ from the others in {len(found):,} of {columns:,} columns"
            f"{', most in these' * (len(found) > most)}: {shown}; the estimate is for rows like the labelled ones."
        ]

    def add(self, column: Column, cells: Any) -> None:
        """Compare a column of a table, given with its cells."""
        if not self.active:
            return
        if column.role == "text":
            self._add_words(column.name, cells.take(self.rows))
        elif column.role == "list":
            values = lists(cells.take(self.rows), column.reading["width"])
            names = [f"{column.name}[{j}]" for j in range(values.shape[1])]
            self._add_numbers(names, values, _number, column.name)
        elif column.role == "category":
            self._add_values(column.name, column.data[self.rows], cells)
        elif column.role == "date":
            self._add_numbers([column.name], column.data[self.rows][:, None], _date)
        else:
            self._waiting.append((column.name, column.data[self.rows]))
            if len(self._waiting) >= self._at_once:
                self._test_waiting()

    def add_matrix(self, X: np.ndarray, name: Callable[[int], str]) -> None:
        """Compare the columns of an array; ``name(j)`` is the name of a column."""
        for start in range(0, X.shape[1], self._at_once) if self.active else ():
            values = X[self.rows, start : start + self._at_once]
            self._add_numbers([name(start + j) for j in range(values.shape[1])], values, _number)

    def add_sparse(self, X: Any, name: Callable[[int], str]) -> None:
        """Compare the columns of a CSR matrix: whether they are 0, and the numbers of those that rarely are."""
        if not self.active:
            return
        X = X[self.rows]
        there = X.data != 0
        owners = np.repeat(np.arange(len(self.rows)), np.diff(X.indptr))
        labelled = there & (self._indicators[0, owners] > 0)
        counts = np.array([np.bincount(X.indices[some], minlength=X.shape[1]) for some in (labelled, there)])
        rare = counts[1] <= SPARSE * len(self.rows)
        known = np.broadcast_to(self._sizes[:, None], counts.shape)
        self._test(counts[None], known[None], lambda j, _: (name(j), "is not 0"), rare[None])
        full = np.flatnonzero(~rare)
        X = X[:, full].tocsc()
        for start in range(0, len(full), self._at_once):
            some = slice(start, start + self._at_once)
            self._add_numbers([name(int(j)) for j in full[some]], X[:, some].toarray(), _number)

    def _test_waiting(self) -> None:
        """Test the columns of numbers that were added."""
        if self._waiting:
            names, values = zip(*self._waiting, strict=True)
            self._waiting = []
            self._add_numbers(names, np.column_stack(values), _number)

    def _add_numbers(
        self,
        names: Sequence[str],
        values: np.ndarray,
        in_words: Callable[[Any], str],
        column: str | None = None,
    ) -> None:
        """Compare columns of numbers (n, k), NaN for missing cells, or the items of one ``column`` of lists."""
        gone = np.isnan(values)
        cuts = _quantiles(values)  # (c, k), ascending
        usual, n_cuts, half = _repeated(cuts), len(cuts), len(cuts) // 2
        below = np.array([self._counts(values <= cut) for cut in cuts])
        between = below[::-1][:half] - below[:half]
        other = [self._counts(some) for some in (values == usual, values == np.rint(values))]
        counts = np.concatenate([self._counts(gone)[None], below, between, other])
        # an event that is the same as the one before is not tested
        rises = np.vstack([np.ones((1, len(names)), dtype=bool), cuts[1:] > cuts[:-1]])
        use = np.ones((len(counts), len(names)), dtype=bool)
        use[1 : 1 + n_cuts] = rises
        use[2 + n_cuts : 1 + n_cuts + half] = (rises[1:half]) | rises[: half + 1 : -1]
        use[-1] = in_words is _number  # all dates are whole numbers of seconds

        def words(j: int, event: int) -> tuple[str, ...]:
            if not event:
                return column or names[j], "is missing"
            if event <= n_cuts:
                cut = in_words(cuts[event - 1, j])
                more, less = ("after", "not after") if in_words is _date else ("above", "at most")
                return names[j], f"is {less} {cut}", f"is {more} {cut}"
            if event >= len(counts) - 2:
                return names[j], "is a whole number" if event == len(
                    counts
                ) - 1 else f"is {in_words(usual[j])}"
            low = event - 1 - n_cuts
            ends = f"between {in_words(cuts[low, j])} and {in_words(cuts[n_cuts - 1 - low, j])}"
            return names[j], f"is {ends}", f"is not {ends}"

        known = self._known(counts)
        if column is None:
            self._test(counts, known, words, use)
            return
        k = len(names)
        counts, known = (part.transpose(0, 2, 1).reshape(-1, 2, 1) for part in (counts, known))
        self._test(counts, known, lambda _, event: words(event % k, event // k), use.reshape(-1, 1))

    def _add_values(self, name: str, codes: np.ndarray, cells: Any) -> None:
        """Compare a category, given the codes of its cells."""
        many = int(codes.max()) + 1
        parts = (codes[self._indicators[0] > 0], codes)
        held = np.array([np.bincount(part[part >= 0], minlength=many) for part in parts])
        most = np.argsort(-held[1], kind="stable")[:MAX_VALUES]
        most = most[held[1][most] >= MIN_CELLS]

        def words(_: int, event: int) -> tuple[str, ...]:
            values = learned_values(cells)[0] if event else []
            return name, f"is {values[int(most[event - 1])][:LENGTH]!r}" if event else "is missing"

        before = len(self._found)
        self._test_one(codes < 0, held[:, most], words)
        own = held[0] / max(held[0].sum(), 1)
        others = (held[1] - held[0]) / max(held[1].sum() - held[0].sum(), 1)
        for one in self._found[before:]:  # how far the columns differ in all values together
            one["distance"] = max(one["distance"], float(np.abs(own - others).sum() / 2))

    def _add_words(self, name: str, cells: Any) -> None:
        """Compare the words of a text."""
        text = pc.utf8_slice_codeunits(text_cells(cells), 0, SAMPLE)
        split = pc.split_pattern_regex(pc.utf8_lower(text), r"[^\p{L}\p{N}_]+").combine_chunks()
        coded = pc.list_flatten(split).dictionary_encode()
        found = coded.dictionary
        owners = pc.list_parent_indices(split).to_numpy().astype(np.int64)
        rows, codes = np.divmod(
            np.unique(owners * (len(found) + 1) + coded.indices.to_numpy()), len(found) + 1
        )
        held = np.array(
            [np.bincount(c, minlength=len(found)) for c in (codes[self._indicators[0, rows] > 0], codes)]
        )
        often = np.flatnonzero(
            (held[1] >= MIN_CELLS) & pc.not_equal(found, "").to_numpy(zero_copy_only=False)
        )

        def words(_: int, event: int) -> tuple[str, ...]:
            what = (
                f"has the word {found[int(often[event - 1])].as_py()[:LENGTH]!r}" if event else "is missing"
            )
            return name, what

        self._test_one(text.is_null().to_numpy(), held[:, often], words)

    def _test_one(self, gone: np.ndarray, held: np.ndarray, words: Callable[..., tuple[str, ...]]) -> None:
        """Test whether a column is missing, and further events, given their counts (2, e)."""
        counts = np.concatenate([self._counts(gone[:, None])[None], held.T[:, :, None]])
        self._test(counts, self._known(counts), words)

    def _counts(self, event: np.ndarray) -> np.ndarray:
        """Return the numbers of labelled rows and of all rows with an event, (2, k)."""
        return np.rint(self._indicators @ event.astype(np.float32)).astype(np.int64)

    def _known(self, counts: np.ndarray) -> np.ndarray:
        """Return the numbers of rows that may have each event; the first event is that a cell is missing."""
        known = np.repeat(self._sizes[None, :, None] - counts[:1], len(counts), axis=0)
        known[0] = self._sizes[:, None]
        return known

    def _test(
        self,
        counts: np.ndarray,
        known: np.ndarray,
        words: Callable[[int, int], tuple[str, ...]],
        use: np.ndarray | bool = True,
    ) -> None:
        """Test events, and keep the columns that may differ.

        Parameters
        ----------
        counts, known : ndarray of shape (events, 2, columns)
            Numbers of labelled rows and of all rows with the event, and of those in which the column is known.
        words : callable
            ``words(column, event)`` returns the name of a column, the event and, if it is as plain, its opposite.
        use : ndarray of shape (events, columns), bool
            Which events to test.
        """
        a, k, m, n = counts[:, 0], counts[:, 1], known[:, 0], known[:, 1]
        use = use & (k > 0) & (k < n)  # an event of no row, or of all, does not depend on the labels
        events, logs = use.sum(axis=0), self._logs

        def ways(of: np.ndarray, some: np.ndarray) -> np.ndarray:
            return np.asarray(logs[of] - logs[some] - logs[of - some])

        # the probability of exactly this count is a lower bound of p
        log_bounds = np.where(use, ways(k, a) + ways(n - k, m - a) - ways(n, m), 0.0)
        best = log_bounds.argmin(axis=0)
        columns = np.flatnonzero((events > 0) & (np.exp(log_bounds.min(axis=0)) * events <= SIGNIFICANCE))
        best = best[columns]
        a, k, m, n = (values[best, columns] for values in (a, k, m, n))
        tails = stats.hypergeom.sf(a - 1, n, k, m), stats.hypergeom.cdf(a, n, k, m)
        p = 2 * np.minimum(*tails) * events[columns]
        here, every = self._sizes.tolist()
        for i in np.flatnonzero(p <= SIGNIFICANCE):
            name, what, *opposite = words(int(columns[i]), int(best[i]))
            labelled, others = a[i] / here, (k[i] - a[i]) / (every - here)
            if opposite and labelled < others:
                what = opposite[0]
                labelled, others = (m[i] - a[i]) / here, (n[i] - m[i] - k[i] + a[i]) / (every - here)
            told = {"labelled": float(labelled), "others": float(others), "p": float(p[i])}
            self._found.append(
                {"name": name, "what": what, **told, "distance": abs(float(labelled - others))}
            )


def _quantiles(values: np.ndarray, parts: int = 10, rows: int = 200) -> np.ndarray:
    """Return about the deciles of the known numbers of each column, (9, k), from some of the rows."""
    some = np.sort(values[:: -(-len(values) // rows)], axis=0)  # missing ones are last
    known = (~np.isnan(some)).sum(axis=0)
    places = np.ceil(np.outer(np.arange(1, parts), known) / parts).astype(np.intp) - 1
    return np.take_along_axis(some, np.maximum(places, 0), axis=0)


def _repeated(cuts: np.ndarray) -> np.ndarray:
    """Return the number that most cuts of each column are equal to; NaN if all differ."""
    times = (cuts[:, None] == cuts[None]).sum(axis=0)
    most = np.take_along_axis(cuts, times.argmax(axis=0)[None], axis=0)[0]
    return np.where(times.max(axis=0) > 1, most, np.nan)


def _number(value: Any) -> str:
    exact = value == np.rint(value) and abs(value) * np.finfo(np.float64).eps < 1
    return f"{value:.0f}" if exact else f"{value:.4g}"


def _date(value: Any) -> str:
    return str(np.datetime64(int(value), "s"))[:10]


def shown_as(role: str, value: Any) -> str:
    """Return a number, or the seconds of a date, as text.

    >>> shown_as("number", -999.0), shown_as("number", 1 / 3), shown_as("date", 86_400.0)
    ('-999', '0.3333', '1970-01-02')
    """
    return (_date if role == "date" else _number)(value)


def _percent(share: float) -> str:
    """Return a share; only 0 and 1 are shown as 0% and 100%.

    >>> _percent(0.62), _percent(0.001), _percent(0.999), _percent(1.0)
    ('62%', 'under 1%', 'over 99%', '100%')
    """
    shown = f"{share:.0%}"
    if shown == "0%" and share > 0:
        return "under 1%"
    return "over 99%" if shown == "100%" and share < 1 else shown
