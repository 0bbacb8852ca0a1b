"""Every setting: the argument first, then the environment, then a default."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .client.setting import DEFAULT_URL, MIB, first_given, to_number, to_url

BATCH_SIZE = 1_000
BATCH_SECONDS = 2.0
"""What a process takes with it when it is killed is as short as that."""
REQUEST_SECONDS = 300.0
BATCH_SIZE_MAX = 50_000
"""More items are refused by the service."""


@dataclass(frozen=True)
class Settings:
    """How a logger works. Times are seconds, sizes bytes."""

    url: str
    api_key: str | None
    workspace_name: str | None
    model_name: str | None
    model_version: str | None
    batch_size: int
    batch_seconds: float
    request_seconds: float
    block_seconds: float
    """How long a call may wait for room in the queue while the service takes events in."""
    queue_bytes: int
    spool_directory: Path | None
    """Where events are kept until they are sent; None keeps them in memory."""
    spool_bytes: int
    patience_seconds: float
    """How long an upload of a file goes on trying while the service is away."""


def read_settings(
    api_key: str | None,
    workspace_name: str | None,
    model_name: str | None,
    model_version: str | None,
    max_batch_size: int | None,
    max_batch_time: float | None,
    tell: Callable[[str], None],
    spool_directory: str | os.PathLike[str] | None = None,
) -> Settings:
    """Reads the settings. What is wrong is told, and the default taken instead."""

    def number(given: float | None, argument: str, names: list[str], default: float, least: float) -> float:
        found = first_given([(argument, given), *((it, os.environ.get(it)) for it in names)])
        if found is None:
            return default
        name, value = found
        try:
            return to_number(value, least)
        except ValueError:
            tell(f"{name}: must be a number, {least:g} or more, not {value!r}; {default:g} is used instead")
            return default

    batch_size = int(number(max_batch_size, "max_batch_size", ["MPM_MAX_BATCH_SIZE"], BATCH_SIZE, 1))
    if batch_size > BATCH_SIZE_MAX:
        tell(f"max_batch_size: the service takes at most {BATCH_SIZE_MAX:,} events in a request; that is used instead")
        batch_size = BATCH_SIZE_MAX
    spool = spool_directory or os.environ.get("SVC_MPM_SPOOL_DIRECTORY") or None
    return Settings(
        url=_read_url(tell),
        api_key=api_key or os.environ.get("SVC_API_KEY") or None,
        workspace_name=workspace_name or os.environ.get("SVC_WORKSPACE") or None,
        model_name=model_name or os.environ.get("SVC_MPM_MODEL_NAME") or None,
        model_version=model_version or os.environ.get("SVC_MPM_MODEL_VERSION") or None,
        batch_size=batch_size,
        batch_seconds=number(max_batch_time, "max_batch_time", ["MPM_MAX_BATCH_TIME"], _shared_batch_seconds(), 0),
        request_seconds=number(None, "", ["SVC_MPM_REQUEST_SECONDS"], REQUEST_SECONDS, 0.001),
        block_seconds=number(None, "", ["SVC_MPM_BLOCK_SECONDS"], 1.0, 0),
        queue_bytes=int(number(None, "", ["SVC_MPM_QUEUE_BYTES"], 64 * MIB, 1)),
        # Absolute, or else it would be another one once the program has gone to another folder.
        spool_directory=None if spool is None else Path(spool).expanduser().absolute(),
        spool_bytes=int(number(None, "", ["SVC_MPM_SPOOL_BYTES"], 4096 * MIB, 1)),
        patience_seconds=number(None, "", ["SVC_MPM_PATIENCE_SECONDS"], 600.0, 0),
    )


def _shared_batch_seconds() -> float:
    """
    The specification names `MPM_MAX_BATCH_SIZE` for the time as well. It counts there only where it makes the time
    shorter: a batch of 5,000 events is no reason to wait for 5,000 seconds.
    """
    try:
        shared = float(os.environ.get("MPM_MAX_BATCH_SIZE") or BATCH_SECONDS)
    except ValueError:
        return BATCH_SECONDS
    return min(shared, BATCH_SECONDS) if shared >= 0 else BATCH_SECONDS


def _read_url(tell: Callable[[str], None]) -> str:
    given = os.environ.get("SVC_URL") or DEFAULT_URL
    try:
        return to_url(given)
    except ValueError:
        tell(f"SVC_URL: must be an address like {DEFAULT_URL}, not {given!r}; {DEFAULT_URL} is used instead")
        return DEFAULT_URL
