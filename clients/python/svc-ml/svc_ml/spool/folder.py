"""
The folder of one process and one experiment: what is said of the experiment (`spool.json`), two spools, and copies of the files
that wait to be uploaded. Files have a spool of their own, so that a large one does not hold up the metrics behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from svc_ml.client.spool.folder import LockedFolder, find_folders
from svc_ml.client.spool.log import size_of

ABOUT_NAME = "spool.json"
FINISH_NAME = "finish"
"""Put there by another process of the experiment: whoever owns the spool is to send it and end."""
STREAM = "stream"
FILES = "files"
COPIES = "copies"


@dataclass(frozen=True)
class About:
    """What has to be known to send a spool, the key to the service excepted."""

    spool_id: str
    experiment_key: str
    url: str
    create: dict[str, Any] | None
    context: str = ""
    is_offline: bool = False


class SpoolFolder(LockedFolder):
    """A folder that this process has locked."""

    def __init__(self, path: Path, about_name: str, content: dict[str, Any]) -> None:
        self.about = About(**content)
        super().__init__(path, about_name, content)

    def copied_bytes(self) -> int:
        """What the copies of files take on disk."""
        return sum(size_of(it) for it in self.path.glob(f"{COPIES}/*"))


def create_spool_folder(root: Path, about: About) -> SpoolFolder:
    """Raises OSError when the disk refuses."""
    return SpoolFolder.create(root / f"{about.experiment_key}-{about.spool_id}", ABOUT_NAME, asdict(about))


def open_spool_folder(path: Path) -> SpoolFolder:
    """
    Opens what another process has left.

    Raises Locked, ValueError or TypeError when it was written by a later version, OSError.
    """
    return SpoolFolder.open(path, ABOUT_NAME)


def find_spool_folders(root: Path) -> Iterator[Path]:
    """All spools in a folder, or the folder itself, oldest first."""
    return find_folders(root, ABOUT_NAME)
