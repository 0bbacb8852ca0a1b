"""A database of MLflow in SQLite, read with what Python has. It is opened for reading only."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Optional

from svc_ml.fault import SvcError
from svc_ml.importers.items import LeftOut, Points
from svc_ml.importers.mlflow.records import Cursor, LocalArtifacts, LoggedModel, ModelVersion, RunRecord, to_path

_ROWS_AT_ONCE = 50_000


class DatabaseStore(LocalArtifacts):
    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.is_file():
            raise SvcError(f"there is no file {path}.")
        self._tables = {it[0] for it in self._rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        missing = {"experiments", "runs", "metrics", "params", "tags"} - self._tables
        if missing:
            raise SvcError(f"{path} is no database of MLflow: it has no table {', '.join(sorted(missing))}.")

    def runs(self) -> Iterable[RunRecord]:
        query = """
            SELECT runs.run_uuid, runs.name, experiments.name, runs.status, start_time, end_time, artifact_uri
            FROM runs JOIN experiments USING (experiment_id)
            WHERE runs.lifecycle_stage = 'active' AND experiments.lifecycle_stage = 'active'
            ORDER BY start_time, runs.run_uuid"""
        named = dict(self._rows("SELECT run_uuid, value FROM tags WHERE key = 'mlflow.runName'"))
        for id, name, *rest in self._rows(query):
            # Before version 2 the name was only a tag.
            yield RunRecord(id, name or named.get(id, ""), *rest)

    def left_out(self) -> list[LeftOut]:
        [(count,)] = self._rows(
            "SELECT count(*) FROM runs JOIN experiments USING (experiment_id)"
            " WHERE runs.lifecycle_stage <> 'active' OR experiments.lifecycle_stage <> 'active'"
        )
        return [LeftOut("runs", "they are deleted in MLflow", count)] if count else []

    def parameters(self, run: RunRecord) -> dict[str, str]:
        return dict(self._rows("SELECT key, value FROM params WHERE run_uuid = ? ORDER BY key", run.id))

    def tags(self, run: RunRecord) -> dict[str, str]:
        return dict(self._rows("SELECT key, value FROM tags WHERE run_uuid = ? ORDER BY key", run.id))

    def points(self, run: RunRecord, cursor: Cursor) -> Iterator[Points]:
        # In the order in which they were stored: later ones may be of earlier times.
        query = """
            SELECT rowid, key, CASE WHEN is_nan THEN NULL ELSE value END, timestamp, step FROM metrics
            WHERE run_uuid = ? AND rowid > ? ORDER BY rowid"""
        with closing(self._open()) as database:
            rows = database.execute(query, (run.id, cursor.places.get("", -1)))
            while part := rows.fetchmany(_ROWS_AT_ONCE):
                series: dict[str, tuple[list[float], list[Optional[int]], list[Optional[int]]]] = {}
                for _, key, value, ms, step in part:
                    columns = series.setdefault(key, ([], [], []))
                    columns[0].append(math.nan if value is None else value)
                    columns[1].append(step)
                    columns[2].append(ms)
                for key, columns in series.items():
                    # The primary key has all of it: no two are equal.
                    yield Points(run.id, key, "", *columns, equals_before=[0] * len(columns[0]))
                cursor.places[""] = part[-1][0]

    def models(self, run: RunRecord) -> list[LoggedModel]:
        if "logged_models" not in self._tables:
            return []
        query = """
            SELECT model_id, name, artifact_location FROM logged_models
            WHERE source_run_id = ? AND lifecycle_stage = 'active' ORDER BY creation_timestamp_ms"""
        return [LoggedModel(*it) for it in self._rows(query, run.id)]

    def versions(self, run: RunRecord) -> list[ModelVersion]:
        if "model_versions" not in self._tables:
            return []
        aliases: dict[tuple[str, int], list[str]] = {}
        if "registered_model_aliases" in self._tables:
            for name, version, alias in self._rows("SELECT name, version, alias FROM registered_model_aliases"):
                aliases.setdefault((name, version), []).append(alias)
        query = """
            SELECT name, version, description, current_stage, source,
                (SELECT description FROM registered_models WHERE registered_models.name = model_versions.name)
            FROM model_versions WHERE run_id = ? AND current_stage <> 'Deleted_Internal' ORDER BY name, version"""
        return [
            ModelVersion(
                name,
                str(version),
                description or "",
                about or "",
                source or "",
                tuple([it for it in (stage,) if it and it != "None"] + aliases.get((name, version), [])),
            )
            for name, version, description, stage, source, about in self._rows(query, run.id)
        ]

    def find_folder(self, uri: str) -> Optional[Path]:
        path = to_path(uri)
        if path is None:
            return None
        # One that is not absolute is relative to where the server was started, which is where its database is by default.
        found = path if path.is_absolute() else self._path.parent / path
        return found if found.exists() else None

    def _rows(self, query: str, *given: Any) -> list[Any]:
        try:
            with closing(self._open()) as database:
                return database.execute(query, given).fetchall()
        except sqlite3.DatabaseError as error:
            raise SvcError(f"{self._path} cannot be read: {error}.") from None

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)
