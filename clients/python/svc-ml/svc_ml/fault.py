"""What went wrong in the background: one line in the log, and a record for `get_logging_errors`."""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from typing import Any

from svc_ml.client.fault import SvcError, format_trace, logger, now_iso, to_fault

__all__ = ["Faults", "SvcError", "logger", "show_log"]
_KEPT_MAX = 1_000


class Faults:
    """Collects faults from any thread. A fault that is told `once` is logged the first time only, and kept each time."""

    def __init__(self) -> None:
        self._kept: deque[dict[str, Any]] = deque(maxlen=_KEPT_MAX)
        self._told: set[str] = set()
        self._lock = threading.RLock()

    def after_fork_in_child(self) -> None:
        # Another thread of the parent may have held it.
        self._lock = threading.RLock()

    def add(
        self, message: str, *, data_affected: str | None = None, error: BaseException | None = None, once: str = ""
    ) -> None:
        fault = to_fault(message, now_iso(), data_affected, None if error is None else format_trace(error))
        with self._lock:
            self._kept.append(fault)
            is_new = not once or once not in self._told
            self._told.add(once)
        if is_new:
            logger.warning(message)

    def forget(self, once: str) -> None:
        """The condition has passed: when it comes back it is told again."""
        with self._lock:
            self._told.discard(once)

    def read(self, clear: bool) -> list[dict[str, Any]]:
        with self._lock:
            faults = list(self._kept)
            if clear:
                self._kept.clear()
        return faults

    def __len__(self) -> int:
        return len(self._kept)


def show_log() -> None:
    """Lets our lines be seen on standard error in programs that have not set up logging."""
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    if not logger.hasHandlers():
        handler = logging.StreamHandler(sys.__stderr__)
        handler.setFormatter(logging.Formatter("svc: %(message)s"))
        logger.addHandler(handler)
        # Or else a handler that the program adds to the root later would print each line a second time.
        logger.propagate = False
