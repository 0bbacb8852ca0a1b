"""What goes wrong in the background, as `get_logging_errors` tells it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

PACKAGE = __name__.partition(".")[0]
"""The package that this copy of the file is part of."""
logger = logging.getLogger(PACKAGE)


class SvcError(Exception):
    """Something the caller can mend; the message says how."""


def now_iso() -> str:
    return datetime.now(timezone.utc).isoformat()


def format_trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def to_fault(
    message: str, timestamp: str, data_affected: str | Sequence[str] | None, trace: str | None
) -> dict[str, Any]:
    """A fault as callers get it: what is not known is left out."""
    fault: dict[str, Any] = {"message": message, "logger_name": PACKAGE, "timestamp": timestamp}
    if data_affected:
        fault["data_affected"] = data_affected
    if trace is not None:
        fault["traceback"] = trace
    return fault
