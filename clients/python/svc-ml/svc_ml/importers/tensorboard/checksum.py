"""CRC-32C of frames, masked as TensorFlow does."""

from __future__ import annotations

from typing import Any

_MASK_DELTA = 0xA282EAD8


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
    crc = 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def find_damaged(data: bytes, starts: list[int], length: int) -> list[int]:
    """
    Which of the payloads that begin at `starts`, all of one length, have another checksum than the one behind them. With numpy all
    are taken at once, byte by byte.
    """
    numpy = _find_numpy()
    if numpy is None or len(starts) < 16:
        return [
            at
            for at in starts
            if masked_crc(data[at : at + length]) != int.from_bytes(data[at + length : at + length + 4], "little")
        ]
    table = numpy.array(_TABLE, dtype="uint32")
    bytes_of = numpy.frombuffer(data, dtype="uint8")
    places = numpy.array(starts, dtype="int64")
    crc = numpy.full(len(starts), 0xFFFFFFFF, dtype="uint32")
    for _ in range(length):
        crc = table[(crc ^ bytes_of[places]) & 255] ^ (crc >> 8)
        places += 1
    crc ^= numpy.uint32(0xFFFFFFFF)
    masked = (crc >> 15 | crc << 17) + numpy.uint32(_MASK_DELTA)
    given = sum(bytes_of[places + at].astype("uint32") << numpy.uint32(8 * at) for at in range(4))
    return [starts[at] for at in numpy.nonzero(masked != given)[0].tolist()]


def _find_numpy() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy
