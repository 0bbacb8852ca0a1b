"""Points of series at full resolution: the service writes them one by one, and here they become columns as they arrive."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, Optional

from svc_ml.read.column import Column
from svc_ml.read.connection import Connection
from svc_ml.read.table import Table
from svc_ml.transport.service import Unavailable

# The service writes each point as an object on its own line, and no object of a point holds another.
_BETWEEN = b"},\n{"

IsWanted = Callable[[str, Optional[str]], bool]
"""Of the name and the context of a series."""


class Points:
    """Points in columns; some 50 bytes each."""

    def __init__(self) -> None:
        self.columns = {
            "name": Column("text"),
            "context": Column("text"),
            "step": Column("integer"),
            "epoch": Column("integer"),
            "time": Column("time"),
            "value": Column("float"),
        }
        # One object for each text, not one for each point.
        self._texts: dict[Any, Any] = {}

    def add(self, read: list[dict[str, Any]]) -> None:
        share = self._texts.setdefault
        names = [share(it["metricName"], it["metricName"]) for it in read]
        contexts = [share(it["runContext"], it["runContext"]) for it in read]
        values = list(map(float, map(itemgetter("metricValue"), read)))
        numbers = [list(map(itemgetter(field), read)) for field in ("step", "epoch", "timestamp")]
        for column, part in zip(self.columns.values(), [names, contexts, *numbers, values]):
            column.extend(part)

    def series(self) -> set[tuple[str, Optional[str]]]:
        """Name and context of each."""
        return set(zip(self.columns["name"].stored, self.columns["context"].stored))

    def append(self, other: Points) -> None:
        for name, column in self.columns.items():
            column.append_all(other.columns[name])

    def to_table(self) -> Table:
        return Table(self.columns)


def read_points(connection: Connection, path: str, query: dict[str, Any], is_wanted: IsWanted) -> Points:
    """
    All points that the path answers, in its order. A lost connection begins again: an answer that is cut off counts for nothing.

    Raises what a connection raises.
    """

    def read() -> Points:
        points = Points()
        answer = connection.open(path, query, {"accept-encoding": "gzip"})
        try:
            for part in split(connection.blocks(answer)):
                points.add([it for it in json.loads(part) if is_wanted(it["metricName"], it["runContext"])])
        except ValueError as error:
            raise Unavailable(f"{connection.url} stopped in the middle of an answer") from error
        finally:
            answer.close()
        return points

    return connection.attempt(read)


def split(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Arrays of whole points, from `{"metrics":[...]}`. Raises ValueError when the end is missing."""
    rest = b""
    is_begun = False
    for block in blocks:
        rest += block
        if not is_begun:
            is_begun = b"[" in rest
            rest = rest[rest.index(b"[") + 1 :] if is_begun else rest
        cut = rest.rfind(_BETWEEN)
        if is_begun and cut != -1:
            yield b"[" + rest[: cut + 1] + b"]"
            rest = rest[cut + 2 :]
    end = rest.rstrip()
    if not is_begun or not end.endswith(b"}") or not end[:-1].rstrip().endswith(b"]"):
        raise ValueError("the end of the array is missing")
    yield b"[" + end[:-1].rstrip()
