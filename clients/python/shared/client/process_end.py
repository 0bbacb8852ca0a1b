"""What is open in a process, and so has to be told when the process is forked and when it ends."""

from __future__ import annotations

import atexit
import multiprocessing.process
import os
from collections.abc import Callable, Iterator, MutableSet
from typing import Generic, TypeVar

T = TypeVar("T")


class OpenInProcess(Generic[T]):
    """
    Those that are open, each told once of the end of the process, and of forks in the child.

    members: an empty set; a weak one forgets what nobody else holds.
    """

    def __init__(
        self, members: MutableSet[T], *, at_exit: Callable[[T], object], after_fork: Callable[[T], object]
    ) -> None:
        self._members = members
        self._tell_exit = at_exit
        self._tell_fork = after_fork
        self._is_watching = False

    def add(self, member: T) -> bool:
        """True when it is the first of the process: from now on its end and its forks are watched."""
        self._members.add(member)
        if self._is_watching:
            return False
        self._is_watching = True
        atexit.register(self._at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)
        return True

    def discard(self, member: T) -> None:
        self._members.discard(member)

    def watch_forked_process(self) -> None:
        """
        To be called with the first thing that a process logs: a child that multiprocessing has forked ends without calling what is
        registered with atexit, and forgets what was registered before its work began.
        """
        if multiprocessing.process.parent_process() is not None:
            from multiprocessing.util import Finalize

            Finalize(None, self._at_exit, exitpriority=10)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._members))

    def _at_exit(self) -> None:
        for it in self:
            self._tell_exit(it)

    def _after_fork(self) -> None:
        for it in self:
            self._tell_fork(it)
