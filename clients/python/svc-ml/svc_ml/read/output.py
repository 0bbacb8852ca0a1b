"""Lines that a run printed."""

from __future__ import annotations

from typing import Any

from svc_ml.read.column import Column
from svc_ml.read.connection import Connection
from svc_ml.read.table import Table

_LINES_AT_ONCE = 10_000


def read_output(connection: Connection, key: str, filters: dict[str, Any], last: int | None) -> Table:
    """
    filters: `search` and `stderr` of `/experiment/output/lines`.
    last: only so many lines, from the end; None is for all.
    """
    pages: list[list[dict[str, Any]]] = []
    left = last
    start: int | None = None
    while left is None or left > 0:
        query = {**filters, "from": start, "limit": _LINES_AT_ONCE if left is None else min(left, _LINES_AT_ONCE)}
        direction = "forward" if last is None else "backward"
        answer = connection.get("/experiment/output/lines", experimentKey=key, direction=direction, **query)
        pages.append(answer["lines"])
        left = None if left is None else left - len(answer["lines"])
        start = answer["nextFrom"]
        if start is None:
            break
    lines = [it for page in (pages if last is None else reversed(pages)) for it in page]
    return Table(
        {
            "number": Column("integer", [it["number"] for it in lines]),
            "text": Column("text", [it["output"] for it in lines]),
            "stderr": Column("boolean", [it["stderr"] for it in lines]),
            "time": Column("time", [it["timestamp"] for it in lines]),
            "context": Column("text", [it["runContext"] for it in lines]),
        }
    )
