"""Runs: folders with a file `run-<id>.wandb` and the files of the run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from svc_ml.fault import SvcError
from svc_ml.importers.items import (
    TORN,
    ArtifactVersion,
    File,
    Item,
    LeftOut,
    Other,
    Parameter,
    Source,
    SourceRun,
    State,
    Tag,
    Write,
    to_digest,
    walk,
)
from svc_ml.importers.leveldb import FrameReader
from svc_ml.importers.protobuf import Message, inner, integer, milliseconds, text, to_dict, to_text
from svc_ml.importers.wandb import records
from svc_ml.importers.wandb.history import History
from svc_ml.importers.wandb.output import Output

_START = b":W&B"
AXES = {"_step": "step", "_timestamp": "time", "_runtime": "relative"}
AXIS_OF = "x axis of "
_OWN_TYPES = frozenset(["run_table", "wandb-history", "job", "wandb-run-history"])
_FIRST_RECORDS = 20


class WandbSource(Source):
    kind = "wandb"

    def __init__(self, roots: list[Path]) -> None:
        self._roots = roots
        self._failed: list[str] = []

    def failed(self) -> list[str]:
        return self._failed

    def runs(self) -> Iterable[SourceRun]:
        found: dict[str, WandbRun] = {}
        self._failed = []
        for root in self._roots:
            if not root.exists():
                raise SvcError(f"there is no folder {root}.")
            for path in [root] if root.is_file() else sorted(self._find_files(root)):
                id = path.stem[len("run-") :]
                # A run that was resumed has a folder for each time.
                found.setdefault(id, WandbRun(id)).add(path)
        if not found and not self._failed:
            raise SvcError(f"{', '.join(map(str, self._roots))}: there are no files run-*.wandb in it.")
        return found.values()

    def _find_files(self, root: Path) -> set[Path]:
        # `latest-run` is a link to one of its neighbours.
        return {
            folder / name
            for folder, names in walk(root, self._failed, follow_links=False)
            for name in names
            if name.startswith("run-") and name.endswith(".wandb")
        }


class WandbRun(SourceRun):
    def __init__(self, id: str) -> None:
        self.identity = id
        self.name = id
        self._paths: list[Path] = []
        self._parts: dict[Path, _Part] = {}

    def add(self, path: Path) -> None:
        self._paths.append(path)
        for run in _read_run(path):
            self.name = text(run, 8) or self.name
            self.project = text(run, 3) or self.project

    def take_over(self, later: SourceRun) -> None:
        if isinstance(later, WandbRun):
            self._paths = later._paths

    def size(self) -> int:
        return sum(it.stat().st_size for it in self._paths)

    def read(self) -> Iterator[Item]:
        has_come = False
        for path in self._paths:
            part = self._parts.setdefault(path, _Part(path))
            before = part.frames.offset
            yield from part.read()
            has_come = has_come or part.frames.offset != before
        if has_come:
            yield from self._summary()
            yield self._state()

    def _summary(self) -> Iterator[Item]:
        """What the script has put there itself; of what it logged the service keeps the last value anyway."""
        logged: set[str] = set().union(*(it.history.names for it in self._parts.values()))
        values: dict[str, Any] = {}
        for it in self._parts.values():
            values.update(it.summary)
        for name, value in values.items():
            if not name.startswith("_") and name not in logged and not any(it.startswith(f"{name}.") for it in logged):
                yield Other(name, value if isinstance(value, str) else json.dumps(value))

    def _state(self) -> State:
        parts = list(self._parts.values())
        starts = [it.start_ms for it in parts if it.start_ms is not None]
        ends = [it.end_ms for it in parts if it.end_ms is not None]
        code = parts[-1].exit_code
        error = f"exit code {code}" if code else None
        return State(min(starts, default=None), max(ends, default=None), is_running=code is None, error=error)


class _Part:
    """One file."""

    def __init__(self, path: Path) -> None:
        self.frames = FrameReader(path, _START)
        self.folder = path.parent / "files"
        self.history = History(path.parent.name, self.folder)
        self.summary: dict[str, Any] = {}
        self.start_ms: int | None = None
        self.end_ms: int | None = None
        self.exit_code: int | None = None
        self._output = Output()

    def read(self) -> Iterator[Item]:
        path = self.frames.path
        for data in self.frames.read():
            if isinstance(data, int):
                yield LeftOut("damaged records", f"{path}, at byte {data}: the rest of its block of 32 KiB is skipped")
                continue
            try:
                found = to_dict(data)
                for kind in found:
                    if isinstance(found[kind][0], bytes):
                        yield from self._read_record(kind, to_dict(found[kind][0]))
            except (ValueError, TypeError, LookupError) as error:
                yield LeftOut("records", f"{path}, before byte {self.frames.offset}: one cannot be read ({error})")
        yield from self.history.flush()
        yield from self._output.flush(self.exit_code is not None)
        if self.exit_code is not None:
            yield from self._read_own_files()
        if self.frames.left_bytes() > 0:
            yield LeftOut(TORN, f"{path} ends in the middle of one, at byte {self.frames.offset}")

    def _read_record(self, kind: int, message: Message) -> Iterator[Item]:
        if kind in (records.HISTORY, records.STATS):
            yield from self.history.read(kind, message)
            self.end_ms = max(filter(None, (self.end_ms, self.history.last_ms)), default=None)
        elif kind == records.SUMMARY:
            for path, value in records.entries(message, 1):
                records.nest(self.summary, path, value)
        elif kind == records.CONFIG:
            yield from _read_config(message)
        elif kind == records.RUN:
            yield from self._read_run(message)
        elif kind == records.METRIC:
            name, axis = text(message, 1) or text(message, 2), text(message, 4)
            if name and axis:
                yield Other(f"{AXIS_OF}{name}", AXES.get(axis, axis))
        elif kind == records.OUTPUT:
            self._output.add(text(message, 3), integer(message, 1) == 0, milliseconds(message, 2))
        elif kind == records.EXIT:
            self.exit_code = integer(message, 1)
            if self.start_ms is not None and integer(message, 2):
                self.end_ms = max(self.end_ms or 0, self.start_ms + integer(message, 2) * 1000)
        elif kind == records.ENVIRONMENT:
            yield from _read_environment(message)
        elif kind == records.ARTIFACT:
            yield _read_artifact(message)
        elif kind == records.ALERT:
            yield Other(f"alert {text(message, 1)}", f"{text(message, 3)}: {text(message, 2)}")
        elif kind in records.NAMES:
            yield LeftOut(records.NAMES[kind], "of a kind that is not read")

    def _read_run(self, run: Message) -> Iterator[Item]:
        self.start_ms = self.start_ms or milliseconds(run, 17)
        for config in inner(run, 4):
            yield from _read_config(config)
        yield from (Tag(to_text(it)) for it in run.get(10, ()))
        for name, field in (("notes", 9), ("group", 6), ("job_type", 7), ("sweep", 12)):
            if text(run, field):
                yield Other(name, text(run, field))

    def _read_own_files(self) -> Iterator[Item]:
        """Those that the run has saved; media are named by the history, and the output by its records."""
        for path in sorted(it for it in self.folder.rglob("*") if it.is_file()):
            name = path.relative_to(self.folder).as_posix()
            if not name.startswith("media/") and name != "output.log":
                yield File(f"saved\0{name}\0{to_digest(path)}", name, path)


def _read_config(config: Message) -> Iterator[Item]:
    for path, value in records.entries(config, 1):
        if path[0] != "_wandb":
            yield from to_parameters("|".join(path), value)


def to_parameters(name: str, value: Any) -> Iterator[Item]:
    if isinstance(value, Mapping) and value:
        for inner_name, it in value.items():
            yield from to_parameters(f"{name}|{inner_name}", it)
    else:
        yield Parameter(name, value)


def _read_environment(message: Message) -> Iterator[Item]:
    python = text(message, 2)
    names = {"hostname": 12, "os": 1, "user": 13, "executable": 14}
    body: dict[str, Any] = {name: text(message, field) for name, field in names.items() if text(message, field)}
    if python:
        body["pythonVersionVerbose"] = python
        body["pythonVersion"] = python.split()[-1]
    if body:
        yield Write("details of the system", "/write/experiment/system-details", body)
    for git in inner(message, 9):
        about = {"user": "", "root": "", "branch": "", "parent": text(git, 2), "origin": text(git, 1)}
        yield Write("commits", "/write/experiment/git/metadata", about)


def _read_artifact(message: Message) -> Item:
    name, type = text(message, 5), text(message, 4)
    if type in _OWN_TYPES:
        return LeftOut(f"artifacts of the type {type}", "W&B makes them of what is imported as tables and points")
    contents = [entry for manifest in inner(message, 12) for entry in inner(manifest, 4)]
    files = {text(it, 1): Path(text(it, 6)) for it in contents if 6 in it}
    if len(files) < len(contents) or not all(it.is_file() for it in files.values()):
        return LeftOut("versions of artifacts", f"{name}: its files are not on this disk")
    aliases = [to_text(it) for it in message.get(11, ()) if to_text(it) != "latest"]
    try:
        metadata = json.loads(text(message, 8) or "{}")
    except ValueError:
        metadata = {}
    if text(message, 7):
        metadata = {"description": text(message, 7), **metadata}
    return ArtifactVersion(name, None, type, aliases, metadata, files, f"{name}\0{text(message, 6)}")


def _read_run(path: Path) -> Iterator[Message]:
    """What is said of the run at the beginning of the file."""
    for at, data in enumerate(FrameReader(path, _START).read()):
        if at > _FIRST_RECORDS:
            return
        if isinstance(data, bytes):
            try:
                found = inner(to_dict(data), records.RUN)
            except (ValueError, TypeError):
                continue
            if found:
                yield found[0]
                return
