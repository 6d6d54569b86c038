"""Images as rows: a folder of class-named folders, or a column of paths, read by Pillow at one size."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from labelfold.app.io._errors import (
    FileProblem,
    count,
    did_you_mean,
    failure_to_read,
    listed,
    pa,
    read_from,
)
from labelfold.app.io._files import MAX_UNPACKED, MIB
from labelfold.app.io._sources import Request, folder_of
from labelfold.rows import in_order

FILE, CLASS = "file", "class"
_UNLABELLED = ("unlabelled", "unlabeled")
# If all images have one size, of at most this many pixels a side, they are read at that size; otherwise at the
# usual side.
_MAX_SIDE, _USUAL_SIDE = 64, 32
# Budget: number of images whose size is checked, and that are read by one task.
_SOME = 200
_CHANNELS = ("red", "green", "blue")
# Budget: largest number of bytes of all images.
_MAX_BYTES = 8192 * MIB
# Formats that Pillow decodes itself. For others, such as PostScript, it starts programs.
_NAMES = "PNG JPEG MPO GIF BMP DIB TIFF WEBP AVIF JPEG2000 PPM TGA ICO PCX SGI"
_FORMATS = _NAMES.split()


def read_folder(folder: Path, kind: str, request: Request) -> Any:
    """Return the files of a folder as a table; the class is the subfolder."""
    endings = {ending for ending, name in Image.registered_extensions().items() if name in _FORMATS}
    files, others = [], 0
    for place, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                known = os.path.splitext(name)[1].lower() in endings
                files += [os.path.relpath(os.path.join(place, name), folder)] if known else []
                others += not known
    if not files:
        raise FileProblem(f"{folder} is a folder without images; name the file in it, or a folder of images.")
    if others:
        request.note(
            f"{count(others, 'file')} in {folder} {'are' if others > 1 else 'is'} no image by the name."
        )
    paths = [Path(name) for name in files]
    above = [path.parts[0] if len(path.parts) > 1 else "" for path in paths]
    classes = [None if name.lower() in ("", *_UNLABELLED) else name for name in above]
    return pa.table({FILE: [path.as_posix() for path in paths], CLASS: pa.array(classes, pa.string())})


def with_pixels(where: Any, table: Any, column: str, request: Request) -> tuple[Any, tuple[int, int]]:
    """Return a table with the pixels of images in place of their paths. Rows with unreadable images are left out.

    Parameters
    ----------
    where : Path
        The folder of images, or the table; paths are relative to its folder.
    table : pyarrow.Table
    column : str
        Its column of paths.
    request : Request
        Contains the size, and whether images are read in colour.

    Returns
    -------
    table : pyarrow.Table
        With one column for each pixel, or three in colour.
    size : pair of int
        Height and width.
    """
    if column not in table.column_names:
        names = table.column_names
        raise FileProblem(
            f"{where} has no image column {column!r}{did_you_mean(column, names) or f'; it has {listed(names)}'}."
        )
    root = folder_of(where)
    paths = [None if cell is None else str(cell).strip() for cell in table.column(column).to_pylist()]
    colour = bool(request.reading.colour)
    size = request.reading.image_size or _usual_size(root, paths)
    shape = (*size, 3) if colour else size
    if len(paths) * int(np.prod(shape)) * 8 > _MAX_BYTES:
        side = int((_MAX_BYTES / 8 / len(paths) / (3 if colour else 1)) ** 0.5)
        raise FileProblem(
            f"{where} has {count(len(paths), 'image')}, which at {size[0]}x{size[1]} would take "
            f"{len(paths) * np.prod(shape) * 8 / 2**30:,.0f} GB; give --image-size {side} or less."
        )
    X = np.empty((len(paths), int(np.prod(shape))), dtype=np.float32)
    read = np.zeros(len(paths), dtype=bool)
    starts = range(0, len(paths), _SOME)
    work = partial(_read_some, root, paths, size, colour)
    with warnings.catch_warnings():
        # the image is left out, and a note names it
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        with read_from(where):
            for start, (some, good) in zip(starts, in_order(work, starts), strict=True):
                X[start : start + len(some)], read[start : start + len(some)] = some, good
    broken = [paths[i] or "an empty cell" for i in np.flatnonzero(~read)]
    if len(broken) == len(paths):
        raise FileProblem(
            f"{where} has no image that can be read, of {len(paths):,}: {listed(broken, most=3)}."
        )
    if broken:
        request.note(
            f"{count(len(broken), 'image')} of {len(paths):,} cannot be read and "
            f"{'are' if len(broken) > 1 else 'is'} left out: {listed(broken)}."
        )
        X, table = X[read], table.filter(pa.array(read))
    if request.reading.image_size is None:
        how = "in colour" if colour else "in grey"
        request.note(
            f"Images are read {how} at {size[0]} × {size[1]} pixels; --image-size and --colour change it."
        )
    pixels = pixel_names(shape)
    taken = set(pixels) & set(table.column_names)
    if taken:
        raise FileProblem(f"{where} has a column {min(taken)!r} beside images; give it another name.")
    columns = [*table.columns, *(pa.array(values) for values in np.ascontiguousarray(X.T))]
    return pa.table(columns, names=[*table.column_names, *pixels]), size


def pixel_names(shape: Sequence[int]) -> list[str]:
    """Return the names of the pixel columns.

    >>> pixel_names((1, 2)), pixel_names((1, 1, 3))
    (['pixel_0_0', 'pixel_0_1'], ['pixel_0_0_red', 'pixel_0_0_green', 'pixel_0_0_blue'])
    """
    ends = [f"_{name}" for name in _CHANNELS] if len(shape) == 3 else [""]
    return [f"pixel_{i}_{j}{end}" for i in range(shape[0]) for j in range(shape[1]) for end in ends]


def _usual_size(root: Path, paths: Sequence[str | None]) -> tuple[int, int]:
    """Return the common size of small images, or the default size."""
    sizes: Counter[tuple[int, int]] = Counter()
    for i in np.unique(np.linspace(0, len(paths) - 1, _SOME).astype(int)):
        try:
            with _opened(root / (paths[i] or "")) as image:
                sizes[image.height, image.width] += 1
        except Exception:  # reported when the image is read
            continue
    same = next(iter(sizes)) if len(sizes) == 1 else None
    return same if same is not None and max(same) <= _MAX_SIDE else (_USUAL_SIDE, _USUAL_SIDE)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open an image, if it is a regular file: reading from a pipe could wait for ever."""
    if not path.is_file():
        raise ValueError("it is no file")
    Image.init()
    formats = [name for name in _FORMATS if name in Image.OPEN]
    # Pillow does not close a file that it cannot read
    with path.open("rb") as file, Image.open(file, formats=formats) as image:
        yield image


def _read_some(
    root: Path, paths: Sequence[str | None], size: tuple[int, int], colour: bool, start: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return images as rows, and a mask of those that could be read."""
    some = paths[start : start + _SOME]
    X = np.zeros((len(some), size[0] * size[1] * (3 if colour else 1)), dtype=np.float32)
    good = np.zeros(len(some), dtype=bool)
    for i, name in enumerate(some):
        try:
            if name:
                X[i], good[i] = _read(root / name, size, colour).ravel(), True
        except Exception as error:  # a decoder can raise any error
            if failure_to_read(error):
                raise
    return X, good


def _read(path: Path, size: tuple[int, int], colour: bool) -> np.ndarray:
    """Return an image as numbers from 0 to 255, upright, with transparent parts on white."""
    height, width = size
    mode = "RGB" if colour else "L"
    with _opened(path) as image:
        if _is_bomb(image):
            raise ValueError("it unpacks to too many pixels")
        image.draft(mode, (2 * width, 2 * height))  # a large JPEG is decoded at a reduced size
        flat = _plain(ImageOps.exif_transpose(image), mode)
    if flat.size != (width, height):
        flat = flat.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(flat, dtype=np.float32)


def picture(path: Path, side: int) -> Any:
    """Return an image in colour, upright, with sides of at most ``side`` pixels; None if it cannot be read."""
    try:
        with warnings.catch_warnings(), _opened(path) as image:
            warnings.simplefilter("ignore")
            if _is_bomb(image):
                return None
            image.draft("RGB", (side, side))
            flat = _plain(ImageOps.exif_transpose(image), "RGB")
        flat.thumbnail((side, side))
        return flat
    except Exception:  # a decoder can raise any error
        return None


def _is_bomb(image: Any) -> bool:
    """Tell whether an image takes too many bytes as 64-bit numbers, as which images of many bits are read."""
    return bool(8 * image.width * image.height > MAX_UNPACKED)


def _plain(image: Any, mode: str) -> Any:
    """Return an image of any mode as one with 8 bits for each pixel and channel."""
    if image.mode[0] in "IF":  # 16 bits or more; Pillow would clip them at 255
        values = np.asarray(image, dtype=np.float64)
        low, high = float(values.min()), float(values.max())
        top = (
            65535.0
            if image.mode.startswith("I;16") or (low >= 0 and 255 < high <= 65535)
            else max(high, 255.0)
        )
        image = Image.fromarray(np.clip(values / top * 255.0, 0, 255).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    return image.convert(mode)
