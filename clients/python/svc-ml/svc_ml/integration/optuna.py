"""Optuna: a callback for `study.optimize`."""

from __future__ import annotations

import threading
from typing import Any, Optional

from svc_ml.integration.recorder import Recorder, guarded, is_number, missing

try:
    from optuna.trial import TrialState
except ImportError as error:
    raise missing("optuna", "optuna") from error


class SvcCallback:
    """
    Give it to `study.optimize(..., callbacks=[...])`. The study is one run: each trial is a step, with the objective as `value`
    (or by the study's metric names), the best so far as `best_value`, and numeric parameters as `params/<name>`; what a trial
    reported on its way is in the context `trial-<number>`. The best parameters are the run's parameters. `with`
    ends an experiment of its own.

    as_runs: each trial is a run of its own, in the state in which it ended; then no experiment may be given.
    options: of the Experiment that it makes.
    """

    def __init__(self, experiment: Any = None, *, as_runs: bool = False, **options: Any) -> None:
        if as_runs and experiment is not None:
            raise ValueError("as_runs makes an experiment for each trial: leave experiment out.")
        self._options = options
        self._as_runs = as_runs
        self._recorder = Recorder(experiment, options)
        self._best: Optional[int] = None
        self._lock = threading.Lock()

    def __call__(self, study: Any, trial: Any) -> None:
        if self._as_runs:
            self._log_run(study, trial)
        else:
            self._log_step(study, trial)

    def __enter__(self) -> SvcCallback:
        return self

    def __exit__(self, _kind: Any, error: Optional[BaseException], _trace: Any) -> None:
        self.end(error)

    def end(self, error: Optional[BaseException] = None) -> None:
        """Ends an experiment of its own, as crashed if `optimize` ended by an error."""
        self._recorder.end(error)

    @guarded
    def _log_step(self, study: Any, trial: Any) -> None:
        experiment = self._recorder.open()
        step = trial.number
        for name, value in _values(study, trial).items():
            experiment.log_metric(name, value, step=step)
        for name, value in trial.params.items():
            if is_number(value) and not isinstance(value, bool):
                experiment.log_metric(f"params/{name}", value, step=step)
        with experiment.context_manager(f"trial-{step}"):
            for at, value in sorted(trial.intermediate_values.items()):
                experiment.log_metric("intermediate_value", value, step=at)
        # Trials of several threads end at the same time.
        with self._lock:
            if trial.state != TrialState.COMPLETE:
                experiment.log_other(f"trial-{step}", trial.state.name.lower())
            if len(study.directions) == 1 and trial.state == TrialState.COMPLETE:
                best = study.best_trial
                experiment.log_metric("best_value", best.value, step=step)
                if best.number != self._best:
                    self._best = best.number
                    experiment.log_parameters(best.params)
                    experiment.log_other("best_trial", best.number)
            if self._best is None:
                experiment.log_other("study", study.study_name)

    @guarded
    def _log_run(self, study: Any, trial: Any) -> None:
        named = {"experiment_name": f"{study.study_name}-{trial.number}", **self._options}
        recorder = Recorder(None, named)
        experiment = recorder.open()
        experiment.add_tags([study.study_name, trial.state.name.lower()])
        experiment.log_parameters(trial.params)
        experiment.log_others({"study": study.study_name, "trial": trial.number, **trial.user_attrs})
        for at, value in sorted(trial.intermediate_values.items()):
            experiment.log_metric("intermediate_value", value, step=at)
        for name, value in _values(study, trial).items():
            experiment.log_metric(name, value)
        failed = RuntimeError(f"trial {trial.number} failed") if trial.state == TrialState.FAIL else None
        recorder.end(failed)


def _values(study: Any, trial: Any) -> dict[str, float]:
    # Of a pruned trial the value is what it reported last, which is no value of the objective.
    if trial.state != TrialState.COMPLETE:
        return {}
    names = getattr(study, "metric_names", None) or (
        ["value"] if len(trial.values) == 1 else [f"value_{it}" for it in range(len(trial.values))]
    )
    return dict(zip(names, trial.values))
