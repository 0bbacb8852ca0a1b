"""Values of Aim that are not numbers: texts, pictures, sound, distributions, figures."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, Optional

from svc_ml.importers.items import File, Item, LeftOut

_TYPES = {"aim.image": "image", "aim.audio": "audio", "aim.text": "text-sample", "aim.figure": "asset"}


def to_items(kind: str, name: str, context: str, step: int, value: Any) -> Iterator[Item]:
    """kind: of one value, without `list()` around it."""
    several = value if isinstance(value, (list, tuple)) else [value]
    for at, it in enumerate(several):
        shown = name if len(several) == 1 else f"{name}/{at}"
        identity = f"{kind}\0{name}\0{context}\0{step}\0{at}"
        if kind == "aim.distribution":
            yield _to_histogram(it.storage, shown, identity, step, context)
        elif kind in _TYPES:
            data = it.storage["data"]
            content = data.load() if hasattr(data, "load") else data
            content = content.encode() if isinstance(content, str) else bytes(content)
            caption = it.storage.get("caption", "")
            ending = _find_ending(kind, it.storage)
            metadata = {"caption": caption} if caption else None
            yield File(identity, f"{shown}.{ending}", content, _TYPES[kind], step, context, metadata)
        else:
            yield LeftOut(f"values of the type {kind}", "there is nothing like it here")


def _find_ending(kind: str, storage: Any) -> str:
    if kind == "aim.text":
        return "txt"
    if kind == "aim.figure":
        return "json"
    form: Optional[str] = storage.get("format", None)
    return (form or "png").lower()


def _to_histogram(storage: Any, name: str, identity: str, step: int, context: str) -> Item:
    import numpy

    counts = numpy.frombuffer(storage["data"].load(), dtype=storage["dtype"], count=storage["bin_count"]).tolist()
    low, high = storage["range"]
    edges = numpy.linspace(low, high, num=len(counts) + 1).tolist()
    if not all(map(math.isfinite, edges)) or any(first >= second for first, second in zip(edges, edges[1:])):
        return LeftOut("distributions", f"{name}: its range is empty or not finite")
    whole = [int(it) if it == int(it) else it for it in counts]
    content = {"version": 1, "name": name, "edges": edges, "counts": whole, "count": sum(whole)}
    return File(identity, f"{name}.json", json.dumps(content).encode(), "histogram3d", step, context)
