"""The points of a series as columns, and as the JSON that the service takes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import NamedTuple, Optional

_JSON = json.JSONEncoder(separators=(",", ":")).encode


class Series(NamedTuple):
    """Columns of the same length; None for a column that is absent."""

    name: str
    context: str
    values: Sequence[float]
    steps: Optional[Sequence[Optional[int]]]
    epochs: Optional[Sequence[Optional[int]]]
    timestamps: Optional[Sequence[Optional[int]]]
    first_index: Optional[int] = None
    """How many points of the series came before, of those that are sent under the same idempotency key."""


def to_json(series: Series) -> str:
    name, context, values, steps, epochs, timestamps, first_index = series
    plain = values if are_finite(values) else [_name_if_not_finite(it) for it in values]
    parts = [f'{{"metricName":{_JSON(name)}']
    if context:
        parts.append(f'"context":{_JSON(context)}')
    if first_index is not None:
        parts.append(f'"firstIndex":{first_index}')
    for field, column in (("steps", steps), ("epochs", epochs), ("timestamps", timestamps)):
        if has_any(column):
            parts.append(f'"{field}":{_JSON(column)}')
    parts.append(f'"values":{_JSON(plain)}}}')
    return ",".join(parts)


def from_json(texts: bytes) -> list[Series]:
    """Of the JSON of series joined by commas."""
    return [
        Series(
            it["metricName"],
            it.get("context", ""),
            [value if isinstance(value, (int, float)) else float(value) for value in it["values"]],
            it.get("steps"),
            it.get("epochs"),
            it.get("timestamps"),
            it.get("firstIndex"),
        )
        for it in json.loads(b"[" + texts + b"]")
    ]


def are_finite(values: Sequence[float]) -> bool:
    """One look at the sum tells it; when that overflows, False says nothing."""
    return math.isfinite(sum(values))


def has_any(column: Sequence[int | None] | None) -> bool:
    return column is not None and any(it is not None for it in column)


def _name_if_not_finite(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
