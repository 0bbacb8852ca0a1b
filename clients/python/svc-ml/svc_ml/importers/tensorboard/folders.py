"""Folders of event files, as runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from svc_ml.fault import SvcError
from svc_ml.importers.items import Item, Source, SourceRun, State, walk
from svc_ml.importers.protobuf import to_dict, to_double
from svc_ml.importers.tensorboard.events import EventFile
from svc_ml.importers.tensorboard.frames import FrameReader

_PARTS = frozenset(["train", "training", "val", "valid", "validation", "eval", "test"])
_MARK = "tfevents"
_FIRST_BYTES = 4_096
"""The first event of a file is short."""


class TensorBoardSource(Source):
    """
    Each folder with event files is a run; those named `train`, `val` and the like are contexts of the run that they lie in, as
    they are where our client logs beside TensorBoard. What lies below the folder of a run belongs to it too, in a context named
    by its path, unless each folder is to be a run of its own.
    """

    kind = "tensorboard"

    def __init__(self, roots: list[Path], is_each_folder: bool = False) -> None:
        self._roots = roots
        self._is_each_folder = is_each_folder
        self._failed: list[str] = []

    def failed(self) -> list[str]:
        return self._failed

    def runs(self) -> Iterable[SourceRun]:
        found: dict[Path, TensorBoardRun] = {}
        self._failed = []
        for root in self._roots:
            if not root.exists():
                raise SvcError(f"there is no folder {root}.")
            folders = {root.parent} if root.is_file() else self._find_folders(root)
            top = root.parent if root.is_file() else root
            for path in sorted(folders):
                base = path if self._is_each_folder else _find_base(path, folders, top)
                if base not in found:
                    name = base.resolve().name if base == top else base.relative_to(top).as_posix()
                    found[base] = TensorBoardRun(base, name)
                found[base].folders.append(path)
        if not found and not self._failed:
            raise SvcError(f"{', '.join(map(str, self._roots))}: there are no event files (*{_MARK}*) in it.")
        return [it for it in found.values() if self._is_readable(it)]

    def _is_readable(self, run: TensorBoardRun) -> bool:
        try:
            return run.find_identity()
        except OSError as error:
            self._failed.append(f"{run.name}: {error}")
            return False

    def _find_folders(self, root: Path) -> set[Path]:
        return {path for path, names in walk(root, self._failed) if any(_MARK in it for it in names)}


class TensorBoardRun(SourceRun):
    def __init__(self, base: Path, name: str) -> None:
        self.base = base
        self.name = name
        self.folders: list[Path] = []
        self._files: dict[Path, EventFile] = {}

    def find_identity(self) -> bool:
        """By the earliest file, which is there however the run grows, and has another name or time than those of other runs."""
        first = min(
            ((_first_time(it), it.name) for folder in self.folders for it in _event_files(folder)), default=None
        )
        self.identity = "" if first is None else f"{first[1]} {first[0]!r}"
        return first is not None

    def take_over(self, later: SourceRun) -> None:
        if isinstance(later, TensorBoardRun):
            self.folders = later.folders

    def size(self) -> int:
        return sum(it.stat().st_size for folder in self.folders for it in _event_files(folder))

    def read(self) -> Iterator[Item]:
        for folder in self.folders:
            for path in _event_files(folder):
                if path not in self._files:
                    stream = path.relative_to(self.base).as_posix()
                    self._files[path] = EventFile(path, f"{self.identity} {stream}", self._context(folder))
        before = self._end_seconds()
        for file in self._files.values():
            yield from file.read()
            yield from file.left_out_at_end()
        end = self._end_seconds()
        starts = [it.first_seconds for it in self._files.values() if it.first_seconds is not None]
        if starts and (end != before or end is None):
            start = min(starts)
            yield State(start_ms=round(start * 1000), end_ms=round(max(start, end or start) * 1000))

    def _end_seconds(self) -> float | None:
        return max((it.last_seconds for it in self._files.values() if it.last_seconds is not None), default=None)

    def _context(self, folder: Path) -> str:
        return "" if folder == self.base else folder.relative_to(self.base).as_posix()


def _find_base(path: Path, folders: set[Path], top: Path) -> Path:
    base = path
    for it in [path, *path.parents]:
        if it in folders:
            base = it
        if it == top:
            break
    return base.parent if base.name in _PARTS and base != top else base


def _event_files(folder: Path) -> list[Path]:
    # An empty file will have a first event, of which a run is known.
    return sorted(it for it in folder.iterdir() if _MARK in it.name and it.is_file() and it.stat().st_size > 0)


def _first_time(path: Path) -> float:
    for chunk in FrameReader(path, _FIRST_BYTES).read():
        for start, length in chunk.places()[:1]:
            try:
                return to_double(to_dict(chunk.data[start : start + length]).get(1, [bytes(8)])[0])
            except ValueError:
                return 0.0
    return 0.0
