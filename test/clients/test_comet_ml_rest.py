"""The REST side of comet_ml, unchanged, against the service: what is written is what is read back."""

from __future__ import annotations

import io
import json
import math
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import comet_ml
import pytest
import requests
from comet_ml.exceptions import CometRestApiException
from comet_ml.query import Metadata, Metric, Other, Parameter, Tag
from svc_service import Service, eventually

NewExperiment = Callable[[], comet_ml.APIExperiment]


def values(summaries: list[dict[str, Any]]) -> dict[str, str]:
    return {it["name"]: it["valueCurrent"] for it in summaries}


class TestParametersAndOthers:
    def test_each_context_has_its_own(self, experiment: comet_ml.APIExperiment) -> None:
        experiment.log_parameter("lr", 0.1)
        experiment.log_parameters({"depth": 3, "name": "a b"}, step=2)
        experiment.log_parameters({"nested": {"a": [1, None]}, "many": [1, "x"], "none": None})
        experiment.log_other("note", {"k": [1]})
        found = eventually(lambda: values(experiment.get_parameters_summary()))
        assert found["lr"] == "0.1"
        assert found["depth"] == "3"
        assert found["name"] == "a b"
        assert json.loads(values(experiment.get_others_summary())["note"]) == {"k": [1]}

    def test_the_name_is_one(self, experiment: comet_ml.APIExperiment) -> None:
        experiment.set_name("a better name")
        assert experiment.get_name() == "a better name"
        assert experiment.get_metadata()["experimentName"] == "a better name"


class TestMetrics:
    def test_every_value_comes_back_as_a_double(self, experiment: comet_ml.APIExperiment) -> None:
        sent = [1.0, 123.0, 0.1 + 0.2, 1e-5, 34359738368.0, -0.0, 1e300, 5e-324]
        for step, value in enumerate(sent):
            experiment.log_metric("loss", value, step=step, epoch=step // 4, timestamp=1_700_000_000 + step)
        points = eventually(lambda: (p := experiment.get_metrics("loss")) and len(p) == len(sent) and p)
        assert [float(it["metricValue"]) for it in points] == sent
        assert [it["metricValue"] for it in points][:2] == ["1.0", "123.0"]
        assert points[4]["metricValue"] == "3.4359738368E10"
        assert [it["step"] for it in points] == list(range(len(sent)))
        assert [it["timestamp"] for it in points] == [1_700_000_000_000 + 1_000 * step for step in range(len(sent))]
        # The summary follows its points by a moment.
        summary = eventually(lambda: (m := experiment.get_metrics_summary("loss"))["stepMax"] == 6 and m)
        assert summary["valueMax"] == "1.0E300"

    def test_nan_and_infinity(self, experiment: comet_ml.APIExperiment) -> None:
        for step, value in enumerate([math.nan, math.inf, -math.inf]):
            experiment.log_metric("odd", value, step=step)
        points = eventually(lambda: (p := experiment.get_metrics("odd")) and len(p) == 3 and p)
        assert [it["metricValue"] for it in points] == ["NaN", "Infinity", "-Infinity"]

    def test_all_metrics_at_once(self, experiment: comet_ml.APIExperiment) -> None:
        experiment.log_metrics({"a": 1, "b": 2}, step=1)
        points = eventually(lambda: (p := experiment.get_metrics()) and len(p) == 2 and p)
        assert sorted((it["metricName"], it["metricValue"]) for it in points) == [("a", "1.0"), ("b", "2.0")]


class TestAssets:
    def test_metadata_is_kept_as_it_was_given(self, experiment: comet_ml.APIExperiment, tmp_path: Path) -> None:
        file = tmp_path / "a.bin"
        file.write_bytes(bytes(range(256)))
        metadata = {"k": 1, "l": {"m": [True, None]}}
        answer = experiment.log_asset(str(file), metadata=metadata, step=7, name="a.bin")
        (asset,) = experiment.get_asset_list()
        assert asset["assetId"] == answer["assetId"]
        assert json.loads(asset["metadata"]) == metadata
        assert (asset["fileName"], asset["step"]) == ("a.bin", 7)
        assert experiment.get_asset(asset["assetId"]) == bytes(range(256))

    def test_are_found_by_name(self, experiment: comet_ml.APIExperiment, tmp_path: Path) -> None:
        for name in ["x.txt", "y.txt"]:
            (tmp_path / name).write_text(name)
            experiment.log_asset(str(tmp_path / name), name=name)
        assert experiment.get_asset_by_name("y.txt", return_type="text") == "y.txt"
        assert experiment.get_assets_by_name("x.txt", return_type="text") == ["x.txt"]

    def test_a_curve(self, experiment: comet_ml.APIExperiment) -> None:
        experiment.log_curve("roc", x=[0, 0.5, 1], y=[0, 0.9, 1])
        (curve,) = experiment.get_curves()
        assert (curve["name"], curve["x"], curve["y"]) == ("roc", [0, 0.5, 1], [0, 0.9, 1])

    def test_a_deleted_one_is_gone(self, experiment: comet_ml.APIExperiment, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("a")
        answer = experiment.log_asset(str(tmp_path / "a"))
        experiment.delete_asset(answer["assetId"])
        assert experiment.get_asset_list() == []


class TestDetails:
    def test_output_and_tags(self, experiment: comet_ml.APIExperiment) -> None:
        experiment.log_output("first\n", timestamp=1_700_000_000_000)
        experiment.log_output("second\n", timestamp=1_700_000_001_000)
        experiment.add_tags(["b", "a"])
        assert experiment.get_tags() == ["b", "a"]
        assert eventually(lambda: "second" in experiment.get_output() and experiment.get_output()) == "first\nsecond\n"

    def test_system_details(self, experiment: comet_ml.APIExperiment) -> None:
        for name, value in [
            ("os_release", "6.1.0"),
            ("machine", "x86_64"),
            ("processor", "a processor"),
            ("hostname", "node-1"),
            ("pid", 42),
            ("python_version", "3.11"),
            ("user", "someone"),
            ("command", ["train.py", "--fast"]),
        ]:
            getattr(experiment, f"set_{name}")(value)
            assert getattr(experiment, f"get_{name}")() == value, name

    def test_documents(self, experiment: comet_ml.APIExperiment) -> None:
        experiment.set_code("print(1)")
        assert experiment.get_code() == "print(1)"
        experiment.set_model_graph("a graph")
        assert experiment.get_model_graph() == "a graph"
        experiment.log_html("<b>a</b>")
        experiment.log_html("<i>b</i>")
        assert experiment.get_html() == "<b>a</b><i>b</i>"
        experiment.set_git_metadata("me", "abc", "main", "def", "origin")
        assert experiment.get_git_metadata()["branch"] == "main"
        experiment.set_git_patch(b"a patch")
        with zipfile.ZipFile(io.BytesIO(experiment.get_git_patch())) as packed:
            assert packed.read(packed.namelist()[0]) == b"a patch"

    def test_what_is_missing_is_empty(self, experiment: comet_ml.APIExperiment) -> None:
        assert not experiment.get_git_patch()
        assert not experiment.get_code()
        assert not experiment.get_html()
        assert experiment.get_asset_list() == []
        assert experiment.get_tags() == []

    def test_times(self, experiment: comet_ml.APIExperiment) -> None:
        experiment.set_start_time(1_700_000_000_000)
        experiment.set_end_time(1_700_000_100_000)
        metadata = experiment.get_metadata()
        assert (metadata["startTimeMillis"], metadata["endTimeMillis"]) == (1_700_000_000_000, 1_700_000_100_000)


class TestProjects:
    def test_reads_and_changes(self, api: comet_ml.API, service: Service, project: str) -> None:
        assert service.workspace in api.get()
        assert project in api.get_projects(service.workspace)
        found = api.get_project(service.workspace, project)
        assert found["projectDescription"] == "made by a test"
        assert api.get_project_by_id(found["projectId"])["projectName"] == project
        assert api.get_project(service.workspace, "absent") is None
        api.set_project_notes(service.workspace, project, "# notes")
        assert api.get_project_notes(service.workspace, project) == "# notes"
        api.update_project(service.workspace, project, new_project_name=project + "-b")
        assert api.get_project(service.workspace, project + "-b")["projectId"] == found["projectId"]
        key = api.create_project_share_key(found["projectId"])
        assert api.get_project_share_keys(found["projectId"]) == [key]
        api.delete_project_share_key(found["projectId"], key)
        api.delete_project(service.workspace, project + "-b", delete_experiments=True)
        assert api.get_project(service.workspace, project + "-b") is None

    def test_experiments_are_paged_and_sorted(
        self, api: comet_ml.API, service: Service, project: str, new_experiment: NewExperiment
    ) -> None:
        keys = []
        for at in range(5):
            made = new_experiment()
            made.set_start_time(1_700_000_000_000 + at)
            keys.append(made.key)

        def page(number: int, **more: Any) -> list[str]:
            return [it.key for it in api.get_experiments(service.workspace, project, page=number, page_size=2, **more)]

        assert [page(1), page(2), page(3)] == [keys[:2], keys[2:4], keys[4:]]
        newest = keys[::-1]
        ordered = {"sort_by": "startTime", "sort_order": "desc"}
        assert [page(1, **ordered), page(2, **ordered)] == [newest[:2], newest[2:4]]

    def test_experiments_are_found_by_what_they_have(
        self, api: comet_ml.API, service: Service, project: str, new_experiment: NewExperiment
    ) -> None:
        made = []
        for at in range(3):
            it = new_experiment()
            it.log_parameter("p", at)
            it.log_other("o", f"other {at}")
            it.log_metric("m", at / 2, step=1)
            it.add_tag(f"tag-{at}")
            it.set_start_time(1_700_000_000_000)
            it.set_end_time(1_700_000_000_000 + at * 100_000)
            made.append(it)
        eventually(lambda: all(it.get_metrics_summary("m") for it in made))

        for find in (api.query, api.search):

            def found(query: Any, find: Any = find) -> list[int]:
                keys = [it.key for it in made]
                return sorted(keys.index(it.key) for it in find(service.workspace, project, query))

            assert found(Parameter("p") >= 1) == [1, 2], find
            assert found((Parameter("p") >= 1) & (Metric("m") < 1)) == [1], find
            assert found(Other("o") == "other 2") == [2], find
            assert found(Metadata("duration") > 150) == [2], find
            assert found(Metadata("start_server_timestamp") > 1) == [0, 1, 2], find
            assert found(Tag("tag-1")) == [1], find
            assert found(~(Parameter("p") == 1)) == [0, 2], find

    def test_moves_archives_and_deletes(self, api: comet_ml.API, service: Service, experiment: Any) -> None:
        other = f"other-{uuid.uuid4().hex[:8]}"
        api.create_project(service.workspace, other)
        api.move_experiments([experiment.key], service.workspace, other)
        assert [it.key for it in api.get_experiments(service.workspace, other)] == [experiment.key]
        api.archive_experiment(experiment.key)
        assert api.get_experiments(service.workspace, other) == []
        assert [it.key for it in api.get_archived_experiments(service.workspace, other)] == [experiment.key]
        api.restore_experiment(experiment.key)
        assert [it.key for it in api.get_experiments(service.workspace, other)] == [experiment.key]
        api.delete_experiment(experiment.key)
        assert api.get_experiments(service.workspace, other) == []


class TestRegistry:
    def test_a_model_from_experiment_to_download(
        self, api: comet_ml.API, service: Service, experiment: comet_ml.APIExperiment, tmp_path: Path
    ) -> None:
        for name in ["weights.bin", "more/config.json"]:
            query = {"experimentKey": experiment.key, "type": "model-element", "groupingName": "Net", "fileName": name}
            requests.post(
                f"{service.url}/api/rest/v2/write/experiment/upload-asset",
                params=query,
                files={"file": (name, b"x" * 100_000)},
                headers={"Authorization": service.api_key},
                timeout=30,
            ).raise_for_status()
        assert experiment.get_model_names() == ["Net"]
        name = f"Registered-{uuid.uuid4().hex[:8]}"
        experiment.register_model("Net", version="1.0.0", workspace=service.workspace, registry_name=name, tags=["qa"])
        experiment.register_model("Net", version="1.1.0", workspace=service.workspace, registry_name=name)
        assert name in api.get_registry_model_names(service.workspace) or name.lower() in [
            it.lower() for it in api.get_registry_model_names(service.workspace)
        ]
        assert api.get_registry_model_versions(service.workspace, name) == ["1.0.0", "1.1.0"]
        details = api.get_registry_model_details(service.workspace, name, "1.0.0")
        assert details["stages"] == ["qa"]
        api.update_registry_model_notes(service.workspace, name.upper(), "notes")
        assert api.get_registry_model_notes(service.workspace, name.lower()) == "notes"
        api.add_registry_model_version_stage(service.workspace, name, "1.1.0", "production")
        assert api.get_registry_model_details(service.workspace, name, "1.1.0")["stages"] == ["production"]
        for _ in range(3):
            target = tmp_path / uuid.uuid4().hex
            api.download_registry_model(service.workspace, name, "1.0.0", str(target), expand=True)
            found = {str(it.relative_to(target)) for it in target.rglob("*") if it.is_file()}
            assert found == {"weights.bin", "more/config.json"}
        api.delete_registry_model(service.workspace, name)
        assert name not in api.get_registry_model_names(service.workspace)


def test_an_unknown_key_is_told(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMET_URL_OVERRIDE", service.url + "/clientlib/")
    with pytest.raises(CometRestApiException, match="not registered"):
        comet_ml.API(api_key="a-key-that-nobody-has-0123456789").get_workspaces()
