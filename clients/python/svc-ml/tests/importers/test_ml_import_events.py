"""Numbers of event files are read many at once where numpy is installed: the same as one by one, and as they were written."""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path
from typing import Any, Optional

import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboardX.proto.tensor_pb2 import TensorProto
from tensorboardX.record_writer import RecordWriter

from ml_imports import as_float32, bits
from svc_ml.importers.items import Points
from svc_ml.importers.tensorboard import checksum, numbers
from svc_ml.importers.tensorboard.events import EventFile

Written = dict[str, list[tuple[Optional[int], Optional[int], str]]]
"""Step, milliseconds and the bits of the value, by tag."""

SCALARS = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
STEPS = [0, 1, 127, 128, 16_383, 16_384, 2**31, 2**40, 2**63 - 1, -1, -(2**63)]
TAGS = ["loss", "loss2", "ssol", "layer0/grad", "layer1/grad", "läyer", "a" * 300, ""]


def to_value(kind: str, tag: str, value: float) -> Summary.Value:
    if kind == "simple":
        return Summary.Value(tag=tag, simple_value=value)
    if kind == "float_val":
        return Summary.Value(tag=tag, metadata=SCALARS, tensor=TensorProto(dtype=1, float_val=[value]))
    if kind == "double":
        return Summary.Value(tag=tag, metadata=SCALARS, tensor=TensorProto(dtype=2, double_val=[value]))
    content = TensorProto(dtype=1, tensor_content=struct.pack("<f", value))
    return Summary.Value(tag=tag, metadata=SCALARS, tensor=content)


def write_events(path: Path, count: int, seed: int) -> Written:
    choose = random.Random(seed)
    written: Written = {}
    writer = RecordWriter(str(path))
    writer.write(Event(wall_time=1.7e9, file_version="brain.Event:2").SerializeToString())
    step = 0
    for _ in range(count):
        step = choose.choice(STEPS) if choose.random() < 0.1 else min(step + 1, 2**63 - 1)
        wall = 1.7e9 + step % 1e6 / 7
        if choose.random() < 0.02:
            wall = choose.choice([1.7e9 + choose.random(), 0.0, math.nan, math.inf])
        event = Event(wall_time=wall, step=step)
        for _ in range(2 if choose.random() < 0.05 else 1):
            tag = choose.choice(TAGS)
            kind = choose.choices(["simple", "float_val", "content", "double"], [8, 2, 2, 1])[0]
            value = choose.choice([choose.gauss(0, 1), 0.0, -0.0, math.inf, math.nan, 1e-45])
            event.summary.value.append(to_value(kind, tag, value))
            exact = value if kind == "double" else as_float32(value)
            ms = round(wall * 1000) if math.isfinite(wall) else None
            written.setdefault(tag, []).append((step, ms, bits(exact)))
        writer.write(event.SerializeToString())
    writer.close()
    return written


def read_events(file: EventFile) -> Written:
    found: Written = {}
    for it in file.read():
        assert isinstance(it, Points), it
        assert it.steps is not None and it.timestamps is not None
        rows = zip(it.steps, it.timestamps, map(bits, it.values))
        found.setdefault(it.name, []).extend(rows)
    return found


def without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (checksum, numbers):
        monkeypatch.setattr(module, "find_numpy", lambda: None)


@pytest.mark.parametrize("has_numpy", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_those_that_were_written_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, has_numpy: bool
) -> None:
    written = write_events(tmp_path / "tfevents", 5_000, seed)
    if not has_numpy:
        without_numpy(monkeypatch)
    assert read_events(EventFile(tmp_path / "tfevents", "", "")) == written


@pytest.mark.parametrize("has_numpy", [True, False])
def test_each_byte_that_is_wrong_costs_its_record_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_numpy: bool
) -> None:
    path = tmp_path / "tfevents"
    writer = RecordWriter(str(path))
    places = []
    for step in range(400):
        places.append(path.stat().st_size if path.exists() else 0)
        summary = Summary(value=[to_value("simple", "loss", step)])
        writer.write(Event(wall_time=1.7e9 + step, step=step, summary=summary).SerializeToString())
        writer.flush()
    writer.close()
    data = bytearray(path.read_bytes())
    choose = random.Random(1)
    wrong = set(choose.sample(range(400), 60))
    for step in wrong:
        end = places[step + 1] if step < 399 else len(data)
        data[choose.randrange(places[step] + 12, end)] ^= 1 << choose.randrange(8)
    path.write_bytes(bytes(data))
    if not has_numpy:
        without_numpy(monkeypatch)
    left: list[Any] = []
    steps: list[Optional[int]] = []
    for it in EventFile(path, "", "").read():
        if isinstance(it, Points):
            steps.extend(it.steps or [])
        else:
            left.append(it)
    assert steps == [it for it in range(400) if it not in wrong] and len(left) == 60
