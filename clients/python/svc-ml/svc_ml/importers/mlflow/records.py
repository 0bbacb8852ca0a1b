"""Runs and versions of models, as every store of MLflow has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Optional, Protocol, Union
from urllib.parse import unquote, urlsplit

from svc_ml.importers.items import Download, LeftOut, Points, to_digest
from svc_ml.importers.series import SeenSeries


class RunRecord(NamedTuple):
    id: str
    name: str
    experiment: str
    status: str
    """`RUNNING`, `SCHEDULED`, `FINISHED`, `FAILED` or `KILLED`."""
    start_ms: Optional[int]
    end_ms: Optional[int]
    artifact_uri: str


class ModelVersion(NamedTuple):
    name: str
    version: str
    description: str
    model_description: str
    source: str
    stages: tuple[str, ...]
    """Its stage and its aliases."""


class LoggedModel(NamedTuple):
    id: str
    name: str
    location: str


class Artifact(NamedTuple):
    """mark: is another when its content is."""

    path: str
    """Within the artifacts of the run or the model."""
    data: Union[Path, Download]
    mark: str


class Cursor:
    """How far the points of a run were read: by what the store goes by."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.series = SeenSeries()


class Store(Protocol):
    """It travels between processes, so it holds no connections. Raises SvcError, OSError, ValueError."""

    def runs(self) -> Iterable[RunRecord]: ...

    def left_out(self) -> list[LeftOut]: ...

    def parameters(self, run: RunRecord) -> dict[str, str]: ...

    def tags(self, run: RunRecord) -> dict[str, str]: ...

    def points(self, run: RunRecord, cursor: Cursor) -> Iterator[Points]:
        """
        Those behind the cursor, which it moves. They are known by what they are, so that a run is the same from wherever it is read.
        """
        ...

    def models(self, run: RunRecord) -> list[LoggedModel]: ...

    def versions(self, run: RunRecord) -> list[ModelVersion]: ...

    def artifacts(self, run: RunRecord) -> Optional[list[Artifact]]:
        """None when they cannot be reached."""
        ...

    def model_artifacts(self, model: LoggedModel) -> Optional[list[Artifact]]: ...

    def within(self, run: RunRecord, source: str) -> Optional[str]:
        """The path of a source within the artifacts of the run; None when it is not there."""
        ...


class LocalArtifacts:
    """Those of stores whose artifacts are on this disk."""

    def find_folder(self, uri: str) -> Optional[Path]:
        """Where the files of a URI are; None when they are not here."""
        path = to_path(uri)
        return path if path is not None and path.exists() else None

    def artifacts(self, run: RunRecord) -> Optional[list[Artifact]]:
        folder = self.find_folder(run.artifact_uri)
        if folder is not None:
            return _list_files(folder)
        # A run without artifacts has no folder of its own, but one above it.
        path = to_path(run.artifact_uri)
        return [] if not run.artifact_uri or (path is not None and path.parent.parent.is_dir()) else None

    def model_artifacts(self, model: LoggedModel) -> Optional[list[Artifact]]:
        folder = self.find_folder(model.location)
        return None if folder is None else _list_files(folder)

    def within(self, run: RunRecord, source: str) -> Optional[str]:
        folder, found = self.find_folder(run.artifact_uri), self.find_folder(source)
        if folder is None or found is None or folder not in found.parents:
            return None
        return found.relative_to(folder).as_posix()


def _list_files(folder: Path) -> list[Artifact]:
    files = sorted(it for it in folder.rglob("*") if it.is_file())
    return [Artifact(it.relative_to(folder).as_posix(), it, to_digest(it)) for it in files]


def to_path(uri: str) -> Optional[Path]:
    """Of a path or of a URI `file:`; None of every other."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme or not uri else Path(uri)
