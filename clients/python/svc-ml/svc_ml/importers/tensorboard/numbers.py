"""Events with one number each, all of a file's that have the same length at once, with numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Optional

from svc_ml.importers.tensorboard.columns import Columns, find_numpy

_ROWS_MIN = 16
"""Fewer are read faster one by one."""
_BYTES_MIN, _BYTES_MAX = 16, 2_048
_WALL_TIME_MARK, _STEP_MARK = 9, 16
_STEP_AT = 9
_STEP_BYTES_MAX = 10
_ROUNDS_MAX = 4
_KEY_COLUMNS = 4
_EXACT_MAX = 2.0**53

NumberAt = tuple[str, int]
"""The tag of a number, and where in its event it begins."""
FindNumber = Callable[[bytes, int], Optional[NumberAt]]
"""Looks at an event from a byte on, behind its time and step. None when it has something else than one 32-bit number."""


class Numbers(NamedTuple):
    """Points of one tag, as arrays of numpy or as lists."""

    tag: str
    places: Any
    """Where in the data their events begin: their order."""
    values: Any
    steps: Any
    walls: Any
    """Seconds since the Unix epoch."""

    def add(self, place: int, value: float, step: int, wall: float) -> None:
        """To lists."""
        self.places.append(place)
        self.values.append(value)
        self.steps.append(step)
        self.walls.append(wall)


def find_series(series: dict[str, Numbers], tag: str) -> Numbers:
    found = series.get(tag)
    if found is None:
        found = series[tag] = Numbers(tag, [], [], [], [])
    return found


def join_numbers(parts: list[Numbers]) -> tuple[list[float], list[Optional[int]], Any]:
    """Values, steps and times, in the order of their events."""
    if len(parts) == 1:
        [(_, _, values, steps, walls)] = parts
        return (values, steps, walls) if isinstance(values, list) else (values.tolist(), steps.tolist(), walls)
    numpy = find_numpy()
    forms = ("int64", "float64", "int64", "float64")
    columns = [
        numpy.concatenate([numpy.asarray(it, dtype=form) for it in column])
        for form, column in zip(forms, list(zip(*parts))[1:])
    ]
    order = numpy.argsort(columns[0], kind="stable")
    _, values, steps, walls = (it[order] for it in columns)
    return values.tolist(), steps.tolist(), walls


def to_times(walls: Any) -> tuple[list[Optional[int]], float, float]:
    """Seconds as milliseconds, the least and the greatest. Those that are no time are None."""
    if isinstance(walls, list):
        first, last = min(walls), max(walls)
        if math.isfinite(sum(walls)):
            return [round(it * 1000) for it in walls], first, last
        return [round(it * 1000) if math.isfinite(it) else None for it in walls], first, last
    numpy = find_numpy()
    ms = numpy.rint(walls * 1000)
    if numpy.abs(ms).max() < _EXACT_MAX:
        return ms.astype("int64").tolist(), float(walls.min()), float(walls.max())
    return to_times(walls.tolist())


def read_numbers(
    data: bytes, starts: list[int], length: int, find_number: FindNumber
) -> tuple[list[Numbers], list[int]]:
    """
    starts: of payloads of this length. Returns also those that are to be read one by one.

    Events of one metric differ in their time, step and value only. So a message is read once for all events whose other bytes are
    the same.
    """
    numpy = find_numpy()
    if numpy is None or len(starts) < _ROWS_MIN or not _BYTES_MIN <= length < _BYTES_MAX:
        return [], starts
    rows = _Rows(numpy.asarray(starts, dtype="int64"), Columns(data, starts, length).bytes)
    step_bytes = _count_step_bytes(rows.bytes, numpy)
    found: list[Numbers] = []
    left: list[Any] = []
    for count in numpy.unique(step_bytes).tolist():
        alike = rows.take(step_bytes == count)
        if count < 0:
            left.append(alike.places)
            continue
        begin = _STEP_AT + (count + 1 if count else 0)
        steps = _read_varints(alike.bytes[_STEP_AT + 1 : begin], numpy)
        for tag, at, chosen in _group(alike, begin, find_number, left):
            group = alike.bytes[:, chosen]
            values = _read("<f4", group[at : at + 4], numpy).astype("float64")
            walls = _read("<f8", group[1:9], numpy)
            found.append(Numbers(tag, alike.places[chosen], values, steps[chosen], walls))
    return found, sorted(it for part in left for it in part.tolist())


class _Rows(NamedTuple):
    places: Any
    bytes: Any
    """At n the bytes at n of all events."""

    def take(self, chosen: Any) -> _Rows:
        return self if chosen.all() else _Rows(self.places[chosen], self.bytes[:, chosen])


def _count_step_bytes(columns: Any, numpy: Any) -> Any:
    """Of each event, 0 when its step is 0 and not written; -1 when the event does not begin with its time, or its step has no end."""
    count = numpy.zeros(columns.shape[1], dtype="int64")
    goes_on = columns[_STEP_AT] == _STEP_MARK
    for at in range(_STEP_AT + 1, min(_STEP_AT + 1 + _STEP_BYTES_MAX, len(columns))):
        count += goes_on
        goes_on = goes_on & (columns[at] >= 128)
        if not goes_on.any():
            break
    count[goes_on | (columns[0] != _WALL_TIME_MARK)] = -1
    return count


def _read_varints(columns: Any, numpy: Any) -> Any:
    found = numpy.zeros(columns.shape[1], dtype="uint64")
    for at, column in enumerate(columns):
        found |= (column & 127).astype("uint64") << numpy.uint64(7 * at)
    return found.view("int64")


def _group(rows: _Rows, begin: int, find_number: FindNumber, left: list[Any]) -> Iterator[tuple[str, int, Any]]:
    """Tag, place of the number and indexes of events that are the same but for it. Adds to `left` the places of all others."""
    numpy = find_numpy()
    waiting = numpy.arange(len(rows.places))
    for _ in range(_ROUNDS_MAX):
        if not waiting.size:
            return
        known = find_number(rows.bytes[:, waiting[0]].tobytes(), begin)
        if known is None:
            left.append(rows.places[waiting[:1]])
            waiting = waiting[1:]
            continue
        at = known[1]
        others = []
        for group in _split(rows, waiting, [it for it in range(begin, len(rows.bytes)) if not at <= it < at + 4]):
            # All bytes but those four are the same, so what the first one is all are.
            place = find_number(rows.bytes[:, group[0]].tobytes(), begin)
            if place is not None and place[1] == at:
                yield place[0], at, group
            else:
                others.append(group)
        waiting = numpy.sort(numpy.concatenate(others)) if others else waiting[:0]
    left.append(rows.places[waiting])


def _split(rows: _Rows, chosen: Any, columns: list[int]) -> list[Any]:
    """Indexes of rows that are the same in these columns, in their order."""
    numpy = find_numpy()
    part = rows.bytes[columns][:, chosen]
    varying = part[(part != part[:, :1]).any(axis=1)]
    groups = numpy.zeros(len(chosen), dtype="uint64")
    for at in range(0, len(varying), _KEY_COLUMNS):
        # The number of the group so far, and behind it a few bytes more.
        for column in varying[at : at + _KEY_COLUMNS]:
            groups = groups << numpy.uint64(8) | column
        groups = numpy.unique(groups, return_inverse=True)[1].astype("uint64")
    order = numpy.argsort(groups, kind="stable")
    ends = numpy.nonzero(numpy.diff(groups[order]))[0] + 1
    return [chosen[it] for it in numpy.split(order, ends)]


def _read(form: str, columns: Any, numpy: Any) -> Any:
    return numpy.ascontiguousarray(columns.T).view(form)[:, 0]
