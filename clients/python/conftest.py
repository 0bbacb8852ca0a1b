"""
The service for the tests of both packages: what the README's `npm start` runs, on a folder of its own.

CLIENTS_DATA names a data folder that all of them begin with: the first of any process makes it, with `npm start`, and the
others copy it. To make the stores anew each time takes a third of the CPU of a start.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")


class Service:
    """One `svc up`: may be stopped, killed and started again on the same address and the same data."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="svc-clients-"))
        self.data = self.folder / "data"
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.api_key = "key-of-the-client-tests-0123456789"
        self.workspace = "default"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **settings: str) -> None:
        """Starts it with further settings of the environment, and returns once it is ready. Raises with its log if not."""
        shared = os.environ.get("CLIENTS_DATA")
        if not shared:
            self._run(["npm", "start"], settings)
            return
        if not self.data.exists():
            subprocess.run(["cp", "-a", self._first_data(Path(shared)), self.data], check=True)
        self._run(["cli/run.sh", "cli/svc.ts", "up"], settings)

    def _first_data(self, shared: Path) -> Path:
        """The folder that all begin with, made by a service that was stopped."""
        with shared.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not shared.exists():
                first = Service()
                try:
                    first._run(["npm", "start"], {})
                    first.stop()
                    shutil.move(first.data, shared)
                finally:
                    first.remove()
        return shared

    def _run(self, command: list[str], settings: dict[str, str]) -> None:
        environment = os.environ | {
            "SVC_PORT": str(self.port),
            "SVC_DATA_DIR": str(self.data),
            "SVC_BOOTSTRAP_API_KEY": self.api_key,
        }
        log = (self.folder / "log").open("ab")
        # A process group of its own: npm alone passes no signal on.
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment | settings, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=2):
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"the service did not start:\n{self.log()}")

    def stop(self) -> None:
        """As Ctrl-C does: it drains first."""
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        """As a power cut does: nothing of it runs on."""
        self._signal(signal.SIGKILL)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def get(self, path: str) -> Any:
        """What a read answers, as JSON. Raises urllib's HTTPError when it is refused."""
        return self._call(urllib.request.Request(self.url + path))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(self.url + path, data=json.dumps(body).encode())
        request.add_header("content-type", "application/json")
        return self._call(request)

    def _call(self, request: urllib.request.Request) -> Any:
        request.add_header("Authorization", self.api_key)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass
        self._process.wait(60)
        self._process = None


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """The service that most tests share. Those that kill, throttle or stop it take `own_service`."""
    shared = Service()
    try:
        shared.start()
        yield shared
    finally:
        shared.stop()
        shared.remove()


@pytest.fixture
def own_service() -> Iterator[Service]:
    """A service of the test's own, not started yet."""
    own = Service()
    try:
        yield own
    finally:
        own.remove()


def eventually(look: Callable[[], T], seconds: float = 120) -> T:
    """What `look` returns once it neither raises nor returns something false; its last error when that takes too long."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = look()
            if found:
                return found
            fault: Exception = AssertionError(f"still {found!r} after {seconds} s")
        except (AssertionError, LookupError, urllib.error.URLError) as error:
            fault = error
        if time.monotonic() > deadline:
            raise fault
        time.sleep(0.05)


def _free_port() -> int:
    """A port below those of outgoing connections and those of embedded stores: one could be taken before the service starts."""
    for port in random.sample(range(10_000, 20_000), 1000):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port of 127.0.0.1 between 10000 and 19999")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests on a Ray cluster first: begun last, the longest would run alone at the end."""
    items.sort(key=lambda it: it.path.name != "test_ml_ray.py")
