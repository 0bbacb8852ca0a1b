"""Records of a `.wandb` file: the fields of its messages that are read, by their numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from svc_ml.importers.protobuf import Message, inner, text, to_text

HISTORY, SUMMARY, CONFIG, FILES, STATS, ARTIFACT, ALERT, METRIC, OUTPUT, RUN, EXIT, ENVIRONMENT = (
    2, 3, 5, 6, 7, 8, 10, 12, 13, 17, 18, 26,
)  # fmt: skip
NAMES = {
    4: "records of output of an old kind",
    9: "folders of TensorBoard, which are imported by `svc-ml import tensorboard`",
}
"""Of records that are left out and say something of the run."""


def entries(message: Message, field: int) -> Iterator[tuple[list[str], Any]]:
    """The path and the value of each `key`, or `nested_key`, with its `value_json`."""
    for it in inner(message, field):
        path = [to_text(part) for part in it.get(2, ())] or [text(it, 1)]
        try:
            told = it[16][0]
            # As an integer it would lose its sign.
            yield path, -0.0 if told == b"-0" else json.loads(told)
        except (LookupError, ValueError):
            continue


def nest(found: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        within = found.get(part)
        if not isinstance(within, dict):
            within = found[part] = {}
        found = within
    found[path[-1]] = value
