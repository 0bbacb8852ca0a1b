"""
Frames of an event file. Each is

    length (u64) | masked CRC-32C of the length (u32) | payload | masked CRC-32C of the payload (u32)

A file that is being written ends in the middle of a frame, and so does one whose writer was killed. Where the length of a frame is
damaged, reading goes on at the next place that has a length with its checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from svc_ml.importers.tensorboard.checksum import find_damaged, masked_crc

_CHUNK_BYTES = 4 * 1024 * 1024
_HEADER_BYTES = 12
_AROUND_BYTES = _HEADER_BYTES + 4
_CHECKED_BYTES_MAX = 64 * 1024
"""Larger payloads are pictures and the like, which have checksums of their own; ours would take 70 ms a megabyte."""
_HEADER = struct.Struct("<QI")


class Chunk(NamedTuple):
    data: bytes
    starts: dict[int, list[int]]
    """Where in `data` the payloads of each length begin, in order."""
    damaged: list[int]
    """Places in the file of frames that were skipped."""

    def places(self) -> list[tuple[int, int]]:
        """Begin and length of each payload, in order."""
        return sorted((start, length) for length, starts in self.starts.items() for start in starts)


class FrameReader:
    """Goes on where it ended, when called again. It holds no open file."""

    def __init__(self, path: Path, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self.path = path
        self.offset = 0
        self._chunk_bytes = chunk_bytes
        self._lengths: dict[bytes, int] = {}

    def read(self) -> Iterator[Chunk]:
        """Raises OSError."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            rest = b""
            wanted = self._chunk_bytes
            while True:
                more = file.read(wanted)
                if not more:
                    return
                data = rest + more
                chunk, used = self._split(data)
                if used:
                    self.offset += used
                    yield chunk
                rest = data[used:]
                # Of a frame that is larger than a chunk more and more is read.
                wanted = max(self._chunk_bytes, len(rest))

    def left_bytes(self) -> int:
        """What follows the last whole frame."""
        return self.path.stat().st_size - self.offset

    def _split(self, data: bytes) -> tuple[Chunk, int]:
        starts: dict[int, list[int]] = {}
        damaged: list[int] = []
        # Of a header that was seen: the bytes of its frame, and what notes one more. Most frames cost one look-up.
        known: dict[bytes, tuple[int, Callable[[int], None]]] = {}
        at, end = 0, len(data)
        while True:
            try:
                while True:
                    size, add = known[data[at : at + _HEADER_BYTES]]
                    if at + size > end:
                        return self._check(data, starts, damaged), at
                    add(at + _HEADER_BYTES)
                    at += size
            except KeyError:
                if at + _AROUND_BYTES > end:
                    return self._check(data, starts, damaged), at
            header = data[at : at + _HEADER_BYTES]
            length = self._read_length(header)
            if length >= 0:
                known[header] = (length + _AROUND_BYTES, starts.setdefault(length, []).append)
                continue
            following = _find_header(data, at + 1)
            if following is None:
                # It may lie behind what was read: a header that is torn at the end must be found later.
                following = max(at + 1, end - _HEADER_BYTES + 1)
            damaged.append(self.offset + at)
            at = following

    def _read_length(self, header: bytes) -> int:
        if header not in self._lengths:
            length = _read_header(header)
            if length < 0:
                return length
            self._lengths[header] = length
        return self._lengths[header]

    def _check(self, data: bytes, starts: dict[int, list[int]], damaged: list[int]) -> Chunk:
        for length, group in starts.items():
            wrong = set(find_damaged(data, group, length)) if length <= _CHECKED_BYTES_MAX else set()
            if wrong:
                damaged.extend(self.offset + it - _HEADER_BYTES for it in sorted(wrong))
                starts[length] = [it for it in group if it not in wrong]
        return Chunk(data, starts, damaged)


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
