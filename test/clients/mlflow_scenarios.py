"""
What scripts do with MLflow, in a process of their own: the test chooses the Python, and so the version of MLflow. The last line is
JSON with what each scenario answered, or its error.

    MLFLOW_TRACKING_URI=http://127.0.0.1:8080 MLFLOW_TRACKING_TOKEN=svc_... python mlflow_scenarios.py training models
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException
from sklearn.linear_model import LogisticRegression

NEW = int(mlflow.__version__.split(".")[0]) >= 3
# Or else MLflow starts another Python to find out what a model needs.
NEEDS = {"pip_requirements": ["scikit-learn"]}
X = np.random.default_rng(0).random((60, 3))
Y = (X[:, 0] > 0.5).astype(int)


def training() -> dict[str, Any]:
    """A training with everything that is logged along the way, read back with MLflow's own calls."""
    mlflow.set_experiment(f"training {mlflow.__version__}")
    mlflow.sklearn.autolog(log_models=False)
    with mlflow.start_run(run_name="parent", tags={"team": "a"}) as parent:
        LogisticRegression(C=0.5).fit(X, Y)
        for step in range(10):
            mlflow.log_metric("loss", 1 / (step + 1), step=step)
        mlflow.log_params({"lr": 0.1, "layers": "3"})
        mlflow.set_tag("mlflow.note.content", "a note")
        mlflow.log_dict({"a": 1}, "config/settings.json")
        with mlflow.start_run(run_name="child", nested=True) as child:
            mlflow.log_metric("loss", 7.0)
    mlflow.sklearn.autolog(disable=True)
    if NEW:
        with mlflow.start_run(run_name="trees") as trees:
            _train_trees()
    client = MlflowClient()
    now = int(time.time() * 1000)
    points = [Metric("batched", float("nan") if step == 3 else step / 7, now + step, step) for step in range(1000)]
    client.log_batch(child.info.run_id, points, [Param("p", "1")], [RunTag("t", "2")])

    found = mlflow.search_runs(filter_string="tags.team = 'a' and metrics.loss < 1 and params.lr = '0.1'")
    assert list(found["run_id"]) == [parent.info.run_id]
    assert found.iloc[0]["params.C"] == "0.5" and found.iloc[0]["status"] == "FINISHED"
    assert found.iloc[0]["metrics.training_accuracy_score"] > 0.5
    history = client.get_metric_history(parent.info.run_id, "loss")
    assert [(it.step, it.value) for it in history] == [(step, 1 / (step + 1)) for step in range(10)]
    batched = client.get_metric_history(child.info.run_id, "batched")
    assert len(batched) == 1000 and np.isnan(batched[3].value) and batched[4].value == 4 / 7
    nested = client.get_run(child.info.run_id)
    assert nested.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert (nested.data.params, nested.data.tags["t"]) == ({"p": "1"}, "2")
    assert mlflow.artifacts.load_dict(f"{parent.info.artifact_uri}/config/settings.json") == {"a": 1}
    if NEW:
        read = client.get_run(trees.info.run_id)
        assert read.data.params["max_depth"] == "2" and "train-logloss" in read.data.metrics
        assert len(client.get_metric_history(trees.info.run_id, "train-logloss")) == 5
        assert "feature_importance_weight.json" in [it.path for it in client.list_artifacts(trees.info.run_id)]
    return {"parent": parent.info.run_id, "child": child.info.run_id}


def _train_trees() -> None:
    import xgboost

    mlflow.xgboost.autolog(log_models=False)
    data = xgboost.DMatrix(X, Y)
    xgboost.train({"max_depth": 2, "objective": "binary:logistic"}, data, num_boost_round=5, evals=[(data, "train")])
    mlflow.xgboost.autolog(disable=True)


def _log(model: LogisticRegression, name: str, **more: Any) -> Any:
    chosen = {"name": name} if NEW else {"artifact_path": name}
    return mlflow.sklearn.log_model(model, **chosen, **NEEDS, **more)


def models() -> dict[str, Any]:
    """Models logged, loaded, registered, found by alias and stage; predictions stay equal."""
    mlflow.set_experiment(f"models {mlflow.__version__}")
    model, name = LogisticRegression().fit(X, Y), f"digits-{mlflow.__version__}"
    expected = model.predict_proba(X)

    def check(uri: str) -> None:
        assert np.array_equal(mlflow.sklearn.load_model(uri).predict_proba(X), expected), uri

    with mlflow.start_run() as run:
        info = _log(model, "model", registered_model_name=name)
        mlflow.log_text("beside", "notes.txt")
    of_run = f"runs:/{run.info.run_id}/model"
    for uri in (info.model_uri, of_run, f"models:/{name}/1", f"models:/{name}/latest"):
        check(uri)
    assert np.array_equal(mlflow.pyfunc.load_model(of_run).predict(X), model.predict(X))
    # No model of any run but the first.
    other = LogisticRegression().fit(X, 1 - Y)
    with mlflow.start_run():
        _log(other, "model", registered_model_name=name)
    check(f"models:/{name}/1")

    client = MlflowClient()
    third = mlflow.register_model(of_run, name, tags={"checked": "yes"})
    assert (third.version, third.run_id, third.status) == ("3", run.info.run_id, "READY") or NEW
    client.update_model_version(name, "3", "the best")
    client.set_model_version_tag(name, "3", "speed", "fast")
    client.set_registered_model_alias(name, "champion", "3")
    best = client.get_model_version_by_alias(name, "champion")
    assert (best.version, best.description, best.tags) == ("3", "the best", {"checked": "yes", "speed": "fast"})
    check(f"models:/{name}@champion")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client.transition_model_version_stage(name, "1", "Production")
        client.transition_model_version_stage(name, "3", "Production", archive_existing_versions=True)
        check(f"models:/{name}/Production")
        stages = {it.current_stage: it.version for it in client.get_latest_versions(name)}
    assert stages == {"Archived": "1", "None": "2", "Production": "3"}
    versions = client.search_model_versions(f"name = '{name}'", order_by=["version_number DESC"])
    assert [it.version for it in versions] == ["3", "2", "1"]
    client.set_registered_model_tag(name, "task", "digits")
    assert name in [it.name for it in client.search_registered_models("tags.task = 'digits'")]
    copy = client.copy_model_version(f"models:/{name}/3", f"{name}-copy")
    check(f"models:/{copy.name}/1")

    # What is registered outlives its run.
    client.delete_run(run.info.run_id)
    check(f"models:/{name}/3")
    assert client.search_runs([run.info.experiment_id], f"run_id = '{run.info.run_id}'") == []
    client.restore_run(run.info.run_id)
    check(of_run)
    client.delete_model_version(name, "2")
    assert [it.version for it in client.search_model_versions(f"name = '{name}'")] == ["3", "1"]
    client.rename_registered_model(name, f"{name}-renamed")
    client.delete_registered_model(f"{name}-copy")
    if NEW:
        _check_logged_models(client, run.info.run_id, info.model_id, model)
    return {"run": run.info.run_id, "name": f"{name}-renamed"}


def _check_logged_models(client: MlflowClient, run_id: str, model_id: str, model: LogisticRegression) -> None:
    assert [it.model_id for it in client.get_run(run_id).outputs.model_outputs] == [model_id]
    client.set_logged_model_tags(model_id, {"kept": "yes"})
    mlflow.log_model_params({"depth": "3"}, model_id=model_id)
    with mlflow.start_run(run_id=run_id):
        mlflow.log_metric("accuracy", 0.9, model_id=model_id)
    found = mlflow.search_logged_models(
        filter_string="metrics.accuracy > 0.5 and params.depth = '3'", output_format="list"
    )
    assert [(it.model_id, it.tags["kept"], it.source_run_id) for it in found] == [(model_id, "yes", run_id)]
    files = {it.path: it.file_size for it in client.list_logged_model_artifacts(model_id)}
    assert files["MLmodel"] > 0 and "requirements.txt" in files
    alone = mlflow.initialize_logged_model(name="alone")
    mlflow.finalize_logged_model(alone.model_id, "READY")
    client.delete_logged_model(alone.model_id)
    with mlflow.start_run():
        mlflow.sklearn.autolog()
        LogisticRegression().fit(X, Y)
        mlflow.sklearn.autolog(disable=True)
        made = mlflow.last_logged_model()
    assert np.array_equal(mlflow.pyfunc.load_model(f"models:/{made.model_id}").predict(X), model.predict(X))


def deletion() -> dict[str, Any]:
    """Experiments that are deleted and restored, with their runs."""
    client, name = MlflowClient(), f"deletion {mlflow.__version__}"
    experiment = client.create_experiment(name, tags={"kind": "test"})
    run = client.create_run(experiment, run_name="one")
    client.log_metric(run.info.run_id, "loss", 1.0)
    client.delete_experiment(experiment)
    assert client.get_experiment(experiment).lifecycle_stage == "deleted"
    deleted = client.search_experiments(view_type=ViewType.DELETED_ONLY)
    assert experiment in [it.experiment_id for it in deleted]
    client.restore_experiment(experiment)
    assert [it.data.metrics for it in client.search_runs([experiment])] == [{"loss": 1.0}]
    client.rename_experiment(experiment, f"{name} again")
    assert client.get_experiment_by_name(f"{name} again").tags["kind"] == "test"
    return {}


def file() -> dict[str, Any]:
    """A folder with a large file up and down again. Its size is FILE_BYTES."""
    size = int(os.environ["FILE_BYTES"])
    block = np.random.default_rng(1).bytes(1024 * 1024)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "out", "data")
        source.mkdir(parents=True)
        with source.joinpath("large.bin").open("wb") as out:
            for _ in range(size // len(block)):
                out.write(block)
        source.joinpath("empty.txt").touch()
        mlflow.set_experiment("files")
        with mlflow.start_run() as run:
            mlflow.log_artifacts(str(source.parent))
        back = mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="data", dst_path=folder)
        assert Path(back, "empty.txt").stat().st_size == 0
        with Path(back, "large.bin").open("rb") as read:
            assert all(read.read(len(block)) == block for _ in range(size // len(block)))
    return {"run": run.info.run_id}


def keys() -> dict[str, Any]:
    """The first call of a script under each of some variables: how the server takes the key."""
    key, answers = os.environ.pop("MLFLOW_TRACKING_TOKEN"), {}
    for name, variables in {
        "basic": {"MLFLOW_TRACKING_USERNAME": "anybody", "MLFLOW_TRACKING_PASSWORD": key},
        "wrong": {"MLFLOW_TRACKING_TOKEN": "svc_wrong"},
        "missing": {},
        "token": {"MLFLOW_TRACKING_TOKEN": key},
    }.items():
        os.environ.update(variables)
        try:
            MlflowClient().search_experiments(max_results=1)
            answers[name] = "taken"
        except MlflowException as error:
            answers[name] = str(error)
        for variable in variables:
            del os.environ[variable]
    os.environ["MLFLOW_TRACKING_TOKEN"] = key
    return answers


def batches() -> dict[str, Any]:
    """Batches of 100 points, one after the other; as many as BATCHES says, and tells each that was acknowledged."""
    client = MlflowClient()
    experiment = client.create_experiment("batches")
    run = client.create_run(experiment).info.run_id
    print(run, flush=True)
    for batch in range(int(os.environ["BATCHES"])):
        steps = range(batch * 100, batch * 100 + 100)
        client.log_batch(run, [Metric("loss", step / 3, 1_700_000_000_000 + step, step) for step in steps])
        print(batch, flush=True)
        time.sleep(0.02)
    history = client.get_metric_history(run, "loss")
    return {"steps": [it.step for it in history], "values": [it.value * 3 for it in history]}


def _run(name: str) -> Any:
    try:
        return {it.__name__: it for it in (training, models, deletion, file, keys, batches)}[name]()
    except Exception:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    print(json.dumps({name: _run(name) for name in sys.argv[1:]}), flush=True)
