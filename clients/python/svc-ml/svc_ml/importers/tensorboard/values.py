"""Values of summaries that are not numbers: texts, images, sound, histograms, hyperparameters, curves."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from svc_ml.importers.items import File, Item, LeftOut, Parameter
from svc_ml.importers.protobuf import read_doubles, to_dict, to_double, to_text
from svc_ml.importers.tensorboard.histogram import from_buckets, from_rows
from svc_ml.importers.tensorboard.tensor import read_numbers, read_strings

SCALARS = "scalars"
_IMAGE, _HISTOGRAM, _AUDIO, _TENSOR = 4, 5, 6, 8
_ENDINGS = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpg", b"GIF8": "gif", b"RIFF": "wav", b"BM": "bmp"}


class Plugin(NamedTuple):
    name: str
    content: bytes

    @classmethod
    def read(cls, metadata: bytes) -> Plugin:
        data = to_dict(to_dict(metadata).get(1, [b""])[0])
        return cls(to_text(data.get(1, [b""])[0]), data.get(2, [b""])[0])


class Place(NamedTuple):
    """Where a value stands."""

    tag: str
    step: int
    context: str
    ms: int
    stream: str

    def to_file(self, data: bytes, type: str, ending: str, part: int = 0) -> File:
        identity = f"{self.stream}\0{self.tag}\0{self.step}\0{self.ms}\0{type}\0{part}"
        name = self.tag + (f"/{part}" if part else "")
        metadata = {"tag": self.tag, "timestamp": self.ms}
        return File(identity, f"{name}.{ending}", data, type, self.step, self.context, metadata)


def to_scalar(value: dict[int, list[Any]], plugin: Plugin) -> Optional[float]:
    """The number of a tensor of the plugin for scalars."""
    if plugin.name != SCALARS or _TENSOR not in value:
        return None
    numbers = read_numbers(value[_TENSOR][0])
    return numbers[0] if numbers else None


def to_items(value: dict[int, list[Any]], plugin: Plugin, place: Place) -> Iterator[Item]:
    if plugin.name == "hparams":
        yield from _read_hparams(plugin.content)
    elif _IMAGE in value:
        data = to_dict(value[_IMAGE][0]).get(4, [b""])[0]
        yield place.to_file(data, "image", _ending(data, "png"))
    elif _HISTOGRAM in value:
        yield _to_histogram(_from_proto(to_dict(value[_HISTOGRAM][0])), place)
    elif _AUDIO in value:
        data = to_dict(value[_AUDIO][0]).get(4, [b""])[0]
        yield place.to_file(data, "audio", _ending(data, "wav"))
    elif _TENSOR in value:
        yield from _read_tensor(value[_TENSOR][0], plugin, place)
    else:
        yield LeftOut("values", f"{place.tag}: of a kind that is not known")


def _read_tensor(tensor: bytes, plugin: Plugin, place: Place) -> Iterator[Item]:
    if plugin.name == "text":
        text = b"\n".join(read_strings(tensor))
        yield place.to_file(text, "text-sample", "txt")
    elif plugin.name == "images":
        # Width and height as text, and then the images.
        for at, data in enumerate(read_strings(tensor)[2:]):
            yield place.to_file(data, "image", _ending(data, "png"), at)
    elif plugin.name == "audio":
        parts = [it for it in read_strings(tensor) if it[:4] in (b"RIFF", b"OggS", b"fLaC", b"ID3\3")]
        for at, data in enumerate(parts):
            yield place.to_file(data, "audio", _ending(data, "wav"), at)
    elif plugin.name == "histograms":
        numbers = read_numbers(tensor)
        yield _to_histogram(from_rows([numbers[at : at + 3] for at in range(0, len(numbers), 3)]), place)
    elif plugin.name == "pr_curves":
        yield _to_curve(read_numbers(tensor), place)
    else:
        yield LeftOut(f"values of the plugin {plugin.name or '(none)'}", "this plugin has nothing like it here")


def _from_proto(proto: dict[int, list[Any]]) -> dict[str, Any] | None:
    least, greatest, count, total, squares = (to_double(proto.get(it, [bytes(8)])[0]) for it in range(1, 6))
    found = from_buckets(least, greatest, read_doubles(proto.get(6, [])), read_doubles(proto.get(7, [])))
    if found is None:
        return None
    mean = total / count if count else None
    deviation = math.sqrt(max(0.0, squares / count - mean * mean)) if mean is not None and math.isfinite(mean) else None
    of_all = {"min": least, "max": greatest, "mean": mean, "std": deviation}
    return {**found, **{name: it if it is not None and math.isfinite(it) else None for name, it in of_all.items()}}


def _to_histogram(found: dict[str, Any] | None, place: Place) -> Item:
    if found is None:
        return LeftOut("histograms", f"{place.tag}: its edges are not finite or do not rise")
    data = json.dumps({"version": 1, "name": place.tag, **found}).encode()
    return place.to_file(data, "histogram3d", "json")


def _to_curve(numbers: list[float], place: Place) -> Item:
    """Rows of one length: true and false positives, true and false negatives, precision, recall; one column for each threshold."""
    width = len(numbers) // 6
    precision, recall = numbers[4 * width : 5 * width], numbers[5 * width : 6 * width]
    if not width or not all(map(math.isfinite, precision + recall)):
        return LeftOut("curves", f"{place.tag}: its numbers are not finite")
    data = json.dumps({"name": place.tag, "x": recall, "y": precision}).encode()
    return place.to_file(data, "curve", "json")


def _read_hparams(content: bytes) -> Iterator[Item]:
    """Of the three messages of the plugin, that with the values; the others are definitions of the table, and the end of a session."""
    for start in to_dict(content).get(3, ()):
        for entry in to_dict(start).get(1, ()):
            pair = to_dict(entry)
            yield Parameter(to_text(pair.get(1, [b""])[0]), _read_struct(pair.get(2, [b""])[0]))


def _read_struct(data: bytes) -> Any:
    """A google.protobuf.Value."""
    fields = to_dict(data)
    if 2 in fields:
        return to_double(fields[2][0])
    if 3 in fields:
        return to_text(fields[3][0])
    if 4 in fields:
        return bool(fields[4][0])
    if 5 in fields:
        pairs = (to_dict(it) for it in to_dict(fields[5][0]).get(1, ()))
        return {to_text(it.get(1, [b""])[0]): _read_struct(it.get(2, [b""])[0]) for it in pairs}
    if 6 in fields:
        return [_read_struct(it) for it in to_dict(fields[6][0]).get(1, ())]
    return None


def _ending(data: bytes, otherwise: str) -> str:
    return next((ending for magic, ending in _ENDINGS.items() if data.startswith(magic)), otherwise)
