"""Values of a row of the history that are not numbers: histograms, pictures and other files, texts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Optional, Union

from svc_ml.fault import SvcError
from svc_ml.form.histogram import take_counts
from svc_ml.form.table import to_csv
from svc_ml.importers.items import Download, File, Item, LeftOut, Other

_TYPES = {
    "image-file": "image",
    "audio-file": "audio",
    "video-file": "video",
    "html-file": "asset",
    "object3D-file": "asset",
    "molecule-file": "asset",
    "plotly-file": "asset",
    "bokeh-file": "asset",
}
_SEVERAL = {"images/separated": "image", "images": "image", "audio": "audio", "videos": "video", "html": "asset"}
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_number(value: Any) -> Optional[float]:
    """None of everything that is no number. Whole numbers beyond 2^53 are rounded to the nearest float."""
    if isinstance(value, str):
        return _NOT_FINITE.get(value)
    try:
        return float(value) if isinstance(value, (int, float)) else None
    except OverflowError:
        return None


FindFile = Callable[[str], Union[Path, Download, None]]
"""A file of the run by its path; None when it is not there."""


def find_in(folder: Path, path: str) -> Optional[Path]:
    found = folder / path
    return found if path and found.is_file() else None


def to_items(name: str, value: Any, step: int, find: FindFile) -> Iterator[Item]:
    kind = value.get("_type") if isinstance(value, Mapping) else None
    if kind == "histogram":
        yield _to_histogram(name, value, step)
    elif kind in ("table-file", "partitioned-table", "joined-table"):
        yield _to_table(name, value, step, find)
    elif kind in _TYPES:
        yield _to_file(name, value.get("path"), _TYPES[kind], step, find, value.get("caption"))
    elif kind in _SEVERAL:
        paths = value.get("filenames") or [it.get("path") for it in value.get("items", [])]
        captions = value.get("captions") or [None] * len(paths)
        for at, path in enumerate(paths):
            shown = name if len(paths) == 1 else f"{name}/{at}"
            yield _to_file(shown, path, _SEVERAL[kind], step, find, captions[at] if captions is not False else None)
    elif kind is not None:
        yield LeftOut(f"values of the type {kind}", "there is nothing like it here")
    elif value is not None:
        yield Other(name, value if isinstance(value, str) else json.dumps(value))


def _to_histogram(name: str, value: Mapping[str, Any], step: int) -> Item:
    counts = value.get("values", [])
    edges = value.get("bins")
    packed = value.get("packedBins")
    if edges is None and packed is not None:
        edges = [packed["min"] + packed["size"] * at for at in range(packed["count"] + 1)]
    try:
        found = take_counts(counts, edges or [])
    except (SvcError, TypeError) as error:
        return LeftOut("histograms", f"{name}: {error or 'its counts are no whole numbers'}")
    data = json.dumps({"version": 1, "name": name, **found}).encode()
    return File(f"history\0{name}\0{step}", f"{name}.json", data, "histogram3d", step)


def _to_table(name: str, value: Mapping[str, Any], step: int, find: FindFile) -> Item:
    path = str(value.get("path") or "")
    data = find(path)
    if data is None:
        return LeftOut("tables", f"{name}: its file {path} is not there")
    found = data.fetch() if isinstance(data, Download) else data
    try:
        table = json.loads(found.read_bytes())
        rows = [table["columns"], *table["data"]]
    except (OSError, ValueError, LookupError) as error:
        return LeftOut("tables", f"{path} cannot be read: {error}")
    finally:
        if found is not data:
            found.unlink()
    return File(f"history\0{name}\0{step}", f"{name}.csv", to_csv(rows).encode(), "dataframe", step)


def _to_file(name: str, path: Any, type: str, step: int, find: FindFile, caption: Optional[str]) -> Item:
    found = find(str(path or ""))
    if found is None:
        return LeftOut("files", f"{name}: {path} is not there")
    metadata = None if caption is None else {"caption": caption}
    return File(f"history\0{name}\0{step}", f"{name}{Path(str(path)).suffix}", found, type, step, "", metadata)
