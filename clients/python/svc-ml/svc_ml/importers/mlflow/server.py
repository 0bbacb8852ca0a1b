"""
A server of MLflow, by its REST interface: every list in all its pages. `MLFLOW_TRACKING_TOKEN`, or `MLFLOW_TRACKING_USERNAME` and
`_PASSWORD`, are sent as `mlflow` does.
"""

from __future__ import annotations

import json
import os
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Optional
from urllib.parse import quote

import urllib3

from svc_ml.fault import SvcError
from svc_ml.importers.items import Download, LeftOut, Points
from svc_ml.importers.mlflow.records import Artifact, Cursor, LoggedModel, ModelVersion, RunRecord

_ROOT = "/api/2.0/mlflow"
_RUNS_AT_ONCE = 1_000
_POINTS_AT_ONCE = 25_000
_VERSIONS_AT_ONCE = 1_000
_CHUNK_BYTES = 1024 * 1024
_NOT_FOUND = 404
_TIMEOUT = urllib3.Timeout(connect=10, read=120)


class _Unknown(SvcError):
    """The server has no such route, or nothing of that name."""


class ServerStore:
    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._deleted = 0
        self._pool: Optional[urllib3.PoolManager] = None
        self._read: dict[str, dict[str, Any]] = {}
        """What was fetched of the run that is being read, by its id."""

    def __getstate__(self) -> dict[str, Any]:
        # Connections do not travel to other processes.
        return {**self.__dict__, "_pool": None}

    def runs(self) -> Iterable[RunRecord]:
        self._deleted = 0
        found = []
        for experiment in self._post("experiments/search", "experiments", {"max_results": _RUNS_AT_ONCE}):
            asked = {"experiment_ids": [experiment["experiment_id"]], "max_results": _RUNS_AT_ONCE}
            self._deleted += len(list(self._post("runs/search", "runs", {**asked, "run_view_type": "DELETED_ONLY"})))
            for run in self._post("runs/search", "runs", {**asked, "run_view_type": "ACTIVE_ONLY"}):
                found.append(_to_record(run["info"], experiment["name"]))
        return found

    def left_out(self) -> list[LeftOut]:
        return [LeftOut("runs", "they are deleted in MLflow", self._deleted)] if self._deleted else []

    def parameters(self, run: RunRecord) -> dict[str, str]:
        # The first that is asked of a run.
        self._read = {}
        return _to_pairs(self._data(run).get("params", []))

    def tags(self, run: RunRecord) -> dict[str, str]:
        return _to_pairs(self._data(run).get("tags", []))

    def points(self, run: RunRecord, cursor: Cursor) -> Iterator[Points]:
        for key in sorted(it["key"] for it in self._data(run).get("metrics", [])):
            # In the order of their times, so one of an earlier time comes in between.
            values, steps, times = array("d"), array("q"), array("q")
            asked = {"run_id": run.id, "metric_key": key, "max_results": _POINTS_AT_ONCE}
            for page in self._pages(f"metrics/get-history?{_to_query(asked)}", None):
                listed = page.get("metrics", [])
                values.extend(float(it["value"]) for it in listed)
                steps.extend(int(it.get("step", 0)) for it in listed)
                times.extend(int(it["timestamp"]) for it in listed)
            whole = Points(run.id, key, "", values.tolist(), list(steps), list(times))
            new = cursor.series.find_new(whole)
            if new is not None:
                yield new

    def models(self, run: RunRecord) -> list[LoggedModel]:
        asked = {"experiment_ids": [self._run(run)["info"]["experiment_id"]], "filter": f"source_run_id = '{run.id}'"}
        try:
            listed = [it["info"] for it in self._post("logged-models/search", "models", asked)]
        except _Unknown:
            # Before version 3 there are none.
            return []
        return [LoggedModel(it["model_id"], it["name"], it.get("artifact_uri", "")) for it in listed]

    def versions(self, run: RunRecord) -> list[ModelVersion]:
        query = _to_query({"filter": f"run_id = '{run.id}'", "max_results": _VERSIONS_AT_ONCE})
        found = []
        for page in self._pages(f"model-versions/search?{query}", None):
            for it in page.get("model_versions", []):
                model = self._ask("GET", f"{_ROOT}/registered-models/get?{_to_query({'name': it['name']})}")
                about = model["registered_model"]
                aliases = [
                    its["alias"] for its in about.get("aliases", []) if str(its["version"]) == str(it["version"])
                ]
                stages = [its for its in (it.get("current_stage"),) if its and its != "None"]
                described = it.get("description", ""), about.get("description", "")
                found.append(
                    ModelVersion(it["name"], str(it["version"]), *described, it.get("source", ""), (*stages, *aliases))
                )
        return found

    def artifacts(self, run: RunRecord) -> Optional[list[Artifact]]:
        def to_address(path: str) -> str:
            return f"{self._url}/get-artifact?{_to_query({'path': path, 'run_uuid': run.id})}"

        return list(self._list("artifacts/list", {"run_id": run.id}, "path", to_address, ""))

    def model_artifacts(self, model: LoggedModel) -> Optional[list[Artifact]]:
        root = f"logged-models/{model.id}/artifacts"

        def to_address(path: str) -> str:
            # The one route that is not below /api.
            return f"{self._url}/ajax-api/2.0/mlflow/{root}/files?{_to_query({'artifact_file_path': path})}"

        return list(self._list(f"{root}/directories", {}, "artifact_directory_path", to_address, ""))

    def within(self, run: RunRecord, source: str) -> Optional[str]:
        _, found, path = source.partition(f"/{run.id}/artifacts/")
        return path.rstrip("/") if found else None

    def _list(
        self, call: str, asked: dict[str, str], parameter: str, to_address: Callable[[str], str], folder: str
    ) -> Iterator[Artifact]:
        """parameter: names the folder that is listed."""
        for page in self._pages(f"{call}?{_to_query({**asked, **({parameter: folder} if folder else {})})}", None):
            for it in page.get("files", []):
                if it.get("is_dir"):
                    yield from self._list(call, asked, parameter, to_address, it["path"])
                else:
                    yield Artifact(it["path"], _ServerFile(to_address(it["path"])), str(it.get("file_size", "")))

    def _data(self, run: RunRecord) -> dict[str, Any]:
        found: dict[str, Any] = self._run(run)["data"]
        return found

    def _run(self, run: RunRecord) -> dict[str, Any]:
        if run.id not in self._read:
            self._read = {run.id: self._ask("GET", f"{_ROOT}/runs/get?{_to_query({'run_id': run.id})}")["run"]}
        return self._read[run.id]

    def _post(self, call: str, field: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for page in self._pages(call, body):
            yield from page.get(field, [])

    def _pages(self, call: str, body: Optional[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        token = ""
        while True:
            if body is not None:
                page = self._ask("POST", f"{_ROOT}/{call}", {**body, **({"page_token": token} if token else {})})
            else:
                page = self._ask("GET", f"{_ROOT}/{call}" + (f"&page_token={quote(token, safe='')}" if token else ""))
            yield page
            token = page.get("next_page_token") or ""
            if not token:
                return

    def _open_pool(self) -> urllib3.PoolManager:
        if self._pool is None:
            self._pool = urllib3.PoolManager()
        return self._pool

    def _ask(self, method: str, path: str, body: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        try:
            answer = self._open_pool().request(
                method, self._url + path, json=body, headers=_find_credentials(), timeout=_TIMEOUT, retries=3
            )
        except urllib3.exceptions.HTTPError as error:
            raise SvcError(f"MLflow cannot be reached at {self._url}: {error}") from None
        try:
            found: dict[str, Any] = json.loads(answer.data)
        except ValueError:
            found = {}
        if answer.status != 200:
            told = found.get("message") or f"HTTP {answer.status}"
            kind = _Unknown if answer.status == _NOT_FOUND else SvcError
            raise kind(f"MLflow at {self._url} refused {path.split('?')[0]}: {told}")
        return found


class _ServerFile(Download):
    def __init__(self, address: str) -> None:
        self._address = address

    def fetch(self) -> Path:
        answer = urllib3.PoolManager().request(
            "GET", self._address, headers=_find_credentials(), timeout=_TIMEOUT, retries=3, preload_content=False
        )
        if answer.status != 200:
            raise SvcError(f"MLflow answered {self._address} with HTTP {answer.status}.")
        with tempfile.NamedTemporaryFile(prefix="svc-import-", delete=False) as file:
            for part in answer.stream(_CHUNK_BYTES):
                file.write(part)
        return Path(file.name)

    def __repr__(self) -> str:
        return self._address


def _find_credentials() -> dict[str, str]:
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    if token:
        return {"authorization": f"Bearer {token}"}
    user, password = (os.environ.get(f"MLFLOW_TRACKING_{it}") for it in ("USERNAME", "PASSWORD"))
    return urllib3.make_headers(basic_auth=f"{user}:{password}") if user and password else {}


def _to_record(info: dict[str, Any], experiment: str) -> RunRecord:
    start, end = (int(info[it]) if info.get(it) else None for it in ("start_time", "end_time"))
    return RunRecord(
        info["run_id"], info.get("run_name", ""), experiment, info["status"], start, end, info.get("artifact_uri", "")
    )


def _to_pairs(listed: list[dict[str, str]]) -> dict[str, str]:
    return {it["key"]: it.get("value", "") for it in listed}


def _to_query(given: dict[str, Any]) -> str:
    return "&".join(f"{name}={quote(str(value), safe='')}" for name, value in given.items())
