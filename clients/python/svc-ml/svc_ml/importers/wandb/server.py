"""Runs of a project on a server of W&B, by the user's own `wandb` and its settings."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Optional, Union

from svc_ml.fault import SvcError
from svc_ml.importers.items import (
    Download,
    File,
    Item,
    LeftOut,
    Lines,
    Other,
    Points,
    Source,
    SourceRun,
    State,
    Tag,
)
from svc_ml.importers.wandb.history import OWN_NAMES, flatten
from svc_ml.importers.wandb.run import AXES, AXIS_OF, to_parameters
from svc_ml.importers.wandb.values import to_items, to_number

_ROWS_AT_ONCE = 20_000
_PAGE_ROWS = 1_000
_PAGES_MAX = 2_000
"""A page is a range of steps, which may be far apart."""
_READINGS_MAX = 10_000
_SYSTEM = "system."
_OUTPUT = "output.log"
_MEDIA = "media/"
_RUNNING = frozenset(["running", "pending", "preempting"])
_ENDED_BADLY = frozenset(["failed", "crashed", "killed", "preempted"])
_DESCRIBED = {"notes": "notes", "group": "group", "jobType": "job_type", "sweepName": "sweep"}
# Of a metric that was defined: its name or pattern, and its axis by name or by its number among all, from 1.
_NAME, _PATTERN, _AXIS, _AXIS_NUMBER = "1", "2", "4", "5"


class WandbServerSource(Source):
    kind = "wandb"

    def __init__(self, path: str) -> None:
        """path: `ENTITY/PROJECT`, or `ENTITY/PROJECT/RUN`."""
        self._path = path

    def runs(self) -> Iterable[SourceRun]:
        entity, project, *run = self._path.split("/")
        with _told(f"there is no folder {self._path}, and as a project of W&B"):
            api = _open_api()
            listed = [api.run(self._path)] if run else list(api.runs(f"{entity}/{project}", per_page=500))
            found = [WandbServerRun(f"{entity}/{project}/{it.id}", it.name or it.id) for it in listed]
        if not found:
            raise SvcError(f"{self._path}: there are no runs of W&B in it, or none that your key may see.")
        return found


class WandbServerRun(SourceRun):
    def __init__(self, path: str, name: str) -> None:
        self.identity = path
        self.name = name
        self.project = path.split("/")[1]
        self._next_step = 0
        self._next_reading = -1.0
        self._has_files = False
        self._told: set[str] = set()
        """What was yielded before: values and files."""

    def read(self) -> Iterator[Item]:
        with _told():
            for item in self._read_all():
                if not isinstance(item, (Points, Lines)):
                    # When it is read again, only what has changed since.
                    shown = item.identity if isinstance(item, File) else repr(item)
                    if shown in self._told:
                        continue
                    self._told.add(shown)
                yield item

    def _read_all(self) -> Iterator[Item]:
        run = _open_api().run(self.identity)
        about = run._attrs
        yield from map(Tag, run.tags or ())
        for field, name in _DESCRIBED.items():
            if about.get(field):
                yield Other(name, about[field])
        config = about.get("rawconfig") or {}
        for name, value in config.items():
            if name not in ("_wandb", "wandb_version"):
                yield from to_parameters(name, value)
        yield from _read_axes((config.get("_wandb") or {}).get("m") or [])
        files = {it.name: it for it in run.files(per_page=1_000)}
        yield from self._read_history(run, files)
        yield from self._read_readings(run)
        logged = set((about.get("historyKeys") or {}).get("keys") or {})
        for name, value in (about.get("summaryMetrics") or {}).items():
            if not name.startswith("_") and name not in logged and not any(it.startswith(f"{name}.") for it in logged):
                yield Other(name, value if isinstance(value, str) else json.dumps(value))
        is_running = run.state in _RUNNING
        if not is_running and not self._has_files:
            self._has_files = True
            yield from _read_files(files)
        for it in run.logged_artifacts():
            yield LeftOut("versions of artifacts", f"{it.type} {it.name}, {it.size:,} bytes: download it with wandb")
        error = run.state if run.state in _ENDED_BADLY else None
        end_ms = None if is_running else _read_time(about.get("heartbeatAt"))
        yield State(_read_time(about.get("createdAt")), end_ms, is_running, error)

    def _read_history(self, run: Any, files: Mapping[str, Any]) -> Iterator[Item]:
        """Every row, none sampled. A row has one value of a metric, and a step of its own."""

        def find(path: str) -> Optional[Download]:
            return _ServerFile(files[path]) if path in files else None

        last = run.lastHistoryStep
        page = max(_PAGE_ROWS, (last + 1 - self._next_step) // _PAGES_MAX)
        series: dict[str, Points] = {}
        rows = 0
        for row in run.scan_history(page_size=page, min_step=self._next_step, use_cache=False):
            step = int(row.get("_step", 0))
            seconds = to_number(row.get("_timestamp"))
            for name, value in flatten(row):
                if name.split(".", 1)[0] in OWN_NAMES:
                    continue
                number = to_number(value)
                if number is None:
                    yield from to_items(name, value, step, find)
                else:
                    _add(series, "history", name, number, step, seconds)
            rows += 1
            if rows % _ROWS_AT_ONCE == 0:
                yield from series.values()
                series = {}
        yield from series.values()
        self._next_step = last + 1

    def _read_readings(self, run: Any) -> Iterator[Item]:
        """The use of the machine, of which the interface of W&B gives no more than a number of readings."""
        readings = run.history(samples=_READINGS_MAX, stream="system", pandas=False)
        if len(readings) >= _READINGS_MAX:
            yield LeftOut("readings of the machine", f"of more than {_READINGS_MAX:,} the server of W&B gives a sample")
        series: dict[str, Points] = {}
        newest = self._next_reading
        for row in readings:
            seconds = to_number(row.get("_timestamp"))
            if seconds is None or seconds <= self._next_reading:
                continue
            newest = max(newest, seconds)
            for name, value in flatten(row):
                number = to_number(value)
                if number is not None and name not in OWN_NAMES:
                    shown = name[len(_SYSTEM) :] if name.startswith(_SYSTEM) else name
                    _add(series, "system", f"sys.{shown}", number, None, seconds)
        yield from series.values()
        self._next_reading = newest


class _ServerFile(Download):
    def __init__(self, file: Any) -> None:
        self._file = file

    def fetch(self) -> Path:
        with _told(), tempfile.TemporaryDirectory(prefix="svc-import-") as folder:
            with self._file.download(root=folder, replace=True) as opened:
                data = Path(opened.name)
            with tempfile.NamedTemporaryFile(prefix="svc-import-", delete=False) as kept:
                pass
            return data.replace(kept.name)


def _add(
    series: dict[str, Points], stream: str, name: str, value: float, step: Optional[int], seconds: Optional[float]
) -> None:
    points = series.get(name)
    if points is None:
        points = series[name] = Points(stream, name, "", [], [], [], equals_before=[])
    points.values.append(value)
    if points.steps is not None and points.timestamps is not None and points.equals_before is not None:
        points.steps.append(step)
        points.timestamps.append(None if seconds is None else round(seconds * 1000))
        points.equals_before.append(0)


def _read_axes(defined: list[Mapping[str, Any]]) -> Iterator[Item]:
    for it in defined:
        number = it.get(_AXIS_NUMBER)
        axis = it.get(_AXIS) or (defined[number - 1].get(_NAME) if number else None)
        name = it.get(_NAME) or it.get(_PATTERN)
        if name and axis:
            yield Other(f"{AXIS_OF}{name}", AXES.get(axis, axis))


def _read_files(files: Mapping[str, Any]) -> Iterator[Item]:
    """Those that the run has saved; media are named by the history."""
    for name, file in files.items():
        if name == _OUTPUT:
            path = _ServerFile(file).fetch()
            yield Lines([(it, False, None) for it in path.read_text(encoding="utf-8", errors="replace").splitlines()])
            path.unlink()
        elif not name.startswith(_MEDIA):
            yield File(f"saved\0{name}\0{file.md5}", name, _ServerFile(file))


def _read_time(text: Union[str, None]) -> Optional[int]:
    if not text:
        return None
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round((found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp() * 1000)


def _open_api() -> Any:
    try:
        import wandb
    except ImportError:
        raise SvcError("runs on a server of W&B are read with its own package: pip install wandb") from None
    return wandb.Api()


@contextmanager
def _told(before: str = "W&B") -> Iterator[None]:
    """What `wandb` raises, as errors of ours."""
    try:
        yield
    except SvcError:
        raise
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("wandb", "requests") and not isinstance(error, ValueError):
            raise
        raise SvcError(f"{before}: {error}") from None
