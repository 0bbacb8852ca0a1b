"""
Ray Train: metrics and parameters of a distributed training job, the resources of every worker, and its checkpoints.

Three kinds of process log to one experiment. The driver makes it, in the constructor of the callback, and puts what workers
need into the dictionary that it shares with them. The controller, to which Ray sends a copy of the callback, logs what workers
report. Each worker logs its own output and use of resources. The driver ends the experiment: with Ray Train V2 nobody tells the
callback that training is over, so that happens after `fit` (with `svc_dist_train_logger`), by `end`, or when the driver exits.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from ray.train import Checkpoint
from ray.tune.logger import LoggerCallback

from svc_ml.base_experiment import BaseExperiment, disabled_experiment
from svc_ml.experiment import ExistingExperiment, ExistingOfflineExperiment, Experiment, OfflineExperiment
from svc_ml.fault import SvcError, logger
from svc_ml.integration import ray_notes, ray_output
from svc_ml.settings import read_settings
from svc_ml.transport.service import Service

try:
    from ray.train import UserCallback
except ImportError:
    # Before Ray 2.44 there is only Train V1, which takes callbacks of Tune.
    UserCallback = object

CONFIG_KEY = "_svc"
"""Where the shared dictionary has what workers need."""

_ASKED_SECONDS = 0.2
_SILENT = "silent"
"""Notes of workers that log nothing, with the reason."""
_MODES = ("get", "create", "get_or_create")
_WITHOUT_LOOKING: dict[str, Any] = {
    "log_env_cpu": False,
    "log_env_gpu": False,
    "log_env_disk": False,
    "log_env_network": False,
}


class SvcTrainLoggerCallback(LoggerCallback, UserCallback):  # type: ignore[misc]
    """
    Give it to `RunConfig(callbacks=[...])`, with Train V2 and V1.

    dist_config: the very dictionary that the trainer gets as `train_loop_config`, not a copy.
    share_api_key_to_workers: puts the key into that dictionary. Whoever can read the job's data can then read the key; setting
    SVC_API_KEY on the nodes is better.
    save_checkpoints: keeps each reported checkpoint as a version of the artifact `checkpoints-<experiment key>`.
    mode: `get` goes on with the experiment of `experiment_key`, `create` makes one, `get_or_create` does what is possible.
    online: True logs to the service, False to disk. None: to the service when there is an API key.

    Raises ValueError for a wrong mode or configuration; what goes wrong with the service is logged, as in Experiment.
    """

    def __init__(
        self,
        dist_config: dict[str, Any],
        tags: Optional[list[str]] = None,
        save_checkpoints: bool = False,
        share_api_key_to_workers: bool = False,
        experiment_name: Optional[str] = None,
        api_key: Optional[str] = None,
        workspace: Optional[str] = None,
        project_name: Optional[str] = None,
        experiment_key: Optional[str] = None,
        mode: str = "get_or_create",
        online: Optional[bool] = None,
        **experiment_kwargs: Any,
    ) -> None:
        super().__init__()
        if not isinstance(dist_config, dict):
            raise ValueError(
                f"dist_config is a {type(dist_config).__name__}: give the dictionary that the trainer gets too."
            )
        if mode not in _MODES:
            raise ValueError(f"mode is {mode!r}: expected one of {', '.join(_MODES)}.")
        experiment_key = experiment_key or _key_of_settings()
        if mode == "get" and not experiment_key:
            raise ValueError("mode 'get' needs an experiment_key, or SVC_EXPERIMENT_KEY.")
        self._save_checkpoints = save_checkpoints
        self._experiment: BaseExperiment | None = None
        self._is_driver = True
        self._reports = 0
        self._has_failed = False
        self._steps: dict[str, int] = {}
        names = {"workspace": workspace, "project_name": project_name, "experiment_key": experiment_key}
        given = {name: value for name, value in names.items() if value is not None}
        run = _open_experiment(given, mode, online, api_key, experiment_name, experiment_kwargs)
        self._experiment = run
        run._run.is_crash_told_by_others = True
        run._run.skip_line = ray_output.EchoFilter(run.id)
        if tags:
            run.add_tags(tags)
        parameters = {name: value for name, value in dist_config.items() if name != CONFIG_KEY}
        run.log_parameters(parameters)
        self._shared = _describe(run)
        if share_api_key_to_workers and run._run.service is not None:
            self._shared["api_key"] = run._run.service.api_key
        dist_config[CONFIG_KEY] = self._shared

    @property
    def experiment(self) -> BaseExperiment:
        """The experiment, for whatever the driver has to log besides. In the controller one that goes on with it."""
        if self._experiment is None:
            self._experiment = run = _reopen(self._shared, None, auto_output_logging=False, **_WITHOUT_LOOKING)
            if not run.disabled:
                threading.Thread(target=_end_when_asked, args=(run,), name="svc-end", daemon=True).start()
        return self._experiment

    def end(self, timeout: float | None = None) -> None:
        """
        Call it in the driver when training is over: sends what is left, also of the controller, and ends the experiment. Never
        raises.
        """
        run = self.experiment
        if self._is_driver and not run.disabled:
            self._tell_silent_workers()
            if run._run.service is not None:
                try:
                    run._run.send_what_others_left()
                    self._read_failure(run._run.service)
                except Exception as error:
                    logger.warning("What the controller has left cannot be sent now: %r", error)
        run.end(timeout)

    def _tell_silent_workers(self) -> None:
        for reason, workers in _by_reason(ray_notes.read(self.experiment.id, _SILENT)).items():
            self.experiment._run.faults.add(f"{', '.join(workers)} logged nothing: {reason}")

    def _read_failure(self, service: Service) -> None:
        """The controller knows whether training has failed, whatever the script did with the error of `fit`."""
        run = self.experiment
        if run._run.crash is not None:
            return
        found = service.get("/experiment/metadata", {"experimentKey": run.id})
        if found.get("hasCrashed"):
            run._run.note_crash(str(found.get("error") or "training has failed"))
        else:
            run._run.is_crash_told_by_others = False

    def __getstate__(self) -> dict[str, Any]:
        # Neither threads nor the key travel: the controller opens the experiment again, as a worker does.
        return {**self.__dict__, "_experiment": None, "_is_driver": False}

    # Train V2, in the controller

    def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Checkpoint | None) -> None:
        self._reports += 1
        if self._has_failed:
            self._tell_failure(None)
        for rank, of_worker in enumerate(metrics):
            context = contextlib.nullcontext() if rank == 0 else self.experiment.context_manager(f"worker-{rank}")
            with context:
                self._log_result(of_worker, self._reports, with_others=rank == 0)
        if checkpoint is not None and self._save_checkpoints:
            self._log_checkpoint(checkpoint, metrics[0] if metrics else {}, self._reports)
        self._keep()

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        for rank, error in worker_exceptions.items():
            self.experiment.log_other(f"worker-{rank} failed", repr(error))
        self._tell_failure("; ".join(f"worker-{rank}: {error!r}" for rank, error in worker_exceptions.items()))
        self._keep()

    def _tell_failure(self, error: str | None) -> None:
        """A failure that Ray recovers from is taken back when training goes on."""
        self._has_failed = error is not None
        outcome: dict[str, Any] = {"isAlive": True, "hasCrashed": self._has_failed}
        if error is not None:
            outcome["error"] = error[:10_000]
        self.experiment._run.call("/write/experiment/update-status", outcome)

    # Train V1 and Tune

    def log_trial_start(self, trial: Any) -> None:
        self._steps.setdefault(trial.trial_id, 0)

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        own = {name: value for name, value in result.items() if name not in _OF_RAY}
        # `iteration` counts the turns of Tune's own loop.
        self._log_result(own, int(result.get("training_iteration", iteration)), with_others=True)
        self._keep()

    def log_trial_save(self, trial: Any) -> None:
        checkpoint = getattr(trial, "checkpoint", None)
        if checkpoint is not None and self._save_checkpoints:
            self._reports += 1
            self._log_checkpoint(checkpoint, {}, self._reports)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Train V1 and Tune: training is over, so the experiment is."""
        failed = [it for it in trials if getattr(it, "status", "") == "ERROR"]
        if failed:
            self.experiment._run.note_crash(f"{len(failed)} of {len(trials)} trials failed")
        self.end()

    def _log_result(self, result: Mapping[str, Any], count: int, with_others: bool) -> None:
        run = self.experiment
        flat = dict(_flatten(result))
        step = flat["step"] if type(flat.get("step")) is int else count
        epoch = flat["epoch"] if type(flat.get("epoch")) is int else None
        for name, value in flat.items():
            if _is_number(value):
                run.log_metric(name, value, step=step, epoch=epoch)
            elif with_others and value is not None:
                run.log_other(name, value)

    def _log_checkpoint(self, checkpoint: Checkpoint, metrics: Mapping[str, Any], count: int) -> None:
        run = self.experiment
        numbers = {name: float(value) for name, value in _flatten(metrics) if _is_number(value)}
        # Of several runs of one experiment each has versions of its own, the newer after the older.
        version = f"1.{run._run.opened_seconds}.{count}"
        try:
            with checkpoint.as_directory() as folder:
                run.log_artifact(
                    f"checkpoints-{run.id}",
                    folder,
                    version,
                    artifact_type="checkpoint",
                    metadata={"report": count, "metrics": numbers},
                    wait=True,
                )
        except Exception as error:
            logger.warning("The checkpoint %s cannot be logged: %r", version, error)

    def _keep(self) -> None:
        """The controller may be killed as soon as training is over: what it has logged is then on disk, for the driver to send."""
        if not self._is_driver:
            self.experiment.write()


def svc_dist_train_logger(
    trainer: Any,
    tags: Optional[list[str]] = None,
    save_checkpoints: bool = False,
    share_api_key_to_workers: bool = False,
    experiment_name: Optional[str] = None,
    api_key: Optional[str] = None,
    workspace: Optional[str] = None,
    project_name: Optional[str] = None,
    experiment_key: Optional[str] = None,
    mode: str = "get_or_create",
    online: Optional[bool] = None,
    **experiment_kwargs: Any,
) -> None:
    """
    Registers the callback on a trainer, before `fit`, and ends the experiment after it. The parameters are those of
    SvcTrainLoggerCallback.

    Raises ValueError when the object is no trainer of Ray Train.
    """
    field = next((it for it in ("train_loop_config", "_train_loop_config") if hasattr(trainer, it)), None)
    if field is None or not hasattr(trainer, "run_config"):
        raise ValueError(f"trainer is a {type(trainer).__name__}: expected one of ray.train with a train_loop_config.")
    if getattr(trainer, field) is None:
        raise ValueError(
            "The trainer has no train_loop_config: give it one, {} at least, which workers get as argument."
        )
    callback = SvcTrainLoggerCallback(
        getattr(trainer, field),
        tags,
        save_checkpoints,
        share_api_key_to_workers,
        experiment_name,
        api_key,
        workspace,
        project_name,
        experiment_key,
        mode,
        online,
        **experiment_kwargs,
    )
    trainer.run_config.callbacks = [*(trainer.run_config.callbacks or []), callback]
    fit = trainer.fit

    @functools.wraps(fit)
    def fit_and_end(*given: Any, **named: Any) -> Any:
        try:
            return fit(*given, **named)
        except BaseException as error:
            callback.experiment._run.note_crash(repr(error))
            raise
        finally:
            callback.end()

    trainer.fit = fit_and_end


def svc_worker(func: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """
    Decorates the training function, which must accept the configuration dictionary: while it runs, what its worker prints and
    uses of its machine is logged. Together with the callback.
    """

    @functools.wraps(func)
    def watched(config: dict[str, Any], *given: Any, **named: Any) -> Any:
        looks = dict.fromkeys(_WITHOUT_LOOKING, True)
        with _open_worker(config, None, {"auto_output_logging": True, **looks}) as run, ray_output.printed_once():
            if not run.disabled:
                ray_output.note_captured(run.id)
            return func(config, *given, **named)

    return watched


@contextlib.contextmanager
def svc_worker_logger(
    dist_config: dict[str, Any], api_key: Optional[str] = None, **experiment_kwargs: Any
) -> Iterator[BaseExperiment]:
    """
    The experiment, within the training function, for what a worker has to log by itself. The key is the argument, else the one
    in `dist_config`, else that of the environment. When something needed is missing, or goes wrong, the experiment is a disabled
    one: every call succeeds, and nothing is logged.

    Points belong to the context `worker-<rank>`, so that those of two workers are two series; `context=""` makes them one.

    experiment_kwargs: `context`, and those of ExistingExperiment.
    """
    context = experiment_kwargs.pop("context", None)
    options = {"auto_output_logging": False, **_WITHOUT_LOOKING, **experiment_kwargs}
    with _open_worker(dist_config, api_key, options) as run:
        run._run.context = run._run.worker if context is None else str(context)
        yield run


@contextlib.contextmanager
def _open_worker(config: Any, api_key: str | None, options: dict[str, Any]) -> Iterator[BaseExperiment]:
    shared = config.get(CONFIG_KEY) if isinstance(config, Mapping) else None
    run: BaseExperiment
    if not isinstance(shared, Mapping):
        logger.warning(
            "This worker logs nothing: its configuration was not given to SvcTrainLoggerCallback or svc_dist_train_logger."
        )
        run = disabled_experiment()
    else:
        try:
            run = _reopen(dict(shared), api_key, worker=_worker_name(), **options)
        except Exception as error:
            logger.warning("This worker logs nothing: %s", error)
            ray_notes.put(str(shared.get("experiment_key")), _SILENT, _worker_name(), str(error))
            run = disabled_experiment()
    try:
        yield run
    finally:
        run.end()


def _open_experiment(
    given: dict[str, Any],
    mode: str,
    online: bool | None,
    api_key: str | None,
    name: str | None,
    options: dict[str, Any],
) -> BaseExperiment:
    key = given.get("experiment_key")
    is_online = _has_key(api_key) if online is None else online
    named = {**given, "experiment_name": name, **options}
    existing = {name: value for name, value in options.items() if name != "url"}
    if not is_online:
        if mode == "get":
            return ExistingOfflineExperiment(experiment_key=key, **existing)
        return OfflineExperiment(**named)
    if mode == "get":
        return ExistingExperiment(api_key, key, **options)
    if mode == "get_or_create" and key:
        return Experiment(api_key, resume="allow", **named)
    return Experiment(api_key, **named)


def _key_of_settings() -> str | None:
    try:
        return read_settings({}).experiment_key
    except SvcError:
        return None


def _has_key(api_key: str | None) -> bool:
    try:
        return read_settings({"api_key": api_key}).api_key is not None
    except SvcError:
        return True


def _describe(run: BaseExperiment) -> dict[str, Any]:
    if run.disabled:
        return {}
    settings = run._run.settings
    return {
        "experiment_key": run.id,
        "online": run._run.service is not None,
        "url": settings.url,
        "spool_directory": settings.spool_directory,
        "offline_directory": str(Path(settings.offline_directory).absolute()),
    }


def _reopen(shared: dict[str, Any], api_key: str | None, **options: Any) -> BaseExperiment:
    """The same experiment in another process. Disabled when the driver has none, or a key is needed and missing."""
    if not shared:
        return disabled_experiment()
    given_key = api_key or shared.get("api_key")
    if shared["online"] and not _has_key(given_key) and options.get("worker"):
        raise SvcError(
            "no API key: set SVC_API_KEY on its node, or give share_api_key_to_workers=True to the callback."
        )
    if not shared["online"]:
        folder = shared["offline_directory"]
        return ExistingOfflineExperiment(
            shared["experiment_key"], offline_directory=folder, display_summary=False, **options
        )
    return ExistingExperiment(
        given_key,
        shared["experiment_key"],
        url=shared["url"],
        spool_directory=shared["spool_directory"],
        display_summary=False,
        **options,
    )


def _end_when_asked(run: BaseExperiment) -> None:
    """Ray keeps the controller until the driver exits, and tells it nothing of the end: the driver does, through the disk."""
    while not run._run.is_asked_to_finish():
        time.sleep(_ASKED_SECONDS)
    run.end()


def _worker_name() -> str:
    from ray.train import get_context

    try:
        return f"worker-{get_context().get_world_rank()}"
    except Exception:
        # Called outside of a training: in a test of the function by itself.
        return f"worker-{os.getpid()}"


def _by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, reason in sorted(reasons.items()):
        found.setdefault(reason, []).append(name)
    return found


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in values.items():
        whole = f"{prefix}/{name}" if prefix else str(name)
        if isinstance(value, Mapping):
            yield from _flatten(value, whole)
        else:
            yield whole, value


def _is_number(value: Any) -> bool:
    from svc_ml.number import to_float

    try:
        to_float(value)
    except TypeError:
        return False
    return True


_OF_RAY = frozenset(
    [
        "config",
        "done",
        "experiment_tag",
        "hostname",
        "iterations_since_restore",
        "node_ip",
        "pid",
        "time_since_restore",
        "time_this_iter_s",
        "time_total_s",
        "timestamp",
        "trial_id",
        "date",
        "checkpoint_dir_name",
        "should_checkpoint",
        "timesteps_total",
        "episodes_total",
    ]
)
"""What Train V1 and Tune add to each result."""
