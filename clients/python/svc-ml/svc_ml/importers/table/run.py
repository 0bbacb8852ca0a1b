"""Runs out of tables: each file is one, or each value of a column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Optional, Protocol

from svc_ml.fault import SvcError
from svc_ml.importers.items import Item, LeftOut, Parameter, Points, Source, SourceRun, State
from svc_ml.importers.table.cells import is_empty, to_ms, to_number, to_step
from svc_ml.importers.table.rows import Row, find_broken

_ROWS_AT_ONCE = 20_000
_STEPS = ("step", "_step", "global_step", "iteration")
_TIMES = ("timestamp", "time", "_timestamp", "wall_time", "datetime", "date")


class Mapping(NamedTuple):
    """Names of columns; None is for those that are called so by many, or for none."""

    run: Optional[str] = None
    step: Optional[str] = None
    epoch: Optional[str] = None
    time: Optional[str] = None
    context: Optional[str] = None
    metric: Optional[str] = None
    """Of names of metrics, whose values are in the column `value`. Without it each other column is a metric."""
    value: str = "value"
    parameters: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


class Rows(Protocol):
    path: Path

    def read(self, start: int, end: Optional[int]) -> Iterator[tuple[int, Row]]: ...


class TableSource(Source):
    def __init__(self, kind: str, files: list[Rows], mapping: Mapping) -> None:
        self.kind = kind
        self._files = files
        self._mapping = mapping

    def runs(self) -> Iterable[SourceRun]:
        found: dict[str, TableRun] = {}
        for rows in self._files:
            if not rows.path.is_file():
                raise SvcError(f"there is no file {rows.path}.")
            mapping = self._complete(rows)
            for name, places in _find_places(rows, mapping).items():
                run = found.setdefault(name, TableRun(name))
                if any(it.rows.path.name == rows.path.name for it in run.parts):
                    raise SvcError(f"two files are called {rows.path.name}: a run knows its files by their names.")
                run.parts.append(_Part(rows, mapping, places))
        return found.values()

    def _complete(self, rows: Rows) -> Mapping:
        """With the columns that are called so by many. Raises SvcError for one that is not there."""
        first = next(rows.read(0, None), None)
        names = list(first[1]) if first else []
        mapping = self._mapping
        if mapping.step is None:
            mapping = mapping._replace(step=next((it for it in _STEPS if it in names), None))
        if mapping.time is None:
            mapping = mapping._replace(time=next((it for it in _TIMES if it in names), None))
        wanted = [mapping.run, mapping.metric, self._mapping.step, self._mapping.time, mapping.context, mapping.epoch]
        missing = [it for it in [*wanted, *([mapping.value] if mapping.metric else [])] if it and it not in names]
        if names and missing:
            raise SvcError(f"{rows.path} has no column {', '.join(missing)}: it has {', '.join(names[:20])}.")
        return mapping


class _Part:
    """The rows of one file that belong to one run."""

    def __init__(self, rows: Rows, mapping: Mapping, places: list[tuple[int, int]]) -> None:
        self.rows = rows
        self.mapping = mapping
        self.places = places
        self.is_read_to = 0


class TableRun(SourceRun):
    def __init__(self, name: str) -> None:
        self.identity = self.name = name
        self.parts: list[_Part] = []
        self._times: tuple[int, int] | None = None

    def take_over(self, later: SourceRun) -> None:
        if isinstance(later, TableRun):
            done = {it.rows.path: it.is_read_to for it in self.parts}
            self.parts = later.parts
            for it in self.parts:
                it.is_read_to = done.get(it.rows.path, 0)

    def size(self) -> int:
        return sum(end - start for it in self.parts for start, end in it.places)

    def read(self) -> Iterator[Item]:
        before = self._times
        parameters: dict[str, object] = {}
        for part in self.parts:
            yield from self._read_part(part, parameters)
        yield from (Parameter(name, value) for name, value in parameters.items())
        if self._times is not None and self._times != before:
            yield State(start_ms=self._times[0], end_ms=self._times[1])

    def _read_part(self, part: _Part, parameters: dict[str, object]) -> Iterator[Item]:
        gathered = _Gathered(part.rows.path.name, part.mapping)
        for start, end in part.places:
            if end <= part.is_read_to:
                continue
            for at, row in part.rows.read(max(start, part.is_read_to), end):
                gathered.add(row)
                parameters.update({it: row[it] for it in part.mapping.parameters if not is_empty(row.get(it))})
                part.is_read_to = at
                if gathered.count >= _ROWS_AT_ONCE:
                    yield from gathered.flush()
        yield from gathered.flush()
        if gathered.times is not None:
            first, last = self._times or gathered.times
            self._times = min(first, gathered.times[0]), max(last, gathered.times[1])


class _Gathered:
    """Points of some rows."""

    def __init__(self, stream: str, mapping: Mapping) -> None:
        self.count = 0
        self.times: tuple[int, int] | None = None
        self._stream = stream
        self._mapping = mapping
        self._series: dict[tuple[str, str], Points] = {}
        self._left: dict[tuple[str, str], int] = {}
        given = [mapping.run, mapping.step, mapping.epoch, mapping.time, mapping.context]
        self._others = {*(it for it in given if it), *mapping.parameters, *mapping.ignored}

    def add(self, row: Row) -> None:
        self.count += 1
        mapping = self._mapping
        broken = find_broken(row)
        if broken is not None:
            self._leave("rows", f"{broken}: no object of JSON")
            return
        try:
            step = self._read(row, mapping.step, to_step, "whole number of 64 bits")
            epoch = self._read(row, mapping.epoch, to_step, "whole number of 64 bits")
            ms = self._read(row, mapping.time, to_ms, "time")
        except ValueError as error:
            self._leave("rows", str(error))
            return
        if ms is not None:
            first, last = self.times or (ms, ms)
            self.times = min(first, ms), max(last, ms)
        context = row.get(mapping.context) if mapping.context else None
        cells = (
            [(str(row.get(mapping.metric)), row.get(mapping.value))]
            if mapping.metric
            else [(name, cell) for name, cell in row.items() if name not in self._others]
        )
        for name, cell in cells:
            if is_empty(cell):
                continue
            try:
                value = to_number(cell)
            except (ValueError, TypeError, OverflowError):
                self._leave(
                    "cells", f"the column {name} has some that are no numbers; --param or --ignore names such a column"
                )
                continue
            key = (name, "" if is_empty(context) else str(context))
            points = self._series.get(key)
            if points is None:
                points = self._series[key] = Points(self._stream, *key, [], [], [], [])
            points.values.append(value)
            for column, it in ((points.steps, step), (points.timestamps, ms), (points.epochs, epoch)):
                if column is not None:
                    column.append(it)

    def flush(self) -> Iterator[Item]:
        yield from self._series.values()
        yield from (LeftOut(what, why, count) for (what, why), count in self._left.items())
        self._series, self._left, self.count = {}, {}, 0

    def _leave(self, what: str, why: str) -> None:
        self._left[what, why] = self._left.get((what, why), 0) + 1

    def _read(self, row: Row, column: Optional[str], convert: object, expected: str) -> Optional[int]:
        cell = row.get(column) if column else None
        if is_empty(cell):
            return None
        try:
            return convert(cell)  # type: ignore[operator, no-any-return]
        except (ValueError, TypeError, OverflowError):
            raise ValueError(
                f"the column {column} has some that are no {expected}, such as {str(cell)[:40]!r}"
            ) from None


def _find_places(rows: Rows, mapping: Mapping) -> dict[str, list[tuple[int, int]]]:
    """Where the rows of each run are; without a column for it, all are of one that has the name of the file."""
    found: dict[str, list[tuple[int, int]]] = {}
    before = 0
    if mapping.run is None:
        end = rows.path.stat().st_size
        return {rows.path.stem: [(0, max(end, _count_rows(rows)))]}
    for at, row in rows.read(0, None):
        name = row.get(mapping.run)
        places = found.setdefault(rows.path.stem if is_empty(name) else str(name), [])
        if places and places[-1][1] == before:
            places[-1] = (places[-1][0], at)
        else:
            places.append((before, at))
        before = at
    return found


def _count_rows(rows: Rows) -> int:
    count = getattr(rows, "count", None)
    return int(count()) if callable(count) else 0
