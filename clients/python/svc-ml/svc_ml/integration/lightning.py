"""PyTorch Lightning: a logger for `Trainer(logger=...)`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Optional

from svc_ml.integration.recorder import Recorder, flatten, guarded, is_number, missing

try:
    # The same code under two names; a trainer takes the loggers of its own only.
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        raise ImportError
    from lightning.pytorch.loggers import Logger
    from lightning.pytorch.utilities import rank_zero_only
except ImportError:
    try:
        from pytorch_lightning.loggers import Logger
        from pytorch_lightning.utilities import rank_zero_only
    except ImportError as error:
        raise missing("lightning", "lightning") from error


class SvcLogger(Logger):  # type: ignore[misc]
    """
    Metrics with the trainer's steps and epochs, hyperparameters, and checkpoints. An experiment of its own is open for `test` and
    further `fit` until the script ends, or `end()`; one whose training fails ends at once, as crashed.

    log_model: keeps each checkpoint that a `ModelCheckpoint` writes, also those it deletes again, as a model of this name.
    options: of the Experiment that it makes.
    """

    def __init__(self, experiment: Any = None, *, log_model: Optional[str] = None, **options: Any) -> None:
        super().__init__()
        self._recorder = Recorder(experiment, options)
        self._log_model = log_model
        self._saved: dict[str, float] = {}

    @property
    def experiment(self) -> Any:
        """The experiment, for whatever else is to be logged; in all processes but the first a disabled one."""
        return self._recorder.open(rank_zero_only.rank == 0)

    @property
    def name(self) -> Optional[str]:
        return "svc"

    @property
    def version(self) -> Optional[str]:
        """The key of the experiment: checkpoints are kept in a folder of this name."""
        return str(self.experiment.id) or None

    def end(self, error: Optional[BaseException] = None) -> None:
        """Ends an experiment of its own."""
        self._recorder.end(error)

    @guarded
    def log_metrics(self, metrics: dict[str, Any], step: Optional[int] = None) -> None:
        values = dict(metrics)
        # Lightning adds it to the metrics.
        epoch = values.pop("epoch", None)
        whole = None if epoch is None else int(epoch)
        for name, value in values.items():
            self.experiment.log_metric(name, value, step=step, epoch=whole)

    @guarded
    def log_hyperparams(self, params: Any = None, metrics: Optional[dict[str, Any]] = None) -> None:
        given = (
            params if isinstance(params, dict) else vars(params) if hasattr(params, "__dict__") else dict(params or {})
        )
        self.experiment.log_parameters(flatten(given))
        for name, value in (metrics or {}).items():
            if is_number(value):
                self.experiment.log_metric(name, value, step=0)

    @guarded
    def log_graph(self, model: Any, input_array: Any = None) -> None:
        self.experiment.log_graph(model)

    @guarded
    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        if self._log_model is None or rank_zero_only.rank != 0:
            return
        # Without a metric to watch the newest is the best one.
        fields = ("best_model_path", "last_model_path")
        kept = [
            *getattr(checkpoint_callback, "best_k_models", {}),
            *(getattr(checkpoint_callback, it, "") for it in fields),
        ]
        for path in map(Path, filter(None, dict.fromkeys(kept))):
            # A name may be written again; of those that stayed as they were nothing is sent twice.
            if path.is_file() and self._saved.get(str(path)) != path.stat().st_mtime:
                self._saved[str(path)] = path.stat().st_mtime
                self.experiment.log_model(self._log_model, path, path.name, overwrite=True)

    @guarded
    def finalize(self, status: str) -> None:
        if status == "failed" and self._recorder.is_open:
            self._recorder.end(sys.exc_info()[1] or RuntimeError("training has failed"))
