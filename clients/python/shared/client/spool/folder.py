"""A folder with the spools of one process: a file that says what has to be known to send them, and a lock that its owner holds."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from ..fault import PACKAGE

_VERSION = 1
F = TypeVar("F", bound="LockedFolder")


class Locked(Exception):
    """Somebody else is at work on the folder."""


class LockedFolder:
    """
    A folder that this process has locked. Raises Locked.

    about_name: the file that makes it a folder of this kind. content: what is in it.
    """

    def __init__(self, path: Path, about_name: str, content: dict[str, Any]) -> None:
        self.path = path
        self.content = content
        self._about_name = about_name
        self._lock = _lock(path)

    @classmethod
    def create(cls: type[F], path: Path, about_name: str, content: dict[str, Any]) -> F:
        """Raises OSError when the disk refuses."""
        path.mkdir(parents=True)
        try:
            folder = cls(path, about_name, content)
        except OSError:
            shutil.rmtree(path, ignore_errors=True)
            raise
        try:
            written = path / f"{about_name}.new"
            written.write_text(json.dumps({"version": _VERSION, **content}), encoding="utf-8")
            # Locked before it can be found.
            written.rename(path / about_name)
        except OSError:
            # A full disk is asked again and again: half a folder each time would fill it for good.
            folder.remove()
            raise
        return folder

    @classmethod
    def open(cls: type[F], path: Path, about_name: str) -> F:
        """
        Opens what another process has left.

        Raises Locked, ValueError when it was written by a later version, OSError.
        """
        content = json.loads((path / about_name).read_text(encoding="utf-8"))
        if content.pop("version", None) != _VERSION:
            name = PACKAGE.replace("_", "-")
            raise ValueError(f"{path} was written by another version of {name}: update {name} and sync it again.")
        return cls(path, about_name, content)

    def close(self) -> None:
        os.close(self._lock)

    def remove(self) -> None:
        """Deletes the folder: everything in it was sent."""
        # First what makes it a spool, or else a crash in between would leave half of one to be sent.
        (self.path / self._about_name).unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)
        self.close()


def find_folders(root: Path, about_name: str) -> Iterator[Path]:
    """All folders of a kind in a folder, or the folder itself, oldest first."""
    for about in sorted(root.rglob(about_name), key=_age):
        yield about.parent


def new_spool_id() -> str:
    return secrets.token_hex(8)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0


def _lock(path: Path) -> int:
    file = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise Locked(str(path)) from None
    return file
