"""The logging of comet_mpm, unchanged, against the service: what is logged is what is read back, once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import comet_mpm
import pytest
from svc_service import Service, eventually


@pytest.fixture
def model(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[comet_mpm.CometMPM]:
    monkeypatch.setenv("COMET_URL_OVERRIDE", service.url)
    monkeypatch.setenv("COMET_API_KEY", service.api_key)
    name = f"model-{uuid.uuid4().hex[:8]}"
    mpm = comet_mpm.CometMPM(workspace_name=service.workspace, model_name=name, model_version="1.0.0", max_batch_time=1)
    mpm.name = name
    yield mpm
    mpm.end()


def read(service: Service, path: str, model: Any, **more: str) -> Any:
    query = {"workspaceName": service.workspace, "modelName": model.name, **more}
    return service.get(f"{path}?{urlencode(query)}")


def named(values: list[dict[str, Any]]) -> dict[str, Any]:
    return {it["name"]: it["value"] for it in values}


def test_an_event_and_its_label_are_read_back(service: Service, model: Any) -> None:
    features = {"age": 42, "income": 1234.5, "member": True, "country": "NL", "missing": None}
    model.log_event("p1", features, output_features={"value": "ok", "probability": 0.75}, timestamp=1_700_000_000)
    model.log_label("p1", labels={"value": "fraud"}, timestamp=1_700_000_100)
    model.end()

    assert not model.has_logging_error()
    event = eventually(lambda: (e := read(service, "/mpm/v2/event", model, predictionId="p1")) and e["labels"] and e)
    assert named(event["features"]) == features
    assert named(event["prediction"]) == {"value": "ok", "probability": 0.75}
    assert named(event["labels"]) == {"value": "fraud"}
    assert event["timestamp"] == 1_700_000_000_000


def test_many_events_are_there_once(service: Service, model: Any) -> None:
    for at in range(300):
        model.log_event(f"p{at}", {"x": at / 7}, output_features={"value": at % 2}, timestamp=1_700_000_000 + at)
    model.log_event("p0", {"x": -1.0}, timestamp=1_700_000_000)
    model.end()

    def listed() -> Any:
        (found,) = read(service, "/mpm/v2/models", model)["models"]
        return found["versions"][0]["events"] == 300 and found

    assert eventually(listed)["counters"]["accepted"] == 300
    first = read(service, "/mpm/v2/event", model, predictionId="p0")
    assert named(first["features"]) == {"x": 0}


def test_a_file_of_training_events(service: Service, model: Any, tmp_path: Path) -> None:
    file = tmp_path / "training.csv"
    lines = [f"{1_700_000_000_000 + at},{at}.5,{at % 2}" for at in range(50)]
    file.write_text("timestamp,feature_x,prediction_value\n" + "\n".join(lines) + "\n")
    model.upload_dataset_csv(str(file), dataset_type="TRAINING_EVENTS", dataset_name=model.name)

    def listed() -> Any:
        models = read(service, "/mpm/v2/models", model)["models"]
        return models and sum(it["trainingEvents"] for it in models[0]["versions"]) == 50

    assert eventually(listed)
