"""LightGBM: a callback for `lightgbm.train`, `lightgbm.cv` and the classes in the style of scikit-learn."""

from __future__ import annotations

import socket
from typing import Any, Optional

from svc_ml.integration.recorder import Recorder, guarded, missing

try:
    import lightgbm
except ImportError as error:
    raise missing("lightgbm", "lightgbm") from error


class SvcCallback:
    """
    Give it to `callbacks=[...]`. Metrics are named `<data>/<metric>`, and their step is the number of the boosting round.
    Without an experiment it makes one, which ends with the last round. LightGBM does not tell a callback that it stops early:
    call `finish(booster)` after the training, or let `with Experiment()` end the run.

    log_model: keeps the trained model under this name.
    options: of the Experiment that it makes.
    """

    def __init__(self, experiment: Any = None, *, log_model: Optional[str] = None, **options: Any) -> None:
        self._recorder = Recorder(experiment, options)
        self._log_model = log_model
        self._has_booster = False
        # Before early stopping, which ends a round by an exception. LightGBM sees those of the object, not of the class.
        self.order = 20
        self.before_iteration = False

    def __call__(self, env: Any) -> None:
        self._log(env)

    @property
    def experiment(self) -> Any:
        """The experiment that it logs to."""
        return self._recorder.open()

    @guarded
    def finish(self, booster: Any) -> None:
        """Logs the best round, the importance of the features and the model; ends an experiment of its own."""
        booster = getattr(booster, "booster_", booster)
        if self._recorder.is_open:
            experiment = self._recorder.open()
            if booster.best_iteration > 0:
                # It counts rounds from 1.
                experiment.log_other("best_iteration", booster.best_iteration - 1)
            for data, metrics in booster.best_score.items():
                for name, value in metrics.items():
                    experiment.log_other(f"best {data}/{name}", float(value))
            self._log_booster(experiment, booster)
        self._recorder.end()

    @guarded
    def _log(self, env: Any) -> None:
        experiment = self._recorder.open(_is_first(env.params))
        if env.iteration == env.begin_iteration:
            self._has_booster = False
            experiment.log_parameters(env.params)
            experiment.log_parameter("num_boost_round", env.end_iteration - env.begin_iteration)
        for data, name, value, _is_higher_better, *spread in env.evaluation_result_list or ():
            experiment.log_metric(f"{data}/{name}", value, step=env.iteration, epoch=env.iteration)
            if spread:
                # Of cross-validation: the standard deviation over the folds.
                experiment.log_metric(f"{data}/{name}_std", spread[0], step=env.iteration, epoch=env.iteration)
        if env.iteration == env.end_iteration - 1:
            if isinstance(env.model, lightgbm.Booster):
                self._log_booster(experiment, env.model)
            self._recorder.end()

    def _log_booster(self, experiment: Any, booster: Any) -> None:
        if self._has_booster:
            return
        self._has_booster = True
        rows = list(zip(booster.feature_name(), booster.feature_importance("gain").tolist()))
        experiment.log_table("feature-importance.csv", rows, headers=["feature", "gain"])
        if self._log_model is not None:
            experiment.log_model(self._log_model, booster.model_to_string().encode(), "model.txt")


def _is_first(params: dict[str, Any]) -> Optional[bool]:
    """LightGBM's machines are ranked in the order of their list; each knows itself by its address and port."""
    machines, port = params.get("machines"), params.get("local_listen_port")
    if not machines or port is None:
        return None
    host, first_port = str(machines).split(",")[0].rsplit(":", 1)
    if int(first_port) != int(port):
        return False
    import psutil

    own = {it.address for addresses in psutil.net_if_addrs().values() for it in addresses}
    return socket.gethostbyname(host) in own
