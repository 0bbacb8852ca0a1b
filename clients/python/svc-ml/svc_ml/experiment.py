"""The experiments that people make: new or existing, online or offline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from svc_ml.fault import logger
from svc_ml.observation import Observed
from svc_ml.run import now_ms


class _NewRun(Observed):
    def __init__(
        self,
        given: dict[str, Any],
        experiment_name: str | None,
        tags: Iterable[str] | None,
        is_online: bool,
        **options: Any,
    ) -> None:
        create = {"experimentName": experiment_name} if experiment_name else {}
        super().__init__(given, create=create, is_online=is_online, **options)
        if self._channel is None:
            return
        self._call("/write/experiment/set-start-end-time", {"startTimeMillis": now_ms()})
        if tags:
            self.add_tags(tags)


class Experiment(_NewRun):
    """
    A new experiment at the service. When that cannot be reached, what is logged is kept on disk and sent later.

    With `raise_on_error_during_init` a wrong key or an address without a service raises SvcError here, which says what to do.
    """

    def __init__(
        self,
        api_key: str | None = None,
        project_name: str | None = None,
        workspace: str | None = None,
        *,
        experiment_name: str | None = None,
        experiment_key: str | None = None,
        tags: Iterable[str] | None = None,
        url: str | None = None,
        **options: Any,
    ) -> None:
        given = {
            "api_key": api_key,
            "project_name": project_name,
            "workspace": workspace,
            "experiment_key": experiment_key,
            "url": url,
        }
        super().__init__(given, experiment_name, tags, True, **options)
        if self._link:
            logger.info("Experiment %s: %s", self._name, self._link)


class OfflineExperiment(_NewRun):
    """A new experiment on disk, in `offline_directory`; `svc-ml sync` sends it."""

    def __init__(
        self,
        project_name: str | None = None,
        workspace: str | None = None,
        *,
        offline_directory: str | None = None,
        experiment_name: str | None = None,
        experiment_key: str | None = None,
        tags: Iterable[str] | None = None,
        **options: Any,
    ) -> None:
        given = {
            "project_name": project_name,
            "workspace": workspace,
            "experiment_key": experiment_key,
            "offline_directory": offline_directory,
        }
        super().__init__(given, experiment_name, tags, False, **options)
        if self._channel is not None:
            logger.info("Experiment %s is kept in %s", self._key, self._root)


class ExistingExperiment(Observed):
    """An experiment that is there already: to go on with a run, or to log to one from several processes."""

    def __init__(
        self,
        api_key: str | None = None,
        experiment_key: str | None = None,
        *,
        url: str | None = None,
        **options: Any,
    ) -> None:
        given = {"api_key": api_key, "experiment_key": experiment_key, "url": url}
        super().__init__(given, create=None, is_online=True, **options)


class ExistingOfflineExperiment(Observed):
    """More for an experiment that is, or will be, at the service: kept on disk until `svc-ml sync`."""

    def __init__(
        self, experiment_key: str | None = None, *, offline_directory: str | None = None, **options: Any
    ) -> None:
        given = {"experiment_key": experiment_key, "offline_directory": offline_directory}
        super().__init__(given, create=None, is_online=False, **options)
