"""Rows of the history, as points; other values as `values.py` has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Optional

from svc_ml.importers.items import Item, Points
from svc_ml.importers.protobuf import Message, inner, integer, milliseconds
from svc_ml.importers.wandb.records import HISTORY, STATS, entries, nest
from svc_ml.importers.wandb.values import find_in, to_items, to_number

_ROWS_AT_ONCE = 20_000
OWN_NAMES = frozenset(["_step", "_timestamp", "_runtime", "_wandb"])

_Columns = tuple[list[float], list[Optional[int]], list[Optional[int]]]


class History:
    """Gathers points until there are many."""

    def __init__(self, stream: str, folder: Path) -> None:
        self.names: set[str] = set()
        """Of all that was logged."""
        self.last_ms: int | None = None
        self._stream = stream
        self._find = partial(find_in, folder)
        self._series: dict[str, _Columns] = {}
        self._rows = 0

    def read(self, kind: int, message: Message) -> Iterator[Item]:
        if kind == HISTORY:
            yield from self._read_row(message)
        elif kind == STATS:
            self._read_stats(message)
        self._rows += 1
        if self._rows >= _ROWS_AT_ONCE:
            yield from self.flush()

    def flush(self) -> Iterator[Item]:
        for name, (values, steps, timestamps) in self._series.items():
            yield Points(self._stream, name, "", values, steps, timestamps)
        self._series, self._rows = {}, 0

    def _read_row(self, message: Message) -> Iterator[Item]:
        row: dict[str, Any] = {}
        for path, value in entries(message, 1):
            nest(row, path, value)
        steps = inner(message, 2)
        given = row.get("_step")
        step = given if isinstance(given, int) else integer(steps[0], 1) if steps else 0
        seconds = to_number(row.get("_timestamp"))
        ms = None if seconds is None else round(seconds * 1000)
        if ms is not None:
            self.last_ms = max(ms, self.last_ms or ms)
        for name, value in flatten(row):
            if name.split(".", 1)[0] in OWN_NAMES:
                continue
            self.names.add(name)
            number = to_number(value)
            if number is None:
                yield from to_items(name, value, step, self._find)
            else:
                self._add(name, number, step, ms)

    def _read_stats(self, message: Message) -> None:
        ms = milliseconds(message, 2)
        for path, value in entries(message, 3):
            number = to_number(value)
            if number is not None:
                self._add(f"sys.{'.'.join(path)}", number, None, ms)

    def _add(self, name: str, value: float, step: int | None, ms: int | None) -> None:
        columns = self._series.get(name)
        if columns is None:
            columns = self._series[name] = ([], [], [])
        columns[0].append(value)
        columns[1].append(step)
        columns[2].append(ms)


def flatten(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        whole = f"{before}{name}"
        if isinstance(value, Mapping) and "_type" not in value:
            yield from flatten(value, f"{whole}.")
        else:
            yield whole, value
