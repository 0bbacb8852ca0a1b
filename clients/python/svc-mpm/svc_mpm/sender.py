"""
The thread that sends. In both modes it is a thread and no task of the caller's loop: then events go out while the loop
is busy with a prediction, and a service that hangs holds up no loop. It is a daemon, so that it never keeps a program
alive; what is left at exit is sent by `end`, which the program's exit calls.
"""

from __future__ import annotations

import contextlib
import threading
import time

from .client.service import Rejected, Unavailable
from .delivery import Delivery
from .errors import ErrorLog
from .queue import Source

_HURRY_SECONDS = 1.0
"""The longest pause once the logger is ending: a service that comes back meanwhile must not be missed."""

_FAULT_SECONDS = 1.0


class Sender:
    """Takes batches when they are due and delivers them, until it is ended."""

    def __init__(self, queue: Source, delivery: Delivery, errors: ErrorLog, wake: threading.Event) -> None:
        self._queue = queue
        self._delivery = delivery
        self._errors = errors
        self._wake = wake
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    @property
    def is_started(self) -> bool:
        return self._thread is not None

    def start(self, checks: bool = False) -> None:
        """Starts the thread, once. It first asks the service whether the key is right, if it `checks`."""
        with self._starting:
            if self._thread is None and not self._stop.is_set():
                thread = threading.Thread(target=self._run, args=(checks,), name="svc-mpm-sender", daemon=True)
                thread.start()
                self._thread = thread

    def end(self, seconds: float) -> int:
        """Sends what there is for so many seconds at most. Answers how many items are left."""
        deadline = time.monotonic() + seconds
        self._queue.close()
        self.hurry()
        # An interpreter that is shutting down starts no threads: then this one does the work.
        with contextlib.suppress(RuntimeError):
            self.start()
        if self._thread is None:
            self._drain(deadline)
            self._queue.finish()
        else:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        left = len(self._queue)
        self.stop()
        return left

    def hurry(self) -> None:
        """No pause is long from now on."""
        self._hurry.set()

    def stop(self) -> None:
        """Ends `run` as soon as it is in no request."""
        self._stop.set()
        self._wake.set()

    def _run(self, checks: bool) -> None:
        if checks:
            self._check()
        self.run()
        self._queue.finish()

    def run(self) -> None:
        """Sends until there is nothing left, and nothing more comes, or it is told to stop."""
        while not self._stop.is_set():
            try:
                if not self._step():
                    return
            except Exception as error:  # A fault of ours must not end the sending.
                left = self._delivery.give_up()
                self._errors.add(
                    f"sending failed, and {len(left)} events are given up: {error!r}",
                    [it.prediction_id for it in left],
                    error=error,
                )
                self._stop.wait(_FAULT_SECONDS)

    def _check(self) -> None:
        try:
            self._delivery.check()
        except (Unavailable, Rejected) as error:
            self._errors.add(f"{error}")
        except Exception as error:  # A fault of ours must not end the sending.
            self._errors.add(f"the key could not be checked: {error!r}", error=error)

    def _step(self) -> bool:
        """Sends, or waits; False when there is nothing left to do."""
        due = self._queue.seconds_until_due()
        if due is None or due > 0:
            if due is None and self._queue.is_closed:
                return False
            self._wake.wait(due)
            self._wake.clear()
            return True
        self._delivery.load(self._queue.take())
        while not self._stop.is_set():
            pause = self._delivery.attempt()
            if pause is None:
                break
            if self._delivery.is_barred and self._hurry.is_set():
                return False
            self._pause(pause)
        return True

    def _pause(self, seconds: float) -> None:
        if self._delivery.was_told_when:
            self._stop.wait(seconds)
        elif self._hurry.is_set():
            self._stop.wait(min(seconds, _HURRY_SECONDS))
        else:
            self._hurry.wait(seconds)

    def _drain(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            if not self._delivery.is_busy:
                batch = self._queue.take()
                if not batch:
                    return
                self._delivery.load(batch)
            pause = self._delivery.attempt()
            if self._delivery.is_barred:
                return
            if pause is not None:
                time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
