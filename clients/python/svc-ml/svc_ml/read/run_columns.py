"""The columns of a table of runs: what they are called here, and how the service is asked for them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from svc_ml.fault import SvcError
from svc_ml.read.column import Column
from svc_ml.read.values import value_column

_PARTS = ("last", "min", "max")
_SYSTEM = "sys."


@dataclass(frozen=True)
class RunColumn:
    """
    asked: as `/project/runs` takes it.
    kind: `number`, `text`, `boolean`, `time`, `duration` or `tags`.
    rule: what a predicate on it has besides operator and value; None when there is no such predicate.
    """

    name: str
    asked: dict[str, Any]
    kind: str
    rule: dict[str, str] | None

    @property
    def is_shown(self) -> bool:
        """Of those that nobody has asked for by name."""
        source, name = self.asked["source"], self.asked["name"]
        if source == "metadata":
            return name not in _HIDDEN
        return not (source == "metric" and _SYSTEM in name) and (source, name) != ("other", "Name")

    def to_column(self, cells: Iterable[Any]) -> Column:
        if self.asked["source"] in ("parameter", "other"):
            return value_column(self.kind, cells)
        if self.kind == "number":
            return Column("float", [None if it is None else float(it) for it in cells])
        if self.kind == "duration":
            return Column("float", [None if it is None else it / 1_000 for it in cells])
        if self.kind == "tags":
            return Column("texts", cells)
        if self.kind == "time":
            return Column("time", cells)
        return Column("boolean" if self.kind == "boolean" else "text", cells)


def _metadata(name: str, asked: str, kind: str, field: str | None, type_of_rule: str = "string") -> RunColumn:
    rule = None if field is None else {"source": "metadata", "field": field, "type": type_of_rule}
    return RunColumn(name, {"source": "metadata", "name": asked}, kind, rule)


STATE = _metadata("state", "state", "text", None)
TAGS = RunColumn("tags", {"source": "metadata", "name": "tags"}, "tags", {"source": "tag"})
METADATA = [
    _metadata("key", "key", "text", "experimentKey"),
    _metadata("name", "name", "text", "experimentName"),
    STATE,
    _metadata("start", "startTime", "time", "startTimeMillis", "datetime"),
    _metadata("end", "endTime", "time", "endTimeMillis", "datetime"),
    _metadata("duration", "duration", "duration", "duration", "double"),
    _metadata("user", "userName", "text", "userName"),
    TAGS,
    _metadata("file_path", "filePath", "text", "filePath"),
    _metadata("archived", "archived", "boolean", "archived", "boolean"),
]
_HIDDEN = ("filePath", "archived")


class RunColumns:
    """All columns that the runs of a project have."""

    def __init__(self, project: str, listed: list[dict[str, Any]]) -> None:
        """listed: the answer of `/project/run-columns`."""
        self._project = project
        self._by_name = {it.name: it for it in METADATA}
        columns = [it for part in ("parameter", "metric", "other") for it in listed if it["source"] == part]
        # A metric may be called as a part of another: its own name goes first.
        for it in columns:
            self._add(_last(it))
        for it in columns:
            if it["source"] == "metric":
                for part in _PARTS[1:]:
                    self._add(_part(it, part))

    def _add(self, column: RunColumn) -> None:
        self._by_name.setdefault(column.name, column)

    def shown(self) -> list[RunColumn]:
        """The parts of a metric follow it."""
        order = {"metadata": 0, "parameter": 1, "metric": 2, "other": 3}
        shown = [it for it in self._by_name.values() if it.is_shown]
        places = {it.name: place for place, it in enumerate(shown)}
        last = {_summary_name(it.asked): places[it.name] for it in reversed(shown) if it.asked["source"] == "metric"}
        return sorted(
            shown,
            key=lambda it: (
                order[it.asked["source"]],
                last.get(_summary_name(it.asked), 0) if it.asked["source"] == "metric" else places[it.name],
            ),
        )

    def find(self, name: str) -> RunColumn:
        """Raises SvcError that tells of names that are alike."""
        found = self._by_name.get(name)
        if found is not None:
            return found
        unprefixed = [it for it in self._by_name if it.partition(".")[2] == name]
        alike = unprefixed or difflib.get_close_matches(name, self._by_name, n=3) or [it.name for it in METADATA]
        raise SvcError(
            f"No run of the project {self._project!r} has {name!r}. There is {', '.join(alike)}. Parameters begin with "
            "'params.', metrics with 'metrics.', others with 'others.'."
        )


def _last(listed: dict[str, Any]) -> RunColumn:
    source, name = listed["source"], listed["name"]
    if source == "metric":
        return _part(listed, "last")
    prefix, rule_source = ("params.", "params") if source == "parameter" else ("others.", "log_other")
    asked = {"source": source, "name": name}
    return RunColumn(prefix + name, asked, listed["type"], {"source": rule_source, "field": name})


def _part(listed: dict[str, Any], part: str) -> RunColumn:
    asked = {field: it for field, it in {**listed, "of": part}.items() if field != "type"}
    name = _summary_name(asked)
    if part != "last":
        return RunColumn(f"metrics.{name}.{part}", asked, "number", None)
    return RunColumn(f"metrics.{name}", asked, "number", {"source": "metrics", "field": name})


def _summary_name(asked: dict[str, Any]) -> str:
    context = asked.get("context")
    return f"{context}_{asked['name']}" if context else str(asked["name"])
