"""A folder `mlruns`: a folder for each experiment, in it one for each run, with a file for each metric, parameter and tag."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Optional

from svc_ml.fault import SvcError
from svc_ml.importers.items import LeftOut, Points
from svc_ml.importers.mlflow.records import Cursor, LocalArtifacts, LoggedModel, ModelVersion, RunRecord

_STATUS = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}
_ABOUT = "meta.yaml"


class FolderStore(LocalArtifacts):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._deleted = 0
        if not any(it.is_file() for it in path.glob(f"*/{_ABOUT}")):
            raise SvcError(f"{path} is no folder of MLflow: no folder in it has a {_ABOUT}.")

    def runs(self) -> Iterable[RunRecord]:
        self._deleted = len(list(self._path.glob(f".trash/*/*/{_ABOUT}")))
        for about in sorted(self._path.glob(f"*/{_ABOUT}")):
            experiment = _read_about(about)
            if "experiment_id" not in experiment:
                continue
            for path in sorted(about.parent.glob(f"*/{_ABOUT}")):
                run = _read_about(path)
                if "run_id" not in run and "run_uuid" not in run:
                    continue
                if "deleted" in (run.get("lifecycle_stage"), experiment.get("lifecycle_stage")):
                    self._deleted += 1
                    continue
                yield RunRecord(
                    run.get("run_id") or run["run_uuid"],
                    run.get("run_name") or self._read_name(path.parent),
                    experiment.get("name", ""),
                    _STATUS.get(run.get("status", ""), run.get("status", "")),
                    _to_integer(run.get("start_time")),
                    _to_integer(run.get("end_time")),
                    # Where it lies now, not where it lay when it was written.
                    str(path.parent / "artifacts"),
                )

    def left_out(self) -> list[LeftOut]:
        return [LeftOut("runs", "they are deleted in MLflow", self._deleted)] if self._deleted else []

    def parameters(self, run: RunRecord) -> dict[str, str]:
        return _read_files(_folder_of(run) / "params")

    def tags(self, run: RunRecord) -> dict[str, str]:
        return _read_files(_folder_of(run) / "tags")

    def points(self, run: RunRecord, cursor: Cursor) -> Iterator[Points]:
        folder = _folder_of(run) / "metrics"
        for path in sorted(it for it in folder.rglob("*") if it.is_file()):
            name = path.relative_to(folder).as_posix()
            if path.stat().st_size == cursor.places.get(name, 0):
                continue
            data = path.read_bytes()
            # A line without an end is being written.
            data = data[: data.rfind(b"\n") + 1]
            cursor.places[name] = len(data)
            # Time, value and step, which before version 1 was not there.
            rows = [it.split() for it in data.decode().splitlines()]
            try:
                values = [float(it[1]) for it in rows]
                steps: list[Optional[int]] = [int(it[2]) if len(it) > 2 else 0 for it in rows]
                times: list[Optional[int]] = [int(it[0]) for it in rows]
            except (ValueError, LookupError) as error:
                raise ValueError(f"{path} is damaged: {error}") from None
            new = cursor.series.find_new(Points(run.id, name, "", values, steps, times))
            if new is not None:
                yield new

    def models(self, run: RunRecord) -> list[LoggedModel]:
        found = []
        for about in sorted(_folder_of(run).parent.glob(f"models/*/{_ABOUT}")):
            model = _read_about(about)
            if model.get("source_run_id") == run.id:
                found.append(LoggedModel(model["model_id"], model["name"], str(about.parent / "artifacts")))
        return found

    def versions(self, run: RunRecord) -> list[ModelVersion]:
        found = []
        for path in sorted(self._path.glob(f"models/*/version-*/{_ABOUT}")):
            version = _read_about(path)
            if version.get("run_id") != run.id:
                continue
            model = path.parent.parent
            aliases = [
                it.name for it in sorted(model.glob("aliases/*")) if it.read_text().strip() == version.get("version")
            ]
            stage = version.get("current_stage")
            found.append(
                ModelVersion(
                    version["name"],
                    version["version"],
                    version.get("description", ""),
                    _read_about(model / _ABOUT).get("description", ""),
                    self._where(version.get("source", ""), run),
                    tuple([it for it in (stage,) if it and it != "None"] + aliases),
                )
            )
        return found

    def _where(self, source: str, run: RunRecord) -> str:
        """A source in the artifacts of a run, where they lie now."""
        _, found, within = source.partition(f"/{run.id}/artifacts/")
        return str(Path(run.artifact_uri) / within) if found else source

    def _read_name(self, folder: Path) -> str:
        return _read_files(folder / "tags").get("mlflow.runName", "")


def _folder_of(run: RunRecord) -> Path:
    return Path(run.artifact_uri).parent


def _read_files(folder: Path) -> dict[str, str]:
    """Content by name; a name with slashes is a path."""
    found = sorted(it for it in folder.rglob("*") if it.is_file())
    return {it.relative_to(folder).as_posix(): it.read_text(encoding="utf-8") for it in found}


def _read_about(path: Path) -> dict[str, str]:
    """Names and plain values, of the YAML that MLflow writes; what is null is left out, and so is what is nested."""
    values = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, is_pair, value = line.partition(":")
        value = value.strip()
        if is_pair and not name.startswith((" ", "-")) and value not in ("", "null", "~"):
            values[name] = _unquote(value)
    return values


def _unquote(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) > 1 and value[0] == value[-1] == '"':
        try:
            return str(json.loads(value))
        except ValueError:
            return value[1:-1]
    return value


def _to_integer(text: str | None) -> int | None:
    return None if text is None else int(text)
