"""CSV, JSON lines and Parquet, as pandas and polars write them, and the export of Neptune, value for value."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Optional

import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

from conftest import Service, eventually
from ml_imports import Importer, Point, bits, commands_of, eventually_points, files, milliseconds, read_all
from ml_ledger import environment
from svc_ml.command import main

START = 1_700_000_000_000


@pytest.fixture
def importer(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Importer:
    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    return Importer(service, capsys)


def rows_of(run: str, steps: Iterable[int]) -> list[dict[str, Any]]:
    return [
        {"run": run, "step": step, "timestamp": START + step, "loss": 1 / (step + 3), "rate": 0.1, "split": "train"}
        for step in steps
    ]


def points_of(rows: list[dict[str, Any]], context: str = "train") -> list[Point]:
    return [("loss", context, it["step"], it["timestamp"], bits(it["loss"])) for it in rows]


MAPPING = ["--run", "run", "--param", "rate", "--context", "split"]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_each_value_of_a_column_is_a_run(importer: Importer, tmp_path: Path, kind: str) -> None:
    first, second = rows_of("first", range(500)), rows_of("second", range(0, 70, 7))
    # The rows of a run need not stand together.
    frame = polars.DataFrame(first[:200] + second[:3] + first[200:] + second[3:])
    path = tmp_path / f"points.{kind}"
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[kind](path)
    importer.kill(kind, path, *MAPPING)
    report = importer.run(kind, path, *MAPPING)
    assert report["taken"] == {"points": 510, "parameters": 2, "runs": 2} and report["leftOut"] == []
    eventually_points(importer, {"first": points_of(first), "second": points_of(second)})
    run = importer.runs()["second"]
    assert run.params == {"rate": 0.1} and run.state == "finished"
    assert (milliseconds(run.start), milliseconds(run.end)) == (START, START + 63)


def test_a_file_is_a_run_and_what_is_no_number_is_counted(importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "\ufeffstep,time,loss,note,odd\n"
        "0,2023-11-14T22:13:20Z,0.5,fine,nan\n"
        "1.0,1700000001.5,,,-inf\n"
        '9223372036854775807,1700000002000000,0.25,"two\nlines",-0.0\n'
        "1.5,1700000003,0.125,,1\n"
        "3,never,0.125,,1\n"
    )
    report = importer.run("csv", path)
    assert sorted((it["what"], it["count"]) for it in report["leftOut"]) == [("cells", 2), ("rows", 1), ("rows", 1)]
    assert any("1.5" in it["why"] for it in report["leftOut"]) and any("never" in it["why"] for it in report["leftOut"])
    last = 2**63 - 1
    expected: list[Point] = [
        ("loss", "", 0, START, bits(0.5)),
        ("odd", "", 0, START, bits(math.nan)),
        ("odd", "", 1, START + 1_500, bits(-math.inf)),
        ("loss", "", last, START + 2_000, bits(0.25)),
        ("odd", "", last, START + 2_000, bits(-0.0)),
    ]
    eventually_points(importer, {"log": expected})


def test_names_of_metrics_may_be_in_a_column(importer: Importer, tmp_path: Path) -> None:
    frame = pandas.DataFrame({"name": ["a", "b", "a"], "at": [1, 1, 2], "number": [0.1, 0.2, 0.3]})
    frame.to_json(tmp_path / "long.jsonl", orient="records", lines=True)
    options = ["--metric", "name", "--value", "number", "--step", "at"]
    assert importer.run("jsonl", tmp_path / "long.jsonl", *options)["taken"] == {"points": 3, "runs": 1}
    run = importer.runs()["long"]
    found = [("a", 1, bits(0.1)), ("a", 2, bits(0.3)), ("b", 1, bits(0.2))]
    eventually(lambda: sorted((name, step, value) for name, _, step, _, value in read_all(run)) == found)


def test_a_file_that_has_grown_adds_what_is_new(importer: Importer, tmp_path: Path) -> None:
    rows = rows_of("first", range(300))
    path = tmp_path / "points.csv"
    for count in (100, 300, 300):
        polars.DataFrame(rows[:count]).write_csv(path)
        importer.run("csv", path, *MAPPING)
    eventually_points(importer, {"first": points_of(rows)})


def test_columns_that_are_not_there_are_refused(
    importer: Importer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.csv").write_text("step,loss\n1,2\n")
    for options, told in [
        (["--run", "nothing"], "has no column nothing: it has step, loss."),
        (["--metric", "loss"], "has no column value"),
    ]:
        assert main(["import", "csv", str(tmp_path / "log.csv"), *options]) == 1
        assert told in capsys.readouterr().err
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    assert main(["import", "parquet", str(tmp_path / "broken.parquet")]) == 1
    assert "cannot be read" in capsys.readouterr().err


# Neptune

SCHEMA = pyarrow.schema(
    [
        ("project_id", pyarrow.string()),
        ("run_id", pyarrow.string()),
        ("attribute_path", pyarrow.string()),
        ("attribute_type", pyarrow.string()),
        ("step", pyarrow.decimal128(18, 6)),
        ("timestamp", pyarrow.timestamp("ms", tz="UTC")),
        ("int_value", pyarrow.int64()),
        ("float_value", pyarrow.float64()),
        ("string_value", pyarrow.string()),
        ("bool_value", pyarrow.bool_()),
        ("datetime_value", pyarrow.timestamp("ms", tz="UTC")),
        ("string_set_value", pyarrow.list_(pyarrow.string())),
        ("file_value", pyarrow.struct([("path", pyarrow.string())])),
        (
            "histogram_value",
            pyarrow.struct(
                [
                    ("type", pyarrow.string()),
                    ("edges", pyarrow.list_(pyarrow.float64())),
                    ("values", pyarrow.list_(pyarrow.float64())),
                ]
            ),
        ),
    ]
)
"""Of neptune-exporter, which is not on PyPI, as its documentation has it."""


def attribute(
    path: str, type: str, step: Optional[str] = None, ms: Optional[int] = None, **value: Any
) -> dict[str, Any]:
    time = None if ms is None else datetime.fromtimestamp(ms / 1000, timezone.utc)
    at = None if step is None else Decimal(step)
    about = {"project_id": "team/digits", "run_id": "DIG-1", "attribute_path": path, "attribute_type": type}
    return {**dict.fromkeys(SCHEMA.names), **about, "step": at, "timestamp": time, **value}


def write_export(folder: Path) -> None:
    def write(part: int, rows: list[dict[str, Any]]) -> None:
        path = folder / "exports" / "data" / "team_digits-0123" / f"DIG-1_part_{part}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=SCHEMA), path)

    created = datetime.fromtimestamp(START / 1000, timezone.utc)
    files_folder = folder / "exports" / "files" / "team_digits-0123"
    files_folder.mkdir(parents=True)
    (files_folder / "note.txt").write_text("some")
    write(
        0,
        [
            attribute("sys/creation_time", "datetime", datetime_value=created),
            attribute("sys/name", "string", string_value="first"),
            attribute("sys/tags", "string_set", string_set_value=["one", "two"]),
            attribute("sys/failed", "bool", bool_value=True),
            attribute("sys/size", "float", float_value=1.0),
            attribute("rate", "float", float_value=0.1),
            attribute("layers", "int", int_value=3),
            attribute("files/note", "file", file_value={"path": "team_digits-0123/note.txt"}),
            attribute("words", "string_series", "4", START, string_value="a sample"),
            attribute(
                "weights", "histogram_series", "5", START,
                histogram_value={"type": "COUNTING", "edges": [0.0, 1.0, 2.0], "values": [3.0, 4.0]},
            ),
            *(attribute("loss", "float_series", f"{step}", START + step, float_value=1 / (step + 3)) for step in range(9)),
        ],
    )  # fmt: skip
    rows = [attribute("loss", "float_series", f"{it}", START + it, float_value=it / 7) for it in range(9, 12)]
    half = [attribute("half", "float_series", f"{step / 2}", START, float_value=1.5) for step in range(4)]
    write(10, half)
    write(2, rows)


def test_an_export_of_neptune_is_taken_whole(importer: Importer, tmp_path: Path) -> None:
    write_export(tmp_path)
    data, kept = tmp_path / "exports/data", tmp_path / "exports/files"
    importer.kill("neptune", data, "--files", kept, "--step-multiplier", 2)
    report = importer.run("neptune", data, "--files", kept, "--step-multiplier", 2)
    assert report["taken"] == {"points": 16, "files": 3, "parameters": 2, "others": 2, "tags": 2, "runs": 1}
    assert [it["count"] for it in report["leftOut"]] == [1]
    expected: list[Point] = [("loss", "", 2 * step, START + step, bits(1 / (step + 3))) for step in range(9)]
    expected += [("loss", "", 2 * step, START + step, bits(step / 7)) for step in range(9, 12)]
    expected += [("half", "", step, START, bits(1.5)) for step in range(4)]
    eventually_points(importer, {"first": expected})
    run = importer.runs()["first"]
    assert run.params == {"rate": 0.1, "layers": 3} and run.tags == ["one", "two"] and run.state == "crashed"
    assert milliseconds(run.start) == START
    found = files(run)
    assert found["asset", "files/note.txt", None] == b"some" and found["text-sample", "words.txt", 8] == b"a sample"
    histogram = json.loads(found["histogram3d", "weights.json", 10])
    assert (histogram["edges"], histogram["counts"]) == ([0.0, 1.0, 2.0], [3, 4])
    importer.run("neptune", data, "--files", kept, "--step-multiplier", 2)
    eventually_points(importer, {"first": expected})


def test_steps_with_decimals_are_refused_aloud(importer: Importer, tmp_path: Path) -> None:
    write_export(tmp_path)
    report = importer.run("neptune", tmp_path / "exports/data", "--dry-run")
    assert report["taken"]["points"] == 14
    told = {it["what"]: it for it in report["leftOut"]}
    assert told["points"]["count"] == 2 and "--step-multiplier" in told["points"]["why"]
    assert told["files"]["why"].startswith("--files says")


def test_the_pages_of_the_documentation_do_what_they_say(
    importer: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_export(tmp_path)
    for step in range(2):
        polars.DataFrame(rows_of("first", range(9))).write_csv(f"log-{step}.csv")
    polars.DataFrame(rows_of("first", range(9))).write_parquet("all.parquet")
    Path("points.jsonl").write_text('{"name": "loss", "step": 1, "value": 2}\n')
    for command in commands_of("Neptune") + commands_of("CSV, JSON lines, Parquet"):
        assert main(command) == 0
        assert "Imported" in capsys.readouterr().out
