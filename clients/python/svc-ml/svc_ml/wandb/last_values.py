"""The last value of everything that was logged, and what a script puts there itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc_ml.wandb.by_attribute import ByAttribute


class Summary(ByAttribute):
    """What is set here is logged by its name, and its last value kept."""

    _name = "summary"
    _log: Callable[[str, Any], Any]

    def __init__(self, log: Callable[[str, Any], Any]) -> None:
        super().__init__()
        object.__setattr__(self, "_log", log)

    def note(self, name: str, value: Any) -> None:
        """Of what is logged elsewhere."""
        self._values[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[name] = value
        self._log(name, value)
