"""What `swanlab` has written offline is read by `svc-ml import swanlab`, value for value."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from conftest import Service, eventually
from ml_imports import Importer, bits, commands_of, files, read_all
from ml_ledger import environment, run_script
from svc_ml.command import main

SCRIPT = """
    import math, sys
    import numpy, swanlab

    swanlab.init(
        project="digits", experiment_name="first", description="about it", tags=["a", "b"], mode="offline", logdir=sys.argv[1],
        config={"rate": 0.1, "layers": {"hidden": [1, 2]}},
    )
    for step in range(2_000):
        swanlab.log({"train/loss": 1 / (step + 3), "count": step}, step=step)
    for at, value in enumerate((math.nan, math.inf, -0.0)):
        swanlab.log({"odd": value}, step=2**40 + at)
    swanlab.log({"digit": swanlab.Image(numpy.zeros((4, 4, 3), dtype="uint8"), caption="a zero")}, step=7)
    swanlab.log({"words": swanlab.Text("hello")}, step=8)
    print("a line of output")
    swanlab.finish()
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("swanlab")
    run_script(SCRIPT.replace("\n    ", "\n"), {"SWANLAB_SAVE_DIR": str(folder / "settings")}, str(folder / "swanlog"))
    return folder


@pytest.fixture
def importer(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Importer:
    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    return Importer(service, capsys)


def test_all_that_a_run_has_logged_is_there_once(
    importer: Importer,
    written: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = [("count", step, bits(float(step))) for step in range(2_000)]
    expected += [("odd", 2**40 + at, bits(value)) for at, value in enumerate((math.nan, math.inf, -0.0))]
    expected += [("train/loss", step, bits(1 / (step + 3))) for step in range(2_000)]

    # Cut off in the middle first, as a run that was killed leaves it.
    [whole] = (written / "swanlog").glob("*/run-*.swanlab")
    cut = tmp_path / "swanlog" / whole.parent.name / whole.name
    cut.parent.mkdir(parents=True)
    data = whole.read_bytes()
    # Within a name, so never between two records.
    cut.write_bytes(data[: data.rindex(b"train/loss", 0, len(data) // 2) + 3])
    half = importer.run("swanlab", tmp_path)
    assert "torn records" in {it["what"] for it in half["leftOut"]} and half["taken"]["points"] > 1_000
    run = importer.runs()["first"]
    eventually(lambda: len(read_all(run)) == half["taken"]["points"])

    importer.kill("swanlab", written / "swanlog")
    first = importer.run("swanlab", written / "swanlog")
    assert first["leftOut"] == [] == first["failed"] and first["taken"]["points"] == len(expected)
    for _ in range(2):
        eventually(lambda: [(it[0], it[2], it[4]) for it in read_all(run)] == expected)
        assert importer.run("swanlab", whole)["taken"] == first["taken"]
    again = importer.runs()["first"]
    assert again.state == "finished" and again.params == {"rate": 0.1, "layers|hidden": "[1, 2]"}
    assert again.others["notes"] == "about it" and set(again.tags) == {"a", "b"}
    assert "a line of output" in run.output()["text"]
    found = {(type, name): data for (type, name, _), data in files(run).items()}
    assert found["image", "digit.png"].startswith(b"\x89PNG") and found["asset", "words.txt"] == b"hello"
    assert ("asset", "requirements.txt") in found

    monkeypatch.chdir(written)
    for command in commands_of("SwanLab"):
        assert main([*command, "--dry-run"]) == 0 and "1 run" in capsys.readouterr().out
    (tmp_path / "run-other.swanlab").write_bytes(b":SWL\xd6\xe1\x01 of an older version")
    assert main(["import", "swanlab", str(tmp_path / "run-other.swanlab"), "--dry-run"]) == 1
    assert "another kind of file, or version" in capsys.readouterr().err
