"""The last value of everything that was logged, and what a script puts there itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from svc_ml.wandb.errors import UsageError


class Summary(MutableMapping[str, Any]):
    """What is set here, by key or attribute, is logged by its name, and its last value kept."""

    _values: dict[str, Any]
    _log: Callable[[str, Any], Any]

    def __init__(self, log: Callable[[str, Any], Any]) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_log", log)

    def note(self, name: str, value: Any) -> None:
        """Of what is logged elsewhere."""
        self._values[name] = value

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[name] = value
        self._log(name, value)

    def __delitem__(self, name: str) -> None:
        raise UsageError(f"summary[{name!r}]: what is logged cannot be taken back.")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"summary has no {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __repr__(self) -> str:
        return repr(self._values)
