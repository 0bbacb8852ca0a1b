"""Which context points belong to: that of the thread or task that logs them."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import NamedTuple, Optional

from svc_ml.run import Run


class _Scope(NamedTuple):
    """A `with` of `context_manager`, within others perhaps."""

    run: Run
    context: str
    outer: Optional[_Scope]


_scope: contextvars.ContextVar[_Scope | None] = contextvars.ContextVar("svc_ml_scope", default=None)
"""Of the thread or the task that asks: what others log at the same time belongs to contexts of their own."""


def context_of(run: Run) -> str:
    scope = _scope.get()
    while scope is not None:
        if scope.run is run:
            return scope.context
        scope = scope.outer
    return run.context


@contextlib.contextmanager
def entered(run: Run, context: str) -> Iterator[None]:
    before = _scope.set(_Scope(run, context, _scope.get()))
    try:
        yield
    finally:
        _scope.reset(before)
