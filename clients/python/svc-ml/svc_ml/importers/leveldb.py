"""
Files `.wandb` and `.swanlab`: seven bytes that begin with `:W&B` or `:SWL`, and then the log of LevelDB. It has blocks of 32 KiB; in
each frames of

    CRC-32 of the kind and the payload (u32) | length (u16) | kind (u8) | payload

A record is one frame, or a first, middle ones and a last.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Union

_START = 7
_BLOCK_BYTES = 32 * 1024
_HEADER = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


class FrameReader:
    """
    Goes on where it ended, when called again. It holds no open file.

    start: what the file begins with.
    """

    def __init__(self, path: Path, start: bytes) -> None:
        self.path = path
        self._start = start
        self.offset = _START
        """Of the next record."""

    def read(self) -> Iterator[Union[bytes, int]]:
        """Records, and the places of those that are damaged. Raises OSError, and ValueError for a file of another kind."""
        with self.path.open("rb") as file:
            found = file.read(_START)
            # One that was just made may be empty.
            if not found.startswith(self._start[: len(found)]):
                raise ValueError(
                    f"{self.path} does not begin with {self._start!r}: it is another kind of file, or version."
                )
            parts: list[bytes] = []
            at = self.offset
            while True:
                frame = _read_frame(file, at)
                if frame is None:
                    return
                kind, payload, end = frame
                if kind < 0:
                    yield at
                    parts, at = [], end
                    self.offset = at
                    continue
                at = end
                if kind in (_FULL, _FIRST):
                    parts = []
                parts.append(payload)
                if kind in (_FULL, _LAST):
                    self.offset = at
                    yield b"".join(parts)
                    parts = []

    def left_bytes(self) -> int:
        return self.path.stat().st_size - self.offset


def _read_frame(file: BinaryIO, at: int) -> tuple[int, bytes, int] | None:
    """Kind, payload and end; the kind is -1 when it is damaged, and its end that of the block. None at the end of the file."""
    left = _BLOCK_BYTES - at % _BLOCK_BYTES
    if left < _HEADER.size:
        at, left = at + left, _BLOCK_BYTES
    file.seek(at)
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    crc, length, kind = _HEADER.unpack(header)
    payload = file.read(length)
    if length <= left - _HEADER.size and len(payload) < length:
        return None
    if zlib.crc32(payload, zlib.crc32(header[6:])) != crc or length > left - _HEADER.size:
        return -1, b"", at + left
    return kind, payload, at + _HEADER.size + length
