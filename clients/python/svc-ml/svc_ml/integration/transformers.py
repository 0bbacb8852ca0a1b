"""Hugging Face: a callback for `transformers.Trainer` and what is built upon it. Once imported, `report_to="svc"` finds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

from svc_ml.integration.recorder import Recorder, flatten, guarded, is_number, missing

try:
    from transformers import TrainerCallback
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK
except ImportError as error:
    raise missing("transformers", "transformers") from error

_GROUPS = ("eval", "test")


class SvcCallback(TrainerCallback):  # type: ignore[misc]
    """
    Metrics as `train/<name>`, `eval/<name>` and `test/<name>` with the trainer's steps, the arguments and the configuration of the
    model. An experiment of its own is open for `evaluate` and further training until the script ends, or `end()`.

    log_model: keeps each checkpoint as a model of this name.
    options: of the Experiment that it makes.
    """

    def __init__(self, experiment: Any = None, *, log_model: Optional[str] = None, **options: Any) -> None:
        self._recorder = Recorder(experiment, options)
        self._options = options
        self._log_model = log_model
        self._is_own = experiment is None

    def end(self, error: Optional[BaseException] = None) -> None:
        """Ends an experiment of its own."""
        self._recorder.end(error)

    @guarded
    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_more: Any) -> None:
        if state.is_hyper_param_search:
            # Each trial is a run.
            self._recorder.end()
            if self._is_own and state.trial_name:
                self._recorder = Recorder(None, {"experiment_name": state.trial_name, **self._options})
        experiment = self._open(state)
        experiment.log_parameters(flatten(args.to_sanitized_dict()))
        for part in ("config", "peft_config"):
            found = getattr(model, part, None)
            if found is not None and hasattr(found, "to_dict"):
                experiment.log_parameters(flatten(found.to_dict(), "model"))
        if state.trial_params:
            experiment.log_parameters(dict(state.trial_params))
        if isinstance(getattr(args, "run_name", None), str) and args.run_name != args.output_dir:
            experiment.set_name(args.run_name)

    @guarded
    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[dict[str, Any]] = None, **_more: Any) -> None:
        experiment = self._open(state)
        # Epochs are whole here, and parts of one in the trainer's own metric.
        epoch = None if state.epoch is None else int(state.epoch)
        for name, value in (logs or {}).items():
            group, _, rest = name.partition("_")
            whole = f"{group}/{rest}" if group in _GROUPS and rest else f"train/{name}"
            if is_number(value):
                experiment.log_metric(whole, value, step=state.global_step, epoch=epoch)
            else:
                experiment.log_other(whole, value)

    @guarded
    def on_save(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if self._log_model is not None and state.is_world_process_zero and folder.is_dir():
            # Of each checkpoint the files have names of their own, or else they would be versions of one another.
            for path in sorted(it for it in folder.rglob("*") if it.is_file()):
                name = f"{folder.name}/{path.relative_to(folder).as_posix()}"
                self._open(state).log_model(self._log_model, path, name)

    @guarded
    def on_train_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        if state.best_metric is not None:
            experiment = self._open(state)
            experiment.log_other("best_metric", state.best_metric)
            experiment.log_other("best_model_checkpoint", state.best_model_checkpoint)

    def _open(self, state: Any) -> Any:
        return self._recorder.open(bool(state.is_world_process_zero))


INTEGRATION_TO_CALLBACK["svc"] = SvcCallback
