"""A real cluster of Ray on this machine: two workers train a small model, with Train V2 and with V1."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Service, eventually
from ml_ledger import environment, read, read_points, read_values, sync

pytest.importorskip("ray.train", reason="Ray Train is not installed: pip install 'ray[train]'")
pytest.importorskip("sklearn")

EXAMPLE = Path(__file__).parents[1] / "examples" / "ray_digits.py"
EPOCHS = 3
# Cores as Ray counts them, whatever the machine has: one for each worker, and with Train V1 one for the trainer.
RUN = "import ray, runpy, sys; ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False); "


@pytest.fixture
def cluster_folder() -> Iterator[Path]:
    """Short, because Ray makes sockets in it, the paths of which may have 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run_example(variables: dict[str, str], cluster_folder: Path, *arguments: str) -> str:
    """Trains on a cluster that lives as long as the process; the key of the experiment."""
    script = (
        RUN + f"sys.argv = [{str(EXAMPLE)!r}, *sys.argv[1:]]; runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    )
    ours = {
        "TMPDIR": str(cluster_folder),
        "RAY_TMPDIR": str(cluster_folder),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
    }
    given = [*arguments, "--epochs", str(EPOCHS), "--storage", str(cluster_folder / "results")]
    done = subprocess.run(
        [sys.executable, "-c", script, *given],
        env=os.environ | ours | variables,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()[-1]


def look_at(service: Service, key: str) -> dict[str, Any]:
    """What a training must have logged, whichever way it came; raises while something is missing."""
    found: dict[str, Any] = {}
    for name in ("loss", "accuracy"):
        metrics = read(service, key, "metrics/get-metric", metricName=name)["metrics"]
        found[name] = sorted((it["runContext"] or "", it["step"], it["epoch"], it["metricValue"]) for it in metrics)
        assert [it[:3] for it in found[name]] == [
            (context, epoch + 1, epoch) for context in ("", "worker-1") for epoch in range(EPOCHS)
        ]
    found["batch_loss"] = read_points(service, key, "batch_loss")
    assert len(found["batch_loss"]) == 2 * EPOCHS * 8
    found["parameters"] = read_values(service, key, "parameters")
    assert found["parameters"] == {"rate": "0.01", "hidden": "32", "epochs": str(EPOCHS)}
    found["tags"] = read(service, key, "tags")["tags"]
    summary = service.get(f"/api/rest/v2/experiment/metrics/summary?experimentKey={key}")["values"]
    names = {it["name"] for it in summary}
    for rank in (0, 1):
        assert f"worker-{rank}_sys.ram.used" in names | set(resources(service, key)), names
    output = read(service, key, "output")["output"]
    for rank in (0, 1):
        assert f"worker {rank} has finished epoch {EPOCHS - 1}" in output
    found["checkpoints"] = [load_checkpoint(service, key, report) for report in range(1, EPOCHS + 1)]
    return found


def resources(service: Service, key: str) -> list[str]:
    found = []
    for name in ("sys.ram.used", "sys.process.memory"):
        metrics = read(service, key, "metrics/get-metric", metricName=name)["metrics"]
        found += [f"{it['runContext']}_{name}" for it in metrics]
    return found


def load_checkpoint(service: Service, key: str, report: int) -> tuple[str, list[str]]:
    """Reads a checkpoint back as a model; its metadata and files."""
    artifact = f"workspace={service.workspace}&artifactName=checkpoints-{key}"
    versions = service.get(f"/api/rest/v2/artifacts/get?{artifact}")
    latest = versions["latestVersion"]
    assert latest.endswith(f".{EPOCHS}")
    version = latest.rpartition(".")[0] + f".{report}"
    about = service.get(f"/api/rest/v2/artifacts/version?{artifact}&version={version}")
    assert about["state"] == "CLOSED"
    files = service.get(f"/api/rest/v2/artifacts/version/files?{artifact}&version={version}")["files"]
    asset = next(it for it in files if it["fileName"] == "model.pkl")
    path = f"/api/rest/v2/experiment/asset/get-asset?experimentKey={key}&assetId={asset['assetId']}"
    request = urllib.request.Request(f"{service.url}{path}&artifactVersionId={asset['artifactVersionId']}")
    request.add_header("Authorization", service.api_key)
    with urllib.request.urlopen(request, timeout=30) as answer:
        model = pickle.loads(answer.read())
    assert model.coefs_[0].shape == (64, 32)
    return about["metadata"], [it["fileName"] for it in files]


def test_a_training_of_two_workers_is_in_the_service_and_offline_and_synced_it_is_the_same(
    service: Service, tmp_path: Path, cluster_folder: Path
) -> None:
    variables = environment(service, tmp_path)
    online = run_example(variables, cluster_folder)
    found = eventually(lambda: look_at(service, online))
    assert read(service, online, "metadata")["running"] is False
    assert read(service, online, "metadata")["hasCrashed"] is False
    assert list((tmp_path / "spool").iterdir()) == []

    offline = run_example({**variables, "SVC_URL": "http://127.0.0.1:9"}, cluster_folder, "--offline")
    done = sync(tmp_path / "offline", variables)
    assert done.returncode == 0, done.stderr
    assert eventually(lambda: look_at(service, offline)) == found


def test_train_v1_logs_the_same(service: Service, tmp_path: Path, cluster_folder: Path) -> None:
    variables = {**environment(service, tmp_path), "RAY_TRAIN_V2_ENABLED": "0"}
    key = run_example(variables, cluster_folder)

    def look() -> bool:
        metrics = read(service, key, "metrics/get-metric", metricName="accuracy")["metrics"]
        assert [(it["step"], it["epoch"]) for it in metrics] == [(epoch + 1, epoch) for epoch in range(EPOCHS)]
        assert len(read_points(service, key, "batch_loss")) == 2 * EPOCHS * 8
        load_checkpoint(service, key, EPOCHS)
        return True

    assert eventually(look)
    assert read(service, key, "metadata")["running"] is False
