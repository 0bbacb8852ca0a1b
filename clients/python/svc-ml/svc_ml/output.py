"""Standard output and error, as they were written, line by line."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TextIO

Write = Callable[[list[dict[str, Any]]], None]

_LINE_CHARACTERS_MAX = 100_000
_FINISH_SECONDS = 0.5
# Reentrant, since the handler of a signal may print as well.
_lock = threading.RLock()
_offset = 0
_tees: weakref.WeakSet[_Tee] = weakref.WeakSet()
_of_thread = threading.local()


def _after_fork_in_child() -> None:
    """Another thread may have held the lock; and half a line that was printed before the fork is the parent's."""
    global _lock
    _lock = threading.RLock()
    for tee in list(_tees):
        tee.forget()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _next_offset() -> int:
    """Microseconds since the Unix epoch, always later than before: lines of several processes stand in the order of time."""
    global _offset
    # Without a lock, which a thread that SIGTERM has interrupted might hold: at worst two lines have the same offset.
    _offset = offset = max(_offset + 1, time.time_ns() // 1_000)
    return offset


class _Tee:
    """Stands in the place of a stream: everything goes on to it, and whole lines are logged too."""

    def __init__(self, stream: TextIO, is_error: bool, write: Write) -> None:
        self._stream = stream
        self._is_error = is_error
        self._write = write
        self._rest = ""
        _tees.add(self)

    def forget(self) -> None:
        self._rest = ""

    def write(self, text: str) -> int:
        written = self._stream.write(text)
        if not getattr(_of_thread, "is_paused", False):
            self.capture(text)
        return written

    def capture(self, text: str) -> None:
        """Logs what was written."""
        try:
            with _lock:
                *lines, self._rest = (self._rest + text).split("\n")
                if len(self._rest) > _LINE_CHARACTERS_MAX:
                    lines, self._rest = [*lines, self._rest], ""
            if lines:
                self._log(lines)
        except Exception:
            # Whoever prints must not fail because of us; the text itself was printed.
            pass

    def finish(self) -> None:
        # Whoever holds it for so long was interrupted by the SIGTERM that brings us here.
        is_ours = _lock.acquire(timeout=_FINISH_SECONDS)
        rest, self._rest = self._rest, ""
        if is_ours:
            _lock.release()
        if rest:
            self._log([rest])

    def _log(self, lines: list[str]) -> None:
        now = int(time.time() * 1000)
        logged = []
        for line in lines:
            # Of a progress bar that is drawn over and over what stood there last.
            shown = line.rstrip("\r").rsplit("\r", 1)[-1].replace("\0", "")
            shown = shown.encode("utf-8", "replace").decode()[:_LINE_CHARACTERS_MAX]
            logged.append({"output": shown, "stderr": self._is_error, "localTimestamp": now, "offset": _next_offset()})
        self._write(logged)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def capture_paused() -> Iterator[None]:
    """What this thread prints within is not logged."""
    before = getattr(_of_thread, "is_paused", False)
    _of_thread.is_paused = True
    try:
        yield
    finally:
        _of_thread.is_paused = before


def capture_print(text: str, stream: Any) -> None:
    """Logs what was printed while that was paused; does nothing when the stream is not logged."""
    if isinstance(stream, _Tee):
        stream.capture(text)


def capture_output(write: Write) -> Callable[[], None]:
    """Logs what is printed from now on. Returns what ends it; a stream that somebody else has replaced since stays so."""
    tees = {"stdout": _Tee(sys.stdout, False, write), "stderr": _Tee(sys.stderr, True, write)}
    before = {name: getattr(sys, name) for name in tees}
    for name, tee in tees.items():
        setattr(sys, name, tee)

    def end() -> None:
        for name, tee in tees.items():
            tee.finish()
            if getattr(sys, name) is tee:
                setattr(sys, name, before[name])

    return end
