"""Which store a source of MLflow is."""

from __future__ import annotations

from pathlib import Path

from svc_ml.fault import SvcError
from svc_ml.importers.mlflow.database import DatabaseStore
from svc_ml.importers.mlflow.folder import FolderStore
from svc_ml.importers.mlflow.records import Store, to_path
from svc_ml.importers.mlflow.server import ServerStore

_SQLITE = "sqlite:///"


def open_store(source: str) -> Store:
    """Raises SvcError for what is no store."""
    if source.startswith(_SQLITE):
        return DatabaseStore(Path(source[len(_SQLITE) :]))
    if source.startswith(("http://", "https://")):
        return ServerStore(source)
    path = to_path(source)
    if path is None:
        raise SvcError(f"{source}: expected a database of SQLite, a folder mlruns, or the address of a server.")
    if not path.exists():
        raise SvcError(f"there is no file or folder {path}.")
    return FolderStore(path) if path.is_dir() else DatabaseStore(path)
