"""
The buffer on disk between a program and the service: an append-only log. A crash, an outage and an offline run
are all the same thing to it, a log of which the end was not sent yet.

A spool is a folder of segments, `00000001.log` and so on. A segment is a magic word and then records:

    length of the payload (u32) | CRC-32 of all that follows (u32) | kind (u8) | entries (u32) | payload

Beside them the file `sent` tells how far the service has acknowledged records, and which batch was being sent. The batch is
noted before it is sent, so whoever goes on after a crash sends exactly the same records under the same idempotency key,
however much was appended since. A segment that is acknowledged whole is deleted.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

MAGIC = b"svcspl01"
_HEADER = struct.Struct("<IIBI")
_COVERED = struct.Struct("<BI")
_POSITIONS = struct.Struct("<Q3Q3Q")
_SLOT_BYTES = 64
_WINDOW_BYTES = 1024 * 1024

SEGMENT_BYTES = 2 * 1024 * 1024
"""A segment is closed once it has this many bytes: the disk gets nothing back before that."""
_SENT_SEGMENT_BYTES = 64 * 1024
"""So few are enough when all of it was acknowledged: on a full disk what the service has must not stand in the way."""


class Record(NamedTuple):
    """One entry of the log. `entries` is what the payload counts as: points, lines, or 1."""

    kind: int
    entries: int
    payload: bytes


class Position(NamedTuple):
    """A place between two records: the segment, the byte in it, and how many records come before."""

    segment: int
    offset: int
    records: int


START = Position(1, len(MAGIC), 0)


class SpoolFull(Exception):
    """The bound on the bytes of the spool is reached: nothing was written."""


def encode_record(record: Record) -> bytes:
    """The bytes of one record as they stand in a segment."""
    covered = _COVERED.pack(record.kind, record.entries)
    checksum = zlib.crc32(record.payload, zlib.crc32(covered))
    return _HEADER.pack(len(record.payload), checksum, record.kind, record.entries) + record.payload


class SpoolWriter:
    """
    Appends records. Each append is one write to the end of the file, so a process that is killed leaves at most one torn
    record, the last.

    Raises OSError when the disk refuses, and then takes back what had been written of it.
    """

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self.folder = folder
        self.bytes_max = bytes_max
        # Or else a small bound would be reached within one segment, of which nothing can be deleted.
        self._segment_bytes = min(SEGMENT_BYTES, bytes_max // 8)
        self.end = START
        folder.mkdir(parents=True, exist_ok=True)
        self._file = self._open(self.end.segment)

    def append(self, records: list[Record], is_all_sent: bool = False) -> None:
        """
        Appends all records or none. Raises SpoolFull when the folder would grow beyond its bound.

        is_all_sent: what was appended before has been acknowledged.
        """
        data = b"".join(map(encode_record, records))
        if self.size() + len(data) > self.bytes_max:
            raise SpoolFull
        if self.end.offset >= (min(_SENT_SEGMENT_BYTES, self._segment_bytes) if is_all_sent else self._segment_bytes):
            self._rotate()
        self._write(data)
        segment, offset, count = self.end
        self.end = Position(segment, offset + len(data), count + len(records))

    def size(self) -> int:
        """Bytes that the segments take on disk now."""
        return sum(size_of(it) for it in self.folder.glob("*.log"))

    def close(self) -> None:
        os.close(self._file)

    def _open(self, segment: int) -> int:
        path = _segment_path(self.folder, segment)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, MAGIC)
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        return file

    def _rotate(self) -> None:
        following = self.end.segment + 1
        file = self._open(following)
        os.close(self._file)
        self._file = file
        self.end = Position(following, len(MAGIC), self.end.records)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            # Or else the next record would stand behind half of this one, where no reader finds it.
            os.ftruncate(self._file, self.end.offset)
            os.lseek(self._file, self.end.offset, os.SEEK_SET)
            raise


class SpoolReader:
    """
    Reads what was appended and keeps the account of what was acknowledged. One reader at a time, in any process; beside it
    one writer, when `read` is told how far the writer has come.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged_bytes = 0
        self._file = os.open(folder / "sent", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(self._file).st_size == 0:
                # Both slots have their place from the start: on a disk that is full later they can still be written.
                os.pwrite(self._file, bytes(2 * _SLOT_BYTES), 0)
        except OSError:
            os.close(self._file)
            raise
        self._turn, self.acknowledged, self.sending = self._load()
        self._damaged: set[int] = set()
        self._window = b""
        self._window_segment = self._window_offset = -1

    def read(self, until: Position | None, entries_max: int, bytes_max: int) -> tuple[list[Record], Position]:
        """
        The next batch: the records that follow the acknowledged ones, and where it ends. It is noted as being sent, and
        stays the same until it is acknowledged, in this process or a later one. At least one record, unless there is none.

        With `until` no record beyond is looked at; without, all up to the end or to the first damaged one of a segment.
        """
        fixed = self.sending if self.sending.records > self.acknowledged.records else None
        records: list[Record] = []
        at = self.acknowledged
        entries = size = 0
        while True:
            if fixed is not None and at.records >= fixed.records:
                break
            if until is not None and at.records >= until.records:
                break
            found = self._read_record(at, until)
            if found is None:
                break
            record, following = found
            entries += record.entries
            size += len(record.payload)
            if fixed is None and records and (entries > entries_max or size > bytes_max):
                break
            records.append(record)
            at = following
        if records and fixed is None:
            self.sending = at
            self._save()
        return records, at

    def acknowledge(self, end: Position) -> None:
        """Notes that the service has everything before `end`, and deletes the segments that are done with."""
        before = self.acknowledged.segment
        self.acknowledged = self.sending = end
        self._save()
        for segment in range(before, end.segment):
            _segment_path(self.folder, segment).unlink(missing_ok=True)

    def pending_bytes(self) -> int:
        """What is on disk and not acknowledged; for a progress bar."""
        on_disk = sum(size_of(it) for it in self.folder.glob("*.log"))
        return max(0, on_disk - self.acknowledged.offset)

    def close(self) -> None:
        os.close(self._file)

    def _read_record(self, at: Position, until: Position | None) -> tuple[Record, Position] | None:
        while True:
            segment, offset, count = at
            parsed = self._parse(segment, offset)
            if parsed is not None:
                record, end = parsed
                return record, Position(segment, end, count + 1)
            rest = size_of(_segment_path(self.folder, segment)) - offset
            if until is None and rest > 0 and segment not in self._damaged:
                self._damaged.add(segment)
                self.damaged_bytes += rest
            if not _segment_path(self.folder, segment + 1).exists():
                return None
            at = Position(segment + 1, len(MAGIC), count)

    def _parse(self, segment: int, offset: int) -> tuple[Record, int] | None:
        header = self._bytes_at(segment, offset, _HEADER.size)
        if len(header) < _HEADER.size:
            return None
        length, checksum, kind, entries = _HEADER.unpack(header)
        body = offset + _HEADER.size
        payload = self._bytes_at(segment, body, length)
        if len(payload) < length or zlib.crc32(payload, zlib.crc32(_COVERED.pack(kind, entries))) != checksum:
            return None
        return Record(kind, entries, payload), body + length

    def _bytes_at(self, segment: int, offset: int, count: int) -> bytes:
        """Up to `count` bytes of a segment, read in large windows: a small read for each record would be slow."""
        start = offset - self._window_offset
        is_inside = segment == self._window_segment and start >= 0 and start + count <= len(self._window)
        if not is_inside:
            self._window = _read(_segment_path(self.folder, segment), offset, max(count, _WINDOW_BYTES))
            self._window_segment, self._window_offset, start = segment, offset, 0
        return self._window[start : start + count]

    def _load(self) -> tuple[int, Position, Position]:
        slots = [os.pread(self._file, _SLOT_BYTES, slot * _SLOT_BYTES) for slot in (0, 1)]
        states = [state for state in map(_parse_slot, slots) if state]
        return max(states, default=(0, START, START))

    def _save(self) -> None:
        """Two slots in turn, each with its checksum: a write that is torn leaves the one before."""
        self._turn += 1
        data = _POSITIONS.pack(self._turn, *self.acknowledged, *self.sending)
        os.pwrite(self._file, data + struct.pack("<I", zlib.crc32(data)), self._turn % 2 * _SLOT_BYTES)


def _parse_slot(slot: bytes) -> tuple[int, Position, Position] | None:
    size = _POSITIONS.size
    if len(slot) < size + 4 or struct.unpack_from("<I", slot, size)[0] != zlib.crc32(slot[:size]):
        return None
    turn, *rest = _POSITIONS.unpack_from(slot)
    return turn, Position(*rest[:3]), Position(*rest[3:])


def _segment_path(folder: Path, segment: int) -> Path:
    return folder / f"{segment:08}.log"


def _read(path: Path, offset: int, count: int) -> bytes:
    # A damaged length must not ask for gigabytes.
    count = min(count, max(0, size_of(path) - offset))
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(count)
    except FileNotFoundError:
        return b""


def size_of(path: Path) -> int:
    """Bytes of a file; 0 when it is gone: what was sent is deleted by another thread, or another process."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
