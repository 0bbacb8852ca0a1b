"""
Frames of an event file. Each is

    length (u64) | masked CRC-32C of the length (u32) | payload | masked CRC-32C of the payload (u32)

A file that is being written ends in the middle of a frame, and so does one whose writer was killed. Where the length of a frame is
damaged, reading goes on at the next place that has a length with its checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from svc_ml.importers.tensorboard.checksum import find_damaged, masked_crc

_CHUNK_BYTES = 8 * 1024 * 1024
_HEADER_BYTES = 12
_AROUND_BYTES = _HEADER_BYTES + 4
_CHECKED_BYTES_MAX = 64 * 1024
"""Larger payloads are pictures and the like, which have checksums of their own; ours would take 70 ms a megabyte."""
_HEADER = struct.Struct("<QI")


class Chunk(NamedTuple):
    data: bytes
    places: list[tuple[int, int]]
    """Begin and length in `data` of each payload."""
    damaged: list[int]
    """Places in the file of frames that were skipped."""


class FrameReader:
    """Goes on where it ended, when called again. It holds no open file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self._lengths: dict[bytes, int] = {}

    def read(self) -> Iterator[Chunk]:
        """Raises OSError."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            rest = b""
            wanted = _CHUNK_BYTES
            while True:
                more = file.read(wanted)
                if not more:
                    return
                data = rest + more
                chunk, used = self._split(data)
                if chunk.places or chunk.damaged:
                    self.offset += used
                    yield chunk
                rest = data[used:] if chunk.places or chunk.damaged else data
                # Of a frame that is larger than a chunk more and more is read.
                wanted = max(_CHUNK_BYTES, len(rest))

    def left_bytes(self) -> int:
        """What follows the last whole frame."""
        return self.path.stat().st_size - self.offset

    def _split(self, data: bytes) -> tuple[Chunk, int]:
        places: list[tuple[int, int]] = []
        damaged: list[int] = []
        lengths = self._lengths
        at, end = 0, len(data)
        while at + _AROUND_BYTES <= end:
            header = data[at : at + _HEADER_BYTES]
            length = lengths.get(header, -1)
            if length < 0:
                length = _read_header(header)
                if length < 0:
                    following = _find_header(data, at + 1)
                    if following is None:
                        # It may lie behind what was read: a header that is torn at the end must be found later.
                        following = max(at + 1, end - _HEADER_BYTES + 1)
                    damaged.append(self.offset + at)
                    at = following
                    continue
                lengths[header] = length
            if at + length + _AROUND_BYTES > end:
                break
            places.append((at + _HEADER_BYTES, length))
            at += length + _AROUND_BYTES
        wrong = _find_wrong(data, places)
        if wrong:
            damaged.extend(self.offset + it - _HEADER_BYTES for it in wrong)
            places = [it for it in places if it[0] not in wrong]
        return Chunk(data, places, damaged), at


def _read_header(header: bytes) -> int:
    """The length; -1 when the header is damaged."""
    length, crc = _HEADER.unpack(header)
    return length if masked_crc(header[:8]) == crc and length < 2**40 else -1


def _find_header(data: bytes, start: int) -> int | None:
    # The upper half of a length is zero.
    at = data.find(b"\0\0\0\0", start + 4)
    while at != -1 and at + 8 <= len(data):
        if data[at - 4 : at] != b"\0\0\0\0" and _read_header(data[at - 4 : at + 8]) > 0:
            return at - 4
        at = data.find(b"\0\0\0\0", at + 1)
    return None


def _find_wrong(data: bytes, places: list[tuple[int, int]]) -> set[int]:
    by_length: dict[int, list[int]] = {}
    for start, length in places:
        by_length.setdefault(length, []).append(start)
    return {
        it
        for length, starts in by_length.items()
        if length <= _CHECKED_BYTES_MAX
        for it in find_damaged(data, starts, length)
    }
