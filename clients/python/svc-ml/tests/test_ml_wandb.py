"""Scripts written for W&B: what they log is what is read. The blocks of docs/wandb.md are run as they stand."""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy
import pandas
import pytest
from PIL import Image as PillowImage

import svc_ml
import svc_ml.wandb as wandb
from conftest import ROOT, Service, eventually
from ml_ledger import environment, read, read_points, read_values, run_script, sync
from svc_ml.read import NotFound

PAGE = (ROOT / "docs/wandb.md").read_text()


@pytest.fixture(autouse=True)
def variables(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    found = {**environment(service, tmp_path), "WANDB_SILENT": "true"}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("svc_ml.wandb.absent._told", set())
    yield found
    wandb.finish()


def ended(service: Service, key: str) -> dict[str, Any]:
    found: dict[str, Any] = read(service, key, "metadata")
    assert not found["running"]
    return found


def expect_points(service: Service, key: str, metric: str, expected: list[tuple[int, float]]) -> None:
    eventually(lambda: read_points(service, key, metric) == expected)


def assets(service: Service, key: str) -> dict[str, dict[str, Any]]:
    return {it["fileName"]: it for it in read(service, key, "asset/list", type="all")["assets"]}


def content(service: Service, key: str, asset: dict[str, Any]) -> Any:
    return service.get(f"/api/rest/v2/experiment/asset/get-asset?experimentKey={key}&assetId={asset['assetId']}")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.S | re.M)


def test_the_script_of_the_page_logs_what_it_says(service: Service, variables: dict[str, str]) -> None:
    script, *more = blocks("python")
    _, told = run_script(script, variables)
    link = re.search(r"has ended: .* \S+/([0-9a-f]{32})$", told.strip())
    assert link is not None, told
    key = link[1]
    expect_points(service, key, "loss", [(step, 1 / (step + 1)) for step in range(100)])
    assert read_values(service, key, "parameters") == {"rate": "0.01", "layers": "3"}
    others = read_values(service, key, "log-other")
    assert others["best"] == "0.01" and others["x axis of valid/*"] == "epoch"
    expect_points(service, key, "valid/loss", [(step, float(step)) for step in range(9, 100, 10)])
    expect_points(service, key, "epoch", [(step, float(step // 10)) for step in range(9, 100, 10)])
    for it in more:
        run_script(it, variables)


def test_steps_count_calls_and_a_step_may_be_said(service: Service) -> None:
    with wandb.init(project="clients") as run:
        run.log({"a": 1})
        run.log({"a": 2}, commit=False)
        run.log({"b": 3})
        wandb.log({"a": 4}, step=10)
        wandb.log({"b": 5})
        wandb.log({"a": 6}, step=3)
        assert (run.step, wandb.run is run) == (3, True)
    assert wandb.run is None
    key = run.experiment.id
    expect_points(service, key, "a", [(0, 1.0), (1, 2.0), (3, 6.0), (10, 4.0)])
    expect_points(service, key, "b", [(1, 3.0), (10, 5.0)])


def test_a_run_is_found_by_its_id_and_goes_on_after_its_last_step(service: Service) -> None:
    name = wandb.util.generate_id()
    with wandb.init(id=name, resume="allow") as first:
        assert not first.resumed
        for value in range(3):
            first.log({"loss": value})
    # What was acknowledged a moment ago may not be in the summary yet.
    eventually(lambda: "loss" in read_values(service, first.experiment.id, "metrics/summary"))
    expect_points(service, first.experiment.id, "loss", [(it, float(it)) for it in range(3)])
    with svc_ml.init(id=name, resume="must") as second:
        assert second.resumed and second.id == name and second.starting_step == 3
        second.log({"loss": 3})
    assert first.experiment.id == second.experiment.id
    expected = [(it, float(it)) for it in range(4)]
    expect_points(service, second.experiment.id, "loss", expected)


def test_every_kind_of_value_is_kept(service: Service, tmp_path: Path) -> None:
    figure = matplotlib.figure.Figure()
    figure.subplots().plot([1, 2])
    grey = numpy.linspace(-1, 1, 64).reshape(8, 8)
    (tmp_path / "page.html").write_text("<p>from a file</p>")
    table = wandb.Table(columns=["id", "label"], data=[[1, "a,b"], [2, None]])
    table.add_data(3, wandb.Image(grey))
    table.add_column("score", [0.1, 0.2, 0.3])
    with wandb.init() as run:
        run.log({"loss": numpy.float32(0.5), "nan": math.nan, "ok": True, "deep": {"er": {"x": 1}}, "none": None})
        run.log(
            {
                "status": "fine",
                "one": wandb.Image(grey, caption="a ramp"),
                "many": [wandb.Image(PillowImage.new("RGB", (4, 4))), wandb.Image(figure)],
                "figure": figure,
                "weights": numpy.arange(100),
                "counted": wandb.Histogram(np_histogram=([1, 2], [0.0, 1.0, 2.0])),
                "sound": wandb.Audio(numpy.zeros(80), sample_rate=8_000),
                "clip": wandb.Video(numpy.zeros((3, 3, 8, 8), dtype="uint8"), fps=2),
                "page": wandb.Html("<p>given</p>"),
                "file": wandb.Html(str(tmp_path / "page.html")),
                "points": wandb.Object3D(numpy.array([[0, 0, 0, 255, 0, 0], [1, 1, 1, 0, 255, 0]])),
                "table": table,
                "frame": wandb.Table(dataframe=pandas.DataFrame({"x": [1, 2]})),
                "roc": wandb.plot.line(wandb.Table(columns=["fpr", "tpr"], data=[[0, 0], [1, 1]]), "fpr", "tpr"),
                "matrix": wandb.plot.confusion_matrix(y_true=[0, 1, 1], preds=[0, 1, 0], class_names=["no", "yes"]),
                "list": [1, 2],
            }
        )
    assert run.experiment.get_logging_errors() == []
    key = run.experiment.id
    expect_points(service, key, "loss", [(0, 0.5)])
    expect_points(service, key, "ok", [(0, 1.0)])
    expect_points(service, key, "deep.er.x", [(0, 1.0)])
    assert eventually(lambda: math.isnan(read_points(service, key, "nan")[0][1]))
    others = read_values(service, key, "log-other")
    assert (others["status"], others["list"]) == ("fine", "[1, 2]")
    # Without what every run has: its sources, and the patch of a checkout with changes.
    found = {name: it for name, it in assets(service, key).items() if it["type"] not in ("source_code", "git-patch")}
    assert {name: it["type"] for name, it in found.items()} == {
        **{"one": "image", "many/0": "image", "many/1": "image", "figure.png": "image"},
        **{"weights.json": "histogram3d", "counted.json": "histogram3d"},
        **{"sound.wav": "audio", "clip.gif": "video", "page.html": "asset", "file.html": "asset"},
        **{"points.json": "3d-points", "table.csv": "dataframe", "frame.csv": "dataframe"},
        **{"roc.json": "curve", "matrix.json": "confusion-matrix"},
    }
    assert all(it["step"] == 1 for it in found.values())
    assert json.loads(found["one"]["metadata"]) == {"caption": "a ramp"}
    assert content(service, key, found["counted.json"])["counts"] == [1, 2]
    assert content(service, key, found["matrix.json"])["matrix"] == [[1, 0], [1, 1]]


def test_configuration_summary_and_words_about_the_run_are_kept(service: Service) -> None:
    given = argparse.Namespace(rate=0.5, layers={"hidden": 2}, secret="no")
    run = wandb.init(
        config=given, config_exclude_keys=["secret"], group="g", job_type="train", notes="first", tags=["a"], name="n"
    )
    wandb.config.update({"rate": 0.25})
    wandb.config.epochs = 3
    wandb.config.setdefaults({"epochs": 9, "seed": 1})
    assert (run.config["rate"], run.config.epochs, run.config.get("nothing", 7)) == (0.25, 3, 7)
    run.log({"loss": 0.75})
    assert wandb.summary["loss"] == 0.75
    wandb.summary["best"] = 0.5
    run.summary.update({"best_at": 4})
    run.tags += ("b",)
    run.name = "renamed"
    wandb.finish(exit_code=3)
    key = run.experiment.id
    assert read_values(service, key, "parameters") == {
        **{"rate": "0.25", "layers|hidden": "2", "epochs": "3", "seed": "1"}
    }
    others = read_values(service, key, "log-other")
    assert {name: others[name] for name in ("group", "job_type", "notes", "best", "best_at", "Name")} == {
        **{"group": "g", "job_type": "train", "notes": "first", "best": "0.5", "best_at": "4", "Name": "renamed"}
    }
    assert read(service, key, "tags")["tags"] == ["a", "b"]
    assert ended(service, key)["hasCrashed"] and ended(service, key)["error"] == "exit code 3"


def test_the_axis_of_a_metric_is_logged_along_with_its_last_value(service: Service) -> None:
    with wandb.init() as run:
        epoch = run.define_metric("epoch")
        run.define_metric("valid/*", step_metric=epoch)
        run.define_metric("rate", step_metric="_step", summary="min")
        run.log({"epoch": 1, "valid/loss": 3})
        run.log({"loss": 1})
        run.log({"valid/loss": 2})
    key = run.experiment.id
    expect_points(service, key, "epoch", [(0, 1.0), (2, 1.0)])
    others = read_values(service, key, "log-other")
    assert (others["x axis of valid/*"], others["x axis of rate"]) == ("epoch", "step")


def test_artifacts_get_versions_and_saved_files_are_those_of_the_end(service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    with wandb.init() as run:
        name = f"set-{run.id}"
        artifact = wandb.Artifact(name, type="dataset", description="digits", metadata={"rows": 2})
        artifact.add_dir(folder, name="in")
        artifact.add(wandb.Table(columns=["x"], data=[[1]]), "table")
        with artifact.new_file("note.txt", mode="w") as file:
            file.write("made here")
        assert run.log_artifact(artifact, aliases=["latest", "best"]) is artifact
        wandb.log_artifact(str(folder / "a.txt"), name=name, type="dataset").wait()
        used = wandb.use_artifact(f"nobody/digits/{name}:v0")
        assert sorted(used.files()) == ["in/a.txt", "note.txt", "table.csv"]
        assert (Path(used.download(tmp_path / "got")) / "in" / "a.txt").read_text() == "a"
        assert Path(run.use_artifact(f"{name}:latest").file(tmp_path / "last")).read_text() == "a"
        with pytest.raises(NotFound, match="no artifact"):
            run.use_artifact("nothing:latest")
        assert run.save(str(tmp_path / "*.log")) == []
        (tmp_path / "train.log").write_text("begun")
        run.save(str(tmp_path / "*.log"))
        run.experiment.flush()
        (tmp_path / "train.log").write_text("begun and ended")
        os.utime(tmp_path / "train.log", (2_000_000_000, 2_000_000_000))
    found = service.get(f"/api/rest/v2/artifacts/get?workspace={service.workspace}&artifactName={name}")
    assert [(it["version"], it["state"], it["alias"]) for it in found["versions"]] == [
        ("2.0.0", "CLOSED", ["Latest"]),
        ("1.0.0", "CLOSED", ["best"]),
    ]
    about = json.loads(found["versions"][1]["metadata"])
    assert (about["description"], about["rows"]) == ("digits", 2)
    query = f"workspace={service.workspace}&artifactName={name}&version=1.0.0"
    files = service.get(f"/api/rest/v2/artifacts/version/files?{query}")["files"]
    assert sorted(it["fileName"] for it in files) == ["in/a.txt", "note.txt", "table.csv"]
    linked = service.get(f"/api/rest/v2/get/artifacts?experimentKey={run.experiment.id}")["artifacts"]
    assert [(it["version"], it["direction"]) for it in linked if it["direction"] == "input"] == [
        ("1.0.0", "input"),
        ("2.0.0", "input"),
    ]
    logs = [it for it in assets(service, run.experiment.id).values() if it["fileName"] == "train.log"]
    assert [it["fileSize"] for it in logs] == [len("begun and ended")]


def test_variables_of_wandb_count_where_svc_says_nothing(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SVC_PROJECT_NAME")
    for name, value in {
        **{"PROJECT": "of-wandb", "ENTITY": "nobody", "NAME": "named", "TAGS": "x,y", "NOTES": "said"},
        **{"RUN_GROUP": "grouped", "MODE": "offline", "API_KEY": "must-not-be-sent"},
    }.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    run = wandb.init()
    assert run.offline and wandb.init() is run
    run.log({"loss": 1})
    run.finish()
    folder = tmp_path / "offline"
    assert not any(b"must-not-be-sent" in it.read_bytes() for it in folder.rglob("*") if it.is_file())
    sent = sync(folder, environment(service, tmp_path))
    assert sent.returncode == 0, sent.stderr
    found = ended(service, run.experiment.id)
    assert (found["projectName"], found["experimentName"]) == ("of-wandb", "named")
    assert read(service, run.experiment.id, "tags")["tags"] == ["x", "y"]
    monkeypatch.setenv("WANDB_MODE", "disabled")
    with wandb.init() as nothing:
        nothing.log({"loss": 1})
        assert nothing.disabled


def test_what_is_not_carried_over_is_told_once_and_stops_nothing(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(wandb.Error, match=r"call wandb.init\(\) first"):
        wandb.log({"loss": 1})
    with caplog.at_level(logging.WARNING, logger="svc_ml"), wandb.init() as run:
        for _ in range(3):
            run.log({"loss": 1, "graph": wandb.Graph(), "curve": wandb.plot.pr_curve([1], [2]), "object": object()})
            run.link_artifact(None, "registry").wait()
            wandb.restore("model.pt")
            run.log([1, 2])  # type: ignore[arg-type]
            wandb.alert(title="Low", text="accuracy", level=wandb.AlertLevel.WARN)
        with pytest.raises(wandb.UsageError, match="runs no sweeps"):
            wandb.sweep({"method": "grid"})
    told = [it.getMessage() for it in caplog.records]
    for what in ("wandb.Graph", "wandb.plot.pr_curve", "run.link_artifact", "wandb.restore", "alert by mail"):
        assert sum(it.startswith(f"{what} ") for it in told) == 1, (what, told)
    assert sum("log takes a dictionary" in it for it in told) == 1, told
    expect_points(service, run.experiment.id, "loss", [(step, 1.0) for step in range(3)])
    assert read_values(service, run.experiment.id, "log-other")["alert Low"] == "WARN: accuracy"


def test_a_run_goes_on_until_it_is_begun_anew_and_ends_with_the_script(
    service: Service, variables: dict[str, str]
) -> None:
    first = wandb.init()
    second = wandb.init(reinit=True)
    assert first.id != second.id and not ended(service, first.experiment.id)["hasCrashed"]
    script = """
        import svc_ml.wandb as wandb
        wandb.init(id="{id}", project="clients")
        wandb.log({"loss": 2})
        raise SystemExit("no more data")
        """.replace("{id}", second.id[:8])
    with pytest.raises(AssertionError, match="no more data"):
        run_script(script, variables)
    key = wandb.session.to_key(second.id[:8], None, "clients")
    expect_points(service, key, "loss", [(0, 2.0)])
