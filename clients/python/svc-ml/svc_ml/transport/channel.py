"""
The way of one process from its calls to the service: a queue in memory, written to a spool by one thread, sent by another.

A call only appends to a deque, which needs no lock and no disk. The queue is bounded in bytes, and so is the spool; beyond
that calls wait, a set time at most, and then what they log is dropped and counted. After a fork the child begins anew, with an
empty queue and a spool of its own, when it first logs something.

When the disk refuses, the writer sends by itself out of memory, one batch after the other, as soon as the service has what is
on disk; the queue stays bounded, and what a process takes with it at its end is counted and told.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from svc_ml.client.spool.folder import new_spool_id
from svc_ml.client.spool.log import Record, SpoolFull, SpoolWriter
from svc_ml.fault import Faults
from svc_ml.settings import Settings
from svc_ml.spool import record
from svc_ml.spool.folder import COPIES, FILES, STREAM, About, SpoolFolder, create_spool_folder
from svc_ml.spool.record import Point
from svc_ml.transport.delivery import Delivery, Interrupted, Progress, Registration
from svc_ml.transport.sender import Sender
from svc_ml.transport.service import Rejected, Service

_POINT_BYTES = 220
"""What a point takes in the queue: the tuple, its number, its step and its time."""
_WRITE_POINTS = 20_000
_WRITE_SECONDS = 0.05
_ROOM_SECONDS = 0.01
_RETRY_SECONDS = 1.0
_WAIT_SECONDS = 2.0
_BARRED_SECONDS = 30.0
_COPIED_AT_ONCE_BYTES = 4 * 1024 * 1024
_LANES = {record.FILE: FILES, record.ARTIFACT: FILES, record.REGISTRATION: FILES}


class Channel:
    """
    Never raises from `put` or `points.append`; what goes wrong is told to `faults`.

    To log a point: append it to `points`, call `wake` when `is_idle`, and `make_room` when `points` is longer than
    `points_max`.
    """

    def __init__(
        self,
        settings: Settings,
        root: Path,
        experiment_key: str,
        *,
        registration: Registration,
        service: Service | None,
        context: str,
        faults: Faults,
        at_start: Callable[[], None],
    ) -> None:
        self.points: deque[Point | Record] = deque()
        self.points_max = max(1_000, settings.queue_bytes // _POINT_BYTES)
        self.is_idle = True
        self.is_closed = False
        self.dropped = 0
        self.progress = Progress()
        self._settings = settings
        self._root = root
        self._experiment_key = experiment_key
        self._registration = registration
        self._service = service
        self._context = context
        self._faults = faults
        self._at_start = at_start
        self._begin()

    def _begin(self) -> None:
        """Everything that a process has of its own."""
        self._folder: SpoolFolder | None = None
        self._writers: dict[str, SpoolWriter] = {}
        self._senders: dict[str, Sender] = {}
        self._unwritten: list[Record] = []
        self._is_disk_refusing = False
        self._is_memory_barred = False
        # Being sent out of memory, under the ids of `_memory_id`: nothing may write them to disk under others.
        self._in_flight: list[Record] = []
        self._memory_id = new_spool_id()
        self._memory_batches = 0
        self._heavy_bytes = 0
        self._waits = True
        self._copying: list[threading.Thread] = []
        self._lock = threading.RLock()
        # Never held over a write to disk. Reentrant, since the handler of a signal may log as well.
        self._count_lock = threading.RLock()
        # Released when there is something to write. No `Event`: to set one takes a lock of its own, on which the handler of a
        # signal would wait for ever that has interrupted another `wake`.
        self._work = threading.Lock()
        self._work.acquire()
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None

    # What calls do

    def put(self, kind: int, content: dict[str, Any], is_last: bool = False) -> None:
        """Logs what is no point: one write, or files. With `is_last` also into a full queue: the end of a run is no load."""
        self.put_record(record.encode_json(kind, content), is_last)

    def put_record(self, item: Record, is_last: bool = False) -> None:
        if self.is_closed:
            return
        with self._count_lock:
            self._heavy_bytes += len(item.payload)
        self.points.append(item)
        if self.is_idle:
            self.wake()
        if self._is_full() and not is_last:
            self.make_room()

    def make_room(self) -> None:
        """Called when the queue is full. Waits for the writer, and drops the newest entry when that takes too long."""
        until = time.monotonic() + self._settings.block_seconds
        while self._waits and self._is_full():
            if time.monotonic() > until:
                break
            time.sleep(_ROOM_SECONDS)
        if not self._is_full():
            self._waits = True
            return
        # The next calls do not wait: one wait each would stop the training.
        self._waits = False
        self._drop_newest()

    def wake(self) -> None:
        """Starts the writer, or lets it know that the queue is no longer empty."""
        self.is_idle = False
        if self._thread is None:
            self._start()
        self._tell_work()

    def _tell_work(self) -> None:
        # Without an owner; released already when it has been told.
        with contextlib.suppress(RuntimeError):
            self._work.release()

    def put_files(
        self, kind: int, content: dict[str, Any], copies: dict[str, Path | bytes], wait: bool = False
    ) -> None:
        """
        Logs files: copies them into the folder of the spool, then appends the record. What takes longer than `block_seconds` goes
        on in the background, unless told to `wait`.

        copies: sources by the name of their copy; `content` names these as its `file`, and gets their path instead.
        """
        size = sum(len(it) if isinstance(it, bytes) else it.stat().st_size for it in copies.values())
        if wait or size <= _COPIED_AT_ONCE_BYTES:
            self._copy(kind, content, copies, size)
            return
        thread = threading.Thread(target=self._copy, args=(kind, content, copies, size), name="svc-copy", daemon=True)
        thread.start()
        thread.join(self._settings.block_seconds)
        if thread.is_alive():
            self._copying.append(thread)

    def put_behind_files(self, kind: int, content: dict[str, Any]) -> None:
        """Logs what is made of files that were logged before: also of those that are still being copied."""
        self._copying = waited_for = [it for it in self._copying if it.is_alive()]
        if not waited_for:
            self.put(kind, content)
            return

        def wait() -> None:
            for it in waited_for:
                it.join()
            self.put(kind, content)

        thread = threading.Thread(target=wait, name="svc-behind-files", daemon=True)
        thread.start()
        self._copying = [*waited_for, thread]

    def _copy(self, kind: int, content: dict[str, Any], copies: dict[str, Path | bytes], size: int) -> None:
        try:
            folder = self._open_folder().path
            if self._bytes_on_disk() + size > self._settings.spool_bytes:
                self.drop(1, f"The spool {folder} is full ({self._settings.spool_bytes} bytes)")
                return
            (folder / COPIES).mkdir(exist_ok=True)
            for name, source in copies.items():
                if isinstance(source, bytes):
                    (folder / COPIES / name).write_bytes(source)
                else:
                    shutil.copyfile(source, folder / COPIES / name)
        except OSError as error:
            self._put_without_copies(kind, content, copies, size, error)
            return
        for file in content.get("files", [content]):
            if file["is_copy"]:
                file["file"] = f"{COPIES}/{file['file']}"
        self.put(kind, content)

    def _put_without_copies(
        self, kind: int, content: dict[str, Any], copies: dict[str, Path | bytes], size: int, error: OSError
    ) -> None:
        """The disk takes no copy: files are read where they are when they are sent, and bytes wait in the queue."""
        in_memory = sum(len(it) for it in copies.values() if isinstance(it, bytes))
        if in_memory > self._settings.queue_bytes // 4:
            self.drop(1, f"A file of {size:,} bytes cannot be copied ({error.strerror or error}), nor kept in memory")
            return
        self._faults.add(
            f"Files cannot be copied to {self._root} ({error.strerror or error}): they are read when they are sent, and "
            "must stay as they are until then.",
            error=error,
            once="no copies",
        )
        for file in content.get("files", [content]):
            source = copies.get(file["file"])
            if isinstance(source, bytes):
                file["bytes"] = base64.b64encode(source).decode()
            elif source is not None:
                file["file"] = str(source)
            file["is_copy"] = False
        self.put(kind, content)

    def drop(self, count: int, why: str) -> None:
        """Counts what is lost because a buffer is full. Told at the first loss; how much it was is told at the end."""
        with self._count_lock:
            is_first = self.dropped == 0
            self.dropped += count
        if is_first:
            self._faults.add(f"{why}: what is logged now is dropped. The summary at the end says how much it was.")

    @property
    def folder_path(self) -> Path | None:
        return self._folder.path if self._folder else None

    @property
    def is_barred(self) -> bool:
        return self._is_memory_barred or any(it.is_barred for it in self._senders.values())

    @property
    def has_sent_all(self) -> bool:
        """True when nothing is left in memory or on disk."""
        with self._lock:
            is_empty = not self.points and not self._unwritten and not self._in_flight
            return is_empty and all(it.has_sent_all for it in self._senders.values())

    # The end

    def write(self) -> bool:
        """Brings everything from memory to disk, from whatever thread calls. False when the disk refuses."""
        while True:
            with self._lock:
                if not self.points and not self._unwritten:
                    return True
                if not self._write_some():
                    return False

    def flush(
        self,
        seconds: float,
        stall_seconds: float | None = None,
        on_wait: Callable[[str, float], None] = lambda what, seconds: None,
    ) -> bool:
        """
        True when the service has everything. Gives up after `seconds`, or when the service has done nothing for
        `stall_seconds`, or when it refuses the key.

        on_wait: told once, when it takes longer than people wait without a word: what is left, and for how long at most.
        """
        stall = self._settings.stall_seconds if stall_seconds is None else stall_seconds
        deadline = time.monotonic() + seconds
        self._hurry.set()
        for copying in self._copying:
            copying.join(max(0, deadline - time.monotonic()))
        self.write()
        self.progress.moved()
        told_at = time.monotonic() + _WAIT_SECONDS
        try:
            while not self.has_sent_all:
                now = time.monotonic()
                if now > told_at and self._service is not None:
                    told_at = float("inf")
                    on_wait(self._describe_rest(), min(deadline - now, stall))
                if now > deadline or now - self.progress.moved_at > stall or self.is_barred or self._service is None:
                    return False
                waiting = [it for it in self._senders.values() if not it.has_sent_all]
                if waiting:
                    waiting[0].wait(min(0.1, deadline - now))
                else:
                    self.write()
                    time.sleep(0.01)
            return True
        finally:
            self._hurry.clear()

    def _describe_rest(self) -> str:
        with self._lock:
            in_memory = len(self.points) + len(self._unwritten) + len(self._in_flight)
            on_disk = sum(it.pending_bytes() for it in self._senders.values()) + (
                self._folder.copied_bytes() if self._folder else 0
            )
        return f"{on_disk / 1e6:,.1f} MB" + (f" and {in_memory:,} entries in memory" if in_memory else "")

    def close(self) -> None:
        """Stops the threads. What was sent whole is deleted; what was not stays on disk."""
        self.is_closed = True
        self._stop.set()
        self._tell_work()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5)
        self.write()
        self._count_lost()
        for sender in self._senders.values():
            sender.close()
        is_done = self._service is not None and self.has_sent_all
        for writer in self._writers.values():
            writer.close()
        if self._folder is not None:
            if is_done:
                self._folder.remove()
            else:
                self._folder.close()

    def _count_lost(self) -> None:
        """What neither the disk nor the service has taken ends with this process."""
        with self._lock:
            lost = sum(it.entries for it in [*self._in_flight, *self._unwritten])
            lost += sum(it.entries if isinstance(it, Record) else 1 for it in self.points)
        if lost:
            self.dropped += lost
            where = self._folder.path if self._folder else self._root
            self._faults.add(
                f"{lost:,} entries end with this process: {where} cannot be written, and nobody took them."
            )
        if self.dropped:
            self._faults.add(f"{self.dropped:,} entries (points, lines of output, calls) were dropped.")

    def after_fork_in_child(self) -> None:
        """The queue and the spool stay with the parent, whose threads go on."""
        for writer in self._writers.values():
            writer.close()
        for sender in self._senders.values():
            sender.forget()
        if self._folder is not None:
            # Or else the child would hold the lock of the parent, and a spool that the parent left could not be sent.
            self._folder.close()
        self.points = deque()
        self.is_idle = True
        self.dropped = 0
        self.progress = Progress()
        self._registration = Registration(self._experiment_key, self._registration.create, may_exist=True)
        self._begin()

    # The writer

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="svc-write", daemon=True)
            self._thread.start()
        self._at_start()

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self.points and not self._unwritten:
                self.is_idle = True
                # A point that was appended before this flag was set would wait for the next one.
                if not self.points:
                    self._work.acquire()
                self.is_idle = False
            self._work.acquire(blocking=False)
            if len(self.points) < _WRITE_POINTS:
                self._stop.wait(_WRITE_SECONDS)
            if not self._write_some() and not self._send_from_memory():
                self._stop.wait(_RETRY_SECONDS)

    def _write_some(self) -> bool:
        with self._lock:
            if self._in_flight:
                return False
            try:
                return self._append(self._unwritten or self._take())
            except OSError as error:
                where = self._folder.path if self._folder else self._root
                then = (
                    "what is logged is sent out of memory, and what the service has not taken at the end is lost."
                    if self._service is not None
                    else "what is logged waits in memory, and is lost at the end."
                )
                # It is asked again many times a second while somebody waits for the end.
                if not self._is_disk_refusing:
                    self._is_disk_refusing = True
                    self._faults.add(f"{where} cannot be written ({error.strerror or error}): {then}", error=error)
                return False
            except Exception as error:
                self._faults.add(f"Writing the spool failed: {error!r}", error=error, once="writing failed")
                return False

    def _send_from_memory(self) -> bool:
        """Sends what the disk has refused. False when there is nothing, or when it has to wait for what is on disk."""
        with self._lock:
            may = self._is_disk_refusing and all(it.has_sent_all for it in self._senders.values())
            if self._service is None or not may or not self._unwritten:
                return False
            self._in_flight, self._unwritten = self._unwritten, []
            self._memory_batches += 1
            batch = f"{self._memory_id}-{self._memory_batches}"
        # Without the lock: it may take as long as the service is away.
        folder = self._folder.path if self._folder else self._root
        try:
            self._create_delivery(self._service, folder, kept="in memory").deliver(self._in_flight, batch)
        except Interrupted:
            return False
        except Rejected as error:
            self._is_memory_barred = True
            self._faults.add(f"{error} Nothing is sent until that is mended.", once="barred")
            self._stop.wait(_BARRED_SECONDS)
            with self._lock:
                self._unwritten, self._in_flight = self._in_flight, []
            return False
        self._is_memory_barred = False
        for it in self._in_flight:
            if it.kind in _LANES:
                record.delete_copies(folder, it)
        with self._lock:
            self._in_flight = []
        return True

    def _take(self) -> list[Record]:
        """The next entries of the queue as records; points that stand together become one."""
        queue = self.points
        records: list[Record] = []
        run: list[Point] = []
        for _ in range(min(len(queue), _WRITE_POINTS)):
            try:
                item = queue.popleft()
            except IndexError:
                # A call that found the queue full has taken its entry back.
                break
            if isinstance(item, Record):
                if run:
                    records.append(record.encode_points(run))
                    run = []
                records.append(item)
                with self._count_lock:
                    self._heavy_bytes -= len(item.payload)
            else:
                run.append(item)
        if run:
            records.append(record.encode_points(run))
        return records

    def _append(self, records: list[Record]) -> bool:
        # Kept until they are on disk, whatever happens in between.
        self._unwritten = records
        self._open_folder()
        for lane in (STREAM, FILES):
            mine = [it for it in self._unwritten if _LANES.get(it.kind, STREAM) == lane]
            if not mine:
                continue
            writer = self._open_writer(lane)
            sender = self._senders.get(lane)
            try:
                writer.append(mine, is_all_sent=sender is not None and sender.has_sent_all)
            except SpoolFull:
                self._append_what_fits(writer, mine)
            self._unwritten = [it for it in self._unwritten if _LANES.get(it.kind, STREAM) != lane]
            if sender is not None:
                sender.tell_written(writer.end)
        self._unwritten = []
        self._is_disk_refusing = False
        return True

    def _append_what_fits(self, writer: SpoolWriter, records: list[Record]) -> None:
        for it in records:
            try:
                writer.append([it])
            except SpoolFull:
                self.drop(it.entries, f"The spool {writer.folder} is full ({writer.bytes_max} bytes)")

    def _open_folder(self) -> SpoolFolder:
        with self._lock:
            if self._folder is None:
                about = About(
                    spool_id=new_spool_id(),
                    experiment_key=self._experiment_key,
                    url=self._settings.url,
                    create=self._registration.create,
                    context=self._context,
                    is_offline=self._service is None,
                )
                self._folder = create_spool_folder(self._root, about)
            return self._folder

    def _open_writer(self, lane: str) -> SpoolWriter:
        folder = self._open_folder()
        if lane not in self._writers:
            if self._service is not None and lane not in self._senders:
                # First, or else a disk that fills up in between would leave a writer whose records nobody sends.
                (folder.path / lane).mkdir(exist_ok=True)
                spool_id = folder.about.spool_id
                delivery = self._create_delivery(self._service, folder.path)
                name = f"{spool_id}-{lane}"
                self._senders[lane] = Sender(folder.path / lane, delivery, name, self._faults, self.progress)
            self._writers[lane] = SpoolWriter(folder.path / lane, self._settings.spool_bytes)
        return self._writers[lane]

    def _create_delivery(self, service: Service, folder: Path, kept: str | None = None) -> Delivery:
        return Delivery(
            service,
            self._registration,
            folder=folder,
            context=self._context,
            faults=self._faults,
            progress=self.progress,
            stop=self._stop,
            hurry=self._hurry,
            kept=kept,
        )

    def _bytes_on_disk(self) -> int:
        copies = self._folder.copied_bytes() if self._folder else 0
        return copies + sum(it.size() for it in self._writers.values())

    def _is_full(self) -> bool:
        return len(self.points) * _POINT_BYTES + self._heavy_bytes > self._settings.queue_bytes

    def _drop_newest(self) -> None:
        try:
            item = self.points.pop()
        except IndexError:
            return
        if isinstance(item, Record):
            with self._count_lock:
                self._heavy_bytes -= len(item.payload)
        self.drop(1, f"The queue is full ({self._settings.queue_bytes} bytes), and the disk does not keep up")
