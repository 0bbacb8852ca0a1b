"""
What Aim keeps of one run: trees in RocksDB, which only its own package can read. They are opened for reading only, and beside a
process that writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Optional

from svc_ml.fault import SvcError

Context = dict[str, Any]


class Sequence(NamedTuple):
    name: str
    context: Context
    kind: str
    """`float`, `int`, `aim.image`, `list(aim.image)` and so on."""
    tree: Any


class Row(NamedTuple):
    value: Any
    step: Any
    """A number; that of Aim may have decimals."""
    epoch: Any
    seconds: Optional[float]


class StoredRun(NamedTuple):
    attributes: dict[str, Any]
    end_seconds: Optional[float]
    sequences: list[Sequence]


@contextmanager
def open_run(repository: Path, hash: str) -> Iterator[StoredRun]:
    """Raises SvcError when `aim` is not installed, ValueError when the run cannot be read."""
    container, rocks_error = _import_aim()
    opened = []

    def open_tree(part: str) -> Any:
        path = repository / part / "chunks" / hash
        # Open as long as its trees are read.
        opened.append(container(str(path), read_only=True, skip_read_optimization=True))
        return opened[-1].tree()

    try:
        about = open_tree("meta").subtree(("meta", "chunks", hash))
        has_sequences = (repository / "seqs" / "chunks" / hash).is_dir()
        sequences = list(_list_sequences(about, open_tree("seqs").subtree("seqs"), hash)) if has_sequences else []
        yield StoredRun(_collect(about, "attrs") or {}, _collect(about, "end_time"), sequences)
    except rocks_error as error:
        raise ValueError(f"Aim cannot read it: {error}") from None
    finally:
        for it in opened:
            it.close()


def read_rows(sequence: Sequence) -> list[Row]:
    """By their steps."""
    columns = {it: dict(_items(sequence.tree, it)) for it in ("step", "epoch", "time")}
    rows = [
        Row(value, columns["step"].get(key, key), columns["epoch"].get(key), columns["time"].get(key))
        for key, value in _items(sequence.tree, "val")
    ]
    return sorted(rows, key=lambda it: it.step)


def _import_aim() -> tuple[Any, type[Exception]]:
    """Its container, and the class of what RocksDB raises."""
    try:
        from aim.storage.rockscontainer import RocksContainer
        from aimrocks.errors import RocksIOError
    except ImportError as error:
        raise SvcError(f"only Aim's own package reads what it has written: pip install aim ({error}).") from None
    return RocksContainer, RocksIOError


def _list_sequences(about: Any, seqs: Any, hash: str) -> Iterator[Sequence]:
    contexts = _collect(about, "contexts") or {}
    traces = about.subtree("traces")
    for context in _keys(traces):
        for name in _keys(traces.subtree(context)):
            described = traces.subtree((context, name))
            # Numbers of version 2 have keys that are hashes of their steps.
            above = ("v2", "chunks") if _collect(described, "version") == 2 else ("chunks",)
            kind = _collect(described, "dtype") or "float"
            yield Sequence(str(name), contexts.get(context, {}), kind, seqs.subtree((*above, hash, context, name)))


def _keys(tree: Any) -> list[Any]:
    try:
        return list(tree.keys())
    except (KeyError, TypeError):
        # How it tells that nothing is there.
        return []


def _items(tree: Any, name: str) -> Iterator[tuple[Any, Any]]:
    try:
        yield from tree.subtree(name).items()
    except (KeyError, TypeError):
        return


def _collect(tree: Any, name: str) -> Any:
    try:
        return tree.collect(name)
    except KeyError:
        return None
