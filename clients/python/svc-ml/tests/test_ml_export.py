"""The recipes of docs/export.md, run as they stand on what the service exports; every value is compared."""

from __future__ import annotations

import math
import re
import struct
import urllib.parse
import urllib.request
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import polars
import pyarrow
import pyarrow.ipc
import pytest

from conftest import ROOT, Service, eventually
from ml_ledger import environment, quiet, read_points
from svc_ml import Experiment

PAGE = (ROOT / "docs/export.md").read_text()
VALUES = [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.nan, math.inf, -math.inf, 0.25]
STEPS = [0, 1, 2, 3, 4, 5, 6, 2**53 + 1]


BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
FORMATS = {"parquet": "parquet", "arrow": "arrows", "csv": "csv", "jsonl": "jsonl"}
NAMES = ["loss", "NA", "true", "1", 'a "quoted", one', "of two\nlines", "äöü \\ '"]


def export(service: Service, project: str, what: str, format: str) -> bytes:
    query = urllib.parse.urlencode({"workspaceName": "default", "projectName": project, "format": format})
    request = urllib.request.Request(f"{service.url}/api/rest/v2/export/{what}?{query}")
    request.add_header("Authorization", service.api_key)
    with urllib.request.urlopen(request, timeout=60) as answer:
        data: bytes = answer.read()
    return data


def bits(values: Any) -> list[str]:
    return [struct.pack(">d", it).hex() for it in values]


def test_recipes_read_what_was_logged(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    project = uuid.uuid4().hex
    with Experiment(project_name=project, experiment_name="first", **quiet) as experiment:
        experiment.log_parameter("rate", 0.5)
        for step, value in zip(STEPS, VALUES):
            experiment.log_metric("exact", value, step=step)
        for step in range(100):
            experiment.log_metric("loss", 1 / (step + 1), step=step)
    eventually(lambda: len(read_points(service, experiment.id, "loss")) == 100)
    eventually(lambda: len(read_points(service, experiment.id, "exact")) == len(VALUES))

    Path("metrics.parquet").write_bytes(export(service, project, "metrics", "parquet"))
    pandas, of_polars, duckdb = (dict[str, Any]() for _ in range(3))
    for block, names in zip(BLOCKS, [pandas, of_polars, duckdb]):
        exec(compile(block, "docs/export.md", "exec"), names)
    assert pandas["curves"]["first"].tolist() == [1 / (step + 1) for step in range(100)]
    assert of_polars["best"].rows() == duckdb["best"] == [(experiment.id, 0.01)]

    exact = pandas["points"][pandas["points"].metric == "exact"]
    assert bits(exact.value) == bits(VALUES) and exact.step.tolist() == STEPS
    arrow = pyarrow.ipc.open_stream(export(service, project, "metrics", "arrow")).read_all()
    assert bits(polars.from_arrow(arrow).filter(polars.col("metric") == "exact")["value"]) == bits(VALUES)
    runs = polars.read_parquet(export(service, project, "runs", "parquet")).rows(named=True)
    assert [(it["experiment_key"], it["params.rate"], it["metrics.loss.min"]) for it in runs] == [
        (experiment.id, "0.5", 0.01)
    ]


def lines_of_page() -> list[tuple[str, str, str]]:
    """The lines that read a format, each with its library, its format and the lines that stand above it."""
    found = []
    for block in BLOCKS[3:]:
        reader = block.split()[1]
        lines = [it for it in block.splitlines() if it.startswith("points = ")]
        before = [it for it in block.splitlines() if it not in lines]
        for format, line in zip(FORMATS, lines):
            assert f'"metrics.{FORMATS[format]}"' in line
            found.append((reader, format, "\n".join([*before, line])))
    assert len(found) == 12
    return found


def as_rows(points: Any, reader: str) -> list[dict[str, Any]]:
    if reader == "pandas":
        return pyarrow.Table.from_pandas(points, preserve_index=False).to_pylist()  # type: ignore[no-any-return]
    return (points.to_arrow() if reader == "polars" else points.to_arrow_table()).to_pylist()  # type: ignore[no-any-return]


def plain(value: float, format: str) -> str:
    """The bits of a float. Readers of JSON know no -0, and pandas has no NaN in CSV but what is missing."""
    value = math.nan if value is None else float(value)
    return bits([0.0 if format == "jsonl" and value == 0 else value])[0]


@pytest.fixture(scope="module")
def many_points(service: Service, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[Any, ...]]]:
    """A folder with some thousand points in each format, and what they are: in the order of the export."""
    folder = tmp_path_factory.mktemp("formats")
    project, points = uuid.uuid4().hex, []
    random_bits = iter(range(1, 1_000_000))
    steps = [None, -(2**63), 2**63 - 1, 2**53 + 1, *range(150)]
    for run in range(3):
        created = service.post(
            "/api/rest/v2/write/experiment/create",
            {"workspaceName": "default", "projectName": project, "experimentName": f'run "{run}",\nä'},
        )
        key, metrics = created["experimentKey"], []
        for at, name in enumerate(NAMES):
            context = ["train", None, "val, 1"][at % 3]
            for place, step in enumerate(steps):
                number = next(random_bits) * 0x9E3779B97F4A7C15 % 2**64
                value = struct.unpack(">d", number.to_bytes(8, "big"))[0]
                value = VALUES[place % len(VALUES)] if place % 5 == 0 or math.isnan(value) else value
                epoch = None if run == 0 else [None, 2**63 - 1, place][place % 3]
                time_ms = 1_700_000_000_000 + place
                points.append(
                    (
                        run,
                        name.encode(),
                        0 if step is None else step,
                        key,
                        created["name"],
                        name,
                        context,
                        step,
                        epoch,
                        time_ms,
                        value,
                    )
                )
                text = value if math.isfinite(value) else str(value)
                point = {
                    "metricName": name,
                    "metricValue": text,
                    "context": context,
                    "step": step,
                    "epoch": epoch,
                    "timestamp": time_ms,
                }
                metrics.append({name: it for name, it in point.items() if it is not None})
        service.post("/api/rest/v2/write/experiment/metrics/batch", {"experimentKey": key, "metrics": metrics})
    eventually(lambda: export(service, project, "metrics", "jsonl").count(b"\n") == len(points))
    for format, extension in FORMATS.items():
        (folder / f"metrics.{extension}").write_bytes(export(service, project, "metrics", format))
    points.sort(key=lambda it: (*it[:3], it[9]))
    return folder, [(project, *it[3:]) for it in points]


@pytest.mark.parametrize(("reader", "format", "code"), lines_of_page())
def test_each_format_is_read_value_for_value(
    reader: str,
    format: str,
    code: str,
    many_points: tuple[Path, list[tuple[Any, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, expected = many_points
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/export.md", "exec"), names)
    rows = as_rows(names["points"], reader)
    assert list(rows[0]) == [
        *("project", "experiment_key", "experiment_name", "metric", "context", "step", "epoch", "time", "value")
    ]

    def time_of(it: Any) -> int:
        moment = it if isinstance(it, datetime) else datetime.fromisoformat(it.replace("Z", "+00:00"))
        return round(moment.timestamp() * 1_000)

    found = [(*list(it.values())[:7], time_of(it["time"]), plain(it["value"], format)) for it in rows]
    assert found == [(*it[:8], plain(it[8], format)) for it in expected]
