"""The configuration of a run: a mapping that logs what is put into it as parameters."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from svc_ml.wandb.by_attribute import ByAttribute
from svc_ml.wandb.errors import UsageError


class Config(ByAttribute):
    """Read and set by key or attribute: `config["rate"]`, `config.rate = 0.1`."""

    _name = "config"
    _log: Callable[[dict[str, Any]], Any]

    def __init__(self, log: Callable[[dict[str, Any]], Any]) -> None:
        super().__init__()
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

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})


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
