"""Files on their way into the spool."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from svc_ml.calls.context import context_of
from svc_ml.fault import SvcError
from svc_ml.number import to_integer
from svc_ml.run import Run
from svc_ml.spool import record

Source = Union[str, Path, bytes, Any]
"""A path, the bytes themselves, or something with `read`."""

_UPLOAD = "/write/experiment/upload-asset"


def describe(
    run: Run,
    file_name: str | None,
    type: str,
    step: Any,
    metadata: Mapping[str, Any] | None,
    overwrite: bool,
    epoch: Any = None,
) -> dict[str, Any]:
    at = run.step if step is None else to_integer(step)
    query = {
        "fileName": file_name,
        "type": type,
        "step": at,
        "epoch": run.epoch if epoch is None else to_integer(epoch),
        "context": context_of(run) or None,
        "metadata": None if metadata is None else json.dumps(dict(metadata), default=str),
        "overwrite": True if overwrite else None,
    }
    return {name: value for name, value in query.items() if value is not None}


def upload(run: Run, source: Source, query: dict[str, Any], copy: bool) -> str:
    opened = open_source(source)
    # An id of ours: however often it is sent, it is one asset.
    asset_id = secrets.token_hex(16)
    is_copy = copy or isinstance(opened, bytes)
    named = {"fileName": opened.name if isinstance(opened, Path) else "file", **query, "assetId": asset_id}
    file = asset_id if is_copy else str(opened)
    content = {"path": _UPLOAD, "query": named, "file": file, "is_copy": is_copy}
    put_files(run, record.FILE, content, {asset_id: opened} if is_copy else {})
    return asset_id


def put_files(
    run: Run, kind: int, content: dict[str, Any], copies: dict[str, Path | bytes], wait: bool = False
) -> None:
    if run.channel is not None:
        run.channel.put_files(kind, content, copies, wait)


def open_source(source: Source) -> Path | bytes:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source)
    if hasattr(source, "read"):
        data = source.read()
        return data.encode() if isinstance(data, str) else bytes(data)
    path = Path(source).expanduser().absolute()
    if not path.is_file():
        raise SvcError(f"there is no file {path}.")
    return path
