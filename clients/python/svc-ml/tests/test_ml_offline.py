"""Offline and then synced is the same as online."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import Service, eventually
from ml_ledger import environment, read, read_points, read_values, sync
from svc_ml import ExistingOfflineExperiment, Experiment, OfflineExperiment
from svc_ml.run import Run


@pytest.fixture
def variables(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = environment(service, tmp_path)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


def train(experiment: Run, asset: Path) -> None:
    for step in range(3_000):
        experiment.log_metric("loss", 1 / (step + 1), step=step, epoch=step // 100)
    experiment.log_parameters({"rate": 0.1, "layers": {"hidden": 3}})
    experiment.log_others({"note": "some"})
    experiment.log_html("<p>a</p>")
    experiment.log_html("<p>b</p>")
    experiment.log_asset(asset, file_name="weights.bin", metadata={"epoch": 30})
    experiment.log_text("some words", step=3)


def all_that_can_be_read(service: Service, key: str) -> dict[str, Any]:
    assets = read(service, key, "asset/list", type="all")["assets"]
    others = read_values(service, key, "log-other")
    others.pop("Name")
    return {
        "points": read_points(service, key, "loss"),
        "parameters": read_values(service, key, "parameters"),
        "others": others,
        "html": read(service, key, "html")["html"],
        "tags": read(service, key, "tags")["tags"],
        "assets": sorted(
            (it["type"], it["fileName"].partition("-")[0], it["fileSize"], it["step"], it["metadata"]) for it in assets
        ),
    }


def test_offline_and_synced_is_the_same_as_online(service: Service, variables: dict[str, str], tmp_path: Path) -> None:
    asset = tmp_path / "weights.bin"
    asset.write_bytes(os.urandom(100_000))
    before = int(time.time() * 1000)
    offline = OfflineExperiment(tags=["digits"], experiment_name="away")
    train(offline, asset)
    offline.end()
    ended = int(time.time() * 1000)

    with Experiment(tags=["digits"]) as online:
        train(online, asset)
    done = sync(tmp_path / "offline", variables)
    assert done.returncode == 0, done.stderr
    assert re.search(r"3,0\d\d points", done.stdout) and "100%" in done.stderr, "a bar shows how far it is"

    eventually(lambda: len(read_points(service, offline.id, "loss")) == 3_000)
    eventually(lambda: len(read_points(service, online.id, "loss")) == 3_000)
    assert all_that_can_be_read(service, offline.id) == all_that_can_be_read(service, online.id)
    metadata = read(service, offline.id, "metadata")
    assert metadata["experimentName"] == "away" and metadata["running"] is False
    assert before <= metadata["startTimeMillis"] <= metadata["endTimeMillis"] <= ended, "the times of the run"
    assert list((tmp_path / "offline").iterdir()) == []
    assert "nothing is left" in sync(tmp_path / "offline", variables).stderr


def test_a_sync_that_is_killed_again_and_again_is_gone_on_with(
    service: Service, variables: dict[str, str], tmp_path: Path
) -> None:
    experiment = OfflineExperiment()
    count = 100_000
    for step in range(count):
        experiment.log_metric("loss", step * 0.5, step=step)
    for number in range(200):
        experiment.log_parameter(f"p{number}", number)
    experiment.end()
    command = [sys.executable, "-m", "svc_ml.command", "sync", str(tmp_path / "offline")]
    interruptions = 0
    # It sends after 0.4 s on a fast machine, and has sent all of it after 0.9.
    for seconds, signal_number in ((0.4, signal.SIGKILL), (0.6, signal.SIGINT), (0.9, signal.SIGKILL)):
        process = subprocess.Popen(command, env=os.environ | variables, stderr=subprocess.PIPE)
        time.sleep(seconds)
        process.send_signal(signal_number)
        process.communicate(timeout=60)
        interruptions += process.returncode != 0
    assert interruptions > 0
    done = sync(tmp_path / "offline", variables)
    assert done.returncode == 0, done.stderr
    expected = [(step, step * 0.5) for step in range(count)]
    eventually(lambda: read_points(service, experiment.id, "loss") == expected)
    assert len(read_values(service, experiment.id, "parameters")) == 200


def test_a_spool_in_use_is_left_alone(service: Service, variables: dict[str, str], tmp_path: Path) -> None:
    experiment = OfflineExperiment()
    experiment.log_metric("loss", 1, step=0)
    experiment._run.channel.write()  # type: ignore[union-attr]
    done = sync(tmp_path / "offline", variables)
    assert done.returncode == 1 and "in use" in done.stderr
    experiment.end()
    assert sync(tmp_path / "offline", variables).returncode == 0
    eventually(lambda: read_points(service, experiment.id, "loss") == [(0, 1.0)])


def test_more_for_an_experiment_is_kept_offline_too(
    service: Service, variables: dict[str, str], tmp_path: Path
) -> None:
    with Experiment() as online:
        online.log_metric("loss", 1, step=0)
    with ExistingOfflineExperiment(experiment_key=online.id) as offline:
        offline.log_metric("loss", 2, step=1)
    assert sync(tmp_path / "offline", variables).returncode == 0
    eventually(lambda: read_points(service, online.id, "loss") == [(0, 1.0), (1, 2.0)])


def test_what_cannot_be_synced_says_why_and_stays(service: Service, variables: dict[str, str], tmp_path: Path) -> None:
    experiment = OfflineExperiment()
    experiment.log_metric("loss", 1, step=0)
    experiment.end()
    folder = tmp_path / "offline"
    away = sync(folder, variables, "--patience", "0", "--url", "http://127.0.0.1:9")
    assert away.returncode == 1 and "cannot be reached" in away.stderr
    wrong_key = sync(folder, variables, "--api-key", "wrong-key-0123456789")
    assert wrong_key.returncode == 1 and "not registered" in wrong_key.stderr
    nowhere = sync(tmp_path / "nothing", variables)
    assert nowhere.returncode == 1 and "is no folder" in nowhere.stderr
    assert sync(folder, variables).returncode == 0
    eventually(lambda: read_points(service, experiment.id, "loss") == [(0, 1.0)])


def test_a_spool_for_a_workspace_that_is_not_there_is_listed_and_sent_to_another_or_dropped(
    service: Service, variables: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "offline"
    experiment = OfflineExperiment(workspace="nobody-has-this", project_name="lost")
    experiment.log_metric("loss", 1, step=0)
    [waiting] = listed(folder, variables)
    assert waiting["in_use"] is True
    experiment.end()
    [waiting] = listed(folder, variables)
    assert (waiting["experiment_key"], waiting["workspace"], waiting["project"]) == (
        experiment.id,
        "nobody-has-this",
        "lost",
    )
    assert waiting["in_use"] is False and waiting["bytes"] > 0
    shown = command(variables, "list")
    assert f"{experiment.id} of nobody-has-this/lost at {service.url}" in shown.stdout, shown

    refused = sync(folder, variables)
    assert refused.returncode == 1 and "--workspace, --project" in refused.stderr, refused.stderr
    sent = sync(folder, variables, "--workspace", service.workspace, "--project", "found")
    assert sent.returncode == 0, sent.stderr
    eventually(lambda: read_points(service, experiment.id, "loss") == [(0, 1.0)])
    assert read(service, experiment.id, "metadata")["projectName"] == "found"
    assert "Nothing waits" in command(variables, "list").stderr

    OfflineExperiment(workspace="nobody-has-this").end()
    [waiting] = listed(folder, variables)
    asked = command(variables, "drop", waiting["path"])
    assert asked.returncode == 1 and "--yes" in asked.stderr and listed(folder, variables)
    assert command(variables, "drop", str(folder)).returncode == 1, "only a spool that was named"
    assert command(variables, "drop", "--yes", waiting["path"]).returncode == 0
    assert listed(folder, variables) == []


def command(variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    given = [sys.executable, "-m", "svc_ml.command", *arguments]
    return subprocess.run(
        given, env=os.environ | variables, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )


def listed(folder: Path, variables: dict[str, str]) -> list[dict[str, Any]]:
    done = command(variables, "list", "--json", str(folder))
    assert done.returncode == 0, done.stderr
    return [json.loads(it) for it in done.stdout.splitlines()]
