"""
What the integrations share: whose experiment they log to, which process of a distributed training logs, and that nothing they do
reaches the training.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any, Optional, TypeVar, cast

from svc_ml.experiment import Experiment

_logger = logging.getLogger("svc_ml")
_FLOAT32_MAX = 3.4028234663852886e38
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")

Call = TypeVar("Call", bound=Callable[..., Any])


def missing(module: str, packages: str) -> ImportError:
    """What to raise when the framework of an integration is not installed."""
    return ImportError(f"svc_ml.integration.{module} needs {packages}: pip install {packages}.")


def guarded(call: Call) -> Call:
    """Makes a method one that cannot stop a training: what goes wrong is logged, once for each kind of error."""
    told: set[type[BaseException]] = set()

    @functools.wraps(call)
    def safe(*given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except Exception as error:
            if type(error) not in told:
                told.add(type(error))
                _logger.warning("%s: not logged: %r", call.__qualname__, error)
            return None

    return cast(Call, safe)


def is_first_rank() -> bool:
    """True in the one process of a distributed training that logs, and outside of one."""
    found = next((os.environ[name] for name in _RANKS if name in os.environ), "0")
    return not found.isdigit() or int(found) == 0


class Recorder:
    """
    The experiment of an integration: the caller's, which stays open, or one of its own, which opens with the first thing logged
    and ends with the training. In all processes but the first of a distributed training a disabled one.
    """

    def __init__(self, experiment: Any = None, options: Optional[Mapping[str, Any]] = None) -> None:
        self._experiment = experiment
        self._options = dict(options or {})
        self._is_own = experiment is None
        self._lock = threading.Lock()

    def open(self, is_first: Optional[bool] = None) -> Any:
        """The experiment. `is_first` is what the framework knows of this process; None asks the environment."""
        with self._lock:
            if self._experiment is None:
                first = is_first_rank() if is_first is None else is_first
                self._experiment = Experiment(**{**self._options, **({} if first else {"disabled": True})})
            return self._experiment

    @property
    def is_open(self) -> bool:
        return self._experiment is not None

    @guarded
    def end(self, error: Optional[BaseException] = None) -> None:
        """Ends an experiment of its own, as crashed when the training ended by an error. The next `open` makes another."""
        with self._lock:
            if not self._is_own or self._experiment is None:
                return
            experiment, self._experiment = self._experiment, None
        experiment.__exit__(None if error is None else type(error), error, None)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, names joined by `/`; lists are left as they are."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        whole = f"{prefix}/{name}" if prefix else str(name)
        if isinstance(value, Mapping):
            flat.update(flatten(value, whole))
        else:
            flat[whole] = value
    return flat


def is_number(value: Any) -> bool:
    return (
        hasattr(value, "__float__") and not isinstance(value, (str, bytes, complex)) and getattr(value, "size", 1) == 1
    )


def shortest(value: float) -> float:
    """The number of the fewest digits that is this one in 32 bits; one that needs more bits stays as it is."""
    if (
        not math.isfinite(value)
        or abs(value) > _FLOAT32_MAX
        or struct.unpack("<f", struct.pack("<f", value))[0] != value
    ):
        return value
    for digits in range(6, 10):
        found = float(f"{value:.{digits}g}")
        if abs(found) <= _FLOAT32_MAX and struct.pack("<f", found) == struct.pack("<f", value):
            return found
    return value
