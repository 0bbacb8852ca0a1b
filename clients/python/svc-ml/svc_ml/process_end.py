"""
What happens to open experiments when their process forks, is asked to end, or ends: the exit hooks, the handler of SIGTERM and
the hook for uncaught exceptions, each set once per process and passed on to whoever was there before.

Python tells no exit hook which status a process ends with. `sys.exit` is wrapped for that; what ends by `raise SystemExit(1)`
outside of any `with` is taken for a good end.
"""

from __future__ import annotations

import _thread
import atexit
import functools
import os
import signal
import sys
import threading
import time
import weakref
from types import FrameType, TracebackType
from typing import Any, NoReturn, Protocol

from svc_ml.client.process_end import OpenInProcess


class Ending(Protocol):
    """What is told of these things."""

    def _after_fork_in_child(self) -> None: ...
    def _at_exit(self, error: str | None) -> None: ...
    def _at_termination(self, is_the_end: bool) -> None: ...
    def note_crash(self, error: str) -> None: ...


_END_SECONDS = 15.0
_WRITE_SECONDS = 2.0
_PATIENCE_SECONDS = 2.0
_MOMENT_SECONDS = 0.02
_exit_error: str | None = None
"""What `sys.exit` was called with by the main thread, when that means a failure."""


def _after_fork(experiment: Ending) -> None:
    global _exit_error
    _exit_error = None
    experiment._after_fork_in_child()


_open: OpenInProcess[Ending] = OpenInProcess(
    weakref.WeakSet(), at_exit=lambda it: it._at_exit(_exit_error), after_fork=_after_fork
)
watch_forked_process = _open.watch_forked_process


def is_good_exit(error: BaseException) -> bool:
    """True for `sys.exit()` and `sys.exit(0)`."""
    return isinstance(error, SystemExit) and error.code in (None, 0)


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def watch(experiment: Ending) -> None:
    """Tells the experiment of forks and of the end, until it is collected or `unwatch`ed."""
    global _exit_error
    # Whoever logs on after `sys.exit` has caught it.
    _exit_error = None
    if not _open.add(experiment):
        return
    _watch_exceptions()
    _watch_exit_status()
    if threading.current_thread() is threading.main_thread():
        _watch_termination()


def open_experiments() -> list[Ending]:
    return list(_open)


def unwatch(experiment: Ending) -> None:
    _open.discard(experiment)


def _watch_exceptions() -> None:
    previous = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        for experiment in _open:
            experiment.note_crash(describe(error))
        previous(kind, error, trace)

    sys.excepthook = note


def _watch_exit_status() -> None:
    leave = sys.exit

    @functools.wraps(leave)
    def note(status: Any = None, /) -> NoReturn:
        global _exit_error
        # In another thread it ends that thread only.
        if threading.current_thread() is threading.main_thread():
            error = SystemExit(status)
            _exit_error = None if is_good_exit(error) else describe(error)
        leave(status)

    sys.exit = note


class _Termination:
    """
    What is done between SIGTERM and the end of the process, or the handler that was there before.

    In a thread of its own, while the handler of the signal waits: the main thread was interrupted anywhere, maybe while it held a
    lock that is needed here. So it goes on for a moment now and then, longer each time, to give that lock back; its next SIGTERM is
    our own.
    """

    def __init__(self, is_the_end: bool) -> None:
        self.pid = os.getpid()
        self.is_waiting = False
        self.is_coming_again = False
        self._until = time.monotonic() + (_END_SECONDS if is_the_end else _WRITE_SECONDS)
        self._moment = _MOMENT_SECONDS
        self._done = _thread.allocate_lock()
        self._done.acquire()
        # Not a `Thread`: to start one takes a lock that is held, too, when the interrupted one was starting another.
        _thread.start_new_thread(self._tell, (is_the_end,))

    def _tell(self, is_the_end: bool) -> None:
        try:
            for experiment in _open:
                experiment._at_termination(is_the_end)
        finally:
            self._done.release()

    def wait(self) -> bool:
        """True when it is done, or took too long. False when the handler has to return: it is called again."""
        self.is_waiting = True
        try:
            if self._done.acquire(timeout=max(0, min(_PATIENCE_SECONDS, self._until - time.monotonic()))):
                return True
        finally:
            self.is_waiting = False
        if time.monotonic() >= self._until:
            return True
        self.is_coming_again = True
        _thread.start_new_thread(self._come_again, (self._moment,))
        self._moment *= 2
        return False

    def join(self) -> None:
        self._done.acquire(timeout=max(0, self._until - time.monotonic()))

    def _come_again(self, seconds: float) -> None:
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGTERM)


def _watch_termination() -> None:
    previous = signal.getsignal(signal.SIGTERM)
    if previous is not signal.SIG_DFL and not callable(previous):
        return
    is_the_end = not callable(previous)
    under_way: _Termination | None = None

    def handle(number: int, frame: FrameType | None) -> Any:
        nonlocal under_way
        if under_way is None or under_way.pid != os.getpid():
            under_way = _Termination(is_the_end)
        elif under_way.is_coming_again:
            under_way.is_coming_again = False
        elif callable(previous):
            # Somebody who asks once more: also when we wait in a frame below this one.
            return previous(number, frame)
        if under_way.is_waiting or not under_way.wait():
            return None
        under_way = None
        if callable(previous):
            return previous(number, frame)
        _end_by_signal()
        return None

    def at_exit() -> None:
        # The main thread came to its end in its moment.
        if is_the_end and under_way is not None and under_way.pid == os.getpid():
            under_way.join()
            _end_by_signal()

    signal.signal(signal.SIGTERM, handle)
    atexit.register(at_exit)


def _end_by_signal() -> None:
    """Ends the process as SIGTERM would have without us: whoever started it sees that a signal ended it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
