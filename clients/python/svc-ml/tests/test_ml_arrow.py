"""Arrow streams that pyarrow and polars write, as docs/http-interface.md sends them: another reader of the format than ours wrote them."""

from __future__ import annotations

import json
import math
import re
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import pandas
import polars
import pyarrow
import pyarrow.ipc
import pytest

from conftest import ROOT, Service, eventually

PAGE = (ROOT / "docs/http-interface.md").read_text()
LONG = "a name of more than twelve bytes"


def create(service: Service) -> str:
    body = {"workspaceName": "default", "projectName": "arrow"}
    key: str = service.post("/api/rest/v2/write/experiment/create", body)["experimentKey"]
    return key


def read(service: Service, key: str, metric: str, count: int) -> list[dict[str, Any]]:
    """The points of a metric once there are so many."""
    path = f"/api/rest/v2/experiment/metrics/get-metric?{urllib.parse.urlencode({'experimentKey': key, 'metricName': metric})}"
    eventually(lambda: len(service.get(path)["metrics"]) >= count)
    points: list[dict[str, Any]] = service.get(path)["metrics"]
    assert len(points) == count
    return points


def send(service: Service, key: str, table: pyarrow.Table, **options: Any) -> dict[str, Any]:
    body = pyarrow.BufferOutputStream()
    table = table.replace_schema_metadata({"experimentKey": key})
    with pyarrow.ipc.new_stream(body, table.schema, options=pyarrow.ipc.IpcWriteOptions(**options)) as stream:
        stream.write_table(table, max_chunksize=2)
    request = urllib.request.Request(f"{service.url}/api/rest/v2/write/experiment/metrics/batch")
    request.data = body.getvalue().to_pybytes()
    request.add_header("Authorization", service.api_key)
    request.add_header("Content-Type", "application/vnd.apache.arrow.stream")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        return dict(json.load(error))


@pytest.mark.parametrize("text", [pyarrow.string(), pyarrow.large_string(), pyarrow.string_view(), "dictionary"])
@pytest.mark.parametrize("version", [pyarrow.ipc.MetadataVersion.V4, pyarrow.ipc.MetadataVersion.V5])
def test_each_kind_of_text_and_both_versions_are_read(service: Service, text: Any, version: Any) -> None:
    key = create(service)
    names = pyarrow.array([LONG, "loss", LONG, None])
    names = names.dictionary_encode() if text == "dictionary" else names.cast(text)
    table = pyarrow.table(
        {"metricName": names, "metricValue": [0.5, math.nan, -math.inf, 1.0], "step": [2**62, 1, 3, 4]}
    )
    answer = send(service, key, table, metadata_version=version)
    assert (answer["accepted"], answer["rejected"]) == (3, [{"index": 3, "msg": "metrics[3].metricName: is missing"}])
    assert [(it["step"], it["metricValue"]) for it in read(service, key, LONG, 2)] == [(3, "-Infinity"), (2**62, "0.5")]


def test_data_frames_are_sent_as_they_are(service: Service) -> None:
    key = create(service)
    columns = {"metricName": ["pandas"] * 3, "metricValue": [1.0, 2.0, 3.0], "step": [1.0, math.nan, 3.0]}
    times = pandas.date_range("2026-01-01", periods=3, freq="s")
    frame = pandas.DataFrame({**columns, "timestamp": times, "unknown": [None, True, None]})
    assert send(service, key, pyarrow.Table.from_pandas(frame))["accepted"] == 3
    rows = polars.DataFrame({"metricName": ["polars"] * 2, "metricValue": [1, 2], "step": [1, 2]})
    assert send(service, key, rows.to_arrow())["accepted"] == 2
    found = {name: read(service, key, name, count) for name, count in [("pandas", 3), ("polars", 2)]}
    assert sorted((it["timestamp"], it["step"]) for it in found["pandas"]) == [
        *[(1767225600000, 1), (1767225601000, None), (1767225602000, 3)]
    ]
    assert [it["metricValue"] for it in found["polars"]] == ["1.0", "2.0"]


def test_lists_are_series_and_compressed_buffers_are_refused(service: Service) -> None:
    key = create(service)
    table = pyarrow.table(
        {"metricName": ["a", "b", "c"], "values": [[1.0, 2.0], [], [3.0]], "steps": [[1, 2], [], None]}
    )
    assert send(service, key, table)["accepted"] == 3
    refused = send(service, key, table, compression="zstd")
    assert refused["code"] == 400
    assert "Content-Encoding: gzip" in refused["msg"]


def test_the_recipe_of_the_page_stores_its_points(service: Service) -> None:
    key = create(service)
    (recipe,) = re.findall(r"^```python\n(import pandas.*?)^```", PAGE, re.S | re.M)
    sent: dict[str, Any] = {"KEY": service.api_key, "SVC": f"{service.url}/api/rest/v2"}
    exec(compile(recipe.replace('"..."', repr(key)), "docs/http-interface.md", "exec"), sent)
    assert sent["answer"].json()["accepted"] == 1000
    read(service, key, "loss", 1000)
