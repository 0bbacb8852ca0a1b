"""
A queue that outlives its process. A thread moves what was logged from memory to the spool at once, and batches are read
from there; what was acknowledged is deleted.

When the disk refuses, or the spool is full, what was logged stays in memory, and is sent from there once the service
has what is on disk. The disk is tried again every second.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from .client.setting import MIB
from .client.spool.folder import LockedFolder
from .client.spool.log import SpoolFull, SpoolWriter
from .errors import ErrorLog
from .event import Item
from .queue import EventQueue
from .settings import Settings
from .spool import SpoolBatches, create_folder, log_path, to_record

_WRITE_SECONDS = 0.05
"""What a process takes with it when it is killed."""
_RETRY_SECONDS = 1.0


class SpooledQueue:
    """Batches are due as those of an EventQueue. One thread takes them."""

    def __init__(
        self, settings: Settings, root: Path, batch_bytes: int, errors: ErrorLog, wake: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._root = root
        self._batch_bytes = batch_bytes
        self._errors = errors
        self._wake = wake
        self._memory = EventQueue(
            settings.queue_bytes, settings.batch_size, batch_bytes, settings.batch_seconds, self._on_put
        )
        self.put = self._memory.put
        self.room = f"Up to {settings.spool_bytes / MIB:.4g} MiB of events wait in {root}"
        self.stays_after_end = True
        self.may_be_stored = False
        self._lock = threading.RLock()
        self._starting = threading.Lock()
        self._work = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._folder: LockedFolder | None = None
        self._batches: SpoolBatches | None = None
        self._writer: SpoolWriter | None = None
        self._unwritten: list[Item] = []
        self._is_disk_refusing = False
        self._is_away = False
        self._is_from_memory = False
        """True when the batch in hand never was on disk."""
        self._oldest_at = 0.0
        self._is_finished = False

    @property
    def is_closed(self) -> bool:
        return self._closing.is_set()

    @property
    def is_stalled(self) -> bool:
        return self._memory.is_stalled

    @property
    def folder_path(self) -> Path:
        return self._root if self._folder is None else self._folder.path

    def seconds_until_due(self) -> float | None:
        with self._lock:
            if self.is_closed:
                self._write()
            count = self.count_on_disk()
            if count:
                if self.is_closed or count >= self._settings.batch_size:
                    return 0.0
                return max(0.0, self._oldest_at + self._settings.batch_seconds - time.monotonic())
            if not self._is_disk_refusing:
                # What is in memory is about to be written.
                return None
            return 0.0 if self._unwritten else self._memory.seconds_until_due()

    def take(self) -> list[Item]:
        with self._lock:
            if self.is_closed:
                self._write()
            if self._batches is not None and self._writer is not None and self.count_on_disk():
                self._is_from_memory = False
                batch = self._batches.take(self._writer.end)
                if not batch:
                    lost = self._batches.skip(self._writer.end)
                    self._errors.add(f"{self.folder_path}: events cannot be read back, and are lost", count=lost)
                return batch
            if not self._is_disk_refusing:
                return []
            self._is_from_memory = True
            batch, self._unwritten = self._unwritten or self._memory.take(), []
            return batch

    def settle(self, batch: list[Item]) -> None:
        with self._lock:
            if self._is_from_memory:
                self._memory.settle(batch)
            elif self._batches is not None:
                self._batches.settle(len(batch))

    def stall(self, is_stalled: bool) -> None:
        self._is_away = is_stalled
        self._update_stall()

    def close(self) -> None:
        self._closing.set()
        self._memory.close()
        # The writer does so only when it has begun.
        self._wake()

    def finish(self) -> None:
        """Deletes the folder when all of it was sent, and leaves it to others when not."""
        with self._lock:
            if self._is_finished:
                return
            self._write()
            self._is_finished = True
            self._close_files()
            if self._folder is None:
                return
            if self.count_on_disk():
                self._folder.close()
            else:
                self._folder.remove()

    def after_fork_in_child(self) -> None:
        """Without the lock, which a thread of the parent may have held."""
        if self._is_finished:
            return
        self._close_files()
        if self._folder is not None:
            # Or else the child would hold the lock of the parent, and nobody could send what the parent left.
            self._folder.close()

    def count_on_disk(self) -> int:
        """Events that are kept, and were not settled."""
        if self._writer is None or self._batches is None:
            return 0
        return self._writer.end.records - self._batches.acknowledged

    def __len__(self) -> int:
        return self.count_on_disk() + len(self._memory)

    # The writer

    def _on_put(self) -> None:
        if self._thread is None:
            self._start()
        self._work.set()
        if self._is_disk_refusing:
            self._wake()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="svc-mpm-writer", daemon=True)
                # An interpreter that is shutting down starts no threads: then it is written when it is taken.
                with contextlib.suppress(RuntimeError):
                    thread.start()
                    self._thread = thread

    def _run(self) -> None:
        while not self.is_closed:
            self._work.wait()
            self._work.clear()
            self._closing.wait(_WRITE_SECONDS)
            while not self._write() and not self.is_closed:
                self._closing.wait(_RETRY_SECONDS)

    def _write(self) -> bool:
        """Brings everything from memory to disk. False when the disk refuses."""
        with self._lock:
            if self._is_finished:
                return True
            try:
                while True:
                    self._unwritten = self._unwritten or self._memory.take()
                    if not self._unwritten:
                        return True
                    self._append(self._unwritten)
                    self._memory.settle(self._unwritten)
                    self._unwritten = []
                    self._set_refusing(False)
            except SpoolFull:
                self._refuse(f"{self.folder_path} is full ({self._settings.spool_bytes:,} bytes, SVC_MPM_SPOOL_BYTES)")
            except OSError as error:
                self._refuse(f"{self.folder_path} cannot be written ({error.strerror or error})", error)
            finally:
                self._wake()
            return False

    def _append(self, items: list[Item]) -> None:
        if self._folder is None:
            self._folder = create_folder(self._root, self._settings)
        if self._batches is None:
            self._batches = SpoolBatches(log_path(self._folder), self._settings.batch_size, self._batch_bytes)
        if self._writer is None:
            self._writer = SpoolWriter(log_path(self._folder), self._settings.spool_bytes)
        was_empty = self.count_on_disk() == 0
        self._writer.append([to_record(it) for it in items], is_all_sent=was_empty)
        if was_empty:
            self._oldest_at = time.monotonic()

    def _refuse(self, why: str, error: Exception | None = None) -> None:
        if not self._is_disk_refusing:
            room = f"up to {self._settings.queue_bytes / MIB:.4g} MiB of events wait in memory"
            self._errors.add(f"{why}: {room}, and end with this process", error=error)
        self._set_refusing(True)

    def _set_refusing(self, is_refusing: bool) -> None:
        self._is_disk_refusing = is_refusing
        self._update_stall()

    def _update_stall(self) -> None:
        """Memory is given room by the disk also while the service is away."""
        self._memory.stall(self._is_away and self._is_disk_refusing)

    def _close_files(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._batches is not None:
            self._batches.close()
