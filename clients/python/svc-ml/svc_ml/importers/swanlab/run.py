"""Runs of SwanLab: folders with a file `run-<id>.swanlab`, and beside it `files` and `media`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from svc_ml.fault import SvcError
from svc_ml.importers.items import (
    TORN,
    File,
    Item,
    LeftOut,
    Lines,
    Other,
    Parameter,
    Points,
    Source,
    SourceRun,
    State,
    Tag,
    Write,
    to_digest,
)
from svc_ml.importers.leveldb import FrameReader
from svc_ml.importers.protobuf import Message, inner, integer, milliseconds, text, to_dict, to_double, to_text

# Its magic, and version 2 of the format: other versions have other records.
_START = b":SWL\xd6\xe1\x02"
_BEGIN, _FINISH, _COLUMN, _SCALAR, _MEDIA, _LINE, _SAVE = 10, 11, 12, 13, 14, 16, 20
_SYSTEM = 2
_ROWS_AT_ONCE = 20_000
_FIRST_RECORDS = 20
_FOLDERS = {2: "image", 3: "audio", 4: "text", 5: "video", 6: "echarts", 7: "object3d", 8: "molecule", 9: "html"}
_TYPES = {2: "image", 3: "audio", 5: "video"}
_ENDED_BADLY = {2: "crashed", 3: "aborted"}
_CONFIG, _METADATA = "config.yaml", "swanlab-metadata.json"


class SwanlabSource(Source):
    kind = "swanlab"

    def __init__(self, roots: list[Path]) -> None:
        self._roots = roots

    def runs(self) -> Iterable[SourceRun]:
        found: dict[str, SwanlabRun] = {}
        for root in self._roots:
            if not root.exists():
                raise SvcError(f"there is no folder {root}.")
            for path in [root] if root.is_file() else sorted(root.rglob("run-*.swanlab")):
                id = path.stem[len("run-") :]
                # A run that was resumed has a folder for each time.
                found.setdefault(id, SwanlabRun(id)).add(path)
        if not found:
            raise SvcError(f"{', '.join(map(str, self._roots))}: there are no files run-*.swanlab in it.")
        return found.values()


class SwanlabRun(SourceRun):
    def __init__(self, id: str) -> None:
        self.identity = self.name = id
        self._paths: list[Path] = []
        self._parts: dict[Path, _Part] = {}

    def add(self, path: Path) -> None:
        self._paths.append(path)
        begin = _read_begin(path)
        self.name = text(begin, 4) or self.name
        self.project = text(begin, 1) or self.project

    def take_over(self, later: SourceRun) -> None:
        if isinstance(later, SwanlabRun):
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
            yield self._state()

    def _state(self) -> State:
        parts = list(self._parts.values())
        starts = [it.start_ms for it in parts if it.start_ms is not None]
        ends = [it.end_ms for it in parts if it.end_ms is not None]
        last = parts[-1]
        return State(min(starts, default=None), max(ends, default=None), not last.has_ended, last.error)


class _Part:
    """One file."""

    def __init__(self, path: Path) -> None:
        self.frames = FrameReader(path, _START)
        self.start_ms: Optional[int] = None
        self.end_ms: Optional[int] = None
        self.has_ended = False
        self.error: Optional[str] = None
        self._folder = path.parent
        self._system: set[str] = set()
        """Names of metrics of the machine."""
        self._series: dict[str, Points] = {}
        self._lines: list[tuple[str, bool, Optional[int]]] = []
        self._count = 0

    def read(self) -> Iterator[Item]:
        path = self.frames.path
        for data in self.frames.read():
            if isinstance(data, int):
                yield LeftOut("damaged records", f"{path}, at byte {data}: the rest of its block of 32 KiB is skipped")
                continue
            try:
                for kind, values in to_dict(data).items():
                    if isinstance(values[0], bytes):
                        yield from self._read_record(kind, to_dict(values[0]))
            except (ValueError, TypeError, LookupError) as error:
                yield LeftOut("records", f"{path}, before byte {self.frames.offset}: one cannot be read ({error})")
            self._count += 1
            if self._count >= _ROWS_AT_ONCE:
                yield from self._flush()
        yield from self._flush()
        if self.frames.left_bytes() > 0:
            yield LeftOut(TORN, f"{path} ends in the middle of one, at byte {self.frames.offset}")

    def _flush(self) -> Iterator[Item]:
        yield from self._series.values()
        if self._lines:
            yield Lines(self._lines)
        self._series, self._lines, self._count = {}, [], 0

    def _read_record(self, kind: int, message: Message) -> Iterator[Item]:
        if kind == _SCALAR:
            self._add_point(message)
        elif kind == _MEDIA:
            yield from self._read_media(message)
        elif kind == _COLUMN:
            if integer(message, 1) == _SYSTEM:
                self._system.add(text(message, 3))
            elif text(message, 13):
                yield Other(f"x axis of {text(message, 3)}", text(message, 13))
        elif kind == _LINE:
            self._lines.append((text(message, 1), integer(message, 2) == 1, milliseconds(message, 3)))
        elif kind == _SAVE:
            yield from self._read_saved(message)
        elif kind == _BEGIN:
            self.start_ms = milliseconds(message, 12)
            yield from (Tag(to_text(it)) for it in message.get(6, ()))
            for name, field in (("notes", 5), ("group", 7), ("job_type", 8)):
                if text(message, field):
                    yield Other(name, text(message, field))
        elif kind == _FINISH:
            self.has_ended, self.end_ms = True, milliseconds(message, 3)
            state = _ENDED_BADLY.get(integer(message, 1))
            self.error = (text(message, 2) or state) if state else None

    def _add_point(self, message: Message) -> None:
        name = text(message, 1)
        ms = milliseconds(message, 4)
        # What is zero is not written.
        value = to_double(inner(message, 5)[0].get(1, [bytes(8)])[0])
        if name in self._system:
            name = "sys." + name.replace("__swanlab__.", "")
        points = self._series.get(name)
        if points is None:
            points = self._series[name] = Points(self._folder.name, name, "", [], [], [])
        points.values.append(value)
        if points.steps is not None and points.timestamps is not None:
            points.steps.append(None if name.startswith("sys.") else integer(message, 2))
            points.timestamps.append(ms)
        self.end_ms = max(filter(None, (self.end_ms, ms)), default=None)

    def _read_media(self, message: Message) -> Iterator[Item]:
        name, step, kind = text(message, 1), integer(message, 2), integer(message, 3)
        listed = [it for value in inner(message, 5) for it in inner(value, 1)]
        for at, it in enumerate(listed):
            path = self._folder / "media" / _FOLDERS.get(kind, "") / text(it, 1)
            shown = name if len(listed) == 1 else f"{name}/{at}"
            metadata = {"caption": text(it, 4)} if text(it, 4) else None
            data = path if path.is_file() else it.get(5, [b""])[0]
            if not data:
                yield LeftOut("files", f"{path} is not there")
                continue
            identity = f"media\0{name}\0{step}\0{at}\0{text(it, 2)}"
            yield File(identity, shown + path.suffix, data, _TYPES.get(kind, "asset"), step, "", metadata)

    def _read_saved(self, message: Message) -> Iterator[Item]:
        name, given = text(message, 1), Path(text(message, 2))
        # Where it lies now, not where it lay when it was written.
        path = next((it for it in (self._folder / "files" / given.name, given) if it.is_file()), None)
        if path is None:
            yield LeftOut("files", f"{given} is not there")
            return
        if path.name == _CONFIG:
            yield from _read_config(path)
        elif path.name == _METADATA:
            yield from _read_metadata(path)
        # Its own files have names of their kind, and are called as they lie there.
        shown = given.name if integer(message, 5) else name
        yield File(f"saved\0{name}\0{to_digest(path)}", shown, path)


def _read_config(path: Path) -> Iterator[Item]:
    try:
        import yaml
    except ImportError:
        yield LeftOut("parameters", f"{path} is YAML: pip install pyyaml. The file itself is imported")
        return
    try:
        config = yaml.safe_load(path.read_bytes()) or {}
        values = {name: it["value"] for name, it in config.items()}
    except (yaml.YAMLError, AttributeError, TypeError, LookupError) as error:
        yield LeftOut("parameters", f"{path} cannot be read: {error}")
        return
    for name, value in values.items():
        yield from _to_parameters(str(name), value)


def _to_parameters(name: str, value: Any) -> Iterator[Item]:
    if isinstance(value, Mapping) and value:
        for inner_name, it in value.items():
            yield from _to_parameters(f"{name}|{inner_name}", it)
    else:
        yield Parameter(name, value)


def _read_metadata(path: Path) -> Iterator[Item]:
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        yield LeftOut("details of the system", f"{path} cannot be read: {error}")
        return
    runtime, git = found.get("runtime") or {}, found.get("git") or {}
    names = {
        "hostname": "hostname",
        "os": "os",
        "pid": "pid",
        "command": "command",
        "executable": "python_executable",
        "pythonVersion": "python_version",
        "pythonVersionVerbose": "python_verbose",
    }
    body = {name: runtime[it] for name, it in names.items() if runtime.get(it)}
    if "command" in body:
        body["command"] = str(body["command"]).split()
    if body:
        yield Write("details of the system", "/write/experiment/system-details", body)
    if git.get("commit"):
        about = {"parent": git["commit"], "origin": git.get("remote_url") or "", "branch": git.get("branch") or ""}
        yield Write("commits", "/write/experiment/git/metadata", {"user": "", "root": "", **about})


def _read_begin(path: Path) -> Message:
    """What is said of the run at the beginning of the file."""
    for at, data in enumerate(FrameReader(path, _START).read()):
        if at > _FIRST_RECORDS:
            break
        if isinstance(data, bytes):
            try:
                found = inner(to_dict(data), _BEGIN)
            except (ValueError, TypeError):
                continue
            if found:
                return found[0]
    return {}
