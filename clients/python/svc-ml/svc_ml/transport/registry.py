"""A version of a registered model, made of a model of the experiment. It may be repeated: what was registered is not again."""

from __future__ import annotations

import json
from typing import Any

from svc_ml.transport.service import REGISTRY_MODEL_UNKNOWN, Rejected, Service


def register_version(service: Service, experiment_key: str, content: dict[str, Any]) -> None:
    """
    content: `experiment_model` and `model` (names), `version` (semantic, or None for the next), `comment`, `stages`, `status`,
    `description`, `is_public`.

    Raises Rejected, Unavailable.
    """
    if _is_registered(service, experiment_key, content):
        return
    body = {
        "experimentKey": experiment_key,
        "experimentModelName": content["experiment_model"],
        "registryModelName": content["model"],
        "registryModelDescription": content["description"],
        "publicModel": content["is_public"],
        "version": content["version"],
        "versionComment": content["comment"],
        "tags": content["stages"],
        "status": content["status"],
    }
    given = {name: value for name, value in body.items() if value is not None}
    service.send("POST", "/write/registry-model/item/create", json.dumps(given).encode())


def _is_registered(service: Service, experiment_key: str, content: dict[str, Any]) -> bool:
    metadata = service.get("/experiment/metadata", {"experimentKey": experiment_key})
    query = {"workspaceName": metadata["workspaceName"], "modelName": content["model"]}
    try:
        items = service.get("/registry-model/items", query)["items"]
    except Rejected as error:
        if error.code != REGISTRY_MODEL_UNKNOWN:
            raise
        return False
    source = (experiment_key, content["experiment_model"])
    return any(
        (it["experimentModel"]["experimentKey"], it["experimentModel"]["modelName"]) == source
        and content["version"] in (None, it["version"])
        for it in items
    )
