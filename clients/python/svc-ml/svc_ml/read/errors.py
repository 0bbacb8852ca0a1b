"""What goes wrong with a read. Unlike calls that log, reads raise."""

from __future__ import annotations

from svc_ml.fault import SvcError
from svc_ml.transport.service import EXPERIMENT_UNKNOWN, Rejected, Unavailable

__all__ = ["NotFound", "Refused", "Unavailable", "explain"]

_PROJECT_UNKNOWN = 8000007
# Workspaces, assets, artifacts and their versions.
_UNKNOWN = frozenset({EXPERIMENT_UNKNOWN, _PROJECT_UNKNOWN, 90219, 8000030, 624522, 624523})


class NotFound(SvcError):
    """There is no such thing, or this key may not see it; the message names it."""


class Refused(SvcError):
    """The API key is missing, unknown, or may not read this."""


def explain(error: Rejected, url: str) -> SvcError:
    """The error that a read raises for an answer of the service."""
    if error.status == 401:
        return Refused(
            f"{url} does not know the API key: set SVC_API_KEY, or give api_key. The first `npm start` shows one, and the "
            "page of the account makes more."
        )
    if error.status == 403:
        return Refused(str(error))
    return NotFound(str(error)) if error.code in _UNKNOWN else error
