"""
The folder of one process and one experiment: what is said of the experiment (`spool.json`), a lock that its owner holds, two
spools, and copies of the files that wait to be uploaded. Files have a spool of their own, so that a large one does not hold up
the metrics behind it.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ABOUT_NAME = "spool.json"
FINISH_NAME = "finish"
"""Put there by another process of the experiment: whoever owns the spool is to send it and end."""
STREAM = "stream"
FILES = "files"
COPIES = "copies"
_VERSION = 1


@dataclass(frozen=True)
class About:
    """What has to be known to send a spool, the key to the service excepted."""

    spool_id: str
    experiment_key: str
    url: str
    create: dict[str, Any] | None
    context: str = ""
    is_offline: bool = False


class Locked(Exception):
    """Somebody else is at work on the folder."""


class SpoolFolder:
    """A folder that this process has locked. Raises Locked."""

    def __init__(self, path: Path, about: About) -> None:
        self.path = path
        self.about = about
        self._lock = _lock(path)

    def copied_bytes(self) -> int:
        """What the copies of files take on disk."""
        return sum(it.stat().st_size for it in self.path.glob(f"{COPIES}/*"))

    def close(self) -> None:
        os.close(self._lock)

    def remove(self) -> None:
        """Deletes the folder: everything in it was sent."""
        # First what makes it a spool, or else a crash in between would leave half of one to be sent.
        (self.path / ABOUT_NAME).unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)
        self.close()


def create_spool_folder(root: Path, about: About) -> SpoolFolder:
    """Raises OSError when the disk refuses."""
    path = root / f"{about.experiment_key}-{about.spool_id}"
    path.mkdir(parents=True)
    try:
        folder = SpoolFolder(path, about)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
        raise
    try:
        written = path / f"{ABOUT_NAME}.new"
        written.write_text(json.dumps({"version": _VERSION, **asdict(about)}), encoding="utf-8")
        # Locked before it can be found.
        written.rename(path / ABOUT_NAME)
    except OSError:
        # A full disk is asked again and again: half a folder each time would fill it for good.
        folder.remove()
        raise
    return folder


def open_spool_folder(path: Path) -> SpoolFolder:
    """
    Opens what another process has left.

    Raises Locked, ValueError when it was written by a later version, OSError.
    """
    content = json.loads((path / ABOUT_NAME).read_text(encoding="utf-8"))
    version = content.pop("version", None)
    if version != _VERSION:
        raise ValueError(f"{path} was written by another version of svc-ml: update svc-ml and sync it again.")
    return SpoolFolder(path, About(**content))


def find_spool_folders(root: Path) -> Iterator[Path]:
    """All spools in a folder, or the folder itself, oldest first."""
    for about in sorted(root.rglob(ABOUT_NAME), key=_age):
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
