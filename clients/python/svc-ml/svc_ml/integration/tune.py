"""Ray Tune: a callback for `RunConfig(callbacks=[...])`. Each trial is a run. Ray Train has its own: `integration/dist.py`."""

from __future__ import annotations

from typing import Any

from svc_ml.integration.recorder import Recorder, flatten, guarded, is_number, missing

try:
    from ray.tune.logger import LoggerCallback
except ImportError as error:
    raise missing("tune", "ray[tune]") from error

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
        "training_iteration",
    ]
)
"""What Tune adds to each result."""
_OUTSIDE = dict.fromkeys(
    ("auto_output_logging", "log_env_cpu", "log_env_gpu", "log_env_disk", "log_env_network"), False
)
"""Trials run in processes of their own: what the driver prints and uses belongs to none of them."""


class SvcTuneCallback(LoggerCallback):  # type: ignore[misc]
    """
    It logs in the driver: the trials need no key. A trial's run has its configuration as parameters, every reported metric with
    the `training_iteration` as step, and ends with the trial, as crashed when that failed. A trial that is paused, or tried
    again after a failure, goes on with its run.

    options: of the Experiments that it makes.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options
        self._runs: dict[str, Recorder] = {}

    @guarded
    def log_trial_start(self, trial: Any) -> None:
        if trial.trial_id in self._runs:
            return
        run = self._runs[trial.trial_id] = Recorder(None, {"experiment_name": str(trial), **_OUTSIDE, **self._options})
        experiment = run.open(True)
        experiment.log_parameters(flatten(trial.config))
        experiment.log_other("trial", trial.trial_id)
        experiment.add_tags([str(trial.experiment_dir_name)] if getattr(trial, "experiment_dir_name", None) else [])

    @guarded
    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        run = self._runs.get(trial.trial_id)
        if run is None:
            return
        experiment = run.open(True)
        step = int(result.get("training_iteration", iteration))
        epoch = result.get("epoch")
        own = {name: value for name, value in result.items() if name not in _OF_RAY}
        for name, value in flatten(own).items():
            if is_number(value):
                experiment.log_metric(name, value, step=step, epoch=epoch if isinstance(epoch, int) else None)
            elif value is not None:
                experiment.log_other(name, value)

    @guarded
    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        run = self._runs.pop(trial.trial_id, None)
        if run is not None:
            run.end(RuntimeError(f"trial {trial.trial_id} failed, see {trial.error_file}") if failed else None)

    def __getstate__(self) -> dict[str, Any]:
        # Tune stores its callbacks; runs stay where they were opened.
        return {**self.__dict__, "_runs": {}}
