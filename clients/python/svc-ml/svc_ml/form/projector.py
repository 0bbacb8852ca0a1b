"""Embeddings as TensorBoard's projector reads them: a table of vectors, one of labels, and a JSON that names both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from svc_ml.fault import SvcError
from svc_ml.form.array import is_array, to_array
from svc_ml.number import to_float


def to_vectors(vectors: Any) -> tuple[bytes, tuple[int, int]]:
    """Vectors as TSV, one a line, and how many there are and how long each is."""
    rows = to_array(vectors).tolist() if is_array(vectors) else [list(it) for it in vectors]
    if not rows or any(not isinstance(it, list) for it in rows):
        raise SvcError("vectors is empty or no matrix, expected the shape (vectors, dimensions).")
    length = len(rows[0])
    if length == 0 or any(len(it) != length for it in rows):
        raise SvcError("vectors have different lengths, or none: expected the shape (vectors, dimensions).")
    text = "".join("\t".join(repr(to_float(it)) for it in row) + "\n" for row in rows)
    return text.encode(), (len(rows), length)


def to_labels(labels: Sequence[Any], count: int) -> bytes:
    """
    Labels as TSV. A list has a label for each vector; a table has a row for each, and before them one with the names of its
    columns.
    """
    rows = [list(it) if isinstance(it, (list, tuple)) else it for it in labels]
    is_table = any(isinstance(it, list) for it in rows)
    if len(rows) != count + is_table:
        with_names = " and one with the names of columns" if is_table else ""
        raise SvcError(f"labels has {len(rows)} rows, expected one for each of {count} vectors{with_names}.")
    if is_table and any(not isinstance(it, list) or len(it) != len(rows[0]) for it in rows):
        raise SvcError("the rows of labels have different lengths.")
    # The projector takes no line with names where there is only one column.
    lines = [it if isinstance(it, list) else [it] for it in (rows[1:] if is_table and len(rows[0]) == 1 else rows)]
    return "".join("\t".join(_to_cell(it) for it in line) + "\n" for line in lines).encode()


def _to_cell(value: Any) -> str:
    # A tab or a line end would begin another label.
    return " ".join(str(value).split())
