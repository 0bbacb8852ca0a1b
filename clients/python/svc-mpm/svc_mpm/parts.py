"""A CSV file in parts of some megabytes, each of whole records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

PART_BYTES = 2 * 1024 * 1024
"""
A part is sent in one request and held in memory meanwhile. Other sizes would make other ids of lines that bring none.
"""

# A quote that is never closed is given up by the service after so much; so it is here, or else a part would never end.
_RECORD_LINES_MAX = 1_000
_RECORD_BYTES_MAX = 4 * 1024 * 1024


class Part(NamedTuple):
    """Records of a file, under its header."""

    content: bytes
    header_lines: int
    first_line: int
    """The number of its first line in the file, from 1."""
    end_line: int
    """The number of the line after its last one."""

    def to_file_line(self, line: int) -> int:
        """The number in the file of a line that is counted in this part."""
        return line if line <= self.header_lines else self.first_line + line - self.header_lines - 1


def read_parts(file: BinaryIO, part_bytes: int = PART_BYTES) -> Iterator[Part]:
    """
    Reads a file in bounded memory. A file without lines under its header is one part, for the header to be checked.
    """
    records = _read_records(file)
    header = next(records, [])
    head = b"".join(header)
    if head and not head.endswith(b"\n"):
        head += b"\n"
    first_line = line = len(header) + 1
    lines: list[bytes] = []
    size = 0
    for record in records:
        lines += record
        line += len(record)
        size += sum(map(len, record))
        if size >= part_bytes:
            yield Part(head + b"".join(lines), len(header), first_line, line)
            lines, size, first_line = [], 0, line
    if lines or first_line == len(header) + 1:
        yield Part(head + b"".join(lines), len(header), first_line, line)


def _read_records(file: BinaryIO) -> Iterator[list[bytes]]:
    """Lines that belong together, for a value in quotes may go over the ends of lines."""
    record: list[bytes] = []
    is_open = False
    size = 0
    while True:
        # A line without an end must not fill the memory: the service says of each piece what is wrong with it.
        line = file.readline(_RECORD_BYTES_MAX + 1)
        if not line:
            break
        record.append(line)
        size += len(line)
        if line.count(b'"') % 2:
            is_open = not is_open
        if not is_open or len(record) > _RECORD_LINES_MAX or size > _RECORD_BYTES_MAX:
            yield record
            record, is_open, size = [], False, 0
    if record:
        yield record
