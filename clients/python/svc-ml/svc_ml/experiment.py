"""The experiments that people make: new or existing, online or offline. What all of them take is told at `BaseExperiment`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from svc_ml.base_experiment import BaseExperiment
from svc_ml.fault import logger
from svc_ml.observation import observe
from svc_ml.run import Run, now_ms


class Experiment(BaseExperiment):
    """
    A new experiment at the service. When that cannot be reached, what is logged is kept on disk and sent later.

    experiment_name: of a new one; without, the service makes one.
    experiment_key: 32 to 50 letters and digits; without, one is drawn.
    resume: what to make of an experiment that has this key already. `never` refuses it, `allow` goes on with it or makes it, `must`
        refuses to make it. Who goes on with a run says also how it ends.
    raise_on_error_during_init: a wrong key, a refused experiment or an address without a service raises SvcError here, which says
        what to do.
    """

    def __init__(
        self,
        api_key: str | None = None,
        project_name: str | None = None,
        workspace: str | None = None,
        *,
        experiment_name: str | None = None,
        experiment_key: str | None = None,
        resume: Literal["never", "allow", "must"] = "never",
        tags: Iterable[str] | None = None,
        url: str | None = None,
        spool_directory: str | None = None,
        log_code: bool = True,
        log_git_metadata: bool = True,
        log_git_patch: bool = True,
        auto_output_logging: bool | str = True,
        log_env_details: bool = True,
        log_env_host: bool = True,
        log_env_cpu: bool = True,
        log_env_gpu: bool = True,
        log_env_disk: bool = True,
        log_env_network: bool = True,
        display_summary: bool = True,
        disabled: bool = False,
        raise_on_error_during_init: bool = False,
    ) -> None:
        run = Run(
            {
                "api_key": api_key,
                "project_name": project_name,
                "workspace": workspace,
                "experiment_key": experiment_key,
                "url": url,
                "spool_directory": spool_directory,
            },
            create={"experimentName": experiment_name} if experiment_name else {},
            is_online=True,
            resume=resume,
            display_summary=display_summary,
            disabled=disabled,
            raise_on_error_during_init=raise_on_error_during_init,
        )
        super().__init__(run)
        observe(
            run,
            self.log_code,
            log_code=log_code,
            log_git_metadata=log_git_metadata,
            log_git_patch=log_git_patch,
            auto_output_logging=auto_output_logging,
            log_env_details=log_env_details,
            log_env_host=log_env_host,
            log_env_cpu=log_env_cpu,
            log_env_gpu=log_env_gpu,
            log_env_disk=log_env_disk,
            log_env_network=log_env_network,
        )
        _begin(run)
        if tags:
            self.add_tags(tags)
        if run.link:
            logger.info("Experiment %s: %s", run.name, run.link)


class OfflineExperiment(BaseExperiment):
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
        log_code: bool = True,
        log_git_metadata: bool = True,
        log_git_patch: bool = True,
        auto_output_logging: bool | str = True,
        log_env_details: bool = True,
        log_env_host: bool = True,
        log_env_cpu: bool = True,
        log_env_gpu: bool = True,
        log_env_disk: bool = True,
        log_env_network: bool = True,
        display_summary: bool = True,
        disabled: bool = False,
        raise_on_error_during_init: bool = False,
    ) -> None:
        run = Run(
            {
                "project_name": project_name,
                "workspace": workspace,
                "experiment_key": experiment_key,
                "offline_directory": offline_directory,
            },
            create={"experimentName": experiment_name} if experiment_name else {},
            is_online=False,
            display_summary=display_summary,
            disabled=disabled,
            raise_on_error_during_init=raise_on_error_during_init,
        )
        super().__init__(run)
        observe(
            run,
            self.log_code,
            log_code=log_code,
            log_git_metadata=log_git_metadata,
            log_git_patch=log_git_patch,
            auto_output_logging=auto_output_logging,
            log_env_details=log_env_details,
            log_env_host=log_env_host,
            log_env_cpu=log_env_cpu,
            log_env_gpu=log_env_gpu,
            log_env_disk=log_env_disk,
            log_env_network=log_env_network,
        )
        _begin(run)
        if tags:
            self.add_tags(tags)
        if run.channel is not None:
            logger.info("Experiment %s is kept in %s", run.key, run.root)


class ExistingExperiment(BaseExperiment):
    """
    An experiment that is there already: to go on with a run, or to log to one from several processes.

    worker: the context of what this process prints and uses of its machine, such as `worker-1`.
    """

    def __init__(
        self,
        api_key: str | None = None,
        experiment_key: str | None = None,
        *,
        url: str | None = None,
        spool_directory: str | None = None,
        worker: str = "",
        log_code: bool = True,
        log_git_metadata: bool = True,
        log_git_patch: bool = True,
        auto_output_logging: bool | str = True,
        log_env_details: bool = True,
        log_env_host: bool = True,
        log_env_cpu: bool = True,
        log_env_gpu: bool = True,
        log_env_disk: bool = True,
        log_env_network: bool = True,
        display_summary: bool = True,
        disabled: bool = False,
        raise_on_error_during_init: bool = False,
    ) -> None:
        run = Run(
            {"api_key": api_key, "experiment_key": experiment_key, "url": url, "spool_directory": spool_directory},
            create=None,
            is_online=True,
            worker=worker,
            display_summary=display_summary,
            disabled=disabled,
            raise_on_error_during_init=raise_on_error_during_init,
        )
        super().__init__(run)
        observe(
            run,
            self.log_code,
            log_code=log_code,
            log_git_metadata=log_git_metadata,
            log_git_patch=log_git_patch,
            auto_output_logging=auto_output_logging,
            log_env_details=log_env_details,
            log_env_host=log_env_host,
            log_env_cpu=log_env_cpu,
            log_env_gpu=log_env_gpu,
            log_env_disk=log_env_disk,
            log_env_network=log_env_network,
        )


class ExistingOfflineExperiment(BaseExperiment):
    """
    More for an experiment that is, or will be, at the service: kept on disk until `svc-ml sync`.

    worker: the context of what this process prints and uses of its machine, such as `worker-1`.
    """

    def __init__(
        self,
        experiment_key: str | None = None,
        *,
        offline_directory: str | None = None,
        worker: str = "",
        log_code: bool = True,
        log_git_metadata: bool = True,
        log_git_patch: bool = True,
        auto_output_logging: bool | str = True,
        log_env_details: bool = True,
        log_env_host: bool = True,
        log_env_cpu: bool = True,
        log_env_gpu: bool = True,
        log_env_disk: bool = True,
        log_env_network: bool = True,
        display_summary: bool = True,
        disabled: bool = False,
        raise_on_error_during_init: bool = False,
    ) -> None:
        run = Run(
            {"experiment_key": experiment_key, "offline_directory": offline_directory},
            create=None,
            is_online=False,
            worker=worker,
            display_summary=display_summary,
            disabled=disabled,
            raise_on_error_during_init=raise_on_error_during_init,
        )
        super().__init__(run)
        observe(
            run,
            self.log_code,
            log_code=log_code,
            log_git_metadata=log_git_metadata,
            log_git_patch=log_git_patch,
            auto_output_logging=auto_output_logging,
            log_env_details=log_env_details,
            log_env_host=log_env_host,
            log_env_cpu=log_env_cpu,
            log_env_gpu=log_env_gpu,
            log_env_disk=log_env_disk,
            log_env_network=log_env_network,
        )


def _begin(run: Run) -> None:
    if run.is_owner:
        run.call("/write/experiment/set-start-end-time", {"startTimeMillis": now_ms()})
