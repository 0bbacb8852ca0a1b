"""What was logged is what is read back, to the bit, as rows and as frames."""

from __future__ import annotations

import json
import math
import re
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
from svc_ml.read.download import download
from svc_ml.read.points import split

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


def test_an_answer_is_whole_however_it_arrives_and_never_cut_off() -> None:
    points = [{"metricName": 'a"},\n{"', "metricValue": str(it), "step": it} for it in range(4)]
    for listed in (points, points[:1], []):
        answer = ('{"metrics":[\n' + ",\n".join(map(json.dumps, listed)) + "\n]\n}").encode()
        for size in range(1, len(answer) + 1):
            blocks = [answer[at : at + size] for at in range(0, len(answer), size)]
            assert [it for part in split(blocks) for it in json.loads(part)] == listed
        for end in range(len(answer)):
            with pytest.raises(ValueError, match="the end of the array is missing"):
                list(split([answer[:end]]))


def test_runs_of_a_project_are_rows_and_found_by_what_was_logged(api: Api) -> None:
    project = uuid.uuid4().hex
    for number in range(3):
        name = f"run-{number}"
        with Experiment(project_name=project, experiment_name=name, tags=["all", name], **quiet) as experiment:
            experiment.log_parameters(
                {"rate": 0.1 * (number + 1), "seed": 2**60 + number, "fast": number == 1, "by": "x"}
            )
            if number:
                experiment.log_parameters({"depth": number, "limit": math.inf if number == 2 else 1.0})
            experiment.log_other("note", f"of {number}")
            with experiment.train():
                experiment.log_metric("loss", 5.0 - number, step=0)
                experiment.log_metrics({"loss": 3.0 - number, "score": [math.nan, 1.0, math.inf][number]}, step=1)

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
    assert names([("params.limit", "=", math.inf)]) == names([("params.limit", "=", np.float64("inf"))]) == ["run-2"]
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
    assert names("params.rate > 0.15 and metric.train_loss < 1.5 or tag = run-0") == ["run-2", "run-0"]
    with pytest.raises(SvcError, match=r"query, character 14: expected a value after >"):
        names("param.rate > ")
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
    with pytest.raises(SvcError, match=r"has 'rate'. There is params.rate\."):
        api.runs(project, sort="rate")
    with pytest.raises(SvcError, match="conditions on tags need a value"):
        api.runs(project, [("tags", "=", None)])
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


def test_output_is_read_line_by_line(api: Api, service: Service) -> None:
    with Experiment(**{**quiet, "auto_output_logging": True}) as experiment:
        for number in range(25_000):
            print(f"line {number}")
        print("trouble", file=sys.stderr)
    run = api.run(experiment.id)
    eventually(lambda: len(run.output()) == 25_001)
    lines = [f"line {number}" for number in range(25_000)]
    assert run.output(stderr=False)["text"] == lines and run.output(stderr=True)["text"] == ["trouble"]
    assert [it for it in run.output(last=12_000)["text"] if it != "trouble"] == lines[-11_999:]
    assert run.output(search="LINE 24999").to_polars()["text"].to_list() == ["line 24999"]
    assert run.output()["number"] == list(range(25_001))


def test_metrics_of_the_machine_are_apart_from_the_others(api: Api) -> None:
    with Experiment(**{**quiet, "log_env_disk": True}) as experiment:
        experiment.log_metric("loss", 0.5, step=1)
    run = api.run(experiment.id)
    read_metrics(run, 1)
    # However short the run: it was read once before it ended.
    eventually(lambda: {"sys.disk.used", "sys.disk.total"} <= {it["name"] for it in run.system_metrics()})
    assert all(it["name"].startswith("sys.disk.") for it in run.system_metrics())
    assert [it["name"] for it in run.metrics_summary()] == ["loss"]


def test_files_are_read_back_byte_for_byte(api: Api, tmp_path: Path) -> None:
    weights = f"weights-{uuid.uuid4()}"
    content = np.random.default_rng(2).bytes(3_000_000)
    (tmp_path / "weights.bin").write_bytes(content)
    with Experiment(**quiet) as experiment:
        experiment.log_asset(str(tmp_path / "weights.bin"), file_name="models/weights.bin", step=7)
        experiment.log_text("hello")
        experiment.log_remote_asset("s3://bucket/data", remote_file_name="data")
        empty = {"empty.txt": b"", "deep/er/weights.bin": tmp_path / "weights.bin"}
        experiment.log_artifact(weights, {"first.txt": b"1"}, version="1.0.0", wait=True)
        experiment.log_artifact(weights, empty, version="2.0.0", aliases=["best"], artifact_type="model", wait=True)
    run = api.run(experiment.id)
    assets = {it.name: it for it in run.assets()}
    asset = assets["models/weights.bin"]
    assert (asset.size, asset.step, asset.remote) == (len(content), 7, False)
    frame = run.assets().to_pandas().set_index("name")
    assert frame.loc["models/weights.bin", "size"] == len(content) and str(frame["step"].dtype) == "Int64"
    assert (
        run.assets().to_polars()["size"].to_list() == [it.size for it in run.assets()] == run.assets().columns["size"]
    )

    folder = tmp_path / "read"
    assert run.download(asset, folder / "other.bin").read_bytes() == content
    assert run.download("models/weights.bin", folder) == folder / "weights.bin"
    assert (folder / "weights.bin").read_bytes() == content
    with pytest.raises(SvcError, match="bytes are at s3://bucket/data"):
        run.download("data", folder)
    with pytest.raises(NotFound, match="no asset 'nothing'"):
        run.download("nothing")
    assert sorted(it.name for it in folder.iterdir()) == ["other.bin", "weights.bin"]

    versions = {it.version: it for it in run.artifacts()}
    assert {(it.name, it.type, it.state, it.direction) for it in versions.values()} == {
        (weights, "model", "CLOSED", "output")
    }
    assert sorted(run.artifacts().to_polars()["version"].to_list()) == ["1.0.0", "2.0.0"]
    assert (versions["1.0.0"].download(folder / "one") / "first.txt").read_text() == "1"
    assert sorted(versions["2.0.0"].files()["name"]) == ["deep/er/weights.bin", "empty.txt"]
    for asked in (None, "best", "2.0.0"):
        two = api.artifact(weights, asked).download(tmp_path / f"two-{asked}")
        assert (two / "deep/er/weights.bin").read_bytes() == content and (two / "empty.txt").read_bytes() == b""
    with pytest.raises(NotFound, match=f"version '9.0.0' of an artifact '{weights}'"):
        api.artifact(weights, "9.0.0")


def test_a_name_of_a_file_cannot_leave_the_folder(api: Api, tmp_path: Path) -> None:
    with Experiment(**quiet) as experiment:
        experiment.log_artifact("climber", {"../outside.txt": b"1"}, version="1.0.0", wait=True)
    [version] = api.run(experiment.id).artifacts()
    with pytest.raises(SvcError, match="points outside of the folder"):
        version.download(tmp_path / "inside")
    assert not (tmp_path / "outside.txt").exists()


def test_reads_go_on_when_the_service_comes_back(own_service: Service, tmp_path: Path, monkeypatch: Any) -> None:
    own_service.start()
    for name, value in environment(own_service, tmp_path).items():
        monkeypatch.setenv(name, value)
    content = np.random.default_rng(3).bytes(64_000_000)
    (tmp_path / "large.bin").write_bytes(content)
    with Experiment(**quiet) as experiment:
        experiment.log_metric("loss", 0.5, step=1)
        experiment.log_asset(str(tmp_path / "large.bin"))
    api = Api(retry_seconds=120)
    run = api.run(experiment.id)
    read_metrics(run, 1, "loss")
    arrived: list[int] = []

    def on_bytes(count: int) -> None:
        arrived.append(count)
        if sum(arrived) > 4_000_000 and not kills:
            kills.append(sum(arrived))
            own_service.kill()
            own_service.start()

    kills: list[int] = []
    [asset] = run.assets()
    target = tmp_path / "read.bin"
    query = {"experimentKey": run.key, "assetId": asset.id}
    download(run._connection, query, target, on_bytes)
    assert target.read_bytes() == content and kills
    # It went on where it was.
    assert sum(arrived) == len(content) and min(arrived) > 0

    own_service.kill()
    with pytest.raises(Unavailable):
        Api(retry_seconds=0.1).run(experiment.id)
    own_service.start()
    assert run.metrics("loss")["value"] == [0.5]

    [stored] = [it for it in own_service.folder.rglob("*") if it.is_file() and it.stat().st_size == len(content)]
    with stored.open("r+b") as file:
        file.seek(1_000)
        file.write(bytes([content[1_000] ^ 1]))
    with pytest.raises(SvcError, match=r"read.bin is not what was stored: its checksum differs"):
        run.download(asset, target)
    assert target.read_bytes() == content
    assert not list(tmp_path.glob(".read.bin*"))


def test_what_the_readme_says_runs(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = uuid.uuid4().hex
    service.post("/api/rest/v2/write/workspace/new", {"name": workspace})
    for name, value in {**environment(service, tmp_path), "SVC_WORKSPACE": workspace}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.pkl").write_bytes(b"a model")
    blocks = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text(), re.DOTALL)
    exec(blocks[0], {})
    eventually(lambda: Api().run(Api().runs("digits")["key"][0]).metrics_summary()["last_step"] == [999])
    named: dict[str, Any] = {}
    exec(next(it for it in blocks if "import Api" in it), named)
    assert (tmp_path / "downloads" / "model.pkl").read_bytes() == b"a model"
    assert named["points"]["value"].to_list() == [1 / (step + 1) for step in range(1000)]
