"""What was logged is what is read back, to the bit, as rows and as frames."""

from __future__ import annotations

import math
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Service, eventually
from ml_ledger import environment, quiet
from svc_ml import Api, Experiment, SvcError
from svc_ml.read import LoggedRun, NotFound, Refused, Unavailable

VALUES = [0.1, -0.0, 5e-324, -2.2250738585072014e-308, 1.7976931348623157e308, math.nan, math.inf, -math.inf, 2**53 + 1]
STEPS = [-(2**63), -1, 0, 7, 2**53, 2**53 + 1, 2**53 + 3, 2**63 - 1]


@pytest.fixture
def api(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Api:
    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    return Api()


def bits(values: Any) -> list[str]:
    return [float(it).hex() for it in values]


def read_metrics(run: LoggedRun, points: int, *names: str) -> Any:
    """Once all points are readable."""
    eventually(lambda: len(run.metrics(names or None)) == points)
    return run.metrics(names or None)


def test_every_point_is_read_back_bit_for_bit_as_rows_pandas_and_polars(api: Api) -> None:
    with Experiment(**quiet) as experiment:
        for step, value in enumerate(VALUES):
            experiment.log_metric("value", value, step=step, epoch=step // 2)
        for step in [*STEPS, None]:
            experiment.log_metric("at", 1, step=step)
        for context in ("train", "validate"):
            with experiment.context_manager(context):
                experiment.log_metric("value", 0.25, step=1)
    run = api.run(experiment.id)
    table = read_metrics(run, len(VALUES) + len(STEPS) + 3)
    frame, polars = table.to_pandas(), table.to_polars()
    assert table.names == ["name", "context", "step", "epoch", "time", "value"]

    rows = [it for it in table if it["name"] == "value" and it["context"] is None]
    assert [it["step"] for it in rows] == list(range(len(VALUES)))
    assert [it["epoch"] for it in rows] == [it // 2 for it in range(len(VALUES))]
    of_value = frame[(frame.name == "value") & frame.context.isna()]
    plain = polars.rows(named=True)
    for values in [
        [it["value"] for it in rows],
        of_value.value,
        [it["value"] for it in plain if it["name"] == "value" and it["context"] is None],
        run.metrics("value", context="")["value"],
        run.metrics("value", context="").to_numpy()["value"],
    ]:
        assert bits(values) == bits(VALUES)

    steps = sorted(STEPS)
    assert sorted(it["step"] for it in table if it["name"] == "at" and it["step"] is not None) == steps
    of_at = frame[frame.name == "at"].step
    assert str(of_at.dtype) == "Int64" and sorted(int(it) for it in of_at.dropna()) == steps and of_at.isna().sum() == 1
    assert sorted(it["step"] for it in plain if it["name"] == "at" and it["step"] is not None) == steps
    masked = run.metrics("at").to_numpy()["step"]
    assert sorted(masked.compressed().tolist()) == steps and np.ma.count_masked(masked) == 1

    assert str(frame.time.dtype) == "datetime64[ms, UTC]"
    assert [it.to_pydatetime() for it in frame.time] == table["time"] == polars["time"].to_list()
    assert [it["context"] for it in run.metrics(["value", "train_value"])] == [None] * len(VALUES) + [
        "train",
        "validate",
    ]
    assert run.metrics("train_value").rows() == run.metrics("value", context="train").rows()
    assert len(run.metrics("value", context="test")) == 0
    summary = {(it["name"], it["context"]): it for it in run.metrics_summary()}
    assert summary["value", "train"]["last"] == 0.25 and summary["value", None]["max"] == math.inf


def test_a_long_series_is_complete_and_in_order(api: Api) -> None:
    points = 200_000
    values = np.random.default_rng(1).standard_normal(points)
    with Experiment(**quiet) as experiment:
        for step, value in enumerate(values):
            experiment.log_metric("loss", value, step=step)
    table = read_metrics(api.run(experiment.id), points, "loss")
    read = table.to_numpy()
    assert (read["step"] == np.arange(points)).all()
    assert (read["value"].view(np.int64) == values.view(np.int64)).all()
    assert repr(table).startswith("200,000 rows, 6 columns\nname  context  step  epoch  time")


def test_runs_of_a_project_are_rows_and_found_by_what_was_logged(api: Api) -> None:
    project = uuid.uuid4().hex
    for number in range(3):
        name = f"run-{number}"
        with Experiment(project_name=project, experiment_name=name, tags=["all", name], **quiet) as experiment:
            experiment.log_parameters(
                {"rate": 0.1 * (number + 1), "seed": 2**60 + number, "fast": number == 1, "by": "x"}
            )
            if number:
                experiment.log_parameter("depth", number)
            experiment.log_other("note", f"of {number}")
            with experiment.train():
                experiment.log_metrics({"loss": 3.0 - number, "score": [math.nan, 1.0, math.inf][number]}, step=1)
                experiment.log_metric("loss", 5.0 - number, step=0)

    def names(where: Any, **given: Any) -> list[str]:
        return api.runs(project, where, **given)["name"]

    eventually(lambda: [it["metrics.train_loss"] for it in api.runs(project)] == [1.0, 2.0, 3.0])
    table = api.runs(project)
    assert table["name"] == ["run-2", "run-1", "run-0"]
    first = table.rows()[-1]
    assert first["state"] == "finished" and first["tags"] == ["all", "run-0"] and first["others.note"] == "of 0"
    assert (first["params.rate"], first["params.seed"], first["params.fast"]) == (0.1, 2**60, False)
    assert (first["params.depth"], first["params.by"]) == (None, "x")
    assert (first["metrics.train_loss.min"], first["metrics.train_loss.max"]) == (3.0, 5.0)
    assert first["duration"] == (first["end"] - first["start"]).total_seconds()

    frame, polars = table.to_pandas(), table.to_polars()
    assert frame["params.seed"].tolist() == polars["params.seed"].to_list() == [2**60 + 2, 2**60 + 1, 2**60]
    assert frame["params.depth"].tolist()[:2] == [2, 1] and frame["params.depth"].isna().sum() == 1
    assert polars["params.depth"].to_list() == [2, 1, None]
    assert frame["params.fast"].tolist() == polars["params.fast"].to_list() == [False, True, False]
    assert bits(frame["metrics.train_score"]) == bits(polars["metrics.train_score"]) == bits([math.inf, 1, math.nan])
    assert polars["tags"].to_list() == frame["tags"].tolist() == table["tags"]
    assert frame["start"].tolist() == table["start"] == polars["start"].to_list()

    assert names([("params.rate", ">", 0.15), ("metrics.train_loss", "<", 1.5)]) == ["run-2"]
    assert names([("tags", "=", "run-1")]) == ["run-1"]
    assert names([("tags", "not contains", "-1")]) == ["run-2", "run-0"]
    assert names([("params.depth", "=", None)]) == names([("params.depth", "is null")]) == ["run-0"]
    assert names([("name", "in", ["run-0", "run-1"]), ("params.fast", "=", True)]) == ["run-1"]
    assert names([("start", ">=", first["start"]), ("start", "<", table["start"][0])]) == ["run-1", "run-0"]
    assert names([("state", "!=", "finished")]) == names([("state", "in", ["running", "lost"])]) == []
    assert names([("state", "=", "finished")], limit=2) == ["run-2", "run-1"]
    either = (
        {"column": "rate--params", "operator": "<", "value": 0.15},
        {"column": "fast--params", "operator": "=", "value": True},
    )
    assert names({"condition": "OR", "rules": list(either)}) == ["run-1", "run-0"]
    assert names([("name", "!=", "run-1"), either[0]]) == ["run-0"]
    assert names(None, sort="metrics.train_loss.min") == ["run-2", "run-1", "run-0"]
    assert names(None, sort="-params.rate", limit=1) == ["run-2"]
    chosen = api.runs(project, columns=["name", "metrics.train_loss.max", "file_path"])
    assert chosen.names == ["name", "metrics.train_loss.max", "file_path"]
    assert (len(api.runs(project, archived=True)), api.runs(project, archived=True).to_pandas().shape[0]) == (0, 0)
    assert project in api.projects()["name"]

    run = api.run(first["key"])
    assert run.params == {"rate": 0.1, "seed": 2**60, "fast": False, "by": "x"} and run.others == {"note": "of 0"}
    assert (run.name, run.project, run.state, run.tags) == ("run-0", project, "finished", ["all", "run-0"])
    assert (run.start, run.end) == (first["start"], first["end"]) and run.link.endswith(run.key)


def test_all_runs_of_a_project_of_many_pages_are_read(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    project = uuid.uuid4().hex
    for number in range(7):
        with Experiment(project_name=project, experiment_name=str(number), **quiet) as experiment:
            experiment.log_parameter("number", number)
    # Of 1,000 runs and 1,000 columns the test would take minutes.
    monkeypatch.setattr("svc_ml.read.api._ROWS_AT_ONCE", 3)
    monkeypatch.setattr("svc_ml.read.api._COLUMNS_AT_ONCE", 2)
    rows = api.runs(project).rows()
    assert [it["params.number"] for it in rows] == [int(it["name"]) for it in rows] == list(range(6, -1, -1))
    assert api.runs(project, sort="params.number")["params.number"] == list(range(7))
    assert api.runs(project, [("state", "=", "finished")], limit=4)["name"] == ["6", "5", "4", "3"]


def test_errors_say_what_to_do(api: Api, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    project = uuid.uuid4().hex
    with Experiment(project_name=project, **quiet) as experiment:
        experiment.log_parameter("rate", 0.1)
    with pytest.raises(NotFound, match="no experiment nothing-here"):
        api.run("nothing-here")
    with pytest.raises(NotFound, match=r"no project 'nothing' in the workspace 'default'.*projects\(\) lists"):
        api.runs("nothing")
    with pytest.raises(NotFound, match='workspace "nobody"|workspace nobody'):
        Api(workspace="nobody").projects()
    with pytest.raises(SvcError, match=r"has 'params.rat'. There is params.rate"):
        api.runs(project, columns=["params.rat"])
    with pytest.raises(SvcError, match=r"\('params.rate', '>', 0.01\)"):
        api.runs(project, ("params.rate", ">", 1))  # type: ignore[arg-type]
    with pytest.raises(SvcError, match="states of running, finished, crashed, lost"):
        api.runs(project, [("state", "=", "done")])
    with pytest.raises(SvcError, match="operator"):
        api.runs(project, [("params.rate", "~", 1)])
    with pytest.raises(Refused, match="set SVC_API_KEY"):
        Api(api_key="wrong").projects()
    with pytest.raises(Refused, match="set SVC_API_KEY"):
        Api(api_key="wrong").run(experiment.id)
    with pytest.raises(Unavailable, match=r"cannot be reached at http://127.0.0.1:9: .*SVC_URL"):
        Api(url="http://127.0.0.1:9", retry_seconds=0.5).run("x")
    monkeypatch.delenv("SVC_API_KEY")
    with pytest.raises(Refused, match="set SVC_API_KEY"):
        Api()
    for package in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(SvcError, match=f"pip install {package}"):
            getattr(api.projects(), f"to_{package}")()


def test_a_read_goes_on_when_the_service_comes_back(own_service: Service, tmp_path: Path, monkeypatch: Any) -> None:
    own_service.start()
    for name, value in environment(own_service, tmp_path).items():
        monkeypatch.setenv(name, value)
    with Experiment(**quiet) as experiment:
        experiment.log_metric("loss", 0.5, step=1)
    api = Api(retry_seconds=120)
    run = api.run(experiment.id)
    read_metrics(run, 1, "loss")
    own_service.kill()
    with pytest.raises(Unavailable):
        Api(retry_seconds=0.1).run(experiment.id)
    own_service.start()
    assert run.metrics("loss")["value"] == [0.5]
