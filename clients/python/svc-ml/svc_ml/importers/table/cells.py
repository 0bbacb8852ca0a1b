"""Cells of tables, as numbers, steps and times."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import Any

_LOW, _HIGH = -(2**63), 2**63 - 1
_UNITS = ((1e11, 1e3), (1e14, 1.0), (1e17, 1e-3), (math.inf, 1e-6))
"""Below which number a time is in seconds, milliseconds, microseconds or nanoseconds, and how many milliseconds its unit has."""


def to_number(cell: Any) -> float:
    """Raises ValueError for what is no number."""
    if isinstance(cell, (list, dict, datetime, date)):
        raise ValueError
    return float(cell)


def to_step(cell: Any, multiplier: int = 1) -> int:
    """A whole number, exact. Raises ValueError for every other."""
    try:
        number = Decimal(str(cell).strip() if isinstance(cell, (str, float)) else cell) * multiplier
        whole = int(number)
    except (InvalidOperation, OverflowError, TypeError):
        raise ValueError from None
    if whole != number or not _LOW <= whole <= _HIGH:
        raise ValueError
    return whole


def to_ms(cell: Any) -> int:
    """A number since the Unix epoch in any of the usual units, or a date and time, in UTC when it names no zone. Raises ValueError."""
    if isinstance(cell, datetime):
        return _of_datetime(cell)
    try:
        number = Decimal(str(cell).strip())
        if not number.is_finite():
            raise ValueError
    except InvalidOperation:
        return _of_datetime(datetime.fromisoformat(str(cell).strip().replace("Z", "+00:00")))
    scale = next(factor for below, factor in _UNITS if abs(number) < below)
    return round(number * Decimal(scale))


def is_empty(cell: Any) -> bool:
    return cell is None or cell == ""


def _of_datetime(time: datetime) -> int:
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)
    return round((zoned - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds() * 1000)
