"""The events of one file, as points and files."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

from svc_ml.importers.items import TORN, Item, LeftOut, Points
from svc_ml.importers.protobuf import read_varint, to_dict, to_double, to_float32, to_signed, to_text
from svc_ml.importers.tensorboard.frames import Chunk, FrameReader
from svc_ml.importers.tensorboard.values import Place, Plugin, to_items, to_scalar

_DOUBLE_AT = struct.Struct("<d").unpack_from
_FLOAT_AT = struct.Struct("<f").unpack_from
_WALL_TIME, _STEP, _SUMMARY = 1, 2, 5
_PLAIN_BYTES_MAX = 2_048
"""An event with one number has less."""
_NAMES = {4: "graphs", 6: "messages of the log", 8: "profiles of graphs", 9: "graphs"}

_Add = Callable[[Any], None]
_Columns = tuple[list[float], list[Optional[int]], list[float]]


class EventFile:
    """Goes on where it ended, when read again. Points are exactly the 32 bits that the file has."""

    def __init__(self, path: Path, stream: str, context: str) -> None:
        self.path = path
        self.context = context
        self.first_seconds: float | None = None
        """Of all events, also that which only begins the file."""
        self.last_seconds: float | None = None
        """Of values."""
        self._stream = stream
        self._frames = FrameReader(path)
        self._plugins: dict[str, Plugin] = {}
        """By tag: only the first value of a tag has it."""

    def read(self) -> Iterator[Item]:
        for chunk in self._frames.read():
            for offset in chunk.damaged:
                yield LeftOut("damaged records", f"{self.path}, at byte {offset}")
            yield from self._read_chunk(chunk)

    def left_out_at_end(self) -> Iterator[Item]:
        """What is torn off at the end, of a file that grows no more."""
        left = self._frames.left_bytes()
        if left > 0:
            yield LeftOut(TORN, f"{self.path} ends in the middle of one, at byte {self._frames.offset}")

    def _read_chunk(self, chunk: Chunk) -> Iterator[Item]:
        data = chunk.data
        series: dict[str, _Columns] = {}
        # Most events have one number. Behind their time and step their bytes are the same but for the value, so they are known
        # by them, and the message is read once for each metric.
        known: dict[bytes, tuple[_Add, _Add, _Add]] = {}
        others: list[Item] = []
        for start, length in chunk.places:
            end = start + length
            if data[start] != 9 or not 16 <= length < _PLAIN_BYTES_MAX:
                self._read_event(data[start:end], series, others)
                continue
            (wall,) = _DOUBLE_AT(data, start + 1)
            at = start + 9
            step = 0
            if data[at] == 16:
                byte = data[at + 1]
                at += 2
                if byte < 128:
                    step = byte
                else:
                    step, at = read_varint(data, at - 1)
            adds = known.get(data[at : end - 4])
            if adds is None:
                adds = self._learn(data[at:end], series)
                if adds is None:
                    self._read_event(data[start:end], series, others)
                    continue
                known[data[at : end - 4]] = adds
            adds[0](_FLOAT_AT(data, end - 4)[0])
            adds[1](step if step < 2**63 else to_signed(step))
            adds[2](wall)
        for tag, (values, steps, walls) in series.items():
            self._note_time(min(walls))
            self._note_time(max(walls))
            timestamps: list[Optional[int]] = [round(it * 1000) for it in walls]
            yield Points(self._stream, tag, self.context, values, steps, timestamps)
        yield from others

    def _learn(self, rest: bytes, series: dict[str, _Columns]) -> tuple[_Add, _Add, _Add] | None:
        """Where the numbers go of events that are like this one behind their step. None when it is not a plain number."""
        if len(rest) < 5 or rest[0] != 42 or rest[-5] != 21:
            return None
        try:
            event = to_dict(rest)
            if set(event) != {_SUMMARY} or len(event[_SUMMARY]) != 1:
                return None
            values = to_dict(event[_SUMMARY][0]).get(1, [])
            if len(values) != 1:
                return None
            value = to_dict(values[0])
            if set(value) != {1, 2} or not values[0][:-5].endswith(value[1][0]):
                return None
        except ValueError:
            return None
        return _appends(series, to_text(value[1][0]))

    def _read_event(self, payload: bytes, series: dict[str, _Columns], others: list[Item]) -> None:
        try:
            event = to_dict(payload)
            wall = to_double(event.get(_WALL_TIME, [bytes(8)])[0])
            step = to_signed(event.get(_STEP, [0])[0])
            if wall and (self.first_seconds is None or wall < self.first_seconds):
                self.first_seconds = wall
            for message in event.get(_SUMMARY, ()):
                for data in to_dict(message).get(1, ()):
                    self._read_value(to_dict(data), wall, step, series, others)
        except (ValueError, TypeError, struct.error) as error:
            others.append(LeftOut("records", f"{self.path}: one is no event ({error})"))
            return
        for field, name in _NAMES.items():
            if field in event:
                others.append(LeftOut(name, "not a value of the run"))

    def _read_value(
        self, value: dict[int, list[Any]], wall: float, step: int, series: dict[str, _Columns], others: list[Item]
    ) -> None:
        self._note_time(wall)
        tag = to_text(value.get(1, [b""])[0])
        if 9 in value:
            plugin = Plugin.read(value[9][0])
            if plugin.name:
                self._plugins[tag] = plugin
        known = self._plugins.get(tag, Plugin("", b""))
        number = to_float32(value[2][0]) if 2 in value else to_scalar(value, known)
        if number is not None:
            add_value, add_step, add_wall = _appends(series, tag)
            add_value(number)
            add_step(step)
            add_wall(wall)
            return
        place = Place(tag, step, self.context, round(wall * 1000), self._stream)
        others.extend(to_items(value, known, place))

    def _note_time(self, seconds: float) -> None:
        if self.first_seconds is None or seconds < self.first_seconds:
            self.first_seconds = seconds
        if self.last_seconds is None or seconds > self.last_seconds:
            self.last_seconds = seconds


def _appends(series: dict[str, _Columns], tag: str) -> tuple[_Add, _Add, _Add]:
    columns = series.get(tag)
    if columns is None:
        columns = series[tag] = ([], [], [])
    return columns[0].append, columns[1].append, columns[2].append
