"""The wire format of protocol buffers, as far as it is needed to read messages without their library."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Union

Value = Union[int, bytes]
Message = dict[int, list[Any]]
"""All values by the number of their field."""

_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")


def read_fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """
    The number and value of each field: of varints an integer, of everything else its bytes. Raises ValueError when the message is
    damaged.
    """
    for number, value, start, end in read_spans(data, 0, len(data)):
        yield number, data[start:end] if value is None else value


def read_spans(data: bytes, at: int, end: int) -> Iterator[tuple[int, int | None, int, int]]:
    """The fields of the message between two places: number, value of a varint, and where the bytes of all others begin and end."""
    while at < end:
        tag, at = read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            begin = at
            value, at = read_varint(data, at)
            yield number, value, begin, at
            continue
        if kind == 2:
            size, at = read_varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field has the wire type {kind}")
        if at + size > end:
            raise ValueError("a field reaches beyond its message")
        yield number, None, at, at + size
        at += size


def read_spans_once(data: bytes, at: int, end: int) -> dict[int, tuple[int, int]]:
    """Where the value of each field begins and ends. Raises ValueError also when a field comes twice."""
    found: dict[int, tuple[int, int]] = {}
    for number, _, begin, behind in read_spans(data, at, end):
        if number in found:
            raise ValueError(f"the field {number} comes twice")
        found[number] = (begin, behind)
    return found


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number reaches beyond its message")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def to_dict(data: Any) -> dict[int, list[Any]]:
    """All values by the number of their field."""
    found: dict[int, list[Any]] = {}
    for number, value in read_fields(data):
        found.setdefault(number, []).append(value)
    return found


def to_signed(value: int) -> int:
    """An int64 as it was meant."""
    return value - 2**64 if value >= 2**63 else value


def to_double(data: Any) -> float:
    return float(_DOUBLE.unpack(data)[0])


def to_float32(data: Any) -> float:
    return float(_FLOAT.unpack(data)[0])


def read_doubles(values: list[Any]) -> list[float]:
    """A repeated field of doubles, packed or not."""
    return [it[0] for part in values for it in _DOUBLE.iter_unpack(part)]


def read_floats(values: list[Any]) -> list[float]:
    return [it[0] for part in values for it in _FLOAT.iter_unpack(part)]


def to_text(data: Any) -> str:
    return bytes(data).decode("utf-8", "replace")


def text(message: Message, field: int) -> str:
    return to_text(message[field][0]) if field in message else ""


def inner(message: Message, field: int) -> list[Message]:
    return [to_dict(it) for it in message.get(field, ())]


def integer(message: Message, field: int) -> int:
    return to_signed(message.get(field, [0])[0])


def milliseconds(message: Message, field: int) -> int | None:
    """A google.protobuf.Timestamp."""
    for it in inner(message, field):
        return integer(it, 1) * 1000 + round(integer(it, 2) / 1e6)
    return None
