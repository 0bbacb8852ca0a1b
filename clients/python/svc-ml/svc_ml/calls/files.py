"""The calls that log files: assets, models, code, texts and artifacts."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from svc_ml.calls.guard import never_raises
from svc_ml.calls.upload import Source, describe, open_source, put_files, upload
from svc_ml.fault import SvcError
from svc_ml.number import to_integer
from svc_ml.run import Run
from svc_ml.spool import record


class FileCalls:
    """
    Files are copied at once, so that they may be changed or deleted afterwards; with `copy_to_tmp=False` they are read when
    they are sent, and must stay as they are. Large ones are copied in the background when that takes longer than the setting
    `block_seconds`.
    """

    _run: Run

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
        query = describe(self._run, file_name, type, step, metadata, overwrite)
        return {"assetId": upload(self._run, file_data, query, copy_to_tmp)}

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
        query = describe(self._run, file_name, "model-element", None, metadata, overwrite)
        return {"assetId": upload(self._run, file_or_folder, {**query, "groupingName": str(name)}, copy_to_tmp)}

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
        if self._run.channel is not None:
            self._run.channel.put_behind_files(record.REGISTRATION, content)

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
        at = self._run.step if step is None else to_integer(step)
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
        self._run.call("/write/experiment/assets/remote/batch", {"remoteAssets": [given]})
        return {"assetId": asset_id}

    @never_raises
    def log_text(self, text: str, step: Any = None, metadata: Mapping[str, Any] | None = None) -> dict[str, str] | None:
        """Logs a text that a model made or met. Each is a sample of its own."""
        query = describe(self._run, f"text-{secrets.token_hex(8)}.txt", "text-sample", step, metadata, False)
        return {"assetId": upload(self._run, str(text).encode(), query, True)}

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
        self._run.call("/write/experiment/code", {"code": code})
        self.log_asset(code.encode(), code_name or "code.py", type="source_code")

    @never_raises
    def log_artifact(
        self,
        name: str,
        files: str | Path | Mapping[str, Source],
        version: str | None = None,
        artifact_type: str = "asset",
        aliases: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        wait: bool = False,
    ) -> None:
        """
        Logs a version of an artifact, which is readable once all of it has arrived.

        files: a folder, a file, or sources by name.
        version: semantic, and new for this artifact; without, `1.0.0`, and then the next whole one.
        wait: until all files are copied, however long that takes.
        """
        sources = _sources(files)
        names = {file: secrets.token_hex(16) for file in sources}
        content = {
            "name": str(name),
            "version": version,
            "mark": secrets.token_hex(16),
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
        copies = {names[file]: open_source(source) for file, source in sources.items()}
        put_files(self._run, record.ARTIFACT, content, copies, wait)


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
