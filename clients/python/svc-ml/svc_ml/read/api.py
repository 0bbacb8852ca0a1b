"""Where reads begin: one service, as one key sees it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from svc_ml.fault import SvcError
from svc_ml.read.artifacts import ArtifactVersion, find_artifact
from svc_ml.read.column import Column
from svc_ml.read.connection import Connection
from svc_ml.read.errors import NotFound, Refused
from svc_ml.read.logged_run import LoggedRun
from svc_ml.read.run_columns import RunColumn, RunColumns
from svc_ml.read.table import Table
from svc_ml.read.where import Where, to_predicates
from svc_ml.settings import read_settings

_ROWS_AT_ONCE = 1_000
_COLUMNS_AT_ONCE = 1_000


class Api:
    """
    url, api_key, workspace: as for Experiment; what is not given is read from SVC_URL, SVC_API_KEY and SVC_WORKSPACE, from
    `./.svc.config` and from `~/.svc.config`. Without a workspace it is the default one of the key.
    retry_seconds: how long a read is tried again while the service is away or throttles.

    Nothing is sent before the first read. Every read may raise NotFound, Refused and Unavailable, which are SvcErrors.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        workspace: str | None = None,
        *,
        retry_seconds: float = 30,
    ) -> None:
        settings = read_settings({"url": url, "api_key": api_key, "workspace": workspace})
        if settings.api_key is None:
            raise Refused("No API key: give api_key, set SVC_API_KEY, or write it into ~/.svc.config.")
        self._connection = Connection(settings.url, settings.api_key, retry_seconds)
        self._workspace = settings.workspace

    @cached_property
    def workspace(self) -> str:
        name = self._workspace or self._connection.get("/account-details")["defaultWorkspaceName"]
        if name is None:
            raise SvcError("The API key has no default workspace: give workspace, or set SVC_WORKSPACE.")
        return str(name)

    def projects(self) -> Table:
        """One row for each project of the workspace: `name`, `description`, `runs`, `last_updated`, `owner`, ..."""
        listed = self._connection.get("/projects", workspaceName=self.workspace)["projects"]

        def column(kind: Any, field: str) -> Column:
            return Column(kind, [it[field] for it in listed])

        return Table(
            {
                "name": column("text", "projectName"),
                "description": column("text", "projectDescription"),
                "runs": column("integer", "numberOfExperiments"),
                "last_updated": column("time", "lastUpdated"),
                "owner": column("text", "ownerUserName"),
                "public": column("boolean", "isPublic"),
                "archived": column("boolean", "archived"),
            }
        )

    def runs(
        self,
        project: str,
        where: Where | str | None = None,
        columns: Sequence[str] | None = None,
        *,
        sort: str | None = None,
        limit: int | None = None,
        archived: bool = False,
    ) -> Table:
        """
        One row for each run of a project, the newest first.

        The columns are `key`, `name`, `state`, `start`, `end`, `duration` (seconds), `user`, `tags`; `params.rate` and
        `others.note`; and of each metric its last (by time), least and greatest value as `metrics.loss`, `metrics.loss.min` and
        `metrics.loss.max`. A metric of the context `train` is `metrics.train_loss`. `file_path`, `archived` and metrics of the
        machine come when asked for.

        where: conditions that all hold, such as `[("params.rate", ">", 0.01), ("tags", "=", "first"), ("state", "in",
            ["finished", "crashed"])]`. The operators are those of `POST /project/query`: =, !=, <, <=, >, >=, contains, starts
            with, ends with, between, in, is null, and "not" before a word. A condition on a metric is on its last value. The
            predicates of `/project/query` pass as they are, as a dictionary or among the tuples. Or a query, such as
            `"metric.loss:min < 0.1 and state = finished"`: see docs/search.md.
        columns: names; None is for all.
        sort: a column; with a "-" before it the greatest goes first.
        limit: of rows.
        archived: the archived runs instead of the others.

        A column that no run of the project has is an SvcError.
        """
        known = self._columns(project, archived)
        shown = known.shown() if columns is None else [known.find(it) for it in columns]
        query, conditions = (where, None) if isinstance(where, str) else ("", where)
        predicates, states = to_predicates(conditions, known)
        asked = {"query": query, "predicates": predicates, "archived": archived}
        body: dict[str, Any] = {**self._named(project), **asked}
        if sort is not None:
            order, name = ("desc", sort[1:]) if sort.startswith("-") else ("asc", sort)
            body["sort"] = [{"column": known.find(name).asked, "order": order}]
        rows: list[list[Any]] = []
        while limit is None or len(rows) < limit:
            wanted = _ROWS_AT_ONCE if limit is None or states is not None else min(limit - len(rows), _ROWS_AT_ONCE)
            page, cursor = self._read_page({**body, "size": wanted}, shown)
            rows.extend(cells for state, cells in page if states is None or state in states)
            if cursor is None:
                break
            body["cursor"] = cursor
        cells = list(zip(*rows[:limit])) or [()] * len(shown)
        return Table({it.name: it.to_column(values) for it, values in zip(shown, cells)})

    def run(self, key: str) -> LoggedRun:
        """The run of a key."""
        return LoggedRun(self._connection, self._connection.get("/experiment/metadata", experimentKey=key))

    def artifact(self, name: str, version: str | None = None, *, used_by: str | None = None) -> ArtifactVersion:
        """
        A version of an artifact of the workspace, by its number or an alias; None is for the newest closed one.

        used_by: the key of a run: the version is one of its inputs from now on.
        """
        try:
            return find_artifact(self._connection, self.workspace, name, version, used_by)
        except NotFound:
            asked = f"artifact {name!r}" if version is None else f"version {version!r} of an artifact {name!r}"
            raise NotFound(f"There is no {asked} in the workspace {self.workspace!r} that this key may use.") from None

    def _columns(self, project: str, archived: bool) -> RunColumns:
        body = {**self._named(project), "archived": archived}
        try:
            return RunColumns(project, self._connection.post("/project/run-columns", body)["columns"])
        except NotFound:
            raise NotFound(
                f"There is no project {project!r} in the workspace {self.workspace!r} that this key may use; "
                "Api.projects() lists them."
            ) from None

    def _named(self, project: str) -> dict[str, Any]:
        return {"workspaceName": self.workspace, "projectName": project}

    def _read_page(
        self, body: dict[str, Any], shown: list[RunColumn]
    ) -> tuple[list[tuple[str, list[Any]]], str | None]:
        """State and cells of each run on a page, and the cursor of the next."""
        page: dict[str, tuple[str, list[Any]]] = {}
        cursor = None
        for start in range(0, max(len(shown), 1), _COLUMNS_AT_ONCE):
            asked = [it.asked for it in shown[start : start + _COLUMNS_AT_ONCE]]
            answer = self._connection.post("/project/runs", {**body, "columns": asked})
            for run in answer["runs"]:
                # A run that came between two parts of a page is on the next read.
                if start == 0:
                    page[run["experimentKey"]] = (run["state"], [None] * len(shown))
                if run["experimentKey"] in page:
                    page[run["experimentKey"]][1][start : start + len(asked)] = run["values"]
            cursor = answer.get("nextCursor") if start == 0 else cursor
        return list(page.values()), cursor

    def __repr__(self) -> str:
        return f"<Api of {self._connection.url}>"
