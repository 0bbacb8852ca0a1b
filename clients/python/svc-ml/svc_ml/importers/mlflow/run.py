"""Runs of MLflow as what we log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from svc_ml.importers.items import (
    File,
    Item,
    LeftOut,
    Other,
    Parameter,
    RegisteredVersion,
    Source,
    SourceRun,
    State,
    Write,
)
from svc_ml.importers.mlflow.records import Artifact, Cursor, ModelVersion, RunRecord, Store

_NOTES = {"mlflow.note.content": "notes"}
_COMMIT, _ORIGIN, _BRANCH = "mlflow.source.git.commit", "mlflow.source.git.repoURL", "mlflow.source.git.branch"
_ENDED_BADLY = ("FAILED", "KILLED")
_RUNNING = ("RUNNING", "SCHEDULED")
_MODEL_FILE = "MLmodel"


class MlflowSource(Source):
    kind = "mlflow"

    def __init__(self, store: Store) -> None:
        self._store = store

    def runs(self) -> Iterable[SourceRun]:
        return [MlflowRun(self._store, it) for it in self._store.runs()]

    def left_out(self) -> list[LeftOut]:
        return self._store.left_out()


class MlflowRun(SourceRun):
    def __init__(self, store: Store, record: RunRecord) -> None:
        self.identity = record.id
        self.name = record.name or record.id
        self.project = record.experiment
        self._store = store
        self._record = record
        self._cursor = Cursor()
        self._told: set[str] = set()
        """What was yielded before: values and files."""

    def take_over(self, later: SourceRun) -> None:
        if isinstance(later, MlflowRun):
            self._record = later._record

    def read(self) -> Iterator[Item]:
        for item in self._read_all():
            if isinstance(item, (Parameter, Other, File, Write, LeftOut, RegisteredVersion, State)):
                # When it is read again, only what has changed since.
                shown = repr(item)
                if shown in self._told:
                    continue
                self._told.add(shown)
            yield item

    def _read_all(self) -> Iterator[Item]:
        store, record = self._store, self._record
        yield from (Parameter(name, value) for name, value in store.parameters(record).items())
        yield from _read_tags(store.tags(record))
        yield from store.points(record, self._cursor)
        versions = store.versions(record)
        yield from self._read_files(versions)
        yield from self._read_models(versions)
        error = record.status if record.status in _ENDED_BADLY else None
        yield State(record.start_ms, record.end_ms, is_running=record.status in _RUNNING, error=error)

    def _read_files(self, versions: list[ModelVersion]) -> Iterator[Item]:
        found = self._store.artifacts(self._record)
        if found is None:
            uri = self._record.artifact_uri
            yield LeftOut("folders of artifacts", f"{uri} is not on this disk: import from the server that has it")
            return
        sources = {it: self._store.within(self._record, it.source) for it in versions}
        models = {str(PurePosixPath(it.path).parent) for it in found if PurePosixPath(it.path).name == _MODEL_FILE}
        models.update(it for it in sources.values() if it)
        for artifact in found:
            parents = map(str, PurePosixPath(artifact.path).parents)
            yield _to_file(artifact, next((it for it in parents if it in models and it != "."), None))
        for version, model in sources.items():
            if model:
                yield _to_registered(version, model)

    def _read_models(self, versions: list[ModelVersion]) -> Iterator[Item]:
        """Models of MLflow 3, which lie beside the runs."""
        for model in self._store.models(self._record):
            found = self._store.model_artifacts(model)
            if found is None:
                yield LeftOut("models", f"{model.name}: {model.location} is not on this disk")
                continue
            for it in found:
                yield _to_file(it._replace(path=f"{model.name}/{it.path}"), model.name)
            for version in versions:
                if version.source in (f"models:/{model.id}", model.location):
                    yield _to_registered(version, model.name)


def _read_tags(tags: dict[str, str]) -> Iterator[Item]:
    for name, value in tags.items():
        if name not in ("mlflow.runName", "mlflow.log-model.history"):
            yield Other(_NOTES.get(name, name), value)
    if _COMMIT in tags:
        about = {"parent": tags[_COMMIT], "origin": tags.get(_ORIGIN, ""), "branch": tags.get(_BRANCH, "")}
        yield Write(
            "commits", "/write/experiment/git/metadata", {"user": tags.get("mlflow.user", ""), "root": "", **about}
        )


def _to_file(artifact: Artifact, model: str | None) -> File:
    type = "asset" if model is None else "model-element"
    # Of a model the service has the names within.
    shown = artifact.path if model is None else artifact.path[len(model) + 1 :]
    return File(f"artifact\0{artifact.path}\0{artifact.mark}", shown, artifact.data, type, model=model)


def _to_registered(version: ModelVersion, model: str) -> RegisteredVersion:
    number = version.version if "." in version.version else f"{version.version}.0.0"
    return RegisteredVersion(
        version.name, number, model, version.description, list(version.stages), version.model_description
    )
