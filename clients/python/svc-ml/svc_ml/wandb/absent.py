"""What scripts written for W&B may ask for, and this module does not do: said once each, and no script stops for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from svc_ml.fault import logger

_told: set[str] = set()


def tell_absent(what: str, instead: str = "") -> None:
    """
    what: as scripts write it, such as `wandb.restore` or `Image(masks=...)`.
    instead: a sentence on what to use.
    """
    if what not in _told:
        _told.add(what)
        logger.warning("%s is not carried over from W&B, and does nothing here.%s", what, instead and f" {instead}")


class Absent:
    """Stands for what is not there: any use of it gives the same, and to log it logs nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *given: Any, **named: Any) -> Absent:
        tell_absent(self._name)
        return self

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}")

    def __iter__(self) -> Iterator[Any]:
        tell_absent(self._name)
        return iter(())

    def __enter__(self) -> Absent:
        return self()

    def __exit__(self, *error: object) -> None:
        pass

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self._name}: not carried over from W&B>"
