"""Rows of a data frame as events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .event import InvalidEvent, Item, is_missing, make_event

if TYPE_CHECKING:
    import pandas
    import polars

_ROWS_AT_ONCE = 10_000
_FAULTS_MAX = 1_000


@dataclass(frozen=True)
class RowFault:
    """Why a row was not logged."""

    row: int
    """Its position in the data frame, from 0."""
    prediction_id: str | None
    message: str


@dataclass
class LogEventsResult:
    """
    What became of the rows of a data frame. Those that were `logged` are on their way; what the service rejects of them
    is read with `get_logging_errors`.
    """

    logged: int = 0
    rejected: int = 0
    faults: list[RowFault] = field(default_factory=list)
    """Why rows were rejected, of the first 1,000."""

    def reject(self, row: int, prediction_id: str | None, message: str) -> None:
        self.rejected += 1
        if len(self.faults) < _FAULTS_MAX:
            self.faults.append(RowFault(row, prediction_id, message))


@dataclass(frozen=True)
class Columns:
    """Which column holds what, by name."""

    prediction_id: str
    features: Sequence[str] | None
    output_value: str | None
    output_probability: str | None
    output_features: Sequence[str] | None
    labels: Sequence[str] | None
    timestamp: str | None

    def named(self) -> list[str]:
        single = [self.prediction_id, self.output_value, self.output_probability, self.timestamp]
        several = [*(self.features or ()), *(self.output_features or ()), *(self.labels or ())]
        return [it for it in single if it is not None] + several


def log_rows(
    frame: pandas.DataFrame | polars.DataFrame, columns: Columns, put: Callable[[Item], str | None]
) -> LogEventsResult:
    """
    Makes an event of each row and hands it to `put`, which answers why it could not be taken.

    Raises InvalidEvent when it is no data frame, or has not the columns.
    """
    kinds = {(it.__module__.partition(".")[0], it.__name__) for it in type(frame).__mro__}
    if kinds.isdisjoint({("pandas", "DataFrame"), ("polars", "DataFrame")}):
        raise InvalidEvent(f"dataframe: expected a DataFrame of pandas or polars, not {type(frame).__name__}")
    names = list(frame.columns)
    for argument in ("features", "output_features", "labels"):
        if isinstance(getattr(columns, argument), str):
            name = "feature_columns" if argument == "features" else f"{argument}_columns"
            raise InvalidEvent(f"{name}: expected a list of names, not a string")
    for name in columns.named():
        found = names.count(name)
        if found != 1:
            has = "has no such column" if found == 0 else f"has {found} of them"
            raise InvalidEvent(f"the column {name!r} is asked for, and the data frame {has}")
    result = LogEventsResult()
    for start in range(0, len(frame), _ROWS_AT_ONCE):
        # Lists of Python's own values are several times quicker to go through than rows.
        values = {name: _read_column(frame, name, start) for name in dict.fromkeys(columns.named())}
        for at in range(min(_ROWS_AT_ONCE, len(frame) - start)):
            _log_row(start + at, at, values, columns, put, result)
    return result


def _read_column(frame: Any, name: str, start: int) -> list[Any]:
    column, end = frame[name], start + _ROWS_AT_ONCE
    # By position: plain brackets of pandas may mean labels.
    values: list[Any] = (column.iloc[start:end] if hasattr(column, "iloc") else column[start:end]).to_list()
    return values


def _log_row(
    row: int,
    at: int,
    values: dict[str, list[Any]],
    columns: Columns,
    put: Callable[[Item], str | None],
    result: LogEventsResult,
) -> None:
    def pick(names: Sequence[str] | None) -> dict[str, Any] | None:
        return None if names is None else {str(name): values[name][at] for name in names}

    def one(name: str | None) -> Any:
        value = None if name is None else values[name][at]
        return None if is_missing(value) else value

    prediction_id = one(columns.prediction_id)
    labels = pick(columns.labels)
    try:
        if prediction_id is None:
            raise InvalidEvent(f"{columns.prediction_id}: is missing")
        item = make_event(
            prediction_id,
            pick(columns.features),
            one(columns.output_value),
            one(columns.output_probability),
            pick(columns.output_features),
            # A row without any label is a prediction that nobody has labelled yet.
            None if labels is None or all(map(is_missing, labels.values())) else labels,
            one(columns.timestamp),
        )
    except InvalidEvent as error:
        result.reject(row, None if prediction_id is None else str(prediction_id), str(error))
        return
    fault = put(item)
    if fault is None:
        result.logged += 1
    else:
        result.reject(row, item.prediction_id, fault)
