"""The configuration of a run: a mapping that logs what is put into it as parameters."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from svc_ml.wandb.errors import UsageError


class Config(MutableMapping[str, Any]):
    """Read and set by key or attribute: `config["rate"]`, `config.rate = 0.1`."""

    _values: dict[str, Any]
    _log: Callable[[dict[str, Any]], Any]

    def __init__(self, log: Callable[[dict[str, Any]], Any]) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_log", log)

    def update(self, given: Any = (), allow_val_change: bool | None = None, /, **named: Any) -> None:  # type: ignore[override]
        """Takes a mapping, an `argparse.Namespace`, a dataclass, or the path of a JSON or YAML file."""
        values = {**to_config(given), **named}
        self._values.update(values)
        self._log(values)

    def setdefaults(self, given: Any) -> None:
        """Takes what is not there yet."""
        self.update({name: value for name, value in to_config(given).items() if name not in self._values})

    def as_dict(self) -> dict[str, Any]:
        return dict(self._values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        raise UsageError(f"config[{name!r}]: what is logged cannot be taken back.")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"config has no {name!r}: it has {', '.join(self._values) or 'nothing yet'}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __repr__(self) -> str:
        return repr(self._values)


def to_config(given: Any) -> dict[str, Any]:
    if not given:
        return {}
    if isinstance(given, Mapping):
        return {str(name): value for name, value in given.items()}
    if isinstance(given, argparse.Namespace):
        return dict(vars(given))
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return {it.name: getattr(given, it.name) for it in dataclasses.fields(given)}
    if isinstance(given, (str, Path)):
        return to_config(_read(Path(given)))
    try:
        return dict(given)
    except (TypeError, ValueError):
        raise UsageError(
            f"config is a {type(given).__name__}: expected a dictionary, a namespace, a dataclass or a file."
        ) from None


def _read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    try:
        import yaml  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise UsageError(f"config {path}: YAML needs pyyaml: pip install pyyaml.") from None
    return yaml.safe_load(text)
