"""What went wrong in the background: told once in the log, and kept to be read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from .client.fault import SvcError, format_trace, logger, now_iso, to_fault

ENTRIES_MAX = 1_000
"""Of what nobody reads, the oldest goes first."""
AFFECTED_MAX = 100


class InitializationError(SvcError):
    """A `SvcMPM` cannot work as it was asked for. The message says why and what to do."""


class _Entry:
    """One fault, however often it came."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.count = 0
        self.timestamp = ""
        self.affected: list[str] = []
        self.traceback: str | None = None


class ErrorLog:
    """
    Keeps what went wrong until it is read. A fault that comes again before it was read is counted instead of written
    down twice, and stands in the log the 1st, 10th, 100th, ... time: a million bad events are a few lines.
    """

    def __init__(self) -> None:
        # A signal's handler may log an event in the middle of this.
        self._lock = threading.RLock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def add(
        self, message: str, affected: Sequence[str] = (), count: int = 1, error: BaseException | None = None
    ) -> None:
        """Notes a fault that happened `count` times; `affected` are prediction ids, or lines of a file."""
        with self._lock:
            entry = self._entries.pop(message, None) or _Entry(message)
            self._entries[message] = entry
            if len(self._entries) > ENTRIES_MAX:
                self._entries.popitem(last=False)
            before = entry.count
            entry.count += count
            entry.timestamp = now_iso()
            entry.affected.extend(affected[: AFFECTED_MAX - len(entry.affected)])
            if error is not None:
                entry.traceback = format_trace(error)
            total = entry.count
        if len(str(total)) > len(str(before)) or before == 0:
            logger.error("%s%s", _with_count(message, total), _naming(affected))

    def read(self, clear: bool) -> list[dict[str, Any]]:
        with self._lock:
            entries = [
                to_fault(_with_count(it.message, it.count), it.timestamp, list(it.affected), it.traceback)
                for it in self._entries.values()
            ]
            if clear:
                self._entries.clear()
        return entries

    def __bool__(self) -> bool:
        return len(self._entries) > 0


def _with_count(message: str, count: int) -> str:
    return message if count == 1 else f"{message} ({count:,} times)"


def _naming(affected: Sequence[str]) -> str:
    if not affected:
        return ""
    shown = ", ".join(repr(it) for it in affected[:3])
    return f" [{shown}{', ...' if len(affected) > 3 else ''}]"
