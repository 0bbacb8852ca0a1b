"""The kinds of records in a spool, and their payloads."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any, Optional

from svc_ml.client.spool.log import Record
from svc_ml.spool import arrow
from svc_ml.spool.series import Series, from_json, to_json

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
POINTS_ARROW = 7
"""Series for metrics/batch, as a batch of an Arrow stream: see arrow.py. Where JSON costs less, or is needed, they are POINTS."""

Point = tuple[str, str, float, Optional[int], Optional[int], int]
"""Name, context, value, step, epoch, ms since the Unix epoch."""

_JSON = json.JSONEncoder(separators=(",", ":")).encode
_Columns = tuple[list[float], list[Optional[int]], list[Optional[int]], list[int]]
_ARROW_POINTS_LEAST = 100
"""Fewer points cost as much as JSON, or more, in the client and the service together."""


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
    return encode_series([Series(name, context, *columns) for (name, context), columns in series.items()])


def encode_series(series: list[Series]) -> Record:
    count = sum(len(it.values) for it in series)
    if count >= _ARROW_POINTS_LEAST:
        try:
            return Record(POINTS_ARROW, count, arrow.encode_batch(series))
        except arrow.NotArrow:
            pass
    return Record(POINTS, count, ",".join(map(to_json, series)).encode())


def read_series(record: Record) -> list[Series]:
    return from_json(record.payload) if record.kind == POINTS else arrow.decode_batch(record.payload)


def to_arrow_batches(records: list[Record]) -> list[bytes] | None:
    """The points of records as batches of a stream; None where all were JSON, or one of them has to be."""
    if all(it.kind == POINTS for it in records):
        return None
    batches: list[bytes] = []
    try:
        for kind, following in groupby(records, key=lambda it: it.kind):
            if kind == POINTS_ARROW:
                batches += [it.payload for it in following]
            else:
                # One batch for all of them: each costs the service as much as ten points.
                batches.append(arrow.encode_batch([it for record in following for it in read_series(record)]))
    except arrow.NotArrow:
        return None
    return batches


def to_json_series(records: list[Record]) -> bytes:
    """The points of records as JSON objects joined by commas."""
    return b",".join(
        it.payload if it.kind == POINTS else ",".join(map(to_json, read_series(it))).encode() for it in records
    )


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
