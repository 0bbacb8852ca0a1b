"""Logs what deployed models are asked and answer, and what turned out to be true, to svc."""

from .dataframe import LogEventsResult, RowFault
from .errors import InitializationError
from .mpm import SvcMPM

__version__ = "0.1.0"

__all__ = ["InitializationError", "LogEventsResult", "RowFault", "SvcMPM", "__version__"]
