"""Runs and versions of models, as every store of MLflow has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Optional, Protocol
from urllib.parse import unquote, urlsplit

from svc_ml.importers.items import LeftOut, Points


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
    stages: list[str]
    """Its stage and its aliases."""


class LoggedModel(NamedTuple):
    id: str
    name: str
    location: str


class Artifact(NamedTuple):
    """identity: of its path and content."""

    path: str
    file: Path
    identity: str


class Cursor:
    """How far the points of a run were read: by what the store goes by."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}


class Store(Protocol):
    """It travels between processes, so it holds no connections. Raises SvcError, OSError, ValueError."""

    def runs(self) -> Iterable[RunRecord]: ...

    def left_out(self) -> list[LeftOut]: ...

    def parameters(self, run: RunRecord) -> dict[str, str]: ...

    def tags(self, run: RunRecord) -> dict[str, str]: ...

    def points(self, run: RunRecord, cursor: Cursor) -> Iterator[Points]:
        """Those behind the cursor, which it moves."""
        ...

    def models(self, run: RunRecord) -> list[LoggedModel]: ...

    def versions(self, run: RunRecord) -> list[ModelVersion]: ...

    def find_folder(self, uri: str) -> Optional[Path]:
        """Where the files of a URI are on this disk; None when they are not."""
        ...


def to_path(uri: str) -> Optional[Path]:
    """Of a path or of a URI `file:`; None of every other."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme or not uri else Path(uri)
