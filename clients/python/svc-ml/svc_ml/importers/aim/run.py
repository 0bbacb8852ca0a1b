"""Runs in a repository of Aim: a folder `.aim`."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple, Optional

from svc_ml.fault import SvcError
from svc_ml.importers.aim.store import Context, Row, Sequence, open_run, read_rows
from svc_ml.importers.aim.values import to_items
from svc_ml.importers.items import (
    File,
    Item,
    LeftOut,
    Lines,
    Other,
    Parameter,
    Points,
    Source,
    SourceRun,
    State,
    Tag,
    Write,
)
from svc_ml.importers.series import SeenSeries

_FOLDER, _DATABASE = ".aim", "run_metadata.sqlite"
_SYSTEM_NAME, _SYSTEM_PARAMETERS = "__system__", "__system_params"
_NUMBERS = ("float", "int", "float64")
_LINE, _RECORD = "aim.log_line", "aim.log_record"
_DEFAULT_EXPERIMENT = "default"


class _About(NamedTuple):
    """What its database says of a run."""

    name: str = ""
    description: str = ""
    is_archived: bool = False
    start_ms: Optional[int] = None
    end_ms: Optional[int] = None
    experiment: str = ""
    tags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class AimSource(Source):
    kind = "aim"

    def __init__(self, path: Path) -> None:
        self._path = path if path.name == _FOLDER else path / _FOLDER

    def runs(self) -> Iterable[SourceRun]:
        chunks = self._path / "meta" / "chunks"
        hashes = sorted(it.name for it in chunks.iterdir() if it.is_dir()) if chunks.is_dir() else []
        if not hashes:
            raise SvcError(f"{self._path}: there are no runs of Aim in it.")
        known = _read_database(self._path / _DATABASE)
        return [AimRun(self._path, it, known.get(it, _About())) for it in hashes]


class AimRun(SourceRun):
    def __init__(self, repository: Path, hash: str, about: _About) -> None:
        self.identity = hash
        self.name = about.name or hash
        self.project = about.experiment if about.experiment != _DEFAULT_EXPERIMENT else None
        self._repository = repository
        self._about = about
        self._series = SeenSeries()
        self._lines_read = 0
        self._told: set[str] = set()
        """What was yielded before: values and files."""

    def take_over(self, later: SourceRun) -> None:
        if isinstance(later, AimRun):
            self._about = later._about

    def size(self) -> int:
        folder = self._repository / "seqs" / "chunks" / self.identity
        return sum(it.stat().st_size for it in folder.glob("*")) if folder.is_dir() else 1

    def read(self) -> Iterator[Item]:
        for item in self._read_all():
            if not isinstance(item, (Points, Lines)):
                # When it is read again, only what has changed since.
                shown = item.identity if isinstance(item, File) else repr(item)
                if shown in self._told:
                    continue
                self._told.add(shown)
            yield item

    def _read_all(self) -> Iterator[Item]:
        about = self._about
        yield from map(Tag, about.tags)
        if about.description:
            yield Other("notes", about.description)
        yield from (Other(f"note {number}", it) for number, it in enumerate(about.notes, 1))
        if about.is_archived:
            yield Other("archived", "true")
        with open_run(self._repository, self.identity) as stored:
            for name, value in stored.attributes.items():
                yield from _read_system(value) if name == _SYSTEM_PARAMETERS else _to_parameters(str(name), value)
            for sequence in stored.sequences:
                yield from self._read_sequence(sequence)
            end_ms = about.end_ms if stored.end_seconds is None else round(stored.end_seconds * 1000)
        yield State(about.start_ms, end_ms, is_running=end_ms is None)

    def _read_sequence(self, sequence: Sequence) -> Iterator[Item]:
        rows = read_rows(sequence)
        whole = [it for it in rows if it.step == int(it.step)]
        if len(whole) < len(rows):
            why = f"{sequence.name}: steps with decimals, which there are not here"
            yield LeftOut("points", why, len(rows) - len(whole))
        name, context = sequence.name, to_context(sequence.context)
        kind = sequence.kind[5:-1] if sequence.kind.startswith("list(") else sequence.kind
        if kind in _NUMBERS:
            yield from self._read_numbers(name, context, whole)
        elif kind == _LINE:
            new = whole[self._lines_read :]
            if new:
                yield Lines([(_to_line(it.value), False, _to_ms(it.seconds)) for it in new])
            self._lines_read = len(whole)
        elif kind == _RECORD:
            lines = [json.dumps(_to_record(it)) for it in whole]
            yield File(f"{name}\0{len(lines)}", "log_records.jsonl", "\n".join([*lines, ""]).encode())
        elif kind.startswith("aim."):
            for it in whole:
                yield from to_items(kind, name, context, int(it.step), it.value)
        else:
            yield LeftOut(f"values of the type {kind}", "there is nothing like it here", len(whole))

    def _read_numbers(self, name: str, context: str, rows: list[Row]) -> Iterator[Item]:
        is_system = name.startswith(_SYSTEM_NAME)
        epochs = [None if it.epoch is None or it.epoch != int(it.epoch) else int(it.epoch) for it in rows]
        parts = sum(it.epoch is not None and whole is None for it, whole in zip(rows, epochs))
        if parts:
            yield LeftOut("epochs", f"{name}: with decimals, which there are not here; their points are taken", parts)
        if not rows:
            return
        points = Points(
            self.identity,
            f"sys.{name[len(_SYSTEM_NAME) :]}" if is_system else name,
            context,
            [float(it.value) for it in rows],
            None if is_system else [int(it.step) for it in rows],
            [_to_ms(it.seconds) for it in rows],
            epochs,
        )
        new = self._series.find_new(points)
        if new is not None:
            yield new


def to_context(context: Context) -> str:
    """`val` of the subset val alone; else all as `fold=1, subset=val`."""
    if set(context) == {"subset"}:
        return str(context["subset"])
    return ", ".join(f"{name}={value}" for name, value in sorted(context.items()))


def _to_parameters(name: str, value: Any) -> Iterator[Item]:
    if isinstance(value, Mapping) and value:
        for inner_name, it in value.items():
            yield from _to_parameters(f"{name}|{inner_name}", it)
    elif value is None or isinstance(value, (bool, int, float, str, list, tuple, Mapping)):
        yield Parameter(name, list(value) if isinstance(value, tuple) else value)
    else:
        yield LeftOut("parameters", f"{name}: of the type {type(value).__name__}")


def _read_system(found: Mapping[str, Any]) -> Iterator[Item]:
    variables = found.get("env_variables") or {}
    if variables:
        yield LeftOut("variables of the environment", "they may have secrets in them", len(variables))
    if found.get("packages"):
        lines = [f"{name}=={version}\n" for name, version in sorted(found["packages"].items())]
        yield File("packages", "requirements.txt", "".join(lines).encode())
    given = {"executable": found.get("executable"), "command": _to_list(found.get("arguments"))}
    body = {name: it for name, it in given.items() if it}
    if body:
        yield Write("details of the system", "/write/experiment/system-details", body)
    git = found.get("git_info") or {}
    if isinstance(git.get("commit"), Mapping) and git["commit"].get("hash"):
        about = {
            "parent": git["commit"]["hash"],
            "origin": git.get("remote_origin_url") or "",
            "branch": git.get("branch") or "",
        }
        user = str(git["commit"].get("author") or "")
        yield Write("commits", "/write/experiment/git/metadata", {"user": user, "root": "", **about})


def _to_list(arguments: Any) -> list[str]:
    return str(arguments).split() if isinstance(arguments, str) else [str(it) for it in arguments or ()]


def _to_line(value: Any) -> str:
    data = value.storage["data"]
    return str(data.load() if hasattr(data, "load") else data)


def _to_record(row: Row) -> dict[str, Any]:
    found = row.value.storage
    level = logging.getLevelName(found.get("log_level", 0))
    return {"step": row.step, "time": found.get("timestamp", row.seconds), "level": level, "message": found["message"]}


def _to_ms(seconds: Optional[float]) -> Optional[int]:
    return None if seconds is None else round(seconds * 1000)


def _read_database(path: Path) -> dict[str, _About]:
    """By the hash of the run. It is opened for reading only."""
    if not path.is_file():
        return {}
    query = """
        SELECT run.hash, run.name, run.description, run.is_archived, run.created_at, run.finalized_at, experiment.name
        FROM run LEFT JOIN experiment ON experiment.id = run.experiment_id"""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            tags = _by_run(
                database, "SELECT hash, tag.name FROM run JOIN run_tag ON run.id = run_id JOIN tag ON tag.id = tag_id"
            )
            notes = _by_run(database, "SELECT hash, content FROM run JOIN note ON run.id = run_id ORDER BY note.id")
            return {
                hash: _About(
                    # The name that a run gets which was given none.
                    "" if name == f"Run: {hash}" else name or "",
                    description or "",
                    bool(is_archived),
                    _read_time(created),
                    _read_time(finalized),
                    experiment or "",
                    tags.get(hash, ()),
                    notes.get(hash, ()),
                )
                for hash, name, description, is_archived, created, finalized, experiment in database.execute(query)
            }
    except sqlite3.DatabaseError as error:
        raise SvcError(f"{path} cannot be read: {error}.") from None


def _by_run(database: sqlite3.Connection, query: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for hash, value in database.execute(query):
        found[hash] = (*found.get(hash, ()), value)
    return found


def _read_time(text: Optional[str]) -> Optional[int]:
    """Its times are UTC, and say so nowhere."""
    if not text:
        return None
    return round(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() * 1000)
