"""What a logger does when its process is forked, and when it ends."""

from __future__ import annotations

import atexit
import os
import weakref
from multiprocessing import parent_process, util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .mpm import SvcMPM

_open: set[SvcMPM] = set()


def watch(mpm: SvcMPM) -> None:
    """Ends it when the process ends, and gives each fork a queue and a thread of its own."""
    _open.add(mpm)


def forget(mpm: SvcMPM) -> None:
    _open.discard(mpm)


def watch_exit_of_child(mpm: SvcMPM) -> None:
    """
    Processes of `multiprocessing` end without running what was registered with `atexit`, and forget what was registered
    with themselves before their work began: this is called with the first event.
    """
    if parent_process() is not None:
        reference = weakref.ref(mpm)
        util.Finalize(None, _end, args=(reference,), exitpriority=10)


def _end(reference: weakref.ref[SvcMPM]) -> None:
    mpm = reference()
    if mpm is not None and mpm in _open:
        _end_now(mpm)


def _end_now(mpm: SvcMPM) -> None:
    # No loop runs any more: in asyncio mode, too, this thread waits.
    mpm._is_asyncio = False
    mpm.end()


def _end_all() -> None:
    for mpm in list(_open):
        _end_now(mpm)


def _after_fork() -> None:
    for mpm in list(_open):
        mpm._after_fork()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
