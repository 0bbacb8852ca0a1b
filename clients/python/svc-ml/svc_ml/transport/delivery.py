"""Turns a batch of records into requests. A batch keeps its id however often it is sent, and so does each request of it."""

from __future__ import annotations

import base64
import io
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from svc_ml.client.backoff import Backoff
from svc_ml.client.spool.log import Record
from svc_ml.fault import Faults, logger
from svc_ml.spool import arrow, record
from svc_ml.transport import artifact, registry
from svc_ml.transport.service import EXPERIMENT_EXISTS, Rejected, Service, Unavailable

_HURRY_SECONDS = 1.0
_UPLOAD_TIMEOUT_SECONDS = 600
_NAMES_TOLD = 5


class Interrupted(Exception):
    """The wait for the service was broken off; the batch is still to be sent."""


class Progress:
    """What became of records, for the summary at the end and for whoever waits. Counted by one thread each."""

    def __init__(self) -> None:
        self.sent_points = 0
        self.sent_records = 0
        self.rejected = 0
        self.throttled_points = 0
        self.moved_at = time.monotonic()
        """When the service last did something for us, or said when it will."""

    def moved(self, seconds_ahead: float = 0) -> None:
        self.moved_at = max(self.moved_at, time.monotonic() + seconds_ahead)


class Registration:
    """Makes the experiment before anything is sent to it, once per process."""

    def __init__(self, experiment_key: str, create: dict[str, Any] | None, may_exist: bool) -> None:
        """may_exist: an experiment of this key is gone on with; else it is somebody else's, and refused."""
        self.may_exist = may_exist
        self.experiment_key = experiment_key
        self.create = create
        self.answer: dict[str, Any] = {}
        self._is_done = create is None
        self._lock = threading.Lock()

    def ensure(self, service: Service, timeout: float = 30) -> None:
        """Raises Rejected, Unavailable."""
        with self._lock:
            if self._is_done or self.create is None:
                return
            create = dict(self.create)
            if not create.get("workspaceName"):
                create["workspaceName"] = service.get("/account-details", {}, timeout)["defaultWorkspaceName"]
            body = json.dumps({**create, "experimentKey": self.experiment_key}).encode()
            try:
                self.answer = service.send("POST", "/write/experiment/create", body, timeout=timeout)
            except Rejected as error:
                if error.code != EXPERIMENT_EXISTS or not self.may_exist:
                    raise
            except Unavailable as error:
                # It may have been made all the same: then it is ours.
                self.may_exist = self.may_exist or not error.was_answered
                raise
            self._is_done = True


class Delivery:
    """Sends the batches of one spool. Not for several threads at once."""

    def __init__(
        self,
        service: Service,
        registration: Registration,
        *,
        folder: Path,
        context: str,
        faults: Faults,
        progress: Progress,
        stop: threading.Event,
        hurry: threading.Event,
        patience_seconds: float = math.inf,
        kept: str | None = None,
    ) -> None:
        """
        folder: paths of copies are relative to it.
        kept: where records are until the service has them, for messages; the folder, unless given.
        """
        self._service = service
        self._registration = registration
        self.folder = folder
        self._context = context
        self._faults = faults
        self._progress = progress
        self.stop = stop
        self.hurry = hurry
        self._patience_seconds = patience_seconds
        self._kept = kept or f"in {folder}"

    def deliver(self, records: list[Record], batch_id: str) -> None:
        """
        Returns when the service has taken, or refused for good, every record. Waits and repeats while it is away.

        Raises Rejected when the key, the workspace or the experiment is refused: nothing else would pass. Raises Interrupted
        when told to stop.
        """
        self._insist(lambda _: self._registration.ensure(self._service))
        for what, request in self._requests(records, batch_id):
            try:
                self._insist(request)
            except Rejected as error:
                if error.is_barred:
                    raise
                self._progress.rejected += 1
                self._faults.add(
                    f"The service refused {what}: {error}", data_affected=what, once=f"refused {error.code}"
                )
        self._progress.sent_records += len(records)

    def _requests(self, records: list[Record], batch_id: str) -> Iterator[tuple[str, Callable[[bool], Any]]]:
        """What is sent, and a call that sends it; its argument says that an earlier attempt may have come through."""
        key = json.dumps(self._registration.experiment_key)
        points = [it for it in records if it.kind in (record.POINTS, record.POINTS_ARROW)]
        if points:
            count = sum(it.entries for it in points)
            yield f"{count} points", lambda _: self._send_points(points, count, f"{batch_id}-points")
        lines = [it for it in records if it.kind == record.LINES]
        if lines:
            place = b'{"experimentKey":%s,"context":%s,"outputLines":[%s]}'
            text = place % (key.encode(), json.dumps(self._context).encode(), b",".join(it.payload for it in lines))
            yield (
                f"{sum(it.entries for it in lines)} lines of output",
                lambda _: self._post("/write/experiment/output", text, f"{batch_id}-lines"),
            )
        for index, it in enumerate(records):
            if it.kind in (record.POINTS, record.POINTS_ARROW, record.LINES):
                continue
            content = json.loads(it.payload)
            request_id = f"{batch_id}-{index}"
            if it.kind == record.CALL:
                yield _describe(content), self._to_call(content, request_id)
            elif it.kind == record.FILE:
                yield f"the file {content['query'].get('fileName', '')}", self._to_upload(content)
            elif it.kind == record.ARTIFACT:
                yield f"the artifact {content['name']}", self._to_artifact(content)
            else:
                yield f"the registered model {content['model']}", self._to_registration(content)

    def _send_points(self, points: list[Record], count: int, request_id: str) -> None:
        answer = self._post_points(points, request_id)
        self._progress.sent_points += int(answer.get("accepted", count))
        refused = int(answer.get("rejectedCount", 0))
        if refused:
            self._progress.rejected += refused
            told = answer["rejected"]
            names = _names_of_points(points, [it["index"] for it in told])
            named = ", ".join(repr(it[:60]) for it in names[:_NAMES_TOLD]) + (
                ", ..." if len(names) > _NAMES_TOLD else ""
            )
            message = f"The service refused {refused} of {count} points ({named}), the first because: {told[0]['msg']}"
            self._faults.add(message, data_affected=f"{refused} points", once="points refused")
        dropped = int(answer.get("throttled", 0))
        if dropped:
            self._progress.throttled_points += dropped
            message = f"The service dropped {dropped} of {count} points: the experiment has reached a limit by count."
            self._faults.add(message, data_affected=f"{dropped} points", once="points dropped")

    def _post_points(self, points: list[Record], request_id: str) -> dict[str, Any]:
        """To the service they are the same points in either form, so an attempt may follow one in the other."""
        path = "/write/experiment/metrics/batch"
        key = self._registration.experiment_key
        batches = record.to_arrow_batches(points) if self._service.takes_arrow else None
        if batches:
            headers = {"idempotency-key": request_id, "content-type": arrow.CONTENT_TYPE}
            try:
                return self._service.send("POST", path, arrow.to_stream(key, batches), headers=headers)
            except Rejected as error:
                if error.is_barred:
                    raise
                # An older service answers 415, and whatever stands before it something else.
                self._service.takes_arrow = False
        body = b'{"experimentKey":%s,"series":[%s]}' % (json.dumps(key).encode(), record.to_json_series(points))
        return self._post(path, body, request_id)

    def _post(self, path: str, body: bytes, request_id: str) -> dict[str, Any]:
        return self._service.send("POST", path, body, headers={"idempotency-key": request_id})

    def _to_call(self, content: dict[str, Any], request_id: str) -> Callable[[bool], Any]:
        fields = {"experimentKey": self._registration.experiment_key, **content["body"]}
        body = json.dumps(fields).encode()
        path = content["path"]

        def send(may_have_come: bool) -> None:
            if path == "/write/experiment/html" and may_have_come and self._has_html(fields):
                return
            self._service.send(content["method"], path, body, headers={"idempotency-key": request_id})

        return send

    def _has_html(self, fields: dict[str, Any]) -> bool:
        """HTML is appended, which is not the same when done twice: whether it came is looked up before a second attempt."""
        present = self._service.get("/experiment/html", {"experimentKey": fields["experimentKey"]}).get("html") or ""
        return bool(present.endswith(fields["html"]))

    def _to_upload(self, content: dict[str, Any]) -> Callable[[bool], Any]:
        query = {"experimentKey": self._registration.experiment_key, **content["query"]}
        return lambda _: self._upload(content["path"], content, query)

    def _to_artifact(self, content: dict[str, Any]) -> Callable[[bool], Any]:
        return lambda _: artifact.send_version(self._service, self._registration.experiment_key, content, self._upload)

    def _to_registration(self, content: dict[str, Any]) -> Callable[[bool], Any]:
        return lambda _: registry.register_version(self._service, self._registration.experiment_key, content)

    def _upload(self, call: str, source: dict[str, Any], query: dict[str, Any]) -> None:
        """source: has the path of a copy or of the file itself as `file`, or, where the disk took no copy, its `bytes`."""
        path = self.folder / source["file"]
        try:
            file: Any = io.BytesIO(base64.b64decode(source["bytes"])) if "bytes" in source else path.open("rb")
        except OSError as error:
            raise Rejected(f"it cannot be read ({error.strerror}): {path}", 0) from None
        with file:
            size = file.seek(0, io.SEEK_END)
            file.seek(0)
            headers = {"content-type": "application/octet-stream", "content-length": str(size)}
            body = _Watched(file, self._progress)
            self._service.send("POST", call, body, query=query, headers=headers, timeout=_UPLOAD_TIMEOUT_SECONDS)

    def _insist(self, request: Callable[[bool], Any]) -> None:
        """Repeats a request until it passes, and waits as long as the service asks for, at least."""
        backoff = Backoff()
        may_have_come = False
        is_away = False
        silent_since = time.monotonic()
        while True:
            try:
                request(may_have_come)
            except Unavailable as error:
                if error.was_answered:
                    silent_since = time.monotonic()
                elif time.monotonic() - silent_since > self._patience_seconds:
                    raise
                may_have_come = may_have_come or not error.was_answered
                if not is_away:
                    is_away = True
                    self._faults.add(
                        f"{error}: what is logged is kept {self._kept} and sent later.", once="unavailable"
                    )
                if error.was_answered:
                    self._progress.moved(error.retry_after_seconds or 0)
                self._wait(backoff.next(error.retry_after_seconds), was_asked=error.retry_after_seconds is not None)
                continue
            self._progress.moved()
            if is_away:
                self._faults.forget("unavailable")
                logger.info("%s takes what is logged again.", self._service.url)
            return

    def _wait(self, seconds: float, was_asked: bool) -> None:
        began = time.monotonic()
        until = began + seconds
        while time.monotonic() < until:
            if self.stop.wait(min(0.1, until - time.monotonic())):
                raise Interrupted
            if not was_asked and self.hurry.is_set() and time.monotonic() - began > _HURRY_SECONDS:
                return
        if self.stop.is_set():
            raise Interrupted


class _Watched:
    """A file that is being uploaded: each part that leaves is progress."""

    def __init__(self, file: Any, progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def read(self, size: int = -1) -> bytes:
        self._progress.moved()
        data: bytes = self._file.read(size)
        return data


def _names_of_points(points: list[Record], indexes: list[int]) -> list[str]:
    """The metrics to which points belong, each once. Points are numbered through all series of a request."""
    wanted, found, first = sorted(indexes), [], 0
    for it in chain.from_iterable(map(record.read_series, points)):
        following = first + len(it.values)
        if any(first <= index < following for index in wanted):
            found.append(it.name)
        first = following
    return list(dict.fromkeys(found))


def _describe(content: dict[str, Any]) -> str:
    body = content["body"]
    kind = content["path"].rsplit("/", 1)[-1]
    name = body.get("parameterName") or body.get("key")
    return f"the {kind} {str(name)[:60]!r}" if name else f"the {kind}"
