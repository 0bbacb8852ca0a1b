"""The blocks of docs/integrations.md, run as they stand with the real frameworks; every point is compared with theirs."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import lightgbm
import numpy
import optuna
import pytest
import xgboost

from conftest import ROOT, Service, eventually
from ml_ledger import environment, read, read_points, read_values
from svc_ml import Experiment
from svc_ml.integration import sklearn as svc_sklearn
from svc_ml.integration.lightgbm import SvcCallback as LightGBMCallback
from svc_ml.integration.optuna import SvcCallback as OptunaCallback
from svc_ml.integration.recorder import Recorder
from svc_ml.integration.xgboost import SvcCallback as XGBoostCallback

PAGE = (ROOT / "docs/integrations.md").read_text()


def block(framework: str) -> str:
    """The lines that the documentation gives for a framework."""
    found = re.search(rf"^## {framework}\n+```python\n(.*?)```", PAGE, re.S | re.M)
    assert found is not None, framework
    return found[1]


def made_data() -> dict[str, Any]:
    x = numpy.random.default_rng(7).random((160, 4))
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0.7).astype(int)
    return {"X": x[:120], "y": y[:120], "X_valid": x[120:], "y_valid": y[120:]}


@pytest.fixture
def key(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of the run that the block makes, which knows nothing of this test."""
    key = uuid.uuid4().hex
    for name, value in {**environment(service, tmp_path), "SVC_EXPERIMENT_KEY": key}.items():
        monkeypatch.setenv(name, value)
    return key


def ended(service: Service, key: str, crashed: bool = False) -> None:
    """Waits for the end. What was logged before may become readable later: every look at it is an `eventually`."""

    def found() -> bool:
        metadata = read(service, key, "metadata")
        return not metadata["running"] and bool(metadata["hasCrashed"]) == crashed and bool(metadata["endTimeMillis"])

    assert eventually(found)


def files_of(service: Service, key: str, kind: str = "") -> set[str]:
    """The names of the assets, of one type or of all."""
    assets = read(service, key, "asset/list")["assets"]
    return {it["fileName"] for it in assets if kind in ("", it["type"])}


def points_of_contexts(service: Service, key: str, metric: str) -> list[tuple[str, int, float]]:
    answer = read(service, key, "metrics/get-metric", metricName=metric)["metrics"]
    return sorted((it["runContext"] or "", it["step"], float(it["metricValue"])) for it in answer)


def same(service: Service, key: str, metric: str, values: Any) -> None:
    """As many points as values, in order, to the last bit."""
    same_points(service, key, metric, list(enumerate(map(float, values))))


def same_points(service: Service, key: str, metric: str, expected: list[Any]) -> None:
    assert eventually(lambda: read_points(service, key, metric) == expected), metric


def test_xgboost(service: Service, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_data()
    exec(block("XGBoost"), data)
    ended(service, key)
    same(service, key, "validation_0/logloss", data["model"].evals_result()["validation_0"]["logloss"])
    parameters = {"max_depth": "2", "objective": "binary:logistic"}
    assert eventually(lambda: read_values(service, key, "parameters").items() >= parameters.items())
    assert eventually(lambda: files_of(service, key) >= {"feature-importance.csv", "model.ubj"})

    # Gone on with, stopped early and folded: into one run of the caller's, which stays open.
    monkeypatch.setenv("SVC_EXPERIMENT_KEY", uuid.uuid4().hex)
    matrix = xgboost.DMatrix(data["X"], data["y"])
    settings = {"objective": "binary:logistic", "max_depth": 1}
    with Experiment() as experiment:
        first: dict[str, Any] = {}
        more: dict[str, Any] = {}
        given: dict[str, Any] = {"evals": [(matrix, "train")], "verbose_eval": False}
        booster = xgboost.train(
            settings, matrix, 3, evals_result=first, callbacks=[XGBoostCallback(experiment)], **given
        )
        callback = XGBoostCallback(experiment)
        xgboost.train(
            settings,
            matrix,
            2,
            evals_result=more,
            xgb_model=booster,
            callbacks=[callback],
            early_stopping_rounds=1,
            **given,
        )
        folds = xgboost.cv(settings, matrix, 3, nfold=3, callbacks=[XGBoostCallback(experiment)])
    same(service, experiment.id, "train/logloss_std", folds["train-logloss-std"])
    same(service, experiment.id, "test/logloss", folds["test-logloss-mean"])
    own = first["train"]["logloss"] + more["train"]["logloss"]
    expected = sorted([*enumerate(own), *enumerate(map(float, folds["train-logloss-mean"]))])
    assert eventually(lambda: read_points(service, experiment.id, "train/logloss") == expected)
    assert eventually(lambda: read_values(service, experiment.id, "log-other")["best_iteration"] == "4")


def test_lightgbm(service: Service, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_data()
    exec(block("LightGBM"), data)
    ended(service, key)
    same(service, key, "valid_0/binary_logloss", data["model"].evals_result_["valid_0"]["binary_logloss"])
    assert eventually(lambda: read_values(service, key, "parameters")["objective"] == "binary")
    assert eventually(lambda: files_of(service, key) >= {"feature-importance.csv", "model.txt"})

    # Stopped early: the round that stopped it is logged, and the best one told.
    monkeypatch.setenv("SVC_EXPERIMENT_KEY", uuid.uuid4().hex)
    history: dict[str, Any] = {}
    noise = numpy.random.default_rng(3).integers(0, 2, 40)
    callback = LightGBMCallback()
    watch = [lightgbm.early_stopping(2, verbose=False), lightgbm.record_evaluation(history), callback]
    train = lightgbm.Dataset(data["X"], data["y"])
    valid = lightgbm.Dataset(data["X_valid"], noise, reference=train)
    booster = lightgbm.train({"objective": "binary", "verbose": -1}, train, 50, [valid], callbacks=watch)
    experiment = callback.experiment
    callback.finish(booster)
    ended(service, experiment.id)
    values = history["valid_0"]["binary_logloss"]
    assert len(values) < 50
    same(service, experiment.id, "valid_0/binary_logloss", values)
    assert eventually(
        lambda: read_values(service, experiment.id, "log-other")["best_iteration"] == str(values.index(min(values)))
    )


def test_optuna(service: Service, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def objective(trial: optuna.Trial) -> float:
        rate = trial.suggest_float("rate", 0, 1)
        for step in range(3):
            trial.report(rate + step, step)
        if trial.number == 2:
            raise optuna.TrialPruned
        return (rate - 0.3) ** 2

    scope: dict[str, Any] = {"objective": objective}
    exec(block("Optuna"), scope)
    ended(service, key)
    study = scope["study"]
    done = [it for it in study.trials if it.value is not None and it.number != 2]
    assert eventually(lambda: read_points(service, key, "value") == [(it.number, it.value) for it in done])
    same(service, key, "params/rate", [it.params["rate"] for it in study.trials])
    assert eventually(lambda: read_points(service, key, "best_value")[-1] == (7, study.best_value))
    assert eventually(lambda: read_values(service, key, "parameters")["rate"] == str(study.best_params["rate"]))
    assert eventually(lambda: len(read_points(service, key, "intermediate_value")) == 8 * 3)
    assert eventually(lambda: read_values(service, key, "log-other")["trial-2"] == "pruned")

    # A run for each, that of a failed trial as crashed.
    monkeypatch.delenv("SVC_EXPERIMENT_KEY")
    project = f"trials-{uuid.uuid4().hex[:8]}"
    study = optuna.create_study(study_name="runs")
    study.optimize(
        lambda trial: 1 / trial.number,
        2,
        callbacks=[OptunaCallback(as_runs=True, project_name=project)],
        catch=(Exception,),
    )
    query = f"/api/rest/v2/experiments?workspaceName={service.workspace}&projectName={project}"
    found = {it["experimentName"]: it for it in eventually(lambda: service.get(query)["experiments"])}
    assert set(found) == {"runs-0", "runs-1"}
    ended(service, found["runs-0"]["experimentKey"], crashed=True)
    ended(service, found["runs-1"]["experimentKey"])
    assert eventually(lambda: read_points(service, found["runs-1"]["experimentKey"], "value") == [(None, 1.0)])


def test_sklearn(service: Service, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data = made_data()
    try:
        exec(block("scikit-learn"), data)
    finally:
        svc_sklearn.stop()
    ended(service, key)
    model = data["model"]
    assert eventually(
        lambda: read_points(service, key, "training_score") == [(None, model.score(data["X"], data["y"]))]
    )
    assert eventually(
        lambda: read_points(service, key, "score") == [(1, model.score(data["X_valid"], data["y_valid"]))]
    )
    assert eventually(lambda: read_values(service, key, "parameters")["C"] == "0.5")
    assert eventually(lambda: files_of(service, key, "model-element") == {"model.pkl"})

    # Pipelines, searches with threads: one fit each. The caller's run takes them all.
    monkeypatch.setenv("SVC_EXPERIMENT_KEY", uuid.uuid4().hex)
    with Experiment() as experiment:
        svc_sklearn.autolog(experiment)
        try:
            network = make_pipeline(
                StandardScaler(), MLPClassifier(4, max_iter=3, solver="sgd", tol=0, n_iter_no_change=9)
            )
            network.fit(data["X"], data["y"])
            search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1, 10]}, cv=2).fit(data["X"], data["y"])
        finally:
            svc_sklearn.stop()
    same(service, experiment.id, "loss", network[-1].loss_curve_)
    same(service, experiment.id, "search/mean_test_score", search.cv_results_["mean_test_score"])
    assert eventually(lambda: read_points(service, experiment.id, "best_score") == [(2, search.best_score_)])
    assert eventually(lambda: len(read_points(service, experiment.id, "training_score")) == 2)

    # A fit that fails is a crashed run, and the error is the script's own.
    failing = uuid.uuid4().hex
    monkeypatch.setenv("SVC_EXPERIMENT_KEY", failing)
    svc_sklearn.autolog()
    try:
        with pytest.raises(ValueError, match="inconsistent"):
            LogisticRegression().fit(data["X"], data["y"][:3])
    finally:
        svc_sklearn.stop()
    ended(service, failing, crashed=True)


def test_tensorboard(service: Service, key: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        """
import sys, numpy
from tensorboardX import SummaryWriter
rate = float(sys.argv[1])
first = SummaryWriter("logs/run"); valid = SummaryWriter("logs/run/val")
for step in range(5):
    first.add_scalar("loss", rate / (step + 1), step)
    valid.add_scalar("loss", rate * step, step)
first.add_text("note", "hello", 3)
first.add_image("digit", numpy.zeros((3, 8, 8)), 4)
first.add_hparams({"rate": rate, "name": "sgd"}, {"final": 2.5})
sys.exit("broken")
"""
    )
    found = re.search(r"^## TensorBoard\n+```sh\n(.*?)```", PAGE, re.S | re.M)
    assert found is not None
    command = found[1].replace("python", sys.executable, 1).replace("--rate 0.1", "0.1")
    ended_with = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert ended_with.returncode == 1 and "broken" in ended_with.stderr, ended_with.stderr
    # The script failed, and so did its run.
    ended(service, key, crashed=True)
    single = numpy.float32
    expected = [("", step, float(str(single(0.1 / (step + 1))))) for step in range(5)]
    expected += [("val", step, float(str(single(0.1 * step)))) for step in range(5)]
    assert eventually(lambda: points_of_contexts(service, key, "loss") == expected)
    assert eventually(lambda: read_values(service, key, "parameters") == {"rate": "0.1", "name": "sgd"})
    assert eventually(lambda: read_points(service, key, "final") == [(0, 2.5)])
    assert eventually(
        lambda: {it["type"] for it in read(service, key, "asset/list")["assets"]} >= {"image", "text-sample"}
    )
    assert list((tmp_path / "logs/run").glob("events*"))


def test_only_the_first_rank_logs_and_nothing_is_raised(
    service: Service, key: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("RANK", "1")
    assert Recorder().open().disabled

    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise OSError("no disk")

    data = made_data()
    matrix = xgboost.DMatrix(data["X"], data["y"])
    booster = xgboost.train({}, matrix, 2, callbacks=[XGBoostCallback(Broken())])
    assert booster.num_boosted_rounds() == 2
    lightgbm.train({"verbose": -1}, lightgbm.Dataset(data["X"], data["y"]), 2, callbacks=[LightGBMCallback(Broken())])
    optuna.create_study().optimize(lambda trial: 1.0, 1, callbacks=[OptunaCallback(Broken())])
