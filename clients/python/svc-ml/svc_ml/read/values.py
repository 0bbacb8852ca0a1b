"""Parameters and others: the service keeps their text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Union

from svc_ml.read.column import Column, number_column

Value = Union[str, int, float, bool]

_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
_NUMBER = re.compile(r"\s*[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|infinity)\s*|nan", re.IGNORECASE)


def to_value(text: str) -> Value:
    """A number or a boolean when it reads as one, as the service decides it too."""
    lower = text.lower()
    if lower in ("true", "false"):
        return lower == "true"
    return _to_number(text) if _NUMBER.fullmatch(text) else text


def value_column(kind: str, texts: Iterable[str | None]) -> Column:
    """kind: the type that the service finds for all values of a name, `number`, `boolean` or `text`."""
    if kind == "number":
        return number_column([None if it is None else _to_number(it) for it in texts])
    if kind == "boolean":
        return Column("boolean", [None if it is None else it.lower() == "true" for it in texts])
    return Column("text", texts)


def _to_number(text: str) -> int | float:
    return int(text) if _INTEGER.fullmatch(text) else float(text)
