"""What scripts call on the module: the run that this process has begun, and the settings of W&B that it follows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Optional, Union

from svc_ml.base_experiment import BaseExperiment
from svc_ml.experiment import Experiment, OfflineExperiment
from svc_ml.fault import logger
from svc_ml.wandb.absent import tell_absent
from svc_ml.wandb.errors import Error, UsageError
from svc_ml.wandb.parameters import to_config
from svc_ml.wandb.wandb_run import Run

Resume = Union[bool, Literal["allow", "must", "never", "auto"], None]
_RESUMES = ("allow", "must", "never")
_MODES = ("online", "offline", "disabled")

_current: Optional[Run] = None


def init(
    entity: str | None = None,
    project: str | None = None,
    dir: str | os.PathLike[str] | None = None,
    id: str | None = None,
    name: str | None = None,
    notes: str | None = None,
    tags: Sequence[str] | None = None,
    config: Any = None,
    config_exclude_keys: Sequence[str] | None = None,
    config_include_keys: Sequence[str] | None = None,
    allow_val_change: bool | None = None,
    group: str | None = None,
    job_type: str | None = None,
    mode: Literal["online", "offline", "disabled"] | None = None,
    force: bool | None = None,
    anonymous: str | None = None,
    reinit: bool | str | None = None,
    resume: Resume = None,
    resume_from: str | None = None,
    fork_from: str | None = None,
    save_code: bool | None = None,
    tensorboard: bool | None = None,
    sync_tensorboard: bool | None = None,
    monitor_gym: bool | None = None,
    settings: Any = None,
) -> Run:
    """
    Begins a run, and makes it the one to which the module's calls log. While one goes on, returns it; with `reinit` ends it and
    begins another.

    entity: the workspace, unless SVC_WORKSPACE names it.
    id: of a run that is to be found again; each makes an experiment key of its own.
    config: its parameters: a dictionary, a namespace, a dataclass, or the path of a JSON or YAML file.
    mode: `online` unless WANDB_MODE says otherwise; `offline` keeps everything on disk for `svc-ml sync`.
    resume: `allow` (or True) goes on with the run of this id or makes it, `must` refuses to make it, and without either an id that is
        taken is refused.
    """
    global _current
    if _current is not None:
        if not reinit or reinit in ("return_previous", "default"):
            return _current
        if reinit != "create_new":
            _current.finish()
    for asked, given in (
        ("resume_from", resume_from),
        ("fork_from", fork_from),
        ("monitor_gym", monitor_gym),
        ("settings", settings),
    ):
        if given:
            tell_absent(f"init({asked}=...)")
    values = to_config(config)
    if config_include_keys is not None:
        values = {key: value for key, value in values.items() if key in config_include_keys}
    values = {key: value for key, value in values.items() if key not in (config_exclude_keys or ())}
    project = project or _read("PROJECT", unless="SVC_PROJECT_NAME")
    entity = entity or _read("ENTITY")
    id = id or _read("RUN_ID")
    notes, group, job_type = (
        given or _read(variable) for given, variable in ((notes, "NOTES"), (group, "RUN_GROUP"), (job_type, "JOB_TYPE"))
    )
    labels = list(tags) if tags is not None else [it for it in (_read("TAGS") or "").split(",") if it]
    experiment = _open(
        mode=mode or ("disabled" if _is_true(_read("DISABLED")) else _read("MODE")) or "online",
        project=project,
        workspace=None if os.environ.get("SVC_WORKSPACE") else entity,
        key=None if id is None else to_key(id, entity, project),
        name=name or _read("NAME"),
        resume=resume if resume is not None else _read("RESUME"),
        is_found_by_id=id is not None,
        tags=labels,
        log_code=save_code is not False,
    )
    run = Run(
        experiment,
        id=id,
        project=project,
        entity=entity,
        group=group,
        job_type=job_type,
        notes=notes,
        tags=labels,
        folder=None if dir is None else os.fspath(dir),
        on_finish=_forget,
    )
    if values:
        run.config.update(values)
    if tensorboard or sync_tensorboard:
        from svc_ml.integration import tensorboard as watched

        watched.sync(experiment)
    _current = run
    return run


def _open(
    mode: str,
    project: str | None,
    workspace: str | None,
    key: str | None,
    name: str | None,
    resume: Any,
    is_found_by_id: bool,
    tags: Sequence[str],
    log_code: bool,
) -> BaseExperiment:
    if mode not in _MODES:
        raise UsageError(f"mode is {mode!r}: expected 'online', 'offline' or 'disabled'.")
    if mode == "offline":
        return OfflineExperiment(
            project, workspace, experiment_name=name, experiment_key=key, tags=tags, log_code=log_code
        )
    if resume in (True, "auto"):
        resume = "allow" if is_found_by_id else "never"
    if not resume:
        resume = "never"
    if resume not in _RESUMES:
        raise UsageError(f"resume is {resume!r}: expected 'allow', 'must', 'never' or 'auto'.")
    return Experiment(
        None,
        project,
        workspace,
        experiment_name=name,
        experiment_key=key,
        resume=resume,
        tags=tags,
        log_code=log_code,
        disabled=mode == "disabled",
    )


def to_key(id: str, entity: str | None, project: str | None) -> str:
    """The key of the experiment of an id: the id itself if it may be one, else the same each time in one project."""
    if 32 <= len(id) <= 50 and id.isascii() and id.isalnum():
        return id
    return hashlib.sha256("\0".join([entity or "", project or "", id]).encode()).hexdigest()[:32]


def _read(variable: str, unless: str | None = None) -> str | None:
    """A setting of W&B from the environment."""
    return None if unless and os.environ.get(unless) else os.environ.get(f"WANDB_{variable}") or None


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() in ("1", "true", "yes", "on")


def _forget(run: Run) -> None:
    global _current
    if _current is run:
        _current = None


def current() -> Optional[Run]:
    return _current


def need(call: str) -> Run:
    """The run that goes on. Raises Error when there is none."""
    if _current is None:
        raise Error(f"wandb.{call}: call wandb.init() first.")
    return _current


def log(data: Mapping[str, Any], step: int | None = None, commit: bool | None = None, sync: bool | None = None) -> None:
    """See Run.log."""
    need("log").log(data, step, commit, sync)


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:
    """Ends the run that goes on, if there is one."""
    if _current is not None:
        _current.finish(exit_code, quiet)


def login(*given: Any, **named: Any) -> bool:
    """Does nothing: the key is SVC_API_KEY, or stands in `~/.svc.config`."""
    return True


def setup(*given: Any, **named: Any) -> None:
    """Does nothing."""


def require(*given: Any, **named: Any) -> None:
    """Does nothing."""


def termlog(text: str = "", newline: bool = True, repeat: bool = True) -> None:
    logger.info("%s", text)


def termwarn(text: str, newline: bool = True, repeat: bool = True) -> None:
    logger.warning("%s", text)


def termerror(text: str, newline: bool = True, repeat: bool = True) -> None:
    logger.error("%s", text)
