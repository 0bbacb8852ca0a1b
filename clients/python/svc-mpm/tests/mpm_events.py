"""What the tests of the monitoring logger share: loggers for a service, and what the service has stored."""

from __future__ import annotations

import http.server
import json
import os
import threading
import urllib.error
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from conftest import Service, eventually
from svc_mpm import SvcMPM


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def environment(service: Service, **more: str) -> dict[str, str]:
    return {"SVC_URL": service.url, "SVC_API_KEY": service.api_key, **more}


@contextmanager
def environment_of(service: Service, **more: str) -> Iterator[None]:
    with mock.patch.dict(os.environ, environment(service, **more)):
        yield


@contextmanager
def open_logger(
    service: Service, model_name: str, settings: dict[str, str] | None = None, **given: Any
) -> Iterator[SvcMPM]:
    """A logger that is ended."""
    with environment_of(service, **(settings or {})):
        mpm = SvcMPM(model_name=model_name, **{"workspace_name": service.workspace, **given})
    try:
        yield mpm
    finally:
        mpm.end(0)


def read_event(service: Service, model_name: str, prediction_id: str, **more: str) -> dict[str, Any]:
    """An event as it is stored: features, prediction and labels as dictionaries of (type, value)."""
    query = {"workspaceName": service.workspace, "modelName": model_name, "predictionId": prediction_id, **more}
    try:
        event = service.get(f"/mpm/v2/event?{urllib.parse.urlencode(query)}")
    except urllib.error.HTTPError as error:
        raise LookupError(f"{prediction_id}: {error.read().decode()}") from None
    for part in ("features", "prediction", "labels"):
        event[part] = {it["name"]: (it["type"], it["value"]) for it in event[part]}
    return dict(event)


def expect_event(service: Service, model_name: str, prediction_id: str, **want: Any) -> None:
    """Waits until it is stored like this. Its values may be readable a moment after the event itself."""

    def look() -> bool:
        event = read_event(service, model_name, prediction_id)
        assert {name: event[name] for name in want} == want
        return True

    eventually(look)


def expect_counts(service: Service, model_name: str, seconds: float = 30, **want: int) -> None:
    """Waits until so many `events`, `labels`, `trainingEvents` are stored, and none of the kinds that are not given."""
    counts = {"events": 0, "labels": 0, "trainingEvents": 0, **want}

    def look() -> bool:
        assert count_events(service, model_name) == counts
        return True

    eventually(look, seconds)


def count_events(service: Service, model_name: str) -> dict[str, int]:
    """Stored events, labels and training events of a model, of all its versions."""
    query = urllib.parse.urlencode({"workspaceName": service.workspace, "modelName": model_name})
    models = service.get(f"/mpm/v2/models?{query}")["models"]
    kinds = ("events", "labels", "trainingEvents")
    return {kind: sum(version[kind] for it in models for version in it["versions"]) for kind in kinds}


class Ledger:
    """What was logged, and so what has to be there: each event once, with what it held."""

    def __init__(self, service: Service, model_name: str) -> None:
        self.service = service
        self.model_name = model_name
        self.events: dict[str, dict[str, Any]] = {}

    def log(self, mpm: SvcMPM, count: int) -> None:
        for _ in range(count):
            mpm.log_event(**self.add())

    def add(self) -> dict[str, Any]:
        number = len(self.events)
        event = {
            "prediction_id": unique("prediction"),
            "input_features": {"number": number, "half": number + 0.5, "text": f"text {number}"},
            "output_features": {"value": number % 3},
            "labels": {"value": number % 2 == 0},
            "timestamp": 1_700_000_000 + number / 1000,
        }
        self.events[event["prediction_id"]] = event
        return event

    def expect_stored(self, seconds: float = 60, sample: int = 100) -> None:
        """All of them by number, and a sample of them, spread over all, by content."""
        count = len(self.events)
        expect_counts(self.service, self.model_name, seconds, events=count, labels=count)
        for event in list(self.events.values())[:: max(1, count // sample)]:
            number = event["input_features"]["number"]
            expect_event(
                self.service,
                self.model_name,
                event["prediction_id"],
                features={
                    "number": ("integer", number),
                    "half": ("float", number + 0.5),
                    "text": ("string", f"text {number}"),
                },
                prediction={"value": ("integer", number % 3)},
                labels={"value": ("boolean", number % 2 == 0)},
                timestamp=1_700_000_000_000 + number,
            )


@contextmanager
def in_between(service: Service, spoil: Any) -> Iterator[Service]:
    """The service behind a proxy that may spoil the answer to each POST: `spoil(count, status, body)`."""
    posts = 0

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, json.dumps(service.get(self.path)).encode())

        def do_POST(self) -> None:
            nonlocal posts
            posts += 1
            body = self.rfile.read(int(self.headers["content-length"]))
            self._answer(*spoil(posts, body, lambda: json.dumps(service.post(self.path, json.loads(body))).encode()))

        def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            if status == 0:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    behind = Service.__new__(Service)
    behind.__dict__.update(service.__dict__, url=f"http://127.0.0.1:{server.server_port}")
    try:
        yield behind
    finally:
        server.shutdown()
        server.server_close()


def messages(mpm: SvcMPM) -> str:
    return "\n".join(it["message"] for it in mpm.get_logging_errors(clear=False))
