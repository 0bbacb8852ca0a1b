"""The kinds of records in a spool, and their payloads."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from svc_ml.client.spool.log import Record

POINTS = 1
"""Series for metrics/batch, as JSON objects joined by commas."""
LINES = 2
"""Lines of output, as JSON objects joined by commas."""
CALL = 3
"""One write with a JSON body: `{"method", "path", "body"}`."""
FILE = 4
"""One upload: `{"path", "file", "query", "is_copy"}`; `file` is a path, from the folder of the spool when it is a copy."""
ARTIFACT = 5
"""A version of an artifact with its files, each as above: see artifact.py."""
REGISTRATION = 6
"""A version of a registered model: see registry.py. Behind the files that it is made of."""

Point = tuple[str, str, float, Optional[int], Optional[int], int]
"""Name, context, value, step, epoch, ms since the Unix epoch."""

_JSON = json.JSONEncoder(separators=(",", ":")).encode
_Columns = tuple[list[float], list[Optional[int]], list[Optional[int]], list[int]]


def encode_points(points: list[Point]) -> Record:
    """Points as columns, one series for each name and context: half the bytes of rows, and quicker to read."""
    series: dict[tuple[str, str], _Columns] = {}
    for name, context, value, step, epoch, ms in points:
        columns = series.get((name, context))
        if columns is None:
            columns = series[name, context] = ([], [], [], [])
        columns[0].append(value)
        columns[1].append(step)
        columns[2].append(epoch)
        columns[3].append(ms)
    payload = ",".join(encode_series(name, context, *columns) for (name, context), columns in series.items())
    return Record(POINTS, len(points), payload.encode())


def encode_series(
    name: str,
    context: str,
    values: list[float],
    steps: list[int | None] | None,
    epochs: list[int | None] | None,
    timestamps: Sequence[int | None] | None,
    first_index: int | None = None,
) -> str:
    """first_index: how many points of the series came before, of those that are sent under the same idempotency key."""
    # One look at the sum tells whether all are finite; when it overflows the slow way is taken for nothing.
    plain = values if math.isfinite(sum(values)) else [_name_if_not_finite(it) for it in values]
    parts = [f'{{"metricName":{_JSON(name)}']
    if context:
        parts.append(f'"context":{_JSON(context)}')
    if first_index is not None:
        parts.append(f'"firstIndex":{first_index}')
    if steps is not None and any(it is not None for it in steps):
        parts.append(f'"steps":{_JSON(steps)}')
    if epochs is not None and any(it is not None for it in epochs):
        parts.append(f'"epochs":{_JSON(epochs)}')
    if timestamps is not None and any(it is not None for it in timestamps):
        parts.append(f'"timestamps":{_JSON(timestamps)}')
    parts.append(f'"values":{_JSON(plain)}}}')
    return ",".join(parts)


def _name_if_not_finite(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def encode_lines(lines: list[dict[str, Any]]) -> Record:
    """Lines as the service takes them: `output`, `stderr`, `localTimestamp` (ms), `offset`."""
    return Record(LINES, len(lines), ",".join(map(_JSON, lines)).encode())


def encode_json(kind: int, content: dict[str, Any]) -> Record:
    return Record(kind, 1, _JSON(content).encode())


def delete_copies(folder: Path, sent: Record) -> None:
    """Deletes the copies that were made of files, once they were uploaded."""
    content = json.loads(sent.payload)
    for file in content.get("files", [content]):
        if file["is_copy"]:
            (folder / file["file"]).unlink(missing_ok=True)
