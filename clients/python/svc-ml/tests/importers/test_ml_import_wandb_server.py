"""
Runs of a project on a server of W&B are read by the real `wandb`, from a server of the test's own: what its queries ask for is
answered in the fields that they name.
"""

from __future__ import annotations

import io
import json
import math
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from conftest import Service, eventually
from ml_imports import Importer, bits, commands_of, files, milliseconds, read_all
from ml_ledger import environment
from svc_ml.command import main

START = 1_700_000_000.25
PICTURE = b"\x89PNG of a zero"
DEFINED = [{"1": "epoch"}, {"2": "valid/*", "5": 1}]
FILES = {
    "config.yaml": b"rate: 0.1\n",
    "media/images/digit_7.png": PICTURE,
    "media/table/table_8.json": b'{"columns": ["a"], "data": [[1], [2]]}',
    "output.log": b"first line\nsecond line\n",
}


def rows_of_first(count: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"_step": step, "_timestamp": START + step, "_runtime": step, "loss": 1 / (step + 3), "nested": {"x": -step}}
        for step in range(count)
    ]
    for row in rows[9::10]:
        row |= {"epoch": row["_step"] // 10, "valid/loss": math.sin(row["_step"])}
    rows[5]["odd"], rows[6]["odd"] = "NaN", "-Infinity"
    rows[7]["digit"] = {"_type": "image-file", "path": "media/images/digit_7.png", "caption": "a zero"}
    rows[8]["table"] = {"_type": "table-file", "path": "media/table/table_8.json"}
    return rows


class Server(ThreadingHTTPServer):
    """What of W&B's server `wandb.Api` asks for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.unknown: list[str] = []
        self.state = "running"
        self.rows = rows_of_first(2_500)

    def answer(self, query: str, variables: dict[str, Any]) -> Any:
        name = re.search(r"query (\w+)", query)
        asked = name[1] if name else query
        if "viewer {" in query:
            teams: dict[str, Any] = {"edges": []}
            return {"viewer": {"id": "1", "entity": "me", "username": "me", "email": "", "flags": "{}", "teams": teams}}
        if asked == "ServerFeaturesQuery":
            return {"serverInfo": {"features": []}}
        if asked == "Runs":
            # One run a page.
            at = int(variables["cursor"] or 0)
            page = {"endCursor": str(at + 1), "hasNextPage": at == 0}
            node = self.run(["abc123", "def456"][at])
            runs = {"edges": [{"node": node, "cursor": str(at + 1)}], "pageInfo": page}
            return {"project": {"internalId": "7", "runCount": 2, "readOnly": False, "runs": runs}}
        answers = {
            "Run": lambda id: self.run(id),
            "RunHistoryKeys": lambda id: {"historyKeys": self.run(id)["historyKeys"]},
            "RunParquetHistory": self.history,
            "HistoryPage": lambda id: {"history": self.page(variables["minStep"], variables["maxStep"])},
            "RunFullHistory": lambda id: {"events": [json.dumps(it) for it in self.readings(id)]},
            "RunFiles": lambda id: self.files(id, variables["fileNames"], variables["fileCursor"]),
            "RunOutputArtifacts": lambda id: {"artifacts": self.artifacts()},
        }
        if asked not in answers:
            self.unknown.append(query)
            return {}
        id = variables.get("name") or variables.get("runName") or variables.get("run")
        return {"project": {"internalId": "7", "run": answers[asked](id)}}

    def run(self, id: str) -> dict[str, Any]:
        is_first = id == "abc123"
        config = {"rate": {"value": 0.1}, "layers": {"value": {"hidden": 3}}, "_wandb": {"value": {"m": DEFINED}}}
        last = self.rows[-1]["_step"] if is_first else 2**40
        names = ["loss", "nested.x", "epoch", "valid/loss", "odd", "digit", "table"] if is_first else ["loss"]
        return {
            "projectId": "7",
            "id": f"of {id}",
            "tags": ["one"] if is_first else [],
            "name": id,
            "displayName": "first" if is_first else "second",
            "sweepName": None,
            "state": self.state if is_first else "failed",
            "config": json.dumps(config if is_first else {}),
            "group": "some" if is_first else None,
            "jobType": None,
            "commit": None,
            "readOnly": False,
            "createdAt": "2023-11-14T22:13:20Z",
            "heartbeatAt": "2023-11-14T23:13:20Z",
            "description": None,
            "notes": "some notes" if is_first else None,
            "systemMetrics": "{}",
            "summaryMetrics": json.dumps({"loss": 0, "best": 0.25, "_step": last} if is_first else {}),
            "historyLineCount": len(self.rows),
            "user": {"name": "me", "username": "me"},
            "historyKeys": {"lastStep": last, "keys": {it: {"typeCounts": []} for it in names}},
        }

    def history(self, id: str) -> dict[str, Any]:
        if id == "abc123":
            return {"parquetHistory": {"parquetUrls": [], "liveData": [{"_step": it["_step"]} for it in self.rows]}}
        return {"parquetHistory": {"parquetUrls": [f"{self.url}/second.parquet"], "liveData": []}}

    def page(self, least: int, end: int) -> list[str]:
        return [json.dumps(it) for it in self.rows if least <= it["_step"] < end]

    def readings(self, id: str) -> list[dict[str, Any]]:
        return [{"system.cpu": 12.5, "_timestamp": START + 1, "_runtime": 1}] if id == "abc123" else []

    def files(self, id: str, names: list[str], cursor: str | None) -> dict[str, Any]:
        listed = [it for it in FILES if id == "abc123" and (not names or it in names)]
        edges = [
            {"cursor": str(at), "node": {
                "id": str(at), "name": it, "url": f"{self.url}/files/{it}", "directUrl": f"{self.url}/files/{it}",
                "sizeBytes": len(FILES[it]), "mimetype": "", "updatedAt": "2023-11-14T22:13:20", "md5": f"{at}",
            }}
            for at, it in enumerate(listed)
        ]  # fmt: skip
        pages = {"endCursor": None, "hasNextPage": False}
        return {"fileCount": len(listed), "files": {"edges": edges if not cursor else [], "pageInfo": pages}}

    def artifacts(self) -> dict[str, Any]:
        return {"totalCount": 0, "pageInfo": {"endCursor": None, "hasNextPage": False}, "edges": []}


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path != "/graphql":
            return self._reply(b"{}")
        asked = json.loads(body)
        data = self.server.answer(asked["query"], asked.get("variables") or {})
        self._reply(json.dumps({"data": data}).encode())

    def do_GET(self) -> None:
        if self.path == "/second.parquet":
            steps = [0, 1, 2**40]
            file = io.BytesIO()
            columns = {"_step": steps, "_timestamp": [START, START + 1, START + 2], "loss": [0.5, math.nan, 1e-300]}
            pyarrow.parquet.write_table(pyarrow.table(columns), file)
            return self._reply(file.getvalue())
        self._reply(FILES[self.path[len("/files/") :]])

    def _reply(self, data: bytes) -> None:
        start, end = 0, len(data)
        wanted = re.match(r"bytes=(\d*)-(\d*)", self.headers.get("range") or "")
        if wanted:
            start, end = (int(wanted[1]), int(wanted[2] or end - 1) + 1) if wanted[1] else (end - int(wanted[2]), end)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("content-range", f"bytes {start}-{end - 1}/{len(data)}")
        self.send_header("accept-ranges", "bytes")
        self.send_header("content-length", str(end - start))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[start:end])

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        variables = {"WANDB_BASE_URL": found.url, "WANDB_API_KEY": "k" * 40, "WANDB_SILENT": "true"}
        for name in ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
            variables[name] = str(tmp_path / "wandb")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield found
        found.shutdown()


@pytest.fixture
def importer(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Importer:
    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    return Importer(service, capsys)


def expected_points(rows: list[dict[str, Any]]) -> list[tuple[str, int, int, str]]:
    found = []
    for row in rows:
        named = {**row, "nested.x": row["nested"]["x"]}
        for name in ("loss", "nested.x", "epoch", "valid/loss", "odd"):
            if name in named:
                found.append((name, row["_step"], round(row["_timestamp"] * 1000), bits(float(named[name]))))
    return found


def test_all_rows_files_and_descriptions_come_once_also_of_a_run_that_grows(
    importer: Importer, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def look() -> bool:
        run = importer.runs()["first"]
        found = [(name, step, ms, value) for name, _, step, ms, value in read_all(run)]
        assert sorted(found) == sorted(expected_points(server.rows))
        return True

    whole = server.rows
    server.rows = whole[:1_200]
    importer.kill("wandb", "team/digits")
    first = importer.run("wandb", "team/digits")
    assert first["failed"] == [] == first["leftOut"]
    eventually(look)
    server.rows, server.state = whole, "finished"
    report = importer.run("wandb", "team/digits")
    eventually(look)
    assert importer.run("wandb", "team/digits")["taken"] == report["taken"]
    eventually(look)
    assert server.unknown == []

    run = importer.runs()["first"]
    assert run.state == "finished" and run.params == {"rate": 0.1, "layers|hidden": 3} and run.tags == ["one"]
    assert run.others == {"notes": "some notes", "group": "some", "best": 0.25, "x axis of valid/*": "epoch"}
    assert (milliseconds(run.start), milliseconds(run.end)) == (1_700_000_000_000, 1_700_003_600_000)
    found = files(run)
    assert found["image", "digit.png", 7] == PICTURE and found["asset", "config.yaml", None] == b"rate: 0.1\n"
    assert found["dataframe", "table.csv", 8].split() == [b"a", b"1", b"2"] and len(found) == 3
    assert list(run.output()["text"]) == ["first line", "second line"]
    assert run.system_metrics().rows()[0]["value"] == 12.5
    other = importer.runs()["second"]
    assert other.state == "crashed"
    assert [(it[2], it[4]) for it in read_all(other)] == [(0, bits(0.5)), (1, bits(math.nan)), (2**40, bits(1e-300))]

    [command] = commands_of("W&B from its server")
    monkeypatch.chdir(Path(importer.service.folder))
    assert main([*command, "--workers", "1"]) == 0 and "2 runs" in capsys.readouterr().out
