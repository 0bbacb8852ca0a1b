"""
The bytes of a file, to disk. They go to a hidden file beside their place, and take the place once they are complete and have the
checksum that the service keeps. When the connection breaks, reading goes on from the last byte that came.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from svc_ml.fault import SvcError
from svc_ml.read.connection import Connection
from svc_ml.transport.service import Unavailable

_PROGRESS_BYTES = 16 * 1024 * 1024
"""Smaller ones are there before one looks."""


def download(connection: Connection, query: dict[str, Any], path: Path, on_bytes: Callable[[int], object]) -> None:
    """
    query: of `/experiment/asset/get-asset`.
    on_bytes: is told how many more bytes have arrived; fewer than none when reading begins again.

    Raises what a connection raises, OSError when the disk refuses, and SvcError when the bytes are not those that were stored.
    What was at the path stays there then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            arriving = _Arriving(connection, query, file, on_bytes)
            while not connection.attempt(arriving.go_on):
                pass
        if not arriving.is_intact():
            raise SvcError(f"What arrived for {path} is not what was stored: its checksum differs. Try again.")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def progress(name: str, size: int, is_shown: bool) -> Iterator[Callable[[int], object]]:
    """A bar for something large, where somebody is there to see it."""
    # Most programs that import us only log.
    from tqdm import tqdm

    disable = None if is_shown and size >= _PROGRESS_BYTES else True
    with tqdm(total=size, desc=name, unit="B", unit_scale=True, file=sys.stderr, disable=disable) as bar:
        yield bar.update


class _Arriving:
    """A file while it arrives."""

    def __init__(
        self, connection: Connection, query: dict[str, Any], file: BinaryIO, on_bytes: Callable[[int], object]
    ) -> None:
        self._connection = connection
        self._query = query
        self._file = file
        self._on_bytes = on_bytes
        self._tag = ""
        self._begin()

    def _begin(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._digest = hashlib.sha256()
        self._bytes = 0

    def go_on(self) -> bool:
        """True once all has arrived; false when some has, so that it is worth going on at once."""
        headers = {"range": f"bytes={self._bytes}-", "if-range": self._tag} if self._bytes else None
        answer = self._connection.open("/experiment/asset/get-asset", self._query, headers)
        try:
            if answer.status == 200 and self._bytes:
                self._on_bytes(-self._bytes)
                self._begin()
            self._tag = answer.headers.get("etag", "")
            before = self._bytes
            try:
                for block in self._connection.blocks(answer):
                    self._file.write(block)
                    self._digest.update(block)
                    self._bytes += len(block)
                    self._on_bytes(len(block))
            except Unavailable:
                if self._bytes == before:
                    raise
                return False
        finally:
            answer.close()
        return True

    def is_intact(self) -> bool:
        """A proxy may leave the checksum out: then the length alone counts, which was checked as it arrived."""
        tag = self._tag.removeprefix("W/").strip('"')
        return tag in ("", self._digest.hexdigest())
