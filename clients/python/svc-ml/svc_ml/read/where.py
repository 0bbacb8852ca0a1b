"""What runs must meet: tuples, or the predicates of `/project/query` as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Optional, Union

from svc_ml.fault import SvcError
from svc_ml.read.run_columns import STATE, TAGS, RunColumns

Where = Union[Sequence[Union[tuple[Any, ...], Mapping[str, Any]]], Mapping[str, Any]]

_STATES = ("running", "finished", "crashed", "lost")
_NULLS = {"=": "is null", "==": "is null", "!=": "is not null"}


def to_predicates(where: Where | None, columns: RunColumns) -> tuple[Any, Optional[frozenset[str]]]:
    """
    The predicates, and the states that a run may be in: there is no predicate for them. None is for all of them.

    Raises SvcError for a condition that cannot be read.
    """
    if where is None or isinstance(where, Mapping):
        return where, None
    if isinstance(where, (str, bytes)) or (isinstance(where, tuple) and where and isinstance(where[0], str)):
        raise SvcError(f"where is {where!r}: expected a list of conditions, such as [('params.rate', '>', 0.01)].")
    rules: list[Any] = []
    states: Optional[frozenset[str]] = None
    for condition in where:
        if isinstance(condition, Mapping):
            rules.append(condition)
            continue
        name, operator, value = _read(condition)
        column = columns.find(name)
        if column is STATE:
            allowed = _states(operator, value)
            states = allowed if states is None else states & allowed
        elif column.rule is None:
            raise SvcError(f"{name}: conditions are on the last value of a metric; select by others in the frame.")
        elif column is TAGS:
            if value is None:
                raise SvcError(f"where has {condition!r}: conditions on tags need a value.")
            rules.append({"source": "tag", "field": str(value), "operator": operator, "value": value})
        else:
            rules.append({**column.rule, "operator": operator, "value": _to_json(value)})
    return rules, states


def _read(condition: Sequence[Any]) -> tuple[str, str, Any]:
    if len(condition) not in (2, 3) or not all(isinstance(it, str) for it in condition[:2]):
        raise SvcError(f"where has {condition!r}: expected a column, an operator and a value.")
    name, operator = condition[0], " ".join(condition[1].split()).lower()
    value = condition[2] if len(condition) == 3 else None
    if len(condition) == 3 and value is None:
        if operator not in _NULLS:
            raise SvcError(f"where has {condition!r}: None goes with = and != only.")
        return name, _NULLS[operator], None
    return name, operator, value


def _states(operator: str, value: Any) -> frozenset[str]:
    values = [value] if isinstance(value, str) else list(value or ())
    unknown = [it for it in values if it not in _STATES]
    if unknown or operator not in ("=", "==", "!=", "in", "not in"):
        raise SvcError(f"state {operator} {value!r}: expected =, !=, in or not in, and states of {', '.join(_STATES)}.")
    is_negated = operator in ("!=", "not in")
    return frozenset(it for it in _STATES if (it in values) != is_negated)


def _to_json(value: Any) -> Any:
    """Times without a zone are in UTC, as those that are read are."""
    if isinstance(value, datetime):
        known = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return round(known.timestamp() * 1_000)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_to_json(it) for it in value]
    item = getattr(value, "item", None)
    plain = item() if callable(item) else value
    # JSON has no form for NaN and the infinities; the service compares their texts.
    return str(plain) if isinstance(plain, float) and not math.isfinite(plain) else plain
