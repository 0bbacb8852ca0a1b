"""The calls that log files: assets, models, code, texts and artifacts."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Union

from svc_ml.fault import SvcError
from svc_ml.form.digest import to_digest
from svc_ml.number import to_integer
from svc_ml.run import never_raises
from svc_ml.spool import record
from svc_ml.value_calls import ValueCalls, context_of

Source = Union[str, Path, bytes, Any]
"""A path, the bytes themselves, or something with `read`."""

_UPLOAD = "/write/experiment/upload-asset"


class FileCalls(ValueCalls):
    """
    Files are copied at once, so that they may be changed or deleted afterwards; with `copy_to_tmp=False` they are read when
    they are sent, and must stay as they are. Large ones are copied in the background when that takes longer than the setting
    `block_seconds`.
    """

    @never_raises
    def log_asset(
        self,
        file_data: Source,
        file_name: str | None = None,
        overwrite: bool = False,
        copy_to_tmp: bool = True,
        step: Any = None,
        metadata: Mapping[str, Any] | None = None,
        type: str = "asset",
    ) -> Any:
        """
        Logs a file under a name, by default its own. With `overwrite` it takes the place of those of its name. Returns its
        `assetId`. The files of a folder are logged one by one, under `file_name` or the name of the folder; returns a list then.
        """
        if isinstance(file_data, (str, Path)) and Path(file_data).expanduser().is_dir():
            base = Path(file_data).expanduser()
            name = file_name or base.resolve().name
            return [
                self.log_asset(
                    path, f"{name}/{path.relative_to(base).as_posix()}", overwrite, copy_to_tmp, step, metadata, type
                )
                for path in _files_in(base, True)
            ]
        query = self._describe(file_name, type, step, metadata, overwrite)
        return {"assetId": self._upload(file_data, query, copy_to_tmp)}

    @never_raises
    def log_asset_folder(
        self, folder: str | Path, step: Any = None, log_file_name: bool = True, recursive: bool = True
    ) -> list[dict[str, str] | None] | None:
        """Logs the files of a folder, named by their path within, or by their own name without `log_file_name`."""
        base = _folder(folder)
        found: list[dict[str, str] | None] = []
        for path in _files_in(base, recursive):
            name = path.relative_to(base).as_posix() if log_file_name else path.name
            found.append(self.log_asset(path, file_name=name, step=step))
        return found

    @never_raises
    def log_model(
        self,
        name: str,
        file_or_folder: Source,
        file_name: str | None = None,
        overwrite: bool = False,
        metadata: Mapping[str, Any] | None = None,
        copy_to_tmp: bool = True,
    ) -> dict[str, str] | None:
        """Logs the files of a model; those of one name make one model, which can be registered."""
        base = Path(file_or_folder) if isinstance(file_or_folder, (str, Path)) else None
        if base is not None and base.is_dir():
            for path in _files_in(base, True):
                inner = path.relative_to(base).as_posix()
                self.log_model(name, path, inner, overwrite, metadata, copy_to_tmp)
            return None
        query = self._describe(file_name, "model-element", None, metadata, overwrite)
        return {"assetId": self._upload(file_or_folder, {**query, "groupingName": str(name)}, copy_to_tmp)}

    @never_raises
    def register_model(
        self,
        model_name: str,
        version: str | None = None,
        *,
        registry_name: str | None = None,
        comment: str | None = None,
        stages: Iterable[str] | None = None,
        status: str | None = None,
        description: str | None = None,
        public: bool | None = None,
    ) -> None:
        """
        Registers a model of this run, with the files that `log_model` has given it so far, as a version of the registered model
        `registry_name`, which is made when it is the first; by default it has the name of the model.

        version: semantic, such as `1.2.0`; without, the next patch of the highest, or `1.0.0`. A model of this run that is registered
            already, under this version or without one under any, is left as it is.
        public: of a registered model that is made: the whole organization may read it.
        """
        content = {
            "experiment_model": str(model_name),
            "model": str(registry_name or model_name),
            "version": version,
            "comment": comment,
            "stages": None if stages is None else [str(it) for it in stages],
            "status": status,
            "description": description,
            "is_public": public,
        }
        if self._channel is not None:
            self._channel.put_behind_files(record.REGISTRATION, content)

    @never_raises
    def log_remote_asset(
        self,
        uri: str,
        remote_file_name: str | None = None,
        overwrite: bool = False,
        asset_type: str = "asset",
        step: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> dict[str, str] | None:
        """
        Logs where a file is that stays there, such as `s3://bucket/data.parquet`. Nothing is read or copied. Its name is
        `remote_file_name`, by default the last part of `uri`. Returns its `assetId`.
        """
        asset_id = secrets.token_hex(16)
        at = self._step if step is None else to_integer(step)
        asset = {
            "link": str(uri),
            "fileName": remote_file_name,
            "assetId": asset_id,
            "type": asset_type,
            "step": at,
            "metadata": None if metadata is None else json.dumps(dict(metadata), default=str),
            "overwrite": overwrite,
        }
        given = {name: value for name, value in asset.items() if value is not None}
        self._call("/write/experiment/assets/remote/batch", {"remoteAssets": [given]})
        return {"assetId": asset_id}

    @never_raises
    def log_dataset_hash(self, data: Any) -> None:
        """
        Logs the parameter `dataset_hash`, by which runs on the same data are found: 32 hexadecimal digits of the SHA-256 of the content
        of a `Path` (a file, or the files of a folder with their names), of bytes, of an array or tensor with its shape and type, of
        a data frame of pandas or polars, else of what `str` makes of `data`.
        """
        self.log_parameter("dataset_hash", to_digest(data))

    @never_raises
    def log_text(self, text: str, step: Any = None, metadata: Mapping[str, Any] | None = None) -> dict[str, str] | None:
        """Logs a text that a model made or met. Each is a sample of its own."""
        query = self._describe(f"text-{secrets.token_hex(8)}.txt", "text-sample", step, metadata, False)
        return {"assetId": self._upload(str(text).encode(), query, True)}

    @never_raises
    def log_code(
        self,
        file_name: str | Path | None = None,
        folder: str | Path | None = None,
        code: str | None = None,
        code_name: str | None = None,
    ) -> None:
        """Logs source code: a file, the Python files of a folder, a text, or without arguments the script that runs."""
        if folder is not None:
            base = _folder(folder)
            for path in _files_in(base, True):
                if path.suffix in (".py", ".ipynb", ".yaml", ".toml"):
                    self.log_asset(path, path.relative_to(base).as_posix(), type="source_code")
            return
        if code is None:
            path = Path(file_name or sys.argv[0])
            if not path.is_file():
                if file_name is not None:
                    raise SvcError(f"there is no file {path}.")
                return
            code, code_name = path.read_text(encoding="utf-8", errors="replace"), code_name or path.name
        self._call("/write/experiment/code", {"code": code})
        self.log_asset(code.encode(), code_name or "code.py", type="source_code")

    @never_raises
    def log_artifact(
        self,
        name: str,
        files: str | Path | Mapping[str, Source],
        version: str,
        artifact_type: str = "asset",
        aliases: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        wait: bool = False,
    ) -> None:
        """
        Logs a version of an artifact, which is readable once all of it has arrived.

        files: a folder, a file, or sources by name.
        version: semantic, and new for this artifact.
        wait: until all files are copied, however long that takes.
        """
        sources = _sources(files)
        names = {file: secrets.token_hex(16) for file in sources}
        content = {
            "name": str(name),
            "version": version,
            "type": artifact_type,
            "aliases": [str(it) for it in aliases],
            "metadata": dict(metadata or {}),
            "files": [
                {"name": file, "asset_id": asset_id, "file": asset_id, "is_copy": True}
                for file, asset_id in names.items()
            ],
        }
        # Must not be confused with text that cannot be written as JSON, which would be noticed too late.
        json.dumps(content)
        self._put_files(
            record.ARTIFACT, content, {names[file]: _open(source) for file, source in sources.items()}, wait
        )

    def _describe(
        self,
        file_name: str | None,
        type: str,
        step: Any,
        metadata: Mapping[str, Any] | None,
        overwrite: bool,
        epoch: Any = None,
    ) -> dict[str, Any]:
        at = self._step if step is None else to_integer(step)
        query = {
            "fileName": file_name,
            "type": type,
            "step": at,
            "epoch": self._epoch if epoch is None else to_integer(epoch),
            "context": context_of(self) or None,
            "metadata": None if metadata is None else json.dumps(dict(metadata), default=str),
            "overwrite": True if overwrite else None,
        }
        return {name: value for name, value in query.items() if value is not None}

    def _upload(self, source: Source, query: dict[str, Any], copy: bool) -> str:
        opened = _open(source)
        # An id of ours: however often it is sent, it is one asset.
        asset_id = secrets.token_hex(16)
        is_copy = copy or isinstance(opened, bytes)
        named = {"fileName": opened.name if isinstance(opened, Path) else "file", **query, "assetId": asset_id}
        file = asset_id if is_copy else str(opened)
        content = {"path": _UPLOAD, "query": named, "file": file, "is_copy": is_copy}
        self._put_files(record.FILE, content, {asset_id: opened} if is_copy else {})
        return asset_id

    def _put_files(
        self, kind: int, content: dict[str, Any], copies: dict[str, Path | bytes], wait: bool = False
    ) -> None:
        if self._channel is not None:
            self._channel.put_files(kind, content, copies, wait)


def _open(source: Source) -> Path | bytes:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source)
    if hasattr(source, "read"):
        data = source.read()
        return data.encode() if isinstance(data, str) else bytes(data)
    path = Path(source).expanduser().absolute()
    if not path.is_file():
        raise SvcError(f"there is no file {path}.")
    return path


def _sources(files: str | Path | Mapping[str, Source]) -> dict[str, Source]:
    if isinstance(files, Mapping):
        return {str(name): source for name, source in files.items()}
    base = Path(files)
    if base.is_dir():
        return {path.relative_to(base).as_posix(): path for path in _files_in(base, True)}
    return {base.name: base}


def _folder(folder: str | Path) -> Path:
    base = Path(folder)
    if not base.is_dir():
        raise SvcError(f"there is no folder {base}.")
    return base


def _files_in(folder: Path, recursive: bool) -> Iterator[Path]:
    found = folder.rglob("*") if recursive else folder.glob("*")
    return (it for it in sorted(found) if it.is_file())
