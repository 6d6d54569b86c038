"""Arrow and Feather files, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from labelfold.app.io._extras import pa
from labelfold.app.io._frames import Stream, checked, is_large
from labelfold.app.io._limits import refuse_bomb
from labelfold.app.io._problems import FileProblem, reporting
from labelfold.app.io._sources import Request
from labelfold.tables import BLOCK, as_arrow

_FEATHER_1 = b"FEA1"


def read_arrow(path: Path, kind: str, request: Request) -> Any:
    """Read an Arrow file, an Arrow stream or a Feather file; a large file as a `Stream`."""
    with reporting(path, "is not a whole Arrow or Feather file"):
        with path.open("rb") as file:
            if file.read(4) == _FEATHER_1:
                raise FileProblem(
                    f"{path} is of Feather's first version, of 2016; write it again with a newer one."
                )
        with _opened(path) as reader:
            names = reader.schema.names
        if is_large(path):
            return checked(path, Stream(names, lambda columns: _detached(path, columns)))
        blocks = list(_blocks(path, names)) if len(set(names)) == len(names) else []
        empty = pa.table([[] for _ in names], names=names)
        return checked(path, pa.concat_tables(blocks).unify_dictionaries() if blocks else empty)


def _opened(path: Path) -> Any:
    """Open an Arrow file or stream."""
    source = pa.OSFile(str(path))  # a memory map would keep the pages that were read in memory
    try:
        return pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)


def _blocks(path: Path, columns: list[str]) -> Iterator[Any]:
    """Yield some columns, validated so that a damaged file cannot cause reads outside its buffers."""
    unpacked = 0
    with _opened(path) as reader:
        several = hasattr(reader, "num_record_batches")
        batches = map(reader.get_batch, range(reader.num_record_batches)) if several else reader
        for batch in batches:
            some = pa.Table.from_batches([batch]).select(columns)
            some.validate(full=True)
            unpacked += some.nbytes
            refuse_bomb(path, path.stat().st_size, unpacked)
            table = as_arrow(some)[0]
            for start in range(0, table.num_rows, BLOCK):
                yield table.slice(start, BLOCK)


def _detached(path: Path, columns: list[str]) -> Iterator[Any]:
    """Yield copies of some columns. A batch is one buffer, which a single column would keep in memory."""
    for block in _blocks(path, columns):
        yield block.take(np.arange(block.num_rows))
