"""
Series as an Apache Arrow IPC stream: a message with the schema, one for each batch of series, and an end mark.

Of long series it costs a quarter of the CPU of JSON, in the client and the service together (bench/forms.py). It is written
here, without pyarrow, which takes longer to import than a trainer should wait, and is no faster for so few columns. A batch can
stand in the spool by itself, and a request is the schema and the batches one after the other.

The metadata of a message is a FlatBuffer. Source: the Arrow columnar format 1.5 (Schema.fbs, Message.fbs).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, Optional, Union

from svc_ml.spool.series import Series, are_finite, has_any

CONTENT_TYPE = "application/vnd.apache.arrow.stream"

_SCHEMA_MESSAGE, _BATCH_MESSAGE = 1, 3
_VERSION_5 = 4
_MESSAGE_HEAD = struct.Struct("<iI")
"""What begins a message: -1, and how many bytes its metadata has."""
_END = _MESSAGE_HEAD.pack(-1, 0)


class NotArrow(Exception):
    """Something of it has no place in the columns, such as a step beyond 64 bits."""


def to_stream(experiment_key: str, batches: list[bytes]) -> bytes:
    """The body of a request."""
    return b"".join([_to_schema(experiment_key), *batches, _END])


# Series to a batch, and back


def encode_batch(series: Sequence[Series]) -> bytes:
    """Raises NotArrow."""
    names, contexts, values, steps, epochs, timestamps, first_indexes = zip(*series)
    body = _Body(list(map(len, values)))
    try:
        body.add_texts(names)
        body.add_texts(contexts)
        body.add_lists("d", [it if are_finite(it) else _with_one_nan(it) for it in values])
        for columns in (steps, epochs, timestamps):
            body.add_lists("q", [it if has_any(it) else None for it in columns])
        body.add_numbers("q", first_indexes)
    except (struct.error, OverflowError, UnicodeEncodeError, TypeError) as error:
        raise NotArrow from error
    return body.to_message()


def decode_batch(batch: bytes) -> list[Series]:
    """The series of which `encode_batch` made it."""
    (rows,) = struct.unpack_from("<q", batch, _ROWS_AT)
    places = struct.unpack_from(f"<{2 * _BUFFERS}q", batch, _BUFFERS_AT)
    buffers = iter([batch[_BODY_AT + at : _BODY_AT + at + size] for at, size in zip(places[::2], places[1::2])])
    names, contexts = _read_texts(buffers, rows), _read_texts(buffers, rows)
    values = [it or [] for it in _read_lists("d", buffers, rows)]
    steps, epochs, timestamps = (_read_lists("q", buffers, rows) for _ in range(3))
    first_indexes = _read_numbers("q", buffers, rows)
    return [Series(*row) for row in zip(names, contexts, values, steps, epochs, timestamps, first_indexes)]


def _with_one_nan(values: Sequence[float]) -> list[float]:
    """NaN has many forms, of which JSON has one: the same points must have the same bytes, however they are sent."""
    return [it if it == it else math.nan for it in values]


class _Body:
    """The buffers of a batch, in the order of the fields. Each begins at a multiple of 8."""

    def __init__(self, lengths: list[int]) -> None:
        """lengths: of the columns of each series."""
        self._rows = len(lengths)
        self._offsets = _to_offsets(lengths)
        self._nodes: list[int] = []
        self._places: list[int] = []
        self._parts: list[bytes] = []
        self._size = 0

    def add_texts(self, column: Sequence[str]) -> None:
        texts = [it.encode() for it in column]
        self._add(self._rows, 0, b"", _to_offsets(list(map(len, texts))), b"".join(texts))

    def add_lists(self, kind: str, column: Sequence[Optional[Sequence[Any]]]) -> None:
        given = [it or [] for it in column]
        bits = b""
        offsets = self._offsets
        if absent := column.count(None):
            bits = _to_bits([it is not None for it in column])
            offsets = _to_offsets(list(map(len, given)))
        self._add(self._rows, absent, bits, offsets)
        items = list(chain.from_iterable(given))
        self._add_items(kind, items, len(items))

    def add_numbers(self, kind: str, column: Sequence[Optional[int]]) -> None:
        self._add_items(kind, column, self._rows)

    def _add_items(self, kind: str, items: Sequence[Any], count: int) -> None:
        try:
            self._add(count, 0, b"", struct.pack(f"<{count}{kind}", *items))
        except struct.error:
            present = [it is not None for it in items]
            if all(present):
                raise
            numbers = struct.pack(f"<{count}{kind}", *[it or 0 for it in items])
            self._add(count, present.count(False), _to_bits(present), numbers)

    def _add(self, length: int, absent: int, *buffers: bytes) -> None:
        self._nodes += [length, absent]
        for it in buffers:
            self._places += [self._size, len(it)]
            self._parts += [it, bytes(-len(it) % 8)]
            self._size += len(it) + -len(it) % 8

    def to_message(self) -> bytes:
        head = bytearray(_BATCH_HEAD)
        struct.pack_into("<q", head, _BODY_BYTES_AT, self._size)
        struct.pack_into("<q", head, _ROWS_AT, self._rows)
        struct.pack_into(f"<{2 * _NODES}q", head, _NODES_AT, *self._nodes)
        struct.pack_into(f"<{2 * _BUFFERS}q", head, _BUFFERS_AT, *self._places)
        return b"".join([head, *self._parts])


def _to_offsets(lengths: list[int]) -> bytes:
    """Where each text or list begins, and the last one ends."""
    return struct.pack(f"<{len(lengths) + 1}i", 0, *accumulate(lengths))


def _to_bits(present: list[bool]) -> bytes:
    """A bit for each, the first one lowest."""
    digits = "".join("1" if it else "0" for it in reversed(present))
    return int(digits, 2).to_bytes((len(present) + 7) // 8, "little")


def _read_texts(buffers: Any, rows: int) -> list[str]:
    _, offsets, texts = next(buffers), _read_offsets(next(buffers), rows), next(buffers)
    return [texts[at:end].decode() for at, end in zip(offsets, offsets[1:])]


def _read_lists(kind: str, buffers: Any, rows: int) -> list[Any]:
    present, offsets = next(buffers), _read_offsets(next(buffers), rows)
    items = _read_numbers(kind, buffers, offsets[-1])
    return [items[at:end] if _has(present, row) else None for row, (at, end) in enumerate(zip(offsets, offsets[1:]))]


def _read_numbers(kind: str, buffers: Any, count: int) -> list[Any]:
    present, numbers = next(buffers), struct.unpack(f"<{count}{kind}", next(buffers))
    return [it if _has(present, at) else None for at, it in enumerate(numbers)] if present else list(numbers)


def _read_offsets(buffer: bytes, rows: int) -> tuple[int, ...]:
    return struct.unpack(f"<{rows + 1}i", buffer)


def _has(bits: bytes, at: int) -> bool:
    return not bits or bits[at // 8] >> at % 8 & 1 == 1


# Metadata

_Slot = Union[None, bytes, tuple[str, int]]


def _to_table(*slots: _Slot) -> bytes:
    """
    A table of FlatBuffers. A slot is a number with its format of `struct`, or what stands behind the table: another table, a
    text, a list. All offsets count from where they are written, so the result can stand at any multiple of 8.
    """
    places, size = [], 4
    for slot in slots:
        width = 0 if slot is None else 4 if isinstance(slot, bytes) else struct.calcsize(slot[0])
        size += -size % (width or 1)
        places.append(size if width else 0)
        size += width
    size += -size % 4
    table = bytearray(size) + struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), size, *places)
    # Where the list of places is, backwards: it follows.
    struct.pack_into("<i", table, 0, -size)
    for place, slot in zip(places, slots):
        if isinstance(slot, tuple):
            struct.pack_into("<" + slot[0], table, place, slot[1])
        elif slot is not None:
            table += bytes(-len(table) % 8)
            struct.pack_into("<I", table, place, len(table) - place)
            table += slot
    return bytes(table)


def _to_text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<I", len(encoded)) + encoded + b"\0"


def _to_list(*tables: bytes) -> bytes:
    content = bytearray(4 + 4 * len(tables))
    struct.pack_into("<I", content, 0, len(tables))
    for place, it in enumerate(tables, 1):
        content += bytes(-len(content) % 8)
        struct.pack_into("<I", content, 4 * place, len(content) - 4 * place)
        content += it
    return bytes(content)


def _to_message(kind: int, header: bytes) -> bytes:
    table = _to_table(("h", _VERSION_5), ("B", kind), header)
    # The first number says where the table begins.
    metadata = struct.pack("<II", 8, 0) + table + bytes(-len(table) % 8)
    return _MESSAGE_HEAD.pack(-1, len(metadata)) + metadata


_INT64 = (("B", 2), _to_table(("i", 64), ("B", 1)))
_FLOAT64 = (("B", 3), _to_table(("h", 2)))
_UTF8 = (("B", 5), _to_table())
_LIST = (("B", 12), _to_table())


def _to_field(name: str, kind: tuple[tuple[str, int], bytes], *children: bytes) -> bytes:
    may_be_null = ("B", 1)
    return _to_table(_to_text(name), may_be_null, *kind, None, _to_list(*children))


_FIELDS = _to_list(
    _to_field("metricName", _UTF8),
    _to_field("context", _UTF8),
    _to_field("values", _LIST, _to_field("item", _FLOAT64)),
    _to_field("steps", _LIST, _to_field("item", _INT64)),
    _to_field("epochs", _LIST, _to_field("item", _INT64)),
    _to_field("timestamps", _LIST, _to_field("item", _INT64)),
    _to_field("firstIndex", _INT64),
)
_NODES = 7 + 4
"""The fields, and the items of the lists."""
_BUFFERS = 2 * 3 + 4 * (2 + 2) + 2
"""Of texts what is null, offsets and bytes; of lists what is null and offsets; of numbers what is null and numbers."""


def _to_schema(experiment_key: str) -> bytes:
    key = _to_table(_to_text("experimentKey"), _to_text(experiment_key))
    return _to_message(_SCHEMA_MESSAGE, _to_table(None, _FIELDS, _to_list(key)))


# The metadata of a batch have numbers only, always at the same places.
_MESSAGE_AT = 24
_BODY_BYTES_AT = _MESSAGE_AT + 16
_BATCH_AT = 64
_ROWS_AT = _BATCH_AT + 16
_NODES_AT = 96
_BUFFERS_AT = _NODES_AT + 16 * _NODES + 8
_BODY_AT = _BUFFERS_AT + 16 * _BUFFERS


def _to_batch_head() -> bytes:
    head = bytearray(_BODY_AT)
    _MESSAGE_HEAD.pack_into(head, 0, -1, _BODY_AT - _MESSAGE_HEAD.size)
    struct.pack_into("<I", head, 8, _MESSAGE_AT - 8)
    # A table begins with the distance to its list of places: of version, kind, header and bytes of the body.
    struct.pack_into("<6H", head, 12, 12, 24, 4, 6, 8, 16)
    struct.pack_into("<ihBxI", head, _MESSAGE_AT, _MESSAGE_AT - 12, _VERSION_5, _BATCH_MESSAGE, _BATCH_AT - 32)
    # Of rows, nodes and buffers.
    struct.pack_into("<5H", head, 48, 10, 24, 16, 4, 8)
    nodes_from, buffers_from = _BATCH_AT + 4, _BATCH_AT + 8
    counts = (_NODES_AT - 4 - nodes_from, _BUFFERS_AT - 4 - buffers_from)
    struct.pack_into("<iII", head, _BATCH_AT, _BATCH_AT - 48, *counts)
    struct.pack_into("<I", head, _NODES_AT - 4, _NODES)
    struct.pack_into("<I", head, _BUFFERS_AT - 4, _BUFFERS)
    return bytes(head)


_BATCH_HEAD = _to_batch_head()
