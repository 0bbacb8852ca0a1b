"""A mapping that is read and set by key or by attribute, as scripts written for W&B do."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from svc_ml.wandb.errors import UsageError


class ByAttribute(MutableMapping[str, Any]):
    """What is put in stays in. Subclasses say what it is called, and log what is set."""

    _name: str
    _values: dict[str, Any]

    def __init__(self) -> None:
        object.__setattr__(self, "_values", {})

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __delitem__(self, name: str) -> None:
        raise UsageError(f"{self._name}[{name!r}]: what is logged cannot be taken back.")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            known = ", ".join(self._values) or "nothing yet"
            raise AttributeError(f"{self._name} has no {name!r}: it has {known}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __repr__(self) -> str:
        return repr(self._values)
