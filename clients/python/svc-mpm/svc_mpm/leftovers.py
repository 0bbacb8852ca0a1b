"""What earlier processes have left in the spool directory: each of its folders is sent as if its process went on."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from pathlib import Path

from .client.spool.folder import Locked, LockedFolder, find_folders
from .delivery import Delivery
from .errors import ErrorLog
from .event import Item
from .sender import Sender
from .settings import Settings
from .spool import ABOUT_NAME, SpoolBatches, log_path
from .transport import Transport


class _Left:
    """The events of one folder, which nobody adds to."""

    def __init__(self, folder: LockedFolder, settings: Settings, batch_bytes: int, errors: ErrorLog) -> None:
        self._folder = folder
        self._errors = errors
        self._batches = SpoolBatches(log_path(folder), settings.batch_size, batch_bytes)
        self.is_closed = True
        self.room = f"Events of an earlier process wait in {folder.path}"
        self.stays_after_end = True
        self._next: list[Item] = []
        self._is_empty = False

    @property
    def may_be_stored(self) -> bool:
        return self._batches.may_be_stored

    def seconds_until_due(self) -> float | None:
        if not self._next:
            self._next = self._batches.take(None)
            self._is_empty = not self._next
        return 0.0 if self._next else None

    def take(self) -> list[Item]:
        batch, self._next = self._next, []
        return batch

    def settle(self, batch: list[Item]) -> None:
        self._batches.settle(len(batch))

    def stall(self, is_stalled: bool) -> None:
        """Nobody waits for room."""

    def close(self) -> None:
        """It is closed from the start."""

    def finish(self) -> None:
        self._batches.close()
        if not self._is_empty:
            self._folder.close()
            return
        torn = self._batches.reader.damaged_bytes
        if torn:
            self._errors.add(f"{self._folder.path}: {torn} bytes are damaged or were torn off, and were skipped")
        self._folder.remove()

    def __len__(self) -> int:
        return self._batches.unsettled

    def forget(self) -> None:
        """In the child of a fork: the lock is the parent's."""
        self._batches.close()
        self._folder.close()


class Leftovers:
    """Sends folder after folder, in a thread of its own. Those that a process still works on are left alone."""

    def __init__(self, settings: Settings, root: Path, batch_bytes: int, errors: ErrorLog) -> None:
        self._settings = settings
        self._root = root
        self._batch_bytes = batch_bytes
        self._errors = errors
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._left: _Left | None = None
        self._sender: Sender | None = None
        self._is_hurried = False
        self._is_stopped = False

    def start(self) -> None:
        # An interpreter that is shutting down starts no threads.
        with contextlib.suppress(RuntimeError):
            thread = threading.Thread(target=self._run, name="svc-mpm-leftovers", daemon=True)
            thread.start()
            self._thread = thread

    def end(self, seconds: float) -> None:
        """Waits until everything was sent, for so many seconds at most. What is left then stays where it is."""
        if self._thread is None:
            return
        with self._lock:
            self._is_hurried = True
            if self._sender is not None:
                self._sender.hurry()
        self._thread.join(seconds)
        with self._lock:
            self._is_stopped = True
            if self._sender is not None:
                self._sender.stop()

    def after_fork_in_child(self) -> None:
        if self._left is not None:
            self._left.forget()

    def _run(self) -> None:
        try:
            for path in find_folders(self._root, ABOUT_NAME):
                if self._is_stopped:
                    return
                self._try(path)
        except Exception as error:  # A fault of ours must not end the thread in silence.
            self._errors.add(f"what earlier processes left in {self._root} cannot be sent: {error!r}", error=error)

    def _try(self, path: Path) -> None:
        try:
            folder = LockedFolder.open(path, ABOUT_NAME)
        except Locked:
            return
        except (ValueError, OSError) as error:
            self._errors.add(f"what an earlier process left in {path} cannot be sent: {error}", error=error)
            return
        if folder.content["url"] == self._settings.url:
            self._send(folder)
        else:
            folder.close()

    def _send(self, folder: LockedFolder) -> None:
        names = {it: folder.content[it] for it in ("workspace_name", "model_name", "model_version")}
        settings = replace(self._settings, **names)
        left = _Left(folder, settings, self._batch_bytes, self._errors)
        transport = Transport(settings.url, settings.api_key or "", settings.request_seconds)
        delivery = Delivery(settings, transport, left, self._errors)
        with self._lock:
            self._left = left
            self._sender = sender = Sender(left, delivery, self._errors, threading.Event())
            if self._is_hurried:
                sender.hurry()
            if self._is_stopped:
                sender.stop()
        sender.run()
        with self._lock:
            self._left = self._sender = None
        left.finish()
