"""
A version of an artifact: opened, filled with files, closed. Each step may be repeated: the number of the version is chosen
here and not by the service, and so are the ids of its files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from svc_ml.transport.service import ARTIFACT_VERSION_EXISTS, Rejected, Service

Upload = Callable[[str, dict[str, Any], dict[str, Any]], None]
"""Takes the path of the call, where the file is, and the query."""


def send_version(service: Service, experiment_key: str, content: dict[str, Any], upload: Upload) -> None:
    """
    content: `name`, `version` (semantic), `type`, `aliases`, `metadata`, and `files`, each with `file`, `name` and `asset_id`.

    Raises Rejected, Unavailable.
    """
    body = {
        "experimentKey": experiment_key,
        "artifactName": content["name"],
        "artifactType": content["type"],
        "version": content["version"],
        "alias": content["aliases"],
        "versionMetadata": json.dumps(content["metadata"]),
    }
    try:
        opened = service.send("POST", "/write/artifacts/upsert", json.dumps(body).encode())
        version_id = opened["artifactVersionId"]
    except Rejected as error:
        if error.code != ARTIFACT_VERSION_EXISTS:
            raise
        found = _find_version(service, experiment_key, content)
        # Somebody else's version of this number: ours is refused, theirs left alone.
        if found.get("experimentKey") != experiment_key:
            raise
        if found["state"] != "OPEN":
            return
        version_id = found["artifactVersionId"]
    for file in content["files"]:
        query = {
            "experimentKey": experiment_key,
            "fileName": file["name"],
            "assetId": file["asset_id"],
            "artifactVersionId": version_id,
        }
        upload("/write/experiment/upload-asset", file, query)
    state = {"experimentKey": experiment_key, "artifactVersionId": version_id, "state": "CLOSED"}
    service.send("POST", "/write/artifacts/state", json.dumps(state).encode())


def _find_version(service: Service, experiment_key: str, content: dict[str, Any]) -> dict[str, Any]:
    metadata = service.get("/experiment/metadata", {"experimentKey": experiment_key})
    return service.get(
        "/artifacts/version",
        {
            "workspace": metadata["workspaceName"],
            "artifactName": content["name"],
            "version": content["version"],
            "experimentKey": experiment_key,
        },
    )
