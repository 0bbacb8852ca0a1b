"""
The output of Ray's workers, logged once. Ray shows what a worker prints on the driver too, behind a prefix with its process,
and `print` in a worker of Train goes to the stream and to a log that ends in the same stream.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

from svc_ml.integration import ray_notes
from svc_ml.output import capture_paused, capture_print

_ECHO_THREAD = "ray_print_logs"
_PREFIX = re.compile(r"\((\w+) pid=(\d+)(?:, ip=([^)]+))?\)")
_WORKER = "RayTrainWorker"
_CAPTURED = "captured"


def note_captured(experiment_key: str) -> None:
    """Called in a worker that logs its own output, before it prints."""
    import ray

    ray_notes.put(experiment_key, _CAPTURED, _name(ray.util.get_node_ip_address(), os.getpid()), "")


class EchoFilter:
    """True for a line that Ray shows on the driver and that its worker logs by itself."""

    def __init__(self, experiment_key: str) -> None:
        self._experiment_key = experiment_key
        self._captured: set[str] = set()

    def __call__(self, line: str) -> bool:
        if threading.current_thread().name != _ECHO_THREAD:
            return False
        found = _PREFIX.search(line)
        if found is None or found[1] != _WORKER:
            return False
        name = _name(found[3] or _own_address(), int(found[2]))
        if name not in self._captured:
            self._captured = set(ray_notes.read(self._experiment_key, _CAPTURED))
        return name in self._captured


@contextlib.contextmanager
def printed_once() -> Iterator[None]:
    """While a worker logs its output: of what goes through Ray's own `print` only the first copy is logged."""
    rays = builtins.print
    if not getattr(rays, "__module__", "").startswith("ray."):
        yield
        return

    def once(
        *objects: Any, sep: str | None = None, end: str | None = None, file: Any = None, flush: bool = False
    ) -> None:
        between, last = " " if sep is None else sep, "\n" if end is None else end
        stream = sys.stdout if file is None else file
        with capture_paused():
            rays(*objects, sep=between, end=last, file=file, flush=flush)
        capture_print(between.join(map(str, objects)) + last, stream)

    builtins.print = once
    try:
        yield
    finally:
        builtins.print = rays


def _own_address() -> str:
    import ray

    return str(ray.util.get_node_ip_address())


def _name(address: str, pid: int) -> str:
    return f"{address}:{pid}"
