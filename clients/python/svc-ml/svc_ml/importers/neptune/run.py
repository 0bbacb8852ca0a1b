"""Runs of an export of Neptune. A folder for each project has the parts of each run, `<run>_part_<n>.parquet`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Optional

from svc_ml.fault import SvcError
from svc_ml.form.histogram import take_counts
from svc_ml.importers.items import (
    File,
    Item,
    LeftOut,
    Other,
    Parameter,
    Points,
    Source,
    SourceRun,
    State,
    Tag,
    to_digest,
)
from svc_ml.importers.table.cells import is_empty, to_ms, to_step
from svc_ml.importers.table.rows import open_parquet

_VALUES = {
    "int": "int_value",
    "float": "float_value",
    "string": "string_value",
    "bool": "bool_value",
    "datetime": "datetime_value",
    "string_set": "string_set_value",
}
_ROWS_AT_ONCE = 20_000
_MONITORING = "monitoring/"
_OTHERS = {"sys/description": "notes", "sys/id": "neptune id", "sys/owner": "owner", "sys/group_tags": "group tags"}
_OF_NEPTUNE = "attributes of Neptune's own (sys/...)"


class NeptuneSource(Source):
    kind = "neptune"

    def __init__(self, data: Path, files: Optional[Path], multiplier: int) -> None:
        self._data = data
        self._files = files
        self._multiplier = multiplier

    def runs(self) -> Iterable[SourceRun]:
        found: dict[tuple[str, str], NeptuneRun] = {}
        for path in sorted(self._data.rglob("*_part_*.parquet"), key=_to_order):
            project, run = _read_ids(path)
            known = found.setdefault((project, run), NeptuneRun(project, run, self._files, self._multiplier))
            known.parts.append(path)
        if not found:
            raise SvcError(f"{self._data}: there are no files *_part_*.parquet in it, as neptune-exporter writes them.")
        return found.values()


class NeptuneRun(SourceRun):
    def __init__(self, project: str, run: str, files: Optional[Path], multiplier: int) -> None:
        self.identity = f"{project}\0{run}"
        self.name = run
        self.project = project.rsplit("/", 1)[-1]
        self.parts: list[Path] = []
        self._files = files
        self._multiplier = multiplier
        self._is_read: set[Path] = set()

    def take_over(self, later: SourceRun) -> None:
        if isinstance(later, NeptuneRun):
            self.parts = later.parts

    def size(self) -> int:
        return sum(it.stat().st_size for it in self.parts)

    def read(self) -> Iterator[Item]:
        start: int | None = None
        end: int | None = None
        error: str | None = None
        new = [it for it in self.parts if it not in self._is_read]
        for path in new:
            for batch in open_parquet(path).iter_batches(_ROWS_AT_ONCE):
                series: dict[str, Points] = {}
                left: dict[tuple[str, str], int] = {}
                for row in batch.to_pylist():
                    name, kind = row["attribute_path"], row["attribute_type"]
                    if kind == "float_series":
                        self._add_point(row, series, left)
                    elif name == "sys/creation_time":
                        start = to_ms(row["datetime_value"])
                    elif name == "sys/modification_time":
                        end = to_ms(row["datetime_value"])
                    elif name == "sys/failed":
                        error = "failed in Neptune" if row["bool_value"] else None
                    else:
                        yield from self._read_row(row, name, kind)
                yield from series.values()
                yield from (LeftOut(what, why, count) for (what, why), count in left.items())
            self._is_read.add(path)
        if new:
            if self._multiplier != 1:
                yield Other("step multiplier", self._multiplier)
            yield State(start, end, error=error)

    def _add_point(self, row: dict[str, Any], series: dict[str, Points], left: dict[tuple[str, str], int]) -> None:
        name = row["attribute_path"]
        try:
            step = self._to_step(row)
        except ValueError:
            key = (
                "points",
                f"{name} has steps with decimals, such as {row['step']}: --step-multiplier makes them whole",
            )
            found = next((it for it in left if it[1].startswith(f"{name} has steps")), key)
            left[found] = left.get(found, 0) + 1
            return
        # As the use of the machine is called here.
        shown = f"sys.{name[len(_MONITORING) :]}" if name.startswith(_MONITORING) else name
        points = series.get(name)
        if points is None:
            points = series[name] = Points("points", shown, "", [], [], [])
        points.values.append(float("nan") if row["float_value"] is None else row["float_value"])
        if points.steps is not None and points.timestamps is not None:
            points.steps.append(step)
            points.timestamps.append(None if row["timestamp"] is None else to_ms(row["timestamp"]))

    def _read_row(self, row: dict[str, Any], name: str, kind: str) -> Iterator[Item]:
        if kind in _VALUES:
            yield from _read_value(name, row[_VALUES[kind]])
        elif kind in ("file", "file_series"):
            yield self._read_file(row, name, kind)
        elif kind == "string_series":
            yield from self._read_text(row, name)
        elif kind == "histogram_series":
            yield self._read_histogram(row, name)
        else:
            yield LeftOut(f"attributes of the type {kind}", "there is nothing like it here")

    def _read_file(self, row: dict[str, Any], name: str, kind: str) -> Item:
        given = (row["file_value"] or {}).get("path")
        if self._files is None:
            return LeftOut("files", "--files says where neptune-exporter has put them")
        path = self._files / str(given)
        if not given or not path.is_file():
            return LeftOut("files", f"{path} is not there")
        try:
            step = self._to_step(row) if kind == "file_series" else None
        except ValueError:
            return LeftOut("files", f"{name} has steps with decimals: --step-multiplier makes them whole")
        shown = name if Path(name).suffix else name + path.suffix
        image = "image" if path.suffix.lower() in (".png", ".jpg", ".jpeg", ".gif") else "asset"
        return File(f"{name}\0{step}\0{to_digest(path)}", shown, path, image, step)

    def _read_text(self, row: dict[str, Any], name: str) -> Iterator[Item]:
        text = (row["string_value"] or "").encode()
        try:
            step = self._to_step(row)
        except ValueError:
            yield LeftOut("texts", f"{name} has steps with decimals: --step-multiplier makes them whole")
            return
        ms = None if row["timestamp"] is None else to_ms(row["timestamp"])
        metadata = {"tag": name, "timestamp": ms}
        yield File(f"{name}\0{step}\0{ms}", f"{name}.txt", text, "text-sample", step, "", metadata)

    def _read_histogram(self, row: dict[str, Any], name: str) -> Item:
        value = row["histogram_value"] or {}
        try:
            step = self._to_step(row)
            found = take_counts(value.get("values") or [], value.get("edges") or [])
        except (SvcError, ValueError, TypeError) as error:
            return LeftOut("histograms", f"{name}: {error or 'its steps or counts are no whole numbers'}")
        data = json.dumps({"version": 1, "name": name, **found}).encode()
        return File(f"{name}\0{step}", f"{name}.json", data, "histogram3d", step)

    def _to_step(self, row: dict[str, Any]) -> int | None:
        return None if row["step"] is None else to_step(row["step"], self._multiplier)


def _read_value(name: str, value: Any) -> Iterator[Item]:
    if is_empty(value):
        return
    if name == "sys/tags":
        yield from (Tag(it) for it in value)
    elif name == "sys/name":
        yield Other("Name", value)
    elif name in _OTHERS:
        yield Other(_OTHERS[name], ", ".join(value) if isinstance(value, list) else value)
    elif name.startswith("sys/"):
        yield LeftOut(_OF_NEPTUNE, "they say nothing of the run")
    else:
        yield Parameter(name, value.isoformat() if hasattr(value, "isoformat") else value)


def _read_ids(path: Path) -> tuple[str, str]:
    for batch in open_parquet(path).iter_batches(1, columns=["project_id", "run_id"]):
        for row in batch.to_pylist():
            return row["project_id"], row["run_id"]
    raise SvcError(f"{path} has no rows.")


def _to_order(path: Path) -> tuple[str, int]:
    """Parts by their numbers: the tenth comes behind the second."""
    found = re.fullmatch(r"(.*)_part_(\d+)\.parquet", path.name)
    return (f"{path.parent}/{found[1]}", int(found[2])) if found else (str(path), 0)
