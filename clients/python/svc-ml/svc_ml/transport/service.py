"""The calls of the service that runs are logged with, and the codes of its errors that are told apart."""

from __future__ import annotations

from svc_ml.client.service import Rejected, Unavailable
from svc_ml.client.service import Service as _Service

__all__ = [
    "ARTIFACT_UNKNOWN",
    "ARTIFACT_VERSION_EXISTS",
    "EXPERIMENT_EXISTS",
    "EXPERIMENT_UNKNOWN",
    "REGISTRY_MODEL_UNKNOWN",
    "Rejected",
    "Service",
    "Unavailable",
]

# See the table at <url>/reference.
EXPERIMENT_EXISTS = 90999
EXPERIMENT_UNKNOWN = 90211
ARTIFACT_UNKNOWN = 624522
ARTIFACT_VERSION_EXISTS = 90399
REGISTRY_MODEL_UNKNOWN = 42008


class Service(_Service):
    """Its paths are those below /api/rest/v2."""

    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key, "/api/rest/v2")
        self.takes_arrow = True
        """Whether points may be an Arrow stream: until it refuses one."""
