"""The live logging of comet_ml, unchanged: each test runs a script in a process of its own, as a user does."""

from __future__ import annotations

import io
import math
import os
import re
import subprocess
import sys
import textwrap
import uuid
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from svc_service import ROOT, Service, eventually

PYTHON = [sys.executable, "-u"]


def environment(service: Service, **more: str) -> dict[str, str]:
    """The two variables that the page for users of such clients names, and none of those that turn logging off."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COMET_")}
    ours = {"COMET_URL_OVERRIDE": service.url + "/clientlib/", "COMET_API_KEY": service.api_key}
    # Reports of crashes go to the maker of the client.
    return kept | ours | {"COMET_ERROR_TRACKING_ENABLE": "0"} | more


def write_script(folder: Path, text: str) -> Path:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(text))
    return script


def run(service: Service, folder: Path, text: str, *arguments: str, **more: str) -> str:
    """Runs a script to its end, and returns what it printed. Fails with it if the script does."""
    script = write_script(folder, text)
    return finish([*PYTHON, str(script), *arguments], service, folder, **more)


def finish(command: list[str], service: Service, folder: Path, status: int = 0, **more: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment(service, **more), timeout=400, capture_output=True, text=True
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def a_project() -> str:
    return f"live-{uuid.uuid4().hex[:8]}"


def a_key() -> str:
    return uuid.uuid4().hex


def read(service: Service, path: str, key: str, **more: str) -> Any:
    query = "".join(f"&{name}={quote(value)}" for name, value in more.items())
    return service.get(f"/api/rest/v2/experiment/{path}?experimentKey={key}{query}")


def points(service: Service, key: str, name: str) -> list[dict[str, Any]]:
    return read(service, "metrics/get-metric", key, metricName=name)["metrics"]


def whole(service: Service, key: str, name: str, count: int) -> list[dict[str, Any]]:
    """The points of a metric, once there are as many as this; more is for the caller to tell."""
    return eventually(lambda: (it := points(service, key, name)) and len(it) >= count and it)


def values(service: Service, path: str, key: str) -> dict[str, str]:
    return {it["name"]: it["valueCurrent"] for it in read(service, path, key)["values"]}


def test_automatic_logging_is_read_back(service: Service, tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True)

    key, project = a_key(), a_project()
    script = write_script(tmp_path, "")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    output = run(
        service,
        tmp_path,
        f"""
        import argparse, sys
        parser = argparse.ArgumentParser()
        parser.add_argument("--rate", type=float)
        parser.parse_args()
        import comet_ml
        experiment = comet_ml.Experiment(workspace="{service.workspace}", project_name="{project}", experiment_key="{key}")
        for number in range(20):
            print("line", number)
        print("to standard error", file=sys.stderr)
        experiment.end()
        print(experiment.url)
        """,
        "--rate",
        "0.5",
    )
    assert "ERROR" not in output
    assert f"/{service.workspace}/{project}/{key}" in output

    metadata = read(service, "metadata", key)
    assert metadata["fileName"] == "train.py"
    assert (metadata["running"], metadata.get("error")) == (False, None)
    assert values(service, "parameters", key)["rate"] == "0.5"
    system = eventually(lambda: (it := read(service, "system-details", key))["totalRam"] and it)
    assert system["command"] == [str(script), "--rate", "0.5"]
    assert system["executable"] == sys.executable
    assert system["pid"] and system["user"] and system["hostname"] and system["pythonVersion"]
    assert any(it.startswith("comet_ml==") for it in system["installedPackages"])
    assert system["osPackages"]
    assert {"sys.cpu.percent.avg", "sys.ram.used", "sys.load.avg"} <= set(system["systemMetricNames"])
    (usage,) = points(service, key, "sys.ram.total")
    assert float(usage["metricValue"]) == system["totalRam"]
    assert "sys.ram.total" not in values(service, "metrics/summary", key)
    git_metadata = read(service, "git/metadata", key)
    assert git_metadata["branch"] and git_metadata["parent"]
    with zipfile.ZipFile(io.BytesIO(fetch(service, "git/patch", key))) as packed:
        assert b"--rate" in packed.read(packed.namelist()[0])
    assert "parse_args()" in read(service, "code", key)["code"]

    def printed() -> str:
        text: str = read(service, "output", key)["output"]
        return text if "to standard error" in text and "line 19" in text else ""

    text = eventually(printed)
    assert re.findall(r"^line \d+$", text, re.MULTILINE) == [f"line {number}" for number in range(20)]


def fetch(service: Service, path: str, key: str, **more: str) -> bytes:
    import requests

    query = {"experimentKey": key, **more}
    address = f"{service.url}/api/rest/v2/experiment/{path}"
    answer = requests.get(address, params=query, headers={"Authorization": service.api_key}, timeout=30)
    answer.raise_for_status()
    return answer.content


def test_what_a_script_logs_is_read_back(service: Service, tmp_path: Path) -> None:
    key, project = a_key(), a_project()
    output = run(
        service,
        tmp_path,
        f"""
        import comet_ml, matplotlib, numpy, pandas
        matplotlib.use("agg")
        import matplotlib.pyplot as plt
        experiment = comet_ml.start(
            workspace="{service.workspace}", project_name="{project}", experiment_key="{key}", mode="create"
        )
        for value in [1.5, float("nan"), float("inf"), -0.0, 5e-324, numpy.float32(0.1), True]:
            experiment.log_metric("kinds", value, step=3, epoch=1)
        for _ in range(5):
            experiment.log_metric("same", 7)
        with experiment.validate():
            experiment.log_metrics({{"loss": 0.25}}, step=9)
            experiment.log_parameter("deep", {{"a": 1}})
        experiment.log_parameters({{"rate": 1e-3, "layers": [1, 2]}})
        experiment.log_other("note", "text")
        experiment.log_others({{"many": 2}})
        experiment.add_tag("one")
        experiment.add_tags(["two", "three"])
        experiment.set_name("a name")
        experiment.set_model_graph("a graph")
        experiment.log_html("<b>1</b>")
        experiment.log_html("<b>2</b>")
        experiment.log_system_info("colour", "blue")
        open("file.txt", "w").write("content")
        experiment.log_asset("file.txt", file_name="folder/file.txt", step=2, metadata={{"a": 1}})
        experiment.log_asset_data({{"b": [1]}}, name="data.json")
        experiment.log_remote_asset("https://example.org/far.bin", remote_file_name="far.bin")
        plt.plot([1, 2])
        experiment.log_figure("figure", plt.gcf())
        print("image", experiment.log_image(numpy.zeros((4, 4, 3)), name="image", step=1)["api"])
        experiment.log_audio(numpy.zeros(800), sample_rate=8000, file_name="sound.wav")
        experiment.log_table("table.csv", pandas.DataFrame({{"a": [1, 2]}}))
        experiment.log_histogram_3d([1, 2, 3], name="histogram")
        experiment.log_confusion_matrix([0, 1, 1], [0, 1, 0])
        experiment.log_curve("curve", [0, 1], [0, 1])
        experiment.log_text("a text")
        experiment.log_model("net", "file.txt")
        experiment.log_remote_model("far-net", "https://example.org/w.bin", sync_mode=False)
        experiment.log_points_3d("cloud", points=[[0, 0, 0], [1, 1, 1]])
        experiment.log_embedding([[1, 2], [3, 4]], ["a", "b"], title="embedding")
        experiment.log_dataset_hash(numpy.arange(3))
        artifact = comet_ml.Artifact("art-{project}", "dataset", aliases=["best"], metadata={{"q": 1}})
        artifact.add("file.txt", logical_path="in/file.txt")
        artifact.add_remote("https://example.org/r.bin", logical_path="r.bin", sync_mode=False)
        experiment.log_artifact(artifact)
        experiment.flush()
        got = experiment.get_artifact("art-{project}", version_or_alias="best")
        assert sorted(it.logical_path for it in got.assets) == ["in/file.txt", "r.bin"]
        got.download("downloaded")
        assert open("downloaded/in/file.txt").read() == "content"
        experiment.register_model("net", version="1.2.3", registry_name="net-{project}")
        experiment.end()
        """,
    )
    assert "ERROR" not in output

    kinds = eventually(lambda: (it := points(service, key, "kinds")) and len(it) == 7 and it)
    expected = [1.5, math.inf, -0.0, 5e-324, float.fromhex("0x1.99999a0000000p-4"), 1.0]
    found = [float(it["metricValue"]) for it in kinds]
    assert sorted(it for it in found if not math.isnan(it)) == sorted(expected)
    assert sum(map(math.isnan, found)) == 1
    assert any(it == 0 and math.copysign(1, it) < 0 for it in found)
    assert {(it["step"], it["epoch"]) for it in kinds} == {(3, 1)}
    # Equal points of one run are all there.
    assert len(points(service, key, "same")) == 5
    (validated,) = points(service, key, "validate_loss")
    assert (validated["metricName"], validated["runContext"], validated["step"]) == ("loss", "validate", 9)
    parameters = values(service, "parameters", key)
    assert (parameters["rate"], parameters["layers"]) == ("0.001", "[1,2]")
    assert values(service, "log-other", key) | {"note": "text", "many": "2", "Name": "a name"} == values(
        service, "log-other", key
    )
    assert sorted(read(service, "tags", key)["tags"]) == ["one", "three", "two"]
    assert read(service, "graph", key)["graph"] == "a graph"
    assert read(service, "html", key)["html"] == "<b>1</b><b>2</b>"
    assert read(service, "system-details", key)["logAdditionalSystemInfoList"] == [{"key": "colour", "value": "blue"}]

    assets = read(service, "asset/list", key)["assets"]
    named = {it["fileName"]: it for it in assets}
    assert fetch(service, "asset/get-asset", key, assetId=named["folder/file.txt"]["assetId"]) == b"content"
    assert (named["folder/file.txt"]["step"], named["folder/file.txt"]["metadata"]) == (2, '{"a":1}')
    assert named["far.bin"]["link"] == "https://example.org/far.bin"
    (image,) = re.findall(r"^image (\S+)$", output, re.MULTILINE)
    assert named["image"]["assetId"] in image
    assert fetch(service, "asset/get-asset", key, imageId=named["image"]["assetId"]).startswith(b"\x89PNG")
    assert b"0,0,0" in fetch(service, "asset/get-asset", key, assetId=named["cloud/points.jsonl"]["assetId"]).replace(
        b" ", b""
    ).replace(b".0", b"")
    counted = Counter(it["type"] for it in assets)
    once = ["audio", "dataframe", "histogram3d", "confusion-matrix", "curve", "text-sample", "3d-image", "embeddings"]
    assert {name: counted[name] for name in once} == dict.fromkeys(once, 1)
    assert (counted["image"], counted["model-element"]) == (2, 2)
    models = read(service, "model", key)["models"]
    assert sorted(it["modelName"] for it in models) == ["far-net", "net"]
    registered = f"/api/rest/v2/registry-model/details?workspaceName={service.workspace}&modelName=net-{project}"
    assert [it["version"] for it in service.get(registered)["versions"]] == ["1.2.3"]


def test_a_run_goes_on_and_is_stopped(service: Service, tmp_path: Path) -> None:
    key, project = a_key(), a_project()
    run(
        service,
        tmp_path,
        f"""
        import comet_ml
        first = comet_ml.start(workspace="{service.workspace}", project_name="{project}", experiment_key="{key}")
        first.log_metric("loss", 1, step=1)
        print("same line")
        first.end()
        """,
    )
    service.get(f"/api/rest/v2/write/experiment/stop?experimentKey={key}")
    run(
        service,
        tmp_path,
        f"""
        import comet_ml, time
        again = comet_ml.ExistingExperiment(previous_experiment="{key}")
        print("same line")
        again.log_metric("loss", 2, step=2)
        again.connection._low_level_http_client.get(
            "{service.url}/api/rest/v2/write/experiment/stop", params={{"experimentKey": "{key}"}}
        )
        try:
            while True:
                again.log_metric("beat", 1)
                time.sleep(0.2)
        except KeyboardInterrupt as stopped:
            print(type(stopped).__name__)
        again.end()
        """,
    )
    loss = eventually(lambda: (it := points(service, key, "loss")) and len(it) == 2 and it)
    assert [(it["step"], it["metricValue"]) for it in loss] == [(1, "1.0"), (2, "2.0")]
    text = eventually(lambda: (it := read(service, "output", key)["output"]).count("same line") == 2 and it)
    assert "InterruptedExperiment" in text
    assert values(service, "log-other", key)["experiment_stopped_by_user"] == "true"


def test_a_wrong_key_is_told(service: Service, tmp_path: Path) -> None:
    run(service, tmp_path, "import comet_ml; comet_ml.OfflineExperiment(offline_directory='.').end()")
    (archive,) = map(str, tmp_path.glob("*.zip"))
    text = "import comet_ml; comet_ml.Experiment(); comet_ml.ExistingExperiment(previous_experiment='a' * 32)"
    wrong = "a-key-that-nobody-has-0123456789"
    assert run(service, tmp_path, text, COMET_API_KEY=wrong).count(f"API key '{wrong}' is invalid") == 2
    uploaded = finish(comet("upload", archive), service, tmp_path, status=1, COMET_API_KEY=wrong)
    assert "invalid Comet API key" in uploaded


def comet(*arguments: str) -> list[str]:
    return [*PYTHON, "-m", "comet_ml.scripts.comet", *arguments]


def test_an_archive_uploaded_twice_ends_as_if_once(service: Service, tmp_path: Path) -> None:
    key, project = a_key(), a_project()
    (tmp_path / "new").mkdir()
    (tmp_path / "more").mkdir()
    body = """
        import numpy
        for step in range(300):
            experiment.log_metric("{name}", step / 7, step=step)
        experiment.log_metric("{name}-same", 1)
        experiment.log_metric("{name}-same", 1)
        experiment.log_parameter("{name}", 3)
        experiment.log_other("{name}", "o")
        experiment.add_tag("{name}")
        experiment.log_asset_data("text", name="{name}.txt")
        experiment.log_image(numpy.zeros((4, 4, 3)), name="{name}.png")
        experiment.log_points_3d("{name}-cloud", points=[[0, 0, 0]])
        for number in range(30):
            print("{name}", number)
        experiment.end()
        """
    made = f'OfflineExperiment(workspace="{service.workspace}", project_name="{project}", experiment_key="{key}"'
    for folder, first in [("new", made), ("more", f'ExistingOfflineExperiment(previous_experiment="{key}"')]:
        head = f"\n        import comet_ml\n        experiment = comet_ml.{first}, offline_directory={folder!r})"
        run(service, tmp_path, head + body.format(name=folder))
    archives = {folder: str(next((tmp_path / folder).glob("*.zip"))) for folder in ["new", "more"]}

    def seen() -> dict[str, Any]:
        names = [f"{folder}{kind}" for folder in archives for kind in ["", "-same"]]
        text = read(service, "output", key)["output"]
        return {
            "points": {name: points(service, key, name) for name in names},
            "parameters": values(service, "parameters", key),
            "others": values(service, "log-other", key),
            "tags": sorted(read(service, "tags", key)["tags"]),
            "assets": sorted((it["fileName"], it["fileSize"]) for it in read(service, "asset/list", key)["assets"]),
            "lines": re.findall(r"^(?:new|more) \d+$", text, re.MULTILINE),
        }

    def is_whole(it: dict[str, Any]) -> bool:
        return [len(found) for found in it["points"].values()] == [300, 2, 300, 2] and len(it["lines"]) >= 60

    # As the page on coming from Comet says.
    (tmp_path / "new").rename(tmp_path / "offline")
    archives["new"] = archives["new"].replace("/new/", "/offline/")
    page = (ROOT / "docs/coming-from.md").read_text()
    [(url, names)] = re.findall(r"COMET_URL_OVERRIDE=(\S+) COMET_API_KEY=\S+\ncomet upload (\S+)\n", page)
    url = url.replace("http://127.0.0.1:8080", service.url)
    finish(comet("upload", *map(str, tmp_path.glob(names))), service, tmp_path, COMET_URL_OVERRIDE=url)
    finish(comet("upload", archives["more"]), service, tmp_path)
    once = eventually(lambda: is_whole(it := seen()) and it)
    assert [(it["step"], float(it["metricValue"])) for it in once["points"]["new"]] == [
        (step, step / 7) for step in range(300)
    ]
    assert once["lines"] == [f"{folder} {number}" for folder in ["new", "more"] for number in range(30)]
    assert [it[0] for it in once["assets"]].count("new.txt") == 1
    metadata = read(service, "metadata", key)

    again = finish(comet("upload", archives["new"]), service, tmp_path, status=1)
    assert "already" in again
    finish(comet("upload", archives["more"]), service, tmp_path)
    marker = {"experimentKey": key, "metricName": "after", "metricValue": 1}
    service.post("/api/rest/v2/write/experiment/metric", marker)
    eventually(lambda: points(service, key, "after"))
    assert seen() == once
    assert read(service, "metadata", key)["startTimeMillis"] == metadata["startTimeMillis"]


def test_no_point_is_lost_or_repeated_when_the_service_is_killed(own_service: Service, tmp_path: Path) -> None:
    own_service.start()
    # One run goes on until the service is back, the other ends before: it leaves an archive.
    goes_on, ends = a_key(), a_key()
    script = write_script(
        tmp_path,
        f"""
        import comet_ml, sys, time
        key = sys.argv[1]
        experiment = comet_ml.Experiment(
            workspace="{own_service.workspace}", project_name="killed", experiment_key=key, log_env_details=False,
            offline_directory=key,
        )
        def is_connected():
            return experiment.streamer.has_connection_to_server()
        for step in range(1_000):
            for series in range(10):
                experiment.log_metric(f"m{{series}}", step / 7 + series, step=step)
            # In one piece: what another thread writes between two of them parts the line.
            sys.stdout.write(f"line {{step}}\\n")
            if step == 500:
                # Half is on its way: a batch is being sent when the service is killed.
                open(key + "-half", "w").close()
            time.sleep(0.002)
        experiment.log_parameter("last", 1)
        experiment.log_asset_data("text", name="last.txt")
        while is_connected():
            time.sleep(0.1)
        open(key + "-lost", "w").close()
        while key == "{goes_on}" and not is_connected():
            time.sleep(0.1)
        experiment.end()
        """,
    )
    # One retry of a request instead of three: after it the client gathers what was lost, and sends it in other batches.
    settings = environment(own_service, COMET_HTTP_SESSION_RETRY_TOTAL="1")
    logs = {key: tmp_path / f"{key}.log" for key in [goes_on, ends]}
    runs = {}
    try:
        for key, log in logs.items():
            with log.open("w") as out:
                command = [*PYTHON, str(script), key]
                runs[key] = subprocess.Popen(command, cwd=tmp_path, env=settings, stdout=out, stderr=out)
        eventually(lambda: all((tmp_path / f"{key}-half").exists() for key in runs), 60)
        own_service.kill()
        assert runs[ends].wait(300) == 0, logs[ends].read_text()
        # Who still held the service for alive when it came back would wait for its loss for ever.
        eventually(lambda: (tmp_path / f"{goes_on}-lost").exists(), 60)
        own_service.start()
        assert runs[goes_on].wait(300) == 0, logs[goes_on].read_text()
    finally:
        for process in runs.values():
            process.kill()
    (archive,) = (tmp_path / ends).glob("*.zip")
    finish(comet("upload", str(archive)), own_service, tmp_path)

    for key in runs:
        for series in range(10):
            name = f"m{series}"
            found = whole(own_service, key, name, 1_000)
            expected = [(step, step / 7 + series) for step in range(1_000)]
            assert [(it["step"], float(it["metricValue"])) for it in found] == expected, name
        text = read(own_service, "output", key)["output"]
        lines = re.findall(r"^line \d+$", text, re.MULTILINE)
        assert set(lines) == {f"line {step}" for step in range(1_000)}
        assert values(own_service, "parameters", key)["last"] == "1"
        assert [it["fileName"] for it in read(own_service, "asset/list", key)["assets"]].count("last.txt") == 1
        assert read(own_service, "metadata", key)["running"] is False
    # What the first run sent twice is there once; the archive of the other has lines that were sent before it.
    assert len(re.findall(r"^line \d+$", read(own_service, "output", goes_on)["output"], re.MULTILINE)) == 1_000


def test_the_page_says_how_to_switch(service: Service, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "existing-clients.md").read_text()
    (switch,) = re.findall(r"## Switch\n.*?```sh\n(.*?)```", page, re.DOTALL)
    assert len(switch.splitlines()) == 5
    command = switch.replace("http://127.0.0.1:8080", service.url).replace("svc_...", service.api_key)
    write_script(
        tmp_path, "import comet_ml\nexperiment = comet_ml.start()\nexperiment.log_metric('loss', 0.25, step=1)"
    )
    folder = Path(sys.executable).parent
    output = finish(["bash", "-ec", command], service, tmp_path, PATH=f"{folder}:{os.environ['PATH']}")
    (key,) = set(re.findall(r"/([0-9a-f]{32})\b", output))
    (point,) = eventually(lambda: points(service, key, "loss"))
    assert (point["metricValue"], point["step"]) == ("0.25", 1)
