"""Versions of artifacts, and their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Union

from svc_ml.fault import SvcError
from svc_ml.read.column import Column
from svc_ml.read.connection import Connection
from svc_ml.read.download import download, progress
from svc_ml.read.records import Records
from svc_ml.read.table import Table


class ArtifactVersion:
    """
    One version of an artifact.

    direction: `output` when the run that was asked made it, `input` when it used it; None when no run was asked.
    state: `CLOSED` once all of it is there; `OPEN` or `ERROR` before, and when it never will be.
    experiment_key: of the run that made it.
    """

    def __init__(self, connection: Connection, listed: dict[str, Any]) -> None:
        self._connection = connection
        self.id: str = listed["artifactVersionId"]
        self.name: str = listed["artifactName"]
        self.version: str = listed["version"]
        self.type: str = listed["artifactType"]
        self.state: str = listed["state"]
        self.workspace: str = listed["workspaceName"]
        self.experiment_key: str = listed["experimentKey"]
        self.direction: str | None = listed.get("direction")

    def files(self) -> Table:
        """One row for each: `name`, `size` (bytes), `type`, `metadata`, `remote` and the `link` of a remote one."""
        listed = self._files()

        def column(kind: Any, field: str) -> Column:
            return Column(kind, [it[field] for it in listed])

        return Table(
            {
                "name": column("text", "fileName"),
                "size": column("integer", "fileSize"),
                "type": column("text", "type"),
                "metadata": column("text", "metadata"),
                "remote": column("boolean", "remote"),
                "link": column("text", "link"),
            }
        )

    def download(self, folder: Union[str, Path], *, skip_remote: bool = False, show_progress: bool = True) -> Path:
        """
        Puts the files into a folder, under their names, and returns the folder. Each is complete or not there.

        skip_remote: leaves out files that the service has only the address of; else they are an SvcError before any is read.

        Raises SvcError too for a name that points outside of the folder, and OSError when the disk refuses.
        """
        listed = self._files()
        remote = [it["fileName"] for it in listed if it["remote"]]
        if remote and not skip_remote:
            raise SvcError(
                f"{self.name}:{self.version} has remote files, such as {remote[0]}: skip_remote=True leaves them out, and "
                "files() has their addresses."
            )
        base = Path(folder).expanduser().resolve()
        stored = [(it, _place(base, it["fileName"])) for it in listed if not it["remote"]]
        base.mkdir(parents=True, exist_ok=True)
        size = sum(it["fileSize"] for it, _ in stored)
        with progress(f"{self.name}:{self.version}", size, show_progress) as on_bytes:
            for it, path in stored:
                query = {"artifactVersionId": self.id, "assetId": it["assetId"], "experimentKey": self._reader}
                download(self._connection, query, path, on_bytes)
        return base

    def _files(self) -> list[dict[str, Any]]:
        answer = self._connection.get("/artifacts/version/files", versionId=self.id, experimentKey=self._reader)
        return list(answer["files"])

    @property
    def _reader(self) -> str | None:
        """An open version is read by the run that opened it alone."""
        return self.experiment_key if self.state == "OPEN" else None

    def __repr__(self) -> str:
        return f"<artifact {self.workspace}/{self.name}:{self.version}, {self.type}, {self.state}>"


def list_artifacts(connection: Connection, key: str) -> Records[ArtifactVersion]:
    """Those that a run made, and those that it used."""
    versions = [
        ArtifactVersion(connection, it) for it in connection.get("/get/artifacts", experimentKey=key)["artifacts"]
    ]
    fields = ("name", "version", "type", "state", "direction", "workspace", "experiment_key", "id")
    table = Table({field: Column("text", [getattr(it, field) for it in versions]) for field in fields})
    return Records(versions, table)


def find_artifact(
    connection: Connection, workspace: str, name: str, version: str | None, used_by: str | None
) -> ArtifactVersion:
    """
    version: its number or an alias; None is for the newest closed one.
    used_by: the key of a run of which the version is an input from now on.
    """
    query = {
        "workspace": workspace,
        "artifactName": name,
        "versionOrAlias": version,
        "consumerExperimentKey": used_by,
    }
    found = connection.get("/artifacts/version", **query)
    return ArtifactVersion(connection, {**found["artifact"], **found})


def _place(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if folder not in path.parents:
        raise SvcError(f"The file {name!r} has a name that points outside of the folder {folder}.")
    return path
