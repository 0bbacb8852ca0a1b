"""A run as scripts written for W&B use it, upon an experiment of ours."""

from __future__ import annotations

import enum
import fnmatch
import glob
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Optional, Union

from svc_ml import process_end
from svc_ml.base_experiment import BaseExperiment
from svc_ml.fault import logger
from svc_ml.integration.recorder import guarded
from svc_ml.transport.service import Rejected, Unavailable
from svc_ml.wandb.absent import Absent, tell_absent
from svc_ml.wandb.artifact import Artifact, UsedArtifact, use
from svc_ml.wandb.errors import UsageError
from svc_ml.wandb.last_values import Summary
from svc_ml.wandb.parameters import Config
from svc_ml.wandb.values import flatten, log_value, to_number

_SERIES_AT_ONCE = 100
_AXES = {"_step": "step", "_timestamp": "time", "_runtime": "relative"}


class AlertLevel(str, enum.Enum):
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


class Metric(NamedTuple):
    """A definition of `define_metric`."""

    name: str
    step_metric: Optional[str]
    is_synced: bool


class Run:
    """
    experiment: all that W&B has no call for is called on it.
    id: the one that the script gave, else the key of the experiment.
    """

    def __init__(
        self,
        experiment: BaseExperiment,
        *,
        id: str | None = None,
        project: str | None = None,
        entity: str | None = None,
        group: str | None = None,
        job_type: str | None = None,
        notes: str | None = None,
        tags: Iterable[str] = (),
        folder: str | None = None,
        on_finish: Callable[[Run], None] = lambda run: None,
    ) -> None:
        self.experiment = experiment
        self._on_finish = on_finish
        self.id = id or experiment.id
        self.project = project
        self.entity = entity
        self.group = group
        self.job_type = job_type
        self.dir = folder or os.getcwd()
        self.config = Config(experiment.log_parameters)
        self.summary = Summary(experiment.log_other)
        self.resumed = not experiment.disabled and not experiment._run.is_owner
        self._tags = tuple(tags)
        self._notes: str | None = None
        self._metrics: list[Metric] = []
        self._watches: list[Callable[[], None]] = []
        self._saved: dict[Path, tuple[str, float]] = {}
        self.starting_step = _find_next_step(experiment) if self.resumed else 0
        self._step = self.starting_step
        for name, value in (("group", group), ("job_type", job_type)):
            if value:
                experiment.log_other(name, value)
        if notes:
            self.notes = notes

    # What it is

    @property
    def step(self) -> int:
        """Of the next `log` without one."""
        return self._step

    @property
    def name(self) -> str | None:
        return self.experiment.get_name()

    @name.setter
    def name(self, name: str) -> None:
        self.experiment.set_name(name)

    @property
    def notes(self) -> str | None:
        return self._notes

    @notes.setter
    def notes(self, notes: str) -> None:
        self._notes = notes
        self.experiment.log_other("notes", notes)

    @property
    def tags(self) -> tuple[str, ...]:
        return self._tags

    @tags.setter
    def tags(self, tags: Iterable[str]) -> None:
        added = [it for it in tags if it not in self._tags]
        self._tags = tuple(tags)
        if added:
            self.experiment.add_tags(added)

    @property
    def url(self) -> str | None:
        return self.experiment.url

    def get_url(self) -> str | None:
        return self.experiment.url

    @property
    def path(self) -> str:
        return "/".join(it for it in (self.entity, self.project, self.id) if it)

    @property
    def disabled(self) -> bool:
        return self.experiment.disabled

    @property
    def offline(self) -> bool:
        return not self.experiment._run.is_online

    # What is logged

    @guarded
    def log(
        self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None, sync: bool | None = None
    ) -> None:
        """
        Logs numbers as points of metrics, and everything else by its kind.

        step: without, the one after that of the last call; with `commit=False` the next call has the same. A step that has been logged
            to before may be logged to again.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"log takes a dictionary, and got a {type(data).__name__}")
        row = dict(flatten(data))
        if step is not None:
            self._step = int(step)
        at = self._step
        for axis in self._axes_missing_in(row):
            self.experiment.log_metric(axis, self.summary[axis], step=at)
        for name, value in row.items():
            number = to_number(value)
            if number is None:
                log_value(self.experiment, name, value, at)
            else:
                self.experiment.log_metric(name, number, step=at)
            self.summary.note(name, value if number is None else number)
        if (step is None and commit is not False) or commit:
            self._step += 1

    def _axes_missing_in(self, row: Mapping[str, Any]) -> list[str]:
        """Metrics over which others of this call are drawn, and that have a value from before."""
        if not self._metrics:
            return []
        axes = (
            it.step_metric
            for it in self._metrics
            if it.is_synced and it.step_metric and any(fnmatch.fnmatchcase(name, it.name) for name in row)
        )
        known = (it for it in dict.fromkeys(axes) if it not in row and it in self.summary)
        return [it for it in known if to_number(self.summary[it]) is not None]

    @guarded
    def define_metric(
        self,
        name: str,
        step_metric: Union[str, Metric, None] = None,
        step_sync: bool | None = None,
        hidden: bool | None = None,
        summary: str | None = None,
        goal: str | None = None,
        overwrite: bool | None = None,
    ) -> Metric:
        """
        Says over which metric another, or all that match a pattern, are drawn. The service keeps minimum, maximum and last value of
        each metric, whatever `summary` is.
        """
        if hidden:
            tell_absent("define_metric(hidden=True)")
        if summary is not None and not {"mean", "best"}.isdisjoint(summary.split(",")):
            tell_absent(
                f"define_metric(summary={summary!r})", "Minimum, maximum and last value are kept of each metric."
            )
        axis = step_metric.name if isinstance(step_metric, Metric) else step_metric
        metric = Metric(name, axis, step_sync is not False and axis not in _AXES)
        self._metrics.append(metric)
        if axis is not None:
            self.experiment.define_metric(name, _AXES.get(axis, axis))
        return metric

    @guarded
    def alert(
        self, title: str, text: str = "", level: str | AlertLevel | None = None, wait_duration: Any = None
    ) -> None:
        """A warning in the output, kept with the run by its title. Nobody is written to."""
        tell_absent("alert by mail or Slack", "The alert is kept with the run.")
        told = level.value if isinstance(level, AlertLevel) else str(level or "INFO")
        logger.warning("%s: %s: %s", told, title, text)
        self.experiment.log_other(f"alert {title}", f"{told}: {text}")

    @guarded
    def watch(
        self,
        models: Any,
        criterion: Any = None,
        log: str | None = "gradients",
        log_freq: int = 1_000,
        idx: int | None = None,
        log_graph: bool = False,
    ) -> None:
        for model in models if isinstance(models, (list, tuple)) else [models]:
            if log_graph:
                self.experiment.log_graph(model)
            end = None if log is None else self.experiment.watch(model, log, log_freq)  # type: ignore[arg-type]
            if end is not None:
                self._watches.append(end)

    @guarded
    def unwatch(self, models: Any = None) -> None:
        for end in self._watches:
            end()
        self._watches.clear()

    @guarded
    def save(
        self, glob_str: str | os.PathLike[str] | None = None, base_path: str | None = None, policy: str = "live"
    ) -> list[str]:
        """
        Logs files now, by `policy="end"` when the run ends, and again when it ends if they have changed since.

        glob_str: a path or a pattern of paths.
        """
        if glob_str is None:
            return []
        base = Path(base_path) if base_path else None
        found = [Path(it) for it in sorted(glob.glob(os.fspath(glob_str), recursive=True)) if Path(it).is_file()]
        for path in found:
            name = path.relative_to(base).as_posix() if base else path.name
            self._saved[path] = (name, 0.0)
        if policy != "end":
            self._log_saved()
        return [str(it) for it in found]

    def _log_saved(self) -> None:
        for path, (name, logged_at) in self._saved.items():
            changed_at = path.stat().st_mtime if path.is_file() else 0.0
            if changed_at > logged_at:
                self._saved[path] = (name, changed_at)
                self.experiment.log_asset(path, name, overwrite=True)

    @guarded
    def log_artifact(
        self,
        artifact_or_path: Union[Artifact, str, os.PathLike[str]],
        name: str | None = None,
        type: str | None = None,
        aliases: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
    ) -> Artifact:
        """Logs a version of an artifact: one that was filled, or a file or folder."""
        if isinstance(artifact_or_path, Artifact):
            artifact = artifact_or_path
        else:
            path = Path(artifact_or_path)
            artifact = Artifact(name or f"run-{self.id}-{path.name}", type or "unspecified")
            (artifact.add_dir if path.is_dir() else artifact.add_file)(path)
        if tags:
            tell_absent("log_artifact(tags=...)", "Use aliases.")
        about = {} if artifact.description is None else {"description": artifact.description}
        self.experiment.log_artifact(
            artifact.name,
            artifact.files,
            artifact_type=artifact.type,
            # The newest version has this alias anyway.
            aliases=[it for it in aliases or () if it != "latest"],
            metadata={**about, **artifact.metadata},
        )
        return artifact

    def use_artifact(
        self,
        artifact_or_name: Union[Artifact, str],
        type: str | None = None,
        aliases: Sequence[str] | None = None,
        use_as: str | None = None,
    ) -> UsedArtifact:
        """
        A version of an artifact, such as `digits:latest` or `digits:v0`, from now on an input of the run. One that this run logs is
        waited for.

        Raises NotFound, Refused and Unavailable, and UsageError in a run that is offline.
        """
        run = self.experiment._run
        if run.service is None:
            raise UsageError("use_artifact: the run is offline or disabled, and reads nothing from the service.")
        if isinstance(artifact_or_name, Artifact):
            self.log_artifact(artifact_or_name)
        self.experiment.flush()
        asked = artifact_or_name.name if isinstance(artifact_or_name, Artifact) else artifact_or_name
        return use(run.settings, asked, run.key)

    @guarded
    def log_model(
        self, path: str | os.PathLike[str], name: str | None = None, aliases: Sequence[str] | None = None
    ) -> None:
        self.experiment.log_model(name or Path(path).stem, Path(path))

    @guarded
    def log_code(self, root: str | None = ".", *given: Any, **named: Any) -> None:
        """Logs the source files below a folder."""
        self.experiment.log_code(folder=root or ".")

    # The end

    def finish(self, exit_code: int | None = None, quiet: bool | None = None) -> None:
        """Sends what is left, and ends the run: as crashed if `exit_code` is not 0."""
        if exit_code:
            self.experiment._run.note_crash(f"exit code {exit_code}")
        self._end()

    @guarded
    def _end(self) -> None:
        self._log_saved()
        self.experiment.end()
        self._on_finish(self)

    def mark_preempting(self) -> None:
        """Does nothing: a run that is preempted goes on by its key."""

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not process_end.is_good_exit(error):
            self.experiment._run.note_crash(process_end.describe(error))
        self._end()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Absent(f"run.{name}")


def _find_next_step(experiment: BaseExperiment) -> int:
    """The step after the last one of the metrics of a run that goes on; 0 where nobody can be asked."""
    run = experiment._run
    if run.service is None:
        return 0
    seconds = run.settings.init_seconds
    try:
        summary = run.service.get("/experiment/metrics/summary", {"experimentKey": run.key}, seconds)
        series = [
            {"experimentKey": run.key, "metricName": it["name"]}
            for it in summary["values"]
            if it["stepCurrent"] is not None
        ]
        last = -1
        for at in range(0, len(series), _SERIES_AT_ONCE):
            asked = {"series": series[at : at + _SERIES_AT_ONCE], "points": 1}
            answer = run.service.send("POST", "/experiments/series", json.dumps(asked).encode())
            last = max([last, *(x for it in answer["series"] for x in it.get("xTo", it["x"]))])
        return int(last) + 1
    except (Rejected, Unavailable) as error:
        run.faults.add(f"The last step of the run cannot be read, and steps begin at 0: {error}")
        return 0
