"""
A version of an artifact: opened, filled with files, closed. Each step may be repeated: the ids of its files are chosen here and not
by the service, and so is the number of the version; one that the service numbers is found again by a mark in its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from svc_ml.transport.service import ARTIFACT_UNKNOWN, ARTIFACT_VERSION_EXISTS, Rejected, Service

MARK = "svc_ml.upload"
"""The entry of a version's metadata by which a version that the service numbered is known again."""

Upload = Callable[[str, dict[str, Any], dict[str, Any]], None]
"""Takes the path of the call, where the file is, and the query."""


def send_version(service: Service, experiment_key: str, content: dict[str, Any], upload: Upload) -> None:
    """
    content: `name`, `version` (semantic; None is the next one, and `mark` then tells it from others), `type`, `aliases`, `metadata`,
    and `files`, each with `file`, `name` and `asset_id`.

    Raises Rejected, Unavailable.
    """
    version_id = _open_version(service, experiment_key, content)
    if version_id is None:
        return
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


def _open_version(service: Service, experiment_key: str, content: dict[str, Any]) -> str | None:
    """The id of the version, which is open. None when an earlier try has closed it."""
    is_numbered = content["version"] is not None
    if not is_numbered:
        found = _find_marked(service, experiment_key, content)
        if found is not None:
            return found["artifactVersionId"] if found["state"] == "OPEN" else None
    metadata = content["metadata"] if is_numbered else {**content["metadata"], MARK: content["mark"]}
    body = {
        "experimentKey": experiment_key,
        "artifactName": content["name"],
        "artifactType": content["type"],
        "alias": content["aliases"],
        "versionMetadata": json.dumps(metadata),
        **({"version": content["version"]} if is_numbered else {}),
    }
    try:
        opened = service.send("POST", "/write/artifacts/upsert", json.dumps(body).encode())
        return str(opened["artifactVersionId"])
    except Rejected as error:
        if error.code != ARTIFACT_VERSION_EXISTS:
            raise
        found = _find_version(service, experiment_key, content)
        # Somebody else's version of this number: ours is refused, theirs left alone.
        if found.get("experimentKey") != experiment_key:
            raise
        return found["artifactVersionId"] if found["state"] == "OPEN" else None


def _find_marked(service: Service, experiment_key: str, content: dict[str, Any]) -> dict[str, Any] | None:
    query = {"artifactName": content["name"], "experimentKey": experiment_key}
    try:
        versions = service.get("/artifacts/get", query)["versions"]
    except Rejected as error:
        if error.code != ARTIFACT_UNKNOWN:
            raise
        return None
    return next((it for it in versions if content["mark"] in (it["metadata"] or "")), None)


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
