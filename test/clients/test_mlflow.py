"""MLflow 3.17 and 2.22 as they are on PyPI: the section of docs/existing-clients.md as it stands, and what `mlflow_scenarios.py` does, each version in its own Python."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
from svc_service import ROOT, Service, eventually

SCENARIOS = Path(__file__).with_name("mlflow_scenarios.py")
# `.ci/clients-python` makes it.
OLDER = os.environ.get("CLIENTS_MLFLOW_2") or str(Path(sys.prefix) / "mlflow-2" / "bin" / "python")
MEBIBYTE = 1024 * 1024
SIZE = 256 * MEBIBYTE


def environment(service: Service, **more: str) -> dict[str, str]:
    """What the page tells users to set, and nothing that goes out of this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "COMET_"))}
    quiet = {
        # Or else another Python finds out what each model needs.
        "MLFLOW_REQUIREMENTS_INFERENCE_TIMEOUT": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    }
    page = {"MLFLOW_TRACKING_URI": service.url, "MLFLOW_TRACKING_TOKEN": service.api_key}
    return kept | quiet | {"MPLBACKEND": "agg"} | page | more


def run(service: Service, python: str, *scenarios: str, **more: str) -> dict[str, Any]:
    command = [python, str(SCENARIOS), *scenarios]
    done = subprocess.run(command, env=environment(service, **more), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    for name, answer in found.items():
        assert "error" not in answer, f"{name}: {answer['error']}"
    return found


@pytest.mark.parametrize("python", [sys.executable, OLDER], ids=["3.17", "2.22"])
def test_trainings_models_and_keys_of_scripts(service: Service, python: str) -> None:
    did = run(service, python, "training", "models", "deletion", "keys")

    run_id = did["training"]["parent"]
    metric = service.get(f"/api/rest/v2/experiment/metrics/get-metric?experimentKey={run_id}&metricName=loss")
    assert [float(it["metricValue"]) for it in metric["metrics"]] == [1 / (step + 1) for step in range(10)]
    assets = service.get(f"/api/rest/v2/experiment/asset/list?experimentKey={run_id}")["assets"]
    assert "config/settings.json" in [it["fileName"] for it in assets]

    run_id, name = did["models"]["run"], did["models"]["name"]
    versions = service.get(f"/api/rest/v2/registry-model/items?workspaceName={service.workspace}&modelName={name}")[
        "items"
    ]
    assert [(it["version"], it["stages"]) for it in versions] == [("3.0.0", ["Production"]), ("1.0.0", ["Archived"])]
    files = service.get(f"/api/rest/v2/experiment/model/asset/list?experimentKey={run_id}&modelName=model")["assets"]
    assert "MLmodel" in [it["fileName"] for it in files]

    keys = did["keys"]
    assert (keys["basic"], keys["token"]) == ("taken", "taken")
    assert "API key" in keys["wrong"] and "MLFLOW_TRACKING_TOKEN" in keys["missing"]


def memory(service: Service) -> int:
    """Of the processes of the service in bytes, without its databases."""
    assert service._process
    total = 0
    # It is the service itself, or npm, which has started it.
    first = psutil.Process(service._process.pid)
    for process in [first, *first.children(recursive=True)]:
        try:
            total += process.memory_info().rss if "svc.ts" in " ".join(process.cmdline()) else 0
        except psutil.NoSuchProcess:
            pass
    assert total > 0
    return total


def test_a_large_file_streams_through_the_service(service: Service) -> None:
    # What one upload and one download leave behind, however small.
    run(service, sys.executable, "file", FILE_BYTES=str(MEBIBYTE))
    before, most, done = memory(service), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.05):
            most = max(most, memory(service))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        made = run(service, sys.executable, "file", FILE_BYTES=str(SIZE))["file"]
    finally:
        done.set()
        watcher.join()
    assert most - before < SIZE / 2
    assets = service.get(f"/api/rest/v2/experiment/asset/list?experimentKey={made['run']}")["assets"]
    assert {it["fileName"]: it["fileSize"] for it in assets} == {"data/large.bin": SIZE, "data/empty.txt": 0}


def test_nothing_acknowledged_is_lost_or_doubled_when_the_service_is_killed(own_service: Service) -> None:
    own_service.start()
    # The client repeats what it got no answer to, for longer than a start takes.
    script = subprocess.Popen(
        [sys.executable, str(SCENARIOS), "batches"],
        env=environment(own_service, BATCHES="150", MLFLOW_HTTP_REQUEST_MAX_RETRIES="9"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert script.stdout
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(iter(script.stdout.readline, "")))
    try:
        reader.start()
        for acknowledged in (20, 60):
            eventually(lambda: str(acknowledged) in [it.strip() for it in lines], 300)  # noqa: B023
            own_service.kill()
            own_service.start()
        assert script.wait(600) == 0, "".join(lines)
        reader.join()
    finally:
        script.kill()
        script.wait()
    read = json.loads(lines[-1])["batches"]
    assert read["steps"] == list(range(15_000))
    assert [round(it) for it in read["values"]] == read["steps"]


def test_the_page_for_users_of_mlflow_is_right(service: Service, tmp_path: Path) -> None:
    page = (ROOT / "docs/existing-clients.md").read_text().split("\n## MLflow\n")[1].split("\n## ")[0]
    shell, code = (re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL) for language in ("sh", "python"))
    variables = dict(re.findall(r"^export (\w+)=(\S+)$", shell[0], re.MULTILINE))
    assert list(variables) == ["MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN"] and "python train.py" in shell[0]
    done = subprocess.run(
        [sys.executable, "-c", code[0]],
        env=environment(service),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[1]"
    items = service.get("/api/rest/v2/registry-model/items?workspaceName=default&modelName=digits")["items"]
    assert [it["version"] for it in items] == ["1.0.0"]
    assert list(tmp_path.iterdir()) == []
