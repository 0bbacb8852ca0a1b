"""
Events on disk. A process has a folder of its own in the spool directory: what has to be known to send its events
(`events.json`), a lock that it holds as long as it lives, and the log with the events. What a process leaves there is
sent by the next one that opens the directory.
"""

from __future__ import annotations

from json.decoder import JSONDecoder
from pathlib import Path
from typing import Any

from .client.spool.folder import LockedFolder, new_spool_id
from .client.spool.log import Position, Record, SpoolReader
from .event import Item
from .settings import Settings

ABOUT_NAME = "events.json"
_LOG = "log"
_EVENT = 1
_ID_AT = len('"predictionId":')
_decode = JSONDecoder().raw_decode


def create_folder(root: Path, settings: Settings) -> LockedFolder:
    """Raises OSError when the disk refuses."""
    content: dict[str, Any] = {
        "url": settings.url,
        "workspace_name": settings.workspace_name,
        "model_name": settings.model_name,
        "model_version": settings.model_version,
    }
    return LockedFolder.create(root / new_spool_id(), ABOUT_NAME, content)


def log_path(folder: LockedFolder) -> Path:
    return folder.path / _LOG


def to_record(item: Item) -> Record:
    return Record(_EVENT, 1, item.json)


def to_item(record: Record) -> Item:
    return Item(_decode(record.payload.decode(), _ID_AT)[0], record.payload)


class SpoolBatches:
    """Hands the events of a log out in batches, and acknowledges each batch once all of it is settled. Raises OSError."""

    def __init__(self, folder: Path, batch_size: int, batch_bytes: int) -> None:
        folder.mkdir(exist_ok=True)
        self.reader = SpoolReader(folder)
        self._batch_size = batch_size
        self._batch_bytes = batch_bytes
        self._end = self.reader.acknowledged
        self.unsettled = 0
        """Events of the batch in hand."""
        self.may_be_stored = self.reader.sending.records > self.reader.acknowledged.records
        """True when another process was sending the next batch, and nobody knows what became of it."""

    @property
    def acknowledged(self) -> int:
        """How many events are done with."""
        return self.reader.acknowledged.records

    def take(self, until: Position | None) -> list[Item]:
        """The next batch; empty when nothing more can be read. With `until` no event beyond is looked at."""
        records, self._end = self.reader.read(until, self._batch_size, self._batch_bytes)
        self.unsettled = len(records)
        return [to_item(it) for it in records]

    def settle(self, count: int) -> None:
        self.unsettled -= count
        if self.unsettled == 0:
            self.reader.acknowledge(self._end)
            self.may_be_stored = False

    def skip(self, until: Position) -> int:
        """Gives up what cannot be read, and answers how many events that were."""
        count = until.records - self.acknowledged
        self.reader.acknowledge(until)
        return count

    def close(self) -> None:
        self.reader.close()
