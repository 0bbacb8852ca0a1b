"""What `mlflow` has written into a database and a folder is read by `svc-ml import mlflow`, value for value."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Service, eventually
from ml_imports import Importer, Point, bits, commands_of, eventually_points, files, milliseconds
from ml_ledger import environment, run_script
from svc_ml.command import main

START = 1_700_000_000_123
ODD = (math.nan, -0.0, 5e-324, -1.5)

SCRIPT = """
    import math, sys
    from pathlib import Path
    import mlflow
    from mlflow.entities import Metric

    def write(uri, model):
        mlflow.set_tracking_uri(uri)
        client = mlflow.MlflowClient()
        experiment = client.create_experiment("digits: some")
        run = client.create_run(experiment, run_name="first", start_time=START, tags={"team": "a", "mlflow.note.content": "a note"})
        id = run.info.run_id
        client.log_param(id, "rate", 0.1)
        client.log_param(id, "name", "two\\nlines")
        client.log_batch(id, [Metric("loss", 1 / (step + 3), START + 10 * step, step) for step in range(900)])
        client.log_batch(id, [Metric("valid/loss", math.sin(step), START + step, step) for step in range(0, 900, 30)])
        for at, value in enumerate(ODD):
            client.log_metric(id, "odd", value, timestamp=START + at, step=-2**40)
        Path("model/net").mkdir(parents=True, exist_ok=True)
        Path("model/net/MLmodel").write_text("flavors: {}")
        Path("model/net/weights.bin").write_bytes(b"weights")
        client.log_artifacts(id, "model")
        Path("note.txt").write_text("some")
        client.log_artifact(id, "note.txt", "notes")
        client.create_registered_model(model, description="a net")
        client.create_model_version(model, f"{client.get_run(id).info.artifact_uri}/net", id, description="the first")
        client.set_registered_model_alias(model, "champion", 1)
        Path("beside/deep").mkdir(parents=True, exist_ok=True)
        Path("beside/MLmodel").write_text("flavors: {}")
        Path("beside/deep/more.bin").write_bytes(b"more")
        beside = client.create_logged_model(experiment, name="forest", source_run_id=id)
        client.log_model_artifacts(beside.model_id, "beside")
        client.finalize_logged_model(beside.model_id, "READY")
        client.set_terminated(id, "FAILED", START + 9_000)
        for number in range(3):
            other = client.create_run(experiment, run_name=f"other {number}", start_time=START)
            client.log_metric(other.info.run_id, "loss", number, timestamp=START, step=1)
        client.set_terminated(other.info.run_id, "FINISHED", START + 5)
        deleted = client.create_run(experiment, run_name="deleted")
        client.delete_run(deleted.info.run_id)

    for uri in sys.argv[1:]:
        write(uri, Path(uri).name)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `mlflow.db`, whose artifacts are in `artifacts`, and `mlruns`."""
    folder = tmp_path_factory.mktemp("mlflow")
    known = f"import os; os.chdir({str(folder)!r})\nfrom math import nan\nSTART, ODD = {START}, {ODD!r}\n"
    variables = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet"}
    uris = [f"sqlite:///{folder}/mlflow.db", f"file://{folder}/files/mlruns"]
    run_script(known + SCRIPT.replace("\n    ", "\n"), variables, *uris)
    return folder


@pytest.fixture
def importer(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Importer:
    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    return Importer(service, capsys)


def expected_points(source: str = "mlflow.db") -> dict[str, list[Point]]:
    # A database keeps no sign of zero.
    odd = ODD if source == "files/mlruns" else [0.0 if it == 0 else it for it in ODD]
    first: list[Point] = [("loss", "", step, START + 10 * step, bits(1 / (step + 3))) for step in range(900)]
    first += [("valid/loss", "", step, START + step, bits(math.sin(step))) for step in range(0, 900, 30)]
    first += [("odd", "", -(2**40), START + at, bits(value)) for at, value in enumerate(odd)]
    others: dict[str, list[Point]] = {
        f"other {number}": [("loss", "", 1, START, bits(float(number)))] for number in range(3)
    }
    return {"first": first, **others}


@pytest.mark.parametrize("source", ["mlflow.db", "files/mlruns"])
def test_runs_models_and_files_are_those_of_mlflow(
    importer: Importer, written: Path, source: str, tmp_path: Path
) -> None:
    importer.kill("mlflow", written / source)
    report = importer.run("mlflow", written / source)
    assert report["failed"] == []
    assert report["leftOut"] == [{"what": "runs", "why": "they are deleted in MLflow", "count": 1}]
    assert report["taken"]["runs"] == 4 and report["taken"]["points"] == 937
    eventually_points(importer, expected_points(source))
    runs = importer.runs()
    run = runs["first"]
    assert run.params == {"rate": 0.1, "name": "two\nlines"}
    assert {"team": "a", "notes": "a note"}.items() <= run.others.items()
    assert (milliseconds(run.start), milliseconds(run.end)) == (START, START + 9_000)
    assert run.state == "crashed" and runs["other 2"].state == "finished"
    eventually(lambda: importer.runs()["other 0"].state in ("running", "lost"))
    found = {(type, name): data for (type, name, _), data in files(run).items()}
    assert found["asset", "notes/note.txt"] == b"some"
    assert found["model-element", "weights.bin"] == b"weights" and ("model-element", "MLmodel") in found

    models = {
        it["modelName"]: [its["version"] for its in it["registryRecords"]] for it in read_models(importer, run.key)
    }
    assert models == {"net": ["1.0.0"], "forest": []}
    assert found["model-element", "deep/more.bin"] == b"more"
    registered = Path(source).name
    details = importer.service.get(f"/api/rest/v2/registry-model/details?workspaceName=default&modelName={registered}")
    assert details["description"] == "a net"
    version = next(it for it in details["versions"] if it["experimentModel"]["experimentKey"] == run.key)
    assert (version["comment"], version["stages"]) == ("the first", ["champion"])

    assets = len(run.assets())
    assert importer.run("mlflow", written / source)["taken"] == report["taken"]
    eventually_points(importer, expected_points(source))
    assert len(run.assets()) == assets == 5


def read_models(importer: Importer, key: str) -> list[dict[str, Any]]:
    models: list[dict[str, Any]] = importer.service.get(f"/api/rest/v2/experiment/model?experimentKey={key}")["models"]
    return models


def test_a_database_that_has_grown_adds_what_is_new(importer: Importer, written: Path, tmp_path: Path) -> None:
    copy = tmp_path / "mlflow.db"
    shutil.copy(written / "mlflow.db", copy)
    with sqlite3.connect(copy) as database:
        later = database.execute("SELECT * FROM metrics WHERE key = 'loss' AND step >= 500 ORDER BY rowid").fetchall()
        database.execute("DELETE FROM metrics WHERE key = 'loss' AND step >= 500")
        database.execute("DELETE FROM model_versions")
    importer.run("mlflow", f"sqlite:///{copy}")
    with sqlite3.connect(copy) as database:
        # Not in the order of their times.
        marks = ", ".join("?" * len(later[0]))
        database.executemany(f"INSERT INTO metrics VALUES ({marks})", later[::-1])
    importer.run("mlflow", copy)
    importer.run("mlflow", copy)
    eventually_points(importer, expected_points())


@pytest.fixture
def server(written: Path, tmp_path: Path) -> Iterator[str]:
    """`mlflow server` on a copy of the database, in which the registered model has another name."""
    copy = tmp_path / "mlflow.db"
    shutil.copy(written / "mlflow.db", copy)
    with sqlite3.connect(copy) as database:
        for table in ("registered_models", "model_versions", "registered_model_aliases"):
            database.execute(f"UPDATE {table} SET name = 'served'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{copy}", "--workers", "1"]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        cwd=tmp_path,
        # Nothing runs as a job here: eight more processes would start, each with all of MLflow.
        env=os.environ
        | {
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "GIT_PYTHON_REFRESH": "quiet",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: urllib.request.urlopen(f"{url}/health").status == 200, seconds=300)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_server_is_read_in_all_its_pages(
    importer: Importer, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Of the sizes that the server allows, a thousand runs would be needed for a second page.
    monkeypatch.setattr("svc_ml.importers.mlflow.server._RUNS_AT_ONCE", 2)
    monkeypatch.setattr("svc_ml.importers.mlflow.server._POINTS_AT_ONCE", 400)
    monkeypatch.setattr("svc_ml.importers.mlflow.server._VERSIONS_AT_ONCE", 1)
    importer.kill("mlflow", server)
    report = importer.run("mlflow", server)
    assert report["failed"] == []
    assert report["leftOut"] == [{"what": "runs", "why": "they are deleted in MLflow", "count": 1}]
    eventually_points(importer, expected_points())
    run = importer.runs()["first"]
    assert run.params == {"rate": 0.1, "name": "two\nlines"} and run.state == "crashed"
    assert (milliseconds(run.start), milliseconds(run.end)) == (START, START + 9_000)
    found = {(type, name): data for (type, name, _), data in files(run).items()}
    assert found["asset", "notes/note.txt"] == b"some" and found["model-element", "weights.bin"] == b"weights"
    assert found["model-element", "deep/more.bin"] == b"more"
    details = importer.service.get("/api/rest/v2/registry-model/details?workspaceName=default&modelName=served")
    assert [(it["version"], it["comment"], it["stages"]) for it in details["versions"]] == [
        ("1.0.0", "the first", ["champion"])
    ]
    assert importer.run("mlflow", server)["taken"] == report["taken"]
    eventually_points(importer, expected_points())
    assert len(run.assets()) == 5
    for command in commands_of("MLflow from its server"):
        assert main([it.replace("http://127.0.0.1:5000", server) for it in command]) == 0
        assert "4 runs" in capsys.readouterr().out

    # One of an earlier time comes in between, and the database below the server has the same.
    log_metric(server, find_run_id(tmp_path), {"key": "loss", "value": 0.25, "timestamp": START - 5, "step": 450})
    expected = expected_points()
    expected["first"].append(("loss", "", 450, START - 5, bits(0.25)))
    for source in (server, tmp_path / "mlflow.db", server):
        assert importer.run("mlflow", source)["taken"]["points"] == 938
        eventually_points(importer, expected)


def find_run_id(folder: Path) -> str:
    with sqlite3.connect(folder / "mlflow.db") as database:
        return str(database.execute("SELECT run_uuid FROM runs WHERE name = 'first'").fetchone()[0])


def log_metric(server: str, run_id: str, metric: dict[str, Any]) -> None:
    body = json.dumps({"run_id": run_id, **metric}).encode()
    request = urllib.request.Request(
        f"{server}/api/2.0/mlflow/runs/log-metric", body, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


def test_what_is_no_store_of_mlflow_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.db").write_text("no database, but a text that is long enough to be looked at")
    (tmp_path / "empty").mkdir()
    with sqlite3.connect(tmp_path / "other.db") as database:
        database.execute("CREATE TABLE runs (id)")
    for source, told in [
        ("nothing", "there is no file or folder"),
        ("text.db", "file is not a database"),
        ("empty", "is no folder of MLflow"),
        ("other.db", "has no table experiments, metrics, params, tags"),
    ]:
        assert main(["import", "mlflow", str(tmp_path / source), "--dry-run"]) == 1
        assert told in capsys.readouterr().err
    assert main(["import", "mlflow", "http://127.0.0.1:9", "--dry-run"]) == 1
    assert "MLflow cannot be reached at http://127.0.0.1:9" in capsys.readouterr().err


def test_the_page_of_the_documentation_does_what_it_says(
    importer: Importer,
    written: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(written / "mlflow.db", "mlflow.db")
    shutil.copytree(written / "files/mlruns", "mlruns", ignore=shutil.ignore_patterns("models"))
    with sqlite3.connect("mlflow.db") as database:
        # Versions of a model belong to the workspace, in which another project has them.
        database.execute("DELETE FROM model_versions")
    for command in commands_of("MLflow"):
        assert main(command) == 0
        assert "4 runs" in capsys.readouterr().out
