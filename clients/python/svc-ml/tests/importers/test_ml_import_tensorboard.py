"""What tensorboardX has written is read by `svc-ml import tensorboard`, value for value."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import numpy
import pytest
from tensorboardX import SummaryWriter
from tensorboardX.proto.summary_pb2 import Summary

from conftest import Service, eventually
from ml_imports import Importer, Point, as_float32, bits, commands_of, eventually_points, files, milliseconds, read_all
from ml_ledger import environment
from svc_ml.command import main
from svc_ml.importers.report import Report
from svc_ml.importers.sender import RunSender, Target
from svc_ml.importers.tensorboard.folders import TensorBoardSource
from svc_ml.importers.work import follow
from svc_ml.transport.service import Service as Connection

START = 1_700_000_000.25


@pytest.fixture
def importer(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Importer:
    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    return Importer(service, capsys)


def write_scalars(writer: Any, tag: str, steps: range, context: str = "") -> list[Point]:
    """The points that were written; each step has its own time."""
    points: list[Point] = []
    for step in steps:
        value = math.sin(step) / 3
        writer.add_scalar(tag, value, step, walltime=START + step)
        points.append((tag, context, step, round((START + step) * 1000), bits(as_float32(value))))
    writer.flush()
    return points


def event_file(folder: Path) -> Path:
    return next(folder.glob("*tfevents*"))


def test_values_times_steps_and_contexts_are_those_of_the_files(importer: Importer, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    odd = [0.1, -0.0, math.nan, math.inf, -math.inf, 1e-45, 3.4e38]
    with SummaryWriter(str(logs / "first")) as writer:
        expected = write_scalars(writer, "loss", range(300))
        for step, value in enumerate(odd):
            writer.add_scalar("odd", value, 2**40 + step, walltime=START)
            expected.append(("odd", "", 2**40 + step, round(START * 1000), bits(as_float32(value))))
        # The same step, time and value again is a point of its own.
        for _ in range(2):
            writer.add_scalar("twice", 1, 5, walltime=START)
            expected.append(("twice", "", 5, round(START * 1000), bits(1.0)))
    with SummaryWriter(str(logs / "first" / "val")) as writer:
        expected += write_scalars(writer, "loss", range(0, 300, 10), "val")
    with SummaryWriter(str(logs / "second" / "train")) as writer:
        other = write_scalars(writer, "accuracy", range(7), "train")

    dry = importer.run("tensorboard", logs, "--dry-run")
    assert dry["taken"] == {"points": 346, "runs": 2} and dry["dryRun"] is True
    report = importer.run("tensorboard", logs)
    assert report["taken"] == {"points": 346, "runs": 2} and report["leftOut"] == [] == report["failed"]
    eventually_points(importer, {"first": expected, "second": other})

    run = importer.runs()["second"]
    assert run.state == "finished"
    assert milliseconds(run.end) == round((START + 6) * 1000) and report["links"].count(run.link) == 1
    assert importer.run("tensorboard", logs)["taken"] == report["taken"]
    eventually_points(importer, {"first": expected, "second": other})


def test_images_texts_histograms_sound_curves_and_hyperparameters_are_kept(importer: Importer, tmp_path: Path) -> None:
    values = numpy.random.default_rng(0).normal(size=1_000)
    with SummaryWriter(str(tmp_path / "run")) as writer:
        writer.add_image("digit", numpy.arange(48, dtype="uint8").reshape(3, 4, 4), 3, walltime=START)
        writer.add_text("words", "some *words*", 4, walltime=START)
        writer.add_histogram("weights", values, 5, walltime=START)
        writer.add_histogram("same", numpy.zeros(10), 5, walltime=START)
        # What `add_audio` writes, which needs one more package.
        tone = Summary.Audio(sample_rate=8_000, encoded_audio_string=b"RIFF....WAVE", content_type="audio/wav")
        writer.file_writer.add_summary(Summary(value=[Summary.Value(tag="tone", audio=tone)]), 6, START)
        writer.add_pr_curve("curve", numpy.array([1, 0, 1]), numpy.array([0.9, 0.2, 0.6]), 7, walltime=START)
        writer.add_hparams({"rate": 0.1, "name": "adam", "nested": True}, {"best": 0.5}, name="params", global_step=1)
        writer.add_mesh("shape", numpy.zeros((1, 3, 3)), global_step=8)

    report = importer.run("tensorboard", tmp_path / "run")
    assert report["taken"] == {"points": 1, "files": 6, "parameters": 3, "runs": 1}
    assert {it["what"] for it in report["leftOut"]} == {"values of the plugin mesh"}
    run = importer.runs()["run"]
    assert run.params == {"rate": 0.1, "name": "adam", "nested": True}
    eventually(lambda: read_all(run))
    assert [(name, context, step, value) for name, context, step, _, value in read_all(run)] == [
        ("best", "params", 1, bits(0.5))
    ]
    found = files(run)
    assert found["text-sample", "words/text_summary.txt", 4] == b"some *words*"
    assert found["image", "digit.png", 3].startswith(b"\x89PNG") and found["audio", "tone.wav", 6] == b"RIFF....WAVE"
    assert len(json.loads(found["curve", "curve.json", 7])["x"]) == 127
    weights = json.loads(found["histogram3d", "weights.json", 5])
    assert weights["count"] == 1_000 == sum(weights["counts"])
    assert weights["min"] == values.min() and weights["mean"] == pytest.approx(values.mean(), rel=1e-9)
    counted, _ = numpy.histogram(values, weights["edges"])
    assert counted.tolist() == weights["counts"]
    assert json.loads(found["histogram3d", "same.json", 5])["count"] == 10
    described = next(it for it in run.assets() if it.type == "image")
    assert json.loads(described.metadata or "") == {"tag": "digit", "timestamp": round(START * 1000)}

    importer.run("tensorboard", tmp_path / "run")
    assert len(run.assets()) == 6


def test_damaged_records_are_named_and_the_rest_is_taken(importer: Importer, tmp_path: Path) -> None:
    logs = tmp_path / "run"
    with SummaryWriter(str(logs)) as writer:
        expected = write_scalars(writer, "loss", range(1_000))
    path = event_file(logs)
    data = bytearray(path.read_bytes())
    places = [data.index(b"loss", at) for at in range(10_000, 40_000, 10_000)]
    data[places[0] + 6] ^= 1
    begins = data.rindex(b"\0\0\0\0\0\0\0", 0, places[1]) - 1
    data[begins] ^= 64
    path.write_bytes(bytes(data[:-7]))

    report = importer.run("tensorboard", logs)
    told = {it["what"]: it for it in report["leftOut"]}
    assert str(path) in told["damaged records"]["why"] and "at byte" in told["torn records"]["why"]
    assert sum(it["count"] for it in report["leftOut"]) == 3
    assert report["taken"]["points"] == 997
    run = importer.runs()["run"]
    eventually(lambda: len(read_all(run)) == 997)
    assert set(read_all(run)) < set(expected)


def test_a_run_that_goes_on_is_followed_and_an_import_from_the_start_adds_nothing(
    importer: Importer, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    # Its own `flush` does not wait for what is on its way to the file.
    writer = SummaryWriter(str(logs / "run"), flush_secs=0.1)
    expected = write_scalars(writer, "loss", range(100))
    command = [sys.executable, "-m", "svc_ml.command", "import", "tensorboard", str(logs), "--follow"]
    options = ["--interval", "0.1", "--workers", "1", "--project", importer.project]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    try:
        eventually_points(importer, {"run": expected})
        expected += write_scalars(writer, "loss", range(100, 150))
        eventually_points(importer, {"run": expected})
        with SummaryWriter(str(logs / "run" / "val")) as validation:
            expected += write_scalars(validation, "loss", range(5), "val")
        with SummaryWriter(str(logs / "new")) as another:
            new = write_scalars(another, "rate", range(3))
        eventually_points(importer, {"run": expected, "new": new})
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0
    writer.close()
    assert importer.run("tensorboard", logs)["taken"]["points"] == 158
    eventually_points(importer, {"run": expected, "new": new})


def test_an_import_that_is_killed_and_repeated_is_as_if_done_once(importer: Importer, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    expected = {}
    for name in ("a", "b", "c"):
        with SummaryWriter(str(logs / name)) as writer:
            expected[name] = [it for tag in ("loss", "rate") for it in write_scalars(writer, tag, range(8_000))]
    command = [sys.executable, "-m", "svc_ml.command", "import", "tensorboard", str(logs), "--workers", "2"]
    process = subprocess.Popen([*command, "--project", importer.project], start_new_session=True)
    try:
        # In the middle: some of it is there, and more is on its way.
        eventually(lambda: any(len(read_all(it)) > 0 for it in importer.runs().values()))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert importer.run("tensorboard", logs)["taken"] == {"points": 48_000, "runs": 3}
    eventually_points(importer, expected)


def test_what_did_not_arrive_is_read_again_by_follow(importer: Importer, service: Service, tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path / "run")) as writer:
        expected = write_scalars(writer, "loss", range(500))
    source = TensorBoardSource([tmp_path])
    [run] = source.runs()
    address = f"http://127.0.0.1:{find_closed_port()}"
    away = Target(Connection(address, "key"), "default", importer.project, "", patience_seconds=0)
    there = away._replace(service=Connection(service.url, service.api_key))
    sender = RunSender(source.kind, run, there)
    failed: list[Report] = []
    follow(source, away, [sender], failed.append, is_over=lambda: len(failed) > 0)
    assert "run: " in failed[0].failed[0] and failed[0].taken == {}
    told: list[Report] = []
    follow(source, there, [sender], told.append, is_over=lambda: len(told) > 0)
    assert told[0].taken["points"] == 500
    eventually_points(importer, {"run": expected})


def find_closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_what_cannot_be_imported_says_why(importer: Importer, tmp_path: Path) -> None:
    assert importer_fails(importer, tmp_path / "nothing") == f"svc-ml: there is no folder {tmp_path / 'nothing'}.\n"
    assert "there are no event files" in importer_fails(importer, tmp_path)
    with SummaryWriter(str(tmp_path / "run")) as writer:
        write_scalars(writer, "loss", range(3))
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / event_file(tmp_path / "run").name).write_bytes(event_file(tmp_path / "run").read_bytes())
    assert "are the same run" in importer_fails(importer, tmp_path)
    assert importer.runs() == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become a user without rights")
def test_what_may_not_be_read_is_named_and_the_rest_is_taken() -> None:
    # Not in a folder of pytest, which only its owner may enter.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        look_without_rights(Path(folder) / "logs")


def look_without_rights(logs: Path) -> None:
    for name in ("open", "shut", "folder"):
        with SummaryWriter(str(logs / name)) as writer:
            write_scalars(writer, "loss", range(3))
    event_file(logs / "shut").chmod(0)
    (logs / "folder").chmod(0)
    script = f"""
        import os, sys
        from svc_ml.command import main
        from svc_ml.importers import report, sender, work
        from svc_ml.importers.tensorboard import events, folders, numbers
        os.setuid(65534)
        sys.exit(main(["import", "tensorboard", {str(logs)!r}, "--dry-run", "--json", "--workers", "1"]))
        """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["taken"] == {"runs": 1, "points": 3}
    [folder, shut] = sorted(report["failed"])
    assert "Permission denied" in folder and str(logs / "folder") in folder
    assert shut.startswith("shut: ") and "Permission denied" in shut


def test_a_source_that_is_missing_or_unknown_is_told_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import"]) == 2
    assert "svc-ml import tensorboard  event files of TensorBoard" in capsys.readouterr().err
    assert main(["import", "comet", "some.zip"]) == 1
    assert "comet upload some.zip" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["import", "nothing"])
    assert "invalid choice: 'nothing'" in capsys.readouterr().err


def test_the_page_of_the_documentation_does_what_it_says(
    importer: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with SummaryWriter(str(tmp_path / "logs" / "run")) as writer:
        write_scalars(writer, "loss", range(3))
    monkeypatch.chdir(tmp_path)
    dry, real = commands_of("TensorBoard")
    assert main(dry) == 0 and "Would import 1 run, 3 points in " in capsys.readouterr().out
    assert main(real) == 0 and re.search(r"Imported 1 run, 3 points in [\d.]+ s\.\nhttp", capsys.readouterr().out)


def importer_fails(importer: Importer, folder: Path) -> str:
    command = [sys.executable, "-m", "svc_ml.command", "import", "tensorboard", str(folder), "--workers", "1"]
    done = subprocess.run([*command, "--project", importer.project], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    return done.stderr
