"""Artifacts: files under a name, logged as a version of it."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from svc_ml.form.table import to_csv
from svc_ml.read.api import Api
from svc_ml.read.artifacts import ArtifactVersion
from svc_ml.settings import Settings
from svc_ml.wandb.absent import tell_absent
from svc_ml.wandb.errors import UsageError
from svc_ml.wandb.table import Table


class Artifact:
    """
    Collects files until `run.log_artifact`, which copies them. The first version is `1.0.0`, the next `2.0.0`, and so on.

    description: kept in the metadata.
    """

    def __init__(
        self,
        name: str,
        type: str,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        incremental: bool = False,
        use_as: str | None = None,
    ) -> None:
        if incremental:
            tell_absent("Artifact(incremental=True)", "A version has the files that are added to it.")
        self.name = name
        self.type = type
        self.description = description
        self.metadata = dict(metadata or {})
        self.files: dict[str, Path | bytes] = {}

    def add_file(
        self,
        local_path: str | Path,
        name: str | None = None,
        is_tmp: bool = False,
        skip_cache: bool = False,
        policy: str = "mutable",
        overwrite: bool = False,
    ) -> None:
        path = Path(local_path)
        if not path.is_file():
            raise UsageError(f"add_file: there is no file {path}.")
        self.files[name or path.name] = path

    def add_dir(
        self,
        local_path: str | Path,
        name: str | None = None,
        skip_cache: bool = False,
        policy: str = "mutable",
        merge: bool = False,
    ) -> None:
        base = Path(local_path)
        if not base.is_dir():
            raise UsageError(f"add_dir: there is no folder {base}.")
        before = f"{name}/" if name else ""
        for path in sorted(base.rglob("*")):
            if path.is_file():
                self.files[before + path.relative_to(base).as_posix()] = path

    @contextlib.contextmanager
    def new_file(self, name: str, mode: str = "x", encoding: str | None = None) -> Iterator[IO[Any]]:
        """A file to write, which is part of the artifact once it is closed."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file"
            with path.open(mode, encoding=encoding) as file:
                yield file
            self.files[name] = path.read_bytes()

    def add(self, obj: Any, name: str, overwrite: bool = False) -> None:
        """Adds a table, as CSV, or an image, sound or the like that is a file."""
        if isinstance(obj, Table):
            self.files[f"{name}.csv"] = to_csv([obj.columns, *obj.data]).encode()
        elif isinstance(getattr(obj, "data", None), (str, Path)):
            self.add_file(obj.data, name)
        else:
            tell_absent(f"Artifact.add of a {type(obj).__name__}", "Add it as a file.")

    def add_reference(self, uri: str, name: str | None = None, *given: Any, **named: Any) -> None:
        tell_absent("Artifact.add_reference", "Use run.experiment.log_remote_asset.")

    def wait(self, timeout: float | None = None) -> Artifact:
        """Does nothing: files were copied when the artifact was logged, and are sent in the background."""
        return self


class UsedArtifact:
    """A version that a run reads. The calls raise what `svc_ml.read` raises."""

    def __init__(self, version: ArtifactVersion) -> None:
        self._version = version
        self.name = f"{version.name}:{version.version}"
        self.version = version.version
        self.type = version.type

    def download(self, root: str | Path | None = None, *given: Any, **named: Any) -> str:
        """Puts the files into `root`, by default `artifacts/<name>:<version>`, and returns that folder."""
        return str(self._version.download(root or Path("artifacts") / self.name, show_progress=False))

    def file(self, root: str | Path | None = None) -> str:
        """The path of the only file, which is downloaded."""
        names = self._version.files()["name"]
        if len(names) != 1:
            raise UsageError(f"file: {self.name} has {len(names)} files; use download().")
        return str(Path(self.download(root)) / names[0])

    def files(self) -> list[str]:
        return list(self._version.files()["name"])

    def wait(self, timeout: float | None = None) -> UsedArtifact:
        return self


def use(settings: Settings, asked: str, run_key: str) -> UsedArtifact:
    """asked: `name`, `name:alias`, `name:v0` or `name:1.0.0`, perhaps after `entity/project/`."""
    path, _, version = asked.partition(":")
    *before, name = path.split("/")[-3:]
    entity = before[0] if len(before) == 2 and "workspace" not in settings.named else None
    numbered = re.fullmatch(r"v(\d+)", version)
    wanted = f"{int(numbered[1]) + 1}.0.0" if numbered else version
    api = Api(settings.url, settings.api_key, entity or settings.workspace)
    return UsedArtifact(api.artifact(name, None if wanted in ("", "latest") else wanted, used_by=run_key))
