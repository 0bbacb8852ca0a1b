"""The events of one file, as points and files."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Optional

from svc_ml.importers.items import TORN, Item, LeftOut, Points
from svc_ml.importers.protobuf import read_spans_once, read_varint, to_dict, to_double, to_float32, to_signed, to_text
from svc_ml.importers.tensorboard.frames import Chunk, FrameReader
from svc_ml.importers.tensorboard.numbers import NumberAt, Numbers, find_series, join_numbers, read_numbers, to_times
from svc_ml.importers.tensorboard.tensor import find_float
from svc_ml.importers.tensorboard.values import SCALARS, Place, Plugin, to_items, to_scalar

_DOUBLE_AT = struct.Struct("<d").unpack_from
_FLOAT_AT = struct.Struct("<f").unpack_from
_WALL_TIME, _STEP, _SUMMARY = 1, 2, 5
_PLAIN_BYTES_MAX = 2_048
"""An event with one number has less."""
_NAMES = {4: "graphs", 6: "messages of the log", 8: "profiles of graphs", 9: "graphs"}

_NO_PLUGIN = Plugin("", b"")


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
        series: dict[str, list[Numbers]] = {}
        rest: list[tuple[int, int]] = []
        for length, starts in chunk.starts.items():
            found, left = read_numbers(chunk.data, starts, length, self._find_number)
            for it in found:
                series.setdefault(it.tag, []).append(it)
            rest.extend((start, length) for start in left)
        others: list[Item] = []
        for it in self._read_one_by_one(chunk.data, sorted(rest), others):
            series.setdefault(it.tag, []).append(it)
        for tag, parts in series.items():
            values, steps, walls = join_numbers(parts)
            timestamps, first, last = to_times(walls)
            for seconds in (first, last):
                self._note_time(seconds)
            yield Points(self._stream, tag, self.context, values, steps, timestamps)
        yield from others

    def _read_one_by_one(self, data: bytes, places: list[tuple[int, int]], others: list[Item]) -> Iterable[Numbers]:
        series: dict[str, Numbers] = {}
        # Most events have one number at their end. Behind their time and step the other bytes are the same, so they are known by
        # them, and the message is read once for each metric.
        known: dict[bytes, Numbers] = {}
        for start, length in places:
            end = start + length
            if data[start] != 9 or not 16 <= length < _PLAIN_BYTES_MAX:
                self._read_event(data[start:end], start, series, others)
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
            numbers = known.get(data[at : end - 4])
            if numbers is None:
                found = self._find_number(data[at:end], 0)
                if found is None or found[1] != end - 4 - at:
                    self._read_event(data[start:end], start, series, others)
                    continue
                numbers = known[data[at : end - 4]] = find_series(series, found[0])
            numbers.add(start, _FLOAT_AT(data, end - 4)[0], step if step < 2**63 else to_signed(step), wall)
        return series.values()

    def _find_number(self, event: bytes, begin: int) -> Optional[NumberAt]:
        """The one number of an event that has nothing else from `begin` on."""
        try:
            summary = read_spans_once(event, begin, len(event))
            values = read_spans_once(event, *summary[_SUMMARY])
            value = read_spans_once(event, *values[1])
            if len(summary) > 1 or len(values) > 1:
                return None
            tag = to_text(event[slice(*value[1])])
            if set(value) == {1, 2}:
                at, end = value[2]
                return (tag, at) if end - at == 4 else None
            if set(value) == {1, 8, 9}:
                self._note_plugin(tag, event[slice(*value[9])])
            if set(value) <= {1, 8, 9} and self._plugins.get(tag, _NO_PLUGIN).name == SCALARS:
                found = find_float(event, *value[8])
                return None if found is None else (tag, found)
        except (ValueError, KeyError):
            pass
        return None

    def _read_event(self, payload: bytes, place: int, series: dict[str, Numbers], others: list[Item]) -> None:
        try:
            event = to_dict(payload)
            wall = to_double(event.get(_WALL_TIME, [bytes(8)])[0])
            step = to_signed(event.get(_STEP, [0])[0])
            if wall and math.isfinite(wall) and (self.first_seconds is None or wall < self.first_seconds):
                self.first_seconds = wall
            for message in event.get(_SUMMARY, ()):
                for data in to_dict(message).get(1, ()):
                    self._read_value(to_dict(data), place, wall, step, series, others)
        except (ValueError, TypeError, struct.error) as error:
            others.append(LeftOut("records", f"{self.path}: one is no event ({error})"))
            return
        for field, name in _NAMES.items():
            if field in event:
                others.append(LeftOut(name, "not a value of the run"))

    def _read_value(
        self,
        value: dict[int, list[Any]],
        place: int,
        wall: float,
        step: int,
        series: dict[str, Numbers],
        others: list[Item],
    ) -> None:
        self._note_time(wall)
        tag = to_text(value.get(1, [b""])[0])
        if 9 in value:
            self._note_plugin(tag, value[9][0])
        known = self._plugins.get(tag, _NO_PLUGIN)
        number = to_float32(value[2][0]) if 2 in value else to_scalar(value, known)
        if number is not None:
            find_series(series, tag).add(place, number, step, wall)
            return
        ms = round(wall * 1000) if math.isfinite(wall) else 0
        others.extend(to_items(value, known, Place(tag, step, self.context, ms, self._stream)))

    def _note_plugin(self, tag: str, metadata: bytes) -> None:
        plugin = Plugin.read(metadata)
        if plugin.name:
            self._plugins[tag] = plugin

    def _note_time(self, seconds: float) -> None:
        if not math.isfinite(seconds):
            return
        if self.first_seconds is None or seconds < self.first_seconds:
            self.first_seconds = seconds
        if self.last_seconds is None or seconds > self.last_seconds:
            self.last_seconds = seconds
