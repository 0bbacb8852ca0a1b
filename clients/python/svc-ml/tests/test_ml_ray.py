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

    offline = run_example({**variables, "SVC_URL": "http://127.0.0.1:9"}, cluster_folder, "--offline", "--attach")
    done = sync(tmp_path / "offline", variables)
    assert done.returncode == 0, done.stderr
    assert eventually(lambda: look_at(service, offline)) == found


def test_train_v1_logs_the_same(service: Service, tmp_path: Path, cluster_folder: Path) -> None:
    variables = {**environment(service, tmp_path), "RAY_TRAIN_V2_ENABLED": "0"}
    key = run_example(variables, cluster_folder, "--attach")

    def look() -> bool:
        metrics = read(service, key, "metrics/get-metric", metricName="accuracy")["metrics"]
        assert [(it["step"], it["epoch"]) for it in metrics] == [(epoch + 1, epoch) for epoch in range(EPOCHS)]
        assert len(read_points(service, key, "batch_loss")) == 2 * EPOCHS * 8
        load_checkpoint(service, key, EPOCHS)
        return True

    assert eventually(look)
    assert read(service, key, "metadata")["running"] is False


def test_a_worker_that_lacks_something_logs_nothing_and_trains_on(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from svc_ml.integration.dist import CONFIG_KEY, SvcTrainLoggerCallback, svc_worker, svc_worker_logger

    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    config: dict[str, Any] = {"rate": 0.5}
    callback = SvcTrainLoggerCallback(config)
    assert "api_key" not in config[CONFIG_KEY], "the key is shared only when asked for"

    @svc_worker
    def train(given: dict[str, Any]) -> float:
        with svc_worker_logger(given) as run:
            assert run.disabled
            run.log_metric("loss", 1)
            run.log_parameter("a", "b")
        return float(given["rate"])

    monkeypatch.delenv("SVC_API_KEY")
    assert train(config) == 0.5
    assert train({"rate": 0.25}) == 0.25
    with svc_worker_logger(config, api_key=service.api_key) as run:
        assert not run.disabled
        run.log_metric("by_argument", 1, step=1)
    with svc_worker_logger({**config, CONFIG_KEY: {**config[CONFIG_KEY], "api_key": service.api_key}}) as run:
        run.log_metric("by_dictionary", 1, step=1)
    callback.end()
    key = callback.experiment.id
    eventually(lambda: read_points(service, key, "by_argument") == [(1, 1.0)])
    eventually(lambda: read_points(service, key, "by_dictionary") == [(1, 1.0)])


def test_the_modes_make_or_go_on_with_an_experiment(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from svc_ml import SvcError
    from svc_ml.integration.dist import SvcTrainLoggerCallback

    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    first = SvcTrainLoggerCallback({}, mode="create")
    key = first.experiment.id
    second = SvcTrainLoggerCallback({}, mode="get", experiment_key=key)
    third = SvcTrainLoggerCallback({}, experiment_key=key, raise_on_error_during_init=True)
    fourth = SvcTrainLoggerCallback({})
    assert [it.experiment.id == key for it in (second, third, fourth)] == [True, True, False]
    with pytest.raises(SvcError, match="there is an experiment"):
        SvcTrainLoggerCallback({}, mode="create", experiment_key=key, raise_on_error_during_init=True)
    with pytest.raises(SvcError, match="no experiment"):
        SvcTrainLoggerCallback({}, mode="get", experiment_key="0" * 32, raise_on_error_during_init=True)
    with pytest.raises(ValueError, match="needs an experiment_key"):
        SvcTrainLoggerCallback({}, mode="get")
    with pytest.raises(ValueError, match="expected one of get, create, get_or_create"):
        SvcTrainLoggerCallback({}, mode="new")
    with pytest.raises(ValueError, match="give the dictionary"):
        SvcTrainLoggerCallback(None)  # type: ignore[arg-type]
    for it in (second, third, fourth, first):
        it.experiment.end()
