"""Rows of CSV, JSON lines and Parquet, from a place on and up to another: places are bytes, of Parquet rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Optional

from svc_ml.fault import SvcError

Row = dict[str, Any]


class _Lines:
    """Lines of a file, and where the last one ended."""

    def __init__(self, file: BinaryIO, is_growing: bool) -> None:
        self._file = file
        self._is_growing = is_growing
        self.at = file.tell()

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._file.readline()
        # In a file that grows a line without an end is being written.
        if not line or (self._is_growing and not line.endswith(b"\n")):
            raise StopIteration
        self.at += len(line)
        return line.decode("utf-8-sig" if self.at == len(line) else "utf-8", "replace")


class CsvRows:
    def __init__(self, path: Path, delimiter: str, is_growing: bool) -> None:
        self.path = path
        self._delimiter = delimiter
        self._is_growing = is_growing

    def read(self, start: int, end: Optional[int]) -> Iterator[tuple[int, Row]]:
        """Each row with the place behind it. Raises OSError, ValueError."""
        with self.path.open("rb") as file:
            lines = _Lines(file, self._is_growing)
            reader = csv.reader(lines, delimiter=self._delimiter)
            names = next(reader, [])
            if start:
                file.seek(start)
                lines.at = start
            while end is None or lines.at < end:
                try:
                    cells = next(reader, None)
                except csv.Error as error:
                    raise ValueError(f"{self.path}, before byte {lines.at}: {error}") from None
                if cells is None:
                    return
                if cells:
                    yield lines.at, dict(zip(names, cells))


class JsonRows:
    def __init__(self, path: Path, is_growing: bool) -> None:
        self.path = path
        self._is_growing = is_growing

    def read(self, start: int, end: Optional[int]) -> Iterator[tuple[int, Row]]:
        with self.path.open("rb") as file:
            file.seek(start)
            lines = _Lines(file, self._is_growing)
            for line in lines:
                if line.strip():
                    yield lines.at, self._parse(line, lines.at)
                if end is not None and lines.at >= end:
                    return

    def _parse(self, line: str, at: int) -> Row:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        # A line that is no object is a row without anything: its place must not be lost.
        return _flatten(found) if isinstance(found, dict) else {_BROKEN: f"{self.path}, before byte {at}"}


class ParquetRows:
    def __init__(self, path: Path) -> None:
        self.path = path

    def count(self) -> int:
        return int(open_parquet(self.path).metadata.num_rows)

    def read(self, start: int, end: Optional[int]) -> Iterator[tuple[int, Row]]:
        file = open_parquet(self.path)
        at = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if at + count > start and (end is None or at < end):
                for index, row in enumerate(file.read_row_group(group).to_pylist()):
                    if start <= at + index and (end is None or at + index < end):
                        yield at + index + 1, _flatten(row)
            at += count


_BROKEN = "\0broken"
"""The name of the place of a row that cannot be read."""


def find_broken(row: Row) -> Optional[str]:
    return row.get(_BROKEN)


def open_parquet(path: Path) -> Any:
    """Raises SvcError without pyarrow, ValueError for a file that is none."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise SvcError("Parquet needs pyarrow: pip install pyarrow.") from None
    try:
        return pyarrow.parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _flatten(row: Row, before: str = "") -> Row:
    found: Row = {}
    for name, value in row.items():
        if isinstance(value, dict):
            found.update(_flatten(value, f"{before}{name}/"))
        else:
            found[f"{before}{name}"] = value
    return found
