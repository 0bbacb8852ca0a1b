"""What a run of a source consists of."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union


class Points(NamedTuple):
    """
    Following points of one series, as columns of the same length. Of one stream, such as a file, the points of a series always come
    in the same order, and new ones at the end.
    """

    stream: str
    name: str
    context: str
    values: list[float]
    steps: Optional[list[Optional[int]]]
    timestamps: Optional[list[Optional[int]]]
    """Milliseconds since the Unix epoch."""
    epochs: Optional[list[Optional[int]]] = None
    equals_before: Optional[list[int]] = None
    """
    Of each point, how many points of its series before it have the same value, step, time and epoch. With it, points are known by
    what they are, and come in any order.
    """

    def part(self, places: Sequence[int]) -> Points:
        """The points at these places, at least one."""
        columns: list[Any] = [self.values, self.steps, self.timestamps, self.epochs, self.equals_before]
        if isinstance(places, range) and places.step == 1:
            chosen = slice(places.start, places.stop)
            columns = [None if it is None else it[chosen] for it in columns]
        else:
            columns = [None if it is None else [it[at] for at in places] for it in columns]
        values, steps, timestamps, epochs, equals = columns
        return self._replace(values=values, steps=steps, timestamps=timestamps, epochs=epochs, equals_before=equals)


class Parameter(NamedTuple):
    name: str
    value: Any


class Other(NamedTuple):
    name: str
    value: Any


class Tag(NamedTuple):
    name: str


class Download:
    """The content of a file that is elsewhere. It is fetched only when the service does not have it yet."""

    def fetch(self) -> Path:
        """A temporary file, which is the caller's to delete. Raises OSError, SvcError."""
        raise NotImplementedError


class File(NamedTuple):
    """identity: tells it from the other files of the run, and stays the same."""

    identity: str
    name: str
    data: Union[bytes, Path, Download]
    type: str = "asset"
    step: Optional[int] = None
    context: str = ""
    metadata: Optional[Mapping[str, Any]] = None
    model: Optional[str] = None
    """The model of the run that it belongs to; its type is `model-element` then."""


class Lines(NamedTuple):
    """Following lines of output."""

    lines: list[tuple[str, bool, Optional[int]]]
    """Text, whether it is of standard error, milliseconds since the Unix epoch."""


class Write(NamedTuple):
    """A write that only this kind of source has; repeated it must change nothing. `what` is how the report counts it."""

    what: str
    path: str
    body: dict[str, Any]
    method: str = "POST"


class ArtifactVersion(NamedTuple):
    name: str
    version: Optional[str]
    """Semantic; None is the next one."""
    type: str
    aliases: list[str]
    metadata: dict[str, Any]
    files: dict[str, Path]
    identity: str


class RegisteredVersion(NamedTuple):
    """A version of a registered model, made of the files of the run that were logged as the model `experiment_model`."""

    model: str
    version: str
    experiment_model: str
    comment: str
    stages: list[str]
    description: str


class State(NamedTuple):
    """What is known of the run as a whole; None of what is not. Milliseconds since the Unix epoch."""

    start_ms: Optional[int] = None
    end_ms: Optional[int] = None
    is_running: bool = False
    error: Optional[str] = None
    """Why it has crashed."""


@dataclass(frozen=True)
class LeftOut:
    """What is not imported: what it is, why, and how many of it there are."""

    what: str
    why: str
    count: int = 1


TORN = "torn records"
"""What a source ends with that was not written whole, or not yet."""

Item = Union[Points, Parameter, Other, Tag, File, Lines, Write, ArtifactVersion, RegisteredVersion, State, LeftOut]


class SourceRun:
    """
    One run of a source. It travels between processes, so it holds no open files.

    identity: tells it from all other runs of sources of this kind, wherever the source lies.
    """

    identity: str
    name: str
    project: Optional[str] = None
    """The project that the source names; an argument goes before it."""

    def read(self) -> Iterator[Item]:
        """What it holds; when called again, what has come since. Raises OSError, ValueError when it cannot be read at all."""
        raise NotImplementedError

    def take_over(self, later: SourceRun) -> None:
        """What was learned when the runs of the source were listed again."""

    def size(self) -> int:
        """About how much there is to read, in any unit that all runs of the source share."""
        return 1


class Source:
    kind: str

    def left_out(self) -> list[LeftOut]:
        """What was seen when runs were listed, and is none of them."""
        return []

    def failed(self) -> list[str]:
        """What could not be read when runs were listed, and why."""
        return []

    def runs(self) -> Iterable[SourceRun]:
        """Raises SvcError when there is no such source."""
        raise NotImplementedError


def walk(root: Path, failed: list[str], follow_links: bool = True) -> Iterator[tuple[Path, list[str]]]:
    """Folders and the names in them. Those that cannot be read are added to `failed`."""
    for path, _, names in os.walk(root, followlinks=follow_links, onerror=lambda error: failed.append(str(error))):
        yield Path(path), names


def to_digest(path: Path) -> str:
    """Of the content of a file. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1024 * 1024):
            digest.update(part)
    return digest.hexdigest()


def to_key(*parts: str) -> str:
    """32 hexadecimal digits that are the same whenever the parts are."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
