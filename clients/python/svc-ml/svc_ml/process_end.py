"""
What happens to open experiments when their process forks, is asked to end, or ends: the exit hooks, the handler of SIGTERM and
the hook for uncaught exceptions, each set once per process and passed on to whoever was there before.

Python tells no exit hook which status a process ends with. `sys.exit` is wrapped for that; what ends by `raise SystemExit(1)`
outside of any `with` is taken for a good end.
"""

from __future__ import annotations

import _thread
import functools
import os
import signal
import sys
import threading
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


def _terminate(is_the_end: bool) -> None:
    for experiment in _open:
        experiment._at_termination(is_the_end)


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


def _watch_termination() -> None:
    previous = signal.getsignal(signal.SIGTERM)
    if previous is not signal.SIG_DFL and not callable(previous):
        return

    def handle(number: int, frame: FrameType | None) -> Any:
        is_the_end = not callable(previous)
        # In a thread of its own: the one that was interrupted may hold a lock that is needed here. Not a `Thread`: to start
        # one takes a lock that is held, too, when the interrupted one was starting another.
        ended = _thread.allocate_lock()
        ended.acquire()

        def end() -> None:
            try:
                _terminate(is_the_end)
            finally:
                ended.release()

        _thread.start_new_thread(end, ())
        ended.acquire(timeout=_END_SECONDS if is_the_end else _WRITE_SECONDS)
        if callable(previous):
            return previous(number, frame)
        # Ends as it would have without us: whoever started this process sees that a signal ended it.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return None

    signal.signal(signal.SIGTERM, handle)
