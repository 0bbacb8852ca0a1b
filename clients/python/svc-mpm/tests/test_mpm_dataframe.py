"""Each row of a data frame is an event."""

from __future__ import annotations

import numpy
import pandas
import polars
import pytest
from mpm_events import expect_counts, expect_event, messages, open_logger, unique

from conftest import Service
from svc_mpm import LogEventsResult, RowFault


def a_frame() -> pandas.DataFrame:
    return pandas.DataFrame(
        {
            "id": ["a", "b", "c"],
            "age": pandas.array([42, None, 7], dtype="Int64"),
            "income": [1234.5, numpy.nan, 3.0],
            "country": pandas.Categorical(["NL", "DE", "NL"]),
            "member": [True, False, True],
            "score": [0.25, 0.5, 0.75],
            "truth": ["ok", None, "fraud"],
            "when": [1_700_000_000.5, 1_700_000_001, numpy.nan],
        }
    )


def test_a_frame_of_polars_is_as_good(service: Service) -> None:
    model = unique("model")
    frame = polars.DataFrame(
        {
            "id": ["a", "b"],
            "age": [42, None],
            "income": [1234.5, float("nan")],
            "country": polars.Series(["NL", "DE"], dtype=polars.Categorical),
            "member": [True, False],
            "truth": ["ok", None],
            "when": [1_700_000_000.5, 1_700_000_001.0],
        }
    )
    with open_logger(service, model) as mpm:
        result = mpm.log_dataframe(
            frame,
            prediction_id_column="id",
            feature_columns=["age", "income", "country", "member"],
            labels_columns=["truth"],
            timestamp_column="when",
        )
        mpm.end()
        assert mpm.get_logging_errors() == []
    assert result == LogEventsResult(logged=2, rejected=0, faults=[])
    expect_counts(service, model, events=2, labels=1)
    expect_event(
        service,
        model,
        "a",
        features={
            "age": ("integer", 42),
            "income": ("float", 1234.5),
            "country": ("string", "NL"),
            "member": ("boolean", True),
        },
        prediction={},
        labels={"truth": ("string", "ok")},
        timestamp=1_700_000_000_500,
    )


def test_each_row_is_an_event_and_missing_values_are_missing(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model) as mpm:
        result = mpm.log_dataframe(
            a_frame(),
            prediction_id_column="id",
            feature_columns=["age", "income", "country", "member"],
            output_features_columns=["score"],
            labels_columns=["truth"],
            timestamp_column="when",
        )
        mpm.end()
        assert mpm.get_logging_errors() == []
    assert result == LogEventsResult(logged=3, rejected=0, faults=[])
    # Of the second row nobody knows the truth yet.
    expect_counts(service, model, events=3, labels=2)
    expect_event(
        service,
        model,
        "a",
        features={
            "age": ("integer", 42),
            "income": ("float", 1234.5),
            "country": ("string", "NL"),
            "member": ("boolean", True),
        },
        prediction={"score": ("float", 0.25)},
        labels={"truth": ("string", "ok")},
        timestamp=1_700_000_000_500,
    )
    expect_event(
        service,
        model,
        "b",
        features={
            "age": ("missing", None),
            "income": ("missing", None),
            "country": ("string", "DE"),
            "member": ("boolean", False),
        },
        labels={},
    )


def test_the_deprecated_columns_are_value_and_probability(service: Service) -> None:
    model = unique("model")
    frame = pandas.DataFrame({"id": [17], "answer": ["ok"], "score": [0.5]})
    with open_logger(service, model) as mpm:
        with pytest.warns(DeprecationWarning, match="use output_features_columns") as warned:
            mpm.log_dataframe(frame, "id", output_value_column="answer", output_probability_column="score")
        mpm.end()
    assert [str(it.message).split(" is ")[0] for it in warned] == ["output_value_column", "output_probability_column"]
    want = {"value": ("string", "ok"), "probability": ("float", 0.5)}
    expect_event(service, model, "17", prediction=want)


def test_a_row_that_is_wrong_costs_no_other_and_is_told(service: Service) -> None:
    model = unique("model")
    frame = pandas.DataFrame({"id": ["a", None, "c", "d"], "x": [1.0, 2.0, numpy.inf, 4.0]})
    with open_logger(service, model) as mpm:
        result = mpm.log_dataframe(frame, "id", ["x"])
        mpm.end()
        assert "log_dataframe: id: is missing" in messages(mpm)
    assert (result.logged, result.rejected) == (2, 2)
    assert result.faults[0] == RowFault(1, None, "id: is missing")
    assert (result.faults[1].row, result.faults[1].prediction_id) == (2, "c")
    assert result.faults[1].message.startswith("input_features['x']: is infinite")
    expect_counts(service, model, events=2)


@pytest.mark.parametrize(
    ("frame", "columns", "said"),
    [
        ([1, 2], {}, "dataframe: expected a DataFrame of pandas or polars, not list"),
        (
            a_frame(),
            {"feature_columns": ["agee"]},
            "the column 'agee' is asked for, and the data frame has no such column",
        ),
        (a_frame(), {"feature_columns": "age"}, "feature_columns: expected a list of names, not a string"),
        (
            pandas.DataFrame([["a", 1, 2]], columns=["id", "x", "x"]),
            {"feature_columns": ["x"]},
            "the column 'x' is asked for, and the data frame has 2 of them",
        ),
    ],
)
def test_a_frame_that_cannot_be_logged_is_told(service: Service, frame: object, columns: dict, said: str) -> None:
    with open_logger(service, unique("model")) as mpm:
        result = mpm.log_dataframe(frame, "id", **columns)  # type: ignore[arg-type]
        assert messages(mpm) == f"log_dataframe: {said}"
    assert result.logged == 0
    assert result.faults[0].message == said


def test_a_frame_larger_than_the_queue_waits_for_room(service: Service) -> None:
    model = unique("model")
    frame = pandas.DataFrame({"id": [f"row {it}" for it in range(3_000)], "text": ["x" * 200] * 3_000})
    with open_logger(service, model, {"SVC_MPM_QUEUE_BYTES": "100000"}, max_batch_size=100) as mpm:
        assert mpm.log_dataframe(frame, "id", ["text"]) == LogEventsResult(logged=3_000)
        mpm.end(60)
        assert mpm.get_logging_errors() == []
    expect_counts(service, model, events=3_000)
