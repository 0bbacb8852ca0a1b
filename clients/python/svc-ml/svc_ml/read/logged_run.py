"""One run, as it was logged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, Union

from svc_ml.read.artifacts import ArtifactVersion, list_artifacts
from svc_ml.read.assets import Asset, download_asset, list_assets
from svc_ml.read.column import Column
from svc_ml.read.connection import Connection
from svc_ml.read.errors import NotFound
from svc_ml.read.output import read_output
from svc_ml.read.points import Points, read_points
from svc_ml.read.records import Records
from svc_ml.read.table import Table
from svc_ml.read.values import Value, to_value

_SYSTEM = "sys."
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class LoggedRun:
    """
    What is said of the run itself is read once, when it is first asked for; points, output and files each time.

    Every read may raise NotFound, Refused and Unavailable.
    """

    def __init__(self, connection: Connection, metadata: dict[str, Any]) -> None:
        self._connection = connection
        self._metadata = metadata

    @property
    def key(self) -> str:
        return str(self._metadata["experimentKey"])

    @property
    def name(self) -> str:
        return str(self._metadata["experimentName"])

    @property
    def link(self) -> str:
        """Its page."""
        return str(self._metadata["link"])

    @property
    def project(self) -> str:
        return str(self._metadata["projectName"])

    @property
    def workspace(self) -> str:
        return str(self._metadata["workspaceName"])

    @property
    def user(self) -> str:
        return str(self._metadata["userName"])

    @property
    def start(self) -> datetime:
        return _EPOCH + timedelta(milliseconds=self._metadata["startTimeMillis"])

    @property
    def end(self) -> datetime:
        """When it ended, or was last active."""
        return _EPOCH + timedelta(milliseconds=self._metadata["endTimeMillis"])

    @cached_property
    def state(self) -> str:
        """`running`, `finished`, `crashed`, or `lost`: it was last heard of some time ago, and never said that it ended."""
        key_is = {"source": "metadata", "field": "experimentKey", "operator": "=", "value": self.key}
        body = {"projectId": self._metadata["projectId"], "columns": [], "predicates": [key_is]}
        body["archived"] = self._metadata["archived"]
        return str(self._connection.post("/project/runs", body)["runs"][0]["state"])

    @cached_property
    def params(self) -> dict[str, Value]:
        """Numbers and booleans are such; everything else is text, as the service has it."""
        return self._values("/experiment/parameters")

    @cached_property
    def others(self) -> dict[str, Value]:
        return {name: it for name, it in self._values("/experiment/log-other").items() if name != "Name"}

    @cached_property
    def tags(self) -> list[str]:
        """In the order in which they were added."""
        return list(self._get("/experiment/tags")["tags"])

    def metrics_summary(self) -> Table:
        """
        One row for each series: `name`, `context`, and of its last, least and greatest value `last`, `last_step`, `last_time`,
        `min`, ...
        """
        listed = [it for it in self._series() if not it[0].startswith(_SYSTEM)]
        columns = {
            "name": Column("text", [it[0] for it in listed]),
            "context": Column("text", [it[1] for it in listed]),
        }
        for column, part in (("last", "Current"), ("min", "Min"), ("max", "Max")):
            columns[column] = Column("float", [float(it[2]["value" + part]) for it in listed])
            columns[column + "_step"] = Column("integer", [it[2]["step" + part] for it in listed])
            columns[column + "_time"] = Column("time", [it[2]["timestamp" + part] for it in listed])
        return Table(columns)

    def metrics(self, names: Union[str, Sequence[str], None] = None, context: str | None = None) -> Table:
        """
        Every point, one in each row: `name`, `context`, `step`, `epoch`, `time`, `value`. Those of a series are in the order of
        step, then time.

        names: of metrics, or `<context>_<name>`; None is for all that the run logged. Those of the machine are read by
        `system_metrics`. A name that the run did not log has no rows.
        context: only points of it; "" is for those that have none.
        """
        if names is None:
            return self._read_all(context).to_table()
        return self._read_named([names] if isinstance(names, str) else names, context).to_table()

    def system_metrics(self) -> Table:
        """The use of CPU, memory, disk, network and GPU, as points of `metrics` are."""
        names = dict.fromkeys(name for name, _, _ in self._series() if name.startswith(_SYSTEM))
        return self._read_named(names, None).to_table()

    def output(self, *, search: str | None = None, stderr: bool | None = None, last: int | None = None) -> Table:
        """
        The lines that the run printed: `number` (from 0), `text`, `stderr`, `time`, `context`.

        search: only lines with this text, ignoring case and colours.
        stderr: True for lines of standard error only, False for those of standard output.
        last: only so many lines, from the end.
        """
        return read_output(self._connection, self.key, {"search": search, "stderr": stderr}, last)

    def assets(self, asset_type: str | None = None) -> Records[Asset]:
        """The files of the run, oldest first; of one type, such as `image`, or all."""
        return list_assets(self._connection, self.key, asset_type)

    def download(
        self, asset: Union[Asset, str], path: Union[str, Path, None] = None, *, show_progress: bool = True
    ) -> Path:
        """
        Writes the bytes of an asset to a file and returns its path. The file is complete, with the checksum that the service
        keeps, or what was there before stays.

        asset: one of `assets`, or a name: the newest of that name.
        path: of the file, or a folder that is there; None is for the working directory.

        Raises SvcError for a remote asset, which says where its bytes are, and OSError when the disk refuses.
        """
        found = self._find_asset(asset) if isinstance(asset, str) else asset
        return download_asset(self._connection, found, path, show_progress)

    def artifacts(self) -> Records[ArtifactVersion]:
        """The versions of artifacts that the run made, and those that it used; `download` of one writes its files."""
        return list_artifacts(self._connection, self.key)

    def _find_asset(self, name: str) -> Asset:
        named = [it for it in self.assets() if it.name == name]
        if not named:
            raise NotFound(f"The run {self.key} has no asset {name!r}; assets() lists them.")
        return named[-1]

    def _read_all(self, context: str | None) -> Points:
        def is_wanted(name: str, at: str | None) -> bool:
            return not name.startswith(_SYSTEM) and (context is None or (at or "") == context)

        return read_points(self._connection, "/experiment/metrics/get-all", {"experimentKey": self.key}, is_wanted)

    def _read_named(self, names: Iterable[str], context: str | None) -> Points:
        points = Points()
        read: set[tuple[str, str | None]] = set()
        for asked in names:

            def is_wanted(name: str, at: str | None, asked: str = asked) -> bool:
                # A series may be asked for by two names.
                is_named = asked in (name, f"{at}_{name}") and (name, at) not in read
                return is_named and (context is None or (at or "") == context)

            query = {"experimentKey": self.key, "metricName": asked, "context": context or None}
            found = read_points(self._connection, "/experiment/metrics/get-metric", query, is_wanted)
            read.update(found.series())
            points.append(found)
        return points

    def _series(self) -> list[tuple[str, str | None, dict[str, Any]]]:
        """Name and context of each, and its entry in the summary, where a series is called `<context>_<name>`."""
        found = []
        for it in self._get("/experiment/metrics/summary")["values"]:
            context = it["runContextCurrent"]
            name = it["name"][len(context) + 1 :] if context else it["name"]
            found.append((name, context, it))
        return found

    def _values(self, path: str) -> dict[str, Value]:
        return {it["name"]: to_value(it["valueCurrent"]) for it in self._get(path)["values"]}

    def _get(self, path: str) -> dict[str, Any]:
        return self._connection.get(path, experimentKey=self.key)

    def __repr__(self) -> str:
        return f"<run {self.name} of {self.workspace}/{self.project}: {self.link}>"
