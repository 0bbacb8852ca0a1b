"""The files of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from svc_ml.fault import SvcError
from svc_ml.read.column import Column
from svc_ml.read.connection import Connection
from svc_ml.read.download import download, progress
from svc_ml.read.records import Records
from svc_ml.read.table import Table


@dataclass(frozen=True)
class Asset:
    """
    name: with the folders that it was logged with.
    size: bytes; 0 for a remote one.
    link: where its bytes are; of a remote one outside of the service.
    metadata: the text that was logged.
    """

    id: str
    name: str
    type: str
    size: int
    step: int | None
    context: str | None
    tags: tuple[str, ...]
    metadata: str | None
    remote: bool
    link: str
    experiment_key: str


def list_assets(connection: Connection, key: str, asset_type: str | None) -> Records[Asset]:
    listed = connection.get("/experiment/asset/list", experimentKey=key, type=asset_type)["assets"]
    return Records([_to_asset(it, key) for it in listed], _to_table(listed))


def download_asset(connection: Connection, asset: Asset, path: Union[str, Path, None], is_shown: bool) -> Path:
    """
    path: of the file, or a folder that is there; None is for the working directory.

    Raises SvcError for a remote asset, and what `download` raises.
    """
    if asset.remote:
        raise SvcError(f"{asset.name} is a remote asset: its bytes are at {asset.link}.")
    base = Path("." if path is None else path).expanduser()
    target = base / (Path(asset.name).name or asset.id) if base.is_dir() else base
    query = {"experimentKey": asset.experiment_key, "assetId": asset.id}
    with progress(asset.name, asset.size, is_shown) as on_bytes:
        download(connection, query, target, on_bytes)
    return target


def _to_asset(listed: dict[str, Any], key: str) -> Asset:
    return Asset(
        id=listed["assetId"],
        name=listed["fileName"],
        type=listed["type"],
        size=listed["fileSize"],
        step=listed["step"],
        context=listed["runContext"],
        tags=tuple(listed["tags"]),
        metadata=listed["metadata"],
        remote=listed["remote"],
        link=listed["link"],
        experiment_key=key,
    )


def _to_table(listed: list[dict[str, Any]]) -> Table:
    def column(kind: Any, field: str) -> Column:
        return Column(kind, [it[field] for it in listed])

    return Table(
        {
            "name": column("text", "fileName"),
            "type": column("text", "type"),
            "size": column("integer", "fileSize"),
            "step": column("integer", "step"),
            "context": column("text", "runContext"),
            "tags": column("texts", "tags"),
            "created": column("time", "createdAt"),
            "metadata": column("text", "metadata"),
            "remote": column("boolean", "remote"),
            "link": column("text", "link"),
            "id": column("text", "assetId"),
        }
    )
