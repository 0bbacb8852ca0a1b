"""CRC-32C of frames, masked as TensorFlow does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from svc_ml.importers.tensorboard.columns import Columns, find_numpy

_MASK_DELTA = 0xA282EAD8
_COLUMNS_MAX = 2_048


def _to_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 if crc & 1 else crc >> 1
        table.append(crc)
    return table


_TABLE = _to_table()


def masked_crc(data: bytes) -> int:
    return int(_mask(_crc(data)))


def find_damaged(data: bytes, starts: Sequence[int], length: int) -> list[int]:
    """Which of the payloads that begin at `starts`, all of one length, have another checksum than the one behind them."""
    numpy = find_numpy()
    if numpy is None or len(starts) < 16 or length > _COLUMNS_MAX:
        return [
            at
            for at in starts
            if masked_crc(data[at : at + length]) != int.from_bytes(data[at + length : at + length + 4], "little")
        ]
    columns = Columns(data, starts, length + 4)
    wrong = numpy.nonzero(_mask(_crc_of_all(columns, length, numpy)) != columns.read("<u4", length))[0]
    return [starts[at] for at in wrong.tolist()]


def _crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _mask(crc: Any) -> Any:
    """Of one, or of an array of uint32."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


_shifted: list[Any] = []
"""At n: what a byte changes in a checksum when n bytes follow, by its value."""


def _crc_of_all(columns: Columns, length: int, numpy: Any) -> Any:
    """
    The checksum is a sum, without carry, of what each byte adds by its place: a column in which all bytes are the same is looked up
    once for all payloads.
    """
    if not _shifted:
        _shifted.append(numpy.array(_TABLE, dtype="uint32"))
    while len(_shifted) < length:
        _shifted.append(_shifted[0][_shifted[-1] & 255] ^ _shifted[-1] >> 8)
    crc = numpy.full(len(columns), _crc(bytes(length)), dtype="uint32")
    for at, column in enumerate(columns.bytes[:length]):
        table = _shifted[length - 1 - at]
        crc ^= table[column[0]] if columns.is_constant(at) else table[column]
    return crc
