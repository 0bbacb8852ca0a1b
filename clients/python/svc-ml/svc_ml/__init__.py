"""Logs training runs to svc without getting in their way, and reads them back."""

from svc_ml.experiment import ExistingExperiment, ExistingOfflineExperiment, Experiment, OfflineExperiment
from svc_ml.fault import SvcError
from svc_ml.read.api import Api
from svc_ml.wandb.session import init

__version__ = "0.1.0"

__all__ = [
    "Api",
    "ExistingExperiment",
    "ExistingOfflineExperiment",
    "Experiment",
    "OfflineExperiment",
    "SvcError",
    "__version__",
    "init",
]
