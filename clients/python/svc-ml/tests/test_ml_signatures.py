"""The names, parameters and defaults that interface.md gives, and those that people expect beside them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import svc_ml

EXPERIMENT_CALLS = [
    "log_metric",
    "log_metrics",
    "log_parameter",
    "log_parameters",
    "log_other",
    "log_others",
    "log_text",
    "log_html",
    "log_code",
    "log_graph",
    "log_image",
    "log_figure",
    "log_table",
    "log_asset",
    "log_model",
    "log_curve",
    "log_confusion_matrix",
    "add_tag",
    "add_tags",
    "set_name",
    "end",
    "display",
    "get_logging_errors",
    "has_logging_error",
    "flush",
    "set_step",
    "set_epoch",
    "__enter__",
    "__exit__",
]

LOGGER_PARAMETERS = {
    "tags": None,
    "save_checkpoints": False,
    "share_api_key_to_workers": False,
    "experiment_name": None,
    "api_key": None,
    "workspace": None,
    "project_name": None,
    "experiment_key": None,
    "mode": "get_or_create",
    "online": None,
}


def parameters_of(call: Callable[..., Any]) -> dict[str, Any]:
    """Names and defaults in their order; `...` for what must be given."""
    given = inspect.signature(call).parameters.values()
    ordinary = [it for it in given if it.kind not in (it.VAR_KEYWORD, it.VAR_POSITIONAL) and it.name != "self"]
    return {it.name: ... if it.default is it.empty else it.default for it in ordinary}


def takes_keywords(call: Callable[..., Any]) -> bool:
    return any(it.kind is it.VAR_KEYWORD for it in inspect.signature(call).parameters.values())


@pytest.mark.parametrize("kind", ["Experiment", "ExistingExperiment", "OfflineExperiment"])
def test_every_experiment_has_the_calls_that_people_expect(kind: str) -> None:
    missing = [it for it in EXPERIMENT_CALLS if not callable(getattr(getattr(svc_ml, kind), it, None))]
    assert missing == []


def test_the_calls_take_what_they_are_given_by_position() -> None:
    experiment = svc_ml.Experiment
    assert list(parameters_of(experiment))[:3] == ["api_key", "project_name", "workspace"]
    assert list(parameters_of(svc_ml.ExistingExperiment))[:2] == ["api_key", "experiment_key"]
    assert list(parameters_of(experiment.log_metric)) == ["name", "value", "step", "epoch", "include_context"]
    assert list(parameters_of(experiment.log_parameter)) == ["name", "value", "step"]
    assert list(parameters_of(experiment.log_other)) == ["key", "value"]
    assert list(parameters_of(experiment.log_asset))[:3] == ["file_data", "file_name", "overwrite"]
    assert parameters_of(experiment.end) == {"timeout": None}


def test_the_integration_has_the_parameters_of_the_interface_and_their_defaults() -> None:
    dist = pytest.importorskip("svc_ml.integration.dist", reason="Ray Train is not installed")
    assert parameters_of(dist.SvcTrainLoggerCallback) == {"dist_config": ..., **LOGGER_PARAMETERS}
    assert parameters_of(dist.svc_dist_train_logger) == {"trainer": ..., **LOGGER_PARAMETERS}
    assert takes_keywords(dist.SvcTrainLoggerCallback) and takes_keywords(dist.svc_dist_train_logger)
    assert parameters_of(dist.svc_worker) == {"func": ...}
    assert parameters_of(dist.svc_worker_logger) == {"dist_config": ..., "api_key": None}
    assert takes_keywords(dist.svc_worker_logger)
    ending = inspect.signature(dist.SvcTrainLoggerCallback.on_experiment_end).parameters
    assert list(ending) == ["self", "trials", "info"] and ending["info"].kind is inspect.Parameter.VAR_KEYWORD
