"""What is logged is what is read; what cannot be is told, and no call raises."""

from __future__ import annotations

import enum
import time
from typing import Any

import numpy
import pandas
import pytest
from mpm_events import (
    count_events,
    environment_of,
    expect_counts,
    expect_event,
    messages,
    open_logger,
    read_event,
    unique,
)

from conftest import Service, eventually
from svc_mpm import SvcMPM
from svc_mpm.delivery import Delivery


class Country(str, enum.Enum):
    NETHERLANDS = "NL"


def test_an_event_logged_is_an_event_read_each_value_with_its_type(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model, model_version="1.2.3") as mpm:
        mpm.log_event(
            "order-17",
            {"age": 42, "income": 1234.5, "is_member": True, "country": "NL", "unknown": None, "__proto__": "x"},
            output_value="ok",
            output_probability=0.75,
            output_features={"rank": 3},
            labels={"fraud": False},
            timestamp=1_700_000_000.25,
        )
        mpm.end()
        assert mpm.get_logging_errors() == []
    expect_event(
        service,
        model,
        "order-17",
        features={
            "age": ("integer", 42),
            "income": ("float", 1234.5),
            "is_member": ("boolean", True),
            "country": ("string", "NL"),
            "unknown": ("missing", None),
            "__proto__": ("string", "x"),
        },
        prediction={"value": ("string", "ok"), "probability": ("float", 0.75), "rank": ("integer", 3)},
        labels={"fraud": ("boolean", False)},
        timestamp=1_700_000_000_250,
        modelVersion="1.2.3",
    )


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (numpy.int64(7), ("integer", 7)),
        (numpy.float32(0.5), ("float", 0.5)),
        (numpy.float64(0.1), ("float", 0.1)),
        (numpy.longdouble(0.5), ("float", 0.5)),
        (numpy.bool_(True), ("boolean", True)),
        (numpy.str_("text"), ("string", "text")),
        (numpy.array(2.5), ("float", 2.5)),
        (Country.NETHERLANDS, ("string", "NL")),
        (2**80 + 1, ("integer", 2**80 + 1)),
        (float("nan"), ("missing", None)),
        (numpy.float32("nan"), ("missing", None)),
        (pandas.NA, ("missing", None)),
        (pandas.NaT, ("missing", None)),
        ("Infinity", ("string", "Infinity")),
        ("\u2603 \U0001f600", ("string", "\u2603 \U0001f600")),
    ],
)
def test_values_of_numpy_and_pandas_are_values(service: Service, given: Any, stored: tuple[str, Any]) -> None:
    model = unique("model")
    with open_logger(service, model) as mpm:
        mpm.log_event("one", {"x": given})
        mpm.end()
        assert mpm.get_logging_errors() == []
    expect_event(service, model, "one", features={"x": stored})


def test_a_fault_of_the_check_of_the_key_ends_no_sending(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the environment changed while the sender read it: its thread ended, and with it every event was lost."""

    def fail(_: Delivery) -> None:
        raise KeyError("SVC_URL")

    monkeypatch.setattr(Delivery, "check", fail)
    model = unique("model")
    with open_logger(service, model) as mpm:
        mpm.log_event("one", {"x": 1})
        mpm.end()
        assert "the key could not be checked" in messages(mpm)
    expect_event(service, model, "one", features={"x": ("integer", 1)})


def test_labels_come_after_their_event_or_before_it(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model) as mpm:
        mpm.log_event("early", {"x": 1})
        mpm.log_label("early", labels={"value": 1, "reason": "chargeback"}, timestamp=1_700_000_001)
        mpm.log_label("late", labels={"value": 0})
        mpm.log_event("late", {"x": 2})
        mpm.end()
        assert mpm.get_logging_errors() == []
    reason = {"value": ("integer", 1), "reason": ("string", "chargeback")}
    expect_event(service, model, "early", labels=reason, labelsTimestamp=1_700_000_001_000)
    expect_event(service, model, "late", features={"x": ("integer", 2)}, labels={"value": ("integer", 0)})


def test_the_deprecated_label_is_the_label_value(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model) as mpm:
        with pytest.warns(DeprecationWarning, match="use labels") as warned:
            mpm.log_label("one", label="fraud", labels={"reason": "chargeback"})
        assert warned[0].filename == __file__
        mpm.end()
    expect_event(service, model, "one", labels={"value": ("string", "fraud"), "reason": ("string", "chargeback")})


def test_an_event_without_features_is_no_mere_label(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model) as mpm:
        mpm.log_event("one", labels={"value": 1})
        mpm.end()
    expect_counts(service, model, events=1, labels=1)


def test_the_time_of_an_event_is_when_it_was_logged(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model) as mpm:
        before = time.time_ns() // 1_000_000
        mpm.log_event("one")
        after = time.time_ns() // 1_000_000
        mpm.end()
    assert before <= eventually(lambda: read_event(service, model, "one"))["timestamp"] <= after


def test_what_the_caller_does_with_its_dictionary_afterwards_changes_nothing(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model) as mpm:
        features = {"x": 1}
        mpm.log_event("one", features)
        features["x"] = 2
        mpm.end()
    expect_event(service, model, "one", features={"x": ("integer", 1)})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"prediction_id": None}, "prediction_id: expected a string, not NoneType (None)"),
        ({"prediction_id": ""}, "prediction_id: must not be empty"),
        ({"prediction_id": 1.5}, "prediction_id: expected a string, not float (1.5)"),
        ({"input_features": [1]}, "input_features: expected a dictionary of names and values, not list ([1])"),
        (
            {"input_features": {"x": {"y": 1}}},
            "input_features['x']: expected an integer, a float, a boolean or a string",
        ),
        ({"input_features": {1: 1}}, "input_features: names must be strings, not 1"),
        ({"input_features": {"x": float("-inf")}}, "input_features['x']: is infinite"),
        ({"output_probability": 1.5}, "output_probability: must be a number from 0 to 1, not 1.5"),
        ({"output_probability": "high"}, "output_probability: must be a number from 0 to 1, not 'high'"),
        ({"output_value": 1, "output_features": {"value": 2}}, "output_value: 'value' is given a second time"),
        ({"labels": "fraud"}, "labels: expected a dictionary of names and values, not str ('fraud')"),
        ({"timestamp": 1_700_000_000_000}, "not 1700000000000 (milliseconds, it seems: divide them by 1000)"),
        ({"timestamp": 5}, "timestamp: expected seconds since the Unix epoch (UTC), between 1973 and 5138, not 5"),
        ({"timestamp": "now"}, "timestamp: expected seconds since the Unix epoch (UTC), not str ('now')"),
    ],
)
def test_a_bad_argument_is_one_clear_line_and_the_next_event_is_logged(
    service: Service, caplog: pytest.LogCaptureFixture, arguments: dict[str, Any], said: str
) -> None:
    model = unique("model")
    with open_logger(service, model) as mpm:
        assert mpm.log_event(**{"prediction_id": "bad", **arguments}) is None
        assert mpm.has_logging_error()
        mpm.log_event("good")
        mpm.end()
        (error,) = mpm.get_logging_errors()
    assert said in error["message"]
    assert error["message"].startswith("log_event: ")
    assert error["logger_name"] == "svc_mpm"
    assert len([it for it in caplog.records if said in it.getMessage()]) == 1
    expect_counts(service, model, events=1)
    expect_event(service, model, "good")


def test_labels_without_any_value_are_told(service: Service) -> None:
    with open_logger(service, unique("model")) as mpm:
        mpm.log_label("one", labels={"x": None})
        mpm.log_label("two")
        assert messages(mpm) == "log_label: labels: there is none: pass a dictionary of names and values (2 times)"


def test_what_the_service_rejects_is_told_with_its_prediction_id(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model) as mpm:
        mpm.log_event("good", {"x": 1})
        mpm.log_event("bad", {"x": "nul \0"})
        mpm.log_event("good too", {"x": 1})
        mpm.end()
        (error,) = mpm.get_logging_errors()
    assert error["message"].startswith("the service rejected an event: features.x: ")
    assert error["data_affected"] == ["bad"]
    expect_counts(service, model, events=2)


def test_a_prediction_id_is_stored_once_and_its_repetition_told(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model) as mpm:
        mpm.log_event("one", {"x": 1})
        mpm.log_event("one", {"x": 2})
        mpm.end()
        assert "this prediction id were there already: the first one is kept" in messages(mpm)
    expect_event(service, model, "one", features={"x": ("integer", 1)})


def test_errors_are_read_once_unless_they_are_not_cleared(service: Service) -> None:
    with open_logger(service, unique("model")) as mpm:
        assert not mpm.has_logging_error()
        mpm.log_event("bad", {"x": []})
        assert len(mpm.get_logging_errors(clear=False)) == 1
        assert mpm.has_logging_error()
        assert len(mpm.get_logging_errors()) == 1
        assert mpm.get_logging_errors() == []
        assert not mpm.has_logging_error()


def test_a_million_bad_events_are_a_few_lines(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    with open_logger(service, unique("model")) as mpm:
        for _ in range(12_345):
            mpm.log_event("bad", {"x": []})
        (error,) = mpm.get_logging_errors()
    assert error["message"].endswith("(12,345 times)")
    assert len(error["data_affected"]) == 100
    assert len([it for it in caplog.records if "input_features" in it.getMessage()]) == 5


def test_a_batch_goes_out_by_its_size_before_its_time(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model, max_batch_size=10, max_batch_time=3600) as mpm:
        for number in range(25):
            mpm.log_event(f"event {number}")
        expect_counts(service, model, events=20)


def test_a_batch_goes_out_by_its_time_before_it_is_full(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model, max_batch_size=1000, max_batch_time=1) as mpm:
        mpm.log_event("one")
        expect_counts(service, model, events=1)


def test_after_the_end_nothing_can_be_logged(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model) as mpm:
        mpm.log_event("one")
        mpm.end()
        mpm.end()
        mpm.log_event("two")
        assert "nothing can be logged after end" in messages(mpm)
    expect_counts(service, model, events=1)


def test_the_deprecated_join_is_an_end(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model) as mpm:
        mpm.log_event("one")
        with pytest.warns(DeprecationWarning, match="use end"):
            mpm.join(timeout=30)
    expect_counts(service, model, events=1)


def test_a_disabled_logger_takes_every_call_and_sends_nothing(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model, disabled=True) as mpm:
        mpm.log_event("one")
        mpm.log_label("one", labels={"x": 1})
        mpm.upload_dataset_csv("/nowhere", "EVENTS")
        assert mpm.log_dataframe(pandas.DataFrame({"id": ["a"]}), "id").logged == 0
        assert mpm.connect() is None
        mpm.end()
        assert not mpm.has_logging_error()
    assert count_events(service, model)["events"] == 0


def test_without_a_workspace_events_go_to_the_default_one_of_the_account(service: Service) -> None:
    model = unique("model")
    with environment_of(service):
        mpm = SvcMPM(model_name=model)
    mpm.log_event("one")
    mpm.end()
    assert mpm.get_logging_errors() == []
    expect_event(service, model, "one")


def test_a_model_name_that_is_missing_is_told(service: Service) -> None:
    with environment_of(service):
        mpm = SvcMPM(workspace_name=service.workspace)
    mpm.log_event("one")
    assert "model_name: is missing: pass it to SvcMPM, or set SVC_MPM_MODEL_NAME" in messages(mpm)
    mpm.end()
