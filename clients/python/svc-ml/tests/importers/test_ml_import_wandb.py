"""What `wandb` has written offline is read by `svc-ml import wandb`, value for value."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import Service, eventually
from ml_imports import Importer, bits, commands_of, files, milliseconds, read_all
from ml_ledger import environment, run_script
from svc_ml.command import main

SCRIPT = """
    import json, math, sys
    import numpy
    import wandb

    rows = []
    run = wandb.init(project="digits", name="first", id="abc123", config={"rate": 0.1, "layers": {"hidden": 3}, "name": "adam"},
                     tags=["one", "two"], notes="some notes", group="sweep", job_type="train")
    run.define_metric("epoch")
    run.define_metric("valid/*", step_metric="epoch")
    for step in range(3000):
        row = {"loss": 1 / (step + 3), "nested": {"deep": {"x": -step}}}
        if step % 10 == 9:
            row |= {"epoch": step // 10, "valid/loss": math.sin(step)}
        run.log(row)
    for value in (math.nan, math.inf, -math.inf, -0.0, 5e-324):
        run.log({"odd": value})
    run.log({"big": 2**53 + 2}, step=2**40)
    with open("note.txt", "w") as file:
        file.write("saved")
    run.save("note.txt")
    run.log({
        "weights": wandb.Histogram(np_histogram=([1, 2, 3], [0, 0.5, 1, 2])),
        "digit": wandb.Image(numpy.zeros((4, 4, 3), dtype="uint8"), caption="a zero"),
        "several": [wandb.Image(numpy.zeros((4, 4), dtype="uint8")) for _ in range(2)],
        "table": wandb.Table(columns=["a", "b"], data=[[1, "x"], [2, "y"]]),
        "page": wandb.Html("<p>some</p>"),
        "phase": "warm",
    })
    run.summary["best"] = 0.25
    artifact = wandb.Artifact("weights", "model", metadata={"layers": 3})
    artifact.add_file("note.txt")
    run.log_artifact(artifact, aliases=["good"])
    print("first line")
    print("second line")
    print("a warning", file=sys.stderr)
    run.finish(exit_code=3)
    run = wandb.init(project="digits", name="second", id="def456")
    run.log({"loss": 1})
    run.finish()
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wandb")
    variables = {
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(folder),
        "WANDB_DATA_DIR": str(folder / "data"),
        "WANDB_CACHE_DIR": str(folder / "cache"),
        "WANDB_CONFIG_DIR": str(folder / "config"),
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
    }
    run_script(f"import os; os.chdir({str(folder)!r})\n" + SCRIPT.replace("\n    ", "\n"), variables)
    return folder


@pytest.fixture
def importer(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Importer:
    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    return Importer(service, capsys)


def expected_points() -> dict[str, list[tuple[int, str]]]:
    """Step and bits of the value, by metric."""
    steps = range(3_000)
    validated = range(9, 3_000, 10)
    odd = (math.nan, math.inf, -math.inf, -0.0, 5e-324)
    return {
        "loss": [(step, bits(1 / (step + 3))) for step in steps],
        "nested.deep.x": [(step, bits(float(-step))) for step in steps],
        "epoch": [(step, bits(float(step // 10))) for step in validated],
        "valid/loss": [(step, bits(math.sin(step))) for step in validated],
        "odd": [(3_000 + at, bits(value)) for at, value in enumerate(odd)],
        "big": [(2**40, bits(float(2**53 + 2)))],
    }


def of_metrics(run: Any) -> dict[str, list[tuple[int | None, str]]]:
    found: dict[str, list[tuple[int | None, str]]] = {}
    for name, _, step, _, value in read_all(run):
        found.setdefault(name, []).append((step, value))
    return found


def test_all_that_a_run_has_logged_is_there(importer: Importer, written: Path) -> None:
    importer.kill("wandb", written)
    report = importer.run("wandb", written)
    assert report["taken"]["runs"] == 2 and report["failed"] == []
    assert {it["what"] for it in report["leftOut"]} <= {"artifacts of the type run_table", "artifacts of the type job"}
    run = importer.runs()["first"]
    eventually(lambda: of_metrics(run) == expected_points())
    assert run.params == {"rate": 0.1, "layers|hidden": 3, "name": "adam"}
    assert run.tags == ["one", "two"]
    kept = {"notes": "some notes", "group": "sweep", "job_type": "train", "best": 0.25, "phase": "warm"}
    assert kept.items() <= run.others.items() and run.others["x axis of valid/*"] == "epoch"
    assert run.state == "crashed" and importer.runs()["second"].state == "finished"
    times = [it[3] for it in read_all(run)]
    assert milliseconds(run.start) <= min(times) <= max(times) <= milliseconds(run.end)
    eventually(lambda: [it["text"] for it in run.output().rows()])
    lines = [(it["text"], it["stderr"]) for it in run.output().rows()]
    assert lines == [("first line", False), ("second line", False), ("a warning", True)]


def test_files_tables_histograms_and_artifacts_are_there(importer: Importer, written: Path, tmp_path: Path) -> None:
    importer.run("wandb", written)
    run = importer.runs()["first"]
    at = 2**40
    found = files(run)
    assert found["image", "digit.png", at].startswith(b"\x89PNG") and ("image", "several/1.png", at) in found
    assert found["dataframe", "table.csv", at] == b"a,b\n1,x\n2,y\n"
    assert b"<p>some</p>" in found["asset", "page.html", at]
    assert found["asset", "note.txt", None] == b"saved"
    histogram = json.loads(found["histogram3d", "weights.json", at])
    assert histogram["counts"] == [1, 2, 3] and histogram["edges"] == [0, 0.5, 1, 2]
    described = next(it for it in run.assets() if it.name == "digit.png")
    assert json.loads(described.metadata or "") == {"caption": "a zero"}
    [artifact] = run.artifacts()
    version = importer.service.get(f"/api/rest/v2/artifacts/version?versionId={artifact.id}")
    assert artifact.name == "weights" and "good" in version["alias"] and '"layers": 3' in version["metadata"]
    artifact.download(tmp_path / "artifact", show_progress=False)
    assert (tmp_path / "artifact" / "note.txt").read_text() == "saved"


def place_in_record(data: bytes, after: int) -> int:
    """The middle of the record that ends after so many bytes: a cut between two records tears none. Both the file and a record have a
    header of 7 bytes; a record's has its length at byte 4, and is in one block of 32 KiB."""
    header, block = 7, 32 * 1024
    at = header
    while True:
        left = block - at % block
        if left < header:
            at += left
        end = at + header + int.from_bytes(data[at + 4 : at + 6], "little")
        if end > after:
            return (at + end) // 2
        at = end


def test_an_import_that_is_repeated_and_one_that_has_grown_add_nothing_twice(
    importer: Importer, written: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(written / "wandb", copy, symlinks=True)
    path = next(copy.glob("offline-run-*/run-abc123.wandb"))
    whole = path.read_bytes()
    path.write_bytes(whole[: place_in_record(whole, 200_000)])
    report = importer.run("wandb", copy)
    assert [it["what"] for it in report["leftOut"]] == ["torn records"]
    path.write_bytes(whole)
    first = importer.run("wandb", copy)
    run = importer.runs()["first"]
    assets = len(run.assets())
    assert importer.run("wandb", copy)["taken"] == first["taken"]
    eventually(lambda: of_metrics(run) == expected_points())
    assert len(run.artifacts()) == 1
    assert len(run.assets()) == assets > 6
    assert len(run.output().rows()) == 3


def test_damaged_blocks_are_named_and_the_rest_is_taken(importer: Importer, written: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(written / "wandb", copy, symlinks=True)
    path = next(copy.glob("offline-run-*/run-abc123.wandb"))
    data = bytearray(path.read_bytes())
    data[100_000] ^= 1
    path.write_bytes(data)
    report = importer.run("wandb", copy)
    [told] = [it for it in report["leftOut"] if it["what"] == "damaged records"]
    assert str(path) in told["why"] and told["count"] == 1
    run = importer.runs()["first"]
    eventually(lambda: "big" in of_metrics(run))
    found, expected = of_metrics(run), expected_points()
    assert all(set(found[name]) <= set(expected[name]) for name in found)
    assert 2_000 < len(found["loss"]) < 3_000


def test_the_page_of_the_documentation_does_what_it_says(
    importer: Importer, written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(written)
    for command in commands_of("W&B"):
        assert main(command) == 0
        assert "2 runs" in capsys.readouterr().out
