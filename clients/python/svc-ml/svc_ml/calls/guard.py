"""What keeps a call from stopping a training."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from svc_ml.fault import SvcError
from svc_ml.run import Run

Call = TypeVar("Call", bound=Callable[..., Any])


class OnRun(Protocol):
    """Calls that log to a run."""

    _run: Run


def never_raises(call: Call) -> Call:
    """Makes a call one that cannot stop a training run: what goes wrong is logged and kept for `get_logging_errors`."""

    @functools.wraps(call)
    def guarded(self: OnRun, *given: Any, **named: Any) -> Any:
        run = self._run
        if run.channel is None:
            return None
        if run.channel.is_closed:
            run.tell_late(call.__name__)
            return None
        try:
            return call(self, *given, **named)
        except SvcError as error:
            run.faults.add(f"{call.__name__}: {error}", data_affected=call.__name__)
        except Exception as error:
            run.faults.add(f"{call.__name__}: {error!r}", data_affected=call.__name__, error=error)
        return None

    return cast(Call, guarded)
