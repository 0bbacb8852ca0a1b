"""XGBoost: a callback for `xgboost.train`, `xgboost.cv` and the classes in the style of scikit-learn."""

from __future__ import annotations

import json
from typing import Any, Optional

from svc_ml.integration.recorder import Recorder, flatten, guarded, missing

try:
    import xgboost
    from xgboost.callback import TrainingCallback
except ImportError as error:
    raise missing("xgboost", "xgboost") from error


class SvcCallback(TrainingCallback):  # type: ignore[misc]
    """
    Give it to `callbacks=[...]`. Metrics are named `<data>/<metric>`, and their step is the number of the boosting round, also
    when training goes on with a model. Without an experiment it makes one, which ends with the training.

    log_model: keeps the trained model under this name.
    options: of the Experiment that it makes.
    """

    def __init__(self, experiment: Any = None, *, log_model: Optional[str] = None, **options: Any) -> None:
        super().__init__()
        self._recorder = Recorder(experiment, options)
        self._log_model = log_model

    def before_training(self, model: Any) -> Any:
        self._start(model)
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: dict[str, Any]) -> bool:
        self._log(model, epoch, evals_log)
        return False

    def after_training(self, model: Any) -> Any:
        self._finish(model)
        self._recorder.end()
        return model

    @guarded
    def _start(self, model: Any) -> None:
        experiment = self._open()
        if isinstance(model, xgboost.Booster):
            config = json.loads(model.save_config())
            experiment.log_parameters(_settings(config["learner"]))

    @guarded
    def _log(self, model: Any, epoch: int, evals_log: dict[str, Any]) -> None:
        experiment = self._open()
        step = model.num_boosted_rounds() - 1 if isinstance(model, xgboost.Booster) else epoch
        for data, metrics in evals_log.items():
            for name, history in metrics.items():
                last = history[-1]
                if isinstance(last, tuple):
                    # Of cross-validation: mean and standard deviation over the folds.
                    experiment.log_metric(f"{data}/{name}", last[0], step=step, epoch=step)
                    experiment.log_metric(f"{data}/{name}_std", last[1], step=step, epoch=step)
                else:
                    experiment.log_metric(f"{data}/{name}", last, step=step, epoch=step)

    @guarded
    def _finish(self, model: Any) -> None:
        experiment = self._open()
        if not isinstance(model, xgboost.Booster):
            return
        best = model.attributes()
        for name in ("best_iteration", "best_score"):
            if name in best:
                experiment.log_other(name, best[name])
        importance = model.get_score(importance_type="gain")
        if importance:
            experiment.log_table("feature-importance.csv", sorted(importance.items()), headers=["feature", "gain"])
        if self._log_model is not None:
            experiment.log_model(self._log_model, bytes(model.save_raw("ubj")), "model.ubj")

    def _open(self) -> Any:
        return self._recorder.open(xgboost.collective.get_rank() == 0 if xgboost.collective.is_distributed() else None)


def _settings(learner: dict[str, Any]) -> dict[str, Any]:
    """The parameters that count, by their own names: XGBoost keeps them in groups within groups."""
    found: dict[str, Any] = {}
    for name, value in flatten(learner).items():
        parts = name.split("/")
        if isinstance(value, str) and (parts[-2].endswith("_param") or (len(parts) > 1 and parts[-1] == "name")):
            found.setdefault(parts[-1] if parts[-1] != "name" else parts[-2], value)
    return found
