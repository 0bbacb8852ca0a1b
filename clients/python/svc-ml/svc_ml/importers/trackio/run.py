"""Runs in the databases of trackio, `<project>.db`, which are only read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Optional

from svc_ml.fault import SvcError
from svc_ml.form.table import to_csv
from svc_ml.importers.items import File, Item, LeftOut, Other, Parameter, Points, Source, SourceRun, State
from svc_ml.importers.table.cells import to_ms

_ROWS_AT_ONCE = 20_000
_TYPES = {"trackio.image": "image", "trackio.audio": "audio", "trackio.video": "video", "trackio.file": "asset"}
_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class TrackioSource(Source):
    kind = "trackio"

    def __init__(self, path: Path) -> None:
        self._path = path

    def runs(self) -> Iterable[SourceRun]:
        if not self._path.exists():
            raise SvcError(f"there is no file or folder {self._path}.")
        files = [self._path] if self._path.is_file() else sorted(self._path.glob("*.db"))
        found = [run for it in files for run in _list_runs(it)]
        if not found:
            raise SvcError(f"{self._path}: there are no runs of trackio in it.")
        return found


class TrackioRun(SourceRun):
    def __init__(self, path: Path, id: str, name: str) -> None:
        self.identity = id
        self.name = name
        self.project = path.stem
        self._path = path
        self._places = {"metrics": 0, "system_metrics": 0}
        """The last row of each table that was read."""
        self._times: tuple[int, int] | None = None

    def read(self) -> Iterator[Item]:
        before = self._times
        with closing(_open(self._path)) as database:
            for table, marks in (("metrics", "step"), ("system_metrics", "NULL")):
                if _has_table(database, table):
                    yield from self._read_table(database, table, marks)
            if self._times == before and before is not None:
                return
            for (config,) in database.execute("SELECT config FROM configs WHERE run_id = ?", (self.identity,)):
                yield from _read_config(json.loads(config))
            if _has_table(database, "alerts"):
                alerts = "SELECT title, level, text FROM alerts WHERE run_id = ? ORDER BY id"
                for title, level, text in database.execute(alerts, (self.identity,)):
                    yield Other(f"alert {title}", f"{level.upper()}: {text or ''}")
        if self._times is not None:
            yield State(*self._times)

    def _read_table(self, database: sqlite3.Connection, table: str, marks: str) -> Iterator[Item]:
        query = f"SELECT id, timestamp, {marks}, metrics FROM {table} WHERE run_id = ? AND id > ? ORDER BY id"
        rows = database.execute(query, (self.identity, self._places[table]))
        prefix = "" if table == "metrics" else "sys."
        while part := rows.fetchmany(_ROWS_AT_ONCE):
            series: dict[str, Points] = {}
            for _, time, step, metrics in part:
                ms = to_ms(time)
                first, last = self._times or (ms, ms)
                self._times = min(first, ms), max(last, ms)
                for name, value in _flatten(json.loads(metrics)):
                    number = _to_number(value)
                    if number is None:
                        yield from self._read_other(name, value, step)
                        continue
                    points = series.get(name)
                    if points is None:
                        points = series[name] = Points(table, prefix + name, "", [], [], [])
                    points.values.append(number)
                    if points.steps is not None and points.timestamps is not None:
                        points.steps.append(step)
                        points.timestamps.append(ms)
            yield from series.values()
            self._places[table] = part[-1][0]

    def _read_other(self, name: str, value: Any, step: Optional[int]) -> Iterator[Item]:
        kind = value.get("_type") if isinstance(value, Mapping) else None
        identity = f"{name}\0{step}"
        if kind in _TYPES:
            path = self._path.parent / "media" / str(value.get("file_path"))
            caption = value.get("caption")
            if path.is_file():
                metadata = None if caption is None else {"caption": caption}
                yield File(identity, name + path.suffix, path, _TYPES[kind], step, "", metadata)
            else:
                yield LeftOut("files", f"{path} is not there")
        elif kind == "trackio.table" and isinstance(value.get("_value"), list):
            rows = value["_value"]
            columns = list(dict.fromkeys(column for row in rows for column in row))
            data = to_csv([columns, *([row.get(it) for it in columns] for row in rows)])
            yield File(identity, f"{name}.csv", data.encode(), "dataframe", step)
        elif kind is not None:
            yield LeftOut(f"values of the type {kind}", "there is nothing like it here")
        elif value is not None:
            yield Other(name, value if isinstance(value, str) else json.dumps(value))


def _list_runs(path: Path) -> list[TrackioRun]:
    try:
        with closing(_open(path)) as database:
            columns = {it[1] for it in database.execute("PRAGMA table_info(metrics)")}
            if not {"run_id", "run_name", "step", "metrics"} <= columns:
                raise SvcError(
                    f"{path} is no database of trackio, or of an older one: open it with `trackio show` once."
                )
            query = "SELECT run_id, max(run_name) FROM metrics GROUP BY run_id ORDER BY min(id)"
            return [TrackioRun(path, id, name) for id, name in database.execute(query)]
    except sqlite3.DatabaseError as error:
        raise SvcError(f"{path} cannot be read: {error}.") from None


def _read_config(config: Mapping[str, Any], before: str = "") -> Iterator[Item]:
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _read_config(value, f"{before}{name}|")
        elif before or not name.startswith("_"):
            yield Parameter(f"{before}{name}", value)
        elif name == "_Group" and value:
            yield Other("group", value)


def _flatten(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping) and "_type" not in value:
            yield from _flatten(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _to_number(value: Any) -> Optional[float]:
    if isinstance(value, str):
        return _NOT_FINITE.get(value)
    return float(value) if isinstance(value, (int, float)) else None


def _has_table(database: sqlite3.Connection, name: str) -> bool:
    return bool(database.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone())


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
