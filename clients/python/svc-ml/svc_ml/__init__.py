"""Logs training runs to svc without getting in their way."""

from svc_ml.experiment import ExistingExperiment, ExistingOfflineExperiment, Experiment, OfflineExperiment
from svc_ml.fault import SvcError

__version__ = "0.1.0"

__all__ = [
    "ExistingExperiment",
    "ExistingOfflineExperiment",
    "Experiment",
    "OfflineExperiment",
    "SvcError",
    "__version__",
]
