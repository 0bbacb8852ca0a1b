"""What a logger does when its process is forked, and when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .client.process_end import OpenInProcess

if TYPE_CHECKING:
    from .mpm import SvcMPM


def _end(mpm: SvcMPM) -> None:
    # No loop runs any more: in asyncio mode, too, this thread waits.
    mpm._is_asyncio = False
    mpm.end()


# Each is kept until it was ended, also when the program forgets it.
_members: set[SvcMPM] = set()
open_loggers: OpenInProcess[SvcMPM] = OpenInProcess(_members, at_exit=_end, after_fork=lambda it: it._after_fork())
"""Ends them when the process ends, and gives each fork a queue and a thread of its own."""
