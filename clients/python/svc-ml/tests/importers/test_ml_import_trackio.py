"""What `trackio` has written is read by `svc-ml import trackio`, value for value."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from conftest import Service, eventually
from ml_imports import Importer, bits, commands_of, files, read_all
from ml_ledger import environment, run_script
from svc_ml.command import main

SCRIPT = """
    import math, numpy, trackio

    trackio.init(project="digits", name="first", config={"rate": 0.1, "layers": {"hidden": 3}}, auto_log_gpu=False)
    for step in range(200):
        trackio.log({"loss": 1 / (step + 3), "nested": {"x": -step}})
    for value in (math.nan, math.inf, -math.inf):
        trackio.log({"odd": value})
    trackio.log({"digit": trackio.Image(numpy.zeros((4, 4, 3), dtype="uint8"), caption="a zero"), "phase": "warm"}, step=300)
    trackio.finish()
    trackio.init(project="digits", name="second", auto_log_gpu=False)
    trackio.log({"loss": 1})
    trackio.finish()
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trackio")
    variables = {"TRACKIO_DIR": str(folder / "trackio"), "HF_HUB_OFFLINE": "1", "TRACKIO_AUTO_LOG_CPU": "0"}
    run_script(SCRIPT.replace("\n    ", "\n"), variables)
    return folder


@pytest.fixture
def importer(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Importer:
    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    return Importer(service, capsys)


def test_all_that_a_run_has_logged_is_there_once(importer: Importer, written: Path) -> None:
    expected = [("loss", step, bits(1 / (step + 3))) for step in range(200)]
    expected += [("nested.x", step, bits(float(-step))) for step in range(200)]
    expected += [("odd", 200 + at, bits(value)) for at, value in enumerate((math.nan, math.inf, -math.inf))]
    importer.kill("trackio", written / "trackio")
    first = importer.run("trackio", written / "trackio")
    assert first["taken"]["runs"] == 2 and first["leftOut"] == [] == first["failed"]
    for _ in range(2):
        run = importer.runs()["first"]
        eventually(lambda run=run: [(it[0], it[2], it[4]) for it in read_all(run)] == expected)
        assert run.params == {"rate": 0.1, "layers|hidden": 3}
        assert run.others == {"phase": "warm"} and run.state == "finished"
        [(key, data)] = files(run).items()
        assert key == ("image", "digit.png", 300) and data.startswith(b"\x89PNG")
        assert importer.run("trackio", written / "trackio/digits.db")["taken"] == first["taken"]


def test_the_page_of_the_documentation_does_what_it_says(
    importer: Importer,
    written: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(written / "trackio"))
    monkeypatch.chdir(written)
    for command in commands_of("trackio"):
        assert main(command) == 0
        assert "2 runs" in capsys.readouterr().out
    (tmp_path / "text.db").write_text("no database, but a text that is long enough to be looked at")
    assert main(["import", "trackio", str(tmp_path / "text.db")]) == 1
    assert "cannot be read: file is not a database" in capsys.readouterr().err
