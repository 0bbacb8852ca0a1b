"""The recipes of docs/export.md, run as they stand on what the service exports; every value is compared."""

from __future__ import annotations

import math
import re
import struct
import urllib.parse
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import polars
import pyarrow.ipc
import pytest

from conftest import ROOT, Service, eventually
from ml_ledger import environment, quiet, read_points
from svc_ml import Experiment

PAGE = (ROOT / "docs/export.md").read_text()
VALUES = [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.nan, math.inf, -math.inf, 0.25]
STEPS = [0, 1, 2, 3, 4, 5, 6, 2**53 + 1]


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
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
    for block, names in zip(blocks, [pandas, of_polars, duckdb]):
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
