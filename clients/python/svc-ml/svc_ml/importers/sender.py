"""Sends one run of a source: each item becomes writes that may be repeated."""

from __future__ import annotations

import base64
import json
import queue
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Optional

from svc_ml.calls.values import to_text
from svc_ml.client.spool.log import Record
from svc_ml.fault import Faults
from svc_ml.importers import items
from svc_ml.importers.report import Report
from svc_ml.importers.series import split_by_steps
from svc_ml.spool import record
from svc_ml.spool.series import Series
from svc_ml.transport.delivery import Delivery, Progress, Registration
from svc_ml.transport.service import Service

_POINTS_AT_ONCE = 40_000
_LINES_AT_ONCE = 2_000
_THREADS = 2
_WAITING_MAX = 4

_Job = tuple[list[Record], str]
OnPoints = Callable[[int], None]


class Target(NamedTuple):
    """Where runs go. `service` is None when nothing is to be sent."""

    service: Optional[Service]
    workspace: str
    project: Optional[str]
    """Of all runs; None: that which the source names."""
    default_project: str
    patience_seconds: float


class RunSender:
    """
    Goes on with one run: `send` may be called again with what has come since. It travels between processes while nothing is sent.
    """

    def __init__(self, kind: str, run: items.SourceRun, target: Target) -> None:
        self.run = run
        self._project = target.project or run.project or target.default_project
        self.key = items.to_key("svc-ml import", kind, target.workspace, self._project, run.identity)
        self._counts: dict[tuple[str, str, str], int] = {}
        """How many points of a series have come, by stream, name and context."""
        self._is_counted = False
        self._tail: list[tuple[str, bool, Optional[int]]] = []
        self._tail_first = 0

    def send(self, target: Target, on_points: OnPoints) -> Report:
        """
        Reads what there is, sends it, and returns once the service has it.

        on_points: told how many more are on their way.

        Raises Rejected when nothing of it would pass, Unavailable, Interrupted, and what reading raises.
        """
        report = Report()
        create = {
            "workspaceName": target.workspace,
            "projectName": self._project,
            "experimentName": self.run.name[:1_000],
        }
        outbox = _Outbox(target, Registration(self.key, create, may_exist=True))
        state: items.State | None = None
        # In one write, and of values the last of each: threads that send keep no order.
        tags: list[str] = []
        values: dict[tuple[type, str], Any] = {}
        has_come = not self._is_counted
        try:
            with outbox:
                if has_come:
                    outbox.put([], "create")
                known = self._known_files(target, outbox)
                pending = _Pending(self._counts, outbox, report)
                for item in self.run.read():
                    has_come = True
                    if isinstance(item, items.Points):
                        pending.add(item)
                        on_points(len(item.values))
                    elif isinstance(item, items.State):
                        state = item
                    elif isinstance(item, items.LeftOut):
                        report.leave(item.what, item.why, item.count)
                    elif isinstance(item, items.Tag):
                        tags.append(item.name)
                    elif isinstance(item, (items.Parameter, items.Other)):
                        values[type(item), item.name] = item.value
                    else:
                        self._put(item, outbox, report, known)
                pending.flush()
                _put_values(values, outbox, report)
                if tags:
                    report.take("tags", len(tags))
                    outbox.put([_call("/write/experiment/tags", {"addedTags": tags})], "tags")
                outbox.wait()
                # Last: what is logged later would move an end that was not set.
                for path, body in _to_end(state) if has_come else ():
                    outbox.put([_call(path, body)], "end")
            if has_come and state is not None and state.is_running and target.service is not None:
                # It is shown as running for a while, as one whose process has told no end.
                target.service.get("/write/experiment/set-status", {"experimentKey": self.key})
        finally:
            outbox.tell(report)
        if not self._is_counted:
            self._is_counted = True
            report.take("runs")
            report.links.append(outbox.find_link())
        return report

    def _known_files(self, target: Target, outbox: _Outbox) -> set[str]:
        """Files that an earlier import has brought."""
        if target.service is None:
            return set()
        outbox.wait()
        query = {"experimentKey": self.key, "type": "all"}
        return {it["assetId"] for it in target.service.get("/experiment/asset/list", query)["assets"]}

    def _put(self, item: Any, outbox: _Outbox, report: Report, known: set[str]) -> None:
        if isinstance(item, items.Write):
            report.take(item.what)
            content = {"method": item.method, "path": item.path, "body": item.body}
            outbox.put([record.encode_json(record.CALL, content)], "call")
        elif isinstance(item, items.Lines):
            report.take("lines of output", len(item.lines))
            self._put_lines(item, outbox)
        elif isinstance(item, items.File):
            report.take("files")
            asset_id = items.to_key(self.key, "file", item.identity)
            if asset_id not in known and not outbox.is_dry:
                outbox.put([_to_upload(item, asset_id)], "file")
        elif isinstance(item, items.ArtifactVersion):
            report.take("versions of artifacts")
            outbox.put([_to_artifact(item, self.key)], "artifact")
        else:
            report.take("versions of registered models")
            # It is made of files that are on their way.
            outbox.wait()
            outbox.put([_to_registration(item)], "registration")

    def _put_lines(self, item: items.Lines, outbox: _Outbox) -> None:
        """Lines go in requests that begin at fixed places: one that was not full is sent again, with what has come since."""
        self._tail.extend(item.lines)
        while self._tail:
            part = self._tail[:_LINES_AT_ONCE]
            named = [
                {"output": text, "stderr": is_error, "localTimestamp": ms, "offset": self._tail_first + index}
                for index, (text, is_error, ms) in enumerate(part)
            ]
            given = [{name: value for name, value in it.items() if value is not None} for it in named]
            outbox.put([record.encode_lines(given)], f"import-{self.key}-{self._tail_first}")
            if len(part) < _LINES_AT_ONCE:
                return
            self._tail = self._tail[_LINES_AT_ONCE:]
            self._tail_first += _LINES_AT_ONCE


class _Pending:
    """Points that wait for others, so that requests are large."""

    def __init__(self, counts: dict[tuple[str, str, str], int], outbox: _Outbox, report: Report) -> None:
        self._counts = counts
        self._outbox = outbox
        self._report = report
        self._series: list[Series] = []
        self._stream = ""
        self._waiting = 0

    def add(self, points: items.Points) -> None:
        total = len(points.values)
        self._report.take("points", total)
        if points.equals_before is not None:
            for equals, first, part in split_by_steps(points):
                self._add(f"{points.stream}\0any order {equals}", part, first)
            return
        series = (points.stream, points.name, points.context)
        first = self._counts.get(series, 0)
        self._counts[series] = first + total
        self._add(points.stream, points, first)

    def _add(self, stream: str, points: items.Points, first_index: int) -> None:
        """stream: with the index of a point, its identity."""
        if stream != self._stream:
            self.flush()
            self._stream = stream
        total = len(points.values)
        for at in range(0, total, _POINTS_AT_ONCE):
            part = points.part(range(at, min(total, at + _POINTS_AT_ONCE)))
            count = len(part.values)
            if self._waiting and self._waiting + count > _POINTS_AT_ONCE:
                self.flush()
            columns = (part.values, part.steps, part.epochs, part.timestamps)
            self._series.append(Series(part.name, part.context, *columns, first_index=first_index + at))
            self._waiting += count

    def flush(self) -> None:
        if self._series:
            self._outbox.put([record.encode_series(self._series)], f"import-{items.to_key(self._stream)}")
        self._series, self._waiting = [], 0


class _Outbox:
    """Threads that send, so that reading goes on meanwhile. Without a service all is thrown away."""

    def __init__(self, target: Target, registration: Registration) -> None:
        self._target = target
        self._registration = registration
        self._jobs: queue.Queue[Optional[_Job]] = queue.Queue(_WAITING_MAX)
        self._faults = Faults()
        self._progresses = [Progress() for _ in range(_THREADS)]
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []

    def find_link(self) -> str:
        """The page of the experiment; its key when nothing is sent."""
        key, service = self._registration.experiment_key, self._target.service
        if service is None:
            return key
        found = self._registration.answer or service.get("/experiment/metadata", {"experimentKey": key})
        return str(found.get("link", key))

    @property
    def is_dry(self) -> bool:
        return self._target.service is None

    def put(self, records: list[Record], batch_id: str) -> None:
        if self._target.service is None:
            return
        while self._error is None:
            try:
                self._jobs.put((records, batch_id), timeout=0.2)
                return
            except queue.Full:
                continue
        raise self._error

    def wait(self) -> None:
        """Until the service has what was put."""
        self._jobs.join()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> _Outbox:
        if self._target.service is not None:
            for progress in self._progresses:
                thread = threading.Thread(target=self._send, args=(self._target.service, progress), daemon=True)
                thread.start()
                self._threads.append(thread)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            self._error = self._error or error
            self._stop.set()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        if error is None and self._error is not None:
            raise self._error

    def tell(self, report: Report) -> None:
        for progress in self._progresses:
            if progress.throttled_points:
                report.leave("points", "the experiment has reached a limit by count", progress.throttled_points)
        report.failed.extend(it["message"] for it in self._faults.read(clear=True) if it.get("data_affected"))

    def _send(self, service: Service, progress: Progress) -> None:
        delivery = Delivery(
            service,
            self._registration,
            folder=Path(),
            context="",
            faults=self._faults,
            progress=progress,
            stop=self._stop,
            hurry=threading.Event(),
            patience_seconds=self._target.patience_seconds,
            kept="in the source",
        )
        while True:
            job = self._jobs.get()
            try:
                if job is None:
                    return
                # After an error what waits is taken off the queue, so that nobody waits for it.
                if self._error is None:
                    delivery.deliver(*job)
                    for it in job[0]:
                        if it.kind == record.FILE:
                            record.delete_copies(delivery.folder, it)
            except BaseException as error:
                self._error = self._error or error
            finally:
                self._jobs.task_done()


def _put_values(values: dict[tuple[type, str], Any], outbox: _Outbox, report: Report) -> None:
    for (kind, name), value in values.items():
        if kind is items.Parameter:
            report.take("parameters")
            body = {"parameterName": name, "parameterValue": to_text(value)}
            outbox.put([_call("/write/experiment/parameter", body)], "parameter")
        else:
            report.take("others")
            outbox.put([_call("/write/experiment/log-other", {"key": name, "value": to_text(value)})], "other")


def _call(path: str, body: dict[str, Any]) -> Record:
    return record.encode_json(record.CALL, {"method": "POST", "path": path, "body": body})


def _to_end(state: items.State | None) -> Iterable[tuple[str, dict[str, Any]]]:
    if state is None:
        return
    times = {"startTimeMillis": state.start_ms, "endTimeMillis": None if state.is_running else state.end_ms}
    given = {name: value for name, value in times.items() if value is not None}
    if not state.is_running:
        status: dict[str, Any] = {"isAlive": False, "hasCrashed": state.error is not None}
        if state.error is not None:
            status["error"] = state.error[:10_000]
        yield "/write/experiment/update-status", status
    if given:
        yield "/write/experiment/set-start-end-time", given


def _to_upload(item: items.File, asset_id: str) -> Record:
    query = {
        "fileName": item.name,
        "type": item.type,
        "step": item.step,
        "context": item.context or None,
        "metadata": None if item.metadata is None else json.dumps(dict(item.metadata), default=str),
        "groupingName": item.model,
        "assetId": asset_id,
    }
    is_temporary = isinstance(item.data, items.Download)
    data = item.data.fetch() if isinstance(item.data, items.Download) else item.data
    content: dict[str, Any] = {
        "path": "/write/experiment/upload-asset",
        "query": {name: value for name, value in query.items() if value is not None},
        "file": str(data) if isinstance(data, Path) else asset_id,
        "is_copy": is_temporary,
    }
    if isinstance(data, bytes):
        content["bytes"] = base64.b64encode(data).decode()
    return record.encode_json(record.FILE, content)


def _to_artifact(item: items.ArtifactVersion, experiment_key: str) -> Record:
    mark = items.to_key(experiment_key, "artifact", item.identity)
    content = {
        "name": item.name,
        "version": item.version,
        "type": item.type,
        "aliases": item.aliases,
        "metadata": item.metadata,
        "mark": mark,
        "files": [
            {"file": str(path), "name": name, "asset_id": items.to_key(mark, name), "is_copy": False}
            for name, path in item.files.items()
        ],
    }
    return record.encode_json(record.ARTIFACT, content)


def _to_registration(item: items.RegisteredVersion) -> Record:
    content = {
        "experiment_model": item.experiment_model,
        "model": item.model,
        "version": item.version,
        "comment": item.comment,
        "stages": item.stages,
        "status": None,
        "description": item.description,
        "is_public": None,
    }
    return record.encode_json(record.REGISTRATION, content)
