"""Files, images, tables, output and the machine: what is logged is what is read."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import urllib.request
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Service, eventually
from ml_ledger import environment, quiet, read, read_points, read_values, run_script
from svc_ml import Experiment
from svc_ml.transport.artifact import send_version
from svc_ml.transport.service import Service as ServiceCalls
from svc_ml.transport.service import Unavailable


@pytest.fixture(autouse=True)
def variables(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = environment(service, tmp_path)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


def assets(service: Service, key: str) -> dict[str, dict[str, Any]]:
    return {it["fileName"]: it for it in read(service, key, "asset/list", type="all")["assets"]}


def data_of(service: Service, key: str, asset: dict[str, Any]) -> bytes:
    path = f"/api/rest/v2/experiment/asset/get-asset?experimentKey={key}&assetId={asset['assetId']}"
    request = urllib.request.Request(service.url + path, headers={"Authorization": service.api_key})
    with urllib.request.urlopen(request, timeout=30) as answer:
        data: bytes = answer.read()
    return data


def test_files_are_kept_as_they_were_when_they_were_logged(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    large = np.random.default_rng(1).bytes(20_000_000)
    with Experiment(**quiet) as experiment:
        file.write_bytes(b"first")
        returned = experiment.log_asset(file, step=3, metadata={"a": [1, 2]})
        file.write_bytes(b"second")
        experiment.log_asset(io.BytesIO(b"from memory"), file_name="memory.bin", type="dataframe")
        experiment.log_asset(b"", file_name="empty")
        experiment.log_asset(large, file_name="large.bin")
        (tmp_path / "stays.txt").write_text("stays")
        experiment.log_asset(str(tmp_path / "stays.txt"), copy_to_tmp=False)
        folder = tmp_path / "folder" / "inner"
        folder.mkdir(parents=True)
        (folder / "x.txt").write_text("x")
        experiment.log_asset_folder(tmp_path / "folder")
    found = assets(service, experiment.id)
    assert found["weights.bin"]["assetId"] == returned["assetId"]
    assert (found["weights.bin"]["step"], json.loads(found["weights.bin"]["metadata"])) == (3, {"a": [1, 2]})
    expected = {
        "weights.bin": b"first",
        "memory.bin": b"from memory",
        "empty": b"",
        "large.bin": large,
        "stays.txt": b"stays",
        "inner/x.txt": b"x",
    }
    assert {name: data_of(service, experiment.id, it) for name, it in found.items()} == expected
    assert found["memory.bin"]["type"] == "dataframe"
    assert (tmp_path / "stays.txt").exists()
    assert experiment.get_logging_errors() == []


def test_an_asset_with_overwrite_takes_the_place_of_the_one_before(service: Service) -> None:
    with Experiment(**quiet) as experiment:
        experiment.log_asset(b"one", file_name="same", overwrite=True)
        experiment.log_asset(b"two", file_name="same", overwrite=True)
    found = read(service, experiment.id, "asset/list", type="all")["assets"]
    assert [data_of(service, experiment.id, it) for it in found] == [b"two"]


def test_what_people_look_at_is_kept_in_its_form(service: Service, tmp_path: Path) -> None:
    import matplotlib as mpl
    import pandas as pd
    import polars as pl
    from PIL import Image

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    pixels = np.linspace(0, 1, 12).reshape(3, 4)
    figure, axes = plt.subplots()
    axes.plot([1, 2])
    with Experiment(**quiet) as experiment:
        experiment.log_image(pixels, name="array.png", step=1)
        experiment.log_image(Image.new("RGB", (5, 6), "red"), name="pillow.png")
        experiment.log_figure("plot", figure)
        experiment.log_table("rows.csv", [[1, "a"], [2, "b,c"]], headers=["n", "s"])
        experiment.log_table("frame.csv", pd.DataFrame({"x": [1.5, 2.5]}), headers=True)
        experiment.log_table("dictionaries.csv", [{"n": 1, "s": "a"}, {"s": "b", "n": 2}, {"n": 3, "t": "c"}])
        experiment.log_table("chosen.json", [{"n": 1, "s": "a"}, {"s": "b"}], headers=["s", "n"])
        experiment.log_table("polars.csv", pl.DataFrame({"x": [1, 2, 3], "y": ["a", "b", "c"]}))
        experiment.log_table("polars.json", pl.DataFrame({"x": [1, 2, 3], "y": ["a", "b", "c"]}))
        experiment.log_curve("roc", [0, 0.5, 1], [0, 0.9, 1])
        experiment.log_confusion_matrix([0, 1, 1, 2], [[0.9, 0.1, 0], [0, 1, 0], [0.8, 0.1, 0.1], [0, 0, 1]])
        named = {"y_true": ["dog", "cat", "dog"], "y_predicted": ["dog", "dog", "bird"], "file_name": "named.json"}
        experiment.log_confusion_matrix(**named)
        experiment.log_confusion_matrix(**{**named, "labels": ["cat", "dog"], "file_name": "lacking.json"})
        (tmp_path / "data" / "inner").mkdir(parents=True)
        (tmp_path / "data" / "one.txt").write_text("1")
        (tmp_path / "data" / "inner" / "two.txt").write_text("2")
        assert len(experiment.log_asset(tmp_path / "data")) == 2
        experiment.log_text("a sample", step=2)
        experiment.log_code(code="print(1)", code_name="train.py")
    found = assets(service, experiment.id)
    data = {name: data_of(service, experiment.id, it) for name, it in found.items()}
    array = np.asarray(Image.open(io.BytesIO(data["array.png"])))
    assert array.shape == (3, 4) and array.max() == 255 and array.min() == 0
    assert Image.open(io.BytesIO(data["pillow.png"])).size == (5, 6)
    assert Image.open(io.BytesIO(data["plot.png"])).size[0] > 100
    assert {found[it]["type"] for it in ("array.png", "pillow.png", "plot.png")} == {"image"}
    assert data["rows.csv"] == b'n,s\n1,a\n2,"b,c"\n'
    assert data["dictionaries.csv"] == b"n,s,t\n1,a,\n2,b,\n3,,c\n", "by name, whatever their order in a row"
    assert json.loads(data["chosen.json"]) == [["s", "n"], ["a", 1], ["b", None]]
    assert data["polars.csv"] == b"x,y\n1,a\n2,b\n3,c\n"
    table = json.loads(data["polars.json"])
    assert table == {"columns": ["x", "y"], "index": [0, 1, 2], "data": [[1, "a"], [2, "b"], [3, "c"]]}
    named_classes = json.loads(data["named.json"])
    assert named_classes["labels"] == ["bird", "cat", "dog"]
    assert named_classes["matrix"] == [[0, 0, 0], [0, 0, 1], [1, 0, 1]]
    refused = [it["message"] for it in experiment.get_logging_errors()]
    assert len(refused) == 1 and "labels has no 'bird'" in refused[0], refused
    assert (data["data/one.txt"], data["data/inner/two.txt"]) == (b"1", b"2")
    assert data["frame.csv"] == b",x\n0,1.5\n1,2.5\n"
    assert json.loads(data["roc.json"]) == {"name": "roc", "x": [0, 0.5, 1], "y": [0, 0.9, 1]}
    assert json.loads(data["confusion-matrix.json"])["matrix"] == [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    text = next(name for name, it in found.items() if it["type"] == "text-sample")
    assert data[text] == b"a sample"
    assert read(service, experiment.id, "code")["code"] == "print(1)"
    assert found["train.py"]["type"] == "source_code"
    assert experiment.get_logging_errors() == []


class Tensor:
    """What is asked of a tensor of PyTorch, which is too large to install for tests: it gives no array before `detach().cpu()`."""

    def __init__(self, array: Any, where: str = "gpu") -> None:
        self._array, self._where = array, where

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return Tensor(self._array, "cpu")

    def __array__(self, *given: Any, **named: Any) -> Any:
        if self._where != "cpu":
            raise TypeError("a tensor on a device gives no array")
        return self._array


def test_images_come_as_figures_and_with_channels_first(service: Service) -> None:
    import matplotlib as mpl
    from PIL import Image

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    pixels = np.random.default_rng(2).integers(0, 256, (3, 5, 7), dtype=np.uint8)
    with Experiment(**quiet) as experiment:
        experiment.log_image(pixels, name="first.png")
        experiment.log_image(Tensor(pixels / 255), name="floats.png")
        experiment.log_image(pixels.transpose(1, 2, 0), name="last.png")
        experiment.log_image(pixels[:, :, :4], name="told.png", image_channels="first")
        experiment.log_image(np.eye(4, dtype=bool), name="booleans.png")
        experiment.log_image(np.array([[np.nan, 1.0], [2.0, -1.0]]), name="odd.png")
        experiment.log_image(plt.figure(), name="figure.png")
        experiment.log_image(pixels, name="wrong.png", image_channels="last")
        experiment.log_video([pixels, pixels[:, ::-1]], "frames", fps=20)
        experiment.log_video(np.stack([np.full((4, 6), it, dtype=np.uint8) for it in (0, 128, 255)]), step=3, epoch=2)
        experiment.log_video(b"not looked into", "film", format="mp4")
    found = assets(service, experiment.id)
    shown = {}
    for name, it in found.items():
        if name.endswith(".png"):
            shown[name] = np.asarray(Image.open(io.BytesIO(data_of(service, experiment.id, it))))
    whole = pixels.transpose(1, 2, 0)
    assert all((shown[it] == whole).all() for it in ("first.png", "last.png"))
    assert np.abs(shown["floats.png"].astype(int) - whole).max() <= 1
    assert (shown["told.png"] == whole[:, :4]).all()
    assert (shown["booleans.png"] == np.eye(4) * 255).all()
    assert shown["odd.png"].tolist() == [[0, 255], [255, 0]]
    assert shown["figure.png"].shape[0] > 100
    gif = Image.open(io.BytesIO(data_of(service, experiment.id, found["frames.gif"])))
    assert (gif.n_frames, gif.size, gif.info["duration"]) == (2, (7, 5), 50)
    grey = Image.open(io.BytesIO(data_of(service, experiment.id, found["video.gif"])))
    levels = []
    for frame in range(grey.n_frames):
        grey.seek(frame)
        levels.append(np.asarray(grey.convert("L"))[0, 0])
    assert levels == [0, 128, 255]
    assert (found["video.gif"]["type"], found["video.gif"]["step"], found["film.mp4"]["video"]) == ("video", 3, True)
    faults = [it["message"] for it in experiment.get_logging_errors()]
    assert len(faults) == 1 and "shape (3, 5, 7)" in faults[0], faults


def test_sound_is_read_as_it_was_logged(service: Service, tmp_path: Path) -> None:
    wave_of = np.sin(np.linspace(0, 100, 800))
    stereo = np.stack([wave_of, -wave_of], axis=1)
    with Experiment(**quiet) as experiment:
        experiment.log_audio(stereo, 8_000, file_name="floats", step=4, metadata={"speaker": "a"})
        experiment.log_audio(wave_of * 30_000, 8_000, file_name="loud")
        experiment.log_audio((wave_of * 1e9).astype(np.int32), 44_100, "OFF", "wide.wav")
        (tmp_path / "sound.mp3").write_bytes(b"not looked into")
        experiment.log_audio(tmp_path / "sound.mp3")
        experiment.log_audio(stereo)
        experiment.log_audio(stereo.T, 8_000)
        experiment.log_audio(stereo, 8_000, "OFF")
    found = assets(service, experiment.id)
    assert list(found) == ["floats.wav", "loud.wav", "wide.wav", "sound.mp3"]
    assert (found["floats.wav"]["type"], found["floats.wav"]["step"], found["sound.mp3"]["audio"]) == ("audio", 4, True)

    def samples_of(name: str) -> tuple[int, Any]:
        with wave.open(io.BytesIO(data_of(service, experiment.id, found[name]))) as file:
            kind = {2: "<i2", 4: "<i4"}[file.getsampwidth()]
            samples = np.frombuffer(file.readframes(file.getnframes()), kind)
            return file.getframerate(), samples.reshape(-1, file.getnchannels())

    rate, samples = samples_of("floats.wav")
    assert rate == 8_000 and np.abs(samples / 32_767 - stereo).max() < 1e-4
    peak = np.abs(wave_of).max()
    assert np.abs(samples_of("loud.wav")[1][:, 0] / 32_767 - wave_of / peak).max() < 1e-4, "scaled down, not cut off"
    assert (samples_of("wide.wav")[1][:, 0] == (wave_of * 1e9).astype(np.int32)).all()
    faults = [it["message"] for it in experiment.get_logging_errors()]
    expected = ["sample_rate is missing", "shape (2, 800)", "is of float64"]
    assert len(faults) == 3 and all(part in it for part, it in zip(expected, faults)), faults


def test_histograms_embeddings_and_scenes_keep_every_number(service: Service) -> None:
    weights = np.random.default_rng(3).normal(size=(40, 25))
    points = [[0, 1, 2], [3.5, -4, 5]]
    box = {"segments": [[[0, 0, 0], [1, 1, 1]]], "color": [255, 0, 0], "name": "car"}
    with Experiment(**quiet) as experiment:
        experiment.log_histogram(weights, "array", step=1, epoch=7)
        experiment.log_histogram(weights.tolist(), "list", bins=64)
        experiment.log_histogram_3d([1.0, float("nan"), float("inf"), 1.0], name="odd", step=2)
        experiment.log_histogram(np.array([np.nan]), "none")
        experiment.log_histogram(name="counted", counts=[1, 0, 3], edges=[0, 0.5, 1, 10])
        experiment.log_histogram(name="x", counts=[1], edges=[0])
        experiment.log_histogram([1, 2], counts=[1], edges=[0, 1])
        images = np.zeros((3, 2, 4, 3), dtype=np.uint8)
        images[1] = 255
        experiment.log_embedding([[1, 2], [3, 4.5], [0, 0]], ["a", "b\tc", "d"], images, title="words", step=5)
        experiment.log_embedding(np.eye(2), [["n", "kind"], [1, "x"], [2, "y"]], title="table")
        experiment.log_embedding(np.eye(2), ["one"])
        experiment.log_points_3d("street", points, [box], step=6)
        experiment.log_points_3d("cloud", np.ones((2, 6)))
        experiment.log_points_3d("flat", np.ones((2, 2)))
    found = assets(service, experiment.id)
    data = {name: data_of(service, experiment.id, it) for name, it in found.items()}
    histograms = {it: json.loads(data[f"{it}.json"]) for it in ("array", "list", "odd", "none", "counted")}
    expected, edges = np.histogram(weights, 64)
    assert histograms["array"]["counts"] == expected.tolist() and np.allclose(histograms["array"]["edges"], edges)
    assert histograms["array"]["counts"] == histograms["list"]["counts"]
    assert np.isclose(histograms["list"]["std"], weights.std()) and np.isclose(
        histograms["array"]["mean"], weights.mean()
    )
    assert (found["array.json"]["type"], found["array.json"]["step"], found["array.json"]["histogram"]) == (
        "histogram3d",
        1,
        True,
    )
    odd = histograms["odd"]
    assert (odd["count"], odd["nonFinite"], odd["min"], odd["max"]) == (2, 2, 1, 1)
    assert (histograms["none"]["counts"], histograms["none"]["nonFinite"]) == ([], 1)
    assert histograms["counted"] == {
        "version": 1,
        "name": "counted",
        "edges": [0, 0.5, 1, 10],
        "counts": [1, 0, 3],
        "count": 4,
    }
    config = json.loads(data["words.json"])["embeddings"][0]
    assert (config["tensorShape"], config["sprite"]["singleImageDim"]) == ([3, 2], [4, 2])

    def follow(path: str) -> bytes:
        request = urllib.request.Request(service.url + path, headers={"Authorization": service.api_key})
        with urllib.request.urlopen(request, timeout=30) as answer:
            content: bytes = answer.read()
        return content

    assert follow(config["tensorPath"]) == b"1.0\t2.0\n3.0\t4.5\n0.0\t0.0\n"
    assert follow(config["metadataPath"]) == b"a\nb c\nd\n"
    from PIL import Image

    sprite = np.asarray(Image.open(io.BytesIO(follow(config["sprite"]["imagePath"]))))
    assert sprite.shape == (4, 8, 3) and sprite[:2, 4:].min() == 255 and sprite[2:].max() == 0
    assert data["table-labels.tsv"] == b"n\tkind\n1\tx\n2\ty\n"
    assert found["words.json"]["type"] == "embeddings"
    assert json.loads(data["street.json"]) == {"version": 1, "name": "street", "points": points, "boxes": [box]}
    assert (found["street.json"]["type"], found["street.json"]["step"]) == ("3d-points", 6)
    assert len(json.loads(data["cloud.json"])["points"][1]) == 6
    faults = [it["message"] for it in experiment.get_logging_errors()]
    parts = ["expected one edge more", "give values, or counts and edges", "labels has 1 rows", "a point is [1.0, 1.0]"]
    assert len(faults) == 4 and all(part in it for part, it in zip(parts, faults)), faults


def test_a_remote_asset_is_a_link_and_a_dataset_has_a_hash(service: Service, tmp_path: Path) -> None:
    import pandas as pd

    from svc_ml.form.digest import to_digest

    uri = "s3://bucket/data/train.parquet?versionId=1"
    with Experiment(**quiet) as experiment:
        returned = experiment.log_remote_asset(uri, step=2, metadata={"rows": 10})
        experiment.log_remote_asset("dataset:7", "data", asset_type="dataset")
        experiment.log_dataset_hash(np.arange(10_000))
    found = assets(service, experiment.id)
    named = found["train.parquet"]
    assert returned == {"assetId": named["assetId"]}
    assert (named["link"], named["remote"], named["step"], json.loads(named["metadata"])) == (
        uri,
        True,
        2,
        {"rows": 10},
    )
    assert (found["data"]["link"], found["data"]["type"]) == ("dataset:7", "dataset")
    assert read_values(service, experiment.id, "parameters") == {"dataset_hash": to_digest(np.arange(10_000))}
    changed = np.arange(10_000)
    changed[5_000] = 0
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    of_folder = to_digest(tmp_path)
    (tmp_path / "b").write_bytes(b"c")
    digests = [
        to_digest(it)
        for it in (
            np.arange(10_000),
            np.arange(10_000).reshape(100, 100),
            np.arange(10_000, dtype=np.int16),
            changed,
            pd.DataFrame({"x": [1, 2]}),
            pd.DataFrame({"x": [1, 3]}),
            "text",
            b"bytes",
            tmp_path,
        )
    ]
    assert len({*digests, of_folder}) == 10, "what differs anywhere has another hash"
    assert to_digest(b"bytes") == hashlib.sha256(b"bytes").hexdigest()[:32]


def test_a_model_and_an_artifact_are_whole(service: Service, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "a.bin").write_bytes(b"a")
    (tmp_path / "model" / "b.bin").write_bytes(b"b")
    with Experiment(**quiet) as experiment:
        experiment.log_model("digits", tmp_path / "model")
        name = f"data-{experiment.id}"
        experiment.log_artifact(name, tmp_path / "model", "1.0.0", aliases=["best"], metadata={"rows": 2})
        experiment.log_artifact(name, {"c.bin": b"c"}, "1.1.0")
        for _ in range(2):
            experiment.register_model("digits", registry_name=name, stages=["staging"], comment="good")
        experiment.register_model("digits", "2.0.0", registry_name=name, description="not of the first")
        experiment.register_model("nothing", registry_name=name)
    faults = [it["message"] for it in experiment.get_logging_errors()]
    assert len(faults) == 1 and name in faults[0] and 'no model "nothing"' in faults[0], faults
    items = service.get(f"/api/rest/v2/registry-model/items?workspaceName={service.workspace}&modelName={name}")[
        "items"
    ]
    assert [(it["version"], it["comment"], it["stages"]) for it in items] == [
        ("2.0.0", "", []),
        ("1.0.0", "good", ["staging"]),
    ]
    query = f"workspaceName={service.workspace}&modelName={name}&version=1.0.0"
    registered = service.get(f"/api/rest/v2/registry-model/item/details?{query}")
    assert sorted(it["fileName"] for it in registered["assets"]) == ["a.bin", "b.bin"]
    models = read(service, experiment.id, "model")["models"]
    assert [it["modelName"] for it in models] == ["digits"]
    found = service.get(f"/api/rest/v2/artifacts/version?workspace={service.workspace}&artifactName={name}&alias=best")
    assert (found["artifactVersion"], found["state"], json.loads(found["metadata"])) == ("1.0.0", "CLOSED", {"rows": 2})
    query = f"workspace={service.workspace}&artifactName={name}&version=1.1.0"
    files = service.get(f"/api/rest/v2/artifacts/version/files?{query}")["files"]
    assert [it["fileName"] for it in files] == ["c.bin"]


def test_a_version_without_a_number_is_the_next_one_however_often_it_is_sent(service: Service) -> None:
    with Experiment(**quiet) as experiment:
        name = f"data-{experiment.id}"
        experiment.log_artifact(name, {"a": b"a"})
        experiment.log_artifact(name, {"b": b"b"})
    content: dict[str, Any] = {"name": name, "version": None, "mark": "m" * 32, "type": "asset", "aliases": []}
    content |= {"metadata": {}, "files": [{"name": "c", "asset_id": "f" * 32}]}
    to_service = ServiceCalls(service.url, service.api_key)

    def fails(path: str, file: dict[str, Any], query: dict[str, Any]) -> None:
        raise Unavailable("gone in the middle", None, False)

    with pytest.raises(Unavailable):
        send_version(to_service, experiment.id, content, fails)
    for _ in range(2):
        send_version(to_service, experiment.id, content, lambda path, file, query: None)
    found = service.get(f"/api/rest/v2/artifacts/get?workspace={service.workspace}&artifactName={name}")
    assert [(it["version"], it["state"]) for it in found["versions"]] == [
        ("3.0.0", "CLOSED"),
        ("2.0.0", "CLOSED"),
        ("1.0.0", "CLOSED"),
    ]


def test_wrong_files_are_told_and_cost_nothing_else(service: Service, tmp_path: Path) -> None:
    with Experiment(**quiet) as experiment:
        experiment.log_asset(tmp_path / "nowhere.bin")
        experiment.log_image(np.zeros((2, 2, 2, 2)))
        experiment.log_curve("roc", [1, 2], [1])
        experiment.log_confusion_matrix([1], [2, 3])
        experiment.log_figure("x", object())
        (tmp_path / "gone.txt").write_text("gone")
        experiment.log_asset(tmp_path / "gone.txt", copy_to_tmp=False)
        (tmp_path / "gone.txt").unlink()
        experiment.log_asset(b"fine", file_name="fine")
    messages = [it["message"] for it in experiment.get_logging_errors()]
    expected = [
        "there is no file",
        "shape (2, 2, 2, 2)",
        "x has 2 numbers and y has 1",
        "y_true has 1",
        "expected one of",
    ]
    for part in [*expected, "cannot be read"]:
        assert any(part in it for it in messages), (part, messages)
    assert list(assets(service, experiment.id)) == ["fine"]


def test_output_code_commit_packages_and_machine_are_logged(
    service: Service, variables: dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, time\n"
        "from svc_ml import Experiment\n"
        "with Experiment() as experiment:\n"
        "    print('to be read', end='')\n"
        "    print(' in one line')\n"
        "    print('10%\\r50%\\r100%')\n"
        "    print('a warning', file=sys.stderr)\n"
        "    experiment.log_metric('loss', 1)\n"
        "    time.sleep(1)\n"
        "    print('without an end', end='')\n"
        "print(experiment.id)\n"
    )
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-C", str(tmp_path)]
    for arguments in (["init", "-q", "-b", "main"], ["add", "train.py"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    script.write_text(script.read_text() + "# changed\n")
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**variables, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "to be read in one line\n" in done.stdout, "what is captured is printed all the same"
    key = done.stdout.strip()[-32:]

    def look() -> bool:
        lines = read(service, key, "output")["output"].split("\n")
        assert lines[:4] == ["to be read in one line", "100%", "a warning", "without an end"]
        return True

    assert eventually(look)
    assert read(service, key, "code")["code"] == script.read_text()
    assert read(service, key, "git/metadata")["parent"] == commit
    assert read(service, key, "git/metadata")["branch"] == "main"
    request = urllib.request.Request(f"{service.url}/api/rest/v2/experiment/git/patch?experimentKey={key}")
    request.add_header("Authorization", service.api_key)
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert "+# changed" in answer.read().decode()
    details = read(service, key, "system-details")
    assert details["pythonVersion"] == ".".join(map(str, sys.version_info[:3]))
    assert any(it.startswith("psutil==") for it in details["installedPackages"])
    assert details["totalRam"] > 0
    assert any(it.startswith("sys.cpu.percent") for it in details["systemMetricNames"])
    assert read(service, key, "metadata")["filePath"] == str(script)
    assert read_points(service, key, "sys.process.memory")[0][1] > 0


def test_a_run_that_was_asked_to_stop_learns_of_it(service: Service) -> None:
    with Experiment(**quiet) as experiment:
        service.get(f"/api/rest/v2/write/experiment/stop?experimentKey={experiment.id}")
        eventually(lambda: read(service, experiment.id, "metadata")["running"])
        eventually(lambda: experiment.stop_requested, 30)


def test_a_notebook_shows_a_link(variables: dict[str, str]) -> None:
    script = """
        from svc_ml import Experiment
        with Experiment(experiment_name="a <b>") as experiment:
            print(experiment._repr_html_())
            experiment.display()
        from svc_ml.calls.lifecycle import _to_embed
        print(_to_embed("https://svc.example/below/a%2Fteam/vision/key"))
    """
    output, errors = run_script(script, variables)
    assert output.startswith('<a href="http://127.0.0.1:') and "a &lt;b&gt;</a>" in output
    assert "https://svc.example/below/-/embed/a%2Fteam/vision/key\n" in output
    assert errors.count("/default/clients/") >= 2
