"""Tables as rows of cells, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from svc_ml.fault import SvcError


def to_rows(table: Iterable[Any], headers: bool | Sequence[str] | None) -> list[list[Any]]:
    rows = list(table)
    names = None if headers is None or isinstance(headers, bool) else list(headers)
    if not any(isinstance(it, Mapping) for it in rows):
        return ([names] if names is not None else []) + [list(it) for it in rows]
    odd = next((it for it in rows if not isinstance(it, Mapping)), None)
    if odd is not None:
        raise SvcError(f"a row is a {type(odd).__name__} and others are dictionaries: give rows of one kind.")
    # Every column that some row has, in the order in which they first come.
    columns = names if names is not None else list(dict.fromkeys(name for row in rows for name in row))
    return ([] if headers is False else [columns]) + [[row.get(name) for name in columns] for row in rows]


def to_csv(rows: list[list[Any]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()
