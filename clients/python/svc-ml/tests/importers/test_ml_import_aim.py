"""What `aim` has written is read by `svc-ml import aim`, value for value."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from conftest import Service, eventually
from ml_imports import Importer, bits, commands_of, files, read_all
from ml_ledger import environment, run_script
from svc_ml.command import main
from svc_ml.importers.aim.run import AimSource
from svc_ml.importers.items import Points

FIRST = """
    import logging, math, sys
    import numpy
    from PIL import Image as Picture
    from aim import Distribution, Image, Run, Text

    run = Run(repo=sys.argv[1], experiment="digits", system_tracking_interval=None)
    run.name, run.description = "first", "about it"
    run.add_tag("good")
    run.add_tag("small")
    run["hparams"] = {"rate": 0.1, "layers": {"hidden": [1, 2]}}
    run["seed"] = 7
    for step in range(500):
        run.track(1 / (step + 3), name="loss", step=step, epoch=step // 100, context={"subset": "train"})
    for step in range(0, 500, 50):
        run.track(2 / (step + 3), name="loss", step=step, context={"subset": "val", "fold": 1})
    for at, value in enumerate((math.nan, math.inf, -0.0)):
        run.track(value, name="odd", step=2**40 - at)
    run.track(1, name="count", step=5)
    run.track(Image(Picture.new("RGB", (4, 4), "red"), caption="a red one"), name="digit", step=2)
    run.track([Image(Picture.new("RGB", (4, 4), "red")), Image(Picture.new("RGB", (4, 4), "blue"))], name="pair", step=3)
    run.track(Text("hello"), name="words", step=4)
    run.track(Distribution(numpy.arange(100), bin_count=10), name="weights", step=5)
    run.log_info("a message")
    run.close()
    other = Run(repo=sys.argv[1], system_tracking_interval=None)
    other.track(1.5, name="loss", step=0)
    other.archived = True
    other.close()
    print(run.hash)
"""

MORE = """
    import sys
    from aim import Run

    run = Run(sys.argv[2], repo=sys.argv[1], system_tracking_interval=None)
    for step in range(500, 600):
        run.track(1 / (step + 3), name="loss", step=step, epoch=5, context={"subset": "train"})
    run.track(0.125, name="odd", step=9)
    run.close()
"""
VARIABLES = {"__AIM_REPO_NAME__": ".aim"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("aim")
    run_script(FIRST.replace("\n    ", "\n"), VARIABLES, str(folder / "repository"))
    return folder


@pytest.fixture
def importer(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Importer:
    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    return Importer(service, capsys)


def test_all_that_a_run_has_logged_is_there_once_also_when_it_grows(
    importer: Importer, written: Path, tmp_path: Path
) -> None:
    shutil.copytree(written / "repository", tmp_path / "repository")
    source = AimSource(tmp_path / "repository")
    known = next(it for it in source.runs() if it.name == "first")
    assert sum(len(it.values) for it in known.read() if isinstance(it, Points)) == 514
    assert list(known.read()) == []

    expected = [("loss", "train", step, bits(1 / (step + 3)), step // 100) for step in range(500)]
    expected += [("loss", "fold=1, subset=val", step, bits(2 / (step + 3)), None) for step in range(0, 500, 50)]
    expected += [("odd", "", 2**40 - at, bits(value), None) for at, value in enumerate((math.nan, math.inf, -0.0))]
    expected += [("count", "", 5, bits(1.0), None)]
    importer.kill("aim", tmp_path / "repository")
    first = importer.run("aim", tmp_path / "repository")
    assert first["failed"] == [] == first["leftOut"]
    assert first["taken"] == {"runs": 2, "points": 515, "files": 6, "parameters": 3, "others": 2, "tags": 2}

    def look(expected: list[tuple[str, str, int, str, int | None]]) -> bool:
        rows = importer.runs()["first"].metrics().rows()
        found = [(it["name"], it["context"] or "", it["step"], bits(it["value"]), it["epoch"]) for it in rows]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        return True

    for _ in range(2):
        eventually(lambda: look(expected))
        assert importer.run("aim", tmp_path / "repository" / ".aim")["taken"] == first["taken"]
    run = importer.runs()["first"]
    times = {round(it["time"].timestamp() * 1000) for it in run.metrics().rows()}
    assert run.start is not None and run.end is not None
    assert run.start.timestamp() * 1000 - 1 <= min(times) <= max(times) <= run.end.timestamp() * 1000 + 1
    assert run.state == "finished" and run.others == {"notes": "about it"} and set(run.tags) == {"good", "small"}
    assert run.params == {"hparams|rate": 0.1, "hparams|layers|hidden": "[1, 2]", "seed": 7}
    found = files(run)
    assert found["text-sample", "words.txt", 4] == b"hello" and found["image", "digit.png", 2].startswith(b"\x89PNG")
    assert found["image", "pair/0.png", 3] != found["image", "pair/1.png", 3]
    assert json.loads(found["histogram3d", "weights.json", 5])["counts"] == [10] * 10
    assert json.loads(found["asset", "log_records.jsonl", None])["message"] == "a message"
    caption = next(json.loads(it.metadata or "{}") for it in run.assets() if it.name == "digit.png")
    assert caption == {"caption": "a red one"}
    other = next(it for it in importer.runs().values() if it.name != "first")
    assert other.others == {"archived": True}
    assert eventually(lambda: len(read_all(other)) == 1)

    run_script(MORE.replace("\n    ", "\n"), VARIABLES, str(tmp_path / "repository"), known.identity)
    known.take_over(next(it for it in source.runs() if it.name == "first"))
    new = {(it.name, it.context): it.steps for it in known.read() if isinstance(it, Points)}
    # One of an earlier step is in between, so that series is read as a whole.
    assert new == {("loss", "train"): list(range(500, 600)), ("odd", ""): [9, 2**40 - 2, 2**40 - 1, 2**40]}
    importer.run("aim", tmp_path / "repository")
    expected += [("loss", "train", step, bits(1 / (step + 3)), 5) for step in range(500, 600)]
    eventually(lambda: look([*expected, ("odd", "", 9, bits(0.125), None)]))


def test_the_page_of_the_documentation_does_what_it_says(
    importer: Importer,
    written: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(written)
    for command in commands_of("Aim"):
        # Each process imports aim, which takes seconds.
        assert main([*command, "--workers", "1"]) == 0
        assert "2 runs" in capsys.readouterr().out
    (tmp_path / ".aim" / "meta" / "chunks").mkdir(parents=True)
    assert main(["import", "aim", str(tmp_path), "--dry-run"]) == 1
    assert "there are no runs of Aim in it" in capsys.readouterr().err
    (tmp_path / ".aim" / "meta" / "chunks" / "damaged").mkdir()
    assert main(["import", "aim", str(tmp_path), "--dry-run", "--workers", "1"]) == 1
    assert "Failed: damaged: Aim cannot read it" in capsys.readouterr().out
