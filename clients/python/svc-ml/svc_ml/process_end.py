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
import multiprocessing.process
import os
import signal
import sys
import threading
import weakref
from types import FrameType, TracebackType
from typing import Any, NoReturn, Protocol


class Ending(Protocol):
    """What is told of these things."""

    def _after_fork_in_child(self) -> None: ...
    def _at_exit(self, error: str | None) -> None: ...
    def _at_termination(self, is_the_end: bool) -> None: ...
    def note_crash(self, error: str) -> None: ...


_END_SECONDS = 15.0
_WRITE_SECONDS = 2.0
_open: weakref.WeakSet[Ending] = weakref.WeakSet()
_is_watching = False
_exit_error: str | None = None
"""What `sys.exit` was called with by the main thread, when that means a failure."""


def is_good_exit(error: BaseException) -> bool:
    """True for `sys.exit()` and `sys.exit(0)`."""
    return isinstance(error, SystemExit) and error.code in (None, 0)


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def watch(experiment: Ending) -> None:
    """Tells the experiment of forks and of the end, until it is collected or `unwatch`ed."""
    global _is_watching, _exit_error
    _open.add(experiment)
    # Whoever logs on after `sys.exit` has caught it.
    _exit_error = None
    if _is_watching:
        return
    _is_watching = True
    atexit.register(_at_exit)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork_in_child)
    _watch_exceptions()
    _watch_exit_status()
    if threading.current_thread() is threading.main_thread():
        _watch_termination()


def open_experiments() -> list[Ending]:
    return list(_open)


def unwatch(experiment: Ending) -> None:
    _open.discard(experiment)


def watch_forked_process() -> None:
    """A child that multiprocessing has forked ends without calling what is registered with atexit."""
    if multiprocessing.process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _at_exit, exitpriority=0)


def _at_exit() -> None:
    for experiment in list(_open):
        experiment._at_exit(_exit_error)


def _after_fork_in_child() -> None:
    global _exit_error
    _exit_error = None
    for experiment in list(_open):
        experiment._after_fork_in_child()


def _terminate(is_the_end: bool) -> None:
    for experiment in list(_open):
        experiment._at_termination(is_the_end)


def _watch_exceptions() -> None:
    previous = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        for experiment in list(_open):
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
