"""Runs of MLflow as what we log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

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
    to_digest,
)
from svc_ml.importers.mlflow.records import Cursor, ModelVersion, RunRecord, Store, to_path

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
        uri = self._record.artifact_uri
        folder = self._store.find_folder(uri)
        if folder is None:
            # A run without artifacts has no folder of its own, but one above it.
            path = to_path(uri)
            if uri and (path is None or not path.parent.parent.is_dir()):
                yield LeftOut("folders of artifacts", f"{uri} is not on this disk: import from the server that has it")
            return
        found = sorted(it for it in folder.rglob("*") if it.is_file())
        models = {it.parent for it in found if it.name == _MODEL_FILE}
        models.update(it for version in versions if (it := self._store.find_folder(version.source)) is not None)
        for path in found:
            model = next((it for it in path.parents if it in models), None)
            name = None if model is None or model == folder else model.relative_to(folder).as_posix()
            yield _to_file(path, path.relative_to(folder).as_posix(), name)
        for version in versions:
            source = self._store.find_folder(version.source)
            if source is not None and source.is_dir() and folder in source.parents:
                yield _to_registered(version, source.relative_to(folder).as_posix())

    def _read_models(self, versions: list[ModelVersion]) -> Iterator[Item]:
        """Models of MLflow 3, which lie beside the runs."""
        for model in self._store.models(self._record):
            folder = self._store.find_folder(model.location)
            if folder is None:
                yield LeftOut("models", f"{model.name}: {model.location} is not on this disk")
                continue
            for path in sorted(it for it in folder.rglob("*") if it.is_file()):
                yield _to_file(path, f"{model.name}/{path.relative_to(folder).as_posix()}", model.name)
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


def _to_file(path: Path, name: str, model: str | None) -> File:
    type = "asset" if model is None else "model-element"
    # Of a model the service has the names within.
    shown = name if model is None else name[len(model) + 1 :]
    return File(f"artifact\0{name}\0{to_digest(path)}", shown, path, type, model=model)


def _to_registered(version: ModelVersion, model: str) -> RegisteredVersion:
    number = version.version if "." in version.version else f"{version.version}.0.0"
    return RegisteredVersion(
        version.name, number, model, version.description, version.stages, version.model_description
    )
