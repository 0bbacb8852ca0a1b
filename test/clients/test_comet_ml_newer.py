"""What comet_ml calls because the service names a newer version of the interface, and what it reads of registered models,
artifacts, views and system details: what is written is what is read back."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import comet_ml
import pytest
import requests
from comet_ml.api_objects.view import View
from comet_ml.exceptions import CometRestApiException
from svc_service import Service, eventually


def post(service: Service, path: str, *, query: dict[str, str] | None = None, **more: Any) -> Any:
    headers = {"Authorization": service.api_key}
    url = f"{service.url}/clientlib/rest/v2/{path}"
    answer = requests.post(url, params=query, headers=headers, timeout=30, **more)
    answer.raise_for_status()
    return answer.json()


def upload(service: Service, experiment: Any, name: str, content: bytes, **more: str) -> str:
    query = {"experimentKey": experiment.key, "fileName": name, **more}
    answer = post(service, "write/experiment/upload-asset", query=query, files={"file": (name, content)})
    return answer["assetId"]


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(it.relative_to(folder)): it.read_bytes() for it in folder.rglob("*") if it.is_file()}


class TestExperiments:
    def test_states(self, experiment: comet_ml.APIExperiment) -> None:
        for state in ["running", "finished", "crashed", "running"]:
            experiment.set_state(state)
            assert experiment.get_state() == state

    def test_tags_and_parameters_are_deleted(self, experiment: comet_ml.APIExperiment) -> None:
        experiment.add_tags(["a", "b b", "ü", "d,e"])
        experiment.delete_tags(["a", "absent"])
        assert experiment.get_tags() == ["b b", "ü", "d,e"]
        experiment.log_parameters({"a": 1, "b": 2, "c/d e": 3, "left": 4})
        assert experiment.delete_parameter("c/d e")
        assert experiment.delete_parameters(["a", "b"])
        assert [it["name"] for it in experiment.get_parameters_summary()] == ["left"]

    def test_names_of_all_kinds_are_kept(self, experiment: comet_ml.APIExperiment) -> None:
        names = ["a/b", "a b", "ü%20", "%2520", "a[0]", "a+b", "a.b", "A", "a", "🙂", "x" * 300]
        for name in names:
            experiment.log_parameter(name, name)
            experiment.log_other(name, name)
            experiment.log_metric(name, 1.5, step=1)
        for summary in [experiment.get_parameters_summary(), experiment.get_others_summary()]:
            assert {it["name"]: it["valueCurrent"] for it in summary if it["name"] in names} == {it: it for it in names}
        for name in names:
            (point,) = eventually(lambda name=name: experiment.get_metrics(name))
            assert (point["metricName"], point["metricValue"]) == (name, "1.5")

    def test_resources_and_additional_information(self, experiment: comet_ml.APIExperiment) -> None:
        gpu = {"gpuIndex": 0, "name": "A", "uuid": "u", "totalMemory": 10, "powerLimit": 3}
        experiment.set_gpu_static_info([gpu])
        assert experiment.get_gpu_static_info() == [gpu]
        experiment.log_additional_system_info("cores", 8)
        experiment.log_additional_system_info("rack", "b")
        assert {it["key"]: it["value"] for it in experiment.get_additional_system_info()} == {"cores": "8", "rack": "b"}
        experiment.log_cpu_metrics([10, 20])
        experiment.log_ram_metrics(100, 50)
        experiment.log_load_metrics(1.5)
        used = {"gpuId": 0, "freeMemory": 1, "usedMemory": 2, "gpuUtilization": 30, "totalMemory": 3}
        experiment.log_gpu_metrics([used])
        expected = {"sys.cpu.percent.01", "sys.ram.used", "sys.load.average", "sys.gpu.0.gpu_utilization"}
        eventually(lambda: expected <= set(experiment.get_system_metric_names()))
        assert (experiment.get_max_memory(), experiment.get_total_memory()) == (3, 100)

    def test_images_videos_tables(self, experiment: comet_ml.APIExperiment, tmp_path: Path, api: comet_ml.API) -> None:
        (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        (tmp_path / "v.mp4").write_bytes(b"a video")
        experiment.log_image(str(tmp_path / "a.png"), image_name="image", step=2, context="train")
        experiment.log_video(str(tmp_path / "v.mp4"), name="v.mp4", step=1, metadata={"k": [1]})
        experiment.log_table("t.csv", [[1, 2], [3, 4]], headers=["a", "b"])
        kinds = {it["fileName"]: (it["type"], it["step"], it["runContext"]) for it in experiment.get_asset_list()}
        assert kinds == {
            "image": ("image", 2, "train"),
            "v.mp4": ("video", 1, None),
            "t.csv": ("asset", None, None),
        }
        (video,) = experiment.get_asset_list("video")
        assert json.loads(video["metadata"]) == {"k": [1]}
        assert experiment.get_asset_by_name("t.csv", return_type="text") == "a,b\r\n1,2\r\n3,4\r\n"
        api.download_experiment_asset(experiment.key, video["assetId"], str(tmp_path / "out"))
        assert (tmp_path / "out").read_bytes() == b"a video"

    def test_overwritten_assets_are_one(self, experiment: comet_ml.APIExperiment, tmp_path: Path) -> None:
        for content in ["first", "second"]:
            (tmp_path / "a").write_text(content)
            experiment.log_asset(str(tmp_path / "a"), name="a.txt", overwrite=True)
        (asset,) = experiment.get_asset_list()
        assert experiment.get_asset(asset["assetId"], return_type="text") == "second"

    def test_a_chart(self, api: comet_ml.API, experiment: comet_ml.APIExperiment) -> None:
        experiment.log_parameter("p", 0.5)
        for step in range(3):
            experiment.log_metric("m", step / 2, step=step, epoch=step)
        eventually(lambda: len(experiment.get_metrics("m")) == 3)
        chart = api.get_metrics_for_chart([experiment.key], ["m"], ["p"])[experiment.key]
        assert chart["params"] == {"p": "0.5"}
        (line,) = chart["metrics"]
        assert (line["metricName"], line["values"], line["steps"]) == ("m", [0, 0.5, 1], [0, 1, 2])

    def test_an_owner_is_set_by_name(self, api: comet_ml.API, service: Service, project: str) -> None:
        project_id = api.get_project(service.workspace, project)["projectId"]
        user = api.get_account_details()["userName"]
        api.set_project_owner(project_id, user)
        assert api.get_project_by_id(project_id)["ownerUserName"] == user


class TestViews:
    def test_are_read_as_they_were_saved(
        self, api: comet_ml.API, service: Service, project: str, experiment: comet_ml.APIExperiment
    ) -> None:
        view = View(name="ours", query_state='{"a": 1}', chart_state="[]", table_state="{}", v2={"x": [1, None]})
        made = api.create_view(service.workspace, project, view)
        (found,) = api.get_views(service.workspace, project)
        assert found == made
        assert (found.query_state, found.chart_state, found.v2) == ('{"a": 1}', "[]", {"x": [1, None]})
        assert experiment.get_views() == []
        of_experiment = experiment.create_view(View(name="of one", chart_state='{"q": 2}'))
        assert experiment.get_views() == [of_experiment]
        assert of_experiment.experiment_key == experiment.key
        assert [it.name for it in api.get_views(service.workspace, project)] == ["ours"]


class TestRegisteredModels:
    @pytest.fixture
    def model(self, api: comet_ml.API, service: Service, experiment: comet_ml.APIExperiment) -> Any:
        for name, content in [("w.bin", b"weights"), ("more/c.json", b"{}")]:
            more = {"type": "model-element", "groupingName": "Net", "assetId": uuid.uuid4().hex}
            upload(service, experiment, name, content, **more)
        name = f"Registered-{uuid.uuid4().hex[:8]}"
        asked = {"status": "Staging", "is_review_required": True, "comment": "please"}
        experiment.register_model(
            "Net",
            version="1.0.0",
            registry_name=name,
            public=False,
            description="described",
            comment="the first",
            tags=["a", "b"],
            status="QA",
            metadata={"accuracy": 0.5, "data": {"rows": 10, "none": None}},
            status_configuration={**asked, "status_configuration_items": [{"key": "k", "value": "v"}]},
        )
        experiment.register_model("Net", version="1.1.0", registry_name=name)
        return api.get_model(service.workspace, name)

    def test_has_what_it_was_registered_with(self, api: comet_ml.API, service: Service, model: Any) -> None:
        assert model.find_versions() == ["1.1.0", "1.0.0"]
        assert model.find_versions("1.0") == ["1.0.0"]
        assert (model.find_versions(status="QA"), model.find_versions(tag="b")) == (["1.0.0"], ["1.0.0"])
        assert (model.status("1.0.0"), model.tags("1.0.0")) == ("QA", ["a", "b"])
        assert (model.status("1.1.0"), model.tags("1.1.0")) == ("None", [])
        details = model.get_details("1.0.0")
        assert (details["comment"], details["version"]) == ("the first", "1.0.0")
        assert details["experimentKey"] and details["createdAt"] <= details["updatedAt"]
        assert api.get_registry_model_details(service.workspace, model.name)["description"] == "described"
        metadata = {it["key"]: it["value"] for it in model.get_registry_model_metadata("1.0.0")}
        assert metadata["accuracy"] == 0.5
        asked = model.get_registry_model_status_configuration("1.0.0")
        assert (asked.status, asked.is_review_required, asked.comment) == ("Staging", True, "please")
        assert [(it.key, it.value) for it in asked.status_configuration_items] == [("k", "v")]
        assert model.get_registry_model_status_configuration("1.1.0") is None

    def test_changes_one_thing_at_a_time(self, api: comet_ml.API, service: Service, model: Any) -> None:
        assert "Production" in api.model_registry_allowed_status_values(service.workspace)
        model.set_status("1.1.0", "Production")
        model.add_tag("1.1.0", "live")
        model.update_registry_model_metadata({"accuracy": 0.75, "list": [1, "x"]}, version="1.0.0")
        assert (model.status("1.1.0"), model.tags("1.1.0")) == ("Production", ["live"])
        model.delete_tag("1.1.0", "live")
        assert model.tags("1.1.0") == []
        metadata = {it["key"]: it["value"] for it in model.get_registry_model_metadata("1.0.0")}
        assert (metadata["accuracy"], metadata["list"]) == (0.75, [1, "x"])
        with pytest.raises(CometRestApiException, match="status: must be one of None, Development"):
            model.set_status("1.1.0", "Prodcution")
        (events,) = model.get_version_history("1.1.0").values()
        assert [it["actionType"] for it in events] == [
            "MODEL_VERSION_STAGE_REMOVED",
            "MODEL_VERSION_STAGE_ADDED",
            "MODEL_VERSION_STATUS_CHANGED",
            "MODEL_VERSION_CREATED",
        ]
        assert events[2]["newValue"]["registryModelStatus"] == "Production"

    def test_is_downloaded_as_it_was_registered(
        self, api: comet_ml.API, service: Service, experiment: comet_ml.APIExperiment, model: Any, tmp_path: Path
    ) -> None:
        (weights,) = [it for it in experiment.get_model_asset_list("Net") if it["fileName"] == "w.bin"]
        same = {"type": "model-element", "groupingName": "Net", "assetId": weights["assetId"]}
        upload(service, experiment, "w.bin", b"changed since", **same)
        kept = {"w.bin": b"weights", "more/c.json": b"{}"}
        model.download("1.0.0", tmp_path / "before")
        assert files_below(tmp_path / "before") == kept
        api.delete_experiment(experiment.key)
        model.download("1.0.0", tmp_path / "after")
        assert files_below(tmp_path / "after") == kept

    def test_the_older_calls_read_the_same(self, api: comet_ml.API, service: Service, model: Any) -> None:
        place = (service.workspace, model.name)
        assert api.get_latest_registry_model_version_details(*place)["version"] == "1.1.0"
        older = api.get_latest_registry_model_version_details(*place, version_major=1, version_minor=0)
        assert older["version"] == "1.0.0"
        assets = api.get_model_registry_version_assets(*place, "1.0.0")["assets"]
        assert sorted(it["fileName"] for it in assets) == ["more/c.json", "w.bin"]
        api.update_registry_model_version(*place, "1.0.0", comment="changed", stages=["c"])
        assert (model.get_details("1.0.0")["comment"], model.tags("1.0.0")) == ("changed", ["c"])
        api.update_registry_model(*place, new_name=f"{model.name}-b", description="other", public=True)
        renamed = api.get_registry_model_details(service.workspace, f"{model.name}-b")
        assert (renamed["description"], renamed["isPublic"]) == ("other", True)
        api.delete_registry_model_version(service.workspace, f"{model.name}-b", "1.1.0")
        assert api.get_registry_model_versions(service.workspace, f"{model.name}-b") == ["1.0.0"]


class TestArtifacts:
    def test_are_read_and_downloaded(
        self, api: comet_ml.API, service: Service, experiment: comet_ml.APIExperiment, tmp_path: Path
    ) -> None:
        name = f"artifact-{uuid.uuid4().hex[:8]}"
        asked = {"experimentKey": experiment.key, "artifactName": name, "artifactType": "dataset"}
        more = {"alias": ["best"], "versionTags": ["v"], "versionMetadata": '{"m": 1}'}
        version_id = post(service, "write/artifacts/upsert", json={**asked, **more})["artifactVersionId"]
        upload(service, experiment, "dir/a.bin", bytes(range(10)), artifactVersionId=version_id)
        upload(service, experiment, "b.txt", b"b", artifactVersionId=version_id)
        remote = {"link": "s3://bucket/c", "type": "asset", "fileName": "c", "artifactVersionId": version_id}
        batch = {"remoteArtifactAssetRequests": [remote]}
        post(service, "write/artifact/assets/remote/batch", query={"experimentKey": experiment.key}, json=batch)
        closed = {"experimentKey": experiment.key, "artifactVersionId": version_id, "state": "CLOSED"}
        post(service, "write/artifacts/state", json=closed)

        assert [it["name"] for it in api.get_artifact_list(service.workspace)["artifacts"]].count(name) == 1
        assert api.get_artifact_details(service.workspace, name)["latestVersion"] == "1.0.0"
        listed = api.get_artifact_files(service.workspace, name, version="1.0.0")["files"]
        assert {it["fileName"]: it["remote"] for it in listed} == {"dir/a.bin": False, "b.txt": False, "c": True}
        (lineage,) = experiment.get_artifact_lineage("output")["artifacts"]
        assert lineage["artifactVersionId"] == version_id
        for how in [{"version": "1.0.0"}, {"alias": "best"}, {}]:
            artifact = api.get_artifact(service.workspace, name, **how)
            assert (str(artifact.version), artifact.metadata, artifact.size) == ("1.0.0", {"m": 1}, 11)
            assert (set(artifact.aliases), set(artifact.version_tags)) == ({"Latest", "best"}, {"v"})
        for asset in artifact.assets:
            if not asset.remote:
                local = asset.download(str(tmp_path / "files"))
                assert Path(local.local_path_or_data).read_bytes() in [bytes(range(10)), b"b"]
        artifact.update_version_tags(["w"])
        artifact.update_artifact_tags(["t"])
        artifact.update_aliases(["good"])
        found = api.get_artifact(service.workspace, name, alias="good")
        assert (set(found.version_tags), set(found.artifact_tags)) == ({"w"}, {"t"})
