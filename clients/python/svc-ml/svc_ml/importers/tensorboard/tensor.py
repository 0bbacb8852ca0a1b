"""TensorProto: numbers and texts."""

from __future__ import annotations

import struct
from typing import Any, Optional

from svc_ml.importers.protobuf import (
    read_doubles,
    read_fields,
    read_floats,
    read_spans_once,
    read_varint,
    to_dict,
    to_signed,
)

_CONTENT = {1: "f", 2: "d", 3: "i", 4: "B", 5: "h", 6: "b", 9: "q", 10: "?", 17: "H", 19: "e", 22: "I", 23: "Q"}
"""Formats of `struct` by the type of the tensor."""


def read_numbers(data: bytes) -> list[float]:
    """Its numbers in one row. Raises ValueError when it has others than numbers."""
    tensor = to_dict(data)
    kind = tensor.get(1, [0])[0]
    if 4 in tensor:
        form = _CONTENT.get(kind)
        if form is None:
            raise ValueError(f"a tensor is of the type {kind}")
        found = [float(it[0]) for it in struct.iter_unpack("<" + form, tensor[4][0])]
    elif 5 in tensor:
        found = read_floats(tensor[5])
    elif 6 in tensor:
        found = read_doubles(tensor[6])
    else:
        found = [float(to_signed(it)) for field in (7, 10, 11, 16, 17) for it in _read_varints(tensor.get(field, []))]
    return _fill(found, tensor)


def find_float(event: bytes, at: int, end: int) -> Optional[int]:
    """Where the number of a tensor begins that is one float of 32 bits and no more; None of others. Raises ValueError."""
    fields = read_spans_once(event, at, end)
    kind, shape = fields.pop(1, (0, 0)), fields.pop(2, (0, 0))
    is_one = event[slice(*kind)] == b"\1" and shape[0] == shape[1]
    if not is_one or set(fields) not in ({4}, {5}):
        return None
    [(begin, behind)] = fields.values()
    return begin if behind - begin == 4 else None


def read_strings(data: bytes) -> list[bytes]:
    return [bytes(value) for number, value in read_fields(data) if number == 8 and isinstance(value, bytes)]


def _fill(found: list[float], tensor: dict[int, list[Any]]) -> list[float]:
    """A tensor may name its last number once for all that follow."""
    size = 1
    for dimension in to_dict(tensor.get(2, [b""])[0]).get(2, ()):
        size *= to_dict(dimension).get(1, [0])[0]
    return found + found[-1:] * (size - len(found)) if found else found or [0.0] * size


def _read_varints(values: list[Any]) -> list[int]:
    found = []
    for it in values:
        if isinstance(it, int):
            found.append(it)
            continue
        at = 0
        while at < len(it):
            number, at = read_varint(it, at)
            found.append(number)
    return found
