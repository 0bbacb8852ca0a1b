"""A real cluster of Ray on this machine: two workers train a small model, with Train V2 and with V1. A start of Ray takes a dozen processes, so the tests share one."""

from __future__ import annotations

import functools
import importlib.util
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import Service, eventually
from ml_ledger import environment, read, read_points, read_values, sync

# Not imported: that takes seconds, in each process that looks for tests.
if not all(importlib.util.find_spec(it) for it in ("ray", "sklearn")):
    pytest.skip("Ray Train is not installed: pip install 'ray[train]' scikit-learn", allow_module_level=True)

EXAMPLE = Path(__file__).parents[1] / "examples" / "ray_digits.py"
EPOCHS = 3

# Cores as Ray counts them, whatever the machine has: one for each worker, and with Train V1 one for the trainer. It ends when
# its standard input does.
CLUSTER = """
import ray, sys
context = ray.init(num_cpus=3, include_dashboard=False)
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""
RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    # Guards against hanging, no more: on a busy machine a process takes its time until it is there.
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "600",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_gcs_server_request_timeout_seconds": "300",
    "RAY_agent_register_timeout_ms": "600000",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster that the tests share, which knows of no service. Each job brings the variables of its workers."""
    # Short, because Ray makes sockets in it, the paths of which may have 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SVC_")}
    ours = {"HOME": str(folder), "TMPDIR": str(folder), "RAY_TMPDIR": str(folder)}
    # No workers in advance: those of a job with variables are others.
    environment = kept | ours | RAY | {"RAY_prestart_worker_first_driver": "0"}
    command = [sys.executable, "-c", CLUSTER]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert process.stdout
        address = process.stdout.readline().strip()
        assert address, (folder / "log").read_text()
        yield address
        process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def run_examples(cluster: str, variables: dict[str, str], storage: Path, *runs: list[str]) -> list[str]:
    """Trains with the arguments of each run, one after the other; the experiments' keys."""
    more = ["--epochs", str(EPOCHS), "--storage", str(storage)]
    script = f"import runpy, sys\nfor run in {[[str(EXAMPLE), *run, *more] for run in runs]!r}:\n    sys.argv = run\n"
    script += f"    runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    return keys_in(run_on_cluster(cluster, script, variables).stdout)


def keys_in(printed: str) -> list[str]:
    """What the driver has printed, among what Ray shows of its workers."""
    return re.findall(r"^[0-9a-f]{32}$", printed, re.MULTILINE)


def run_on_cluster(
    cluster: str, script: str, variables: dict[str, str], only_driver: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a driver; it and its workers have the variables. What workers print is shown on the driver, as Ray does by itself."""
    connect = f"import ray; ray.init({cluster!r}, runtime_env={{'env_vars': {variables!r}}})\n"
    done = subprocess.run(
        [sys.executable, "-c", connect + script],
        env=os.environ | RAY | variables | (only_driver or {}),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


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
        assert output.count(f"worker {rank} has finished epoch {EPOCHS - 1}") == 1, output
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
    service: Service, tmp_path: Path, cluster: str
) -> None:
    variables = environment(service, tmp_path)
    online, offline = run_examples(cluster, variables, tmp_path / "results", [], ["--offline", "--attach"])
    found = eventually(lambda: look_at(service, online))
    assert read(service, online, "metadata")["running"] is False
    assert read(service, online, "metadata")["hasCrashed"] is False
    assert list((tmp_path / "spool").iterdir()) == []

    with pytest.raises(urllib.error.HTTPError):
        read(service, offline, "metadata")
    done = sync(tmp_path / "offline", variables)
    assert done.returncode == 0, done.stderr
    assert eventually(lambda: look_at(service, offline)) == found


@pytest.mark.skipif(
    os.environ.get("SVC_TEST_FORM") == "middle",
    reason="CI trains with Train V2 alone: a training takes half a minute; run .ci/clients-python by itself for V1",
)
def test_train_v1_logs_the_same(service: Service, tmp_path: Path, cluster: str) -> None:
    variables = {**environment(service, tmp_path), "RAY_TRAIN_V2_ENABLED": "0"}
    (key,) = run_examples(cluster, variables, tmp_path / "results", ["--attach"])

    def look() -> bool:
        metrics = read(service, key, "metrics/get-metric", metricName="accuracy")["metrics"]
        assert [(it["step"], it["epoch"]) for it in metrics] == [(epoch + 1, epoch) for epoch in range(EPOCHS)]
        assert len(read_points(service, key, "batch_loss")) == 2 * EPOCHS * 8
        load_checkpoint(service, key, EPOCHS)
        return True

    assert eventually(look)
    assert read(service, key, "metadata")["running"] is False


FAILS = """
    import os
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
    from svc_ml.integration.dist import SvcTrainLoggerCallback, svc_worker_logger

    def loop(config):
        with svc_worker_logger(config) as run:
            run.log_metric("never", 1)
        raise ValueError("out of data")

    config = {"rate": 0.5}
    callback = SvcTrainLoggerCallback(config, api_key=os.environ["KEY_OF_THE_DRIVER"])
    run_config = RunConfig(callbacks=[callback], storage_path=os.environ["STORAGE"])
    trainer = DataParallelTrainer(loop, train_loop_config=config, scaling_config=ScalingConfig(num_workers=2), run_config=run_config)
    try:
        trainer.fit()
    except Exception:
        pass
    callback.end()
    print(callback.experiment.id)
"""


def test_a_failure_that_the_script_catches_is_one_and_workers_without_a_key_are_told_on_the_driver(
    service: Service, tmp_path: Path, cluster: str
) -> None:
    variables = environment(service, tmp_path) | {"HOME": str(tmp_path)}
    only_driver = {"KEY_OF_THE_DRIVER": variables.pop("SVC_API_KEY"), "STORAGE": str(tmp_path / "results")}
    done = run_on_cluster(cluster, textwrap.dedent(FAILS), variables, only_driver)
    metadata = read(service, keys_in(done.stdout)[-1], "metadata")
    assert metadata["running"] is False and metadata["hasCrashed"] is True and "out of data" in metadata["error"]
    told = [it for it in done.stderr.splitlines() if it.startswith("svc: worker-")]
    assert len(told) == 1 and "worker-0, worker-1 logged nothing: no API key" in told[0], done.stderr


@pytest.mark.parametrize("wrong", [{"url": "localhost:8080"}, {"experiment_key": "short"}, {"disabled": True}])
def test_a_callback_that_cannot_log_raises_nowhere(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any]
) -> None:
    from svc_ml.integration.dist import SvcTrainLoggerCallback, svc_dist_train_logger, svc_worker_logger

    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    config: dict[str, Any] = {"rate": 0.5}
    callback = SvcTrainLoggerCallback(config, share_api_key_to_workers=True, **wrong)
    assert callback.experiment.disabled
    callback.after_report(None, [{"loss": 1.0}, {"loss": 2.0}], None)
    callback.after_exception(None, {1: ValueError("bad")})
    with svc_worker_logger(config) as run:
        run.log_metric("loss", 1)
    in_controller = pickle.loads(pickle.dumps(callback))
    in_controller.after_report(None, [{"loss": 1.0}], None)
    in_controller.end()
    callback.end()

    trainer = SimpleNamespace(
        train_loop_config={"rate": 0.5}, run_config=SimpleNamespace(callbacks=[]), fit=lambda: "trained"
    )
    svc_dist_train_logger(trainer, **wrong)
    assert trainer.fit() == "trained"


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
    with svc_worker_logger(config, api_key=service.api_key, context="mine") as run:
        run.log_metric("by_argument", 2, step=2)
    callback.end()
    key = callback.experiment.id
    eventually(lambda: read_points(service, key, "by_argument") == [(1, 1.0), (2, 2.0)])
    metrics = read(service, key, "metrics/get-metric", metricName="by_argument")["metrics"]
    # Outside of a training a worker is named by its process.
    assert sorted(it["runContext"] for it in metrics) == ["mine", f"worker-{os.getpid()}"]
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
    monkeypatch.setenv("SVC_EXPERIMENT_KEY", key)
    of_variable = [SvcTrainLoggerCallback({}, mode=mode) for mode in ("get", "get_or_create")]
    assert [it.experiment.id for it in of_variable] == [key, key]
    assert not any(it.experiment.get_logging_errors() for it in of_variable)
    monkeypatch.delenv("SVC_EXPERIMENT_KEY")
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
    for it in (*of_variable, second, third, fourth, first):
        it.experiment.end()


def test_each_trial_of_tune_is_a_run(service: Service, tmp_path: Path, cluster: str) -> None:
    page = (Path(__file__).parents[4] / "docs/integrations.md").read_text()
    found = re.search(r"^## Ray Tune\n+```python\n(.*?)```", page, re.S | re.M)
    assert found is not None
    train = """
def train(config):
    from ray import tune
    for step in range(4):
        if config["rate"] == 0.3 and step == 2:
            raise RuntimeError("no more")
        tune.report({"loss": config["rate"] / (step + 1), "deep": {"er": step}, "epoch": step // 2, "note": "x"})
"""
    run_on_cluster(cluster, train + found[1], environment(service, tmp_path))
    listed = f"/api/rest/v2/experiments?workspaceName={service.workspace}&projectName=tuning"

    def found() -> dict[float, dict[str, Any]]:
        runs = service.get(listed)["experiments"]
        return {float(read_values(service, it["experimentKey"], "parameters")["rate"]): it for it in runs}

    assert eventually(lambda: sorted(found()) == [0.1, 0.2, 0.3])
    for rate, run in found().items():
        key, steps = run["experimentKey"], range(2 if rate == 0.3 else 4)
        for name, values in (("loss", [rate / (it + 1) for it in steps]), ("deep/er", [float(it) for it in steps])):
            expected = [(step + 1, value) for step, value in enumerate(values)]
            eventually(functools.partial(compare, service, key, name, expected))
        state = read(service, key, "metadata")
        assert (state["running"], bool(state["hasCrashed"])) == (False, rate == 0.3)


def compare(service: Service, key: str, name: str, expected: list[tuple[int, float]]) -> bool:
    assert read_points(service, key, name) == expected
    return True
