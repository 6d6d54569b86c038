"""Writes embeddings and predictions: Parquet, CSV, TSV, NPZ and copies of .h5ad files."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np

from labelfold.app.io._errors import FileProblem, Refusal, one_line, pa, pd
from labelfold.app.io._files import writable_file, writable_folder

# Spreadsheets skip white space before a formula, and read full-width signs as plain ones.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r]")
PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WRITES = {f".{kind}": kind for kind in ("parquet", "csv", "tsv", "npz", "h5ad")} | {".pq": "parquet"}
_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.part")
_CAN_LOCK_AND_RENAME = os.name == "posix"  # elsewhere a file that is open for its lock cannot be renamed
_FIRST_DAY = time.strptime("1980", "%Y")


def writable_table(path: str | os.PathLike[str], source: Any = None) -> Path:
    """Return ``path`` as a Path if a table can be written there, else raise FileProblem.

    An .h5ad file is written as a copy of ``source``, which must be an .h5ad file too.
    """
    path = Path(path)
    if path.suffix.lower() not in _WRITES:
        raise FileProblem(
            f"{path} has an ending labelfold does not write; it writes .parquet, .csv, .tsv and .npz, and .h5ad "
            "where it reads that."
        )
    if _WRITES[path.suffix.lower()] == "h5ad":
        from labelfold.app.io._matrices import writable_copy

        writable_copy(source, path)
    return writable_file(path)


def refuse_destination(where: Any, output: Path | None, to_table: str | None, *read: object) -> None:
    """Raise an error if results cannot be written, before any work.

    Parameters
    ----------
    where : path or Database
        The source of the rows.
    output : Path, optional
        The file to write.
    to_table : str, optional
        The new table of the source to write.
    *read : path
        Further files that are read.
    """
    if output is not None:
        writable_file(output, where, *read)
        writable_table(output, where)
    if to_table is not None:
        if not hasattr(where, "refuse_table"):
            raise Refusal(
                f"--to-table writes to the database that the rows come from, and {where} is not one."
            )
        where.refuse_table(to_table)


def write_table(
    path: str | os.PathLike[str],
    values: np.ndarray,
    names: Sequence[str],
    *,
    ids: Any = None,
    extra: Mapping[str, Sequence[Any] | np.ndarray] | None = None,
    safe_csv: bool = False,
    source: Any = None,
) -> Path:
    """Write an embedding with its id columns first, in the format of the file's ending.

    Parameters
    ----------
    path : path
        A .parquet, .csv, .tsv, .npz or .h5ad file. An NPZ holds ``X``, ``feature_names`` and an array for each id.
    values : ndarray of shape (n, k)
        The embedding.
    names : sequence of str
        Its k column names.
    ids : DataFrame, optional
        Identifier columns.
    extra : mapping of str to array, optional
        More columns, written last.
    safe_csv : bool, default=False
        In a .csv or .tsv file, put an apostrophe before text that a spreadsheet would run as a formula: text that
        begins with =, +, - or @ and is not a number.
    source : path, optional
        The file that the rows were read from. An .h5ad output is a copy of it, with the embedding in ``obsm`` and the
        further columns in ``obs``.

    Returns
    -------
    Path
        The file written.
    """
    import pyarrow.parquet as pq

    path = writable_table(path, source)
    kind = _WRITES[path.suffix.lower()]
    if kind == "h5ad":
        from labelfold.app.io._matrices import write_copy

        return write_copy(source, path, values if len(names) else None, extra or {})
    # an NPZ file has no columns: the embedding is its X, and NumPy reserves the name "file"
    reserved = ("X", "feature_names", "file") if kind == "npz" else ()
    frame = _frame(values, names, ids, extra, path, reserved)
    with finished_file(path) as file:
        if kind == "npz":
            others = frame.columns.drop(list(names))
            arrays: dict[str, Any] = {str(c): _without_objects(frame[c]) for c in others}
            with undated():
                np.savez_compressed(file, X=values, feature_names=np.asarray(names, dtype=str), **arrays)
        elif kind == "parquet":
            # pandas would open the file a second time, by its name
            pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), file)
        else:
            frame = _without_formulas(frame) if safe_csv else frame
            frame.to_csv(file, index=False, sep="\t" if kind == "tsv" else ",")
    return path


def csv_text(
    values: np.ndarray,
    names: Sequence[str],
    *,
    ids: Any = None,
    extra: Mapping[str, Sequence[Any] | np.ndarray] | None = None,
    safe_csv: bool = False,
) -> str:
    """Return the text that `write_table` writes to a .csv file."""
    frame = _frame(values, names, ids, extra, "a table")
    return (_without_formulas(frame) if safe_csv else frame).to_csv(index=False)


def _frame(values: Any, names: Any, ids: Any, extra: Any, where: Any, reserved: Sequence[str] = ()) -> Any:
    """Return ids, embedding and further columns as a table; an id column must have a name of its own."""
    ids = pd.DataFrame(index=range(len(values))) if ids is None else ids.reset_index(drop=True)
    taken = {str(c) for c in ids.columns}
    if clash := [n for n in (*names, *(extra or ()), *reserved) if n in taken]:
        raise FileProblem(
            f"The column {clash[0]!r} cannot be written beside the embedding in {where}; rename the id column."
        )
    return pd.concat([ids, pd.DataFrame(values, columns=list(names))], axis=1).assign(**(extra or {}))


def _without_formulas(frame: Any) -> Any:
    """Return a table whose text and names of columns a spreadsheet does not run as formulas."""
    safe = frame.rename(columns=_no_formula)
    return safe.apply(lambda column: column if column.dtype.kind in "biuf" else column.map(_no_formula))


def _no_formula(value: Any) -> Any:
    """Return text with an apostrophe if a spreadsheet would run it as a formula, otherwise unchanged.

    >>> _no_formula("=1+1"), _no_formula("-5.2"), _no_formula("@a"), _no_formula("a=b"), _no_formula(None)
    ("'=1+1", '-5.2', "'@a", 'a=b', None)
    """
    if isinstance(value, str) and _FORMULA.match(value) and not PLAIN_NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def _without_objects(values: Any) -> np.ndarray:
    """Return an array that NumPy can read without pickle: values that are not numbers become text."""
    values = np.asarray(values)
    return values if values.dtype.kind in "biufU" else values.astype(str)


@contextmanager
def finished_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``path`` when it is complete and on disk.

    After a failure or an interrupt the existing file is unchanged. If ``path`` is a link, its target is replaced.

    Parameters
    ----------
    path : path
        The file to write or replace.

    Yields
    ------
    binary file
        Open for writing.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> with finished_file(path) as file:
    ...     _ = file.write(b"whole")
    >>> path.read_bytes()
    b'whole'
    """
    place = Path(path).resolve()
    _remove_abandoned(place.parent)
    done = False
    try:
        while not done:
            # exclusive creation under a random name: an existing file or link is never written to
            file = (aside := _unfinished_in(place.parent)).open("xb")
            with _locked_until_done(aside) as held:
                with file:
                    if not held:
                        continue
                    with suppress(OSError):  # a new file keeps the mode that the umask gives it
                        aside.chmod(place.stat().st_mode & 0o777)
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                aside.replace(place)
                done = True
        sync_folder(place.parent)
    except OSError as error:
        raise _not_written(path, error) from error


def write_finished(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a whole file; see :func:`finished_file`."""
    with finished_file(path) as file:
        file.write(content)
    return Path(path)


@contextmanager
def finished_together(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """Create a temporary folder; its files replace those in ``folder`` when all are complete.

    After a failure or an interrupt the existing files are unchanged. Files of ``names`` that were not written are
    removed, so that old and new files are not mixed.

    Parameters
    ----------
    folder : Path
        Where the files belong.
    names : iterable of str
        Names of all files that may be written.

    Yields
    ------
    Path
        A folder in ``folder``, empty.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = write_finished(folder / "old", b"1")
    >>> with finished_together(folder, ["new", "old"]) as aside:
    ...     _ = write_finished(aside / "new", b"2")
    >>> [path.name for path in folder.iterdir()]
    ['new']
    """
    places = [writable_file(folder / name) for name in names]
    _remove_abandoned(folder)
    aside = _unfinished_in(folder)
    try:
        aside.mkdir()
        with _locked_until_done(aside):
            yield aside
            written = {path.name for path in aside.iterdir()}
            for place in sorted(places, key=lambda place: place.name not in written):  # removals come last
                (aside / place.name).replace(place) if place.name in written else place.unlink(
                    missing_ok=True
                )
            sync_folder(folder)
    except FileProblem as error:
        raise FileProblem(str(error).replace(str(aside), str(folder))) from error
    except OSError as error:
        raise _not_written(folder, error) from error


def _unfinished_in(folder: Path) -> Path:
    return folder / f".{secrets.token_hex(8)}.part"


@contextmanager
def _locked_until_done(aside: Path) -> Iterator[bool]:
    """Lock an unfinished file or folder, and remove it at the end if it still exists.

    Yields False if another process removed it before it was locked.
    """
    handle, held = None, True
    if _CAN_LOCK_AND_RENAME:
        try:
            handle = os.open(aside, os.O_RDONLY)
            held = lock(handle) is not False and os.fstat(handle).st_nlink > 0
        except OSError:
            held = False
    try:
        yield held
    finally:
        _remove(aside)
        if handle is not None:
            os.close(handle)


def _remove_abandoned(folder: Path) -> None:
    """Remove the unfinished files and folders of processes that have ended."""
    with suppress(OSError):
        for entry in os.scandir(folder) if _CAN_LOCK_AND_RENAME else ():
            if not _UNFINISHED.fullmatch(entry.name) or entry.is_symlink():
                continue
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            with suppress(OSError), handle_of(entry, flags) as handle:
                if lock(handle):
                    _remove(Path(entry))


def _remove(aside: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(aside) if aside.is_dir() else aside.unlink()


def _not_written(path: str | os.PathLike[str], error: OSError) -> FileProblem:
    return FileProblem(f"{path} could not be written: {error.strerror or one_line(error)}.")


def append_synced(handle: int, content: bytes, end: int) -> None:
    """Append bytes to an open file of ``end`` bytes, and sync it; if that fails, the file stays unchanged."""
    try:
        left = memoryview(content)
        while left:  # an unbuffered write may be partial
            left = left[os.write(handle, left) :]
        os.fsync(handle)
    except OSError:
        with suppress(OSError):
            os.ftruncate(handle, end)
        raise


def sync_folder(folder: Path) -> None:
    """Sync the folder, if the system can, so that the new name is on disk."""
    with suppress(OSError), handle_of(folder) as handle:
        os.fsync(handle)


if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def lock(handle: int) -> bool | None:
    """Lock an open file or folder; return False if another process holds the lock, None if not supported."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the second on Windows
        return False
    except OSError:
        return None
    return True


@contextmanager
def handle_of(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> Iterator[int]:
    """Open a file or folder, and close it at the end."""
    handle = os.open(path, flags)
    try:
        yield handle
    finally:
        os.close(handle)


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


class FolderLock(os.PathLike[str]):
    """A locked folder. The lock ends with :meth:`release` or with the process.

    It is a lock of the operating system on an open file (``flock``; on Windows a locked byte), so a file left by a
    killed process locks nothing. On file systems without locks there is no lock. :func:`labelfold.compare` accepts
    this object in place of the folder, which then stays locked after the comparison.

    Parameters
    ----------
    folder : path
        The folder; it is created if missing.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder: Path = writable_folder(folder)
        self._handle: int | None = None
        how = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)  # a link may lead out of the folder
        try:
            self._handle = os.open(self.folder / ".lock", how, 0o666)
            if lock(self._handle) is False:
                raise FileProblem(
                    f"Another comparison{_owner(self._handle)} is writing to {self.folder}; wait for it to end, or "
                    "name another folder."
                )
            os.ftruncate(self._handle, 0)
            os.write(self._handle, str(os.getpid()).encode())
        except OSError as error:
            self.release()
            raise FileProblem(f"{self.folder} could not be written to: {error.strerror or error}.") from error
        except BaseException:
            self.release()
            raise

    def __fspath__(self) -> str:
        return str(self.folder)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _owner(handle: int) -> str:
    """Return the process that holds the lock, if its file can be read, for a message."""
    number = b""
    with suppress(OSError):  # Windows cannot read a locked byte
        number = os.read(handle, 20)
    return f" (process {int(number)})" if number.isdigit() else ""
