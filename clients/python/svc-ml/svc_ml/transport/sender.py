"""The thread that sends one spool, batch after batch, in the order in which it was written."""

from __future__ import annotations

import threading
from pathlib import Path

from svc_ml.client.spool.log import START, Position, SpoolReader
from svc_ml.fault import Faults
from svc_ml.spool import record
from svc_ml.transport.delivery import Delivery, Interrupted, Progress
from svc_ml.transport.service import Rejected

BATCH_ENTRIES = 20_000
BATCH_BYTES = 2 * 1024 * 1024
_GATHER_SECONDS = 0.2
_BARRED_SECONDS = 30.0


def send_next(reader: SpoolReader, delivery: Delivery, batch_name: str, until: Position | None) -> bool:
    """
    Sends one batch and notes that it was sent. False when there was none. `batch_name` is unique to the spool.

    Raises Rejected when nothing would pass, Interrupted.
    """
    first = reader.acknowledged.records
    records, end = reader.read(until, BATCH_ENTRIES, BATCH_BYTES)
    if not records:
        return False
    delivery.deliver(records, f"{batch_name}-{first}-{end.records}")
    reader.acknowledge(end)
    # Only now: until then a crash would have to upload them again.
    for it in records:
        if it.kind in (record.FILE, record.ARTIFACT):
            record.delete_copies(delivery.folder, it)
    return True


class Sender:
    """Follows a writer in this process."""

    def __init__(self, folder: Path, delivery: Delivery, batch_name: str, faults: Faults, progress: Progress) -> None:
        self._reader = SpoolReader(folder)
        self._delivery = delivery
        self._batch_name = batch_name
        self._faults = faults
        self._progress = progress
        self._written = START
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self.is_barred = False

    @property
    def has_sent_all(self) -> bool:
        return self._reader.acknowledged.records >= self._written.records

    def pending_bytes(self) -> int:
        """What is on disk and was not acknowledged."""
        return self._reader.pending_bytes()

    def tell_written(self, end: Position) -> None:
        """Lets it know how far the writer is. Starts the thread at the first call."""
        with self._changed:
            self._written = end
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"svc-send-{self._batch_name}", daemon=True)
            self._thread.start()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Until something changes, or the time has passed."""
        with self._changed:
            if not self.has_sent_all:
                self._changed.wait(seconds)

    def close(self) -> None:
        """The delivery was told to stop before."""
        self.wake()
        if self._thread is not None:
            self._thread.join(5)
            if self._thread.is_alive():
                # It is in a request: the file stays open for it, and the lock is what keeps others off.
                return
        self._reader.close()

    def forget(self) -> None:
        """In the child of a fork: lets go of what belongs to the parent."""
        self._reader.close()

    def _run(self) -> None:
        stop, hurry = self._delivery.stop, self._delivery.hurry
        while not stop.is_set():
            with self._changed:
                while self.has_sent_all and not stop.is_set():
                    self._changed.wait()
            if stop.is_set():
                return
            if not hurry.is_set():
                # One request for all that comes within this time, not one for each write.
                stop.wait(_GATHER_SECONDS)
            try:
                send_next(self._reader, self._delivery, self._batch_name, self._written)
                self.is_barred = False
            except Interrupted:
                return
            except Rejected as error:
                self.is_barred = True
                self._faults.add(
                    f"{error} Nothing is sent until that is mended. What is logged is kept: "
                    f"svc-ml sync {self._delivery.folder}",
                    once="barred",
                )
                self.wake()
                stop.wait(_BARRED_SECONDS)
            except Exception as error:
                # A mistake of ours must not end the thread in silence.
                self._faults.add(f"Sending failed: {error!r}", error=error, once="sending failed")
                stop.wait(1)
            self.wake()
