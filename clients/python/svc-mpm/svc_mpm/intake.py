"""What becomes of an event that was logged: into the queue, or dropped and told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from .awaitable import DONE, Waiting
from .errors import ErrorLog
from .event import Item
from .queue import Queue
from .sender import Sender
from .settings import Settings

_ROOM_POLL_SECONDS = 0.005


class Intake:
    """
    Puts events into the queue. Where it is full a call waits while the service takes events in, as long as the settings
    say; while the service is away it waits for nothing.
    """

    def __init__(
        self, settings: Settings, queue: Queue, sender: Sender, errors: ErrorLog, on_first: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._queue = queue
        self._sender = sender
        self._errors = errors
        self._on_first = on_first
        self._was_used = False
        self._told_unconnected = False
        self.is_connected = True
        """False in asyncio mode until the logger was connected: until then nothing is sent."""
        self.is_closed = False

    def put(self, item: Item) -> None:
        """Adds an event, or drops it and tells why."""
        why = self.try_put(item, self._settings.block_seconds, waits_while_away=False)
        if why is not None:
            self._drop(item, why)

    def put_or_wait(self, item: Item) -> Awaitable[None]:
        """The same. What it answers is done already, or waits for room when it is awaited."""
        obstacle = self._find_obstacle()
        if obstacle is None and self._queue.put(item):
            return DONE
        if obstacle is not None or self._queue.is_stalled:
            self._drop(item, obstacle or self._describe_full())
            return DONE
        return Waiting(self._put_later(item), lambda: self._drop(item, self._describe_full()))

    def try_put(self, item: Item, seconds: float, waits_while_away: bool) -> str | None:
        """Adds an event, for which it waits for room so long at most; else answers why it could not."""
        obstacle = self._find_obstacle()
        if obstacle is not None:
            return obstacle
        if self._queue.put(item):
            return None
        deadline = time.monotonic() + seconds
        while not self._queue.put(item, max(0.0, deadline - time.monotonic())):
            is_hopeless = self.is_closed or item.size > self._settings.queue_bytes
            if is_hopeless or time.monotonic() >= deadline or (self._queue.is_stalled and not waits_while_away):
                return self._describe_full()
            time.sleep(_ROOM_POLL_SECONDS)
        return None

    async def _put_later(self, item: Item) -> None:
        deadline = time.monotonic() + self._settings.block_seconds
        while not self._queue.put(item):
            if self._queue.is_stalled or self.is_closed or time.monotonic() >= deadline:
                self._drop(item, self._describe_full())
                return
            await asyncio.sleep(_ROOM_POLL_SECONDS)

    def _find_obstacle(self) -> str | None:
        """Why nothing can be logged now. Starts the sending where that has not been done."""
        if self.is_closed:
            return "the logger has ended: nothing can be logged after end"
        if self._settings.model_name is None:
            return "model_name: is missing: pass it to SvcMPM, or set SVC_MPM_MODEL_NAME"
        if not self.is_connected:
            if not self._told_unconnected:
                self._errors.add("connect was not awaited: events wait in memory until it is")
            self._told_unconnected = True
        elif not self._sender.is_started:
            self._sender.start()
        if not self._was_used:
            self._was_used = True
            self._on_first()
        return None

    def _describe_full(self) -> str:
        state = "while the service is away" if self._queue.is_stalled else "faster than the service takes events in"
        return f"the queue is full ({self._settings.queue_bytes:,} bytes, SVC_MPM_QUEUE_BYTES), {state}"

    def _drop(self, item: Item, why: str) -> None:
        self._errors.add(f"an event was dropped: {why}", [item.prediction_id])
