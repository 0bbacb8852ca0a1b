"""Imports, and what they have brought, point by point."""

from __future__ import annotations

import json
import random
import re
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any, Optional

import pytest

from conftest import ROOT, Service, eventually
from svc_ml import Api
from svc_ml.command import main
from svc_ml.read.errors import NotFound
from svc_ml.read.logged_run import LoggedRun

Point = tuple[str, str, Optional[int], int, str]
"""Name, context, step, milliseconds, and the bits of the value."""


_KILLED = """
import os, signal, sys
from svc_ml.client.service import Service
from svc_ml.command import main

real, left = Service.request, [int(sys.argv[1])]

def request(self, method, *given, **named):
    answer = real(self, method, *given, **named)
    if method != "GET":
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return answer

Service.request = request
main(sys.argv[2:])
"""


def bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def as_float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


class Importer:
    """`svc-ml import` into a project of the test's own."""

    def __init__(self, service: Service, capsys: pytest.CaptureFixture[str]) -> None:
        self.service = service
        self.project = uuid.uuid4().hex
        self._capsys = capsys

    def run(self, *arguments: Any, code: int = 0) -> dict[str, Any]:
        """The report."""
        given = ["import", *map(str, arguments), "--project", self.project, "--workers", "1", "--json"]
        self._capsys.readouterr()
        found = main(given)
        told = self._capsys.readouterr()
        assert found == code, (told.out, told.err)
        report: dict[str, Any] = json.loads(told.out)
        return report

    def kill(self, *arguments: Any) -> None:
        """Imports that are killed at once after one of their first writes: the service has it, and they do not know."""
        for _ in range(2):
            place = random.randrange(1, 6)
            given = ["import", *map(str, arguments), "--project", self.project, "--workers", "1"]
            done = subprocess.run([sys.executable, "-c", _KILLED, str(place), *given], capture_output=True, timeout=180)
            assert done.returncode == -signal.SIGKILL, (place, done.returncode, done.stdout, done.stderr)

    def runs(self) -> dict[str, LoggedRun]:
        """By name."""
        api = Api()
        try:
            table = api.runs(self.project)
        except NotFound:
            return {}
        return {run.name: run for run in (api.run(key) for key in table["key"])}


def read_all(run: LoggedRun) -> list[Point]:
    """In the order of the service, which is that of steps, and of what came first at the same step and time."""
    rows = run.metrics().rows()
    return [
        (it["name"], it["context"] or "", it["step"], round(it["time"].timestamp() * 1000), bits(it["value"]))
        for it in rows
    ]


def eventually_points(importer: Importer, expected: dict[str, list[Point]]) -> None:
    """expected: by the name of the run; in any order."""

    def look() -> bool:
        found = {name: sorted(read_all(run), key=repr) for name, run in importer.runs().items()}
        wanted = {name: sorted(points, key=repr) for name, points in expected.items()}
        assert found.keys() == wanted.keys()
        for name, points in wanted.items():
            assert found[name] == points
        return True

    eventually(look)


def commands_of(section: str) -> list[list[str]]:
    """The arguments of each `svc-ml` command in a section of docs/coming-from.md."""
    page = (ROOT / "docs/coming-from.md").read_text()
    text = re.split(r"^## ", page.split(f"\n## {section}\n", 1)[1], flags=re.M)[0]
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M) for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("svc-ml ")]


def files(run: LoggedRun) -> dict[tuple[str, str, int | None], bytes]:
    """Content by type, name and step."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for it in run.assets():
            path = run.download(it, Path(folder) / it.id, show_progress=False)
            found[it.type, it.name, it.step] = path.read_bytes()
    return found


def milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)
