"""What is logged is what is read."""

from __future__ import annotations

import asyncio
import math
import re
import threading
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Service, eventually
from ml_ledger import environment, quiet, read, read_points, read_values, run_script
from svc_ml import ExistingExperiment, Experiment, SvcError


@pytest.fixture(autouse=True)
def settings(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)


class Tensor:
    """What a tensor looks like from outside, without torch."""

    def __init__(self, *values: float) -> None:
        self.values = values

    def item(self) -> float:
        if len(self.values) != 1:
            raise RuntimeError(f"a Tensor with {len(self.values)} elements cannot be converted to Scalar")
        return self.values[0]


def test_every_kind_of_number_is_read_back_bit_for_bit(service: Service) -> None:
    values: list[Any] = [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.nan, math.inf, -math.inf, 3, True, 2**53 + 1]
    values += [np.float32(0.1), np.float64(1 / 3), np.int64(7), np.array([2.5]), np.bool_(True), Tensor(1.25)]
    with Experiment() as experiment:
        for step, value in enumerate(values):
            experiment.log_metric("value", value, step=step)
    expected = [float(it.item() if hasattr(it, "item") else it) for it in values]

    def look() -> bool:
        found = [value for _, value in read_points(service, experiment.id, "value")]
        assert [it.hex() for it in found] == [it.hex() for it in expected]
        return True

    assert eventually(look)
    assert experiment.get_logging_errors() == []


def test_the_snippet_that_npm_start_prints_logs_a_curve_and_ends_with_its_link(
    service: Service, tmp_path: Path
) -> None:
    printed = re.search(r"Or from Python.*?\n\n(.*?)\nOr ", service.log(), re.S)
    assert printed is not None, service.log()
    variables = {"SVC_BOOTSTRAP_API_KEY": service.api_key, "SVC_SPOOL_DIRECTORY": str(tmp_path / "spool")}
    _, told = run_script(printed[1], variables)
    link = re.search(r"\d+ points in all\. +(\S+/first/([0-9a-f]{32}))$", told.strip())
    assert link is not None, told
    points = [(step, 1 / step) for step in range(1, 101)]
    assert eventually(lambda: read_points(service, link[2], "loss") == points)


def test_steps_of_64_bits_and_points_without_one_are_kept(service: Service) -> None:
    steps = [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1, np.int64(12), None]
    with Experiment() as experiment:
        for step in steps:
            experiment.log_metric("at", 1, step=step, epoch=step)
    expected = sorted(int(it) for it in steps if it is not None)

    def look() -> bool:
        metrics = read(service, experiment.id, "metrics/get-metric", metricName="at")["metrics"]
        assert sorted(it["step"] for it in metrics if it["step"] is not None) == expected
        assert sum(it["step"] is None and it["epoch"] is None for it in metrics) == 1
        return True

    assert eventually(look)


def test_points_that_look_alike_are_all_kept_and_contexts_apart(service: Service) -> None:
    with Experiment() as experiment:
        for _ in range(50):
            experiment.log_metric("same", 1.0, step=1)
        with experiment.train():
            experiment.log_metrics({"loss": 0.5, "accuracy": 0.9}, step=3)
        with experiment.validate():
            experiment.log_metric("loss", 0.7, step=3)
            nested = {"valid": {"loss": 1.5, "top": {1: 0.5}}, "rate": 2}
            experiment.log_metrics(nested, prefix="of", step=4, include_context=False)
    eventually(lambda: len(read_points(service, experiment.id, "same")) == 50)
    points = read(service, experiment.id, "metrics/get-metric", metricName="loss")["metrics"]
    assert {(it["runContext"], it["metricValue"]) for it in points} == {("train", "0.5"), ("validate", "0.7")}
    spread = ["of_valid/loss", "of_valid/top/1", "of_rate"]
    assert [read_points(service, experiment.id, it) for it in spread] == [[(4, 1.5)], [(4, 0.5)], [(4, 2.0)]]


def test_a_run_is_gone_on_with_by_its_key_as_asked(service: Service) -> None:
    key = uuid.uuid4().hex

    def points() -> list[tuple[int | None, float]]:
        return read_points(service, key, "loss")

    refused = Experiment(experiment_key=key, resume="must", **quiet)
    assert "resume='allow'" in refused.get_logging_errors()[0]["message"]
    with pytest.raises(SvcError, match=r"resume='allow'\) makes it"):
        Experiment(experiment_key=key, resume="must", raise_on_error_during_init=True)
    for step, resume in enumerate(["allow", "must", "allow"]):
        with Experiment(
            experiment_key=key, experiment_name=f"run-{step}", resume=resume, tags=[str(step)], **quiet
        ) as run:
            run.log_metric("loss", 0.5, step=step)
            assert run.get_name() == "run-0" and run.get_logging_errors() == []
            assert run.url is not None and run.url.endswith(f"/{service.workspace}/clients/{key}")
            if step == 1:
                began = read(service, key, "metadata")["startTimeMillis"]
                run._run.note_crash("RuntimeError: seen in the second part")
        state = read(service, key, "metadata")
        assert (state["running"], state["hasCrashed"]) == (False, step == 1)
    assert eventually(lambda: points() == [(0, 0.5), (1, 0.5), (2, 0.5)])
    assert read(service, key, "metadata")["startTimeMillis"] == began
    assert set(read(service, key, "tags")["tags"]) == {"0", "1", "2"}
    for wrong, message in [
        ("never", "go on with it by resume='allow'"),
        ("sometimes", "expected 'never', 'allow' or 'must'"),
    ]:
        with pytest.raises(SvcError, match=message):
            Experiment(experiment_key=key, resume=wrong, raise_on_error_during_init=True)  # type: ignore[arg-type]
    with pytest.raises(SvcError, match="No experiment key for resume='must'"):
        Experiment(resume="must", raise_on_error_during_init=True)


def test_a_context_belongs_to_the_thread_or_the_task_that_is_in_it(service: Service) -> None:
    both_are_in = threading.Barrier(2)

    def train(context: str) -> None:
        with experiment.context_manager(context):
            both_are_in.wait(30)
            experiment.log_metric("of_thread", 1, step=1)
            both_are_in.wait(30)
        experiment.log_metric("of_thread", 2, step=2)

    async def evaluate(context: str) -> None:
        with experiment.context_manager(context):
            await asyncio.sleep(0)
            experiment.log_metric("of_task", 1, step=1)

    async def evaluate_all() -> None:
        await asyncio.gather(evaluate("c"), evaluate("d"))

    with Experiment(**quiet) as experiment, Experiment(**quiet) as other:
        threads = [threading.Thread(target=train, args=(it,)) for it in ("a", "b")]
        for it in threads:
            it.start()
        for it in threads:
            it.join()
        asyncio.run(evaluate_all())
        with experiment.context_manager("outer"), other.context_manager("of_other"):
            experiment.log_metric("nested", 1, step=1)
            with experiment.context_manager("inner"):
                experiment.log_metric("nested", 2, step=2)
            experiment.log_metric("nested", 3, step=3)

    def contexts(name: str) -> list[tuple[int, str]]:
        points = read(service, experiment.id, "metrics/get-metric", metricName=name)["metrics"]
        return sorted((it["step"], it["runContext"] or "") for it in points)

    eventually(lambda: contexts("of_thread") == [(1, "a"), (1, "b"), (2, ""), (2, "")])
    eventually(lambda: contexts("of_task") == [(1, "c"), (1, "d")])
    eventually(lambda: contexts("nested") == [(1, "outer"), (2, "inner"), (3, "outer")])


def test_parameters_others_tags_name_and_documents_are_kept(service: Service) -> None:
    with Experiment(experiment_name="first", tags=["a"]) as experiment:
        assert experiment.get_name() == "first"
        experiment.log_parameter("rate", np.float64(0.25))
        experiment.log_parameters({"optimizer": {"name": "adam", "betas": [0.9, 0.99]}, "layers": 3})
        experiment.log_parameter("rate", 0.125)
        experiment.log_others({"dataset": "digits", "rows": 1797})
        experiment.add_tags(["b", "c"])
        experiment.set_name("second")
        experiment.define_metric("valid/*", step_metric="epoch")
        experiment.log_html("<p>one</p>")
        experiment.log_html("<p>two</p>")
        experiment.log_graph("digraph { a -> b }")
    assert read_values(service, experiment.id, "parameters") == {
        "rate": "0.125",
        "optimizer|name": "adam",
        "optimizer|betas": "[0.9, 0.99]",
        "layers": "3",
    }
    others = read_values(service, experiment.id, "log-other")
    assert others["Name"] == "second" and others["dataset"] == "digits" and others["rows"] == "1797"
    assert others["x axis of valid/*"] == "epoch"
    assert read(service, experiment.id, "tags")["tags"] == ["a", "b", "c"]
    assert read(service, experiment.id, "html")["html"] == "<p>one</p><p>two</p>"
    assert read(service, experiment.id, "graph")["graph"] == "digraph { a -> b }"
    assert experiment.get_logging_errors() == []


def test_the_end_says_when_it_was_and_how(service: Service) -> None:
    with pytest.raises(ZeroDivisionError), Experiment() as experiment:
        experiment.log_metric("loss", 1 / 0)
    metadata = read(service, experiment.id, "metadata")
    assert metadata["running"] is False and metadata["hasCrashed"] is True
    assert metadata["error"] == "ZeroDivisionError: division by zero"
    with Experiment() as well:
        pass
    metadata = read(service, well.id, "metadata")
    assert metadata["hasCrashed"] is False and metadata["endTimeMillis"] >= metadata["startTimeMillis"]


def test_an_existing_experiment_is_gone_on_with(service: Service) -> None:
    with Experiment() as first:
        first.log_metric("loss", 1, step=1)
    with ExistingExperiment(experiment_key=first.id) as second:
        second.log_metric("loss", 0.5, step=2)
    eventually(lambda: read_points(service, first.id, "loss") == [(1, 1.0), (2, 0.5)])


def test_nothing_is_left_on_disk_of_what_was_sent(tmp_path: Path) -> None:
    with Experiment() as experiment:
        experiment.log_metric("loss", 1)
        experiment.log_other("a", "b")
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_disabled_experiment_takes_every_call_and_logs_nothing(tmp_path: Path) -> None:
    with Experiment(disabled=True) as experiment:
        experiment.log_metric("loss", 1)
        experiment.log_metric("loss", "no number")
        experiment.log_parameters({"a": 1})
        experiment.add_tag("x")
        assert experiment.flush() is True
    assert experiment.disabled and experiment.get_logging_errors() == []
    assert not (tmp_path / "spool").exists()
