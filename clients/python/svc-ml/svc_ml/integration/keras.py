"""Keras 3, on any of its backends: a callback for `fit`, `evaluate` and `predict`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Optional

from svc_ml.integration.recorder import Recorder, flatten, guarded, missing, shortest

try:
    import keras
except ImportError as error:
    raise missing("keras", "keras, and one of its backends") from error


class SvcCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """
    Metrics of each epoch by Keras' own names, with the count of trained batches as step, and the settings of the model and its
    optimizer. An experiment of its own ends with `fit`.

    every: also logs the metrics of each so many batches, as `batch/<name>`.
    log_model: keeps the trained model under this name.
    options: of the Experiment that it makes.
    """

    def __init__(
        self, experiment: Any = None, *, every: Optional[int] = None, log_model: Optional[str] = None, **options: Any
    ) -> None:
        super().__init__()
        self._recorder = Recorder(experiment, options)
        self._every = every
        self._log_model = log_model
        self._epoch = 0
        self._is_training = False

    @guarded
    def on_train_begin(self, logs: Optional[dict[str, Any]] = None) -> None:
        self._is_training = True
        experiment = self._recorder.open()
        settings = dict(self.params or {})
        if getattr(self.model, "optimizer", None) is not None:
            config = keras.saving.serialize_keras_object(self.model.optimizer)["config"]
            # Keras keeps them in 32 bits: 0.01 is not told as 0.009999999776482582.
            settings["optimizer"] = {name: shortest(it) if isinstance(it, float) else it for name, it in config.items()}
        experiment.log_parameters(flatten(settings))
        experiment.log_parameter("weights", self.model.count_params())
        experiment.log_graph(self.model.to_json())

    @guarded
    def on_epoch_begin(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None:
        self._epoch = epoch

    @guarded
    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, Any]] = None) -> None:
        if self._every and self._step() % self._every == 0:
            for name, value in (logs or {}).items():
                self._recorder.open().log_metric(f"batch/{name}", value, step=self._step(), epoch=self._epoch)

    @guarded
    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None:
        for name, value in (logs or {}).items():
            self._recorder.open().log_metric(name, value, step=self._step(), epoch=epoch)

    @guarded
    def on_test_end(self, logs: Optional[dict[str, Any]] = None) -> None:
        # Validation within `fit` comes with the epoch.
        if not self._is_training and self._recorder.is_open:
            for name, value in (logs or {}).items():
                self._recorder.open().log_metric(f"test_{name}", value, step=self._step())

    def on_train_end(self, logs: Optional[dict[str, Any]] = None) -> None:
        self._is_training = False
        self._keep_model()
        self._recorder.end()

    @guarded
    def _keep_model(self) -> None:
        if self._log_model is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.keras"
            self.model.save(path)
            self._recorder.open().log_model(self._log_model, path, path.name)

    def _step(self) -> int:
        return int(self.model.optimizer.iterations)
