"""Small pictures of numbers between -1 and 1, as data that a page can hold."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

_LOW, _HIGH = np.array([33, 102, 172]), np.array([178, 24, 43])  # blue to red, by way of white


def picture(values: np.ndarray, most: float) -> str:
    """Return a PNG, as a data URI, of a matrix: white at 0, red at ``most``, blue at ``-most``.

    >>> picture(np.array([[0.0, 1.0], [-1.0, 0.5]]), 1.0)[:22]
    'data:image/png;base64,'
    """
    share = np.clip(np.nan_to_num(values) / (most or 1.0), -1, 1)[..., None]
    full = np.where(share >= 0, _HIGH, _LOW)
    pixels = np.round(255 - np.abs(share) * (255 - full)).astype(np.uint8)  # (h, w, 3)
    height, width, _ = pixels.shape
    lines = np.hstack([np.zeros((height, 1), dtype=np.uint8), pixels.reshape(height, -1)])
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    content = b"".join(
        _chunk(*part)
        for part in ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b""))
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + content).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
