"""What was logged and not yet sent: bounded in bytes, handed out in batches."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from .client.setting import MIB
from .event import Item


class Source(Protocol):
    """What a sender takes batches from."""

    @property
    def is_closed(self) -> bool:
        """True when nothing more comes: what is there is due at once."""

    @property
    def room(self) -> str:
        """Where events wait while the service is away, and how many can, for messages."""

    @property
    def stays_after_end(self) -> bool:
        """True when what is not sent is kept for a later process."""

    @property
    def may_be_stored(self) -> bool:
        """True when the next batch may have been stored, though nobody said so."""

    def seconds_until_due(self) -> float | None:
        """0 when a batch is due; None when there is nothing."""

    def take(self) -> list[Item]:
        """The items of the next batch; none when there is none."""

    def settle(self, batch: list[Item]) -> None:
        """Lets go of items that were stored, or given up."""

    def stall(self, is_stalled: bool) -> None:
        """Says whether anything gets through."""

    def close(self) -> None:
        """Nothing more is taken in; what is there is due at once."""

    def finish(self) -> None:
        """The sender takes nothing any more."""

    def __len__(self) -> int:
        """Items that are not settled."""


class Queue(Source, Protocol):
    """What events are logged into."""

    @property
    def is_stalled(self) -> bool:
        """True while nothing gets through: then nobody waits for room."""

    def put(self, item: Item, wait_seconds: float = 0) -> bool:
        """Adds an item; False when there is no room for it, also after waiting for that long."""

    def count_on_disk(self) -> int:
        """Of the items that are not settled, those that are kept."""

    def after_fork_in_child(self) -> None:
        """Lets go of what belongs to the parent."""


class EventQueue:
    """
    Items in the order in which they were logged. A batch is due when there are `batch_size` items or `batch_bytes`
    bytes, or when the oldest has waited for `batch_seconds`.

    What was taken counts until it is settled: a batch that is sent again and again keeps its place.
    """

    def __init__(
        self, bytes_max: int, batch_size: int, batch_bytes: int, batch_seconds: float, wake: Callable[[], None]
    ) -> None:
        self._bytes_max = bytes_max
        self.room = f"Up to {bytes_max / MIB:.4g} MiB of events wait in memory"
        self.stays_after_end = False
        self.may_be_stored = False
        self._batch_size = batch_size
        self._batch_bytes = batch_bytes
        self._batch_seconds = batch_seconds
        self._wake = wake
        self._room = threading.Condition()
        self._items: deque[tuple[float, Item]] = deque()
        self._waiting_bytes = 0
        self._taken_bytes = 0
        self._taken_count = 0
        self.is_stalled = False
        """True while nothing gets through: then nobody waits for room."""
        self.is_closed = False

    def put(self, item: Item, wait_seconds: float = 0) -> bool:
        """Adds an item; False when there is no room for it, also after waiting for that long."""
        size = item.size
        with self._room:
            if not self._has_room(size):
                if wait_seconds <= 0 or self.is_stalled or size > self._bytes_max:
                    return False
                if not self._room.wait_for(lambda: self._has_room(size) or self.is_stalled, wait_seconds):
                    return False
                if not self._has_room(size):
                    return False
            if self.is_closed:
                return False
            self._items.append((time.monotonic(), item))
            self._waiting_bytes += size
            count = len(self._items)
            is_first_or_full = count == 1 or count == self._batch_size or self._waiting_bytes >= self._batch_bytes
        if is_first_or_full:
            self._wake()
        return True

    def _has_room(self, size: int) -> bool:
        return self._waiting_bytes + self._taken_bytes + size <= self._bytes_max or self.is_closed

    def seconds_until_due(self) -> float | None:
        """0 when a batch is due; None when there is nothing."""
        with self._room:
            if not self._items:
                return None
            is_full = len(self._items) >= self._batch_size or self._waiting_bytes >= self._batch_bytes
            if is_full or self.is_closed:
                return 0.0
            return max(0.0, self._items[0][0] + self._batch_seconds - time.monotonic())

    def take(self) -> list[Item]:
        """The items of the next batch; of at least one, however large it is."""
        batch: list[Item] = []
        taken = 0
        with self._room:
            while self._items and len(batch) < self._batch_size:
                size = self._items[0][1].size
                if batch and taken + size > self._batch_bytes:
                    break
                batch.append(self._items.popleft()[1])
                taken += size
            self._waiting_bytes -= taken
            self._taken_bytes += taken
            self._taken_count += len(batch)
        return batch

    def settle(self, batch: list[Item]) -> None:
        """Gives the room of items back that were stored, or given up."""
        with self._room:
            self._taken_bytes -= sum(it.size for it in batch)
            self._taken_count -= len(batch)
            self._room.notify_all()

    def stall(self, is_stalled: bool) -> None:
        with self._room:
            self.is_stalled = is_stalled
            self._room.notify_all()

    def close(self) -> None:
        """Nothing more is taken in; what is there is due at once."""
        with self._room:
            self.is_closed = True
            self._room.notify_all()
        self._wake()

    def finish(self) -> None:
        """The sender takes nothing any more: what is left ends with the process."""

    def count_on_disk(self) -> int:
        return 0

    def after_fork_in_child(self) -> None:
        """Memory is all that it has, and that is the child's own."""

    def __len__(self) -> int:
        """Items that are not settled."""
        return len(self._items) + self._taken_count
