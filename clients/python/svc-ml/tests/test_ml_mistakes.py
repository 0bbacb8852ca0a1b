"""What bad input gets: one clear line, a record, and a training that goes on."""

from __future__ import annotations

import argparse
import logging
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import Service, eventually
from ml_ledger import environment, quiet, read_points, read_values, sync
from svc_ml import ExistingExperiment, Experiment, SvcError
from svc_ml.settings import read_settings


@pytest.fixture(autouse=True)
def variables(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = environment(service, tmp_path)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(logging.getLogger("svc_ml"), "propagate", True)
    return found


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [it.getMessage() for it in caplog.records if it.levelno >= logging.WARNING]


def test_a_wrong_key_is_told_once_and_the_data_is_kept_for_the_right_one(
    service: Service, variables: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    experiment = Experiment(api_key="wrong-key-0123456789")
    for step in range(100):
        experiment.log_metric("loss", step, step=step)
    experiment.end()
    lines = told(caplog)
    assert len(lines) == 1
    assert "not registered" in lines[0] and "SVC_API_KEY" in lines[0] and "kept" in lines[0]
    fault = experiment.get_logging_errors(clear=False)[0]
    assert set(fault) >= {"message", "logger_name", "timestamp"} and fault["logger_name"] == "svc_ml"
    assert experiment.has_logging_error()
    experiment.get_logging_errors()
    assert not experiment.has_logging_error()
    assert sync(tmp_path / "spool", variables).returncode == 0
    eventually(lambda: len(read_points(service, experiment.id, "loss")) == 100)


def test_with_raise_on_error_the_exception_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SvcError, match="not registered.*Set SVC_API_KEY"):
        Experiment(api_key="wrong-key-0123456789", raise_on_error_during_init=True)
    with pytest.raises(
        SvcError, match="cannot be reached at http://127.0.0.1:9: .*Start the service there, or set SVC_URL"
    ):
        Experiment(url="http://127.0.0.1:9", raise_on_error_during_init=True)
    with pytest.raises(SvcError, match="expected http://host:port"):
        Experiment(url="127.0.0.1:9", raise_on_error_during_init=True)
    with pytest.raises(SvcError, match="32 to 50 letters and digits"):
        Experiment(experiment_key="short", raise_on_error_during_init=True)
    with pytest.raises(SvcError, match="workspace"):
        Experiment(workspace="nobody-has-this", raise_on_error_during_init=True)
    with pytest.raises(SvcError, match="no experiment"):
        ExistingExperiment(experiment_key="0" * 32, raise_on_error_during_init=True)
    monkeypatch.setenv("SVC_SPOOL_BYTES", "many")
    with pytest.raises(SvcError, match="SVC_SPOOL_BYTES: expected a number of 0 or more, got 'many'"):
        Experiment(raise_on_error_during_init=True)
    monkeypatch.delenv("SVC_SPOOL_BYTES")
    monkeypatch.delenv("SVC_API_KEY")
    with pytest.raises(SvcError, match="No API key"):
        Experiment(raise_on_error_during_init=True)


def test_without_it_the_same_is_one_line_and_every_call_still_works(caplog: pytest.LogCaptureFixture) -> None:
    experiment = Experiment(experiment_key="short")
    experiment.log_metric("loss", 1)
    experiment.log_parameter("a", 1)
    experiment.end()
    assert len(told(caplog)) == 1 and "32 to 50 letters and digits" in told(caplog)[0]
    assert experiment.disabled


def test_a_value_that_is_no_number_is_told_once_and_costs_no_other_point(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    with Experiment() as experiment:
        for step, value in enumerate([1, "0.5", None, [1, 2], 1j, {}, 10**400, object(), 2]):
            experiment.log_metric("loss", value, step=step)
        experiment.log_metric("loss", 3, step=1.5)
        experiment.log_metric("loss", 4, step=2**63)
        experiment.log_metric("loss", 4, step=10**5_000)
        experiment.log_metric("accuracy", "high")
        experiment.set_step("first")
    assert len(experiment.get_logging_errors()) == 12
    lines = told(caplog)
    assert len(lines) == 4, lines
    assert "log_metric 'loss': value is '0.5', expected a number" in lines[0]
    assert "step is 1.5, expected a whole number of 64 bits" in lines[1]
    eventually(lambda: read_points(service, experiment.id, "loss") == [(0, 1.0), (8, 2.0)])


def test_what_the_service_refuses_costs_nothing_else_and_is_told_with_its_words(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    with Experiment(**quiet) as experiment:
        experiment.log_metric("before", 1, step=1)
        experiment.log_metric("n" * 1_001, 1, step=1)
        experiment.log_metric("after", 1, step=1)
        experiment.log_parameter("p" * 1_001, 1)
        experiment.log_parameter("fine", 1)
    lines = told(caplog)
    assert any("refused 1 of 3 points ('nnn" in it and "1000 characters" in it for it in lines), lines
    assert any("refused the parameter" in it for it in lines), lines
    eventually(lambda: read_points(service, experiment.id, "before") == [(1, 1.0)])
    eventually(lambda: read_points(service, experiment.id, "after") == [(1, 1.0)])


def test_what_is_logged_after_the_end_is_told_once(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    experiment = Experiment(**quiet)
    experiment.log_metric("loss", 1, step=1)
    experiment.end()
    for step in range(100):
        experiment.log_metric("loss", 2, step=2 + step)
    experiment.log_parameter("late", 1)
    lines = told(caplog)
    assert len(lines) == 1 and "has ended" in lines[0] and "ExistingExperiment" in lines[0], lines
    assert len(experiment.get_logging_errors()) == 101
    eventually(lambda: read_points(service, experiment.id, "loss") == [(1, 1.0)])


def test_waiting_at_the_end_is_told(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "svc_ml")
    monkeypatch.setenv("SVC_STALL_SECONDS", "4")
    experiment = Experiment(url="http://127.0.0.1:9", **quiet)
    experiment.log_metric("loss", 1, step=1)
    experiment.end()
    waits = [it.getMessage() for it in caplog.records if "Waiting for" in it.getMessage()]
    assert len(waits) == 1 and "http://127.0.0.1:9 to take 0.0 MB" in waits[0] and "stays on disk" in waits[0], waits


@dataclass
class Rates:
    start: float
    decay: float = 0.5


def test_parameters_come_as_a_namespace_or_a_dataclass_too(service: Service) -> None:
    with Experiment(**quiet) as experiment:
        experiment.log_parameters(argparse.Namespace(depth=3, rates=Rates(0.1)))
        experiment.log_parameters(Rates(0.2), prefix="warm")
        experiment.log_parameter("one", Rates(0.3))
        experiment.log_parameters(["a", "b"])
    values = read_values(service, experiment.id, "parameters")
    assert values == {
        "depth": "3",
        "rates|start": "0.1",
        "rates|decay": "0.5",
        "warm|start": "0.2",
        "warm|decay": "0.5",
        "one|start": "0.3",
        "one|decay": "0.5",
    }
    faults = [it["message"] for it in experiment.get_logging_errors()]
    assert len(faults) == 1 and "expected a dictionary, an argparse.Namespace or a dataclass" in faults[0]


def test_settings_come_from_the_argument_then_the_environment_then_a_file(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("SVC_API_KEY")
    monkeypatch.delenv("SVC_PROJECT_NAME")
    (tmp_path / "home" / ".svc.config").write_text("[svc]\napi_key = of-nobody\nproject_name = from-home\n")
    (tmp_path / "work" / ".svc.config").write_text(f"[svc]\napi_key = {service.api_key}\n")

    def project_of(experiment: Experiment) -> str:
        experiment.end()
        name = service.get(f"/api/rest/v2/experiment/metadata?experimentKey={experiment.id}")["projectName"]
        return str(name)

    assert project_of(Experiment()) == "from-home"
    monkeypatch.setenv("SVC_PROJECT_NAME", "from-environment")
    assert project_of(Experiment()) == "from-environment"
    assert project_of(Experiment(project_name="from-argument")) == "from-argument"


def test_an_address_that_is_the_default_one_counts_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else `svc-ml sync` would send to where the run could not, whatever SVC_URL says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "url" in read_settings({}, {"SVC_URL": "http://127.0.0.1:8080"}).named
    assert "url" not in read_settings({}, {}).named
