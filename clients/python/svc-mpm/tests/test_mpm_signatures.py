"""The class is what the specification says: every method, parameter, order and default of its tables."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from svc_mpm import SvcMPM

REQUIRED = inspect.Parameter.empty

SPECIFIED: dict[str, dict[str, Any]] = {
    "__init__": {
        "api_key": None,
        "workspace_name": None,
        "model_name": None,
        "model_version": None,
        "disabled": None,
        "asyncio": False,
        "max_batch_size": None,
        "max_batch_time": None,
        "raise_on_error_during_init": False,
    },
    "connect": {},
    "end": {"timeout": None},
    "join": {"timeout": None},
    "get_logging_errors": {"clear": True},
    "has_logging_error": {},
    "log_event": {
        "prediction_id": REQUIRED,
        "input_features": None,
        "output_value": None,
        "output_probability": None,
        "output_features": None,
        "labels": None,
        "timestamp": None,
    },
    "log_label": {"prediction_id": REQUIRED, "label": None, "labels": None, "timestamp": None},
    "log_dataframe": {
        "dataframe": REQUIRED,
        "prediction_id_column": REQUIRED,
        "feature_columns": None,
        "output_value_column": None,
        "output_probability_column": None,
        "output_features_columns": None,
        "labels_columns": None,
        "timestamp_column": None,
    },
    "upload_dataset_csv": {
        "file_path": REQUIRED,
        "dataset_type": REQUIRED,
        "dataset_name": None,
        "na_values": None,
        "keep_default_na_values": None,
    },
}

OURS: dict[str, dict[str, Any]] = {"__init__": {"spool_directory": None}}
"""What there is besides, by keyword only."""


@pytest.mark.parametrize("name", SPECIFIED)
def test_a_method_has_the_parameters_and_defaults_of_the_specification(name: str) -> None:
    parameters = list(inspect.signature(getattr(SvcMPM, name)).parameters.values())[1:]
    ours = OURS.get(name, {})
    assert {it.name: it.default for it in parameters if it.kind == inspect.Parameter.KEYWORD_ONLY} == ours
    specified = [it for it in parameters if it.name not in ours]
    assert [(it.name, it.default) for it in specified] == list(SPECIFIED[name].items())
    assert {it.kind for it in specified} <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}


def test_there_are_no_public_methods_besides() -> None:
    public = {name for name in vars(SvcMPM) if not name.startswith("_")}
    assert public | {"__init__"} == set(SPECIFIED)
